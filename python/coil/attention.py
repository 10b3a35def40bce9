"""Attention in training on a GPU: PyTorch's kernels, forward and backward, as the one pair that Coil has: cuDNN's in
half precision, kernels of its own in f32.

AOTAutograd applies these while it traces. The pair is the CPU kernel's, which takes no more than attention has:
operands, the result and the logarithms of the queries' sums. Whatever is left alone here is torch's to carry out.
"""

import math

import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

aten = torch.ops.aten

_CUDNN = 91600  # 9.16: takes any number of keys


def _is_taken(query, key, value, mask, rate):
    """Whether Coil has this with its gradient. Dropout draws other numbers there than in torch's kernels."""
    return (
        query.device.type == "cuda"
        and query.dtype == key.dtype == value.dtype
        and query.dim() == 4
        and (mask is None or mask.dtype in (query.dtype, torch.float32))
        and rate == 0
        and all(map(_fix, (query.shape[-1], value.shape[-1])))
        and query.shape[-1] == value.shape[-1]
        and all(type(s) is not int or s > 0 for t in (query, key) for s in t.shape)
        and (_kernels_take(query) if query.dtype == torch.float32 else _cudnn_takes(query, key))
    )


def _fix(width):
    """Makes the width of heads a guard where it is free: kernels are made for one. Whether that can be."""
    return type(width) is int or (not free_unbacked_symbols(width) and int(width) > 0)


def _kernels_take(query):
    """Heads up to 96, beyond which torch's pair is faster; many queries, since for few products fill the machine
    better.
    """
    return (
        query.shape[-1] <= 96
        and not (type(query.shape[2]) is int and query.shape[2] <= 16)
        and torch.cuda.get_device_capability(query.device) >= (8, 0)
    )


def _cudnn_takes(query, key):
    """Half precision, heads of whole 16-byte pieces, something to attend to."""
    return (
        query.dtype in (torch.float16, torch.bfloat16)
        and query.shape[-1] % 8 == 0
        and query.shape[-1] <= (256 if torch.cuda.get_device_capability(query.device) == (9, 0) else 128)
        and not all(type(t.shape[2]) is int and t.shape[2] == 1 for t in (query, key))
        and (torch.backends.cudnn.version() or 0) >= _CUDNN
    )


def _forward(query, key, value, causal, scale, mask=None):
    return aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, 0.0, causal, attn_mask=mask, scale=scale)


def _backward(grad, query, key, value, out, logarithms, causal, scale, mask=None):
    """Gradients with the heads of one row side by side."""
    return aten._scaled_dot_product_flash_attention_for_cpu_backward(
        grad, query, key, value, out, logarithms, 0.0, causal, attn_mask=mask, scale=scale
    )


