#!/bin/bash
# faults.sh: --fail, --stop and --slow: a rank is killed, frozen or slow when it was asked for, the summary
# says so, and nothing is left behind.
# sanitizers: yes
. tests/tools/cases.sh
set -m # every job is a process group of its own
ulimit -c 0

last_line() {
    tail -n 1 "$work/err" | grep -Eqx -- "$1" && [ ! -s "$work/out" ] && return
    tail -n 1 "$work/err" | sed 's/^/    last line: /'
    return 1
}
says() { grep -qF -- "$1" "$work/$2"; }
# all_gone GROUP: no process of it is left, but for those that wait for their parent's attention.
all_gone() {
    for _ in $(seq 100); do
        cat /proc/[0-9]*/stat 2>/dev/null |
            awk -v group="$1" '{ sub(/.*\) /, "") } $3 == group && $1 !~ /[ZX]/ { found = 1 } END { exit !found }' ||
            return 0
        sleep 0.05
    done
    return 1
}
# failed NAME LAST_LINE ARGUMENTS: ends with status 1 and this line, and no process survives.
failed() {
    local name=$1 line=$2 group
    shift 2
    "$TRAINER" $small --epochs=30 "$@" >"$work/out" 2>"$work/err" &
    group=$!
    wait $group 2>/dev/null
    status=$?
    expect "$name: exit status 1" is "$status" 1
    expect "$name: the last line" last_line "trainer: FAILED: $line"
    expect "$name: no process is left" all_gone $group
}
killed='\(pid [0-9]+\) was killed by signal 9 \(Killed\) in step'
asked="this was asked for with"

# --- kill ---

failed "rank 2 killed" "DDP, 3 devices: rank 2 $killed 100, phase backward; its last collective: [a-z_]+ #[0-9]+; \
$asked --fail=rank2@100" --mode=ddp --devices=3 --fail=rank2@100
failed "rank 0 killed in the first step" "DDP, 2 devices: rank 0 $killed 1, phase backward; .*; \
$asked --fail=kill=boss@1" --mode=ddp --fail=kill=boss@1
failed "without overlap" "DDP without overlap, 2 devices: rank 1 $killed 40, phase backward; .*; \
$asked --fail=rank1@40" --mode=ddp --overlap=off --fail=rank1@40
failed "with micro-batches" "DDP, 2 devices: rank 1 $killed 40, phase backward; .*; \
$asked --fail=rank1@40" --mode=ddp --accumulate=3 --fail=rank1@40
failed "the boss killed" "DP, 3 devices: the boss $killed 7, phase backward; $asked --fail=boss@7" \
    --mode=dp --devices=3 --fail=boss@7
for name in replica rank device; do
    failed "$name 2 of DP killed" "DP, 3 devices: the boss $killed 100, phase backward; $asked --fail=${name}2@100: \
replica 2 is a thread, and a kill ends the whole process" --mode=dp --devices=3 --fail=${name}2@100
done
failed "one device killed" "one device: the process $killed 9, phase backward; $asked --fail=rank0@9" \
    --mode=single --fail=rank0@9

# the step is counted as in all messages, in a resumed run too
run $small --mode=ddp --quiet --epochs=2 --save="$work/half"
"$TRAINER" --device=cpu --mode=ddp --epochs=4 --resume="$work/half" --fail=rank1@100 >"$work/out" 2>"$work/err"
status=$?
expect "resumed: fails" is "$status" 1
expect "resumed: in step 100 of all" last_line "trainer: FAILED: .* rank 1 $killed 100, phase backward; .*"
run --device=cpu --mode=ddp --epochs=4 --resume="$work/half" --fail=rank1@60
expect "resumed: a step that is done already: refused" is "$status" 2
expect "resumed: and why" says "--fail=rank1@60: this command takes steps 69 to 136" err

# a failure before it is not blamed on it
failed "an earlier failure" "DDP, 2 devices: rank [01] \(pid [0-9]+\) exited with status 1 in step 1, phase [a-z_]+; \
its last collective: [a-z_]+ #[0-9]+" --mode=ddp --unused=rank0 --fail=rank1@100

# --- stop ---

