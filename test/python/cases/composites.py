"""Operators that eager composes of others (`src/ops/composites`), and recurrent networks."""

import torch
import torch.nn.functional as F
from torch import nn

from cases.data import Family

matrices, pieces, statistics, distances, recurrent, sampling = (
    Family(name) for name in ("matrices", "pieces", "statistics", "distances", "recurrent", "sampling")
)
m, p, s, d, r = matrices, pieces, statistics, distances, recurrent

m.add("tensordot", lambda a, b: torch.tensordot(a, b, dims=([1, 2], [0, 1])), m.normal(3, 4, 5), m.normal(4, 5, 6))
m.add(
    "tensordot_crossed",
    lambda a, b: torch.tensordot(a, b, dims=([0, 2], [3, 0])),
    m.normal(3, 4, 5),
    m.normal(5, 2, 6, 3),
)
m.add("tensordot_outer", lambda a, b: torch.tensordot(a, b, dims=0), m.normal(3), m.normal(2, 2))
m.add("inner", torch.inner, m.normal(2, 3, 5), m.normal(4, 5))
m.add("inner_number", torch.inner, m.normal(2, 3), m.normal())
m.add("kron", torch.kron, m.normal(3, 4), m.normal(2, 5))
m.add("kron_ranks", torch.kron, m.normal(3), m.normal(2, 5, 2))
m.add("multi_dot", lambda a, b, c: torch.linalg.multi_dot([a, b, c]), m.normal(5), m.normal(5, 3), m.normal(3, 6))
m.add(
    "cross",
    lambda a, b: (torch.cross(a, b, dim=1), torch.linalg.cross(a, b[:, :1].expand(4, 3), dim=1)),
    m.normal(4, 3),
    m.normal(4, 3),
)
m.add("vecdot", lambda a, b: torch.linalg.vecdot(a, b, dim=0), m.normal(4, 3), m.normal(4, 3))
m.add(
    "added_integers",
    lambda c, a, x, b, d: (
        torch.addmv(c, a, x, beta=1.9, alpha=2.6),
        torch.addmv(c, a, x, beta=0.6, alpha=1),
        torch.addbmm(d, b, b, beta=2.5, alpha=0.2),
    ),
    m.integers(-9, 9, 5),
    m.integers(-9, 9, 5, 7),
    m.integers(-9, 9, 7),
    m.integers(-9, 9, 3, 4, 4),
    m.integers(-9, 9, 4, 4),
)
m.add("trace", lambda a, i: (torch.trace(a), torch.trace(i)), m.normal(4, 6), m.integers(0, 9, 3, 3))
m.add("bilinear", F.bilinear, m.normal(2, 3, 4), m.normal(2, 3, 5), m.normal(6, 4, 5), m.normal(6))
m.add(
    "matrix_power",
    lambda a: (torch.matrix_power(a, 0), torch.matrix_power(a, 1), torch.matrix_power(a, 5)),
    m.normal(2, 3, 3),
)
m.add(
    "norms",
    lambda a: (
        torch.linalg.norm(a),
        torch.linalg.norm(a, 1, dim=1),
        torch.linalg.matrix_norm(a),
        torch.linalg.matrix_norm(a, 1),
        torch.linalg.matrix_norm(a, float("-inf"), dim=(2, 0), keepdim=True),
    ),
    m.normal(3, 4, 5),
)

