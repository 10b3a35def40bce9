"""Interpolation through torch.compile stays one operator, and its gradient sums up what has read each place."""

import pathlib
import sys

import pytest
import torch

from coil_harness import device

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
dynamo = pytest.importorskip("coil.dynamo", reason="the Python extension is not built")
pytestmark = pytest.mark.usefixtures("fresh")

CASES = [  # mode, size, new size, factor, align_corners
    ("nearest", (5,), (13,), None, None),
    ("nearest", (3, 4), None, 2, None),
    ("nearest", (3, 4), None, 1.5, None),
    ("nearest", (7, 2), (3, 9), None, None),
    ("nearest-exact", (4, 3), (9, 8), None, None),
    ("nearest-exact", (3, 4, 2), None, 2, None),
    ("linear", (6,), (17,), None, False),
    ("bilinear", (4, 5), None, 4, False),
    ("bilinear", (4, 5), (15, 5), None, True),
    ("bilinear", (9, 7), (4, 3), None, False),
    ("bilinear", (5, 6), None, 2.3, False),
    ("bilinear", (1, 4), (1, 7), None, True),
    ("bicubic", (4, 5), (9, 7), None, False),
    ("bicubic", (7, 3), (64, 50), None, False),
    ("bicubic", (9, 12), (4, 30), None, False),
    ("bicubic", (2, 9), (11, 4), None, True),
    ("bicubic", (1, 4), (3, 8), None, True),
    ("bicubic", (3, 5), None, 1.7, False),
    ("trilinear", (2, 3, 4), (5, 6, 3), None, True),
]


def function(mode, size, factor, corners):
    return lambda x: torch.nn.functional.interpolate(x, size, factor, mode, corners)


def with_gradient(f, x):
    x = x.clone().requires_grad_()
    y = f(x)
    torch.manual_seed(1)
    (gradient,) = torch.autograd.grad(y, x, torch.randn_like(y))
    return y, gradient


def same(got, want):
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
    assert got.stride() == want.stride()


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1:]}")
def test_values_and_strides(case, dynamic):
    mode, size, target, factor, corners = case
    f = function(mode, target, factor, corners)
    compiled = torch.compile(f, backend="coil", dynamic=dynamic)
    x = torch.randn(2, 3, *size, device=device())
    for x in (x, x.to(memory_format=torch.channels_last)) if len(size) == 2 else (x,):
        for got, want in zip(with_gradient(compiled, x), with_gradient(f, x)):
            same(got, want)


@pytest.mark.parametrize("mode, corners", [("nearest", None), ("bilinear", False), ("bilinear", True)])
def test_nothing_is_scattered(mode, corners, monkeypatch):
    """Neither by torch, which would write the interpolation out in gathers before it differentiates, nor by Coil."""
    graphs = []
    compile_graph = dynamo.compile_graph

    def spy(gm, *rest, **named):
        graphs.append([str(node.target) for node in gm.graph.nodes if node.op == "call_function"])
        return compile_graph(gm, *rest, **named)

    monkeypatch.setattr(dynamo, "compile_graph", spy)
    f = function(mode, (11, 10), None, corners)
    with_gradient(torch.compile(f, backend="coil"), torch.randn(1, 2, 4, 5, device=device()))
    name = {"nearest": "upsample_nearest2d", "bilinear": "upsample_bilinear2d"}[mode]
    assert graphs == [[f"aten.{name}.default"], [f"aten.{name}_backward.default"]]


def test_torch_is_left_as_it_was():
    kernels = dict(torch.ops.aten.upsample_bilinear2d.vec.py_kernels)
    torch.compile(function("bilinear", (6, 6), None, False), backend="coil")(torch.randn(1, 1, 3, 3, device=device()))
    assert torch.ops.aten.upsample_bilinear2d.vec.py_kernels == kernels


def test_bfloat16_is_summed_in_float32():
    f = function("bilinear", None, 8, False)
    x = torch.randn(2, 4, 8, 8, dtype=torch.bfloat16, device=device())
    _, got = with_gradient(torch.compile(f, backend="coil"), x)
    y, _ = with_gradient(f, x)
    torch.manual_seed(1)
    gradient = torch.randn_like(y).double()
    wide = x.double().requires_grad_()
    (want,) = torch.autograd.grad(f(wide), wide, gradient)
    assert (got.double() - want).norm() <= 3e-3 * want.norm()


def test_interpolation_takes_no_memory_beside_its_result(monkeypatch):
    graphs = []
    compile = dynamo._compile

    def noted(*args, **kwargs):
        graphs.append(compile(*args, **kwargs))
        return graphs[-1]

    monkeypatch.setattr(dynamo, "_compile", noted)

    ones = torch.ones(64, 64, device=device()).bfloat16()

    def f(x):
        return torch.nn.functional.interpolate(x, size=(64, 64), mode="bilinear") @ ones

    x = torch.randn(2, 32, 16, 16, device=device()).bfloat16()
    with torch.no_grad():
        got = torch.compile(f, backend="coil")(x)
    torch.testing.assert_close(got, f(x))
    result = got.numel() * 2
    assert graphs[0].peak_bytes < 2.1 * result, "the interpolated picture and the product"
    assert "upsample_bilinear2d" in graphs[0].report


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("mode, sizes", [("nearest", [5]), ("nearest-exact", [5, 6]), ("bilinear", [5, 6])])
def test_no_pictures(mode, sizes, dynamic):
    torch._dynamo.reset()
    resize = lambda x: torch.nn.functional.interpolate(x * 2, size=3, mode=mode)
    x = torch.randn(0, 2, *sizes, requires_grad=True)
    got = torch.compile(resize, backend="coil", dynamic=dynamic)(x)
    want = resize(x)
    assert (got.shape, got.stride(), got.requires_grad) == (want.shape, want.stride(), True)
    got.sum().backward()
    assert x.grad.shape == x.shape
