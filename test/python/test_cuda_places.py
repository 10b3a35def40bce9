"""Convolutions in groups of one place as products, pictures that are stacked and cut, windows over rows of tokens, and
attention with heads that no fused kernel takes: on the CPU a thread after the other, against eager.
"""

import pytest
import torch
from torch.nn import functional as F

from batch import Case, outcomes_by_group
from coil_harness import coil_ok, export
from test_cuda_text import NVRTC
from test_cuda_values import BF16, EMULATE, seeded
from test_cuda_windows import gradients, last


def weight(*sizes, dtype=BF16):
    return (seeded(*sizes) / (sizes[1] * torch.tensor(sizes[2:]).prod()) ** 0.5).to(dtype)


def places(name, x, groups, outer, bias=False, after=None):
    w = weight(outer, x.shape[1] // groups, *(1 for _ in x.shape[2:]), dtype=x.dtype)
    b = (seeded(outer, dtype=x.dtype),) if bias else ()
    convolution = (F.conv1d, F.conv2d, F.conv3d)[x.dim() - 3]

    def function(x, w, *b):
        y = convolution(x, w, *b, groups=groups)
        return after(y) if after else y

    return Case("places", name, function, (x, w, *b), tolerance=3e-2)


def places_back(name, x, groups, outer):
    w = weight(outer, x.shape[1] // groups, *(1 for _ in x.shape[2:]))
    dy = seeded(x.shape[0], outer, *x.shape[2:], dtype=BF16) / 8
    return Case("back", name, lambda x, w, dy: gradients(x, w, dy, 1, 0, 1, groups=groups), (x, w, dy), tolerance=3e-2)


def two_paths(x, a, b, c):
    """Selective kernels: two convolutions, each weighed by what both come to."""
    half = x.shape[1] // 2
    one = F.conv2d(x[:, :half], a, padding=1).relu()
    two = F.conv2d(x[:, half:], b, padding=2, dilation=2).relu()
    both = torch.stack([one, two], 1)
    mean = both.sum(1).mean((2, 3), keepdim=True)
    share = torch.softmax(F.conv2d(mean, c).view(x.shape[0], 2, -1, 1, 1), 1)
    return (both * share).sum(1)


def cut(x, a, b):
    first, second, third = F.conv2d(x, a, padding=1).relu().split([8, 16, 8], 1)
    return F.conv2d(second, b, padding=1) + torch.cat([first, third], 1)


def pooled_tokens(tokens, w, scale, shift):
    """Tokens as pictures, a convolution of each channel, and a norm over the channels."""
    n, length, channels = tokens.shape
    pictures = tokens.transpose(1, 2).reshape(n, channels, 6, length // 6)
    pooled = F.conv2d(pictures, w, stride=2, padding=1, groups=channels)
    return F.layer_norm(pooled.reshape(n, channels, -1).transpose(1, 2), (channels,), scale, shift)


def narrow_heads(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) * 0.4, -1) @ v


CASES = [
    places("of_signals", seeded(2, 32, 11, dtype=BF16), 4, 64, bias=True),
    places("of_rows", seeded(2, 11, 32, dtype=BF16).transpose(1, 2), 2, 32, after=F.gelu),
    places("of_pictures", last(seeded(3, 24, 5, 7, dtype=BF16)), 3, 72, bias=True, after=F.relu),
    places("of_volumes", seeded(2, 16, 3, 4, 5, dtype=BF16), 2, 16),
    places("in_f32", seeded(2, 16, 9), 4, 32, bias=True),
    places("one_after_the_other", seeded(2, 32, 6, 5, dtype=BF16), 2, 32, after=lambda y: F.max_pool2d(y, 2)),
    places("channels_that_are_no_vectors", seeded(2, 12, 9, dtype=BF16), 4, 20),
    Case(
        "places",
        "turned",
        lambda x, w: F.conv_transpose1d(x, w, groups=2),
        (seeded(2, 32, 9, dtype=BF16), weight(32, 8, 1)),
        tolerance=3e-2,
    ),
    places_back("signals_back", seeded(2, 32, 11, dtype=BF16), 4, 64),
    places_back("pictures_back", last(seeded(2, 64, 4, 6, dtype=BF16)), 2, 192),
    Case(
        "layouts",
        "two_paths",
        two_paths,
        (seeded(2, 16, 9, 6, dtype=BF16), weight(8, 8, 3, 3), weight(8, 8, 3, 3), weight(16, 8, 1, 1)),
        tolerance=3e-2,
    ),
    Case(
        "layouts",
        "cut",
        cut,
        (seeded(2, 8, 7, 6, dtype=BF16), weight(32, 8, 3, 3), weight(16, 16, 3, 3)),
        tolerance=3e-2,
    ),
    Case(
        "layouts",
        "cut_of_one",
        cut,
        (seeded(1, 8, 7, 6, dtype=BF16), weight(32, 8, 3, 3), weight(16, 16, 3, 3)),
        tolerance=3e-2,
    ),
    Case(
        "layouts",
        "pooled_tokens",
        pooled_tokens,
        (seeded(2, 48, 16, dtype=BF16), weight(16, 1, 3, 3), seeded(16, dtype=BF16), seeded(16, dtype=BF16)),
        tolerance=3e-2,
    ),
    Case(
        "layouts",
        "narrow_heads",
        narrow_heads,
        tuple(seeded(3, 4, 16, 6, dtype=BF16) for _ in range(3)),
        tolerance=3e-2,
    ),
    Case("layouts", "rows_times_few_rows", torch.bmm, (seeded(6, 1, 16, dtype=BF16), seeded(6, 16, 40, dtype=BF16))),
    Case(
        "layouts",
        "one_place_with_relu",
        lambda x, w: F.conv2d(x.mean((2, 3), keepdim=True), w).relu().flatten(1),
        (seeded(4, 32, 5, 5, dtype=BF16), weight(64, 32, 1, 1)),
        tolerance=3e-2,
    ),
]


@pytest.fixture(scope="module")
def found():
    return outcomes_by_group(CASES, *EMULATE)


@pytest.mark.parametrize("name", [c.name for c in CASES])
def test_values(name, found):
    assert not found[name]


def lines_of(function, args, folder):
    """The wrapper's lines of a program for a GPU."""

    class Net(torch.nn.Module):
        def forward(self, *args):
            return function(*args)

    export(Net(), args, folder / "m.pt2")
    settings = ("--device", "cuda", "--set", "cuda.arch=sm_90", "--set", f"cuda.nvrtc={NVRTC}")
    return coil_ok("compile", folder / "m.pt2", "-o", "-", "--emit", "wrapper", *settings).stdout


def case_named(name):
    return next(c for c in CASES if c.name == name)


@pytest.mark.skipif(NVRTC is None, reason="nvidia-cuda-nvrtc is not installed")
@pytest.mark.parametrize("name", ["of_signals", "of_volumes", "turned", "signals_back"])
def test_groups_of_places_are_products(name, tmp_path):
    case = case_named(name)
    text = lines_of(case.function, case.args, tmp_path)
    assert "= matmul(" in text
    assert "= convolution" not in text


@pytest.mark.skipif(NVRTC is None, reason="nvidia-cuda-nvrtc is not installed")
def test_narrow_heads_stay_products_in_sixteen_bits(tmp_path):
    case = case_named("narrow_heads")
    text = lines_of(case.function, case.args, tmp_path)
    assert text.count("= matmul(") == 2
    assert "attention" not in text


@pytest.mark.skipif(NVRTC is None, reason="nvidia-cuda-nvrtc is not installed")
@pytest.mark.parametrize(
    "name, layout",
    [
        ("two_paths", "bf16[2, 2, 8, 9, 6] {[864, 432, 1, 48, 8]}"),
        ("cut", "bf16[2, 32, 7, 6] {[1344, 1, 192, 32]}"),
        ("pooled_tokens", "bf16[2, 16, 3, 4] {[192, 1, 64, 16]}"),
    ],
)
def test_channels_are_innermost(name, layout, tmp_path):
    case = case_named(name)
    assert layout in lines_of(case.function, case.args, tmp_path)


@pytest.mark.skipif(NVRTC is None, reason="nvidia-cuda-nvrtc is not installed")
def test_patches_of_few_channels_are_products(tmp_path):
    def patches(x, a, b, c):
        return F.conv2d(x, a, stride=8).flatten(2).mT, F.conv2d(x, b, stride=4, padding=3), F.conv2d(x, c, stride=2)

    args = (seeded(2, 3, 32, 32), seeded(64, 3, 8, 8), seeded(16, 3, 7, 7), seeded(16, 3, 7, 7))
    text = lines_of(patches, args, tmp_path)
    assert text.count("= linear(") == 2
    assert text.count("= convolution") == 1, "windows that overlap much are the library's"


@pytest.mark.skipif(NVRTC is None, reason="nvidia-cuda-nvrtc is not installed")
def test_gradients_of_patches_are_products(tmp_path):
    def back(x, w, dy):
        none = [0, 0]
        return torch.ops.aten.convolution_backward(
            dy, x, w, None, [8, 8], none, [1, 1], False, none, 1, [False, True, False]
        )[1]

    args = (seeded(2, 3, 32, 32, dtype=BF16), weight(64, 3, 8, 8), seeded(2, 64, 4, 4, dtype=BF16))
    text = lines_of(back, args, tmp_path)
    assert "= matmul(" in text
    assert "= convolution" not in text
