#!/bin/sh
# blas.sh: prints the flags for OpenBLAS's pthread build, found by linking with it. Several builds of
# OpenBLAS may be installed, and the system's default one may be the OpenMP build, which can hang
# after a fork; so the pthread build's own folder is named, also for run time.
set -eu
cc=${CC:-gcc}
multiarch=$($cc -print-multiarch 2>/dev/null || true)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/probe.c" <<EOF
#include <cblas.h>
int main(void) { openblas_set_num_threads(1); return openblas_get_parallel() != 1; }
EOF
for folder in ${multiarch:+"$multiarch/"}openblas-pthread openblas-pthread; do
    library=/usr/lib/$folder
    include=/usr/include/$folder
    [ -e "$library/libopenblas.so" ] || continue
    flags="-I$include -L$library -Wl,-rpath,$library -lopenblas"
    # shellcheck disable=SC2086
    if $cc "$work/probe.c" -o "$work/probe" $flags 2>/dev/null && "$work/probe"; then
        echo "$flags"
        exit 0
    fi
done
# elsewhere than on Debian: whatever OpenBLAS there is, if it is a pthread build
if $cc "$work/probe.c" -o "$work/probe" -lopenblas 2>/dev/null && "$work/probe"; then
    echo "-lopenblas"
    exit 0
fi
exit 1
