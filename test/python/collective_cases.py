"""Programs with collectives, compared with eager on the ranks of one process group.

Each case is run by all ranks at once; `run` gives what each of them found; own_exchange_cases.py runs them from the
command line. Before every compiled call one rank comes late, each in its turn, so that results that nobody waited for
are seen to be unready.
"""

import argparse
import dataclasses
import datetime
import json
import logging
import os
import sys
import time
import traceback
import warnings

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch import nn
from torch.utils import _pytree as pytree

import distribution_models as models

DELAY = 0.02  # seconds that a rank comes late; a collective of these sizes takes less than one thousandth
CASES = {}


@dataclasses.dataclass
class Ranks:
    rank: int
    world: int
    device: str
    backend: str
    steps: int = 8  # of training, where they are compared one by one
    errors: list = dataclasses.field(default_factory=list)

    @property
    def group(self):
        return dist.group.WORLD

    @property
    def name(self):
        return dist.group.WORLD.group_name

    def tensor(self, *sizes, seed=0, dtype=torch.float32, grad=False):
        """Another one on each rank."""
        generator = torch.Generator().manual_seed(100 * seed + self.rank)
        made = (torch.randn(*sizes, generator=generator) * 3).to(dtype).to(self.device)
        return made.requires_grad_(grad)

    def alike(self, *sizes, seed=0, grad=False):
        """The same on each rank."""
        generator = torch.Generator().manual_seed(1000 + seed)
        return torch.randn(*sizes, generator=generator).to(self.device).requires_grad_(grad)

    def compiled(self, fn, **options):
        return torch.compile(fn, backend=self.backend, **options)

    def late(self, which):
        """All ranks meet; then this one waits a little."""
        dist.barrier()
        if self.rank == which:
            time.sleep(DELAY)

    def same(self, got, want, tolerance=1e-4):
        """Notes the relative error; AssertionError where a dtype, a size, a stride or a value is another."""
        got, want = pytree.tree_flatten(got)[0], pytree.tree_flatten(want)[0]
        assert len(got) == len(want), f"{len(got)} results instead of {len(want)}"
        for g, w in zip(got, want):
            if not isinstance(w, torch.Tensor):
                assert g == w, f"{g} instead of {w}"
                continue
            g, w = whole(g), whole(w)
            described = [(t.dtype, tuple(t.shape), t.stride()) for t in (g, w)]
            assert described[0] == described[1], f"{described[0]} instead of {described[1]}"
            if w.numel() == 0:
                continue
            exact = torch.promote_types(w.dtype, torch.float64)
            error = ((g.to(exact) - w.to(exact)).abs().max() / w.to(exact).abs().max().clamp(min=1e-9)).item()
            self.errors.append(error)
            assert error <= tolerance, f"relative error {error:.3g}"

    def compare(self, fn, *args, grad=False, calls=None, tolerance=1e-4, **options):
        """Values, changed arguments and gradients of a function, compiled, against eager's."""
        torch._dynamo.reset()
        graph = self.compiled(fn, **options)
        for k in range(calls or self.world):
            outcomes = []
            for run in (fn, graph):
                given = pytree.tree_map_only(torch.Tensor, private, args)
                self.late(k % self.world)
                result = run(*given)
                leaves = [t for t in pytree.tree_flatten(given)[0] if isinstance(t, torch.Tensor)]
                if grad:
                    self.late(k % self.world)
                    loss = sum((t * t).sum() for t in pytree.tree_flatten(result)[0] if t.requires_grad)
                    loss.backward()
                outcomes.append((result, leaves, [t.grad for t in leaves if t.requires_grad]))
            self.same(outcomes[1], outcomes[0], tolerance)


def private(t):
    return t.detach().clone().requires_grad_(t.requires_grad)


def whole(t):
    """A plain tensor: a rank's own part of a DTensor; what came of a pending one."""
    t = t.detach()
    if hasattr(t, "to_local"):
        t = t.to_local()
    return t.trigger_wait() if hasattr(t, "trigger_wait") else t


def case(fn):
    CASES[fn.__name__] = fn
    return fn


# --- functional collectives