p.add(
    "diag",
    lambda v, a: (torch.diag(v), torch.diag(v, -2), torch.diag(v, 1), torch.diag(a), torch.diag(a, -1)),
    p.normal(4),
    p.normal(4, 5),
)
p.add(
    "diag_embed",
    lambda a: (
        torch.diag_embed(a),
        torch.diag_embed(a, 1, 0, 2),
        torch.diag_embed(a, -2, 2, 0),
        torch.diag_embed(a, 1, 2, 1),
    ),
    p.normal(3, 4),
)
p.add("diagflat", lambda a: torch.diagflat(a, 1), p.normal(2, 3))
p.add("block_diag", lambda a, b, c: torch.block_diag(a, b, c), p.normal(2, 3), p.integers(0, 9, 4), p.normal())
p.add(
    "stacks",
    lambda a, b: (torch.column_stack([a, b]), torch.dstack([b, b]), torch.row_stack([b, b])),
    p.normal(4),
    p.normal(4, 3),
)
p.add(
    "pad_sequence",
    lambda a, b, c: (
        nn.utils.rnn.pad_sequence([a, b, c]),
        nn.utils.rnn.pad_sequence([a, b, c], batch_first=True, padding_value=-1.5),
        nn.utils.rnn.pad_sequence([b.long(), c.long()], padding_side="left", padding_value=3),
    ),
    p.normal(4, 3),
    p.normal(2, 3),
    p.normal(5, 3),
)
p.add("splits", lambda a: (torch.hsplit(a, 2), torch.vsplit(a, [1, 3]), torch.dsplit(a, 3)), p.normal(4, 6, 3))
p.add("cartesian_prod", lambda a, b: torch.cartesian_prod(a, b), p.integers(0, 9, 3), p.integers(0, 9, 4))
p.add("vander", lambda a: (torch.vander(a), torch.vander(a, 3, increasing=True), torch.linalg.vander(a)), p.normal(4))
p.add("channel_shuffle", lambda a: F.channel_shuffle(a, 3), p.normal(2, 6, 3, 2))
p.add("max_unpool", lambda a: F.max_unpool2d(*F.max_pool2d(a, 2, return_indices=True), 2), p.normal(2, 3, 4, 6))
p.add(
    "affine_grid",
    lambda t: (F.affine_grid(t, [2, 3, 4, 5], align_corners=False), F.affine_grid(t, [2, 3, 1, 5], align_corners=True)),
    p.normal(2, 2, 3),
    exported_only="torch's run_decompositions() asserts on the detach_ of its own constants",
)
p.add("affine_grid_3d", lambda t: F.affine_grid(t, [2, 1, 2, 3, 4], align_corners=False), p.normal(2, 3, 4))
p.add("sum_to_size", lambda a: a.sum_to_size(3, 1), p.normal(2, 3, 4))
p.add("renorm", lambda a: torch.renorm(a, 2, 0, 1.5), p.normal(4, 3))
p.add(
    "windows",
    lambda a: [
        w(7, periodic=q) * a
        for w in (
            torch.hann_window,
            torch.hamming_window,
            torch.blackman_window,
            torch.bartlett_window,
            torch.kaiser_window,
        )
        for q in (True, False)
    ],
    p.normal(7),
)
p.add(
    "kaiser_window",
    lambda a: (torch.kaiser_window(9, False, 3.5, dtype=torch.float64) * a, torch.kaiser_window(1)),
    p.normal(9),
)
p.add("write_through_hsplit", lambda a: (a.hsplit(2)[1].mul_(2), a), p.normal(3, 4))

p.add(
    "frexp",
    lambda x, y, h: (torch.frexp(x), torch.frexp(y), torch.frexp(h)),
    torch.tensor([0.0, -0.0, float("inf"), float("nan"), 1e-40, -3e-42, 5.0, -3.0, float("-inf"), 1.17e-38, 3e38]),
    torch.tensor([0.0, 5e-324, 1e-310, -7.25, 1e300], dtype=torch.float64),
    p.normal(3, 4, dtype=torch.float16),
)
p.add(
    "fractional_max_pool",
    lambda x, r: (
        F.fractional_max_pool2d(x, (2, 3), output_size=(3, 4), return_indices=True, _random_samples=r),
        F.fractional_max_pool2d(x[0], 2, output_size=(1, 5), _random_samples=r[:1]),
    ),
    p.normal(2, 3, 7, 10),
    p.uniform(0, 1, 2, 3, 2),
)
p.add(
    "fractional_max_pool_3d",
    lambda x, r: F.fractional_max_pool3d(x, 2, output_size=(2, 3, 2), return_indices=True, _random_samples=r),
    p.normal(1, 2, 4, 7, 5),
    p.uniform(0, 1, 1, 2, 3),
)
p.add(
    "spaced_whole",
    lambda a: torch.linspace(a, 3, 5, dtype=torch.int64),
    torch.tensor(-1.4),
    exported_only="torch's own decomposition does not begin at the whole part, as eager does",
)
p.add(
    "at_least",
    lambda a, b: (torch.atleast_1d(a, b), torch.atleast_2d((a, b)), torch.atleast_3d(a, b)),
    p.normal(),
    p.normal(3, 4),
)
p.add(
    "view_narrower",
    lambda a, i: (a.view(torch.int16), a.view(torch.uint8), (a * 2).view(torch.bfloat16), i.view(torch.float32)),
    p.normal(3, 4),
    p.integers(0, 1 << 62, 2, 3),
)
p.add(
    "view_wider",
    lambda b, h: (
        b.view(torch.int32),
        b.view(torch.int64),
        b.view(torch.int16) + 1,
        h.view(torch.float32),
        h.view(torch.int16),
    ),
    p.integers(0, 256, 3, 16, dtype=torch.uint8),
    p.normal(2, 4, dtype=torch.bfloat16),
)
p.add("view_written", lambda a: (a.view(torch.int16)[:, ::2].zero_(), a), p.normal(3, 4))

