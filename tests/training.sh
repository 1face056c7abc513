#!/bin/bash
# training.sh: that every way of training trains the same thing: DP as DDP to the last bit, both as one
# device within rounding, the same again for the same seed; and that every test image counts once.
# sanitizers: yes
. tests/tools/cases.sh
run_json() {
    run $small --quiet --log-losses --json="$work/run.json" "$@"
    [ "$status" = 0 ] || not_ok "exit status 0: $*" "$(shown)"
}

# value MODE DEVICES NAME: of a result of the last run
value() {
    json "$work/run.json" "results.mode=$1&devices=$2.$3"
}

# losses_close LIST LIST BOUND: as many losses, none further apart than the bound
losses_close() {
    local count=0
    count=$(paste <(echo "$1" | tr -d '[]' | tr , '\n') <(echo "$2" | tr -d '[]' | tr , '\n') |
        awk -v bound="$3" 'NF != 2 || ($1 - $2) ^ 2 > bound ^ 2 { bad = 1; print > "/dev/stderr" }
            END { print bad ? 0 : NR }')
    [ "$count" -gt 1 ]
}

# --- DP = DDP, to the last bit, where every batch splits evenly ---

for optimizer in sgd adam adamw; do
    run_json --optimizer=$optimizer --devices=2,3,4 --steps=20
    single=$(value single 1 losses)
    for devices in 2 3 4; do
        name="$optimizer, $devices devices"
        expect "$name: DP = DDP" is "$(json "$work/run.json" comparisons.devices=$devices.dp_equals_ddp)" true
        expect "$name: so are all their losses" is "$(value dp $devices losses)" "$(value ddp $devices losses)"
        expect "$name: overlap changes nothing" \
            is "$(value ddp $devices losses)" "$(value ddp_no_overlap $devices losses)"
        # 2e-7 was seen; an error in the arithmetic is worth far more than this
        expect "$name: one device's weights within rounding" \
            holds "difference > 0 && difference < 1e-4" difference="$(value dp $devices max_abs_weight_diff)"
        expect "$name: one device's losses within rounding" \
            losses_close "$single" "$(value ddp $devices losses)" 1e-4
    done
    expect "$optimizer: learns" holds "last < first - 0.1" \
        first="$(value single 1 first_loss)" last="$(value single 1 loss)"
done

# --- splits that do not come out even ---

# 1230 images in batches of 60: the last one has 30, which four devices cannot share equally
run_json --samples=1230 --devices=2,3,4 --epochs=2
equal=comparisons.devices
expect "a last batch of 30: DP = DDP with 2 devices" is "$(json "$work/run.json" $equal=2.dp_equals_ddp)" true
expect "a last batch of 30: DP = DDP with 3 devices" is "$(json "$work/run.json" $equal=3.dp_equals_ddp)" true
expect "a last batch of 30: not claimed of 4" is "$(json "$work/run.json" $equal=4.dp_equals_ddp)" null
for devices in 2 3 4; do
    for mode in dp ddp; do
        expect "a last batch of 30: $mode on $devices as one device" \
            losses_close "$(value single 1 losses)" "$(value $mode $devices losses)" 1e-3
    done
done

# 1201: the last batch is a single image, and most devices have none
run_json --samples=1201 --devices=4 --epochs=2
for mode in dp ddp; do
    expect "a last batch of 1: $mode on 4 as one device" \
        losses_close "$(value single 1 losses)" "$(value $mode 4 losses)" 1e-3
done
expect "a last batch of 1: the loss of 42 steps" is "$(value ddp 4 "losses.#")" 42

# torch.chunk's parts of 5 images for 4 devices: 2, 2, 1, 0
run_json --batch=5 --devices=4 --steps=20
for mode in dp ddp; do
    expect "5 images on 4 devices: $mode as one device" \
        losses_close "$(value single 1 losses)" "$(value $mode 4 losses)" 1e-4
done
run $small --batch=5 --mode=dp --devices=4 --steps=20
expect "5 images on 4 devices: the idle one is named once" is "$(grep -c idle "$work/err")" 1
expect "5 images on 4 devices: the idle one is named" grep -qx \
    'DP: 5 images in parts of 2 are enough for 3 of 4 devices; device 3 stays idle' "$work/err"
run $small --batch=6 --mode=dp --devices=5 --steps=20
expect "6 images on 5 devices: two are idle" grep -qx \
    'DP: 6 images in parts of 2 are enough for 3 of 5 devices; devices 3 and up stay idle' "$work/err"
run $small --batch=60 --mode=dp --devices=4 --steps=5
expect "60 images on 4 devices: nobody is idle" is "$(grep -c idle "$work/err")" 0

# --- more devices than cores ---

run_json --devices=16 --batch=64 --steps=10
expect "16 devices: DP = DDP" is "$(json "$work/run.json" comparisons.devices=16.dp_equals_ddp)" true
expect "16 devices: one device's losses within rounding" \
    losses_close "$(value single 1 losses)" "$(value ddp 16 losses)" 1e-4

# --- buckets change nothing ---

run_json --mode=ddp --devices=3 --steps=20
default=$(value ddp 3 losses)
for bucket_mb in 0 0.01 100; do
    run_json --mode=ddp --devices=3 --steps=20 --bucket-mb=$bucket_mb
    expect "--bucket-mb=$bucket_mb: the same losses" is "$(value ddp 3 losses)" "$default"
done

# --- the same again ---

for mode in single dp ddp; do
    devices=4
    [ $mode = single ] && devices=1
    run_json --mode=$mode --devices=$devices --epochs=1 --seed=7
    first="$(value $mode $devices losses) $(value $mode $devices accuracy)"
    run_json --mode=$mode --devices=$devices --epochs=1 --seed=7
    expect "$mode: the same losses for the same seed" \
        is "$(value $mode $devices losses) $(value $mode $devices accuracy)" "$first"
    run_json --mode=$mode --devices=$devices --epochs=1 --seed=8
    expect "$mode: other losses for another seed" test "$(value $mode $devices losses)" != "${first% *}"
done

# --- every test image counts once ---

# Without learning all devices keep the first weights, so all must find the same: the test images are
# 334, which is not a multiple of the batch or of the devices.
run_json --lr=0 --devices=2,3,4,7 --epochs=1
accuracy=$(value single 1 accuracy)
expect "the accuracy is a whole number of 334" holds \
    "(a * 334 - int(a * 334 + 0.5)) ^ 2 < 1e-18 && a > 0 && a < 0.5" a="$accuracy"
for devices in 2 3 4 7; do
    for mode in dp ddp; do
        expect "$mode, $devices devices: the accuracy of the same weights" \
            is "$(value $mode $devices accuracy)" "$accuracy"
        expect "$mode, $devices devices: the test loss of the same weights" holds "(a - b) ^ 2 < 1e-12" \
            a="$(value $mode $devices epochs.0.test_loss)" b="$(value single 1 epochs.0.test_loss)"
    done
done

# --- it learns ---

for mode in single dp ddp; do
    devices=2
    [ $mode = single ] && devices=1
    run_json --mode=$mode --devices=$devices --optimizer=sgd --epochs=10 --seed=1
    expect "$mode: learns half of the images in ten epochs" holds "a > 0.5" a="$(value $mode $devices accuracy)"
    expect "$mode: an entry for each epoch" is "$(value $mode $devices "epochs.#")" 10
done

finish
