"""Bags of embeddings through `torch.compile(backend="coil")`: values and gradients of tables and weights are eager's.

Eager on the CPU divides by the uses of another index where `scale_grad_by_freq` is set; values are eager's there too.
"""

import pathlib
import sys

import pytest
import torch

from coil_harness import device

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
pytest.importorskip("coil", reason="the Python extension is not built")
pytestmark = pytest.mark.usefixtures("fresh")

COUNT, ROWS = 24, 10


def of_bags(mode, dtype=torch.float32, weighted=False, **settings):
    """A function of a table, indices, the bags' beginnings and weights; and what makes fresh ones of these."""

    def function(table, indices, offsets, weights):
        return torch.nn.functional.embedding_bag(
            indices, table, offsets, mode=mode, per_sample_weights=weights, **settings
        )

    def arguments():
        beginnings = [0, 3, 3, 9, 20] + [COUNT] * settings.get("include_last_offset", False)
        table = torch.randn(ROWS, 5, dtype=dtype, device=device(), requires_grad=True)
        weights = torch.rand(COUNT, dtype=dtype, device=device(), requires_grad=True) if weighted else None
        return (
            table,
            torch.randint(0, ROWS, (COUNT,), device=device()),
            torch.tensor(beginnings, device=device()),
            weights,
        )

    return function, arguments


def values_and_gradients(function, arguments):
    table, indices, offsets, weights = arguments
    made = function(table, indices, offsets, weights)
    (made * torch.arange(made.numel(), device=made.device).reshape(made.shape).sin().to(made.dtype)).sum().backward()
    return [made.detach(), table.grad] + ([] if weights is None else [weights.grad])


CASES = {
    "sum": ("sum", {}),
    "sum, bf16": ("sum", {"dtype": torch.bfloat16}),
    "sum, weights": ("sum", {"weighted": True}),
    "sum, weights and padding": ("sum", {"weighted": True, "padding_idx": 2}),
    "sum, by uses": ("sum", {"scale_grad_by_freq": True}),
    "mean": ("mean", {"include_last_offset": True}),
    "mean, padding": ("mean", {"padding_idx": 3}),
    "max": ("max", {}),
    "max, padding": ("max", {"padding_idx": 3, "include_last_offset": True}),
}


@pytest.mark.parametrize("case", CASES)
def test_gradients(case):
    mode, settings = CASES[case]
    function, fresh = of_bags(mode, **settings)
    torch.manual_seed(0)
    arguments = fresh()
    copies = tuple(x if x is None else x.detach().clone().requires_grad_(x.requires_grad) for x in arguments)
    want = values_and_gradients(function, arguments)
    got = values_and_gradients(torch.compile(function, backend="coil", fullgraph=True), copies)
    wide = settings.get("dtype") != torch.bfloat16
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5 if wide else 2e-2, atol=1e-6 if wide else 2e-2)
