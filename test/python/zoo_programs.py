"""Plain torch programs for `zoo.py`: modules of every kind, functions, indexing, writes in place, structures of inputs
and outputs. Name -> a function that makes (module, args[, dynamic shapes, more args to run]).
"""

import collections
import dataclasses
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils import _pytree as pytree

PROGRAMS = {}
D = torch.export.Dim
r = torch.randn


def unnamed(result):
    """Torch's named results (`torch.return_types.max`) have no form in an archive: tuples instead."""
    if type(result).__module__ == "torch.return_types":
        return tuple(result)
    return type(result)(map(unnamed, result)) if type(result) in (tuple, list) else result


class Function(nn.Module):
    """`f(modules, *tensors)`; modules by name."""

    def __init__(self, f, **modules):
        super().__init__()
        self.f = f
        for name, module in modules.items():
            setattr(self, name, module)

    def forward(self, a, b=None, c=None, d=None):
        return unnamed(self.f(self, *(x for x in (a, b, c, d) if x is not None)))


def add(name, f, *args, dynamic=None, others=(), modules=None):
    """`args` and `modules` are made anew at each use, after the seed is set: functions or tensors."""

    def make():
        function = Function(f, **{k: m() for k, m in (modules or {}).items()})
        made = tuple(a() if callable(a) else a for a in args)
        return function, made, dynamic and (*dynamic, *[None] * (4 - len(dynamic)))[: len(made)], others

    PROGRAMS[name] = make


def module(name, make, *shapes, train=False):
    PROGRAMS[name] = lambda: (make().train(train), tuple(r(*s) if isinstance(s, tuple) else s() for s in shapes))


# Modules: layers.
for name in (
    "ReLU",
    "ReLU6",
    "ELU",
    "SELU",
    "CELU",
    "GELU",
    "SiLU",
    "Mish",
    "Hardswish",
    "Hardsigmoid",
    "Hardtanh",
    "LeakyReLU",
    "PReLU",
    "LogSigmoid",
    "Softplus",
    "Softshrink",
    "Hardshrink",
    "Tanhshrink",
    "Softsign",
    "Threshold",
    "GLU",
    "Softmin",
    "LogSoftmax",
    "Softmax2d",
):
    settings = dict(Threshold=(0.1, 20.0), Softmin=(1,), LogSoftmax=(1,)).get(name, ())
    module(f"nn_{name}", lambda name=name, settings=settings: getattr(nn, name)(*settings), (2, 4, 6, 6))
for n, size in ((1, (2, 6, 12)), (2, (2, 6, 8, 9)), (3, (2, 6, 5, 6, 7))):
    module(
        f"nn_Conv{n}d", lambda n=n: getattr(nn, f"Conv{n}d")(6, 4, 3, stride=2, padding=1, dilation=1, groups=2), size
    )
    module(
        f"nn_Conv{n}d_reflect", lambda n=n: getattr(nn, f"Conv{n}d")(6, 4, 3, padding=1, padding_mode="reflect"), size
    )
    module(
        f"nn_Conv{n}d_circular_same",
        lambda n=n: getattr(nn, f"Conv{n}d")(6, 4, 4, padding="same", padding_mode="circular"),
        size,
    )
    module(
        f"nn_ConvTranspose{n}d",
        lambda n=n: getattr(nn, f"ConvTranspose{n}d")(6, 4, 3, stride=2, padding=1, output_padding=1),
        size,
    )
    module(f"nn_BatchNorm{n}d", lambda n=n: getattr(nn, f"BatchNorm{n}d")(6), size)
    module(f"nn_BatchNorm{n}d_train", lambda n=n: getattr(nn, f"BatchNorm{n}d")(6), size, train=True)
    module(f"nn_InstanceNorm{n}d", lambda n=n: getattr(nn, f"InstanceNorm{n}d")(6, affine=True), size)
    for pool in ("MaxPool", "AvgPool", "LPPool"):
        module(
            f"nn_{pool}{n}d",
            lambda n=n, pool=pool: getattr(nn, f"{pool}{n}d")(*((2, 3) if pool == "LPPool" else (3,)), stride=2),
            size,
        )
    for pool in ("AdaptiveAvgPool", "AdaptiveMaxPool"):
        module(f"nn_{pool}{n}d", lambda n=n, pool=pool: getattr(nn, f"{pool}{n}d")(4), size)
    for pad in ("ReflectionPad", "ReplicationPad", "ZeroPad", "ConstantPad", "CircularPad"):
        module(
            f"nn_{pad}{n}d",
            lambda n=n, pad=pad: getattr(nn, f"{pad}{n}d")(2, *((1.5,) if pad == "ConstantPad" else ())),
            size,
        )
    module(
        f"nn_MaxUnpool{n}d",
        lambda n=n: Function(
            lambda s, x: s.un(*s.pool(x)),
            pool=getattr(nn, f"MaxPool{n}d")(2, return_indices=True),
            un=getattr(nn, f"MaxUnpool{n}d")(2),
        ),
        size[:2] + tuple(4 for _ in range(n)),
    )
