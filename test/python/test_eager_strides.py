"""Results whose strides torch's tracing records otherwise than eager has them: those that only the caller sees are
eager's.
"""

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
    "with views": lambda c, b, i: ((y := c[i]) * 2, y[1:].exp(), y.transpose(0, 1).sum(0), y.reshape(-1)),
}


def listed(results):
    return results if isinstance(results, tuple) else (results,)


def strides(t):
    """Of what more than one element goes along."""
    return [s for s, size in zip(t.stride(), t.shape) if size != 1]


TRAINED = (
    "index",
    "index behind",
    "index_fill",
    "with views",
)  # others have no gradient, or one that takes their result
CASES = [(name, training) for name in PROGRAMS for training in (False, True) if not training or name in TRAINED]


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
        assert strides(g) == strides(w) or name == "with views"  # torch's records go on in what is made of it
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
            return c[i], c // 0.5

    program = coil.compile(torch.export.export(Indexes(), (COLUMNS, PLACES)))
    for got, want in zip(program(COLUMNS, PLACES), Indexes()(COLUMNS, PLACES), strict=True):
        assert torch.equal(got, want)
        assert strides(got) == strides(want)
