"""bench.py: measures the trainer on this machine and prints each figure beside its target.

    python3 bench/bench.py TRAINER FOLDER_OF_THE_BENCH_PROGRAMS

Whatever is compared takes turns: one measurement of ours, one of theirs, and again, so that a busy
moment of the machine disturbs both alike. A figure is the median of the pairs' ratios; the interval
beside it (the second lowest to the second highest of nine) holds the true median with 96 %
confidence, whatever the distribution. PyTorch's part needs python3-torch; without it only the
figures that are ours alone are printed.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

TRAINER, PROGRAMS = sys.argv[1:3]
PAIRS = 9
BATCH = 256

# layers, steps per measurement, times PyTorch's samples/s, times the products of a half batch
MODELS = [
    ("784,128,10", 200, 4.5, 1.30),
    ("784,512,512,10", 60, 1.9, 1.30),
    ("784,2048,2048,2048,10", 12, 1.35, None),
]
TEN_MILLION = "784,2048,2048,2048,10"

ONE_THREAD = dict(os.environ, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
met = missed = 0


# --- what is measured ----------------------------------------------------------------------------


def trainer(*options):
    """Runs the trainer; returns its JSON object."""
    command = [TRAINER, "--device=cpu", "--quiet", "--json=-", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"bench: {' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def step_ms(mode, layers, steps):
    """The median step of a trainer run with one device (single) or two (ddp), ms."""
    options = [f"--mode={mode}", f"--layers={layers}", f"--batch={BATCH}", f"--steps={steps}"]
    options += ["--optimizer=sgd", "--momentum=0.9", "--lr=0.01"]
    if mode == "ddp":
        options.append("--devices=2")
    return trainer(*options)["results"][0]["step_ms"]["median"]


class Workers:
    """Processes that get the same command, a line each, and answer it with a number each."""

    def __init__(self, commands):
        self.processes = [
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                bufsize=1,
                env=ONE_THREAD,
            )
            for command in commands
        ]

    def answers(self):
        lines = [process.stdout.readline() for process in self.processes]
        if "" in lines:
            sys.exit(f"bench: this ended unexpectedly: {self.processes[lines.index('')].args}")
        return lines

    def ask(self, command):
        """The slowest of the answers: a step ends when its last rank is done."""
        for process in self.processes:
            process.stdin.write(command + "\n")
        return max(float(line) for line in self.answers())

    def close(self):
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            process.wait()


def products(layers, ranks):
    command = [os.path.join(PROGRAMS, "products"), layers, str(BATCH // ranks)]
    return Workers([command + [str(core)] for core in range(ranks)])


def pytorch(folder):
    """Two ranks of PyTorch DDP; None where there is no PyTorch."""
    if subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode != 0:
        return None
    script = os.path.join(os.path.dirname(__file__), "pytorch_ddp.py")
    rendezvous = os.path.join(folder, "rendezvous")
    workers = Workers([[sys.executable, script, str(rank), rendezvous] for rank in range(2)])
    workers.answers()
    return workers


def all_reduce_us(bytes_, times):
    command = [os.path.join(PROGRAMS, "allreduce"), str(bytes_), str(times)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def start_seconds():
    """From the command to the first step. The trainer counts from main on; what loading the program
    and its libraries takes before that is the time of a run that does nothing else."""
    start = time.perf_counter()
    subprocess.run([TRAINER, "--version"], capture_output=True, check=True)
    loading = time.perf_counter() - start
    run = trainer("--mode=single", "--steps=1", "--warmup=0")
    return loading + run["environment"]["startup_seconds"]


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def pss_mb(pid):
    """What a process uses of the memory, shared pages divided among those who share them, MB."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("Pss:")) / 1e3
    except (OSError, StopIteration):
        return 0


def rank_memory_mb():
    """The most that a rank used during a short DDP run of two, looked at ten times a second."""
    command = [TRAINER, "--device=cpu", "--quiet", "--mode=ddp", "--devices=2"]
    command += [f"--layers={TEN_MILLION}", "--steps=20", "--optimizer=sgd"]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    most = 0
    while run.poll() is None:
        most = max([most] + [pss_mb(pid) for pid in children(run.pid)])
        time.sleep(0.1)
    return most


# --- what is printed -----------------------------------------------------------------------------


def report(what, values, target, unit, more_is_better, details=""):
    global met, missed
    values = sorted(values)
    median = statistics.median(values)
    good = median >= target if more_is_better else median <= target
    met += good
    missed += not good
    # of n values, the k-th lowest to the k-th highest: the tightest with at least 95 % confidence
    low, high = (values[1], values[-2]) if len(values) >= 9 else (values[0], values[-1])
    bound = "at least" if more_is_better else "at most"
    print(
        f"{what:<34} {median:8.3g} {unit:<3} ({low:.3g} - {high:.3g})".ljust(66)
        + f" {bound} {target:g}".ljust(16)
        + ("ok    " if good else "SHORT ")
        + details,
        flush=True,
    )


def compare(ours, theirs, pairs=PAIRS):
    """`pairs` measurements of each, in turn."""
    return [(ours(), theirs()) for _ in range(pairs)]


def medians(pairs, unit):
    ours, theirs = (statistics.median(column) for column in zip(*pairs))
    return f"{ours:.4g} against {theirs:.4g} {unit}"


def main():
    print(f"{'figure':<34} {'median':>8}     (interval)".ljust(66) + " target".ljust(16) + "result")
    with tempfile.TemporaryDirectory() as folder:
        torch = pytorch(folder)
        if torch:
            print("\nDDP, two ranks, batch 256, SGD with momentum: samples/s over PyTorch DDP's")
            for layers, steps, target, _ in MODELS:
                pairs = compare(
                    lambda: step_ms("ddp", layers, steps),
                    lambda: torch.ask(f"train {layers} {BATCH} {steps}"),
                )
                ratios = [theirs / ours for ours, theirs in pairs]
                report(layers, ratios, target, "x", True, medians(pairs, "ms a step"))
        else:
            print("\n(no PyTorch in this Python: comparisons with it are left out; python3-torch)")

        print("\nA step over the matrix products it consists of")
        for layers, steps, _, two_ranks_target in MODELS:
            for mode, ranks, target in ("single", 1, 1.10), ("ddp", 2, two_ranks_target):
                if target is None:
                    continue
                workers = products(layers, ranks)
                pairs = compare(
                    lambda: step_ms(mode, layers, steps), lambda: workers.ask(str(steps))
                )
                workers.close()
                ratios = [ours / theirs for ours, theirs in pairs]
                name = f"{layers}, {'one device' if ranks == 1 else 'two ranks'}"
                report(name, ratios, target, "x", False, medians(pairs, "ms"))

        if torch:
            print("\nAll-reduce between two ranks: time over gloo's")
            for bytes_, times, target, name in (
                (64 << 20, 7, 1 / 4, "64 MiB"),
                (4 << 10, 400, 1 / 20, "4 KiB"),
            ):
                pairs = compare(
                    lambda: all_reduce_us(bytes_, times),
                    lambda: torch.ask(f"allreduce {bytes_} {times}"),
                )
                ratios = [ours / theirs for ours, theirs in pairs]
                report(name, ratios, target, "x", False, medians(pairs, "us"))
            torch.close()

    print("\nThe program itself")
    report("start to first step", [start_seconds() for _ in range(7)], 0.8, "s", False)
    report("memory of a rank, 10 M parameters", [rank_memory_mb()], 300, "MB", False, "PSS")

    print(f"\n{met} met, {missed} short")


main()
