"""Backward graphs: the order of calls counts what was saved for them, which goes as it is used, and their results."""

import pathlib
import sys

import pytest
import torch
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
pytest.importorskip("coil", reason="the Python extension is not built")
from coil import dynamo, joint  # noqa: E402
from coil.graph import translate  # noqa: E402

pytestmark = pytest.mark.usefixtures("fresh")


class Head(nn.Module):
    """Wide pictures before, and large weights behind, whose gradients come first where nobody asks."""

    def __init__(self):
        super().__init__()
        self.pictures = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1))
        self.head = nn.Sequential(nn.Linear(32 * 49, 1024), nn.ReLU(), nn.Linear(1024, 8))

    def forward(self, x):
        pooled = nn.functional.adaptive_avg_pool2d(self.pictures(x).relu(), 7)
        return self.head(pooled.flatten(1))


def step(monkeypatch, **options):
    """The gradients, and the planned peak of the backward graph with what was saved for it."""
    compile, peaks, forward = dynamo.compile_graph, [], []

    def noted(gm, options, name="main", **layouts):
        if name == "forward":
            forward.append(gm)
        if name == "backward":
            traced = translate(gm, name, None, options.hands_over, options.fallback_random, **layouts)
            going = joint.kept_memory(forward[-1], gm)
            peaks.append(traced.planned_peaks(options.settings, "cpu", going)["least"])
        return compile(gm, options, name, **layouts)

    monkeypatch.setattr(dynamo, "compile_graph", noted)
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, x = Head(), torch.randn(4, 3, 56, 56)
    made = torch.compile(model, backend="coil", options={"cache": "none"} | options)
    made(x).square().mean().backward()
    monkeypatch.undo()
    got = [p.grad for p in model.parameters()]
    model.zero_grad()
    model(x).square().mean().backward()
    for grad, parameter in zip(got, model.parameters(), strict=True):
        torch.testing.assert_close(grad, parameter.grad, rtol=1e-4, atol=1e-5)
    return peaks[0]


def test_large_gradients_wait_until_what_was_saved_has_gone(monkeypatch):
    assert step(monkeypatch) < 0.8 * step(monkeypatch, **{"memory.order": "false"})
