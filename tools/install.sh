#!/bin/sh
# install.sh: brings the Debian or Ubuntu packages that are missing. Says first what is missing and what
# for. What is there already is not touched, so that without network it does nothing and succeeds.
#
#     tools/install.sh          what building and running need
#     tools/install.sh test     and what the tests need
#
# Exit status: 0 where the program can be built afterwards, else 1.
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
    tests=yes
else
    tests=no
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# --- what is there -------------------------------------------------------------------------------

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

# Whether the parts are there although no package brought them: built by hand, or on another system.
builds_anyway() {
    CUDA=0 PYTHON=false "$(dirname "$0")/probe.sh" "$work/config" "$work/found" 2>/dev/null || return 1
    [ $tests = no ] || grep -q 'cmocka *yes' "$work/found"
}

# --- who may install -----------------------------------------------------------------------------

# Sets as_root. sudo may ask for a password where there is somebody to type it.
may_install() {
    as_root=""
    command -v dpkg-query >/dev/null 2>&1 && command -v apt-get >/dev/null 2>&1 || return 1
    [ "$(id -u)" != 0 ] || return 0
    as_root=sudo
    command -v sudo >/dev/null 2>&1 || return 1
    sudo -n true 2>/dev/null || { [ -t 0 ] && sudo -v; }
}

if command -v dpkg-query >/dev/null 2>&1; then
    need=$(missing "$required")
    want=$(missing "$optional")
    if [ -z "$need$want" ]; then exit 0; fi
    echo "Missing packages:"
else
    if builds_anyway; then exit 0; fi
    need=$required
    want=$optional
    echo "Missing are some of these, here by their Debian names:"
fi
describe "$need $want"

if ! may_install; then
    echo "They cannot be installed from here: that takes apt-get, and root or sudo. On Debian and Ubuntu:"
    echo "  apt-get install $(names "$need $want")"
    # without the optional ones the program still runs
    if [ -z "$need" ]; then exit 0; fi
    builds_anyway || exit 1
    echo "What they bring is there by other means, so this goes on."
    exit 0
fi

# --- installing ----------------------------------------------------------------------------------

echo "Installing them through ${as_root:+$as_root }apt-get. What it downloads first may take a while."

# apt COMMAND...: waits where another apt is at work, as on a machine that has just been started.
apt() {
    $as_root env DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes \
        apt-get -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 "$@" >"$work/log" 2>&1
}

known() { # whether it is in the package lists that apt has
    apt-cache policy "$1" 2>/dev/null | grep -q 'Candidate: [^(]'
}

# names is to be split into words.
# shellcheck disable=SC2046
install_needed() {
    [ -z "$need" ] || apt install $(names "$need")
}

# A fresh machine has no package lists. Old ones are fetched again where they did not serve.
ls /var/lib/apt/lists/*_Packages* >/dev/null 2>&1 || apt update || true
if ! install_needed; then
    apt update || true
    install_needed || {
        grep '^[EW]:' "$work/log" >&2 || cat "$work/log" >&2
        echo "apt-get could not install: $(names "$need")" >&2
        exit 1
    }
fi
for package in $(names "$want"); do
    { known "$package" && apt install "$package"; } ||
        echo "$package cannot be had here now; the program does without it."
done