module(
    "nn_FractionalMaxPool2d",
    lambda: Function(
        lambda s, x: F.fractional_max_pool2d(x, 2, output_size=4, _random_samples=torch.full((2, 6, 2), 0.5))
    ),
    (2, 6, 8, 9),
)
module("nn_LayerNorm", lambda: nn.LayerNorm([6, 8]), (2, 5, 6, 8))
module("nn_RMSNorm", lambda: nn.RMSNorm(8), (2, 5, 8))
module("nn_GroupNorm", lambda: nn.GroupNorm(3, 6), (2, 6, 5, 5))
module("nn_LocalResponseNorm", lambda: nn.LocalResponseNorm(3), (2, 6, 5, 5))
module(
    "nn_CrossMapLRN_like",
    lambda: Function(lambda s, x: F.normalize(x, p=2, dim=1) + F.normalize(x, p=1, dim=-1)),
    (2, 6, 5),
)
module("nn_Bilinear", lambda: nn.Bilinear(5, 6, 7), (3, 5), (3, 6))
module("nn_CosineSimilarity", lambda: nn.CosineSimilarity(dim=1), (3, 5), (3, 5))
module("nn_PairwiseDistance", lambda: nn.PairwiseDistance(), (3, 5), (3, 5))
module("nn_Embedding", lambda: nn.Embedding(10, 4, padding_idx=0), lambda: torch.randint(0, 10, (3, 5)))
module(
    "nn_Embedding_maxnorm_free",
    lambda: nn.Sequential(nn.Embedding(10, 4), nn.Flatten(0, 1), nn.Linear(4, 3)),
    lambda: torch.randint(0, 10, (3, 5)),
)
for mode in ("sum", "mean", "max"):
    module(
        f"nn_EmbeddingBag_{mode}",
        lambda mode=mode: nn.EmbeddingBag(10, 4, mode=mode),
        lambda: torch.randint(0, 10, (3, 5)),
    )
    module(
        f"nn_EmbeddingBag_offsets_{mode}",
        lambda mode=mode: nn.EmbeddingBag(10, 4, mode=mode),
        lambda: torch.randint(0, 10, (9,)),
        lambda: torch.tensor([0, 4, 4, 7]),
    )
module(
    "nn_EmbeddingBag_weights",
    lambda: Function(lambda s, x, o, w: s.e(x, o, w), e=nn.EmbeddingBag(10, 4, mode="sum")),
    lambda: torch.randint(0, 10, (9,)),
    lambda: torch.tensor([0, 4, 7]),
    (9,),
)
module("nn_PixelShuffle", lambda: nn.PixelShuffle(2), (2, 8, 3, 4))
module("nn_PixelUnshuffle", lambda: nn.PixelUnshuffle(2), (2, 3, 4, 6))
module("nn_ChannelShuffle", lambda: nn.ChannelShuffle(2), (2, 8, 3, 4))
module(
    "nn_Unfold_Fold",
    lambda: Function(
        lambda s, x: (s.unfold(x), s.fold(s.unfold(x))),
        unfold=nn.Unfold(3, padding=1, stride=2),
        fold=nn.Fold((9, 8), 3, padding=1, stride=2),
    ),
    (2, 3, 9, 8),
)
module("nn_Unflatten", lambda: nn.Unflatten(1, (2, 3)), (4, 6))
for mode in ("nearest", "bilinear", "bicubic", "area", "nearest-exact"):
    module(
        f"nn_Upsample_{mode}",
        lambda mode=mode: Function(
            lambda s, x: (F.interpolate(x, scale_factor=2.0, mode=mode), F.interpolate(x, size=(5, 13), mode=mode))
        ),
        (2, 3, 6, 7),
    )
