#!/bin/sh
# lint.sh: holds the sources against .clang-format, clang-tidy (its rules: .clang-tidy) and cppcheck,
# with those of the three that are installed. Exit status 1 if one of them objects.
#
#     tools/lint.sh [FILE.c ...]       all files without arguments
set -u
cd "$(dirname "$0")/.." || exit 1
failed=0

if [ $# -gt 0 ]; then
    formatted=$*
    sources=$*
else
    formatted=$(find . \( -name build -o -name .git \) -prune -o \
        \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cpp' \) -print | sed 's|^\./||' | sort)
    sources=$(echo "$formatted" | grep '\.c$')
fi

# As the Makefile compiles, but the headers of libraries are the system's: they are not ours to mend.
# CUDA's part is looked at where the last build had CUDA.
flags="-std=c11 -D_GNU_SOURCE -I. $(tools/blas.sh | grep -o -- '-I[^ ]*' | sed 's/^-I/-isystem/')"
if [ -e build/config.mk ]; then
    flags="$flags $(sed -n 's/^CUDA_DEFINES +*= //p' build/config.mk | tr '\n' ' ')"
    flags="$flags $(sed -n 's/^CUDA_INCLUDE = /-isystem/p' build/config.mk)"
fi

# try TOOL COMMAND...: runs the command if the tool is installed, and remembers whether it objected.
try() {
    tool=$1
    shift
    if ! command -v "$tool" >/dev/null 2>&1; then
        echo "$tool: not installed (package $tool), left out"
    elif "$@"; then
        echo "$tool: nothing to object"
    else
        echo "$tool: see above"
        failed=1
    fi
}

# What clang-tidy writes to standard error only counts the warnings it did not show.
tidy() {
    echo "$sources" | tr ' ' '\n' |
        xargs -P "$(nproc)" -I FILE sh -c "clang-tidy --quiet FILE -- $flags 2>/dev/null"
}

# Suppressed:
#   returnDanglingLifetime   takes an Error, which is a sentence, for the address of an argument of the
#                            function that returned it
#   invalidFunctionArg       supposes a softmax over no classes, which options.c refuses, and its log(0)
check() {
    # shellcheck disable=SC2086
    cppcheck --quiet --std=c11 -D_GNU_SOURCE -I. --enable=warning,performance,portability \
        --suppress=returnDanglingLifetime --suppress=invalidFunctionArg \
        --error-exitcode=1 -j "$(nproc)" $sources
}

# shellcheck disable=SC2086
try clang-format clang-format --dry-run -Werror $formatted
try clang-tidy tidy
try cppcheck check
exit $failed
