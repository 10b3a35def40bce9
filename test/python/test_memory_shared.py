"""Programs on the CPU that take turns share the memory of their temporaries."""

import pathlib
import resource
import sys

import pytest
import torch
from torch import nn

from coil_harness import coil_ok, export

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
coil = pytest.importorskip("coil", reason="the Python extension is not built")


class Wide(nn.Module):
    """64 MiB between a small input and a small result."""

    def __init__(self):
        super().__init__()
        self.widen = nn.Linear(32, 8192)

    def forward(self, x):
        return torch.cumsum(self.widen(x), 0)[:, :8].contiguous()


def resident():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_many_programs_hold_the_memory_of_one(tmp_path):
    module, x = Wide().eval(), torch.randn(2048, 32)
    export(module, (x,), tmp_path / "m.pt2")
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil")
    first = coil.load(tmp_path / "m.coil")
    with torch.no_grad():
        want = module(x)
    torch.testing.assert_close(first(x), want, rtol=1e-4, atol=1e-4)  # sums of thousands in another order
    before = resident()
    models = [coil.load(tmp_path / "m.coil") for _ in range(4)]
    for model in [*models, first, *models]:
        torch.testing.assert_close(model(x), want, rtol=1e-4, atol=1e-4)
    assert resident() - before < 64 << 20
