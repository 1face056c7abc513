#!/usr/bin/env python3
"""Holds the trainer's virtual devices against published results: make reproduce.

    tools/reproduce.py [--trainer=./trainer] [--only=TEXT] [--out=results] [--table=FILE]

The table, tools/published.json, lists what is compared. Its fields:

    runs    name -> the trainer's command line; {all-reduce:BYTES} stands for a workload that is
            one tensor of that size and no computing
    groups  title, source and set-up, and rows:
      published  a number, or a claimed range {"from": ..., "to": ...} (either end may be missing)
      ours       an expression over runs: NAME.single(), NAME.dp(N), NAME.ddp(N) are a step's
                 median in ms, NAME.transfer(N) the time in it that DDP waits for the transfer;
                 middle(A, B, ...) is the middle one
      mark       "d": read off a figure (to 3 %); "m": quoted from memory, shown apart
      role       "prediction", or "fit": the profile's fields were adjusted to this very row
      miss       why it is missed by more than 15 %

Writes reproduce.md and reproduce.json into the folder --out. Fails if a run fails, or if a row is
missed without an explanation.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
GOOD_PERCENT = 15
WORK = os.path.join("build", "reproduce")  # where the workloads of all-reduces are written


# --- running --------------------------------------------------------------------------------------

def all_reduce_workload(match):
    """One tensor, nothing to compute: all that a step does is its all-reduce."""
    size = int(match.group(1))
    path = os.path.join(WORK, f"all-reduce-{size}.json")
    os.makedirs(os.path.join(ROOT, WORK), exist_ok=True)
    with open(os.path.join(ROOT, path), "w", encoding="utf-8") as out:
        json.dump({"schema": 1, "name": f"{size} bytes", "sources": ["one tensor"],
                   "sample": "nothing", "input_bytes": 4, "output_bytes": 4,
                   "layers": [{"name": "tensor", "parameters": [size // 4], "forward_flop": 0,
                               "activation_bytes": 0, "operations": 1}]}, out)
    return path


class Run:
    """A run of the trainer and what came out of it; run when first asked."""

    def __init__(self, trainer, name, arguments):
        self.name = name
        self.arguments = re.sub(r"\{all-reduce:(\d+)\}", all_reduce_workload, arguments)
        self.command = [trainer] + self.arguments.split() + ["--json=-"]
        self.results = None

    def result(self, mode, devices):
        if self.results is None:
            done = subprocess.run(self.command, cwd=ROOT, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if done.returncode != 0:
                raise RuntimeError(f"{' '.join(self.command)}: {done.stderr.strip()[-500:]}")
            self.results = json.loads(done.stdout)["results"]
        for result in self.results:
            if result["mode"] in mode and result["devices"] == devices:
                return result
        raise RuntimeError(f"{' '.join(self.command)}: no result of {mode[0]} on {devices} devices")

    def step_ms(self, mode, devices):
        return self.result(mode, devices)["step_ms"]["median"]

    def single(self):
        return self.step_ms(("single",), 1)

    def dp(self, devices):
        return self.step_ms(("dp",), devices)

    def ddp(self, devices):
        # With --overlap=off the run may call itself by the longer name.
        return self.step_ms(("ddp", "ddp_no_overlap"), devices)

    def transfer(self, devices):
        return self.result(("ddp", "ddp_no_overlap"), devices)["phases_ms"]["transfer"]


def evaluate(expression, runs):
    """Names of runs have hyphens, which Python's have not."""
    used = sorted((name for name in runs if f"{name}." in expression), key=len, reverse=True)
    names = {"middle": lambda *values: statistics.median(values)}
    for i, name in enumerate(used):
        expression = re.sub(rf"(?<![\w-]){re.escape(name)}\.", f"run{i}.", expression)
        names[f"run{i}"] = runs[name]
    return eval(expression, {"__builtins__": {}}, names)


# --- comparing ------------------------------------------------------------------------------------

def error_percent(published, ours):
    """Signed, against the number, or against the nearer end of the range; 0 inside it."""
    if not isinstance(published, dict):
        return 100 * (ours / published - 1)
    low, high = published.get("from"), published.get("to")
    if low is not None and ours < low:
        return 100 * (ours / low - 1)
    if high is not None and ours > high:
        return 100 * (ours / high - 1)
    return 0.0


def number(value):
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:#.3g}".rstrip(".")


def published_text(row):
    published = row["published"]
    if not isinstance(published, dict):
        text = number(published)
    elif "from" in published and "to" in published:
        text = f"{published['from']} to {published['to']}"
    else:
        text = f"below {published['to']}" if "to" in published else f"above {published['from']}"
    return f"{text} {row['unit']}" + (" (d)" if row.get("mark") == "d" else "")


def profile_of(row, runs):
    used = [run for name, run in runs.items() if f"{name}." in row["ours"]]
    return re.search(r"--profile=(\S+)", used[0].arguments).group(1)


