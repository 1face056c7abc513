"""Losses of 100 steps, and how far PyTorch itself strays when it sums in another order.

Training amplifies rounding: a sum taken in another order differs in its last bit, and a hundred steps
later the loss differs in its third digit, or not, as the seed has it. So each case is also trained with
the same batches summed in other orders (ORDERS below), which all are right. What they span at a step is
how far apart two correct programs may be there.

    data COUNT PIXELS CLASSES              the generated data set
    losses KIND SEED LR MOMENTUM WEIGHT_DECAY BATCH STEPS LAYERS WIDTHS...
    then per step: LOSS LEAST MOST         of the step's batch before its update: as PyTorch sums it; the
                                           least and the most over all orders, this one included

The order of the samples is DistributedSampler's with the same seed; an epoch's last batch may be smaller.
"""
import sys

from common import Golden, mlp, tensors, torch
from torch.nn.functional import cross_entropy
from torch.utils.data.distributed import DistributedSampler

COUNT, WIDTHS, BATCH, STEPS = 600, [144, 32, 10], 64, 100


def whole(rows):
    return [rows]


def pieces(count):
    return lambda rows: rows.chunk(count)


def ranks(world):
    return lambda rows: [rows[rank::world] for rank in range(world)]


def shuffled(seed, then=whole):
    def split(rows):
        generator = torch.Generator()
        generator.manual_seed(seed)
        return then(rows[torch.randperm(len(rows), generator=generator)])
    return split


# Each entry: how a batch is cut into pieces whose gradients are added; and a seed for another order of the
# pixels and hidden units (with the weights' rows and columns moved along), or None. The first is plain PyTorch.
ORDERS = [(whole, None), (pieces(2), None), (pieces(4), None), (pieces(64), None), (ranks(2), None),
          (ranks(3), None), (ranks(4), None), (lambda rows: whole(rows.flip(0)), None)]
ORDERS += [(shuffled(seed), None) for seed in range(4)]
ORDERS += [(shuffled(seed, pieces(2)), None) for seed in range(4, 8)]
ORDERS += [(whole, seed) for seed in range(4)]
ORDERS += [(shuffled(seed, ranks(2)), seed) for seed in range(4, 16)]


def permute(model, seed):
    """Puts pixels and hidden units into another order; returns the pixels' order."""
    generator = torch.Generator()
    generator.manual_seed(seed)
    linear = [module for module in model if isinstance(module, torch.nn.Linear)]
    pixels = order = torch.randperm(WIDTHS[0], generator=generator)
    with torch.no_grad():
        for layer in linear:
            layer.weight.copy_(layer.weight[:, order].clone())
            if layer is not linear[-1]:
                order = torch.randperm(layer.out_features, generator=generator)
                layer.weight.copy_(layer.weight[order].clone())
                layer.bias.copy_(layer.bias[order].clone())
    return pixels


def optimizer_of(kind, parameters, lr, momentum, decay):
    if kind == "sgd":
        return torch.optim.SGD(parameters, lr=lr, momentum=momentum, weight_decay=decay, foreach=False)
    maker = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[kind]
    return maker(parameters, lr=lr, weight_decay=decay, foreach=False)


def batches(seed):
    sampler = DistributedSampler(range(COUNT), num_replicas=1, rank=0, shuffle=True, seed=seed)
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        yield from torch.tensor(list(sampler)).split(BATCH)
        epoch += 1


def train(kind, seed, lr, momentum, decay, split, moved, data):
    pixels, labels = data
    model = mlp(WIDTHS, seed)
    if moved is not None:
        pixels = pixels[:, permute(model, moved)].contiguous()
    optimizer = optimizer_of(kind, model.parameters(), lr, momentum, decay)
    losses = []
    for _, batch in zip(range(STEPS), batches(seed)):
        optimizer.zero_grad()
        total = 0.0
        for rows in split(batch):
            if len(rows) == 0:
                continue
            loss = cross_entropy(model(pixels[rows]), labels[rows], reduction="none")
            total += loss.detach().double().sum().item()
            (loss.sum() / len(batch)).backward()
        losses.append(total / len(batch))
        optimizer.step()
    return losses


def main():
    golden = Golden()
    golden.line("data", COUNT, WIDTHS[0], WIDTHS[-1])
    data = tensors(COUNT, WIDTHS[0], WIDTHS[-1])
    for kind, lr, momentum, decay in [("sgd", 0.1, 0.9, 0), ("sgd", 0.1, 0.9, 0.001),
                                      ("sgd", 0.1, 0, 0), ("adam", 0.001, 0, 0),
                                      ("adam", 0.01, 0, 0.01), ("adamw", 0.01, 0, 0.1)]:
        for seed in (0, 1, 2):
            runs = [train(kind, seed, lr, momentum, decay, split, moved, data)
                    for split, moved in ORDERS]
            golden.line("losses", kind, seed, lr, momentum, decay, BATCH, STEPS, len(WIDTHS) - 1,
                        *WIDTHS)
            for step in zip(*runs):
                golden.line("%.10f %.10f %.10f" % (step[0], min(step), max(step)))
            spread = [max(step) - min(step) for step in zip(*runs)]
            print(kind, seed, decay, "loss %.4f -> %.4f" % (runs[0][0], runs[0][-1]),
                  "spread at step 10, 20, 50, 100:",
                  *("%.1e" % spread[k] for k in (9, 19, 49, 99)), file=sys.stderr)


if __name__ == "__main__":
    main()
