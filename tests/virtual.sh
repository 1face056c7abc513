#!/bin/bash
# virtual.sh: virtual devices: the same digits every time, also on a busy machine; a CPU's numbers to
# the last bit; thousands of ranks; profiles and workloads that are wrong.
# sanitizers: yes
cd "$(dirname "$0")/.." || exit 1
. tests/tools/cases.sh

gpus="--profile=4x-v100-nvlink $small"
gpus=${gpus/--device=cpu/}
short="--steps=10 --warmup=2"

# times FILE: everything in a JSON file that a virtual clock has told.
times() {
    grep -v '"date"\|"host"\|_seconds"\|"command"' "$1"
}

# --- clocks ------------------------------------------------------------------------------------------

# A busy machine must not show: other programs at work on every core, twice.
busy() {
    for _ in $(seq $((2 * $(nproc)))); do
        (while [ ! -e "$work/enough" ]; do :; done) &
    done
    "$@"
    touch "$work/enough"
    wait
    rm "$work/enough"
}

for how in "--mode=single" "--mode=dp --devices=4" "--mode=ddp --devices=4" \
    "--devices=2,4" "--mode=ddp --devices=4 --overlap=off --bucket-mb=0.01" \
    "--devices=4 --layers=512,512,512 --timing-only"; do
    base=$gpus
    [[ $how == *timing-only* ]] && base="--profile=4x-v100-nvlink --batch=256"
    # shellcheck disable=SC2086
    run $base $how $short --quiet --json="$work/one.json"
    # shellcheck disable=SC2086
    busy run $base $how $short --quiet --json="$work/two.json"
    times "$work/one.json" >"$work/one"
    times "$work/two.json" >"$work/two"
    expect "$how: the same digits on a busy machine" cmp "$work/one" "$work/two"
done

# An all-reduce behind another is not late: communication after backward hides nothing, however many
# there are, and a rank waits for colleagues no longer than for all of them.
# shellcheck disable=SC2086
run --profile=4x-v100-nvlink --workload=mlp-5x1000 --timing-only --mode=ladder --devices=4 $short --quiet \
    --json="$work/ladder.json"
expect "ladder: done" is "$status" 0
for rung in 1 2; do
    at=results.rung=$rung
    expect "rung $rung hides nothing" awk -v h="$(json "$work/ladder.json" $at.communication.hidden_ms)" \
        'BEGIN { exit !(h != "" && h < 1e-6) }'
    expect "rung $rung: nobody is late for long" awk \
        -v l="$(json "$work/ladder.json" $at.phases_ms.late_colleague)" \
        -v t="$(json "$work/ladder.json" $at.phases_ms.transfer)" 'BEGIN { exit !(l != "" && l < t / 5) }'
done

# --- numbers -----------------------------------------------------------------------------------------

for mode in single dp ddp; do
    devices=2
    [ $mode = single ] && devices=1
    # shellcheck disable=SC2086
    run $small --mode=$mode --devices=$devices --steps=12 --log-losses --json="$work/cpu.json" --quiet
    # shellcheck disable=SC2086
    run $gpus --mode=$mode --devices=$devices --steps=12 --log-losses --json="$work/virtual.json" --quiet
    same=yes
    for step in 0 5 11; do
        [ "$(json "$work/cpu.json" results.0.losses.$step)" = \
            "$(json "$work/virtual.json" results.0.losses.$step)" ] || same=no
    done
    expect "$mode: the losses of a CPU" is $same yes
done
# shellcheck disable=SC2086
run $gpus --devices=4 $short --json="$work/virtual.json"
expect "DP = DDP to the last bit on four virtual devices" \
    is "$(json "$work/virtual.json" comparisons.0.dp_equals_ddp)" true

# --- scale -------------------------------------------------------------------------------------------

run --profile=32x8-v100-100gbps --devices=1,8,64,512,4096 --batch=65536 --timing-only --json="$work/many.json"
expect "4,096 ranks: one stands for all" is "$status" 0
expect "4,096 ranks: DP is impossible" grep -q "^DP   4096 devices  impossible: one process" "$work/out"
expect "nothing was trained, and that is said" grep -q "nothing was" "$work/out"
expect "no loss" is "$(json "$work/many.json" results.0.loss)" null

