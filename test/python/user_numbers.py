"""Programs of `user_harness.py`: functional transforms, states and loops, geometry, precision, complex signals,
optimizers, quantization, sampling."""

import collections
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, jvp, vjp, vmap

from user_harness import program

R = torch.randn
I = torch.randint
D = lambda *s: torch.randn(*s, dtype=torch.float64)
C = lambda *s: torch.randn(*s, dtype=torch.complex64)


class SquareRootPlus(torch.autograd.Function):
    """Saves tensors and numbers, looks at which gradients are wanted, marks a result as without one."""

    @staticmethod
    def forward(ctx, x, w, power):
        y = (x.abs() + 1e-3).pow(power)
        sign = x.sign()
        ctx.save_for_backward(y, sign, w)
        ctx.power = power
        ctx.mark_non_differentiable(sign)
        return y * w, sign

    @staticmethod
    def backward(ctx, g, _):
        y, sign, w = ctx.saved_tensors
        p = ctx.power
        gx = g * w * p * y.pow((p - 1) / p) * sign if ctx.needs_input_grad[0] else None
        gw = (g * y).sum(0) if ctx.needs_input_grad[1] else None
        return gx, gw, None


@program(lambda: (R(4, 5), R(5)), lambda: (R(3, 5), R(5)), grad=True, package=False)
def own_function_of_many_kinds(x, w):
    y, sign = SquareRootPlus.apply(x, w, 0.5)
    z, _ = SquareRootPlus.apply(y, w.detach(), 2.0)
    return z + sign, y


@program(lambda: (R(3, 4), R(3, 4), R(4, 4)), lambda: (R(5, 4), R(5, 4), R(4, 4)), grad=True, package=False)
def products_with_derivatives(x, v, w):
    f = lambda t: torch.tanh(t @ w).square().sum()
    value, slope = jvp(f, (x,), (v,))
    _, hv = jvp(grad(f), (x,), (v,))
    out, back = vjp(lambda t: (t @ w).sin(), x)
    (pulled,) = back(out)
    each = vmap(grad(lambda t: (t @ w).cos().prod()))(x)
    return value, slope, hv, pulled, each


@program(
    lambda: ({"a": R(5, 3), "b": [R(3, 5), R(5)]}, R(3)),
    lambda: ({"a": R(2, 3), "b": [R(3, 2), R(2)]}, R(3)),
    grad=True,
    dynamic=False,
    package=False,
)
def vmap_over_structures(tree, w):
    def one(t, w):
        a, (b, c) = t["a"], t["b"]
        return {"sum": (a + b) * c, "dot": a @ w}, (torch.stack([a, b]), a.softmax(0).cumsum(0))

    dims = {"a": 0, "b": [1, 0]}
    first = vmap(one, in_dims=(dims, None), out_dims=({"sum": 1, "dot": 0}, (0, -1)))(tree, w)
    chosen = vmap(lambda a, i: a.index_select(0, i))(tree["a"], torch.arange(3).flip(0).expand(len(tree["a"]), 3))
    return first, chosen


@program(lambda: (R(2, 6, 4), I(1, 7, (2,))), lambda: (R(3, 6, 4), I(1, 7, (3,))), grad=True)
class NormedCellWithZoneout(nn.Module):
    def __init__(self):
        super().__init__()
        self.wx, self.wh = nn.Linear(4, 20), nn.Linear(5, 20, bias=False)
        self.norms = nn.ModuleList(nn.LayerNorm(5) for _ in range(5))
        self.peep = nn.Parameter(R(3, 5) * 0.1)

    def forward(self, x, lengths):
        h = c = x.new_zeros(len(x), 5)
        out = []
        for t in range(x.shape[1]):
            i, f, g, o = (n(z) for n, z in zip(self.norms, (self.wx(x[:, t]) + self.wh(h)).chunk(4, 1)))
            i, f = torch.sigmoid(i + self.peep[0] * c), torch.sigmoid(f + self.peep[1] * c + 1)
            new = f * c + i * torch.tanh(g)
            o = torch.sigmoid(o + self.peep[2] * new)
            alive = (t < lengths)[:, None]
            c = torch.where(alive, 0.9 * new + 0.1 * c, c)
            h = torch.where(alive, o * self.norms[4](c).tanh(), h)
            out.append(h * alive)
        return torch.stack(out, 1), (h, c)


