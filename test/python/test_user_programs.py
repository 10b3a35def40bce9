"""Programs as users write them, a third of them in one of the ways of user_harness.py against eager, and all in all
ways with --full.
"""

import pytest
import torch

import user_edges  # noqa: F401
import user_fields  # noqa: F401
import user_indices  # noqa: F401
import user_measures  # noqa: F401
import user_mixed  # noqa: F401
import user_numbers  # noqa: F401
import user_sequences  # noqa: F401
import user_signals  # noqa: F401
import user_small  # noqa: F401
import user_steps  # noqa: F401
import user_tensors  # noqa: F401
import user_training  # noqa: F401
import user_vision  # noqa: F401
from test_torch_compile import coil  # noqa: F401 (registers the backend)
from user_harness import PROGRAMS, WAYS, judge

# Torch fails in these by itself, with every backend.
TORCH_FAILS = {
    ("jacobians_and_hessians", "compile"),
    ("jacobians_and_hessians", "dynamic"),
    ("laplacian_by_nested_jvp", "compile"),
    ("laplacian_by_nested_jvp", "dynamic"),
}


def cases():
    """Which way a program has in every run moves on from one program to the next."""
    found = []
    for number, (name, each) in enumerate(PROGRAMS.items()):
        for k, way in enumerate(each.ways):
            if (name, way) not in TORCH_FAILS:
                often = number % 3 == 0 and (k - number) % len(each.ways) == 0
                found.append(pytest.param(name, way, marks=() if often else pytest.mark.full, id=f"{name}-{way}"))
    return found


@pytest.mark.cpu("eager and packages run there")
@pytest.mark.parametrize("name, way", cases())
def test_program(name, way):
    assert way in WAYS
    differences = judge(name, way)
    assert not differences, "\n".join(differences)


@pytest.mark.cpu("eager runs there")
def test_differences_of_products_cancel():
    """A fused multiply-add would leave the error of a product where eager has zero, or a part of a number."""

    @torch.compile(backend="coil")
    def f(x, y):
        high = x * 134217729.0
        high = high - (high - x)
        return x * y - y * x, high, (x * x).mean(0) - x.mean(0) * x.mean(0)

    for dtype in (torch.float32, torch.float64):
        x, y = torch.randn(2, 5, 40, dtype=dtype)
        zero, high, spread = f(x, y)
        assert not zero.any()
        big = x * 134217729.0
        torch.testing.assert_close(high, big - (big - x), rtol=0, atol=0)
        torch.testing.assert_close(spread, (x * x).mean(0) - x.mean(0) * x.mean(0))
        alike = f(torch.ones_like(x) * 0.1, y)[2]
        assert alike.abs().max() <= torch.finfo(dtype).eps


@pytest.mark.cpu("eager runs there")
@pytest.mark.parametrize("way", ["rows", "columns", "batch"])
@pytest.mark.parametrize("name", ["det", "slogdet", "solve"])
def test_gradients_with_the_factors_of_a_matrix(name, way):
    """Torch differentiates by the factors that the operator returns, of the matrix or of its transposed one."""

    def f(a):
        if name == "solve":
            return torch.linalg.solve(a, torch.ones_like(a[..., :2]))
        return torch.linalg.det(a) if name == "det" else torch.linalg.slogdet(a)[1]

    torch.manual_seed(5)
    a = torch.randn(*((2, 3) if way == "batch" else ()), 4, 4, dtype=torch.float64)
    a = a.mT.contiguous().mT if way == "columns" else a
    mine, theirs = a.clone().requires_grad_(), a.clone().requires_grad_()
    torch.compile(f, backend="coil")(mine).sum().backward()
    f(theirs).sum().backward()
    torch.testing.assert_close(mine.grad, theirs.grad)
