"""Convolutions with what a library computes on its way out: activations, sums and products with operands of the
result's size, of its channels, of its places. Drawn at random, a few dozen in one program; sizes of 1 are drawn often.

As a script: test_convolution_epilogues.py [SEED [PROGRAMS]] (ONEDNN_MAX_CPU_ISA holds the library to less).
"""

import random
import sys

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from coil_harness import check

ACTIVATIONS = {
    "relu": F.relu,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "gelu": F.gelu,
    "scale": lambda z: z * 1.5 - 0.2,
    "clip": lambda z: z.clamp(-0.5, 2),
}
BINARY = {"add": torch.add, "mul": torch.mul}


class Finished(nn.Module):
    def __init__(self, convolution, steps):
        super().__init__()
        self.convolution, self.steps = convolution, steps

    def forward(self, x, operands):
        z = self.convolution(x)
        for step, operand in zip(self.steps, operands, strict=True):
            z = BINARY[step](z, operand) if step in BINARY else ACTIVATIONS[step](z)
        return z


class All(nn.Module):
    def __init__(self, parts):
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, given):
        return [part(*args) for part, args in zip(self.parts, given, strict=True)]


def channels_of(chance):
    """(inputs, outputs, groups)."""
    inputs = chance.choice([1, 3, 8, 16, 17, 32, 48, 64, 130])
    kind = chance.choice(["all", "each", "few"])
    if kind == "all":
        return inputs, chance.choice([1, 4, 16, 33, 64]), 1
    groups = inputs if kind == "each" else chance.choice([g for g in (1, 2, 4) if inputs % g == 0])
    return inputs, groups * chance.choice([1, 1, 2] if kind == "each" else [1, 3, 8, 16]), groups


LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
KINDS = {(1, False): nn.Conv1d, (2, False): nn.Conv2d, (3, False): nn.Conv3d}
KINDS |= {(1, True): nn.ConvTranspose1d, (2, True): nn.ConvTranspose2d, (3, True): nn.ConvTranspose3d}


def laid_out(tensor, chance):
    turned = tensor.dim() in LAST and chance.random() < 0.4
    return tensor.to(memory_format=LAST[tensor.dim()]) if turned else tensor


def drawn(chance):
    """A convolution with what follows, and its arguments; None where the kernel does not fit."""
    inputs, outputs, groups = channels_of(chance)
    spatial, transposed = chance.choice([1, 2, 2, 2, 2, 3]), chance.random() < 0.2
    kernel, stride = chance.choice([1, 1, 2, 3, 3, 5]), chance.choice([1, 1, 2])
    padding, dilation = chance.choice([0, kernel // 2]), chance.choice([1, 1, 2])
    samples, size = chance.choice([1, 1, 2, 3]), chance.choice([1, 1, 2, 3, 4, 7, 8] + ([14] if spatial < 3 else []))
    settings = dict(stride=stride, padding=padding, dilation=dilation, groups=groups, bias=chance.random() < 0.7)
    x = torch.randn(samples, inputs, *[size] * spatial)
    convolution = KINDS[spatial, transposed](inputs, outputs, kernel, **settings)
    try:
        with torch.no_grad():
            whole = convolution(x).shape
    except RuntimeError:
        return None
    if not whole.numel():
        return None
    steps = [chance.choice([*BINARY, *BINARY, *ACTIVATIONS]) for _ in range(chance.choice([1, 2, 3]))]
    ones = [1] * spatial
    shapes = [whole] * 4 + [(1, outputs, *ones), (samples, outputs, *ones), (samples, 1, *whole[2:]), (1,)]
    operands = [laid_out(torch.randn(chance.choice(shapes)), chance) for _ in steps]
    return Finished(convolution, steps), (laid_out(x, chance), operands)


def program(seed, count=24):
    chance = random.Random(seed)
    torch.manual_seed(seed)
    found = [case for case in (drawn(chance) for _ in range(count)) if case]
    return All([module for module, _ in found]).eval(), ([args for _, args in found],)


@pytest.mark.parametrize("seed", range(6))
def test_drawn(seed):
    check(*program(seed))


@pytest.mark.parametrize("steps", [("add",), ("mul",), ("relu", "add"), ("add", "add", "scale")], ids="_".join)
@pytest.mark.parametrize("size, stride", [(1, 1), (2, 2)])
def test_a_channel_a_group_to_one_place(steps, size, stride):
    """oneDNN's kernel reads what is added to all channels of one place from elsewhere."""
    torch.manual_seed(0)
    module = Finished(nn.Conv2d(80, 80, 3, stride, 1, groups=80), steps).eval()
    check(module, (torch.randn(1, 80, size, size), [torch.randn(1, 80, 1, 1) for _ in steps]))


@pytest.mark.parametrize("shape", [(1, -1, 1, 1), (-1, 1, 1)], ids=["whole", "channels"])
@pytest.mark.parametrize("channels, groups", [((64, 6), 2), ((32, 33), 1)])
def test_one_place_through_padding_alone(channels, groups, shape):
    torch.manual_seed(0)
    module = Finished(nn.Conv2d(*channels, 2, 1, 1, 2, groups), ("relu", "mul")).eval()
    operand = torch.randn(channels[1]).view(shape)
    check(module, (torch.randn(1, channels[0], 1, 1), [torch.randn(1), operand]))


if __name__ == "__main__":
    first = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    for seed in range(first, first + (int(sys.argv[2]) if len(sys.argv) > 2 else 20)):
        check(*program(seed))
        print(seed, "right", flush=True)
