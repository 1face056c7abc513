"""Uneven inputs: DistributedDataParallel on two ranks, the second with fewer batches per epoch, under Join.

Join is entered anew for every epoch, with divide_by_initial_world_size=True, its default: a step in which
one of two ranks has a batch of b samples makes an update with the sum of their gradients over 2 b.

    data COUNT PIXELS CLASSES
    join UNEVEN EPOCHS UNUSED KIND SEED LR MOMENTUM WEIGHT_DECAY BATCH STEPS LAYERS WIDTHS...
                                           two ranks; BATCH over both; STEPS in all that rank 0 makes, of
                                           which rank 1 lacks the last UNEVEN of each epoch; UNUSED: none,
                                           or as in unused.py, with find_unused_parameters=True
    losses and STEPS numbers               of the samples of each step before its update
    NAME COUNT and COUNT numbers           the last layer, or the branch, after the last step, the same on
                                           both ranks

Of the ways to learn, all are stored for one epoch, but for more epochs only SGD without momentum: a rank
that has run out makes no updates and is given the others' weights in the end, but not the state of their
optimizers. From the second epoch on its replica goes its own way. How far is printed, not stored.
"""
from common import Golden, mlp, ranks, tensors, torch
from torch.distributed.algorithms.join import Join
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler
from unused import Branched, optimizer_of

COUNT, WIDTHS, BATCH = 600, [144, 32, 10], 64


def train(rank, world, uneven, epochs, unused, kind, seed, lr, momentum, decay):
    pixels, labels = tensors(COUNT, WIDTHS[0], WIDTHS[-1])
    torch.manual_seed(seed)
    skips = unused == "always" or (unused == "rank0" and rank == 0)
    model = mlp(WIDTHS, seed) if unused == "none" else Branched(WIDTHS, skips)
    model = DistributedDataParallel(model, find_unused_parameters=unused != "none")
    optimizer = optimizer_of(kind, model.parameters(), lr, momentum, decay)
    sampler = DistributedSampler(range(COUNT), num_replicas=world, rank=rank, shuffle=True, seed=seed)
    losses, before_sync = [], None
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        batches = torch.tensor(list(sampler)).split(BATCH // world)
        own = len(batches) - uneven * (rank == world - 1)
        with Join([model]):
            for at, rows in enumerate(batches[:own]):
                optimizer.zero_grad(set_to_none=True)
                loss = cross_entropy(model(pixels[rows]), labels[rows])
                losses.append(loss.item())
                loss.backward()
                optimizer.step()
                if at == len(batches) - uneven - 1:
                    before_sync = [p.detach().clone() for p in model.parameters()]
        losses += [None] * (len(batches) - own)
    last = {name: p.detach() for name, p in list(model.module.named_parameters())[-2:]}
    return losses, last, before_sync


def main():
    golden = Golden()
    golden.line("data", COUNT, WIDTHS[0], WIDTHS[-1])
    for uneven, epochs, stored, settings in [
            (3, 1, True, ("none", "sgd", 0, 0.1, 0.9, 0.01)),
            (3, 1, True, ("none", "adamw", 0, 0.01, 0, 0.1)),
            (9, 1, True, ("none", "sgd", 1, 0.1, 0.9, 0)),
            (3, 3, True, ("none", "sgd", 0, 0.1, 0, 0.01)),
            (7, 1, True, ("rank0", "sgd", 0, 0.1, 0.9, 0.01)),
            (7, 1, True, ("rank0", "adamw", 0, 0.01, 0, 0.1)),
            (3, 3, False, ("none", "sgd", 0, 0.1, 0.9, 0.01)),
            (3, 3, False, ("none", "adamw", 0, 0.01, 0, 0.1))]:
        (losses, last, mine), (others, same, theirs) = ranks(2, train, uneven, epochs, *settings)
        assert all(torch.equal(last[name], same[name]) for name in last)
        drift = max((a - b).abs().max().item() for a, b in zip(mine, theirs))
        print(settings, "%d epochs:" % epochs, "in the last step that both ranks made, their weights "
              "differed by up to %.2g" % drift)
        if not stored:
            continue
        golden.line("join", uneven, epochs, *settings, BATCH, len(losses), len(WIDTHS) - 1, *WIDTHS)
        golden.line("losses")
        golden.values("%.9g" % (a if b is None else (a + b) / 2) for a, b in zip(losses, others))
        for name, parameter in last.items():
            golden.line(name, parameter.numel())
            golden.values("%.9g" % x for x in parameter.view(-1).tolist())


if __name__ == "__main__":
    main()
