"""Recurrent layers that do not depend on each other, which run side by side, and batches whose rows threads share."""

import pytest
import torch
from torch import nn
from torch.export import Dim

from coil_harness import check

KINDS = {
    "lstm": nn.LSTM,
    "gru": nn.GRU,
    "tanh": lambda *args, **settings: nn.RNN(*args, nonlinearity="tanh", **settings),
    "relu": lambda *args, **settings: nn.RNN(*args, nonlinearity="relu", **settings),
    "projected": lambda *args, **settings: nn.LSTM(*args, proj_size=7, **settings),
}


class Network(nn.Module):
    def __init__(self, kind, inputs, hidden, **settings):
        super().__init__()
        self.layers = KINDS[kind](inputs, hidden, **settings)

    def forward(self, x):
        return self.layers(x)


class Apart(nn.Module):
    """Two layers of sizes of their own, and one behind them."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.GRU(6, 20), nn.GRU(9, 35), nn.GRU(55, 8)

    def forward(self, x, y):
        a, b = self.first(x)[0], self.second(y)[0]
        return self.last(torch.cat([torch.relu(a), b], 2))[0], b


class Stacked(nn.Module):
    """Layers of which each reads the one before it."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.GRU(6, 20), nn.GRU(20, 20)

    def forward(self, x):
        return self.second(self.first(x)[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps, batch", [(1, 1), (3, 2), (20, 1), (20, 3), (9, 17)])
def test_directions(kind, steps, batch):
    module = Network(kind, 5, 21, num_layers=2, bidirectional=True).eval()
    check(module, (torch.randn(steps, batch, 5),))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hidden, batch", [(33, 2), (33, 5), (400, 3), (200, 31)])
def test_one_direction_of_several_samples(kind, hidden, batch):
    module = Network(kind, 5, hidden, num_layers=2, batch_first=True).eval()
    check(module, (torch.randn(batch, 12, 5),))


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_types(kind, dtype):
    module = Network(kind, 5, 16, bidirectional=True).eval().to(dtype)
    check(module, (torch.randn(10, 4, 5).to(dtype),))


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_free_sizes(kind):
    module = Network(kind, 5, 24, bidirectional=True).eval()
    dynamic = ({1: Dim("samples", max=40)},)
    others = [(torch.randn(10, b, 5),) for b in (1, 2, 24)]
    check(module, (torch.randn(10, 4, 5),), dynamic, others)


def test_layers_apart():
    check(Apart().eval(), (torch.randn(12, 2, 6), torch.randn(17, 2, 9)[:12]))
    check(Stacked().eval(), (torch.randn(12, 2, 6),))
