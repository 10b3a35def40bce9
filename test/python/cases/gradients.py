"""Operators of backward graphs, called as autograd calls them."""

import torch

from cases.data import Family

aten = torch.ops.aten
slopes, norms, losses, lookups, windows, convolutions = (
    Family(f"gradients_{n}") for n in ("slopes", "norms", "losses", "lookups", "windows", "convolutions")
)
NARROW = {"f32": torch.float32, "bf16": torch.bfloat16, "f64": torch.float64}


def made(results):
    """Those results that were asked for."""
    return tuple(r for r in results if r is not None)


# Gradients of activations: (gradient, input).
SLOPES = {
    "sigmoid": aten.sigmoid_backward,
    "tanh": aten.tanh_backward,
    "silu": aten.silu_backward,
    "mish": aten.mish_backward,
    "gelu": aten.gelu_backward,
    "gelu_tanh": lambda g, x: aten.gelu_backward(g, x, approximate="tanh"),
    "threshold": lambda g, x: aten.threshold_backward(g, x, 0.25),
    "leaky_relu": lambda g, x: aten.leaky_relu_backward(g, x, 0.1, False),
    "hardtanh": lambda g, x: aten.hardtanh_backward(g, x, -0.5, 1),
    "hardswish": aten.hardswish_backward,
    "hardsigmoid": aten.hardsigmoid_backward,
    "elu": lambda g, x: aten.elu_backward(g, 1.5, 2, 0.5, False, x),
    "elu_result": lambda g, x: aten.elu_backward(g, 1, 1, 1, True, x),
    "softplus": lambda g, x: aten.softplus_backward(g, x, 2, 3),
    "softshrink": lambda g, x: aten.softshrink_backward(g, x, 0.5),
    "hardshrink": lambda g, x: aten.hardshrink_backward(g, x, 0.5),
    "log_sigmoid": lambda g, x: aten.log_sigmoid_backward(g, x, aten.log_sigmoid_forward(x)[1]),
    "logit": lambda g, x: aten.logit_backward(g, x.abs().clamp(0.1, 0.9)),
    "logit_eps": lambda g, x: aten.logit_backward(g, x, 0.1),
}
for name, function in SLOPES.items():
    for short in ("f32", "bf16"):
        slopes.add(
            f"{name}_{short}",
            function,
            slopes.normal(3, 17, dtype=NARROW[short]),
            slopes.normal(3, 17, dtype=NARROW[short]) * 3,
        )
for dim in (0, 1, -1):
    slopes.add(
        f"glu_{dim}",
        lambda g, x, d=dim: aten.glu_backward(g, x, d),
        slopes.normal(*[3 if d == dim % 3 else 6 for d in range(3)]),
        slopes.normal(6, 6, 6),
    )
slopes.add(
    "prelu",
    lambda g, x, w: aten._prelu_kernel_backward(g, x, w),
    slopes.normal(2, 4, 5),
    slopes.normal(2, 4, 5),
    slopes.normal(1, 4, 1),
)
slopes.add("strided", aten.gelu_backward, slopes.normal(9, 7).t(), slopes.normal(7, 18)[:, ::2])
slopes.add("empty", aten.silu_backward, slopes.normal(0, 7), slopes.normal(0, 7))
slopes.add("dropout", lambda g, m: aten.native_dropout_backward(g, m, 1.25), slopes.normal(5, 7), slopes.bools(5, 7))

# Softmax and normalizations.
for short, dtype in NARROW.items():
    for sizes, dim in (((5, 37), -1), ((4, 6, 9), 1), ((64, 3), 0)):
        g, y = norms.normal(*sizes, dtype=dtype), torch.softmax(norms.normal(*sizes), dim).to(dtype)
        norms.add(f"softmax_{short}_{dim}", lambda g, y, d=dim: aten._softmax_backward_data(g, y, d, y.dtype), g, y)
        norms.add(
            f"log_softmax_{short}_{dim}",
            lambda g, y, d=dim: aten._log_softmax_backward_data(g, y, d, y.dtype),
            g,
            y.log().clamp(min=-9),
        )
