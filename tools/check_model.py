"""check_model.py: is the model of virtual devices true? Calibrates this machine, then holds virtual
times against measured ones, case by case.

    tools/check_model.py TRAINER [ROUNDS]

A case is a way of training (one device, DP, DDP, DDP without overlap, two devices) on a model, a batch
and a bucket size; the grid below was fixed before any of them was run. A machine's speed changes by
itself, for minutes at a time, so everything is done in rounds (3), each a calibration and all cases; a
case's times are the medians of its rounds, and how far the rounds were apart is said beside the errors.
Prints every case, the median error, and whether DP or DDP was foretold to win wherever the measured
interval leaves no doubt. Exit status 1 if the median error is more than 10 % or a winner is wrong.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile

BOUND = 0.10
MODELS = ["784,32,10", "784,128,10", "784,512,512,10", "784,1024,1024,10"]
BATCHES = [64, 256, 1024]
# buckets beside the default ones: model, batch, MiB
BUCKETS = [("784,512,512,10", 256, 0.1), ("784,512,512,10", 256, 1), ("784,1024,1024,10", 256, 1)]
MODES = {"single": "one device", "dp": "DP", "ddp": "DDP", "ddp_no_overlap": "no overlap"}


def run(trainer, arguments):
    command = [trainer, "--devices=2", "--json=-", "--quiet", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def step_ms(report):
    return {result["mode"]: result["step_ms"]["median"] for result in report["results"]}


def grid():
    for layers in MODELS:
        for batch in BATCHES:
            yield layers, batch, None
    yield from BUCKETS


def name_of(case):
    layers, batch, bucket = case
    return f"{layers}, batch {batch}" + (f", buckets of {bucket} MiB" if bucket else "")


def measure(trainer, profile, case):
    """A round of a case: {mode: measured ms}, {mode: virtual ms}, what DDP gains (low and high, %)."""
    layers, batch, bucket = case
    work = [f"--layers={layers}", f"--batch={batch}"]
    if bucket:
        work.append(f"--bucket-mb={bucket}")
    real = run(trainer, ["--device=cpu", "--data=synthetic", "--samples=6000", "--steps=40", *work])
    model = run(trainer, [f"--profile={profile}", "--timing-only", *work])
    percent = real["comparisons"][0]["ddp_faster_percent"]
    return step_ms(real), step_ms(model), (percent["low"], percent["high"])


def one_round(trainer, number):
    print(f"Round {number + 1}: ", end="", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        profile = os.path.join(folder, "machine.json")
        subprocess.run([trainer, "--mode=calibrate", f"--json={profile}"], check=True,
                       stdin=subprocess.DEVNULL)
        return {case: measure(trainer, profile, case) for case in grid()}


def clear_winner(intervals):
    """ddp or dp, if zero is outside the interval (the median one of all rounds), else None."""
    if any(low is None for low, high in intervals):
        return None
    if statistics.median(low for low, high in intervals) > 0:
        return "ddp"
    if statistics.median(high for low, high in intervals) < 0:
        return "dp"
    return None


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit("Usage: tools/check_model.py TRAINER [ROUNDS]")
    rounds = [one_round(sys.argv[1], i) for i in range(int(sys.argv[2]) if len(sys.argv) > 2 else 3)]
    errors, apart, wrong, clear = [], [], [], 0
    print(f"{'model':<18}{'batch':>6}{'bucket':>8}  {'run':<12}{'measured':>10}{'virtual':>10}"
          f"{'error':>8}")
    print(f"{'':<18}{'':>6}{'MiB':>8}  {'':<12}{'ms':>10}{'ms':>10}{'%':>8}")
    for case in grid():
        layers, batch, bucket = case
        virtual = {mode: statistics.median(each[case][1][mode] for each in rounds) for mode in MODES}
        for mode, name in MODES.items():
            if bucket and mode in ("single", "dp"):
                continue  # they have no buckets
            times = [each[case][0][mode] for each in rounds]
            measured = statistics.median(times)
            error = virtual[mode] / measured - 1
            errors.append(abs(error))
            apart.append((max(times) - min(times)) / measured)
            print(f"{layers:<18}{batch:>6}{bucket or '-':>8}  {name:<12}{measured:>10.3f}"
                  f"{virtual[mode]:>10.3f}{100 * error:>+8.1f}")
        winner = clear_winner([each[case][2] for each in rounds])
        if winner:
            clear += 1
            if (winner == "ddp") != (virtual["ddp"] < virtual["dp"]):
                wrong.append(name_of(case))
    median = statistics.median(errors)
    print(f"{len(errors)} cases: median error {100 * median:.1f} % (bound {100 * BOUND:.0f} %), "
          f"{sum(error <= BOUND for error in errors)} within it, worst {100 * max(errors):.0f} %")
    print(f"The same case, measured in {len(rounds)} rounds: {100 * statistics.median(apart):.1f} % "
          f"apart in the median, at most {100 * max(apart):.0f} %")
    print(f"DP or DDP: {clear - len(wrong)} of {clear} clear winners foretold"
          + (f"; wrong: {'; '.join(wrong)}" if wrong else ""))
    sys.exit(median > BOUND or bool(wrong))


if __name__ == "__main__":
    main()
