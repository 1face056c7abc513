#!/bin/bash
# accumulate.sh: --accumulate=N: the same training as with whole batches within rounding, in every mode;
# DDP's gradients travel once per update and DP's in each micro-batch; less memory; and PyTorch's numbers
# (tests/golden/accumulate.txt).
# sanitizers: yes
. tests/tools/cases.sh

says() { grep -qF -- "$1" "$work/$2"; }
refused() { # NAME SENTENCE ARGUMENTS
    local name=$1 sentence=$2
    shift 2
    run "$@"
    expect "refused: $name" is "$status" 2
    expect "refused: $name: why" says "$sentence" err
}
losses() { json "$work/$1.json" "results.0.losses" | tr -d '[] ' | tr , '\n'; }
of() { json "$work/$1.json" "results.0.$2"; }

# trained FILE ARGUMENTS: a run of 30 steps: its JSON, its weights and its losses, one a line
trained() {
    local file=$1
    shift
    run $small --quiet --steps=30 --warmup=0 --log-losses --json="$work/$file.json" --save="$work/$file" \
        --weights-only "$@"
    [ "$status" = 0 ] || not_ok "exit status 0: $*" "$(shown)"
    losses "$file" >"$work/$file.losses"
    tensor "$work/$file" 0.weight >"$work/$file.weights"
}

# --- the same as the whole batch, in every mode ---

# 60 images in 2, 7 (uneven) and 12 micro-batches; the last batch of an epoch of 2000 images has 20, so that
# some micro-batches are then empty, and some devices get nothing in others
for mode in "single" "dp --devices=2" "dp --devices=3" "ddp --devices=2" "ddp --devices=3" \
    "ddp --devices=3 --overlap=off" "ddp --devices=4 --bucket-mb=0"; do
    trained whole --mode=${mode}
    for accumulate in 1 2 7 12; do
        trained parts --mode=${mode} --accumulate=$accumulate
        name="$mode, $accumulate micro-batches"
        expect "$name: the losses of the whole batch" near "$work/parts.losses" "$work/whole.losses" 30 1e-5
        expect "$name: its weights" \
            near "$work/parts.weights" "$work/whole.weights" "$(wc -l <"$work/whole.weights")" 1e-4
        expect "$name: config.accumulate" is "$(json "$work/parts.json" config.accumulate)" $accumulate
        expect "$name: the same images are tested" holds "(a - b) ^ 2 < 1e-4" \
            a="$(of parts accuracy)" b="$(of whole accuracy)"
        if [ $accumulate = 1 ]; then
            expect "$name: to the last bit" cmp -s "$work/parts.weights" "$work/whole.weights"
        fi
        case $mode in
        single)
            expect "$name: nothing travels" is "$(of parts traffic.total)" 0
            ;;
        ddp*)
            expect "$name: as many bytes as with the whole batch" \
                is "$(of parts traffic.by_kind.parameter_gradients)" "$(of whole traffic.by_kind.parameter_gradients)"
            expect "$name: as many all-reduces" \
                is "$(of parts communication.all_reduces)" "$(of whole communication.all_reduces)"
            ;;
        dp*)
            for kind in model parameter_gradients; do
                expect "$name: the $kind travels in each" holds "a == n * b" n=$accumulate \
                    a="$(of parts traffic.by_kind.$kind)" b="$(of whole traffic.by_kind.$kind)"
            done
            expect "$name: inputs as before" \
                is "$(of parts traffic.by_kind.inputs)" "$(of whole traffic.by_kind.inputs)"
            ;;
        esac
    done
done

# an update is made once: with weight decay and momentum, more would be seen
for mode in single "dp --devices=2" "ddp --devices=2"; do
    sgd="--optimizer=sgd --momentum=0.9 --weight-decay=0.1"
    trained whole --mode=${mode} $sgd
    trained parts --mode=${mode} $sgd --accumulate=5
    expect "sgd, $mode: the losses of the whole batch" near "$work/parts.losses" "$work/whole.losses" 30 1e-4
done

# a branch that some devices leave out, and a rank that runs out of batches
for more in "dp --unused=rank0" "dp --unused=always --optimizer=sgd" "ddp --unused=rank0 --find-unused-parameters" \
    "ddp --unused=always --find-unused-parameters --overlap=off" "ddp --uneven=5 --on-uneven=join"; do
    trained whole --mode=${more} --devices=3
    trained parts --mode=${more} --devices=3 --accumulate=4
    expect "$more: the losses of the whole batch" near "$work/parts.losses" "$work/whole.losses" 30 1e-4
    if [[ $more = *unused* ]]; then
        for file in whole parts; do tensor "$work/$file" branch.weight >"$work/$file.branch"; done
        expect "$more: the branch" near "$work/parts.branch" "$work/whole.branch" 320 1e-4
    fi
