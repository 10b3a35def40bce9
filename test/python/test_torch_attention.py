"""Attention and its gradient through `torch.compile(backend="coil")`, with heads that share keys, causal patterns and
operands in several layouts: as near to the result in f64 as eager is, which rounds to the same types.
"""

import pathlib
import sys

import pytest
import torch
import torch.nn.functional as F

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
pytest.importorskip("coil", reason="the Python extension is not built")
pytestmark = pytest.mark.usefixtures("fresh")


# By name: batch, heads, heads of keys, queries, keys, elements of a head, and what attention is told.
CASES = {
    "plain": (2, 3, 3, 40, 40, 64, {}),
    "causal": (2, 2, 2, 65, 65, 32, {"is_causal": True}),
    "long": (1, 2, 2, 512, 512, 64, {"is_causal": True}),
    "shared_keys": (2, 6, 2, 33, 33, 64, {"is_causal": True, "enable_gqa": True}),
    "other_keys": (2, 2, 2, 17, 130, 128, {}),
    "scale": (1, 2, 2, 24, 24, 16, {"scale": 0.3}),
    "odd_heads": (1, 2, 2, 24, 24, 20, {}),
    "wide_heads": (1, 2, 2, 24, 24, 160, {}),
    "widest_heads": (1, 4, 2, 70, 90, 256, {"enable_gqa": True}),
    "blocks": (2, 4, 2, 150, 200, 24, {"enable_gqa": True}),
    "causal_blocks": (1, 4, 4, 210, 150, 40, {"is_causal": True}),
    "beyond_wide": (2, 2, 2, 70, 90, 520, {}),
    "too_wide": (2, 2, 2, 9, 17, 1100, {}),
    "one_query": (2, 2, 2, 1, 31, 64, {}),
    "one_key": (2, 2, 2, 1, 1, 64, {}),
}


def operands(case, dtype, interleaved):
    batch, heads, groups, queries, keys, depth, _ = CASES[case]

    def make(count, length):
        if interleaved:
            return torch.randn(batch, length, count * depth, dtype=dtype)
        return torch.randn(batch, count, length, depth, dtype=dtype)

    return make(heads, queries), make(groups, keys), make(groups, keys), make(heads, queries)


def strides(t):
    """Of dimensions with several elements."""
    return [s for n, s in zip(t.shape, t.stride()) if n > 1]


def gradients(attend, given):
    *leaves, weight = [t.clone() for t in given]
    for leaf in leaves:
        leaf.requires_grad_()
    y = attend(*leaves)
    return [y.detach(), *torch.autograd.grad((y * weight).sum(), leaves)]


def agree(exact, eager, made, dtype):
    """Whether gradients are as near to the exact ones as eager's are, and lie as those do."""
    # A gradient may be 0 all over: that of the queries where there is one key.
    scale = max(t.abs().max().item() for t in exact)
    # Where results are not rounded to less than was added up, the order of sums shows.
    digits = 10 if dtype == torch.float32 else 1
    for want, near, got in zip(exact, eager, made, strict=True):
        assert (got.dtype, got.shape, strides(got)) == (near.dtype, near.shape, strides(near))
        error, eagers = ((t.double() - want).abs().max().item() for t in (got, near))
        assert error <= 2 * eagers + digits * torch.finfo(dtype).eps * scale, (error, eagers)


@pytest.mark.parametrize("interleaved", [False, True], ids=["dense", "interleaved"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=["bf16", "f16", "f32"])
@pytest.mark.parametrize("case", CASES)
def test_gradients(case, dtype, interleaved):
    torch.manual_seed(1)
    _, heads, groups, *_, depth, told = CASES[case]
    given = operands(case, dtype, interleaved)

    def attend(q, k, v):
        if interleaved:
            q, k, v = (
                t.unflatten(-1, (count, depth)).transpose(1, 2) for t, count in ((q, heads), (k, groups), (v, groups))
            )
        y = F.scaled_dot_product_attention(q, k, v, **told)
        return y.transpose(1, 2).flatten(2) if interleaved else y

    exact = gradients(attend, [t.double() for t in given])
    eager = gradients(attend, given)
    agree(exact, eager, gradients(torch.compile(attend, backend="coil"), given), dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=["bf16", "f32"])
@pytest.mark.parametrize("case", CASES)
def test_output_alone(case, dtype):
    torch.manual_seed(4)
    *given, _ = operands(case, dtype, False)
    attend = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **CASES[case][-1])
    exact = attend(*(t.double() for t in given))
    agree([exact], [attend(*given)], [torch.compile(attend, backend="coil")(*given)], dtype)


