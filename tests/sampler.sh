#!/bin/bash
# sampler.sh: what --show-sampler says, to the letter. The orders are PyTorch's (tests/test_sampler.c).
# sanitizers: yes
cd "$(dirname "$0")/.." || exit 1
trainer=${TRAINER:-./trainer}

# expect NAME OUTPUT ARGUMENTS...: the output is OUTPUT, and the exit status is 0.
expect() {
    local name=$1 wanted=$2 got
    shift 2
    got=$("$trainer" --show-sampler "$@" 2>&1) || got="$got (exit status $?)"
    if [ "$got" = "$wanted" ]; then
        echo "ok $name"
    else
        echo "not ok $name"
        printf 'wanted:\n%s\ngot:\n%s\n' "$wanted" "$got"
    fi
}

expect "each sample comes once" "epoch 0  rank 0: 4 7 2 1
epoch 0  rank 1: 0 3 5 6
         each of the 8 samples came exactly once
epoch 1  rank 0: 5 2 7 1
epoch 1  rank 1: 4 6 3 0
         each of the 8 samples came exactly once
Every epoch has an order of its own: the seed plus the epoch's number makes it, on
every rank alike, so nothing needs to be sent." --samples=8 --devices=2 --epochs=2
expect "PyTorch pads, and set_epoch was forgotten" "epoch 0  rank 0: 4 3 6
epoch 0  rank 1: 1 9 2
epoch 0  rank 2: 7 0 4
epoch 0  rank 3: 5 8 1
         every sample came; 2 came again, to give each of 4 ranks 3: PyTorch pads
epoch 1  rank 0: 4 3 6
epoch 1  rank 1: 1 9 2
epoch 1  rank 2: 7 0 4
epoch 1  rank 3: 5 8 1
         every sample came; 2 came again, to give each of 4 ranks 3: PyTorch pads
Every epoch has the same order: set_epoch was forgotten, so each rank sees the same
samples in the same order again and again." --samples=10 --devices=4 --epochs=2 --no-set-epoch
expect "fewer samples than ranks" "epoch 0  rank 0: 0
epoch 0  rank 1: 1
epoch 0  rank 2: 0
         every sample came; 1 came again, to give each of 3 ranks 1: PyTorch pads" \
    --samples=2 --devices=3 --epochs=1

# In training the mistake shows in the losses: the second epoch meets the same batches.
losses() {
    "$trainer" --mode=ddp --device=cpu --data=synthetic --samples=120 --layers=784,8,10 --batch=60 \
        --epochs=2 --lr=0 --quiet --log-losses --json=- "$@" 2>/dev/null |
        sed -n '/"losses"/,/]/p' | tr -d '\t\n []' | sed 's/"losses"://'
}
right=$(losses)
wrong=$(losses --no-set-epoch)
first=$(echo "$wrong" | cut -d, -f1,2)
second=$(echo "$wrong" | cut -d, -f3,4)
[ -n "$first" ] && [ "$first" = "$second" ] && [ "$right" != "$wrong" ] &&
    echo "ok forgetting set_epoch repeats the batches" ||
    echo "not ok forgetting set_epoch repeats the batches ($right; $wrong)"
