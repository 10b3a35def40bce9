"""Branches whose results have sizes that only the branch tells: torch.export gives such a size a symbol of its own."""

import functools
import pathlib
import tempfile

import pytest
import torch
from torch._higher_order_ops import while_loop

import coil_harness
from coil_harness import CoilError

ROWS = {0: torch.export.Dim("rows", min=1, max=64)}


@pytest.fixture(params=[False, True], ids=["exported", "decomposed"])
def check(request):
    """Every program in both forms that torch writes."""
    return functools.partial(coil_harness.check, decomposed=request.param)


def consumers(y):
    """A result [u0, 3] read by kernels, reductions, library calls, views and sizes."""
    return (
        y.relu() + 1,
        y.sum(0),
        y.sum(),
        y @ torch.ones(3, 2),
        y.cumsum(0),
        y.reshape(-1).sort().values,
        torch.cat([y, y * 2]),
        y[:, 1:],
        torch.arange(y.shape[0]),
        y.shape[0] + 1,
        y,
    )


class Chosen(torch.nn.Module):
    """A known number of rows on one side; on the other as many as the data say."""

    def forward(self, x, flag):
        return consumers(torch.cond(flag.sum() > 0, lambda x: x[:1] * 2, lambda x: x[x[:, 0] > 0], (x,)))


class Several(torch.nn.Module):
    """Several results, two sizes each, in an order of dimensions that is not memory's, and one whose size all sides
    agree on.
    """

    def forward(self, x, flag):
        def yes(x):
            return x[x[:, 0] > 0], x.t().contiguous().t() + 1, torch.nonzero(x > 0)[:, 0].clone(), x.sum(0)

        def no(x):
            return (
                x * 3,
                torch.cat([x, x])[:, :2].t().contiguous().t(),
                torch.nonzero(x[:, 1] > 5)[:, 0].clone(),
                x.amax(0),
            )

        kept, other, places, same = torch.cond(flag.sum() > 0, yes, no, (x,))
        return kept.sum(0) + same, other.exp(), other.t() @ other, places, places.sum(), same


class NestedBranches(torch.nn.Module):
    def forward(self, x, flag):
        def small(x):
            return torch.cond(x.sum() > 0, lambda x: x[:0] + 1, lambda x: x[x[:, 1] < 0] - 1, (x,)) * 2

        y = torch.cond(flag.sum() > 0, lambda x: torch.cat([x, x, x]), small, (x,))
        z = torch.cond(flag.sum() > 0, lambda y: y[y[:, 0] > 0], lambda y: y + 1, (y,))
        return consumers(y), consumers(z)


class InALoop(torch.nn.Module):
    """In each turn, a branch with a size of its own, and its result read in that turn."""

    def forward(self, x, n):
        def step(i, total):
            y = torch.cond(
                total.sum() > 20,
                lambda x, total: x[:2] - total,
                lambda x, total: x[x[:, 0] > total[0] * 0] + 1,
                (x, total),
            )
            return i + 1, total * 0.5 + y.sum(0) + y.shape[0]

        return while_loop(lambda i, total: i < n, step, (torch.zeros((), dtype=torch.int64), torch.zeros(3)))[1]


class LoopInABranch(torch.nn.Module):
    def forward(self, x, n):
        def many(x, n):
            return torch.cat(
                [
                    x,
                    while_loop(
                        lambda i, y: i < n,
                        lambda i, y: (i + 1, y * 1.5),
                        (torch.zeros((), dtype=torch.int64), x.clone()),
                    )[1],
                ]
            )

        return consumers(torch.cond(n > 2, many, lambda x, n: x[x[:, 0] > 0] + n, (x, n)))


def inputs(rows, sign):
    return torch.randn(rows, 3), torch.tensor([float(sign)])


EXAMPLES = [inputs(n, sign) for n in (1, 2, 13, 64) for sign in (1, -1)] + [
    (-torch.rand(5, 3), torch.tensor([s])) for s in (1.0, -1.0)
]
PROGRAMS = {
    "chosen": (Chosen(), inputs(6, 1), (ROWS, None), EXAMPLES),
    # Torch refuses one row, whose strides say nothing.
    "several": (
        Several(),
        inputs(6, 1),
        (ROWS, None),
        EXAMPLES[2:],
    ),
    "nested": (NestedBranches(), inputs(6, 1), (ROWS, None), EXAMPLES),
    "in a loop": (
        InALoop(),
        (torch.randn(6, 3), torch.tensor(4)),
        (ROWS, None),
        [(torch.randn(r, 3), torch.tensor(n)) for r, n in ((1, 0), (2, 7), (13, 50))],
    ),
    "loop in a branch": (
        LoopInABranch(),
        (torch.randn(6, 3), torch.tensor(4)),
        (ROWS, None),
        [(torch.randn(r, 3), torch.tensor(n)) for r, n in ((1, 0), (2, 7), (13, 2))],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_that_a_branch_tells(name, check):
    module, args, dynamic, others = PROGRAMS[name]
    check(module, args, dynamic=dynamic, others=others)


class Asserted(torch.nn.Module):
    def forward(self, x, flag):
        y = torch.cond(flag.sum() > 0, lambda x: x[:1] * 2, lambda x: x[x[:, 0] > 0], (x,))
        torch._check(y.shape[0] <= 3)
        return y.sum(0)


def test_what_is_asserted_of_it_names_the_line():
    with tempfile.TemporaryDirectory() as folder:
        archive = pathlib.Path(folder) / "m.pt2"
        coil_harness.export(Asserted(), inputs(6, 1), archive)
        for flag, rows in ((1.0, 6), (-1.0, 3)):
            x = -torch.rand(6, 3)
            x[:rows] *= -1
            given = {"x": x, "flag": torch.tensor([flag])}
            want = Asserted()(**given)
            assert not coil_harness.difference(coil_harness.run(archive, given, folder)["output"], want)
        with pytest.raises(CoilError, match=r"u\d+ <= 3.*test_branch_sizes\.py:\d+"):
            coil_harness.run(archive, {"x": torch.rand(6, 3), "flag": torch.tensor([-1.0])}, folder)
