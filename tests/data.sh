#!/bin/bash
# data.sh: where images come from: a directory of IDX files, the packaged Fashion-MNIST, or generated
# ones that are announced; and that no run begins with damaged files (every kind: test_data.c).
# sanitizers: yes
. tests/tools/cases.sh

# number N: four bytes, the most significant first
number() {
    printf "$(printf '\\x%02x\\x%02x\\x%02x\\x%02x' $(($1 >> 24 & 255)) $(($1 >> 16 & 255)) \
        $(($1 >> 8 & 255)) $(($1 & 255)))"
}

# 60 training and 20 test images of 4 x 5 pixels and three classes; an image is as bright as its class
files=$work/files
make_files() {
    mkdir -p "$files"
    for part in "train 60" "t10k 20"; do
        name=${part% *}
        count=${part#* }
        {
            number $((0x803))
            number "$count"
            number 4
            number 5
            for _ in $(seq $((count / 3))) ""; do
                printf '\0%.0s' {1..20}
                printf '\x70%.0s' {1..20}
                printf '\xf0%.0s' {1..20}
            done | head -c $((count * 20))
        } >"$files/$name-images-idx3-ubyte"
        {
            number $((0x801))
            number "$count"
            for _ in $(seq $((count / 3))) ""; do printf '\0\1\2'; done | head -c "$count"
        } >"$files/$name-labels-idx1-ubyte"
    done
}

train_on() {
    run --data="$1" --mode=ddp --devices=2 --device=cpu --batch=10 --json="$work/run.json" "${@:2}"
}

make_files
train_on "$files" --layers=20,16,3 --epochs=60 --lr=0.01
expect "plain files: exit status 0" is "$status" 0
expect "plain files: as many images as there are" \
    is "$(json "$work/run.json" config.train_samples config.test_samples | paste -sd' ')" "60 20"
expect "plain files: easy images are learned" is "$(json "$work/run.json" results.0.accuracy)" 1
plain=$(json "$work/run.json" results.0.loss)

gzip "$files"/*
train_on "$files" --layers=20,16,3 --epochs=60 --lr=0.01
expect "gzipped files: the same" is "$(json "$work/run.json" results.0.loss)" "$plain"
train_on "$files" --epochs=1
expect "layers fit the images when none are given" \
    is "$(json "$work/run.json" config.layers)" "[20,512,512,10]"
train_on "$files" --layers=20,2
expect "more classes than outputs: exit status 2" is "$status" 2

# refused NAME SENTENCE: the directory, with status 2 and one line
refused() {
    rm -f "$work/run.json"
    train_on "$files" --epochs=1
    expect "$1: exit status 2" is "$status" 2
    expect "$1: one line says what and where" is "$(cat "$work/err")" "trainer: $2"
    expect "$1: no work was done" test ! -s "$work/out" -a ! -e "$work/run.json"
}

gunzip "$files"/*
mv "$files/t10k-labels-idx1-ubyte" "$work/aside"
refused "a missing file" "$files: no file t10k-labels-idx1-ubyte or t10k-labels-idx1-ubyte.gz in it"
mv "$work/aside" "$files/t10k-labels-idx1-ubyte"

truncate -s 1000 "$files/train-images-idx3-ubyte"
refused "a truncated file" "$files/train-images-idx3-ubyte: ends at byte 1000, in the pixels, which \
should go on to byte 1216"
make_files
cp "$files/train-labels-idx1-ubyte" "$files/train-images-idx3-ubyte"
refused "labels in place of images" "$files/train-images-idx3-ubyte: byte 0: magic number 0x00000801: \
these are labels; a file of images begins with 0x00000803"
make_files
cp "$files/t10k-labels-idx1-ubyte" "$files/train-labels-idx1-ubyte"
refused "labels of other images" \
    "$files/train-labels-idx1-ubyte: byte 4: 20 labels, but there are 60 images"

# --- generated images ---

run $small --mode=single --steps=5 --json="$work/run.json"
expect "synthetic: as many as asked for, a sixth to test" \
    is "$(json "$work/run.json" config.data config.train_samples config.test_samples | paste -sd' ')" \
    "synthetic 2000 334"
expect "synthetic, asked for: no note" is "$(grep -c NOTE "$work/err")" 0

# Without the package: in a namespace where its directory is hidden, or here if it is not installed.
note="NOTE: Fashion-MNIST is not installed (package dataset-fashion-mnist): training on 3000 generated \
images instead"
packages=/usr/share/datasets
if [ ! -e $packages/fashion-mnist ]; then
    run --samples=3000 --layers=784,32,10 --mode=single --steps=5
    expect "without the package: exit status 0" is "$status" 0
    expect "without the package: one visible line" is "$(grep -c -Fx "$note" "$work/err")" 1
    echo "skip with the package: dataset-fashion-mnist is not installed"
else
    unshare -rm bash -c "mount -t tmpfs none $packages || exit 77
        '$TRAINER' --samples=3000 --layers=784,32,10 --mode=single --steps=5 --device=cpu --quiet" \
        >"$work/out" 2>"$work/err"
    status=$?
    if [ $status = 77 ] || grep -q '^unshare' "$work/err"; then
        echo "skip without the package: no namespace may be made here to hide it"
    else
        expect "without the package: exit status 0" is "$status" 0
        expect "without the package: one visible line, also with --quiet" is "$(cat "$work/err")" "$note"
    fi
    run --layers=784,32,10 --mode=single --steps=5 --device=cpu --json="$work/run.json"
    expect "with the package: its images" \
        is "$(json "$work/run.json" config.data config.train_samples config.test_samples | paste -sd' ')" \
        "fashion-mnist 60000 10000"
    run --samples=3000 --steps=5
    expect "with the package: --samples is refused" is "$status" 2
fi

finish
