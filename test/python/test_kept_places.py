"""Indices of maxima that gradients of pools read: kept as places in windows, in a byte each, or else in few bytes; the
gradients are eager's.
"""

import pathlib
import sys

import pytest
import torch
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
pytest.importorskip("coil", reason="the Python extension is not built")

pytestmark = pytest.mark.usefixtures("fresh")

INTEGERS = {torch.uint8, torch.int16, torch.int32, torch.int64}


def step(f, x, **options):
    """Result, gradient, and the kept tensors of a function behind a sine; a sum that tells places apart is derived."""
    kept = []

    def keep(value):
        kept.append(value)
        return value

    x = x.detach().requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value):
        y = f(x)
    (y * torch.arange(y.numel(), dtype=y.dtype).view(y.shape)).sum().backward()
    return y.detach(), x.grad, kept


def check(pool, x, dtype, dynamic=False, **options):
    made = torch.compile(lambda x: pool(x.sin()), backend="coil", dynamic=dynamic, options={"cache": "none"} | options)
    want, want_grad, _ = step(lambda x: pool(x.sin()), x)
    got, grad, kept = step(made, x)
    torch.testing.assert_close(got, want, equal_nan=True)
    torch.testing.assert_close(grad, want_grad, equal_nan=True)
    indices = [value for value in kept if value.dtype in INTEGERS]
    assert [i.dtype for i in indices] == [dtype], kept
    assert indices[0].numel() == want.numel()
    # Of what was pooled nothing is kept, and of the sine its operand.
    assert sum(v.numel() for v in kept if v.dtype.is_floating_point) == x.numel()


STRIDED = {
    "overlapping": (nn.MaxPool2d(3, 2, 1), (2, 8, 17, 19)),
    "apart": (nn.MaxPool2d(2, 3), (2, 8, 17, 19)),
    "oblong and dilated": (nn.MaxPool2d((3, 2), 2, 1, (2, 3)), (2, 8, 17, 19)),
    "rounded up": (nn.MaxPool2d(3, 2, 1, ceil_mode=True), (2, 3, 16, 18)),
    "no batch": (nn.MaxPool2d(2), (8, 16, 16)),
    "three dimensions": (nn.MaxPool3d((3, 2, 3), 2, (1, 0, 1), (1, 2, 1)), (2, 3, 9, 11, 10)),
    "one dimension": (nn.MaxPool1d(4, 3, 1), (2, 8, 33)),
    "256 places": (nn.MaxPool2d(16, 8), (2, 3, 40, 40)),
    "250 places, of which a byte holds no powers of two": (nn.MaxPool2d((10, 25), 8), (2, 3, 30, 60)),
}


@pytest.mark.parametrize("name", STRIDED)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_places_in_windows_are_bytes(name, dynamic):
    pool, sizes = STRIDED[name]
    check(pool, torch.randn(sizes), torch.uint8, dynamic)


@pytest.mark.parametrize("pool", [nn.AdaptiveMaxPool2d((5, 3)), nn.AdaptiveMaxPool2d(1), nn.AdaptiveMaxPool2d(13)])
def test_adaptive_windows(pool):
    check(pool, torch.randn(2, 8, 13, 17), torch.uint8)


def test_adaptive_windows_of_three_dimensions():
    check(nn.AdaptiveMaxPool3d((2, 5, 3)), torch.randn(2, 4, 6, 17, 19), torch.uint8)


def test_channels_last():
    check(nn.MaxPool2d(3, 2, 1), torch.randn(2, 8, 16, 16).to(memory_format=torch.channels_last), torch.uint8)


@pytest.mark.parametrize("value", [torch.inf, torch.nan, 1.0])
def test_windows_of_one_value(value):
    check(nn.MaxPool2d(3, 2, 1), torch.full((2, 3, 9, 9), value), torch.uint8)


def test_windows_of_infinity_below():
    pool = nn.MaxPool2d(3, 2, 1)
    check(lambda x: pool(x - torch.inf), torch.randn(2, 3, 9, 9), torch.uint8)


def test_larger_windows_have_places_in_pictures():
    check(nn.MaxPool2d(17, 8), torch.randn(2, 3, 40, 40), torch.int16)
    check(nn.AdaptiveMaxPool2d(2), torch.randn(1, 3, 40, 40), torch.int16)
    check(nn.MaxPool2d(17, 8), torch.randn(1, 1, 200, 200), torch.int32)


def test_indices_that_are_results_are_kept_once():
    pool = nn.MaxPool2d(2, return_indices=True)

    def f(x):
        return pool(x.sin())

    x = torch.randn(2, 3, 8, 8)
    want, places = f(x)
    got, found = torch.compile(f, backend="coil", options={"cache": "none"})(x.requires_grad_())
    torch.testing.assert_close(got, want)
    assert torch.equal(found, places)


def test_on_a_gpu_that_is_emulated():
    check(nn.MaxPool2d(3, 2, 1), torch.randn(2, 3, 9, 11), torch.uint8, **{"cuda.emulate": True})
