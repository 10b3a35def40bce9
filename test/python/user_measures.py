"""Programs of `user_harness.py`: losses, measures and small solvers, and tensors made of sizes."""

import math

import torch
import torch.nn.functional as F

from user_harness import program

R = torch.randn
ints = lambda high, *shape: torch.randint(0, high, shape)


@program(lambda: (R(6, 8), R(8, 5)), lambda: (R(9, 8), R(8, 3)), grad=True)
def sparse_rows_times_dense(a, b):
    mask = a.abs() > 0.5
    a = torch.where(mask, a, torch.zeros_like(a))
    count = mask.sum(1)
    return a @ b, count, torch.cat([count.new_zeros(1), count.cumsum(0)])


@program(lambda: (R(12, 6), R(6)), lambda: (R(7, 6), R(6)), package=False)
def disabled_in_between(x, w):
    @torch.compiler.disable
    def host(t):
        return t.sort(dim=0).values

    y = torch.tanh(x * w)
    z = host(y)
    if torch.compiler.is_compiling():
        z = z + 0
    return (z - y).abs().sum(0), z[::2] * 2


@program(lambda: (R(40, 12), R(12, 4)), lambda: (R(31, 12), R(12, 4)), tolerance=1e-3)
def randomized_range(a, omega):
    q, _ = torch.linalg.qr(a @ omega)
    b = q.T @ a
    u, s, v = torch.linalg.svd(b, full_matrices=False)
    return s, (q @ u * s) @ v


@program(lambda: (R(5, 5).double(), R(5).double()), lambda: (R(8, 8).double(), R(8).double()))
def power_and_inverse_iteration(a, v):
    a = a @ a.T + torch.eye(a.shape[0], dtype=a.dtype)
    for _ in range(60):
        v = a @ v
        v = v / v.norm()
    w = v
    lu, piv = torch.linalg.lu_factor(a)
    for _ in range(5):
        w = torch.linalg.lu_solve(lu, piv, w[:, None])[:, 0]
        w = w / w.norm()
    return (v @ a @ v), (w @ a @ w), torch.linalg.slogdet(a)[1], torch.linalg.matrix_norm(a, 2), torch.linalg.cond(a, 1)


@program(lambda: (R(2, 3, 17, 23),), lambda: (R(1, 3, 30, 19),), grad=True)
def pyramid_and_back(x):
    levels = []
    y = x
    for _ in range(3):
        small = F.interpolate(y, scale_factor=0.5, mode="bilinear", align_corners=False, recompute_scale_factor=True)
        up = F.interpolate(small, size=y.shape[-2:], mode="bilinear", align_corners=False)
        levels.append(y - up)
        y = small
    for level in reversed(levels):
        y = F.interpolate(y, size=level.shape[-2:], mode="bilinear", align_corners=False) + level
    return y, [l.square().mean() for l in levels]


@program(lambda: (R(4, 6, 9), ints(9, 4, 6)), lambda: (R(2, 11, 9), ints(9, 2, 11)), grad=True)
def label_smoothing_by_hand(x, y):
    lp = x.log_softmax(-1)
    nll = -lp.gather(-1, y[..., None]).squeeze(-1)
    smooth = -lp.mean(-1)
    keep = y != 0
    loss = (0.9 * nll + 0.1 * smooth) * keep
    ref = F.cross_entropy(x.flatten(0, 1), y.flatten(), label_smoothing=0.1, ignore_index=0)
    return (
        loss.sum() / keep.sum().clamp(min=1),
        ref,
        F.cross_entropy(x.mT, y, weight=torch.arange(1.0, 10.0), reduction="none"),
    )


@program(lambda: (ints(50, 3, 20),), lambda: (ints(50, 5, 13),))
def n_gram_counts(x):
    two = x[:, :-1] * 50 + x[:, 1:]
    same = (two[:, :, None] == two[:, None, :]).sum(-1)
    first = torch.full_like(two, 0)
    first[:, 1:] = (two[:, 1:] == two[:, :-1]).cumsum(1)
    top = same.topk(3, dim=-1).values
    counts = torch.zeros(x.shape[0], 50, dtype=torch.int64).scatter_add_(1, x, torch.ones_like(x))
    return same, first, top, counts, counts.argmax(1), (counts > 0).sum(1)


