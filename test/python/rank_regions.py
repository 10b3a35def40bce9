"""Exchanges in regions of every kind, of every type and layout, over groups of some ranks, of sizes that differ among
the ranks, on the CPU: cases that rank_programs.py runs.
"""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from collective_cases import case

ops = torch.ops._c10d_functional
wait = ops.wait_tensor


def pairs(r):
    """The ranks as a mesh of two times the rest; of one row where there are two."""
    shape = (2, r.world // 2) if r.world > 2 else (1, r.world)
    return dist.init_device_mesh(r.device, shape, mesh_dim_names=("data", "model"))


@case
def loops_with_exchanges(r):
    """The ranks go as often as the sum says."""
    from torch._higher_order_ops import while_loop

    def fn(x):
        def more(i, y):
            return i < 3

        def step(i, y):
            return i + 1, funcol.all_reduce(y * 0.5, "sum", r.group).sin()

        return while_loop(more, step, (torch.tensor(0), x))

    r.compare(fn, r.tensor(4, 3), calls=1)

    def until(x):
        return while_loop(
            lambda y: y.abs().sum() > 1.0, lambda y: (funcol.all_reduce(y * 0.4 / r.world, "sum", r.group),), (x,)
        )

    r.compare(until, r.alike(4, 3), calls=1)


@case
def branches_with_other_exchanges(r):
    def fn(x, t):
        total = funcol.all_reduce(t, "sum", r.group)
        return torch.cond(
            total > 0,
            lambda x: funcol.reduce_scatter_tensor(funcol.all_gather_tensor(x, 0, r.group), "sum", 0, r.group),
            lambda x: funcol.all_to_all_single(x.repeat(r.world, 1), None, None, r.group)[: x.shape[0]] * 2,
            (x,),
        )

    for sign in (1.0, -1.0):
        r.compare(fn, r.tensor(3, 4), torch.tensor(sign))


@case
def scans_before_exchanges(r):
    from torch._higher_order_ops import scan

    def fn(x):
        carry, ys = scan(lambda c, x: (c + x, c * x), x[0] * 0, x)
        return funcol.all_reduce(carry, "sum", r.group), funcol.all_gather_tensor(ys, 0, r.group)

    r.compare(fn, r.tensor(5, 3), calls=1)


@case
def checkpointed_exchanges(r):
    def block(x, w):
        y = funcol.all_gather_tensor_autograd(x @ w, 0, r.group)
        return funcol.reduce_scatter_tensor_autograd(y.tanh(), "sum", 0, r.group)

    def fn(x, w, v):
        x = checkpoint(block, x, w, use_reentrant=False)
        return checkpoint(block, x, v, use_reentrant=False)

    args = (r.tensor(3, 8, grad=True), r.alike(8, 8, grad=True), r.alike(8, 8, seed=1, grad=True))
    r.compare(fn, *args, grad=True)


@case
def object_exchanges_at_breaks(r):
    @torch._dynamo.disable
    def tell(rows):
        found, box = [None] * r.world, [r.rank * 3]
        dist.all_gather_object(found, {"rank": r.rank, "rows": rows})
        dist.broadcast_object_list(box, src=r.world - 1)
        return sum(f["rows"] for f in found), box[0]

    def fn(x):
        y = funcol.all_reduce(x * 2, "sum", r.group)
        rows, told = tell(x.shape[0])
        return funcol.all_gather_tensor(y * rows + told, 0, r.group)

    r.compare(fn, r.tensor(4, 3))


@case
def eager_exchanges_at_breaks(r):
    def fn(x):
        y = funcol.all_reduce(x * 2, "sum", r.group)
        torch._dynamo.graph_break()
        dist.barrier()
        parts = [torch.empty_like(y) for _ in range(r.world)] if r.rank == 0 else None
        dist.gather(y.contiguous() + r.rank, parts, dst=0)
        z = sum(parts) if parts else y
        dist.broadcast(z, 0)
        return funcol.all_reduce(z, "max", r.group)

    r.compare(fn, r.tensor(4, 3))


@case
def works_of_asynchronous_exchanges(r):
    """Waited for in another order than they began in, in one graph or around it."""

    def inside(x):
        a, b = x * 2, x.sin()
        one = dist.all_reduce(a, async_op=True)
        other = dist.all_reduce(b, op=dist.ReduceOp.MAX, async_op=True)
        c = x.cos()
        other.wait()
        c = c + b
        one.wait()
        return a + c

    r.compare(inside, r.tensor(6, 4))
    half = r.compiled(lambda t: t * 2 + 1)
    x = r.tensor(6, 4)
    want = x.clone()
    dist.all_reduce(want)
    mine = x.clone()
    work = dist.all_reduce(mine, async_op=True)
    other = half(x)
    work.wait()
    r.same((half(mine), other), (want * 2 + 1, x * 2 + 1))


@case
def waits_in_odd_order(r):
    def fn(x, y):
        a = ops.all_reduce(x * 2, "sum", r.name)
        b = ops.all_gather_into_tensor(y, r.world, r.name)
        c = ops.reduce_scatter_tensor(y.repeat(r.world, 1), "sum", r.world, r.name)
        d = x.sin() @ y.t()[: x.shape[1], :1]
        c = wait(c) + 1
        e = ops.all_reduce(c, "max", r.name)
        b = wait(b)
        return wait(e), wait(a) + d, wait(b), wait(b)

    r.compare(fn, r.tensor(6, 4), r.tensor(3, 5, seed=1))


@case
def exchanges_in_functions_of_autograd(r):
    class Mean(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.save_for_backward(scale)
            ctx.count = x.shape[0]
            return funcol.all_reduce(x.mean(0), "avg" if r.device == "cuda" else "sum", r.group) * scale

        @staticmethod
        def backward(ctx, grad):
            (scale,) = ctx.saved_tensors
            spread = funcol.all_reduce(grad * scale, "sum", r.group).expand(ctx.count, -1) / ctx.count
            return spread, None

    r.compare(lambda x, s: Mean.apply(x.sin(), s) * 3, r.tensor(5, 4, grad=True), r.alike(4), grad=True)


@case
def second_derivatives(r):
    def fn(x, w):
        y = funcol.all_gather_tensor_autograd(x @ w, 0, r.group).tanh().sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        return g.square().sum() + y

    x, w = r.tensor(3, 4, grad=True), r.alike(4, 4, grad=True)
    want = fn(x, w)
    got = r.compiled(fn)(x, w)
    r.same(got, want)


# --- types, layouts, sizes


@case
def types_of_sums(r):
    kinds = ("sum", "min", "max", "product")
    floats = (torch.float64, torch.float16, torch.bfloat16)
    for dtypes in (floats, (torch.int8, torch.uint8, torch.int32, torch.int64)):
        tensors = [(r.tensor(7) / 3).round().abs().to(dtype) for dtype in dtypes]
        every = lambda *ts: [funcol.all_reduce(t, kind, r.group) + 1 for t in ts for kind in kinds]  # noqa: E731
        r.compare(every, *tensors, calls=1, tolerance=2e-2 if dtypes == floats else 0)


@case
def bits(r):
    for dtype in (torch.int32, torch.uint8, torch.int64):
        t = torch.randint(0, 100, (5, 2), generator=torch.Generator().manual_seed(r.rank)).to(dtype)
        kinds = ("band", "bor", "bxor")
        r.compare(lambda t: [funcol.all_reduce(t, kind, r.group) ^ 1 for kind in kinds], t, calls=1, tolerance=0)


@case
def types_that_move(r):
    def fn(*tensors):
        moved = []
        for t in tensors:
            moved.append(funcol.all_gather_tensor(t, 0, r.group))
            moved.append(funcol.broadcast(t, r.world - 1, r.group))
            moved.append(funcol.all_to_all_single(t, None, None, r.group))
        return [t.clone() for t in moved]

    dtypes = (torch.float16, torch.bfloat16, torch.uint8, torch.int32, torch.int64, torch.float64)
    r.compare(fn, *(r.tensor(4 * r.world, 2).abs().to(dtype) for dtype in dtypes), calls=1, tolerance=0)


@case
def layouts_of_operands(r):
    """Transposed, strided, expanded, reversed, channels last, of an offset, of one element, of none, without
    dimensions.
    """

    def views(t):
        return (
            t.t(),
            t[::2, 1::3],
            t[:, :1].expand(6, 5),
            t[2:4],
            t.flip(0),
            t.sum(),
            t[0, 0],
            t[:0],
            t.view(1, 2, 3, 8).to(memory_format=torch.channels_last),
            t.unsqueeze(-1).permute(2, 1, 0),
        )

    def moved(t):
        # Torch's tracing takes the operand's strides for those of the result, which is row-major in eager.
        rows = lambda y: y.clone(memory_format=torch.contiguous_format)  # noqa: E731
        return [rows(funcol.broadcast(v, 0, r.group) * 2) for v in views(t)]

    x = r.tensor(6, 8)
    r.compare(lambda t: [funcol.all_reduce(v, "sum", r.group) * 2 for v in views(t)], x, calls=1)
    r.compare(lambda t: [funcol.all_reduce(v, "max", r.group) for v in views(t * 2)], x, calls=1)
    r.compare(moved, x, calls=1)


@case
def writes_to_views(r):
    def rows(t):
        dist.all_reduce(t[1])
        dist.broadcast(t[2:4], src=r.world - 1)
        t.mul_(2)
        return t.sum(0)

    def columns(t):
        part = t[:, 1]
        total = funcol.all_reduce(part, "sum", r.group)
        part.copy_(total)
        return t * 1

    def lists(t):
        a, b = t[0].clone(), t[1].clone()
        dist.all_gather_into_tensor(t.view(-1)[: r.world * 2], a[:2].clone())
        return a + b, t

    for fn in (rows, columns, lists):
        r.compare(fn, r.tensor(6, 8), calls=1)


@case
def scatters_and_gathers_of_lists(r):
    def gathered(t):
        parts = [torch.empty_like(t) for _ in range(r.world)]
        dist.all_gather(parts, t.sin())
        return torch.cat(parts, 1) * 2

    def exchanged(t):
        out = torch.empty_like(t)
        dist.all_to_all_single(out, t.cos())
        dist.all_reduce(out, op=dist.ReduceOp.PRODUCT)
        return out

    def scattered(t):
        out = torch.empty(t.shape[0] // r.world, t.shape[1])
        dist.reduce_scatter_tensor(out, t * 2, op=dist.ReduceOp.SUM)
        return out

    for fn in (gathered, exchanged, scattered):
        r.compare(fn, r.tensor(2 * r.world, 3), calls=1)


@case
def coalesced_exchanges(r):
    def fn(a, b, c):
        sums = funcol.all_reduce_coalesced([a, b * 2, c.sum()], "max", r.group)
        every = funcol.all_gather_into_tensor_coalesced([a, b, c[:, :1]], r.group)
        parts = funcol.reduce_scatter_tensor_coalesced([x.contiguous() for x in every], "sum", [0] * 3, r.group)
        return sums, every, parts

    r.compare(fn, r.tensor(3, 2), r.tensor(5, seed=1), r.tensor(4, 4, seed=2))


@case
def other_dimensions(r):
    def fn(x):
        wide = funcol.all_gather_tensor(x, 2, r.group)
        tall = funcol.all_gather_tensor(x, 1, r.group)
        back = funcol.reduce_scatter_tensor(wide * 2, "sum", 2, r.group)
        return wide, tall.sum(1), funcol.reduce_scatter_tensor(tall.sin(), "sum", 1, r.group) + back

    r.compare(fn, r.tensor(2, 3, 4))


# --- groups


@case
def subgroups_of_ranks(r):
    """Each rank in one of two groups; different exchanges in either."""
    if r.world < 4:
        return
    mine, _ = dist.new_subgroups(2)
    other = dist.new_group([0, 1, 2])

    def fn(t):
        y = funcol.all_reduce(t * 2, "sum", mine)
        if r.rank < 2:
            return funcol.all_gather_tensor(y, 0, mine)
        return funcol.reduce_scatter_tensor(y + 1, "sum", 0, mine)

    r.compare(fn, r.tensor(4, 3))
    if r.rank < 3:
        graph = r.compiled(lambda t: funcol.all_reduce(t, "sum", other) + 1)
        r.same(graph(r.tensor(4)), funcol.all_reduce(r.tensor(4), "sum", other) + 1)
    dist.barrier()


@case
def groups_in_turn(r):
    """A sum over one dimension of a mesh, a gather over the other, a scatter over all."""
    mesh = pairs(r)
    data, model = mesh["data"].get_group(), mesh["model"].get_group()

    def fn(x, w):
        y = funcol.all_reduce(x @ w, "sum", model)
        z = funcol.all_gather_tensor_autograd(y.tanh(), 0, data)
        return funcol.reduce_scatter_tensor_autograd(z.repeat(r.world, 1), "sum", 0, r.group)

    r.compare(fn, r.tensor(3, 4), r.alike(4, 5))

    def gradients(x, w):
        z = funcol.all_gather_tensor_autograd(x @ w, 0, data)
        return funcol.reduce_scatter_tensor_autograd(z.repeat(r.world, 1), "sum", 0, r.group)

    r.compare(gradients, r.tensor(3, 4, grad=True), r.alike(4, 5, grad=True), grad=True)


# --- sizes and recompiles


@case
def rows_that_differ_between_ranks(r):
    """Each rank has a number of rows of its own, which changes; what is exchanged has one size."""

    def fn(x, w):
        h = torch.relu(x @ w)
        total = funcol.all_reduce(h.sum(0), "sum", r.group)
        count = funcol.all_reduce(torch.tensor(float(x.shape[0])), "sum", r.group)
        return h - total / count

    graph = r.compiled(fn)
    for step in range(4):
        x, w = r.tensor(3 + (r.rank + 1) * step, 4, seed=step), r.alike(4, 5)
        want = fn(x, w)
        r.same(graph(x, w), want)


@case
def padded_gathers(r):
    """Ranks tell each other how many rows they have, pad to the most, gather and cut."""

    def fn(x):
        sizes = funcol.all_gather_tensor(torch.tensor([x.shape[0]]), 0, r.group).tolist()
        most = max(sizes)
        padded = F.pad(x, (0, 0, 0, most - x.shape[0]))
        every = funcol.all_gather_tensor(padded, 0, r.group)
        return torch.cat([every[k * most : k * most + n] for k, n in enumerate(sizes)])

    graph = r.compiled(fn)
    for step in range(3):
        x = r.tensor(2 + (r.rank * step) % 3, 4, seed=step)
        want = fn(x)
        r.same(graph(x), want)


@case
def recompiles_on_one_rank(r):
    """Other flags and types on rank 0, with the same exchanges."""

    def fn(x, flag, w):
        y = x.float() * (2 if flag else 3)
        return funcol.all_reduce(y @ w, "sum", r.group) + (1 if flag else 2)

    graph, w = r.compiled(fn), r.alike(4, 4)
    for step in range(5):
        flag = r.rank == 0 and step % 2 == 1
        x = r.tensor(3, 4, seed=step, dtype=torch.float64 if r.rank == 0 and step > 2 else torch.float32)
        want = fn(x, flag, w)
        r.same(graph(x, flag, w), want)


@case
def large_and_small_sums(r):
    """On both sides of what goes through shared memory at once, in shares, and not at all."""

    def fn(x):
        a = funcol.all_reduce(x, "sum", r.group)
        b = funcol.all_reduce(x[:10] * 2, "sum", r.group)
        return a.sin(), b, funcol.all_reduce(a[:, :3].sum(), "sum", r.group)

    for rows in (20, 2000):
        r.compare(fn, r.tensor(rows, 64), calls=1)


@case
def results_that_alias(r):
    def fn(x):
        y = funcol.all_reduce(x, "sum", r.group)
        return y, y.t(), y[1:], y.view(-1), x

    r.compare(fn, r.tensor(4, 3))


@case
def arguments_that_change(r):
    def fn(x, buffer):
        buffer.add_(x)
        dist.all_reduce(buffer)
        x.copy_(funcol.broadcast(buffer, 0, r.group) * 0.5)
        buffer[0] = funcol.all_reduce(x.sum(), "max", r.group)
        return x.sum()

    r.compare(fn, r.tensor(4, 3), r.tensor(4, 3, seed=3))


@case
def lists_and_roots(r):
    def reduced(t):
        y = t * 2
        dist.reduce(y, 0)
        return y if r.rank == 0 else t

    def scattered(t):
        out = torch.empty(3)
        dist.scatter(out, list(t.unbind()) if r.rank == 0 else None, src=0)
        return out + 1

    def exchanged(t):
        out = [torch.empty(3) for _ in range(r.world)]
        dist.all_to_all(out, list(t.unbind()))
        return torch.stack(out)

    for fn in (reduced, scattered, exchanged):
        r.compare(fn, r.tensor(r.world, 3), calls=1)


@case
def best_of_all(r):
    def fn(x):
        values, places = x.topk(3)
        values, places = (funcol.all_gather_tensor(t, 1, r.group) for t in (values, places))
        best, at = values.topk(3)
        return best, places.gather(1, at)

    r.compare(fn, r.tensor(4, 9))


@case
def sums_under_autocast(r):
    def fn(x, w):
        with torch.autocast("cpu", torch.bfloat16):
            y = funcol.all_reduce(x @ w, "sum", r.group)
            z = funcol.all_gather_tensor_autograd(F.linear(x, w), 0, r.group)
        return y.float() + z[: x.shape[0]].float()

    r.compare(fn, r.tensor(6, 8), r.alike(8, 8), tolerance=2e-2)
