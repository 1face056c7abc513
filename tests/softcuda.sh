#!/bin/bash
# softcuda.sh: the GPU path on a machine without a GPU: the program that nvcc built runs, unchanged,
# on the software CUDA of tests/softcuda. First that the software CUDA notices mistakes, then the
# kernels, then training in every mode on 1 to 4 software GPUs, then what the program says when a call
# fails. Seeds pick the order of streams, threads and blocks.
# sanitizers: no
. tests/tools/cases.sh
build=${JSONGET%/tests/tools/jsonget}
soft=$build/softcuda
ulimit -c 0

if [ ! -e "$soft/libcudart.so.13" ]; then
    echo "skip the GPU path: it is tested in builds with CUDA 13; this one has:$(
        grep CUDA "$build/found.txt" 2>&1 | tr -s ' ')"
    exit 0
fi
nccl=$([ -e "$soft/libnccl.so.2" ] && echo yes)

# gpu NAME=VALUE... COMMAND...: a command with the software CUDA. No run takes a minute unless it hangs.
gpu() {
    env LD_LIBRARY_PATH="$soft" OPENBLAS_NUM_THREADS=1 timeout -k 1 100 env "$@"
}

# seeds WANTED COMMAND...: how many of the seeds a command ends with that status for (0, or "bad"),
# several at a time.
tally() {
    local wanted=$1 seeds=$2 jobs=()
    shift 2
    for seed in $seeds; do
        gpu SOFTCUDA_SEED="$seed" "$@" >"$work/seed$seed" 2>&1 &
        jobs+=($!)
    done
    local count=0
    for job in "${jobs[@]}"; do
        wait "$job"
        local got=$?
        case $wanted in
        good) [ $got = 0 ] && count=$((count + 1)) ;;
        bad) [ $got != 0 ] && [ $got != 124 ] && count=$((count + 1)) ;;
        esac
    done
    echo $count
}

# --- planted mistakes are found, and nothing is where there is none ------------------------------

for plant in $("$soft/plants" 2>/dev/null || gpu "$soft/plants"); do
    right=$(tally good "1 2 3 4" "$soft/plants" "$plant" right)
    wrong=0
    for seeds in "1 2 3 4" "5 6 7 8" "9 10 11 12" "13 14 15 16"; do
        [ "$wrong" != 0 ] || wrong=$(tally bad "$seeds" "$soft/plants" "$plant" wrong)
    done
    if [ "$right" = 4 ] && [ "$wrong" != 0 ]; then
        ok "plant $plant: found, by $wrong of its seeds"
    else
        not_ok "plant $plant" "right version: $right of 4 seeds; wrong version found by $wrong"
    fi
done

# --- test programs -------------------------------------------------------------------------------

# passes NAME SEEDS COMMAND...: a program that must pass with all of them.
passes() {
    local name=$1 seeds=$2
    shift 2
    local good
    good=$(tally good "$seeds" "$@")
    if [ "$good" = "$(echo "$seeds" | wc -w)" ]; then
        ok "$name, seeds $seeds"
    else
        not_ok "$name" "$(cd "$work" && grep -hE 'ERROR|FAILED|not ok|softcuda:' seed* | head)"
    fi
}

[ -z "$nccl" ] || passes "the software NCCL" "1 2 3" "$soft/test_nccl"
passes "kernels equal the CPU's" "1 2 3 4 5 6" SOFTCUDA_PEERS=on "$build/tests/test_kernels"
passes "kernels equal the CPU's, no peer access" "7 8 9" SOFTCUDA_PEERS=off "$build/tests/test_kernels"
passes "collectives of 4 GPUs" "1 2 3" SOFTCUDA_GPUS=4 "$build/tests/test_cuda"
passes "collectives of 4 GPUs, no peer access" "4 5 6" SOFTCUDA_GPUS=4 SOFTCUDA_PEERS=off \
    "$build/tests/test_cuda"
passes "collectives on one GPU that all share" "1 2" SOFTCUDA_GPUS=1 "$build/tests/test_cuda"

