"""Convolutions of signals in groups of channels, which the library computes as images of one row."""

import pytest
import torch
from torch import nn
from torch.export import Dim

from coil_harness import check, export, library_convolutions

CASES = {
    "one channel a group": dict(groups=24, kernel_size=5, padding=2),
    "two results a channel": dict(groups=12, kernel_size=4, padding=3),
    "stride": dict(groups=24, kernel_size=7, stride=3),
    "dilation": dict(groups=24, kernel_size=3, dilation=4, padding=4),
    "six channels a group": dict(groups=4, kernel_size=9, padding=4, bias=False),
    "longer than the signal": dict(groups=24, kernel_size=65, padding=32),
}


class Followed(nn.Module):
    """By an operand of the result's size and an activation, as a library computes them too."""

    def __init__(self, **settings):
        super().__init__()
        inputs = 12 if settings["groups"] == 12 else 24
        self.convolution = nn.Conv1d(inputs, 24, **settings)

    def forward(self, x):
        y = self.convolution(x)
        return torch.relu(y + y.new_ones(1, 24, y.shape[2]).cumsum(2) * 0.1)


class GivenWeight(nn.Module):
    def forward(self, x, weight):
        return nn.functional.conv1d(x, weight, padding=1, groups=24)


def signal(module, samples=2, length=50):
    return (torch.randn(samples, module.convolution.in_channels, length),)


@pytest.mark.parametrize("case", CASES)
def test_values(case):
    module = Followed(**CASES[case]).eval()
    check(module, signal(module))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_types(dtype):
    module = Followed(**CASES["one channel a group"]).eval().to(dtype)
    check(module, (signal(module)[0].to(dtype),))


def test_free_sizes():
    module = Followed(**CASES["one channel a group"]).eval()
    dynamic = ({0: Dim("samples", max=9), 2: Dim("length", min=8, max=900)},)
    check(module, signal(module), dynamic, [signal(module, 1, 8), signal(module, 5, 333)])


def test_weight_that_is_given():
    check(GivenWeight(), (torch.randn(2, 24, 30), torch.randn(24, 1, 3)))
    check(GivenWeight(), (torch.randn(2, 30, 24).transpose(1, 2), torch.randn(24, 1, 3)))


def test_as_images(tmp_path):
    archive = tmp_path / "m.pt2"
    module = Followed(**CASES["one channel a group"]).eval()
    export(module, signal(module), archive)
    calls = library_convolutions(archive)
    assert calls and all("_ih1oh1kh1" in ",".join(call) for call in calls), calls[-1:]