@program(
    lambda: (R(2, 4, 6, 8), R(2, 4, 6, 8), R(2, 4, 6, 8)),
    lambda: (R(1, 4, 10, 8), R(1, 4, 10, 8), R(1, 4, 10, 8)),
    grad=True,
    bf16=True,
)
def attention_with_sinks_and_softcap(q, k, v):
    s = q @ k.mT / math.sqrt(q.shape[-1])
    s = 5.0 * torch.tanh(s / 5.0)
    length = q.shape[-2]
    i = torch.arange(length)
    ok = (i[:, None] >= i) & ((i[:, None] - i < 4) | (i < 1))
    s = s.masked_fill(~ok, float("-inf"))
    sink = torch.zeros(s.shape[:-1] + (1,), dtype=s.dtype)
    p = torch.cat([s, sink], -1).softmax(-1)[..., :-1]
    return p @ v, p.sum(-1)


@program(lambda: (R(30), R(30)), lambda: (R(17), R(17)), grad=True)
def isotonic_by_min_max(x, w):
    w = w.abs() + 0.1
    c, cw = (x * w).cumsum(0), w.cumsum(0)
    c0, w0 = torch.cat([c.new_zeros(1), c[:-1]]), torch.cat([cw.new_zeros(1), cw[:-1]])
    mean = (c[None, :] - c0[:, None]) / (cw[None, :] - w0[:, None]).clamp(min=1e-6)
    n = x.shape[0]
    i = torch.arange(n)
    upper = mean.masked_fill(i[None, :] < i[:, None], float("inf"))
    low = torch.flip(torch.cummin(torch.flip(upper, [1]), 1).values, [1])
    low = low.masked_fill(i[None, :] < i[:, None], float("-inf"))
    return low.max(0).values


@program(lambda: (R(4, 10), torch.rand(4, 10)), lambda: (R(6, 7), torch.rand(6, 7)), package=False)
def order_statistics(x, w):
    s, i = x.sort(dim=-1, descending=True, stable=True)
    cw = w.gather(-1, i).cumsum(-1)
    half = (cw < cw[:, -1:] / 2).sum(-1, keepdim=True)
    med = s.gather(-1, half)
    return (
        med,
        x.quantile(torch.tensor([0.1, 0.5, 0.9]), dim=-1),
        x.nanquantile(0.25, dim=0),
        x.median(-1).values,
        x.kthvalue(2, -1).values,
        x.mode(-1).values,
        torch.nanmedian(x),
        *x.aminmax(dim=1),
        x.std(0, correction=0),
        torch.var_mean(x, dim=-1, keepdim=True),
        x.logsumexp(0),
        x.cummax(-1),
        x.logcumsumexp(1),
        x.diff(dim=-1, n=2),
    )


@program(lambda: (R(10, 4), ints(3, 10)), lambda: (R(15, 4), ints(3, 15)), grad=True)
def prototypes_and_margins(x, y):
    hot = F.one_hot(y, 3).to(x.dtype)
    n = hot.sum(0).clamp(min=1)
    mean = (hot.T @ x) / n[:, None]
    d = torch.cdist(x, mean).square()
    inside = (d * hot).sum() / x.shape[0]
    between = torch.cdist(mean, mean)
    between = between[torch.triu_indices(3, 3, 1).unbind()]
    return mean, (-d).log_softmax(-1), inside, F.relu(1 - between).sum()


@program(lambda: (R(2, 5, 6),), lambda: (R(3, 9, 6),))
def padded_in_all_ways(x):
    return (
        F.pad(x, (2, 1), mode="reflect"),
        F.pad(x, (1, 2), mode="replicate"),
        F.pad(x, (3, 2), mode="circular"),
        F.pad(x, (-1, 2, 1, -2), value=7.0),
        F.pad(x[:, None], (1, 1, 2, 0), mode="reflect"),
        x.unfold(1, 3, 1).mean(-1),
        F.avg_pool1d(x, 3, 2, 1, count_include_pad=False),
        F.max_pool1d(x, 2, ceil_mode=True),
        F.lp_pool1d(x, 2, 2),
        F.adaptive_max_pool1d(x, 4, return_indices=True),
    )