q = torch.tensor([0.1, 0.5, 0.83])
s.add(
    "quantile",
    lambda a: (
        torch.quantile(a, 0.3),
        torch.quantile(a, q, dim=1),
        torch.quantile(a, q, dim=0, keepdim=True),
        torch.quantile(a, 0.7, dim=2, keepdim=True),
    ),
    s.normal(3, 5, 4),
)
s.add(
    "gradient",
    lambda a, t: (
        *torch.gradient(a),
        *torch.gradient(a, spacing=2.0, dim=1, edge_order=2),
        *torch.gradient(a, spacing=[0.5, 2.0], dim=(0, 1)),
        *torch.gradient(a, spacing=(t[:4], t), edge_order=2),
        *torch.gradient(a, spacing=(t,), dim=1),
    ),
    s.normal(4, 6),
    torch.tensor([0.0, 1.0, 1.5, 3.0, 3.5, 4.5]),
)
s.add(
    "spaced",
    lambda a, b: (
        torch.linspace(a, b, 7),
        torch.linspace(a, 3, 4),
        torch.linspace(1.5, b, 1),
        torch.logspace(0, 2, 5),
        torch.logspace(a, b, 4, base=2.0),
    ),
    torch.tensor(-1.0),
    torch.tensor(2.5),
)
s.add(
    "frexp",
    lambda a: tuple(torch.frexp(a)),
    torch.cat([s.normal(20) * 1e3, torch.tensor([0.0, -0.0, 1.0, -0.5, 1e-40, -3e-45, 1e38])]),
)
s.add(
    "frexp_f64",
    lambda a: tuple(torch.frexp(a)),
    torch.cat([s.normal(20).double() * 1e3, torch.tensor([0.0, 5e-324, -1e-310, 1e308], dtype=torch.float64)]),
)
s.add("isreal", torch.isreal, s.normal(20, 20))
s.add(
    "signbit_integers",
    lambda a, b: (torch.signbit(a), torch.signbit(a.int()), torch.signbit(b), torch.signbit(b > 2)),
    s.integers(-5, 5, 20, 20),
    s.integers(0, 5, 20, 20, dtype=torch.uint8),
)
p.add(
    "embedding_max_norm",
    lambda i, w: (F.embedding(i, w, max_norm=1.0), F.embedding(i[0], w, max_norm=2.0, norm_type=1.0)),
    p.integers(0, 6, 3, 4),
    p.normal(8, 5),
)
p.add(
    "searches",
    lambda a, v: (
        lambda s: (
            torch.searchsorted(a[s], 0.3),
            torch.searchsorted(a, v, sorter=s),
            torch.searchsorted(a, v, sorter=s, side="right", out_int32=True),
            torch.bucketize(0.2, a[s]),
        )
    )(torch.argsort(a)),
    p.normal(9),
    p.normal(2, 3),
)
p.add(
    "index_reduce_number",
    lambda a, i, b: torch.index_reduce(a, 0, i, b, "prod"),
    p.normal(),
    torch.tensor([0]),
    p.normal(),
)
p.add("chunk_cat", lambda a, b: torch.ops.aten._chunk_cat.default([a, b], 1, 3), p.normal(2, 4, 3), p.normal(2, 7))
p.add(
    "masked_index",
    lambda x, m, i, j, v: (
        torch.ops.aten._unsafe_masked_index(x, m, [i, j], 2.5),
        torch.ops.aten._unsafe_masked_index_put_accumulate(x, m, [i, j], v),
    ),
    p.normal(4, 5),
    torch.tensor([[True, False, True], [True, True, False]]),
    torch.tensor([[1], [3]]),
    torch.tensor([[0, 9, 4], [2, -5, -70]]),
    p.normal(2, 3),
)
for how in ("lower", "higher", "nearest", "midpoint"):
    s.add(f"quantile_{how}", lambda a, how=how: torch.quantile(a, q, dim=1, interpolation=how), s.normal(3, 6))
