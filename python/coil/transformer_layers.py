"""nn.TransformerEncoderLayer and nn.MultiheadAttention in inference: torch calls one operator for the whole layer,
which these write out, so that its parts fuse with each other and with what stands around them.
"""

import torch
import torch.nn.functional as F

aten = torch.ops.aten

# The `mask_type` of a mask of [samples, keys]; others broadcast to [samples, heads, queries, keys] as they are.
_OF_SAMPLES = 1


def _hidden(mask, mask_type):
    """True, broadcast to [samples, heads, queries, keys], where a key is hidden; the operator takes any number but 0
    for that.
    """
    hidden = mask if mask.dtype == torch.bool else mask != 0
    return hidden[:, None, None, :] if mask_type == _OF_SAMPLES else hidden


def _heads(x, weight, bias, parts, heads):
    """A product's columns as `parts` tensors [samples, heads, tokens, size]."""
    samples, tokens, _ = x.shape
    return F.linear(x, weight, bias).view(samples, tokens, parts, heads, -1).permute(2, 0, 3, 1, 4).unbind(0)


def _attention(query, key, value, dim, heads, weights, biases, proj_weight, proj_bias, mask, mask_type, need_weights):
    """The layer's result [samples, queries, dim], and the weights [samples, heads, queries, keys] if they are made."""
    if query is key and key is value:
        q, k, v = _heads(query, weights, biases, 3, heads)
    else:
        each = zip((query, key, value), weights.split(dim), biases.split(dim))
        q, k, v = (_heads(x, weight, bias, 1, heads)[0] for x, weight, bias in each)
    if mask is None and not need_weights:
        rows, seen = F.scaled_dot_product_attention(q, k, v), None
    else:
        scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
        if mask is not None:
            scores = scores.masked_fill(_hidden(mask, mask_type), float("-inf"))
        seen = scores.softmax(-1)
        rows = seen @ v
    return F.linear(rows.transpose(1, 2).reshape(*query.shape[:2], dim), proj_weight, proj_bias), seen


def _multi_head_attention(
    query,
    key,
    value,
    embed_dim,
    num_head,
    qkv_weight,
    qkv_bias,
    proj_weight,
    proj_bias,
    mask=None,
    need_weights=True,
    average_attn_weights=True,
    mask_type=None,
):
    if query.is_nested:
        return NotImplemented
    projections = (qkv_weight, qkv_bias, proj_weight, proj_bias)
    out, seen = _attention(query, key, value, embed_dim, num_head, *projections, mask, mask_type, need_weights)
    if not need_weights:
        return out, None
    return out, seen.mean(1) if average_attn_weights else seen


def _encoder_layer(
    src,
    embed_dim,
    num_heads,
    qkv_weight,
    qkv_bias,
    proj_weight,
    proj_bias,
    use_gelu,
    norm_first,
    eps,
    norm_weight_1,
    norm_bias_1,
    norm_weight_2,
    norm_bias_2,
    ffn_weight_1,
    ffn_bias_1,
    ffn_weight_2,
    ffn_bias_2,
    mask=None,
    mask_type=None,
):
    if src.is_nested:
        return NotImplemented

    def norm(x, weight, bias):
        return F.layer_norm(x, (embed_dim,), weight, bias, eps)

    def attend(x):
        return _attention(
            x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, mask_type, False
        )[0]

    def products(x):
        h = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(h) if use_gelu else F.relu(h), ffn_weight_2, ffn_bias_2)

    if norm_first:
        x = src + attend(norm(src, norm_weight_1, norm_bias_1))
        return x + products(norm(x, norm_weight_2, norm_bias_2))
    x = norm(src + attend(src), norm_weight_1, norm_bias_1)
    return norm(x + products(x), norm_weight_2, norm_bias_2)


DECOMPOSITIONS = {
    aten._native_multi_head_attention.default: _multi_head_attention,
    aten._transformer_encoder_layer_fwd.default: _encoder_layer,
}