@program(lambda: (ints(256, 8).to(torch.uint8), ints(16, 8)), lambda: (ints(256, 13).to(torch.uint8), ints(16, 13)))
def bits_packed(x, y):
    low, high = x & 15, x >> 4
    both = torch.stack([low, high], -1).flatten()
    bits = (x[:, None] >> torch.arange(8, dtype=torch.uint8)) & 1
    packed = (bits.to(torch.int32) << torch.arange(8, dtype=torch.int32)).sum(-1)
    gray = x ^ (x >> 1)
    count = bits.sum(-1, dtype=torch.int32)
    return (
        both,
        bits,
        packed.to(torch.uint8) == x,
        gray,
        count,
        (y << 3) | 5,
        ~y,
        y // -3,
        y % -3,
        torch.fmod(y, -3),
        torch.remainder(-y, 4),
    )


@program(lambda: (R(6, 6), 3), lambda: (R(8, 8), 5))
def bands_and_blocks(x, k):
    n = x.shape[0]
    i = torch.arange(n)
    band = (i[:, None] - i).abs() <= k // 2
    x = torch.where(band, x, 0.0)
    d = torch.stack([torch.diagonal(x, o).sum() for o in (-1, 0, 1)])
    y = torch.block_diag(x, x[:2, :2], x[0])
    return (
        d,
        y,
        torch.tril(x, -1) + torch.triu(x, 1),
        torch.diag_embed(x[:2], offset=1),
        x.trace(),
        torch.vander(x[0], 4),
        torch.cartesian_prod(x[0, :2], x[1, :3]),
    )


@program(lambda: (R(7, 3), ints(7, 12), ints(7, 12)), lambda: (R(5, 3), ints(5, 20), ints(5, 20)), grad=True)
def messages_by_softmax_over_edges(x, src, dst):
    n = x.shape[0]
    e = (x[src] * x[dst]).sum(-1)
    top = torch.full((n,), -math.inf).scatter_reduce(0, dst, e, "amax", include_self=False)
    w = (e - top[dst].detach()).exp()
    z = torch.zeros(n).index_add(0, dst, w)
    out = torch.zeros_like(x).index_add(0, dst, x[src] * (w / z[dst])[:, None])
    deg = torch.bincount(dst, minlength=n)
    mean = torch.zeros_like(x).scatter_reduce(0, dst[:, None].expand(-1, 3), x[src], "mean", include_self=True)
    return out, deg, mean, torch.zeros(n).scatter_reduce(0, dst, w, "prod", include_self=False)


@program(lambda: (R(2, 3, 8, 8), R(2, 2, 8, 8)), lambda: (R(1, 3, 10, 6), R(1, 2, 10, 6)), grad=True)
def warp_and_consistency(x, flow):
    n, _, h, w = x.shape
    ys, xs = torch.meshgrid(torch.linspace(-1, 1, h), torch.linspace(-1, 1, w), indexing="ij")
    grid = torch.stack([xs, ys], -1)[None] + flow.permute(0, 2, 3, 1) * torch.tensor([2.0 / (w - 1), 2.0 / (h - 1)])
    a = F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=True)
    b = F.grid_sample(x, grid, mode="nearest", padding_mode="zeros", align_corners=False)
    c = F.grid_sample(x, grid, mode="bicubic", padding_mode="reflection", align_corners=False)
    inside = (grid.abs() <= 1).all(-1)
    return a, b.detach(), c, inside, (a - x).abs().mean()


@program(lambda: (R(16), 4), lambda: (R(24), 6))
def sizes_by_numbers(x, k):
    y = x.view(k, -1)
    parts = torch.tensor_split(x, k)
    total = torch.stack([p.sum() for p in parts])
    z = y.repeat(1, 2).reshape(-1)[: 2 * k]
    return (
        total,
        z,
        y.T.contiguous().view(-1),
        x.new_full((k, 2), 3),
        torch.arange(k, 0, -1),
        x.unflatten(0, (k, -1)).movedim(0, 1),
        x.repeat_interleave(2)[::k],
    )


@program(lambda: (R(3, 4), R(3, 4)), lambda: (R(5, 2), R(5, 2)))
def aliases_in_results(x, y):
    v = x.T
    w = v[0]
    z = x.view(-1)
    a = y.clone()
    b = a[1:]
    b.mul_(2)
    return v, w, z, a, b, x, (y, y.view_as(y)), a.detach()


