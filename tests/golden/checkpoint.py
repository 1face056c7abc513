"""Checkpoints as PyTorch users save them, and one as the trainer does. Makes, with Python's safetensors
(pip install safetensors, beside PyTorch):

checkpoint_clean.safetensors    state_dict of an MLP 16-5-3 after torch.manual_seed(7)
checkpoint_wrapped.safetensors  of the same model in nn.DataParallel: "module." before every key
checkpoint_other.safetensors    the clean one among tensors of other types and shapes, with metadata
checkpoint_half.safetensors     the clean one in half precision
checkpoint_single.safetensors   a plain nn.Linear(16, 3): keys without numbers
checkpoint_trainer.safetensors  what checkpoint_save must write, put together here byte by byte from the
                                format's description, and read back by Python's safetensors

The trainer's own twin of that model (layout_init_weights) knows its weights, so they are not written down
anywhere else.

    python tests/golden/checkpoint.py
"""
import json
import os
import struct

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from common import mlp

HERE = os.path.dirname(os.path.abspath(__file__))


def path(name):
    return os.path.join(HERE, "checkpoint_%s.safetensors" % name)


def write(name, tensors, metadata):
    """The format in eight lines: tensors in the order given, header padded to a multiple of 8."""
    header, data = {"__metadata__": metadata}, b""
    for key, tensor in tensors.items():
        values = tensor.numpy().tobytes()
        header[key] = {"dtype": "F32", "shape": list(tensor.shape),
                       "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path(name), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


model = mlp([16, 5, 3], 7)
clean = {key: value.detach() for key, value in model.state_dict().items()}
save_file(clean, path("clean"))
save_file(torch.nn.DataParallel(model).state_dict(), path("wrapped"))
save_file(dict(clean, running_mean=torch.zeros(3, 2, dtype=torch.float64),
               num_batches_tracked=torch.tensor(5), nothing=torch.zeros(0, 3),
               half=torch.zeros(1, dtype=torch.float16)),
          path("other"), {"made by": "PyTorch \u2764"})
save_file({key: value.half() for key, value in clean.items()}, path("half"))
save_file(mlp([16, 3], 7).state_dict(), path("single"))

# The optimizer's state is made up: twice and four times the weights.
metadata = {"format": "pt", "layers": "16,5,3", "step": "12", "epoch": "2", "seed": "7", "batch": "8",
            "optimizer": "adamw", "lr": "0.001", "momentum": "0.90000000000000002",
            "weight_decay": "0.01", "data": "my \"images\"", "samples": "45"}
tensors = dict(clean)
for state, factor in (("exp_avg", 2), ("exp_avg_sq", 4)):
    tensors.update({"optimizer.%s.%s" % (state, key): factor * value for key, value in clean.items()})
write("trainer", tensors, metadata)

read = load_file(path("trainer"))
assert list(read) == list(tensors) and all(torch.equal(read[key], tensors[key]) for key in tensors)
with safe_open(path("trainer"), "pt") as file:
    assert file.metadata() == metadata