@case
def all_reduce(r):
    r.compare(lambda t: funcol.all_reduce(t * 2, "sum", r.group) + t, r.tensor(64, 48))
    r.compare(lambda t: funcol.all_reduce(t, "max", r.group), r.tensor(5))
    r.compare(lambda t: funcol.all_reduce(t, "sum", r.group) * 2, r.tensor(7, 3, dtype=torch.int64))
    r.compare(lambda t: funcol.all_reduce(t.t(), "sum", r.group) + 1, r.tensor(6, 4))


@case
def all_reduce_of_complex_numbers(r):
    r.compare(lambda t: funcol.all_reduce(torch.view_as_complex(t), "sum", r.group) * 2j, r.tensor(6, 2))


@case
def moves_of_types_that_graphs_leave_to_torch(r):
    r.compare(lambda t: funcol.all_gather_tensor(t, 0, r.group), torch.view_as_complex(r.tensor(6, 2)), calls=1)
    r.compare(lambda t: funcol.broadcast(t * 2j, 0, r.group).real, torch.view_as_complex(r.tensor(5, 2)), calls=1)


@case
def all_reduce_in_place(r):
    def computed(t):
        y = t * 2
        dist.all_reduce(y)
        return y + 1

    def argument(t):
        dist.all_reduce(t)
        return t + 1

    def part(t):
        dist.all_reduce(t[1:3])
        return t.sum()

    for fn in (computed, argument, part):
        r.compare(fn, r.tensor(8, 5))


@case
def all_reduce_coalesced(r):
    r.compare(lambda a, b: funcol.all_reduce_coalesced([a + 1, b], "sum", r.group), r.tensor(4), r.tensor(3, 2))


@case
def all_gather(r):
    for dim in (0, 1):
        r.compare(lambda t: funcol.all_gather_tensor(t + 1, dim, r.group) * 2, r.tensor(16, 12))
    r.compare(lambda t: funcol.all_gather_tensor(t, 0, r.group), r.tensor(3, dtype=torch.bool))


@case
def all_gather_in_place(r):
    def single(t):
        out = torch.empty(r.world * t.shape[0], t.shape[1], device=t.device)
        dist.all_gather_into_tensor(out, t * 2)
        return out + 1

    def argument(out, t):
        dist.all_gather_into_tensor(out, t)

    def several(t):
        parts = [torch.empty_like(t) for _ in range(r.world)]
        dist.all_gather(parts, t)
        return torch.stack(parts)

    r.compare(single, r.tensor(4, 3))
    r.compare(argument, torch.zeros(r.world * 4, 3, device=r.device), r.tensor(4, 3))
    r.compare(several, r.tensor(4, 3))


@case
def all_gather_out(r):
    def fn(t):
        out = torch.empty(r.world * t.shape[0], t.shape[1], device=t.device)
        made = torch.ops._c10d_functional.all_gather_into_tensor_out(t + 1, r.world, r.name, out=out)
        return torch.ops._c10d_functional.wait_tensor(made) * 2

    r.compare(fn, r.tensor(4, 3))


@case
def all_gather_coalesced(r):
    r.compare(lambda a, b: funcol.all_gather_into_tensor_coalesced([a * 2, b], r.group), r.tensor(4), r.tensor(3, 2))


@case
def reduce_scatter(r):
    for dim in (0, 1):
        r.compare(
            lambda t: funcol.reduce_scatter_tensor(t + 1, "sum", dim, r.group) * 2, r.tensor(6 * r.world, 4 * r.world)
        )