def _gradient_of_mask(grad, query, key, value, mask, out, logarithms, causal, scale):
    """Written out, since cuDNN does not give it: the slopes of the scores, as large as these are. What they are made of
    is as large again, twice: large ones are made part by part.
    """
    dim = 0 if query.shape[0] != 1 else 1
    parts = _parts_of_scores(query, key, dim)
    if parts == 1:
        return _slopes(grad, query, key, value, mask, out, logarithms, causal, scale)
    size = -(-query.shape[dim] // parts)
    cut = [t.split(size, dim) for t in (grad, query, key, value, mask.expand(*query.shape[:3], -1), out, logarithms)]
    return torch.cat([_slopes(*each, causal, scale) for each in zip(*cut, strict=True)], dim)


def _parts_of_scores(query, key, dim):
    """How many parts along this dimension leave each about 256 MiB of scores; one where sizes are free."""
    sizes = (*query.shape[:3], key.shape[2])
    if any(type(s) is not int for s in sizes):
        return 1
    return max(1, min(query.shape[dim], math.prod(sizes) * query.element_size() >> 28))


def _slopes(grad, query, key, value, mask, out, logarithms, causal, scale):
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = (query @ key.mT).float() * scale + mask
    if causal:
        scores = scores.masked_fill(
            ~torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril(), -torch.inf
        )
    slopes = (grad @ value.mT).float() - (grad.float() * out).sum(-1, keepdim=True)
    return ((scores - logarithms.unsqueeze(-1)).exp() * slopes).to(mask.dtype)


def _backward_alike(grad, query, key, value, *rest):
    """As _backward, each gradient in the order of its operand's dimensions, as the kernels have them that make theirs
    by `empty_like`.
    """
    return tuple(map(_in_order_of, (query, key, value), _backward(grad, query, key, value, *rest)))


def _in_order_of(operand, gradient):
    order = sorted(range(operand.dim()), key=operand.stride, reverse=True)
    return gradient.permute(order).contiguous().permute([order.index(d) for d in range(len(order))])


def _number(query, sizes=(), dtype=torch.int64):
    """In the place of a generator's state, which nothing draws from."""
    return torch.empty(sizes, dtype=dtype, device=query.device)


def _flash(query, key, value, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None):
    if return_debug_mask or not _is_taken(query, key, value, None, dropout_p):
        return NotImplemented
    out, logarithms = _forward(query, key, value, is_causal, scale)
    return (
        out,
        logarithms,
        None,
        None,
        query.shape[2],
        key.shape[2],
        _number(query, (2,), torch.uint64),
        _number(query, (), torch.uint64),
        query.new_empty(0),
    )


def _flash_backward(
    grad,
    query,
    key,
    value,
    out,
    logarithms,
    cum_seq_q,
    cum_seq_k,
    max_q,
    max_k,
    dropout_p,
    is_causal,
    seed,
    offset,
    *,
    scale=None,
):
    if not _is_taken(query, key, value, None, dropout_p):
        return NotImplemented
    return _backward_alike(grad, query, key, value, out, logarithms, is_causal, scale)


def _efficient(query, key, value, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, *, scale=None):
    if not compute_log_sumexp or not _is_taken(query, key, value, attn_bias, dropout_p):
        return NotImplemented
    out, logarithms = _forward(query, key, value, is_causal, scale, attn_bias)
    # Torch's has the heads of one row side by side.
    return (
        out.transpose(1, 2).contiguous().transpose(1, 2),
        logarithms,
        _number(query),
        _number(query),
    )


def _efficient_backward(
    grad,
    query,
    key,
    value,
    attn_bias,
    out,
    logarithms,
    seed,
    offset,
    dropout_p,
    grad_input_mask,
    is_causal=False,
    *,
    scale=None,
):
    if not _is_taken(query, key, value, attn_bias, dropout_p):
        return NotImplemented
    of_mask = (
        _gradient_of_mask(grad, query, key, value, attn_bias, out, logarithms, is_causal, scale)
        if attn_bias is not None and grad_input_mask[3]
        else None
    )
    return *_backward(grad, query, key, value, out, logarithms, is_causal, scale, attn_bias), of_mask


def _cudnn(
    query,
    key,
    value,
    attn_bias,
    compute_log_sumexp,
    dropout_p=0.0,
    is_causal=False,
    return_debug_mask=False,
    *,
    scale=None,
):
    if not compute_log_sumexp or return_debug_mask or not _is_taken(query, key, value, attn_bias, dropout_p):
        return NotImplemented
    return (
        *_forward(query, key, value, is_causal, scale, attn_bias),
        None,
        None,
        query.shape[2],
        key.shape[2],
        _number(query),
        _number(query),
        None,
    )


def _cudnn_backward(
    grad,
    query,
    key,
    value,
    out,
    logarithms,
    seed,
    offset,
    attn_bias,
    cum_seq_q,
    cum_seq_k,
    max_q,
    max_k,
    dropout_p,
    is_causal,
    *,
    scale=None,
):
    if not _is_taken(query, key, value, attn_bias, dropout_p):
        return NotImplemented
    return _backward_alike(grad, query, key, value, out, logarithms, is_causal, scale, attn_bias)


# cuDNN adds up the gradient of queries in an order that differs from run to run, as torch's kernels do: not for
# programs that are to be deterministic.
DECOMPOSITIONS = {
    aten._scaled_dot_product_flash_attention.default: _flash,
    aten._scaled_dot_product_flash_attention_backward.default: _flash_backward,
    aten._scaled_dot_product_efficient_attention.default: _efficient,
    aten._scaled_dot_product_efficient_attention_backward.default: _efficient_backward,
    aten._scaled_dot_product_cudnn_attention.default: _cudnn,
    aten._scaled_dot_product_cudnn_attention_backward.default: _cudnn_backward,
}
