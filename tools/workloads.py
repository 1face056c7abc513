#!/usr/bin/env python3
"""Writes workloads/*.json: well-known networks, layer by layer, for --timing-only runs.

    tools/workloads.py            write the files
    tools/workloads.py --check    compare the files with what this script makes, and every total
                                  with the published one

Each network is built here from its published definition, and only shapes are followed: no weights,
no packages. The counting rules, the same for all:

  * FLOP of a layer: 2 per multiply-add of its convolutions and matrix products, per sample;
    everything else is counted as memory traffic.
  * Activations: the output of every kernel of the forward pass once (a convolution, a
    normalisation, a ReLU and an addition are a kernel each, as in PyTorch without fusion), 4 bytes
    an element. Each is written once and read once; backward touches twice as many bytes.
  * A convolution, its normalisation and its activation are one entry, with the parameters in
    PyTorch's registration order.
"""
import json
import os
import sys

FLOAT = 4
WHERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "workloads")


class Network:
    """Layers in forward order; `shape` is that of the activation, (channels, height, width)."""

    def __init__(self, name, sample, input_bytes, shape, sources):
        self.name, self.sample, self.input_bytes = name, sample, input_bytes
        self.shape, self.sources = shape, sources
        self.layers = []

    def add(self, name, parameters, multiply_adds, outputs):
        """outputs: elements of every kernel's output."""
        self.layers.append({
            "name": name,
            "parameters": parameters,
            "forward_flop": 2 * multiply_adds,
            "activation_bytes": FLOAT * sum(outputs),
            "operations": len(outputs),
        })

    def conv(self, name, out, kernel, stride=1, pad=None, norm=True, bias=False, act=True, add=False):
        """Convolution, then optionally normalisation, addition of the shortcut and activation."""
        channels, height, width = self.shape
        kh, kw = kernel if isinstance(kernel, tuple) else (kernel, kernel)
        ph, pw = pad if isinstance(pad, tuple) else \
            (pad, pad) if pad is not None else (kh // 2, kw // 2)
        height = (height + 2 * ph - kh) // stride + 1
        width = (width + 2 * pw - kw) // stride + 1
        pixels = height * width
        weights = channels * out * kh * kw
        kernels = 1 + norm + add + act
        self.add(name, [weights] + ([out] if bias else []) + ([out, out] if norm else []),
                 weights * pixels, [out * pixels] * kernels)
        self.shape = (out, height, width)

    def pool(self, name, kernel, stride, pad=0, up=False):
        channels, height, width = self.shape
        height = -(-(height + 2 * pad - kernel) // stride) + 1 if up else \
            (height + 2 * pad - kernel) // stride + 1
        width = -(-(width + 2 * pad - kernel) // stride) + 1 if up else \
            (width + 2 * pad - kernel) // stride + 1
        self.shape = (channels, height, width)
        self.add(name, [], 0, [channels * height * width])

    def linear(self, name, inputs, out, rows=1, extra=0, bias=True):
        """rows: positions of one sample (tokens). extra: kernels after it of the same output."""
        self.add(name, [inputs * out] + ([out] if bias else []), inputs * out * rows,
                 [out * rows] * (1 + extra))

    def parameters(self):
        return sum(sum(layer["parameters"]) for layer in self.layers)

    def multiply_adds(self):
        return sum(layer["forward_flop"] for layer in self.layers) // 2

    def json(self, output_bytes, output_gradient_bytes=None):
        made = {"schema": 1, "name": self.name, "sources": self.sources, "sample": self.sample,
                "input_bytes": self.input_bytes, "output_bytes": output_bytes}
        if output_gradient_bytes is not None:
            made["output_gradient_bytes"] = output_gradient_bytes
        made["layers"] = self.layers
        return made


# --- images ---------------------------------------------------------------------------------------

TORCHVISION = "https://docs.pytorch.org/vision/stable/models.html: parameters and GFLOPS " \
              "(there: multiply-adds) of the weights' table"


def image_network(name, side, sources):
    return Network(name, f"image, {side} x {side}", 3 * side * side * FLOAT, (3, side, side),
                   sources)


def resnet(name, blocks):
    """He et al. 2015 with bottlenecks; torchvision's variant has the stride in the 3 x 3."""
    net = image_network(name, 224, [
        "He et al. 2015, Deep Residual Learning, arXiv:1512.03385, table 1",
        "torchvision/models/resnet.py (stride in the 3 x 3 convolution)", TORCHVISION])
    net.conv("conv1", 64, 7, 2)
    net.pool("maxpool", 3, 2, 1)
    for stage, count in enumerate(blocks):
        width = 64 << stage
        for block in range(count):
            at = f"layer{stage + 1}.{block}"
            stride = 2 if stage > 0 and block == 0 else 1
            outer = net.shape
            net.conv(f"{at}.conv1", width, 1)
            net.conv(f"{at}.conv2", width, 3, stride)
            net.conv(f"{at}.conv3", 4 * width, 1, add=True)
            if block == 0:
                inner, net.shape = net.shape, outer
                net.conv(f"{at}.downsample", 4 * width, 1, stride, act=False)
                assert net.shape == inner
    net.add("avgpool", [], 0, [2048])
    net.linear("fc", 2048, 1000)
    return net.json(1000 * FLOAT), net


def vgg16():
    net = image_network("VGG-16", 224, [
        "Simonyan and Zisserman 2014, arXiv:1409.1556, table 1, column D",
        "torchvision/models/vgg.py (vgg16, without batch normalisation)", TORCHVISION])
    index = 0
    for group, (width, count) in enumerate([(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)]):
        for _ in range(count):
            net.conv(f"features.{index}", width, 3, norm=False, bias=True)
            index += 2
        net.pool(f"features.{index}", 2, 2)
        index += 1
    net.linear("classifier.0", 512 * 7 * 7, 4096, extra=2)  # ReLU and dropout
    net.linear("classifier.3", 4096, 4096, extra=2)
    net.linear("classifier.6", 4096, 1000)
    return net.json(1000 * FLOAT), net


def inception_v3():
    """Szegedy et al. 2015 without the auxiliary head: Horovod's benchmark has none."""
    net = image_network("Inception V3", 299, [
        "Szegedy et al. 2015, Rethinking the Inception Architecture, arXiv:1512.00567",
        "torchvision/models/inception.py with aux_logits=False",
        TORCHVISION + "; the auxiliary head's 3,326,696 parameters are left out"])

    def branches(at, *paths):
        """Every path starts from the block's input; their channels are put side by side."""
        start, channels = net.shape, 0
        for path in paths:
            net.shape = start
            forks = 1
            for name, *arguments in path:
                if name == "pool":
                    net.pool(f"{at}.pool", *arguments)
                elif name == "fork":  # the last convolution's output goes into all of these
                    forked, forks = net.shape, 0
                    for inner, out, kernel in arguments:
                        net.shape = forked
                        net.conv(f"{at}.{inner}", out, kernel)
                        forks += out
                    net.shape = (forks,) + net.shape[1:]
                else:
                    net.conv(f"{at}.{name}", *arguments)
            channels += net.shape[0]
        net.shape = (channels,) + net.shape[1:]
        net.add(f"{at}.cat", [], 0, [channels * net.shape[1] * net.shape[2]])

    net.conv("Conv2d_1a_3x3", 32, 3, 2, 0)
    net.conv("Conv2d_2a_3x3", 32, 3, 1, 0)
    net.conv("Conv2d_2b_3x3", 64, 3)
    net.pool("maxpool1", 3, 2)
    net.conv("Conv2d_3b_1x1", 80, 1)
    net.conv("Conv2d_4a_3x3", 192, 3, 1, 0)
    net.pool("maxpool2", 3, 2)
    for at, pool in (("Mixed_5b", 32), ("Mixed_5c", 64), ("Mixed_5d", 64)):
        branches(at, [("branch1x1", 64, 1)],
                 [("branch5x5_1", 48, 1), ("branch5x5_2", 64, 5)],
                 [("branch3x3dbl_1", 64, 1), ("branch3x3dbl_2", 96, 3), ("branch3x3dbl_3", 96, 3)],
                 [("pool", 3, 1, 1), ("branch_pool", pool, 1)])
    branches("Mixed_6a", [("branch3x3", 384, 3, 2, 0)],
             [("branch3x3dbl_1", 64, 1), ("branch3x3dbl_2", 96, 3),
              ("branch3x3dbl_3", 96, 3, 2, 0)],
             [("pool", 3, 2)])
    for at, c7 in (("Mixed_6b", 128), ("Mixed_6c", 160), ("Mixed_6d", 160), ("Mixed_6e", 192)):
        branches(at, [("branch1x1", 192, 1)],
                 [("branch7x7_1", c7, 1), ("branch7x7_2", c7, (1, 7)),
                  ("branch7x7_3", 192, (7, 1))],
                 [("branch7x7dbl_1", c7, 1), ("branch7x7dbl_2", c7, (7, 1)),
                  ("branch7x7dbl_3", c7, (1, 7)), ("branch7x7dbl_4", c7, (7, 1)),
                  ("branch7x7dbl_5", 192, (1, 7))],
                 [("pool", 3, 1, 1), ("branch_pool", 192, 1)])
    branches("Mixed_7a", [("branch3x3_1", 192, 1), ("branch3x3_2", 320, 3, 2, 0)],
             [("branch7x7x3_1", 192, 1), ("branch7x7x3_2", 192, (1, 7)),
              ("branch7x7x3_3", 192, (7, 1)), ("branch7x7x3_4", 192, 3, 2, 0)],
             [("pool", 3, 2)])
    for at in ("Mixed_7b", "Mixed_7c"):
        branches(at, [("branch1x1", 320, 1)],
                 [("branch3x3_1", 384, 1),
                  ("fork", ("branch3x3_2a", 384, (1, 3)), ("branch3x3_2b", 384, (3, 1)))],
                 [("branch3x3dbl_1", 448, 1), ("branch3x3dbl_2", 384, 3),
                  ("fork", ("branch3x3dbl_3a", 384, (1, 3)), ("branch3x3dbl_3b", 384, (3, 1)))],
                 [("pool", 3, 1, 1), ("branch_pool", 192, 1)])
    net.add("avgpool", [], 0, [2048])
    net.linear("fc", 2048, 1000)
    return net.json(1000 * FLOAT), net


def yolov5l():
    """Ultralytics' models/yolov5l.yaml, release 6: depth and width multiple 1."""
    net = image_network("YOLOv5l", 640, [
        "github.com/ultralytics/yolov5: models/yolov5l.yaml and models/common.py, release 6",
        "the same repository's README: 46.5 M parameters, 109.1 GFLOP (2 per multiply-add) at 640; "
        "its summary at the start of training: 46,563,709 parameters (46,533,693 once the batch "
        "normalisations are folded into the convolutions)"])

    def cbs(at, out, kernel=1, stride=1, pad=None, add=False):
        net.conv(at, out, kernel, stride, pad, add=add)  # convolution, batch norm, SiLU

    def c3(at, out, count, shortcut):
        start = net.shape
        hidden = out // 2
        cbs(f"{at}.cv1", hidden)
        for i in range(count):
            cbs(f"{at}.m.{i}.cv1", hidden)
            cbs(f"{at}.m.{i}.cv2", hidden, 3, add=shortcut)
        net.shape = start
        cbs(f"{at}.cv2", hidden)
        net.shape = (out,) + net.shape[1:]
        cat(f"{at}.cat")
        cbs(f"{at}.cv3", out)

    def cat(at):
        channels, height, width = net.shape
        net.add(at, [], 0, [channels * height * width])

    kept = {}
    cbs("model.0", 64, 6, 2, 2)
    cbs("model.1", 128, 3, 2)
    c3("model.2", 128, 3, True)
    cbs("model.3", 256, 3, 2)
    c3("model.4", 256, 6, True)
    kept[4] = net.shape
    cbs("model.5", 512, 3, 2)
    c3("model.6", 512, 9, True)
    kept[6] = net.shape
    cbs("model.7", 1024, 3, 2)
    c3("model.8", 1024, 3, True)
    cbs("model.9.cv1", 512)  # SPPF: three poolings, four results side by side
    for i in range(3):
        net.pool(f"model.9.m.{i}", 5, 1, 2)
    net.shape = (2048,) + net.shape[1:]
    cat("model.9.cat")
    cbs("model.9.cv2", 1024)

    def up(at, out, other):
        cbs(f"model.{at}", out)
        kept[at] = net.shape
        net.shape = (out, 2 * net.shape[1], 2 * net.shape[2])
        cat(f"model.{at + 1}")
        net.shape = (out + kept[other][0],) + net.shape[1:]
        cat(f"model.{at + 2}")
        c3(f"model.{at + 3}", out, 3, False)

    def down(at, out, other):
        kept[at - 1] = net.shape
        cbs(f"model.{at}", out, 3, 2)
        net.shape = (out + kept[other][0],) + net.shape[1:]
        cat(f"model.{at + 1}")
        c3(f"model.{at + 2}", 2 * out, 3, False)

    up(10, 512, 6)
    up(14, 256, 4)
    down(18, 256, 14)
    down(21, 512, 10)
    kept[23] = net.shape
    outputs = 0
    for i, level in enumerate((17, 20, 23)):
        net.shape = kept[level]
        net.conv(f"model.24.m.{i}", 255, 1, norm=False, bias=True, act=False)
        outputs += 255 * net.shape[1] * net.shape[2]
    return net.json(outputs * FLOAT), net


# --- language -------------------------------------------------------------------------------------

def transformer_block(net, at, width, tokens, heads, inner, fused_qkv, activation_kernels, dropout):
    """One block of a transformer. Attention is a product per head with the scores kept, as PyTorch
    did it before it had fused attention: scores, scale, mask, softmax and dropout are kernels."""
    norm = [width, width]

    def layer_norm(name):
        net.add(name, norm, 0, [width * tokens])

    scores = heads * tokens * tokens
    if not fused_qkv:
        for name in ("query", "key", "value"):
            net.linear(f"{at}.{name}", width, width, tokens, extra=1)  # and the heads' transposition
    else:
        layer_norm(f"{at}.ln_1")
        net.linear(f"{at}.attn.c_attn", width, 3 * width, tokens, extra=1)
    net.add(f"{at}.scores", [], tokens * tokens * width, [scores] * (4 + dropout))
    net.add(f"{at}.context", [], tokens * tokens * width, [width * tokens] * 2)
    net.linear(f"{at}.attention.out", width, width, tokens, extra=1 + dropout)
    layer_norm(f"{at}.norm_1" if not fused_qkv else f"{at}.ln_2")
    net.linear(f"{at}.mlp.in", width, inner, tokens, extra=activation_kernels)
    net.linear(f"{at}.mlp.out", inner, width, tokens, extra=1 + dropout)
    if not fused_qkv:
        layer_norm(f"{at}.norm_2")


def bert(name, model, width, depth, heads, sources, tokens=128):
    """The encoder with pooler; sequences of 128 tokens, as in nine tenths of the pre-training."""
    words = 30522
    net = Network(name, f"{tokens} tokens", 3 * 8 * tokens, None, [
        "Devlin et al. 2018, arXiv:1810.04805, " + sources,
        f"transformers/models/bert/modeling_bert.py, BertModel of {model} (vocabulary 30,522, "
        "pooler, no head)"])
    net.add("embeddings", [words * width, 512 * width, 2 * width, width, width], 0,
            [width * tokens] * 7)
    for i in range(depth):
        transformer_block(net, f"encoder.{i}", width, tokens, heads, 4 * width, False, 1, 1)
    net.linear("pooler", width, width, 1, extra=1)
    return net.json(2 * FLOAT), net


def gpt2(tokens=1024):
    """The 124 M model; its output layer shares the embedding's weights."""
    width, depth, words = 768, 12, 50257
    net = Network("GPT-2", f"{tokens} tokens", 2 * 8 * tokens, None, [
        "Radford et al. 2019, Language Models are Unsupervised Multitask Learners",
        "transformers/models/gpt2/modeling_gpt2.py, GPT2LMHeadModel of \"gpt2\": 124,439,808 "
        "parameters; the head has the embedding's weights, and the loss is computed in the model"])
    net.add("wte, wpe", [words * width, 1024 * width], 0, [width * tokens] * 4)
    for i in range(depth):
        # GELU in its tanh form, written out: eight kernels (gelu_new)
        transformer_block(net, f"h.{i}", width, tokens, 12, 4 * width, True, 8, 1)
    net.add("ln_f", [width, width], 0, [width * tokens])
    # logits; the shifted copy, the log-softmax and the loss of each position
    net.add("lm_head, loss", [], width * words * tokens, [words * tokens] * 3)
    return net.json(words * tokens * FLOAT, FLOAT), net


def decoder_2b(tokens=128):
    """CS336's "xl": 48 blocks of width 1600, feed-forward 6400, 25 heads, SwiGLU, rotary positions,
    vocabulary 10,000; embedding and head apart."""
    width, depth, words, inner, heads = 1600, 48, 10000, 6400, 25
    net = Network("CS336 xl", f"{tokens} tokens", 2 * 8 * tokens, None, [
        "Stanford CS336, assignment 2, table of model sizes: xl = 48 layers, d_model 1600, d_ff 6400, "
        "25 heads", "the same, assignment 1: RMSNorm, SwiGLU (three matrices), no biases, rotary "
        "positions, vocabulary 10,000, untied head",
        "damek/cs336-assignment2-systems: about 2.0 B parameters in fp32"])
    net.add("token_embeddings", [words * width], 0, [width * tokens])
    for i in range(depth):
        at = f"layers.{i}"
        net.add(f"{at}.ln1", [width], 0, [width * tokens] * 4)
        for name in ("q_proj", "k_proj", "v_proj"):
            net.linear(f"{at}.{name}", width, width, tokens, extra=0 if name == "v_proj" else 5,
                       bias=False)
        net.add(f"{at}.scores", [], tokens * tokens * width, [heads * tokens * tokens] * 6)
        net.add(f"{at}.context", [], tokens * tokens * width, [width * tokens] * 2)
        net.linear(f"{at}.output_proj", width, width, tokens, extra=1, bias=False)
        net.add(f"{at}.ln2", [width], 0, [width * tokens] * 4)
        net.linear(f"{at}.w1", width, inner, tokens, extra=2, bias=False)
        net.linear(f"{at}.w3", width, inner, tokens, extra=1, bias=False)
        net.linear(f"{at}.w2", inner, width, tokens, extra=1, bias=False)
    net.add("ln_final", [width], 0, [width * tokens] * 4)
    net.linear("lm_head", width, words, tokens, bias=False)
    return net.json(words * tokens * FLOAT), net


# --- plain MLPs -------------------------------------------------------------------------------------

def mlp(width=1000, depth=5):
    net = Network("MLP 5 x 1000", f"{width} numbers", width * FLOAT, None, [
        "fingertap/test_parallel: test_parallel/model.py, five nn.Linear(1000, 1000)"])
    for i in range(depth):
        net.linear(f"layers.{i}", width, width)
    return net.json(width * FLOAT), net


# --- all, and what is published about them ---------------------------------------------------------

# file, network, parameters, multiply-adds in units of 10^9 as published (None: not published)
ALL = [
    ("resnet-50", resnet("ResNet-50", (3, 4, 6, 3)), 25_557_032, 4.09),
    ("resnet-101", resnet("ResNet-101", (3, 4, 23, 3)), 44_549_160, 7.80),
    ("vgg-16", vgg16(), 138_357_544, 15.47),
    ("inception-v3", inception_v3(), 27_161_264 - 3_326_696, 5.71),
    ("yolov5l", yolov5l(), 46_563_709, 109.1 / 2),
    ("bert-base", bert("BERT-base", "bert-base-uncased", 768, 12, 12,
                       "12 blocks, width 768, 12 heads: \"110M\" parameters, which rounds"),
     109_482_240, None),
    ("bert-large", bert("BERT-large", "bert-large-uncased", 1024, 24, 16,
                        "24 blocks, width 1024, 16 heads: \"340M\" parameters, which rounds"),
     335_141_888, None),
    ("gpt-2", gpt2(), 124_439_808, None),
    ("mlp-5x1000", mlp(), 5_005_000, None),
    ("cs336-xl", decoder_2b(), None, None),
]


def text(made):
    """One layer a line: short enough to read, long enough to compare."""
    layers = made.pop("layers")
    head = json.dumps(made, indent=2)[:-2]
    rows = ",\n".join("    " + json.dumps(layer) for layer in layers)
    return f'{head},\n  "layers": [\n{rows}\n  ]\n}}\n'


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    wrong = 0
    for file, (made, net), parameters, gmac in ALL:
        path = os.path.join(WHERE, f"{file}.json")
        content = text(made)
        found = net.parameters(), net.multiply_adds() / 1e9
        print(f"{net.name:14}{found[0]:>15,} parameters {found[1]:8.3f} G multiply-adds"
              f" {len(net.layers):4} layers")
        if parameters is not None and found[0] != parameters:
            print(f"  published: {parameters:,} parameters")
            wrong += 1
        if gmac is not None and abs(found[1] - gmac) > 0.006 * gmac:
            print(f"  published: {gmac} G multiply-adds")
            wrong += 1
        if not check:
            with open(path, "w", encoding="utf-8") as out:
                out.write(content)
        elif not os.path.exists(path) or open(path, encoding="utf-8").read() != content:
            print(f"  {path} differs: run tools/workloads.py")
            wrong += 1
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
