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

finish() {
    [ "$failures" = 0 ]
    exit
}
