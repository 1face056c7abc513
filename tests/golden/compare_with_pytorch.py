"""The whole program beside PyTorch on real Fashion-MNIST: every loss of a short training.

    /usr/bin/python3 tests/golden/compare_with_pytorch.py [--mode=single|dp|ddp] [--steps=50] ...

Run from the repository's root, after `make`. The options are those of ./trainer, but for --epochs. Trains
with ./trainer and with a plain PyTorch loop from the same seed, prints both losses of each step, and the
largest difference. PyTorch is also trained with every batch summed in two halves: how far it is then from
itself is what rounding alone does. Not run by `make test`, which needs no PyTorch. Exits 1 if a loss of
the first ten steps differs by more than 1e-5, or a later one by more than 1e-5 and ten times what PyTorch
has differed from itself so far.
"""
import gzip
import json
import subprocess
import sys

from common import mlp, numpy, torch
from torch.nn.functional import cross_entropy
from torch.utils.data.distributed import DistributedSampler

FOLDER = "/usr/share/datasets/fashion-mnist/train-%s-ubyte.gz"


def trainer_run(options):
    """The JSON object of a run of ./trainer: the configuration as used, and the losses."""
    command = ["./trainer", "--mode=single", "--optimizer=sgd", "--steps=20", "--warmup=0", *options,
               "--data=fashion-mnist", "--device=cpu", "--log-losses", "--quiet", "--json=-"]
    print(" ".join(command))
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    run = json.loads(done.stdout)
    assert len(run["results"]) == 1, "give one mode and one number of devices"
    return run["config"], run["results"][0]["losses"]


def fashion_mnist():
    """Pixels [60000, 784] as ToTensor makes them, and labels."""
    with gzip.open(FOLDER % "images-idx3") as file:
        pixels = numpy.frombuffer(file.read(), numpy.uint8, offset=16).reshape(-1, 784)
    with gzip.open(FOLDER % "labels-idx1") as file:
        labels = numpy.frombuffer(file.read(), numpy.uint8, offset=8)
    return (torch.from_numpy(pixels.astype(numpy.float32)).div(255),
            torch.from_numpy(labels.astype(numpy.int64)))


def optimizer_of(config, parameters):
    lr, decay = config["lr"], config["weight_decay"]
    if config["optimizer"] == "sgd":
        return torch.optim.SGD(parameters, lr=lr, momentum=config["momentum"], weight_decay=decay)
    maker = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[config["optimizer"]]
    return maker(parameters, lr=lr, weight_decay=decay)


def batches(config, count):
    """Sample numbers of each update, epoch after epoch without end."""
    sampler = DistributedSampler(range(count), num_replicas=1, rank=0, shuffle=True, seed=config["seed"])
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        yield from torch.tensor(list(sampler)).split(config["batch"])
        epoch += 1


def pytorch_losses(config, data, steps, pieces):
    """Mean losses of `steps` batches, each summed in so many pieces."""
    pixels, labels = data
    model = mlp(config["layers"], config["seed"])
    optimizer = optimizer_of(config, model.parameters())
    losses = []
    for _, batch in zip(range(steps), batches(config, len(labels))):
        optimizer.zero_grad()
        total = 0.0
        for rows in batch.chunk(pieces):
            loss = cross_entropy(model(pixels[rows]), labels[rows], reduction="none")
            total += loss.detach().double().sum().item()
            (loss.sum() / len(batch)).backward()
        losses.append(total / len(batch))
        optimizer.step()
    return losses


def main():
    config, ours = trainer_run(sys.argv[1:])
    data = fashion_mnist()
    theirs = pytorch_losses(config, data, len(ours), 1)
    halves = pytorch_losses(config, data, len(ours), 2)
    print("step   trainer     PyTorch     apart    PyTorch in halves apart")
    bad = largest = strayed = 0
    for step, (own, whole, half) in enumerate(zip(ours, theirs, halves), 1):
        apart = abs(own - whole)
        largest = max(largest, apart)
        strayed = max(strayed, abs(half - whole))
        wrong = apart > (1e-5 if step <= 10 else max(1e-5, 10 * strayed))
        bad += wrong
        print("%4d  %.8f  %.8f  %.1e  %.1e%s" % (step, own, whole, apart, abs(half - whole),
                                                "  <-- too far" if wrong else ""))
    print("largest difference %.1e; PyTorch from itself %.1e: %s" %
          (largest, strayed, "FAILED" if bad or not ours else "OK"))
    return 1 if bad or not ours else 0


if __name__ == "__main__":
    sys.exit(main())
