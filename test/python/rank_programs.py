"""What users write over several processes on the CPU: parallel layers, sharded training, pipelines, rings, experts. As
a script it runs these and the cases of rank_regions.py and own_exchange_cases.py.
"""

import math

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import torch.nn.functional as F
from torch import nn

import failed_exchange_cases  # noqa: F401  (its cases are run too)
import own_exchange_cases  # noqa: F401
import rank_regions  # noqa: F401
from collective_cases import Net, _mesh, case, main, train
from rank_regions import pairs

# --- DTensor


@case
def products_of_all_placements(r):
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = _mesh(r)
    n = 4 * r.world

    def fn(x, w, b):
        return F.gelu(x @ w + b).sum(0, keepdim=True)

    for left in (Replicate(), Shard(0), Shard(1)):
        for right in (Replicate(), Shard(0), Shard(1)):
            graph = r.compiled(fn)
            outcomes = []
            for run in (fn, graph):
                x = distribute_tensor(r.alike(n, n), mesh, [left]).requires_grad_()
                w = distribute_tensor(r.alike(n, n, seed=1), mesh, [right]).requires_grad_()
                b = distribute_tensor(r.alike(n, seed=2), mesh, [Replicate()]).requires_grad_()
                out = run(x, w, b)
                out.full_tensor().square().sum().backward()
                outcomes.append([t.full_tensor() for t in (out, x.grad, w.grad, b.grad)])
            r.same(outcomes[1], outcomes[0])


@case
def uneven_shards(r):
    """Rows that the ranks do not share equally, and fewer than there are ranks."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = _mesh(r)
    for rows in (2 * r.world + 1, 1):

        def fn(x):
            y = (x * 2).redistribute(placements=[Replicate()])
            return (y.sum(0) + y).redistribute(placements=[Shard(0)]) * 3

        torch._dynamo.reset()  # a rank whose part is empty either way does not see that the whole has another size
        graph = r.compiled(fn)
        x = distribute_tensor(r.alike(rows, 6), mesh, [Shard(0)])
        r.same(graph(x), fn(x))


@case
def two_dimensional_placements(r):
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = pairs(r)

    def fn(x, w):
        y = x.redistribute(placements=[Shard(0), Replicate()]) @ w
        return y.redistribute(placements=[Shard(0), Shard(1)]).relu()

    for placements in ([Shard(0), Shard(1)], [Shard(1), Shard(1)], [Replicate(), Shard(0)]):
        x = distribute_tensor(r.alike(8, 8), mesh, placements)
        w = distribute_tensor(r.alike(8, 8, seed=1), mesh, [Replicate(), Shard(1)])
        torch._dynamo.reset()
        r.same(r.compiled(fn)(x, w), fn(x, w))


@case
def vocabulary_parallel_loss(r):
    """An embedding whose rows the ranks share, and the loss over logits that they share too."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, loss_parallel, parallelize_module

    mesh = _mesh(r)
    tokens = torch.randint(0, 8 * r.world, (3, 5), generator=torch.Generator().manual_seed(4))

    def build():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Embedding(8 * r.world, 16), nn.Linear(16, 8 * r.world, bias=False))
        plan = {
            "0": RowwiseParallel(input_layouts=Replicate(), output_layouts=Replicate()),
            "1": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False),
        }
        return parallelize_module(net, mesh, plan)

    outcomes = []
    for wrap in (lambda m: m, r.compiled):
        torch._dynamo.reset()
        net = build()
        run = wrap(net)
        with loss_parallel():
            loss = F.cross_entropy(run(tokens).flatten(0, 1), tokens.flatten())
            loss.backward()
        outcomes.append([loss.full_tensor(), *(p.grad.full_tensor() for p in net.parameters())])
    r.same(outcomes[1], outcomes[0], 1e-3)


@case
def sums_of_partial_values(r):
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

    mesh = _mesh(r)
    for kind in ("sum", "avg", "max", "min", "product"):

        def fn(t):
            x = DTensor.from_local(t + 1, mesh, [Partial(kind)], run_check=False)
            return x.redistribute(mesh, [Replicate()]).to_local() * 2

        r.compare(fn, r.tensor(5, 3), calls=1)
    for kind in ("sum", "avg"):

        def scattered(t):
            x = DTensor.from_local(t + 1, mesh, [Partial(kind)], run_check=False)
            return x.redistribute(mesh, [Shard(1)]).to_local() * 2

        r.compare(scattered, r.tensor(3, 4 * r.world), calls=1)


