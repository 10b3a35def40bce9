"""Programs with collectives, as each rank exports them, with what eager gives over Gloo: for test_distribution.py.

    python distribution_programs.py RANK RANKS FOLDER [NAME …]

Writes NAME.RANK.pt2, its inputs NAME.RANK.in.safetensors and eager's results NAME.RANK.want.safetensors for every
program, or those named.

    python distribution_programs.py --emitted FORM RANK RANKS FOLDER NAME …

Writes NAME.RANK.FORM.safetensors, what the programs give as source in Python (`python` or `fx`) over torch's groups.
"""

import pathlib
import sys

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from safetensors.torch import save_file
from torch import nn

import coil_harness
import distribution_models as models
import emitted
import emulated_cuda

# Before torch 2.12 eager's all_gather_tensor takes contiguous tensors alone.
TAKES_STRIDES = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 12)
functional = torch.ops._c10d_functional
wait = functional.wait_tensor


class Reductions(nn.Module):
    """Values are on their way while others are computed; a sum of a transposed tensor."""

    def forward(self, x, y):
        group = dist.group.WORLD
        total = functional.all_reduce(x.t(), "sum", group.group_name)
        most = functional.all_reduce(y, "max", group.group_name)
        between = torch.nn.functional.gelu(x @ y)
        least = funcol.all_reduce(y, "min", group)
        product = funcol.all_reduce(x * 0.5, "product", group)
        both = funcol.all_reduce_coalesced([x, y + 1], "sum", group)
        return wait(total) + 1, wait(most), between, least, product, [b * 2 for b in both]


class Exchanges(nn.Module):
    def __init__(self, rank, ranks):
        super().__init__()
        self.rank, self.ranks = rank, ranks

    def forward(self, x, wide):
        group, ranks = dist.group.WORLD, self.ranks
        gathered = funcol.all_gather_tensor(x, 0, group)
        columns = funcol.all_gather_tensor(x.t() if TAKES_STRIDES else x.t().contiguous(), 1, group)
        lists = funcol.all_gather_into_tensor_coalesced([x, x + 1], group)
        scattered = funcol.reduce_scatter_tensor(wide, "sum", 0, group)
        many = funcol.reduce_scatter_tensor_coalesced([wide, wide * 2], "sum", [0, 0], group)
        last = funcol.broadcast(x.t(), ranks - 1, group)
        even = funcol.all_to_all_single(wide, None, None, group)
        # Rank r sends s rows to rank s, and so gets r rows from each: rank 0 gets none.
        rows = wide[: sum(range(ranks))]
        uneven = funcol.all_to_all_single(rows, [self.rank] * ranks, list(range(ranks)), group)
        return gathered, columns, lists, scattered, many, last, even, uneven


class InPlace(nn.Module):
    """Operators that write to their arguments, results that are never waited for, waits of nothing."""

    def forward(self, x):
        name = dist.group.WORLD.group_name
        y = x * 2
        functional.all_reduce_(y, "sum", name)
        wait(y)
        z = x + 1
        functional.broadcast_(z, 1, name)
        wait(z)
        out = x.new_empty(x.shape[0] * dist.get_world_size(), *x.shape[1:])
        functional.all_gather_into_tensor_out(x, dist.get_world_size(), name, out=out)
        wait(out)
        functional.all_reduce(x, "sum", name)
        return y - 1, z, out, wait(x) + 1


class Types(nn.Module):
    """Sums, and bits where there are any."""

    def forward(self, *values):
        group, out = dist.group.WORLD, []
        for v in values:
            kinds = ["sum", "min"] if v.dtype != torch.bool else ["max"]
            if not v.dtype.is_floating_point and v.dtype != torch.bool:
                kinds += ["band", "bor", "bxor"]
            out += [funcol.all_reduce(v, kind, group) for kind in kinds]
            out.append(funcol.all_gather_tensor(v, 0, group))
        return out