@case
def reduce_scatter_in_place(r):
    def fn(t):
        out = torch.empty(t.shape[0] // r.world, t.shape[1], device=t.device)
        dist.reduce_scatter_tensor(out, t * 2)
        return out + 1

    r.compare(fn, r.tensor(4 * r.world, 3))


@case
def reduce_scatter_out(r):
    def fn(t):
        out = torch.empty(t.shape[0] // r.world, t.shape[1], device=t.device)
        made = torch.ops._c10d_functional.reduce_scatter_tensor_out(t, "sum", r.world, r.name, out=out)
        return torch.ops._c10d_functional.wait_tensor(made) * 2

    r.compare(fn, r.tensor(4 * r.world, 3))


@case
def reduce_scatter_coalesced(r):
    r.compare(
        lambda a, b: funcol.reduce_scatter_tensor_coalesced([a * 2, b], "sum", [0, 0], r.group),
        r.tensor(4 * r.world),
        r.tensor(2 * r.world, 3),
    )


@case
def all_to_all(r):
    r.compare(lambda t: funcol.all_to_all_single(t * 2, None, None, r.group) + 1, r.tensor(4 * r.world, 3))
    give = [r.rank + k + 1 for k in range(r.world)]
    take = [r.rank + k + 1 for k in range(r.world)]
    r.compare(lambda t: funcol.all_to_all_single(t * 2, take, give, r.group) + 1, r.tensor(sum(give), 3))


@case
def all_to_all_in_place(r):
    def fn(t):
        out = torch.empty_like(t)
        dist.all_to_all_single(out, t * 2)
        return out + 1

    r.compare(fn, r.tensor(4 * r.world, 3))


@case
def all_to_all_of_sizes_told_by_data(r):
    def fn(t, give):
        take = funcol.all_to_all_single(give, None, None, r.group)
        take, give = take.tolist(), give.tolist()
        return funcol.all_to_all_single(t * 2, take, give, r.group) + 1

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        for seed in range(3):
            give = (torch.arange(r.world) + r.rank + seed + 1).to(r.device)
            r.compare(fn, r.tensor(int(give.sum()), 3, seed=seed), give)


@case
def broadcast(r):
    for source in range(r.world):
        r.compare(lambda t: funcol.broadcast(t * 2, source, r.group) + 1, r.tensor(9, 2))


@case
def permute(r):
    r.compare(lambda t: funcol.permute_tensor(t * 2, [*range(1, r.world), 0], r.group) + 1, r.tensor(12))


@case
def names_of_old(r):
    ranks = list(range(r.world))

    def fn(t):
        made = torch.ops.c10d_functional.all_reduce(t * 2, "sum", "", ranks, r.world)
        return torch.ops.c10d_functional.wait_tensor(made) + 1

    r.compare(fn, r.tensor(4, 3))


@case
def move_of_a_sharded_dimension(r):
    r.compare(lambda t: torch.ops._dtensor.shard_dim_alltoall(t + 1, 0, 1, r.name) * 2, r.tensor(3, 4 * r.world))


# --- order, pending values, what is unused


@case
def order(r):
    """Collectives of different sizes, which fail when ranks begin them in different orders; one that nobody needs."""

    def fn(t, u):
        a = funcol.all_reduce(t * 2, "sum", r.group)
        b = funcol.all_gather_tensor(u, 0, r.group)
        funcol.all_reduce(u.sum(), "sum", r.group)
        c = funcol.reduce_scatter_tensor(b, "sum", 0, r.group)
        d = funcol.broadcast(a + c.sum(), r.world - 1, r.group)
        e = funcol.all_reduce(u * 3, "sum", r.group)
        return d, e, funcol.all_reduce(t * 2, "sum", r.group)

    r.compare(fn, r.tensor(32, 8), r.tensor(5, 2))


@case
def equal_ones_on_one_rank(r):
    """What is the same twice on one rank is not on another, which begins two collectives."""

    def fn(t):
        first = funcol.all_reduce(t * 2, "sum", r.group)
        return first + funcol.all_reduce(t * 2 if r.rank == 0 else t * 3, "sum", r.group)

    r.compare(fn, r.tensor(4, 3))


@case
def result_that_is_not_waited_for(r):
    def fn(t):
        return torch.ops._c10d_functional.all_reduce(t * 2, "sum", r.name)

    t, graph = r.tensor(64, 64), r.compiled(fn)
    for k in range(r.world):
        r.late(k)
        want = funcol.wait_tensor(fn(t))
        r.late(k)
        r.same(funcol.wait_tensor(graph(t)), want)


@case
def argument_that_is_on_its_way(r):
    wait = torch.ops._c10d_functional.wait_tensor
    t, ops = r.tensor(64, 64), torch.ops._c10d_functional
    for fn in (
        lambda t: wait(t) * 2,
        lambda t: wait(t),
        lambda t: wait(t.view(-1)) * 2,
        lambda t: torch.cond(t.shape[0] > 3, lambda t: wait(t) * 2, lambda t: t * 3, (t,)),
    ):
        graph = r.compiled(fn)
        for k in range(r.world):
            r.late(k)
            want = fn(ops.all_reduce(t, "sum", r.name))
            r.late(k)
            r.same(graph(ops.all_reduce(t, "sum", r.name)), want)


@case
def argument_that_eager_has_on_its_way(r):
    t = r.tensor(64, 64)

    def fn(t):
        return t * 2

    graph = r.compiled(fn)
    for k in range(r.world):
        r.late(k)
        want = fn(funcol.all_reduce(t, "sum", r.group))
        r.late(k)
        r.same(graph(funcol.all_reduce(t, "sum", r.group)), want)
        r.same(graph(t), fn(t))


@case
def branches(r):
    def fn(t, flag):
        return torch.cond(
            flag.sum() > 0,
            lambda t: funcol.all_reduce(t * 2, "sum", r.group) + 1,
            lambda t: funcol.all_gather_tensor(t, 0, r.group)[: t.shape[0]] - 1,
            (t,),
        )

    r.compare(fn, r.tensor(6, 2), torch.ones(1, device=r.device))
    r.compare(fn, r.tensor(6, 2), -torch.ones(1, device=r.device))


@case
def send_and_receive(r):
    """Refused with the operator and the line, not left undone."""

    def fn(t):
        return torch.ops._c10d_functional.irecv(t * 2, (r.rank + 1) % r.world, 0, r.name)

    if r.backend == "coil":
        try:
            r.compiled(fn)(r.tensor(3))
        except Exception as e:
            assert "_c10d_functional.irecv.default" in str(e) and "collective_cases.py" in str(e), e
        else:
            raise AssertionError("it was compiled")


@case
def values_without_elements(r):
    r.compare(lambda t: (t * 2, funcol.all_reduce(t[:0], "sum", r.group)), r.tensor(4, 3), calls=1)

    def told_by_data(t, rows):
        n = rows.item()
        torch._check(n >= 0)
        torch._check(n <= 8)
        return funcol.all_reduce(t[:n] * 2, "sum", r.group) + 1, funcol.all_gather_tensor(t[:n], 0, r.group)

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        for n in (3, 0):
            r.compare(told_by_data, r.tensor(9, 3), torch.tensor(n, device=r.device), calls=1)


# --- dynamic sizes


@case
def dynamic_sizes(r):
    def fn(t):
        gathered = funcol.all_gather_tensor(t * 2, 0, r.group)
        scattered = funcol.reduce_scatter_tensor(gathered + 1, "sum", 0, r.group)
        moved = funcol.all_to_all_single(gathered, None, None, r.group)
        return funcol.all_reduce(scattered.sum(0), "sum", r.group), moved.mean()

    graph = r.compiled(fn, dynamic=True)
    for k, rows in enumerate((4, 7, 12, 33)):
        t = r.tensor(rows, 3, seed=k)
        r.late(k % r.world)
        want = fn(t)
        r.late(k % r.world)
        r.same(graph(t), want)


# --- gradients


@case
def gradients(r):
    weight = r.alike(12, 12, grad=True)
    for fn in (
        lambda t, w: funcol.all_reduce(t @ w, "sum", r.group) * t,
        lambda t, w: funcol.all_gather_tensor_autograd(t @ w, 0, r.group).sin(),
        lambda t, w: funcol.all_gather_tensor_autograd(t @ w, 1, r.group).sin(),
        lambda t, w: funcol.reduce_scatter_tensor_autograd(t @ w, "sum", 0, r.group).sin(),
        lambda t, w: funcol.all_to_all_single_autograd(t @ w, None, None, r.group).sin(),
    ):
        r.compare(fn, r.tensor(4 * r.world, 12, grad=True), weight, grad=True)


@case
def gradients_of_dynamic_sizes(r):
    def fn(t, w):
        return funcol.reduce_scatter_tensor_autograd(
            funcol.all_gather_tensor_autograd(t @ w, 0, r.group).sin(), "sum", 0, r.group
        )

    graph = r.compiled(fn, dynamic=True)
    for k, rows in enumerate((4, 6, 11)):
        outcomes = []
        for run in (fn, graph):
            t, w = r.tensor(rows, 5, seed=k, grad=True), r.alike(5, 5, grad=True)
            r.late(k % r.world)
            result = run(t, w)
            result.square().sum().backward()
            outcomes.append((result, t.grad, w.grad))
        r.same(outcomes[1], outcomes[0])


class _SumForward(torch.autograd.Function):
    """As Megatron's: summed on the way there, as it is on the way back."""

    @staticmethod
    def forward(ctx, x, group):
        return funcol.all_reduce(x, "sum", group)

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class _SumBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return funcol.all_reduce(grad, "sum", ctx.group), None


@case
def tensor_parallel_by_hand(r):
    """A column- and a row-parallel layer, as in the report that this file answers to."""

    def fn(x, up, down):
        x = _SumBackward.apply(x, r.group)
        return _SumForward.apply(torch.nn.functional.gelu(x @ up) @ down, r.group)

    args = r.alike(16, 32, grad=True), r.tensor(32, 24, seed=1, grad=True), r.tensor(24, 32, seed=2, grad=True)
    r.compare(fn, *args, grad=True)
    r.compare(fn, *(t.detach() for t in args))


@case
def checkpointed(r):
    def block(x, w):
        return funcol.all_reduce(torch.sin(x @ w), "sum", r.group).sin()

    def fn(x, w):
        return torch.utils.checkpoint.checkpoint(block, x, w, use_reentrant=False)

    r.compare(fn, r.tensor(6, 8, grad=True), r.alike(8, 8, grad=True), grad=True)


# --- modules


class Net(nn.Module):
    def __init__(self, width=16, dropout=0.0):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


def train(r, build, steps=3):
    """Losses and parameters after some steps of a compiled and of an eager module that are `build`t alike; `build`
    takes what compiles a module.
    """
    outcomes = []
    for wrap in (lambda m: m, r.compiled):
        torch._dynamo.reset()
        torch.manual_seed(0)
        module, parameters = build(wrap)
        optimizer = torch.optim.SGD(parameters, 0.1)
        losses = []
        for step in range(steps):
            r.late(step % r.world)
            loss = module(r.tensor(4, 16, seed=step)).square().mean()
            r.late(step % r.world)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss)
        outcomes.append((losses, list(parameters)))
    r.same(outcomes[1], outcomes[0], 1e-3)


def _mesh(r):
    return dist.init_device_mesh(r.device, (r.world,))


@case
def dtensor_redistribution(r):
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

    mesh = _mesh(r)
    for before, after in (
        (Shard(0), Replicate()),
        (Shard(0), Shard(1)),
        (Partial(), Replicate()),
        (Partial(), Shard(0)),
        (Replicate(), Shard(1)),
    ):

        def fn(t):
            made = DTensor.from_local(t * 2, mesh, [before], run_check=False)
            return made.redistribute(mesh, [after]).to_local() + 1

        r.compare(fn, r.tensor(2 * r.world, 3 * r.world))
        r.compare(fn, r.tensor(2 * r.world, 3 * r.world, grad=True), grad=True)


@case
def dtensor_arguments(r):
    from torch.distributed.tensor import DTensor, Shard

    mesh = _mesh(r)

    def fn(a, b):
        return (a @ b).relu().sum(0)

    graph = r.compiled(fn)
    for k in range(r.world):
        a = DTensor.from_local(r.tensor(4, 4 * r.world), mesh, [Shard(0)])
        b = DTensor.from_local(r.tensor(4, 6, seed=7), mesh, [Shard(0)])
        r.late(k)
        want = fn(a, b)
        r.late(k)
        r.same(graph(a, b).full_tensor(), want.full_tensor())


@case
def tensor_parallel_plan(r):
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    def build(wrap):
        net = nn.Sequential(Net(), Net()).to(r.device)
        for block in net:
            parallelize_module(block, _mesh(r), {"up": ColwiseParallel(), "down": RowwiseParallel()})
        return wrap(net), list(net.parameters())

    train(r, build)


@case
def sequence_parallel_plan(r):
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        PrepareModuleInput,
        RowwiseParallel,
        SequenceParallel,
        parallelize_module,
    )

    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.mlp = nn.LayerNorm(16), nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))

        def forward(self, x):
            return self.mlp(self.norm(x[None]))

    def build(wrap):
        net = Whole().to(r.device)
        plan = {
            "norm": SequenceParallel(),
            "mlp": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
            "mlp.0": ColwiseParallel(),
            "mlp.2": RowwiseParallel(output_layouts=Replicate()),
        }
        parallelize_module(net, _mesh(r), plan)
        return wrap(net), list(net.parameters())

    train(r, build)