@case
def norms_of_gradients(r):
    """The clipping of gradients that are DTensors, as after FSDP."""
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = _mesh(r)

    def fn(grads):
        norms = torch.stack([torch.linalg.vector_norm(g) for g in grads])
        total = torch.linalg.vector_norm(norms)
        return [g * torch.clamp(1.0 / (total + 1e-6), max=1.0) for g in grads], total

    grads = [distribute_tensor(r.alike(2 * r.world, 3, seed=k), mesh, [Shard(0)]) for k in range(3)]
    got, want = r.compiled(fn)(grads), fn(grads)
    r.same([t.full_tensor() for t in (*got[0], got[1])], [t.full_tensor() for t in (*want[0], want[1])])


# --- FSDP2 and DDP


def sharded(r, wrap_whole=True, mesh=None, steps=3, **options):
    from torch.distributed.fsdp import fully_shard

    def build(wrap):
        net = nn.Sequential(Net(), Net()).to(r.device)
        for i, block in enumerate(net):
            net[i] = block if wrap_whole else wrap(block)
            fully_shard(net[i], mesh=mesh or _mesh(r), **options)
        fully_shard(net, mesh=mesh or _mesh(r), **options)
        return wrap(net) if wrap_whole else net, list(net.parameters())

    train(r, build, steps)


@case
def sharded_with_mixed_precision(r):
    from torch.distributed.fsdp import MixedPrecisionPolicy

    policy = MixedPrecisionPolicy(param_dtype=torch.float64, reduce_dtype=torch.float64, output_dtype=torch.float32)
    for whole in (True, False):
        sharded(r, whole, mp_policy=policy)


@case
def sharded_and_kept(r):
    """Parameters that stay gathered after the forward, or go back to a part of the mesh."""
    sharded(r, reshard_after_forward=False)
    if r.world > 2:
        sharded(r, False, reshard_after_forward=2)


@case
def hybrid_sharding(r):
    if r.world > 2:
        sharded(r, mesh=pairs(r))
        sharded(r, False, mesh=pairs(r))


@case
def sharded_accumulation(r):
    """Gradients of several batches before they are reduced."""
    from torch.distributed.fsdp import fully_shard

    outcomes = []
    for wrap in (lambda m: m, r.compiled):
        torch._dynamo.reset()
        torch.manual_seed(0)
        net = nn.Sequential(*(wrap(Net()) for _ in range(2)))
        for block in net:
            fully_shard(block, mesh=_mesh(r))
        fully_shard(net, mesh=_mesh(r))
        for k in range(3):
            net.set_requires_gradient_sync(k == 2)
            net(r.tensor(4, 16, seed=k)).square().mean().backward()
        outcomes.append([p.grad for p in net.parameters()])
    r.same(outcomes[1], outcomes[0], 1e-3)


@case
def replicated_with_hooks(r):
    """DDP with small buckets, with gradients as views of them, with a hook that sends 16 bits."""

    def halved(_, bucket):
        half = (bucket.buffer() / r.world).half()
        work = dist.all_reduce(half, async_op=True)
        return work.get_future().then(lambda f: bucket.buffer().copy_(f.value()[0]))

    def build(hook=None, **options):
        def made(wrap):
            net = nn.parallel.DistributedDataParallel(nn.Sequential(Net(), Net()), **options)
            if hook:
                net.register_comm_hook(None, hook)
            return wrap(net), list(net.parameters())

        return made

    train(r, build(bucket_cap_mb=2))
    train(r, build(gradient_as_bucket_view=True, static_graph=True))
    train(r, build(hook=halved))


@case
def replicated_accumulation(r):
    outcomes = []
    for wrap in (lambda m: m, r.compiled):
        torch._dynamo.reset()
        torch.manual_seed(0)
        net = nn.parallel.DistributedDataParallel(wrap(nn.Sequential(Net(), Net())))
        for k in range(3):
            if k < 2:
                with net.no_sync():
                    net(r.tensor(4, 16, seed=k)).square().mean().backward()
            else:
                net(r.tensor(4, 16, seed=k)).square().mean().backward()
        outcomes.append([p.grad for p in net.parameters()])
    r.same(outcomes[1], outcomes[0], 1e-3)


@case
def uneven_inputs(r):
    """Ranks with other numbers of batches, under DDP's join."""
    outcomes = []
    for wrap in (lambda m: m, r.compiled):
        torch._dynamo.reset()
        torch.manual_seed(0)
        net = nn.parallel.DistributedDataParallel(wrap(nn.Sequential(Net(), Net())))
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        with net.join():
            for k in range(2 + r.rank):
                optimizer.zero_grad()
                net(r.tensor(3 + k, 16, seed=k)).square().mean().backward()
                optimizer.step()
        outcomes.append(list(net.parameters()))
    r.same(outcomes[1], outcomes[0], 1e-3)