# One that stands for all tells the times of those that are all there. Up to 16 they are; beyond, the
# slowest of so many is later: never earlier, and by no more than four times the spread.
run --profile=32x8-v100-100gbps --mode=ddp --devices=16 --batch=16384 --timing-only --quiet --json="$work/all.json"
run --profile=32x8-v100-100gbps --mode=ddp --devices=24 --batch=24576 --timing-only --quiet --json="$work/one.json"
expect "one for all: as late as they are" holds "one > 0.95 * all && one < 1.3 * all" \
    "all=$(json "$work/all.json" results.0.step_ms.median)" "one=$(json "$work/one.json" results.0.step_ms.median)"

# --- what must come out --------------------------------------------------------------------------------

run --profile=4x-v100-nvlink --devices=4 --layers=784,32,10 --batch=32 --timing-only --json="$work/tiny.json"
speedup() { # FILE MODE
    for i in 0 1 2 3 4; do
        [ "$(json "$1" results.$i.mode)" = "$2" ] && json "$1" results.$i.speedup
    done
}
expect "a tiny model gains nothing from four devices" holds "ddp < 1.1 && dp < 1" \
    "ddp=$(speedup "$work/tiny.json" ddp)" "dp=$(speedup "$work/tiny.json" dp)"
run --profile=4x-v100-nvlink --devices=4 --layers=8192,8192,8192,8192,8192 --batch=8192 --timing-only \
    --json="$work/meaty.json"
expect "a meaty one reaches 3.5 with DDP and leaves DP behind" holds "ddp > 3.4 && ddp < 4 && dp < 2.6" \
    "ddp=$(speedup "$work/meaty.json" ddp)" "dp=$(speedup "$work/meaty.json" dp)"

# A slower link makes DDP slower, and a latency does.
run --profile=4x-v100-nvlink --mode=ddp --devices=4 --timing-only --quiet --json="$work/fast.json"
run --profile=4x-v100-nvlink --mode=ddp --devices=4 --timing-only --link-gbps=1 --quiet --json="$work/slow.json"
run --profile=4x-v100-nvlink --mode=ddp --devices=4 --timing-only --latency-us=500 --quiet --json="$work/late.json"
step() { json "$work/$1.json" results.0.step_ms.median; }
expect "--link-gbps and --latency-us" holds "slow > 5 * fast && late > 2 * fast" \
    "fast=$(step fast)" "slow=$(step slow)" "late=$(step late)"

# --- what bounds it, and which buckets suit it --------------------------------------------------------------

# Each bound where there is no doubt: a large product, a slow link, an interpreter's launches.
advice() { # NAME OPTIONS...: runs it, and prints what bounds DDP
    local name=$1
    shift
    run --profile=4x-v100-nvlink --devices=4 --timing-only --json="$work/$name.json" "$@"
    json "$work/$name.json" advice.ddp.bound_by
}
expect "a meaty model is bound by computing" is \
    "$(advice computing --layers=8192,8192,8192,8192,8192 --batch=8192)" computing
expect "a slow link binds" is "$(advice links --link-gbps=1)" links
run --replay="$work/links.json"
expect "the screen says so, with the ratio" grep -q "^DP is bound by .* (compute : talk [0-9.]*), DDP by links (0" "$work/out"
without() { json "$work/$1.json" "advice.$2.without_ms.$3"; }
expect "what is left without the cost is what the step is shortened to" holds "0 < none && none < 0.1 * step" \
    "none=$(without links ddp links)" "step=$(json "$work/links.json" results.mode=ddp.step_ms.median)"
expect "the step that is judged is the one that ran" holds "0.999 * ran < judged && judged < 1.001 * ran" \
    "judged=$(json "$work/links.json" advice.ddp.step_ms)" \
    "ran=$(json "$work/links.json" results.mode=ddp.step_ms.median)"
sed 's/"interpreter_us": *[0-9.]*/"interpreter_us": 200/; s/"launch_us": *[0-9.]*/"launch_us": 300/' \
    profiles/4x-v100-nvlink.json >"$work/slow-host.json"