@case
def fully_sharded(r):
    from torch.distributed.fsdp import fully_shard

    def whole_net(wrap):
        net = nn.Sequential(Net(), Net()).to(r.device)
        for block in net:
            fully_shard(block, mesh=_mesh(r))
        fully_shard(net, mesh=_mesh(r))
        return wrap(net), list(net.parameters())

    def each_block(wrap):
        net = nn.Sequential(Net(), Net()).to(r.device)
        for i, block in enumerate(net):
            net[i] = wrap(block)
            fully_shard(net[i], mesh=_mesh(r))
        fully_shard(net, mesh=_mesh(r))
        return net, list(net.parameters())

    train(r, whole_net)
    train(r, each_block)


@case
def fully_sharded_gpt(r):
    """Losses of a GPT under FSDP2, whose hooks stand between its parts."""
    sizes = {"words": 64, "tokens": 16, "width": 32, "heads": 4, "layers": 2}
    found = []
    for backend in (None, r.backend):
        torch._dynamo.reset()
        model = models.fully_sharded(backend, r.device, sizes)
        found.append(models.losses(model, r.steps, 2, sizes["tokens"], sizes["words"], r.device))
    r.same(found[1], found[0], 1e-4)
    assert found[0][-1] < found[0][0] or r.steps < 50


