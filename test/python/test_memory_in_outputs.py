"""On the CPU temporaries lie in the memory of results that come later: values, with sizes that take turns and results
that the caller holds on to, and memory as it was planned.
"""

import json
import pathlib
import sys

import pytest
import torch
from torch import nn

from coil_harness import coil_ok, export

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
coil = pytest.importorskip("coil", reason="the Python extension is not built")


class Words(nn.Module):
    """Wide values within, a wider result, and one that is there early and written to the end."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(64, 512), nn.GELU(), nn.Linear(512, 64)) for _ in range(3))
        self.words = nn.Linear(64, 1024)

    def forward(self, x):
        early = torch.softmax(x @ x.mT, -1)
        for layer in self.layers:
            x = x + layer(x)
        return early, self.words(x)


def test_the_arena_holds_only_what_no_result_has_room_for(tmp_path):
    export(Words().eval(), (torch.randn(256, 64),), tmp_path / "m.pt2")
    coil_ok("bench", tmp_path / "m.pt2", "--seconds", "0.01", "--json", tmp_path / "b.json")
    figures = json.loads((tmp_path / "b.json").read_text())
    wide, narrow = 256 * 512 * 4, 256 * 64 * 4
    assert figures["planned_peak_bytes"] == figures["measured_peak_bytes"] <= 2 * narrow < wide


class Normed(nn.Module):
    """Each layer's value is made in place of the one before, as in language models; the head makes one beside it."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)) for _ in range(3))
        self.norms = nn.ModuleList(nn.LayerNorm(64) for _ in range(3))
        self.head, self.words = nn.Linear(64, 64), nn.Linear(64, 1024)

    def forward(self, x):
        x = torch.sin(x)
        for layer, norm in zip(self.layers, self.norms):
            x = norm(x + layer(x))
        return self.words(torch.relu(self.head(x)))


def test_a_chain_of_values_in_place_leaves_room_for_the_last(tmp_path):
    model, x = Normed().eval(), torch.randn(512, 64)
    export(model, (x,), tmp_path / "m.pt2")
    coil_ok("bench", tmp_path / "m.pt2", "--seconds", "0.01", "--json", tmp_path / "b.json")
    figures = json.loads((tmp_path / "b.json").read_text())
    assert figures["planned_peak_bytes"] == figures["measured_peak_bytes"] == 512 * 64 * 4
    with torch.no_grad():
        made = torch.compile(model, backend="coil", options={"cache": "none"})
        torch.testing.assert_close(made(x), model(x), rtol=1e-4, atol=1e-4)


def test_values_with_sizes_that_take_turns_and_results_that_are_held():
    model = Words().eval()
    made = torch.compile(model, backend="coil", dynamic=True, options={"cache": "none"})
    held = []
    with torch.no_grad():
        for rows in (256, 300, 256, 7, 300, 256):
            x = torch.randn(rows, 64)
            held.append((made(x), model(x)))
    for got, want in held:
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


def test_values_of_a_loaded_package(tmp_path):
    model = Words().eval()
    export(model, (torch.randn(256, 64),), tmp_path / "m.pt2")
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil")
    loaded = coil.load(tmp_path / "m.coil")
    held = []
    for _ in range(3):
        x = torch.randn(256, 64)
        with torch.no_grad():
            held.append((loaded(x), model(x)))
    for got, want in held:
        torch.testing.assert_close(tuple(got), want, rtol=1e-4, atol=1e-4)
