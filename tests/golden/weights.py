"""Initial weights of an MLP after torch.manual_seed.

    weights SEED LAYERS WIDTHS...              then, in registration order (weight, bias of layer 0, ...):
    NAME COUNT HASH bits|hash                  HASH: FNV-1a over the floats' bits; "bits": they follow
"""
from common import Golden, bits, fnv, mlp

CASES = [
    ([784, 32, 10], 0, True),
    ([784, 32, 10], 1, False),
    ([784, 32, 10], 2**32 + 7, False),
    ([784, 512, 512, 10], 3, False),
    ([8, 2], 0, True),
    ([8, 2], 12345, True),
    ([5, 7, 6, 3], 0, True),
    ([5, 7, 6, 3], 1, True),
    ([5, 7, 6, 3], 2**64 - 1, True),
    ([1, 1, 1], 9, True),
]

golden = Golden()
for widths, seed, whole in CASES:
    model = mlp(widths, seed)
    golden.line("weights", seed, len(widths) - 1, *widths)
    for name, parameter in model.named_parameters():
        words = bits(parameter)
        golden.line(name, len(words), fnv(int(word, 16) for word in words),
                    "bits" if whole else "hash")
        if whole:
            golden.values(words)
