"""A model with a branch that all, none or some ranks leave out: DistributedDataParallel on two ranks.

The branch is one more linear layer beside the last one, registered last. With find_unused_parameters=True,
parameters that no rank used keep a gradient of None, and the optimizer leaves them alone.

    weights SEED LAYERS WIDTHS...          initial weights; then in registration order: NAME COUNT and
                                           COUNT floats' bits
    gradients SKIPS SEED ROWS LAYERS WIDTHS...  of the first step on one device, as gradients.txt; SKIPS is
                                           1 if the branch is left out, and then its gradient is None:
    NAME 0                                 (no floats follow)
    data COUNT PIXELS CLASSES
    ddp UNUSED KIND SEED LR MOMENTUM WEIGHT_DECAY BATCH STEPS LAYERS WIDTHS...
                                           two ranks; UNUSED as --unused has it; BATCH over both
    losses and STEPS numbers               of each step's batch before its update, over both ranks
    NAME COUNT and COUNT numbers           branch.weight and branch.bias after the last step

What PyTorch says without find_unused_parameters is printed, not stored: the rank that misses something
says so when it begins the next step, by index ("Parameter indices which did not receive grad for rank 0:
4 5"), and one that misses nothing waits until that rank is gone.
"""
from common import Golden, bits, ranks, tensors, torch
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler

COUNT, WIDTHS, BATCH, STEPS = 600, [144, 32, 10], 64, 20


class Branched(torch.nn.Module):
    """Named as nn.Sequential names its layers ("0.weight", "2.weight", ...; "weight" for a single one),
    and "branch.weight", "branch.bias"."""

    def __init__(self, widths, skips):
        super().__init__()
        self.skips = skips
        self.count = len(widths) - 1
        for i, (fan_in, fan_out) in enumerate(zip(widths, widths[1:])):
            self.add_module(str(2 * i), torch.nn.Linear(fan_in, fan_out))
        self.branch = torch.nn.Linear(widths[-2], widths[-1])

    def forward(self, x):
        for i in range(self.count - 1):
            x = torch.relu(getattr(self, str(2 * i))(x))
        y = getattr(self, str(2 * (self.count - 1)))(x)
        return y if self.skips else y + self.branch(x)


def name_of(name, widths):
    return name[2:] if len(widths) == 2 and name.startswith("0.") else name


def optimizer_of(kind, parameters, lr, momentum, decay):
    if kind == "sgd":
        return torch.optim.SGD(parameters, lr=lr, momentum=momentum, weight_decay=decay, foreach=False)
    return torch.optim.AdamW(parameters, lr=lr, weight_decay=decay, foreach=False)


def train(rank, world, unused, find, kind, seed, lr, momentum, decay):
    pixels, labels = tensors(COUNT, WIDTHS[0], WIDTHS[-1])
    torch.manual_seed(seed)
    skips = unused == "always" or (unused == "rank0" and rank == 0)
    model = DistributedDataParallel(Branched(WIDTHS, skips), find_unused_parameters=find)
    optimizer = optimizer_of(kind, model.parameters(), lr, momentum, decay)
    sampler = DistributedSampler(range(COUNT), num_replicas=world, rank=rank, shuffle=True, seed=seed)
    losses, epoch = [], 0
    try:
        while True:
            sampler.set_epoch(epoch)
            epoch += 1
            for rows in torch.tensor(list(sampler)).split(BATCH // world):
                if len(losses) == STEPS:
                    return losses, {name: parameter.detach() for name, parameter
                                    in model.module.branch.named_parameters()}
                optimizer.zero_grad(set_to_none=True)
                loss = cross_entropy(model(pixels[rows]), labels[rows])
                losses.append(loss.item())
                loss.backward()
                optimizer.step()
    except RuntimeError as error:
        return "after step %d: %s" % (len(losses), error)


def main():
    golden = Golden()
    for widths in ([8, 2], [5, 7, 6, 3]):
        for seed in (0, 1):
            torch.manual_seed(seed)
            model = Branched(widths, False)
            golden.line("weights", seed, len(widths) - 1, *widths)
            for name, parameter in model.named_parameters():
                golden.line(name_of(name, widths), parameter.numel())
                golden.values(bits(parameter))
    for widths, rows in [([8, 2], 5), ([5, 7, 6, 3], 1), ([5, 7, 6, 3], 33), ([40, 12, 10], 64)]:
        for skips in (0, 1):
            torch.manual_seed(3)
            model = Branched(widths, skips)
            pixels, labels = tensors(rows, widths[0], widths[-1])
            loss = cross_entropy(model(pixels), labels)
            loss.backward()
            golden.line("gradients", skips, 3, rows, len(widths) - 1, *widths)
            golden.line("loss", "%.9g" % loss.item())
            for name, parameter in model.named_parameters():
                gradient = parameter.grad
                golden.line(name_of(name, widths), 0 if gradient is None else gradient.numel())
                if gradient is not None:
                    golden.values(bits(gradient))

    golden.line("data", COUNT, WIDTHS[0], WIDTHS[-1])
    for unused in ("never", "always", "rank0"):
        for kind, lr, momentum, decay in [("sgd", 0.1, 0.9, 0.01), ("adamw", 0.01, 0, 0.1)]:
            settings = (kind, 0, lr, momentum, decay)
            (losses, branch), (others, other) = ranks(2, train, unused, True, *settings)
            assert all(torch.equal(branch[name], other[name]) for name in branch)
            golden.line("ddp", unused, *settings, BATCH, STEPS, len(WIDTHS) - 1, *WIDTHS)
            golden.line("losses")
            golden.values("%.9g" % ((a + b) / 2) for a, b in zip(losses, others))
            for name, parameter in branch.items():
                golden.line("branch." + name, parameter.numel())
                golden.values("%.9g" % x for x in parameter.view(-1).tolist())
        if unused != "never":
            said = ranks(2, train, unused, False, "sgd", 0, 0.1, 0.9, 0.01)
            for rank, text in enumerate(said):
                print(unused, "rank", rank, text if isinstance(text, str) else "no error", "\n")


if __name__ == "__main__":
    main()
