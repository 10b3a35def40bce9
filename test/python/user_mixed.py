"""Programs of `user_harness.py`: what users mix, library layers, hooks, numpy, subclasses, distributions."""

import contextlib
import functools
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from user_harness import program

R = torch.randn
C = lambda *s: torch.randn(*s, dtype=torch.complex64)
ints = lambda high, *shape: torch.randint(0, high, shape)


@program(lambda: (R(2, 4, 6, 6), R(2, 5)), lambda: (R(3, 4, 6, 6), R(3, 5)), grad=True, bf16=True)
class ModulatedConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.style = nn.Parameter(R(6, 4, 3, 3)), nn.Linear(5, 4)

    def forward(self, x, w):
        n, c, h, width = x.shape
        weight = self.weight[None] * (self.style(w) + 1).view(n, 1, c, 1, 1)
        weight = weight * torch.rsqrt(weight.square().sum((2, 3, 4), keepdim=True) + 1e-8)
        out = F.conv2d(x.reshape(1, n * c, h, width), weight.view(n * 6, c, 3, 3), padding=1, groups=n)
        return out.view(n, 6, h, width)


@program(lambda: (R(3, 4), R(3, 4)), lambda: (R(5, 4), R(5, 4)), grad=True)
def distributions_of_torch(a, b):
    from torch import distributions as d

    p, q = d.Normal(a, b.exp()), d.Normal(a.mean(0), b.mean(0).exp())
    mixture = d.MixtureSameFamily(d.Categorical(logits=a), d.Normal(b, a.exp()))
    beta = d.Beta(a.exp(), b.exp())
    gamma = d.Gamma(a.exp(), b.exp())
    gauss = d.MultivariateNormal(a, scale_tril=torch.eye(4) + 0.1 * torch.ones(4, 4).tril(-1))
    return (
        d.kl_divergence(p, q).sum(-1),
        mixture.log_prob(a[:, 0]),
        beta.log_prob(torch.full_like(a, 0.3)).sum(),
        gamma.entropy(),
        gauss.log_prob(b),
        d.TransformedDistribution(p, [d.transforms.TanhTransform()]).log_prob(torch.full_like(a, 0.2)),
        d.Laplace(a, b.exp()).cdf(b),
        d.StudentT(b.exp() + 1).log_prob(a),
        d.Dirichlet(a.exp()).log_prob(b.softmax(-1)),
        d.Poisson(a.exp()).log_prob(torch.ones_like(a)),
    )


@program(lambda: (R(4, 5).numpy(),), lambda: (R(6, 5).numpy(),), package=False)
def numpy_inside(x):
    y = np.exp(x - x.max(1, keepdims=True))
    y = y / y.sum(axis=1, keepdims=True)
    return torch.from_numpy(np.argsort(y, axis=1)), torch.from_numpy(np.where(y > 0.2, y, 0) @ y.T)


@program(lambda: (R(3, 4), R(3, 4)), lambda: (R(5, 4), R(5, 4)), package=False)
def subclass_of_two(a, b):
    from torch.testing._internal.two_tensor import TwoTensor

    t = TwoTensor(a, b)
    u = (t * 2).sin() @ t.t()
    return u.a, u.b, t.sum(0).a


@program(lambda: (R(9, 4), torch.tensor([0, 2, 5, 9])), package=False, dynamic=False)
def jagged_batches(values, offsets):
    n = torch.nested.nested_tensor_from_jagged(values, offsets)
    y = (n * 2).sin()
    return y.values(), torch.nested.to_padded_tensor(y, 0.0), y.sum(dim=1)


@program(lambda: (R(2, 2, 32, 8), R(2, 2, 32, 8), R(2, 2, 32, 8)), package=False)
def flex_attention_with_alibi(q, k, v):
    from torch.nn.attention.flex_attention import flex_attention

    def score(s, b, h, i, j):
        return torch.where(i >= j, s + (j - i) * 0.1 * (h + 1), -float("inf"))

    return flex_attention(q, k, v, score_mod=score)


@program(
    lambda: (R(2, 7, 8), R(2, 5, 8), ints(2, 2, 5).bool()),
    lambda: (R(3, 6, 8), R(3, 4, 8), ints(2, 3, 4).bool()),
    grad=True,
)
class TransformerOfTorch(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True, norm_first=True)

    def forward(self, source, target, mask):
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        mask = mask.clone()
        mask[:, 0] = False
        return self.net(source, target, tgt_mask=causal, tgt_key_padding_mask=mask.float() * -1e4, tgt_is_causal=True)