s.add(
    "quantile_nan",
    lambda a: (torch.quantile(a, 0.5, dim=1), torch.nanquantile(a, 0.5, dim=1)),
    torch.where(s.normal(4, 5) > 1, torch.nan, s.normal(4, 5)),
)
s.add(
    "mode",
    lambda i, a: (torch.mode(i), torch.mode(i, 0, True), torch.mode(a, 1), torch.mode(a[0, 0, 0])),
    s.integers(0, 3, 7, 9),
    s.integers(0, 2, 3, 5, 4).float(),
)
s.add("histc", lambda a: (torch.histc(a, 10, -2, 2), torch.histc(a, 7), torch.histc(a[:0], 3)), s.normal(100))
s.add(
    "histogram",
    lambda a, w, e: (
        *torch.histogram(a, 7),
        *torch.histogram(a, 5, range=(-1.0, 1.5), weight=w, density=True),
        *torch.histogram(a, e, weight=w),
        *torch.histogram(a[:0], 3),
        *torch.histogram(torch.full_like(a, 2.0), 3),
    ),
    torch.cat([s.normal(97), torch.tensor([9.0, -1.0, 1.5])]),
    s.normal(100),
    torch.tensor([-2.0, -0.5, -0.5, 0.0, 0.75, 9.0]),
)
s.add(
    "trapezoid",
    lambda y, x: (
        torch.trapezoid(y),
        torch.trapezoid(y, x),
        torch.trapezoid(y, dx=0.5, dim=0),
        torch.cumulative_trapezoid(y, x[0]),
    ),
    s.normal(3, 5),
    s.normal(3, 5),
)
s.add("mvlgamma", lambda a: torch.mvlgamma(a, 3), s.uniform(2, 9, 5))
s.add(
    "angle",
    lambda a, i: (torch.angle(a), torch.angle(i)),
    torch.tensor([1.0, -1.0, 0.0, float("nan")]),
    s.integers(-3, 3, 5),
)

d.add(
    "dist",
    lambda a, b: (torch.dist(a, b), torch.dist(a, b, 1), torch.dist(a, b, float("inf"))),
    d.normal(3, 4),
    d.normal(3, 4),
)
d.add(
    "pairwise",
    lambda a, b: (F.pairwise_distance(a, b), F.pairwise_distance(a, b, p=1, keepdim=True), F.pdist(a), F.pdist(a, p=1)),
    d.normal(5, 4),
    d.normal(5, 4),
)
d.add(
    "margin_ranking",
    lambda a, b, t: F.margin_ranking_loss(a, b, t, margin=0.3),
    d.normal(6),
    d.normal(6),
    d.integers(0, 2, 6) * 2.0 - 1,
)
d.add(
    "triplet_margin",
    lambda a, b, c: (F.triplet_margin_loss(a, b, c), F.triplet_margin_loss(a, b, c, swap=True, reduction="none")),
    d.normal(4, 6),
    d.normal(4, 6),
    d.normal(4, 6),
)
d.add(
    "cosine_embedding",
    lambda a, b, t: F.cosine_embedding_loss(a, b, t, margin=0.1),
    d.normal(4, 6),
    d.normal(4, 6),
    d.integers(0, 2, 4) * 2 - 1,
)
d.add(
    "multilabel_margin",
    lambda x, t: (
        F.multilabel_margin_loss(x, t),
        F.multilabel_margin_loss(x, t, reduction="none"),
        F.multilabel_margin_loss(x[0], t[0]),
    ),
    d.normal(3, 4),
    torch.tensor([[3, 0, -1, 1], [1, 2, -1, 0], [-1, 1, 1, 1]]),
    exported_only="torch's own decomposition counts what comes after the first -1",
)
d.add(
    "multi_margin",
    lambda x, t, w: (
        F.multi_margin_loss(x, t),
        F.multi_margin_loss(x, t, p=2, weight=w, reduction="sum"),
        F.multi_margin_loss(x[0], t[0]),
    ),
    d.normal(4, 6),
    d.integers(0, 6, 4),
    d.uniform(0, 1, 6),
)