@case
def gradients_summed_by_hand(r):
    """One flat sum, or one for each, in a compiled step of training."""

    def step(w, b, x):
        loss = F.layer_norm(x @ w + b, (12,)).sin().sum()
        grads = torch.autograd.grad(loss, (w, b))
        flat = torch.cat([g.flatten() for g in grads])
        dist.all_reduce(flat, op=dist.ReduceOp.AVG if r.device == "cuda" else dist.ReduceOp.SUM)
        parts = flat.split([g.numel() for g in grads])
        return [p.detach() - 0.1 * g.view_as(p) for p, g in zip((w, b), parts)]

    r.compare(step, r.alike(16, 12, grad=True), r.alike(12, seed=1, grad=True), r.tensor(7, 16))


@case
def batch_norm_over_ranks(r):
    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(5))
            self.register_buffer("mean", torch.zeros(5))

        def forward(self, x):
            sums = torch.cat([x.sum((0, 2)), x.square().sum((0, 2)), x.new_full((1,), float(x.shape[0] * x.shape[2]))])
            sums = funcol.all_reduce(sums, "sum", r.group)
            mean, square = sums[:5] / sums[10], sums[5:10] / sums[10]
            self.mean.mul_(0.9).add_(mean * 0.1)
            scale = self.weight * torch.rsqrt(square - mean.square() + 1e-5)
            return (x - mean[:, None]) * scale[:, None], self.mean.clone()

    for seed in range(2):
        outcomes = []
        for wrap in (lambda m: m, r.compiled):
            torch._dynamo.reset()
            net = Norm()
            run = wrap(net)
            x = r.tensor(3, 5, 4, seed=seed)
            outcomes.append([run(x), run(x + 1)])
        r.same(outcomes[1], outcomes[0])


# --- by hand: pipelines, rings, experts, sequences


@case
def pipeline_of_stages(r):
    """Activations go on and gradients go back by messages between compiled stages."""

    def run(wrap):
        torch._dynamo.reset()
        torch.manual_seed(r.rank)
        net = Net()
        stage, grads, losses = wrap(net), [], []
        for batch in range(3):
            x = r.alike(4, 16, seed=batch) if r.rank == 0 else torch.empty(4, 16)
            if r.rank > 0:
                dist.recv(x, r.rank - 1)
            x.requires_grad_()
            y = stage(x)
            if r.rank < r.world - 1:
                dist.send(y.detach(), r.rank + 1)
                back = torch.empty_like(y)
                dist.recv(back, r.rank + 1)
                y.backward(back)
            else:
                losses.append(y.square().mean())
                losses[-1].backward()
            if r.rank > 0:
                dist.send(x.grad, r.rank - 1)
            grads.append(x.grad)
        return grads, losses, [p.grad for p in net.parameters()]

    want = run(lambda m: m)
    r.same(run(r.compiled), want, 1e-3)


@case
def ring_attention_by_batches_of_messages(r):
    """batch_isend_irecv between compiled steps."""

    def step(q, k, v, best, total, sums):
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        most = torch.maximum(best, scores.amax(-1, keepdim=True))
        weights, kept = (scores - most).exp(), (best - most).exp()
        return most, total * kept + weights.sum(-1, keepdim=True), sums * kept + weights @ v

    def attention(step, q, k, v):
        best, total, sums = (
            torch.full((*q.shape[:-1], 1), -torch.inf),
            torch.zeros(*q.shape[:-1], 1),
            torch.zeros_like(q),
        )
        for turn in range(r.world):
            come = torch.empty(2, *k.shape)
            works = dist.batch_isend_irecv(
                [
                    dist.P2POp(dist.isend, torch.stack([k, v]), (r.rank + 1) % r.world),
                    dist.P2POp(dist.irecv, come, (r.rank - 1) % r.world),
                ]
            )
            best, total, sums = step(q, k, v, best, total, sums)
            for work in works:
                work.wait()
            k, v = come.unbind()
        return sums / total

    q, k, v = (r.tensor(2, 5, 8, seed=s) for s in range(3))
    want = attention(step, q, k, v)
    r.same(attention(r.compiled(step), q, k, v), want)
    # The same with the messages in what is compiled, which Dynamo breaks at.
    r.same(r.compiled(lambda *t: attention(step, *t) + 1)(q, k, v), want + 1)


