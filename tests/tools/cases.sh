# shellcheck shell=bash
# cases.sh: what the test scripts share. A script sources it, makes its checks and ends with `finish`.
#
# TRAINER is the program under test; $work is a directory of the script's own, removed at the end.
TRAINER=${TRAINER:-./trainer}
JSONGET=${JSONGET:-build/tests/tools/jsonget}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# A small job that all scripts use: generated images, a model that a step of takes no time.
small="--data=synthetic --samples=2000 --layers=784,32,10 --batch=60 --device=cpu"

# One line for a case: what it is, and whether it holds.
ok() {
    echo "ok $1"
}
not_ok() {
    echo "not ok $1"
    failures=$((failures + 1))
    shift
    printf '    %s\n' "$@"
}

# run ARGUMENTS: the trainer, with $status, $work/out and $work/err as what came of it.
run() {
    "$TRAINER" "$@" >"$work/out" 2>"$work/err"
    status=$?
}

# shown: all that the last run printed, for the report of a failed case.
shown() {
    echo "exit status $status"
    head -n 20 "$work/err" "$work/out"
}

# expect NAME CONDITION...: a case that holds if the condition, a command, succeeds.
expect() {
    local name=$1
    shift
    if "$@"; then ok "$name"; else not_ok "$name" "failed: $*" "$(shown)"; fi
}

# is WORD WORD: equal, and said so if not.
is() {
    [ "$1" = "$2" ] && return 0
    echo "    \"$1\" is not \"$2\""
    return 1
}

# holds EXPRESSION [NAME=NUMBER...]: arithmetic, by awk.
holds() {
    local expression=$1 variables=()
    shift
    for pair in "$@"; do variables+=(-v "$pair"); done
    awk "${variables[@]}" "BEGIN { exit !($expression) }"
}

# json FILE PATH: a value of a JSON file (tests/tools/jsonget.c).
json() {
    "$JSONGET" "$@"
}

# tensor_bytes FILE KEY: the bytes of a float tensor of a safetensors file.
tensor_bytes() {
    local header begin end
    header=$(od -An -tu8 -N8 "$1" | tr -d ' ')
    read -r begin end < <(tail -c +9 "$1" | head -c "$header" |
        sed 's/.*"'"$2"'":{[^}]*"data_offsets":\[\([0-9]*\),\([0-9]*\)\].*/\1 \2/')
    tail -c +$((9 + header + begin)) "$1" | head -c $((end - begin))
}

# tensor FILE KEY: its numbers, one a line.
tensor() {
    tensor_bytes "$@" | od -An -v -tfF -w4 | tr -d ' '
}

# golden_numbers FILE CASE NAME: of a golden file, the numbers between a line that begins with NAME and the
# next name; after the line CASE and before the next line that begins with the same word as that.
golden_numbers() {
    awk -v case="$2" -v name="$3" '$0 == case { on = 1; next }
        $1 == substr(case, 1, index(case, " ") - 1) { on = 0 }
        on && !/^-?[0-9.e+-]+( |$)/ { of = $1 == name; next } on && of' "$1" | tr ' ' '\n'
}

# near FILE FILE COUNT BOUND: columns of so many numbers, none further apart than the bound.
near() {
    paste "$1" "$2" | awk -v count="$3" -v bound="$4" '
        NF != 2 || ($1 - $2) ^ 2 > bound ^ 2 { print "number " NR ": " $1 " and " $2; bad = 1; exit }
        END { exit bad || NR != count }'
}

finish() {
    [ "$failures" = 0 ]
    exit
}
