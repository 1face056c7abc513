#!/bin/bash
# unused.sh: a branch that all, none or some devices leave out: who gets a gradient, what that does to the
# weights, and what DDP says of it with and without --find-unused-parameters. The numbers are PyTorch's
# (tests/golden/unused.txt; test_unused.c compares one device's).
# sanitizers: yes
. tests/tools/cases.sh

find=--find-unused-parameters
both() { json "$work/run.json" "comparisons.devices=$1.dp_equals_ddp"; }
bits() { tensor_bytes "$work/$1" "$2" | cksum; } # of a file and a key
says() { grep -qF -- "$1" "$work/err"; }

# --- DP = DDP to the last bit, whoever skips ---

for optimizer in "sgd --weight-decay=0.01" "adamw --weight-decay=0.1"; do
    for unused in never always rank0; do
        run $small --quiet --devices=2,3 --steps=20 --optimizer=${optimizer} --unused=$unused $find \
            --log-losses --json="$work/run.json"
        expect "${optimizer%% *}, $unused: done" is $status 0
        for devices in 2 3; do
            expect "${optimizer%% *}, $unused, $devices devices: DP = DDP" is "$(both $devices)" true
            expect "${optimizer%% *}, $unused, $devices devices: so are all their losses" \
                is "$(json "$work/run.json" "results.mode=dp&devices=$devices.losses")" \
                "$(json "$work/run.json" "results.mode=ddp&devices=$devices.losses")"
            expect "${optimizer%% *}, $unused, $devices devices: overlap changes nothing" \
                is "$(json "$work/run.json" "results.mode=ddp_no_overlap&devices=$devices.losses")" \
                "$(json "$work/run.json" "results.mode=ddp&devices=$devices.losses")"
        done
        [ $unused = rank0 ] || expect "${optimizer%% *}, $unused: as one device within rounding" \
            holds "difference < 1e-4" \
            difference="$(json "$work/run.json" "results.mode=ddp&devices=2.max_abs_weight_diff")"
    done
done
# buckets of one tensor each, and only one layer, whose branch begins at the images
run $small --quiet --devices=3 --steps=20 --unused=rank0 $find --bucket-mb=0 --json="$work/run.json"
expect "a bucket for every tensor: DP = DDP" is "$(both 3)" true
run --data=synthetic --samples=2000 --layers=784,10 --batch=60 --device=cpu --quiet --devices=2 --steps=20 \
    --unused=rank0 $find --json="$work/run.json"
expect "a single layer: DP = DDP" is "$(both 2)" true

# --- who is updated: with weight decay, any update changes a weight ---

# saved FILE ARGUMENTS: a run of 20 steps and its weights
saved() {
    local file=$work/$1
    shift
    run $small --quiet --steps=20 --weights-only --save="$file" --weight-decay=0.1 "$@"
    [ "$status" = 0 ] || not_ok "exit status 0: $*" "$(shown)"
}
saved new --mode=single --unused=always --lr=0
for mode in single dp ddp; do
    flag=$([ $mode = ddp ] && echo $find)
    for unused in never always rank0; do
        saved now --mode=$mode --unused=$unused $flag
        name="$mode, $unused: the branch"
        untouched=$([ $unused = always ] || [ $mode$unused = singlerank0 ] && echo yes)
        if [ "$untouched" ]; then
            expect "$name is as it was" is "$(bits now branch.weight)" "$(bits new branch.weight)"
        else
            expect "$name has learned" \
                test "$(bits now branch.weight)" != "$(bits new branch.weight)"
        fi
        expect "$mode, $unused: the rest has learned" \
            test "$(bits now 0.weight)" != "$(bits new 0.weight)"
    done
done
saved plain --mode=single --lr=0
expect "the branch comes last in the random stream" is "$(bits plain 2.bias)" "$(bits new 2.bias)"

# --- as PyTorch's DistributedDataParallel on two ranks ---

golden=tests/golden/unused.txt
read -r _ samples pixels classes <<<"$(grep '^data ' "$golden")"
mkdir "$work/set"
"${GOLDENSET:-build/tests/tools/goldenset}" "$work/set" "$samples" \
    "$(awk -v pixels="$pixels" 'BEGIN { print sqrt(pixels) }')" "$classes" || not_ok "the data set can be written"

while IFS= read -r case; do
    read -r _ unused kind seed lr momentum decay batch steps _ widths <<<"$case"
    [ "$kind" = sgd ] && momentum="--momentum=$momentum" || momentum=
    # shellcheck disable=SC2086 # no option or one
    run --mode=ddp --data="$work/set" --device=cpu --layers="${widths// /,}" --seed="$seed" \
        --optimizer="$kind" --lr="$lr" $momentum --weight-decay="$decay" --batch="$batch" --steps="$steps" \
        --warmup=0 --quiet --unused="$unused" $find --log-losses --json="$work/run.json" \
        --save="$work/run" --weights-only
    name="PyTorch: $unused, $kind"
    expect "$name: runs" is "$status" 0
    json "$work/run.json" results.mode=ddp.losses | tr -d '[] ' | tr , '\n' >"$work/losses"
    golden_numbers "$golden" "$case" losses >"$work/wanted"
    # what rounding comes to in 20 steps; a branch treated otherwise is off by a hundred times as much
    expect "$name: the losses" near "$work/losses" "$work/wanted" "$steps" 1e-4
    for key in branch.weight branch.bias; do
        tensor "$work/run" $key >"$work/numbers"
        golden_numbers "$golden" "$case" $key >"$work/wanted"
        expect "$name: $key" near "$work/numbers" "$work/wanted" "$(wc -l <"$work/wanted")" 1e-4
        expect "$name: $key is there" test "$(wc -l <"$work/wanted")" -ge 10
    done
