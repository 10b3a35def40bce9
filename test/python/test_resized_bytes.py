"""Images of bytes that are resized: eager's kernels of a CPU weigh by integers and round each dimension, bit by bit."""

import itertools
import random

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from coil_harness import check

SIZES = [(4, 4), (7, 5), (17, 30), (1, 6), (2, 3)]
TARGETS = [(3, 3), (5, 5), (8, 10), (13, 2), (1, 1), (4, 9), (30, 5)]


class Resized(nn.Module):
    """Several images, each in its own way."""

    def __init__(self, ways):
        super().__init__()
        self.ways = ways

    def forward(self, images):
        return [F.interpolate(x, **way) for x, way in zip(images, self.ways, strict=True)]


def picture(channels, size, last):
    made = torch.randint(0, 256, (2, channels, *size), dtype=torch.uint8)
    return made.contiguous(memory_format=torch.channels_last) if last else made


def is_taken(image, way):
    """Eager's kernel for few channels refuses some by an assertion."""
    try:
        F.interpolate(image, **way)
    except RuntimeError:
        return False
    return True


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
def test_sizes(mode, antialias):
    torch.manual_seed(0)
    chance = random.Random(f"{mode} {antialias}")
    ways, images = [], []
    for size, target in itertools.product(SIZES, TARGETS):
        align = chance.random() < 0.5
        ways.append({"size": target, "mode": mode, "align_corners": align, "antialias": antialias})
        images.append(picture(chance.choice([3, 5]), size, chance.random() < 0.5))
        if not is_taken(images[-1], ways[-1]):
            ways.pop(), images.pop()
    assert len(ways) > 25
    check(Resized(ways), (images,), tolerance=0)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_factors(mode):
    torch.manual_seed(1)
    factors = [0.5, 1.7, 2, 3, 0.3]
    ways = [
        {"scale_factor": f, "mode": mode, "antialias": a, "recompute_scale_factor": r}
        for f, a, r in itertools.product(factors, [False, True], [None, True])
    ]
    check(Resized(ways), ([picture(3, (16, 11), k % 2 == 0) for k in range(len(ways))],), tolerance=0)


@pytest.mark.parametrize("antialias", [False, True])
def test_free_sizes(antialias):
    torch.manual_seed(2)
    rows, columns = torch.export.Dim("rows", min=4, max=64), torch.export.Dim("columns", min=4, max=64)
    way = {"size": (9, 13), "mode": "bilinear", "antialias": antialias}
    check(
        Resized([way]),
        ([picture(3, (8, 21), False)],),
        dynamic={"images": [{2: rows, 3: columns}]},
        others=[([picture(3, (31, 6), False)],)],
        tolerance=0,
    )
