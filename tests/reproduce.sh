#!/bin/bash
# reproduce.sh: tools/reproduce.py counts, marks and refuses as it should, with a stand-in for the
# trainer; the lists it works from are whole; workloads are what their definitions make.
cd "$(dirname "$0")/.." || exit 1
. tests/tools/cases.sh
PYTHON=${PYTHON:-/usr/bin/python3}
if ! "$PYTHON" -c "" 2>/dev/null; then
    echo "skip reproduce: no $PYTHON"
    exit 0
fi

# --- workloads, profiles, the table ------------------------------------------------------------------

"$PYTHON" tools/workloads.py --check >"$work/out" 2>"$work/err"
status=$?
expect "workloads are those of their definitions, and their totals the published ones" [ $status = 0 ]

cat >"$work/lists.py" <<'END'
import json, os, re, sys
table = json.load(open("tools/published.json"))
used = " ".join(row["ours"] for group in table["groups"] for row in group["rows"])
for name, arguments in table["runs"].items():
    if f"{name}." not in used:
        sys.exit(f"{name} is run for nothing")
    for kind, file in re.findall(r"--(profile|workload)=([\w-]+)", arguments):
        if not os.path.exists(f"{kind}s/{file}.json"):
            sys.exit(f"{name}: no {kind} {file}")
for file in filter(lambda file: file.endswith(".json"), os.listdir("profiles")):
    profile = json.load(open(f"profiles/{file}"))
    if not profile["sources"]:
        sys.exit(f"{file} has no sources")
    for field in profile["fitted"]:
        section, name = field.split(":")[0].split(",")[0].split(".")
        if name not in profile[section]:
            sys.exit(f"{file}: fitted {field}: no such field")
END
"$PYTHON" "$work/lists.py" >"$work/out" 2>"$work/err"
status=$?
expect "every run is used, and what it names is there; profiles have sources" [ $status = 0 ]

# The workloads that are one tensor to be all-reduced are written by the script itself, and the trainer must take them.
"$PYTHON" tools/reproduce.py --trainer="$TRAINER" --only=a100 --out="$work" >"$work/out" 2>"$work/err" </dev/null
status=$?
expect "the rows of all-reduces by size, by the trainer itself" [ $status = 0 ]

# --- a table of our own, and a trainer that always says the same --------------------------------------

cat >"$work/trainer" <<'END'
#!/bin/sh
case "$*" in *fail*) echo "no such profile" >&2; exit 2 ;; esac
echo '{"results": [
  {"mode": "single", "devices": 1, "step_ms": {"median": 100}, "phases_ms": {}},
  {"mode": "dp", "devices": 2, "step_ms": {"median": 80}, "phases_ms": {}},
  {"mode": "ddp", "devices": 2, "step_ms": {"median": 50}, "phases_ms": {"transfer": 4}}]}'
END
chmod +x "$work/trainer"

# table ROW...: one group with these rows.
table() {
    local rows
    rows=$(IFS=,; echo "$*")
    cat >"$work/table.json" <<END
{"schema": 1, "runs": {"a-b": "--profile=4x-v100-nvlink", "bad": "--profile=4x-v100-nvlink --fail"},
 "groups": [{"title": "T", "source": "S", "setup": "U", "rows": [$rows]}]}
END
    "$PYTHON" tools/reproduce.py --trainer="$work/trainer" --table="$work/table.json" \
        --out="$work" >"$work/out" 2>"$work/err" </dev/null
    status=$?
}

# row ID PUBLISHED OURS [MORE]: a row of the table.
row() {
    echo "{\"id\": \"$1\", \"what\": \"$1\", \"published\": $2, \"unit\": \"x\", \"ours\": \"$3\"," \
        "\"role\": \"${5:-prediction}\", \"miss\": \"$4\"}"
}

printed() { grep -qF -- "$1" "$work/out" "$work/err"; }
written() { grep -qF -- "$1" "$work/reproduce.md"; }

table "$(row good 2 'a-b.single() / a-b.ddp(2)')" "$(row edge 0.0348 '0.01 * a-b.transfer(2)')" \
    "$(row range '{"from": 20, "to": 70}' '100 * (a-b.dp(2) / a-b.ddp(2) - 1)')" \
    "$(row fit 100 'a-b.single()' '' fit)"
expect "all within 15 %" [ $status = 0 ]
expect "predictions and fits are counted apart" printed \
    "Within 15 %: 3 of 3 predictions, and 0 of 0 whose published value is quoted from memory; 1 of 1"
expect "a range holds all between its ends" written "| range | 20 to 70 x | 60.0 x | +0 % |"
expect "what was fitted says so" written "+0 % (fit)"

table "$(row far 3 'a-b.single() / a-b.ddp(2)' 'Because.')" "$(row range '{"to": 1}' 'a-b.ddp(2)')"
expect "a miss without an explanation is an error" [ $status = 1 ]
expect "and named; the explained one is not" printed "missed and not explained: range"
expect "a miss is counted" printed "0 of 2 predictions"
expect "and explained" written "Missed: far: Because."

table "$(row fails 1 'bad.single()' 'Because.')"
expect "a failed run is an error, whatever explains it" [ $status = 1 ]
expect "and says why" written "no such profile"

table "$(row lacks 1 'a-b.ddp(4)' 'Because.')"
expect "a result that is not there is an error" [ $status = 1 ]
expect "that says which" printed "no result of ddp on 4 devices"

finish
