"""Layers drawn at random (layer_draws.py), a dozen in a program: results, layouts, running statistics and gradients
against eager. layer_sweep.py draws thousands.
"""

import pytest
import torch

import place_draws
from layer_draws import Drawer, Layer, call
from layer_sweep import shown, verdicts


def drawn(seed, dtype, count=12, kinds=None):
    drawer = Drawer(seed, dtype, kinds)
    return [drawer.draw() for _ in range(count)]


def expect_right(layers, dynamic=None):
    wrong = [
        f"{found} {why}\n{layer.text}\n{shown(layer)}"
        for layer, (found, why) in zip(layers, verdicts(layers, dynamic), strict=True)
        if found in ("wrong", "refused")
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("seed", range(5))
def test_floats(seed):
    expect_right(drawn(seed, torch.float32))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_types(dtype):
    expect_right(drawn(10, dtype))


def test_free_sizes():
    expect_right(drawn(20, torch.float32), dynamic=True)


@pytest.mark.parametrize("seed", range(30, 33))
def test_places(seed):
    expect_right(drawn(seed, torch.float32, kinds=place_draws.KINDS))


def test_places_with_free_sizes():
    expect_right(drawn(40, torch.float32, kinds=place_draws.KINDS), dynamic=True)


@pytest.mark.parametrize("step", [1, 2])
def test_gradient_of_windows_that_overlap(step):
    """Their gradient has a value for each element of each window, though the windows share memory."""
    x = torch.randn(2, 4, 3, 7).contiguous(memory_format=torch.channels_last)
    expect_right([Layer(f"(x - 0.25).unfold(3, 3, {step})", {"x": x}, ("x",))])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "text",
    [
        "F.prelu(x * 1.5, y[0, 0, :1]).amax(-1)",
        "F.huber_loss(x + x.tanh(), y, reduction='none').amin(-1)",
        "F.gelu(F.layer_norm(x * y, [17])).amax(-1, keepdim=True)",
        "((x + x.tanh()) * y).max()",
        "(x @ y.mT).softmax(-1).amax((0, 2))",
        "torch.linalg.vector_norm(F.silu(x) * y, float('inf'), [1])",
    ],
)
def test_gradient_of_the_largest(text, dtype):
    """Its places are found by comparing, and each is equal to it, however often values are computed: none is NaN, and
    all of a gradient goes somewhere.
    """
    torch.manual_seed(0)
    layer = Layer(text, {"x": torch.randn(6, 33, 17).to(dtype), "y": torch.randn(6, 33, 17).to(dtype)}, ("x",))
    x, y = (t.clone().requires_grad_() for t in layer.tensors.values())
    torch.compile(call(layer), backend="coil")(x, y).float().sum().backward()
    gradient, x.grad = x.grad, None
    call(layer)(x, y).float().sum().backward()
    assert gradient.isfinite().all()
    if dtype is torch.float32:
        torch.testing.assert_close(gradient, x.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(3, 32), (2, 8, 5)])
def test_batch_norm_of_rounded_statistics(shape):
    """What torch keeps of statistics is rounded to 16 bits; the result is made of what they were before."""
    torch.manual_seed(0)
    x = (torch.randn(shape) * 0.01 + 3).to(torch.bfloat16)
    expect_right([Layer("F.batch_norm(x, None, None, None, None, True, 0.1)", {"x": x}, ("x",))])


@pytest.mark.parametrize(
    "text",
    [
        # A value that a later level reads again lies in a result's memory, which is an operand's until that is read.
        "F.relu(F.cross_entropy(x + x.tanh(), y.softmax(1), label_smoothing=0.1))",
        # To one place, in a size that is free.
        "F.interpolate(x[None, None], scale_factor=0.5, mode='bicubic', align_corners=True)",
        "F.interpolate(y[None, None], scale_factor=0.5, mode='bilinear', align_corners=True)",
    ],
)
def test_programs_of_free_sizes(text):
    torch.manual_seed(0)
    expect_right([Layer(text, {"x": torch.randn(3, 16), "y": torch.randn(3, 16)}, ("x", "y"))], dynamic=True)
