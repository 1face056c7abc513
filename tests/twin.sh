#!/bin/bash
# twin.sh: the whole program against PyTorch: every loss of every golden case (tests/golden/losses.txt), on
# one device, as DP and as DDP. Tolerances as in test_twin.c.
. tests/tools/cases.sh
GOLDENSET=${GOLDENSET:-build/tests/tools/goldenset}
golden=tests/golden/losses.txt

read -r _ samples pixels classes <<<"$(grep '^data ' "$golden")"
side=$(awk -v pixels="$pixels" 'BEGIN { print sqrt(pixels) }')
mkdir "$work/set"
"$GOLDENSET" "$work/set" "$samples" "$side" "$classes" || not_ok "the data set can be written"

# like_pytorch CASE MODE DEVICES: the losses of the last run beside those of the golden case. (The run
# has more: the first step of each turn is not measured, but trains like the others.)
like_pytorch() {
    json "$work/run.json" "results.mode=$2&devices=$3.losses" | tr -d '[] ' | tr , '\n' |
        head -n "$steps" >"$work/losses"
    awk -v wanted="$1" '$0 == wanted { on = 1; next } /^losses/ { on = 0 } on' "$golden" |
        paste - "$work/losses" |
        awk -v steps="$steps" '{
            loss = $4; off = loss > $1 ? loss - $1 : $1 - loss
            if ($3 - $2 > widest) widest = $3 - $2
            margin = widest + 1e-6
            if (NF != 4 || (NR <= 10 && off > 1e-5) || loss < $2 - margin || loss > $3 + margin) {
                printf "step %d: loss %s, PyTorch has %s, in other orders %s to %s\n", NR, loss, $1, $2, $3
                bad = 1
                exit
            }
        }
        END { exit bad || NR < steps }'
}

while IFS= read -r case; do
    read -r _ kind seed lr momentum decay batch steps _ widths <<<"$case"
    [ "$kind" = sgd ] && momentum="--momentum=$momentum" || momentum=
    # shellcheck disable=SC2086 # no option or one
    run --data="$work/set" --device=cpu --layers="${widths// /,}" --seed="$seed" --optimizer="$kind" \
        --lr="$lr" $momentum --weight-decay="$decay" --batch="$batch" --steps="$steps" --warmup=0 \
        --devices=2,3 --quiet --log-losses --json="$work/run.json"
    name="$kind, lr $lr, weight decay $decay, seed $seed"
    expect "$name: runs" is "$status" 0
    expect "$name: one device as PyTorch" like_pytorch "$case" single 1
    for devices in 2 3; do
        expect "$name: DP on $devices as PyTorch" like_pytorch "$case" dp $devices
        expect "$name: DDP on $devices as PyTorch" like_pytorch "$case" ddp $devices
    done
done < <(grep '^losses ' "$golden")
finish
