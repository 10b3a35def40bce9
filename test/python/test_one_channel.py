"""Convolutions from one channel and to one, whose channels-last strides are those of rows too: values, and that the
library has a kernel for them (its reference took some five hundred times as long).
"""

import pytest
import torch
from torch import nn

from coil_harness import check, export, library_convolutions

KINDS = {
    "1d": (nn.Conv1d, (1000,)),
    "2d": (nn.Conv2d, (28, 28)),
    "3d": (nn.Conv3d, (8, 12, 12)),
}


class Added(nn.Module):
    """With what a library's convolution also computes: an operand of the result's size, an activation."""

    def __init__(self, convolution):
        super().__init__()
        self.convolution = convolution

    def forward(self, x, y):
        return torch.relu(self.convolution(x) + y)


def case(kind, inputs, outputs, samples=2):
    convolution, places = KINDS[kind]
    module = Added(convolution(inputs, outputs, 3, padding=1)).eval()
    return module, (torch.randn(samples, inputs, *places), torch.randn(samples, outputs, *places))


@pytest.mark.parametrize("channels", [(1, 16), (16, 1), (1, 1), (1, 3)])
@pytest.mark.parametrize("kind", KINDS)
def test_values(kind, channels):
    check(*case(kind, *channels))


def test_one_place():
    check(Added(nn.Conv2d(1, 1, 1)).eval(), (torch.randn(3, 1, 1, 1), torch.randn(3, 1, 1, 1)))


@pytest.mark.parametrize("channels", [(1, 16), (16, 1)])
@pytest.mark.parametrize("kind", KINDS)
def test_no_reference(tmp_path, kind, channels):
    archive = tmp_path / "m.pt2"
    export(*case(kind, *channels), archive)
    names = {call[4] for call in library_convolutions(archive)}  # none where a kernel of Coil's own computes it
    assert not any(name.startswith("ref") for name in names), names


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "options",
    [
        dict(kernel_size=7, padding=3),
        dict(kernel_size=16, padding=2, stride=3),
        dict(kernel_size=5, dilation=4, bias=False),
        dict(kernel_size=1),
        dict(kernel_size=17, padding=8),
    ],
    ids=str,
)
def test_sequences_to_one_channel_on_a_gpu(options, dtype):
    """A product and a sum of neighbours, where the window is not too long for that."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv1d(1, 24, 7, padding=3), nn.ReLU(), nn.Conv1d(24, 1, **options), nn.Tanh())
    x = torch.randn(3, 1, 101)
    with torch.no_grad():
        want = module.double()(x.double())
        module, x = module.to(dtype), x.to(dtype)
        eager = module(x)
        got = torch.compile(module, backend="coil", options={"cuda.emulate": True, "fallback": False})(x)
    assert got.shape == eager.shape and got.stride() == eager.stride() and got.dtype == dtype
    distance = lambda y: ((y.double() - want).norm() / want.norm()).item()
    assert distance(got) <= 1.5 * distance(eager)