def _decoders(r):
    torch.manual_seed(5)
    whole = models.decoder(models.Layer)
    shares = [
        models.shard(whole, models.decoder(kind, r.world), r.rank, r.world)
        for kind in (models.SharedLayer, models.ShardedLayer)
    ]
    return [m.to(r.device).requires_grad_(False) for m in (*shares, models.by_plan(whole.to(r.device), _mesh(r)))]


@case
def decoders(r):
    """A Llama-like stack by sums over its shares, with its tokens shared too, and by DTensor's plan."""
    x = r.alike(8, 64)
    mine = x.chunk(r.world)[r.rank]
    shared, sharded, planned = _decoders(r)
    for module, given in ((shared, x), (sharded, mine), (planned, x)):
        r.compare(module, given)


@case
def mixture_of_experts(r):
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        module = models.Experts(r.rank, r.world).to(r.device).requires_grad_(False)
        for seed in range(2):
            r.compare(module, r.tensor(12, 16, seed=seed))


@case
def replicated(r):
    """DistributedDataParallel, whose gradients are summed by hooks between the graphs."""

    def build(wrap):
        net = nn.parallel.DistributedDataParallel(nn.Sequential(Net(), Net()).to(r.device))
        return wrap(net), list(net.parameters())

    train(r, build)