@program(lambda: (R(3, 4), R(4)), lambda: (R(6, 4), R(4)))
def arguments_written(x, y):
    x[:, 1] = y[0]
    x.select(0, 0).copy_(y * 2)
    x[-1].zero_()
    y.add_(x.sum(0))
    y[1:] = y[:-1].clone()
    return (x * 2).sum()


@program(lambda: (torch.rand(5, 6), R(5, 6)), lambda: (torch.rand(9, 4), R(9, 4)), grad=True)
def distributions_by_hand(p, x):
    p = p.clamp(0.02, 0.98)
    ent = -(p * p.log() + (1 - p) * torch.log1p(-p))
    kl = F.kl_div(x.log_softmax(-1), p / p.sum(-1, keepdim=True), reduction="batchmean")
    beta = torch.lgamma(1 + p) + torch.lgamma(2 + p) - torch.lgamma(3 + 2 * p)
    normal = -0.5 * x.square() - 0.5 * math.log(2 * math.pi)
    cdf = 0.5 * torch.erfc(-x / math.sqrt(2))
    gumbel = -torch.log(-torch.log(p))
    return (
        ent,
        kl,
        beta,
        normal,
        cdf,
        torch.special.ndtri(p),
        gumbel,
        torch.special.i0e(x),
        torch.special.xlogy(p, p),
        torch.sinc(x),
        torch.special.entr(p),
        torch.digamma(1 + p),
    )


@program(lambda: (R(64).cumsum(0),), lambda: (R(40).cumsum(0),), package=False)
def indicators(x):
    def ema(v, a):
        out = [v[0]]
        for i in range(1, 12):
            out.append(out[-1] * (1 - a) + v[i] * a)
        return torch.stack(out)

    w = x.unfold(0, 10, 1)
    up = F.relu(x.diff())
    down = F.relu(-x.diff())
    rs = up.unfold(0, 5, 1).mean(-1) / down.unfold(0, 5, 1).mean(-1).clamp(min=1e-3)
    draw = x - x.cummax(0).values
    z = (w[:, -1] - w.mean(-1)) / w.std(-1).clamp(min=1e-4)
    corr = torch.corrcoef(torch.stack([x[:-1], x[1:], x[1:] ** 2]))
    return (
        ema(x, 0.2),
        100 - 100 / (1 + rs),
        draw.min(),
        z,
        corr,
        torch.cov(torch.stack([x[2:], x[:-2]])),
        (x[1:] > x[:-1]).long().cumsum(0),
        torch.trapezoid(x, dx=0.5),
        torch.cumulative_trapezoid(x),
    )


@program(lambda: (R(4, 5, 3), ints(5, 4)), lambda: (R(6, 8, 3), ints(8, 6)), grad=True)
def last_of_each_and_masks(x, n):
    length = x.shape[1]
    keep = torch.arange(length) <= n[:, None]
    last = x[torch.arange(x.shape[0]), n]
    mean = (x * keep[..., None]).sum(1) / keep.sum(1, keepdim=True)
    top = x.masked_fill(~keep[..., None], torch.finfo(x.dtype).min).amax(1)
    rev = torch.where(keep, n[:, None] - torch.arange(length), torch.arange(length))
    back = x.gather(1, rev[..., None].expand_as(x))
    return last, mean, top, back, F.softmax(x.sum(-1).masked_fill(~keep, -math.inf), -1)


@program(lambda: (R(5, 7).to(torch.complex64),), lambda: (R(3, 8).to(torch.complex64),), tolerance=1e-4)
def complex_signals(x):
    x = x * torch.exp(1j * torch.arange(x.shape[1]) * 0.3)
    f = torch.fft.fftshift(torch.fft.fft(x, dim=-1), dim=-1)
    return (
        f.abs(),
        f.angle(),
        x.conj() @ x.mT,
        torch.view_as_real(x).sum(-1),
        x.real * x.imag,
        torch.polar(x.abs(), x.angle()),
        x.abs().square().sum(),
        torch.vdot(x[0], x[1]),
        x[:, :3].prod(-1),
        (x / (x + 2)).sgn(),
    )


