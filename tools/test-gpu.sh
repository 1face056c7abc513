#!/bin/bash
# test-gpu.sh: what tests/softcuda.sh proves on software GPUs, on the real ones of this machine
# (`make test-gpu`): kernels and collectives against the CPU, training in every mode on 1 to all GPUs
# and on one that several devices share, and compute-sanitizer where it is installed.
#
# The last line is "N passed, N failed". Without a GPU it says why there is none and fails.
cd "$(dirname "$0")/.." || exit 1
. tests/tools/cases.sh
build=${JSONGET%/tests/tools/jsonget}
job="--data=synthetic --samples=2400 --layers=784,512,256,10 --batch=240 --warmup=2 --quiet --log-losses"

# train FILE ARGUMENTS...: results to $work/FILE.
train() {
    local file=$1
    shift
    rm -f "$work/$file"
    # shellcheck disable=SC2086
    run $job --json="$work/$file" "$@"
}

# near NAME FILE RUN FILE RUN: the losses of the first ten steps, within float's rounding.
near() {
    local difference
    difference=$(paste <(losses "$2" "$3") <(losses "$4" "$5") | awk '
        function size(x) { return x < 0 ? -x : x }
        NF == 2 { d = size($1 - $2) / size($2); if (!(d <= most)) most = d; steps++ }
        END { print (steps == 10 ? most + 0 : 999) }')
    expect "$1 (largest relative difference $difference)" holds "far <= 1e-4" far="$difference"
}
losses() {
    json "$work/$1" "results.$2.losses" 2>/dev/null | tr -d '[]' | tr ',' '\n' | head -n 10
}

# whole NAME PROGRAM...: a cmocka program passes and skips nothing.
whole() {
    local name=$1
    shift
    if "$@" >"$work/log" 2>&1 && ! grep -q SKIPPED "$work/log"; then
        ok "$name"
    else
        not_ok "$name" "$(grep -vE '^\[ RUN|^\[ +OK' "$work/log" | head -n 40)"
    fi
}

main() {
    train cuda --device=cuda --mode=single --optimizer=sgd --steps=10
    if [ "$status" != 0 ]; then
        not_ok "there is a GPU" "$(shown)"
        return
    fi
    ok "there is a GPU"
    local gpus
    gpus=$(json "$work/cuda" "environment.gpus.#")
    echo "# $gpus: $(json "$work/cuda" environment.gpus | tr -d '\n')"

    whole "every operation equals the CPU's" "$build/tests/test_kernels"
    if [ "$gpus" -gt 1 ]; then
        whole "collectives between GPUs" "$build/tests/test_cuda"
    else
        "$build/tests/test_cuda" >"$work/log" 2>&1
        expect "collectives on one GPU" is $? 0
    fi

    for optimizer in sgd adam adamw; do
        train cpu --device=cpu --mode=single --optimizer=$optimizer --steps=10
        train cuda --device=cuda --mode=single --optimizer=$optimizer --steps=10
        near "single with $optimizer: the CPU's losses" cuda mode=single cpu mode=single
    done
    train cuda --device=cuda --mode=ddp --devices=1 --comm=nccl --steps=10
    near "DDP of one rank through NCCL: the CPU's losses" cuda mode=ddp cpu mode=single

    local devices
    for devices in 2 3 4; do
        train shared --device=cuda --devices=$devices --oversubscribe --comm=shm --steps=10
        compared "$devices devices, ranks through shared memory" shared $devices
    done
    for ((devices = 2; devices <= gpus; devices++)); do
        train nccl --device=cuda --devices=$devices --steps=10
        compared "$devices GPUs, NCCL" nccl $devices
        train star --device=cuda --devices=$devices --replicate=star --steps=10
        compared "$devices GPUs, DP by copies" star $devices
    done
    train no --device=cuda --mode=ddp --devices=$((gpus + 1)) --steps=10
    expect "more devices than GPUs are refused" is "$status" 2
    expect "with a hint" grep -q -- --oversubscribe "$work/err"

    if ! command -v compute-sanitizer >/dev/null; then
        echo "skip compute-sanitizer: not installed (CUDA toolkit, or Debian's nvidia-cuda-toolkit)"
        return
    fi
    local tool
    for tool in memcheck racecheck initcheck synccheck; do
        whole "compute-sanitizer $tool finds nothing in the kernels" \
            compute-sanitizer --tool $tool --error-exitcode 1 "$build/tests/test_kernels"
    done
}

# compared NAME FILE DEVICES: compare ran, DP and DDP learned the same, and what the CPU learned.
compared() {
    expect "$1: exit status" is "$status" 0
    for mode in dp ddp ddp_no_overlap; do
        near "$1: $mode has the CPU's losses" "$2" "mode=$mode&devices=$3" cpu mode=single
    done
    # NCCL chooses the order in which it adds up three ranks or more; nothing else does
    if [ "$2" = shared ] || [ "$3" = 2 ]; then
        expect "$1: DP = DDP to the last bit" is \
            "$(json "$work/$2" "comparisons.devices=$3.dp_equals_ddp")" true
    fi
}

main | tee "$work/all"
passed=$(grep -c '^ok ' "$work/all")
failed=$(grep -c '^not ok ' "$work/all")
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
