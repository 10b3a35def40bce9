"""Trigonometric and hyperbolic functions, their inverses and whole powers of f32 on CPUs, in vectors: within a few
units in the last place of their values in f64, and exactly these where they are infinite, zero or no numbers.
"""

import pytest
import torch

import coil
from coil_harness import Call

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 1e-40, -1e-40, 1e-30, 3e38, -3e38, 88.5, 89.0, -89.2, 4096.0, 5000.0]
SPECIAL += [float("inf"), float("-inf"), float("nan"), 65535.0, 1e6]
RANGES = {
    "asin": (-1, 1),
    "acos": (-1, 1),
    "atan": (-20, 20),
    "tan": (-50, 50),
    "sinh": (-89, 89),
    "cosh": (-89, 89),
    "asinh": (-50, 50),
    "acosh": (1, 5000),
    "atanh": (-1, 1),
}
POWERS = (4, 9, 31, 32, -3, -7)
MOST_UNITS = 4


def samples(low, high):
    generator = torch.Generator().manual_seed(0)
    even = torch.rand(60_000, generator=generator) * (high - low) + low
    sizes = torch.exp((torch.rand(60_000, generator=generator) * 2 - 1) * 20)
    signs = torch.randint(0, 2, (60_000,), generator=generator) * 2 - 1
    spread = (sizes * signs)[(sizes * signs >= low) & (sizes * signs <= high)]
    return torch.cat([even, spread, torch.tensor(SPECIAL)])


def check(fn, args, isa):
    got = coil.compile(Call(fn), args, options={"cpu.isa": isa})(*args)
    exact = fn(*[a.double() for a in args])
    want = exact.float()
    plain = torch.isfinite(want) & (want != 0)
    torch.testing.assert_close(got[~plain], want[~plain], rtol=0, atol=0, equal_nan=True)
    assert torch.equal(torch.signbit(got)[want == 0], torch.signbit(want)[want == 0])
    unit = torch.exp2(torch.floor(torch.log2(exact[plain].abs().clamp(min=2.0**-126))) - 23)
    assert ((got.double() - exact)[plain].abs() / unit).max() <= MOST_UNITS


@pytest.mark.parametrize("isa", ["native", "avx2", "baseline"])
@pytest.mark.parametrize("name", RANGES)
def test_functions(name, isa):
    check(getattr(torch, name), (samples(*RANGES[name]),), isa)


@pytest.mark.parametrize("isa", ["native", "avx2", "baseline"])
@pytest.mark.parametrize("name", ["atan2", "hypot"])
def test_functions_of_two(name, isa):
    special = torch.cartesian_prod(torch.tensor(SPECIAL), torch.tensor(SPECIAL))
    one, other = samples(-50, 50), samples(-50, 50).flip(0)
    args = torch.cat([one, special[:, 0]]), torch.cat([other, special[:, 1]])
    check(getattr(torch, name), args, isa)


@pytest.mark.parametrize("power", POWERS)
def test_powers(power):
    check(lambda x: x**power, (samples(-3, 3),), "native")


@pytest.mark.parametrize("name", [*RANGES, "erfc"])
def test_single_numbers(name):
    """What no vector is for: the last elements of a row, in f32 and f64, by the C library."""
    for dtype in (torch.float32, torch.float64):
        x = torch.tensor([0.3, -0.7, 0.9], dtype=dtype).abs() + (1 if name == "acosh" else 0)
        fn = getattr(torch, name)
        got = coil.compile(Call(fn), (x,))(x)
        torch.testing.assert_close(got, fn(x))
