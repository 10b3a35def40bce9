"""Recurrent layers through torch.compile: whole in inference, in steps in training, one graph without a break."""

import pathlib
import sys

import pytest
import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "build" / "python"))
pytest.importorskip("coil")


class Around(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, *states):
        output, last = self.layer(x.sin(), *states)
        return output.cos(), last


def alike(got, want):
    if isinstance(want, tuple):
        assert len(got) == len(want)
        return all(alike(g, w) for g, w in zip(got, want))
    assert (got.dtype, got.shape, got.stride()) == (want.dtype, want.shape, want.stride())
    narrow = 2e-5 if want.is_cuda else 2e-6  # cuDNN sums in another order than the CPU's products
    tolerance = {torch.float64: 1e-12, torch.float32: narrow}.get(want.dtype, 2e-2)
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)
    return True


def compiled(model, **options):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    return torch.compile(model, backend="coil", **options)


LAYERS = {
    "lstm": lambda: nn.LSTM(5, 7),
    "lstm, both directions": lambda: nn.LSTM(5, 7, 2, bidirectional=True, batch_first=True),
    "lstm, projected": lambda: nn.LSTM(5, 8, 2, proj_size=3),
    "lstm without biases": lambda: nn.LSTM(5, 7, bias=False, batch_first=True),
    "gru": lambda: nn.GRU(5, 7, 2, batch_first=True),
    "gru, both directions": lambda: nn.GRU(5, 7, bidirectional=True),
    "rnn": lambda: nn.RNN(5, 7, 2),
    "rnn with relu": lambda: nn.RNN(5, 7, nonlinearity="relu", batch_first=True),
    "with dropout, in evaluation": lambda: nn.LSTM(5, 7, 2, dropout=0.5).eval(),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_whole(name, fresh):
    model = Around(LAYERS[name]())
    x = torch.randn(4, 3, 5)
    with torch.no_grad():
        function = compiled(model, fullgraph=True)
        assert alike(function(x), model(x))
        x = torch.randn(4, 3, 5)
        assert alike(function(x), model(x))
    assert not torch._dynamo.config.allow_rnn


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_types(dtype, fresh):
    model = Around(nn.LSTM(8, 6, bidirectional=True)).to(dtype)
    x = torch.randn(5, 2, 8, dtype=dtype)
    with torch.no_grad():
        assert alike(compiled(model, fullgraph=True)(x), model(x))


def test_states_that_are_given(fresh):
    lstm, gru = Around(nn.LSTM(5, 7, 2, batch_first=True)), Around(nn.GRU(5, 7))
    x, y = torch.randn(3, 4, 5), torch.randn(4, 5)  # the second without a batch
    h, c = torch.randn(2, 3, 7), torch.randn(2, 3, 7)
    with torch.inference_mode():
        assert alike(compiled(lstm, fullgraph=True)(x, (h, c)), lstm(x, (h, c)))
        assert alike(compiled(gru, fullgraph=True)(y, h[:1, 0]), gru(y, h[:1, 0]))


def test_free_sizes(fresh):
    model = Around(nn.LSTM(5, 7, bidirectional=True, batch_first=True))
    with torch.no_grad():
        function = compiled(model, fullgraph=True, dynamic=True)
        for batch, steps in ((3, 4), (5, 9), (2, 17)):
            x = torch.randn(batch, steps, 5)
            assert alike(function(x), model(x))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 2


def test_what_stays_torchs(fresh):
    model = nn.LSTM(5, 7, batch_first=True)
    x = torch.randn(3, 6, 5)

    def packed(x):
        rows = nn.utils.rnn.pack_padded_sequence(x.sin(), torch.tensor([6, 4, 1], device="cpu"), batch_first=True)
        return nn.utils.rnn.pad_packed_sequence(model(rows)[0], batch_first=True)[0]

    with torch.no_grad():
        assert alike(compiled(packed)(x), packed(x))
        dropping = nn.LSTM(5, 7, 2, dropout=0.5).train()
        assert compiled(dropping)(x)[0].shape == (3, 6, 7)


def test_other_backends_break(fresh):
    torch._dynamo.reset()
    with torch.no_grad(), pytest.raises(torch._dynamo.exc.Unsupported, match="GRU"):
        torch.compile(Around(nn.GRU(5, 7)), backend="eager", fullgraph=True)(torch.randn(4, 3, 5))


def test_compiles_in_a_backward_pass():
    """Where Dynamo compiles whatever is called, Coil's own callbacks too unless they are kept from that."""

    def fn(x, w):
        y = (x @ w).tanh().sum()
        torch._dynamo.graph_break()
        (grad,) = torch.autograd.grad(y, x, create_graph=True)
        return grad.square().sum() + y

    torch._dynamo.reset()
    generator = torch.Generator(torch.get_default_device()).manual_seed(0)
    x, w = (torch.randn(n, 4, generator=generator).requires_grad_() for n in (3, 4))
    assert alike(torch.compile(fn, backend="coil")(x, w), fn(x, w))