module("nn_Upsample_linear", lambda: nn.Upsample(scale_factor=1.5, mode="linear"), (2, 3, 8))
module(
    "nn_Upsample_trilinear", lambda: nn.Upsample(size=(5, 6, 7), mode="trilinear", align_corners=True), (2, 3, 4, 5, 6)
)
module(
    "nn_antialias",
    lambda: Function(lambda s, x: F.interpolate(x, size=(4, 5), mode="bilinear", antialias=True)),
    (2, 3, 9, 11),
)
for padding in ("zeros", "border", "reflection"):
    module(
        f"grid_sample_{padding}",
        lambda padding=padding: Function(
            lambda s, x, g: tuple(
                F.grid_sample(x, g, mode=m, padding_mode=padding, align_corners=a)
                for m in ("bilinear", "nearest", "bicubic")
                for a in (False, True)
            )
        ),
        (2, 3, 8, 9),
        (2, 5, 6, 2),
    )
module(
    "grid_sample_3d",
    lambda: Function(lambda s, x, g: F.grid_sample(x, g, align_corners=False)),
    (2, 3, 4, 8, 9),
    (2, 3, 5, 6, 3),
)
module(
    "spatial_transformer",
    lambda: Function(
        lambda s, x, t: F.grid_sample(x, F.affine_grid(t, [2, 3, 5, 6], align_corners=False), align_corners=False)
    ),
    (2, 3, 8, 9),
    (2, 2, 3),
)

# Recurrent modules.
for cls in ("LSTM", "GRU", "RNN"):
    module(f"nn_{cls}", lambda cls=cls: getattr(nn, cls)(12, 16), (7, 3, 12))
    module(
        f"nn_{cls}_deep",
        lambda cls=cls: getattr(nn, cls)(12, 16, num_layers=2, bidirectional=True, batch_first=True),
        (3, 7, 12),
    )
    module(f"nn_{cls}Cell", lambda cls=cls: getattr(nn, cls + "Cell")(12, 16), (3, 12))
    module(
        f"nn_{cls}_dropout_train",
        lambda cls=cls: getattr(nn, cls)(12, 16, num_layers=2, dropout=0.0),
        (7, 3, 12),
        train=True,
    )
module("nn_LSTM_proj", lambda: nn.LSTM(12, 16, proj_size=5), (7, 3, 12))
add(
    "decoder_loop",
    lambda s, x: torch.stack([h := s.cell(x[t], h if t else torch.zeros(3, 16)) for t in range(5)]),
    lambda: r(5, 3, 12),
    modules=dict(cell=lambda: nn.GRUCell(12, 16)),
)

# Transformers.
mha = dict(m=lambda: nn.MultiheadAttention(16, 4).eval())
add("mha", lambda s, q, k: s.m(q, k, k), lambda: r(5, 2, 16), lambda: r(7, 2, 16), modules=mha)
add(
    "mha_masked",
    lambda s, q, k, m: s.m(q, k, k, key_padding_mask=m, need_weights=False)[0],
    lambda: r(2, 5, 16),
    lambda: r(2, 7, 16),
    lambda: torch.arange(7).expand(2, 7) > 4,
    modules=dict(m=lambda: nn.MultiheadAttention(16, 4, batch_first=True, add_bias_kv=True).eval()),
)
add(
    "mha_causal",
    lambda s, x: s.m(x, x, x, attn_mask=nn.Transformer.generate_square_subsequent_mask(5), average_attn_weights=False),
    lambda: r(5, 2, 16),
    modules=mha,
)
add(
    "nn_Transformer",
    lambda s, q, k: s.m(q, k, tgt_mask=nn.Transformer.generate_square_subsequent_mask(7), tgt_is_causal=True),
    lambda: r(2, 5, 16),
    lambda: r(2, 7, 16),
    modules=dict(m=lambda: nn.Transformer(16, 4, 2, 2, 32, batch_first=True).eval()),
)
add(
    "nn_TransformerEncoder_mask",
    lambda s, x, m: s.m(x, src_key_padding_mask=m),
    lambda: r(2, 5, 16),
    lambda: torch.arange(5).expand(2, 5) > 3,
    modules=dict(
        m=lambda: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="gelu"), 2, enable_nested_tensor=False
        ).eval()
    ),
)
add(
    "nn_TransformerDecoder",
    lambda s, x, y: s.m(x, y),
    lambda: r(5, 2, 16),
    lambda: r(7, 2, 16),
    modules=dict(m=lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 4, 32), 2).eval()),
)
add(
    "sdpa",
    lambda s, q, k, v: (
        F.scaled_dot_product_attention(q, k, v),
        F.scaled_dot_product_attention(q, q, q, is_causal=True),
        F.scaled_dot_product_attention(q, k, v, scale=0.3),
    ),
    lambda: r(2, 4, 5, 8),
    lambda: r(2, 4, 7, 8),
    lambda: r(2, 4, 7, 8),
)
add(
    "sdpa_gqa",
    lambda s, q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
    lambda: r(2, 4, 5, 8),
    lambda: r(2, 2, 7, 8),
    lambda: r(2, 2, 7, 8),
)
add(
    "alibi",
    lambda s, q, k: (q @ k.mT / 8 + torch.arange(7) * -0.5).softmax(-1) @ k,
    lambda: r(2, 5, 8),
    lambda: r(2, 7, 8),
)


