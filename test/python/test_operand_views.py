"""Library calls that read several views of one tensor: what is made of one view (a copy in another layout, packed
weights) is not what another one holds.
"""

import re

import pytest
import torch
import torch.nn.functional as F

from coil_harness import check, coil_ok, export

# By name: an operation on two operands, and their sizes. Square in the last two dimensions, so that a transposed view
# has them as well.
OPERATIONS = {
    "mm": (torch.mm, (5, 5), (5, 5)),
    "bmm": (torch.bmm, (2, 4, 4), (2, 4, 4)),
    "linear": (F.linear, (3, 4, 4), (4, 4)),
    "conv1d": (F.conv1d, (2, 6, 6), (4, 6, 6)),
    "conv2d": (lambda x, w: F.conv2d(x, w, padding=1), (2, 8, 6, 6), (4, 8, 3, 3)),
    "conv2d_grouped": (lambda x, w: F.conv2d(x, w, groups=4), (1, 4, 5, 5), (4, 1, 3, 3)),
    "conv3d": (F.conv3d, (1, 3, 4, 4, 4), (2, 3, 2, 2, 2)),
    "conv_transpose2d": (F.conv_transpose2d, (1, 3, 5, 5), (3, 4, 2, 2)),
    "attention": (lambda q, k: F.scaled_dot_product_attention(q, k, k), (1, 2, 4, 4), (1, 2, 4, 4)),
    "sort": (lambda x, y: x.sort(-1).values + y.sort(-2).values, (4, 4), (4, 4)),
}

# Two views of a bank [2, ...].
VIEWS = {
    "first": lambda bank: (bank[0], bank[1]),
    "last": lambda bank: bank.movedim(0, -1).contiguous().unbind(-1),
    "transposed": lambda bank: (bank[0], bank[0].mT),
}


class Twice(torch.nn.Module):
    """Of each operand two views, in all four pairs."""

    def __init__(self, operation, views, weight):
        super().__init__()
        self.operation, self.views, self.weight = operation, views, weight

    def forward(self, x, w):
        weights = self.views(w if self.weight is None else self.weight)
        return [self.operation(a, b) for a in self.views(x) for b in weights]


@pytest.mark.parametrize("constant", [False, True], ids=["inputs", "constants"])
@pytest.mark.parametrize("views", VIEWS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_views_of_one_tensor(operation, views, constant):
    f, x, w = OPERATIONS[operation]
    x, w = torch.randn(2, *x), torch.randn(2, *w)
    check(Twice(f, VIEWS[views], torch.nn.Parameter(w) if constant else None), (x, w))


class Tied(torch.nn.Module):
    """One weight in five products and two convolutions."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(64, 64) / 8)

    def forward(self, x, image):
        y = x
        for _ in range(5):
            y = torch.tanh(F.linear(y, self.weight))
        kernel = self.weight[:, :, None, None]
        return y, F.conv2d(torch.relu(F.conv2d(image, kernel)), kernel, stride=2)


def test_one_weight_is_packed_once_for_each_form(tmp_path):
    module, args = Tied(), (torch.randn(8, 64), torch.randn(1, 64, 9, 9))
    check(module, args)
    archive, text = tmp_path / "m.pt2", tmp_path / "m.txt"
    export(module, args, archive)
    coil_ok("compile", archive, "-o", text, "--emit", "wrapper")  # which wants names of constants to differ
    constants = re.findall(r"^buffer (\S+) : .* constant$", text.read_text(), re.M)
    assert constants and len(set(constants)) == len(constants) <= 3, constants
