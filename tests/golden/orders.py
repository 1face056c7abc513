"""Orders of an epoch: DistributedSampler(shuffle=True).

    order COUNT SEED EPOCH WORLD RANK LENGTH HASH numbers|hash
                           HASH: FNV-1a over the sample numbers; "numbers": they follow
"""
from common import Golden, fnv
from torch.utils.data.distributed import DistributedSampler

golden = Golden()


def case(count, seed, epoch, world, whole):
    for rank in range(world):
        sampler = DistributedSampler(range(count), num_replicas=world, rank=rank, shuffle=True,
                                     seed=seed)
        sampler.set_epoch(epoch)
        order = list(sampler)
        golden.line("order", count, seed, epoch, world, rank, len(order), fnv(order),
                    "numbers" if whole else "hash")
        if whole:
            golden.values(order, 20)


for count in [1, 2, 3, 10, 97, 1000]:
    for seed in [0, 1, 42]:
        for epoch in [0, 1, 5]:
            case(count, seed, epoch, 1, count < 1000)
case(60000, 0, 0, 1, False)
case(60000, 42, 9, 1, False)
case(60000, 2**32 - 1, 1, 1, False)  # seed + epoch beyond 32 bits
case(60000, 5, 3, 4, False)
for world in [2, 3, 4, 5]:
    case(60, 7, 2, world, True)  # divides: no padding
