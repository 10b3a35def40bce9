"""Random numbers of training graphs: the backward graph draws them again from the seed that is kept, and gradients are
bit by bit those of graphs that keep what they drew.
"""

import pathlib
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
coil = pytest.importorskip("coil", reason="the Python extension is not built")
from coil import draws, recomputed  # noqa: E402

pytestmark = pytest.mark.usefixtures("fresh")

SEED = 8  # bytes


def step(f, *inputs, dynamic=False, autocast=False, **options):
    """A compiled function's result and the gradients of its inputs; what is kept beside inputs, as (type, bytes)."""
    torch._dynamo.reset()
    kept = {}

    def keep(value):
        kept[value.untyped_storage().data_ptr()] = value
        return value

    made = torch.compile(f, backend="coil", dynamic=dynamic, options={"cache": "none"} | options)
    inputs = [x.detach().requires_grad_() for x in inputs]
    torch.manual_seed(7)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value):
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            y = made(*inputs)
        own = {x.untyped_storage().data_ptr() for x in inputs}
        said = [(v.dtype, v.untyped_storage().nbytes()) for at, v in kept.items() if at not in own]
    y.float().square().sum().backward()
    return [y.detach(), *(x.grad for x in inputs)], said


def bytes_of(said, dtype):
    return sum(size for kind, size in said if kind is dtype)


def attend(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, dropout_p=0.2)


def heads(*sizes):
    return [torch.randn(*sizes) for _ in range(3)]


def features(x):
    return F.dropout2d(x.sin(), 0.3).cos()


CASES = {
    "none": (lambda x: torch.native_dropout(x.sin(), 0.0, True)[0].cos(), [torch.randn(17, 33)]),
    "all": (lambda x: F.dropout(x.sin(), 1.0).cos(), [torch.randn(17, 33)]),
    "tenth": (lambda x: F.dropout(x.sin(), 0.1).cos(), [torch.randn(17, 33)]),
    "several": (
        lambda x, w: F.dropout(F.dropout(F.dropout(x, 0.1) @ w, 0.5).relu() @ w, 0.25),
        [torch.randn(40, 32), torch.randn(32, 32)],
    ),
    "attention": (attend, heads(2, 3, 16, 8)),
    "half": (lambda x: F.dropout(x, 0.1), [torch.randn(17, 64, dtype=torch.bfloat16)]),
    "double": (lambda x: F.dropout(x.sin(), 0.1).cos(), [torch.randn(17, 64, dtype=torch.float64)]),
    "channels last": (
        lambda x: F.dropout(x.sin(), 0.4).cos(),
        [torch.randn(2, 8, 5, 6).to(memory_format=torch.channels_last)],
    ),
    "transposed": (lambda x: F.dropout(x.sin(), 0.4).cos(), [torch.randn(6, 40).t()]),
    "features": (features, [torch.randn(4, 16, 5, 5)]),
    "alpha": (lambda x: F.alpha_dropout(x.sin(), 0.2, True).cos(), [torch.randn(17, 33)]),
    "bernoulli": (lambda x: x.sin() * torch.bernoulli(torch.full_like(x, 0.5), 0.3), [torch.randn(17, 33)]),
    "uniform": (lambda x: x.sin() * torch.rand_like(x) + torch.rand(33) * x.cos(), [torch.randn(17, 33)]),
    "compared": (lambda x: x.sin() * (torch.rand(x.shape) < 0.3), [torch.randn(17, 33)]),
    "normal": (lambda x: x.sin() * torch.randn_like(x) + torch.randn(33) * x.cos(), [torch.randn(17, 33)]),
    "noise in place": (lambda x: x.sin() * torch.empty_like(x).normal_(1, 2).uniform_(-1, 3), [torch.randn(17, 33)]),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_gradients_are_those_of_kept_numbers(name, dynamic, monkeypatch):
    f, inputs = CASES[name]
    again, said = step(f, *inputs, dynamic=dynamic)
    monkeypatch.setattr(recomputed, "UNTAGGED", [op for op in recomputed.UNTAGGED if op is not torch.ops.coil.draw])
    kept, held = step(f, *inputs, dynamic=dynamic)
    for a, b in zip(again, kept, strict=True):
        assert torch.equal(a, b), "the backward graph drew other numbers"
    assert bytes_of(said, torch.int64) == SEED, said
    drawn = {torch.bool, torch.float32, torch.float64, torch.bfloat16}
    assert sum(bytes_of(said, kind) for kind in drawn) < sum(bytes_of(held, kind) for kind in drawn)
    assert not bytes_of(said, torch.bool)


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 1.0])
def test_what_is_dropped_has_no_gradient(p):
    x = torch.rand(64, 65) + 0.5
    (y, grad), _ = step(lambda x: F.dropout(x, p), x)
    assert torch.equal(grad == 0, y == 0) and torch.equal(y, torch.where(y != 0, x * (0 if p == 1 else 1 / (1 - p)), 0))
    assert abs((y == 0).float().mean() - p) < 0.05


