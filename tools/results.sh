#!/bin/sh
# results.sh: keeps a run of this machine in results/: the comparison with default settings as JSON, and
# the tables at all three depths, printed from that file. Named after the kind of processor, the
# number of cores and the day: a later run on the same day replaces the earlier one.
#
#     tools/results.sh [TRAINER [OPTION...]]      options for the run, as in: ./trainer --layers=784,128,10
set -eu
trainer=${1:-./trainer}
if [ $# -gt 0 ]; then shift; fi

cpu=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)
name=$(printf '%s' "${cpu:-$(uname -m)}" | sed 's/([^)]*)//g; s/ @.*//; s/ CPU\b//; s/ Processor\b//' |
    tr '[:upper:]' '[:lower:]' | tr -cs '[:alnum:]' - | sed 's/^-//; s/-$//')
options=$(printf '%s' "$*" | tr -cs '[:alnum:]' -)
file=results/$name-$(nproc)-cores-$(date -u +%Y-%m-%d)$(printf '%s' "$options" | sed 's/-$//')

mkdir -p results
"$trainer" "$@" --json="$file.json" >/dev/null
for depth in beginner developer researcher; do
    printf -- '--- ./trainer --replay=%s --depth=%s\n\n' "$file.json" "$depth"
    "$trainer" --replay="$file.json" --depth="$depth"
    echo
done >"$file.txt"
echo "Written: $file.json"
echo "         $file.txt"
