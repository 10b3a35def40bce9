"""Products on a GPU whose result has a number of columns that is no whole vector: they are made with more."""

import pytest
import torch

from coil_harness import check

COLUMNS = 2051


class Head(torch.nn.Module):
    """Behind what a kernel makes; `added`: a matrix is added, so that the product is f32 until then."""

    def __init__(self, dtype, added=False):
        super().__init__()
        self.head = torch.nn.Linear(64, COLUMNS).to(dtype)
        self.added = added

    def forward(self, x, more):
        x = torch.relu(x) * 2
        return torch.addmm(more, x, self.head.weight.t()) if self.added else self.head(x)


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_values(dtype, added):
    torch.manual_seed(3)
    args = torch.randn(999, 64).to(dtype), torch.randn(999, COLUMNS).to(dtype)
    check(Head(dtype, added), args, settings=("cuda.emulate=true",))
