"""nn.TransformerEncoderLayer and nn.MultiheadAttention in inference, where torch calls one operator for a layer."""

import pytest
import torch
from torch import nn


def check(model, *args, **named):
    torch._dynamo.reset()
    with torch.no_grad():
        want = model(*args, **named)
        got = torch.compile(model, backend="coil", fullgraph=True, options={"fallback": False})(*args, **named)
    want, got = (x if isinstance(x, tuple) else (x,) for x in (want, got))
    assert len(got) == len(want)
    for g, w in zip(got, want):
        assert (g is None) == (w is None)
        if w is not None:
            assert (g.dtype, g.shape) == (w.dtype, w.shape)
            torch.testing.assert_close(g, w, rtol=1e-5, atol=1e-5)


def hidden_keys(samples, tokens):
    """The last tokens of each sample but the first."""
    return torch.arange(tokens) >= tokens - torch.arange(samples)[:, None]


@pytest.mark.parametrize("norm_first", [False, True], ids=["norm last", "norm first"])
@pytest.mark.parametrize("masks", ["none", "of samples", "of queries", "both"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_encoder_layer(norm_first, masks, activation):
    layer = nn.TransformerEncoderLayer(32, 4, 64, activation=activation, batch_first=True, norm_first=norm_first).eval()
    named = {}
    if masks in ("of samples", "both"):
        named["src_key_padding_mask"] = hidden_keys(3, 7)
    if masks in ("of queries", "both"):
        named["src_mask"] = torch.ones(7, 7, dtype=torch.bool).triu(1)
    check(layer, torch.randn(3, 7, 32), **named)


@pytest.mark.parametrize("named", [{}, {"need_weights": False}, {"average_attn_weights": False}], ids=str)
@pytest.mark.parametrize("masked", [False, True], ids=["seen", "masked"])
def test_attention_layer(named, masked):
    layer = nn.MultiheadAttention(32, 4, batch_first=True).eval()
    x = torch.randn(3, 7, 32)
    check(layer, x, x, x, key_padding_mask=hidden_keys(3, 7) if masked else None, **named)


def test_free_lengths():
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval()
    torch._dynamo.reset()
    compiled = torch.compile(layer, backend="coil", fullgraph=True, dynamic=True, options={"fallback": False})
    with torch.no_grad():
        for samples, tokens in ((2, 5), (3, 9), (4, 17)):
            x = torch.randn(samples, tokens, 32)
            torch.testing.assert_close(compiled(x), layer(x), rtol=1e-5, atol=1e-5)
