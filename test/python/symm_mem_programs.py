"""Programs whose operators take arguments in memory that ranks share, run by each rank: for test_symm_mem_args.py.

    python symm_mem_programs.py CASE

The process finds its group in the environment. A case checks its own results and prints `done`.
"""

import sys

import torch

import coil

SEEN = []  # where operands lay, in bytes from the first that was seen


def sum_of_peers(x):
    """What every rank has in the same place, added up."""
    coil.comm_barrier(x)
    SEEN.append(x.data_ptr())
    total = sum(t.clone() for t in coil.comm_peers(x))
    coil.comm_barrier(x)
    return total


shop = coil.Library("shop")
shop.define(
    "total(Tensor x, str group_name) -> Tensor",
    shape=lambda x, group_name: torch.empty(x.shape, dtype=x.dtype),
    implementation=lambda x, group_name: sum_of_peers(x).contiguous(),
)
shop.define(
    "totals(Tensor[] xs, Tensor y, str group_name) -> Tensor[]",
    shape=lambda xs, y, group_name: [torch.empty(x.shape, dtype=x.dtype) for x in xs],
    implementation=lambda xs, y, group_name: [(sum_of_peers(x) + y.sum()).contiguous() for x in xs],
)


def spread(x, out, group_name):
    """Each rank writes its x into its row of every rank's `out`."""
    rank = _rank()
    coil.comm_barrier(out)
    for peer in coil.comm_peers(out):
        peer[rank] = x
    coil.comm_barrier(out)


shop.define(
    "spread(Tensor x, Tensor(a!) out, str group_name) -> ()",
    shape=lambda x, out, group_name: None,
    implementation=spread,
)
shop.define(
    "is_shared(Tensor x) -> Tensor",
    shape=lambda x: torch.empty((), dtype=torch.bool),
    implementation=lambda x: torch.tensor(coil._native.comm_place(x.data_ptr()) is not None),
)
shop.register_symm_mem_args("total", ["x"])
shop.register_symm_mem_args("totals", ["xs"])
shop.register_symm_mem_args("spread", ["out"])
shop.register_symm_mem_args("is_shared", ["x"])
ops = torch.ops.shop


def _rank():
    import os

    return int(os.environ["RANK"])


def _ranks():
    import os

    return int(os.environ["WORLD_SIZE"])


def values(rank, *sizes):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(rank))


def everyones(function):
    """What each rank would have, added up in the order of the ranks."""
    return sum(function(rank) for rank in range(_ranks()))


class Loops(torch.nn.Module):
    """A loop, a view of one, a product, an input, and a value that is used twice."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(values(100, 6, 8))

    def forward(self, x):
        y = x * 2
        product = x @ self.weight
        given = ops.total(x, "default")
        return ops.total(y + 1, "default"), ops.total(y.view(2, -1), "default"), ops.total(product, "default"), given, y


def loops():
    module = Loops()
    mine = [values(r, 4, 6) for r in range(_ranks())]
    model = coil.compile(module, (mine[_rank()],), options={"verify": True})
    for _ in range(3):
        a, b, c, d, y = model(mine[_rank()])
        torch.testing.assert_close(a, everyones(lambda r: mine[r] * 2 + 1))
        torch.testing.assert_close(b, everyones(lambda r: (mine[r] * 2).view(2, -1)))
        torch.testing.assert_close(c, everyones(lambda r: mine[r] @ module.weight.detach()))
        torch.testing.assert_close(d, everyones(lambda r: mine[r]))
        torch.testing.assert_close(y, mine[_rank()] * 2)
    assert SEEN[:4] == SEEN[4:8] == SEEN[8:], "operands lie in the same places in every run"
    assert len({(p - SEEN[0]) for p in SEEN}) <= 4


class Lists(torch.nn.Module):
    def forward(self, x, y):
        return ops.totals([x + 1, y * 2, x], y.sum(0), "default")


def lists():
    x, y = [values(r, 3, 5) for r in range(_ranks())], [values(r + 50, 2, 2) for r in range(_ranks())]
    got = list(coil.compile(Lists(), (x[_rank()], y[_rank()]))(x[_rank()], y[_rank()]))
    plus = y[_rank()].sum()
    torch.testing.assert_close(got[0], everyones(lambda r: x[r] + 1) + plus)
    torch.testing.assert_close(got[1], everyones(lambda r: y[r] * 2) + plus)
    torch.testing.assert_close(got[2], everyones(lambda r: x[r]) + plus)


class Out(torch.nn.Module):
    def forward(self, x):
        out = x.new_zeros(_ranks(), *x.shape)
        ops.spread(x * 3, out, "default")
        return out + 1, out


def out():
    x = [values(r, 5) for r in range(_ranks())]
    model = coil.compile(Out(), (x[_rank()],))
    for _ in range(3):
        plus, got = model(x[_rank()])
        torch.testing.assert_close(got, torch.stack([t * 3 for t in x]))
        torch.testing.assert_close(plus, got + 1)


class Sizes(torch.nn.Module):
    def forward(self, x):
        return ops.is_shared(x + 1), ops.total(x * 2, "default")


def sizes():
    """Any number of rows, up to a bound: the same memory for all of them, where a smaller one was seen first."""
    x = [values(r, 16, 3) for r in range(_ranks())]
    rows = torch.export.Dim("rows", max=16)
    model = coil.compile(Sizes(), (x[0][:4],), dynamic_shapes=({0: rows},))
    for n in (4, 16, 2, 7):
        shared, total = model(x[_rank()][:n].clone())
        assert shared.item()
        torch.testing.assert_close(total, everyones(lambda r: x[r][:n] * 2))
    assert len(set(SEEN)) == 1


class Shares(torch.nn.Module):
    def forward(self, x):
        for _ in range(4):
            x = ops.total(x * 0.5, "default") + 1
        return x


def shares():
    """Operands that do not live at once lie in one place, and no rank overwrites what another still reads."""
    x = [values(r, 1000) for r in range(_ranks())]
    model = coil.compile(Shares(), (x[_rank()],))
    want = everyones(lambda r: x[r] * 0.5) + 1
    for _ in range(3):
        want = want * 0.5 * _ranks() + 1
    for _ in range(20):
        torch.testing.assert_close(model(x[_rank()]), want)
    assert len(set(SEEN)) == 1


if __name__ == "__main__":
    {f.__name__: f for f in (loops, lists, out, sizes, shares)}[sys.argv[1]]()
    print("done")
