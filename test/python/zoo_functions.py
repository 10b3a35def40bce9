"""More of zoo_programs.py: indexing, numbers, writes in place, structures of inputs and outputs, small nets."""

import collections
import dataclasses
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils import _pytree as pytree

from zoo_programs import PROGRAMS, D, add, r

# Indexing.
i64 = lambda high, *shape: (lambda: torch.randint(0, high, shape))
add(
    "index_forms",
    lambda s, x, i: (
        x[i],
        x[:, i],
        x[i, i],
        x[..., i],
        x[None, i, ::2],
        x[1:, i[0]],
        x[i[:, None], i[None]],
        x[-1],
        x[i > 1] if False else x,
    ),
    lambda: r(4, 4, 6),
    i64(4, 3),
)
add(
    "index_put",
    lambda s, x, i: (
        x.clone().index_put_((i,), torch.ones(6)),
        x.index_put((i, i), torch.ones(3), accumulate=True),
        torch.index_fill(x, 0, i, 2.0),
    ),
    lambda: r(4, 6),
    i64(4, 3),
)
add(
    "gather_scatter",
    lambda s, x, i: (
        x.gather(1, i),
        x.scatter(1, i, 2.0),
        x.scatter_add(1, i, x),
        x.scatter_reduce(1, i, x, "amax"),
        x.scatter_reduce(1, i, x, "mean"),
        x.scatter_reduce(1, i, x, "prod", include_self=False),
    ),
    lambda: r(4, 6),
    i64(6, 4, 6),
)
add(
    "index_add_copy",
    lambda s, x, i: (
        x.index_add(0, i, x[:3], alpha=2),
        x.index_copy(0, torch.tensor([2, 0, 1]), x[:3]),
        x.index_select(1, i),
        torch.index_reduce(x, 0, i, x[:3], "amax"),
    ),
    lambda: r(4, 6),
    i64(4, 3),
)
add(
    "take_put",
    lambda s, x, i: (x.take(i), x.put(i, torch.zeros(3)), torch.take_along_dim(x, x.argsort(1), 1)),
    lambda: r(4, 6),
    i64(20, 3),
)
add(
    "masked",
    lambda s, x, m: (
        x.masked_fill(m, -1e9),
        torch.where(m, x, 0),
        x.masked_scatter(m, torch.arange(24.0)),
        (x * m).sum(),
        m.any(0),
        m.all(),
        m.sum(1),
        ~m ^ (x > 0),
    ),
    lambda: r(4, 6),
    lambda: r(4, 6) > 0,
)
add(
    "slices_written",
    lambda s, x: (lambda y: (y, y.sum()))(
        (
            lambda y: [
                y.__setitem__((slice(None), 0), 1.0),
                y.__setitem__((1, slice(None, None, 2)), x[0, :3]),
                y.__setitem__(slice(2, 3), y[:1] * 2),
                y,
            ][-1]
        )(x.clone())
    ),
    lambda: r(4, 6),
)
add(
    "searching",
    lambda s, x, y: (
        torch.searchsorted(y.sort(-1)[0], x),
        torch.bucketize(x, y[0].sort()[0], right=True),
        torch.isin((x * 2).int(), (y * 2).int()),
        torch.histc(x, 5, -2, 2),
        torch.bincount((x.abs() * 2).long().flatten(), minlength=40)[:12],
    ),
    lambda: r(3, 5),
    lambda: r(3, 7),
)
add(
    "ordering",
    lambda s, x: (
        x.sort(1, descending=True),
        x.topk(3),
        x.argsort(0),
        x.kthvalue(2),
        x.median(1),
        torch.msort(x),
        x.nanmedian(),
        x.mode(1) if False else x.cummax(1),
        x.cummin(0),
        x.argmax(),
        x.max(0),
        torch.aminmax(x),
        x.quantile(0.3, 1),
    ),
    lambda: r(4, 9),
)
add("mode", lambda s, x: torch.mode(x, 1), i64(4, 4, 9))
add(
    "one_hot_meshgrid",
    lambda s, i: (
        F.one_hot(i, 5),
        torch.meshgrid(torch.arange(3), i[0], indexing="ij"),
        torch.cartesian_prod(i[0], torch.arange(2)),
        torch.tril_indices(4, 3),
        torch.triu_indices(3, 4, 1),
    ),
    i64(5, 2, 3),
)
add(
    "cumulative",
    lambda s, x: (
        x.cumsum(1),
        x.cumprod(0),
        x.logcumsumexp(1),
        x.diff(dim=1),
        torch.trapezoid(x),
        torch.cumulative_trapezoid(x),
        x.roll((1, 2), (0, 1)),
        x.rot90(),
        x.flip(0),
    ),
    lambda: r(4, 6),
)
add(
    "graph_network",
    lambda s, x, e: torch.zeros(10, 8).index_add_(0, e[1], F.relu(s.l(x[e[0]])))
    / torch.zeros(10).scatter_add_(0, e[1], torch.ones(30)).clamp(min=1)[:, None],
    lambda: r(10, 6),
    i64(10, 2, 30),
    modules=dict(l=lambda: nn.Linear(6, 8)),
)
add(
    "segment_reduce",
    lambda s, x: torch.segment_reduce(x, "sum", lengths=torch.tensor([2, 3, 1]), axis=0),
    lambda: r(6, 4),
)
add(
    "renorm_vander",
    lambda s, x: (
        x.renorm(2, 0, 1.0),
        torch.linalg.vander(x[0]),
        torch.vander(x[0], 4),
        torch.block_diag(x, x),
        x.tril(-1),
        torch.diag_embed(x),
        torch.diagonal_scatter(x, x[0, :4]),
    ),
    lambda: r(4, 6),
)