done
run $small --quiet --mode=ddp --devices=2 --steps=5 --accumulate=3 --unused=rank0
expect "a branch left out is still an error at the end of the first step" is "$status" 1
expect "and says which step" says "step 1: the backward pass gave no gradient for branch.weight" err

# --- a saved run goes on bit for bit ---

epochs="--mode=ddp --devices=2 --accumulate=3 --quiet"
run $small $epochs --epochs=4 --save="$work/straight"
run $small $epochs --epochs=2 --save="$work/half"
run --device=cpu $epochs --epochs=4 --resume="$work/half" --save="$work/resumed"
expect "resumed: done" is "$status" 0
expect "resumed: the same weights to the last bit" cmp -s "$work/straight" "$work/resumed"

# --- memory: room for one micro-batch's activations ---

wide="--data=synthetic --samples=2000 --layers=784,300,300,10 --batch=240 --device=cpu --steps=3 --quiet"
for mode in single "dp --devices=2" "ddp --devices=2"; do
    before=
    for accumulate in 1 4 20; do
        run $wide --mode=${mode} --accumulate=$accumulate --json="$work/run.json"
        now=$(of run memory.0.peak_bytes)
        [ "$before" ] && expect "$mode, $accumulate micro-batches: device 0's peak falls" holds "a < b" a="$now" b="$before"
        before=$now
        [ "$mode" = single ] && eval "peak$accumulate=$now"
    done
done
# inputs, two hidden layers with their gradients' buffers, logits and theirs, in float; bytes and labels
per_image="4 * (784 + 2 * 300 + 2 * 300 + 2 * 10) + 784 + 1"
# shellcheck disable=SC2154 # set by eval
expect "one device: by all but a micro-batch's activations" holds "a - b == 228 * ($per_image)" \
    a="$peak1" b="$peak20"

# --- compare ---

run $small --quiet --steps=20 --devices=2,3 --accumulate=4 --json="$work/run.json"
expect "compare: done" is "$status" 0
lines=$(wc -l <"$work/out")
expect "compare: one screen of 80 columns" holds "lines <= 25 && widest <= 80" lines="$lines" \
    widest="$(awk '{ if (length > most) most = length } END { print most + 0 }' "$work/out")"
tr '\n' ' ' <"$work/out" | tr -s ' ' >"$work/joined"
expect "compare: says what no_sync saves, and what DP sends" says \
    "4 micro-batches: DDP's gradients travel in the last one only (407.2 kB instead of 4 x 407.2 kB), \
DP's model and gradients in each (1.6 MB)." joined
expect "compare: DP and DDP add up in another order" says "Same weights? DP and DDP within " joined
for devices in 2 3; do
    comparison="comparisons.devices=$devices"
    expect "compare, $devices devices: no claim of equal bits" is "$(json "$work/run.json" $comparison.dp_equals_ddp)" null
    expect "compare, $devices devices: but equal within rounding" holds "d < 1e-5" \
        d="$(json "$work/run.json" $comparison.dp_ddp_max_abs_weight_diff)"
    for mode in dp ddp ddp_no_overlap; do
        expect "compare, $mode, $devices devices: as one device within rounding" holds "d < 1e-5" \
            d="$(json "$work/run.json" "results.mode=$mode&devices=$devices.max_abs_weight_diff")"
    done
done
ddp="results.mode=ddp&devices=3.traffic"
accumulation=$ddp.accumulation
sent=$(json "$work/run.json" "$ddp.by_kind.parameter_gradients")
expect "JSON, DDP: one exchange per update" is "$(json "$work/run.json" $accumulation.gradient_exchanges)" 1
expect "JSON, DDP: its bytes" is "$(json "$work/run.json" $accumulation.gradient_bytes)" "$sent"
expect "JSON, DDP: three more were saved" holds "a == 3 * b" b="$sent" \
    a="$(json "$work/run.json" $accumulation.saved_bytes)"
accumulation="results.mode=dp&devices=3.traffic.accumulation"
expect "JSON, DP: four exchanges" is "$(json "$work/run.json" $accumulation.gradient_exchanges)" 4
expect "JSON, DP: nothing was saved" is "$(json "$work/run.json" $accumulation.saved_bytes)" 0
cp "$work/out" "$work/live"
run --replay="$work/run.json"
expect "replay prints the same" cmp -s "$work/live" "$work/out"
run --replay="$work/run.json" --depth=researcher
expect "researcher: A is in DP's formulas" says "2A(N-1)P+X+2Y" out
expect "researcher: which are right" test -z "$(grep '^D.* ! ' "$work/out")"
expect "researcher: and not in DDP's" says "A is not in its formulas." out

# --- the timeline has every micro-batch ---

