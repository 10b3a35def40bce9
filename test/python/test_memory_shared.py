"""Programs on the CPU that take turns share the memory of their temporaries."""

import gc
import pathlib
import resource
import sys
import threading

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


def test_programs_that_run_at_once_have_memory_of_their_own_and_all_goes_with_the_last(tmp_path):
    module = Wide().eval()
    export(module, (torch.randn(2048, 32),), tmp_path / "m.pt2")
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil")
    before, wrong = resident(), []

    def run(seed):
        x = torch.randn(2048, 32, generator=torch.Generator().manual_seed(seed))
        with torch.no_grad():
            want = module(x)
        model = coil.load(tmp_path / "m.coil")
        for _ in range(4):
            if not torch.allclose(model(x), want, rtol=1e-4, atol=1e-4):
                wrong.append(seed)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    gc.collect()
    assert resident() - before < 64 << 20
