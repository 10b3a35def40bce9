"""Results larger than the last cache, which kernels may store past it: rows that are no whole number of vectors or
cache lines, transposes in tiles, types of 2, 4 and 8 bytes, several results, free sizes.
"""

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

from coil_harness import check


class Of(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, y):
        return self.function(x, y)


def pair(*sizes, dtype=torch.float32):
    return torch.randn(*sizes).to(dtype), torch.randn(*sizes).to(dtype)


CASES = {
    "rows": (lambda x, y: (x + y).relu(), pair(4099, 4097)),
    "several": (lambda x, y: (x + 1, (x * y).double(), x > y), pair(2051, 2049)),
    "bf16": (lambda x, y: F.silu(x) * y, pair(4097, 4101, dtype=torch.bfloat16)),
    "norm": (lambda x, y: F.layer_norm(x, (4099,)) + y, pair(4095, 4099)),
    "transpose": (lambda x, y: x.t() + y, pair(4101, 4101)),
    "transpose, short": (lambda x, y: x.mT * y.mT.contiguous(), pair(300, 37, 1500)),
    "interpolation": (lambda x, y: F.interpolate(x + y, size=(250, 251), mode="bilinear"), pair(3, 70, 33, 35)),
    "integers": (lambda x, y: (x * 1000).long() + y.long(), pair(3001, 2003)),
}


@pytest.mark.parametrize("name", CASES)
def test_large_results(name):
    function, args = CASES[name]
    check(Of(function).eval(), args)


def test_free_sizes_on_both_sides_of_the_cache():
    rows, columns = Dim("rows", min=2, max=5000), Dim("columns", min=2, max=5000)
    check(
        Of(lambda x, y: (x.t() + y.t()).contiguous()).eval(),
        pair(4099, 4101),
        dynamic=({0: rows, 1: columns}, {0: rows, 1: columns}),
        others=[pair(5, 4099), pair(300, 17)],
    )
