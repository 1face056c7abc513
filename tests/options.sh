#!/bin/bash
# options.sh: how the program answers to its command line: exit statuses, one line for what is wrong,
# nothing begun or overwritten before all of it has been checked.
# sanitizers: yes
. tests/tools/cases.sh

# refused NAME SENTENCE ARGUMENTS: status 2, nothing on standard output, one line on standard error.
refused() {
    local name=$1 sentence=$2
    shift 2
    run "$@"
    if [ "$status" = 2 ] && [ ! -s "$work/out" ] && [ "$(cat "$work/err")" = "trainer: $sentence" ]; then
        ok "refused: $name"
    else
        not_ok "refused: $name" "$(shown)"
    fi
}

# --- what is refused (every sentence there is: test_options.c) ---

refused "an option that does not exist" "--colour: no such option; --help lists them" --colour=red
refused "a slip" "--device=2: did you mean --devices=2? (--device is auto, cpu or cuda)" --device=2
refused "a word" "ddp: did you mean --mode=ddp?" ddp
refused "a number out of range" "--batch=0: must lie between 1 and 1048576" --batch=0
refused "a missing value" "--lr: needs a value: --lr=X" --lr
refused "a zero-width layer" "--layers=784,0,10: 0 must lie between 1 and 1048576" --layers=784,0,10
refused "options that contradict each other" \
    "--epochs and --steps both say how long to train: give one of them" --epochs=1 --steps=1
refused "a replay with other options" \
    "--replay prints an old run and runs nothing: only --depth and --slow-motion go with it" --replay=x --quiet
refused "a replay of nothing" "$work/none.json: cannot be opened: No such file or directory" \
    --replay="$work/none.json"
echo "this is no JSON" >"$work/words.json"
refused "a replay of something else" "$work/words.json: not a JSON file" --replay="$work/words.json"
refused "more devices than images in a batch" \
    "--batch=3 is less than --devices=4: some would have nothing to do; give at least one image each" \
    $small --batch=3 --mode=dp --devices=4
refused "more classes than outputs" \
    "--layers ends with 9, but synthetic has 10 classes: end with 10 or more" $small --layers=784,9
refused "a batch larger than the data" \
    "--batch=2001 is more than the 2000 training images of synthetic" $small --batch=2001
refused "data that is not there" "--data=$work/none: No such file or directory; give fashion-mnist, \
synthetic or a directory of IDX files" --data="$work/none"
refused "comparing one device" \
    "--devices=1: comparing needs two devices or more; to train on one: --mode=single" $small --devices=1
refused "losses that nothing would write" \
    "--log-losses writes them into the JSON: give --json=FILE, too" $small --log-losses
refused "a JSON file that cannot be written" \
    "--json=$work/none/run.json: cannot be written: $work/none: No such file or directory" \
    $small --json="$work/none/run.json"
refused "a directory for the JSON" "--json=$work: is a directory; give a file in it" \
    $small --json="$work"

# Whatever the option and whatever is wrong with its value: status 2 and one line, which names both.
for option in mode devices device comm replicate precision layers batch epochs steps warmup optimizer \
    lr momentum weight-decay seed data samples bucket-mb overlap timeout depth json; do
    wrong=
    for value in "/no/such" "-1x" $'two\nlines' ""; do
        [ "$option$value" = "json-1x" ] || [ "$option$value" = $'jsontwo\nlines' ] && continue # good names
        run "--$option=$value"
        if [ "$status" != 2 ] || [ -s "$work/out" ] || [ "$(wc -l <"$work/err")" != 1 ] ||
            ! grep -q "^trainer: --$option=" "$work/err"; then
            wrong="$wrong --$option=$value: status $status, $(cat "$work/out" "$work/err")"
        fi
    done
    expect "bad values of --$option: one line each" is "$wrong" ""
done
run $small --mode=single --device=cpu --layers=784,1048576,1048576,10
expect "a model larger than the memory: status 2" is "$status" 2
expect "a model larger than the memory: says what it needs" \
    grep -q '^trainer: 1100346 million weights, .* GB at least; this machine has' "$work/err"

echo "last week's results" >"$work/old.json"
run $small --json="$work/old.json" --layers=784,9
expect "a refused command leaves an old file as it was" \
    is "$(cat "$work/old.json")" "last week's results"

# --- what is printed ---

run --help
expect "--help: exit status 0" is "$status" 0
expect "--help: on standard output only" test ! -s "$work/err" -a -s "$work/out"
expect "--help: at most 80 columns" awk 'length > 80 { print; bad = 1 } END { exit bad }' "$work/out"
missing=
for option in mode devices device comm layers batch epochs steps warmup optimizer lr momentum \
    weight-decay seed data samples bucket-mb overlap timeout depth json replay log-losses quiet help \
    version oversubscribe replicate precision save load resume wrapped-keys weights-only strict slow-motion; do
    grep -q -- "--$option\b" "$work/out" || missing="$missing --$option"
done
expect "--help: names every option" is "$missing" ""

run --version
expect "--version: one line, exit status 0" grep -qx 'trainer [^ ]*' "$work/out"
expect "--version: exit status 0" is "$status" 0

# --- what is done ---

run $small --mode single --devices 1 --steps 3 --quiet
expect "values may be the next word" is "$status" 0
expect "--quiet: nothing on standard error" test ! -s "$work/err"

run $small --mode=ddp --steps=3 --json=-
expect "--json=-: exit status 0" is "$status" 0
expect "--json=-: one JSON value on standard output" is "$(json "$work/out" schema)" 1
expect "--json=-: tables on standard error" grep -q 784 "$work/err"

if [ -w /dev/full ]; then
    run $small --mode=single --steps=3 --quiet --json=/dev/full
    expect "a full disk: exit status 1" is "$status" 1
    expect "a full disk: named" grep -qx \
        'trainer: /dev/full: cannot write the JSON: No space left on device' "$work/err"
else
    echo "skip a full disk: no /dev/full here"
fi

finish
