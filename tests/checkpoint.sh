#!/bin/bash
# checkpoint.sh: runs that are saved, loaded, resumed and killed. A run of two epochs and a run of one
# that another one goes on with leave the same file, byte for byte. (The file's format: test_checkpoint.c.)
# sanitizers: yes
. tests/tools/cases.sh
GOLDENSET=${GOLDENSET:-build/tests/tools/goldenset}
golden=tests/golden/checkpoint

# 300 images in batches of 32: the last batch of an epoch is smaller
tiny="--data=synthetic --samples=300 --layers=784,12,10 --batch=32"
first=$work/first.safetensors second=$work/second.safetensors whole=$work/whole.safetensors

# train ARGUMENTS: a run that must succeed.
train() {
    run --device=cpu --quiet "$@"
    [ "$status" = 0 ] || not_ok "exit status 0: $*" "$(shown)"
}

# refused NAME SENTENCE ARGUMENTS: status 2, nothing on standard output, one line on standard error.
refused() {
    local name=$1 sentence=$2
    shift 2
    run --device=cpu --quiet "$@"
    if [ "$status" = 2 ] && [ ! -s "$work/out" ] && [ "$(cat "$work/err")" = "trainer: $sentence" ]; then
        ok "refused: $name"
    else
        not_ok "refused: $name" "expected: $sentence" "$(shown)"
    fi
}

not() {
    ! "$@"
}

# --- a resumed run goes on bit for bit ---

for mode in "single" "dp --devices=3" "ddp --devices=2" "ddp --devices=3 --overlap=off"; do
    for how in "--optimizer=sgd" "--optimizer=sgd --momentum=0 --weight-decay=0.01" "--optimizer=adam" \
        "--optimizer=adamw --lr=0.003 --seed=5"; do
        # shellcheck disable=SC2086 # words
        train --mode=$mode $tiny $how --epochs=2 --save="$whole"
        # shellcheck disable=SC2086
        train --mode=$mode $tiny $how --epochs=1 --save="$first"
        # shellcheck disable=SC2086 # all else is in the file
        train --mode=$mode --epochs=2 --resume="$first" --save="$second"
        expect "$mode, $how: two epochs are one and one more" cmp "$whole" "$second"
        expect "$mode, $how: the second changed something" not cmp -s "$first" "$second"
    done
done

# Saved by one way of training, resumed by another: what DP and DDP do is the same to the last bit.
# shellcheck disable=SC2086
train --mode=dp --devices=2 $tiny --samples=320 --epochs=1 --save="$first"
# shellcheck disable=SC2086
train --mode=ddp --devices=2 $tiny --samples=320 --epochs=2 --save="$whole"
train --mode=ddp --devices=2 --epochs=2 --resume="$first" --save="$second"
expect "saved by DP, resumed by DDP" cmp "$whole" "$second"
train --mode=single --epochs=2 --resume="$first" --save="$second"
expect "saved by DP, resumed on one device" test -s "$second"

# In the middle of an epoch, and into the file that it came from.
# shellcheck disable=SC2086
train --mode=ddp --devices=2 $tiny --epochs=3 --save="$whole"
# shellcheck disable=SC2086
train --mode=ddp --devices=2 $tiny --steps=14 --warmup=0 --save="$first"
train --mode=ddp --devices=2 --epochs=3 --resume="$first" --save="$first"
expect "resumed in the middle of an epoch, saved in place" cmp "$whole" "$first"

# Named as in a run that was never interrupted.
# shellcheck disable=SC2086
train --mode=dp --devices=2 $tiny --epochs=1 --save="$first"
run --device=cpu --mode=dp --devices=2 --epochs=3 --resume="$first" --json="$work/run.json"
expect "says where it goes on" grep -qxF \
    "Resuming $first after step 10 (epoch 1): 4 tensors, keys without \"module.\"" "$work/err"
expect "counts the epochs before it" grep -q '^epoch 2 of 3: ' "$work/err"
expect "in the JSON, too" is "$(json "$work/run.json" results.0.epochs.0.epoch)" 2
expect "and only these" is "$(json "$work/run.json" results.0.epochs.#)" 2
expect "the JSON says where it began" is "$(json "$work/run.json" config.resumed_at_step)" 10

