"""Programs of `user_harness.py`: losses, samplers, caches, rotations, segments, writes through views, spectra,
quantization, mixtures and codebooks."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from user_harness import program

R = torch.randn
U = torch.rand
I = torch.randint
KINDS = ("sum", "mean", "max", "min", "prod")


def C(*sizes):
    return torch.randn(*sizes, dtype=torch.complex64)


def ctc_arguments(t, n, c, s):
    return R(t, n, c), I(1, c, (n, s)), torch.full((n,), t), I(1, s + 1, (n,))


def angles(x, pos, base=10000.0):
    d = x.shape[-1]
    inv = base ** (-torch.arange(0, d, 2, dtype=torch.float32, device=x.device) / d)
    ang = pos[:, None].float() * inv
    return ang.cos().to(x.dtype), ang.sin().to(x.dtype)


@program(lambda: ctc_arguments(12, 3, 6, 4), lambda: ctc_arguments(15, 2, 6, 4), grad=True, package=False)
def ctc_losses_of_torch(logits, targets, lengths, target_lengths):
    lp = logits.log_softmax(-1)
    a = F.ctc_loss(lp, targets, lengths, target_lengths, reduction="none", zero_infinity=True)
    b = F.ctc_loss(lp, targets, lengths - 3, target_lengths, blank=0, reduction="mean")
    return a, b, a.sum() + 2 * b


@program(lambda: (R(8, 6), I(0, 3, (8,))), lambda: (R(11, 6), I(0, 3, (11,))), grad=True)
def triplets_of_the_hardest(e, y):
    d = torch.cdist(e, e)
    same = y[:, None] == y[None]
    eye = torch.eye(len(y), dtype=torch.bool, device=e.device)
    pos = d.masked_fill(~same | eye, -torch.inf).amax(1)
    neg = d.masked_fill(same, torch.inf).amin(1)
    ok = pos.isfinite() & neg.isfinite()
    loss = torch.where(ok, F.relu(pos - neg + 0.3), torch.zeros_like(pos))
    return loss.sum() / ok.sum().clamp(min=1), F.triplet_margin_loss(e[:-2], e[1:-1], e[2:], swap=True, p=1.0)


@program(lambda: (R(3, 20), U(3, 1)), lambda: (R(5, 20), U(5, 1)))
def sampling_by_three_limits(logits, u):
    kth = logits.topk(8, -1).values[..., -1:]
    logits = logits.masked_fill(logits < kth, -math.inf)
    s, idx = logits.sort(-1, descending=True)
    probs = s.softmax(-1)
    drop = probs.cumsum(-1) - probs > 0.8
    s = s.masked_fill(drop, -math.inf)
    logits = torch.empty_like(logits).scatter_(-1, idx, s)
    p = logits.softmax(-1)
    p = torch.where(p < 0.05 * p.amax(-1, keepdim=True), 0.0, p)
    p /= p.sum(-1, keepdim=True)
    tok = torch.searchsorted(p.cumsum(-1), u).clamp(max=19)
    return tok, p, p.log().masked_fill(p == 0, 0).gather(-1, tok)


@program(
    lambda: (R(2, 5, 9).softmax(-1), R(2, 5, 9).softmax(-1), I(0, 9, (2, 5)), U(2, 5)),
    lambda: (R(3, 4, 9).softmax(-1), R(3, 4, 9).softmax(-1), I(0, 9, (3, 4)), U(3, 4)),
)
def speculative_acceptance(target, draft, tokens, u):
    pt = target.gather(-1, tokens[..., None])[..., 0]
    pd = draft.gather(-1, tokens[..., None])[..., 0]
    accept = u < (pt / pd).clamp(max=1)
    n = accept.int().cumprod(-1).sum(-1)
    j = n.clamp(max=tokens.shape[1] - 1)
    rest = (target - draft).clamp(min=0)
    row = rest[torch.arange(len(j)), j]
    row = row / row.sum(-1, keepdim=True)
    out = torch.where(torch.arange(tokens.shape[1]) < n[:, None], tokens, -1)
    return n, row, out, tuple(out.max(-1))


@program(
    lambda: (
        R(2, 2, 3),
        R(2, 2, 3),
        R(2, 2, 3),
        torch.tensor([3, 9]),
        torch.tensor([[0, 1], [2, 3]]),
        torch.tensor([4, 2]),
    ),
    lambda: (
        R(3, 2, 3),
        R(3, 2, 3),
        R(3, 2, 3),
        torch.tensor([1, 9, 20]),
        torch.tensor([[0, 1], [2, 3], [5, 4]]),
        torch.tensor([3, 3, 8]),
    ),
)
class PagedCache(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("k", torch.zeros(6, 4, 2, 3))
        self.register_buffer("v", torch.zeros(6, 4, 2, 3))

    def forward(self, q, k, v, slots, table, lens):
        self.k.view(24, 2, 3).index_copy_(0, slots, k)
        self.v.view(24, 2, 3)[slots] = v
        keys = self.k[table].flatten(1, 2)
        vals = self.v[table].flatten(1, 2)
        mask = torch.arange(keys.shape[1]) < lens[:, None]
        return F.scaled_dot_product_attention(
            q[:, :, None], keys.transpose(1, 2), vals.transpose(1, 2), mask[:, None, None]
        )


@program(lambda: (R(2, 5, 2, 8), torch.arange(5)), lambda: (R(3, 7, 2, 8), torch.arange(7) + 3), grad=True, bf16=True)
def rotary_four_ways(x, pos):
    c, s = angles(x, pos)
    c, s = c[:, None], s[:, None]
    a, b = x.chunk(2, -1)
    neox = torch.cat([a * c - b * s, b * c + a * s], -1)
    e, o = x[..., ::2], x[..., 1::2]
    gptj = torch.stack([e * c - o * s, o * c + e * s], -1).flatten(-2)
    z = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous())
    cplx = torch.view_as_real(z * torch.polar(torch.ones_like(c.float()), torch.atan2(s.float(), c.float()))).flatten(
        -2
    )
    part = torch.cat([neox[..., :4], x[..., 4:]], -1)
    return neox, gptj, cplx.type_as(x), part


@program(
    lambda: (R(2, 4, 6, 8), R(2, 2, 6, 8), R(2, 2, 6, 8)),
    lambda: (R(1, 4, 9, 8), R(1, 2, 9, 8), R(1, 2, 9, 8)),
    grad=True,
    bf16=True,
)
def windows_of_attention_with_slopes(q, k, v):
    h, n = q.shape[1], q.shape[2]
    slopes = 2 ** (-8 * torch.arange(1, h + 1) / h)
    i = torch.arange(n)
    dist = i[:, None] - i
    bias = (-slopes[:, None, None] * dist).masked_fill((dist < 0) | (dist >= 3), -math.inf).to(q.dtype)
    sink = bias.clone()
    sink[:, :, 0] = 0
    a = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, enable_gqa=True)
    k2, v2 = (t.repeat_interleave(2, 1) for t in (k, v))
    p = torch.softmax(q @ k2.mT / math.sqrt(8) + sink, -1, dtype=torch.float32).to(q.dtype)
    cap = 5 * torch.tanh(q @ k2.mT / 5)
    return a, p @ v2, cap.amax(-1)


@program(lambda: (R(2, 40), R(9)), lambda: (R(3, 48), R(9)), grad=True)
def filters_by_spectra_of_other_lengths(x, h):
    n = x.shape[-1] + h.shape[0] - 1
    y = torch.fft.irfft(torch.fft.rfft(x, n) * torch.fft.rfft(h, n), n)
    z = torch.fft.fftshift(torch.fft.fft2(x[:, :36].reshape(-1, 6, 6), norm="ortho"), dim=(-2, -1))
    low = z * (
        torch.hypot(torch.fft.fftshift(torch.fft.fftfreq(6))[:, None], torch.fft.fftshift(torch.fft.fftfreq(6))[None])
        < 0.3
    )
    back = torch.fft.ifft2(torch.fft.ifftshift(low, dim=(-2, -1)), norm="ortho").real
    env = torch.fft.ifft(torch.fft.fft(x) * 2)
    return y, back, env.abs(), env.angle().cos(), torch.fft.hfft(z[0, 0], 10), torch.fft.rfftn(x, s=(2, 16)).abs()


@program(
    lambda: (R(10, 3), I(0, 4, (10,)).sort().values, torch.tensor([0, 3, 3, 10])),
    lambda: (R(14, 3), I(0, 4, (14,)).sort().values, torch.tensor([0, 5, 5, 14])),
    grad=True,
)
def segments_of_rows(x, seg, off):
    m = torch.segment_reduce(x, "max", lengths=off.diff(), axis=0, initial=0.0, unsafe=True)
    pairs, lengths = x.reshape(2, -1, 3), torch.tensor([[1, 0, 2], [2, 1, 1]])  # which do not reach the last rows
    of_pairs = [torch.segment_reduce(pairs, how, lengths=lengths, axis=1, initial=1.5, unsafe=True) for how in KINDS]
    s = torch.zeros(4, 3).index_add(0, seg, x)
    mean = torch.zeros(4, 3).scatter_reduce(0, seg[:, None].expand_as(x), x, "mean", include_self=False)
    mx = torch.full((4, 3), -1e9).index_reduce(0, seg, x, "amax")
    soft = (x - mx[seg]).exp()
    return (
        *of_pairs,
        m,
        s,
        mean,
        soft / torch.zeros(4, 3).index_add_(0, seg, soft)[seg],
        torch.bincount(seg, minlength=4),
    )


@program(
    lambda: (R(4, 6), R(3, 6), torch.tensor([0.05]), torch.tensor([3], dtype=torch.int32)),
    lambda: (R(7, 6), R(3, 6), torch.tensor([0.04]), torch.tensor([-2], dtype=torch.int32)),
    grad=True,
    package=False,
)
def fake_quantization(x, w, s, z):
    a = torch.fake_quantize_per_tensor_affine(x, 0.1, 2, -128, 127)
    b = torch.fake_quantize_per_channel_affine(
        w, w.detach().abs().amax(1) / 127, torch.zeros(3, dtype=torch.int32), 0, -127, 127
    )
    c = torch.fake_quantize_per_tensor_affine(x, s.detach(), z, 0, 255)
    ste = x + ((x / s).round().clamp(-8, 7) * s - x).detach()
    q = (x / 0.1).round().clamp(-128, 127).to(torch.int8)
    deq = (q.to(torch.int32) @ (w / 0.1).round().to(torch.int8).T.to(torch.int32)).float() * 0.01
    return a @ b.T, c, ste, deq, q


@program(lambda: (R(4, 5), R(4, 5)), lambda: (R(6, 5), R(6, 5)))
def results_into_new_tensors(x, y):
    out = torch.empty(0)
    torch.add(x, y, out=out)
    mm = torch.empty(x.shape[0], x.shape[0])
    torch.mm(x, y.T, out=mm)
    vals, idx = torch.empty(0), torch.empty(0, dtype=torch.int64)
    torch.sort(x, dim=1, out=(vals, idx))
    cat = torch.empty(2 * x.shape[0], 5)
    torch.cat([x, y], out=cat)
    view = torch.zeros(x.shape[0], 10)
    torch.mul(x, y, out=view[:, 2:7])
    return out, mm, vals, idx, cat, view


@program(lambda: (R(6, 6),), lambda: (R(8, 8),))
def views_of_views_written(x):
    a = x[1:-1].T
    b = a[::2]
    b += 1
    c = x.diagonal()
    c.mul_(2)
    d = x.view(-1)[::3]
    d.neg_()
    e = x.unflatten(0, (2, -1))[1].flatten()
    e[:4] = 7
    f = x.unfold(1, 2, 2)
    f[..., 0].sub_(0.5)
    return x.sum(0), b, e.clone(), f


@program(lambda: (R(30),), lambda: (R(30),), grad=True)
def strides_by_hand(x):
    a = torch.as_strided(x, (4, 3), (5, 2), 1)
    b = x.as_strided((5, 5), (1, 1))
    y = x.clone()
    y.as_strided((3, 2), (7, 3), 2).mul_(3)
    z = torch.as_strided_scatter(x, torch.ones(2, 2), (2, 2), (10, 1), 3)
    return a * 2, b.sum(1), y, z


@program(lambda: (R(4), torch.tensor(5)), lambda: (R(6), torch.tensor(2)))
def loop_in_a_branch_in_a_loop(x, n):
    from torch._higher_order_ops import while_loop

    def body(i, x):
        def up(x):
            return while_loop(
                lambda k, y: k < 3, lambda k, y: (k + 1, y * 1.5), (torch.zeros((), dtype=torch.int64), x)
            )[1]

        return i + 1, torch.cond(x.sum() > 0, up, lambda x: x.abs() + 0.5, (x,))

    return while_loop(lambda i, x: i < n, body, (torch.zeros((), dtype=torch.int64), x))


@program(lambda: (R(0, 4), R(4, 0), R(3, 4)), lambda: (R(0, 4), R(4, 0), R(5, 4)), grad=True)
def tensors_of_no_elements(a, b, x):
    m = torch.cat([x, a, x])
    mm = a @ x.T
    z = b @ b.T
    s = a.sum(0), a.sum(1), b.prod(0), a.mean(), torch.empty(0, 3).softmax(-1)
    k = a.new_zeros(0).cumsum(0)
    f = F.linear(a, x), F.conv1d(R(0, 4, 5) * 0, torch.ones(2, 4, 3))
    w = torch.where(a > 0, a, 0.0)
    st = torch.stack([a, a], 1)
    return m, mm, z, s, k, f[0], f[1].shape[0], w, st, a.view(2, 0, 2).flatten(), torch.logsumexp(b, 0), a.norm()


@program(
    lambda: (
        I(-128, 128, (4, 5), dtype=torch.int8),
        I(0, 256, (4, 5), dtype=torch.uint8),
        I(-9, 9, (4, 5), dtype=torch.int16),
        U(4, 5) > 0.5,
    ),
    lambda: (
        I(-128, 128, (3, 5), dtype=torch.int8),
        I(0, 256, (3, 5), dtype=torch.uint8),
        I(-9, 9, (3, 5), dtype=torch.int16),
        U(3, 5) > 0.5,
    ),
)
def small_integers_mixed(a, b, c, m):
    return (
        a + b,
        a * a,
        b - 3,
        b // 7,
        a // 3,
        a % 5,
        -a,
        a.abs(),
        b + m,
        m + m,
        m * 3,
        a / 2,
        c**2,
        a & b,
        b >> 1,
        a >> 1,
        a << 1,
        b.float() / 255,
        a.sum(),
        b.sum(0),
        m.sum(1),
        b.mean(dtype=torch.float32),
        a.cumsum(0),
        a.prod(1),
        b.max(0).values,
        c.clamp(-3, 3.5),
        torch.maximum(a, c),
        m.int() - a,
        ~b,
        ~m,
        b.to(torch.int8),
        (a.float() * 3.7).to(torch.uint8),
        a == b,
        a > c,
        torch.bitwise_xor(a, m),
        torch.floor_divide(c, 2),
        torch.remainder(c, -4),
        torch.fmod(c, -4),
    )


@program(lambda: (R(4, 8), R(4, 8)), lambda: (R(3, 8), R(3, 8)))
def float8_there_and_back(x, y):
    fp8 = torch.float8_e4m3fn
    s = x.abs().amax(-1, keepdim=True) / 448
    q = (x / s).to(fp8)
    e5 = y.to(torch.float8_e5m2)
    back = q.to(torch.float32) * s
    bits = q.view(torch.uint8)
    return q, e5, back, bits, e5.float() @ back.T, torch.cat([q, q], 1), q[:, ::2], q.T.contiguous()


@program(lambda: (R(12),), lambda: (R(9),))
def sizes_from_sizes_of_data(x):
    pos = x[x > 0]
    idx = (x < 0).nonzero().squeeze(1)
    u, inv, cnt = pos.round().unique(return_inverse=True, return_counts=True)
    a = pos.cumsum(0)
    pad = F.pad(pos, (0, 3))
    outer = pos[:, None] * x[idx][None]
    return pos.sum(), a, pad, outer.mean(1), u, inv, cnt, pos.sort().values, torch.cat([pos, x[idx]]), outer.T @ pos


@program(lambda: (C(4, 4), C(4, 4)), lambda: (C(5, 5), C(5, 5)), grad=True)
def complex_linear_algebra(a, b):
    h = a @ a.mH + torch.eye(len(a)) * 2
    l = torch.linalg.cholesky(h)
    x = torch.linalg.solve(h, b)
    return (
        l @ l.mH,
        x,
        torch.linalg.det(h).real,
        h.diagonal().real,
        (a * b.conj()).sum(),
        torch.vdot(a[0], b[0]),
        torch.einsum("ij,kj->ik", a, b.conj()),
        a.real.T @ b.imag,
        torch.polar(a.abs(), b.angle()),
        torch.sgn(a),
        a.exp() - torch.sin(b),
        a.conj().T.resolve_conj(),
    )


@program(lambda: (R(2, 4, 3), R(2, 1, 3), torch.tensor([1])), lambda: (R(2, 4, 3), R(2, 1, 3), torch.tensor([3])))
def cache_written_four_ways(cache, new, pos):
    a = cache.clone()
    a.index_copy_(1, pos, new)
    b = cache.index_put((torch.arange(2)[:, None], pos[None]), new)
    c = cache.scatter(1, pos.view(1, 1, 1).expand(2, 1, 3), new)
    cache[:, pos] = new
    d = torch.where(torch.arange(4)[:, None] == pos, new, a)
    e = torch.cat([cache[:, 1:], new], 1)
    return a, b, c, d, e


@program(lambda: (I(0, 5, (6,)), R(6, 3)), lambda: (I(0, 5, (9,)), R(9, 3)), grad=True)
def attention_along_edges(idx, x):
    src, dst = idx, idx.flip(0)
    e = (x[src] * x[dst]).sum(-1)
    m = torch.full((x.shape[0],), -1e30).scatter_reduce(0, dst, e, "amax")
    p = (e - m[dst]).exp()
    den = torch.zeros(x.shape[0]).index_add(0, dst, p)
    out = torch.zeros_like(x).index_add(0, dst, (p / den[dst])[:, None] * x[src])
    deg = torch.zeros(x.shape[0], dtype=torch.int64).scatter_add(0, dst, torch.ones_like(dst))
    adj = torch.zeros(x.shape[0], x.shape[0])
    adj[src, dst] += 1.0
    adj.index_put_((src, dst), torch.ones(len(src)), accumulate=True)
    return out, deg, adj


@program(lambda: (R(6, 4),), lambda: (R(9, 4),), grad=True)
class SparseExperts(nn.Module):
    def __init__(self):
        super().__init__()
        self.g = nn.Linear(4, 3)
        self.w1 = nn.Parameter(torch.randn(3, 4, 8) * 0.3)
        self.w2 = nn.Parameter(torch.randn(3, 8, 4) * 0.3)

    def forward(self, x):
        p, e = self.g(x).softmax(-1).topk(2, -1)
        p = p / p.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        for k in range(3):
            t, s = (e == k).nonzero(as_tuple=True)
            out = out.index_add(0, t, (F.silu(x[t] @ self.w1[k]) @ self.w2[k]) * p[t, s, None])
        load = F.one_hot(e, 3).float().mean((0, 1))
        return out, (load * p.mean()).sum()


@program(
    lambda: (I(0, 256, (2, 16), dtype=torch.uint8), R(8, 32)), lambda: (I(0, 256, (3, 16), dtype=torch.uint8), R(8, 32))
)
def products_of_int4(packed, w):
    lo, hi = packed & 0xF, packed >> 4
    q = torch.stack([lo, hi], -1).flatten(-2).to(torch.int8) - 8
    s = torch.tensor(0.05)
    y = (q.float() * s) @ w.T
    acc = q.int() @ q.int().T
    nib = torch.bitwise_or(torch.bitwise_left_shift(hi, 4), lo)
    return (
        y,
        acc,
        nib == packed,
        q.view(torch.uint8),
        packed.view(torch.int32) if packed.shape[1] % 4 == 0 else packed,
        q.sum(1),
        (q * q).max(),
        q.float().std(1),
    )


@program(lambda: (R(2, 2, 10),), lambda: (R(3, 2, 14),), grad=True)
class Resampling(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(6, periodic=False)[None, None])
        self.up = nn.ConvTranspose1d(2, 2, 6, stride=3, padding=2, output_padding=1, groups=2, bias=False)

    def forward(self, x):
        y = self.up(x)
        z = F.conv1d(y.flatten(0, 1)[:, None], self.window, stride=2).unflatten(0, (x.shape[0], 2))
        f = torch.fft.rfft(x)
        pad = F.pad(f, (0, f.shape[-1]))
        sinc = torch.fft.irfft(pad, 2 * x.shape[-1]) * 2
        return y, z[:, :, 0], sinc, F.avg_pool1d(x, 3, 1, 1), F.max_pool1d(x, 2)


@program(lambda: (R(4, 4), I(0, 4, (5,))), lambda: (R(6, 6), I(0, 4, (7,))))
def writes_by_all_indices(x, i):
    x[i] = 1.0
    x[:, i % 2] += 0.5
    x[i, i] = torch.arange(len(i), dtype=torch.float32)[-1]
    x[1:3, ::2] = x[1:3, 1::2].clone()
    x[..., -1] = x[..., 0]
    x[None, 0] = -x[0]
    x[torch.tensor([0, 1]), 2:] = 3
    x[2] = x[2].flip(0)
    return x.sum()


@program(lambda: (R(6, 3),), lambda: (R(8, 3),), lambda: (R(8, 3),), grad=True)
class MovingCodebook(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("code", torch.randn(5, 3))
        self.register_buffer("n", torch.ones(5))
        self.register_buffer("m", torch.randn(5, 3))

    def forward(self, x):
        d = x.square().sum(1, keepdim=True) - 2 * x @ self.code.T + self.code.square().sum(1)
        i = d.argmin(1)
        one = F.one_hot(i, 5).to(x.dtype)
        q = self.code[i]
        if self.training:
            self.n.mul_(0.9).add_(one.sum(0), alpha=0.1)
            self.m.mul_(0.9).add_(one.detach().T @ x.detach(), alpha=0.1)
            n = self.n.sum()
            c = (self.n + 1e-5) / (n + 5e-5) * n
            self.code.copy_(self.m / c[:, None])
        loss = F.mse_loss(q.detach(), x)
        return x + (q - x).detach(), loss, torch.exp(-(one.mean(0) * (one.mean(0) + 1e-10).log()).sum())
