"""bench.py: measures the trainer on this machine and prints each figure beside its target.

    python3 bench/bench.py TRAINER FOLDER_OF_THE_BENCH_PROGRAMS [SECTION ...]

Sections are pytorch, products, allreduce and program; all of them if none is named. BENCH_JSON=FILE in
the environment also writes every figure, with all that was measured for it, to a file.

Whatever is compared takes turns: one measurement of ours, one of theirs, and again, so that a busy
moment of the machine disturbs both alike. A figure is the median of the pairs' ratios; the interval
beside it (the second lowest to the second highest of nine) holds the true median with 96 %
confidence, whatever the distribution. What others took of the machine's time meanwhile is printed at
the end: beyond a few per cent the figures are not to be trusted.

PyTorch's part needs python3-torch; without it only the figures that are ours alone are printed.
PyTorch's ranks run where the system puts them, as torchrun starts them. The trainer pins its ranks to
a core each, so the lines below "pinned" show the same with PyTorch's ranks pinned, too.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

SECTIONS = ("pytorch", "products", "allreduce", "program")
PAIRS = 9
BATCH = 256

# layers, steps per measurement, times PyTorch's samples/s, times the products of a half batch
MODELS = [
    ("784,512,512,10", 80, 1.9, 1.30),
    ("784,128,10", 500, 4.5, 1.30),
    ("784,2048,2048,2048,10", 14, 1.35, None),
]
TEN_MILLION = "784,2048,2048,2048,10"

ONE_THREAD = dict(os.environ, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")


# --- what is measured ----------------------------------------------------------------------------


class Trainer:
    def __init__(self, path):
        self.path = path

    def run(self, *options):
        """The JSON object of a run."""
        command = [self.path, "--device=cpu", "--quiet", "--json=-", *options]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"bench: {' '.join(command)}\n{done.stderr}")
        return json.loads(done.stdout)

    def step_ms(self, mode, layers, steps):
        """The median step with one device (single) or two (ddp), ms."""
        options = [f"--mode={mode}", f"--layers={layers}", f"--batch={BATCH}", f"--steps={steps}"]
        options += ["--optimizer=sgd", "--momentum=0.9", "--lr=0.01"]
        if mode == "ddp":
            options.append("--devices=2")
        return self.run(*options)["results"][0]["step_ms"]["median"]

    def start_s(self):
        """From the command to the first step of two ranks. The trainer counts from main on; what
        loading the program takes before that is the time of a run that does nothing else."""
        start = time.perf_counter()
        subprocess.run([self.path, "--version"], capture_output=True, check=True)
        loading = time.perf_counter() - start
        run = self.run("--mode=ddp", "--devices=2", "--steps=1", "--warmup=0")
        return loading + run["environment"]["startup_seconds"]

    def rank_memory_mb(self):
        """The most that a rank used during a short DDP run of two, looked at ten times a second."""
        command = [self.path, "--device=cpu", "--quiet", "--mode=ddp", "--devices=2"]
        command += [f"--layers={TEN_MILLION}", "--steps=20", "--optimizer=sgd"]
        run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        most = 0
        while run.poll() is None:
            most = max([most] + [pss_mb(pid) for pid in children(run.pid)])
            time.sleep(0.1)
        if run.returncode != 0:
            sys.exit(f"bench: failed: {' '.join(command)}")
        return most


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
            kib = next(int(line.split()[1]) for line in file if line.startswith("Pss:"))
        return kib * 1024 / 1e6
    except (OSError, StopIteration):
        return 0


class Workers:
    """Processes that get the same command, a line each, and answer it with a number each."""

    def __init__(self, commands):
        self.processes = [
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
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


def pytorch_ranks(folder):
    """Two ranks of PyTorch DDP; None where there is no PyTorch."""
    if subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode != 0:
        print("No PyTorch (package python3-torch): what is held against it is left out.")
        return None
    script = os.path.join(os.path.dirname(__file__), "pytorch_ddp.py")
    rendezvous = os.path.join(folder, "rendezvous")
    workers = Workers([[sys.executable, script, str(rank), rendezvous] for rank in range(2)])
    workers.answers()
    return workers


class Load:
    """What others take of the machine's time, from the kernel's account of all and of ours."""

    def __init__(self):
        self.start = self.now()

    @staticmethod
    def now():
        with open("/proc/stat") as file:
            user, nice, system, idle, iowait, irq, softirq, steal = map(
                int, file.readline().split()[1:9]
            )
        tick = os.sysconf("SC_CLK_TCK")
        busy = (user + nice + system + irq + softirq + steal) / tick
        ours = 0
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
            usage = resource.getrusage(who)
            ours += usage.ru_utime + usage.ru_stime
        return busy, busy + (idle + iowait) / tick, ours

    def others_percent(self):
        """Since it was made. Only children that have ended count as ours."""
        busy, total, ours = (now - then for now, then in zip(self.now(), self.start))
        return max(0, 100 * (busy - ours) / total)


# --- what is printed -----------------------------------------------------------------------------


class Report:
    def __init__(self):
        self.figures = []
        print(f"{'':<40} {'median':>7}      (interval)".ljust(74) + "target")

    def title(self, text):
        print(f"\n{text}", flush=True)

    def add(self, name, values, unit, target=None, at_least=False, pairs=None, pair_unit=""):
        """A line: the median of the values beside its target, if it has one."""
        ordered = sorted(values)
        median = statistics.median(ordered)
        # of n values, the k-th lowest to the k-th highest: the tightest with at least 95 % confidence
        low, high = (ordered[1], ordered[-2]) if len(ordered) >= 9 else (ordered[0], ordered[-1])
        verdict = bound = None
        if target is not None:
            bound = "at least" if at_least else "at most"
            verdict = "PASS" if (median >= target if at_least else median <= target) else "SHORT"
        line = f"  {name:<38} {median:7.3g} {unit:<2} ({low:.3g} - {high:.3g})".ljust(74)
        line += f"{bound} {target:g}".ljust(15) + f"{verdict:<6}" if verdict else " " * 21
        if pairs:
            ours, theirs = (statistics.median(column) for column in zip(*pairs))
            line += f"{ours:.4g} against {theirs:.4g} {pair_unit}"
        print(line.rstrip(), flush=True)
        figure = {"name": name, "median": median, "low": low, "high": high, "unit": unit}
        figure.update(bound=bound, target=target, verdict=verdict, values=values)
        if pairs:
            figure.update(ours=[p[0] for p in pairs], theirs=[p[1] for p in pairs])
            figure.update(measured_in=pair_unit)
        self.figures.append(figure)

    def count(self, verdict):
        return sum(figure["verdict"] == verdict for figure in self.figures)


def take_turns(*measurements):
    """A tuple of one measurement of each, PAIRS times."""
    return [tuple(measure() for measure in measurements) for _ in range(PAIRS)]


def cpu_name():
    with open("/proc/cpuinfo") as file:
        names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    return names[0] if names else "unknown"


# --- the sections --------------------------------------------------------------------------------


def against_pytorch(report, trainer, torch):
    report.title("Samples/s of DDP, two ranks, batch 256, SGD with momentum: times PyTorch DDP's")
    for layers, steps, target, _ in MODELS:
        turns = take_turns(
            lambda: trainer.step_ms("ddp", layers, steps),
            lambda: torch.ask(f"train free {layers} {BATCH} {steps}"),
            lambda: torch.ask(f"train pinned {layers} {BATCH} {steps}"),
        )
        for column, name, its_target in ((1, layers, target), (2, "  PyTorch pinned", None)):
            rates = [(BATCH / turn[0] * 1e3, BATCH / turn[column] * 1e3) for turn in turns]
            ratios = [ours / theirs for ours, theirs in rates]
            report.add(name, ratios, "x", its_target, True, rates, "samples/s")


def against_products(report, trainer, programs):
    report.title("A step: times the matrix products it consists of")
    for layers, steps, _, two_ranks_target in MODELS:
        for mode, ranks, target in ("single", 1, 1.10), ("ddp", 2, two_ranks_target):
            command = [os.path.join(programs, "products"), layers, str(BATCH // ranks)]
            products = Workers([command + [str(core)] for core in range(ranks)])
            pairs = take_turns(
                lambda: trainer.step_ms(mode, layers, steps), lambda: products.ask(str(steps))
            )
            products.close()
            name = f"{layers}, {'one device' if ranks == 1 else 'two ranks'}"
            report.add(name, [a / b for a, b in pairs], "x", target, False, pairs, "ms")


def against_gloo(report, programs, torch):
    def ours(bytes_, times):
        command = [os.path.join(programs, "allreduce"), str(bytes_), str(times)]
        return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    report.title("All-reduce between two ranks: times gloo's time")
    for name, bytes_, times, target in (
        ("64 MiB", 64 << 20, 9, 1 / 4),
        ("4 KiB", 4 << 10, 2000, 1 / 20),
    ):
        turns = take_turns(
            lambda: ours(bytes_, times),
            lambda: torch.ask(f"allreduce free {bytes_} {times}"),
            lambda: torch.ask(f"allreduce pinned {bytes_} {times}"),
        )
        for column, title, its_target in ((1, name, target), (2, "  gloo pinned", None)):
            pairs = [(turn[0], turn[column]) for turn in turns]
            report.add(title, [a / b for a, b in pairs], "x", its_target, False, pairs, "us")


def main():
    if len(sys.argv) < 3 or not set(sys.argv[3:]) <= set(SECTIONS):
        sys.exit(f"usage: bench.py TRAINER PROGRAMS [{'|'.join(SECTIONS)} ...]")
    trainer, programs, sections = Trainer(sys.argv[1]), sys.argv[2], sys.argv[3:] or SECTIONS
    began, load, report = time.time(), Load(), Report()
    if "pytorch" in sections or "allreduce" in sections:
        with tempfile.TemporaryDirectory() as folder:
            torch = pytorch_ranks(folder)
            if torch and "pytorch" in sections:
                against_pytorch(report, trainer, torch)
            if torch and "allreduce" in sections:
                against_gloo(report, programs, torch)
            if torch:
                torch.close()
    if "products" in sections:
        against_products(report, trainer, programs)
    if "program" in sections:
        report.title("The program itself")
        starts = [trainer.start_s() for _ in range(PAIRS)]
        report.add("from start to first step, two ranks", starts, "s", 0.8)
        report.add("PSS of a rank, 10 M parameters", [trainer.rank_memory_mb()], "MB", 300)

    others = load.others_percent()
    passed, short = report.count("PASS"), report.count("SHORT")
    print(f"\n{passed} PASS, {short} SHORT, in {time.time() - began:.0f} s; ", end="")
    print(f"others took {others:.0f} % of the machine's time meanwhile")
    if os.environ.get("BENCH_JSON"):
        machine = {"cpu": cpu_name(), "cores": os.cpu_count(), "others_percent": others}
        date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began))
        object_ = {"schema": 1, "date": date, "environment": machine, "figures": report.figures}
        with open(os.environ["BENCH_JSON"], "w") as file:
            json.dump(object_, file, indent=1)
            file.write("\n")


main()