@program(lambda: (R(5, 6), ints(4, 5)), lambda: (R(7, 6), ints(4, 7)), grad=True, bf16=True)
class HooksOfAllKinds(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 4)
        self.a.register_forward_hook(lambda m, i, o: o * 2)
        self.b.register_forward_pre_hook(lambda m, i: (i[0].clamp(min=-1),))

    def forward(self, x, y):
        h = self.a(x)
        if h.requires_grad:
            h.register_hook(lambda g: g * 0.5)
        return self.b(F.relu(h)), F.one_hot(y, 4).sum(0)


@program(lambda: (R(4, 6),), package=False, grad=True)
class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 6)

    def forward(self, x):
        block = lambda x: self.b(F.gelu(self.a(x))) + x
        for _ in range(2):
            x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
        return x


@program(lambda: (R(6, 8), R(6, 8)), package=False)
class ExponentialAverage(nn.Module):
    def __init__(self):
        super().__init__()
        self.online, self.slow = nn.Linear(8, 4), nn.Linear(8, 4)

    def forward(self, x, y):
        with torch.no_grad():
            for p, q in zip(self.slow.parameters(), self.online.parameters()):
                p.lerp_(q, 0.1)
        with torch.inference_mode(False):
            z = self.online(x)
        return 2 - 2 * F.cosine_similarity(z, self.slow(y).detach(), dim=-1), self.slow.weight.data * 1


@program(lambda: (R(20), ints(6, 20)), lambda: (R(31), ints(6, 31)), package=False)
def statistics_of_all_kinds(x, i):
    u = torch.unique_consecutive(i, return_counts=True)
    return (
        *u,
        x.median(),
        x.nanmedian(),
        *x.kthvalue(3),
        x.quantile(torch.tensor([0.1, 0.5, 0.9])),
        torch.histc(x, 5, -2, 2),
        torch.bucketize(x, torch.linspace(-1, 1, 5), right=True),
        i.mode().values,
        torch.cov(torch.stack([x, x.roll(1)])),
        torch.corrcoef(torch.stack([x, x.square()])),
        x.var(correction=0),
        *torch.aminmax(x),
        x.argsort(descending=True, stable=True),
        torch.msort(x),
        torch.isin(i, torch.tensor([1, 3])),
        x.logcumsumexp(0),
        torch.std_mean(x)[0],
        i.bincount(x.abs()),
    )


@program(lambda: (R(4, 6), R(4, 3)), lambda: (R(6, 6), R(6, 3)), grad=True, tolerance=2e-3)
def least_squares_and_eigen(a, b):
    x = torch.linalg.lstsq(a, b).solution if a.shape[0] >= 6 else torch.linalg.pinv(a) @ b
    s = a @ a.T + torch.eye(a.shape[0])
    w = torch.linalg.eigvalsh(s)
    return (
        x,
        w,
        torch.linalg.cond(s),
        torch.linalg.matrix_norm(a, "nuc"),
        torch.logdet(s),
        torch.linalg.inv(s).diagonal(),
    )


@program(lambda: (R(3, 8, 8),), lambda: (R(2, 12, 8),), grad=True)
def cosine_transforms(x):
    n = x.shape[-1]
    v = torch.cat([x[..., ::2], x[..., 1::2].flip(-1)], -1)
    spectrum = torch.fft.fft(v)
    k = -torch.arange(n) * math.pi / (2 * n)
    dct = (spectrum.real * k.cos() - spectrum.imag * k.sin()) * 2
    image = torch.fft.rfft2(x)
    low = torch.fft.irfft2(image * (torch.fft.rfftfreq(n) < 0.2), s=x.shape[-2:])
    return dct, low, torch.fft.fftn(x).abs().sum(), torch.fft.fftfreq(n)


@program(lambda: (R(2, 3, 5, 6), R(2, 2, 3)), lambda: (R(1, 3, 7, 4), R(1, 2, 3)), grad=True)
def spatial_transformer(x, theta):
    grid = F.affine_grid(theta, list(x.shape), align_corners=False)
    y = F.grid_sample(x, grid, align_corners=False)
    up = F.interpolate(x, scale_factor=1.5, mode="bicubic", align_corners=False)
    near = F.interpolate(x, size=(4, 9), mode="nearest-exact")
    return y, up, near, F.interpolate(x, scale_factor=(2, 0.5), mode="area"), F.adaptive_avg_pool2d(x, (3, None))


