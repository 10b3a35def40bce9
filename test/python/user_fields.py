"""Programs of `user_harness.py` from many fields: sequence mixers, quantized weights, samplers, simulations, dynamic
programs over tables, images, sound, graphs, optimizers.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from user_harness import program

R = torch.randn
ints = lambda high, *shape: torch.randint(0, high, shape)
WAYS_OF_FLOW = [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)]


@program(
    lambda: (R(2, 12, 4, 8), R(2, 12, 4).abs(), R(2, 12, 4, 6), R(2, 12, 4, 6)),
    lambda: (R(3, 16, 4, 8), R(3, 16, 4).abs(), R(3, 16, 4, 6), R(3, 16, 4, 6)),
    grad=True,
)
def state_space_duality_in_chunks(x, dt, b, c):
    chunk = 4
    n, length, heads, size = x.shape
    split = lambda t: t.reshape(n, length // chunk, chunk, *t.shape[2:])
    x, a, b, c = split(x * dt[..., None]), split(-dt), split(b), split(c)
    a = a.permute(0, 3, 1, 2)
    total = a.cumsum(-1)
    seg = total[..., :, None] - total[..., None, :]
    decay = seg.masked_fill(~torch.ones(chunk, chunk, dtype=torch.bool).tril(), -torch.inf).exp()
    diagonal = torch.einsum("bclhn,bcshn,bhcls,bcshp->bclhp", c, b, decay, x)
    states = torch.einsum("bclhn,bhcl,bclhp->bchpn", b, (total[..., -1:] - total).exp(), x)
    states = torch.cat([torch.zeros_like(states[:, :1]), states], 1)
    ends = F.pad(total[..., -1], (1, 0)).cumsum(-1)
    between = ends[..., :, None] - ends[..., None, :]
    k = between.shape[-1]
    between = between.masked_fill(~torch.ones(k, k, dtype=torch.bool).tril(), -torch.inf).exp()
    states = torch.einsum("bhzc,bchpn->bzhpn", between, states)
    off = torch.einsum("bclhn,bchpn,bhcl->bclhp", c, states[:, :-1], total.exp())
    return (diagonal + off).reshape(n, length, heads, size), states[:, -1]


@program(
    lambda: (R(2, 7, 6), R(2, 7, 6), R(6).abs(), R(6)),
    lambda: (R(3, 5, 6), R(3, 5, 6), R(6).abs(), R(6)),
    grad=True,
    dynamic=False,
    package=True,
)
def weighted_key_values(k, v, w, u):
    n, length, c = k.shape
    a = torch.zeros(n, c)
    b = torch.zeros(n, c)
    p = torch.full((n, c), -1e38)
    out = []
    for t in range(length):
        q = torch.maximum(p, u + k[:, t])
        e1, e2 = (p - q).exp(), (u + k[:, t] - q).exp()
        out.append((e1 * a + e2 * v[:, t]) / (e1 * b + e2))
        q = torch.maximum(p - w, k[:, t])
        e1, e2 = (p - w - q).exp(), (k[:, t] - q).exp()
        a, b, p = e1 * a + e2 * v[:, t], e1 * b + e2, q
    return torch.stack(out, 1)


@program(
    lambda: (R(2, 3, 8, 4), R(2, 3, 8, 4), R(2, 3, 8, 5), torch.rand(2, 3, 8)),
    lambda: (R(1, 3, 8, 4), R(1, 3, 8, 4), R(1, 3, 8, 5), torch.rand(1, 3, 8)),
    grad=True,
)
def delta_rule(q, k, v, beta):
    k = F.normalize(k, dim=-1)
    state = torch.zeros(*k.shape[:2], k.shape[-1], v.shape[-1])
    out = []
    for t in range(8):
        read = torch.einsum("bhkv,bhk->bhv", state, k[:, :, t])
        state = state + torch.einsum("bhk,bhv->bhkv", k[:, :, t], beta[:, :, t, None] * (v[:, :, t] - read))
        out.append(torch.einsum("bhkv,bhk->bhv", state, q[:, :, t]))
    return torch.stack(out, 2), state


@program(
    lambda: (R(2, 3, 10, 4), R(2, 3, 10, 4), R(2, 3, 10, 6)),
    lambda: (R(2, 3, 14, 4), R(2, 3, 14, 4), R(2, 3, 14, 6)),
    grad=True,
    bf16=True,
)
def retention(q, k, v):
    n = q.shape[2]
    gamma = 1 - 2.0 ** (-5 - torch.arange(3.0))
    i = torch.arange(n)
    mask = (i[:, None] - i[None]).clamp(min=0)
    decay = torch.where(i[:, None] >= i[None], gamma[:, None, None] ** mask, 0.0).to(q.dtype)
    scores = (q @ k.mT) * decay
    scores = scores / scores.detach().abs().sum(-1, keepdim=True).clamp(min=1)
    return F.group_norm((scores @ v).transpose(1, 2).flatten(0, 1).flatten(1), 3).view(q.shape[0], n, 3, 6)


@program(
    lambda: (R(2, 5, 32), ints(256, 6, 16).to(torch.uint8), torch.rand(6, 2)),
    lambda: (R(3, 4, 32), ints(256, 6, 16).to(torch.uint8), torch.rand(6, 2)),
)
def nf4_weights(x, packed, absmax):
    table = torch.tensor(
        [-1.0, -0.69, -0.52, -0.39, -0.28, -0.18, -0.09, 0.0, 0.08, 0.16, 0.25, 0.34, 0.44, 0.56, 0.72, 1.0]
    )
    codes = torch.stack((packed >> 4, packed & 15), -1).flatten(1).long()
    w = table[codes].view(6, 2, 16) * absmax[..., None]
    return F.linear(x, w.flatten(1))


@program(
    lambda: (
        R(3, 32),
        ints(2**31 - 1, 4, 8).int(),
        ints(2**31 - 1, 2, 1).int(),
        torch.rand(2, 8).half(),
        torch.arange(32) // 16,
    ),
    dynamic=False,
    tolerance=1e-3,
)
def gptq_weights(x, qweight, qzeros, scales, group):
    shifts = torch.arange(0, 32, 4, dtype=torch.int32)
    w = (qweight[:, None, :] >> shifts[None, :, None]) & 15
    z = (qzeros[:, :, None] >> shifts[None, None, :]) & 15
    w, z = w.reshape(32, 8), z.reshape(2, 8) + 1
    return x @ ((w - z[group]).half() * scales[group]).float()


class DoraLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Linear(8, 6)
        self.a, self.b = nn.Parameter(R(2, 8)), nn.Parameter(R(6, 2))
        self.m = nn.Parameter(self.w.weight.norm(dim=1).detach())

    def forward(self, x):
        w = self.w.weight + self.b @ self.a
        return F.linear(x, w * (self.m / w.norm(dim=1).detach())[:, None], self.w.bias)


@program(lambda: (R(3, 8),), lambda: (R(5, 8),), grad=True, bf16=True)
class Adapted(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(DoraLinear() for _ in range(2))
        self.up = nn.Linear(6, 8)

    def forward(self, x):
        return self.layers[1](self.up(self.layers[0](x).relu()) + x)


@program(lambda: (R(4, 6),), lambda: (R(7, 6),), grad=True)
class SplineEdges(nn.Module):
    """Kolmogorov–Arnold edges: B-splines of third order."""

    def __init__(self):
        super().__init__()
        self.register_buffer("grid", torch.linspace(-2, 2, 12).expand(6, -1).contiguous())
        self.c = nn.Parameter(R(5, 6, 8))

    def forward(self, x):
        x, grid = x[..., None], self.grid
        b = ((x >= grid[:, :-1]) & (x < grid[:, 1:])).to(x.dtype)
        for k in range(1, 4):
            b = (x - grid[:, : -(k + 1)]) / (grid[:, k:-1] - grid[:, : -(k + 1)]) * b[..., :-1] + (
                grid[:, k + 1 :] - x
            ) / (grid[:, k + 1 :] - grid[:, 1:-k]) * b[..., 1:]
        return torch.einsum("nik,oik->no", b, self.c)


@program(
    lambda: (R(2, 5, 24), R(2, 9, 10), R(2, 9, 4)),
    lambda: (R(1, 3, 24), R(1, 12, 10), R(1, 12, 4)),
    grad=True,
    bf16=True,
)
class LatentAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.kb, self.vb = nn.Linear(24, 3 * 12), nn.Parameter(R(3, 8, 10)), nn.Parameter(R(3, 10, 6))
        self.o = nn.Linear(18, 24)

    def forward(self, x, latent, rope):
        q = self.q(x).unflatten(-1, (3, 12)).transpose(1, 2)
        a = torch.einsum("bhqd,hdc->bhqc", q[..., :8], self.kb)
        scores = torch.einsum("bhqc,bkc->bhqk", a, latent) + torch.einsum("bhqr,bkr->bhqk", q[..., 8:], rope)
        out = torch.einsum("bhqk,bkc->bhqc", (scores / 12**0.5).softmax(-1), latent)
        return self.o(torch.einsum("bhqc,hcv->bqhv", out, self.vb).flatten(2))


@program(
    lambda: (R(3, 20), R(3), ints(20, 3, 4), torch.tensor([0, 0, 1])),
    lambda: (R(4, 20), R(4), ints(20, 4, 6), torch.tensor([0, 1, 1, 0])),
)
def beam_step(logits, scores, words, done):
    log = logits.log_softmax(-1)
    log = torch.where(done[:, None].bool() & (torch.arange(20) != 0), -torch.inf, log)
    total = (scores[:, None] + log).flatten()
    best, at = total.topk(logits.shape[0])
    beams, word = at // 20, at % 20
    words = torch.cat((words[beams], word[:, None]), 1)
    done = done[beams] | (word == 0)
    length = (words != 0).sum(1).clamp(min=1)
    return words, best, done, best / length**0.6


@program(lambda: (torch.rand(6), torch.rand(6), 5), lambda: (torch.rand(9), torch.rand(9), 7))
def draft_trees(p, q, n):
    parent = (torch.arange(n) - 1).clamp(min=0) // 2
    mask = torch.eye(n, dtype=torch.bool)
    for _ in range(3):
        mask = mask | mask[parent]
    return mask, torch.where(mask, 0.0, -torch.inf), (p / q).clamp(max=1)


@program(
    lambda: (R(5, 4), torch.rand(5, 4), R(3, 4).abs(), ints(4, 3)),
    lambda: (R(8, 4), torch.rand(8, 4), R(4, 4).abs(), ints(4, 4)),
    grad=True,
)
def matching_costs(logits, boxes, targets, labels):
    p = logits.sigmoid()
    focal = lambda t, a: a * (1 - t) ** 2 * -(t + 1e-8).log()
    cls = focal(p, 0.25)[:, labels] - focal(1 - p, 0.75)[:, labels]
    l1 = torch.cdist(boxes, targets, p=1)
    corners = lambda b: torch.cat((b[:, :2] - b[:, 2:] / 2, b[:, :2] + b[:, 2:] / 2), -1)
    a, b = corners(boxes), corners(targets)
    wh = lambda x: (x[..., 2:] - x[..., :2]).clamp(min=0).prod(-1)
    inter = wh(
        torch.cat((torch.maximum(a[:, None, :2], b[None, :, :2]), torch.minimum(a[:, None, 2:], b[None, :, 2:])), -1)
    )
    union = wh(a)[:, None] + wh(b)[None] - inter
    hull = wh(
        torch.cat((torch.minimum(a[:, None, :2], b[None, :, :2]), torch.maximum(a[:, None, 2:], b[None, :, 2:])), -1)
    )
    return 2 * cls + 5 * l1 - 2 * (inter / union.clamp(min=1e-6) - (hull - union) / hull.clamp(min=1e-6))


@program(lambda: (R(2, 3, 6, 6), ints(3, 2, 6, 6)), lambda: (R(3, 3, 5, 5), ints(3, 3, 5, 5)), grad=True)
def segmentation_losses(logits, labels):
    p = logits.softmax(1)
    hot = F.one_hot(labels, 3).movedim(-1, 1).float()
    dice = 1 - (2 * (p * hot).sum((0, 2, 3)) + 1) / ((p + hot).sum((0, 2, 3)) + 1)
    tversky = 1 - ((p * hot).sum() / ((p * hot).sum() + 0.3 * (p * (1 - hot)).sum() + 0.7 * ((1 - p) * hot).sum()))
    errors = (hot - p).abs().movedim(1, 0).flatten(1)
    errors, order = errors.sort(dim=1, descending=True)
    truth = hot.movedim(1, 0).flatten(1).gather(1, order)
    inter = truth.sum(1, keepdim=True) - truth.cumsum(1)
    union = truth.sum(1, keepdim=True) + (1 - truth).cumsum(1)
    jaccard = 1 - inter / union
    jaccard = torch.cat((jaccard[:, :1], jaccard[:, 1:] - jaccard[:, :-1]), 1)
    return dice, tversky, (errors * jaccard).sum(1), F.cross_entropy(logits, labels, label_smoothing=0.1)


@program(
    lambda: (R(8, 3), R(8, 3), torch.rand(8), torch.rand(8, 3)),
    lambda: (R(12, 3), R(12, 3), torch.rand(12), torch.rand(12, 3)),
    grad=True,
)
def gaussian_splats(means, scales, opacity, colors):
    order = means[:, 2].argsort()
    means, scales, opacity, colors = means[order], scales[order].exp().clamp(max=2), opacity[order], colors[order]
    y, x = torch.meshgrid(torch.linspace(-1, 1, 6), torch.linspace(-1, 1, 5), indexing="ij")
    d = torch.stack((x, y), -1)[None] - means[:, None, None, :2]
    power = -0.5 * (d.square() / scales[:, None, None, :2].square()).sum(-1)
    alpha = (opacity[:, None, None] * power.exp()).clamp(max=0.99)
    left = torch.cat((torch.ones_like(alpha[:1]), (1 - alpha).cumprod(0)[:-1]))
    return torch.einsum("nhw,nc->hwc", alpha * left, colors), left[-1]


@program(lambda: (R(5, 3), R(5, 3)), lambda: (R(9, 3), R(9, 3)))
def sphere_tracing(origin, direction):
    direction = F.normalize(direction, dim=-1)
    scene = lambda p: torch.minimum(
        p.norm(dim=-1) - 0.7, (p.abs() - 0.4).clamp(min=0).norm(dim=-1) + (p.abs() - 0.4).amax(-1).clamp(max=0)
    )
    t = torch.zeros(origin.shape[0])
    alive = torch.ones_like(t, dtype=torch.bool)
    for _ in range(12):
        d = scene(origin + t[:, None] * direction)
        alive = alive & (d > 1e-3) & (t < 10)
        t = torch.where(alive, t + d, t)
    p = origin + t[:, None] * direction
    e = torch.eye(3) * 1e-2
    normal = torch.stack([scene(p + e[k]) - scene(p - e[k]) for k in range(3)], -1)
    return t, alive, F.normalize(normal, dim=-1)


@program(lambda: (R(6, 5), R(6, 3), ints(6, 2, 11)), lambda: (R(8, 5), R(8, 3), ints(8, 2, 17)), grad=True)
class EquivariantLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.h, self.x = nn.Linear(11, 7), nn.Linear(12, 5), nn.Linear(7, 1, bias=False)

    def forward(self, h, x, edges):
        i, j = edges
        d = x[i] - x[j]
        m = F.silu(self.e(torch.cat((h[i], h[j], d.square().sum(-1, keepdim=True)), -1)))
        n = h.shape[0]
        count = torch.zeros(n, 1).index_add(0, i, torch.ones(i.shape[0], 1)).clamp(min=1)
        x = x + torch.zeros_like(x).index_add(0, i, d * self.x(m).tanh()) / count
        return h + self.h(torch.cat((h, torch.zeros(n, 7).index_add(0, i, m)), -1)), x


@program(
    lambda: (R(2, 3, 4, 4), 7, torch.linspace(0.99, 0.1, 10)), lambda: (R(3, 3, 5, 5), 4, torch.linspace(0.99, 0.1, 10))
)
class Samplers(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x, t, alphas):
        a, before = alphas[t], alphas[t - 1]
        e = self.net(x)
        x0 = (x - (1 - a).sqrt() * e) / a.sqrt()
        s = torch.quantile(x0.abs().flatten(1), 0.9, dim=1).clamp(min=1)[:, None, None, None]
        x0 = x0.clamp(-s, s) / s
        ddim = before.sqrt() * x0 + (1 - before).sqrt() * e
        lam, lam2 = (a.sqrt() / (1 - a).sqrt()).log(), (before.sqrt() / (1 - before).sqrt()).log()
        h = lam2 - lam
        dpm = ((1 - before) / (1 - a)).sqrt() * x - before.sqrt() * torch.expm1(-h) * (x0 + 0.5 / h * (x0 - e))
        return ddim, dpm, e + 3.0 * (e - e.mean((1, 2, 3), keepdim=True))


@program(
    lambda: (R(7, 3), R(7, 3), torch.rand(7, 3) > 0.2, R(3)),
    lambda: (R(5, 2), R(5, 2), torch.rand(5, 2) > 0.2, R(2)),
    grad=True,
    dynamic=False,
)
def returns_of_all_kinds(reward, value, alive, last):
    length = reward.shape[0]
    gae, v, lam = torch.zeros_like(last), last, []
    for t in reversed(range(length)):
        delta = reward[t] + 0.99 * v * alive[t] - value[t]
        gae = delta + 0.99 * 0.95 * alive[t] * gae
        v = value[t]
        lam.append(gae)
    ratio = (value - value.detach() * 0.9).exp()
    rho, c = ratio.clamp(max=1), ratio.clamp(max=0.95)
    following = torch.cat((value[1:], last[None]))
    deltas = rho * (reward + 0.99 * following - value)
    acc, vs = torch.zeros_like(last), []
    for t in range(length - 1, -1, -1):
        acc = deltas[t] + 0.99 * c[t] * acc
        vs.insert(0, value[t] + acc)
    return torch.stack(lam[::-1]), torch.stack(vs), (reward.flip(0).cumsum(0)).flip(0)


@program(
    lambda: (R(5, 3, 4), R(4, 4), ints(4, 5, 3), torch.tensor([5, 4, 2])),
    lambda: (R(7, 2, 4), R(4, 4), ints(4, 7, 2), torch.tensor([7, 3])),
    grad=True,
    dynamic=False,
)
def chain_of_labels(emit, move, labels, lengths):
    steps, n, k = emit.shape
    alpha, best, back = emit[0], emit[0], []
    for t in range(1, steps):
        on = (t < lengths)[:, None]
        alpha = torch.where(on, torch.logsumexp(alpha[:, :, None] + move + emit[t, :, None], 1), alpha)
        score, at = (best[:, :, None] + move).max(1)
        best = torch.where(on, score + emit[t], best)
        back.append(torch.where(on, at, torch.arange(k)))
    at = best.argmax(1)
    path = [at]
    for b in reversed(back):
        at = b.gather(1, at[:, None])[:, 0]
        path.append(at)
    mask = (torch.arange(steps)[:, None] < lengths).float()
    gold = (emit.gather(2, labels[..., None])[..., 0] * mask).sum(0) + (move[labels[:-1], labels[1:]] * mask[1:]).sum(0)
    return torch.logsumexp(alpha, 1) - gold, torch.stack(path[::-1])


@program(lambda: (R(6), R(5)), dynamic=False, grad=True)
def soft_time_warping(a, b):
    d = (a[:, None] - b[None]).square()
    inf = torch.full((), 1e8)
    rows = [[torch.zeros(()) if j == 0 else inf for j in range(6)]]
    for i in range(6):
        row = [inf]
        for j in range(5):
            three = torch.stack((rows[i][j], rows[i][j + 1], row[j]))
            row.append(d[i, j] - 0.1 * torch.logsumexp(-three / 0.1, 0))
        rows.append(row)
    return rows[-1][-1]


@program(lambda: (ints(5, 7), ints(5, 6)), dynamic=False)
def edit_distances_by_rows(a, b):
    row = torch.arange(7)
    for i in range(7):
        substituted = row[:-1] + (b != a[i])
        up = torch.cat((torch.full((1,), i + 1), torch.minimum(substituted, row[1:] + 1)))
        k = torch.arange(7)
        row = (up - k).cummin(0).values + k
    return row


@program(lambda: (R(8, 8), R(8)), lambda: (R(10, 10), R(10)), grad=False)
def conjugate_gradients(a, b):
    a = a @ a.T + 8 * torch.eye(a.shape[0])
    x, r = torch.zeros_like(b), b.clone()
    p, rs = r, r @ r
    for _ in range(6):
        ap = a @ p
        alpha = rs / (p @ ap)
        x, r = x + alpha * p, r - alpha * ap
        new = r @ r
        p, rs = r + new / rs * p, new
    return x, rs.sqrt()


@program(
    lambda: (R(6), [R(6) for _ in range(3)], [R(6) for _ in range(3)]),
    lambda: (R(9), [R(9) for _ in range(3)], [R(9) for _ in range(3)]),
)
def two_loops_of_quasi_newton(g, s, y):
    q, alphas = g.clone(), []
    for sk, yk in zip(reversed(s), reversed(y)):
        rho = 1 / (yk @ sk)
        a = rho * (sk @ q)
        q = q - a * yk
        alphas.append((a, rho))
    q = q * ((s[-1] @ y[-1]) / (y[-1] @ y[-1]))
    for (a, rho), sk, yk in zip(reversed(alphas), s, y):
        q = q + sk * (a - rho * (yk @ q))
    return q


@program(
    lambda: (R(6, 4), R(6, 4), R(6, 6).abs(), R(4, 4).abs()), lambda: (R(5, 3), R(5, 3), R(5, 5).abs(), R(3, 3).abs())
)
def optimizers_of_matrices(w, g, left, right):
    left = left @ left.T + g @ g.T + torch.eye(w.shape[0])
    right = right @ right.T + g.T @ g + torch.eye(w.shape[1])

    def power(m, p):
        values, vectors = torch.linalg.eigh(m)
        return vectors @ torch.diag(values.clamp(min=1e-6) ** p) @ vectors.T

    shampoo = w - 0.1 * power(left, -0.25) @ g @ power(right, -0.25)
    row, column = g.square().mean(1), g.square().mean(0)
    adafactor = g / (row[:, None] * column[None] / row.mean()).sqrt().clamp(min=1e-3)
    lion = w - 0.1 * (0.9 * w + 0.1 * g).sign()
    w.mul_(0.99).addcmul_(g, g, value=-0.01)
    return shampoo, adafactor / (adafactor.square().mean().sqrt()).clamp(min=1), lion, w


@program(
    lambda: (torch.rand(9) * 50 + 75, torch.rand(9) + 0.1, torch.rand(9) * 0.4 + 0.1),
    lambda: (torch.rand(5) * 50 + 75, torch.rand(5) + 0.1, torch.rand(5) * 0.4 + 0.1),
    grad=True,
)
def options_and_greeks(s, t, v):
    n = torch.distributions.Normal(0.0, 1.0)
    k, r = 100.0, 0.03
    d1 = ((s / k).log() + (r + v * v / 2) * t) / (v * t.sqrt())
    d2 = d1 - v * t.sqrt()
    call = s * n.cdf(d1) - k * (-r * t).exp() * n.cdf(d2)
    steps = 8
    dt = t / steps
    u = (v * dt.sqrt()).exp()
    p = ((r * dt).exp() - 1 / u) / (u - 1 / u)
    leaf = (s[:, None] * u[:, None] ** (2 * torch.arange(steps + 1.0) - steps) - k).clamp(min=0)
    for _ in range(steps):
        leaf = (-r * dt).exp()[:, None] * (p[:, None] * leaf[:, 1:] + (1 - p)[:, None] * leaf[:, :-1])
    return call, leaf[:, 0], torch.special.ndtri(n.cdf(d1).clamp(0.01, 0.99))


@program(lambda: (torch.rand(1, 1, 9, 11),), lambda: (torch.rand(2, 1, 12, 8),), grad=True)
def edges_of_images(x):
    g = torch.exp(-(torch.arange(-2.0, 3) ** 2) / 2)
    g = g / g.sum()
    x = F.conv2d(F.pad(x, (2, 2, 2, 2), mode="reflect"), g.view(1, 1, 1, 5) * g.view(1, 1, 5, 1))
    k = torch.tensor([[1.0, 0, -1], [2, 0, -2], [1, 0, -1]])
    gx, gy = F.conv2d(F.pad(x, (1,) * 4, mode="replicate"), torch.stack((k, k.T))[:, None]).unbind(1)
    size, angle = torch.hypot(gx, gy + 1e-6), torch.atan2(gy, gx + 1e-6)
    way = (angle / math.pi * 4).round().long() % 4
    p = F.pad(size, (1, 1, 1, 1))
    h, w = size.shape[-2:]
    shifts = [(0, 1), (1, 1), (1, 0), (1, -1)]
    near = torch.stack(
        [
            torch.maximum(p[:, 1 + a : 1 + a + h, 1 + b : 1 + b + w], p[:, 1 - a : 1 - a + h, 1 - b : 1 - b + w])
            for a, b in shifts
        ]
    )
    most = near.gather(0, way[None])[0]
    return torch.where(size >= most, size, 0.0), F.max_pool2d((size > size.mean()).float(), 3, 1, 1)


@program(
    lambda: (torch.rand(2, 3, 8, 8), torch.rand(2, 1, 8, 8)),
    lambda: (torch.rand(1, 3, 10, 9), torch.rand(1, 1, 10, 9)),
    grad=True,
    bf16=True,
)
def guided_and_bilateral(x, guide):
    box = lambda t: F.avg_pool2d(t, 3, 1, 1, count_include_pad=False)
    m, v = box(guide), box(guide * guide) - box(guide).square()
    a = (box(guide * x) - m * box(x)) / (v + 0.1)
    b = box(x) - a * m
    patches = F.unfold(F.pad(x, (1,) * 4, mode="reflect"), 3).unflatten(1, (3, 9)).unflatten(-1, x.shape[-2:])
    w = (-(patches - x[:, :, None]).square().sum(1, keepdim=True) * 4).exp()
    return box(a) * guide + box(b), (patches * w).sum(2) / w.sum(2)


@program(lambda: (torch.rand(7, 9) > 0.5,), lambda: (torch.rand(5, 8) > 0.4,))
def labels_of_components(mask):
    h, w = mask.shape
    label = torch.where(mask, torch.arange(1, h * w + 1).view(h, w), 0)
    for _ in range(12):
        p = F.pad(label, (1, 1, 1, 1))
        most = torch.stack([p[1:-1, 1:-1], p[:-2, 1:-1], p[2:, 1:-1], p[1:-1, :-2], p[1:-1, 2:]]).amax(0)
        label = torch.where(mask, most, 0)
    found, inverse, counts = torch.unique(label, return_inverse=True, return_counts=True)
    return label, found, inverse, counts


@program(lambda: (R(2, 64),), lambda: (R(1, 80),))
def pitch_and_prediction(x):
    frames = x.unfold(-1, 32, 16)
    lags = torch.arange(16)
    shifted = frames[..., (torch.arange(16)[None] + lags[:, None])]
    d = (frames[..., None, :16] - shifted).square().sum(-1)
    norm = d * lags / d.cumsum(-1).clamp(min=1e-6)
    norm = torch.where(lags == 0, 1.0, norm)
    low = norm < 0.8
    first = torch.where(low.any(-1), low.float().argmax(-1), norm.argmin(-1))
    r = torch.fft.irfft(torch.fft.rfft(frames * torch.hann_window(32), 64).abs().square())[..., :5]
    a, e = torch.ones_like(r[..., :1]), r[..., 0] + 1e-3
    for i in range(1, 5):
        k = -(a * r[..., 1 : i + 1].flip(-1)).sum(-1) / e
        a = F.pad(a, (0, 1)) + k[..., None] * F.pad(a, (0, 1)).flip(-1)
        e = e * (1 - k * k)
    return first, norm.amin(-1), a, e


@program(
    lambda: (torch.randn(2, 9, 7, dtype=torch.complex64), 1.5),
    lambda: (torch.randn(1, 9, 9, dtype=torch.complex64), 1.5),
    dynamic=False,
)
def phase_vocoder(spec, rate):
    steps = torch.arange(0, spec.shape[-1] - 1, rate)
    advance = torch.linspace(0, math.pi * 4, 9)[:, None]
    padded = F.pad(torch.view_as_real(spec), (0, 0, 0, 2))
    padded = torch.view_as_complex(padded)
    a, b = padded[..., steps.long()], padded[..., (steps + 1).long()]
    fraction = steps % 1.0
    phase = b.angle() - a.angle() - advance
    phase = phase - 2 * math.pi * (phase / (2 * math.pi)).round() + advance
    phase = torch.cat((padded[..., :1].angle(), phase[..., :-1]), -1).cumsum(-1)
    return torch.polar(fraction * b.abs() + (1 - fraction) * a.abs(), phase)


@program(
    lambda: (ints(2**31, 5), ints(256, 3, 7).to(torch.uint8)), lambda: (ints(2**31, 8), ints(256, 2, 9).to(torch.uint8))
)
def generators_and_checksums(state, data):
    x = state.long()
    out = []
    for _ in range(4):
        x = x ^ (x << 13) & 0xFFFFFFFF
        x = x ^ (x >> 17)
        x = (x ^ (x << 5)) & 0xFFFFFFFF
        out.append(x)
    crc = torch.full((data.shape[0],), 0xFFFF)
    for k in range(7):
        crc = crc ^ (data[:, k].long() << 8)
        for _ in range(8):
            crc = torch.where(crc & 0x8000 != 0, (crc << 1) ^ 0x1021, crc << 1) & 0xFFFF
    h = torch.full((data.shape[0],), -3750763034362895579)
    for k in range(7):
        h = (h ^ data[:, k].long()) * 1099511628211
    rotated = ((x << 7) | (x >> 25)) & 0xFFFFFFFF
    return torch.stack(out), crc, h, rotated, (x % 97).to(torch.int16), x.to(torch.int32)


@program(lambda: (torch.rand(9, 6, 7) + 0.1,), lambda: (torch.rand(9, 5, 8) + 0.1,), grad=True)
def lattice_boltzmann(f):
    c = torch.tensor(WAYS_OF_FLOW)
    w = torch.tensor([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)
    for _ in range(2):
        rho = f.sum(0)
        u = torch.einsum("kd,kxy->dxy", c.float(), f) / rho
        cu = torch.einsum("kd,dxy->kxy", c.float(), u)
        eq = w[:, None, None] * rho * (1 + 3 * cu + 4.5 * cu**2 - 1.5 * u.square().sum(0))
        f = f - (f - eq) / 0.8
        f = torch.stack([f[k].roll(way, (0, 1)) for k, way in enumerate(WAYS_OF_FLOW)])
    return f, u


@program(lambda: (ints(2, 6, 6) * 2 - 1, torch.rand(4, 6, 6)), lambda: (ints(2, 8, 8) * 2 - 1, torch.rand(4, 8, 8)))
def metropolis_by_colors(spins, draws):
    h, w = spins.shape
    board = (torch.arange(h)[:, None] + torch.arange(w)) % 2
    spins = spins.clone()
    for k in range(4):
        around = sum(spins.roll(s, d) for s in (1, -1) for d in (0, 1))
        flip = (board == k % 2) & (draws[k] < torch.exp(-0.8 * (spins * around).float()))
        spins[flip] *= -1
    return spins, spins.float().mean()


@program(lambda: (R(6, 2), R(6, 2)), lambda: (R(9, 2), R(9, 2)), grad=True)
def smoothed_particles(x, v):
    d = x[:, None] - x[None]
    r = (d.square().sum(-1) + 1e-9).sqrt()
    w = torch.where(r < 1, (1 - r) ** 3, 0.0)
    rho = w.sum(1)
    p = (rho - 1).clamp(min=0) * 3
    grad = torch.where((r < 1) & (r > 1e-4), -3 * (1 - r) ** 2 / r, 0.0)[..., None] * d
    force = -((p / rho**2)[:, None] + (p / rho**2)[None])[..., None] * grad
    visc = (v[None] - v[:, None]) * (w / rho[None])[..., None]
    v = v + 0.01 * (force.sum(1) + visc.sum(1)) + torch.tensor([0.0, -0.1])
    x = x + 0.01 * v
    hit = x[:, 1] < -2
    return torch.stack((x[:, 0], torch.where(hit, -4 - x[:, 1], x[:, 1])), 1), torch.where(
        hit[:, None], v * torch.tensor([1.0, -0.5]), v
    )


@program(lambda: (R(3, 20), ints(3, 3)), lambda: (R(2, 30), ints(3, 2)), grad=True, package=False)
def rolling_statistics(x, k):
    window = x.unfold(1, 5, 1)
    alpha = 0.3
    weights = (1 - alpha) ** torch.arange(x.shape[1] - 1, -1, -1.0)
    ewm = (x * weights).cumsum(1) / weights.cumsum(0)
    z = (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)
    cov = torch.cov(x)
    return (
        window.median(-1).values,
        window.std(-1),
        ewm,
        z.clamp(-2, 2),
        cov,
        torch.corrcoef(x),
        x.diff(n=2),
        x.cummax(1).values - x,
        torch.trapezoid(x, dx=0.5),
    )


@program(lambda: (R(2, 6, 4), torch.tensor([4, 6])), lambda: (R(3, 8, 4), torch.tensor([8, 1, 5])), grad=True)
class PooledSequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.gate = nn.Parameter(R(3, 4)), nn.Linear(4, 4)
        self.lstm = nn.LSTM(4, 3, batch_first=True, bidirectional=True)

    def forward(self, x, lengths):
        mask = torch.arange(x.shape[1]) < lengths[:, None]
        scores = (self.query @ x.mT).masked_fill(~mask[:, None], -torch.inf)
        attended = scores.softmax(-1) @ x
        mean = (x * mask[..., None]).sum(1) / lengths[:, None]
        top = x.masked_fill(~mask[..., None], -torch.inf).amax(1)
        last = x[torch.arange(x.shape[0]), lengths - 1]
        out, (h, c) = self.lstm(x)
        return attended, mean, top, last, torch.sigmoid(self.gate(mean)) * top, out * mask[..., None], h.transpose(0, 1)


@program(lambda: (R(4, 3, 3), R(4, 3)), lambda: (R(6, 3, 3), R(6, 3)), grad=True)
def poses(m, v):
    x = F.normalize(m[..., 0], dim=-1)
    y = F.normalize(m[..., 1] - (x * m[..., 1]).sum(-1, keepdim=True) * x, dim=-1)
    r = torch.stack((x, y, torch.linalg.cross(x, y)), -1)
    angle = (((r.diagonal(dim1=-2, dim2=-1).sum(-1)) - 1) / 2).clamp(-0.99, 0.99).acos()
    t = torch.eye(4).repeat(m.shape[0], 1, 1)
    t[:, :3, :3] = r
    t[:, :3, 3] = v
    inverse = torch.linalg.inv(t)
    k = torch.zeros(m.shape[0], 3, 3)
    k[:, 0, 1], k[:, 0, 2], k[:, 1, 2] = -v[:, 2], v[:, 1], -v[:, 0]
    k = k - k.mT
    return r, angle, inverse, torch.linalg.matrix_exp(k * 0.1), (t @ inverse)


@program(lambda: (R(3, 8, 8), R(3, 4)), lambda: (R(2, 8, 8), R(2, 4)))
def crops_by_parameters(x, theta):
    n = x.shape[0]
    a = torch.zeros(n, 2, 3)
    a[:, 0, 0], a[:, 1, 1] = theta[:, 0].sigmoid(), theta[:, 1].sigmoid()
    a[:, :, 2] = theta[:, 2:].tanh() * 0.5
    grid = F.affine_grid(a, [n, 1, 5, 5], align_corners=False)
    out = [
        F.grid_sample(x[:, None], grid, mode=m, padding_mode=p, align_corners=False)
        for m, p in (("bilinear", "border"), ("nearest", "zeros"), ("bicubic", "reflection"))
    ]
    return torch.cat(out, 1)


@program(lambda: (R(4, 10), ints(10, 4), R(10, 5)), lambda: (R(6, 10), ints(10, 6), R(10, 5)), grad=True, package=False)
def margins_and_distillation(x, y, centers):
    cos = F.normalize(x, dim=1)
    hot = F.one_hot(y, 10)
    theta = cos.clamp(-0.99, 0.99).acos()
    arc = torch.where(hot.bool(), (theta + 0.3).cos(), cos) * 16
    soft = (
        F.kl_div(
            F.log_softmax(x / 2, 1), F.log_softmax(x.flip(1).detach() / 2, 1), log_target=True, reduction="batchmean"
        )
        * 4
    )
    d = torch.cdist(centers, centers)
    poly = F.cross_entropy(x, y, reduction="none") + (1 - x.softmax(1).gather(1, y[:, None])[:, 0])
    return (
        F.cross_entropy(arc, y),
        soft,
        d + torch.eye(10),
        poly,
        F.multi_margin_loss(x, y),
        F.gaussian_nll_loss(x[:, 0], x[:, 1], x[:, 2].exp()),
    )


@program(lambda: (R(2, 4, 6, 6),), lambda: (R(3, 4, 8, 8),), grad=True)
class MixedConvolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(4, 8, 3, padding=2, dilation=2, groups=2)
        self.b = nn.ConvTranspose2d(8, 4, 4, stride=2, padding=1)
        self.norm, self.prelu = nn.InstanceNorm2d(8, affine=True), nn.PReLU(8)
        self.blur = nn.Parameter(R(1, 1, 3, 3).softmax(-1))

    def forward(self, x):
        y = self.prelu(self.norm(self.a(x)))
        y = y * F.hardsigmoid(F.adaptive_avg_pool2d(y, 1)) + F.adaptive_max_pool2d(y, (1, 1))
        up = self.b(y)
        blurred = F.conv2d(up, self.blur.expand(4, 1, 3, 3), padding=1, groups=4)
        return (
            F.pixel_unshuffle(blurred, 2),
            F.interpolate(x, scale_factor=1.5, mode="bilinear", antialias=True),
            F.local_response_norm(y, 3),
        )


@program(lambda: (R(5, 6), ints(5, 9), ints(5, 9)), lambda: (R(8, 6), ints(8, 14), ints(8, 14)), grad=True)
def propagation_and_pooling(x, src, dst):
    n = x.shape[0]
    deg = torch.zeros(n).scatter_add(0, dst, torch.ones(dst.shape[0])) + 1
    norm = deg.rsqrt()
    for _ in range(2):
        x = x * norm[:, None].square() + torch.zeros_like(x).index_add(
            0, dst, x[src] * (norm[src] * norm[dst])[:, None]
        )
    most = torch.full_like(x, -1e9).scatter_reduce(0, dst[:, None].expand(-1, 6), x[src], "amax")
    mean = torch.zeros_like(x).scatter_reduce(0, dst[:, None].expand(-1, 6), x[src], "mean", include_self=False)
    top = x[:, 0].topk(3).indices
    return (
        x,
        most,
        mean,
        x[top] * x[top, :1].tanh(),
        torch.zeros(n, n).index_put((src, dst), torch.ones(src.shape[0]), accumulate=True),
    )


@program(lambda: (R(3, 7), torch.tensor([2.0, 0.5])), lambda: (R(2, 9), torch.tensor([2.0, 0.5])), grad=True)
def projections_and_sparse_maxima(x, c):
    s, _ = x.sort(-1, descending=True)
    k = torch.arange(1, x.shape[-1] + 1)
    total = s.cumsum(-1)
    support = (1 + k * s > total).sum(-1, keepdim=True)
    tau = (total.gather(-1, support - 1) - 1) / support
    sparsemax = (x - tau).clamp(min=0)
    ball = x / (x.norm(p=1, dim=-1, keepdim=True) / c[0]).clamp(min=1)
    soft = x.sign() * (x.abs() - c[1]).clamp(min=0)
    gumbel = F.softmax((x + 0.1) / c[1], -1)
    hard = torch.zeros_like(gumbel).scatter(-1, gumbel.argmax(-1, keepdim=True), 1.0)
    return sparsemax, ball, soft, hard - gumbel.detach() + gumbel, torch.logcumsumexp(x, -1)


@program(lambda: (R(4, 6), R(6, 5)), lambda: (R(3, 6), R(6, 5)))
def products_in_integers(a, b):
    sa, sb = a.abs().amax(1, keepdim=True) / 127, b.abs().amax(0) / 127
    qa, qb = (a / sa).round().clamp(-128, 127).to(torch.int8), (b / sb).round().clamp(-128, 127).to(torch.int8)
    out = torch.einsum("ik,kj->ij", qa.double(), qb.double()).int()
    return out, out * sa * sb, qa.sum(1, dtype=torch.int16), (qa.int() << 2).to(torch.uint8), qa.view(torch.uint8) >> 1


@program(
    lambda: (R(2, 3, 5), [R(2, 4), R(2, 5)], {"a": R(3), "b": 2}),
    lambda: (R(4, 3, 5), [R(4, 4), R(4, 5)], {"a": R(3), "b": 2}),
    grad=True,
)
def nested_arguments(x, parts, more):
    y = torch.cat([p.mean(1, keepdim=True) for p in parts], 1)
    z = {k: (v * 2 if isinstance(v, int) else v.exp()) for k, v in more.items()}
    return {"y": [y, x[..., ::2]], "z": z, "w": (x + z["a"][None, :, None] * more["b"],)}, *(p[:, 1:] for p in parts)
