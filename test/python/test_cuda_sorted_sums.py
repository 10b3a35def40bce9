"""Sums of rows at places that data say, made from sorted places, on the emulated GPU."""

import pytest
import torch
import torch.nn.functional as F

import coil
import coil_harness
from coil_harness import Call

SETTINGS = {"cuda.emulate": "true", "cuda.sort_sums": "always"}


def random(*sizes, dtype=torch.float32):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes))).to(dtype)


def places(count, *sizes):
    return torch.randint(0, count, sizes, generator=torch.Generator().manual_seed(count))


def rows_of(x, at, count):
    return x.new_zeros(count, *x.shape[1:]).scatter_add(0, at.view(-1, *[1] * (x.dim() - 1)).expand_as(x), x)


def messages(x, at, weight):
    sums = x.new_zeros(x.shape).index_add(0, at[1], x[at[0]] * weight[:, None])
    return (sums + x).relu()


def in_two_layers(x, at):
    for _ in range(2):
        x = torch.tanh(rows_of(x.index_select(0, at[0]), at[1], x.shape[0]))
    return x


CASES = {
    "rows": lambda: (lambda x, at: rows_of(x, at, 40), (random(500, 16), places(40, 500))),
    "rows in 16 bits": lambda: (
        lambda x, at: rows_of(x, at, 40),
        (random(500, 16, dtype=torch.bfloat16), places(40, 500)),
    ),
    "rows of an odd length": lambda: (lambda x, at: rows_of(x, at, 7), (random(333, 5), places(7, 333))),
    "one place": lambda: (lambda x, at: rows_of(x, at, 9), (random(300, 8), torch.full((300,), 4))),
    "a place for each": lambda: (lambda x, at: rows_of(x, at, 300), (random(300, 8), torch.randperm(300))),
    "one row": lambda: (lambda x, at: rows_of(x, at, 3), (random(1, 8), places(3, 1))),
    "pieces that end within four": lambda: (lambda x, at: rows_of(x, at, 3), (random(67, 4), places(3, 67))),
    "messages": lambda: (messages, (random(60, 16), places(60, 2, 400), random(400))),
    "two layers": lambda: (in_two_layers, (random(60, 16), places(60, 2, 400))),
    "places by two indices": lambda: (
        lambda x, i, j: torch.zeros(5, 6, 8).index_put((i, j), x, accumulate=True),
        (random(200, 8), places(5, 200), places(6, 200) - 3),
    ),
    "places of a matrix": lambda: (
        lambda x, at: torch.zeros(12, 8).index_put((at,), x, accumulate=True),
        (random(20, 10, 8), places(12, 20, 10)),
    ),
    "columns": lambda: (lambda x, at: torch.zeros(6, 30).index_add(1, at, x), (random(6, 200), places(30, 200))),
    "each column its own": lambda: (
        lambda x, at: torch.zeros(9, 7).scatter_add(0, at, x),
        (random(50, 7), places(9, 50, 7)),
    ),
    "a number": lambda: (lambda at: torch.zeros(30).scatter_add(0, at, torch.ones(500)), (places(30, 500),)),
    "positions": lambda: (
        lambda at: torch.zeros(30).index_add(0, at, torch.arange(500, dtype=torch.float32)),
        (places(30, 500),),
    ),
    "masked": lambda: (lambda x, at: rows_of(F.pad(x, (0, 0, 3, 5)), at, 9), (random(100, 8), places(9, 108))),
    "onto something": lambda: (
        lambda x, y, at: y.index_add(0, at, x, alpha=2),
        (random(99, 8), random(9, 8), places(9, 99)),
    ),
    "largest": lambda: (
        lambda x, at: x.new_full((20, 16), 0.5).scatter_reduce(0, at[:, None].expand_as(x), x, "amax"),
        (random(400, 16), places(20, 400)),
    ),
    "smallest in 16 bits": lambda: (
        lambda x, at: x.new_zeros(21, 8).scatter_reduce(0, at[:, None].expand_as(x), x, "amin", include_self=False),
        (random(400, 8, dtype=torch.bfloat16), places(20, 400)),
    ),
    "largest with NaN": lambda: (
        lambda x, at: x.new_zeros(20, 5).index_reduce(0, at, torch.where(x > 2.5, torch.nan, x), "amax"),
        (random(400, 5), places(20, 400)),
    ),
    "means": lambda: (
        lambda x, at: x.new_zeros(20, 8).scatter_reduce(0, at[:, None].expand_as(x), x, "mean", include_self=False),
        (random(400, 8), places(20, 400)),
    ),
    "without rows": lambda: (lambda x, at: rows_of(x, at, 9), (random(0, 8), places(9, 0))),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    fn, args = CASES[name]()
    want, got = fn(*args), coil.compile(Call(fn), args, options=SETTINGS)(*args)
    assert (got.dtype, got.shape, got.stride()) == (want.dtype, want.shape, want.stride())
    tolerance = 1e-5 if want.dtype == torch.float32 else 2e-2
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("scaled", [False, True])
def test_gradients(scaled):
    weight, at = random(50, 8).requires_grad_(), places(50, 30, 20)

    def loss(weight, at):
        rows = F.embedding(at, weight)
        return (rows * rows.tanh()).sum() if scaled else (rows**2).sum()

    compiled = torch.compile(loss, backend="coil", options=SETTINGS)
    torch.testing.assert_close(
        torch.autograd.grad(compiled(weight, at), weight)[0], torch.autograd.grad(loss(weight, at), weight)[0]
    )


def test_a_place_outside_is_an_error():
    model = coil.compile(Call(lambda x, at: rows_of(x, at, 9)), (random(50, 8), places(9, 50)), options=SETTINGS)
    at = places(9, 50)
    at[7] = 9
    with pytest.raises(coil.Error, match="out of range"):
        model(random(50, 8), at)


def sums_in_pieces(tmp_path, fn, args, *settings):
    coil_harness.export(Call(fn), args, tmp_path / "sums.pt2")
    done = coil_harness.coil_ok(
        *("compile", tmp_path / "sums.pt2", "-o", tmp_path / "sums.coil", "--log", "lower"),
        *("--set", "cuda.emulate=true", *settings),
    )
    return done.stderr.count("in pieces of")


def test_it_is_what_large_graphs_get(tmp_path):
    """By the estimate: many rows of many columns; few are added to memory one by one."""

    def sums(rows, columns, count, *settings):
        args = random(rows, columns), torch.zeros(rows, dtype=torch.int64)
        return sums_in_pieces(tmp_path, lambda x, at: rows_of(x, at, count), args, *settings)

    assert sums(600_000, 128, 50_000) == 1
    assert sums(600_000, 128, 50_000, "--set", "cuda.sort_sums=never") == 0
    assert sums(600_000, 8, 50_000) == 0
    assert sums(5_000, 128, 500) == 0
    assert sums(5_000, 128, 500, "--set", "cuda.sort_sums=always") == 1


WIDE = {
    "sums": lambda: (lambda x, at: rows_of(x, at, 900), (random(35_000, 128), places(900, 35_000)), 4),
    "sums in 16 bits": lambda: (
        lambda x, at: rows_of(x, at, 900),
        (random(35_000, 128, dtype=torch.bfloat16), places(900, 35_000)),
        4,
    ),
    "largest": lambda: (
        lambda x, at: x.new_zeros(900, 128).scatter_reduce(0, at[:, None].expand_as(x), x, "amax"),
        (random(70_000, 128, dtype=torch.bfloat16), places(900, 70_000)),
        8,
    ),
}


@pytest.mark.parametrize("name", WIDE)
def test_vectors_of_columns(name, tmp_path):
    """Of many rows a thread takes several columns."""
    fn, args, width = WIDE[name]()
    coil_harness.export(Call(fn), args, tmp_path / "sums.pt2")
    text = coil_harness.coil_ok(
        *("compile", tmp_path / "sums.pt2", "-o", tmp_path / "sums.coil", "--log", "kernels"),
        *("--set", "cuda.emulate=true", "--set", "cuda.sort_sums=always"),
    ).stderr
    assert f"total[{width}];" in text
    want, got = fn(*args), coil.compile(Call(fn), args, options=SETTINGS)(*args)
    tolerance = 2e-5 if want.dtype == torch.float32 else 2e-2
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


def test_masked_rows_are_added_one_by_one(tmp_path):
    fn, args = CASES["masked"]()
    assert sums_in_pieces(tmp_path, fn, args, "--set", "cuda.sort_sums=always") == 0
