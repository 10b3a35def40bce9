"""Integers that are divided by 0 fail the run as they do in eager, and nothing else does; factors without fractions."""

import pathlib
import sys

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
coil = pytest.importorskip("coil", reason="the Python extension is not built")

DIVISIONS = {
    "floor_divide": lambda a, b: a // b,
    "fmod": torch.fmod,
    "remainder": lambda a, b: a % b,
    "trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "number": lambda a, b: a % b.sum(),
    "of a number": lambda a, b: 7 // b,
    "in place": lambda a, b: a.clone().floor_divide_(b),
}


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.uint8], ids=str)
@pytest.mark.parametrize("name", DIVISIONS)
def test_zero_fails(name, dtype):
    torch._dynamo.reset()
    divide = DIVISIONS[name]
    compiled = torch.compile(divide, backend="coil", dynamic=True)
    for size in (1, 5, 37):
        a = torch.randint(0, 100, (size,)).to(dtype)
        b = torch.randint(1, 9, (size,)).to(dtype)
        assert torch.equal(compiled(a, b), divide(a, b))
        b[-1] = 0
        if name == "number":
            b.zero_()
        for call in (divide, compiled):
            with pytest.raises(RuntimeError, match="ZeroDivisionError"):
                call(a, b)


def test_numbers_that_are_no_divisors_may_be_zero():
    """Neither what lies beyond the part that is divided, nor remainders of lanes, nor floats."""
    torch._dynamo.reset()

    def program(a, b, n):
        parts = torch.cat([a // b, a, torch.nn.functional.pad(a % b, (2, 3))])
        return parts, a.float() // 0.0, a // n, torch.where(b > 3, a // b, a), (a // b)[1:].sum()

    compiled = torch.compile(program, backend="coil", dynamic=True)
    for size in (3, 16, 21):
        a, b = torch.randint(-50, 50, (size,)), torch.randint(1, 9, (size,))
        for got, want in zip(compiled(a, b, size), program(a, b, size), strict=True):
            assert torch.equal(got, want)


def test_the_error_says_which_of_both_it_may_be():
    """A kernel that looks up and divides tells of both."""
    compiled = torch.compile(lambda x, i, b: x[i] // b, backend="coil")
    x, i, b = torch.arange(8), torch.tensor([0, 7]), torch.tensor([2, 3])
    torch._dynamo.reset()
    assert compiled(x, i, b).tolist() == [0, 2]
    with pytest.raises(RuntimeError, match="divided by zero"):
        compiled(x, i, b * 0)
    with pytest.raises(RuntimeError, match="out of range"):
        compiled(x, i + 1, b)


def test_packages_name_the_place():
    class Divides(torch.nn.Module):
        def forward(self, a, b):
            return a // b

    program = coil.compile(Divides(), (torch.ones(3, dtype=torch.int64), torch.ones(3, dtype=torch.int64)))
    with pytest.raises(RuntimeError, match="ZeroDivisionError.*test_integer_division.py"):
        program(torch.arange(3), torch.arange(3))


@pytest.mark.parametrize("value", [2.7, -2.7, 3])
def test_products_are_scaled_by_whole_numbers(value):
    """As in eager, of which addcmul of integers takes no fraction of its factor."""
    torch._dynamo.reset()
    scale = lambda x: torch.addcmul(x, x, x.int(), value=value)
    x = torch.tensor([1, 2, 3, -4])
    assert torch.equal(torch.compile(scale, backend="coil")(x), scale(x))
