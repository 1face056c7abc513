#!/bin/bash
# playback.sh: --slow-motion: the pictures of a step, on a terminal and elsewhere, and a terminal that
# is given back as it was. Pictures are compared with the time that they show, never with the clock.
. tests/tools/cases.sh
PTY=${PTY:-build/tests/tools/pty}
export TERM=xterm
unset NO_COLOR COLUMNS
two=tests/fixtures/made_up_two_devices.json
four=tests/fixtures/made_up_four_devices.json

# on_terminal ROWS COLUMNS EVENT... -- ARGUMENTS: its screens in $work/out, their last line in $end.
on_terminal() {
    local before=()
    while [ "$1" != -- ]; do
        before+=("$1")
        shift
    done
    shift
    timeout 600 "$PTY" "${before[@]}" -- "$TRAINER" "$@" >"$work/out" 2>"$work/err" </dev/null
    status=$?
    end=$(tail -n 1 "$work/out")
}
whole=", beyond 0, alternate 0, hidden 0, unwrapped 0, raw 0"

# --- elsewhere: a few pictures as text ---

run --replay=$two --slow-motion=400 </dev/null
expect "piped: exit status 0" is "$status" 0
expect "piped: five pictures" is "$(grep -c '^One step of DP and DDP on 2 devices, 400 times slower' "$work/out")" 5
expect "piped: no escape sequence" is "$(grep -c $'\033' "$work/out")" 0
expect "piped: at most 80 columns" awk 'length > 80 { print; bad = 1 } END { exit bad }' "$work/out"
expect "piped: the times" is "$(sed -n 's/ of 9.11 ms$//p' "$work/out" | paste -sd' ')" "1.82 3.64 5.47 7.29 9.11"
expect "piped: the last picture" is "$(tail -n 21 "$work/out" | head -n 20)" "\
One step of DP and DDP on 2 devices, 400 times slower than it was
9.11 of 9.11 ms

DP  boss   ICCCCCCCFFFFFFFFFFFBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBRRRRRRRRUUUU
           done
    dev 1  ........FFFFFFFFFF.BBBBBBBBBBBBBBBBBBBBBBBBBBBBB.............
           done
DDP rank 0 FFFFFFFFFFFBBBBBBBBBBBBBBBBBBBBBBBBBBBBBWWWUUUU
           done
    comm 0 .....................AAAAA..............WAA....
           done
    rank 1 FFFFFFFFFFBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBWWWUUUU
           done
    comm 1 .....................AAAA...............WAA....
           done

I input  C copy  F forward  B backward  R reduce  U update  W wait  A all-reduce
DDP finished this step first, 2.07 ms (23 % of 9.11 ms) before DP.
In DP the boss waited 0.00 ms, device 1 3.19 ms.
In DDP rank 0 waited 0.36 ms, rank 1 0.45 ms."
expect "piped: the first picture" is "$(sed -n 4,15p "$work/out")" "\
DP  boss   ICCCCCCCFFFFF
           forward: images to outputs
    dev 1  ........FFFFF
           forward: images to outputs
DDP rank 0 FFFFFFFFFFFBB
           backward: computing gradients
    comm 0 .............
           idle: no bucket is full
    rank 1 FFFFFFFFFFBBB
           backward: computing gradients
    comm 1 .............
           idle: no bucket is full"
expect "piped: the fourth: DDP is done, DP is not" is "$(sed -n '/^7.29/,/^I input/p' "$work/out" | grep '^  *[a-z]*:* ' |
    grep -v ' dev 1 \| comm \| rank ' | sed 's/^ *//' | paste -sd,)" \
    "adding up the gradients,waiting for the boss,done,done,done,done"
run --replay=$four --slow-motion=400 </dev/null
expect "the largest device count" grep -q '^One step of DP and DDP on 4 devices' "$work/out"
expect "many devices: two stand for all" is "$(grep -c 'devices 2-3 not drawn' "$work/out")" 5
expect "who finished first" grep -qxF "DDP finished this step first, 6.5 ms (62 % of 10.5 ms) before DP." "$work/out"
run --replay=tests/fixtures/made_up_dp_wins.json --slow-motion=1 </dev/null
expect "when DP wins, it is said" grep -q "^DP finished this step first" "$work/out"
expect "K = 1" grep -q ", as fast as it was$" "$work/out"
run --replay=tests/fixtures/made_up_one_run_single.json --slow-motion=2.5 </dev/null
expect "one run: that run" grep -qx "One step of one device, 2.5 times slower than it was" "$work/out"
TERM=dumb on_terminal 24 80 -- --replay=$two --slow-motion=1e6
expect "TERM=dumb: as if piped" is "$end" "--- end: status 0$whole"
echo '{"schema": 1, "results": [{"mode": "dp", "devices": 2}]}' >"$work/none.json"
run --replay="$work/none.json" --slow-motion=2 </dev/null
expect "no timeline: refused" is "$(cat "$work/err")" \
    "trainer: $work/none.json: none of its runs has a \"timeline\", so there is nothing to play"
