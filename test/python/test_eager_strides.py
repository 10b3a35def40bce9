"""Results whose strides torch's tracing records otherwise than eager has them: Coil's are eager's."""

import pathlib
import random
import sys

import pytest
import torch
import torch.nn.functional as F

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
coil = pytest.importorskip("coil", reason="the Python extension is not built")

COLUMNS = torch.randn(5, 6).t().contiguous().t()  # columns are dense
PLACES = torch.randint(0, 5, (6, 5)).t()
PROGRAMS = {
    "floor_divide": lambda c, b, i: c // b,
    "rounding mode": lambda c, b, i: torch.div(c, b, rounding_mode="floor"),
    "copysign": lambda c, b, i: torch.copysign(c, b),
    "isin": lambda c, b, i: torch.isin(c, b),
    "logsigmoid": lambda c, b, i: F.logsigmoid(c),
    "power of a number": lambda c, b, i: 2**c,
    "index": lambda c, b, i: c[i],
    "index behind": lambda c, b, i: c[:, i],
    "index_fill": lambda c, b, i: c.expand(3, -1, -1).index_fill(0, torch.tensor([0]), 2),
    "what follows": lambda c, b, i: ((c // b) * 2 + 1, c[i].exp().transpose(0, 1), c[i].reshape(-1)),
    "a reshape": lambda c, b, i: c[i].flatten(0, 1) * 2,
}


def listed(results):
    return results if isinstance(results, tuple) else (results,)


def strides(t):
    """Of what more than one element goes along."""
    return [s for s, size in zip(t.stride(), t.shape) if size != 1]


NO_GRADIENT = {"floor_divide", "isin", "what follows"}  # in eager
CASES = [(name, training) for training in (False, True) for name in PROGRAMS if not (training and name in NO_GRADIENT)]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name, training", CASES)
def test_strides(name, training, dynamic):
    torch._dynamo.reset()
    program = PROGRAMS[name]
    compiled = torch.compile(program, backend="coil", dynamic=dynamic)
    b = torch.randn(6)
    gradients = []
    for call in (program, compiled):
        c = COLUMNS.clone(memory_format=torch.preserve_format).requires_grad_(training)
        results = listed(call(c, b, PLACES))
        if training:
            sum((r * r).sum() for r in results).backward()
        gradients.append((results, c.grad))
    (want, want_grad), (got, got_grad) = gradients
    for w, g in zip(want, got, strict=True):
        torch.testing.assert_close(g, w)
        assert strides(g) == strides(w)
    torch.testing.assert_close(got_grad, want_grad)


def in_some_order(shape):
    order = random.sample(range(len(shape)), len(shape))
    return torch.randn([shape[k] for k in order]).permute([order.index(k) for k in range(len(order))])


@pytest.mark.parametrize("seed", range(12))
def test_drawn_indices(seed):
    random.seed(seed)
    torch.manual_seed(seed)
    shape = [random.choice([2, 3, 4]) for _ in range(random.randint(1, 4))]
    common = [random.choice([2, 3]) for _ in range(random.randint(1, 3))]
    x, where = in_some_order(shape), []
    for size in shape[: random.randint(1, len(shape))]:
        place = (in_some_order(common).abs() * 7).long() % size
        where.append(place if random.random() < 0.6 else slice(None))
    given = [k for k, w in enumerate(where) if not isinstance(w, slice)]

    def program(x, *places):
        index = list(where)
        for k, place in zip(given, places):
            index[k] = place
        return x[tuple(index)]

    torch._dynamo.reset()
    places = [where[k] for k in given]
    want, got = program(x, *places), torch.compile(program, backend="coil")(x, *places)
    assert torch.equal(got, want)
    assert strides(got) == strides(want)


def test_packages():
    class Indexes(torch.nn.Module):
        def forward(self, c, i):
            return c[i] * 2, c // 0.5

    program = coil.compile(torch.export.export(Indexes(), (COLUMNS, PLACES)))
    for got, want in zip(program(COLUMNS, PLACES), Indexes()(COLUMNS, PLACES), strict=True):
        assert torch.equal(got, want)
        assert strides(got) == strides(want)
