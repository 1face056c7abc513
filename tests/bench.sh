#!/bin/bash
# bench.sh: --mode=bench prints nccl-tests' tables of every collective, ends with OK, keeps them as
# JSON, and names a rank that dies. (That a wrong result ends with FAILED: test_bench.c.)
# sanitizers: yes
. tests/tools/cases.sh

bench="--mode=bench --device=cpu"
lines='/^ /' # those with figures

# --- what is measured ---

run $bench --devices=3 --sizes=4K,64K --steps=3 --warmup=1 --json="$work/bench.json"
expect "three ranks: exit status 0" is "$status" 0
expect "the last line is OK" is "$(tail -n 1 "$work/out")" OK
expect "every collective and algorithm has a section" is "$(grep -c '^# Avg bus bandwidth: ' "$work/out")" 7
for section in "all_reduce, shared memory, direct" "all_reduce, shared memory, ring" \
    "all_reduce, shared memory, tree" "all_reduce, shared memory, naive" "all_gather, shared memory" \
    "broadcast, shared memory" "reduce_scatter, shared memory"; do
    expect "a section: $section" grep -qx "# $section" "$work/out"
done
expect "the columns are nccl-tests'" grep -Eqx \
    '# +size +count +type +redop +time +algbw +busbw +#wrong' "$work/out"
expect "units stand under them" grep -Eqx '# +\(B\) +\(elements\) +\(us\) +\(GB/s\) +\(GB/s\)' "$work/out"
expect "a line has eight columns, the last of them 0" is \
    "$(awk "$lines"' { n += NF == 8 && $8 == 0 } END { print n }' "$work/out")" 21
expect "sizes are four times the one before" is \
    "$(awk "$lines"' { print $1 }' "$work/out" | head -n 3 | paste -sd' ')" "4096 16384 65536"
expect "of a gathered buffer each rank has a part" grep -Eq '^ +4080 +340 +float +none ' "$work/out"
expect "of a scattered one, too, and it is a sum" grep -Eq '^ +4080 +340 +float +sum ' "$work/out"
expect "bandwidths follow from size and time" awk "$lines"' {
        off = $6 * $5 / 1e3 - $1 / 1e6 * 1; limit = 0.006 * $5 / 1e3 + 0.006 * $6 / 1e3
        if (off * off > limit * limit) exit 1 }' "$work/out"
expect "every line fits 80 columns" is "$(awk 'length > 80' "$work/out" | wc -l)" 0
expect "nothing on standard error" is "$(cat "$work/err")" ""
expect "more ranks than cores are marked" [ "$(nproc)" -ge 3 -o \
    -n "$(grep '# more ranks than cores' "$work/out")" ]

for path in schema=1 config.mode=bench config.devices=3 config.steps=3 complete=true \
    results.0.collective=all_reduce results.0.algorithm=direct results.3.algorithm=naive \
    results.4.algorithm=null results.4.rows.0.size_bytes=4080 results.4.rows.0.count=340 \
    results.6.rows.2.wrong=0 results.6.rows.2.operations=3; do
    expect "JSON: $path" is "$(json "$work/bench.json" "${path%=*}")" "${path#*=}"
done
busbw() { json "$work/bench.json" "results.$1.rows.1.busbw_gb_s"; }
algbw() { json "$work/bench.json" "results.$1.rows.1.algbw_gb_s"; }
expect "all_reduce: busbw = algbw x 2(n-1)/n" holds "(b - a * 4 / 3)^2 < 1e-10" "b=$(busbw 1)" "a=$(algbw 1)"
expect "all_gather: busbw = algbw x (n-1)/n" holds "(b - a * 2 / 3)^2 < 1e-10" "b=$(busbw 4)" "a=$(algbw 4)"
expect "broadcast: busbw = algbw" is "$(busbw 5)" "$(algbw 5)"

cp "$work/out" "$work/first"
run --replay="$work/bench.json"
expect "a replay prints the same" cmp -s "$work/first" "$work/out"
sed 's/"wrong":[[:space:]]*0/"wrong": 7/' "$work/bench.json" >"$work/wrong.json"
run --replay="$work/wrong.json"
expect "wrong elements end in FAILED" is "$(tail -n 1 "$work/out")" FAILED

# --- what was chosen ---

run $bench --algorithm=ring --sizes=1K --steps=2
expect "--algorithm: this one only" is \
    "$(grep -E '^# [a-z_]+, shared memory' "$work/out")" "# all_reduce, shared memory, ring"
run $bench --collective=broadcast --sizes=1K --steps=2
expect "--collective: this one only" is \
    "$(grep -E '^# [a-z_]+, shared memory' "$work/out")" "# broadcast, shared memory"
run $bench --devices=1 --sizes=4,64 --steps=2
expect "one rank, small buffers: OK" is "$status $(tail -n 1 "$work/out")" "0 OK"
run $bench --devices=5 --sizes=4,1K --steps=2
expect "five ranks, buffers smaller than they are many: OK" is "$status $(tail -n 1 "$work/out")" "0 OK"
run $bench --sizes=1K --collective=all_gather --json=-
expect "JSON on standard output, tables on standard error" is \
    "$(head -c 1 "$work/out") $(tail -n 1 "$work/err")" "{ OK"
expect "operations fill the time there is" holds "n >= 3" \
    "n=$(json "$work/out" results.0.rows.0.operations)"

# --- what is refused ---

run $bench --sizes=1K --json="$work/none/bench.json"
expect "a JSON file that cannot be written is refused first" is "$status $(wc -l <"$work/out")" "2 0"

# --- a rank dies ---

"$TRAINER" $bench --devices=3 --sizes=1M --steps=1000000 >"$work/out" 2>"$work/err" &
parent=$!
victim=
for ((i = 0; i < 200; i++)); do
    victim=$(pgrep -P "$parent" -f . 2>/dev/null | sed -n 2p) # ranks in order: this is rank 1
    [ -n "$victim" ] && [ "$(cat "/proc/$victim/comm" 2>/dev/null)" = "trainer: rank 1" ] && break
    sleep 0.05
done
kill -KILL "$victim"
wait "$parent"
status=$?
expect "a rank killed: exit status 1" is "$status" 1
expect "a rank killed: it is named" grep -Eq \
    'FAILED: rank 1 was killed by signal 9 \(Killed\); its last collective: .+' "$work/err"
expect "a rank killed: the last line is FAILED" is "$(tail -n 1 "$work/out")" FAILED
expect "a rank killed: no process survives" is "$(pgrep -P "$parent")" ""

finish
