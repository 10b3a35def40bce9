"""Models whose layers several processes share: for tests over Gloo and for bench/distribution_gpu.py on GPUs."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import torch.nn.functional as F
from torch import nn


class Norm(nn.Module):
    """RMS norm."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        y = x.float()
        return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.weight


def turned(x):
    """Rotary positions over [heads, tokens, head]."""
    tokens, head = x.shape[-2:]
    angles = torch.outer(
        torch.arange(tokens, device=x.device).float(),
        500000.0 ** (-torch.arange(0, head, 2, device=x.device).float() / head),
    ).repeat(1, 2)
    low, high = x.chunk(2, -1)
    return x * angles.cos().to(x.dtype) + torch.cat((-high, low), -1) * angles.sin().to(x.dtype)


class Layer(nn.Module):
    """One of a Llama-like decoder: grouped-query attention and a gated MLP, with as many heads and hidden columns as
    are given, be they all or a rank's share. What its last products give is handed to `attended` and `moved`.
    """

    def __init__(self, width, head, heads, kv_heads, hidden):
        super().__init__()
        self.head = head
        linear = lambda a, b: nn.Linear(a, b, bias=False)
        self.q, self.k, self.v = (
            linear(width, heads * head),
            linear(width, kv_heads * head),
            linear(width, kv_heads * head),
        )
        self.o = linear(heads * head, width)
        self.gate, self.up, self.down = linear(width, hidden), linear(width, hidden), linear(hidden, width)
        self.before, self.between = Norm(width), Norm(width)

    def attention(self, h):
        q, k, v = (layer(h).unflatten(-1, (-1, self.head)).transpose(0, 1) for layer in (self.q, self.k, self.v))
        groups = q.shape[0] // k.shape[0]
        k, v = (t.repeat_interleave(groups, 0) for t in (turned(k), v))
        y = F.scaled_dot_product_attention(turned(q)[None], k[None], v[None], is_causal=True)[0]
        return self.o(y.transpose(0, 1).flatten(1))

    def mlp(self, h):
        return self.down(F.silu(self.gate(h)) * self.up(h))

    def forward(self, x):
        x = x + self.attention(self.before(x))
        return x + self.mlp(self.between(x))


class SharedLayer(Layer):
    """A rank's share of heads and of hidden columns; sums over the ranks make the layer's results whole."""

    def forward(self, x):
        group = dist.group.WORLD
        x = x + funcol.all_reduce(self.attention(self.before(x)), "sum", group)
        return x + funcol.all_reduce(self.mlp(self.between(x)), "sum", group)


class ShardedLayer(Layer):
    """As SharedLayer, but each rank keeps its share of the tokens between products, so that norms and additions are
    shared as well.
    """

    def forward(self, x):
        group = dist.group.WORLD
        h = funcol.all_gather_tensor(self.before(x), 0, group)
        x = x + funcol.reduce_scatter_tensor(self.attention(h), "sum", 0, group)
        h = funcol.all_gather_tensor(self.between(x), 0, group)
        return x + funcol.reduce_scatter_tensor(self.mlp(h), "sum", 0, group)


