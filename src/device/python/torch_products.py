"""Products and convolutions in torch, on the CPU and what both devices have of them."""

import torch

# @piece finish
POST_OPS = {
    "relu": torch.relu,
    "gelu_erf": torch.nn.functional.gelu,
    "gelu_tanh": lambda y: torch.nn.functional.gelu(y, approximate="tanh"),
    "silu": torch.nn.functional.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "clip": lambda y, low, high: y.clamp(low, high),
    "hardswish": torch.nn.functional.hardswish,
    "hardsigmoid": torch.nn.functional.hardsigmoid,
    "elu": torch.nn.functional.elu,
    "leaky_relu": torch.nn.functional.leaky_relu,
    "scale": lambda y, a, b: y * a + b,
}


def finish(y, post, operands, output):
    """Post-operations in f32, and the result into its place."""
    operands = iter(operands)
    if post and y.dtype != torch.float64:
        y = y.float()
    for text in post:
        name, *numbers = text.split(":")
        if name in ("add", "mul"):
            y = getattr(torch, name)(y, next(operands))
        elif name == "sum":
            y = y + output
        else:
            y = POST_OPS[name](y, *map(float, numbers))
    output.copy_(y)


# @piece linear
def torch_linear(inputs, outputs, post=(), has_bias=0, weight_transposed=0, **_):
    x, weight, *operands = inputs
    bias = operands.pop(0) if has_bias else None
    y = torch.nn.functional.linear(x, weight.t() if weight_transposed else weight)
    finish(y if bias is None else y + bias, post, operands, outputs[0])


# @piece matmul
def torch_matmul(inputs, outputs, post=(), has_bias=0, **_):
    a, b, *operands = inputs
    y = torch.matmul(a, b)
    finish(y + operands.pop(0) if has_bias else y, post, operands, outputs[0])


# @piece convolution
def torch_convolution(
    inputs,
    outputs,
    stride,
    padding,
    padding_end,
    dilation,
    transposed,
    output_padding,
    groups,
    has_bias=0,
    post=(),
    **_,
):
    x, weight, *operands = inputs
    bias = operands.pop(0) if has_bias else None
    if padding != padding_end:  # what is more on one side is padded by hand
        least = [min(a, b) for a, b in zip(padding, padding_end)]
        extra = [n for a, b, c in reversed(list(zip(padding, padding_end, least))) for n in (a - c, b - c)]
        x, padding = torch.nn.functional.pad(x, extra), least
    finish(
        torch.convolution(x, weight, bias, stride, padding, dilation, bool(transposed), output_padding, groups),
        post,
        operands,
        outputs[0],
    )


# @piece winograd_products
def torch_winograd_products(inputs, outputs, recover, padding, padding_end):
    v, u, x, bounded = inputs
    if bounded.item():
        outputs[0].copy_(torch.matmul(v, u))
        return
    # The convolution itself, put where the products begin.
    rows = torch.tensor(recover, dtype=torch.float64).view(3, -1)
    weight = torch.einsum("ai,bj,ijco->ocab", rows, rows, u.double().unflatten(0, (rows.shape[1], -1))).float()
    y = torch.nn.functional.conv2d(
        torch.nn.functional.pad(x, [padding[1], padding_end[1], padding[0], padding_end[0]]), weight
    )
    outputs[0].view(-1)[: y.numel()].copy_(y.permute(0, 2, 3, 1).reshape(-1))
