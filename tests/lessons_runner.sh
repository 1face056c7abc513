#!/bin/bash
# lessons_runner.sh: that tests/lessons.sh notices what a lesson gets wrong, and nothing else. Pages are made
# here; their commands are the shell's.
. "$(dirname "$0")/tools/cases.sh"
cd "$(dirname "$0")/.." || exit 1
mkdir "$work/pages"

# page < TEXT: makes it the only page. judged: what the runner says of it, in $work/said, and $status.
page() {
    cat >"$work/pages/01-page.md"
}
judged() {
    LESSONS=$work/pages TRAINER=$TRAINER tests/lessons.sh "$@" >"$work/said" 2>&1
    status=$?
}

# A block of the page: block INFO LINE...
block() {
    printf '```%s\n' "$1"
    shift
    [ $# = 0 ] || printf '%s\n' "$@"
    printf '```\n'
}

# right NAME, wrong NAME: what the runner should find of the page on standard input.
right() {
    page
    judged
    if [ $status = 0 ] && ! grep -qv '^ok ' "$work/said" && [ -s "$work/said" ]; then
        ok "$1"
    else
        not_ok "$1" "said:" "$(cat "$work/said")"
    fi
}
wrong() {
    page
    judged
    if [ $status = 1 ] && grep -q '^not ok ' "$work/said" && ! grep -q 'awk:' "$work/said"; then
        ok "$1"
    else
        not_ok "$1" "said:" "$(cat "$work/said")"
    fi
}

# --- to the letter -------------------------------------------------------------------------------------

block console '$ echo one; echo two >&2' one two '$ echo three' three | right "equal output, both streams"
block console '$ echo one' won | wrong "a changed word"
block console '$ echo "one  two"' 'one two' | wrong "a changed blank"
block console '$ echo "one  "' 'one' | right "blanks at the end are nothing to see"
block console '$ echo 3.0' 4.0 | wrong "a changed number"
block console '$ echo one; echo two' one | wrong "a missing line"
block console '$ echo one' one two | wrong "a line too many"
block console '$ true' | right "no output"
block console '$ echo one' | wrong "output where there was none"
block console '$ true' one | wrong "none where there was output"
block console '$ echo one; exit 3' one '(exit status 3)' | right "an exit status that the page shows"
block console '$ echo one; exit 3' one '(exit status 1)' | wrong "a changed exit status"
block console '$ echo one; exit 3' one | wrong "a failure that the page does not show"
block console '$ echo one' one '(exit status 1)' | wrong "a failure that did not come"
block console '$ echo rank 0: pid $$' 'rank 0: pid 12345' | right "numbers of processes may differ"
block console '$ echo one \' '    two' 'one two' | right "a command of two lines"
block console '$ echo one >kept' '$ cat kept' one | right "a page's commands share a folder"
block console '$ [ -x trainer ] && ls results/*.md' '...' | right "the trainer and the results are there"
block console '$ echo Using the CPU: no NVIDIA driver; echo one' one |
    right "what a trainer with CUDA says first is not the lesson's business"
block console '$ cat' | right "nothing to read on standard input"

# --- what may vary -------------------------------------------------------------------------------------

block console '$ seq 5' 1 ... 5 | right "lines left out"
block console '$ seq 5' ... 4 5 | right "the first lines left out"
block console '$ seq 5' 1 ... | right "the last lines left out"
block console '$ seq 5' ... 2 ... 4 ... | right "a line among lines left out"
block console '$ seq 5' 1 ... 2 3 4 5 | right "no line left out"
block console '$ printf "1\n2\n1\n2\n"' ... 1 2 | right "the last place counts at the end"
block console '$ seq 5' 1 ... 4 | wrong "the end is not left out"
block console '$ seq 5' 2 ... 5 | wrong "the beginning is not left out"
block console '$ seq 5' 1 ... 7 ... 5 | wrong "a line that did not come among lines left out"
block console '$ seq 5' ... 4 ... 2 ... | wrong "pieces in another order"
block console '$ seq 2' 1 ... 1 2 2 | wrong "a line may not count twice"

block 'console numbers' '$ echo "DP  2 devices   12.25  3,100 MB -6.4 to +30.4 4e-03"' \
    'DP  2 devices    9.5  99 MB +1.0 to -3 7' | right "numbers may differ, and the blanks beside them"
block 'console numbers' '$ echo "DDP 2 devices 12.25"' 'DP 2 devices 12.25' | wrong "not the words around them"
block 'console numbers' '$ echo "step 20, 1,234 images"' 'step 4, 1 images' | right "the commas of thousands are part of a number"
block 'console numbers' '$ echo "step 20, phase"' 'step 20 phase' | wrong "other commas are not"
block 'console numbers' '$ exit 3' '(exit status 3)' | right "an exit status beside numbers"
block 'console numbers' '$ exit 3' '(exit status 1)' | wrong "it may not differ"
block 'console numbers' '$ echo "2.5 ms"' '2.5 s' | wrong "not the units"
block 'console numbers' '$ echo "one two"' 'one' | wrong "not their words' number"
block 'console numbers' \
    "\$ printf 'DP  boss   ICFFB.\\n    dev 1  ..FB..\\nI input  F forward  A all-reduce\\n'" \
    'DP  boss   ICFB' '    dev 1  .FB' 'I input  C copy  F forward' | right "a timeline's letters may differ"
block 'console numbers' \
    "\$ printf 'I input  A all-reduce\nR reduce   not drawn, too short: input, loss\nend\n'" \
    'R reduce  W wait' end | right "nor need they be explained in as many lines"
block 'console numbers' "\$ printf 'I input  C copy\nend\n'" end | wrong "but they must be explained"
block 'console numbers' "\$ echo one device  FFB" 'one device FBBBB' | right "one device's lane, too"
block 'console numbers' '$ echo "DP  boss   ICFFB."' 'DDP boss   ICFFB.' | wrong "not what its lanes are called"

block 'console unordered' '$ printf "rank 1\nrank 0\nend\n"' 'rank 0' 'rank 1' end | right "any order"
block 'console unordered' '$ printf "rank 1\nrank 1\n"' 'rank 0' 'rank 1' | wrong "not other lines"
block 'console unordered' '$ printf "a\nb\n"' a a | wrong "not the same line twice"
block 'console unordered' '$ printf "rank 1\nrank 0\n"' 'rank 0' | wrong "not more lines"
block 'console unordered' '$ printf "a\nb\nc\n"' c ... a | right "any order, lines left out"
block 'console unordered' '$ printf "a\nb\nc\n"' d ... a | wrong "any order, a line that did not come"
block 'console numbers unordered' '$ printf "b 2\na 1\n"' 'a 7' 'b 8' | right "any order, any numbers"
block console '$ printf "rank 1\nrank 0\n"' 'rank 0' 'rank 1' | wrong "the order counts if nothing else is said"

# --- the page itself -----------------------------------------------------------------------------------

block consol '$ echo one' one | wrong "no such block"
block 'console number' '$ echo one' one | wrong "no such word"
block console one | wrong "a block without a command"
printf '```console\n$ echo one\none\n' | wrong "a block without an end"
block '' "$(printf '%080d' 0)" | wrong "a picture that is too wide"
printf 'See `ddp.c: gradient_ready`.\n' | right "a place in our source"
printf 'See `ddp.c: gradient_rady`.\n' | wrong "a function that is not there"
printf 'See `dddp.c: gradient_ready`.\n' | wrong "a file that is not there"
block c 'timer_phase(timer, PHASE_FORWARD);' '    model_forward(model, rows);' | right "lines of ours"
block c 'timer_phase(timer, PHASE_FORWARD);' 'model_backward(model, rows);' | wrong "lines that are not ours"
if command -v "${PYTHON:-/usr/bin/python3}" >/dev/null; then
    block 'python fragment' 'model = wrap(model)' | right "a fragment of Python"
    block 'python fragment' 'model = wrap(model' | wrong "a fragment that is not Python"
fi
if "${PYTHON:-/usr/bin/python3}" -c 'import torch' 2>/dev/null; then
    { block python 'print(2 + 1)' && echo 'prints' && block text 3; } | right "a program"
    { block python 'print(2 + 1)' && block text 4; } | wrong "a program that prints something else"
    { block python 'print(2 + 1)'; } | right "a program whose output is not shown"
    { block python 'raise SystemExit(3)'; } | wrong "a program that fails"
fi
block text 3 | wrong "output of no program"

# --- skipping and updating -----------------------------------------------------------------------------

note='NOTE: Fashion-MNIST is not installed (package dataset-fashion-mnist)'
block console "\$ echo '$note'; echo one" two | page
judged
expect "without the data set a command is skipped" grep -q '^skip .*Fashion-MNIST' "$work/said"
cp "$work/pages/01-page.md" "$work/wanted"
UPDATE=1 judged
expect "and what the page says of it stays" diff "$work/wanted" "$work/pages/01-page.md"
block console '$ echo "* 2 devices share 1 core: they cannot all work at once."' two | page
judged
expect "and where it has too few cores" grep -q '^skip .*cores' "$work/said"
block console '$ echo one' won | page
judged 02
expect "other pages are not run" [ ! -s "$work/said" ]

{
    echo before
    block 'console numbers' '$ seq 3' 7 ... 9 '$ echo one' two '$ true' gone
    block console '$ echo more'
    echo after
} | page
UPDATE=1 judged
{
    echo before
    block 'console numbers' '$ seq 3' 1 ... 3 '$ echo one' one '$ true'
    block console '$ echo more' more
    echo after
} >"$work/wanted"
expect "UPDATE=1 writes what was printed" diff "$work/wanted" "$work/pages/01-page.md"
judged
expect "which is then right" is "$status" 0

finish
