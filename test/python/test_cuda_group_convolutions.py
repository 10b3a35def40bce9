"""Convolutions in groups of few channels as CUDA kernels on matrix units, and their gradients, on the CPU a thread
after the other, against eager.
"""

import pytest
import torch
from torch.nn import functional as F

from batch import Case, outcomes_by_group
from coil_harness import check, coil_ok
from test_cuda_values import BF16, EMULATE, seeded
from test_cuda_windows import gradients, last

HALF = torch.float16


def operands(groups, sizes, inner, outer, window, dtype=BF16, images=2):
    x = last(seeded(images, groups * inner, *sizes, dtype=dtype))
    w = seeded(groups * outer, inner, *window) / (window[0] * window[1] * inner) ** 0.5
    return x, w.to(dtype)


def forward(name, groups, sizes, inner, outer, window, dtype=BF16, after=None, bias=True, **options):
    x, w = operands(groups, sizes, inner, outer, window, dtype)
    b = (seeded(groups * outer, dtype=dtype),) if bias else ()

    def function(x, w, *b):
        y = F.conv2d(x, w, *b, groups=groups, **options)
        return after(y) if after else y

    return Case("forward", name, function, (x, w, *b), tolerance=3e-2)


def backward(name, groups, sizes, inner, outer, window, dtype=BF16, stride=1, padding=0, dilation=1):
    x, w = operands(groups, sizes, inner, outer, window, dtype)
    y = F.conv2d(x.float(), w.float(), None, stride, padding, dilation, groups)
    # The weight's gradient is a sum over all places: results of about one.
    dy = last(seeded(*y.shape).to(dtype) / (y.numel() // y.shape[1]) ** 0.5)
    return Case(
        "backward",
        name,
        lambda x, w, dy: gradients(x, w, dy, stride, padding, dilation, groups=groups),
        (x, w, dy),
        tolerance=3e-2,
    )


def transposed(name, groups, sizes, inner, outer, window, **options):
    x = last(seeded(2, groups * inner, *sizes, dtype=BF16))
    w = (seeded(groups * inner, outer, *window) / (window[0] * window[1] * inner) ** 0.5).bfloat16()
    return Case(
        "forward", name, lambda x, w: F.conv_transpose2d(x, w, groups=groups, **options), (x, w), tolerance=3e-2
    )


def padded_view(x, w):
    """Channels begin in the middle of what holds them, and rows of the picture lie further apart than they are long."""
    return F.conv2d(x[:, 8:40, :, 1:-1], w, groups=4, padding=1)


CASES = [
    # Whole squares and squares that end early, steps of the matrix units that are whole and that are not.
    forward("eight_channels", 4, (9, 11), 8, 8, (3, 3), padding=1, after=F.relu),
    forward("twentyfour_channels", 3, (10, 13), 24, 24, (3, 3), padding=1, bias=False),
    forward("two_columns_of_warps", 2, (9, 9), 48, 48, (3, 3), padding=1, stride=2, after=F.silu),
    forward("more_results", 5, (14, 14), 16, 32, (3, 3), padding=1, stride=2, dtype=HALF),
    forward("fewer_results", 2, (7, 7), 40, 24, (3, 5), padding=(1, 2), after=lambda y: F.leaky_relu(y, 0.1)),
    forward("dilated", 2, (8, 8), 56, 56, (3, 3), padding=2, dilation=2, bias=False),
    forward("a_place", 9, (5, 6), 8, 16, (1, 1), after=F.hardswish),
    forward("groups_left_over", 13, (6, 5), 24, 24, (3, 3), padding=1, after=lambda y: F.hardtanh(y, -0.5, 0.7)),
    forward("one_image_place", 3, (1, 1), 24, 24, (3, 3), padding=1),
    transposed("transposed", 4, (5, 6), 16, 8, (3, 3), padding=1),
    transposed("transposed_in_steps", 2, (5, 4), 24, 24, (4, 4), padding=1, stride=2),
    transposed("transposed_with_more", 2, (5, 4), 8, 24, (3, 3), padding=1, stride=2, output_padding=1),
    Case(
        "forward",
        "of_a_view",
        padded_view,
        (seeded(2, 48, 6, 9, dtype=BF16), operands(4, (1, 1), 8, 8, (3, 3))[1]),
        tolerance=3e-2,
    ),
    Case(
        "forward",
        "with_a_residual",
        lambda x, w, z: F.relu(F.conv2d(x, w, groups=4, padding=1) + z),
        (*operands(4, (7, 9), 24, 24, (3, 3)), last(seeded(2, 96, 7, 9, dtype=BF16))),
        tolerance=3e-2,
    ),
    backward("eight_channels_back", 4, (9, 11), 8, 8, (3, 3), padding=1),
    backward("twentyfour_channels_back", 3, (10, 13), 24, 24, (3, 3), padding=1),
    backward("strides_back", 2, (9, 9), 48, 48, (3, 3), padding=1, stride=2),
    backward("more_results_back", 5, (14, 14), 16, 32, (3, 3), padding=1, stride=2, dtype=HALF),
    backward("dilated_back", 2, (8, 8), 56, 56, (3, 3), padding=2, dilation=2),
    backward("a_place_back", 9, (5, 6), 8, 16, (1, 1)),
    backward("large_window_back", 2, (10, 17), 32, 40, (5, 5), padding=2),
    backward("groups_left_over_back", 13, (6, 5), 24, 24, (3, 3), padding=1),
]


@pytest.fixture(scope="module")
def found():
    return outcomes_by_group(CASES, *EMULATE)


@pytest.mark.parametrize("name", [c.name for c in CASES])
def test_values(name, found):
    assert not found[name]


def test_the_kernels_are_ours(tmp_path):
    """Three of them, and no call of a library."""
    case = backward("shown", 4, (6, 6), 24, 24, (3, 3), padding=1)
    x, w, dy = case.args

    class Both(torch.nn.Module):
        def forward(self, x, w, dy):
            return F.conv2d(x, w, padding=1, groups=4), *case.function(x, w, dy)

    path = tmp_path / "both.pt2"
    torch.export.save(torch.export.export(Both(), (x, w, dy)), path)
    told = coil_ok("explain", path, *EMULATE).stdout
    assert told.count("KiB  coil_group_convolution_") == 3
    assert "library convolution" not in told


def test_free_sizes(tmp_path):
    x, w = operands(3, (10, 13), 24, 24, (3, 3))
    size = {i: torch.export.Dim(n, min=2, max=64) for i, n in ((0, "images"), (2, "high"), (3, "wide"))}
    others = [(last(seeded(n, 72, h, v, dtype=BF16)), w) for n, h, v in ((3, 5, 17), (2, 16, 2))]

    class Net(torch.nn.Module):
        def forward(self, x, w):
            return F.conv2d(x, w, padding=1, groups=3)

    check(Net(), (x, w), dynamic=(size, None), others=others, tolerance=3e-2, settings=("cuda.emulate=true",))
