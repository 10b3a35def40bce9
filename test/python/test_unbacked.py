"""Sizes and numbers that depend on data: each operator that makes one with operators that take it, at counts of 0, 1,
primes and powers of two.
"""

import functools
import inspect
import pathlib
import tempfile

import pytest
import torch
import torch.nn.functional as F

import coil_harness
from coil_harness import CoilError

ROWS = {0: torch.export.Dim("rows", min=1, max=64)}


@pytest.fixture(params=[False, True], ids=["exported", "decomposed"])
def check(request):
    """Every program in both forms that torch writes."""
    return functools.partial(coil_harness.check, decomposed=request.param)


class Module(torch.nn.Module):
    """A function as a module; its arguments are a, b, c."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, a, b=None, c=None):
        given = [x for x in (a, b, c) if x is not None]
        return self.function(*given)


def counted(*shape, true):
    """A matrix of which `true` elements are positive, in random places; the others are negative."""
    x = -torch.rand(shape) - 0.1
    x.view(-1)[torch.randperm(x.numel())[:true]] *= -1
    return x


def consumers(rows):
    """What is done with a tensor [u0, 3] of data-dependent length: pointwise, reductions over and beside the length,
    scan, sort, matrix product, concatenation, views, padding, gather.
    """
    weight = torch.arange(12, dtype=rows.dtype).reshape(3, 4)
    twice = torch.cat([rows, rows * 2])
    return (
        rows.relu() + 1,
        rows.sum(0),
        rows.sum(1),
        rows.sum(),
        rows @ weight,
        rows.cumsum(0),
        rows.t().contiguous(),
        twice,
        rows.reshape(-1).sort().values,
        rows.softmax(1),
        F.pad(rows, (1, 1)),
        rows[:, 1:],
        rows.unsqueeze(0).expand(2, -1, -1) * 1.5,
    )


def rows_by_mask(x):
    return consumers(x[x[:, 0] > 0])


def rows_by_nonzero(x):
    return consumers(x[torch.nonzero(x[:, 0] > 0)[:, 0]])


@pytest.mark.parametrize("function", [rows_by_mask, rows_by_nonzero])
def test_consumers(function, check):
    def example(rows, kept):
        x = torch.randn(rows, 3)
        x[:, 0] = counted(rows, true=kept)
        return (x,)

    check(
        Module(function),
        example(6, 4),
        dynamic=(ROWS,),
        others=[example(n, k) for n, k in [(1, 0), (1, 1), (13, 13), (13, 0), (13, 7), (64, 64), (16, 8)]],
    )


def nonzero(x):
    where = torch.argwhere(x > 0)
    first, second = torch.nonzero(x > 0, as_tuple=True)
    return (
        where,
        where.sum(),
        first * 2 + second,
        torch.nonzero(x[0] > 5),
        torch.nonzero_static(x > 0, size=5),
        torch.nonzero_static(x > 0, size=70, fill_value=-3),
    )


def masked(x):
    chosen = torch.masked_select(x, x > 0)
    column = torch.masked_select(x, (x[:, :1] > 0))
    y = x.clone()
    y[x > 0] = y[x > 0] * 2 + 1
    y[x[:, 0] > 0, 1] = -7.0
    z = x.clone()
    z[x > 0] = 3.0
    return chosen.exp(), column.sum(), x[x > 0].sum(), y, z, x[:, x[0] > 0], x[x[:, 0] > 0, 1]


@pytest.mark.parametrize("function", [nonzero, masked])
def test_masks(function, check):
    shapes = [(1, 4, 0), (1, 4, 1), (13, 4, 52), (13, 4, 7), (13, 4, 0), (32, 4, 64)]
    check(
        Module(function),
        (counted(6, 4, true=9),),
        dynamic=(ROWS,),
        others=[(counted(n, m, true=k),) for n, m, k in shapes],
    )


def repeated(x, counts):
    return (
        torch.repeat_interleave(x, counts, dim=0),
        torch.repeat_interleave(counts),
        x.repeat_interleave(counts, dim=0).sum(0),
        torch.repeat_interleave(x.t(), counts, dim=1) + 1,
    )


def test_repeat_interleave(check):
    def example(rows, top):
        return torch.randn(rows, 3), torch.randint(0, top, (rows,))

    check(
        Module(repeated),
        example(4, 5),
        dynamic=(ROWS, ROWS),
        others=[example(1, 1), example(1, 7), example(13, 1), example(13, 4), example(64, 3)],
    )
    with pytest.raises(CoilError, match="repeats can not be negative"):
        run_beyond(
            lambda x, n: torch.repeat_interleave(x, n, dim=0),
            (torch.randn(3, 2), torch.tensor([1, 2, 3])),
            (torch.randn(3, 2), torch.tensor([4, -1, 3])),
        )


def distinct(x):
    values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
    rows, row_of = torch.unique(x, dim=0, return_inverse=True)
    runs, run_counts = torch.unique_consecutive(x, return_counts=True)
    return values, inverse, counts, values[inverse] - x, rows, row_of, runs, run_counts, torch.unique(x > 0)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.int8])
def test_unique(dtype, check):
    def example(rows, top):
        return (torch.randint(-top, top + 1, (rows, 2)).to(dtype),)

    check(
        Module(distinct),
        example(5, 2),
        dynamic=(ROWS,),
        others=[example(1, 0), example(13, 0), example(13, 1), example(64, 100)],
    )


def test_many(check):
    """Enough to be sorted by digits, searched by halving, and selected in blocks."""

    def f(x, n):
        values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
        # Each NaN is a value of its own; which is which depends on how eager sorts.
        inverse = values[inverse], torch.where(x == x, inverse, -1)
        return (
            values,
            *inverse,
            counts,
            torch.unique(n),
            torch.nonzero(x > 0),
            n[n % 3 == 0],
            torch.searchsorted(values, x, right=True),
            x.sort()[0],
        )

    def example(size):
        x = (torch.randn(size) * 9).round() / 3
        x[::19] = float("nan")
        return x, torch.randint(-(10**12), 10**12, (size,))

    size = torch.export.Dim("size", min=1, max=5000)
    check(Module(f), example(700), dynamic=({0: size}, {0: size}), others=[example(1), example(257), example(3001)])


def test_unique_keeps_every_nan(check):
    x = torch.tensor([2.0, float("nan"), -0.0, 0.0, float("nan"), 2.0])
    check(
        Module(lambda x: (torch.unique(x, return_inverse=True, return_counts=True), torch.unique_consecutive(x))), (x,)
    )


def test_bincount(check):
    def counts(x, w):
        return (
            torch.bincount(x),
            torch.bincount(x, minlength=9),
            torch.bincount(x, weights=w),
            torch.bincount(x).cumsum(0),
        )

    def example(rows, top):
        return torch.randint(0, top, (rows,)), torch.rand(rows)

    check(
        Module(counts),
        example(6, 4),
        dynamic=(ROWS, ROWS),
        others=[example(1, 1), example(13, 17), example(64, 8), example(64, 1)],
    )
    # Counted in up to eight parts.
    check(
        Module(counts),
        example(3001, 5),
        others=[example(3001, 1), example(3001, 900), (torch.full((3001,), 7), torch.rand(3001))],
    )
    with pytest.raises(CoilError, match="no negative"):
        run_beyond(lambda x: torch.bincount(x), (torch.tensor([1, 2]),), (torch.tensor([1, -2]),))


def by_number(x, at):
    n = at.item()
    torch._check(n >= 0)
    torch._check(n + 2 <= x.shape[0])
    return (
        x[:n] * 2,
        x[n:].sum(0),
        x.narrow(0, n, 2) + 1,
        x[n] - 1,
        torch.arange(n) + 1,
        torch.zeros(n, 3),
        torch.full((2, n), 4.0),
        n + 1,
        n,
        x[:, 0].topk(n)[0],
    )


def test_item(check):
    def example(rows, n):
        return torch.randn(rows, 3), torch.tensor(n)

    check(
        Module(by_number),
        example(6, 3),
        dynamic=({0: torch.export.Dim("rows", min=2, max=64)}, None),
        others=[example(5, 0), example(5, 1), example(13, 7), example(64, 32), example(64, 62)],
    )


@pytest.mark.parametrize("n", [-1, 5, 2**40])
def test_failing_assert_names_the_line(n):
    def example(rows, n):
        return torch.randn(rows, 3), torch.tensor(n)

    with pytest.raises(CoilError, match=r"test_unbacked\.py"):
        run_beyond(by_number, example(6, 3), example(6, n))


class IsSize(torch.nn.Module):
    def forward(self, x, n):
        k = n.item()
        torch._check_is_size(k)
        return x * k


class RangeOfSize(torch.nn.Module):
    def forward(self, x, n):
        k = n.item()
        torch.ops.aten.sym_constrain_range_for_size.default(k, max=9)
        return torch.ones(k) + x[0]


class RangeOfNumber(torch.nn.Module):
    def forward(self, x, n):
        k = n.item()
        torch.ops.aten.sym_constrain_range.default(k, min=2, max=9)
        return x * k


class Asserted(torch.nn.Module):
    def forward(self, x, n):
        k = n.item()
        torch.ops.aten._assert_scalar.default(k * 2 < x.shape[0] + 3, "too many for the rows")
        return x * k


class Checked(torch.nn.Module):
    def forward(self, x, n):
        torch._check_tensor_all(n < 9)
        return x * n


@pytest.mark.parametrize(
    "program, bad, good, rule",
    [
        (IsSize, [-1, -(2**63)], [0, 5], "u0 >= 0"),
        (RangeOfSize, [-1, 10], [0, 9], "u0 (>= 0|<= 9)"),
        (RangeOfNumber, [1, 10, -3], [2, 9], "u0 (>= 2|<= 9)"),
        (Asserted, [8, 100], [4, -5], "u0"),
        (Checked, [9, 100], [8, -5], "other than 1"),
    ],
)
def test_each_assertion_names_its_rule_and_line(program, bad, good, rule, check):
    """Each way to say what holds of a number: a value that breaks it, with the rule and the user's line; then values
    that do not.
    """
    x, module = torch.randn(12), program()
    check(module, (x, torch.tensor(4)), others=[(x, torch.tensor(n)) for n in good])
    lines, first = inspect.getsourcelines(program)
    with tempfile.TemporaryDirectory() as folder:
        archive = pathlib.Path(folder) / "m.pt2"
        coil_harness.export(module, (x, torch.tensor(4)), archive)
        for n in bad:
            with pytest.raises(CoilError, match=rule) as error:
                coil_harness.run(archive, {"x": x, "n": torch.tensor(n)}, folder)
            assert any(f"test_unbacked.py:{first + k}" in str(error.value) for k in range(len(lines))), error.value


def test_select_from_either_end(check):
    def function(x, at):
        return x[at.item()] * 2, x[:, at.item()]

    def example(at):
        return torch.randn(5, 5), torch.tensor(at)

    check(Module(function), example(1), others=[example(at) for at in (0, 4, -1, -5)])
    for at in (5, -6):
        with pytest.raises(CoilError, match="out of range"):
            run_beyond(function, example(1), example(at))


def run_beyond(function, args, beyond):
    """Runs on inputs that eager refuses."""
    with tempfile.TemporaryDirectory() as folder:
        archive = pathlib.Path(folder) / "m.pt2"
        module = Module(function)
        coil_harness.export(module, args, archive)
        return coil_harness.run(archive, coil_harness.named_inputs(module, beyond), folder)


def test_views_of_an_input_at_a_place_that_is_data(check):
    class Views(torch.nn.Module):
        def forward(self, x, at):
            n = at.item()
            torch._check(n >= 0)
            torch._check(n < x.shape[0])
            return x[n], x[n:], x.narrow(0, n, 1)

    check(Views(), (torch.randn(5, 3), torch.tensor(2)), others=[(torch.randn(5, 3), torch.tensor(n)) for n in (0, 4)])


def test_split_at_data(check):
    def function(x, at):
        a, b, c = torch.tensor_split(x, at)
        return a * 2, b.sum(0), c

    check(
        Module(function),
        (torch.randn(7, 3), torch.tensor([2, 5])),
        others=[(torch.randn(7, 3), torch.tensor(at)) for at in ([0, 0], [0, 7], [3, 3], [2, -1], [9, 9])],
    )


def test_split_with_sizes(check):
    def function(x, sizes):
        a, b = sizes.tolist()
        torch._check(a >= 0)
        torch._check(b >= 0)
        torch._check(a + b == x.shape[0])
        first, second = torch.split(x, [a, b])
        return first + 1, second.sum(0)

    check(
        Module(function),
        (torch.randn(7, 3), torch.tensor([2, 5])),
        others=[(torch.randn(7, 3), torch.tensor(s)) for s in ([0, 7], [7, 0], [6, 1])],
    )
    with pytest.raises(CoilError, match="u0"):
        run_beyond(function, (torch.randn(7, 3), torch.tensor([2, 5])), (torch.randn(7, 3), torch.tensor([2, 4])))


def test_numbers(check):
    def function(x, real, flag):
        f = real.item()
        return x * f, x + f / 2, torch.full((3,), f), f, flag.long().item(), x.clamp(max=f)

    check(
        Module(function),
        (torch.randn(4), torch.tensor(0.3), torch.tensor(True)),
        others=[(torch.randn(4), torch.tensor(f), torch.tensor(f > 0)) for f in (0.0, -2.5, float("inf"))],
    )


class Ragged(torch.nn.Module):
    """Sequences of other lengths in one list: means of segments by repeat_interleave and index_add."""

    def forward(self, lengths, table):
        segment = torch.repeat_interleave(torch.arange(lengths.shape[0]), lengths)
        embedded = table[segment] * 2
        sums = torch.zeros(lengths.shape[0], table.shape[1]).index_add(0, segment, embedded)
        return embedded, sums / lengths.clamp(min=1).unsqueeze(1)


def test_ragged_batches(check):
    table = torch.randn(8, 4)
    lengths = [torch.tensor(n) for n in ([1, 2, 3, 0, 5, 1, 1, 1], [0] * 8, [1] * 8, [0, 0, 0, 0, 0, 0, 0, 17])]
    check(Ragged(), (lengths[0], table), others=[(n, table) for n in lengths[1:]])


class MixtureOfExperts(torch.nn.Module):
    """Each token goes to the two experts that the router likes best."""

    def __init__(self, width=8, experts=4):
        super().__init__()
        self.router = torch.nn.Linear(width, experts)
        self.experts = torch.nn.ModuleList(
            torch.nn.Sequential(torch.nn.Linear(width, 16), torch.nn.GELU(), torch.nn.Linear(16, width))
            for _ in range(experts)
        )

    def forward(self, x):
        weights, chosen = self.router(x).softmax(-1).topk(2, dim=-1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            token, place = torch.nonzero(chosen == number, as_tuple=True)
            out = out.index_put((token,), expert(x[token]) * weights[token, place].unsqueeze(1), accumulate=True)
        return out


def test_mixture_of_experts(check):
    check(
        MixtureOfExperts().eval(),
        (torch.randn(6, 8),),
        dynamic=(ROWS,),
        others=[(torch.randn(n, 8),) for n in (1, 13, 64)],
    )


class Filters(torch.nn.Module):
    """Convolutions whose weights have as many filters or places as data tell."""

    def forward(self, x, w, keep):
        at = keep.nonzero()[:, 0]
        few, narrow = w.index_select(0, at), w.index_select(3, at)
        torch._check(at.shape[0] >= 1)
        return (
            torch.nn.functional.conv2d(x, few, few.sum((1, 2, 3)), padding=1),
            torch.nn.functional.conv2d(x, few, stride=2).relu(),
            torch.nn.functional.conv_transpose2d(x, few.transpose(0, 1)),
            torch.nn.functional.conv2d(x, narrow),
            torch.nn.functional.conv1d(x[:, :, 0].double(), few[:, :, 0].double()),
        )


def test_convolutions_of_free_weights(check):
    def example(*kept):
        return torch.randn(2, 4, 6, 7), torch.randn(4, 4, 3, 4), torch.tensor([k in kept for k in range(4)])

    check(Filters(), example(0, 2, 3), others=[example(1), example(0, 1, 2, 3), example(0, 3)])


def test_pairs_of_free_rows(check):
    class Pairs(torch.nn.Module):
        def forward(self, x):
            return torch.pdist(x[x[:, 0] > 0])

    check(
        Pairs(),
        (torch.rand(5, 3),),
        others=[(torch.rand(5, 3) - torch.tensor([p, 0, 0]),) for p in (0.5, 0.5, 1.0)]
        + [(torch.tensor([[1.0, 2, 3], [-1, 0, 1], [-1, 0, 2], [-1, 0, 3], [-1, 0, 4]]),)],
    )


def test_convolutions_over_free_lengths(check):
    """Their weights are packed when the program is compiled, for sizes that have to fit together."""

    class Upsampled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.down = torch.nn.Conv1d(8, 16, 5, stride=2)
            self.up = torch.nn.ConvTranspose1d(16, 32, 16, stride=8, padding=4)
            self.wide = torch.nn.Conv2d(32, 16, (3, 1), dilation=2)

        def forward(self, x, keep):
            n = keep.sum().item()
            torch._check(n >= 5)
            torch._check(n <= x.shape[2])
            made = self.up(self.down(x[:, :, :n]).relu())
            return made, self.wide(made.unsqueeze(3)).squeeze(3)

    def example(n):
        return torch.randn(2, 8, 24), torch.arange(24) < n

    check(Upsampled().eval(), example(9), others=[example(n) for n in (5, 16, 24)])


class WrittenTwice(torch.nn.Module):
    """Sizes that the program says are equal, of which the first gets another name when writes in place are undone."""

    def forward(self, x, y):
        made = torch.full_like(x, 2.0)
        for values in (x, y):
            mask = values < made
            made[mask] = made[mask] * 0 + values.masked_select(mask)
        return made


def test_equal_sizes_are_told_by_the_first(check):
    check(WrittenTwice(), (torch.rand(2, 20), torch.rand(2, 20)))


def test_a_size_that_can_only_be_one():
    torch._dynamo.reset()

    def f(x):
        values, counts = torch.unique_consecutive(x, return_counts=True)
        begins = torch.cat([torch.ones(1, dtype=torch.bool), x[1:] != x[:-1]]).nonzero().squeeze(1)
        ends = torch.cat([begins[1:], torch.tensor([x.numel()])])
        return ends - begins - counts, values.repeat_interleave(counts) == x

    x = torch.tensor([5])
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        got = torch.compile(f, backend="coil")(x)
    assert all(torch.equal(a, b) for a, b in zip(got, f(x), strict=True))
