#!/bin/bash
# gpu.sh: how fast a step is on a GPU, beside what the GPU can do at best and beside PyTorch
# (`make bench-gpu`). The targets are those of the GPU issue: a tiny model at three times the steps per
# second of PyTorch eager, large layers at 0.95 of the bare products, DDP of one rank within 3 % of
# single.
#
#     gpu.sh GPU_LIMITS      prints a table; BENCH_JSON=FILE keeps the trainer's results
cd "$(dirname "$0")/.." || exit 1
. tests/tools/cases.sh
limits=$1
python=${PYTHON:-/usr/bin/python3}

field() { # NAME: of gpu_limits' line
    sed -n "s/.*$1=\([0-9.]*\).*/\1/p" "$work/limits"
}

step_ms() { # MODE ARGUMENTS...: the median step, by the trainer
    local mode=$1
    shift
    run --device=cuda --mode="$mode" --optimizer=sgd --quiet --json="$work/$mode" "$@"
    [ "$status" = 0 ] || { shown >&2; return 1; }
    json "$work/$mode" results.0.step_ms.median
}

ratio() {
    awk -v a="$1" -v b="$2" 'BEGIN { if (a > 0 && b > 0) printf "%.3f", a / b; else printf "-" }'
}

measure() { # NAME LAYERS BATCH STEPS
    local single ddp pytorch
    single=$(step_ms single --layers="$2" --batch="$3" --steps="$4") || exit 1
    ddp=$(step_ms ddp --devices=1 --layers="$2" --batch="$3" --steps="$4") || exit 1
    "$limits" "$2" "$3" 0 >"$work/limits" || exit 1
    pytorch=$("$python" bench/pytorch_gpu.py "$2" "$3" "$4" 2>/dev/null) || pytorch=""
    printf '%-8s %10.4f %12.0f %10.4f %9s %12s %10s\n' "$1" "$single" \
        "$(awk -v b="$3" -v ms="$single" 'BEGIN { print b / ms * 1e3 }')" "$(field products_ms)" \
        "$(ratio "$(field products_ms)" "$single")" "$(ratio "$pytorch" "$single")" \
        "$(ratio "$ddp" "$single")"
}

run --device=cuda --mode=single --steps=2 --quiet --json="$work/probe"
if [ "$status" != 0 ]; then
    shown
    exit 1
fi
echo "# $(json "$work/probe" environment.gpus.0), $(json "$work/probe" environment.date)"
printf '%-8s %10s %12s %10s %9s %12s %10s\n' "#" "step" "images" "products" "products" "PyTorch" \
    "DDP of 1"
printf '%-8s %10s %12s %10s %9s %12s %10s\n' "# model" "ms" "per s" "ms" "of step" "/ ours" "/ single"
measure tiny 784,128,10 256 400
measure default 784,512,512,10 256 400
measure large 784,4096,4096,4096,4096,4096,4096,4096,4096,10 4096 30
printf '%-8s %10s %12s %10s %9s %12s %10s\n' "# target" "" "" "" "0.95 lrg" "3.0 tiny" "1.03"
echo "# bare products $(field tflops) TFLOP/s (large), copies within the GPU $(field copy_gb_s) GB/s," \
    "from pinned host memory $(field upload_gb_s) GB/s"
[ -z "${BENCH_JSON:-}" ] || cp "$work/single" "$BENCH_JSON"
