"""Uniform random numbers after torch.manual_seed.

    uniform SEED COUNT LOW HIGH    then COUNT floats of uniform_(LOW, HIGH); all floats as their bits
"""
from common import Golden, bits, torch

SEEDS = [0, 1, 42, 2**31, 2**32 - 1, 2**32 + 7, 2**64 - 1]
BOUNDS = [(0.0, 1.0), (-0.0357142873108387, 0.0357142873108387), (-3.0, 5.0)]

golden = Golden()
for seed in SEEDS:
    for low, high in BOUNDS:
        torch.manual_seed(seed)
        values = torch.empty(700).uniform_(low, high)  # more than the generator's 624 words
        # enough to see the first numbers and those after the first refill of the state
        values = torch.cat([values[:20], values[-80:]])
        golden.line("uniform", seed, len(values), *bits(torch.tensor([low, high])))
        golden.values(bits(values))