@program(lambda: (R(4, 6),), lambda: (R(2, 6),), grad=True, package=False)
class QueueOfKeys(nn.Module):
    """Buffers that are written in training: a queue with a pointer, running statistics, a slow copy of weights."""

    def __init__(self):
        super().__init__()
        self.query, self.key = nn.Linear(6, 4), nn.Linear(6, 4)
        self.register_buffer("queue", F.normalize(R(4, 8), dim=0))
        self.register_buffer("at", torch.zeros(1, dtype=torch.long))
        self.register_buffer("mean", torch.zeros(6))
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x):
        self.calls += 1
        self.mean.lerp_(x.detach().mean(0), 0.1)
        x = x - self.mean
        with torch.no_grad():
            for slow, fast in zip(self.key.parameters(), self.query.parameters()):
                slow.mul_(0.99).add_(fast, alpha=0.01)
            k = F.normalize(self.key(x), dim=1)
        q = F.normalize(self.query(x), dim=1)
        logits = torch.cat([(q * k).sum(1, keepdim=True), q @ self.queue.clone()], 1) / 0.07
        with torch.no_grad():
            places = (self.at + torch.arange(len(x))) % 8
            self.queue[:, places] = k.t()
            self.at[0] = (self.at[0] + len(x)) % 8
        return F.cross_entropy(logits, torch.zeros(len(x), dtype=torch.long)), logits


Pair = collections.namedtuple("Pair", "left right")


@program(
    lambda: (R(3, 4), {"b": R(4), "a": [R(2), (R(1), None)]}),
    lambda: (R(2, 4), {"b": R(4), "a": [R(2), (R(1), None)]}),
    grad=True,
    package=False,
)
def deep_structures(x, tree):
    a, (one, nothing) = tree["a"]
    inner = collections.OrderedDict(z=x * tree["b"], y=Pair(x, [x.sum(), nothing, 3, "name", True]))
    return [inner, {"k": (a.outer(one), ()), 5: [[x[0]], {}]}, Pair(None, x[1:]), 2.5]


@program(lambda: (R(5, 4), R(5, 4), torch.rand(5)), lambda: (R(3, 4), R(3, 4), torch.rand(3)), grad=True)
def quaternions(p, q, t):
    p, q = F.normalize(p, dim=-1), F.normalize(q, dim=-1)

    def times(a, b):
        w = a[..., :1] * b[..., :1] - (a[..., 1:] * b[..., 1:]).sum(-1, keepdim=True)
        return torch.cat(
            [w, a[..., :1] * b[..., 1:] + b[..., :1] * a[..., 1:] + torch.linalg.cross(a[..., 1:], b[..., 1:])], -1
        )

    dot = (p * q).sum(-1, keepdim=True)
    near = torch.where(dot < 0, -q, q)
    angle = dot.abs().clamp(max=1 - 1e-4).acos()
    t = t[:, None]
    between = (((1 - t) * angle).sin() * p + (t * angle).sin() * near) / angle.sin()
    w, x, y, z = times(p, q).unbind(-1)
    rows = [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y), 2 * (x * y + w * z),
            1 - 2 * (x * x + z * z), 2 * (y * z - w * x), 2 * (x * z - w * y), 2 * (y * z + w * x),
            1 - 2 * (x * x + y * y)]  # fmt: skip
    matrix = torch.stack(rows, -1).unflatten(-1, (3, 3))
    trace = matrix.diagonal(dim1=-2, dim2=-1).sum(-1)
    euler = torch.atan2(matrix[:, 2, 1], matrix[:, 2, 2]), torch.asin(-matrix[:, 2, 0].clamp(-0.999, 0.999))
    return between, matrix, trace, euler, torch.linalg.det(matrix), matrix @ matrix.mT


@program(lambda: (R(2, 7, 3), R(2, 5, 3)), lambda: (R(1, 4, 3), R(1, 6, 3)), grad=True)
def distances_of_clouds(a, b):
    d = [torch.cdist(a, b, p) for p in (1.0, 2.0, 3.0, math.inf)]
    chamfer = d[1].amin(2).mean(1) + d[1].amin(1).mean(1)
    hausdorff = torch.maximum(d[0].amin(2).amax(1), d[0].amin(1).amax(1))
    match = b.gather(1, d[1].argmin(2)[..., None].expand(-1, -1, 3))
    ca, cm = a.mean(1, keepdim=True), match.mean(1, keepdim=True)
    cross = (a - ca).mT @ (match - cm)
    area = torch.linalg.cross(a[:, 1:] - a[:, :-1], match[:, 1:] - a[:, :-1]).norm(dim=-1) / 2
    inside = (
        torch.linalg.vector_norm(a, 4, dim=-1),
        F.pairwise_distance(a, match, p=1),
        F.cosine_similarity(a, match, -1),
    )
    return d, chamfer, hausdorff, cross, area, inside, F.pdist(a[0])


