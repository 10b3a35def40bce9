"""Programs whose exchanges are their own, in process groups of torch.distributed: what can go wrong between ranks. As a
script it runs these and all others of collective_cases.py.
"""

import datetime
import functools
import os
import time
import unittest.mock

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol

from collective_cases import _mesh, case, main


class Watched:
    """The graphs that are compiled while this lasts, and which way their exchanges go. `seconds`: that each compile
    takes longer.
    """

    def __init__(self, seconds=0):
        self.seconds = seconds

    def __enter__(self):
        import coil.dynamo

        torch._dynamo.reset()
        self.module, self.compile, self.graphs = coil.dynamo, coil.dynamo._compiled, []
        self.counters = torch._dynamo.utils.counters["coil"]
        self.before = dict(self.counters)

        def compiled(*args, **more):
            time.sleep(self.seconds)
            self.graphs.append(self.compile(*args, **more))
            return self.graphs[-1]

        coil.dynamo._compiled = compiled
        return self

    def __exit__(self, *_):
        self.module._compiled = self.compile

    def chosen(self):
        """How many graphs have exchanges of their own, and how many torch's."""
        names = "graphs_with_own_exchanges", "graphs_with_exchanges_of_torch"
        return tuple(self.counters[name] - self.before.get(name, 0) for name in names)


def own_case(fn):
    """Of Coil alone."""

    @functools.wraps(fn)
    def run(r):
        if r.backend == "coil":
            fn(r)

    return case(run)


@own_case
def own_exchanges(r):
    """Several graphs, forward and backward, over one connection of the ranks; sums in shared memory, gathers that start
    together.
    """
    import coil.exchanges

    group = dist.new_group(list(range(r.world)))

    def gathers(t):
        parts = [funcol.all_gather_tensor(t * k, 0, group) for k in range(4)]
        return sum(p.sum() * k for k, p in enumerate(parts))

    made, define = [], coil.exchanges._native.define_group
    noting = lambda name, *rest: made.append(name) or define(name, *rest)  # noqa: E731
    with Watched() as watched, unittest.mock.patch.object(coil.exchanges._native, "define_group", noting):
        r.compare(lambda t: funcol.all_reduce(t * 2, "sum", group) + t, r.tensor(8, 3))
        r.compare(gathers, r.tensor(5, 2))
        r.compare(lambda t: funcol.all_reduce(t * 2, "sum", group) * t, r.tensor(4, grad=True), grad=True)
        assert watched.chosen() == (len(watched.graphs), 0), watched.chosen()
        assert not any(graph.host_calls for graph in watched.graphs)
        assert all(graph.exchanges[0] == [f"torch:{group.group_name}"] for graph in watched.graphs)
        texts = [graph.exchanges[1] for graph in watched.graphs]
        on_gpu = r.device == "cuda"
        assert ("begin_peer_sum" if on_gpu else "_shot_all_reduce") in texts[0], texts
        assert on_gpu or texts[1].count("all_gather 1 ") == 4, texts
        assert made == [f"torch:{group.group_name}"], made
    dist.destroy_process_group(group)


@own_case
def exchanges_left_to_torch(r):
    with Watched() as watched:
        fn = lambda t: funcol.all_reduce(t * 2, "sum", r.group) + t  # noqa: E731
        r.compare(fn, r.tensor(8, 3), options={"distribution.own": False, "cache": "none"})
        assert watched.chosen() == (0, 0) and watched.graphs[0].host_calls, watched.graphs[0].host_calls


@own_case
def result_that_another_graph_waits_for(r):
    ops = torch.ops._c10d_functional

    def start(t):
        return ops.all_reduce(t * 2, "sum", r.name), ops.all_gather_into_tensor(t, r.world, r.name)

    def end(a, b):
        return ops.wait_tensor(a) + 1, ops.wait_tensor(b) * 2

    t = r.tensor(32, 8)
    with Watched() as watched:
        for k in range(r.world):
            r.late(k)
            want = end(*start(t))
            r.late(k)
            r.same(r.compiled(end)(*r.compiled(start)(t)), want)
        assert watched.chosen() == (1, 0), watched.chosen()


@own_case
def subgroups(r):
    """A group of all under another name, one of this rank alone, and both in one graph."""
    every = dist.new_group(list(range(r.world)))
    alone = [dist.new_group([k]) for k in range(r.world)][r.rank]

    def both(t):
        a = funcol.all_reduce(t * 2, "sum", every)
        b = funcol.all_gather_tensor(a, 0, alone)
        return funcol.all_reduce(b, "max", r.group) + t

    with Watched() as watched:
        for group in (every, alone):
            r.compare(lambda t: funcol.all_reduce(t * 2, "sum", group) + t, r.tensor(8, 3))
        r.compare(both, r.tensor(8, 3))
        assert watched.chosen() == (3, 0), watched.chosen()
    for group in (every, alone):
        dist.destroy_process_group(group)


def patience(seconds):
    """How long ranks wait for others that come to no such graph."""
    import coil.exchanges

    return unittest.mock.patch.object(coil.exchanges, "_PATIENCE", seconds)