@case
def sequence_parallel_attention(r):
    """Ulysses: heads are exchanged for tokens, and back, with gradients."""

    def swap(x, give, take):
        parts = torch.stack(x.chunk(r.world, give)).contiguous()
        moved = funcol.all_to_all_single_autograd(parts, None, None, r.group)
        return torch.cat(moved.unbind(), take)

    def fn(q, k, v):
        q, k, v = (swap(t, 1, 2) for t in (q, k, v))  # batch, heads, tokens, width
        return swap(F.scaled_dot_product_attention(q, k, v, is_causal=True), 2, 1)

    r.compare(fn, *(r.tensor(2, 2 * r.world, 3, 8, seed=s, grad=True) for s in range(3)), grad=True, tolerance=1e-3)


@case
def experts_with_empty_ranks(r):
    """Uneven splits, a rank that sends nothing, one that gets nothing, with gradients."""
    give = [0 if r.rank == 0 or k == r.world - 1 else r.rank + k for k in range(r.world)]
    take = [0 if k == 0 or r.rank == r.world - 1 else r.rank + k for k in range(r.world)]

    def fn(t, w):
        come = funcol.all_to_all_single_autograd(t, take, give, r.group)
        return funcol.all_to_all_single_autograd(torch.relu(come @ w), give, take, r.group)

    r.compare(fn, r.tensor(sum(give), 4, grad=True), r.tensor(4, 4, seed=1, grad=True), grad=True)
    r.compare(lambda t: funcol.all_to_all_single(t, [0] * r.world, [0] * r.world, r.group) + 1, r.tensor(0, 4))


@case
def routed_tokens(r):
    """Experts chosen by a gate; the numbers of tokens are data."""

    def fn(x, gate, w):
        expert = (x @ gate).argmax(-1)
        order = expert.argsort(stable=True)
        give = torch.bincount(expert, minlength=r.world)
        take = funcol.all_to_all_single(give, None, None, r.group)
        gives, takes = give.tolist(), take.tolist()
        come = funcol.all_to_all_single(x[order], takes, gives, r.group)
        back = funcol.all_to_all_single(torch.tanh(come @ w), gives, takes, r.group)
        out = torch.zeros_like(x)
        out[order] = back
        return out

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        for seed in range(2):
            r.compare(fn, r.tensor(11, 8, seed=seed), r.alike(8, r.world), r.tensor(8, 8, seed=5))


