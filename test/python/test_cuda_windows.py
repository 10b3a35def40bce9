"""Convolutions of each channel by itself, pooling and their gradients as CUDA kernels over windows, on the CPU a thread
after the other, against eager.
"""

import pytest
import torch
from torch.nn import functional as F

from batch import Case, outcomes, outcomes_by_group
from test_cuda_values import BF16, EMULATE, seeded


def last(x):
    return x.contiguous(memory_format=torch.channels_last)


def depthwise(x, w, b=None, **options):
    return F.conv2d(x, w, b, groups=x.shape[1], **options)


def gradients(x, w, dy, stride, padding, dilation, transposed=False, groups=None, output_padding=0):
    n = x.dim() - 2
    spread = lambda v: [v] * n if isinstance(v, int) else list(v)
    return torch.ops.aten.convolution_backward(
        dy,
        x,
        w,
        None,
        spread(stride),
        spread(padding),
        spread(dilation),
        transposed,
        spread(output_padding),
        groups or x.shape[1],
        [True, True, False],
    )[:2]


def gradient_case(name, x, w, **options):
    y = torch.nn.functional.conv2d(x.float(), w.float(), groups=x.shape[1], **options)
    dy = seeded(*y.shape).to(x.dtype)
    if x.is_contiguous(memory_format=torch.channels_last):
        dy = last(dy)
    stride, padding, dilation = (options.get(k, d) for k, d in (("stride", 1), ("padding", 0), ("dilation", 1)))
    return Case(
        "gradients", name, lambda x, w, dy: gradients(x, w, dy, stride, padding, dilation), (x, w, dy), tolerance=3e-2
    )


