#!/bin/bash
# describe.sh: what --describe says, to the letter.
# sanitizers: yes
cd "$(dirname "$0")/.." || exit 1
trainer=${TRAINER:-./trainer}

# expect NAME OUTPUT ARGUMENTS...: the first lines of the output are OUTPUT, and the exit status is 0.
expect() {
    local name=$1 wanted=$2 got
    shift 2
    got=$("$trainer" --describe --device=cpu "$@" 2>&1) || got="$got (exit status $?)"
    if [ "$(printf '%s\n' "$got" | head -n "$(printf '%s\n' "$wanted" | wc -l)")" = "$wanted" ]; then
        echo "ok $name"
    else
        echo "not ok $name"
        printf 'wanted:\n%s\ngot:\n%s\n' "$wanted" "$got"
    fi
}

expect "the lesson's DataParallel" "output shape: (6, 2)
state_dict keys: ['module.weight', 'module.bias']
devices it will split across: [0]" --mode=dp --devices=1 --layers=8,2 --batch=6
expect "one device has no prefix" "output shape: (6, 2)
state_dict keys: ['0.weight', '0.bias', '2.weight', '2.bias']
devices it will split across: [0]
images per device: 6" --mode=single --layers=8,5,2 --batch=6
expect "torch.chunk leaves the last device idle" "output shape: (6, 3)
state_dict keys: ['module.weight', 'module.bias']
devices it will split across: [0, 1, 2, 3]
images per device: 2, 2, 2, 0" --mode=dp --devices=4 --layers=8,3 --batch=6
expect "DDP: shares, parameters, buckets" "output shape: (7, 10)
state_dict keys: ['module.0.weight', 'module.0.bias', 'module.2.weight', 'module.2.bias']
devices it will split across: [0, 1]
images per device: 4, 3

parameter                shape                 numbers          bytes
module.0.weight          (512, 784)             401408        1605632
module.0.bias            (512,)                    512           2048
module.2.weight          (10, 512)                5120          20480
module.2.bias            (10,)                      10             40
all                                             407050        1628200

Buckets, in the order in which backward fills them:
bucket 0: 2.bias 2.weight 0.bias 0.weight (1628200 bytes)" \
    --mode=ddp --devices=2 --layers=784,512,10 --batch=7
expect "small buckets" "output shape: (8, 10)
state_dict keys: ['module.0.weight', 'module.0.bias', 'module.2.weight', 'module.2.bias']" \
    --mode=ddp --layers=784,512,10 --batch=8 --bucket-mb=0
buckets=$("$trainer" --describe --device=cpu --mode=ddp --layers=784,512,10 --bucket-mb=0 | grep -c '^bucket ')
[ "$buckets" = 4 ] && echo "ok a bucket per parameter" || echo "not ok a bucket per parameter"
message=$("$trainer" --describe 2>&1)
[ $? = 2 ] && [ "$message" = "trainer: --describe describes one way of training: give --mode=single, dp or ddp" ] &&
    echo "ok compare cannot be described" || echo "not ok compare cannot be described"
