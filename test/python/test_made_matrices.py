"""Products of few rows make the elements of a matrix that is computed from fewer bytes, such as quantized weights,
where they multiply them: nothing of its size is written, and packages keep the weights as they were given.
"""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from coil_harness import check, coil_ok, export

ROWS = 3  # few, on a CPU


def whole_numbers(dtype, *sizes):
    low = 0 if dtype == torch.uint8 else -128
    return torch.randint(low, low + 256, sizes, dtype=dtype)


class Quantized(nn.Module):
    """A layer whose weight is of integers, with a scale for each of its results."""

    def __init__(self, kind, dtype, made=torch.float32, columns=40, summed=136):
        super().__init__()
        self.kind = kind
        sizes = (summed, columns) if kind == "matmul" else (columns, summed)
        self.register_buffer("weight", whole_numbers(dtype, *sizes))
        self.register_buffer("scale", torch.rand(columns).to(made) / 1024)
        self.register_buffer("bias", torch.randn(columns).to(made))

    def forward(self, x):
        w = self.weight
        if self.kind == "matmul":
            return x @ w.to(x.dtype) * self.scale
        if self.kind == "scaled_first":
            return F.linear(x, w.to(x.dtype) * self.scale[:, None], self.bias)
        if self.kind == "shifted":
            return F.linear(x, (w.to(x.dtype) - 128) * self.scale[:, None])
        return F.linear(x, w.to(x.dtype)) * self.scale + self.bias


KINDS = ["layer", "matmul", "scaled_first", "shifted"]


@pytest.mark.parametrize("made", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", KINDS)
def test_values(kind, made):
    torch.manual_seed(1)
    tolerance = 1e-5 if made == torch.float32 else 2e-2
    for dtype, rows in ((torch.int8, ROWS), (torch.uint8, 1), (torch.int8, 40)):
        module = Quantized(kind, dtype, made)
        check(module, (torch.randn(rows, 136).to(made),), tolerance=tolerance)


def explained(tmp_path, module, x):
    export(module, (x,), tmp_path / "m.pt2")
    return coil_ok("explain", tmp_path / "m.pt2").stdout


class TwoInAByte(nn.Module):
    """Weights of four bits, with a factor for each 32 of them."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weight", whole_numbers(torch.uint8, 40, 64))
        self.register_buffer("scale", torch.rand(40, 4) / 64)

    def forward(self, x):
        low, high = ((part.to(torch.int8) - 8).to(x.dtype) for part in (self.weight & 15, self.weight >> 4))
        groups = torch.stack([low, high], -1).reshape(40, 4, 32) * self.scale[..., None]
        return F.linear(x, groups.reshape(40, 128))


@pytest.mark.parametrize("settings", [(), ("cuda.emulate=true",)])
def test_two_in_a_byte(settings):
    torch.manual_seed(1)
    check(TwoInAByte(), (torch.randn(1, 128),), tolerance=1e-5, settings=settings)
    check(Quantized("layer", torch.int8), (torch.randn(2, 136),), tolerance=1e-5, settings=settings)


@pytest.mark.cpu("how many rows are few depends on the target")
@pytest.mark.parametrize("kind", KINDS)
def test_few_rows_read_the_weight_as_it_is(tmp_path, kind):
    module = Quantized(kind, torch.int8, columns=256, summed=512)
    told = explained(tmp_path, module, torch.randn(ROWS, 512))
    assert "0 library calls" in told
    assert "weight 128.0 KiB" in told and "folded" not in told
    assert "0 library calls" not in explained(tmp_path, module, torch.randn(40, 512))


@pytest.mark.cpu("how many rows are few depends on the target")
def test_a_row_is_the_same_in_every_batch(tmp_path):
    """Where that is asked for, no product of few rows is another kernel's than one of many."""
    export(Quantized("layer", torch.int8, columns=256, summed=512), (torch.randn(1, 512),), tmp_path / "m.pt2")
    told = coil_ok("explain", tmp_path / "m.pt2", "--set", "deterministic=batch").stdout
    assert "0 library calls" not in told


@pytest.mark.cpu("how many rows are few depends on the target")
def test_weights_of_several_products_are_made_by_all(tmp_path):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = (Quantized("layer", torch.int8, columns=256, summed=256) for _ in range(2))

        def forward(self, x):
            return F.silu(self.one(x)) * self.two(x)

    assert "0 library calls" in explained(tmp_path, Two(), torch.randn(1, 256))


@pytest.mark.cpu("how many rows are few depends on the target")
def test_a_matrix_that_is_returned_as_well_is_made_once(tmp_path):
    class Returned(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("weight", whole_numbers(torch.int8, 64, 64))

        def forward(self, x):
            w = self.weight.to(x.dtype)
            return F.linear(x, w), w

    check(Returned(), (torch.randn(1, 64),), tolerance=1e-5)
