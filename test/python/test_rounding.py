"""Results in 16 bits are about as near to f64 as eager's: activations and their slopes at every number there is, and
operators that add many values up or round on the way."""

import pytest
import torch
import torch.nn.functional as F

from coil_harness import coil_ok, eager, export, run
from rounding_sweep import DTYPES, errors, sweep

aten = torch.ops.aten
ONE = torch.ones_like
ONCE = 0.6  # units in the last place: a function that is right to 2^-14, rounded
LOST = 1e-7  # a unit in the last place of 1 in f32, which eager adds to what may be much smaller
SMALL = 1e-30  # below it f32 runs out of range on the way to bf16


def normal(x):
    """How much of a normal distribution lies below x, with its relative precision also where that is little."""
    return 0.5 * torch.special.erfc(x * -(0.5**0.5))


def normal_slope(x):
    return torch.exp(x * x * -0.5) * (0.5 / torch.pi) ** 0.5


def gate(x):
    """The factor of x in gelu's tanh form, and its derivative."""
    inner, slope = x + 0.044715 * x**3, 1 + 3 * 0.044715 * x**2
    factor = 2 * (2 / torch.pi) ** 0.5
    sigmoid = torch.sigmoid(factor * inner)
    return sigmoid, sigmoid * torch.sigmoid(-factor * inner) * factor * slope


# Each function, and itself in f64 where eager's own is not exact enough.
ACTIVATIONS = {
    "gelu": (F.gelu, lambda x: x * normal(x)),
    "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), lambda x: x * gate(x)[0]),
    "silu": (F.silu, F.silu),
    "sigmoid": (torch.sigmoid, torch.sigmoid),
    "tanh": (torch.tanh, torch.tanh),
    "erf": (torch.erf, torch.erf),
    "softplus": (F.softplus, F.softplus),
    "gelu_slope": (lambda x: aten.gelu_backward(ONE(x), x), lambda x: normal(x) + x * normal_slope(x)),
    "gelu_tanh_slope": (
        lambda x: aten.gelu_backward(ONE(x), x, approximate="tanh"),
        lambda x: gate(x)[0] + x * gate(x)[1],
    ),
    "silu_slope": (lambda x: aten.silu_backward(ONE(x), x),) * 2,
}
# Sums at chosen places, products that are scaled and added to, attention that eager writes out, and wide windows.
OPERATORS = "scatter_add|index_add|addmm|attention-(three_dims|different_value)|fourier-.?stft|mask_written|matrix_exp"


class Activations(torch.nn.Module):
    def forward(self, numbers):
        return {name: ACTIVATIONS[name][0](x) for name, x in numbers.items()}


def every_number(dtype):
    numbers = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16).view(dtype)
    return numbers[numbers.isfinite()]


@pytest.mark.parametrize("name", DTYPES)
def test_activations_at_every_number(name, tmp_path):
    dtype = DTYPES[name]
    numbers = every_number(dtype)
    module, args = Activations(), ({function: numbers.clone() for function in ACTIVATIONS},)
    archive, package = tmp_path / "m.pt2", tmp_path / "m.coil"
    export(module, args, archive)
    coil_ok("compile", archive, "-o", package)
    given, want = eager(module, args)
    got = run(package, given, tmp_path)
    for function, (_, exact) in ACTIVATIONS.items():
        reference = exact(numbers.double())
        near = (got[function].double() - reference).abs() < LOST
        counted = (reference.abs() > SMALL) & want[function].isfinite() & ~near
        ours, eagers = (errors(values[function], reference, dtype)[counted] for values in (got, want))
        beyond = ours - 2.5 * eagers
        at = beyond.argmax()
        told = f"{function}({numbers[counted][at].item()}): {ours[at].item()} ulp, eager's {eagers[at].item()}"
        assert beyond[at] <= ONCE, told
        assert len(beyond) > 1000


@pytest.mark.parametrize("name", DTYPES)
def test_operators_that_add_up(name):
    found = sweep([name], OPERATORS)
    assert len(found) > 12
    assert not [f for f in found if f[2]]
