#!/bin/bash
# uneven.sh: a rank with fewer batches than the others: an error before the first step, PyTorch's join, or
# the mistake, which ends in a time-out that names it. Join's numbers are PyTorch's (tests/golden/join.txt).
# sanitizers: yes
. tests/tools/cases.sh

says() { grep -qF -- "$1" "$work/err"; }
# nobody_left: no process of the last run is there; a run is told apart by its seed
nobody_left() {
    local left
    left=$(pgrep -f -- "--seed=$seed" | grep -v "^$$\$")
    [ -z "$left" ] || ps -o pid,args -p "$left"
    [ -z "$left" ]
}
seed=$$ # of all runs: nothing else has it

# ten batches of 60 in an epoch
ten="--mode=ddp --data=synthetic --samples=600 --layers=784,32,10 --batch=60 --device=cpu --quiet --seed=$seed"

# --- agreed upon before the first step ---

for devices in 2 3; do
    run $ten --devices=$devices --epochs=1 --uneven=3 --json="$work/run.json"
    last=$((devices - 1))
    expect "error, $devices ranks: exit status 1" is $status 1
    expect "error, $devices ranks: names the rank and both counts" \
        says "rank $last has 7 batches per epoch, rank 0 has 10: after step 7 the others would wait"
    expect "error, $devices ranks: says what to do" says "--on-uneven=join"
    expect "error, $devices ranks: before the first step" says "exited with status 1 before the first step"
    expect "error, $devices ranks: says it once" is "$(grep -c 'batches per epoch' "$work/err")" 1
    expect "error, $devices ranks: no results" test ! -e "$work/run.json"
    expect "error, $devices ranks: nothing is left behind" nobody_left
done
run $ten --epochs=1 --uneven=3 --on-uneven=error
expect "error is the default" is $status 1

# --- the mistake ---

for case in "2 on" "2 off" "3 on"; do
    read -r devices overlap <<<"$case"
    last=$((devices - 1))
    begun=$(date +%s)
    run $ten --devices=$devices --overlap=$overlap --epochs=2 --uneven=3 --on-uneven=hang --timeout=1
    name="hang, $devices ranks, overlap $overlap"
    expect "$name: exit status 1" is $status 1
    expect "$name: who waited for whom" says "waited 1 s for rank $last, which did not arrive"
    expect "$name: why" says "rank $last ran out of batches after step 7 of 10"
    expect "$name: in the step after it" says "exited with status 1 in step 8"
    expect "$name: by the time-out" holds "took < 20" took=$(($(date +%s) - begun))
    expect "$name: nothing is left behind" nobody_left
done

# --- join ---

for options in "--optimizer=adamw" "--optimizer=sgd --overlap=off" "--optimizer=sgd --bucket-mb=0" \
    "--unused=rank0 --find-unused-parameters" "--unused=always --find-unused-parameters"; do
    for devices in 2 3; do
        # after every epoch the ranks compare their weights, all bits
        run $ten --devices=$devices --epochs=3 --uneven=3 --on-uneven=join $options --json="$work/run.json"
        expect "join, $devices ranks, $options: done, and the replicas are equal" is $status 0
        expect "join, $devices ranks, $options: learns" holds "last < first - 0.02" \
            first="$(json "$work/run.json" "results.devices=$devices.epochs.0.loss")" \
            last="$(json "$work/run.json" "results.devices=$devices.epochs.2.loss")"
        expect "join, $devices ranks, $options: nothing is left behind" nobody_left
    done
done
expect "the tables say so" \
    is "$(tr '\n' ' ' <"$work/out" | grep -o 'Uneven: rank 2 has no batch in the last 3 of 10 steps')" \
    "Uneven: rank 2 has no batch in the last 3 of 10 steps"

# Join without a difference is no join: the same bits as ever in the steps that all ranks make.
run $ten --epochs=1 --log-losses --json="$work/even.json"
run $ten --epochs=1 --log-losses --json="$work/join.json" --uneven=3 --on-uneven=join
seven() { json "$1" results.mode=ddp.losses | tr -d '[] ' | cut -d, -f1-7; }
expect "seven steps as if nothing were to come" is "$(seven "$work/join.json")" "$(seven "$work/even.json")"
expect "and then another training" test "$(json "$work/join.json" results.mode=ddp.losses)" != \
    "$(json "$work/even.json" results.mode=ddp.losses)"

# --- as PyTorch's join on two ranks ---

golden=tests/golden/join.txt
read -r _ samples pixels classes <<<"$(grep '^data ' "$golden")"
mkdir "$work/set"
"${GOLDENSET:-build/tests/tools/goldenset}" "$work/set" "$samples" \
    "$(awk -v pixels="$pixels" 'BEGIN { print sqrt(pixels) }')" "$classes" || not_ok "the data set can be written"

while IFS= read -r case; do
    read -r _ uneven epochs unused kind seed_of lr momentum decay batch steps _ widths <<<"$case"
    [ "$kind" = sgd ] && momentum="--momentum=$momentum" || momentum=
    branch= keys="2.weight 2.bias"
    [ "$unused" = none ] || branch="--unused=$unused --find-unused-parameters" keys="branch.weight branch.bias"
    # shellcheck disable=SC2086 # options, or none
    run --mode=ddp --data="$work/set" --device=cpu --layers="${widths// /,}" --seed="$seed_of" \
        --optimizer="$kind" --lr="$lr" $momentum --weight-decay="$decay" --batch="$batch" \
        --epochs="$epochs" --quiet --uneven="$uneven" --on-uneven=join $branch --log-losses \
        --json="$work/run.json" --save="$work/run" --weights-only
    name="PyTorch: $kind $momentum, $uneven fewer, $epochs epochs $branch"
    expect "$name: runs" is "$status" 0
    json "$work/run.json" results.mode=ddp.losses | tr -d '[] ' | tr , '\n' >"$work/losses"
    golden_numbers "$golden" "$case" losses >"$work/wanted"
    # what rounding comes to; a rank that counts otherwise is off by a hundred times as much
    expect "$name: the losses" near "$work/losses" "$work/wanted" "$steps" 1e-4
    for key in $keys; do
        tensor "$work/run" $key >"$work/numbers"
        golden_numbers "$golden" "$case" $key >"$work/wanted"
        expect "$name: $key" near "$work/numbers" "$work/wanted" "$(wc -l <"$work/wanted")" 1e-4
        expect "$name: $key is there" test "$(wc -l <"$work/wanted")" -ge 10
    done
done < <(grep '^join ' "$golden")

# --- where they belong ---

refused() {
    local wanted=$1
    shift
    run --device=cpu "$@"
    expect "refused: $*" is "$status $(grep -cF -- "$wanted" "$work/err")" "2 1"
}
refused "--uneven is about DDP's ranks" --mode=dp --uneven=1
refused "--uneven is about DDP's ranks" --mode=single --uneven=1
refused "--uneven is about DDP's ranks" --uneven=1
refused "--uneven is about DDP's ranks" --mode=ddp --describe --uneven=1
refused "give --devices=2 or more" --mode=ddp --devices=1 --uneven=1
refused "--on-uneven says what to do about --uneven=N" --mode=ddp --on-uneven=join
refused "join" --mode=ddp --uneven=1 --on-uneven=wait
refused "must keep one at least" --mode=ddp --data=synthetic --samples=600 --batch=60 --uneven=10
refused "would run out after step 9 of 10, and this run ends after 9" \
    --mode=ddp --data=synthetic --samples=600 --batch=60 --uneven=1 --steps=4

finish
