"""NaN and infinities through products with activations behind them, in turns of a loop and in branches: the pattern is
eager's. What src/passes/loop/nan_guards.h finds out of a value holds for the block that it is found out in.
"""

import pathlib
import sys

import pytest
import torch
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
coil = pytest.importorskip("coil", reason="the Python extension is not built")


def assert_same_pattern(got, want):
    torch.testing.assert_close(got, want, equal_nan=True, rtol=1e-4, atol=1e-4)


class Turns(nn.Module):
    """What a turn reads is bounded by what the turn before wrote, not by what the first one found."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        def turn(k, h):
            return k + 1, self.outer(torch.relu(self.inner(h))) + x

        return torch.while_loop(lambda k, h: k < 3, turn, (torch.tensor(0), torch.zeros_like(x)))[1]


class Branches(nn.Module):
    """Each of two branches looks at its operand for itself."""

    def __init__(self):
        super().__init__()
        self.inner = nn.ModuleList(nn.Linear(8, 16) for _ in range(2))
        self.outer = nn.ModuleList(nn.Linear(16, 8) for _ in range(2))

    def forward(self, chosen, x):
        branches = [lambda x, k=k: self.outer[k](torch.relu(self.inner[k](x))) for k in range(2)]
        return torch.cond(chosen, *branches, (x,)), torch.relu(self.inner[0](x))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_turns_of_a_loop(bad):
    model = Turns().eval()
    for row in (0, 3):
        x = torch.randn(4, 8)
        compiled = coil.compile(torch.export.export(model, (x,)))
        assert_same_pattern(compiled(x), model(x))
        x[row, 2] = bad
        assert_same_pattern(compiled(x), model(x))


def test_branches_look_for_themselves():
    model, x = Branches().eval(), torch.randn(4, 8)
    compiled = coil.compile(torch.export.export(model, (torch.tensor(True), x)))
    spoiled = x.clone()
    spoiled[1, 2] = float("nan")
    for chosen, given in ((True, x), (False, spoiled), (True, spoiled), (False, x)):
        for got, want in zip(compiled(torch.tensor(chosen), given), model(torch.tensor(chosen), given), strict=True):
            assert_same_pattern(got, want)
