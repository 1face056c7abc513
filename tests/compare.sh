#!/bin/bash
# compare.sh: what compare reports: one JSON object with every field that is promised, bytes that equal
# the formulas, phases that add up to the step, and tables that a replay prints once more.
. tests/tools/cases.sh
report=$work/report.json
value() {
    json "$report" "$@"
}
has() {
    value "$@" >"$work/values"
}

# --- where it is written ---

run $small --devices=2,3,4 --steps=20 --log-losses --json="$report"
expect "exit status 0" is "$status" 0
expect "--json=FILE: tables on standard output" grep -q "machine limit" "$work/out"
expect "--json=FILE: no table on standard error" is "$(grep -c "machine limit" "$work/err")" 0
cp "$work/out" "$work/tables"

run --replay="$report"
expect "--replay: exit status 0" is "$status" 0
expect "--replay: the same tables" cmp "$work/out" "$work/tables"
expect "--replay: nothing else" test ! -s "$work/err"
for depth in developer researcher; do
    run $small --devices=2 --steps=10 --depth=$depth --json=-
    expect "--json=-, $depth: exit status 0" is "$status" 0
    expect "--json=-, $depth: one JSON value on standard output" is "$(json "$work/out" schema)" 1
    expect "--json=-, $depth: the tables on standard error" grep -q "machine limit" "$work/err"
    cp "$work/err" "$work/tables"
    cp "$work/out" "$work/run.json"
    run --replay="$work/run.json" --depth=$depth
    expect "--replay, $depth: the same tables" cmp "$work/out" "$work/tables"
    expect "$depth: at most 80 columns" awk 'length > 80 { print; bad = 1 } END { exit bad }' "$work/tables"
done

# --- what is in it ---

expect "schema 1" is "$(value schema)" 1
environment="host cpu cores gpus libraries revision command date"
expect "environment: every field" has $(printf 'environment.%s ' $environment)
config="mode layers parameters model_bytes batch epochs steps warmup optimizer lr momentum weight_decay
    seed data train_samples test_samples device comm bucket_mb overlap timeout_s"
expect "config: every field" has $(printf 'config.%s ' $config)
expect "config: layers as given" is "$(value config.layers)" "[784,32,10]"
expect "config: 784 * 32 + 32 + 32 * 10 + 10 weights" is "$(value config.parameters)" 25450
expect "a result for each run: 1 + 3 * 4" is "$(value "results.#")" 13

fields="mode devices processes threads model_copies device_kind transport step_ms.median step_ms.p05
    step_ms.p95 step_ms.n samples_per_s speedup efficiency batch_per_device traffic.busiest.sent
    traffic.busiest.received traffic.total traffic.by_kind.model traffic.by_kind.inputs
    traffic.by_kind.outputs traffic.by_kind.output_gradients traffic.by_kind.parameter_gradients
    memory.0.device memory.0.peak_bytes busy.0.device busy.0.share timeline.0.lane timeline.0.phase
    timeline.0.start_ms timeline.0.end_ms"
phases="input replicate scatter forward gather loss scatter_grad backward reduce late_colleague transfer
    update other"
for index in 0 1 2 3 4 5 6 7 8 9 10 11 12; do
    at=results.$index
    name="$(value $at.mode) on $(value $at.devices)"
    expect "$name: every field" has $(printf "$at.%s " $fields) \
        $(printf "$at.phases_ms.%s " $phases)
    expect "$name: as many steps as asked for" is "$(value $at.step_ms.n)" 20
    expect "$name: p05 <= median <= p95" holds "a > 0 && a <= b && b <= c" \
        a="$(value $at.step_ms.p05)" b="$(value $at.step_ms.median)" c="$(value $at.step_ms.p95)"
    expect "$name: samples per second" holds "(s * m / 60000 - 1) ^ 2 < 1e-12" \
        s="$(value $at.samples_per_s)" m="$(value $at.step_ms.median)"
    expect "$name: speed-up and efficiency" holds "(s * m / one - 1) ^ 2 < 1e-12 && (e * n / s - 1) ^ 2 < 1e-12" \
        s="$(value $at.speedup)" e="$(value $at.efficiency)" m="$(value $at.step_ms.median)" \
        one="$(value results.mode=single.step_ms.median)" n="$(value $at.devices)"
    expect "$name: memory of every device" is "$(value "$at.memory.#")" "$(value $at.devices)"
    if [ "$(value $at.mode)" != limit ]; then
        expect "$name: what it learned" has $at.loss $at.accuracy $at.max_abs_weight_diff
        expect "$name: a loss for every step" is "$(value "$at.losses.#")" "$(value config.total_steps)"
    fi
done
for devices in 2 3 4; do
    comparison=comparisons.devices=$devices
    expect "comparison of $devices: every field" has $comparison.ddp_faster_percent.median \
        $comparison.ddp_faster_percent.low $comparison.ddp_faster_percent.high \
        $comparison.overlap_saved_ms
    expect "comparison of $devices: low <= median <= high" holds "a <= b && b <= c" \
        a="$(value $comparison.ddp_faster_percent.low)" b="$(value $comparison.ddp_faster_percent.median)" \
        c="$(value $comparison.ddp_faster_percent.high)"
    expect "comparison of $devices: DP equals DDP" is "$(value $comparison.dp_equals_ddp)" true
done

processes() {
    value "results.mode=$1&devices=3.processes" "results.mode=$1&devices=3.model_copies" | paste -sd' '
}
expect "DP on 3: one process, three copies" is "$(processes dp)" "1 3"
expect "DDP on 3: three processes, three copies" is "$(processes ddp)" "3 3"