def decoder(layer, ranks=1, width=64, head=8, heads=8, kv_heads=4, hidden=96, layers=2):
    """Layers in a row over [tokens, width]; of a shared `layer` those of any one rank, without its weights."""
    return nn.Sequential(
        *(layer(width, head, heads // ranks, kv_heads // ranks, hidden // ranks) for _ in range(layers))
    )


def shard(whole, part, rank, ranks):
    """Gives a rank's layers their shares of a whole decoder's weights."""
    columns = ("o.weight", "down.weight")
    with torch.no_grad():
        for name, mine in part.named_parameters():
            theirs = whole.get_parameter(name)
            dim = 1 if name.endswith(columns) else 0
            mine.copy_(theirs if theirs.shape == mine.shape else theirs.chunk(ranks, dim)[rank])
    return part


def by_plan(whole, mesh):
    """The whole decoder under DTensor's plan of the same shares."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    columns, rows = ColwiseParallel(), RowwiseParallel()
    plan = {name: columns for name in ("q", "k", "v", "gate", "up")} | {"o": rows, "down": rows}
    for layer in whole:
        parallelize_module(layer, mesh, plan)
    return whole


class Local(nn.Module):
    """A module with DTensors as the program of this rank: plain tensors and functional collectives, which torch.export
    takes, as it does not take DTensors.
    """

    def __init__(self, module, args):
        from torch.distributed.tensor import DTensor
        from torch.fx.experimental.proxy_tensor import make_fx

        super().__init__()
        named = dict(module.named_parameters())
        self.names = [name.replace(".", "_") for name in named]
        for name, t in zip(self.names, named.values()):
            self.register_buffer(name, (t.to_local() if isinstance(t, DTensor) else t).detach().clone())

        def call(*flat):
            def whole(t, like):
                if not isinstance(like, DTensor):
                    return t
                places = like.device_mesh, like.placements
                return DTensor.from_local(t, *places, run_check=False, shape=like.shape, stride=like.stride())

            tensors = {name: whole(t, like) for (name, like), t in zip(named.items(), flat)}
            return torch.func.functional_call(module, tensors, flat[len(named) :])

        with torch.no_grad():
            self.graph = make_fx(call)(*self.weights(), *args)

    def weights(self):
        return [getattr(self, name) for name in self.names]

    def forward(self, x):
        return self.graph(*self.weights(), x)


class Experts(nn.Module):
    """A mixture of experts, one of them on each rank: a router sends each row to its best one, by an all-to-all whose
    splits the data tell, and another brings the results back to where the rows were.
    """

    def __init__(self, rank, ranks, width=16, hidden=24):
        super().__init__()
        self.ranks = ranks
        random = torch.Generator().manual_seed(11)
        draw = lambda *sizes: torch.randn(*sizes, generator=random) / 4
        self.router = nn.Parameter(draw(width, ranks))
        self.up, self.down = (
            nn.Parameter(draw(ranks, *sizes)[rank].clone()) for sizes in ((width, hidden), (hidden, width))
        )

    def forward(self, x):
        group = dist.group.WORLD
        scores = (x @ self.router).softmax(-1)
        best, expert = scores.max(-1)
        order = expert.argsort(stable=True)
        counts = (expert[:, None] == torch.arange(self.ranks, device=x.device)).sum(0)
        come = funcol.all_to_all_single(counts, None, None, group).tolist()
        to = counts.tolist()
        for n in (*to, *come):
            torch._check(n >= 0)
            torch._check(n <= x.shape[0])
        torch._check(sum(to) == x.shape[0])
        here = funcol.all_to_all_single(x[order], come, to, group)
        done = F.gelu(here @ self.up) @ self.down
        back = funcol.all_to_all_single(done, to, come, group)
        return x + torch.zeros_like(x).index_copy(0, order, back) * best[:, None]


class Embedding(nn.Module):
    def __init__(self, words, tokens, width):
        super().__init__()
        self.word, self.place = nn.Embedding(words, width), nn.Embedding(tokens, width)

    def forward(self, ids):
        return self.word(ids) + self.place(torch.arange(ids.shape[1], device=ids.device))


class GptBlock(nn.Module):
    """GPT-2's."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.before(x)).chunk(3, -1))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.between(x)), approximate="tanh"))


class Loss(nn.Module):
    """The last norm, the words' scores, and the cross entropy of those that follow."""

    def __init__(self, width, words):
        super().__init__()
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, x, ids):
        scores = self.out(self.norm(x))[:, :-1].flatten(0, 1).float()
        return F.cross_entropy(scores, ids[:, 1:].flatten())


class Gpt(nn.Module):
    def __init__(self, words=50257, tokens=1024, width=768, heads=12, layers=12):
        super().__init__()
        self.embed = Embedding(words, tokens, width)
        self.blocks = nn.ModuleList(GptBlock(width, heads) for _ in range(layers))
        self.loss = Loss(width, words)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.loss(x, ids)


def fully_sharded(backend, device, sizes, **policy):
    """A Gpt under FSDP2, the same for all backends; its parts compiled by one, or none. Torch compiles the parts that
    FSDP2's hooks stand between.
    """
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    model = Gpt(**sizes).to(device)
    mesh = dist.init_device_mesh(torch.device(device).type, (dist.get_world_size(),))
    for part in (model.embed, *model.blocks, model.loss):
        if backend:
            part.compile(backend=backend)
        fully_shard(part, mesh=mesh, **policy)
    fully_shard(model, mesh=mesh, **policy)
    return model


def losses(model, steps, batch, tokens, words, device, each=None, rate=1e-3):
    """Of training steps with AdamW on this rank's random words; `each` is called after every step."""
    random = torch.Generator().manual_seed(dist.get_rank())
    drawn = torch.randint(0, words, (4, batch, tokens), generator=random).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    found = []
    for step in range(steps):
        loss = model(drawn[step % len(drawn)])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.detach())
        if each:
            each()
    return torch.stack(found).cpu()
