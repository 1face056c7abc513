#!/bin/sh
# probe.sh: finds the parts that the trainer is built from, each by compiling and linking a small
# program with it, never by its name alone. Writes what the Makefile needs to $1, and a line for people
# per part to $2. CUDA=0 in the environment leaves CUDA out.
set -eu
config=$1
found=$2
cc=${CC:-gcc}
folder=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: >"$config"
: >"$found"

say() { # part, "yes" or "no", what
    printf '  %-14s %-5s %s\n' "$1" "$2" "$3" >>"$found"
}

# links FLAGS: compiles and links the program on standard input.
links() {
    cat >"$work/probe.c"
    # shellcheck disable=SC2086
    $cc "$work/probe.c" -o "$work/probe" $1 >/dev/null 2>&1
}

# --- required ------------------------------------------------------------------------------------

missing=""
if ! echo 'int main(void) { return 0; }' | links ""; then
    rm -f "$config"
    echo "Cannot build: $cc is not there or cannot link a program (packages gcc, libc6-dev)." >&2
    echo "\`make prepare\` installs all that is needed." >&2
    exit 1
fi
if blas=$("$folder/blas.sh"); then
    echo "BLAS = $blas" >>"$config"
else
    missing="$missing libopenblas-pthread-dev"
fi
links "-lcjson" <<EOF || missing="$missing libcjson-dev"
#include <cjson/cJSON.h>
int main(void) { return !cJSON_Version(); }
EOF
links "-lz" <<EOF || missing="$missing zlib1g-dev"
#include <zlib.h>
int main(void) { return !zlibVersion(); }
EOF
if [ -n "$missing" ]; then
    rm -f "$config"
    echo "Cannot build: not found:$missing" >&2
    echo "\`make prepare\` installs them; by hand: apt-get install$missing" >&2
    exit 1
fi

# --- CUDA ----------------------------------------------------------------------------------------

nvcc=$(command -v nvcc || true)
if [ -z "$nvcc" ] && [ -x /usr/local/cuda/bin/nvcc ]; then nvcc=/usr/local/cuda/bin/nvcc; fi
if [ "${CUDA:-}" = 0 ]; then
    say CUDA no "left out: CUDA=0"
elif [ -z "$nvcc" ]; then
    say CUDA no "no nvcc (NVIDIA's cuda-toolkit, or Debian's nvidia-cuda-toolkit); CPU only"
else
    home=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
    include=$home/include
    library=$home/lib64
    [ -d "$library" ] || library=$home/lib
    cuda="-isystem $include -L$library -Wl,-rpath,$library"
    if links "$cuda -lcudart" <<EOF &&
#include <cuda_runtime.h>
int main(void) { int count = 0; return cudaGetDeviceCount(&count) < 0; }
EOF
        printf '__global__ void k(void) {}\n' >"$work/k.cu" &&
        "$nvcc" -c "$work/k.cu" -o "$work/k.o" >/dev/null 2>&1; then
        version=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')
        if links "$cuda -lcudart -lcublas" <<EOF; then
#include <cublas_v2.h>
int main(void) { cublasHandle_t handle; return cublasCreate(&handle) < 0; }
EOF
            say CUDA yes "toolkit $version, cuBLAS"
            {
                echo "NVCC = $nvcc"
                echo "CUDA_INCLUDE = $include"
                echo "CUDA_DEFINES = -DTRAINER_CUDA=1"
                echo "CUDA_LIBS = -L$library -Wl,-rpath,$library -lcudart -lcublas -ldl"
            } >>"$config"
            if links "$cuda -lnccl" <<EOF; then
#include <nccl.h>
#if NCCL_VERSION_CODE < NCCL_VERSION(2, 14, 0)
#error too old
#endif
int main(void) { ncclUniqueId id; return ncclGetUniqueId(&id) < 0; }
EOF
                say NCCL yes "DDP on several GPUs"
                echo "CUDA_DEFINES += -DTRAINER_NCCL=1" >>"$config"
                echo "CUDA_LIBS += -lnccl" >>"$config"
            else
                say NCCL no "no NCCL 2.14 or newer (libnccl-dev); ranks on GPUs talk through the host"
            fi
        else
            say CUDA no "toolkit $version without cuBLAS (libcublas-dev); CPU only"
        fi
    else
        say CUDA no "$nvcc is there, but a small program does not build with it; CPU only"
    fi
fi

# --- for tests, data and comparisons -------------------------------------------------------------

if links "-lcmocka" <<EOF; then
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
int main(void) { const struct CMUnitTest tests[1] = {{0}}; return cmocka_run_group_tests(tests, 0, 0); }
EOF
    say cmocka yes "the tests"
else
    say cmocka no "libcmocka-dev; \`make test\` installs it"
fi
if [ -e /usr/share/datasets/fashion-mnist ]; then
    say Fashion-MNIST yes "the images"
else
    say Fashion-MNIST no "dataset-fashion-mnist; generated images are used without it"
fi
python=${PYTHON:-/usr/bin/python3}
if "$python" -c 'import torch' 2>/dev/null; then
    say PyTorch yes "what \`make bench\` compares with"
else
    say PyTorch no "python3-torch; only \`make bench\` wants it"
fi
