"""A training step of PyTorch on one GPU, eager, for `make bench-gpu`.

    pytorch_gpu.py LAYERS BATCH STEPS

prints the median milliseconds of a step (SGD with momentum, images already on the GPU as floats), or
exits with status 3 where PyTorch has no GPU.
"""
import sys
import time

try:
    import torch
    from torch import nn
except ImportError:
    sys.exit(3)
if not torch.cuda.is_available():
    sys.exit(3)

widths = [int(width) for width in sys.argv[1].split(",")]
batch, steps = int(sys.argv[2]), int(sys.argv[3])
layers = []
for i in range(len(widths) - 1):
    layers.append(nn.Linear(widths[i], widths[i + 1]))
    if i < len(widths) - 2:
        layers.append(nn.ReLU())
torch.backends.cuda.matmul.allow_tf32 = False
model = nn.Sequential(*layers).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
loss_of = nn.CrossEntropyLoss()
images = torch.rand(8 * batch, widths[0], device="cuda")
labels = torch.randint(0, widths[-1], (8 * batch,), device="cuda")
order = [torch.randperm(8 * batch, device="cuda")[:batch] for _ in range(8)]


def take(count):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for i in range(count):
        samples = order[i % 8]
        optimizer.zero_grad(set_to_none=True)
        loss_of(model(images[samples]), labels[samples]).backward()
        optimizer.step()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / count * 1e3


take(20)
times = sorted(take(max(1, steps // 10)) for _ in range(10))
print(f"{times[len(times) // 2]:.5f}")
