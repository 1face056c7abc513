#!/bin/bash
# run.sh: runs every test program in every build, and every test script. A line per program; whatever
# a failing one printed; in the end the sum, as "N passed, N failed".
#
# Programs are cmocka's: their cases are counted from what they print. Scripts print a line per case,
# "ok NAME", "not ok NAME" or "skip NAME: WHY"; with a line "# sanitizers: yes" near their top they are
# run with the sanitizer builds, too. TRAINER is the program that they test.
cd "$(dirname "$0")/.." || exit 1
passed=0
failed=0
skipped=0

# OpenBLAS's own threads begin before main, which ThreadSanitizer does not allow where forks follow.
export OPENBLAS_NUM_THREADS=1
export TSAN_OPTIONS="halt_on_error=1:die_after_fork=0:$TSAN_OPTIONS"
export ASAN_OPTIONS="detect_leaks=1:$ASAN_OPTIONS"
export UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1:$UBSAN_OPTIONS"

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# report NAME STATUS OK BAD SKIP: counts and prints; a program that failed without a failed case
# (a crash, a sanitizer's report) is one failed case.
report() {
    local bad=$4
    if [ "$2" != 0 ] && [ "$bad" = 0 ]; then bad=1; fi
    if [ "$2" = 0 ] && [ "$3" = 0 ] && [ "$bad" = 0 ] && [ "$5" = 0 ]; then bad=1; fi
    passed=$((passed + $3))
    failed=$((failed + bad))
    skipped=$((skipped + $5))
    if [ "$bad" = 0 ]; then
        printf '%-44s %3d passed%s\n' "$1" "$3" "$([ "$5" = 0 ] || echo ", $5 skipped")"
    else
        printf '%-44s %3d passed, %d FAILED (exit status %d)\n' "$1" "$3" "$bad" "$2"
        sed 's/^/    /' "$log"
    fi
}

# cmocka names failed and skipped cases twice: as it runs them and in its summary
count() {
    grep "$1" "$log" | sort -u | wc -l
}

for build in build build/asan build/tsan; do
    for source in tests/test_*.c; do
        program=$build/tests/$(basename "$source" .c)
        "$program" >"$log" 2>&1 </dev/null
        report "$program" $? "$(count '^\[       OK \]')" "$(count '^\[  FAILED  \] test_[a-z_0-9]*$')" \
            "$(count '^\[  SKIPPED \] test_[a-z_0-9]*$')"
    done
done

for script in tests/*.sh; do
    [ "$script" = tests/run.sh ] && continue
    trainers=./trainer
    if sed 5q "$script" | grep -q '^# sanitizers: yes'; then
        trainers="./trainer build/asan/trainer build/tsan/trainer"
    fi
    for trainer in $trainers; do
        TRAINER=$trainer bash "$script" >"$log" 2>&1 </dev/null
        report "$script ($trainer)" $? "$(count '^ok ')" "$(count '^not ok ')" "$(count '^skip ')"
    done
done

echo
[ "$skipped" = 0 ] || echo "($skipped skipped, for the reasons that the tests print)"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