@program(
    lambda: (R(2, 4, 12, 8), R(2, 4, 12, 8), R(2, 4, 12, 8)),
    lambda: (R(1, 4, 16, 8), R(1, 4, 16, 8), R(1, 4, 16, 8)),
    grad=True,
    bf16=True,
)
def attention_over_sparse_masks(q, k, v):
    n = q.shape[-2]
    place = torch.arange(n)
    block = place // 4
    local = (block[:, None] - block).abs() <= 1
    mask = local | (place < 2) | (place[:, None] < 2) | ((place[:, None] * 7 + place) % 5 == 0)
    empty = mask & (place[:, None] != 5)
    usual = F.scaled_dot_product_attention(q, k, v, mask)
    without = F.scaled_dot_product_attention(q, k, v, empty)
    score = q @ k.mT / 8**0.5
    kth = score.topk(4, -1).values[..., -1:]
    top = score.masked_fill(score < kth, -torch.inf).softmax(-1) @ v
    entropy = torch.special.entr(score.softmax(-1)).sum(-1)
    talking = torch.einsum("bhqk,hg->bgqk", score, torch.linspace(-1, 1, 16).view(4, 4).to(q)).softmax(-1) @ v
    return usual, without, top, entropy, talking


@program(lambda: (R(2, 300), R(9)), lambda: (R(3, 260), R(9)), grad=True)
def filters_by_transforms(x, taps):
    direct = F.conv1d(x[:, None], taps.flip(0)[None, None], padding=8)[:, 0]
    n = x.shape[-1] + 8
    by_fft = torch.fft.irfft(torch.fft.rfft(x, n) * torch.fft.rfft(taps, n), n)
    window = torch.hamming_window(32, periodic=False)
    z = torch.stft(x, 32, 8, window=window, normalized=True, onesided=True, return_complex=True)
    gate = torch.sigmoid(z.abs() - z.abs().mean((1, 2), keepdim=True))
    clean = torch.istft(z * gate, 32, 8, window=window, normalized=True, length=x.shape[-1])
    frames = x.unfold(-1, 32, 16) * torch.blackman_window(32)
    power = torch.fft.rfft(frames, norm="ortho").abs().square().mean(1)
    lag = torch.fft.ifft(torch.fft.fft(x, dim=-1).abs().square(), dim=-1).real[:, :20]
    shifted = (
        torch.fft.fftshift(torch.fft.fftfreq(8)),
        torch.fft.fft2(x[:, :36].reshape(-1, 6, 6)).real,
        torch.fft.hfft(z[:, :9, 0]),
    )
    return direct, by_fft, clean, power, lag, shifted


@program(lambda: (C(2, 6), R(2, 6), C(6, 6)), lambda: (C(3, 6), R(3, 6), C(6, 6)), grad=True)
def complex_of_many_kinds(z, x, m):
    polar = torch.polar(x.exp(), x), z.angle(), z.abs() ** 2, torch.view_as_real(z * 1j), z.sgn()
    product = (z @ m) * z.conj().roll(1, -1), torch.einsum("bi,ij,bj->b", z.conj(), m, z).real, torch.vdot(z[0], z[1])
    smooth = torch.exp(1j * x) + z / (1 + z.abs()), torch.log(z), z.pow(0.5), torch.tanh(z), z.reciprocal()
    joined = (
        torch.cat([z, torch.complex(x, -x)], 1).cumsum(1).mean(1),
        torch.where(x > 0, z, z.conj()),
        (z.real > z.imag).sum(),
    )
    return polar, product, smooth, joined, z.mT.resolve_conj().norm(), torch.outer(z[0], z[1].conj())


