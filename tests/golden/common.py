"""What the scripts in this folder share: the generated data set, the model, and the file format.

tests/golden.h generates the same data set in C.
"""
import os
import sys
import tempfile

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import numpy
import torch
import torch.distributed
import torch.multiprocessing

torch.set_num_threads(1)


def scramble(number):
    """An integer hash of 32 bits: equal inputs, equal outputs, and no pattern to be seen."""
    x = number.astype(numpy.uint64) & 0xFFFFFFFF
    x ^= x >> 16
    x = x * 0x7FEB352D & 0xFFFFFFFF
    x ^= x >> 15
    x = x * 0x846CA68B & 0xFFFFFFFF
    x ^= x >> 16
    return x


def images(count, pixels, classes):
    """`count` images and labels. Each class has a pattern; an image is a quarter its class's pattern
    and three quarters noise, so that a model has something to learn and does not learn it at once."""
    sample = numpy.arange(count, dtype=numpy.uint64)[:, None]
    pixel = numpy.arange(pixels, dtype=numpy.uint64)[None, :]
    label = scramble(sample) % classes
    pattern = scramble(0x10000000 + label * pixels + pixel) >> 24
    noise = scramble(0x20000000 + sample * pixels + pixel) >> 24
    value = ((pattern + 3 * noise) // 4).astype(numpy.uint8)
    return value, label[:, 0].astype(numpy.uint8)


def tensors(count, pixels, classes):
    """The same as the floats that torchvision's ToTensor makes, and labels for cross_entropy."""
    value, label = images(count, pixels, classes)
    return (torch.from_numpy(value).to(torch.float32).div(255),
            torch.from_numpy(label.astype(numpy.int64)))


def mlp(widths, seed):
    """The model of the twin, freshly initialised; of one layer, a plain nn.Linear."""
    torch.manual_seed(seed)
    layers = []
    for fan_in, fan_out in zip(widths, widths[1:]):
        layers += [torch.nn.Linear(fan_in, fan_out), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1]) if len(layers) > 2 else layers[0]


def bits(tensor):
    """A float tensor's elements as the eight hexadecimal digits of their bits."""
    flat = tensor.detach().contiguous().view(-1).numpy().view(numpy.uint32)
    return ["%08x" % x for x in flat]


def fnv(numbers):
    """64-bit FNV-1a over 32-bit numbers, for sequences too long to be stored."""
    value = 14695981039346656037
    for number in numbers:
        value = ((value ^ int(number)) * 1099511628211) & 0xFFFFFFFFFFFFFFFF
    return "%016x" % value


class Golden:
    """The file NAME.txt beside the script NAME.py."""

    def __init__(self):
        script = os.path.abspath(sys.argv[0])
        self.file = open(os.path.splitext(script)[0] + ".txt", "w")
        print("# made by %s with PyTorch %s" % (os.path.basename(script), torch.__version__),
              file=self.file)

    def line(self, *words):
        print(*words, file=self.file)

    def values(self, values, per_line=12):
        values = list(values)
        for i in range(0, len(values), per_line):
            self.line(*values[i:i + per_line])


def _rank(rank, world, folder, function, arguments):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method="file://%s/meet" % folder, rank=rank,
                                         world_size=world)
    torch.save(function(rank, world, *arguments), "%s/%d" % (folder, rank))
    torch.distributed.destroy_process_group()


def ranks(world, function, *arguments):
    """What function(rank, world, *arguments) returns on each of `world` ranks, processes that talk
    through gloo."""
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(_rank, (world, folder, function, arguments), world)
        return [torch.load("%s/%d" % (folder, rank)) for rank in range(world)]