@program(
    lambda: (R(5, 4), ints(4, 5), ints(2, 5, 4).float()),
    lambda: (R(6, 4), ints(4, 6), ints(2, 6, 4).float()),
    package=False,
)
def losses_of_all_kinds(x, y, m):
    p = x.sigmoid()
    sign = m * 2 - 1
    return torch.stack(
        [
            F.binary_cross_entropy(p, m),
            F.binary_cross_entropy_with_logits(x, m, pos_weight=torch.arange(1.0, 5)),
            F.multi_margin_loss(x, y),
            F.multilabel_soft_margin_loss(x, m),
            F.huber_loss(x, m, delta=0.5),
            F.smooth_l1_loss(x, m, beta=0.3),
            F.gaussian_nll_loss(x, m, p + 0.1),
            F.poisson_nll_loss(x, m),
            F.hinge_embedding_loss(x, sign),
            F.soft_margin_loss(x, sign),
            F.cosine_embedding_loss(x, m, sign[:, 0]),
            F.margin_ranking_loss(x[:, 0], x[:, 1], sign[:, 0]),
            F.nll_loss(x.log_softmax(1), y, weight=torch.arange(1.0, 5), reduction="sum"),
            F.kl_div(x.log_softmax(1), m.softmax(1), reduction="batchmean"),
            F.cross_entropy(x, m.softmax(1)),
            F.l1_loss(x, m),
            F.multilabel_margin_loss(x, torch.full_like(y, -1)[:, None].expand(-1, 4).contiguous()),
            F.triplet_margin_with_distance_loss(x, m, x.flip(0)),
        ]
    )


@program(lambda: (ints(10, 12), torch.tensor([0, 4, 4, 9]), R(12)), grad=True, package=True)
class Bags(nn.Module):
    def __init__(self):
        super().__init__()
        self.sum, self.mean = nn.EmbeddingBag(10, 3, mode="sum"), nn.EmbeddingBag(10, 3, padding_idx=2)
        self.max = nn.EmbeddingBag(10, 3, mode="max", include_last_offset=True)

    def forward(self, ids, offsets, weights):
        return (
            self.sum(ids, offsets, weights),
            self.mean(ids, offsets),
            self.max(ids, torch.cat([offsets, torch.tensor([12])])),
        )


@program(lambda: (R(8, 4), 3), lambda: (R(11, 4), 2), package=False)
def python_of_all_kinds(x, n, *rest, scale=2.0, **more):
    total, parts = 0, {}
    for i, chunk in enumerate(x.split(n)):
        total += chunk.sum() * (i + 1)
        parts.setdefault(len(chunk) % 2 == 0, []).append(chunk)
    rows = [row for k in sorted(parts) for row in parts[k]]
    halves = x.chunk(2)
    joined = functools.reduce(torch.add, [r.mean(0) for r in rows])
    with contextlib.suppress(KeyError):
        more["missing"]
    return (
        total * scale,
        torch.cat(rows),
        joined,
        max(x.shape),
        f"{x.dim()}d",
        halves[-1].shape[0] // 2,
        x.size(0) % n,
        [x.dtype, *map(float, (n,))],
    )


@program(lambda: (ints(200, 6).to(torch.uint8), ints(200, 6).to(torch.uint16), ints(200, 6).to(torch.uint32)))
def unsigned_numbers(a, b, c):
    return (
        a + 100,
        a - 201,
        a // 7,
        ~a,
        a << 2,
        b.to(torch.int32) * 3,
        c.to(torch.int64) << 33,
        b.to(torch.uint8),
        a.float() / 3,
        a.sum(),
        a.max(),
        (a * 2).to(torch.int8),
        c.view(torch.int32),
        b.clone(),
        torch.cat([c, c]),
    )


@program(lambda: (R(3, 4, dtype=torch.float64), R(4)), lambda: (R(5, 4, dtype=torch.float64), R(4)), grad=True)
def types_mixed(x, y):
    z = x + y
    with torch.autocast("cpu", torch.bfloat16):
        w = y @ y.view(4, 1)
        v = F.linear(x.float(), torch.ones(3, 4))
    return (
        z,
        w,
        v.softmax(-1),
        (x > y).sum(0),
        x.half() * y,
        y.bfloat16() + x.float(),
        torch.result_type(x, y) == z.dtype,
        y * 2j,
    )