@program(lambda: (D(50) * 1e8, D(50), D(5)), lambda: (D(30) * 1e8, D(30), D(5)), grad=True, tolerance=1e-10)
def careful_sums(x, y, p):
    total, lost = x.new_zeros(()), x.new_zeros(())
    for each in x[:20].unbind():
        t = total + each
        lost = lost + torch.where(total.abs() >= each.abs(), (total - t) + each, (each - t) + total)
        total = t
    high = x * 134217729.0
    high = high - (high - x)
    value = p[0]
    for c in p[1:].unbind():
        value = torch.addcmul(c, value, y)
    tails = (
        torch.special.log_ndtr(-y.abs() * 10),
        torch.special.erfcx(y.abs()),
        torch.expm1(y * 1e-9),
        torch.log1p(y.square() * 1e-12),
    )
    gammas = (
        torch.lgamma(y.abs() + 1),
        torch.digamma(y.abs() + 1),
        torch.special.gammaincc(y.detach().abs() + 0.5, y.abs()),
        torch.xlogy(y.square(), y.square()),
    )
    return (
        total + lost,
        x - high,
        value,
        tails,
        gammas,
        torch.trapezoid(y, x),
        torch.logsumexp(x / 1e8, 0),
        torch.hypot(x, y),
        torch.nextafter(y.detach(), x.detach()),
    )


@program(lambda: ([R(4, 3), R(3)], [R(4, 3), R(3)], [R(4, 3), R(3)], 3), grad=False, package=False)
def optimizers_by_hand(weights, gradients, momenta, step):
    new, norm = [], torch.stack([g.norm() for g in gradients]).norm()
    for w, g, m in zip(weights, gradients, momenta):
        g = g * (1.0 / norm.clamp(min=1.0))
        w.mul_(1 - 1e-2)
        w.add_((m * 0.9 + g * 0.1).sign_(), alpha=-1e-3)
        m.lerp_(g, 0.01)
        if g.dim() == 2:
            row, column = g.square().mean(1), g.square().mean(0)
            second = torch.outer(row, column) / row.mean()
            left = g @ g.T + 1e-2 * torch.eye(len(g))
            values, vectors = torch.linalg.eigh(left)
            new.append((vectors * values.pow(-0.25)) @ vectors.T @ g)
        else:
            second = g.square() * (1 - 0.999**step)
        w.addcdiv_(g, second.sqrt().add_(1e-8), value=-1e-2)
    torch._foreach_mul_(momenta, 0.5)
    torch._foreach_add_(momenta, gradients, alpha=2.0)
    return new, norm, torch._foreach_norm(gradients)


@program(lambda: (R(3, 4), R(10)), lambda: (R(5, 4), R(10)), grad=True)
def loops_of_higher_order(x, w):
    def step(carry, row):
        h, n = carry
        h = torch.tanh(h + row)
        return (h, n + h.sum()), (h * 2, row - h.mean())

    from torch._higher_order_ops import scan

    last, seen = scan(step, (x[0] * 0.5, x.sum()), x)
    behind, _ = scan(lambda c, r: (c * 0.5 + r, c.sum()), x[0] + 0, x, reverse=True)
    return last, seen, behind, w.cumsum(0)


@program(lambda: (R(6, 4), torch.tensor(3)), lambda: (R(4, 4), torch.tensor(2)))
def loops_within_branches(x, n):
    from torch._higher_order_ops import while_loop

    def grown(x):
        return while_loop(
            lambda i, t: (i < n) & (t.abs().max() < 50),
            lambda i, t: (i + 1, t * 2 + t.roll(1, 0)),
            (torch.zeros_like(n), x.clone()),
        )

    count, big = torch.cond(x.sum() > 0, grown, lambda x: (torch.ones_like(n), x.sin()), (x,))
    return count, torch.cond(count > 2, lambda t: t.cumsum(0), lambda t: t.flip(0) + 0, (big,))


@program(
    lambda: (R(3, 5), R(5, 2), R(2, 4), R(3, 4), R(4)), lambda: (R(2, 5), R(5, 2), R(2, 4), R(2, 4), R(4)), grad=True
)
def einsums_of_many_operands(a, b, c, d, e):
    chain = torch.einsum("ij,jk,kl,il,l->ij", a, b, c, d, e)
    traced = (
        torch.einsum("ii->i", a[:, : a.shape[0]]),
        torch.einsum("ij,ij->", a, a),
        torch.einsum("...i,...j->...ij", a, d),
    )
    outer = torch.einsum("i,j,k->kij", a[:, 0], b[0], e), torch.einsum("bi,ij,bk->bjk", a, b, d)
    return (
        chain,
        traced,
        outer,
        torch.linalg.multi_dot([a, b, c, d.T]),
        torch.tensordot(a, b, ([1], [0])),
        torch.chain_matmul(a, b, c),
    )


