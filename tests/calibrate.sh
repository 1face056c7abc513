#!/bin/bash
# calibrate.sh: --mode=calibrate writes a profile of this machine that --profile takes.
cd "$(dirname "$0")/.." || exit 1
. tests/tools/cases.sh

run --mode=calibrate --json="$work/machine.json"
expect "calibrating ends well, and says where the profile is" eval \
    'is "$status" 0 && grep -q -- "Wrote .*machine.json: use it with --profile=" "$work/err"'
expect "a core's rates are those of a core" holds "1e8 < rate && rate < 1e13" \
    "rate=$(json "$work/machine.json" devices.products.0.1)"
for table in layers busy_layers; do
    expect "$table: a layer's rates by its shape are those of a core" \
        holds "1e6 < rate && rate < 1e13" "rate=$(json "$work/machine.json" "devices.$table.forward.0")"
done
for rate in convert_gb_per_s loss_gb_per_s; do
    expect "$rate is a core's" holds "0.001 < rate && rate < 1000" \
        "rate=$(json "$work/machine.json" "devices.$rate.0.1")"
done
expect "it works in the call" is "$(json "$work/machine.json" devices.asynchronous)" false
run --profile="$work/machine.json" --mode=single --timing-only --json="$work/one.json" --quiet
expect "--profile takes it" is "$status" 0
if [ "$(json "$work/machine.json" devices.per_node)" -ge 2 ]; then
    run --profile="$work/machine.json" --devices=2 --timing-only
    cp "$work/out" "$work/first"
    run --profile="$work/machine.json" --devices=2 --timing-only
    expect "and tells the same times twice" cmp "$work/out" "$work/first"
else
    echo "skip and tells the same times twice: one core"
fi
run --mode=calibrate --batch=3
expect "refused: what has nothing to do with it" eval 'is "$status" 2 && grep -q "only --json=FILE" "$work/err"'
run --mode=calibrate --json=/nonexistent/machine.json
expect "a place that cannot be written" eval 'is "$status" 2 && grep -q "cannot be written" "$work/err"'

finish
