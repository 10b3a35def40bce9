"""What is computed of a concatenation alone is computed in its parts: values, and writes to what the parts read."""

import pytest
import torch
from torch._higher_order_ops import scan

from coil_harness import check


class Call(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def features(x, q):
    """Of edges, as graph networks join them, in 16 bits behind the concatenation."""
    ends = q.abs().long() % x.shape[0]
    a, b = x[ends[:, 0]], x[ends[:, 1]]
    return torch.cat([a, b - a], 1).bfloat16().float() * 2


def chained(x, q):
    joined = torch.cat([x.exp(), q.sin(), x * q], 0)
    return (joined * 0.5 + torch.arange(joined.shape[1])).relu().half()


def read_before(x, q):
    y = torch.cat([x[:1], q[1:].exp()])
    z = q * 3
    q.copy_(y.abs())
    return z


def rolled(x, q):
    q.copy_(torch.roll(q, 1, 0).relu())
    return x + 1


def swapped(x, q):
    q.copy_(torch.cat([q[2:], q[:2]]) + 1)
    return x + 1


def filtered(x, q):
    def step(state, value):
        y = value + 0.5 * state[0] - 0.2 * state[1]
        return torch.stack([y, state[0]]), y.clone()

    return scan(step, q[:2], x)


FUNCTIONS = [features, chained, read_before, rolled, swapped, filtered]


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_values(function, target):
    torch.manual_seed(6)
    args = (torch.randn(5, 3), torch.randn(5, 3))
    check(Call(function), args, settings=("cuda.emulate=true",) if target == "cuda" else ())


def test_bits_of_an_input_beside_a_loop():
    check(Call(lambda x: (x.view(torch.int32), x.abs())), (torch.randn(4, 4),))
