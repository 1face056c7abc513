"""Gradients of the first step: mean cross-entropy of one batch of the generated data set.

    gradients SEED ROWS LAYERS WIDTHS...   images have WIDTHS[0] pixels, classes WIDTHS[LAYERS]; the batch
                                           is the first ROWS samples
    loss VALUE                             the batch's mean loss
    then, in registration order: NAME COUNT and COUNT floats' bits
"""
from common import Golden, bits, mlp, tensors, torch

golden = Golden()
for widths, rows in [([8, 2], 5), ([5, 7, 6, 3], 1), ([5, 7, 6, 3], 33), ([144, 32, 10], 64)]:
    for seed in (0, 1, 2):
        model = mlp(widths, seed)
        pixels, labels = tensors(rows, widths[0], widths[-1])
        loss = torch.nn.functional.cross_entropy(model(pixels), labels)
        loss.backward()
        golden.line("gradients", seed, rows, len(widths) - 1, *widths)
        golden.line("loss", "%.9g" % loss.item())
        for name, parameter in model.named_parameters():
            golden.line(name, parameter.numel())
            golden.values(bits(parameter.grad))
