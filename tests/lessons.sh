#!/bin/bash
# lessons.sh: runs every command and every program of the lessons, and compares what they print with what
# the pages say. What a page may contain, and what may vary: lessons/README.md, "How a page is written".
#
#     tests/lessons.sh [NN...]       only the pages whose names begin so, as in: tests/lessons.sh 03 12
#     UPDATE=1 tests/lessons.sh      write what this machine prints into the pages
#
# TRAINER is the program; LESSONS the folder with the pages; PYTHON a Python with PyTorch.
cd "$(dirname "$0")/.." || exit 1
root=$PWD
trainer=$(realpath "${TRAINER:-./trainer}")
lessons=${LESSONS:-lessons}
python=${PYTHON:-/usr/bin/python3}
update=${UPDATE:-}
tools=$root/tests/tools
limit_s=120 # so that what hangs is named

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
unset PYTHONUNBUFFERED # it would tear a rank's line in two

# The pages show what cores do, whatever else this machine has; a trainer with CUDA says so first.
export CUDA_VISIBLE_DEVICES=""
on_the_cpu='^Using the CPU: '

command -v "$python" >/dev/null || no_python="no $python"

# Sets no_torch: asked once, by the first page that wants to know, as it takes seconds.
look_for_torch() {
    [ -z "${no_torch+asked}" ] || return
    no_torch=""
    "$python" -c 'import torch' 2>/dev/null || no_torch="no PyTorch (package python3-torch)"
}

# --- one item of a page --------------------------------------------------------------------------------

# What the trainer says it lacks here and the page does not show it lacking, or nothing.
missing_here() {
    says() { grep -q "$1" "$item.got" && ! grep -q "$1" "$item.want"; }
    if says '^NOTE: Fashion-MNIST is not installed'; then
        echo "Fashion-MNIST is not installed"
    elif says 'devices share .* cores*: they cannot all work at once'; then
        echo "too few cores"
    fi
}

# said NAME WORDS STATUS: compares $item.got, with the exit status if it is not 0, with $item.want.
said() {
    local name=$1 words=$2 status=$3
    sed -i "/$on_the_cpu/d" "$item.got"
    [ "$status" = 0 ] || echo "(exit status $status)" >>"$item.got"
    if awk -v task=merge -v words="$words" -f "$tools/lesson_compare.awk" \
        "$item.want" "$item.got" >"$item.new"; then
        echo "ok $name"
        return
    fi
    local why
    why=$(missing_here)
    if [ -n "$why" ]; then
        echo "skip $name: $why"
        cp "$item.want" "$item.new"
        return
    fi
    failures=$((failures + 1))
    echo "not ok $name"
    for side in want got; do
        awk -v task=mask -v words="$words" -f "$tools/lesson_compare.awk" "$item.$side" >"$item.$side.masked"
    done
    diff -U 100 --label 'the page' --label 'this run' "$item.want.masked" "$item.got.masked" |
        sed '/^@@/d; s/^/    /'
}

# A condition that holds, or its reason.
holds() {
    local name=$1 why=$2
    shift 2
    if "$@"; then
        echo "ok $name"
    else
        failures=$((failures + 1))
        echo "not ok $name"
        echo "    $why"
    fi
}

run_console() {
    (cd "$scratch" && timeout -k 5 $limit_s bash -c "$(cat "$item.run")") >"$item.got" 2>&1 </dev/null
    local status=$?
    said "$name: $(head -n 1 "$item.run")" "$words" $status
}

run_python() {
    look_for_torch
    if [ -n "$no_python$no_torch" ]; then
        echo "skip $name: the PyTorch program: $no_python$no_torch"
        cp "$item.want" "$item.new"
        return
    fi
    cp "$item.run" "$scratch/program.py"
    # PyTorch 1.13's gloo now and then aborts or hangs when a process that has done everything ends: a
    # program that fails is run again, twice at most. One that is wrong fails every time.
    local status try
    for try in 1 2 3; do
        (cd "$scratch" && timeout -k 5 $limit_s "$python" program.py) >"$item.got" 2>"$item.err" </dev/null
        status=$?
        [ $status = 0 ] && break
    done
    [ $status = 0 ] || tail -n 20 "$item.err" >>"$item.got"
    [ "$first" != 0 ] || [ $status != 0 ] || cp "$item.got" "$item.want" # a page need not show it
    said "$name: the PyTorch program" "$words" $status
}

check_fragment() {
    if [ -n "$no_python" ]; then
        echo "skip $name: the PyTorch fragment: $no_python"
        return
    fi
    holds "$name: the PyTorch fragment" "it is not Python" \
        "$python" -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$item.run"
}

# Lines of ours, one after the other in one of our files, however they are indented there.
is_in_sources() {
    local file
    for file in "$root"/*.[ch] "$root"/*/*.[ch]; do
        awk 'NR == FNR { sub(/^ +/, ""); want[++n] = $0; next }
             { sub(/^ +/, "")
               for (i = n; i > 1; i--) stands[i] = stands[i - 1] && $0 == want[i]
               stands[1] = $0 == want[1]
               if (stands[n]) exit found = 1 }
             END { exit !found }' "$item.run" "$file" && return
    done
    return 1
}

# `file.c: function`
is_place() {
    local place
    place=$(cat "$item.run")
    [ -e "${place%%: *}" ] && grep -qw -- "${place#*: }" "${place%%: *}"
}

# --- a page --------------------------------------------------------------------------------------------

# Puts what was printed into the page, from its end to its beginning so that line numbers hold.
write_page() {
    local page=$1 kind n line first last words
    cp "$page" "$blocks/page"
    sort -rn -k 3 "$blocks/items" | while IFS=$'\t' read -r kind n line first last words; do
        if [ ! -e "$blocks/$n.new" ] || [ "$first" = 0 ]; then continue; fi
        head -n $((first - 1)) "$blocks/page" >"$blocks/page.new"
        cat "$blocks/$n.new" >>"$blocks/page.new"
        tail -n +$((last + 1)) "$blocks/page" >>"$blocks/page.new"
        mv "$blocks/page.new" "$blocks/page"
    done
    cmp -s "$page" "$blocks/page" || { cp "$blocks/page" "$page" && echo "(written: $page)"; }
}

# A page has a folder in which its commands run one after the other: what one saves, the next can load.
run_page() {
    local page=$1 title kind n line first last words
    title=$(basename "$page" .md)
    blocks=$work/$title.blocks
    scratch=$work/$title
    mkdir -p "$blocks" "$scratch"
    ln -s "$trainer" "$scratch/trainer"
    ln -s "$root/results" "$scratch/results"
    awk -v out="$blocks" -f "$tools/lesson_blocks.awk" "$page" >"$blocks/items"
    while IFS=$'\t' read -r kind n line first last words; do
        local item=$blocks/$n name="$title line $line"
        case $kind in
        console) run_console ;;
        python) run_python ;;
        fragment) check_fragment ;;
        c) holds "$name: lines of ours" "no source file has these lines" is_in_sources ;;
        place) holds "$name: $(cat "$item.run")" "no such file or function" is_place ;;
        *) holds "$name" "$words" false ;;
        esac
    done <"$blocks/items"
    [ -z "$update" ] || write_page "$page"
}

for page in "$lessons"/[0-9][0-9]-*.md; do
    chosen=$([ $# = 0 ] && echo yes)
    for wanted in "$@"; do
        [[ $(basename "$page") == "$wanted"* ]] && chosen=yes
    done
    [ -z "$chosen" ] || run_page "$page"
done
[ "$failures" = 0 ]
