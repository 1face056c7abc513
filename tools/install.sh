#!/bin/sh
# install.sh: brings the Debian or Ubuntu packages that are missing. Says first what it installs and
# why. What is there already is not touched, so that without network it does nothing and succeeds.
#
#     tools/install.sh          what building and running need
#     tools/install.sh test     and what the tests need
set -eu

required="gcc:the_C_compiler
libc6-dev:the_C_library's_headers
libopenblas-pthread-dev:matrix_products
libcjson-dev:reading_and_writing_JSON
zlib1g-dev:unpacking_data_sets"
optional="dataset-fashion-mnist:the_images;_without_them,_generated_ones_are_used"
if [ "${1:-}" = test ]; then
    required="$required
libcmocka-dev:the_tests"
fi

installed() {
    dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'ok installed'
}

# The words "package:reason" of $1 whose package is missing. A compiler from elsewhere is as good.
missing() {
    for entry in $1; do
        package=${entry%%:*}
        if [ "$package" = gcc ] && command -v gcc >/dev/null 2>&1; then continue; fi
        installed "$package" || echo "$entry"
    done
}

describe() {
    for entry in $1; do
        printf '  %-26s %s\n' "${entry%%:*}" "$(echo "${entry#*:}" | tr _ ' ')"
    done
}

names() {
    for entry in $1; do printf '%s ' "${entry%%:*}"; done
}

if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "This system has no Debian packages, so nothing is installed. Needed are:"
    describe "$required $optional"
    echo "Where they are there under other names, \`make\` builds the program."
    exit 0
fi

need=$(missing "$required")
want=$(missing "$optional")
if [ -z "$need$want" ]; then exit 0; fi

as_root=""
if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null 2>&1 && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
        as_root=sudo
    else
        as_root=none
    fi
fi
if [ "$as_root" = none ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "These packages are missing, and this user may not install them:"
    describe "$need $want"
    echo "Ask an administrator for:  apt-get install $(names "$need $want")"
    # without the optional ones the program still runs
    if [ -n "$need" ]; then exit 1; fi
    exit 0
fi

echo "Installing what is missing, through ${as_root:+$as_root }apt-get:"
describe "$need $want"

available() {
    for entry in $1; do
        apt-cache policy "${entry%%:*}" 2>/dev/null | grep -q 'Candidate: [^(]' || return 1
    done
}

install() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" \
        >/dev/null
}

# Package lists are fetched only where they are missing or too old to hold what is needed.
if ! available "$need $want"; then $as_root apt-get update -qq || true; fi
if [ -n "$need" ] && ! install $(names "$need"); then
    $as_root apt-get update -qq || true
    install $(names "$need") || {
        echo "apt-get could not install: $(names "$need")" >&2
        exit 1
    }
fi
for entry in $want; do
    install "${entry%%:*}" ||
        echo "${entry%%:*} cannot be had here; the program does without it."
done