# Numbers.
add(
    "special",
    lambda s, x: (
        torch.special.expit(x),
        torch.lgamma(x.abs() + 0.1),
        torch.digamma(x.abs() + 0.5),
        torch.erf(x),
        torch.erfinv(x.tanh()),
        torch.special.i0(x),
        torch.special.i1e(x),
        torch.special.entr(x.abs()),
        torch.xlogy(x, x.abs()),
        torch.special.ndtri(x.sigmoid()),
        torch.special.log_ndtr(x),
        torch.sinc(x),
        torch.logit(x.sigmoid()),
        torch.special.zeta(x.abs() + 1.5, torch.tensor(1.0)),
        torch.mvlgamma(x.abs() + 3, 2),
    ),
    lambda: r(4, 6),
)
add(
    "special_more",
    lambda s, x: (
        torch.polygamma(1, x.abs() + 0.5),
        torch.igamma(x.abs() + 0.5, x.abs().T.reshape(4, 6) + 0.1),
        torch.igammac(x.abs() + 0.5, x.abs() + 0.1),
        torch.special.bessel_j0(x),
        torch.special.bessel_y1(x.abs() + 0.5),
    ),
    lambda: r(4, 6),
)
add(
    "rounding",
    lambda s, x: (
        x.round(),
        x.round(decimals=1),
        x.trunc(),
        x.frac(),
        x.floor_divide(0.3),
        x % 0.7,
        torch.fmod(x, 0.7),
        x.remainder(-0.5),
        torch.div(x, 0.3, rounding_mode="trunc"),
        torch.copysign(x, -x),
        torch.nextafter(x, x + 1),
        torch.ldexp(x, torch.tensor(3)),
        torch.frexp(x),
        torch.heaviside(x, x),
        torch.nan_to_num(x / 0),
    ),
    lambda: r(4, 6),
)
add(
    "bits",
    lambda s, x, y: (
        x & y,
        x | y,
        x ^ y,
        ~x,
        x << 2,
        x >> 1,
        torch.gcd(x, y),
        torch.lcm(x, y),
        x // (y + 1),
        x % (y + 1),
        x.float() / 3,
        x.clamp(2, 5),
        x.to(torch.int8) * 3,
        x.bool(),
    ),
    i64(50, 3, 4),
    i64(50, 3, 4),
)
add(
    "dtypes",
    lambda s, x: (
        x.half() + x.double(),
        x.bfloat16() * 2,
        x.to(torch.uint8),
        x.long() + 0.5,
        x.int() + x,
        torch.tensor(3) * x.short(),
        x.double().mean(),
        x.sum(dtype=torch.float64),
        x.mean().item() if False else x.type(torch.float16),
        torch.result_type(x, 1) == torch.float32,
    ),
    lambda: r(3, 4).abs() * 5,
)
add(
    "view_dtype",
    lambda s, x: (
        x.view(torch.int32),
        x.view(torch.uint8),
        x.view(torch.int16),
        x.view(torch.int64),
        x.view(torch.int32).view(torch.float32) + 1,
    ),
    lambda: r(3, 4),
)
add(
    "float8",
    lambda s, x: (
        x.to(torch.float8_e4m3fn).float(),
        x.to(torch.float8_e5m2).float(),
        (x * 3).to(torch.float8_e4m3fn).to(torch.bfloat16) + 1,
    ),
    lambda: r(50) * 100,
)
add(
    "statistics",
    lambda s, x: (
        x.std(),
        x.var(1, correction=0),
        torch.var_mean(x, 0),
        x.nansum(),
        x.nanmean(1),
        x.logsumexp(1),
        x.norm(2, 1),
        x.prod(1),
        x.count_nonzero(0),
        torch.std_mean(x),
    ),
    lambda: r(4, 6),
)
add("autocast", lambda s, x: s.net(x), lambda: r(4, 8), modules=dict(net=lambda: Autocast()))
add(
    "quantized_like",
    lambda s, x: (
        torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -128, 127),
        torch.fake_quantize_per_channel_affine(x, torch.arange(1.0, 5) / 10, torch.zeros(4), 0, -128, 127),
    ),
    lambda: r(4, 6),
)
add("random", lambda s, x: (torch.rand(3, 4).shape[0] + x, torch.zeros(3).bernoulli_(0.0) + x.sum()), lambda: r(4))
add(
    "dropout_eval",
    lambda s, x: (F.dropout(x, 0.5, training=False), s.d(x)),
    lambda: r(4, 6),
    modules=dict(d=lambda: nn.Dropout2d().eval()),
)


