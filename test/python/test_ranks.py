"""kthvalue and median: one rank of each row, picked without a sort of the row (src/lowering/reductions/scans.cpp,
src/runtime/ops/radix_sort.h).
"""

import pytest
import torch
from torch import nn

from coil_harness import check, coil_ok, export


class Ranks(nn.Module):
    """Values, which are eager's; and what stands at the places, since eager may give any of several equal ones."""

    def forward(self, x, y):
        results = []
        for tensor, dim in ((x, -1), (x, 0), (y, 1)):
            for keep in (False, True):
                for value, place in (torch.kthvalue(tensor, 3, dim, keep), tensor.median(dim, keep)):
                    at = place if keep else place.unsqueeze(dim)
                    results += [value, tensor.gather(dim, at)]
        return (*results, x.median(), y.median(), x[0].kthvalue(1).values)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int8])
def test_ranks(dtype):
    torch.manual_seed(3)
    make = lambda *sizes: (torch.randn(*sizes) * 20).to(dtype)
    check(Ranks(), (make(5, 700), make(3, 90, 2).transpose(0, 2)))


def test_ties_nan_and_infinities():
    x = torch.randn(6, 300).round()
    x[1, ::3], x[2, 5], x[3], x[4, ::2], x[4, 1::2] = float("nan"), float("nan"), 1.0, float("inf"), float("-inf")
    check(Ranks(), (x, torch.randn(4, 80, 3).round()))


def test_free_sizes():
    rows, n = torch.export.Dim("rows", min=3, max=500), torch.export.Dim("n", min=3, max=5000)
    make = lambda r, n: (torch.randn(r, n), torch.randn(2, n, 2))
    check(Ranks(), make(5, 30), {"x": {0: rows, 1: n}, "y": {1: n}}, [make(3, 3), make(4, 4096), make(300, 7)])


def test_rows_are_not_sorted(tmp_path):
    class Both(nn.Module):
        def forward(self, x):
            return x.kthvalue(100).values + x.median(-1).values

    archive, text = tmp_path / "m.pt2", tmp_path / "m.txt"
    export(Both(), (torch.randn(4, 4096),), archive)
    coil_ok("compile", archive, "-o", text, "--emit", "wrapper")
    lines = text.read_text()
    assert lines.count(" = sort(") == 2 and lines.count("first=") == 2, lines
