"""Sums over many rows of a matrix, which are made in parts: as near to the sums in f64 as eager's."""

import pathlib
import sys

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "build/python"))
coil = pytest.importorskip("coil")

ROUNDING = 4e-7  # of a part of 128 rows whose mean is 10; one running sum of 16,384 such rows is wrong by 1e-5


def distance(value, exact):
    return ((value.double() - exact).norm() / exact.norm()).item()


def check(function, x):
    exact = function(x.double())
    with torch.no_grad():
        own = torch.compile(function, backend="coil")(x)
    assert own.dtype == x.dtype
    assert distance(own, exact) <= 4 * distance(function(x), exact) + ROUNDING


@pytest.mark.parametrize("rows", [200, 255, 256, 1000, 16_384, 100_003])
@pytest.mark.parametrize("columns", [3, 16, 40])
def test_columns(rows, columns):
    torch.manual_seed(rows + columns)
    check(lambda x: x.sum(0), torch.randn(rows, columns) + 10)


@pytest.mark.parametrize("mean", [0, 10])
@pytest.mark.parametrize("inner", [16, 100, 128, 129, 300])
def test_several_dimensions_that_lie_apart(inner, mean):
    torch.manual_seed(inner)
    x = torch.randn(16_384 // inner, 3, inner, 40) + mean
    function = lambda x: x.sum((0, 2))
    own, exact = torch.compile(function, backend="coil")(x), function(x.double())
    assert distance(own, exact) <= 1.5 * distance(function(x), exact) + 5e-8


@pytest.mark.parametrize("mean", [0, 10])
def test_variance_of_channels_that_lie_last(mean):
    torch.manual_seed(0)
    x = (torch.randn(2, 24, 64, 64) + mean).contiguous(memory_format=torch.channels_last)
    check(lambda x: x.var((2, 3)), x)
    check(lambda x: torch.nn.functional.instance_norm(x), x)


def test_sums_beside_extremes():
    torch.manual_seed(0)
    x = torch.randn(3000, 33)
    function = lambda x: (x.sum(0), x.amax(0), x.argmin(0), (x * x).sum(0))
    sums, greatest, place, squares = torch.compile(function, backend="coil")(x)
    assert torch.equal(greatest, x.amax(0))
    assert torch.equal(place, x.argmin(0))
    assert torch.allclose(sums.double(), x.double().sum(0), atol=1e-4)
    assert distance(squares, (x.double() ** 2).sum(0)) < 2e-7


def test_infinities_stay_in_their_columns():
    x = torch.ones(1000, 20)
    x[500, 3], x[700, 4], x[10, 5] = float("inf"), float("-inf"), float("nan")
    own = torch.compile(lambda x: x.sum(0), backend="coil")(x)
    assert torch.allclose(own, x.sum(0), equal_nan=True)


def test_groups_of_channels_that_lie_last():
    """What a group's channels share is read once for all rows (codegen/cpp/kernel_rows.cpp)."""
    torch.manual_seed(0)
    for channels, groups in ((12, 4), (24, 4), (70, 5), (64, 32)):
        norm = torch.nn.GroupNorm(groups, channels)
        torch.nn.init.normal_(norm.weight)
        for samples in (1, 3):
            x = torch.randn(samples, channels, 19, 21).contiguous(memory_format=torch.channels_last)
            with torch.no_grad():
                own = torch.compile(lambda x: torch.nn.functional.leaky_relu(norm(x)), backend="coil")(x)
                assert torch.allclose(own, torch.nn.functional.leaky_relu(norm(x)), atol=1e-5)


def test_sums_of_pictures_whose_channels_lie_last():
    """They are cut into lines, not into a few channels of every place, whose running sums would be long."""
    torch.manual_seed(0)
    x, weight, bias = torch.randn(2, 32, 43, 28), torch.randn(32, 80, 1, 2), torch.randn(80) * 8
    function = lambda x, w, b: torch.nn.functional.conv_transpose2d(x, w, b, stride=(1, 3)).mean()
    for laid_out in (x, x.contiguous(memory_format=torch.channels_last)):
        own = torch.compile(function, backend="coil")(laid_out, weight, bias)
        exact = function(x.double(), weight.double(), bias.double())
        assert abs(own - exact) < 5e-7, own - exact
