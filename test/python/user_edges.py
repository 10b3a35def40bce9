"""Programs of `user_harness.py` at the edges of what operators take: overflow, indices from the end, NaN among the
greatest and the least, reductions of nothing, elements in reverse, memory that is saved and written, complex views.
"""

import torch
import torch.nn.functional as F
from torch import nn

from user_harness import program

R = torch.randn
C = lambda *s: torch.randn(*s, dtype=torch.complex64)


def ints(low, high, *shape, dtype=torch.int64):
    return torch.randint(low, high, shape, dtype=dtype)


@program(lambda: (ints(0, 2**62, 6),))
def integers_that_overflow(x):
    squares = torch.arange(10) * 10**9 * 10**9
    narrow = x.to(torch.int32), x.to(torch.int16) * 77, x.to(torch.uint8) + 200
    return (
        squares,
        x * 4,
        x + x + x,
        (x * 3).sum(),
        x.prod(),
        x.cumsum(0),
        -x * 7,
        x << 3,
        torch.arange(5) * 1e9,
        *narrow,
    )


@program(lambda: (R(5, 5), ints(-5, 5, 4)), grad=True)
def indices_from_the_end(x, i):
    return x[i], x[-1] * 2, x[:, -2:].sum(1), x[i, -i - 1], x[..., -1].exp(), x[None, -3] + 1, x.take(i), x[-4:-1:2] * 3


@program(lambda: (torch.tensor([[1.0, float("nan"), -2, float("inf")], [-float("inf"), 0.0, -0.0, 3]]),))
def nan_among_the_greatest(x):
    flat = x.view(-1)
    ends = x.max(), x.min(), x.amax(1), x.amin(0), x.aminmax(dim=1).min, flat.argmax(), flat.argmin()
    pairs = torch.maximum(x, x.flip(0)), torch.minimum(x, x.flip(1)), torch.fmax(x, x.flip(0)), torch.fmin(x, x.flip(1))
    running = flat.cummax(0).values, flat.cummin(0).indices, flat.sort().values, flat.topk(3).values, flat.median()
    clipped = x.clamp(-1, 1), F.relu(x), F.hardtanh(x), F.relu6(x), F.max_pool1d(x, 2), x.softmax(1), x.nan_to_num()
    return (
        *ends,
        *pairs,
        *running,
        *clipped,
        x.sign(),
        x.round(),
        x.nansum(),
        x.nanmedian(),
        x.isclose(x, equal_nan=True),
    )


@program(lambda: (torch.zeros(0, 4), torch.zeros(3, 0)), dynamic=False)
def reductions_of_nothing(a, b):
    whole = a.sum(), a.prod(), a.mean(), a.std(), a.nansum(), a.norm()
    rows = (
        b.sum(1),
        b.any(1),
        b.all(1),
        b.logsumexp(1),
        b.mean(1),
        b.count_nonzero(1),
        torch.linalg.vector_norm(b, dim=1),
    )
    columns = a.sum(0), a.var(0), a.prod(0), a.softmax(0), a.cumsum(0), a.sort(0).values, a.log_softmax(0)
    products = b @ a, a.t() @ a, torch.addmm(torch.ones(3, 4), b, a, beta=0.5), torch.einsum("ij,jk->ik", b, a)
    layers = F.linear(a, torch.ones(5, 4)), F.layer_norm(a, (4,)), F.conv2d(a.view(0, 1, 2, 2), torch.ones(2, 1, 1, 1))
    return *whole, *rows, *columns, *products, *layers, F.pad(b, (1, 1), value=2.0), a.mode(1).values


@program(lambda: (R(4, 6),), lambda: (R(5, 3),), grad=True)
def elements_in_reverse(x):
    turned = torch.rot90(x, 1), torch.rot90(x, 3).contiguous(), x.flip(1).t().reshape(-1)
    return x.flip(0)[::2] * 2, *turned, x.fliplr() @ x.T, x.flip(0).cumsum(0).flip(0), x.flip(0, 1)[1:].mode(1).values


@program(lambda: (R(4, 5),), lambda: (R(6, 3),), grad=True)
def memory_that_is_saved_and_written(x):
    a = x.sin()
    b = a.clone()
    b[:, 0].mul_(2)
    b[1:3].add_(a[2:4])
    b.exp_()
    rows = a.view(-1)[::2] * b.view(-1)[::2]
    return rows.sum() + (a.t() @ b).exp().mean(), b.t()[1] * a[:, 2], a.cumsum(0).prod(1)