done < <(grep '^ddp ' "$golden")

# --- without the option: the end of the same backward pass, by name and rank ---

for overlap in on off; do
    for case in "rank0:2:rank 0:" "always:2:ranks 0, 1:" "always:3:ranks 0, 1, 2:"; do
        IFS=: read -r unused devices ranks _ <<<"$case"
        begun=$(date +%s)
        run $small --quiet --mode=ddp --devices=$devices --steps=20 --unused=$unused --overlap=$overlap \
            --timeout=60
        name="overlap $overlap, $unused of $devices"
        expect "$name: fails" is $status 1
        expect "$name: says which parameters, on which ranks, in which step" \
            says "step 1: the backward pass gave no gradient for branch.weight, branch.bias on $ranks:"
        expect "$name: says what to do" says "give --find-unused-parameters, or take the layer out"
        expect "$name: says it once" is "$(grep -c 'no gradient' "$work/err")" 1
        expect "$name: nobody waited for a time-out" holds "took < 30" took=$(($(date +%s) - begun))
    done
    run $small --quiet --mode=ddp --steps=20 --unused=never --overlap=$overlap
    expect "overlap $overlap, never: nothing to complain about" is $status 0
done

# --- the price ---

run $small --quiet --mode=ddp --devices=3 --steps=20 --unused=always $find --json="$work/run.json"
# an int32 of each of 6 parameters, to and from the rank that adds them up, from two ranks
expect "the exchange is counted: bytes" \
    is "$(json "$work/run.json" results.mode=ddp.find_unused_parameters.bytes)" 96
expect "the exchange is counted: the same bytes in the traffic" \
    is "$(json "$work/run.json" results.mode=ddp.traffic.by_kind.used_map)" 96
expect "the exchange is counted: ms" \
    holds "ms > 0" ms="$(json "$work/run.json" results.mode=ddp.find_unused_parameters.ms)"
expect "the tables say so" \
    grep -qE '^find-unused-parameters: 96 bytes and [0-9.]+ ms more per step\.$' "$work/out"
run $small --quiet --mode=ddp --steps=20 --unused=never $find
expect "the tables say when it was for nothing" \
    grep -q "for nothing:" "$work/out"
run $small --quiet --mode=ddp --steps=20 --unused=never --json="$work/run.json"
expect "without it nothing is exchanged" test -z "$(json "$work/run.json" results.mode=ddp.traffic.by_kind.used_map 2>&- | grep '[0-9]')"
expect "and the tables say nothing" test "$(grep -c find-unused "$work/out")" = 0

# --- checkpoints ---

run $small --quiet --mode=ddp --epochs=2 --unused=rank0 $find --save="$work/whole"
run $small --quiet --mode=ddp --epochs=1 --unused=rank0 $find --save="$work/half"
run $small --quiet --mode=ddp --epochs=2 --resume="$work/half" $find --save="$work/both"
expect "a resumed run goes on with its branch, and who skips it, bit for bit" \
    is "$(bits both 0.weight) $(bits both branch.weight)" "$(bits whole 0.weight) $(bits whole branch.weight)"
run $small --mode=ddp --epochs=2 --resume="$work/half" --unused=never
expect "another --unused contradicts it" says "--unused contradicts $work/half, which was saved with --unused=rank0"
run $small --quiet --mode=single --epochs=1 --save="$work/clean"
run $small --mode=single --epochs=2 --resume="$work/clean" --unused=never
expect "a run without a branch gets none" says "--unused adds a branch, and the run saved in $work/clean has none"

# --- where they belong ---

refused() {
    local wanted=$1
    shift
    run "$@"
    expect "refused: $*" is "$status $(grep -cF -- "$wanted" "$work/err")" "2 1"
}
refused "--find-unused-parameters is DDP's" --mode=dp $find
refused "--find-unused-parameters is DDP's" --mode=single $find
refused "--find-unused-parameters is DDP's" --mode=ddp --describe $find
refused "--unused adds a branch to the model, and here is none" --mode=hello --unused=never
refused "--unused adds a branch to the model, and here is none" --show-sampler --unused=never
refused "never" --mode=ddp --unused=sometimes
run --describe --device=cpu --mode=ddp --layers=8,5,2 --batch=6 --unused=always
expect "described: the key" grep -qF "'module.2.bias', 'module.branch.weight', 'module.branch.bias']" "$work/out"
expect "described: the shape" grep -qE '^module.branch.weight +\(2, 5\) +10 +40$' "$work/out"
expect "described: its gradient is there first" \
    grep -qF 'bucket 0: branch.bias branch.weight 2.bias' "$work/out"

finish