for padding in ("zeros", "border", "reflection"):
    sampling.add(
        padding,
        lambda x, g, p=padding: tuple(
            F.grid_sample(x, g, mode=m, padding_mode=p, align_corners=a)
            for m in ("bilinear", "nearest", "bicubic")
            for a in (False, True)
        ),
        sampling.normal(2, 3, 5, 6),
        sampling.uniform(-1.6, 1.6, 2, 3, 4, 2),
    )
for name in ("bilinear", "bicubic"):
    sampling.add(
        f"antialiased_{name}",
        lambda x, m=name: (
            F.interpolate(x, size=(4, 5), mode=m, antialias=True),
            F.interpolate(x.double(), size=(4, 20), mode=m, antialias=True),
            F.interpolate(x, size=(14, 5), mode=m, antialias=True, align_corners=True),
            F.interpolate(x, scale_factor=(0.6, 1.7), mode=m, antialias=True),
            F.interpolate(
                x.to(memory_format=torch.channels_last),
                scale_factor=0.5,
                mode=m,
                antialias=True,
                recompute_scale_factor=True,
            ),
        ),
        sampling.normal(2, 3, 9, 11),
    )
sampling.add(
    "volume",
    lambda x, g: (
        F.grid_sample(x, g, align_corners=False),
        F.grid_sample(x, g, mode="nearest", padding_mode="reflection", align_corners=True),
    ),
    sampling.normal(2, 2, 3, 4, 5),
    sampling.uniform(-1.3, 1.3, 2, 2, 3, 2, 3),
)
for short, dtype in {"bf16": torch.bfloat16, "f16": torch.float16}.items():
    # Eager rounds every step, so that positions lie far from those in f32: to the last bit the same.
    sampling.add(
        f"rounded_{short}",
        lambda x, g: (
            F.grid_sample(x, g, align_corners=True),
            F.grid_sample(x, g, align_corners=False, padding_mode="border"),
        ),
        sampling.normal(2, 3, 20, 30, dtype=dtype),
        sampling.uniform(-1.1, 1.1, 2, 7, 11, 2, dtype=dtype),
        tolerance=0,
    )
sampling.add(
    "bf16",
    lambda x, g: F.grid_sample(x, g, align_corners=True),
    sampling.normal(1, 2, 4, 4, dtype=torch.bfloat16),
    sampling.uniform(-1, 1, 1, 3, 3, 2, dtype=torch.bfloat16),
)


def network(kind, **settings):
    """A call of a network with weights of its own, on the input and the first states."""
    torch.manual_seed(len(r.cases))
    module = getattr(nn, kind)(5, 7, **settings).eval()
    return lambda *args: functional(module, args)


def functional(module, args):
    return torch.func.functional_call(module, {k: v.detach() for k, v in module.named_parameters()}, args)


for kind in ("LSTM", "GRU", "RNN"):
    r.add(f"{kind}_plain", network(kind), r.normal(6, 3, 5))
    r.add(f"{kind}_deep", network(kind, num_layers=2, bidirectional=True, batch_first=True), r.normal(3, 6, 5))
    r.add(f"{kind}_no_bias", network(kind, bias=False, bidirectional=True), r.normal(4, 1, 5))
    state = r.normal(2, 3, 7)
    r.add(
        f"{kind}_state",
        network(kind, num_layers=2),
        r.normal(4, 3, 5),
        (state, r.normal(2, 3, 7)) if kind == "LSTM" else state,
    )
    r.add(f"{kind}_unbatched", network(kind), r.normal(4, 5))
    r.add(f"{kind}_f64", network(kind, dtype=torch.float64), r.normal(4, 2, 5, dtype=torch.float64))
    r.add(f"{kind}_bf16", network(kind, dtype=torch.bfloat16), r.normal(4, 2, 5, dtype=torch.bfloat16))
    r.add(f"{kind}_cell", network(f"{kind}Cell"), r.normal(3, 5))
r.add("LSTM_projection", network("LSTM", proj_size=4, num_layers=2, bidirectional=True), r.normal(6, 3, 5))
r.add("RNN_relu", network("RNN", nonlinearity="relu"), r.normal(6, 3, 5))