# --- weights from PyTorch, and for it ---

mkdir "$work/set"
"$GOLDENSET" "$work/set" 60 4 3 || not_ok "the data set can be written"
mlp="--data=$work/set --layers=16,5,3 --batch=20 --mode=single"
still="--optimizer=sgd --lr=0 --steps=1 --warmup=0 --weights-only" # a step that changes nothing
# shellcheck disable=SC2086
train $mlp $still --seed=7 --save="$whole"
for file in clean wrapped; do
    # shellcheck disable=SC2086
    train $mlp $still --seed=8 --save="$first"
    expect "another seed has other weights" not cmp -s "$whole" "$first"
    # shellcheck disable=SC2086
    train $mlp $still --seed=8 --load="${golden}_$file.safetensors" --save="$first"
    expect "PyTorch's $file keys: its weights are loaded" cmp "$whole" "$first"
done
# shellcheck disable=SC2086
run --device=cpu $mlp --load="${golden}_clean.safetensors" --steps=1
expect "clean keys: said in one line" is "$(grep -c '^Loaded' "$work/err")" 1
expect "clean keys: these" grep -qxF \
    "Loaded ${golden}_clean.safetensors: 4 tensors, keys without \"module.\"" "$work/err"
# shellcheck disable=SC2086
run --device=cpu $mlp --load="${golden}_wrapped.safetensors" --steps=1
expect "wrapped keys: said in one line" grep -qxF \
    "Loaded ${golden}_wrapped.safetensors: 4 tensors, keys with \"module.\", as a wrapper saves them" \
    "$work/err"

# What a strict load_state_dict would take: of a wrapped model, or not.
# shellcheck disable=SC2086
train $mlp $still --seed=7 --wrapped-keys --save="$first"
expect "--wrapped-keys: module." grep -qaF '"module.0.weight":' "$first"
expect "--wrapped-keys: nothing else" not grep -qaF '"0.weight":' "$first"
# shellcheck disable=SC2086
train $mlp --wrapped-keys --strict --load="$first" --steps=1
# shellcheck disable=SC2086
run --device=cpu --quiet $mlp --strict --load="$first" --steps=1
expect "--strict: exit status 2" is "$status" 2
expect "--strict: PyTorch's message" is "$(cat "$work/err")" \
    "Error(s) in loading state_dict for Sequential:
	Missing key(s) in state_dict: \"0.weight\", \"0.bias\", \"2.weight\", \"2.bias\". 
	Unexpected key(s) in state_dict: \"module.0.weight\", \"module.0.bias\", \"module.2.weight\", \"module.2.bias\". 
trainer: $first: not loaded: with --strict its keys must be the model's, to the letter"
# shellcheck disable=SC2086
run --device=cpu --quiet $mlp --mode=ddp --wrapped-keys --strict --load="$whole" --steps=1
expect "--strict, wrapped: PyTorch's message" is "$(head -n 2 "$work/err")" \
    "Error(s) in loading state_dict for DistributedDataParallel:
	Missing key(s) in state_dict: \"module.0.weight\", \"module.0.bias\", \"module.2.weight\", \"module.2.bias\". "
# shellcheck disable=SC2086
train $mlp --layers=16,5,3,3 --load="$whole" --steps=1
expect "without --strict: what is missing is listed" is "$(cat "$work/err")" \
    "$whole: Missing key(s) in state_dict: \"4.weight\", \"4.bias\". They keep their first values."

# PyTorch itself, where it is there with safetensors.
python=
for candidate in ${PYTHON:-} /usr/bin/python3; do
    "$candidate" -c 'import torch, safetensors.torch' 2>/dev/null && python=$candidate && break
done
if [ -z "$python" ]; then
    echo "skip PyTorch loads what is saved: no Python with torch and safetensors"
else
    expect "PyTorch loads what is saved" "$python" - "$whole" "$first" "${golden}_clean.safetensors" <<'PYTHON'
