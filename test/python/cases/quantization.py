"""Affine quantization: fake, and by the operators of exported quantized models."""

import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401, defines the operators

from cases.data import Family

quantization = Family("quantization")
q = quantization
qd = torch.ops.quantized_decomposed
far = torch.tensor([float("nan"), float("inf"), float("-inf"), 1e20, -1e20, 0.5, 1.5, 100.0, -100.0])
fake, per_channel, i32 = torch.fake_quantize_per_tensor_affine, torch.fake_quantize_per_channel_affine, torch.int32

q.add(
    "fake_per_tensor",
    lambda x, y: (
        fake(x, 0.13, 3, -8, 7),
        fake(y, 1.0, 3, -8, 7),
        fake(x, torch.tensor([0.2]), torch.tensor([2], dtype=i32), 0, 255),
    ),
    q.normal(4, 6),
    far,
)
q.add(
    "fake_per_channel",
    lambda x, s, z, f, y: (
        per_channel(x, s, z, 1, -8, 7),
        per_channel(x, s, f, 1, -8, 7),
        per_channel(y[None], s[:1], z[:1], 0, -8, 7),
    ),
    q.normal(4, 5, 6),
    q.uniform(0.1, 1.1, 5),
    q.integers(-3, 3, 5, dtype=i32),
    q.normal(5),
    far,
)
q.add(
    "fake_with_mask",
    lambda x: (
        torch.ops.aten.fake_quantize_per_tensor_affine_cachemask(x, 0.1, 0, -8, 7),
        [
            torch.ops.aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
                x, torch.tensor([0.1]), torch.tensor([0], dtype=i32), torch.tensor([on]), -8, 7
            )
            for on in (0, 1)
        ],
    ),
    q.normal(4, 6),
)


def dynamic(x):
    s, z = qd.choose_qparams(x, 0, 255, 1e-6, torch.uint8)
    i = qd.quantize_per_tensor.tensor(x, s, z, 0, 255, torch.uint8)
    return (
        s,
        z,
        i,
        qd.dequantize_per_tensor.tensor(i, s, z, 0, 255, torch.uint8),
        qd.choose_qparams_per_token_asymmetric(x, torch.int8),
        qd.choose_qparams_symmetric(x, -127, 127, 1e-6, torch.int8),
    )


def static(x, b):
    i, u = (
        qd.quantize_per_tensor(x, 0.05, 3, -128, 127, torch.int8),
        qd.quantize_per_tensor(b, 0.05, 3, 0, 255, torch.uint8),
    )
    return (
        i,
        u,
        qd.dequantize_per_tensor(i, 0.05, 3, -128, 127, torch.int8),
        qd.dequantize_per_tensor(u, 0.05, 3, 0, 255, torch.uint8, out_dtype=torch.float16),
        qd.quantize_per_tensor.tensor2(
            x, torch.tensor(0.1), torch.tensor(2), torch.tensor(-5), torch.tensor(6), torch.int8
        ),
    )


def channels(x, s, z):
    i = qd.quantize_per_channel(x, s, z, 1, -128, 127, torch.int8)
    return (
        i,
        qd.dequantize_per_channel(i, s, z, 1, -128, 127, torch.int8),
        qd.dequantize_per_channel(i, s, None, 1, -128, 127, torch.int8, out_dtype=torch.bfloat16),
    )


def tokens(x, s, z):
    i = qd.quantize_per_token(x, s, z, -128, 127, torch.int8)
    return i, qd.dequantize_per_token(i, s, z, -128, 127, torch.int8, torch.float32)


def groups(x, s, z):
    i = qd.quantize_per_channel_group(x, s, z, -8, 7, torch.int8, 2)
    return (
        i,
        qd.dequantize_per_channel_group(i, s, z, -8, 7, torch.int8, 2, torch.float32),
        qd.dequantize_per_channel_group(i, s, None, -8, 7, torch.int8, 2, torch.float32),
    )


def linear(x, w, s):
    """A linear module as the quantizer of PyTorch 2 exports it: a quantized weight, a quantized input."""
    w = qd.dequantize_per_channel(w, s, None, 0, -127, 127, torch.int8)
    x = qd.dequantize_per_tensor(
        qd.quantize_per_tensor(x, 0.02, 0, -128, 127, torch.int8), 0.02, 0, -128, 127, torch.int8
    )
    return torch.nn.functional.linear(x, w)


q.add("dynamic", dynamic, q.normal(3, 4))
q.add("static", static, q.normal(3, 4), q.normal(2, 5, dtype=torch.bfloat16))
q.add("channels", channels, q.normal(3, 4, 2), q.uniform(0.05, 1, 4), q.integers(-5, 5, 4))
q.add("tokens", tokens, q.normal(3, 4), q.uniform(0.05, 1, 3, 1, dtype=torch.float64), q.integers(-5, 5, 3, 1))
q.add("groups", groups, q.normal(3, 4), q.uniform(0.05, 1, 3, 2), q.integers(-5, 5, 3, 2))
q.add("linear", linear, q.normal(5, 8), q.integers(-127, 128, 6, 8, dtype=torch.int8), q.uniform(0.01, 0.1, 6))
q.add("convert", lambda x: qd.convert_element_type.no_fuse(x, torch.float16), q.normal(3, 4))

f8, e5 = torch.float8_e4m3fn, torch.float8_e5m2
half, two = torch.tensor(0.5), torch.tensor([2.0])
q.add(
    "int_mm",
    lambda a, b: (torch._int_mm(a, b), torch._int_mm(b.t().contiguous(), a.t().contiguous()) + 1),
    q.integers(-128, 128, 20, 32, dtype=torch.int8),
    q.integers(-128, 128, 32, 16, dtype=torch.int8),
)
q.add(
    "scaled_mm",
    lambda a, b, c: (
        torch._scaled_mm(a.to(f8), b.to(f8).t(), half, two, out_dtype=torch.bfloat16),
        torch._scaled_mm(a.to(f8), b.to(f8).t(), half, two, bias=c, out_dtype=torch.float32),
    ),
    q.normal(16, 32),
    q.normal(48, 32),
    q.normal(48),
)
