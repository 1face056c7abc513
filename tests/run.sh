#!/bin/bash
# run.sh: runs every test program in every build, and every test script. A line per program; whatever
# a failing one printed; in the end the sum, as "N passed, N failed".
#
# Programs are cmocka's and report in the Test Anything Protocol. Scripts print a line per case,
# "ok NAME", "not ok NAME" or "skip NAME: WHY"; with a line "# sanitizers: yes" near their top they are
# run with the sanitizer builds, too. TRAINER is the program that they test.
#
#     tests/run.sh [NAME...]      only these, as in: tests/run.sh test_comm options
cd "$(dirname "$0")/.." || exit 1
passed=0
failed=0
skipped=0

# Longer than any of them takes: only so that a hanging test ends, and is named.
limit_s=1800

work=$(mktemp -d)
log=$work/log
trap 'rm -rf "$work"' EXIT

# --- sanitizers --------------------------------------------------------------------------------------

# OpenBLAS's own threads begin before main, which ThreadSanitizer does not allow where forks follow.
export OPENBLAS_NUM_THREADS=1
export CMOCKA_MESSAGE_OUTPUT=TAP
export TSAN_OPTIONS="halt_on_error=1:die_after_fork=0:$TSAN_OPTIONS"
export ASAN_OPTIONS="detect_leaks=1:$ASAN_OPTIONS"
export UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1:$UBSAN_OPTIONS"

# sanitized KIND COMMAND...: whether an empty program runs with that sanitizer, under the command.
sanitized() {
    local program=$work/$1
    [ -e "$program" ] || echo 'int main(void) { return 0; }' |
        ${CC:-gcc} -fsanitize="$1" -x c - -o "$program" || return 1
    shift
    "$@" "$program" >"$log" 2>&1
}

# The leak check stops all threads as a debugger does, which cannot be done where one is at work already.
if ! sanitized address && ASAN_OPTIONS=detect_leaks=0 sanitized address; then
    echo "(leaks are not looked for: $(grep -m 1 -o 'LeakSanitizer.*' "$log" || echo 'a debugger is at work'))"
    ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0"
fi
# Some kernels scatter addresses more widely than older ThreadSanitizers know.
fixed_addresses=""
if ! sanitized thread && sanitized thread setarch -R; then
    fixed_addresses="setarch -R"
fi

# --- running and counting ----------------------------------------------------------------------------

# run BUILD COMMAND...: keeps what it prints in $log; its exit status.
run() {
    local prefix=""
    case $1 in *tsan*) prefix=$fixed_addresses ;; esac
    shift
    $prefix timeout --foreground -k 10 $limit_s "$@" >"$log" 2>&1 </dev/null
}

# Lines that match, each counted once: a child that a test forks may print its parent's lines again.
count() {
    grep -E "$1" "$log" | sort -u | wc -l
}

# reasons NAME: why cases in $log were skipped, a line for each. A script says why. Of a program only the
# case is known: cmocka's skip() takes no reason.
reasons() {
    grep -E '^skip |^(not )?ok .*# SKIP' "$log" | sort -u |
        sed -E -e 's/^skip [^:]*: //' -e "s|^(not )?ok .*# SKIP *|$(basename "${1%% *}"): |"
}

# report NAME STATUS: counts the cases in $log. A program that failed without a failed case (a crash, a
# sanitizer's report), that ran fewer cases than it planned, or none, is one failed case more.
report() {
    local skip ok bad planned why=""
    skip=$(count '^skip |^(not )?ok .*# SKIP')
    ok=$(($(count '^ok ') - $(count '^ok .*# SKIP')))
    bad=$(($(count '^not ok ') - $(count '^not ok .*# SKIP')))
    planned=$(sed -n 's/^1\.\.\([0-9]*\)$/\1/p' "$log" | sort -n | tail -n 1)
    if [ "$2" = 124 ] || [ "$2" = 137 ]; then
        why="exit status $2; ended after $limit_s s, or killed"
    elif [ "$2" != 0 ]; then
        why="exit status $2"
    elif [ $((ok + bad + skip)) -lt "${planned:-1}" ]; then
        why="planned ${planned:-some} cases, reported $((ok + bad + skip))"
    fi
    if [ -n "$why" ] && [ "$bad" = 0 ]; then bad=1; fi
    [ "$skip" = 0 ] || reasons "$1" >>"$work/reasons"
    passed=$((passed + ok))
    failed=$((failed + bad))
    skipped=$((skipped + skip))
    if [ "$bad" = 0 ]; then
        printf '%-44s %3d passed%s\n' "$1" "$ok" "$([ "$skip" = 0 ] || echo ", $skip skipped")"
    else
        printf '%-44s %3d passed, %d FAILED%s\n' "$1" "$ok" "$bad" "${why:+ ($why)}"
        head -n 150 "$log" | sed 's/^/    /'
    fi
}

chosen=" $* "
wanted() {
    [ "$chosen" = "  " ] || [[ $chosen == *" $1 "* ]]
}

for build in build build/asan build/tsan; do
    for source in tests/test_*.c; do
        name=$(basename "$source" .c)
        wanted "$name" || continue
        run $build "$build/tests/$name"
        report "$build/tests/$name" $?
    done
done

for script in tests/*.sh; do
    name=$(basename "$script" .sh)
    [ "$name" != run ] && wanted "$name" || continue
    trainers=./trainer
    if sed 8q "$script" | grep -q '^# sanitizers: yes'; then
        trainers="./trainer build/asan/trainer build/tsan/trainer"
    fi
    for trainer in $trainers; do
        TRAINER=$trainer run "$trainer" bash "$script"
        report "$script ($trainer)" $?
    done
done

echo
if [ "$skipped" != 0 ]; then
    echo "$skipped skipped:"
    sort "$work/reasons" | uniq -c | sort -rn
    echo
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
