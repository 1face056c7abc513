# lesson_compare.awk: whether a command printed what its lesson says, for tests/lessons.sh.
#
#     awk -v task=compare -v words=WORDS -f lesson_compare.awk WANTED GOT     exit status 0: it did
#     awk -v task=merge   -v words=WORDS -f lesson_compare.awk WANTED GOT     and prints what the page should say
#     awk -v task=mask    -v words=WORDS -f lesson_compare.awk FILE           prints what is compared
#
# Lines are equal to the letter, but for the numbers of processes and blanks at the end. A wanted line "..."
# stands for any lines, or none. WORDS say what else may vary:
#     numbers     every number (compared as N), so the blanks that align it, how many letters of which kind a
#                 lane of a timeline has, and which of the letters are explained below the lanes (its legend)
#     unordered   the order of the lines
# Merging gives GOT, with the "..." of WANTED where it had them; all of GOT where the two do not agree.

function without_blanks(line) {
    sub(/[ \t]+$/, "", line)
    return line
}

function masked(line) {
    line = without_blanks(line)
    gsub(/pid [0-9]+/, "pid N", line)
    if (!numbers)
        return line
    if (line ~ /(boss|one device|(dev|rank|comm) [0-9]+) +[A-Z.]+$/)
        sub(/[A-Z.]+$/, "LANE", line)
    if (line ~ legend)
        return "LEGEND"
    if (line ~ /^\(exit status [0-9]+\)$/)
        return line
    gsub(/[0-9]+(,[0-9][0-9][0-9])*(\.[0-9]+)?(e[-+]?[0-9]+)?/, "N", line)
    gsub(/ [-+]N/, " N", line)
    gsub(/[ \t]+/, " ", line)
    return line
}

BEGIN {
    numbers = index(" " words " ", " numbers ") > 0
    unordered = index(" " words " ", " unordered ") > 0
    letter = "[A-Z] (input|copy|forward|gather|loss|backward|reduce|update|wait|all-reduce)"
    too_short = "not drawn, too short: .*"
    legend = "^((" letter "(  ?|   " too_short ")?)+|" too_short ")$"
}

# The lines of a legend are one, however many it takes.
{ line = masked($0) }
FNR == 1 { before = "" }
line == "LEGEND" && before == "LEGEND" {
    if (FILENAME == ARGV[1])
        want[wanted] = want[wanted] "\n" $0
    else
        got[gotten] = got[gotten] "\n" $0
    next
}
{ before = line }

task == "mask" { print line; next }
# By name: an empty first file would have no line to count by.
FILENAME == ARGV[1] { want[++wanted] = $0; wanted_key[wanted] = line; next }
{ got[++gotten] = without_blanks($0); key[gotten] = line }

# Whether the wanted lines `from` to `to` are the lines after `at` of what was printed.
function stands_at(from, to, at,    i) {
    for (i = from; i <= to; i++)
        if (at + 1 + i - from > gotten || wanted_key[i] != key[at + 1 + i - from])
            return 0
    return 1
}

# In order. The first piece must be at the beginning and the last at the end; for a piece between two "..."
# the first place where it stands is as good as any later one. Notes in merged[] what the page should say.
function ordered_agree(    i, from, at, last, piece_end) {
    at = 0
    lines_merged = 0
    from = 1
    while (1) {
        for (piece_end = from; piece_end <= wanted && want[piece_end] != "..."; piece_end++)
            ;
        last = piece_end > wanted
        if (from > 1 && last)
            at = gotten - (wanted - from + 1) > at ? gotten - (wanted - from + 1) : at
        else if (from > 1)
            while (at < gotten && !stands_at(from, piece_end - 1, at))
                at++
        if (!stands_at(from, piece_end - 1, at))
            return 0
        for (i = from; i < piece_end; i++)
            merged[++lines_merged] = got[++at]
        if (last)
            return at == gotten
        merged[++lines_merged] = "..."
        from = piece_end + 1
    }
}

# In any order: each wanted line is there as often as it is wanted, and without "..." no other.
function unordered_agree(    i, left, rest, any) {
    for (i = 1; i <= gotten; i++)
        left[key[i]]++
    rest = gotten
    for (i = 1; i <= wanted; i++) {
        merged[i] = want[i]
        if (want[i] == "...") {
            any = 1
            continue
        }
        if (left[wanted_key[i]]-- < 1)
            return 0
        rest--
    }
    lines_merged = wanted
    return any || rest == 0
}

END {
    if (task == "mask")
        exit 0
    agree = unordered ? unordered_agree() : ordered_agree()
    if (task == "merge" && agree)
        for (i = 1; i <= lines_merged; i++)
            print merged[i]
    else if (task == "merge")
        for (i = 1; i <= gotten; i++)
            print got[i]
    exit !agree
}
