#!/bin/bash
# algorithms.sh: DDP with each algorithm of its all-reduce: who carries how many bytes in how many
# steps, and that DP and DDP are held to the same bits only where they add up in the same order.
. tests/tools/cases.sh

# The arena of 784-32-10 is (784 * 32 + 32 + 32 * 10 + 10) floats, each tensor filled up to a line.
devices=4

# formula ALGORITHM: bytes that rank 0 sends for a model of $p bytes, and steps per all-reduce.
formula() {
    case $1 in
    direct) echo "$((2 * p * (devices - 1) / devices)) 2" ;;
    ring) echo "$((2 * p * (devices - 1) / devices)) $((2 * (devices - 1)))" ;;
    tree) echo "$((2 * p)) 4" ;;
    naive) echo "$((p * (devices - 1))) 2" ;;
    esac
}

sum() { # FILE PATH: over the ranks
    local total=0
    for ((rank = 0; rank < devices; rank++)); do
        total=$((total + $(json "$1" "$2.$rank")))
    done
    echo "$total"
}

for algorithm in direct ring tree naive; do
    # buckets of a layer each, so that there are several all-reduces in a step
    run $small --steps=4 --warmup=1 --quiet --devices=$devices --algorithm=$algorithm --bucket-mb=0.001 \
        --json="$work/$algorithm.json" --depth=researcher
    file=$work/$algorithm.json
    expect "$algorithm: compare runs, and no other order of sums makes it fail" is "$status" 0
    expect "$algorithm: is in the configuration" is "$(json "$file" config.algorithm)" $algorithm
    talk=results.2.communication
    expect "$algorithm: is in the result" is "$(json "$file" $talk.algorithm)" $algorithm
    expect "$algorithm: DP's result has none" is \
        "$(json "$file" results.1.communication 2>/dev/null)" ""
    p=$(json "$file" config.model_bytes)
    read -r bytes steps <<<"$(formula $algorithm)"
    reduces=$(json "$file" $talk.all_reduces)
    expect "$algorithm: more than one all-reduce a step" holds "n > 1" "n=$reduces"
    expect "$algorithm: steps follow the formula" is "$(json "$file" $talk.steps)" $((reduces * steps))
    # slices are whole cache lines: of each bucket a rank may have up to two lines more or less
    sent=$(json "$file" $talk.sent_bytes.0)
    expect "$algorithm: rank 0 sends what the formula says" holds \
        "(sent - formula)^2 <= (256 * n)^2" "sent=$sent" "formula=$bytes" "n=$reduces"
    expect "$algorithm: all links carry 2P(N-1)" is "$(sum "$file" $talk.sent_bytes)" \
        $((2 * p * (devices - 1)))
    expect "$algorithm: what is sent is received" is "$(sum "$file" $talk.received_bytes)" \
        $((2 * p * (devices - 1)))
    expect "$algorithm: the steps stand beside their formula" \
        grep -q "^DDP steps of waiting.*  $((reduces * steps))  .* each" "$work/out"
    run --replay="$file" --depth=developer
    expect "$algorithm: depth developer tells the algorithm and its steps" \
        grep -q "$reduces all-reduces per step ($algorithm)" "$work/out"
done

for algorithm in direct naive; do
    expect "$algorithm adds up in rank order: DP equals DDP" is \
        "$(json "$work/$algorithm.json" comparisons.0.dp_equals_ddp)" true
done
for algorithm in ring tree; do
    expect "$algorithm adds up in another order: nobody says equal" is \
        "$(json "$work/$algorithm.json" comparisons.0.dp_equals_ddp)" null
    expect "$algorithm: DP and DDP are within rounding" holds "apart < 1e-5" \
        "apart=$(json "$work/$algorithm.json" comparisons.0.dp_ddp_max_abs_weight_diff)"
done

for algorithm in ring tree naive; do
    run $small --mode=ddp --steps=4 --devices=2 --algorithm=$algorithm --quiet --json="$work/two.json"
    losses=$(json "$work/two.json" results.0.loss)
    run $small --mode=ddp --steps=4 --devices=2 --quiet --json="$work/direct2.json"
    expect "$algorithm with two ranks: the same sums as direct" is "$losses" \
        "$(json "$work/direct2.json" results.0.loss)"
    run --mode=hello --devices=5 --ordered --algorithm=$algorithm --op=prod --device=cpu
    expect "$algorithm in hello" is "$(grep -c -- '-> 120.0$' "$work/out")" 5
done

finish