def rotary(x, theta):
    return torch.view_as_real(torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2)) * theta).flatten(3)


add(
    "rotary_complex",
    lambda s, x: rotary(
        x,
        torch.polar(torch.ones(5, 4), torch.outer(torch.arange(5.0), 1e4 ** -(torch.arange(0, 8, 2) / 8)))[
            None, :, None
        ],
    ),
    lambda: r(2, 5, 3, 8),
)
add(
    "rotary_complex_buffer",
    lambda s, x: rotary(x, s.freqs[None, :, None]),
    lambda: r(2, 5, 3, 8),
    modules=dict(freqs=lambda: nn.Parameter(torch.polar(torch.ones(5, 4), r(5, 4)), requires_grad=False)),
)
add(
    "kv_append",
    lambda s, k, v, n: (torch.cat([k, n], 1), torch.cat([v, n * 2], 1)[:, 1:]),
    lambda: r(2, 5, 8),
    lambda: r(2, 5, 8),
    lambda: r(2, 1, 8),
)

# Losses.
for name, target in dict(
    MSELoss="x",
    L1Loss="x",
    SmoothL1Loss="x",
    HuberLoss="x",
    BCEWithLogitsLoss="p",
    BCELoss="p",
    KLDivLoss="x",
    PoissonNLLLoss="p",
    SoftMarginLoss="s",
    HingeEmbeddingLoss="s",
    MultiLabelSoftMarginLoss="b",
).items():
    for reduction in ("mean", "none"):
        add(
            f"nn_{name}_{reduction}",
            lambda s, x, y, name=name, target=target, reduction=reduction: getattr(nn, name)(reduction=reduction)(
                x.sigmoid() if name == "BCELoss" else x, y
            ),
            lambda: r(4, 5),
            lambda target=target: dict(
                x=r(4, 5), p=torch.rand(4, 5), s=r(4, 5).sign(), b=torch.randint(0, 2, (4, 5)).float()
            )[target],
        )
add(
    "nn_CrossEntropyLoss",
    lambda s, x, y: (
        F.cross_entropy(x, y),
        F.cross_entropy(x, y, label_smoothing=0.1, ignore_index=2),
        F.cross_entropy(x, y, reduction="none", weight=torch.arange(1.0, 6)),
        F.cross_entropy(x, x.softmax(1)),
    ),
    lambda: r(4, 5),
    lambda: torch.tensor([1, 2, 0, 4]),
)
add(
    "nn_CrossEntropyLoss_images",
    lambda s, x, y: F.cross_entropy(x, y),
    lambda: r(2, 5, 4, 4),
    lambda: torch.randint(0, 5, (2, 4, 4)),
)
add(
    "nn_NLLLoss",
    lambda s, x, y: (F.nll_loss(x, y), F.nll_loss(x, y, reduction="sum", ignore_index=1)),
    lambda: r(4, 5).log_softmax(1),
    lambda: torch.tensor([1, 2, 0, 4]),
)
add(
    "nn_GaussianNLLLoss",
    lambda s, x, y: F.mse_loss(x, y) + ((x - y) ** 2 / y.exp() + y).mean(),
    lambda: r(4, 5),
    lambda: r(4, 5),
)
add(
    "nn_TripletMarginLoss",
    lambda s, a, b, c: F.triplet_margin_loss(a, b, c),
    lambda: r(4, 5),
    lambda: r(4, 5),
    lambda: r(4, 5),
)
add(
    "nn_CosineEmbeddingLoss",
    lambda s, a, b, c: F.cosine_embedding_loss(a, b, c),
    lambda: r(4, 5),
    lambda: r(4, 5),
    lambda: torch.tensor([1, -1, 1, -1]),
)
add(
    "nn_MarginRankingLoss",
    lambda s, a, b, c: F.margin_ranking_loss(a, b, c),
    lambda: r(4),
    lambda: r(4),
    lambda: torch.tensor([1, -1, 1, -1]),
)
add(
    "nn_MultiMarginLoss", lambda s, a, b: F.multi_margin_loss(a, b), lambda: r(4, 5), lambda: torch.tensor([1, 2, 0, 4])
)
add(
    "nn_MultiLabelMarginLoss",
    lambda s, a, b: F.multilabel_margin_loss(a, b),
    lambda: r(2, 4),
    lambda: torch.tensor([[3, 0, -1, 1], [1, 2, -1, 0]]),
)

