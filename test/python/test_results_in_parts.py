"""Products whose results are parts of concatenations are computed where they will lie
(src/passes/loop/results_in_parts.h): which are, and their values.
"""

import re

import pytest
import torch
from torch import nn

from coil_harness import check, coil_ok, export
from emitted import emit, load_module


class Joined(nn.Module):
    """Rows of a product beside the input, as networks of rays and dense layers have them."""

    def __init__(self, dim=-1, n=24, act=nn.Identity()):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(16, n), nn.Linear(16, 16), nn.Linear(n + 16, 8)
        self.dim, self.act = dim, act

    def forward(self, x):
        y = torch.cat([self.act(self.a(x)), x], -1) if self.dim == -1 else torch.cat([x, self.b(x)], self.dim)
        return self.c(y) if self.dim == -1 else y


class Stacked(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(3))

    def forward(self, x):
        return torch.stack([f(x) for f in self.layers], 1)


class ReadTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(16, 24)

    def forward(self, x):
        y = self.a(x)
        return torch.cat([y, x], -1), y.sum()


class Batched(nn.Module):
    def forward(self, x):
        return torch.cat([x, x @ x.mT @ x], -1)


class Gated(nn.Module):
    """An activation and an operand between the product and its part; the same value as a part and as a result."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(16, 24), nn.Linear(16, 24)

    def forward(self, x, y):
        both = nn.functional.silu(self.a(x))
        return torch.cat([torch.tanh(self.b(x)) * y, x, y], -1), torch.cat([both, x], -1), both


def placed(module, args, folder, *options):
    """How many products write to a part of a buffer."""
    archive, text = folder / "m.pt2", folder / "m.txt"
    export(module.eval(), args, archive)
    coil_ok("compile", archive, "-o", text, "--emit", "wrapper", *options)
    lines = text.read_text().splitlines()
    return sum(bool(re.match(r"extern \w+\.as_strided\(.*\) = (linear|matmul)\(", line.strip())) for line in lines)


CASES = {
    "columns": (Joined(), (torch.randn(30, 16),), 1),
    "of three dimensions": (Joined(), (torch.randn(3, 10, 16),), 1),
    "rows": (Joined(0), (torch.randn(30, 16),), 1),
    "stack": (Stacked(), (torch.randn(30, 16),), 3),
    "read twice": (ReadTwice(), (torch.randn(30, 16),), 0),
    "batched": (Batched(), (torch.randn(3, 10, 16),), 1),
    "relu": (Joined(act=nn.ReLU()), (torch.randn(30, 16),), 1),
    "gelu": (Joined(act=nn.GELU()), (torch.randn(3, 10, 16),), 1),
    "silu": (Joined(act=nn.SiLU()), (torch.randn(30, 16),), 1),
    "no post-operation": (Joined(act=nn.Softsign()), (torch.randn(30, 16),), 0),
    "gated": (Gated(), (torch.randn(30, 16), torch.randn(30, 24)), 1),
}


@pytest.mark.parametrize("case", CASES)
def test_where_products_write(case, tmp_path):
    module, args, count = CASES[case]
    assert placed(module, args, tmp_path) == count
    check(module, args)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_types(dtype):
    check(Joined().to(dtype), (torch.randn(30, 16).to(dtype),))


@pytest.mark.parametrize("settings", [["deterministic=true"], ["keep_nan=false"], ["pack_weights=false"]])
def test_settings(settings):
    check(Joined(), (torch.randn(30, 16),), settings=settings)


@pytest.mark.parametrize("act", [torch.relu, nn.functional.gelu])
def test_activations_behind_products(act):
    check(Joined(n=64, act=act), (torch.randn(300, 16),))


def test_free_sizes():
    rows = torch.export.Dim("rows", min=1, max=64)
    sizes = [(torch.randn(n, 16),) for n in (1, 2, 64)]
    check(Joined(), (torch.randn(30, 16),), {"x": {0: rows}}, sizes)
    check(Stacked(), (torch.randn(30, 16),), {"x": {0: rows}}, sizes)


def test_nan_stays_in_its_row():
    module, x = Joined().eval(), torch.randn(30, 16)
    x[3, 2] = float("nan")
    check(module, (x,))


@pytest.mark.parametrize("runtime", ["", "none"])
def test_as_python(tmp_path, monkeypatch, runtime):
    if runtime:
        monkeypatch.setenv("COIL_RUNTIME", runtime)
    module, x = Joined().eval(), torch.randn(30, 16)
    export(module, (x,), tmp_path / "m.pt2")
    (got,) = load_module(emit(tmp_path / "m.pt2", "python")).call([x])
    torch.testing.assert_close(got, module(x), rtol=1e-5, atol=1e-5)