class Observer(nn.Module):
    def __init__(self, channels=None):
        super().__init__()
        self.channels = channels
        self.register_buffer("low", torch.zeros(channels or 1))
        self.register_buffer("high", torch.zeros(channels or 1))
        self.register_buffer("seen", torch.tensor(False))

    def forward(self, x):
        flat = x.detach().flatten(1) if self.channels else x.detach().reshape(1, -1)
        low, high = flat.aminmax(dim=1)
        self.low.copy_(torch.where(self.seen, 0.9 * self.low + 0.1 * low, low))
        self.high.copy_(torch.where(self.seen, 0.9 * self.high + 0.1 * high, high))
        self.seen.fill_(True)
        scale = ((self.high.clamp(min=0) - self.low.clamp(max=0)) / 255).clamp(min=1e-6)
        zero = (-128 - self.low.clamp(max=0) / scale).round().clamp(-128, 127).int()
        if self.channels:
            return torch.fake_quantize_per_channel_affine(x, scale, zero, 0, -128, 127)
        return torch.fake_quantize_per_tensor_affine(x, scale, zero, -128, 127)


@program(lambda: (R(4, 3, 6, 6),), lambda: (R(2, 3, 6, 6),), grad=True, package=False)
class QuantizationAware(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4)
        self.weight, self.before, self.after = Observer(4), Observer(), Observer()
        self.step = nn.Parameter(torch.tensor(0.1))

    def forward(self, x):
        y = F.conv2d(self.before(x), self.weight(self.conv.weight))
        y = self.after(self.norm(y).relu())
        g = 1.0 / math.sqrt(y.numel() * 7)
        s = (self.step - self.step * g).detach() + self.step * g
        z = (y / s).clamp(-8, 7)
        return ((z.round() - z).detach() + z) * s


@program(
    lambda: (R(3, 12), torch.rand(3, 1), I(0, 12, (3, 4)), torch.rand(3, 12)),
    lambda: (R(2, 9), torch.rand(2, 1), I(0, 9, (2, 4)), torch.rand(2, 9)),
)
def sampling_from_given_numbers(logits, u, before, noise):
    score = logits.gather(1, before)
    logits = logits.scatter(1, before, torch.where(score < 0, score * 1.3, score / 1.3))
    logits = logits / 0.8
    p = logits.softmax(-1)
    small = p < 0.05 * p.amax(-1, keepdim=True)
    surprise = (-p.clamp(min=1e-9).log() + (p * p.log()).sum(-1, keepdim=True)).abs()
    order = surprise.argsort(-1)
    last = (p.gather(1, order).cumsum(-1) < 0.7).sum(1)
    beyond = surprise > surprise.gather(1, order).gather(1, last[:, None].clamp(max=p.shape[1] - 1))
    kept = logits.masked_fill(small, -torch.inf)
    typical = logits.masked_fill(beyond, -torch.inf).softmax(-1)
    drawn = torch.searchsorted(kept.softmax(-1).cumsum(-1), u).clamp(max=p.shape[1] - 1)
    gumbel = (logits - (-noise.clamp(1e-6, 1 - 1e-6).log()).log()).topk(3, -1)
    accept = noise < (p / typical.clamp(min=1e-6)).clamp(max=1)
    return drawn, typical, gumbel.indices, accept, accept.int().cumprod(-1).sum(-1)


@program(lambda: (R(2, 5, 3), R(3, 3)), lambda: (R(2, 7, 3), R(3, 3)), grad=True, package=False)
def fixed_point_with_gradient(x, w):
    w = w / (2 * torch.linalg.matrix_norm(w.detach(), 2))
    with torch.no_grad():
        z = torch.zeros_like(x)
        for _ in range(12):
            z = torch.tanh(z @ w + x)
    z = torch.tanh(z @ w + x)
    again = z.detach().requires_grad_()
    return z, torch.tanh(again @ w + x).sum((1, 2)), functional_call(nn.Linear(3, 3, bias=False), {"weight": w}, (x,))