# Products.
add(
    "einsum",
    lambda s, a, b, c: (
        torch.einsum("bhid,bhjd->bhij", a, b),
        torch.einsum("bhid,bhjd,bhje->bhie", a, b, c),
        torch.einsum("bhii->bh", a[..., :3, :3]),
        torch.einsum("...ij,...kj->...ik", a, b),
        torch.einsum("bhid->bd", a),
    ),
    lambda: r(2, 3, 4, 5),
    lambda: r(2, 3, 4, 5),
    lambda: r(2, 3, 4, 6),
)
add(
    "products",
    lambda s, a, b: (
        a @ b,
        torch.mm(b, a),
        a.matmul(b[:, 0]),
        torch.outer(a[0], b[:, 0]),
        torch.addmm(a @ b, a, b, beta=0.5, alpha=2),
        torch.tensordot(a, b, 1),
        torch.kron(a, b),
        torch.dot(a[0], b[:, 1]),
        torch.mv(a, b[:, 0]),
        torch.linalg.multi_dot([a, b, a]),
    ),
    lambda: r(4, 6),
    lambda: r(6, 4),
)
add(
    "batch_products",
    lambda s, a, b: (
        torch.bmm(a, b),
        torch.baddbmm(torch.ones(3, 1, 4), a, b),
        a @ b[0],
        torch.matmul(a[:, None], b),
        torch.addbmm(torch.zeros(4, 4), a, b),
    ),
    lambda: r(3, 4, 6),
    lambda: r(3, 6, 4),
)
add(
    "cdist",
    lambda s, a, b: (
        torch.cdist(a, b),
        torch.cdist(a, b, p=1),
        torch.cdist(a, b, p=float("inf")),
        torch.cdist(a, b, p=3),
    ),
    lambda: r(9, 6),
    lambda: r(5, 6),
)
for dtype in (torch.bfloat16, torch.float16, torch.float64):
    add(
        f"mlp_{str(dtype)[6:]}",
        lambda s, x: s.m(x).softmax(-1),
        lambda dtype=dtype: r(3, 8).to(dtype),
        modules=dict(
            m=lambda dtype=dtype: nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)).to(
                dtype
            )
        ),
    )
add(
    "integer_products",
    lambda s, a, b: (a @ b, (a.int() @ b.int()), a.float() @ b.float()),
    lambda: torch.randint(-5, 5, (3, 4)),
    lambda: torch.randint(-5, 5, (4, 3)),
)

