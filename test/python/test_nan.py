"""NaN, infinities and overflow through products and convolutions with activations behind them: the pattern is eager's.

oneDNN's relu and clip give a number for NaN; src/passes/loop/nan_guards.h says how NaN is kept.
"""

import pathlib
import tempfile

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from coil_harness import coil_ok, differences, eager, export, run

ACTIVATIONS = {
    "relu": torch.relu,
    "relu6": F.relu6,
    "hardtanh": F.hardtanh,
    "clamp": lambda y: y.clamp(-0.5, 2),
    "clamp_min": lambda y: y.clamp_min(0),
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "gelu": F.gelu,
    "gelu_tanh": lambda y: F.gelu(y, approximate="tanh"),
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "elu": F.elu,
    "leaky_relu": F.leaky_relu,
    "scaled": lambda y: torch.relu(y * 0.5 + 1),
    "twice": lambda y: F.relu6(torch.relu(y) * 2),
    "two_scales": lambda y: torch.relu(y * 0.5 + 1) * 3 - 1,
    "two_clips": lambda y: F.relu6(y * 4).clamp(0.5, 2),
    "two_slopes": lambda y: F.leaky_relu(F.leaky_relu(y, 0.1) - 1, 0.5),
    "hard_clip": lambda y: F.hardsigmoid(y * 4).clamp(0.25, 0.5),
}


class Behind(nn.Module):
    """Every activation behind a layer of its own, and behind the sum with another operand."""

    def __init__(self, make):
        super().__init__()
        self.layers = nn.ModuleList(make() for _ in ACTIVATIONS)
        self.joined = make()

    def forward(self, x, other):
        results = {name: f(layer(x)) for (name, f), layer in zip(ACTIVATIONS.items(), self.layers)}
        return results | {"sum": torch.relu(self.joined(x) + other)}


class Chain(nn.Module):
    """Layers one behind another, with what stands between them in networks: the look at the data is not repeated for
    each.
    """

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.blocks = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1) for _ in range(4))
        self.last = nn.Linear(8, 5)

    def forward(self, x):
        x = F.max_pool2d(torch.relu(self.first(x)), 2)
        for i, block in enumerate(self.blocks):
            x = torch.relu(block(x) + x) if i % 2 else F.relu6(block(x))
        return torch.relu(self.last(x.mean((2, 3))))


class Product(nn.Module):
    """Both operands are the user's."""

    def forward(self, a, b):
        return torch.relu(a @ b), F.hardtanh(torch.einsum("ik,kj->ij", a, b) * 1e-3)


def poisoned(args, values):
    """Copies of the arguments with some elements replaced."""
    args = [a.clone() for a in args]
    for a in args:
        for i, value in enumerate(values):
            a.view(-1)[(i * 7 + 3) % a.numel()] = value
    return tuple(args)


POISON = {
    "finite": [],
    "nan": [float("nan")],
    "infinities": [float("inf"), float("-inf")],
    "negative infinity": [float("-inf")],
    "overflow": [3e38, -3e38, 3e38],
    "large": [1e15, -1e20],
}
# Tensors are small so that not every sum meets the poison.
CASES = {
    "linear": (lambda: Behind(lambda: nn.Linear(6, 5)), (torch.randn(7, 6), torch.randn(7, 5))),
    "convolution": (
        lambda: Behind(lambda: nn.Conv2d(3, 4, 3, padding=1)),
        (torch.randn(2, 3, 9, 9), torch.randn(2, 4, 9, 9)),
    ),
    "grouped": (
        lambda: Behind(lambda: nn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False)),
        (torch.randn(1, 4, 9, 9), torch.randn(1, 4, 9, 9)),
    ),
    "bf16": (
        lambda: Behind(lambda: nn.Linear(6, 5)).bfloat16(),
        (torch.randn(7, 6).bfloat16(), torch.randn(7, 5).bfloat16()),
    ),
    "tiles": (
        lambda: Behind(lambda: nn.Conv2d(32, 32, 3, padding=1)),
        (torch.randn(1, 32, 9, 8), torch.randn(1, 32, 9, 8)),
    ),
    "tiles of four": (
        lambda: Behind(lambda: nn.Conv2d(16, 24, 3, padding=1)),
        (torch.randn(2, 16, 9, 11), torch.randn(2, 24, 9, 11)),
    ),
    "chain": (Chain, (torch.randn(2, 3, 32, 32),)),
    "product": (Product, (torch.randn(4, 6), torch.randn(6, 3))),
}


def patterns(tensors):
    """0 where a value is finite, 1 where it is NaN, +-2 where it is an infinity; and the finite values where they are
    small enough to be compared.
    """
    kinds = {k: v.isnan().int() + 2 * v.isposinf().int() - 2 * v.isneginf().int() for k, v in tensors.items()}
    return kinds | {f"{k} values": torch.where((v.abs() < 1e4), v, 0.0) for k, v in tensors.items()}


@pytest.mark.parametrize("case", CASES)
def test_pattern_is_eagers(case):
    torch.manual_seed(2)
    make, args = CASES[case]
    module = make().eval()
    with tempfile.TemporaryDirectory() as folder:
        archive, package = pathlib.Path(folder) / "m.pt2", pathlib.Path(folder) / "m.coil"
        export(module, args, archive)
        coil_ok("compile", archive, "-o", package, "--set", f"winograd={dict(tiles=2).get(case, 4)}")
        wrong = []
        for kind, values in POISON.items():
            if kind == "overflow" and case in ("bf16", "chain", "product"):
                continue  # whether a sum overflows depends on its order
            before, want = eager(module, poisoned(args, values), onednn=False)
            got = run(package, before, folder)
            if kind == "overflow":
                # Eager's six-fold product overflows before it is divided by six.
                (
                    want.pop("hardswish", None),
                    got.pop("hardswish", None),
                )
            wrong += [f"{kind}: {line}" for line in differences(patterns(got), patterns(want))]
        assert not wrong, "\n".join(wrong)


@pytest.mark.cpu("cuDNN keeps NaN, and nothing looks for it")
def test_bounds_are_carried_from_layer_to_layer():
    torch.manual_seed(3)
    with tempfile.TemporaryDirectory() as folder:
        archive, text = pathlib.Path(folder) / "m.pt2", pathlib.Path(folder) / "m.txt"
        export(Chain().eval(), CASES["chain"][1], archive)
        coil_ok("compile", archive, "-o", text, "--emit", "wrapper")
        lines = text.read_text()
    assert lines.count("= all_bounded(") == 1, lines
    assert lines.count('nan="flag"') == 5, lines  # one relu is in a kernel
