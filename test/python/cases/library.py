"""Matrix products, convolutions, pooling and attention."""

import torch
import torch.nn.functional as F

from cases.data import FLOATS, Family

products, convolutions, pools, attention = (
    Family("products"),
    Family("convolutions"),
    Family("pools"),
    Family("attention"),
)
half = {"f16": 2e-3, "bf16": 2e-2, "f32": None, "f64": None}

for m, k, n in [
    (1, 1, 1),
    (3, 5, 7),
    (1, 64, 33),
    (64, 1, 16),
    (33, 65, 17),
    (128, 96, 80),
    (0, 4, 3),
    (4, 0, 3),
    (4, 3, 0),
]:
    tag = f"{m}x{k}x{n}"
    products.add(f"mm_{tag}", torch.mm, products.normal(m, k), products.normal(k, n))
    products.add(f"linear_{tag}", F.linear, products.normal(m, k), products.normal(n, k), products.normal(n))
    products.add(f"bmm_{tag}", torch.bmm, products.normal(3, m, k), products.normal(3, k, n))
for short, dtype in FLOATS.items():
    products.add(
        f"matmul_{short}", torch.matmul, products.normal(2, 9, 16, dtype=dtype), products.normal(16, 12, dtype=dtype)
    )
    products.add(
        f"linear_{short}",
        F.linear,
        products.normal(2, 9, 16, dtype=dtype),
        products.normal(12, 16, dtype=dtype),
        products.normal(12, dtype=dtype),
    )
    products.add(
        f"bmm_{short}", torch.bmm, products.normal(3, 9, 16, dtype=dtype), products.normal(3, 16, 12, dtype=dtype)
    )
for name, (a, b) in {
    "vector_vector": ((5,), (5,)),
    "matrix_vector": ((4, 5), (5,)),
    "vector_matrix": ((5,), (5, 4)),
    "batched_vector": ((3, 4, 5), (5,)),
    "broadcast": ((2, 1, 4, 5), (3, 5, 6)),
    "matrix_batched": ((4, 5), (3, 5, 6)),
}.items():
    products.add(f"matmul_{name}", torch.matmul, products.normal(*a), products.normal(*b))
products.add("mm_i64", torch.mm, products.integers(-9, 9, 4, 5), products.integers(-9, 9, 5, 3))
products.add("mm_transposed_left", lambda a, b: a.t() @ b, products.normal(16, 9), products.normal(16, 12))
products.add("mm_transposed_right", lambda a, b: a @ b.t(), products.normal(9, 16), products.normal(12, 16))
products.add(
    "mm_and_rows_backwards",
    lambda a, b, c: torch.relu(a @ b + c.flip(0)) * c.flip(1),
    *(products.normal(9, 16), products.normal(16, 12), products.normal(9, 12)),
)
products.add("mm_sliced", lambda a, b: a[:, 3:19] @ b[::2], products.normal(9, 24), products.normal(32, 12))
products.add(
    "bmm_heads",
    lambda q, k: q.transpose(1, 2) @ k.permute(0, 2, 3, 1),
    products.normal(2, 9, 4, 8),
    products.normal(2, 9, 4, 8),
)
products.add(
    "addmm",
    lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2),
    products.normal(12),
    products.normal(9, 16),
    products.normal(16, 12),
)
products.add(
    "baddbmm",
    lambda c, a, b: torch.baddbmm(c, a, b, alpha=0.125),
    products.normal(3, 9, 12),
    products.normal(3, 9, 16),
    products.normal(3, 16, 12),
)
products.add("linear_no_bias", F.linear, products.normal(9, 16), products.normal(12, 16))
for name, function in {
    "relu": F.relu,
    "gelu": F.gelu,
    "silu": F.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "hardswish": F.hardswish,
}.items():
    products.add(
        f"linear_{name}",
        lambda x, w, b, f=function: f(F.linear(x, w, b)),
        products.normal(9, 16),
        products.normal(12, 16),
        products.normal(12),
    )
