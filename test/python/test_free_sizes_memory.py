"""Memory of programs with free sizes: as much as programs of these sizes alone take, and for values whose size data
tell nothing before they are told.
"""

import json

import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.export import Dim

from coil_harness import coil_ok, export, named_inputs

BATCH, LENGTH = Dim("batch", min=2, max=64), Dim("length", min=2, max=512)


class Layer(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norms[0](x)).chunk(3, dim=-1)
        )
        scores = torch.softmax(q @ k.mT, -1)
        x = x + self.out((scores @ v).transpose(1, 2).flatten(2))
        return x + self.narrow(nn.functional.gelu(self.widen(self.norms[1](x))))


class UNet(nn.Module):
    """Concatenations of values of two scales, whose sizes are a quarter of each other's."""

    def __init__(self, widths=(8, 16, 32)):
        super().__init__()
        pairs = list(zip((3, *widths), widths))
        self.down = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in pairs)
        self.up = nn.ModuleList(nn.Conv2d(a + b, a, 3, padding=1) for a, b in pairs[:0:-1])

    def forward(self, x):
        skipped = []
        for k, block in enumerate(self.down):
            x = block(x if k == 0 else nn.functional.avg_pool2d(x, 2)).sigmoid()
            skipped.append(x)
        for block, skip in zip(self.up, skipped[-2::-1]):
            x = block(torch.cat([nn.functional.interpolate(x, scale_factor=2.0), skip], 1)).sigmoid()
        return x.softmax(1)


class Mixed(nn.Module):
    """Values of 4, 2 and 1 times a size, equal ones, sums of sizes, and others of fixed size beside them."""

    def __init__(self):
        super().__init__()
        self.fixed = nn.Parameter(torch.randn(48, 64))

    def forward(self, x, y):
        both = torch.cat([x, y]).sort(-1).values
        wide = torch.cat([x, x, x, x], 1).cumsum(0)
        square = (self.fixed @ self.fixed.mT).sort(-1).values
        narrow = both[:, :32].sort(0).values
        return narrow.sum(0) + wide.sort(1).values[:, :32].sum(0) + square.sum() + both.cumsum(0)[:, 32:].sum(0)


def peak(archive, module, args, folder):
    inputs, figures = folder / "in.safetensors", folder / "figures.json"
    save_file(named_inputs(module, args), inputs)
    coil_ok("bench", archive, "--threads", 1, "--seconds", "0.001", "--inputs", inputs, "--json", figures)
    read = json.loads(figures.read_text())
    assert read["measured_peak_bytes"] == read["planned_peak_bytes"]
    return read["planned_peak_bytes"]


def rows(n, length):
    return (torch.randn(n, length, 32),)


def pictures(n, side):
    return (torch.randn(n, 3, side, side),)


def pair(n, m):
    return torch.randn(n, 64), torch.randn(m, 64)


MODELS = {
    "layers": (lambda: nn.Sequential(*(Layer() for _ in range(3))), rows, ({0: BATCH, 1: LENGTH},)),
    "unet": (UNet, pictures, ({0: BATCH, 2: 4 * Dim("h", min=2, max=64), 3: 4 * Dim("w", min=2, max=64)},)),
    "mixed": (Mixed, pair, ({0: BATCH}, {0: Dim("rows", min=2, max=512)})),
}
ASKED = {
    "layers": [(2, 8), (3, 100), (20, 33), (2, 300)],
    "unet": [(2, 16), (3, 40), (7, 64)],
    "mixed": [(5, 7), (50, 3), (2, 300), (40, 400)],
}


@pytest.mark.parametrize("name", MODELS)
def test_peaks_are_those_of_fixed_sizes(name, tmp_path):
    build, make, free = MODELS[name]
    torch.manual_seed(0)
    module = build().eval()
    export(module, make(4, 24), tmp_path / "free.pt2", free)
    coil_ok("compile", tmp_path / "free.pt2", "-o", tmp_path / "free.coil")
    for k, sizes in enumerate(ASKED[name]):
        args = make(*sizes)
        export(module, args, tmp_path / f"{k}.pt2")
        fixed, found = (peak(tmp_path / which, module, args, tmp_path) for which in (f"{k}.pt2", "free.coil"))
        assert fixed > 0 and found <= 1.05 * fixed, f"{sizes}: {found} of {fixed}"
