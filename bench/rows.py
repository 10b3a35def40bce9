"""The memory-bound rows: name -> (function, a function that makes its arguments). 30 to 100 MB each; a few of matrix
products for scale.
"""

import torch
import torch.nn.functional as F

BF16 = torch.bfloat16
LINES, COLUMNS = 2048, 4096


def normal(*sizes, dtype=torch.float32):
    return torch.randn(*sizes, dtype=dtype)


def adam_step(parameters, gradients, first, second):
    """One step of Adam over lists of tensors."""
    results = []
    for p, g, m, v in zip(parameters, gradients, first, second):
        m, v = m * 0.9 + g * 0.1, v * 0.999 + g * g * 0.001
        results += [p - 1e-3 * m / (v.sqrt() + 1e-8), m, v]
    return results


def adam_state():
    make = lambda: [normal(512, 1024) for _ in range(8)]
    return make(), make(), make(), [t.abs() for t in make()]


def two(*sizes, dtype=torch.float32):
    return lambda: (normal(*sizes, dtype=dtype), normal(*sizes, dtype=dtype))


def one(*sizes, dtype=torch.float32):
    return lambda: (normal(*sizes, dtype=dtype),)


ROWS = {
    "add_relu": (lambda x, y: F.relu(x + y), two(LINES, COLUMNS)),
    "bias_gelu": (lambda x, b: F.gelu(x + b), lambda: (normal(LINES, COLUMNS), normal(COLUMNS))),
    "bias_gelu_bf16": (
        lambda x, b: F.gelu(x + b),
        lambda: (normal(LINES, COLUMNS, dtype=BF16), normal(COLUMNS, dtype=BF16)),
    ),
    "swiglu": (lambda x, y: F.silu(x) * y, two(LINES, COLUMNS)),
    "layer_norm": (
        lambda x, g, b: F.layer_norm(x, (COLUMNS,), g, b),
        lambda: (normal(LINES, COLUMNS), normal(COLUMNS), normal(COLUMNS)),
    ),
    "add_rms_norm": (
        lambda x, y, w: F.rms_norm(x + y, (COLUMNS,), w),
        lambda: (normal(LINES, COLUMNS), normal(LINES, COLUMNS), normal(COLUMNS)),
    ),
    "softmax": (lambda x: F.softmax(x, -1), one(LINES, COLUMNS)),
    "softmax_bf16": (lambda x: F.softmax(x, -1), one(LINES, COLUMNS, dtype=BF16)),
    "sum_rows": (lambda x: x.sum(-1), one(LINES, COLUMNS)),
    "sum_columns": (lambda x: x.sum(0), one(LINES, COLUMNS)),
    "sum_all": (lambda x: x.sum(), one(LINES, COLUMNS)),
    "argmax": (lambda x: x.argmax(-1), one(LINES, COLUMNS)),
    "transpose_add": (lambda x, y: x.t() + y, two(LINES, LINES)),
    "cumsum": (lambda x: x.cumsum(-1), one(LINES, COLUMNS)),
    "cross_entropy": (
        lambda x, t: F.cross_entropy(x, t),
        lambda: (normal(128, 50257), torch.randint(0, 50257, (128,))),
    ),
    "batch_norm_train": (lambda x: F.batch_norm(x, None, None, training=True), one(32, 64, 56, 56)),
    "group_norm_silu": (
        lambda x, g, b: F.silu(F.group_norm(x, 32, g, b)),
        lambda: (normal(4, 128, 64, 64), normal(128), normal(128)),
    ),
    "max_pool": (lambda x: F.max_pool2d(x, 3, 2, 1), one(16, 64, 112, 112)),
    "upsample_bilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), one(4, 64, 64, 64)),
    "embed_add_ln": (
        lambda n, e, p, g, b: F.layer_norm(F.embedding(n, e) + p, (768,), g, b),
        lambda: (torch.randint(0, 30000, (16, 512)), normal(30000, 768), normal(512, 768), normal(768), normal(768)),
    ),
    "adam_8": (adam_step, adam_state),
    "linear_gelu": (
        lambda x, w, b: F.gelu(F.linear(x, w, b)),
        lambda: (normal(512, 768), normal(3072, 768), normal(3072)),
    ),
    "linear_gelu_bf16": (
        lambda x, w, b: F.gelu(F.linear(x, w, b)),
        lambda: (normal(512, 768, dtype=BF16), normal(3072, 768, dtype=BF16), normal(3072, dtype=BF16)),
    ),
    "sdpa_causal": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda: tuple(normal(2, 12, 512, 64) for _ in range(3)),
    ),
}
