"""Blocks in which each layer reads all values before it, side by side: they are in memory once."""

import re

import pytest
import torch
import torch.nn.functional as F

from coil_harness import check, coil_ok

GROWTH = 16


class Dense(torch.nn.Module):
    """Of pictures; `front`: a new value goes before the others. `norm`: what is read goes to loops first."""

    def __init__(self, channels=32, layers=5, front=False, norm=True, kernel=3):
        super().__init__()
        widths = [channels + k * GROWTH for k in range(layers)]
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm2d(c) if norm else torch.nn.Identity() for c in widths)
        self.layers = torch.nn.ModuleList(torch.nn.Conv2d(c, GROWTH, kernel, padding=kernel // 2) for c in widths)
        self.front = front

    def forward(self, x):
        parts = [torch.relu(x)]
        for norm, layer in zip(self.norms, self.layers, strict=True):
            y = layer(F.relu(norm(torch.cat(parts, 1))))
            parts = [y, *parts] if self.front else [*parts, y]
        return torch.cat(parts, 1).mean((2, 3))


class Rows(torch.nn.Module):
    """Of rows, which are also read in another order, so that one concatenation is no part of the other."""

    def forward(self, x):
        parts = [x]
        for _ in range(4):
            parts.append(torch.cat(parts, 1).cumsum(1)[:, -8:] * 0.125)
        whole = torch.cat(parts, 1)
        return whole.softmax(1), torch.cat(parts[::-1], 1).exp().sum(1), torch.cat(parts[:3], 1).tanh()


MODULES = {
    "behind": (Dense(), (2, 32, 20, 20)),
    "in_front": (Dense(front=True), (2, 32, 20, 20)),
    "without_norms": (Dense(norm=False), (2, 32, 20, 20)),
    "rows": (Rows(), (64, 24)),
    "odd_rows": (Rows(), (64, 9)),
    "no_rows": (Rows(), (0, 24)),
}


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("name", MODULES)
def test_values(name, target):
    module, sizes = MODULES[name]
    torch.manual_seed(5)
    check(module.eval(), (torch.randn(sizes),), settings=("cuda.emulate=true",) if target == "cuda" else ())


@pytest.mark.parametrize("front", [False, True])
def test_one_buffer_for_a_block(front, tmp_path):
    module = Dense(layers=12, front=front, kernel=1).eval()
    torch.export.save(torch.export.export(module, (torch.randn(4, 32, 64, 64),)), tmp_path / "m.pt2")
    text = coil_ok("explain", tmp_path / "m.pt2").stdout
    peak = float(re.search(r"peak of temporaries and outputs: ([\d.]+) MiB", text)[1])
    widest = 4 * (32 + 12 * GROWTH) * 64 * 64 * 4 / 2**20
    assert peak < 2.5 * widest
