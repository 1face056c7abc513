"""PyTorch's side of `make bench`: one rank of a DistributedDataParallel pair on the CPU (gloo).

    python3 bench/pytorch_ddp.py RANK RENDEZVOUS_FILE

bench.py starts rank 0 and rank 1 and gives both the same commands, one a line:

    train LAYERS BATCH STEPS       prints the median time of a step, ms
    allreduce BYTES TIMES          prints the median time of an all-reduce, us

PyTorch gets what makes it fast here: one thread and one core per rank, float inputs that are in
memory before the clock starts, batches that are slices of them, gradients that are views of the
buckets, and no .item() in a step.
"""

import os
import statistics
import sys
import time

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WARMUP = 5
BATCHES_IN_MEMORY = 16


class Training:
    """A model in DDP and its data, kept from one command to the next."""

    def __init__(self, widths, batch, rank):
        torch.manual_seed(0)
        layers = []
        for fan_in, fan_out in zip(widths, widths[1:]):
            layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
        self.model = DistributedDataParallel(
            nn.Sequential(*layers[:-1]), gradient_as_bucket_view=True
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.loss = nn.CrossEntropyLoss()
        self.rows = batch // 2
        torch.manual_seed(1 + rank)
        samples = BATCHES_IN_MEMORY * self.rows
        self.images = torch.randint(0, 256, (samples, widths[0])).float() / 255
        self.labels = torch.randint(0, widths[-1], (samples,))

    def step(self, number):
        first = number % BATCHES_IN_MEMORY * self.rows
        images = self.images[first : first + self.rows]
        labels = self.labels[first : first + self.rows]
        self.optimizer.zero_grad()
        self.loss(self.model(images), labels).backward()
        self.optimizer.step()

    def step_ms(self, steps):
        for number in range(WARMUP):
            self.step(number)
        times = []
        for number in range(steps):
            start = time.perf_counter()
            self.step(number)
            times.append(1e3 * (time.perf_counter() - start))
        return statistics.median(times)


def all_reduce_us(buffer, times):
    took = []
    for number in range(-2, times):
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(buffer)
        if number >= 0:
            took.append(1e6 * (time.perf_counter() - start))
        buffer.zero_()
    return statistics.median(took)


def main():
    rank, rendezvous = int(sys.argv[1]), sys.argv[2]
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) >= 2:
        os.sched_setaffinity(0, {cores[rank]})
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    trainings = {}
    print("ready", flush=True)
    for line in sys.stdin:
        command, what, *numbers = line.split()
        if command == "train":
            batch, steps = map(int, numbers)
            if what not in trainings:
                trainings[what] = Training([int(width) for width in what.split(",")], batch, rank)
            print(trainings[what].step_ms(steps), flush=True)
        else:
            buffer = torch.zeros(int(what) // 4)
            print(all_reduce_us(buffer, int(numbers[0])), flush=True)
    dist.destroy_process_group()


main()
