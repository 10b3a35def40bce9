"""Reductions, scans, sorts and normalisations."""

import torch
import torch.nn.functional as F

from cases.data import ALL, FLOATS, Family

reductions, scans, norms = Family("reductions"), Family("scans"), Family("norms")

SHAPES = {
    "rows": ((6, 50), 1),
    "columns": ((50, 6), 0),
    "middle": ((4, 33, 5), 1),
    "outer_two": ((4, 33, 5), (0, 1)),
    "ends": ((4, 33, 5), (0, 2)),
    "all": ((7, 9, 11), None),
    "one": ((1,), 0),
    "long": ((3, 5000), 1),
    "wide": ((130, 70), 0),
}


def over(function, dim, **kw):
    return (lambda x: function(x, **kw)) if dim is None else (lambda x: function(x, dim=dim, **kw))


for name, function in {
    "sum": torch.sum,
    "mean": torch.mean,
    "amax": torch.amax,
    "amin": torch.amin,
    "var": torch.var,
    "std": torch.std,
    "logsumexp": torch.logsumexp,
}.items():
    for shape, (sizes, dim) in SHAPES.items():
        if shape == "one" and name in ("var", "std") or dim is None and name in ("logsumexp",):
            continue
        reductions.add(f"{name}_{shape}", over(function, dim), reductions.normal(*sizes))
        reductions.add(
            f"{name}_{shape}_keepdim",
            over(
                function,
                ()
                if dim is None and name in ("amax", "amin")
                else dim
                if dim is not None
                else tuple(range(len(sizes))),
                keepdim=True,
            ),
            reductions.normal(*sizes),
        )
for short, dtype in ALL.items():
    reductions.add(f"sum_{short}", lambda x: x.sum(1), reductions.any(dtype, 6, 50))
    reductions.add(f"amax_{short}", lambda x: x.amax(0), reductions.any(dtype, 6, 50))
    if dtype != torch.bool:
        reductions.add(f"argmax_{short}", lambda x: x.argmax(1), reductions.any(dtype, 6, 50))
        reductions.add(f"prod_{short}", lambda x: x.prod(1), reductions.any(dtype, 6, 5))
        reductions.add(f"min_{short}", lambda x: x.min(), reductions.any(dtype, 6, 50))
    reductions.add(f"any_{short}", lambda x: (x.any(), x.any(0), x.all(1)), reductions.any(dtype, 6, 50))
for short, dtype in FLOATS.items():
    reductions.add(f"mean_{short}", lambda x: x.mean(0), reductions.any(dtype, 60, 9))
    reductions.add(f"var_{short}", lambda x: x.var(1), reductions.any(dtype, 6, 50))
