"""`memory.budget`: what a forward graph keeps for the backward one, gradients, and values out of range."""

import pathlib
import sys

import pytest
import torch
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
coil = pytest.importorskip("coil", reason="the Python extension is not built")
from coil import dynamo, joint  # noqa: E402

pytestmark = pytest.mark.usefixtures("fresh")


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.widen = nn.ModuleList(nn.Linear(64, 256) for _ in range(3))
        self.narrow = nn.ModuleList(nn.Linear(256, 64) for _ in range(3))

    def forward(self, x):
        for widen, narrow in zip(self.widen, self.narrow, strict=True):
            x = x + narrow(torch.softmax(nn.functional.gelu(widen(x)), -1))
        return x.square().mean()


def step(monkeypatch, budget):
    """Gradients of a step with the budget, and the planned peak of its graphs with what is kept between them."""
    graphs, kept = {}, {}
    compile = dynamo._compile

    def noted(traced, options, name, **keep):
        graphs[name] = compile(traced, options, name, **keep)
        return graphs[name]

    def keep(value):
        kept[value.untyped_storage().data_ptr()] = value
        return value

    monkeypatch.setattr(dynamo, "_compile", noted)
    torch.manual_seed(0)
    model, x = Layers(), torch.randn(512, 64)
    options = {"cache": "none"} | ({} if budget is None else {"memory.budget": budget})
    made = torch.compile(model, backend="coil", options=options)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value):
        loss = made(x)
    loss.backward()
    for own in [x, *model.parameters()]:
        kept.pop(own.untyped_storage().data_ptr(), None)
    saved = sum(v.untyped_storage().nbytes() for v in kept.values())
    peak = max(graphs["forward"].peak_bytes, saved + graphs["backward"].peak_bytes)
    monkeypatch.setattr(dynamo, "_compile", compile)
    torch._dynamo.reset()
    return [p.grad for p in model.parameters()], peak, saved


def test_less_budget_keeps_less_and_gives_the_same_gradients(monkeypatch):
    gradients, peak, saved = step(monkeypatch, None)
    assert step(monkeypatch, 1)[1:] == (peak, saved)
    first = peak
    for budget in (0.7, 0.4, "0.1", 0):
        now, lower, less = step(monkeypatch, budget)
        torch.testing.assert_close(now, gradients, rtol=1e-4, atol=1e-6)  # sums in another order
        assert lower <= peak, f"budget {budget} has the higher peak"
        assert less <= saved
        peak, saved = lower, less
    assert peak < 0.75 * first


@pytest.mark.parametrize("budget", [-0.1, 1.01, float("nan"), "half", True, None, [1]])
def test_a_budget_out_of_range_is_refused(budget):
    made = torch.compile(Layers(), backend="coil", options={"memory.budget": budget})
    with pytest.raises(Exception, match=r"memory\.budget takes a number from 0 to 1"):
        made(torch.randn(4, 64))


def test_the_estimate_counts_what_is_live():
    class Wide(nn.Module):
        def forward(self, x):
            wide = x.expand(8, 1024).clone()
            return torch.cumsum(wide, 1)[:, -1].sum()

    graph = torch.fx.symbolic_trace(Wide())
    assert joint.peak_bytes(graph) == 0, "no sizes are known"
    traced = torch.fx.experimental.proxy_tensor.make_fx(Wide(), tracing_mode="fake")(torch.randn(1, 1024))
    given = 4 * 1024
    assert joint.peak_bytes(traced) == 2 * 8 * given