CASES = [
    # Packs of channels, runs along the width that divide it, that do not, and that are longer than it is.
    Case(
        "windows",
        "last_3x3",
        lambda x, w, b: depthwise(x, w, b, padding=1),
        (last(seeded(2, 16, 12, 16, dtype=BF16)), seeded(16, 1, 3, 3, dtype=BF16), seeded(16, dtype=BF16)),
    ),
    Case(
        "windows",
        "last_7x7",
        lambda x, w: depthwise(x, w, padding=3),
        (last(seeded(2, 24, 14, 14, dtype=BF16)), seeded(24, 1, 7, 7, dtype=BF16)),
        tolerance=3e-2,
    ),
    Case(
        "windows",
        "last_ends_early",
        lambda x, w: depthwise(x, w, padding=2),
        (last(seeded(1, 40, 11, 13, dtype=torch.float16)), seeded(40, 1, 5, 5).half()),
    ),
    Case(
        "windows",
        "last_small_pictures",
        lambda x, w: depthwise(x, w, padding=3),
        (last(seeded(3, 8, 3, 2)), seeded(8, 1, 7, 7)),
    ),
    Case(
        "windows",
        "last_strides",
        lambda x, w: (depthwise(x, w, stride=2, padding=1), depthwise(x, w, stride=(1, 2), dilation=(2, 1))),
        (last(seeded(2, 12, 15, 18, dtype=BF16)), seeded(12, 1, 3, 3, dtype=BF16)),
    ),
    Case(
        "windows",
        "odd_channels",
        lambda x, w, b: depthwise(x, w, b, padding=1),
        (last(seeded(2, 7, 9, 10)), seeded(7, 1, 3, 3), seeded(7)),
    ),
    Case(
        "windows",
        "rows",
        lambda x, w, b: depthwise(x, w, b, padding=2),
        (seeded(2, 5, 20, 33, dtype=BF16), seeded(5, 1, 5, 5, dtype=BF16), seeded(5, dtype=BF16)),
    ),
    # What comes before and after is in the kernel: a conversion, an activation, a residual, a gate.
    Case(
        "windows",
        "around",
        lambda x, w, b, r: F.gelu(depthwise(x.to(BF16), w, b, padding=1)) + r,
        (
            last(seeded(2, 16, 8, 8)),
            seeded(16, 1, 3, 3, dtype=BF16),
            seeded(16, dtype=BF16),
            last(seeded(2, 16, 8, 8, dtype=BF16)),
        ),
        tolerance=3e-2,
    ),
    Case(
        "windows",
        "block",
        lambda x, w, n, m, p: F.conv2d(
            F.silu(F.layer_norm(depthwise(x, w, padding=3).permute(0, 2, 3, 1), (16,), n, m)).permute(0, 3, 1, 2), p
        )
        + x,
        (
            last(seeded(2, 16, 10, 10)),
            seeded(16, 1, 7, 7) * 0.1,
            seeded(16),
            seeded(16),
            seeded(16, 16, 1, 1) * 0.1,
        ),
    ),
    Case(
        "windows",
        "several_results",
        lambda x, w: F.conv2d(x, w, groups=6, padding=1),
        (last(seeded(2, 6, 9, 8)), seeded(12, 1, 3, 3)),
    ),
    Case(
        "windows",
        "uneven_padding",
        lambda x, w: depthwise(F.pad(x, (1, 2, 0, 3)), w, stride=2),
        (last(seeded(2, 8, 9, 10)), seeded(8, 1, 3, 3)),
    ),
    Case(
        "windows",
        "one_dimension",
        lambda x, w, b: (
            F.conv1d(F.pad(x, (3, 0)), w, b, groups=10),
            F.silu(F.conv1d(x, w, b, groups=10, padding=3)[..., :40]),
        ),
        (seeded(2, 10, 40), seeded(10, 1, 4), seeded(10)),
    ),
    Case(
        "windows",
        "three_dimensions",
        lambda x, w: F.conv3d(x, w, groups=4, padding=1),
        (seeded(1, 4, 5, 6, 8), seeded(4, 1, 3, 3, 3)),
    ),
    Case(
        "windows",
        "transposed",
        lambda x, w, v: (
            F.conv_transpose2d(x, w, groups=8, stride=2, padding=1, output_padding=1),
            F.conv_transpose2d(x, w, groups=8, padding=1),
            F.conv_transpose2d(x, v, groups=8, stride=3),
        ),
        (last(seeded(2, 8, 6, 8)), seeded(8, 1, 3, 3), seeded(8, 2, 3, 3)),
    ),
    Case(
        "windows",
        "pooling",
        lambda x: (
            F.max_pool2d(x, 3, 2, 1),
            F.avg_pool2d(x, 3, 1, 1),
            F.avg_pool2d(x, 3, 1, 1, count_include_pad=False),
            F.max_pool2d(x, 5, 1, 2),
        ),
        (last(seeded(2, 16, 13, 16, dtype=BF16)),),
    ),
    Case(
        "windows",
        "pooling_of_rows",
        lambda x: (F.max_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 1, 1), F.max_pool1d(x[0], 3, 1)),
        (seeded(2, 3, 17, 40),),
    ),
    Case(
        "windows",
        "no_pictures",
        lambda x, w: depthwise(x, w, padding=1),
        (seeded(0, 4, 5, 6), seeded(4, 1, 3, 3)),
    ),
    gradient_case("gradients_3x3", last(seeded(2, 16, 12, 16, dtype=BF16)), seeded(16, 1, 3, 3, dtype=BF16), padding=1),
    gradient_case("gradients_7x7", last(seeded(2, 8, 14, 14)), seeded(8, 1, 7, 7), padding=3),
    gradient_case("gradients_stride", last(seeded(2, 16, 12, 16)), seeded(16, 1, 3, 3), stride=2, padding=1),
    gradient_case("gradients_stride_odd", last(seeded(2, 8, 15, 13)), seeded(8, 1, 5, 5), stride=2, padding=2),
    gradient_case("gradients_rows", seeded(2, 6, 12, 17), seeded(6, 1, 3, 3), padding=1),
    gradient_case("gradients_dilation", last(seeded(2, 8, 12, 12)), seeded(8, 1, 3, 3), padding=2, dilation=2),
    Case(
        "gradients",
        "gradients_one_dimension",
        lambda x, w, dy: gradients(x, w, dy, 1, 3, 1),
        (seeded(2, 10, 40), seeded(10, 1, 4), seeded(2, 10, 43)),
    ),
    Case(
        "gradients",
        "gradients_transposed",
        lambda x, w, dy: gradients(x, w, dy, 2, 1, 1, transposed=True, groups=8, output_padding=1),
        (last(seeded(2, 8, 6, 8)), seeded(8, 1, 3, 3), last(seeded(2, 8, 12, 16))),
    ),
]


@pytest.fixture(scope="module")
def found():
    return outcomes_by_group(CASES, *EMULATE)


@pytest.mark.parametrize("name", [c.name for c in CASES])
def test_windows(name, found):
    assert not found[name]


@pytest.mark.parametrize("shape", range(1, 6))
def test_other_tiles(shape):
    """Each tile that measurement may take."""
    cases = [c for c in CASES if c.name in ("last_3x3", "last_7x7", "last_ends_early", "last_strides", "pooling")]
    found = outcomes(cases, False, *EMULATE, "--set", f"cuda.launch_config={shape}")
    assert not any(found.values()), found