import sys, torch
from safetensors.torch import load_file
clean, wrapped, golden = (load_file(path) for path in sys.argv[1:])
model = torch.nn.Sequential(torch.nn.Linear(16, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
model.load_state_dict(clean)
torch.nn.DataParallel(model).load_state_dict(wrapped)
assert all(torch.equal(clean[key], value) for key, value in golden.items())
PYTHON
fi

# --- what is refused ---

# shellcheck disable=SC2086
train --mode=single $tiny --epochs=1 --save="$first"
contradicts() {
    refused "$1 that contradicts the file" "--${1%%=*} contradicts $first, which was saved with --$2: leave it \
out, or begin a new run with --load" --mode=single --resume="$first" --epochs=2 "--$1"
}
contradicts layers=784,13,10 layers=784,12,10
contradicts layers=784,12,12,10 layers=784,12,10
contradicts batch=30 batch=32
contradicts seed=1 seed=0
contradicts optimizer=sgd optimizer=adamw
contradicts lr=0.1 lr=0.001
contradicts weight-decay=0 weight-decay=0.01
contradicts samples=301 samples=300
mkdir "$work/others"
"$GOLDENSET" "$work/others" 60 28 10 || not_ok "the data set can be written"
refused "other data" "$first was saved in training on 300 images of synthetic; $work/others has 60: give the \
same --data" --mode=single --resume="$first" --epochs=2 --data="$work/others"
train --mode=single --resume="$first" --epochs=2 --layers=784,12,10 --batch=32 --optimizer=adamw --lr=1e-3
ok "what is typed and agrees is accepted"
refused "a run that is over" "$first is at step 10 already, after epoch 1, and this command ends at step 10: \
give more --epochs or --steps" --mode=single --resume="$first" --epochs=1
refused "weights alone" "$whole: cannot be resumed: its metadata lack step; --load takes the weights alone" \
    --mode=single --resume="$whole" --epochs=2
refused "a file that is not there" "$work/none: cannot be opened: No such file or directory" \
    --mode=single --load="$work/none"
tensors_end=$((3 * 4 * (784 * 12 + 12 + 120 + 10)))
head -c -5 "$first" >"$work/cut"
refused "a file cut short" "$work/cut: cut short: its data end at byte $((tensors_end - 5)), its tensors at byte \
$tensors_end" --mode=single --resume="$work/cut"
refused "a place that is none" \
    "--save=$work/none/file: cannot be written: $work/none: No such file or directory" \
    --mode=single --save="$work/none/file"
refused "a directory" "--save=$work: is a directory; give a file in it" --mode=single --save="$work"
refused "a device" "--save=/dev/null: is not a file that could be replaced" --mode=single --save=/dev/null
expect "/dev/null is what it was" test -c /dev/null

# --- whoever is killed, the file is whole ---

# Every file that this run may leave, epoch by epoch.
job="--mode=ddp --devices=2 $tiny"
# shellcheck disable=SC2086
train $job --epochs=1 --save="$second"
sum_of() {
    cksum <"$1"
}
sums="$(sum_of "$second")"
for epoch in 2 3 4 5 6; do
    train --mode=ddp --devices=2 --resume="$second" --epochs=$epoch --save="$second"
    sums="$sums
$(sum_of "$second")"
done
broken=0
for try in $(seq 30); do
    rm -f "$first"
    # shellcheck disable=SC2086
    "$TRAINER" --device=cpu --quiet $job --epochs=6 --save="$first" >/dev/null 2>&1 &
    trainer=$!
    # in the time that its six epochs take, wherever that falls
    until [ -e "$first" ] || ! kill -0 $trainer 2>/dev/null; do sleep 0.002; done
    sleep "0.0$(printf '%02d' $((try % 12)))"
    # shellcheck disable=SC2046 # pids; rank 0 may be writing
    kill -KILL $trainer $(cat /proc/$trainer/task/$trainer/children 2>/dev/null) 2>/dev/null
    wait $trainer 2>/dev/null
    sum=$(sum_of "$first")
    grep -qxF "$sum" <<<"$sums" || broken=$((broken + 1))
done
expect "killed 30 times: the file is always one of the whole ones" is "$broken" 0
touch "$first.partial-1" # as if left by a writer that died long ago
# shellcheck disable=SC2086
train $job --epochs=1 --save="$first"
expect "the next saving leaves nothing beside it" is "$(ls "$first".* 2>/dev/null)" ""

finish
