"""The incomplete gamma functions for large shapes, where their series would take very many terms."""

import pathlib
import sys

import mpmath
import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
coil = pytest.importorskip("coil", reason="the Python extension is not built")


def both(a, x):
    return torch.special.gammainc(a, x), torch.special.gammaincc(a, x)


def wanted(a, x):
    """By the integral of the density over the shorter tail."""
    a, x, deviation = mpmath.mpf(a), mpmath.mpf(x), mpmath.sqrt(a)
    scale = mpmath.loggamma(a)
    density = lambda t: mpmath.exp((a - 1) * mpmath.log(t) - t - scale)
    sign = -1 if x < a else 1
    steps = [x + sign * k * deviation for k in (0, 1, 3, 8, 20, 40)]
    tail = mpmath.quad(density, sorted(steps))
    return (tail, 1 - tail) if x < a else (1 - tail, tail)


def test_large_shapes():
    """Within 1e-13 of the integral, relative to the smaller of both."""
    torch._dynamo.reset()
    generator = torch.Generator().manual_seed(0)
    draw = lambda low, high: low + (high - low) * torch.rand(16, generator=generator, dtype=torch.float64)
    a = 10 ** draw(4.5, 12)
    x = a + draw(-8, 8) * a.sqrt()
    lower, upper = torch.compile(both, backend="coil")(a, x)
    with mpmath.workdps(40):
        for k in range(16):
            for got, want in zip((lower[k], upper[k]), wanted(a[k].item(), x[k].item())):
                assert abs(mpmath.mpf(got.item()) - want) <= 1e-13 * want, (a[k], x[k])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_ends(dtype):
    a = torch.tensor([1e6, 1e16, 1e30, 1e30, 2e5, 2e5, 1e7, 1e7], dtype=dtype)
    x = torch.tensor([1e6, 1e16, 1e30, 2e30, 1.2e5, 2.7e5, 1.31e7, 0.69e7], dtype=dtype)
    torch._dynamo.reset()
    for got, want in zip(torch.compile(both, backend="coil")(a, x), both(a, x)):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-7)