# Linear algebra.
spd = lambda: (lambda x: x @ x.mT + 3 * torch.eye(5))(r(2, 5, 5))
add(
    "linalg_inv_det_solve",
    lambda s, a, b: (
        torch.linalg.inv(a),
        torch.linalg.det(a),
        torch.linalg.solve(a, b),
        torch.linalg.slogdet(a),
        torch.logdet(a),
    ),
    spd,
    lambda: r(2, 5, 3),
)
add(
    "linalg_cholesky",
    lambda s, a, b: (
        torch.linalg.cholesky(a),
        torch.cholesky_solve(b, torch.linalg.cholesky(a)),
        torch.cholesky_inverse(torch.linalg.cholesky(a)),
    ),
    spd,
    lambda: r(2, 5, 3),
)
add("linalg_qr", lambda s, a: (lambda q, t: (q @ t, t.abs()))(*torch.linalg.qr(a)), lambda: r(2, 5, 3))
add(
    "linalg_svd",
    lambda s, a: (lambda u, d, v: (u * d[..., None, :] @ v, d))(*torch.linalg.svd(a, full_matrices=False)),
    lambda: r(2, 5, 3),
)
add("linalg_eigh", lambda s, a: (lambda w, v: (w, v * w[..., None, :] @ v.mT))(*torch.linalg.eigh(a)), spd)
add("linalg_pinv", lambda s, a, b: (torch.linalg.pinv(a), torch.linalg.pinv(a) @ b), lambda: r(5, 3), lambda: r(5, 2))
add(
    "linalg_triangular",
    lambda s, a, b: (
        torch.linalg.solve_triangular(a.tril(), b, upper=False),
        torch.linalg.solve_triangular(a.triu(), b, upper=True),
    ),
    spd,
    lambda: r(2, 5, 3),
)
add("linalg_lu", lambda s, a: torch.linalg.lu(a), spd)
add(
    "linalg_norms",
    lambda s, x: (
        torch.linalg.vector_norm(x, 3),
        torch.linalg.matrix_norm(x),
        torch.linalg.norm(x),
        x.norm(dim=1),
        torch.linalg.matrix_norm(x, 1),
        torch.linalg.matrix_norm(x, float("inf")),
        x.norm(p=1),
        x.norm("fro"),
    ),
    lambda: r(4, 6),
)
add("linalg_matrix_exp", lambda s, x: torch.linalg.matrix_exp(x), lambda: r(3, 4, 4) * 0.3)
add(
    "mahalanobis",
    lambda s, x, c: ((x[:, None] @ torch.inverse(c[0])) * x[:, None]).sum(-1).sqrt(),
    lambda: r(4, 5),
    spd,
)

# Fourier.
add("fft_magnitudes", lambda s, x: torch.fft.rfft(x).abs(), lambda: r(4, 16))
add("fft_roundtrip", lambda s, x: torch.fft.irfft(torch.fft.rfft(x) * 2, n=15), lambda: r(4, 15))
add("fft_2d_real", lambda s, x: torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real, lambda: r(4, 6, 8))
add(
    "fft_filter",
    lambda s, x: torch.fft.irfft2(
        torch.fft.rfft2(x, norm="ortho") * torch.view_as_complex(s.w), s=(8, 8), norm="ortho"
    ),
    lambda: r(2, 3, 8, 8),
    modules=dict(w=lambda: nn.Parameter(r(3, 8, 5, 2))),
)
add("fft_shift", lambda s, x: torch.fft.fftshift(torch.fft.fft2(x)).abs().log1p(), lambda: r(4, 6, 8))
add(
    "autocorrelation",
    lambda s, x: torch.fft.irfft(torch.fft.rfft(x, n=32) * torch.conj(torch.fft.rfft(x, n=32)))[..., :16],
    lambda: r(4, 16),
)
add(
    "stft",
    lambda s, x: torch.stft(x, 16, hop_length=4, window=torch.hann_window(16), return_complex=True).abs().pow(2),
    lambda: r(2, 64),
)
add(
    "istft",
    lambda s, x: torch.istft(
        torch.stft(x, 16, hop_length=4, window=torch.hann_window(16), return_complex=True),
        16,
        hop_length=4,
        window=torch.hann_window(16),
    ),
    lambda: r(2, 64),
)
add(
    "mel_spectrogram",
    lambda s, x: (s.w @ torch.stft(x, 16, window=torch.hann_window(16), return_complex=True).abs().pow(2))
    .clamp(min=1e-8)
    .log(),
    lambda: r(2, 64),
    modules=dict(w=lambda: nn.Parameter(torch.rand(5, 9))),
)
add(
    "complex_arithmetic",
    lambda s, a, b: (
        lambda z: (
            z.real,
            z.imag,
            z.abs(),
            z.angle(),
            torch.view_as_real(z * z.conj() + 1),
            torch.view_as_real(torch.exp(z) / (z + 2)),
            z,
        )
    )(torch.complex(a, b)),
    lambda: r(4, 5),
    lambda: r(4, 5),
)
add(
    "complex_inputs",
    lambda s, a, b: (a + b, a * b, a - 2, a / b, a @ b.T, a.sum(), a.mean(0)),
    lambda: r(3, 4, dtype=torch.complex64),
    lambda: r(3, 4, dtype=torch.complex64),
)

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