@program(lambda: (torch.rand(3, 20, 20) > 0.5,), lambda: (torch.rand(2, 16, 24) > 0.3,))
def masks_grown_and_measured(m):
    f = m.float()[:, None]
    grown = F.max_pool2d(f, 3, 1, 1)
    shrunk = -F.max_pool2d(-f, 3, 1, 1)
    edge = grown != shrunk
    area = m.sum((-1, -2))
    ys = (m * torch.arange(m.shape[1])[:, None]).sum((-1, -2)) / area
    rows, cols = m.any(-1), m.any(-2)
    box = torch.stack(
        [rows.long().argmax(-1), cols.long().argmax(-1), m.shape[1] - 1 - rows.flip(-1).long().argmax(-1)], -1
    )
    inter = (m[:, None] & m[None]).sum((-1, -2))
    union = (m[:, None] | m[None]).sum((-1, -2))
    return edge, area, ys, box, inter / union, m.logical_not().all(-1), (m ^ m.roll(1, -1)).sum(-1)


@program(lambda: (R(6, 10), R(6, 10)), lambda: (R(4, 7), R(4, 7)), grad=True)
def losses_paired(x, y):
    t = y.sign().detach()
    return (
        F.huber_loss(x, y, delta=0.7),
        F.smooth_l1_loss(x, y, beta=0.3, reduction="none"),
        F.soft_margin_loss(x, t),
        F.cosine_embedding_loss(x, y, t[:, 0], margin=0.1),
        F.hinge_embedding_loss(x, t),
        F.margin_ranking_loss(x, y, t, margin=0.2),
        F.poisson_nll_loss(x, y.abs()),
        F.binary_cross_entropy_with_logits(x, y.sigmoid(), pos_weight=torch.tensor(2.0)),
        F.multilabel_soft_margin_loss(x, (y > 0).float()),
        F.triplet_margin_loss(x, y, x.roll(1, 0)),
        F.pairwise_distance(x, y, 1.5),
        F.cosine_similarity(x, y, dim=0),
    )


@program(lambda: (R(3, 5, 5),), lambda: (R(2, 7, 7),), grad=True, tolerance=1e-3)
def determinants_and_matrix_powers(x):
    n = x.shape[-1]
    a = x @ x.mT + n * torch.eye(n)
    c = torch.linalg.cholesky(a)
    y = torch.cholesky_solve(x[..., :2], c)
    return (
        torch.linalg.det(a),
        a.logdet(),
        y,
        torch.linalg.solve_triangular(c, x, upper=False),
        torch.linalg.matrix_power(a / 10, 3),
        torch.linalg.inv(a),
        torch.matrix_exp(x / 5),
        torch.linalg.eigvalsh(a),
        torch.linalg.pinv(x[..., :3]),
    )


@program(
    lambda: (R(2, 3), [R(4), R(2, 2)], {"a": R(3), "b": (R(1), 2)}),
    lambda: (R(5, 3), [R(2), R(3, 3)], {"a": R(3), "b": (R(1), 2)}),
)
def trees_of_arguments(x, parts, named):
    parts[0].mul_(2)
    n = named["b"][1]
    return {
        "sum": x.sum() + parts[0].sum(),
        "list": [p * n for p in parts],
        "t": (named["a"] + x[0], named["b"][0].expand(4)),
    }


@program(lambda: (R(5, 6), ints(6, 5)), lambda: (R(8, 6), ints(6, 8)), grad=True)
def focal_dice_and_sorted_loss(x, y):
    p = x.softmax(-1)
    pt = p.gather(1, y[:, None]).squeeze(1)
    focal = -((1 - pt) ** 2 * pt.log()).mean()
    hot = torch.nn.functional.one_hot(y, x.shape[1])
    dice = 1 - (2 * (p * hot).sum(0) + 1) / (p.sum(0) + hot.sum(0) + 1)
    errors = (hot - p).abs()
    e, i = errors.sort(0, descending=True)
    g = hot.gather(0, i)
    inter = g.sum(0) - g.cumsum(0)
    union = g.sum(0) + (1 - g).cumsum(0)
    jac = 1.0 - inter / union
    jac = torch.cat([jac[:1], jac[1:] - jac[:-1]])
    return focal, dice, (e * jac).sum(0)