products.add(
    "linear_add",
    lambda x, w, b, y: F.linear(x, w, b) + y,
    products.normal(9, 16),
    products.normal(12, 16),
    products.normal(12),
    products.normal(9, 12),
)
products.add(
    "linear_add_broadcast",
    lambda x, w, b, y: F.linear(x, w, b) * 0.5 + y,
    products.normal(2, 9, 16),
    products.normal(12, 16),
    products.normal(12),
    products.normal(2, 1, 12),
)
products.add(
    "linear_used_twice",
    lambda x, w: (F.linear(x, w), F.linear(x, w).relu()),
    products.normal(9, 16),
    products.normal(12, 16),
)
products.add(
    "mlp",
    lambda x, a, b: F.linear(F.gelu(F.linear(x, a)), b) + x,
    products.normal(9, 16),
    products.normal(64, 16),
    products.normal(16, 64),
)
products.add("qkv", lambda x, w: F.linear(x, w).chunk(3, -1), products.normal(2, 9, 16), products.normal(48, 16))
products.add(
    "linear_of_transpose",
    lambda x, w: F.linear(x.transpose(1, 2), w),
    products.normal(2, 16, 9),
    products.normal(12, 16),
)
products.add("linear_of_slice", lambda x, w: F.linear(x[:, 0], w), products.normal(2, 9, 16), products.normal(12, 16))
products.add("outer", torch.outer, products.normal(5), products.normal(7))
products.add(
    "einsum", lambda a, b: torch.einsum("bij,bkj->bik", a, b), products.normal(2, 5, 8), products.normal(2, 6, 8)
)
products.add(
    "einsum_contract_two",
    lambda a, b: torch.einsum("bhid,bhjd->ij", a, b),
    products.normal(2, 3, 5, 8),
    products.normal(2, 3, 6, 8),
)
products.add(
    "chain", lambda a, b, c: a @ b @ c, products.normal(9, 16), products.normal(16, 12), products.normal(12, 5)
)
products.add(
    "bilinear_pattern",
    lambda a, w, b: ((a @ w) * b).sum(-1),
    products.normal(9, 16),
    products.normal(16, 12),
    products.normal(9, 12),
)

CONVOLUTIONS = {
    "plain": ((2, 3, 9, 11), (5, 3, 3, 3), {}),
    "padded": ((2, 3, 9, 11), (5, 3, 3, 3), {"padding": 1}),
    "strided": ((2, 3, 9, 11), (5, 3, 3, 3), {"stride": 2, "padding": 1}),
    "one_by_one": ((2, 8, 5, 5), (6, 8, 1, 1), {}),
    "dilated": ((2, 3, 12, 12), (5, 3, 3, 3), {"dilation": 2}),
    "grouped": ((2, 6, 9, 9), (8, 3, 3, 3), {"groups": 2}),
    "depthwise": ((2, 8, 9, 9), (8, 1, 3, 3), {"groups": 8, "padding": 1}),
    "depthwise_multiplier": ((2, 4, 9, 9), (8, 1, 3, 3), {"groups": 4}),
    "uneven": ((2, 3, 9, 11), (5, 3, 3, 2), {"stride": (2, 1), "padding": (0, 1)}),
    "same": ((2, 3, 9, 11), (5, 3, 3, 3), {"padding": "same"}),
    "same_even_kernel": ((2, 3, 9, 11), (5, 3, 4, 4), {"padding": "same"}),
    "valid": ((2, 3, 9, 11), (5, 3, 3, 3), {"padding": "valid"}),
    "patches": ((1, 3, 16, 16), (12, 3, 4, 4), {"stride": 4}),
    "many_channels": ((1, 64, 7, 7), (48, 64, 3, 3), {"padding": 1}),
}
for name, (x, w, kw) in CONVOLUTIONS.items():
    convolutions.add(
        f"conv2d_{name}",
        lambda x, w, b, k=kw: F.conv2d(x, w, b, **k),
        convolutions.normal(*x),
        convolutions.normal(*w),
        convolutions.normal(w[0]),
    )
