"""Indices that data holds: negative ones count from the end where they do in eager, and others out of range fail."""

import pathlib
import sys

import pytest
import torch
import torch.nn.functional as F

from coil_harness import difference

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
coil = pytest.importorskip("coil", reason="the Python extension is not built")

X, ROWS = torch.randn(5, 6), torch.randn(3, 6)


def columns(i):
    return i[:, None].expand(3, 6)


OPERATORS = {
    "cross_entropy": lambda x, rows, i: F.cross_entropy(x[:3], i),
    "embedding": lambda x, rows, i: F.embedding(i, x),
    "embedding_bag": lambda x, rows, i: F.embedding_bag(i[None], x),
    "gather": lambda x, rows, i: x.gather(0, columns(i)),
    "index": lambda x, rows, i: x[i],
    "index_add": lambda x, rows, i: x.index_add(0, i, rows, alpha=2),
    "index_copy": lambda x, rows, i: x.index_copy(0, i, rows),
    "index_fill": lambda x, rows, i: x.index_fill(0, i, 1.0),
    "index_put": lambda x, rows, i: x.index_put((i,), rows),
    "index_put_accumulated": lambda x, rows, i: x.index_put((i,), rows, accumulate=True),
    "index_reduce": lambda x, rows, i: x.index_reduce(0, i, rows, "amax"),
    "index_select": lambda x, rows, i: x.index_select(0, i),
    "max_unpool1d": lambda x, rows, i: F.max_unpool1d(rows[None, :, 0], i[None], 2),
    "nll_loss": lambda x, rows, i: F.nll_loss(x[:3], i),
    "put": lambda x, rows, i: x.put(i, rows[:, 0]),
    "scatter": lambda x, rows, i: x.scatter(0, columns(i), rows),
    "scatter_add": lambda x, rows, i: x.scatter_add(0, columns(i), rows),
    "scatter_reduce": lambda x, rows, i: x.scatter_reduce(0, columns(i), rows, "amax"),
    "take": lambda x, rows, i: x.take(i),
    "take_along_dim": lambda x, rows, i: torch.take_along_dim(x, i[:, None], 0),
}


def attempt(call, i):
    try:
        return call(X.clone(), ROWS, i)
    except (RuntimeError, IndexError) as error:
        return error


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", OPERATORS)
def test_negative_and_wrong_indices(name, dynamic):
    torch._dynamo.reset()
    operator = OPERATORS[name]
    compiled = torch.compile(operator, backend="coil", dynamic=dynamic)
    for indices in ([0, 1, 2], [-1, 0, 2], [0, -4, 1], [-2, -40, 1], [0, 1, 40]):
        i = torch.tensor(indices)
        want, got = attempt(operator, i), attempt(compiled, i)
        if isinstance(want, Exception):
            assert isinstance(got, Exception), f"{indices} are refused by eager"
        else:
            assert isinstance(got, torch.Tensor), f"{indices}: {got}"
            assert not difference(got, want), indices


def test_a_permutation_that_is_known_counts_from_the_end():
    """Indices that the graph makes itself, all of them negative, are neither looked up nor checked."""
    torch._dynamo.reset()
    reversed_rows = lambda x: x[-1 - torch.arange(x.shape[0])] + 1
    assert not difference(torch.compile(reversed_rows, backend="coil")(X), reversed_rows(X))


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
def test_packages_take_along_a_dimension_modulo_its_size(dtype):
    class Takes(torch.nn.Module):
        def forward(self, x, i):
            return torch.take_along_dim(x, i, 1), torch.take_along_dim(x[:1], i, 1)

    x, i = torch.randn(5, 4, dtype=dtype), torch.randint(-9, 9, (5, 3))
    program = coil.compile(torch.export.export(Takes(), (x, i)))
    for got, want in zip(program(x, i), Takes()(x, i), strict=True):
        assert torch.equal(got, want)