reductions.add("sum_of_ints_to_f32", lambda x: x.sum(0, dtype=torch.float32), reductions.integers(-9, 9, 30, 4))
reductions.add("mean_to_f64", lambda x: x.mean(dtype=torch.float64), reductions.normal(30, 4))
reductions.add("sum_empty", lambda x: (x.sum(0), x.sum(1), x.sum()), reductions.normal(0, 5))
reductions.add("mean_empty", lambda x: x.mean(1).isnan(), reductions.normal(5, 0))
reductions.add("any_empty", lambda x: (x.any(), x.all()), reductions.bools(0))
reductions.add("prod_empty", lambda x: x.prod(), reductions.normal(0))
reductions.add("zero_dim", lambda x: (x.sum(), x.mean(), x.amax(), x.argmax()), reductions.normal())
reductions.add("max_values_indices", lambda x: torch.max(x, 1), reductions.normal(6, 50))
reductions.add("min_values_indices", lambda x: torch.min(x, 0), reductions.normal(6, 50))
reductions.add("max_ties", lambda x: torch.max(x, 1), reductions.integers(0, 3, 6, 50))
reductions.add("argmax_ties", lambda x: (x.argmax(1), x.argmin(1), x.argmax()), reductions.integers(0, 3, 6, 50))
reductions.add("argmax_keepdim", lambda x: x.argmax(-1, keepdim=True), reductions.normal(6, 50))
reductions.add(
    "amax_nan",
    lambda x: (x.amax(1), x.amin(1), x.argmax(1)),
    torch.tensor([[1.0, float("nan"), 3.0], [0.0, -1.0, 2.0]]),
)
# Reductions cut into chunks, columns by strips, several accumulators: ties and NaN must still go to the first place.
some_nan = reductions.normal(300, 400)
some_nan[170:, ::7] = float("nan")
reductions.add(
    "argmax_chunks", lambda x: (x.argmax(), x.argmin(), x.argmax(0), x.argmin(1)), reductions.integers(0, 9, 300, 400)
)
reductions.add("argmax_chunks_nan", lambda x: (x.argmax(), x.argmin(), x.argmax(0), x.argmin(1)), some_nan)
reductions.add(
    "argmax_all_lowest", lambda x: (x.argmax(), x.argmax(0), x.argmax(1)), torch.full((300, 400), -float("inf"))
)
reductions.add(
    "columns_in_levels", lambda x: ((x - x.mean(0)) / x.std(0)).amax(0) + x.sum(0), reductions.normal(300, 50)
)
reductions.add("columns_in_chunks", lambda x: (x.sum(0), x.amax(0)), reductions.normal(3000, 400), tolerance=2e-4)
reductions.add("amax_bool_rows", lambda x: (x.amax(1), x.amin(1)), reductions.bools(6, 50))
reductions.add("aminmax", lambda x: torch.aminmax(x, dim=1), reductions.normal(6, 50))
reductions.add("var_mean", lambda x: torch.var_mean(x, (0, 2), correction=0), reductions.normal(4, 5, 6))
reductions.add("var_offset", lambda x: x.var(1), reductions.normal(4, 500) + 1000, tolerance=1e-3)
reductions.add("std_mean", lambda x: torch.std_mean(x, 1), reductions.normal(4, 50))
reductions.add(
    "norm",
    lambda x: (
        x.norm(),
        x.norm(dim=1),
        torch.linalg.vector_norm(x, 1, 0),
        torch.linalg.vector_norm(x, float("inf"), 1),
    ),
    reductions.normal(5, 30),
)
reductions.add("count_nonzero", lambda x: (x != 0).sum(1), reductions.integers(-1, 2, 5, 30))
reductions.add("hash", torch.hash_tensor, reductions.normal(5, 300))
reductions.add(
    "hash_of_halves", lambda x: torch.hash_tensor(x.half(), dim=(0, 2), keepdim=True), reductions.normal(5, 30, 7)
)
reductions.add("hash_of_integers", lambda x: torch.hash_tensor(x, dim=0), reductions.integers(-9, 9, 50, 3))
reductions.add("sum_transposed", lambda x: x.t().sum(0), reductions.normal(40, 50))
reductions.add(
    "sum_of_chain",
    lambda x, y: (x * y).exp().sum(1) + y.sum(1),
    reductions.normal(20, 30),
    reductions.normal(20, 30) * 0.1,
)
reductions.add("two_reductions", lambda x: (x.sum(1) * 2 + x.amax(1)).mean(), reductions.normal(20, 30))
reductions.add("reduce_then_broadcast", lambda x: x - x.mean(1, keepdim=True), reductions.normal(20, 30))
reductions.add("dot_of_rows", lambda x, y: (x * y).sum(-1), reductions.normal(20, 30), reductions.normal(20, 30))
reductions.add(
    "all_close_pattern", lambda x, y: ((x - y).abs() <= 1e-3).all(), reductions.normal(20), reductions.normal(20)
)
reductions.add("median", lambda x: torch.median(x, 1), reductions.normal(6, 9))

for name, function in {"cumsum": torch.cumsum, "cumprod": torch.cumprod, "logcumsumexp": torch.logcumsumexp}.items():
    for shape, (sizes, dim) in {
        "rows": ((6, 50), 1),
        "columns": ((50, 6), 0),
        "middle": ((3, 20, 5), 1),
        "one": ((1,), 0),
        "empty": ((0, 3), 0),
        "long": ((2, 3000), 1),
    }.items():
        data = scans.uniform(0.9, 1.1, *sizes) if name == "cumprod" else scans.normal(*sizes)
        scans.add(f"{name}_{shape}", over(function, dim), data, tolerance=2e-4 if shape == "long" else None)