class Autocast(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.c = nn.Linear(8, 16), nn.LayerNorm(16), nn.Conv1d(1, 3, 3)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h = self.norm(self.a(x))
            c = self.c(h[:, None])
            q = F.scaled_dot_product_attention(c, c, c)
            loss = F.cross_entropy(h, torch.zeros(4, dtype=torch.long))
        return h, c, q, loss.bfloat16(), h + 1


# Writes in place, through views, to inputs and buffers.
def chain(s, x):
    y = x * 1.0
    v = y.view(2, 12)[:, ::3]
    v.add_(1).mul_(2)
    y.t()[0].zero_()
    w = y[1:3].unfold(1, 3, 3)
    w[..., 0].copy_(v[:, :2])
    y.diagonal().fill_(7)
    return y, v.sum(), w


add("view_chain", chain, lambda: r(4, 6))
add("input_written", lambda s, x, y: (x.add_(y), y.t().mul_(2), x[0].sigmoid_()), lambda: r(4, 4), lambda: r(4, 4))
add("input_aliased", lambda s, x: (x, x.view(-1), x.t(), x[1:]), lambda: r(4, 6))
add(
    "transposed_write",
    lambda s, x: [y := x + 1, y.transpose_(0, 1).mul_(2), y.unsqueeze_(0), y.squeeze_()][1:],
    lambda: r(4, 6),
)
add(
    "write_in_loop",
    lambda s, x: [
        y := torch.zeros(6, 4),
        [y[i].copy_((x[i] if i == 0 else y[i - 1] * 0.5 + x[i])) for i in range(6)],
        y,
    ][-1],
    lambda: r(6, 4),
)
add(
    "out_variants",
    lambda s, x: torch.add(x, 1, out=torch.empty_like(x)) + torch.matmul(x, x.T, out=torch.empty(4, 4)).sum(),
    lambda: r(4, 6),
)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long), persistent=False)
        self.register_buffer("ring", torch.zeros(3, 4))

    def forward(self, x):
        self.total.mul_(0.9).add_(x.mean(0), alpha=0.1)
        self.calls += 1
        self.ring = torch.roll(self.ring, 1, 0)
        self.ring[0] = x[0]
        return x - self.total, self.ring.sum(), self.calls * 2


PROGRAMS["buffers_written"] = lambda: (Counter(), (r(5, 4),))


# Structures.
Pair = collections.namedtuple("Pair", "first second")
pytree._register_namedtuple(Pair, serialized_type_name="zoo.Pair")


@dataclasses.dataclass
class State:
    hidden: torch.Tensor
    steps: torch.Tensor


torch.export.register_dataclass(State, serialized_type_name="zoo.State")