convolutions.add("conv2d_no_bias", F.conv2d, convolutions.normal(2, 3, 9, 9), convolutions.normal(5, 3, 3, 3))
convolutions.add(
    "conv2d_unbatched",
    lambda x, w: F.conv2d(x, w, padding=1),
    convolutions.normal(3, 9, 9),
    convolutions.normal(5, 3, 3, 3),
)
convolutions.add(
    "conv1d",
    lambda x, w, b: F.conv1d(x, w, b, padding=2, dilation=2),
    convolutions.normal(2, 3, 20),
    convolutions.normal(5, 3, 3),
    convolutions.normal(5),
)
convolutions.add(
    "conv1d_strided", lambda x, w: F.conv1d(x, w, stride=3), convolutions.normal(2, 3, 20), convolutions.normal(5, 3, 4)
)
convolutions.add(
    "conv3d",
    lambda x, w: F.conv3d(x, w, padding=1),
    convolutions.normal(1, 3, 5, 6, 7),
    convolutions.normal(4, 3, 3, 3, 3),
)
convolutions.add(
    "transposed_1d",
    lambda x, w: F.conv_transpose1d(x, w, stride=2, padding=1, output_padding=1),
    convolutions.normal(2, 3, 9),
    convolutions.normal(3, 5, 4),
)
convolutions.add(
    "transposed_2d",
    lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1),
    convolutions.normal(2, 3, 5, 6),
    convolutions.normal(3, 4, 3, 3),
    convolutions.normal(4),
)
convolutions.add(
    "transposed_2d_grouped",
    lambda x, w: F.conv_transpose2d(x, w, stride=2, groups=2),
    convolutions.normal(2, 4, 5, 6),
    convolutions.normal(4, 3, 3, 3),
)
convolutions.add(
    "transposed_3d",
    lambda x, w: F.conv_transpose3d(x, w),
    convolutions.normal(1, 2, 3, 4, 5),
    convolutions.normal(2, 3, 2, 2, 2),
)
for short in ("f64", "f16", "bf16"):
    convolutions.add(
        f"conv2d_{short}",
        lambda x, w: F.conv2d(x, w, padding=1),
        convolutions.normal(2, 3, 9, 9, dtype=FLOATS[short]),
        convolutions.normal(5, 3, 3, 3, dtype=FLOATS[short]),
    )
for name, function in {
    "relu": F.relu,
    "relu6": F.relu6,
    "silu": F.silu,
    "hardswish": F.hardswish,
    "sigmoid": torch.sigmoid,
}.items():
    convolutions.add(
        f"conv2d_{name}",
        lambda x, w, b, f=function: f(F.conv2d(x, w, b, padding=1)),
        convolutions.normal(2, 3, 9, 9),
        convolutions.normal(5, 3, 3, 3),
        convolutions.normal(5),
    )
convolutions.add(
    "conv2d_residual",
    lambda x, w: F.relu(F.conv2d(x, w, padding=1) + x),
    convolutions.normal(2, 3, 9, 9),
    convolutions.normal(3, 3, 3, 3),
)
# A 1x1 window over a padded image: oneDNN takes these by products of gathered rows.
for name, join in {"sum": lambda a, b: F.relu(a + b), "product": lambda a, b: a * b.sigmoid()}.items():
    convolutions.add(
        f"conv2d_of_gathered_rows_{name}",
        lambda x, y, w, j=join: j(F.conv2d(x, w, padding=1), F.conv2d(y, w, padding=1)),
        convolutions.normal(2, 4, 6, 6),
        convolutions.normal(2, 4, 6, 6),
        convolutions.normal(3, 4, 1, 1),
    )