scans.add("cumsum_i64", lambda x: x.cumsum(1), scans.integers(-9, 9, 6, 50))
scans.add("cumsum_i32_promotes", lambda x: x.cumsum(0), scans.integers(-9, 9, 6, 50, dtype=torch.int32))
scans.add("cumsum_bool", lambda x: x.cumsum(0), scans.bools(20))
scans.add("cumsum_bf16", lambda x: x.cumsum(1), scans.normal(6, 50, dtype=torch.bfloat16))
scans.add("cummax_many", lambda x: (torch.cummax(x, 1), torch.cummin(x, 0)), some_nan[165:175, :60])
scans.add("cumsum_i8", lambda x: (x.cumsum(1), x.cummax(1)[0]), scans.integers(-9, 9, 6, 50, dtype=torch.int8))
scans.add("cummax", lambda x: torch.cummax(x, 1), scans.normal(6, 50))
scans.add("cummin", lambda x: torch.cummin(x, 0), scans.normal(6, 50))
scans.add("diff", lambda x: (x.diff(dim=1), x.diff(dim=0)), scans.normal(6, 9))
for short in ("f32", "i64", "bf16", "u8"):
    scans.add(f"sort_{short}", lambda x: x.sort(dim=1, stable=True), scans.any(ALL[short], 6, 50))
    scans.add(f"topk_values_{short}", lambda x: x.topk(5, 1)[0], scans.any(ALL[short], 6, 50))
scans.add("sort_descending", lambda x: x.sort(0, descending=True), scans.normal(20, 3))
scans.add("argsort", lambda x: x.argsort(1), scans.normal(6, 50))
scans.add("topk", lambda x: x.topk(3), scans.normal(6, 50))
scans.add("topk_smallest", lambda x: x.topk(3, dim=0, largest=False), scans.normal(30, 4))
for short in ("f32", "f64", "i64", "bf16", "i8"):  # long enough to be sorted by digits
    scans.add(
        f"sort_long_{short}",
        lambda x: (x.sort(dim=1, stable=True), x.sort(dim=1, descending=True, stable=True)),
        scans.any(ALL[short], 3, 700),
    )
scans.add("sort_wide_i64", lambda x: x.sort(dim=0, stable=True), scans.integers(-(2**62), 2**62, 500, 2))
scans.add(
    "sort_long_nan",
    lambda x: (x.sort(dim=1, stable=True)[0], torch.kthvalue(x, 50, 1)[0], x.nanmedian(1)[0]),
    some_nan[160:180],
)
scans.add("topk_most_of_long", lambda x: (x.topk(3000, 1), x.topk(2500, 1, largest=False)), scans.normal(2, 5000))
scans.add("topk_long", lambda x: (x.topk(7, 1), x.topk(200, 1), x.topk(7, 1, largest=False)), scans.normal(3, 700))
scans.add("kthvalue_pattern", lambda x: x.sort(1)[0][:, 2], scans.normal(6, 9))

for shape in [(5, 33), (2, 3, 64), (1, 7), (4, 1000)]:
    tag, width = "x".join(map(str, shape)), shape[-1]
    norms.add(f"softmax_{tag}", lambda x: F.softmax(x, -1), norms.normal(*shape))
    norms.add(f"log_softmax_{tag}", lambda x: F.log_softmax(x, -1), norms.normal(*shape))
    norms.add(
        f"layer_norm_{tag}",
        lambda x, w, b, n=width: F.layer_norm(x, (n,), w, b),
        norms.normal(*shape),
        norms.normal(width),
        norms.normal(width),
    )
    norms.add(
        f"rms_norm_{tag}", lambda x, w, n=width: F.rms_norm(x, (n,), w, 1e-6), norms.normal(*shape), norms.normal(width)
    )
for short in ("f64", "f16", "bf16"):
    norms.add(f"softmax_{short}", lambda x: F.softmax(x, -1), norms.normal(5, 33, dtype=FLOATS[short]))
    norms.add(
        f"layer_norm_{short}",
        lambda x, w, b: F.layer_norm(x, (33,), w, b),
        *(norms.normal(*s, dtype=FLOATS[short]) for s in ((5, 33), (33,), (33,))),
    )
    norms.add(
        f"rms_norm_{short}",
        lambda x, w: F.rms_norm(x, (33,), w, 1e-6),
        *(norms.normal(*s, dtype=FLOATS[short]) for s in ((5, 33), (33,))),
    )
