"""Running sums and products of f32 on a CPU, along rows, columns and between, are as near to f64 as eager's, which are
carried in f64.
"""

import pytest
import torch

pytestmark = pytest.mark.usefixtures("fresh")

# A shape, and the dimension that is run along.
CASES = {
    "row": ((3, 30_011), 1),
    "one row": ((200_000,), 0),
    "columns": ((20_000, 16), 0),
    "few columns": ((40_000, 3), 0),
    "between": ((4, 3_000, 40), 1),
    "short": ((64, 5), 1),
    "turned": ((300, 2_000), 1),
}
FUNCTIONS = {
    "cumsum": lambda x, dim: x.cumsum(dim),
    "cumprod": lambda x, dim: (1 + (x - 0.5) * 0.01).cumprod(dim),
    "logcumsumexp": lambda x, dim: x.logcumsumexp(dim),
    "of what is computed": lambda x, dim: (x * 2 - 0.5).cumsum(dim) * 3,
}


def distance(value, exact):
    return ((value.double() - exact).norm() / exact.norm()).item()


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize("shape, dim", CASES.values(), ids=CASES)
def test_carried_in_f64(shape, dim, function, request):
    torch.manual_seed(0)
    x = torch.rand(shape)
    if "turned" in request.node.name:
        x = torch.rand(shape[::-1]).t()
    compiled = torch.compile(function, backend="coil", dynamic=False)
    exact, eager = function(x.double(), dim), function(x, dim)
    assert distance(compiled(x, dim), exact) <= 1.5 * distance(eager, exact) + 6e-8


def test_gradients():
    torch.manual_seed(0)
    x = torch.rand(20_000, 8)

    def gradient(run, x):
        x = x.clone().requires_grad_()
        (run(x, 0) * torch.linspace(-1, 1, 8, dtype=x.dtype)).sum().backward()
        return x.grad

    function = FUNCTIONS["logcumsumexp"]
    exact, eager = gradient(function, x.double()), gradient(function, x)
    ours = gradient(torch.compile(function, backend="coil", dynamic=False), x)
    assert distance(ours, exact) <= 1.5 * distance(eager, exact) + 6e-8