def compare(table, runs, only):
    for group in table["groups"]:
        for row in group["rows"]:
            if only and only not in row["id"]:
                continue
            row["profile"] = profile_of(row, runs)
            try:
                row["value"] = evaluate(row["ours"], runs)
                row["error_percent"] = error_percent(row["published"], row["value"])
                row["good"] = abs(row["error_percent"]) <= GOOD_PERCENT
            except (RuntimeError, KeyError, ValueError) as problem:
                row["failed"] = str(problem)
                row["good"] = False
            row["explained"] = row["good"] or bool(row["miss"]) and "failed" not in row
            yield group, row


# --- writing --------------------------------------------------------------------------------------

def fitted_fields(profile):
    with open(os.path.join(ROOT, "profiles", f"{profile}.json"), encoding="utf-8") as file:
        return json.load(file)["fitted"]


def line(row):
    ours = "failed" if "failed" in row else f"{number(row['value'])} {row['unit']}"
    error = "" if "failed" in row else f"{row['error_percent']:+.0f} %"
    fit = " (fit)" if row["role"] == "fit" else ""
    return f"| {row['what']} | {published_text(row)} | {ours} | {error}{fit} | {row['profile']} |"


def group_text(group, rows):
    yield f"### {group['title']}"
    yield ""
    yield f"Source: {group['source']}. Set-up: {group['setup']}."
    yield ""
    yield "| what | published | ours | error | profile |"
    yield "|---|---|---|---|---|"
    for row in rows:
        yield line(row)
    yield ""
    sentences = []
    for row in rows:
        if "failed" in row:
            sentences.append(f"Failed: {row['what']}: {row['failed']}")
        elif not row["good"]:
            sentences.append(f"Missed: {row['what']}: {row['miss'] or 'NOT EXPLAINED'}")
    for sentence in dict.fromkeys(sentences):
        yield f"- {sentence}"
    if sentences:
        yield ""


def counts(rows):
    def share(chosen):
        return f"{sum(row['good'] for row in chosen)} of {len(chosen)}"

    predictions = [row for row in rows if row["role"] == "prediction"]
    fits = [row for row in rows if row["role"] == "fit"]
    firm = [row for row in predictions if row.get("mark") != "m"]
    memory = [row for row in predictions if row.get("mark") == "m"]
    return (f"Within {GOOD_PERCENT} %: {share(firm)} predictions, and {share(memory)} whose published"
            f" value is quoted from memory; {share(fits)} rows that the profiles were fitted to.")


def report(compared):
    rows = [row for _, row in compared]
    groups = list(dict.fromkeys(id(group) for group, _ in compared))
    by_id = {id(group): group for group, _ in compared}
    yield "# Published results, and what the virtual devices say"
    yield ""
    yield "Written by `make reproduce` from `tools/published.json`, where every command stands. No GPU"
    yield "was used: the times are those of the profiles in `profiles/`, whose parameters come from data"
    yield "sheets, other people's measurements and estimates, as each file says field by field."
    yield "(d): read off a figure, to 3 %. (fit): the profile was adjusted to this row, which therefore"
    yield "shows nothing but that it could be."
    yield ""
    yield counts(rows)
    yield ""
    for memory in (False, True):
        if memory and any(row.get("mark") == "m" for row in rows):
            yield "## Published values quoted from memory"
            yield ""
        elif not memory:
            yield "## Published values read in the source"
            yield ""
        for key in groups:
            chosen = [row for group, row in compared
                      if id(group) == key and (row.get("mark") == "m") == memory]
            if chosen:
                yield from group_text(by_id[key], chosen)
    yield "## What was fitted"
    yield ""
    for profile in dict.fromkeys(row["profile"] for row in rows):
        fields = fitted_fields(profile)
        yield f"- {profile}: {'; '.join(fields) if fields else 'nothing'}."


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trainer", default="./trainer")
    parser.add_argument("--only", default="", help="rows whose id contains this")
    parser.add_argument("--out", default="results")
    parser.add_argument("--table", default=os.path.join(HERE, "published.json"))
    options = parser.parse_args()

    with open(options.table, encoding="utf-8") as file:
        table = json.load(file)
    runs = {name: Run(options.trainer, name, arguments)
            for name, arguments in table["runs"].items()}
    compared = []
    for group, row in compare(table, runs, options.only):
        compared.append((group, row))
        print(line(row), flush=True)
        if "failed" in row:
            print(f"  {row['failed']}")
    if not compared:
        sys.exit(f"no row's id contains \"{options.only}\"")

    rows = [row for _, row in compared]
    os.makedirs(options.out, exist_ok=True)
    with open(os.path.join(options.out, "reproduce.md"), "w", encoding="utf-8") as out:
        out.write("\n".join(report(compared)) + "\n")
    with open(os.path.join(options.out, "reproduce.json"), "w", encoding="utf-8") as out:
        json.dump({"schema": 1, "counts": counts(rows), "groups": table["groups"],
                   "commands": {name: run.arguments for name, run in runs.items()}}, out, indent=1,
                  ensure_ascii=False)
        out.write("\n")
    print(counts(rows))
    unexplained = [row["id"] for row in rows if not row["explained"]]
    if unexplained:
        sys.exit("failed, or missed and not explained: " + ", ".join(unexplained))


if __name__ == "__main__":
    main()