convolutions.add(
    "conv2d_batch_norm",
    lambda x, w, m, v: F.relu(F.batch_norm(F.conv2d(x, w), m, v)),
    convolutions.normal(2, 3, 9, 9),
    convolutions.normal(5, 3, 3, 3),
    convolutions.normal(5),
    convolutions.uniform(0.5, 2, 5),
)
convolutions.add(
    "conv2d_channels_last",
    lambda x, w: F.conv2d(x, w, padding=1),
    convolutions.normal(2, 8, 9, 9).to(memory_format=torch.channels_last),
    convolutions.normal(5, 8, 3, 3),
)
convolutions.add(
    "conv2d_of_permuted",
    lambda x, w: F.conv2d(x.permute(0, 3, 1, 2), w),
    convolutions.normal(2, 9, 9, 8),
    convolutions.normal(5, 8, 3, 3),
)
convolutions.add(
    "squeeze_excite",
    lambda x, a, b: x * torch.sigmoid(F.conv2d(F.relu(F.conv2d(x.mean((2, 3), keepdim=True), a)), b)),
    convolutions.normal(2, 8, 9, 9),
    convolutions.normal(4, 8, 1, 1),
    convolutions.normal(8, 4, 1, 1),
)

image = (2, 3, 12, 14)
POOLS = {
    "max": lambda x: F.max_pool2d(x, 2),
    "max_3_2_1": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max_ceil": lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True),
    "max_dilated": lambda x: F.max_pool2d(x, 3, 1, dilation=2),
    "max_uneven": lambda x: F.max_pool2d(x, (2, 3), (1, 2)),
    "max_indices": lambda x: F.max_pool2d(x, 2, return_indices=True),
    "avg": lambda x: F.avg_pool2d(x, 2),
    "avg_padded": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "avg_not_counting_padding": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "avg_ceil": lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True),
    "avg_divisor": lambda x: F.avg_pool2d(x, 2, divisor_override=3),
    "adaptive_avg_1": lambda x: F.adaptive_avg_pool2d(x, 1),
    "adaptive_avg_even": lambda x: F.adaptive_avg_pool2d(x, (6, 7)),
    "adaptive_avg_uneven": lambda x: F.adaptive_avg_pool2d(x, (5, 3)),
    "adaptive_max": lambda x: F.adaptive_max_pool2d(x, (3, 2)),
    "max_1d": lambda x: F.max_pool1d(x.flatten(2), 3, 2),
    "avg_1d": lambda x: F.avg_pool1d(x.flatten(2), 3, 2),
    "adaptive_avg_1d": lambda x: F.adaptive_avg_pool1d(x.flatten(2), 5),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "nearest_size": lambda x: F.interpolate(x, size=(7, 20)),
    "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "bilinear_aligned": lambda x: F.interpolate(x, size=(7, 20), mode="bilinear", align_corners=True),
    "bicubic": lambda x: F.interpolate(x, size=(15, 17), mode="bicubic"),
    "max_of_relu": lambda x: F.max_pool2d(F.relu(x), 2),
    "relu_of_max": lambda x: F.relu(F.max_pool2d(x, 2)) + 1,
    "global_mean": lambda x: x.mean((2, 3)),
    "unfold_image": lambda x: F.unfold(x, 3, padding=1),
}
for name, function in POOLS.items():
    pools.add(name, function, pools.normal(*image))
pools.add("max_bf16", lambda x: F.max_pool2d(x, 3, 2, 1), pools.normal(*image, dtype=torch.bfloat16))
pools.add(
    "max_channels_last", lambda x: F.max_pool2d(x, 3, 2, 1), pools.normal(*image).to(memory_format=torch.channels_last)
)
pools.add(
    "avg_of_integers",
    lambda x: (F.avg_pool1d(x, 3, 2, 1, True, False), F.avg_pool1d(x, 3, 1, 1, False, False), F.avg_pool1d(x, 4)),
    pools.integers(-90, 90, 1, 3, 9),
)
pools.add("linear_1d", lambda x: F.interpolate(x, size=17, mode="linear"), pools.normal(2, 3, 9))
pools.add("avg_3d", lambda x: F.avg_pool3d(x, 2), pools.normal(1, 2, 4, 6, 6))

