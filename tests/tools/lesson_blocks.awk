# lesson_blocks.awk: takes a lesson apart, for tests/lessons.sh.
#
#     awk -v out=DIR -f lesson_blocks.awk PAGE
#
# What is to be run or checked becomes a file DIR/N.run, what it should print DIR/N.want, and a line on
# standard output for each, with tabs between:
#
#     KIND  N  LINE  FIRST  LAST  WORDS
#
# KIND is console (a shell command), python (a program), fragment (of one), c (lines of our sources),
# place (`file.c: function` of the text) or bad (WORDS say what is wrong with the page). LINE is where it
# stands. The page's lines FIRST to LAST are what was printed (LAST = FIRST - 1: nothing; 0: there is no
# room for it). WORDS are the fence's: what may vary.

function item(kind, line, words) {
    n++
    kinds[n] = kind
    lines[n] = line
    firsts[n] = 0
    lasts[n] = 0
    extra[n] = words
    printf "" > (out "/" n ".want")
    return n
}

function bad(line, what) {
    item("bad", line, what)
}

# Whether all the words after the fence's first are among `allowed`.
function words_are(words, allowed,    i, count, word) {
    count = split(words, word, " ")
    for (i = 1; i <= count; i++)
        if (index(" " allowed " ", " " word[i] " ") == 0)
            return 0
    return 1
}

function open_fence(    info, words) {
    info = substr($0, 4)
    fence = info
    sub(/ .*/, "", fence)
    words = info
    if (!sub(/^[^ ]* /, "", words))
        words = ""
    in_fence = NR
    current = 0
    if (fence == "console" && words_are(words, "numbers unordered"))
        fence_words = words
    else if (fence == "python" && words_are(words, "fragment"))
        current = python = item(words == "" ? "python" : "fragment", NR, "")
    else if (fence == "text" && words_are(words, "numbers unordered")) {
        if (!python || kinds[python] != "python" || firsts[python])
            bad(NR, "a block ```text is what the block ```python before it prints: here is none")
        else {
            current = python
            firsts[current] = NR + 1
            extra[current] = words
        }
    } else if (fence == "c" && words == "")
        current = item("c", NR, "")
    else if (info != "")
        bad(NR, "no such block: ```" info)
    if (fence != "text")
        python = fence == "python" ? current : 0
}

function close_fence() {
    if ((fence == "console" || fence == "text") && current)
        lasts[current] = NR - 1
    if (fence == "console" && !current)
        bad(in_fence, "a block ```console without a command")
    in_fence = 0
}

# A line of a console block: a command, more of one that ended in a backslash, or what it printed.
function console_line() {
    if (more) {
        print > (out "/" current ".run")
    } else if ($0 ~ /^\$ /) {
        if (current)
            lasts[current] = NR - 1
        current = item("console", NR, fence_words)
        print substr($0, 3) > (out "/" current ".run")
    } else if (current) {
        print > (out "/" current ".want")
        return
    } else {
        bad(NR, "a block ```console begins with a command: $ ./trainer ...")
        current = n
        return
    }
    more = $0 ~ /\\$/
    firsts[current] = NR + 1
}

# `file.c: function` in the text
function places(    rest, place) {
    rest = $0
    while (match(rest, /`[a-z0-9_\/]+\.[a-z]+: [A-Za-z0-9_]+`/)) {
        place = item("place", NR, "")
        print substr(rest, RSTART + 1, RLENGTH - 2) > (out "/" place ".run")
        rest = substr(rest, RSTART + RLENGTH)
    }
}

/^```/ {
    if (in_fence)
        close_fence()
    else
        open_fence()
    next
}

in_fence && fence == "console" { console_line(); next }
in_fence && fence == "text" { if (current) print > (out "/" current ".want"); next }
in_fence && (fence == "python" || fence == "c") { if (current) print > (out "/" current ".run"); next }
in_fence && fence == "" && length($0) > 76 { bad(NR, "a picture has 76 columns at most: " length($0)) }
!in_fence { places() }

END {
    if (in_fence)
        bad(in_fence, "this block has no end")
    for (i = 1; i <= n; i++)
        printf "%s\t%d\t%d\t%d\t%d\t%s\n", kinds[i], i, lines[i], firsts[i], lasts[i], extra[i]
}