@case
def tensor_parallel_with_sequence_shards(r):
    """Megatron's sequence parallelism by autograd functions of its own."""

    class Gather(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return funcol.all_gather_tensor(x, 0, r.group)

        @staticmethod
        def backward(ctx, grad):
            return funcol.reduce_scatter_tensor(grad.contiguous(), "sum", 0, r.group)

    class Scatter(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return funcol.reduce_scatter_tensor(x, "sum", 0, r.group)

        @staticmethod
        def backward(ctx, grad):
            return funcol.all_gather_tensor(grad.contiguous(), 0, r.group)

    def fn(x, up, down, scale):
        for _ in range(2):
            h = Gather.apply(F.rms_norm(x, (16,), scale))
            x = x + Scatter.apply(F.silu(h @ up) @ down)
        return x

    args = r.tensor(3, 16), r.tensor(16, 12, seed=1), r.tensor(12, 16, seed=2), r.alike(16)
    r.compare(fn, *(a.requires_grad_() for a in args), grad=True, tolerance=1e-3)


@case
def caches_of_a_decoder(r):
    """Heads on ranks, a cache that is written to, a token at a time, over sizes that grow."""

    def fn(x, w, cache, at):
        k = (x @ w).view(1, 2, 8)
        cache.index_copy_(0, at, k)
        scores = torch.einsum("qhd,khd->hqk", k, cache)
        mask = torch.arange(cache.shape[0]) <= at
        y = torch.einsum("hqk,khd->qhd", scores.masked_fill(~mask, -torch.inf).softmax(-1), cache)
        return funcol.all_reduce(y.flatten(1), "sum", r.group) + x

    graph = r.compiled(fn)
    w = r.tensor(16, 16, seed=3) / 8
    caches = [torch.zeros(6, 2, 8), torch.zeros(6, 2, 8)]
    for step in range(5):
        x, at = r.alike(1, 16, seed=step), torch.tensor([step])
        want = fn(x, w, caches[0], at)
        r.same((graph(x, w, caches[1], at), caches[1]), (want, caches[0]))


@case
def mapped_functions(r):
    """A function of the ranks' own parts between DTensors."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.experimental import local_map

    mesh = _mesh(r)

    @local_map(out_placements=[Replicate()], in_placements=([Shard(1)], [Shard(0)]), device_mesh=mesh)
    def product(a, b):
        return funcol.all_reduce(a @ b, "sum", mesh)

    fn = lambda a, b: product(a, b).relu() * 2  # noqa: E731
    a = distribute_tensor(r.alike(4, 4 * r.world), mesh, [Shard(1)])
    b = distribute_tensor(r.alike(4 * r.world, 6, seed=2), mesh, [Shard(0)])
    r.same(r.compiled(fn)(a, b), fn(a, b))


@case
def schedules_of_pipelines(r):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    x, target = r.alike(8, 16), r.alike(8, 16, seed=1)
    for kind in (ScheduleGPipe, Schedule1F1B):
        outcomes = []
        for wrap in (lambda m: m, r.compiled):
            torch._dynamo.reset()
            torch.manual_seed(r.rank)
            net, losses = Net(), []
            stage = PipelineStage(wrap(net), r.rank, r.world, torch.device("cpu"))
            schedule = kind(stage, n_microbatches=4, loss_fn=lambda y, t: (y - t).square().mean())
            last = {"target": target, "losses": losses} if r.rank == r.world - 1 else {}
            schedule.step(*([x] if r.rank == 0 else []), **last)
            outcomes.append([losses, [p.grad for p in net.parameters()]])
        r.same(outcomes[1], outcomes[0], 1e-3)


@case
def sharded_optimizer(r):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    outcomes = []
    for wrap in (lambda m: m, r.compiled):
        torch._dynamo.reset()
        torch.manual_seed(0)
        net = nn.parallel.DistributedDataParallel(wrap(nn.Sequential(Net(), Net())))
        optimizer = ZeroRedundancyOptimizer(net.parameters(), optimizer_class=torch.optim.Adam, lr=0.01)
        for k in range(3):
            optimizer.zero_grad()
            net(r.tensor(4, 16, seed=k)).square().mean().backward()
            optimizer.step()
        outcomes.append(list(net.parameters()))
    r.same(outcomes[1], outcomes[0], 1e-3)


@case
def parameters_that_a_rank_does_not_use(r):
    """Ranks take different branches of a module, each with graphs of its own."""

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.other = Net(), Net()

        def forward(self, x, which):
            return self.one(x) if which else self.other(x)

    outcomes = []
    for wrap in (lambda m: m, r.compiled):
        torch._dynamo.reset()
        torch.manual_seed(0)
        net = nn.parallel.DistributedDataParallel(Two(), find_unused_parameters=True)
        run = wrap(net)
        for k in range(3):
            run(r.tensor(4, 16, seed=k), (k + r.rank) % 2 == 0).square().mean().backward()
        outcomes.append([p.grad for p in net.parameters()])
    r.same(outcomes[1], outcomes[0], 1e-3)


@case
def sharded_and_checkpointed(r):
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    from torch.distributed.fsdp import fully_shard

    def build(wrap):
        net = nn.Sequential(*(checkpoint_wrapper(Net()) for _ in range(2)))
        for i, block in enumerate(net):
            net[i] = wrap(block)
            fully_shard(net[i], mesh=_mesh(r))
        fully_shard(net, mesh=_mesh(r))
        return net, list(net.parameters())

    train(r, build)


@case
def tensor_and_data_parallel(r):
    """A plan of DTensor over one dimension, FSDP2 over the other."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    if r.world < 4:
        return
    mesh = pairs(r)

    def build(wrap):
        net = nn.Sequential(Net(), Net())
        for i, block in enumerate(net):
            parallelize_module(block, mesh["model"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
            net[i] = wrap(block)
            fully_shard(net[i], mesh=mesh["data"])
        fully_shard(net, mesh=mesh["data"])
        return net, list(net.parameters())

    train(r, build)


@case
def steps_of_training(r):
    """A whole step: a loss over ranks, clipping, Adam, in one graph and in parts."""

    def build(wrap):
        net = nn.Sequential(Net(), Net())
        optimizer = torch.optim.AdamW(net.parameters(), 0.01)

        def step(x):
            optimizer.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            for p in net.parameters():
                dist.all_reduce(p.grad)
                p.grad.div_(r.world)
            norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            return funcol.all_reduce(loss.detach(), "sum", r.group) / r.world, norm

        return net, wrap(step)

    outcomes = []
    for wrap in (lambda m: m, r.compiled):
        torch._dynamo.reset()
        torch.manual_seed(0)
        net, step = build(wrap)
        found = [step(r.tensor(4, 16, seed=k)) for k in range(3)]
        outcomes.append((found, list(net.parameters())))
    r.same(outcomes[1], outcomes[0], 2e-3)


if __name__ == "__main__":
    main()
