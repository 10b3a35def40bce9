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
    "eight channels a group": dict(groups=3, kernel_size=16, padding=8),
    "twelve, all beyond the signal": dict(groups=2, kernel_size=130, padding=80),
    "stride and no padding": dict(groups=2, kernel_size=33, stride=4, bias=False),
    "unequal padding": dict(groups=2, kernel_size=8, padding="same"),
    "dilation of many channels": dict(groups=2, kernel_size=9, dilation=2, padding=8),
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


class Wide(nn.Module):
    """More results a group than a panel has columns, and places enough for several stretches of a panel."""

    def __init__(self, results=70):
        super().__init__()
        self.convolution = nn.Conv1d(32, 2 * results, 65, padding=20, groups=2)

    def forward(self, x):
        return nn.functional.gelu(self.convolution(x).transpose(1, 2))


@pytest.mark.parametrize("results", [16, 24, 40, 70, 130])
@pytest.mark.parametrize("length", [25, 26, 61, 300])
def test_panels(results, length):
    module = Wide(results).eval()
    check(module, signal(module, 3, length))


def test_panels_with_free_sizes():
    module = Wide().eval()
    dynamic = ({0: Dim("samples", max=9), 2: Dim("length", min=30, max=900)},)
    check(module, signal(module), dynamic, [signal(module, 1, 31), signal(module, 5, 333)])


def test_panels_of_other_layouts():
    module = Wide(12).eval()
    check(module, (torch.randn(2, 50, 32).transpose(1, 2),))
    check(module, (torch.randn(1, 32, 50).expand(3, 32, 50),))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number_stays_in_its_windows(value):
    module = Wide(16).eval()
    (x,) = signal(module, length=120)
    x[1, 3, 10] = value
    check(module, (x,))


@pytest.mark.skipif("avx512f" not in open("/proc/cpuinfo").read(), reason="panels are for AVX-512")
def test_no_call_of_the_library_for_few_channels_and_many_places(tmp_path):
    archive = tmp_path / "m.pt2"
    module = Wide(16).eval()
    export(module, signal(module), archive)
    assert not library_convolutions(archive)


def test_as_images(tmp_path):
    archive = tmp_path / "m.pt2"
    module = Followed(**CASES["one channel a group"]).eval()
    export(module, signal(module), archive)
    calls = library_convolutions(archive)
    assert calls and all("_ih1oh1kh1" in ",".join(call) for call in calls), calls[-1:]