@program(lambda: (C(4, 6),), dynamic=False)
def writes_of_real_numbers_into_complex_ones(z):
    w = z.clone()
    w[0] = 1
    w[:, 1] *= 1j
    w.real[2] = 5
    w[w.abs() > 1.5] = 0
    w[1:3, 2:4] = torch.ones(2, 2)
    w[:, ::2].copy_(z.real[:, ::2])
    scattered = torch.slice_scatter(z, torch.ones(1, 6), 0, 1, 2), torch.select_scatter(z, torch.ones(6), 0, 2)
    filled = z.index_fill(0, torch.tensor([1]), 2.0), z.masked_fill(z.real > 0, 1.0), torch.where(z.real > 0, z, 0)
    return w, *scattered, torch.diagonal_scatter(z, torch.zeros(4)), *filled, torch.cat([z, z.real])


@program(lambda: (C(4, 6), R(4, 3, 2)))
def views_of_complex_inputs(z, pairs):
    moved = z.t(), z[1:, ::2], z.unsqueeze(1), z.diagonal(), z.view(2, 12), z[2]
    return (
        *moved,
        torch.view_as_real(z),
        torch.view_as_real(z.t()[1:]),
        z.t().real,
        z.real,
        z.imag,
        torch.view_as_complex(pairs),
        *z.split(2),
        *z[:2].unbind(),
    )


@program(lambda: (R(3, 16), R(3, 16)), grad=True, dynamic=False)
def filters_by_spectra(a, b):
    x, y = torch.fft.rfft(a), torch.fft.rfft(b)
    shifted = torch.fft.irfft(x * torch.exp(-1j * torch.arange(9)))
    halves = torch.fft.hfft(x)[:, :4], torch.fft.rfft(a, n=20).abs(), torch.fft.fft(a, norm="ortho").abs()
    return torch.fft.irfft(x * y, n=16), shifted, *halves, x.conj().mul(y).imag, torch.fft.ifftn(torch.fft.fftn(a)).real


@program(
    lambda: (ints(-128, 127, 2, 3, 8, 8, dtype=torch.int8), ints(-128, 127, 4, 3, 3, 3, dtype=torch.int8)),
    dynamic=False,
)
def products_of_int8(x, w):
    sums = F.conv2d(x.float(), w.float(), padding=1).to(torch.int32)
    narrow = ((sums * 3 + (1 << 7)) >> 8).clamp(-128, 127).to(torch.int8)
    packed = (x & 15).to(torch.uint8) | (x << 4).to(torch.uint8)
    wide = narrow.to(torch.int16) + x.sum((1, 2, 3), dtype=torch.int16)[:, None, None, None]
    bits = x.to(torch.uint8), x.view(torch.uint8) + 1, x.flatten(1).view(torch.int32), x // 3, x % 5, x >> 2, -x, x * x
    dot = torch.matmul(x[0, 0, 0].int(), w[0, 0].flatten()[:8].int())
    return sums, narrow, packed, wide, *bits, dot, torch.fake_quantize_per_tensor_affine(x.float(), 0.3, 4, 0, 255)


@program(lambda: (R(12, 5), ints(0, 12, 20), ints(0, 12, 20)), grad=True)
def messages_along_edges(x, source, target):
    n = x.shape[0]
    sent = torch.relu(x[source] - x[target])
    degree = torch.zeros(n).index_add(0, target, torch.ones(source.shape[0]))
    mean = torch.zeros_like(x).index_add(0, target, sent) / degree.clamp(min=1)[:, None]
    top = torch.zeros_like(x).scatter_reduce(0, target[:, None].expand(-1, 5), sent, "amax")
    weight = sent.sum(1).exp()
    soft = weight / torch.zeros(n).index_add(0, target, weight)[target]
    adjacent = torch.zeros(n, n).index_put((source, target), torch.ones(source.shape[0]), accumulate=True)
    return mean, top, soft, adjacent @ x, x.index_copy(0, torch.tensor([3, 1]), x[:2])


