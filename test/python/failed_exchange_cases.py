"""Exchanges that fail on all ranks, or programs that fail on one of them, and the calls that come after."""

import torch
import torch.distributed._functional_collectives as funcol

from own_exchange_cases import Watched, own_case


def error_of(call, *args):
    try:
        call(*args)
    except Exception as e:
        return str(e)
    return ""


@own_case
def sizes_that_differ(r):
    """An error on all ranks that names both, in shared memory and over connections; the next call is right."""
    for kind in ("sum", "max"):
        fn = lambda t: funcol.all_reduce(t * 2, kind, r.group) + 1  # noqa: B023, E731
        with Watched() as watched:
            graph, good = r.compiled(fn, dynamic=False), r.tensor(8, 3)
            r.same(graph(good), fn(good))
            for _ in range(2):
                said = error_of(graph, r.tensor(5 if r.rank else 4, 3))
                assert all(word in said for word in ("15 float32", "12 float32", "rank")), said
                for _ in range(2):
                    r.same(graph(good), fn(good))
            assert watched.chosen() == (2, 0), watched.chosen()


@own_case
def graphs_that_ranks_take_in_another_order(r):
    """All have run all of them, and then one rank calls another one than the others do."""
    fns = [
        lambda t: funcol.all_reduce(t * 2, "sum", r.group) + 1,
        lambda t: funcol.all_reduce(t * 2, "max", r.group) + 1,
        lambda t: funcol.all_reduce(t * 2, "min", r.group) + 1,
        lambda t: funcol.all_gather_tensor(t * 2, 0, r.group) + 1,
        lambda t: funcol.reduce_scatter_tensor(t * 2, "sum", 0, r.group) + 1,
        lambda t: funcol.broadcast(t * 2, 1, r.group) + 1,
        lambda t: funcol.broadcast(t * 2, 0, r.group) + 1,
    ]
    with Watched() as watched:
        t, whole = r.tensor(2 * r.world, 3), r.tensor(2 * r.world, 3, dtype=torch.int32)
        graphs = [r.compiled(fn) for fn in fns]
        graphs.append(r.compiled(lambda t: funcol.all_reduce(t * 2, "min", r.group) + 2))
        operands = [t] * len(fns) + [whole]
        for graph, operand in zip(graphs, operands):
            graph(operand)
        assert watched.chosen() == (len(graphs), 0), watched.chosen()
        for first, second in ((1, 2), (3, 4), (5, 6), (1, 3), (2, 7)):
            which = second if r.rank == 0 else first
            said = error_of(graphs[which], operands[which])
            assert said.count("rank") > 1 and "same program" in said, said
            for fn, graph in zip(fns, graphs):
                r.same(graph(t), fn(t))


@own_case
def splits_that_do_not_fit(r):
    def fn(t, sent, received):
        return funcol.all_to_all_single(t, received.tolist(), sent.tolist(), r.group) * 2

    even, t = torch.full((r.world,), 2), r.tensor(2 * r.world, 3)
    graph = r.compiled(fn, dynamic=True)
    r.same(graph(t, even, even), fn(t, even, even))
    wrong = even.clone()
    if r.rank == 0:
        wrong[0], wrong[1] = 1, 3
    said = error_of(graph, t, wrong, even)
    assert "rank 0 sends 3 elements to rank 0, which expects 6" in said, said
    r.same(graph(t, even, even), fn(t, even, even))


FAILS = [False]


@torch.library.custom_op("failed_exchanges::checked", mutates_args=())
def checked(t: torch.Tensor) -> torch.Tensor:
    if FAILS[0]:
        raise ValueError("asked to fail")
    return t * 2


@checked.register_fake
def _(t):
    return torch.empty_like(t)


@own_case
def run_that_fails_on_one_rank(r):
    """Between two exchanges, or behind the last: the others end with an error, or right, and the next call is right."""
    for kind in ("sum", "max"):

        def between(t):
            return funcol.all_reduce(checked(funcol.all_reduce(t * 2, kind, r.group)) + 1, kind, r.group)  # noqa: B023

        def behind(t):
            return checked(funcol.all_reduce(t * 2, kind, r.group) + 1)  # noqa: B023

        for fn in (between, behind):
            torch._dynamo.reset()
            graph, t = r.compiled(fn), r.tensor(8, 3)
            want = fn(t)
            for which in range(r.world):
                r.same(graph(t), want)
                FAILS[0] = r.rank == which
                if fn is between or FAILS[0]:
                    said = error_of(graph, t)
                    assert ("asked to fail" if FAILS[0] else f"rank {which}") in said, said
                else:
                    r.same(graph(t), want)
                FAILS[0] = False
            r.same(graph(t), want)
