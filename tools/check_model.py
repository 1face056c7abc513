"""check_model.py: is the model of virtual devices true? Calibrates this machine, then holds virtual
times against measured ones, case by case.

    tools/check_model.py TRAINER

A case is a way of training (one device, DP, DDP, DDP without overlap, two devices) on a model, a batch
and a bucket size; the grid below was fixed before any of them was run. Measured and virtual runs take
turns, so that a change of the machine meets both the calibration and the cases. Prints every case, the
median error, and whether DP or DDP was foretold to win wherever the measured interval leaves no doubt.
Exit status 1 if the median error is more than 10 % or a winner is wrong.
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


def main():
    if len(sys.argv) != 2:
        sys.exit("Usage: tools/check_model.py TRAINER")
    trainer = sys.argv[1]
    errors, wrong, clear = [], [], 0
    with tempfile.TemporaryDirectory() as folder:
        profile = os.path.join(folder, "machine.json")
        subprocess.run([trainer, "--mode=calibrate", f"--json={profile}"], check=True,
                       stdin=subprocess.DEVNULL)
        print(f"{'model':<18}{'batch':>6}{'bucket':>8}  {'run':<12}{'measured':>10}{'virtual':>10}"
              f"{'error':>8}")
        print(f"{'':<18}{'':>6}{'MiB':>8}  {'':<12}{'ms':>10}{'ms':>10}{'%':>8}")
        for layers, batch, bucket in grid():
            work = [f"--layers={layers}", f"--batch={batch}"]
            if bucket:
                work.append(f"--bucket-mb={bucket}")
            real = run(trainer, ["--device=cpu", "--data=synthetic", "--samples=6000", "--steps=40",
                                 *work])
            model = run(trainer, [f"--profile={profile}", "--timing-only", *work])
            measured, virtual = step_ms(real), step_ms(model)
            for mode, name in MODES.items():
                if bucket and mode in ("single", "dp"):
                    continue
                error = virtual[mode] / measured[mode] - 1
                errors.append(abs(error))
                print(f"{layers:<18}{batch:>6}{bucket or '-':>8}  {name:<12}{measured[mode]:>10.3f}"
                      f"{virtual[mode]:>10.3f}{100 * error:>+8.1f}", flush=True)
            percent = real["comparisons"][0]["ddp_faster_percent"]
            if percent["low"] is None or percent["low"] <= 0 <= percent["high"]:
                continue
            clear += 1
            if (percent["low"] > 0) != (virtual["ddp"] < virtual["dp"]):
                wrong.append(f"{layers}, batch {batch}")
    median = statistics.median(errors)
    print(f"{len(errors)} cases: median error {100 * median:.1f} % (bound {100 * BOUND:.0f} %), "
          f"{sum(error <= BOUND for error in errors)} within it, worst {100 * max(errors):.0f} %")
    print(f"DP or DDP: {clear - len(wrong)} of {clear} clear winners foretold"
          + (f"; wrong: {'; '.join(wrong)}" if wrong else ""))
    sys.exit(median > BOUND or bool(wrong))


if __name__ == "__main__":
    main()