expect "no timeline: exit status 2" is "$status" 2

# --- on a terminal: every picture is right for the time that it shows ---

# A letter is 0.15 ms at 80 columns. The clock shows two decimals, so a letter more or less is right.
cat >"$work/check.awk" <<'AWK'
function length_of(lane, step_ms,    expected, drawn) {
    expected = now / 0.15
    if (expected > step_ms / 0.15) expected = step_ms / 0.15
    drawn = length(substr($0, 12))
    if (drawn < expected - 1 || drawn > expected + 1.1) { print "at " now " ms: " $0; bad = 1 }
}
/^--- screen/ { screens++ }
/ of 9.11 ms/ { if ($1 < now) bad = 1; now = $1 }
/^DP  boss/ { length_of("boss", 9.11) }
/^    dev 1/ { length_of("dev 1", 9.11) }
/^DDP rank 0/ { length_of("rank 0", 7.04); in_ddp = 1; next }
in_ddp { in_ddp = 0; if (now > 7.05 && $1 != "done" || now < 7 && $1 == "done") { print now ": " $0; bad = 1 } }
END { print screens " screens"; exit bad || screens < 5 }
AWK
on_terminal 24 80 -- --replay=$two --slow-motion=150
expect "every picture is right for its time" awk -f "$work/check.awk" "$work/out"
expect "played to its end: the terminal is as before" is "$end" "--- end: status 0$whole"
expect "the last picture stays" grep -qxF "DDP finished this step first, 2.07 ms (23 % of 9.11 ms) before DP." "$work/out"

for size in "12 40" "24 80" "40 120" "8 80" "5 40"; do
    # shellcheck disable=SC2086 # two words
    on_terminal $size key=q@'ms ' -- --replay=$four --slow-motion=1e6
    expect "$size: fits, and q ends it" is "$end" "--- end: status 0$whole"
done
on_terminal 24 80 size=12x40@"q ends" size=40x120@"times slower" key=q@"than it was" -- --replay=$two --slow-motion=1e6
expect "another size: drawn anew" is "$end" "--- end: status 0$whole"

# --- whatever ends it ---

on_terminal 24 80 key=q@"of 9.11" -- --replay=$two --slow-motion=1e5
expect "q: ends, exit status 0" is "$end" "--- end: status 0$whole"
on_terminal 24 80 key=^C@"of 9.11" -- --replay=$two --slow-motion=1e5
expect "Ctrl-C: exit status 130" is "$end" "--- end: status 130$whole"
for number in 15 1 3; do
    on_terminal 24 80 signal=$number@"of 9.11" -- --replay=$two --slow-motion=1e5
    expect "signal $number: exit status $((128 + number))" is "$end" "--- end: status $((128 + number))$whole"
done
on_terminal 24 80 key=" "@"space pauses" key=^C@"paused: space goes on" -- --replay=$two --slow-motion=1000
expect "space pauses, and Ctrl-C ends a pause" is "$end" "--- end: status 130$whole"
on_terminal 24 80 key=" "@"space pauses" key=" "@"paused: space goes on" -- --replay=$two --slow-motion=50
expect "space goes on" grep -q "^DDP finished this step first" "$work/out"
on_terminal 24 80 key=q@"takes 15 min" -- --replay=$two --slow-motion=1e5
expect "a long play says how long" is "$end" "--- end: status 0$whole"
on_terminal 24 80 signal=20@"of 9.11" signal=18@"of 9.11" key=q@"of 9.11" -- --replay=$two --slow-motion=1e5
expect "stopped and gone on" is "$end" "--- end: status 0$whole"

# --- after a run ---

# shellcheck disable=SC2086 # words
on_terminal 30 80 key=x@"any key goes on" -- $small --devices=2 --steps=10 --slow-motion=50 --json="$work/run.json"
expect "after a run: waits for a key, then the tables" grep -q "^machine limit" "$work/out"
expect "after a run: exit status 0" is "$end" "--- end: status 0$whole"
# shellcheck disable=SC2086
on_terminal 30 80 key=^C@"any key goes on" -- $small --devices=2 --steps=10 --slow-motion=50
expect "Ctrl-C after a run: the tables all the same" grep -q "^machine limit" "$work/out"
expect "Ctrl-C after a run: exit status 130" is "$end" "--- end: status 130$whole"
# shellcheck disable=SC2086
run $small --mode=ddp --devices=2 --steps=10 --slow-motion=50 --json=- --quiet </dev/null
expect "--json=-: the play goes where the tables go" is "$(json "$work/out" schema)" 1
expect "--json=-: five pictures" is "$(grep -c '^One step of DDP' "$work/err")" 5

finish