def test_dropped_infinity_is_not_a_number():
    (y, _), _ = step(lambda x: F.dropout(x, 0.5), torch.full((64,), torch.inf))
    assert y.isnan().any() and y.isinf().any() and (y.isnan() | y.isinf()).all()


def test_a_layer_keeps_no_mask_under_autocast():
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, activation="gelu", batch_first=True).train()
    _, said = step(layer, torch.randn(4, 16, 32), autocast=True)
    assert not bytes_of(said, torch.bool) and bytes_of(said, torch.int64) == SEED, said


@pytest.mark.parametrize("budget", [0.5, 0.0])
def test_a_budget_changes_no_draw(budget):
    def f(x, w):
        x = F.dropout(F.dropout(x @ w, 0.1).relu() @ w, 0.25)
        return x * torch.poisson(torch.full_like(x, 3.0))  # which has no form that is drawn again

    inputs = torch.randn(32, 64), torch.randn(64, 64)
    for a, b in zip(step(f, *inputs, **{"memory.budget": budget})[0], step(f, *inputs)[0], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("budget", [0.5, 0.0])
def test_a_budget_changes_no_draw_of_torchs(budget):
    def f(x, w):
        return F.dropout(F.dropout(x @ w, 0.1).relu() @ w, 0.25)

    inputs = torch.randn(32, 64), torch.randn(64, 64)
    options = {"fallback_random": True}
    for a, b in zip(step(f, *inputs, **options, **{"memory.budget": budget})[0], step(f, *inputs, **options)[0]):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-4)


def test_checkpointed_regions_draw_by_the_seed():
    from torch.utils.checkpoint import checkpoint

    weight = torch.rand(16, 16)

    def region(x):
        return F.dropout(F.dropout(x @ weight, 0.5).exp().log(), 0.5) * torch.rand(16)

    x = torch.rand(8, 16)
    found, said = step(lambda x: checkpoint(region, x, use_reentrant=False), x)
    want, _ = step(region, x)
    for a, b in zip(found, want, strict=True):
        torch.testing.assert_close(a, b)
    assert sum(size for kind, size in said if kind.is_floating_point) <= weight.nbytes, "nothing of the region"


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1]])
@pytest.mark.parametrize(
    ("kind", "a", "b", "dtype"),
    [
        ("bernoulli", 0.3, 0.0, torch.bool),
        ("bernoulli", 0.0, 0.0, torch.bool),
        ("bernoulli", 1.0, 0.0, torch.float32),
        ("uniform", 0.0, 1.0, torch.float32),
        ("uniform", 0.0, 1.0, torch.float64),
        ("uniform", 0.0, 1.0, torch.bfloat16),
        ("uniform", -1.0, 2.0, torch.float16),
        ("normal", 1.0, 2.0, torch.float32),
        ("normal", 0.0, 1.0, torch.float64),
    ],
)
def test_torch_draws_the_same(kind, a, b, dtype, order):
    """Where torch runs a graph, its numbers are those of Coil's kernels."""
    seed = torch.tensor(-0x123456789ABCDEF)

    def f(seed):
        return draws.draw(seed, [5, 7, 9], order, kind, a, b, 3, dtype=dtype)

    found, want = torch.compile(f, backend="coil", options={"cache": "none"})(seed), f(seed)
    assert found.stride() == want.stride()
    if kind == "normal":
        torch.testing.assert_close(found, want, rtol=1e-5, atol=1e-5)
    else:
        assert torch.equal(found, want)
    assert kind == "bernoulli" and a in (0, 1) or want.unique().numel() > 1


@pytest.mark.parametrize("p", [0.1, 1.0])
def test_on_a_gpu_that_is_emulated(p):
    options = {"cuda.emulate": True}
    inputs = torch.randn(12, 32), torch.randn(32, 32)
    f = lambda x, w: F.dropout(F.dropout(x.sin(), p) @ w, 0.25)  # noqa: E731
    found, said = step(f, *inputs, **options)
    assert not bytes_of(said, torch.bool) and bytes_of(said, torch.int64) == SEED, said
    for a, b in zip(found, step(f, *inputs)[0], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-4)
