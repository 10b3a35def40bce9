"""Plain torch programs for `zoo.py`: modules of every kind, functions, indexing, writes in place, structures of inputs
and outputs. Name -> a function that makes (module, args[, dynamic shapes, more args to run]).
"""

import torch
import torch.nn.functional as F
from torch import nn

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
    lambda s, x: torch.stack([h := s.cell(x[t], h if t else torch.zeros(3, 16)) for t in range(5)]),  # noqa: F821, F841
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