expect "launches bind where the host is slow" is "$(advice launches --profile="$work/slow-host.json")" launches
sed 's/"spread": *[0-9.]*/"spread": 0.9/' profiles/4x-v100-nvlink.json >"$work/uneven.json"
run --profile="$work/uneven.json" --mode=ddp --devices=4 --timing-only --layers=8192,8192,8192 --batch=8192 --json="$work/uneven-run.json"
expect "and without a spread nobody is the slowest" holds "even < 0.9 * step" \
    "even=$(json "$work/uneven-run.json" "advice.ddp.without_ms.the slowest device")" \
    "step=$(json "$work/uneven-run.json" advice.ddp.step_ms)"

# The bucket that is suggested is as good as it says, tried by hand; one that is too small is not.
run --profile=32x8-v100-100gbps --mode=ddp --devices=512 --batch=65536 --timing-only --json="$work/before.json"
best=$(json "$work/before.json" advice.ddp.best_bucket_mb)
expect "other buckets are suggested where they gain" grep -q -- "^Try --bucket-mb=$best: DDP's step would be .* % shorter" "$work/out"
run --profile=32x8-v100-100gbps --mode=ddp --devices=512 --batch=65536 --timing-only --bucket-mb="$best" --json="$work/after.json"
expect "and they do gain" holds "after < 0.99 * before" \
    "before=$(json "$work/before.json" results.0.step_ms.median)" "after=$(json "$work/after.json" results.0.step_ms.median)"
expect "with them there is nothing to suggest" grep -q "^Buckets of .* MiB suit it: no other size would gain 1 %" "$work/out"
run --replay="$work/before.json" --depth=developer
expect "depth developer: a row for each cost, and one for each size" eval \
    'grep -q "^without links  *- *[0-9]" "$work/out" && grep -q "^  *1  *[0-9.]*$" "$work/out"'
run --profile=4x-v100-nvlink --devices=4 --timing-only --slow=rank1@1 --json="$work/slowed.json"
expect "no advice on a run that was slowed on purpose" eval \
    'is "$status" 0 && ! json "$work/slowed.json" advice 2>"$work/err"'
run --profile=4x-v100-nvlink --devices=4 --batch=64 --steps=4 --json="$work/few.json"
expect "a few calculated steps are enough for a verdict" grep -q "^DDP does [0-9]* % more steps" "$work/out"

# --- several comparisons in one table --------------------------------------------------------------------

run --profile=4x-v100-nvlink --devices=1,2,4 --json="$work/series.json"
expect "a profile alone: tiny and meaty side by side" eval 'is "$status" 0 && grep -q "^tiny  *0" "$work/out" &&
    grep -q "^meaty  *[0-9]" "$work/out" && grep -q "^tiny (.*4 devices are slower than one" "$work/out" &&
    grep -q "^tiny: DP is bound by links" "$work/out" && grep -q "^meaty: .*DDP by computing" "$work/out"'
cp "$work/out" "$work/first"
run --profile=4x-v100-nvlink --devices=1,2,4
expect "the same digits again" cmp "$work/out" "$work/first"
run --replay="$work/series.json"
expect "and in a replay" cmp "$work/out" "$work/first"
run --profile=2-classroom-1gbps
expect "the meaty model fits a smaller machine; two of them are no place for DP" eval \
    'is "$status" 0 && grep -q "^meaty.* - " "$work/out" && grep -q "impossible there" "$work/out"'
run --profile=4x-v100-nvlink --link-gbps=1,400 --latency-us=1,100 --timing-only --devices=4
expect "links of several speeds: a row for each" is "$(grep -c "Gbit/s, .* us  *[0-9]" "$work/out")" 4
expect "and where they turn the result" grep -q "^On 4 devices DP is faster than DDP: " "$work/out"
refused_sweep=$("$TRAINER" --profile=4x-v100-nvlink --link-gbps=1,2 --layers=784,10 2>&1 >"$work/out")
expect "several speeds need --timing-only" grep -q "add --timing-only" <<<"$refused_sweep"

# Halted in the middle of a series that would take minutes: a sentence, and nobody is left.
timeout --preserve-status -s INT 2 "$TRAINER" --profile=4x-v100-nvlink --devices=4 --steps=1000000 \
    >"$work/out" 2>"$work/err"