norms.add(
    "softmax_scalar", lambda g, y: aten._softmax_backward_data(g, y, 0, torch.float32), norms.normal(), norms.normal()
)
norms.add(
    "softmax_empty",
    lambda g, y: aten._softmax_backward_data(g, y, 1, torch.float32),
    norms.normal(0, 5),
    norms.normal(0, 5),
)


def layer_norm(mask, n=1):
    def call(g, x, w, b):
        shape = x.shape[x.dim() - n :]
        _, mean, rstd = aten.native_layer_norm(x, shape, w, b, 1e-5)
        return made(aten.native_layer_norm_backward(g, x, shape, mean, rstd, w, b, mask))

    return call


for mask in ([True, True, True], [True, False, False], [False, True, True], [False, False, True]):
    norms.add(
        "layer_" + "".join("01"[m] for m in mask),
        layer_norm(mask),
        norms.normal(3, 5, 24),
        norms.normal(3, 5, 24),
        norms.normal(24),
        norms.normal(24),
    )
norms.add(
    "layer_two_dims",
    layer_norm([True, True, True], 2),
    norms.normal(4, 5, 6),
    norms.normal(4, 5, 6),
    norms.normal(5, 6),
    norms.normal(5, 6),
)
norms.add(
    "layer_one_row",
    layer_norm([True, True, True]),
    norms.normal(24),
    norms.normal(24),
    norms.normal(24),
    norms.normal(24),
)
norms.add(
    "layer_no_rows",
    layer_norm([True, True, True]),
    norms.normal(0, 24),
    norms.normal(0, 24),
    norms.normal(24),
    norms.normal(24),
)
norms.add(
    "layer_many_rows",
    layer_norm([True, True, True]),
    norms.normal(300, 80),
    norms.normal(300, 80),
    norms.normal(80),
    norms.normal(80),
    tolerance=1e-4,
)
norms.add(
    "layer_transposed",
    lambda g, x, w, b: layer_norm([True, True, True])(g.t(), x.t(), w, b),
    norms.normal(24, 7),
    norms.normal(24, 7),
    norms.normal(24),
    norms.normal(24),
)
norms.add(
    "layer_bf16",
    layer_norm([True, True, True]),
    *(norms.normal(9, 24, dtype=torch.bfloat16) for _ in range(2)),
    *(norms.normal(24, dtype=torch.bfloat16) for _ in range(2)),
    tolerance=4e-2,
)


def batch_norm(train, mask):
    def call(g, x, w, mean, var):
        over = [0, *range(2, x.dim())]
        saved = (
            (x.mean(over), torch.rsqrt(x.var(over, correction=0) + 1e-5)) if train else (x.new_zeros(0), x.new_zeros(0))
        )
        return made(aten.native_batch_norm_backward(g, x, w, mean, var, *saved, train, 1e-5, mask))

    return call


for train in (True, False):
    for mask in ([True, True, True], [True, False, False], [True, False, True]):
        norms.add(
            f"batch_{'train' if train else 'eval'}_" + "".join("01"[m] for m in mask),
            batch_norm(train, mask),
            norms.normal(4, 6, 5, 7),
            norms.normal(4, 6, 5, 7),
            norms.normal(6),
            norms.normal(6),
            norms.uniform(0.5, 2, 6),
        )
norms.add(
    "batch_one_dim",
    batch_norm(True, [True, True, True]),
    norms.normal(9, 6),
    norms.normal(9, 6),
    norms.normal(6),
    norms.normal(6),
    norms.uniform(0.5, 2, 6),
)
norms.add(
    "batch_channels_last",
    batch_norm(True, [True, True, True]),
    *(norms.normal(4, 6, 5, 7).to(memory_format=torch.channels_last) for _ in range(2)),
    norms.normal(6),
    norms.normal(6),
    norms.uniform(0.5, 2, 6),
)


def group_norm(groups, mask):
    def call(g, x, w, b):
        n, c, rest = x.shape[0], x.shape[1], x[0, 0].numel()
        _, mean, rstd = aten.native_group_norm(x, w, b, n, c, rest, groups, 1e-5)
        return made(aten.native_group_norm_backward(g, x, mean, rstd, w, n, c, rest, groups, mask))

    return call


