#!/bin/sh
# results.sh: keeps this machine's comparisons in results/: for a model of usual size, a tiny and a large
# one, the JSON and, printed from it alone, the tables at all three depths. Files are named after the
# kind of processor and the number of cores; an earlier run of the same kind is replaced.
#
#     tools/results.sh [TRAINER]            takes about two minutes
#     SWEEP=1 tools/results.sh [TRAINER]    also the table of tools/sweep.sh: half an hour more
set -eu
trainer=${1:-./trainer}
cd "$(dirname "$0")/.."
mkdir -p results

cpu=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)
machine=$(printf '%s' "${cpu:-$(uname -m)}" |
    sed 's/([^)]*)//g; s/ @.*//; s/ CPU//; s/ [0-9]*-Core//; s/ Processor//' |
    tr '[:upper:]' '[:lower:]' | tr -cs '[:alnum:]' - | sed 's/^-//; s/-$//')
machine=$machine-$(nproc)-cores

# capture NAME OPTION...: a comparison with these options.
capture() {
    file=results/$machine-$1
    shift
    echo "$file: $trainer $*"
    "$trainer" "$@" --quiet --json="$file.json" >/dev/null
    for depth in beginner developer researcher; do
        printf -- '--- ./trainer --replay=%s --depth=%s\n\n' "$file.json" "$depth"
        NO_COLOR=1 "$trainer" --replay="$file.json" --depth="$depth"
        echo
    done >"$file.txt"
}

capture default
capture tiny --layers=784,128,10
capture large --layers=784,2048,2048,2048,10
if [ -n "${SWEEP:-}" ]; then
    echo "results/sweep.md: tools/sweep.sh"
    tools/sweep.sh "$trainer" >results/sweep.md.new
    mv results/sweep.md.new results/sweep.md
fi
