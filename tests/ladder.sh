#!/bin/bash
# ladder.sh: --mode=ladder: every rung's buckets, bytes and weights, the curve over bucket sizes, what
# a replay prints, and what is refused.
. tests/tools/cases.sh
report=$work/report.json
value() {
    json "$report" "$@"
}
ladder="--mode=ladder $small --steps=20"

# --- the rungs ---

run $ladder --sweep-buckets=25,0.05,0 --log-losses --json="$report"
expect "exit status 0" is "$status" 0
expect "the screen" grep -q "^4 buckets, overlapped: DDP" "$work/out"
expect "the curve" grep -q "^    0.05 " "$work/out"
expect "same weights, printed" grep -q "All rungs to the last bit" "$work/out"
cp "$work/out" "$work/tables"
run --replay="$report"
expect "--replay: exit status 0" is "$status" 0
expect "--replay: the same tables" cmp "$work/out" "$work/tables"

expect "one device, four rungs, the limit, three points" is "$(value 'results.#')" 9
expect "config: the mode" is "$(value config.mode)" ladder
expect "config: PyTorch's bucket size" is "$(value config.bucket_mb)" 25
# 784 * 32 + 32 + 32 * 10 + 10 weights are 101,800 bytes: less than the first bucket's 1 MiB
rung() {
    value "results.rung=$1.mode" "results.rung=$1.buckets" "results.rung=$1.bucket_mb" | paste -sd' '
}
expect "rung 0: one device" is "$(value results.rung=0.mode)" single
expect "rung 1: a bucket per tensor, after backward" is "$(rung 1)" "ddp_no_overlap 4 0"
expect "rung 2: one bucket, after backward" is "$(rung 2 | cut -d' ' -f1,2)" "ddp_no_overlap 1"
expect "rung 3: a bucket per tensor, overlapped" is "$(rung 3)" "ddp 4 0"
expect "rung 4: PyTorch's buckets, overlapped" is "$(rung 4)" "ddp 1 25"
weights=$(value config.model_bytes)
for rung in 1 2 3 4; do
    at=results.rung=$rung
    expect "rung $rung: an all-reduce per bucket" is "$(value $at.communication.all_reduces)" "$(value $at.buckets)"
    expect "rung $rung: the same bytes" is "$(value $at.traffic.total)" $((2 * weights))
    expect "rung $rung: hidden and exposed" holds "h >= 0 && e >= 0" \
        h="$(value $at.communication.hidden_ms)" e="$(value $at.communication.exposed_ms)"
    expect "rung $rung: as many steps as asked for" is "$(value $at.step_ms.n)" 20
    expect "rung $rung: the losses of rung 1" is "$(value $at.losses)" "$(value results.rung=1.losses)"
    expect "rung $rung: the gain has its interval" holds "l <= m && m <= h" \
        l="$(value ladder.rungs.rung=$rung.gain_percent.low)" m="$(value ladder.rungs.rung=$rung.gain_percent.median)" \
        h="$(value ladder.rungs.rung=$rung.gain_percent.high)"
done
for rung in 1 2; do
    expect "rung $rung: nothing is hidden after backward" holds "h <= t / 5" t="$(value results.rung=$rung.phases_ms.transfer)" \
        h="$(value results.rung=$rung.communication.hidden_ms)"
    expect "rung $rung: no communication threads" is "$(value results.rung=$rung.threads)" 2
done
expect "all weights are equal" is "$(value ladder.weights_equal)" true
expect "and no difference is seen" is "$(value ladder.max_abs_weight_diff)" 0
expect "the curve: ascending" is "$(value ladder.sweep.0.bucket_mb ladder.sweep.1.bucket_mb ladder.sweep.2.bucket_mb | paste -sd' ')" "0 0.05 25"
# 32 + 10 values and the last weights are 1,448 bytes; with 784 * 32 weights 0.05 MiB are exceeded
expect "the curve: buckets" is "$(for i in 6 7 8; do value results.$i.buckets; done | paste -sd' ')" "4 1 1"

for depth in developer researcher; do
    run --replay="$report" --depth=$depth
    expect "$depth: a column for a rung" grep -q " rung 3 " "$work/out"
    expect "$depth: at most 80 columns" awk 'length > 80 { print; bad = 1 } END { exit bad }' "$work/out"
done

# --- more devices, other settings ---

run $ladder --devices=3 --bucket-mb=0.001 --quiet --json="$report"
expect "three devices: exit status 0" is "$status" 0
expect "three devices: equal" is "$(value ladder.weights_equal)" true
expect "--bucket-mb is rung 4's" is "$(rung 4)" "ddp 2 0.001"
expect "no curve without --sweep-buckets" is "$(grep -c 'by bucket size' "$work/out")" 0
run $ladder --devices=3 --algorithm=ring --quiet --json="$report"
expect "a ring: exit status 0" is "$status" 0
expect "a ring sums in another order: no promise" is "$(value ladder.weights_equal)" null
expect "a ring: the rungs use it" is "$(value results.rung=3.communication.algorithm)" ring
run $small --sweep-buckets=1 --epochs=1 --quiet --json="$report"
expect "--sweep-buckets alone is a ladder" is "$(value config.mode)" ladder
expect "by epochs: exit status 0" is "$status" 0

# --- a run that went wrong ---

sed 's/"weights_equal": true/"weights_equal": false/' tests/fixtures/made_up_ladder.json >"$work/failed.json"
run --replay="$work/failed.json"
expect "weights differ: FAILED is printed" grep -q "FAILED: rungs differ" "$work/out"
expect "weights differ: and said on standard error" grep -q "FAILED: all rungs should" "$work/err"
expect "weights differ: exit status 1" is "$status" 1

# --- what is refused ---

# refused WORDS ARGUMENTS...
refused() {
    local words=$1
    shift
    run "$@"
    expect "$*: exit status 2" is "$status" 2
    expect "$*: one line that says why" grep -q -e "$words" "$work/err"
}
refused "belongs to --mode=ladder" --mode=ddp --sweep-buckets=1
refused "belongs to --mode=ladder" --mode=compare --sweep-buckets=1
refused "numbers with commas" --sweep-buckets=
refused "numbers with commas" --sweep-buckets=1,,2
refused "numbers with commas" --sweep-buckets=1,x
refused "numbers with commas" --sweep-buckets=0x10
refused "must lie between" --sweep-buckets=1,-2
refused "is there twice" --sweep-buckets=5,1,5.0
refused "at most 16" --sweep-buckets=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17
refused "rungs of both kinds" --mode=ladder --overlap=off
refused "needs two" --mode=ladder --devices=1
refused "takes one number" --mode=ladder --devices=2,4
refused "for one way of training" --mode=ladder --save="$work/model"

finish