class Structures(nn.Module):
    def forward(self, state, batch: dict, pair, *rest, scale: float = 2.0, flag: bool = True):
        x, (y, z) = batch["x"], batch["deep"][0]
        total = x * scale + state.hidden + pair[0] + sum(rest) if flag else x
        return {
            "out": State(total, state.steps + 1),
            "list": [y, (z * 2, {"n": x.shape[0], "s": scale, "none": None})],
            "empty": (),
        }


PROGRAMS["structures"] = lambda: (
    Structures(),
    (State(r(3), torch.tensor(4)), {"x": r(3), "deep": [(r(2), r(2))]}, (r(3), r(1)), r(3), r(1)),
)
add("namedtuple", lambda s, x: Pair(x + 1, {"k": [x, (x * 2,)]}), lambda: r(3))


class Numbers(nn.Module):
    def forward(self, x, n: int, f: float, b: bool, nothing):
        y = x * n + f
        return (y if b else -y), n, f, b, None, x.shape[0], -x.numel()


PROGRAMS["numbers"] = lambda: (Numbers(), (r(3, 4), 3, 2.5, True, None))


class Sized(nn.Module):
    def forward(self, x, y):
        n, m = x.shape
        h = torch.cat([x, y], 0).reshape(-1, m // 2, 2).sum(-1)
        return (
            h,
            x.new_zeros(n * 2, m),
            torch.arange(n) * m,
            x[: n - 1],
            F.pad(x, (0, n % 3)),
            {"n": n, "sum": n + y.shape[0] * m},
            x.view(n, -1).t() @ x,
            torch.full((n,), float(m)),
            h.flatten().unfold(0, 2, 2),
        )


PROGRAMS["symbolic_sizes"] = lambda: (
    Sized(),
    (r(5, 6), r(3, 6)),
    {"x": {0: D("n", min=4, max=100)}, "y": {0: D("k", min=2, max=100)}},
    [(r(4, 6), r(9, 6)), (r(17, 6), r(4, 6))],
)
PROGRAMS["symbolic_images"] = lambda: (
    nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        nn.Upsample(scale_factor=2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 4),
    ).eval(),
    (r(2, 3, 16, 20),),
    ({0: D("n", min=1, max=9), 2: D("h", min=8, max=64), 3: D("w", min=8, max=64)},),
    [(r(1, 3, 9, 33),), (r(5, 3, 64, 8),)],
)
PROGRAMS["symbolic_attention"] = lambda: (
    nn.TransformerEncoder(
        nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 1, enable_nested_tensor=False
    ).eval(),
    (r(2, 7, 16),),
    ({0: D("b", min=2, max=9), 1: D("t", min=2, max=64)},),
    [(r(3, 2, 16),)],
)


class Branch(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda t: t.sin() + 1, lambda t: t.cos() - 1, (x,))


class Loop(nn.Module):
    def forward(self, x):
        from torch._higher_order_ops.while_loop import while_loop

        return while_loop(lambda i, t: i < 5, lambda i, t: (i + 1, t * 0.5 + 1), (torch.tensor(0), x))


PROGRAMS["cond"] = lambda: (Branch(), (r(4),))
PROGRAMS["while_loop"] = lambda: (Loop(), (r(4),))
add(
    "empty_sizes",
    lambda s, x: (
        x.sum(),
        x.sum(0),
        torch.cat([x, x + 1]),
        x @ x.t(),
        x.t() @ x,
        x.reshape(4, 0),
        x.new_ones(3, 0),
        x.any(),
    ),
    lambda: r(0, 4),
)
add(
    "zero_rank",
    lambda s, x: (
        x * 2,
        x.expand(3),
        x.reshape(1),
        x.softmax(0),
        x.cumsum(0),
        x.sort()[0],
        x.max(),
        torch.stack([x, x]),
        x[None],
    ),
    lambda: r(()),
)
add(
    "not_contiguous",
    lambda s, x: (x * 2, x.reshape(-1), x.sum(0), x.contiguous(), torch.empty_like(x).copy_(x)),
    lambda: r(4, 6).t(),
)