@program(lambda: (R(30, 2), R(30)))
def boxes_that_overlap_little(corners, scores):
    order = scores.argsort(descending=True)
    boxes = torch.cat([corners, corners + 1], 1)[order]
    low, high = torch.maximum(boxes[:, None, :2], boxes[:, :2]), torch.minimum(boxes[:, None, 2:], boxes[:, 2:])
    shared = (high - low).clamp(min=0).prod(2)
    keep = ~((shared / (2 - shared)) > 0.3).triu(1).any(0)
    return keep, order[keep], boxes[keep].sum(0), keep.nonzero().flatten()[:3]


@program(lambda: (R(2, 3),), lambda: (R(4, 3),))
class RollingState(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(4, 3))
        self.register_buffer("seen", torch.tensor(0))
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        self.cache.copy_(torch.roll(self.cache, 1, 0))
        self.cache[0] = x.mean(0)
        self.seen += x.shape[0]
        return self.layer(self.cache), self.seen.clone(), self.cache.max(0).values / self.seen


@program(lambda: (R(5, 7),), lambda: (R(9, 7),), grad=True)
def attention_that_broadcasts(x):
    """Operands of other ranks, batches and heads: eager writes such attention out as products."""
    query, key = x.expand(2, 3, -1, -1), x[None, None]
    wide = F.scaled_dot_product_attention(query, key, key), F.scaled_dot_product_attention(key, query, query)
    mixed = F.scaled_dot_product_attention(x, query, query), F.scaled_dot_product_attention(query[0], query, x)
    shared = F.scaled_dot_product_attention(torch.cat([query, query], 1)[0], query, query, enable_gqa=True)
    return *wide, *mixed, shared, F.scaled_dot_product_attention(query[:, :1], query, key, is_causal=True)


@program(lambda: (R(2, 2, 3, 4, 8), R(2, 2, 3, 5, 8)))
def masks_of_attention_of_any_rank(q, k):
    """A mask broadcasts to the scores from the right, whatever the ranks."""
    scores = q @ k.mT
    found = [F.scaled_dot_product_attention(q, k, k, attn_mask=m) for m in (scores[:1], scores[0], scores[0] > 0)]
    found += [F.scaled_dot_product_attention(q, k, k, attn_mask=m) for m in (scores[0, :, :, :1], scores[0, :1] > 0)]
    q, k, scores = q[0, 0], k[0, 0], scores[0, 0]
    found += [F.scaled_dot_product_attention(q, k, k, attn_mask=m) for m in (scores, scores[:1] > 0, scores[0])]
    return *found, F.scaled_dot_product_attention(q[0], k[0], k[0], attn_mask=scores[0])


@program(lambda: (R(6, 4), 0.1), lambda: (R(8, 4), 9.0))
def medians_of_what_may_be_nothing(x, least):
    y, n = x[x > least], (x[x > least] * 10).long()
    found = y.median(), y.nanmedian(), n.median(), n.nanmedian(), torch.cat([y, y / 0 * 0]).median()
    return *found, x[:0].median(), x[:, :0].long().median(), x[:0].half().nanmedian()


@program(lambda: (ints(0, 6, 4), ints(0, 3, 4)), lambda: (ints(0, 6, 7), ints(0, 3, 7)))
def losses_of_integers(a, b):
    small, signs = a.to(torch.uint8), (b - 1).sign()
    hinges = [F.hinge_embedding_loss(x, signs, margin=1.7, reduction=r) for x in (a, a.int()) for r in ("none", "sum")]
    counts = [F.poisson_nll_loss(a, b, log_input=log, full=log) for log in (False, True)]
    mixed = F.hinge_embedding_loss(a, signs.float(), reduction="none"), F.poisson_nll_loss(small, b, reduction="none")
    return *hinges, *counts, *mixed, F.hinge_embedding_loss(small, signs, margin=2.5, reduction="sum")


@program(lambda: (R(5), torch.tensor(0.3)), lambda: (R(7), torch.tensor(0.6)), dynamic=False)
def activations_with_numbers_of_tensors(x, t):
    number = t.item()
    narrow = F.leaky_relu(x.half(), number), F.softplus(x.bfloat16(), number)
    wide = F.leaky_relu(x, number), F.elu(x, number), F.celu(x, number), F.softplus(x * 9, number, 2.0)
    return *narrow, *wide, torch.lerp(x, x * 2, number), x.clamp(max=number)
