"""Gradient accumulation: DistributedDataParallel on two ranks, no_sync around all micro-batches but the last.

Each rank splits its share of a batch with torch.tensor_split, and scales each micro-batch's loss so that the
gradients add up to those of the whole share. A hook counts how often DistributedDataParallel exchanges a
bucket of gradients (here there is one bucket).

    data COUNT PIXELS CLASSES
    ddp ACCUMULATE KIND SEED LR MOMENTUM WEIGHT_DECAY BATCH STEPS LAYERS WIDTHS...
                                           two ranks; BATCH over both, in ACCUMULATE micro-batches
    exchanges 1 and NUMBER                 bucket exchanges in all STEPS, with no_sync
    without 1 and NUMBER                   the same without it
    losses and STEPS numbers               of each step's batch before its update, over both ranks
    NAME COUNT and COUNT numbers           the last layer after the last step
"""
from contextlib import nullcontext

from common import Golden, mlp, ranks, tensors, torch
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler
from unused import optimizer_of

COUNT, WIDTHS, BATCH, STEPS = 600, [144, 32, 10], 64, 20


def train(rank, world, accumulate, no_sync, kind, seed, lr, momentum, decay):
    pixels, labels = tensors(COUNT, WIDTHS[0], WIDTHS[-1])
    model = DistributedDataParallel(mlp(WIDTHS, seed))
    exchanges = []

    def counting(state, bucket):
        exchanges.append(bucket.index())
        return allreduce_hook(state, bucket)

    model.register_comm_hook(None, counting)
    optimizer = optimizer_of(kind, model.parameters(), lr, momentum, decay)
    sampler = DistributedSampler(range(COUNT), num_replicas=world, rank=rank, shuffle=True, seed=seed)
    losses, epoch = [], 0
    while True:
        sampler.set_epoch(epoch)
        epoch += 1
        for rows in torch.tensor(list(sampler)).split(BATCH // world):
            if len(losses) == STEPS:
                return losses, dict(list(model.module.named_parameters())[-2:]), len(exchanges)
            optimizer.zero_grad(set_to_none=True)
            micros, total = rows.tensor_split(accumulate), 0
            for i, micro in enumerate(micros):
                with model.no_sync() if no_sync and i < len(micros) - 1 else nullcontext():
                    loss = cross_entropy(model(pixels[micro]), labels[micro]) * (len(micro) / len(rows))
                    loss.backward()
                total += loss.item()
            losses.append(total)
            optimizer.step()


def main():
    golden = Golden()
    golden.line("data", COUNT, WIDTHS[0], WIDTHS[-1])
    for accumulate, kind, lr, momentum, decay in [(1, "sgd", 0.1, 0.9, 0.01), (4, "sgd", 0.1, 0.9, 0.01),
                                                  (3, "sgd", 0.1, 0.9, 0.01), (4, "adamw", 0.01, 0, 0.1),
                                                  (12, "adamw", 0.01, 0, 0.1)]:
        settings = (kind, 0, lr, momentum, decay)
        (losses, last, exchanges), (others, other, _) = ranks(2, train, accumulate, True, *settings)
        without = ranks(2, train, accumulate, False, *settings)[0][2]
        assert all(torch.equal(last[name], other[name]) for name in last)
        golden.line("ddp", accumulate, *settings, BATCH, STEPS, len(WIDTHS) - 1, *WIDTHS)
        for name, number in ("exchanges", exchanges), ("without", without):
            golden.line(name, 1)
            golden.values([str(number)])
        golden.line("losses")
        golden.values("%.9g" % ((a + b) / 2) for a, b in zip(losses, others))
        for name, parameter in last.items():
            golden.line(name, parameter.numel())
            golden.values("%.9g" % x for x in parameter.view(-1).tolist())


if __name__ == "__main__":
    main()