for mode in dp ddp; do
    run $small --quiet --steps=20 --devices=2 --mode=$mode --accumulate=3 --json="$work/run.json"
    for lane in 0 1; do
        name=$(case $mode$lane in dp0) echo boss ;; dp1) echo device 1 ;; *) echo rank $lane ;; esac)
        tr -d '\n\t ' <"$work/run.json" | tr '{' '\n' | grep "\"lane\":\"${name// /}\"" |
            sed 's/.*"phase":"\([a-z_]*\)","start_ms":\([^,]*\),"end_ms":\([^}]*\)}.*/\1 \2 \3/' |
            sort -k2,2g >"$work/spans"
        for phase in forward backward; do
            expect "$mode, $name: three times $phase" is "$(grep -c "^$phase " "$work/spans")" 3
        done
        expect "$mode, $name: one after the other" \
            awk '$2 < end - 1e-4 || $3 < $2 { bad = 1 } { end = $3 } END { exit bad || NR < 6 }' "$work/spans"
    done
done
run $small --quiet --steps=20 --devices=2 --mode=ddp --accumulate=3
expect "ddp: the line" says "3 micro-batches per update, gradients travel in the last one only: 203.6 kB per" out
run $small --quiet --steps=20 --devices=2 --mode=dp --accumulate=3
expect "dp: the line" says "3 micro-batches per update, model and gradients travel in each: 610.8 kB per" out
run $small --quiet --steps=20 --mode=single --accumulate=3
expect "single: in the title" says "One device, 60 images per step in 3 micro-batches" out
run $small --quiet --steps=5 --mode=ddp
expect "without it, no line" test -z "$(grep micro-batch "$work/out")"

# --- as PyTorch's DistributedDataParallel with no_sync ---

golden=tests/golden/accumulate.txt
read -r _ samples pixels classes <<<"$(grep '^data ' "$golden")"
mkdir "$work/set"
"${GOLDENSET:-build/tests/tools/goldenset}" "$work/set" "$samples" \
    "$(awk -v pixels="$pixels" 'BEGIN { print sqrt(pixels) }')" "$classes" || not_ok "the data set can be written"
while IFS= read -r case; do
    read -r _ accumulate kind seed lr momentum decay batch steps _ widths <<<"$case"
    [ "$kind" = sgd ] && momentum="--momentum=$momentum" || momentum=
    for mode in single dp ddp; do
        devices=$([ $mode = single ] || echo --devices=2)
        # shellcheck disable=SC2086 # no option or one
        run --mode=$mode $devices --data="$work/set" --device=cpu --layers="${widths// /,}" --seed="$seed" \
            --optimizer="$kind" --lr="$lr" $momentum --weight-decay="$decay" --batch="$batch" --steps="$steps" \
            --warmup=0 --quiet --accumulate="$accumulate" --log-losses --json="$work/run.json" \
            --save="$work/run" --weights-only
        name="PyTorch: $mode, $accumulate micro-batches, $kind"
        expect "$name: runs" is "$status" 0
        losses run >"$work/losses"
        golden_numbers "$golden" "$case" losses >"$work/wanted"
        expect "$name: the losses" near "$work/losses" "$work/wanted" "$steps" 1e-4
        for key in 2.weight 2.bias; do
            tensor "$work/run" $key >"$work/numbers"
            golden_numbers "$golden" "$case" $key >"$work/wanted"
            expect "$name: $key" near "$work/numbers" "$work/wanted" "$(wc -l <"$work/wanted")" 1e-4
            expect "$name: $key is there" test "$(wc -l <"$work/wanted")" -ge 10
        done
    done
    exchanges=$(golden_numbers "$golden" "$case" exchanges)
    expect "$accumulate micro-batches: PyTorch exchanges as often in $steps steps" \
        is "$((steps * $(of run communication.all_reduces)))" "$exchanges"
    expect "$accumulate micro-batches: and without no_sync so many times as often" \
        is "$((exchanges * accumulate))" "$(golden_numbers "$golden" "$case" without)"
done < <(grep '^ddp ' "$golden")

# --- refused ---

refused "more micro-batches than images" \
    "--accumulate=21: of --batch=60 a device gets only 20 images: give at most that many micro-batches" \
    $small --mode=ddp --devices=3 --accumulate=21
refused "the smallest share counts" "a device gets only 15 images" $small --devices=2,4 --accumulate=16
for accumulate in 0 -1 two 1.5; do
    refused "--accumulate=$accumulate" "--accumulate=$accumulate" $small --mode=ddp --accumulate=$accumulate
done
for mode in "--mode=hello" "--mode=bench" "--mode=ladder" "--mode=ddp --describe" "--mode=ddp --show-sampler"; do
    refused "$mode" "--accumulate splits the batches of a training: it belongs to --mode=single, dp, ddp or compare" ${mode} --accumulate=2
done

finish
