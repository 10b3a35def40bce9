"""Attention that is written by torch.einsum, with subscripts in many orders, is eager's."""

import sys

import pytest
import torch
from torch import nn
from torch.export import Dim

from coil_harness import ROOT, check

sys.path.insert(0, str(ROOT / "build/python"))
pytest.importorskip("coil")

HEADS, QUERIES, KEYS, WIDTH = 4, 5, 7, 16
SIZES = {"b": 2, "h": HEADS, "q": QUERIES, "k": KEYS, "d": WIDTH}
# Subscripts of query, key, scores, value and result.
ORDERS = [
    ("bhqd", "bhkd", "bhqk", "bhkd", "bhqd"),
    ("bqhd", "bkhd", "bhqk", "bkhd", "bqhd"),
    ("bqhd", "bhdk", "bhqk", "bkhd", "bhqd"),
    ("qbhd", "kbhd", "bhqk", "kbhd", "qbhd"),
    ("hbqd", "hbkd", "hbqk", "hbkd", "bqhd"),
    ("bhdq", "bhdk", "bhqk", "bhdk", "bhdq"),
    ("bqd", "bkd", "bqk", "bkd", "bqd"),
]


class Attention(nn.Module):
    def __init__(self, query, key, scores, value, result, masked=False):
        super().__init__()
        self.scores, self.result, self.masked = f"{query},{key}->{scores}", f"{scores}, {value} -> {result}", masked

    def forward(self, query, key, value):
        scores = torch.einsum(self.scores, query, key) * WIDTH**-0.5
        if self.masked:
            seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril(2)
            scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)
        return torch.einsum(self.result, scores.softmax(-1), value)


def operand(subscripts, dtype=torch.float32):
    return torch.randn([SIZES[s] for s in subscripts], dtype=dtype)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_orders(order, masked):
    query, key, _, value, _ = order
    check(Attention(*order, masked), tuple(map(operand, (query, key, value))))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_types(dtype):
    order = ORDERS[1]
    check(Attention(*order), tuple(operand(order[i], dtype) for i in (0, 1, 3)))


def test_free_sizes():
    order = ORDERS[1]
    samples, queries, keys = Dim("samples", max=9), Dim("queries", max=64), Dim("keys", max=64)
    dynamic = ({0: samples, 1: queries}, {0: samples, 1: keys}, {0: samples, 1: keys})
    others = [tuple(torch.randn(n, length, HEADS, WIDTH) for length in (3, 11, 11)) for n in (1, 4)]
    check(Attention(*order), tuple(operand(order[i]) for i in (0, 1, 3)), dynamic, others)


def test_batches_that_are_repeated():
    """einsum repeats what is of size 1, in the batch and among what is summed."""
    module = Attention("bhqd", "bhkd", "bhqk", "bhkd", "bhqd")
    check(module, (torch.randn(2, 4, 5, 16), torch.randn(2, 1, 7, 16), torch.randn(2, 1, 7, 16)))
    check(module, (torch.randn(2, 4, 5, 16), torch.randn(2, 4, 7, 1), torch.randn(2, 4, 7, 16)))


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_through_torch_compile(order):
    """Values, gradients and strides, where eager's strides are those of a product too."""
    module = Attention(*order)
    inputs = [operand(order[i]).requires_grad_() for i in (0, 1, 3)]
    got, want = torch.compile(module, backend="coil")(*inputs), module(*inputs)
    gradients = [torch.autograd.grad(y.square().sum(), inputs) for y in (got, want)]
    for mine, eager in zip((got, *gradients[0]), (want, *gradients[1]), strict=True):
        torch.testing.assert_close(mine, eager, rtol=1e-4, atol=2e-5)
        assert mine.stride() == eager.stride()


def test_torch_compile_gets_attention(tmp_path):
    module, order = Attention(*ORDERS[1]), ORDERS[1]
    compiled = torch.compile(module, backend="coil", options={"debug_dir": str(tmp_path)})
    with torch.no_grad():
        compiled(*(operand(order[i]) for i in (0, 1, 3)))
    texts = [p.read_text() for p in tmp_path.rglob("*fuse-attention.txt")]
    assert texts and all("scaled_dot_product_attention" in text and "softmax" not in text for text in texts)