missed=$(tally good "1 2 3 4" LD_LIBRARY_PATH="$soft/no_barriers:$soft" "$build/tests/test_kernels")
expect "kernels.cu without __syncthreads is found" is "$missed" 0

# --- training ------------------------------------------------------------------------------------

job="--data=synthetic --samples=600 --layers=784,40,33,10 --batch=60 --bucket-mb=0.001 --warmup=2 --quiet"
short="$job --steps=8 --log-losses"

# train FILE NAME=VALUE... ARGUMENTS...: on software GPUs; results to $work/FILE.
train() {
    local file=$1 settings=(SOFTCUDA_GPUS=4) arguments=()
    shift
    for word in "$@"; do
        if [[ $word == SOFTCUDA* ]]; then settings+=("$word"); else arguments+=("$word"); fi
    done
    rm -f "$work/$file"
    # shellcheck disable=SC2086
    gpu "${settings[@]}" "$TRAINER" $short --device=cuda --json="$work/$file" "${arguments[@]}" \
        >"$work/out" 2>"$work/err"
    status=$?
}

# losses FILE RUN: those of the first ten steps, a line each.
losses() {
    json "$work/$1" "results.$2.losses" 2>>"$work/err" | tr -d '[]' | tr ',' '\n' | head -n 10
}
# far A B: the largest relative difference of ten losses; 999 if they are not there.
far() {
    paste <(echo "$1") <(echo "$2") | awk '
        function size(x) { return x < 0 ? -x : x }
        NF == 2 { d = size($1 - $2) / size($2); if (!(d <= most)) most = d; steps++ }
        END { print (steps == 10 ? most + 0 : 999) }'
}
near() { # NAME LOSSES LOSSES MOST
    local difference
    difference=$(far "$2" "$3")
    if holds "far <= most" far="$difference" most="$4"; then
        ok "$1"
    else
        not_ok "$1" "they differ by $difference" "$(shown)"
    fi
}

# The CPU's losses, which the GPU's must equal within rounding.
for optimizer in sgd adam adamw; do
    # shellcheck disable=SC2086
    run $short --device=cpu --mode=single --optimizer=$optimizer --json="$work/cpu"
    cpu=$(losses cpu mode=single)
    train single --mode=single --optimizer=$optimizer
    near "single with $optimizer: the CPU's losses" "$(losses single mode=single)" "$cpu" 1e-5
done
train single --mode=single --precision=tf32
near "single with --precision=tf32: the CPU's losses" "$(losses single mode=single)" "$cpu" 1e-5

# same NAME FILE: DP and DDP learned the same, to the last bit, and what the CPU learned.
same() {
    local name=$1 file=$2
    for devices in 2 3 4; do
        expect "$name, $devices devices: DP = DDP to the last bit" is \
            "$(json "$work/$file" "comparisons.devices=$devices.dp_ddp_max_abs_weight_diff")" 0
        for mode in dp ddp ddp_no_overlap; do
            near "$name, $devices devices: $mode has the CPU's losses" \
                "$(losses "$file" "mode=$mode&devices=$devices")" "$cpu" 1e-5
        done
    done
}
train gpus --devices=2,3,4
same "a GPU each" gpus
train staged --devices=2,3,4 --comm=shm --replicate=star SOFTCUDA_PEERS=off
same "without NCCL and peer access" staged
train shared SOFTCUDA_GPUS=1 --devices=2,3,4 --oversubscribe
same "one GPU for all" shared

train epochs --mode=ddp --devices=3 --steps=20
expect "replicas stay equal over the epochs" is "$status" 0

# --- micro-batches, and a slow GPU -----------------------------------------------------------------