class Kinds(nn.Module):
    """Every combination that groups of GPUs have of each type."""

    def forward(self, *values):
        group, out = dist.group.WORLD, []
        for v in values:
            kinds = ["sum", "max"] if v.dtype == torch.bool else ["sum", "min", "max", "product"]
            out += [funcol.all_reduce(v, kind, group) for kind in kinds]
            out.append(funcol.all_gather_tensor(v, 0, group))
            out.append(funcol.broadcast(v, 1, group))
        return out, funcol.all_reduce(values[0][:0], "sum", group)


class ParallelMlp(nn.Module):
    """Tensor-parallel: the first product is shared by columns, the second by rows; over any number of rows."""

    def __init__(self, rank, ranks, width=16, hidden=32, layers=2):
        super().__init__()
        torch.manual_seed(0)
        mine = slice(rank * hidden // ranks, (rank + 1) * hidden // ranks)
        self.up = nn.ParameterList([nn.Parameter(torch.randn(hidden, width)[mine].clone() / 4) for _ in range(layers)])
        self.down = nn.ParameterList(
            [nn.Parameter(torch.randn(width, hidden)[:, mine].clone() / 4) for _ in range(layers)]
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        for up, down in zip(self.up, self.down):
            part = torch.nn.functional.gelu(self.norm(x) @ up.t()) @ down.t()
            x = x + funcol.all_reduce(part, "sum", dist.group.WORLD)
        return x


class Sums(nn.Module):
    """Sums of loops, products, views, inputs, constants and of sums, each also used otherwise."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.randn(48, 40) / 4)

    def forward(self, x, y, halves, brains, counts):
        group = dist.group.WORLD
        product = x @ self.weight
        sums = [funcol.all_reduce(t, "sum", group) for t in (product, product.view(6, 2, -1), x.t(), y[1:], y)]
        once = funcol.all_reduce(y * 2, "sum", group)
        twice = funcol.all_reduce(once + product.mean(), "sum", group)
        others = [funcol.all_reduce(t + 1, "sum", group) for t in (halves, brains, counts)]
        return product, sums, once, twice, others, funcol.all_reduce(self.weight, "sum", group)


class Residuals(nn.Module):
    """What follows sums goes on with them: residuals and norms, of 16-bit floats too, and what is read in other ways:
    columns, other layouts, one line in part, two sums at once.
    """

    def forward(self, x, halves, brains, odd, wide):
        group = dist.group.WORLD
        total = lambda t: funcol.all_reduce(t, "sum", group)
        out = []
        for v in (x, halves, brains, wide):
            h = v + total(v * 0.5)
            norm = h.float() * torch.rsqrt(h.float().pow(2).mean(-1, keepdim=True) + 1e-6)
            out += [h, norm.to(v.dtype)]
        part = total(torch.sigmoid(odd))
        out += [part.t() + 1, part.sum(0), part.amax(-1), total(x + 1) * total(x - 1)]
        later = total(torch.tanh(out[0]))
        return out, later + x, torch.softmax(total(later * 2), -1)


class Residual(nn.Module):
    """A sum of as many rows as a call has, in the kernel that reads it."""

    def forward(self, x):
        return torch.relu(x + funcol.all_reduce(torch.sin(x), "sum", dist.group.WORLD))


class Chunks(nn.Module):
    """Products beside exchanges of what they make and take: of plain rows, with a bias, of one matrix of a batch."""

    def __init__(self, rank, ranks):
        super().__init__()
        random = torch.Generator().manual_seed(20 + rank)
        draw = lambda *sizes: nn.Parameter(torch.randn(*sizes, generator=random) / 4)
        self.first, self.second, self.third, self.bias = draw(24, 40), draw(40, 24), draw(24, 24), draw(24)
        self.ranks = ranks

    def forward(self, x, batch):
        group = dist.group.WORLD
        largest = funcol.all_reduce(x @ self.third, "max", group)
        total = funcol.all_reduce(nn.functional.linear(batch, self.third, self.bias), "sum", group)
        every = funcol.all_gather_tensor(x * 2, 0, group)
        hidden = torch.tanh(every @ self.first)
        shared = funcol.reduce_scatter_tensor(hidden @ self.second, "sum", 0, group)
        again = funcol.all_gather_tensor(shared, 0, group)
        return largest + x, total * 2, shared, torch.tanh(again @ self.third), again @ self.first


class Experts(nn.Module):
    """Rows go to the ranks that data tell."""

    def __init__(self, ranks):
        super().__init__()
        self.ranks = ranks

    def forward(self, x, counts):
        group = dist.group.WORLD
        to = counts.tolist()
        come = funcol.all_to_all_single(counts, None, None, group).tolist()
        for n in (*to, *come):
            torch._check(n >= 0)
            torch._check(n <= x.shape[0])
        torch._check(sum(to) == x.shape[0])
        there = funcol.all_to_all_single(x, come, to, group)
        return funcol.all_to_all_single(there * 2, to, come, group)


class Large(nn.Module):
    """A sum above 256 KiB."""

    def forward(self, x):
        return funcol.all_reduce(x * 2, "sum", dist.group.WORLD)


class Messages(nn.Module):
    """Every rank sends to the next before it receives, twice with other tags, among collectives."""

    def __init__(self, rank, ranks):
        super().__init__()
        self.next, self.previous = (rank + 1) % ranks, (rank - 1) % ranks

    def forward(self, x, counts):
        name = dist.group.WORLD.group_name
        sent = functional.isend(x * 2, self.next, 0, name)
        other = functional.isend(counts.t().contiguous(), self.next, 7, name)
        total = functional.all_reduce(x, "sum", name)
        come = functional.irecv(torch.empty_like(x), self.previous, 0, name)
        integers = functional.irecv(torch.zeros(counts.shape[::-1], dtype=counts.dtype), self.previous, 7, name)
        wait(sent), wait(other)
        return wait(come) + 1, wait(integers) * 2, wait(total)


class Around(nn.Module):
    """What each rank has goes twice to the next, with a change on the way."""

    def __init__(self, rank, ranks):
        super().__init__()
        self.next, self.previous = (rank + 1) % ranks, (rank - 1) % ranks

    def forward(self, x):
        name = dist.group.WORLD.group_name
        for tag in range(2):
            sent = functional.isend(x, self.next, tag, name)
            come = functional.irecv(torch.empty_like(x), self.previous, tag, name)
            wait(sent)
            x = wait(come) * 3
        return x


class Batched(nn.Module):
    """Messages that torch begins as one batch: to the next rank, from the one before."""

    def __init__(self, rank, ranks):
        super().__init__()
        self.next, self.previous = (rank + 1) % ranks, (rank - 1) % ranks

    def forward(self, x):
        kinds, peers = ["isend", "irecv", "isend", "irecv"], [self.next, self.previous] * 2
        tensors = [x * 2, torch.empty_like(x), x.t().contiguous(), torch.empty_like(x.t().contiguous())]
        made = functional.batch_p2p_ops(kinds, peers, [0, 0, 1, 1], tensors, dist.group.WORLD.group_name)
        _, first, _, second = map(wait, made)
        return first + 1, second.t() + x


class RingAttention(nn.Module):
    """Each rank has its part of the sequence; keys and values go round, and the softmax's sums are brought along."""

    def __init__(self, rank, ranks):
        super().__init__()
        self.ranks, self.next, self.previous = ranks, (rank + 1) % ranks, (rank - 1) % ranks

    def pass_on(self, t, tag):
        name = dist.group.WORLD.group_name
        sent = functional.isend(t, self.next, tag, name)
        come = functional.irecv(torch.empty_like(t), self.previous, tag, name)
        return sent, come

    def forward(self, q, k, v):
        best = torch.full((*q.shape[:-1], 1), -torch.inf)
        total, sums = torch.zeros_like(best), torch.zeros_like(q)
        for turn in range(self.ranks):
            if turn < self.ranks - 1:
                moving = self.pass_on(torch.stack([k, v]), turn)
            scores = q @ k.mT / q.shape[-1] ** 0.5
            most = torch.maximum(best, scores.amax(-1, keepdim=True))
            weights, kept = (scores - most).exp(), (best - most).exp()
            total, sums, best = total * kept + weights.sum(-1, keepdim=True), sums * kept + weights @ v, most
            if turn < self.ranks - 1:
                wait(moving[0])
                k, v = wait(moving[1]).unbind()
        return sums / total


class Dimensions(nn.Module):
    """DTensor's move of the dimension that the ranks share."""

    def forward(self, x):
        move = lambda t, gather, shard: torch.ops._dtensor.shard_dim_alltoall(t, gather, shard, name)
        name = dist.group.WORLD.group_name
        return move(x + 1, 0, 1) * 2, move(x.transpose(0, 2).contiguous(), 2, 0), move(move(x, 2, 1), 1, 2)


class Branches(nn.Module):
    """Small exchanges of one kind, each waited for where it stands, and work that needs none of them."""

    def __init__(self, ranks, count=5):
        super().__init__()
        self.ranks, self.count = ranks, count

    def forward(self, x, y):
        group = dist.group.WORLD
        for _ in range(3):
            y = torch.sin(y.softmax(-1) * 3)
        gathered = [funcol.all_gather_tensor(x[:, k : k + 3] + k, 0, group) * 2 for k in range(self.count)]
        scattered = [funcol.reduce_scatter_tensor(t, "avg", 0, group).sin() for t in gathered]
        most = [funcol.all_reduce(t[0] * k, "max", group) + 1 for k, t in enumerate(scattered)]
        return gathered, scattered, most, y


def decoders(rank, ranks):
    """Of one decoder: shares by hand, with the tokens shared too, and DTensor's plan; each with its rows of x."""
    torch.manual_seed(5)
    whole, every = models.decoder(models.Layer), slice(None)
    shares = [
        models.shard(whole, models.decoder(kind, ranks), rank, ranks)
        for kind in (models.SharedLayer, models.ShardedLayer)
    ]
    rows = slice(rank * 8 // ranks, (rank + 1) * 8 // ranks)
    planned = models.by_plan(whole, dist.init_device_mesh("cpu", (ranks,)))
    return zip((*shares, models.Local(planned, (torch.zeros(8, 64),))), (every, rows, every))


def programs(rank, ranks):
    """By name: a module, its arguments, and the sizes of them that are free."""
    random = torch.Generator().manual_seed(rank)
    values = lambda *sizes: torch.randn(*sizes, generator=random)
    integers = lambda dtype: torch.randint(1, 20, (6,), generator=random).to(dtype)
    rows = torch.export.Dim("rows", min=1, max=64)
    counts = torch.tensor([(rank + r) % ranks for r in range(ranks)])
    made = {
        "reductions": (Reductions(), (values(3, 4), values(4, 3)), None),
        "exchanges": (Exchanges(rank, ranks), (values(2, 3), values(ranks * 2, 3)), None),
        "mlp": (
            ParallelMlp(rank, ranks),
            (torch.randn(5, 16, generator=torch.Generator().manual_seed(7)),),
            {"x": {0: rows}},
        ),
    }
    made["sums"] = (
        Sums(),
        (
            values(12, 48),
            values(5, 7),
            values(300).half(),
            values(3, 5).bfloat16(),
            torch.randint(0, 9, (4, 3), generator=random),
        ),
        None,
    )
    made["residuals"] = (
        Residuals(),
        (values(4, 512), values(3, 1030).half(), values(2, 4096).bfloat16(), values(5, 7), values(2, 3001)),
        None,
    )
    made["chunks"] = Chunks(rank, ranks), (values(14, 24), values(1, 9, 24)), None
    made["residual"] = Residual(), (values(4, 512),), {"x": {0: rows}}
    made["large"] = Large(), (values(300, 400),), None
    made["messages"] = Messages(rank, ranks), (values(40, 3), integers(torch.int64).view(2, 3)), None
    made["around"] = Around(rank, ranks), (values(70, 5),), None
    made["batched"] = Batched(rank, ranks), (values(7, 5),), None
    made["ring"] = RingAttention(rank, ranks), tuple(values(2, 3, 5, 8) for _ in range(3)), None
    made["shared"], made["sharded"], made["planned"] = (
        (module, (torch.randn(8, 64, generator=torch.Generator().manual_seed(3))[mine],), None)
        for module, mine in decoders(rank, ranks)
    )
    made["mixture"] = models.Experts(rank, ranks), (values(12, 16),), None
    made["branches"] = Branches(ranks), (values(4, 24), values(96, 96)), None
    made["dimensions"] = Dimensions(), (values(3, 2 * ranks, 2 * ranks),), None
    made["in_place"] = InPlace(), (values(2, 3),), None
    made["experts"] = Experts(ranks), (values(int(counts.sum()), 3), counts), None
    to_first = torch.tensor([3] + [0] * (ranks - 1))  # the others receive no row, and take part all the same
    made["one_expert"] = Experts(ranks), (values(3, 3), to_first), None
    if ranks == 2:
        types = [torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64]
        kinds = [torch.float32, *types]
        made["kinds"] = Kinds(), (*(integers(t).clamp(max=9) for t in kinds), values(6) > 0), None
        made["types"] = Types(), (*map(integers, types), values(6) > 0), None
    return made


EMULATED = ("--device", "cuda", "--set", "cuda.arch=sm_90")
CHUNKS = [
    option
    for setting in ("chunks=3", "one_shot_bytes=0", "two_shot_bytes=0")
    for option in ("--set", f"distribution.{setting}")
]


def emitted_results(form, path, args):
    """What a program written in Python gives in this process; `python-cuda` and `fx-cuda` with the kernels of a GPU on
    the machine that test/python/emulated_cuda.py puts into their place, `python-chunks` and `fx-chunks` with products
    and exchanges in chunks.
    """
    language, _, kind = form.partition("-")
    if kind == "cuda":
        module = emulated_cuda.load_emulated(emitted.emit(path, language, *EMULATED))
    else:
        module = emitted.load_module(emitted.emit(path, language, *(CHUNKS if kind else ())))
    return module.load()(*args) if language == "fx" else module.call(list(args))


def begin(rank, ranks, folder, name):
    dist.init_process_group("gloo", init_method=f"file://{folder}/{name}-{ranks}", rank=rank, world_size=ranks)
    torch.set_num_threads(1)


def end():
    """Joins Gloo's threads: one that needs the interpreter while that goes down ends the process."""
    dist.barrier()
    dist.destroy_process_group()


def run_emitted(form, rank, ranks, folder, names):
    begin(rank, ranks, folder, f"torch-store-{form}")
    for name in names:
        module, args, _ = programs(rank, ranks)[name]
        _, want = coil_harness.eager(module, args)
        for _ in range(2):  # the second call finds the buffers of the first
            given = emitted_results(form, folder / f"{name}.{rank}.pt2", args)
            results = {k: t.detach().clone().contiguous() for k, t in zip(want, given)}
        save_file(results, folder / f"{name}.{rank}.{form}.safetensors")
    end()


def main(rank, ranks, folder, names=()):
    begin(rank, ranks, folder, "torch-store")
    for name, (module, args, dynamic) in programs(rank, ranks).items():
        if names and name not in names:
            continue
        path = folder / f"{name}.{rank}.pt2"
        inputs, want = coil_harness.eager(module, args)
        coil_harness.export(module, args, path, dynamic)
        save_file(inputs, folder / f"{name}.{rank}.in.safetensors")
        save_file(want, folder / f"{name}.{rank}.want.safetensors")
    end()


if __name__ == "__main__":
    arguments = sys.argv[1:]
    form = arguments[1] if arguments[0] == "--emitted" else None
    rank, ranks, place, *names = arguments[2:] if form else arguments
    if form:
        run_emitted(form, int(rank), int(ranks), pathlib.Path(place), names)
    else:
        main(int(rank), int(ranks), pathlib.Path(place), names)