MASKS = {
    "padding": lambda q, k: torch.arange(k)[None, None, None] < torch.tensor([k, k - 5])[:, None, None, None],
    "bool": lambda q, k: torch.rand(2, 1, q, k) < torch.linspace(0.2, 1, k),
    "added": lambda q, k: torch.randn(2, 3, q, k),
    "added to every head": lambda q, k: torch.randn(q, k).masked_fill(
        torch.ones(q, k, dtype=torch.bool).triu(1 + k - q), -torch.inf
    ),
    "least number": lambda q, k: torch.zeros(2, 1, q, k).masked_fill(
        torch.ones(q, k, dtype=torch.bool).triu(1 + k - q), torch.finfo(torch.bfloat16).min
    ),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=["bf16", "f32"])
@pytest.mark.parametrize("queries, keys", [(40, 40), (17, 50)])
@pytest.mark.parametrize("kind", MASKS)
def test_gradients_behind_masks(kind, queries, keys, dtype):
    torch.manual_seed(2)
    mask = MASKS[kind](queries, keys)
    if mask.dtype == torch.bool:
        mask[..., 0] = True  # each query sees a key
    given = [torch.randn(2, 3, n, 64, dtype=dtype) for n in (queries, keys, keys, queries)]
    attend = lambda q, k, v: F.scaled_dot_product_attention(
        q, k, v, mask if mask.dtype == torch.bool else mask.to(q.dtype)
    )
    agree(
        gradients(attend, [t.double() for t in given]),
        gradients(attend, given),
        gradients(torch.compile(attend, backend="coil"), given),
        dtype,
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=["bf16", "f32"])
def test_a_mask_has_a_gradient(dtype):
    torch.manual_seed(3)
    given = [torch.randn(2, 3, n, 64, dtype=dtype) for n in (24, 40, 40)] + [
        torch.randn(3, 24, 40, dtype=dtype),
        torch.randn(2, 3, 24, 64, dtype=dtype),
    ]
    attend = lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, mask.expand(2, 3, 24, 40))
    agree(
        gradients(attend, [t.double() for t in given]),
        gradients(attend, given),
        gradients(torch.compile(attend, backend="coil"), given),
        dtype,
    )


FLEXIBLE = {
    "scores": lambda flex, q, k, v: flex(q, k, v, score_mod=lambda s, b, h, i, j: s + (j - i) * 0.1 * (h + 1)),
    "scale": lambda flex, q, k, v: flex(q, k, v, scale=0.5),
    "layout": lambda flex, q, k, v: flex(q.transpose(1, 2).contiguous().transpose(1, 2), k, v),
    "shared_keys": lambda flex, q, k, v: flex(q, k[:, :2], v[:, :2], enable_gqa=True),
    "with_sums": lambda flex, q, k, v: flex(q, k, v, return_lse=True),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "free"])
@pytest.mark.parametrize("name", [*FLEXIBLE, "mask"])
def test_flex_attention(name, dynamic):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    window = create_block_mask(lambda b, h, i, j: (i >= j) & (i - j < 9), None, None, 32, 32, "cpu", BLOCK_SIZE=16)
    masked = lambda flex, q, k, v: flex(q, k, v, block_mask=window)
    f = FLEXIBLE.get(name, masked)
    given = [torch.randn(2, 4, 32, 16) for _ in range(3)]
    want = f(flex_attention, *given)
    got = torch.compile(lambda *args: f(flex_attention, *args), backend="coil", dynamic=dynamic)(*given)
    torch.testing.assert_close(got, want)
    for g, w in zip(got, want) if isinstance(want, tuple) else [(got, want)]:
        assert g.stride() == w.stride()


def test_probabilities_that_would_be_denormal_are_zeros():
    torch.manual_seed(0)
    q, k, v = (0.1 * torch.randn(1, 2, 33, 32) for _ in range(3))
    hidden = torch.arange(33) % 3 == 0
    v[:, :, hidden] = 1e38  # times e^-100 that would be 4e-6 for each
    mask = torch.where(hidden, -100.0, 0.0).expand(33, 33)
    attend = lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    y = torch.compile(attend, backend="coil")(q, k, v, mask)
    without = F.scaled_dot_product_attention(q, k[:, :, ~hidden], v[:, :, ~hidden])
    assert (y - without).abs().max() < 5e-7
    assert torch.isfinite(attend(q, k, v, mask)).all()
