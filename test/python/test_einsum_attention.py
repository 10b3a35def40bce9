"""Attention that is written by torch.einsum, with subscripts in many orders, is eager's."""

import pytest
import torch
from torch import nn
from torch.export import Dim

from coil_harness import check

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