for name, (q, kv, kw) in {
    "plain": ((2, 4, 9, 16), (2, 4, 9, 16), {}),
    "causal": ((2, 4, 9, 16), (2, 4, 9, 16), {"is_causal": True}),
    "cross": ((2, 4, 5, 16), (2, 4, 11, 16), {}),
    "causal_cross": ((1, 2, 5, 16), (1, 2, 11, 16), {"is_causal": True}),
    "scaled": ((2, 4, 9, 16), (2, 4, 9, 16), {"scale": 0.3}),
    "grouped": ((1, 8, 9, 16), (1, 2, 9, 16), {"enable_gqa": True}),
    "one_query": ((2, 4, 1, 16), (2, 4, 33, 16), {}),
    "long": ((1, 2, 200, 32), (1, 2, 200, 32), {"is_causal": True}),
    "three_dims": ((4, 9, 16), (4, 9, 16), {}),
    "odd_head": ((1, 3, 17, 10), (1, 3, 17, 10), {}),
}.items():
    attention.add(
        name,
        lambda q, k, v, o=kw: F.scaled_dot_product_attention(q, k, v, **o),
        attention.normal(*q),
        attention.normal(*kv),
        attention.normal(*kv),
    )
for short in ("f64", "f16", "bf16"):
    attention.add(
        short, F.scaled_dot_product_attention, *(attention.normal(2, 4, 9, 16, dtype=FLOATS[short]) for _ in range(3))
    )
    attention.add(
        f"causal_{short}",
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        *(attention.normal(2, 4, 33, 16, dtype=FLOATS[short]) for _ in range(3)),
    )
three = lambda: tuple(attention.normal(2, 4, 9, 16) for _ in range(3))
attention.add("float_mask", F.scaled_dot_product_attention, *three(), attention.normal(2, 1, 9, 9))
attention.add("float_mask_rows", F.scaled_dot_product_attention, *three(), attention.normal(9, 9))
attention.add(
    "bool_mask", F.scaled_dot_product_attention, *three(), attention.bools(2, 1, 9, 9) | torch.eye(9, dtype=torch.bool)
)
attention.add(
    "different_value_width",
    F.scaled_dot_product_attention,
    attention.normal(2, 4, 9, 16),
    attention.normal(2, 4, 9, 16),
    attention.normal(2, 4, 9, 24),
)
attention.add("written_out", lambda q, k, v: torch.softmax(q @ k.transpose(-1, -2) / 4.0, -1) @ v, *three())
attention.add(
    "written_out_masked",
    lambda q, k, v, m: torch.softmax(q @ k.transpose(-1, -2) * 0.25 + m, -1) @ v,
    *three(),
    attention.normal(2, 1, 1, 9),
)
attention.add(
    "scores_kept", lambda q, k, v: (lambda p: (p @ v, p))(torch.softmax(q @ k.transpose(-1, -2), -1)), *three()
)
attention.add(
    "from_projection",
    lambda x, w: F.scaled_dot_product_attention(
        *(t.view(2, 9, 4, 8).transpose(1, 2) for t in F.linear(x, w).chunk(3, -1))
    )
    .transpose(1, 2)
    .reshape(2, 9, 32),
    attention.normal(2, 9, 32),
    attention.normal(96, 32) * 0.2,
)
attention.add(
    "rotary",
    lambda x, c, s: x * c + torch.cat([-x[..., 8:], x[..., :8]], -1) * s,
    attention.normal(2, 4, 9, 16),
    attention.normal(9, 16),
    attention.normal(9, 16),
)