for mask in ([True, True, True], [True, False, False], [False, True, True]):
    norms.add(
        "group_" + "".join("01"[m] for m in mask),
        group_norm(3, mask),
        norms.normal(2, 6, 4, 5),
        norms.normal(2, 6, 4, 5),
        norms.normal(6),
        norms.normal(6),
    )
norms.add(
    "group_no_space",
    group_norm(2, [True, True, True]),
    norms.normal(5, 6),
    norms.normal(5, 6),
    norms.normal(6),
    norms.normal(6),
)

# Losses: (gradient, self, target).
for reduction, size in ((0, (5, 7)), (1, ()), (2, ())):
    for name, function in {
        "mse": aten.mse_loss_backward,
        "smooth_l1": lambda g, x, t, r: aten.smooth_l1_loss_backward(g, x, t, r, 0.7),
        "huber": lambda g, x, t, r: aten.huber_loss_backward(g, x, t, r, 0.7),
        "soft_margin": aten.soft_margin_loss_backward,
        "bce": lambda g, x, t, r: aten.binary_cross_entropy_backward(g, x.sigmoid(), t.sigmoid(), None, r),
        "bce_weighted": lambda g, x, t, r: aten.binary_cross_entropy_backward(g, x.sigmoid(), t.sigmoid(), t.abs(), r),
    }.items():
        losses.add(
            f"{name}_{reduction}",
            lambda g, x, t, f=function, r=reduction: f(g, x, t, r),
            losses.normal(*size),
            losses.normal(5, 7),
            losses.normal(5, 7),
        )
    target = losses.integers(0, 7, 5)
    target[2] = -100
    nll = lambda g, x, t, w, r=reduction: aten.nll_loss_backward(
        g, x, t, w, r, -100, aten.nll_loss_forward(x, t, w, r, -100)[1]
    )
    losses.add(
        f"nll_{reduction}",
        lambda g, x, t, f=nll: f(g, x, t, None),
        losses.normal(*size[:1]),
        losses.normal(5, 7),
        target,
    )
    losses.add(
        f"nll_weighted_{reduction}",
        nll,
        losses.normal(*size[:1]),
        losses.normal(5, 7),
        target,
        losses.uniform(0.5, 2, 7),
    )
    losses.add(
        f"nll2d_{reduction}",
        lambda g, x, t, r=reduction: aten.nll_loss2d_backward(
            g, x, t, None, r, 3, aten.nll_loss2d_forward(x, t, None, r, 3)[1]
        ),
        losses.normal(*((2, 4, 5) if size else ())),
        losses.normal(2, 6, 4, 5),
        losses.integers(0, 6, 2, 4, 5),
    )
losses.add(
    "nll_bf16",
    lambda g, x, t: aten.nll_loss_backward(g, x, t, None, 2, -100, g),
    losses.normal(dtype=torch.bfloat16),
    losses.normal(5, 7, dtype=torch.bfloat16),
    losses.integers(0, 7, 5),
)
losses.add(
    "nll_one_row",
    lambda g, x, t: aten.nll_loss_backward(g, x, t, None, 2, -100, g),
    losses.normal(),
    losses.normal(7),
    losses.integers(0, 7),
)

# Lookups and views.
for short, dtype in NARROW.items():
    lookups.add(
        f"embedding_{short}",
        lambda g, i: aten.embedding_dense_backward(g, i, 11, -1, False),
        lookups.normal(2, 6, 8, dtype=dtype),
        lookups.integers(0, 11, 2, 6),
        tolerance=4e-2 if short == "bf16" else None,
    )