# Kernels fetch the row that the next point's index names.
for name, at in {
    "rows": norms.integers(-30, 30, 4, 9),
    "columns": norms.integers(-30, 30, 9, 4).t(),
    "part": norms.integers(-30, 30, 4, 12)[:, 3:],
    "narrow": norms.integers(0, 30, 4, 9, dtype=torch.int32),
}.items():
    norms.add(
        f"looked_up_{name}",
        lambda i, w, p: F.layer_norm(w[i] + p, (80,)),
        at,
        norms.normal(30, 80),
        norms.normal(9, 80),
    )
    norms.add(f"looked_up_twice_{name}", lambda i, w: F.softmax(w[i] * w[i.flip(0)], -1), at, norms.normal(30, 80))
norms.add("softmax_columns", lambda x: F.softmax(x, 0), norms.normal(33, 7))
norms.add("softmax_middle", lambda x: F.softmax(x, 1), norms.normal(3, 20, 5))
norms.add(
    "softmax_masked_row",
    lambda x: F.softmax(x, -1),
    torch.tensor([[float("-inf"), 1.0, 2.0], [float("-inf"), float("-inf"), 0.0]]),
)
norms.add("softmax_to_f32", lambda x: F.softmax(x, -1, dtype=torch.float32), norms.normal(5, 33, dtype=torch.bfloat16))
norms.add("softmax_large_values", lambda x: F.softmax(x * 1e4, -1), norms.normal(5, 33))
norms.add("softmin", lambda x: F.softmin(x, -1), norms.normal(5, 33))
norms.add("layer_norm_two_dims", lambda x: F.layer_norm(x, (4, 5)), norms.normal(3, 4, 5))
norms.add("layer_norm_no_bias", lambda x, w: F.layer_norm(x, (9,), w), norms.normal(3, 9), norms.normal(9))
norms.add("layer_norm_offset", lambda x: F.layer_norm(x, (64,)), norms.normal(3, 64) + 300, tolerance=1e-3)
norms.add(
    "group_norm", lambda x, w, b: F.group_norm(x, 3, w, b), norms.normal(2, 6, 5, 7), norms.normal(6), norms.normal(6)
)
norms.add("group_norm_1d", lambda x: F.group_norm(x, 2), norms.normal(2, 6, 11))
norms.add("instance_norm", lambda x: F.instance_norm(x), norms.normal(2, 6, 5, 7))
norms.add(
    "batch_norm_eval",
    lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b),
    norms.normal(2, 6, 5, 7),
    norms.normal(6),
    norms.uniform(0.5, 2, 6),
    norms.normal(6),
    norms.normal(6),
)
norms.add(
    "batch_norm_2d_input",
    lambda x, m, v: F.batch_norm(x, m, v),
    norms.normal(9, 6),
    norms.normal(6),
    norms.uniform(0.5, 2, 6),
)
norms.add("batch_norm_train", lambda x: F.batch_norm(x, None, None, training=True), norms.normal(4, 6, 5, 7))
norms.add("normalize", lambda x: F.normalize(x, dim=-1), norms.normal(5, 33))
norms.add("cosine_similarity", lambda x, y: F.cosine_similarity(x, y, -1), norms.normal(5, 33), norms.normal(5, 33))
norms.add("layer_norm_after_add", lambda x, y: F.layer_norm(x + y, (33,)) * 2, norms.normal(5, 33), norms.normal(5, 33))
norms.add("cross_entropy", lambda x, t: F.cross_entropy(x, t), norms.normal(9, 20), norms.integers(0, 20, 9))
norms.add(
    "cross_entropy_ignore",
    lambda x, t: F.cross_entropy(x, t, ignore_index=3, reduction="sum"),
    norms.normal(9, 20),
    norms.integers(0, 5, 9),
)
norms.add(
    "nll_loss_none", lambda x, t: F.nll_loss(x, t, reduction="none"), norms.normal(9, 20), norms.integers(0, 20, 9)
)
norms.add("mse", lambda x, y: F.mse_loss(x, y), norms.normal(9, 20), norms.normal(9, 20))
norms.add("smooth_l1", lambda x, y: F.smooth_l1_loss(x, y), norms.normal(9, 20), norms.normal(9, 20))
norms.add(
    "bce_with_logits",
    lambda x, y: F.binary_cross_entropy_with_logits(x, y),
    norms.normal(9, 20),
    norms.uniform(0, 1, 9, 20),
)
norms.add(
    "kl_div",
    lambda x, y: F.kl_div(F.log_softmax(x, 1), F.softmax(y, 1), reduction="batchmean"),
    norms.normal(9, 20),
    norms.normal(9, 20),
)
