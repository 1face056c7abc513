#!/bin/bash
# hello.sh: the first collective, as the lessons show it, to the letter.
# sanitizers: yes
cd "$(dirname "$0")/.." || exit 1
trainer=${TRAINER:-./trainer}

# expect NAME OUTPUT ARGUMENTS...: standard output is OUTPUT and the exit status 0.
expect() {
    local name=$1 wanted=$2 got
    shift 2
    got=$("$trainer" --mode=hello --device=cpu "$@" 2>&1) || got="$got (exit status $?)"
    if [ "$got" = "$wanted" ]; then
        echo "ok $name"
    else
        echo "not ok $name"
        printf 'wanted:\n%s\ngot:\n%s\n' "$wanted" "$got"
    fi
}

expect "all_reduce on two ranks" "rank 0 of 2: after all_reduce -> 3.0
rank 1 of 2: after all_reduce -> 3.0" --ordered
sorted=$("$trainer" --mode=hello --device=cpu --devices=3 | sort)
[ "$sorted" = "rank 0 of 3: after all_reduce -> 6.0
rank 1 of 3: after all_reduce -> 6.0
rank 2 of 3: after all_reduce -> 6.0" ] && echo "ok a line per rank in any order" ||
    echo "not ok a line per rank in any order"
for case in sum:10.0 max:4.0 min:1.0 avg:2.5 prod:24.0; do
    expect "${case%:*} over four ranks" "rank 0 of 4: after all_reduce -> ${case#*:}
rank 1 of 4: after all_reduce -> ${case#*:}
rank 2 of 4: after all_reduce -> ${case#*:}
rank 3 of 4: after all_reduce -> ${case#*:}" --devices=4 --ordered --op="${case%:*}"
done
expect "all_gather" "rank 0 of 2: before 1.0, after all_gather -> [1.0, 2.0]
rank 1 of 2: before 2.0, after all_gather -> [1.0, 2.0]" --ordered --collective=all_gather
expect "broadcast" "rank 0 of 2: before 1.0, after broadcast -> 1.0
rank 1 of 2: before 2.0, after broadcast -> 1.0" --ordered --collective=broadcast
expect "reduce_scatter" "rank 0 of 2: before [1.0, 10.0], after reduce_scatter -> 3.0
rank 1 of 2: before [2.0, 20.0], after reduce_scatter -> 30.0" --ordered --collective=reduce_scatter
expect "a right guess" "rank 0 of 1: after all_reduce -> 1.0
Your guess 1 is right: rank 0 ends with 1.0, the sum of 1 to 1.
Rank r holds r + 1, and every rank gets the result." --devices=1 --guess=1
expect "a wrong guess" "rank 0 of 1: after all_reduce -> 1.0
Your guess 7 is wrong: rank 0 ends with 1.0, the sum of 1 to 1.
Rank r holds r + 1, and every rank gets the result." --devices=1 --guess=7