status=$?
expect "a series that is interrupted says so" eval \
    'is "$status" 130 && grep -q "interrupted by signal 2 (Interrupt)" "$work/err"'

# --- measured and virtual, side by side -------------------------------------------------------------------

# shellcheck disable=SC2086
run $small --devices=2 --steps=6 --profile=4x-v100-nvlink --json="$work/beside.json"
expect "virtual times beside measured ones" grep -q "talk+wait  virtual ms" "$work/out"
run --profile=4x-v100-nvlink --devices=2 --layers=784,32,10 --batch=60 --steps=6 --timing-only --json="$work/alone.json"
expect "the same as alone" is "$(json "$work/beside.json" results.2.virtual_ms)" \
    "$(json "$work/alone.json" results.2.step_ms.median)"

# --- every profile and workload ------------------------------------------------------------------------

for file in profiles/*.json; do
    name=$(basename "$file" .json)
    run --profile="$name" --devices=2 --timing-only --steps=4
    expect "profile $name" is "$status" 0
done
for file in workloads/*.json; do
    name=$(basename "$file" .json)
    run --profile=8x-h200-nvswitch --workload="$name" --devices=1,8 --batch=64 --timing-only --steps=4
    expect "workload $name" is "$status" 0
done

# --- what is refused -----------------------------------------------------------------------------------

# refused NAME WORDS ARGUMENTS...: status 2 and one line that says so.
refused() {
    local name=$1 words=$2
    shift 2
    run "$@"
    expect "refused: $name" eval 'is "$status" 2 && is "$(wc -l <"$work/err")" 1 && grep -q -- "$words" "$work/err"'
}
refused "a profile that is not there" "no such profile, .*4x-v100-nvlink" --profile=none
refused "a workload that is not there" "no such workload, .*resnet-50" \
    --profile=4x-v100-nvlink --timing-only --workload=none
refused "a workload that would be computed" "add --timing-only" --profile=4x-v100-nvlink --workload=resnet-50
refused "--timing-only alone" "give --profile=NAME" --timing-only
refused "more devices than the server has" "has 4, and no network" --profile=4x-v100-nvlink --devices=8
refused "DP over machines" "impossible: DataParallel is one process" \
    --profile=2-classroom-1gbps --mode=dp --devices=8
refused "many ranks that would compute" "add --timing-only" --profile=32x8-v100-100gbps --devices=64
refused "real GPUs and virtual ones" "leave out --device=cuda" --profile=4x-v100-nvlink --device=cuda

# broken NAME WORDS SED: a profile with one thing changed.
broken() {
    sed "$3" profiles/4x-v100-nvlink.json >"$work/broken.json"
    refused "$1" "broken.json: $2" --profile="$work/broken.json"
}
broken "a field that nobody knows" "host.lunch_us: no such field\|host.launch_us: is missing" 's/launch_us/lunch_us/'
broken "a field too many" "devices.colour: no such field" 's/"noun"/"colour": 1, "noun"/'
broken "a missing field" "devices.per_node: is missing" 's/"per_node": 4,//'
broken "an impossible number" "devices.per_node: -4 must be a whole number of at least 1" 's/"per_node": 4/"per_node": -4/'
broken "half a device" "devices.per_node: 4.5 must be a whole number" 's/"per_node": 4/"per_node": 4.5/'
broken "a curve that goes back" "devices.products.1.: sizes must ascend" 's/\[1e7, 1.5e12\]/[1e5, 1.5e12]/'
broken "what is not JSON" "line 3 is not JSON" 's/"schema": 1,/"schema": 1/'
broken "another schema" "schema: 2 must be" 's/"schema": 1/"schema": 2/'

sed 's/"memory_gb": 16/"memory_gb": 1/' profiles/4x-v100-nvlink.json >"$work/small.json"
run --profile="$work/small.json" --mode=ddp --devices=2 --layers=8192,8192,8192 --batch=64 --timing-only
expect "a model that does not fit says how much is there" eval \
    'is "$status" 1 && grep -q "out of memory: a GPU of .* has 1 GB, and this needs more" "$work/err"'

finish
