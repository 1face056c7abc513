#!/bin/sh
# sweep.sh: which defaults reach 88 % on Fashion-MNIST's test images after ten epochs? Trains one
# device with five seeds for each setting and prints a table. Takes about two minutes a setting.
#
#     tools/sweep.sh [TRAINER] > results/sweep.md
set -eu
trainer=${1:-./trainer}

# The test accuracy after the last epoch, in per cent.
accuracy() {
    "$trainer" --epochs=10 --quiet --json=- "$@" 2>/dev/null |
        sed -n 's/.*"accuracy":[[:space:]]*\([0-9.]*\).*/\1/p' | tail -n 1 |
        awk '{ printf "%.2f", 100 * $1 }'
}

echo "# Test accuracy after ten epochs, by setting"
echo
echo "Fashion-MNIST, layers 784-512-512-10, one device; per cent on the 10,000 test images."
echo "Made by \`tools/sweep.sh\`."
echo
echo "| optimizer | lr | weight decay | batch | seed 0 | 1 | 2 | 3 | 4 | median |"
echo "|---|---|---|---|---|---|---|---|---|---|"
while read -r optimizer lr decay batch; do
    row=""
    for seed in 0 1 2 3 4; do
        row="$row $(accuracy --mode=single --optimizer="$optimizer" --lr="$lr" --weight-decay="$decay" \
            --batch="$batch" --seed="$seed")"
    done
    median=$(printf '%s\n' $row | sort -n | sed -n 3p)
    echo "| $optimizer | $lr | $decay | $batch |$(printf ' %s |' $row) $median |"
done <<EOF
adamw 0.001 0.01 256
adamw 0.0005 0.01 256
sgd 0.1 0 256
sgd 0.05 0.0005 256
adamw 0.001 0.01 128
adamw 0.0005 0.1 256
sgd 0.02 0 64
EOF

echo
echo "The defaults, in each mode (dp and ddp on two devices):"
echo
echo "| mode | seed 0 | 1 | 2 | 3 | 4 | median |"
echo "|---|---|---|---|---|---|---|"
for mode in single dp ddp; do
    row=""
    for seed in 0 1 2 3 4; do
        row="$row $(accuracy --mode=$mode --seed=$seed)"
    done
    median=$(printf '%s\n' $row | sort -n | sed -n 3p)
    echo "| $mode |$(printf ' %s |' $row) $median |"
done
