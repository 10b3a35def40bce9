"""Assertions about data, which Dynamo and torch.export keep: the run ends with the message where one does not hold, and
the next run is as good as any.
"""

import pathlib
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
coil = pytest.importorskip("coil", reason="the Python extension is not built")


def asserted(x):
    torch._assert_async((x > 0).all(), "x must be positive")
    return x.log()


def of_tensors(x):
    torch._assert_async(x.sum() > 0, "the sum must be positive")
    torch._assert_async(x[:1], "the first must not be zero")
    return x * 2


GOOD, BAD = torch.tensor([1.0, 2.0]), torch.tensor([-3.0, 1.0])


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("program, message", [(asserted, "x must be positive"), (of_tensors, "the sum must be")])
def test_torch_compile(program, message, dynamic):
    torch._dynamo.reset()
    compiled = torch.compile(program, backend="coil", dynamic=dynamic, fullgraph=True)
    for _ in range(2):
        assert torch.equal(compiled(GOOD), program(GOOD))
        with pytest.raises(RuntimeError, match=message):
            compiled(BAD)


def test_a_condition_that_is_a_float():
    torch._dynamo.reset()
    compiled = torch.compile(of_tensors, backend="coil", fullgraph=True)
    assert torch.equal(compiled(torch.tensor([0.25, 1.0])), torch.tensor([0.5, 2.0]))
    with pytest.raises(RuntimeError, match="the first must not be zero"):
        compiled(torch.tensor([0.0, 1.0]))


def test_classes_beyond_the_last():
    compiled = torch.compile(lambda x: F.one_hot(x, 5), backend="coil", fullgraph=True)
    classes = torch.tensor([0, 4, 2])
    assert torch.equal(compiled(classes), F.one_hot(classes, 5))
    for wrong in (5, -1):
        with pytest.raises(RuntimeError):
            compiled(torch.tensor([0, wrong, 2]))


class Asserts(nn.Module):
    def forward(self, x, chosen):
        positive = lambda x: of_tensors(x) + 1
        return torch.cond(chosen, positive, lambda x: x - 1, (x,))


def test_packages_and_branches():
    """The branch that is not taken asserts nothing."""
    program = coil.compile(torch.export.export(Asserts(), (GOOD, torch.tensor(True))))
    assert torch.equal(program(GOOD, torch.tensor(True)), GOOD * 2 + 1)
    assert torch.equal(program(BAD, torch.tensor(False)), BAD - 1)
    with pytest.raises(coil.Error, match="the sum must be positive"):
        program(BAD, torch.tensor(True))
    assert torch.equal(program(GOOD, torch.tensor(True)), GOOD * 2 + 1)
