"""How torch.chunk splits the rows of a batch over devices.

    chunk ROWS DEVICES        then DEVICES sizes; devices that get no chunk have 0
"""
from common import Golden, torch

golden = Golden()
cases = [(rows, devices) for rows in range(0, 33) for devices in range(1, 10)]
cases += [(256, n) for n in (1, 2, 3, 4, 5, 6, 7, 8, 16, 100, 255, 256, 257)]
cases += [(10000, n) for n in (3, 7, 64)]
for rows, devices in cases:
    sizes = [len(chunk) for chunk in torch.zeros(rows, 1).chunk(devices)]
    golden.line("chunk", rows, devices)
    golden.values(sizes + [0] * (devices - len(sizes)), 30)