for how in "" "--comm=shm --replicate=star SOFTCUDA_PEERS=off"; do
    # shellcheck disable=SC2086
    train micro --devices=3 --accumulate=4 $how
    for mode in dp ddp ddp_no_overlap; do
        near "micro-batches, ${how:-NCCL}: $mode has the CPU's losses" \
            "$(losses micro "mode=$mode&devices=3")" "$cpu" 1e-5
    done
    # shellcheck disable=SC2086
    train slow --devices=3 --slow=rank1@5 $how
    expect "a slow GPU, ${how:-NCCL}: DP = DDP to the last bit" is \
        "$(json "$work/slow" comparisons.devices=3.dp_ddp_max_abs_weight_diff)" 0
    near "a slow GPU, ${how:-NCCL}: the CPU's losses" "$(losses slow mode=ddp)" "$cpu" 1e-5
done
train killed --mode=ddp --devices=3 --fail=rank1@5
expect "a killed GPU rank is named" grep -q "rank 1 .* in step 5, phase backward; .*asked for with --fail=rank1@5" \
    "$work/err"

# --- parameters that some ranks do not use, and ranks without a batch ------------------------------

branch="--unused=rank0 --find-unused-parameters"
# shellcheck disable=SC2086
run $short --device=cpu --mode=ddp --devices=3 $branch --json="$work/branch"
cpu=$(losses branch mode=ddp)
for how in "" "--comm=shm --replicate=star SOFTCUDA_PEERS=off"; do
    # shellcheck disable=SC2086
    train unused --devices=3 $branch $how
    expect "rank 0 skips a branch, ${how:-NCCL}: DP = DDP to the last bit" is \
        "$(json "$work/unused" comparisons.devices=3.dp_ddp_max_abs_weight_diff)" 0
    near "rank 0 skips a branch, ${how:-NCCL}: the CPU's losses" "$(losses unused mode=ddp)" "$cpu" 1e-5
    # shellcheck disable=SC2086
    train unused --mode=ddp --devices=3 --unused=rank0 $how
    expect "without --find-unused-parameters, ${how:-NCCL}: an error by name" \
        grep -q 'no gradient for branch.weight, branch.bias on rank 0:' "$work/err"
    # shellcheck disable=SC2086
    train uneven --mode=ddp --devices=3 --steps=20 --uneven=4 --on-uneven=join $how
    expect "a rank without a batch, ${how:-NCCL}: the replicas stay equal" is "$status" 0
done

# --- twenty orders -------------------------------------------------------------------------------

for seed in $(seq 20); do
    devices=$((seed % 3 + 2))
    wrong=""
    for mode in "dp" "ddp"; do
        case $((seed % 4)) in
        0) how="SOFTCUDA_PEERS=off" ;;
        1) how="--comm=shm --replicate=star SOFTCUDA_PEERS=off" ;;
        2) how="--comm=shm --replicate=star" ;;
        *) how="" ;;
        esac
        # shellcheck disable=SC2086
        train order SOFTCUDA_SEED="$seed" --mode=$mode --devices=$devices $how
        [ "$(far "$(losses order mode=$mode)" "$(losses gpus "mode=$mode&devices=$devices")")" = 0 ] ||
            wrong="$wrong $mode"
    done
    if [ -z "$wrong" ]; then
        ok "order $seed: the same losses, $devices devices"
    else
        not_ok "order $seed" "other losses:$wrong" "$(shown)"
    fi
done

# --- mistakes that are planted into the trainer: its calls do nothing ----------------------------

# found NAME CALL ARGUMENTS...: the losses are not the right ones, whatever the order, or the run fails.
found() {
    local name=$1 call=$2 mode=$3 noticed=0
    shift 3
    for seed in 1 2 3 4 5 6; do
        train mistake SOFTCUDA_SEED=$seed SOFTCUDA_DROP="$call" --mode="$mode" --devices=3 --timeout=5 "$@"
        [ "$status" = 0 ] &&
            [ "$(far "$(losses mistake mode="$mode")" "$(losses gpus "mode=$mode&devices=3")")" = 0 ] ||
            noticed=$((noticed + 1))
    done
    if [ $noticed != 0 ]; then ok "$name is found, by $noticed of 6 seeds"; else not_ok "$name is found"; fi
}
found "DDP without events between its streams" cudaStreamWaitEvent@0 ddp
found "staged DDP without events" cudaStreamWaitEvent@0 ddp --comm=shm
found "DP without events between GPUs" cudaStreamWaitEvent@0 dp --replicate=star
found "DDP that does not wait for its results" cudaStreamSynchronize@0 ddp
found "staged DDP that does not wait for its fetches" cudaEventSynchronize@0 ddp --comm=shm

