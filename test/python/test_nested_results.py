"""Operators of the host that give lists among several results."""

import pathlib
import sys

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
coil = pytest.importorskip("coil", reason="the Python extension is not built")


@torch.library.custom_op("nested_results_test::split", mutates_args=())
def split(x: torch.Tensor, n: int) -> tuple[torch.Tensor, list[torch.Tensor], list[torch.Tensor]]:
    return x + n, [x[x[:, 0] > 0] * k for k in range(n)], [x * 3]


@split.register_fake
def _(x, n):
    rows = torch.library.get_ctx().new_dynamic_size()
    return torch.empty_like(x), [x.new_empty(rows, x.shape[1]) for _ in range(n)], [torch.empty_like(x)]


class RowsThatOnlyTheOperatorCounts(torch.nn.Module):
    def forward(self, x):
        whole, parts, (last,) = split(x, 3)
        return whole * 2, parts[2] + 1, parts[1].sum(0) - last


FORMS = {
    "torch.compile": lambda module, x: torch.compile(module, backend="coil"),
    "package": lambda module, x: coil.compile(module, (x,)),
    "graph": lambda module, x: coil.fx_wrapper(module, (x,)),
}


@pytest.mark.parametrize("form", FORMS)
def test_lists_among_results(form):
    torch._dynamo.reset()
    module = RowsThatOnlyTheOperatorCounts()
    call = FORMS[form](module, torch.randn(5, 4))
    for _ in range(3):
        x = torch.randn(5, 4)
        for got, want in zip(call(x), module(x), strict=True):
            torch.testing.assert_close(got, want)