lookups.add(
    "embedding_padding",
    lambda g, i: aten.embedding_dense_backward(g, i, 4, 2, False),
    lookups.normal(2, 6, 8),
    lookups.integers(0, 4, 2, 6),
)
lookups.add(
    "embedding_by_frequency",
    lambda g, i: aten.embedding_dense_backward(g, i, 4, 2, True),
    lookups.normal(2, 6, 8),
    lookups.integers(0, 4, 2, 6),
)
lookups.add(
    "embedding_i32",
    lambda g, i: aten.embedding_dense_backward(g, i, 11, -1, False),
    lookups.normal(6, 8),
    lookups.integers(0, 11, 6, dtype=torch.int32),
)
lookups.add(
    "embedding_empty",
    lambda g, i: aten.embedding_dense_backward(g, i, 11, -1, False),
    lookups.normal(0, 8),
    lookups.integers(0, 11, 0),
)
lookups.add(
    "embedding_wide",
    lambda g, i: aten.embedding_dense_backward(g, i, 50, -1, False),
    lookups.normal(300, 256),
    lookups.integers(0, 50, 300),
)
lookups.add(
    "embedding_odd_width",
    lambda g, i: aten.embedding_dense_backward(g, i, 50, -1, False),
    lookups.normal(900, 37),
    lookups.integers(0, 50, 900),
)
lookups.add("select", lambda g: aten.select_backward(g, [3, 5, 4], 1, -2), lookups.normal(3, 4))
lookups.add("slice", lambda g: aten.slice_backward(g, [3, 9, 4], 1, 1, 8, 3), lookups.normal(3, 3, 4))
lookups.add(
    "slice_to_the_end", lambda g: aten.slice_backward(g, [3, 9], 1, -4, 9223372036854775807, 1), lookups.normal(3, 4)
)
lookups.add("diagonal", lambda g: aten.diagonal_backward(g, [5, 4, 6], 1, 0, 2), lookups.normal(4, 5))
lookups.add("trace", lambda g: aten.trace_backward(g, [4, 6]), lookups.normal())
for size, step in ((3, 1), (3, 2), (2, 3), (4, 4)):
    lookups.add(
        f"unfold_{size}_{step}",
        lambda g, s=size, t=step: aten.unfold_backward(g, [3, 13], 1, s, t),
        lookups.normal(3, (13 - size) // step + 1, size),
    )
lookups.add(
    "value_selecting",
    lambda g, i: aten.value_selecting_reduction_backward(g, 1, i, [4, 6], False),
    lookups.normal(4),
    lookups.integers(0, 6, 4),
)
lookups.add(
    "index_select",
    lambda g, i: aten.index_select_backward(g, [6, 5], 0, i),
    lookups.normal(9, 5),
    lookups.integers(0, 6, 9),
)
lookups.add(
    "weight_norm",
    lambda g, v, w: aten._weight_norm_interface_backward(g, v, w, v.norm(2, dim=1, keepdim=True), 0),
    lookups.normal(4, 6),
    lookups.normal(4, 6),
    lookups.uniform(0.5, 2, 4, 1),
)
for p in (0.5, 1, 2, 3, float("inf")):
    lookups.add(
        f"cdist_{p}",
        lambda g, a, b, p=p: aten._cdist_backward(g, a, b, p, aten._cdist_forward(a, b, p, None)),
        lookups.normal(2, 5, 6),
        lookups.normal(2, 5, 3),
        lookups.normal(2, 6, 3),
        tolerance=1e-3,
    )
# Writes by data that several threads share: by row, by column, by place.
lookups.add(
    "index_add_long",
    lambda x, i, s: x.index_add(0, i, s),
    lookups.normal(700),
    lookups.integers(0, 700, 40000),
    lookups.normal(40000),
    tolerance=1e-4,
)
lookups.add(
    "index_put_long",
    lambda x, i, s: x.index_put((i,), s, accumulate=True),
    lookups.normal(500, 3),
    lookups.integers(-500, 500, 30000),
    lookups.normal(30000, 3),
    tolerance=1e-4,
)
lookups.add(
    "index_put_two",
    lambda x, i, j, s: x.index_put((i, j), s, accumulate=True),
    lookups.normal(50, 30, 16),
    lookups.integers(0, 50, 3000),
    lookups.integers(0, 30, 3000),
    lookups.normal(3000, 16),
    tolerance=1e-4,
)
lookups.add(
    "index_put_last_wins",
    lambda x, i, s: x.index_put((i,), s),
    lookups.normal(500, 3),
    torch.arange(500).repeat(2),
    lookups.normal(500, 3).repeat(2, 1),
)
lookups.add(
    "scatter_add_rows",
    lambda x, i, s: x.scatter_add(0, i, s),
    lookups.normal(40, 96),
    lookups.integers(0, 40, 600, 96),
    lookups.normal(600, 96),
    tolerance=1e-4,
)
lookups.add(
    "scatter_add_columns",
    lambda x, i, s: x.scatter_add(1, i, s),
    lookups.normal(96, 40),
    lookups.integers(0, 40, 96, 600),
    lookups.normal(96, 600),
    tolerance=1e-4,
)
lookups.add(
    "scatter_add_few_rows",
    lambda x, i, s: x.scatter_add(1, i, s),
    lookups.normal(2, 400),
    lookups.integers(0, 400, 2, 20000),
    lookups.normal(2, 20000),
    tolerance=1e-4,
)
lookups.add(
    "scatter_add_middle",
    lambda x, i, s: x.scatter_add(1, i, s),
    lookups.normal(6, 40, 70),
    lookups.integers(0, 40, 6, 900, 70),
    lookups.normal(6, 900, 70),
    tolerance=1e-4,
)
lookups.add(
    "index_add_strips",
    lambda x, i, s: x.index_add(1, i, s),
    lookups.normal(3, 50, 256),
    lookups.integers(0, 50, 300),
    lookups.normal(3, 300, 256),
    tolerance=1e-4,
)
lookups.add(
    "scatter_reduce_amax",
    lambda x, i, s: x.scatter_reduce(0, i, s, "amax"),
    lookups.normal(40, 96),
    lookups.integers(0, 40, 600, 96),
    lookups.normal(600, 96),
)
lookups.add(
    "scatter_add_i64",
    lambda x, i, s: x.scatter_add(0, i, s),
    lookups.integers(-9, 9, 40, 96),
    lookups.integers(0, 40, 600, 96),
    lookups.integers(-9, 9, 600, 96),
)

# Pooling, padding, interpolation.
image = (2, 3, 9, 10)


def max_pool(kernel, stride, padding, dilation, ceil, n=2):
    forward, backward = (
        (aten.max_pool2d_with_indices, aten.max_pool2d_with_indices_backward)
        if n == 2
        else (aten.max_pool3d_with_indices, aten.max_pool3d_with_indices_backward)
    )

    def call(x):
        y, indices = forward(x, kernel, stride, padding, dilation, ceil)
        return backward(torch.sin(y * 3), x, kernel, stride, padding, dilation, ceil, indices)

    return call


for name, settings in {
    "2": ([2, 2], [2, 2], [0, 0], [1, 1], False),
    "3_2_1": ([3, 3], [2, 2], [1, 1], [1, 1], False),
    "ceil": ([3, 3], [2, 2], [0, 0], [1, 1], True),
    "dilated": ([3, 3], [1, 1], [0, 0], [2, 2], False),
    "uneven": ([2, 3], [1, 2], [0, 1], [1, 1], False),
    "apart": ([2, 2], [3, 3], [0, 0], [1, 1], False),
}.items():
    windows.add(f"max_{name}", max_pool(*settings), windows.normal(*image))
windows.add("max_bf16", max_pool([3, 3], [2, 2], [1, 1], [1, 1], False), windows.normal(*image, dtype=torch.bfloat16))
windows.add(
    "max_channels_last",
    max_pool([3, 3], [2, 2], [1, 1], [1, 1], False),
    windows.normal(*image).to(memory_format=torch.channels_last),
)
windows.add("max_3d", max_pool([2, 3, 2], [2, 2, 1], [0, 1, 0], [1, 1, 1], False, 3), windows.normal(1, 2, 5, 6, 7))
for name, (kernel, stride, padding, ceil, include, divisor) in {
    "2": ([2, 2], [2, 2], [0, 0], False, True, None),
    "3_2_1": ([3, 3], [2, 2], [1, 1], False, True, None),
    "not_counting": ([3, 3], [2, 2], [1, 1], False, False, None),
    "ceil": ([3, 3], [2, 2], [0, 0], True, True, None),
    "divisor": ([2, 2], [1, 2], [0, 0], False, True, 3),
}.items():
    windows.add(
        f"avg_{name}",
        lambda x, a=(kernel, stride, padding, ceil, include, divisor): aten.avg_pool2d_backward(
            torch.sin(aten.avg_pool2d(x, *a) * 9), x, *a
        ),
        windows.normal(*image),
    )
windows.add(
    "avg_3d",
    lambda x: aten.avg_pool3d_backward(
        torch.sin(aten.avg_pool3d(x, [2, 2, 2])), x, [2, 2, 2], [2, 2, 2], [0, 0, 0], False, True, None
    ),
    windows.normal(1, 2, 4, 6, 5),
)
windows.add(
    "adaptive_avg_uneven", aten._adaptive_avg_pool2d_backward, windows.normal(2, 3, 4, 3), windows.normal(*image)
)
windows.add("adaptive_avg_even", aten._adaptive_avg_pool2d_backward, windows.normal(2, 3, 3, 5), windows.normal(*image))
windows.add(
    "adaptive_avg_larger", aten._adaptive_avg_pool2d_backward, windows.normal(2, 3, 13, 20), windows.normal(*image)
)
windows.add(
    "adaptive_avg_bf16",
    aten._adaptive_avg_pool2d_backward,
    windows.normal(2, 3, 4, 3, dtype=torch.bfloat16),
    windows.normal(*image, dtype=torch.bfloat16),
)
windows.add(
    "adaptive_avg_3d", aten._adaptive_avg_pool3d_backward, windows.normal(1, 2, 2, 3, 4), windows.normal(1, 2, 5, 6, 7)
)
windows.add(
    "adaptive_max",
    lambda g, x: aten.adaptive_max_pool2d_backward(g, x, aten.adaptive_max_pool2d(x, [4, 3])[1]),
    windows.normal(2, 3, 4, 3),
    windows.normal(*image),
)
for kind in ("reflection", "replication"):
    op = lambda n, k=kind: getattr(aten, f"{k}_pad{n}d_backward")
    windows.add(f"{kind}_1d", lambda g, x, f=op(1): f(g, x, [3, 2]), windows.normal(2, 3, 15), windows.normal(2, 3, 10))
    windows.add(
        f"{kind}_2d", lambda g, x, f=op(2): f(g, x, [3, 2, 1, 4]), windows.normal(2, 3, 14, 15), windows.normal(*image)
    )
    windows.add(
        f"{kind}_3d",
        lambda g, x, f=op(3): f(g, x, [1, 0, 1, 2, 2, 1]),
        windows.normal(1, 2, 8, 8, 6),
        windows.normal(1, 2, 5, 5, 5),
    )
windows.add(
    "reflection_bf16",
    lambda g, x: aten.reflection_pad2d_backward(g, x, [3, 2, 1, 4]),
    windows.normal(2, 3, 14, 15, dtype=torch.bfloat16),
    windows.normal(*image, dtype=torch.bfloat16),
)
for name, (function, out) in {
    "nearest": (aten.upsample_nearest2d_backward, (18, 20)),
    "nearest_down": (aten.upsample_nearest2d_backward, (5, 13)),
    "nearest_exact": (aten._upsample_nearest_exact2d_backward, (5, 13)),
    "bilinear": (lambda g, o, i: aten.upsample_bilinear2d_backward(g, o, i, False), (18, 20)),
    "bilinear_aligned": (lambda g, o, i: aten.upsample_bilinear2d_backward(g, o, i, True), (5, 13)),
    "bilinear_scales": (lambda g, o, i: aten.upsample_bilinear2d_backward(g, o, i, False, 1.5, 2.0), (13, 20)),
    "bicubic": (lambda g, o, i: aten.upsample_bicubic2d_backward(g, o, i, False), (15, 17)),
}.items():
    windows.add(name, lambda g, f=function, o=out: f(g, list(o), list(image)), windows.normal(2, 3, *out))
windows.add("linear_1d", lambda g: aten.upsample_linear1d_backward(g, [17], [2, 3, 9], False), windows.normal(2, 3, 17))
windows.add("nearest_1d", lambda g: aten.upsample_nearest1d_backward(g, [17], [2, 3, 9]), windows.normal(2, 3, 17))
windows.add(
    "trilinear",
    lambda g: aten.upsample_trilinear3d_backward(g, [6, 7, 8], [1, 2, 3, 4, 5], False),
    windows.normal(1, 2, 6, 7, 8),
)
windows.add(
    "bilinear_bf16",
    lambda g: aten.upsample_bilinear2d_backward(g, [18, 20], list(image), False),
    windows.normal(2, 3, 18, 20, dtype=torch.bfloat16),
)

# Convolutions: (input sizes, weight sizes, stride, padding, dilation, transposed, output padding, groups).
CONVOLUTIONS = {
    "plain": ((2, 3, 9, 11), (5, 3, 3, 3), [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
    "strided": ((2, 3, 9, 12), (5, 3, 3, 3), [2, 2], [1, 1], [1, 1], False, [0, 0], 1),
    "dilated": ((2, 3, 12, 12), (5, 3, 3, 3), [1, 1], [2, 1], [2, 2], False, [0, 0], 1),
    "one_by_one": ((2, 8, 5, 5), (6, 8, 1, 1), [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
    "one_by_one_strided": ((2, 16, 8, 7), (32, 16, 1, 1), [2, 2], [0, 0], [1, 1], False, [0, 0], 1),
    "grouped": ((2, 6, 9, 9), (8, 3, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 2),
    "depthwise": ((2, 16, 9, 9), (16, 1, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 16),
    "depthwise_strided": ((2, 32, 9, 8), (32, 1, 3, 3), [2, 2], [1, 1], [1, 1], False, [0, 0], 32),
    "first_layer": ((2, 3, 32, 32), (16, 3, 7, 7), [2, 2], [3, 3], [1, 1], False, [0, 0], 1),
    "one_dim": ((2, 3, 20), (5, 3, 3), [2], [2], [2], False, [0], 1),
    "three_dims": ((1, 3, 5, 6, 7), (4, 3, 3, 3, 3), [1, 2, 1], [1, 1, 0], [1, 1, 1], False, [0, 0, 0], 1),
    "transposed": ((2, 3, 5, 6), (3, 4, 3, 3), [2, 2], [1, 1], [1, 1], True, [1, 1], 1),
    "transposed_grouped": ((2, 4, 5, 6), (4, 3, 3, 3), [2, 2], [0, 0], [1, 1], True, [0, 0], 2),
    "transposed_left_over": ((2, 3, 5, 6), (3, 4, 3, 3), [1, 1], [1, 1], [2, 2], True, [1, 1], 1),
    "transposed_1d": ((2, 3, 9), (3, 5, 4), [2], [1], [1], True, [1], 1),
    "many_channels": ((2, 64, 7, 7), (48, 64, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
}


def convolution(settings, mask):
    def call(x, w):
        y = aten.convolution(x, w, None, *settings)
        return made(aten.convolution_backward(torch.sin(y), x, w, [y.shape[1]], *settings, mask))

    return call


for name, (x, w, *settings) in CONVOLUTIONS.items():
    convolutions.add(
        name,
        convolution(settings, [True, True, True]),
        convolutions.normal(*x),
        convolutions.normal(*w) * 0.3,
        tolerance=1e-4,
    )
for mask in ([True, False, False], [False, True, False], [False, True, True]):
    x, w, *settings = CONVOLUTIONS["strided"]
    convolutions.add(
        "mask_" + "".join("01"[m] for m in mask),
        convolution(settings, mask),
        convolutions.normal(*x),
        convolutions.normal(*w),
        tolerance=1e-4,
    )
for short in ("f64", "bf16"):
    x, w, *settings = CONVOLUTIONS["strided"]
    convolutions.add(
        short,
        convolution(settings, [True, True, True]),
        convolutions.normal(*x, dtype=NARROW[short]),
        convolutions.normal(*w, dtype=NARROW[short]) * 0.3,
        tolerance=5e-2 if short == "bf16" else None,
    )
x, w, *settings = CONVOLUTIONS["many_channels"]
convolutions.add(
    "channels_last",
    convolution(settings, [True, True, True]),
    convolutions.normal(*x).to(memory_format=torch.channels_last),
    convolutions.normal(*w) * 0.3,
    tolerance=1e-4,
)
