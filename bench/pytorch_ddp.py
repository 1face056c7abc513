"""PyTorch's side of `make bench`: one rank of a DistributedDataParallel pair on the CPU (gloo).

    python3 bench/pytorch_ddp.py RANK RENDEZVOUS_FILE

bench.py starts rank 0 and rank 1 and gives both the same commands, one a line. PLACE is "free", where
the system puts the ranks, as torchrun starts them, or "pinned": a core for each, as the trainer does.

    train PLACE LAYERS BATCH STEPS       prints the median time of a step, ms
    allreduce PLACE BYTES TIMES          prints the median time of an all-reduce, us

PyTorch gets what makes it fast here: one thread per rank, all images in memory as floats before the
clock starts, an order shuffled beforehand, gradients that are views of the buckets, and no .item()
in a step. What is left of loading a batch is images[indices].
"""

import gzip
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
FASHION_MNIST = "/usr/share/datasets/fashion-mnist/train-"


def read_idx(name, header, shape):
    with gzip.open(FASHION_MNIST + name, "rb") as file:
        content = bytearray(file.read())
    return torch.frombuffer(content, dtype=torch.uint8, offset=header).view(shape)


def load_data():
    """60,000 images as floats and their labels; random ones where Fashion-MNIST is not installed."""
    try:
        images = read_idx("images-idx3-ubyte.gz", 16, (-1, 784))
        labels = read_idx("labels-idx1-ubyte.gz", 8, (-1,))
    except FileNotFoundError:
        images = torch.randint(0, 256, (60000, 784), dtype=torch.uint8)
        labels = torch.randint(0, 10, (60000,), dtype=torch.uint8)
    return images.float() / 255, labels.long()


class Training:
    """A model in DDP, kept from one command to the next."""

    def __init__(self, widths, batch, rank, data):
        torch.manual_seed(0)
        layers = []
        for fan_in, fan_out in zip(widths, widths[1:]):
            layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
        self.model = DistributedDataParallel(
            nn.Sequential(*layers[:-1]), gradient_as_bucket_view=True
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.loss = nn.CrossEntropyLoss()
        self.images, self.labels = data
        order = torch.randperm(len(self.labels))
        rows = batch // 2
        self.batches = order[rank::2].split(rows)[: len(order) // batch]  # full ones

    def step(self, number):
        indices = self.batches[number % len(self.batches)]
        images, labels = self.images[indices], self.labels[indices]
        self.optimizer.zero_grad()
        self.loss(self.model(images), labels).backward()
        self.optimizer.step()

    def step_ms(self, steps):
        for number in range(WARMUP):
            self.step(number)
        times = []
        for number in range(WARMUP, WARMUP + steps):
            start = time.perf_counter()
            self.step(number)
            times.append(1e3 * (time.perf_counter() - start))
        return statistics.median(times)


def all_reduce_us(bytes_, times, rank):
    buffer = torch.full((bytes_ // 4,), 1.0 if rank == 0 else -1.0)  # the sum: zeros, also later
    took = []
    for number in range(-2, times):
        start = time.perf_counter()
        dist.all_reduce(buffer)
        if number >= 0:
            took.append(1e6 * (time.perf_counter() - start))
    return statistics.median(took)


def place(cores):
    """All threads of this process, gloo's and autograd's too, onto these cores."""
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), cores)


def main():
    rank, rendezvous = int(sys.argv[1]), sys.argv[2]
    everywhere = os.sched_getaffinity(0)
    cores = {"free": everywhere, "pinned": {sorted(everywhere)[rank % len(everywhere)]}}
    torch.set_num_threads(1)
    data = load_data()
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    trainings = {}
    print("ready", flush=True)
    for line in sys.stdin:
        command, where, *what = line.split()
        place(cores[where])
        if command == "train":
            layers, batch, steps = what
            if layers not in trainings:
                widths = [int(width) for width in layers.split(",")]
                trainings[layers] = Training(widths, int(batch), rank, data)
            print(trainings[layers].step_ms(int(steps)), flush=True)
        else:
            bytes_, times = what
            print(all_reduce_us(int(bytes_), int(times), rank), flush=True)
    dist.destroy_process_group()


main()
