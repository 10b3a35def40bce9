"""Layers drawn at random (layer_draws.py), a dozen in a program: results, layouts, running statistics and gradients
against eager. layer_sweep.py draws thousands.
"""

import pytest
import torch

from layer_draws import Drawer, Layer
from layer_sweep import shown, verdicts


def drawn(seed, dtype, count=12):
    drawer = Drawer(seed, dtype)
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


@pytest.mark.parametrize("step", [1, 2])
def test_gradient_of_windows_that_overlap(step):
    """Their gradient has a value for each element of each window, though the windows share memory."""
    x = torch.randn(2, 4, 3, 7).contiguous(memory_format=torch.channels_last)
    expect_right([Layer(f"(x - 0.25).unfold(3, 3, {step})", {"x": x}, ("x",))])
