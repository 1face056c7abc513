#!/bin/bash
# blas.sh: what happens when LD_LIBRARY_PATH brings another build of OpenBLAS than the program was linked
# with. OPENBLAS_DIRS: where to look for them.
. tests/tools/cases.sh

# builds KIND: the directory of OpenBLAS's build for it, or nothing.
builds() {
    for directory in ${OPENBLAS_DIRS:-/usr/lib/*/openblas-*}; do
        [ -e "$directory/libopenblas.so.0" ] && case $directory in *openblas-$1) echo "$directory" ;; esac
    done | head -n 1
}
compare="$small --devices=3 --steps=10 --quiet"

for kind in pthread serial; do
    directory=$(builds $kind)
    if [ -z "$directory" ]; then
        echo "skip the $kind build: this build of OpenBLAS is not installed"
        continue
    fi
    LD_LIBRARY_PATH=$directory run $compare
    expect "the $kind build: exit status 0" is "$status" 0
    expect "the $kind build: DP equals DDP" grep -q "DP = DDP to the last bit" "$work/out"
done

directory=$(builds openmp)
if [ -z "$directory" ]; then
    echo "skip the openmp build: this build of OpenBLAS is not installed"
    finish
fi
# on one core OpenMP starts no team
threads=$(nproc)
[ "$threads" -gt 1 ] || threads=2
OMP_NUM_THREADS=$threads LD_LIBRARY_PATH=$directory run $compare
expect "the openmp build: refused" is "$status" 2
expect "the openmp build: says what was loaded and what to do" \
    grep -q "build for OpenMP (OpenBLAS.*OMP_NUM_THREADS=1" "$work/err"
expect "the openmp build: one line" is "$(wc -l <"$work/err")" 1
OMP_NUM_THREADS=1 LD_LIBRARY_PATH=$directory run $compare
expect "the openmp build, one thread: exit status 0" is "$status" 0
expect "the openmp build, one thread: DP equals DDP" grep -q "DP = DDP to the last bit" "$work/out"

finish