@own_case
def graphs_that_differ(r):
    """One rank has a graph for what the other does in two, or in eager: then torch carries it out."""
    group = dist.new_group(list(range(r.world)))

    def whole(t):
        a = funcol.all_reduce(t * 2, "sum", group)
        return funcol.all_reduce(a.sin(), "sum", group)

    def halves(t):
        a = funcol.all_reduce(t * 2, "sum", group)
        torch._dynamo.graph_break()
        return funcol.all_reduce(a.sin(), "sum", group)

    t = r.tensor(8, 3)
    want = whole(t)
    with Watched() as watched, patience(1.5):
        for run in (r.compiled(halves if r.rank else whole), whole if r.rank else r.compiled(lambda t: halves(t) * 1)):
            for _ in range(2):
                r.same(run(t), want)
        assert watched.chosen() == ((0, 2) if r.rank else (0, 3)), watched.chosen()
        again = r.compiled(lambda t: funcol.all_reduce(t, "max", group))
        r.same(again(t), funcol.all_reduce(t, "max", group))
    dist.destroy_process_group(group)


@own_case
def gathers_that_start_together_on_one_rank(r):
    """On the others one follows from another: that makes no other graph of it, though all know one that looks alike."""
    group = dist.new_group(list(range(r.world)))

    def chained(t):
        first = funcol.all_gather_tensor(t, 0, group)
        return first, funcol.all_gather_tensor(first[: t.shape[0]] * 2, 0, group)

    def apart(t):
        return funcol.all_gather_tensor(t, 0, group), funcol.all_gather_tensor(t * 2, 0, group)

    with Watched() as watched:
        r.compare(chained, r.tensor(4, 3))
        r.compare(apart if r.rank else chained, r.tensor(5, 3))
        assert watched.chosen() == (2, 0), watched.chosen()
    dist.destroy_process_group(group)


@own_case
def rank_that_compiles_anew(r):
    """With the same exchanges, which the others go on with as they are."""
    fn = lambda t, u: funcol.all_reduce(t * 2, "sum", r.group) + u.sum()  # noqa: E731
    with Watched() as watched:
        graph, t = r.compiled(fn, dynamic=False), r.tensor(16, 4)
        for rows in (3, 5, 3):
            u = r.alike(rows if r.rank == 0 else 3)
            want = fn(t, u)
            r.same(graph(t, u), want)
        assert watched.chosen() == (2 if r.rank == 0 else 1, 0), watched.chosen()


@own_case
def rank_that_compiles_for_long(r):
    """Is waited for."""
    fn = lambda t: funcol.all_reduce(t * 2, "product", r.group) + t  # noqa: E731
    with Watched(5 if r.rank == r.world - 1 else 0) as watched, patience(2):
        r.compare(fn, r.tensor(16, 4))
        assert watched.chosen() == (1, 0), watched.chosen()


@own_case
def group_made_anew(r):
    """The graph goes on in the new group of the name; without one it is an error."""
    fn = lambda t: funcol.all_reduce(t * 2, "sum", "0") + t  # noqa: E731
    graph, t = r.compiled(fn), r.tensor(8, 3)
    want = fn(t)
    r.same(graph(t), want)
    store, timeout = dist.distributed_c10d._get_default_store(), datetime.timedelta(seconds=60)
    dist.barrier()
    dist.destroy_process_group()
    try:
        graph(t)
    except RuntimeError as e:
        assert "resolve the process group" in str(e), e
    else:
        raise AssertionError("it ran in no group")
    backend = "nccl" if r.device == "cuda" else "gloo"
    fresh = dist.PrefixStore("anew", store)
    dist.init_process_group(backend, store=fresh, rank=r.rank, world_size=r.world, timeout=timeout)
    for _ in range(2):
        r.same(graph(t), want)


@own_case
def forked_process(r):
    """Has no part in the groups of its parent."""
    fn = lambda t: funcol.all_reduce(t * 2, "sum", r.group) + t  # noqa: E731
    graph, t = r.compiled(fn), r.tensor(8, 3)
    graph(t)
    if r.device == "cuda":
        return
    child = os.fork()
    if child == 0:
        try:
            graph(t)
        except RuntimeError as e:
            os._exit(0 if "forked" in str(e) else 2)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
    r.same(graph(t), fn(t))


@own_case
def watched_group(r):
    """A group whose backend is wrapped, or another one, is torch's to use."""
    import coil.exchanges

    group = dist.new_group(list(range(r.world)))
    fn = lambda t: funcol.all_reduce(t * 2, "sum", group) + t  # noqa: E731
    with Watched() as watched, unittest.mock.patch.object(coil.exchanges, "_is_plain", lambda *_: False):
        r.compare(fn, r.tensor(8, 3))
        assert watched.chosen() == (0, 0) and watched.graphs[0].host_calls, watched.graphs[0].host_calls
    dist.destroy_process_group(group)


@case
def parts_of_replicas_that_a_cache_has(r):
    """What a rank takes of a tensor that all have is its own, though the graphs of all ranks look alike to Dynamo, and
    the second one is found where torch keeps them.
    """
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = _mesh(r)

    def fn(x, b):
        return torch.sin(x * b)

    for _ in range(2):
        torch._dynamo.reset()
        x = distribute_tensor(r.alike(4, 4 * r.world), mesh, [Shard(1)])
        b = distribute_tensor(r.alike(4 * r.world, seed=1), mesh, [Replicate()])
        r.same(r.compiled(fn)(x, b).full_tensor(), fn(x, b).full_tensor())
        dist.barrier()


if __name__ == "__main__":
    main()
