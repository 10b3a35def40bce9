"""as_strided counts from the start of the storage, of which an input may be a part; what lies outside of the input is
not there.
"""

import pytest
import torch

from coil_harness import CoilError, check


class Strided(torch.nn.Module):
    def __init__(self, *arguments):
        super().__init__()
        self.arguments = arguments

    def forward(self, x):
        return torch.as_strided(x, *self.arguments) * 2


def part():
    return torch.randn(20)[3:9]


@pytest.mark.parametrize(
    "arguments", [((2, 2), (2, 1), 3), ((2, 2), (2, 1), 4), ((3,), (2,)), ((4, 3), (0, 1), 6)], ids=str
)
def test_inside(arguments):
    check(Strided(*arguments), (part(),))


@pytest.mark.parametrize("arguments", [((8,), (1,), 3), ((3,), (1,), 0), ((2, 2), (6, 1), 3)], ids=str)
def test_outside(arguments):
    with pytest.raises((CoilError, AssertionError), match="reads memory outside of the tensor that it is given"):
        check(Strided(*arguments), (part(),))