@program(lambda: (R(6, 5), ints(2, 6, 5).bool()), lambda: (R(4, 7), ints(2, 4, 7).bool()), grad=True)
def masks_of_all_kinds(x, m):
    m = m | (torch.arange(m.shape[1]) == 0)
    top = x.masked_fill(~m, -torch.inf)
    filled = torch.zeros_like(x).masked_scatter(m, x.flatten())
    mean = (x * m).sum(1) / m.sum(1)
    last = m.long().cumsum(1).argmax(1)
    first = m.float().argmax(1, keepdim=True)
    return (
        top.softmax(1),
        top.amax(1),
        filled,
        mean,
        x.gather(1, last[:, None]),
        x.take_along_dim(first, 1),
        torch.where(m, x, x.mean()),
        x[m].sum(),
    )


@program(lambda: (R(4, 6), R(4, 6)), package=False)
def vmaps_of_all_kinds(x, y):
    f = lambda a, b: (a * b).sum() + a.max()
    return (
        torch.vmap(f)(x, y),
        torch.vmap(f, in_dims=1)(x, y),
        torch.vmap(lambda a: torch.stack([a, a * 2]), out_dims=1)(x),
        torch.vmap(torch.vmap(f, (0, None)), (None, 0))(x, y[:, :]),
        torch.vmap(lambda a, i: a.roll(1)[i], (0, 0))(x, torch.arange(4)),
        torch.vmap(lambda a: torch.linalg.norm(a) * F.softmax(a, 0))(x),
    )


@program(lambda: (R(3, 4),), lambda: (R(6, 4),), package=False)
class UpdatesItsOwnCache(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("queue", torch.zeros(10, 4))
        self.register_buffer("at", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        n = x.shape[0]
        place = (self.at + torch.arange(n)) % 10
        self.queue[place] = x
        self.at.add_(n).remainder_(10)
        return x @ self.queue.T, self.at.clone()


@program(lambda: (torch.rand(6, 6) > 0.5, R(6, 3)), lambda: (torch.rand(8, 8) > 0.5, R(8, 3)), grad=True)
def graph_spectra(adjacent, x):
    a = (adjacent | adjacent.T).to(x.dtype)
    a.fill_diagonal_(0)
    degree = a.sum(1)
    inverse = degree.clamp(min=1).rsqrt()
    laplacian = torch.eye(len(a)) - inverse[:, None] * a * inverse
    reach = torch.matrix_power(a + torch.eye(len(a)), 3) > 0
    chebyshev = [x, laplacian @ x]
    for _ in range(2):
        chebyshev.append(2 * laplacian @ chebyshev[-1] - chebyshev[-2])
    rank = torch.full((len(a),), 1 / len(a))
    for _ in range(5):
        rank = 0.85 * (a / degree.clamp(min=1)).mT @ rank + 0.15 / len(a)
    label = torch.arange(len(a))
    for _ in range(3):
        label = torch.where(a.bool(), label, len(a)).amin(1).minimum(label)
    return torch.stack(chebyshev), reach.sum(1), rank, label, torch.linalg.eigvalsh(laplacian)


@program(lambda: (R(2, 8, 3),), lambda: (R(2, 16, 3),), grad=True)
def haar_wavelets(x):
    out = []
    while x.shape[1] > 2:
        even, odd = x[:, ::2], x[:, 1::2]
        out.append((even - odd) / 2**0.5)
        x = (even + odd) / 2**0.5
    for detail in reversed(out):
        x = torch.stack([x + detail, x - detail], 2).flatten(1, 2) / 2**0.5
    return x, [o.abs().sum() for o in out]


@program(lambda: (R(4, 5), 2), lambda: (R(7, 5), 3), grad=True)
def slices_of_all_kinds(x, n):
    return (
        x[::2],
        x[:, None, :: -1 if False else 1],
        x[-1:],
        x[n:],
        x[:-n],
        x[..., -2:],
        x[[0, 2]],
        x[torch.tensor([1, -1])],
        x[x[:, 0] > -9][:n],
        x.narrow(0, n, 2),
        x.select(1, -1),
        x[n - 1, 1:4],
        x.index_select(1, torch.tensor([4, 0])),
        x.split([1, x.shape[0] - 1])[1],
        x.tensor_split(3)[1],
        x.movedim(0, 1)[1],
        x.flip((0, 1))[0],
        x.rot90()[0],
        x.tile(2, 1)[n],
        x.unflatten(1, (5, 1)).squeeze(-1),
        x.T.reshape(-1)[n::3],
        x.expand(2, *x.shape)[1],
        x.roll((1, 2), (0, 1)),
    )