# Small nets of several kinds.
def unet():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.up, self.out = (
                nn.Conv2d(3, 8, 3, padding=1),
                nn.Conv2d(8, 8, 3, stride=2, padding=1),
                nn.ConvTranspose2d(8, 8, 2, 2),
                nn.Conv2d(16, 2, 1),
            )

        def forward(self, x):
            a = F.leaky_relu(self.a(x), 0.1)
            return self.out(torch.cat([self.up(F.silu(self.b(a))), a], 1)).sigmoid()

    return Net().eval(), (r(1, 3, 16, 16),)


def vae():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.encode, self.decode = nn.Linear(12, 8), nn.Linear(4, 12)

        def forward(self, x, noise):
            mean, log = self.encode(x).chunk(2, -1)
            y = self.decode(mean + noise * (0.5 * log).exp())
            return y, F.mse_loss(y, x) - 0.5 * (1 + log - mean.pow(2) - log.exp()).mean()

    return Net(), (r(3, 12), r(3, 4))


def diffusion_step():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.time, self.mid, self.norm = nn.Linear(16, 8), nn.Conv2d(8, 8, 3, padding=1), nn.GroupNorm(4, 8)
            self.register_buffer("alphas", torch.linspace(0.99, 0.1, 20).cumprod(0))

        def forward(self, x, t):
            f = torch.exp(-math.log(1e4) * torch.arange(8) / 8) * t[:, None]
            h = self.norm(self.mid(x) + self.time(torch.cat([f.sin(), f.cos()], -1))[..., None, None])
            a = self.alphas[t].view(-1, 1, 1, 1)
            return (x - (1 - a).sqrt() * F.silu(h)) / a.sqrt()

    return Net(), (r(2, 8, 6, 6), torch.tensor([3, 17]))


def gradients():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(6, 3)

        def forward(self, x):
            return torch.func.vmap(lambda v: self.l(v).sin().sum())(x), torch.func.vmap(lambda v: v * v.max())(x)

    return Net(), (r(4, 6),)


def wavenet():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.convs = nn.ModuleList(
                nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 8, 2, dilation=2**i)) for i in range(3)
            )

        def forward(self, x):
            for i, c in enumerate(self.convs):
                a, b = c(F.pad(x, (2**i, 0))).chunk(2, 1)
                x = x + a.tanh() * b.sigmoid()
            return x

    return Net().eval(), (r(2, 4, 20),)


def vq():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.book = nn.Embedding(16, 4)

        def forward(self, x):
            i = torch.cdist(x, self.book.weight).argmin(-1)
            q = self.book(i)
            return x + (q - x).detach(), i, F.mse_loss(q, x), torch.bincount(i.flatten(), minlength=16)

    return Net(), (r(2, 5, 4),)


def boxes(s, a, b):
    """Intersection over union, and one step of greedy suppression."""
    top, low = torch.maximum(a[:, None, :2], b[None, :, :2]), torch.minimum(a[:, None, 2:], b[None, :, 2:])
    inter = (low - top).clamp(min=0).prod(-1)
    area = lambda x: (x[:, 2:] - x[:, :2]).prod(-1)
    iou = inter / (area(a)[:, None] + area(b) - inter + 1e-6)
    return iou, iou.max(1), (iou > 0.1).float().triu(1).sum(0)


corners = lambda: torch.rand(5, 4).cumsum(-1)
add("boxes", boxes, corners, corners)
PROGRAMS |= {
    "unet": unet,
    "vae": vae,
    "diffusion_step": diffusion_step,
    "vmap": gradients,
    "wavenet": wavenet,
    "vq": vq,
}
add(
    "spectral_norm",
    lambda s, x: s.m(x),
    lambda: r(3, 6),
    modules=dict(m=lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(6, 4)).eval()),
)
add(
    "orthogonal",
    lambda s, x: s.m(x),
    lambda: r(3, 6),
    modules=dict(m=lambda: nn.utils.parametrizations.orthogonal(nn.Linear(6, 6)).eval()),
)
add(
    "hypernetwork",
    lambda s, x, w: torch.bmm(x, w.unflatten(1, (8, 4)))
    + F.conv1d(
        x.reshape(1, -1, 8),
        w[:, :8].reshape(2 * 3, 1, -1)[:, :, :3].repeat(1, 1, 1) if False else torch.ones(3 * 2, 1, 3),
        padding=1,
        groups=6,
    ).reshape(2, 3, 8)[..., :4],
    lambda: r(2, 3, 8),
    lambda: r(2, 32),
)