# The hundredth wait for a stream would fail: two hundred steps do not have that many.
train few SOFTCUDA_FAIL=1/cudaStreamSynchronize@100 --mode=ddp --devices=2 --steps=200
expect "DDP's steps do not wait for the GPU" is "$status" 0

# --- what is said when something fails -----------------------------------------------------------

# says NAME STATUS PATTERN... -- NAME=VALUE... ARGUMENTS...: each pattern is a line on standard error.
says() {
    local name=$1 wanted=$2 patterns=()
    shift 2
    while [ "$1" != -- ]; do
        patterns+=("$1")
        shift
    done
    shift
    train said "$@"
    local missing=()
    for pattern in "${patterns[@]}"; do
        grep -qE -- "$pattern" "$work/err" || missing+=("not said: $pattern")
    done
    [ "$status" = "$wanted" ] || missing+=("exit status $status, not $wanted")
    if [ ${#missing[@]} = 0 ]; then ok "says: $name"; else not_ok "says: $name" "${missing[@]}" "$(shown)"; fi
}

ddp="--mode=ddp --devices=3"
dp="--mode=dp --devices=3"
# shellcheck disable=SC2086
{
    says "no driver" 2 "^trainer: --device=cuda: no NVIDIA driver is at work here: install" -- \
        SOFTCUDA_DRIVER=none $ddp
    says "an old driver" 2 "the NVIDIA driver is too old: it is for CUDA up to 12.4" -- \
        SOFTCUDA_DRIVER=old $ddp
    says "no GPU" 2 "the driver is there but shows no GPU" -- SOFTCUDA_GPUS=0 $ddp
    says "fewer GPUs than devices" 2 "^trainer: --devices=3: there are 2 GPUs; --oversubscribe" -- \
        SOFTCUDA_GPUS=2 $ddp
    says "out of memory" 1 \
        "allocating [0-9]+ bytes .*out of memory; [0-9.]+ of its 8.0 MiB are free: a smaller --batch" -- \
        SOFTCUDA_MEMORY=8 --mode=single --layers=784,1400,10
    says "no code for this GPU" 1 "starting a kernel on Software GPU 1 .*no code for this kind of GPU" -- \
        SOFTCUDA_FAIL=1/cudaLaunchKernel@1=209 $dp
    says "a crash on one rank's GPU" 1 "GPU 1: .*an illegal memory access was encountered" \
        "^trainer: FAILED: DDP, 3 devices: rank 1 " -- SOFTCUDA_FAIL=1/cudaStreamSynchronize@6=700 $ddp
    says "cuBLAS fails for a replica" 1 \
        "^trainer: replica 1 on device 1: GPU 1: multiplying 20 x 784 by 784 x 40: " -- \
        SOFTCUDA_FAIL=1/cublasGemmEx@9 $dp
}
if [ "$nccl" ]; then
    # shellcheck disable=SC2086
    {
        says "NCCL cannot be joined" 1 "rank 2: joining NCCL's group of 3: NCCL: " -- \
            SOFTCUDA_FAIL=2/ncclCommInitRankConfig@1 $ddp
        says "a rank does not join NCCL's group" 1 "joining NCCL's group of 3: not done after 1 s" -- \
            SOFTCUDA_STALL=1/ncclCommInitRankConfig@1 $ddp --timeout=1
        says "an all-reduce is refused" 1 "rank 2: all_reduce #[0-9]+ of [0-9]+ elements: NCCL: " -- \
            SOFTCUDA_FAIL=2/ncclAllReduce@12 $ddp
        says "an error of NCCL that comes later" 1 "NCCL: remote process exited or there was a network" \
            "^trainer: FAILED: DDP, 3 devices: rank 1 " -- SOFTCUDA_FAIL=1/ncclCommGetAsyncError@20 $ddp
        says "a rank whose GPU hangs" 1 \
            "all_reduce #[0-9]+ \(bucket [0-9], [0-9]+ elements\) has not finished after 1 s" -- \
            SOFTCUDA_STALL=1/ncclAllReduce@12 $ddp --timeout=1
        says "NCCL fails in DP" 1 "adding up the gradients \([0-9]+ floats\) of 3 devices: NCCL: " -- \
            SOFTCUDA_FAIL=ncclGroupEnd@4 $dp
    }
fi

# shellcheck disable=SC2086
gpu SOFTCUDA_DRIVER=none "$TRAINER" ${job% --quiet} --steps=3 --mode=ddp >"$work/out" 2>"$work/err"
status=$?
expect "--device=auto without a driver trains on the CPU" is $status 0
expect "and says so in one line" is "$(grep -c 'Using the CPU: no NVIDIA driver' "$work/err")" 1

# --- collectives by themselves -------------------------------------------------------------------

# bench SECTIONS NAME=VALUE... ARGUMENTS...: --mode=bench ends with OK and has so many tables.
bench() {
    local sections=$1 name=$2 settings=$3
    shift 3
    gpu "$settings" "$TRAINER" --mode=bench --device=cuda --sizes=4K,16K --steps=2 "$@" >"$work/out" 2>"$work/err"
    status=$?
    expect "bench, $name: OK" is "$status $(tail -n 1 "$work/out")" "0 OK"
    expect "bench, $name: its tables" is "$(grep -c '^# Avg bus bandwidth' "$work/out")" "$sections"
}
[ -z "$nccl" ] || bench 11 "NCCL and shared memory" SOFTCUDA_GPUS=3 --devices=3
[ -z "$nccl" ] || bench 4 "NCCL alone" SOFTCUDA_GPUS=2 --comm=nccl
bench 7 "shared memory alone" SOFTCUDA_GPUS=2 --comm=shm
bench 7 "two ranks on one GPU" SOFTCUDA_GPUS=1 --oversubscribe
bench 1 "one algorithm" SOFTCUDA_GPUS=3 --devices=3 --algorithm=tree
if [ "$nccl" ]; then
    train chosen --mode=ddp --devices=3 --algorithm=ring
    expect "--algorithm with NCCL is refused" is "$status $(grep -c 'NCCL chooses its algorithms' "$work/err")" \
        "2 1"
fi
for algorithm in ring tree naive; do
    train staged --mode=ddp --devices=3 --comm=shm --algorithm=$algorithm
    near "DDP through the host by $algorithm: the losses of direct" "$(losses staged mode=ddp)" \
        "$(train direct --mode=ddp --devices=3 --comm=shm && losses direct mode=ddp)" 1e-5
done

# --- nothing is left behind ----------------------------------------------------------------------

if [ "$nccl" ]; then
    before=$(ls -A /dev/shm)
    # shellcheck disable=SC2086
    gpu SOFTCUDA_GPUS=3 "$TRAINER" ${job% --quiet} --steps=100000 --device=cuda $ddp >"$work/out" 2>"$work/err" &
    supervisor=$!
    until grep -q '^rank 1: pid' "$work/err"; do sleep 0.05; done
    sleep 1
    kill -9 "$(sed -n 's/^rank 1: pid \([0-9]*\)$/\1/p' "$work/err")"
    wait $supervisor
    status=$?
    expect "a killed rank ends the run" is $status 1
    expect "and is named" grep -q "FAILED: DDP, 3 devices: rank 1 .*signal 9" "$work/err"
    alive=0
    while read -r pid; do
        kill -0 "$pid" 2>/dev/null && alive=$((alive + 1))
    done < <(sed -n 's/^rank [0-9]*: pid \([0-9]*\)$/\1/p' "$work/err")
    expect "no process is left" is $alive 0
    expect "nothing is left in /dev/shm" is "$(ls -A /dev/shm)" "$before"
fi
finish