# --- bytes ---

# P bytes of weights; X of inputs and Y of outputs belong to devices other than the boss.
weights=$(value config.model_bytes)
for devices in 2 3 4; do
    others=$((60 - 60 / devices))
    x=$((others * 784 * 4))
    y=$((others * 10 * 4))
    p=$(((devices - 1) * weights))
    traffic="results.mode=dp&devices=$devices.traffic"
    expect "DP on $devices: model" is "$(value $traffic.by_kind.model)" $p
    expect "DP on $devices: inputs" is "$(value $traffic.by_kind.inputs)" $x
    expect "DP on $devices: outputs" is "$(value $traffic.by_kind.outputs)" $y
    expect "DP on $devices: output gradients" is "$(value $traffic.by_kind.output_gradients)" $y
    expect "DP on $devices: parameter gradients" is "$(value $traffic.by_kind.parameter_gradients)" $p
    expect "DP on $devices: the boss sends" is "$(value $traffic.busiest.sent)" $((p + x + y))
    expect "DP on $devices: the boss receives" is "$(value $traffic.busiest.received)" $((p + y))
    expect "DP on $devices: all links" is "$(value $traffic.total)" $((2 * p + x + 2 * y))
    for mode in ddp ddp_no_overlap; do
        traffic="results.mode=$mode&devices=$devices.traffic"
        expect "$mode on $devices: all links" is "$(value $traffic.total)" $((2 * p))
        expect "$mode on $devices: gradients only" is "$(value $traffic.by_kind.parameter_gradients)" $((2 * p))
        # a rank's slice ends on a cache line, so the busiest may have a line more than its share
        for way in sent received; do
            expect "$mode on $devices: the busiest has its share $way" holds \
                "d >= 0 && d <= 2 * (n - 1) * 64" n=$devices \
                d=$(($(value $traffic.busiest.$way) - 2 * p / devices))
        done
    done
    expect "limit on $devices: nobody talks" is "$(value "results.mode=limit&devices=$devices.traffic.total")" 0
done
expect "one device: no traffic" is "$(value results.mode=single.traffic.total)" 0

# --- time ---

# Every moment of a step belongs to a phase. A process may lose its core between two of them, so what
# counts is the middle one of nine runs.
report=$work/phases.json
run --data=synthetic --samples=4000 --layers=784,256,128,10 --device=cpu --steps=30 --devices=2 --quiet \
    --json="$report"
for mode in single dp ddp ddp_no_overlap limit; do
    at=results.mode=$mode
    sum=$(for phase in $phases; do value $at.phases_ms.$phase; done | awk '{ sum += $1 } END { print sum }')
    expect "$mode: phases and other add up to a step" holds "sum >= low * 0.999 && sum <= high * 1.001" \
        sum="$sum" low="$(value $at.step_ms.p05)" high="$(value $at.step_ms.p95)"
    none=0
    for phase in $phases; do
        holds "ms < 0" ms="$(value $at.phases_ms.$phase)" && [ $phase != other ] && none=1
    done
    expect "$mode: no phase is negative" is $none 0
done
for attempt in 1 2 3 4 5 6 7 8 9; do
    run --data=synthetic --samples=4000 --layers=784,256,128,10 --device=cpu --steps=10 --devices=2 --quiet \
        --json="$report"
    for mode in single dp ddp ddp_no_overlap limit; do
        echo "$mode $(value results.mode=$mode.phases_ms.other) $(value results.mode=$mode.step_ms.median)"
    done
done >"$work/other"
for mode in single dp ddp ddp_no_overlap limit; do
    share=$(awk -v mode=$mode '$1 == mode { print 100 * $2 / $3 }' "$work/other" | sort -g | sed -n 5p)
    expect "$mode: other is at most 2 % of the step" holds "share <= 2" share="$share"
done

# --- by epochs ---

run $small --devices=2 --epochs=2
for who in "one device" "DP, 2 devices" "DDP, 2 devices" "DDP without overlap, 2 devices"; do
    for epoch in 1 2; do
        expect "$who: a line for epoch $epoch" is \
            "$(grep -cE "^$who: epoch $epoch of 2: loss [0-9.]+, test accuracy [0-9.]+ %, [0-9.]+ s$" "$work/err")" 1
    done
done
expect "no line for the limit, which trains nothing" is "$(grep -c '^machine limit.*epoch' "$work/err")" 0
run $small --devices=2 --epochs=2 --quiet
expect "--quiet: no lines" test ! -s "$work/err"

# --- a guess ---

run $small --devices=2 --guess=900% --quiet --json="$report"
expect "a guess: exit status 0" is "$status" 0
expect "a guess: judged" grep -qE "^Your guess, \+900 %: wrong by [0-9]+ points. DDP did [+-][0-9]+ % " "$work/out"
expect "a guess: why" grep -q "^Why: DP copies .* its boss works alone .*; DDP waits " "$work/out"
expect "a guess: kept in the JSON" is "$(value config.guess_percent)" 900
cp "$work/out" "$work/tables"
run --replay="$report"
expect "a guess: the same tables" cmp "$work/out" "$work/tables"

# --- when it has not gone well ---

run --replay=tests/fixtures/made_up_failed_equality.json
expect "DP and DDP differ: FAILED is printed" grep -q FAILED "$work/out"
expect "DP and DDP differ: exit status 1" is "$status" 1
expect "DP and DDP differ: one line on standard error" grep -q "^trainer: FAILED: DP and DDP" "$work/err"

finish
