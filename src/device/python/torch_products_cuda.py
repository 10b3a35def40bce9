"""Products and convolutions in torch, on a GPU."""

import math

import torch

from .torch_products import finish


# @piece product
def product(a, b, bias, post, operands, output):
    """a @ b and what follows it: rounded once, and written in place where torch can do so."""
    dtype = torch.float32 if post and a.dtype in (torch.float16, torch.bfloat16) else output.dtype
    rows = a.reshape(math.prod(a.shape[:-1]), a.shape[-1]) if b.dim() == 2 else None
    if (
        rows is not None
        and not post
        and dtype == a.dtype
        and (bias is None or bias.dim() == 1)
        and (output.dim() == 2 or output.is_contiguous())
    ):
        place = output if output.dim() == 2 else output.view(rows.shape[0], b.shape[1])
        torch.mm(rows, b, out=place) if bias is None else torch.addmm(bias, rows, b, out=place)
        return
    if dtype == a.dtype:
        y = torch.matmul(a, b)
    elif rows is not None and a.is_cuda and hasattr(torch.ops.aten.mm, "dtype"):
        y = torch.mm(rows, b, out_dtype=dtype).view(output.shape)
    else:
        y = torch.matmul(a.to(dtype), b.to(dtype))
    finish(y if bias is None else y + bias, post, operands, output)


# @piece linear
def torch_linear(inputs, outputs, post=(), has_bias=0, weight_transposed=0, **_):
    x, weight, *operands = inputs
    product(
        x,
        weight if weight_transposed else weight.t(),
        operands.pop(0) if has_bias else None,
        post,
        operands,
        outputs[0],
    )


# @piece matmul
def torch_matmul(inputs, outputs, post=(), has_bias=0, **_):
    a, b, *operands = inputs
    product(a, b, operands.pop(0) if has_bias else None, post, operands, outputs[0])


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
    tf32=0,
    **_,
):
    # torch has no convolution of integers on a GPU.
    x, weight, *operands = [t if t.is_floating_point() else t.cpu() for t in inputs]
    bias = operands.pop(0) if has_bias else None
    if padding != padding_end:  # what is more on one side is padded by hand
        least = [min(a, b) for a, b in zip(padding, padding_end)]
        extra = [n for a, b, c in reversed(list(zip(padding, padding_end, least))) for n in (a - c, b - c)]
        x, padding = torch.nn.functional.pad(x, extra), least
    cudnn = torch.backends.cudnn
    y = torch._convolution(
        x,
        weight,
        bias,
        stride,
        padding,
        dilation,
        bool(transposed),
        output_padding,
        groups,
        cudnn.benchmark,
        cudnn.deterministic,
        True,
        bool(tf32),
    )
    finish(y, post, operands, outputs[0])