# --- running them


def run(rank, world, store, backend="coil", device="cpu", names=None, seconds=60, each=None, steps=8):
    """What each case found on this rank: its largest relative error, or a message where it failed. One that fails ends
    them all, since the ranks are no longer in step; `each(name, found)` is told as they end.
    """
    torch.set_num_threads(1)
    if device == "cuda":
        torch.cuda.set_device(rank)
        torch.backends.cuda.matmul.allow_tf32 = False
    dist.init_process_group(
        "nccl" if device == "cuda" else "gloo",
        store=store,
        rank=rank,
        world_size=world,
        timeout=datetime.timedelta(seconds=seconds),
    )
    found = {}
    for name in names or CASES:
        r = Ranks(rank, world, device, backend, steps)
        torch._dynamo.reset()
        try:
            CASES[name](r)
            found[name] = {"error": max(r.errors, default=0.0)}
        except Exception:
            found[name] = {"failed": traceback.format_exc()}
        if each:
            each(name, found[name])
        if "failed" in found[name]:
            return found
    dist.barrier()
    dist.destroy_process_group()
    return found


def main():
    """`own_exchange_cases.py RANK WORLD STORE FOUND [--backend B] [--device D] [NAME ...]`: one rank; what it finds
    goes into the file FOUND, a line of JSON for each case.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("rank", type=int)
    parser.add_argument("world", type=int)
    parser.add_argument("store", help="a file that all ranks name, not there yet")
    parser.add_argument("found")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--backend", default="coil")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=8, help="of training, where losses are compared one by one")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    with open(given.found, "w", buffering=1) as out:

        def each(name, found):
            print(json.dumps({"name": name, **found}), file=out)

        store = dist.FileStore(given.store, given.world)
        found = run(
            given.rank,
            given.world,
            store,
            given.backend,
            given.device,
            given.names or None,
            each=each,
            steps=given.steps,
        )
    sys.stderr.flush()
    os._exit(any("failed" in f for f in found.values()))  # a group that has failed may not let the process go