@program(lambda: (R(3, 7), R(5, 4)), lambda: (R(6, 2), R(9, 3)))
def tensors_of_sizes(x, y):
    n, m = x.shape
    k, l = y.shape
    a = torch.tensor([[n, m], [k, l]])
    b = torch.tensor([n / m, math.sqrt(2), k])
    c = torch.arange(n * l).reshape(n, l) / n
    d = torch.linspace(0, m, k)
    e = torch.eye(n, l) * m
    f = torch.full((l, n), n // 2)
    g = torch.zeros(m + k).index_fill(0, torch.tensor([0, m]), n)
    h = torch.ones(n, 1).expand(n, k)
    i = torch.tril_indices(n, m)
    j = torch.hann_window(k)
    return (
        a,
        b,
        c,
        d,
        e,
        f,
        g,
        h,
        i,
        j,
        torch.logspace(0, 1, l),
        torch.empty(0, n),
        torch.full_like(x, l),
        torch.arange(m, 0, -1),
    )


@program(lambda: (R(2, 9, 8), 4), lambda: (R(3, 14, 8), 5))
def windows_of_a_number(x, w):
    n, t, c = x.shape
    pad = (-t) % w
    y = F.pad(x, (0, 0, 0, pad))
    y = y.view(n, -1, w, c)
    z = y.mean(2, keepdim=True)
    back = (y - z).view(n, -1, c)[:, :t]
    return back, z.squeeze(2), torch.tensor(pad), y.shape[1], (t + w - 1) // w


@program(lambda: (R(4, 6), R(4, 6)), lambda: (R(7, 5), R(7, 5)), grad=True)
def contrast_and_ranks(a, b):
    a, b = F.normalize(a, dim=-1), F.normalize(b, dim=-1)
    s = a @ b.T / 0.1
    y = torch.arange(a.shape[0])
    loss = (F.cross_entropy(s, y) + F.cross_entropy(s.T, y)) / 2
    rank = (s > s.diagonal()[:, None]).sum(-1)
    eye = torch.eye(a.shape[0], dtype=torch.bool)
    hard = s.masked_fill(eye, -math.inf).max(-1)
    barlow = (a.T @ b) / a.shape[0]
    vic = F.relu(1 - torch.sqrt(a.var(0) + 1e-4)).mean()
    return (
        loss,
        rank,
        hard.values,
        hard.indices,
        (barlow - torch.eye(a.shape[1])).square().sum(),
        vic,
        (rank < 3).float().mean(),
    )


@program(lambda: (torch.rand(200),), lambda: (torch.rand(333),), tolerance=1e-4)
def sound_in_short(x):
    n = x.shape[0]
    e = x.unfold(0, 50, 25).square().mean(-1)
    z = ((x[1:] * x[:-1]) < 0).float().mean()
    f = torch.fft.rfft(x * torch.hann_window(n, periodic=False)).abs()
    k = torch.arange(f.shape[0]) / n
    centroid = (f * k).sum() / f.sum()
    roll = (f.cumsum(0) < 0.85 * f.sum()).sum()
    ac = torch.fft.irfft(torch.fft.rfft(x, n=2 * n).abs().square(), n=2 * n)[:n]
    pre = torch.cat([x[:1], x[1:] - 0.97 * x[:-1]])
    mu = torch.sign(x) * torch.log1p(255 * x.abs()) / math.log(256)
    return (
        e,
        z,
        centroid,
        roll,
        ac / ac[0],
        pre,
        ((mu + 1) / 2 * 255).to(torch.uint8),
        torch.stft(x, 64, 16, window=torch.hann_window(64), return_complex=True).abs().clamp(min=1e-5).log(),
    )


@program(lambda: (R(5, 4), R(4, 4)), lambda: (R(8, 4), R(4, 4)), tolerance=1e-3)
def kalman_of_numbers(z, f):
    n = f.shape[0]
    f = torch.eye(n) + 0.1 * f
    x, p = torch.zeros(n), torch.eye(n)
    q, r = 0.1 * torch.eye(n), torch.eye(n)
    out = []
    for i in range(5):
        x, p = f @ x, f @ p @ f.T + q
        k = torch.linalg.solve(p + r, p).T
        x = x + k @ (z[i] - x)
        p = (torch.eye(n) - k) @ p
        out.append(x)
    return torch.stack(out), p.diagonal(), p.logdet()


@program(lambda: (ints(8, 5, 6), R(8, 3)), lambda: (ints(8, 2, 9), R(8, 3)), grad=True)
def bags_and_tables(i, w):
    offsets = torch.arange(0, i.numel(), i.shape[1])
    a = F.embedding_bag(i.flatten(), w, offsets, mode="sum")
    b = F.embedding_bag(i, w, mode="mean")
    c = F.embedding_bag(i, w, mode="max")
    u = w[i].flatten(1)
    s = torch.bincount(i.flatten(), minlength=8)
    return a, b, c, u, s, w.index_select(0, i[0]), torch.take(w, i[:, :2]), torch.take_along_dim(w, i[:, :3] % 8, 0)


@program(lambda: (R(4, 4),), lambda: (R(6, 6),))
def flows_of_control(x):
    y = x
    for row in x.unbind(0)[:3]:
        y = y + row
    i = 0
    while i < x.shape[0] // 2:
        y = y * 0.5
        i += 1
    z = torch.cond(x.sum() > 0, lambda t: t.relu(), lambda t: t.exp(), (y,))
    total = sum(t.mean() for t in z.split(2))
    return z, total, [t for t in z.chunk(3, 1)], i


@program(lambda: (R(3, 4, 5),), lambda: (R(2, 6, 3),))
def shapes_moved(x):
    return (
        x.permute(2, 0, 1).contiguous(),
        x.transpose(0, 2).reshape(-1, x.shape[0]),
        x.movedim(0, -1),
        x.swapaxes(1, 2).flatten(),
        x.rot90(1, (1, 2)),
        x.roll((1, -1), (0, 2)),
        x.tile(2, 1),
        x.unsqueeze(1).expand(-1, 3, -1, -1).sum(1),
        torch.stack([x, x * 2], 2),
        torch.hstack([x, x]),
        torch.dstack([x, x]),
        torch.column_stack([x[:, 0], x[:, 1]]),
        x.narrow(1, 1, 2),
        x.select(-1, 0),
        x[..., ::2, 1:],
        x.T if x.dim() == 2 else x.mT,
        torch.atleast_3d(x[0]),
        x.ravel(),
        x.view_as(x),
        torch.broadcast_to(x[:, :1], x.shape),
        x.squeeze(),
        x.diagonal(0, 1, 2),
        x.unfold(2, 2, 1),
    )


@program(lambda: (R(12, 5).double(), R(12).double()), lambda: (R(9, 4).double(), R(9).double()), tolerance=1e-6)
def regressions(a, y):
    n, m = a.shape
    ridge = torch.linalg.solve(a.T @ a + 0.1 * torch.eye(m, dtype=a.dtype), a.T @ y)
    q, r = torch.linalg.qr(a)
    ls = torch.linalg.solve_triangular(r, (q.T @ y)[:, None], upper=True)[:, 0]
    w = torch.zeros(m, dtype=a.dtype)
    step = 1 / torch.linalg.matrix_norm(a, 2) ** 2
    for _ in range(20):
        w = w - step * a.T @ (a @ w - y)
        w = torch.sign(w) * F.relu(w.abs() - step * 0.2)
    res = y - a @ ls
    logit = torch.zeros(m, dtype=a.dtype)
    t = (y > 0).to(a.dtype)
    for _ in range(4):
        p = torch.sigmoid(a @ logit)
        h = (a * (p * (1 - p))[:, None]).T @ a + 1e-2 * torch.eye(m, dtype=a.dtype)
        logit = logit - torch.linalg.solve(h, a.T @ (p - t) + 1e-2 * logit)
    return ridge, ls, w, res.square().sum() / (n - m), logit, torch.linalg.svdvals(a)


@program(lambda: (R(2, 4, 8, 8), R(6, 4, 3, 3)), lambda: (R(3, 4, 9, 7), R(6, 4, 3, 3)), grad=True)
def convolutions_in_all_ways(x, w):
    return (
        F.conv2d(x, w, stride=2, padding=1),
        F.conv2d(x, w, dilation=2, padding="same"),
        F.conv_transpose2d(x, w.transpose(0, 1), stride=2, padding=1, output_padding=1),
        F.conv2d(x, w[:, :2], groups=2),
        F.conv1d(x.flatten(2), w.flatten(2)[..., :3], padding=1),
        F.conv2d(x.mT, w.mT, padding=(2, 0), stride=(1, 2)),
        F.unfold(x, 3, padding=1).mean(1),
        F.fold(F.unfold(x, 2, stride=2), (x.shape[2] // 2 * 2, x.shape[3] // 2 * 2), 2, stride=2),
        F.conv2d(x[0], w),
        F.pixel_unshuffle(x[..., :6, :6], 2),
        F.channel_shuffle(x, 2),
    )