for option in --fail=stop=rank1@100 --stop=rank1@100; do
    failed "$option" "DDP, 3 devices: rank [02] \(pid [0-9]+\) exited with status 1 in step 100, phase transfer; \
its last collective: all_reduce #[0-9]+; rank 1 was frozen in step 100, as asked for with $option" \
        --mode=ddp --devices=3 --timeout=1 $option
    for rank in 0 2; do
        expect "$option: rank $rank says who is missing" grep -Eq \
            "^trainer: rank $rank: all_reduce #[0-9]+ waited 1 s for rank 1, which did not arrive" "$work/err"
    done
done

# --- slow ---

# Who is slow changes no number. How much time it takes is not asserted here (test_faults.c does that).
job="$small --quiet --steps=30 --log-losses"
for mode in "dp --devices=3" "ddp --devices=3" "ddp --devices=2 --overlap=off" "dp --devices=2 --accumulate=3"; do
    run $job --mode=${mode} --json="$work/normal.json"
    run $job --mode=${mode} --slow=rank1@3 --json="$work/slow.json"
    expect "slow, $mode: done" is "$status" 0
    expect "slow, $mode: the same losses" is "$(json "$work/slow.json" results.0.losses)" \
        "$(json "$work/normal.json" results.0.losses)"
    expect "slow, $mode: said" says "Asked for: rank 1 computes at half speed from step 3 on (--slow)." out
done
expect "JSON: the fault" is "$(json "$work/slow.json" config.fault.kind) \
$(json "$work/slow.json" config.fault.rank) $(json "$work/slow.json" config.fault.step)" "slow 1 3"
expect "JSON: no fault" is "$(json "$work/normal.json" config.fault)" null
for rank in boss replica1 rank1; do
    run $small --quiet --steps=30 --mode=dp --fail=slow=$rank@35
    expect "slow $rank in the last step: done" is "$status" 0
done
run $small --quiet --steps=20 --devices=1,3 --slow=device2@2 --json="$work/run.json"
expect "compare: done" is "$status" 0
expect "compare: says who is slow" says "Asked for: rank 2 of DP and DDP computes at half speed from step 2 on" out
expect "compare: DP = DDP" is "$(json "$work/run.json" comparisons.devices=3.dp_equals_ddp)" true

# --- refused ---

refused() { # NAME SENTENCE ARGUMENTS
    local name=$1 sentence=$2
    shift 2
    run $small --steps=20 "$@"
    expect "refused: $name" is "$status" 2
    expect "refused: $name: why" says "$sentence" err
    expect "refused: $name: in one line" is "$(wc -l <"$work/err")" 1
}
for text in rank rank2 rank2@ @5 2@5 rank2@x rank2@-1 rank-1@5 rank2@5x rank2@5.5 boss1@3 "slow=" slow=stop=rank1@2 rank99999999999@1; do
    refused "--fail=$text" "--fail=$text: give a rank and a step, such as --fail=rank2@100, which kills it" \
        --mode=ddp "--fail=$text"
done
refused "--stop and a kind" "--stop=slow=rank1@2: give a rank and a step, such as --stop=rank2@100" \
    --mode=ddp --stop=slow=rank1@2
refused "step 0" "steps count from 1" --mode=ddp --fail=rank1@0
refused "no such rank" "--fail=rank3@5: --devices=3 are rank0 to rank2" --mode=ddp --devices=3 --fail=rank3@5
refused "no such device" "--slow=device2@5: --devices=2 are rank0 to rank1" --mode=dp --slow=device2@5
refused "one device" "one device alone is rank0" --mode=single --fail=rank1@5
refused "beyond the end" "--fail=rank1@26: this command takes steps 1 to 25: give one of them" \
    --mode=ddp --fail=rank1@26
refused "kill in a comparison" "would end the whole comparison: give --mode=ddp or dp" --fail=rank1@5
refused "stop in a comparison" "would end the whole comparison: give --mode=ddp (" --stop=rank1@5
for mode in dp single "ddp --devices=1"; do
    refused "stop, $mode" "would freeze the whole process" --mode=${mode} --stop=rank0@5
done
refused "two of them" "--slow=rank0@4: there is --stop=rank1@5 already" --mode=ddp --stop=rank1@5 --slow=rank0@4
for mode in hello bench ladder; do
    run --mode=$mode --slow=rank1@5
    expect "refused: $mode" says "--slow=rank1@5 strikes in the middle of a training: give --mode=ddp or dp" err
done

finish
