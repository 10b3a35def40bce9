"""Interpolation through torch.compile is one operator in the graph, not gathers over f32 values: values and gradients
as eager's, and memory.
"""

import pathlib
import sys

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
coil = pytest.importorskip("coil", reason="the Python extension is not built")
from coil import dynamo  # noqa: E402

MODES = {
    "nearest": (1, 2, 3),
    "nearest-exact": (1, 2, 3),
    "linear": (1,),
    "bilinear": (2,),
    "trilinear": (3,),
    "bicubic": (2,),
}
CASES = [(mode, d) for mode, dimensions in MODES.items() for d in dimensions]


@pytest.mark.parametrize("mode,dimensions", CASES, ids=lambda v: str(v))
@pytest.mark.parametrize("how", [dict(scale_factor=2.5), dict(size=13)], ids=["factor", "size"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_values_and_gradients_are_eagers(mode, dimensions, how, dynamic):
    def f(x):
        return torch.nn.functional.interpolate(x, mode=mode, **how) * 2

    torch._dynamo.reset()
    made = torch.compile(f, backend="coil", dynamic=dynamic, options={"cache": "none"})
    for n in (6, 7, 9):
        x = torch.randn(2, 3, *(n,) * dimensions, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        want, got = f(x), made(y)
        torch.testing.assert_close(got, want)
        given = torch.randn_like(want)
        want.backward(given)
        got.backward(given)
        torch.testing.assert_close(y.grad, x.grad)
        with torch.no_grad():
            torch.testing.assert_close(made(x), want)


def test_interpolation_takes_no_memory_beside_its_result(monkeypatch):
    graphs = []
    compile = dynamo._compile

    def noted(*args, **kwargs):
        graphs.append(compile(*args, **kwargs))
        return graphs[-1]

    monkeypatch.setattr(dynamo, "_compile", noted)

    def f(x):
        return torch.nn.functional.interpolate(x, size=(64, 64), mode="bilinear") @ torch.ones(64, 64).bfloat16()

    x = torch.randn(2, 32, 16, 16).bfloat16()
    with torch.no_grad():
        got = torch.compile(f, backend="coil", options={"cache": "none"})(x)
    torch.testing.assert_close(got, f(x))
    result = got.numel() * 2
    assert graphs[0].peak_bytes < 2.1 * result, "the interpolated picture and the product"
    assert "upsample_bilinear2d" in graphs[0].report


def test_torchs_own_kernels_are_back_after_a_compile():
    op = torch.ops.aten.upsample_bilinear2d.vec
    before = dict(op.py_kernels)
    torch._dynamo.reset()
    torch.compile(
        lambda x: torch.nn.functional.interpolate(x, size=(5, 5), mode="bilinear"),
        backend="coil",
        options={"cache": "none"},
    )(torch.randn(1, 1, 3, 3))
    assert op.py_kernels == before
