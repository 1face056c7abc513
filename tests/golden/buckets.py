"""DistributedDataParallel's buckets.

    mlp LAYERS WIDTHS...  or  tensors     what the sizes belong to; an MLP's parameters in reverse
                                          registration order
    caps FIRST CAP TENSORS BUCKETS        bytes
    then TENSORS pairs BYTES BUCKET
"""
from common import Golden, mlp, torch
import torch.distributed as dist

MIB = 1024 * 1024
golden = Golden()


def case(title, tensors, first, cap):
    # In DDP: reducer.cpp's rebuild, with the tensors in the order in which gradients become ready
    buckets, _ = dist._compute_bucket_assignment_by_size(tensors, [first, cap],
                                                         [False] * len(tensors))
    bucket_of = {tensor: bucket for bucket, members in enumerate(buckets) for tensor in members}
    golden.line(*title)
    golden.line("caps", first, cap, len(tensors), len(buckets))
    golden.values(("%d %d" % (4 * tensor.numel(), bucket_of[i])
                   for i, tensor in enumerate(tensors)), 6)


def reverse(model):
    return list(model.parameters())[::-1]


for widths in ([784, 128, 10], [784, 512, 512, 10], [784, 2048, 2048, 2048, 10], [8, 2],
               [5, 7, 6, 3], [512, 512, 512, 512, 10], [784] + [1024] * 9 + [10]):
    # DDP's own caps, then --bucket-mb given (both caps the same)
    for first, cap in [(MIB, 25 * MIB)] + [(c * MIB, c * MIB) for c in (1, 4, 8, 100)]:
        case(["mlp", len(widths) - 1, *widths], reverse(mlp(widths, 0)), first, cap)

# A tensor that fills its bucket exactly, to the byte, and one that just does not
for floats in (MIB // 4 - 1, MIB // 4, MIB // 4 + 1):
    case(["tensors"], [torch.zeros(floats), torch.zeros(1), torch.zeros(3)], MIB, 8)

# ten Linear(1024, 1024), each followed by a BatchNorm: 4,206,592 / 29,388,800 / 8,396,800 bytes
deep = torch.nn.Sequential(*[module for _ in range(10) for module in
                             (torch.nn.Linear(1024, 1024), torch.nn.BatchNorm1d(1024))])
case(["tensors"], reverse(deep), MIB, 25 * MIB)
case(["tensors"], reverse(deep), 8 * MIB, 8 * MIB)
