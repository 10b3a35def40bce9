"""Training of recurrent layers through torch.compile: one graph without a break, eager's values and gradients."""

import contextlib
import pathlib
import sys

import pytest
import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "build" / "python"))
pytest.importorskip("coil")

EMULATED = {"cuda.emulate": True}
LAYERS = {
    "lstm": lambda: nn.LSTM(5, 7),
    "lstm, both directions": lambda: nn.LSTM(5, 7, 2, bidirectional=True, batch_first=True),
    "lstm, projected": lambda: nn.LSTM(5, 8, 2, proj_size=3, bidirectional=True),
    "lstm without biases": lambda: nn.LSTM(5, 7, bias=False, batch_first=True),
    "gru": lambda: nn.GRU(5, 7, 2, batch_first=True),
    "gru, both directions": lambda: nn.GRU(5, 7, bidirectional=True),
    "rnn": lambda: nn.RNN(5, 7, 2, bidirectional=True),
    "rnn with relu": lambda: nn.RNN(5, 7, nonlinearity="relu", batch_first=True),
    "in evaluation": lambda: nn.LSTM(5, 7, 2, dropout=0.5).eval(),
}


class Around(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, *states):
        output, last = self.layer(x.sin(), *states)
        return output.cos(), last


def compiled(model, reset=True, **options):
    if reset:
        torch._dynamo.reset()
    return torch.compile(model, backend="coil", fullgraph=True, **options)


def tensors_of(value):
    return [value] if isinstance(value, torch.Tensor) else [t for v in value for t in tensors_of(v)]


def step(function, parameters, *inputs):
    """Results, and the gradients of a loss that all of them are in."""
    results = tensors_of(function(*inputs))
    weights = [torch.linspace(0.5, 1, r.numel()).view(r.shape).to(r.dtype) for r in results]
    loss = sum((r * w).float().sum() for r, w in zip(results, weights))
    wanted = [t for t in (*tensors_of(inputs), *parameters) if t.requires_grad]
    return [r.detach() for r in results], torch.autograd.grad(loss, wanted)


def check(function, model, *inputs, tolerance=1e-5):
    got, want = (step(f, model.parameters(), *inputs) for f in (function, model))
    for g, w in zip((*got[0], *got[1]), (*want[0], *want[1]), strict=True):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        torch.testing.assert_close(g, w, rtol=tolerance, atol=tolerance)
    for g, w in zip(got[0], want[0]):
        assert g.stride() == w.stride()


EMULATED_ALWAYS = ("lstm, projected", "gru, both directions")


def layers_and_devices():
    for name in LAYERS:
        yield pytest.param(name, "cpu", id=name)
        yield pytest.param(
            name, "emulated", id=f"{name}-emulated", marks=() if name in EMULATED_ALWAYS else pytest.mark.full
        )


@pytest.mark.parametrize("name, device", list(layers_and_devices()))
def test_layers(name, device, fresh):
    model = Around(LAYERS[name]())
    function = compiled(model, options=EMULATED if device == "emulated" else {})
    for _ in range(2):
        check(function, model, torch.randn(4, 3, 5, requires_grad=True))
    assert not torch._dynamo.config.allow_rnn


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU], ids=["lstm", "gru"])
def test_types(layer, dtype, fresh):
    if dtype is torch.float16 and layer is nn.LSTM:
        pytest.skip("eager's takes no such numbers while gradients are wanted")
    model = Around(layer(8, 6, bidirectional=True)).to(dtype)
    tolerance = {torch.float64: 1e-10, torch.bfloat16: 4e-2, torch.float16: 1e-2}[dtype]
    check(compiled(model), model, torch.randn(5, 2, 8, dtype=dtype), tolerance=tolerance)


def test_states_that_are_given(fresh):
    lstm, gru = Around(nn.LSTM(5, 7, 2, batch_first=True)), Around(nn.GRU(5, 7))
    x, y = torch.randn(3, 4, 5), torch.randn(4, 5)  # the second without a batch
    h, c = (torch.randn(2, 3, 7, requires_grad=True) for _ in range(2))
    check(compiled(lstm), lstm, x, (h, c))
    check(compiled(gru), gru, y, h[:1, 0].detach().requires_grad_())


@pytest.mark.parametrize("device", ["cpu", "emulated"])
def test_free_sizes(device, fresh):
    model = Around(nn.LSTM(5, 7, bidirectional=True, batch_first=True))
    torch._dynamo.utils.counters.clear()
    function = compiled(model, dynamic=True, options=EMULATED if device == "emulated" else {})
    for batch, steps in ((3, 4), (5, 9), (2, 17)):
        check(function, model, torch.randn(batch, steps, 5))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 2


def test_a_part_of_the_weights(fresh):
    model = Around(nn.GRU(5, 7, 2))
    for name, p in model.named_parameters():
        p.requires_grad_("hh" in name and "l1" in name)
    check(compiled(model), model, torch.randn(4, 3, 5))
    frozen = nn.Sequential(nn.Linear(5, 5), Around(nn.LSTM(5, 7).requires_grad_(False)))
    check(compiled(frozen), frozen, torch.randn(4, 3, 5))


def test_weights_that_layers_share(fresh):
    layer = nn.LSTM(6, 6, 2)
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        setattr(layer, f"{name}_l1", getattr(layer, f"{name}_l0"))
    model = Around(layer)
    check(compiled(model), model, torch.randn(4, 3, 6))


def test_dropout(fresh):
    """Drawn by Coil: the share that is dropped, the same rows in both directions, other ones in each call."""
    layer = nn.RNN(1, 400, 2, nonlinearity="relu", dropout=0.25, bias=False, batch_first=True)
    with torch.no_grad():
        for p, value in zip(layer.parameters(), (1.0, 0.0, None, 0.0)):
            p.copy_(torch.eye(400) if value is None else torch.full_like(p, value))
    x = torch.ones(2, 3, 1, requires_grad=True)
    function = compiled(layer)
    first, second = function(x)[0], function(x)[0]
    kept = (first > 0).float()
    assert 0.2 < 1 - kept.mean() < 0.3
    torch.testing.assert_close(first, kept / 0.75)
    assert not torch.equal(first, second)
    (grad,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(grad[..., 0], (kept / 0.75).sum(2), rtol=1e-5, atol=0)
    torch.testing.assert_close(compiled(layer.eval())(x)[0], torch.ones(2, 3, 400))


@pytest.mark.parametrize("trains", [True, False], ids=["training", "inference"])
@pytest.mark.parametrize("make", [lambda: nn.GRU(8, 6), lambda: nn.RNN(8, 6), lambda: nn.LSTM(8, 6, proj_size=3)])
def test_autocast(make, trains, fresh):
    model = Around(make())
    with torch.autocast("cpu", torch.bfloat16) if trains else contextlib.nullcontext():
        check(compiled(model), model, torch.randn(4, 2, 8), tolerance=3e-2)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        for g, w in zip(*(tensors_of(f(torch.ones(4, 2, 8))) for f in (compiled(model), model))):
            assert g.dtype == w.dtype
            torch.testing.assert_close(g, w, rtol=3e-2, atol=3e-2)


def test_second_gradients_are_refused(fresh):
    model = Around(nn.GRU(5, 7))
    x = torch.randn(4, 3, 5, requires_grad=True)
    with pytest.raises(RuntimeError, match="double backward"):
        (grad,) = torch.autograd.grad(compiled(model)(x)[0].sum(), x, create_graph=True)
        grad.sum().backward()


def test_packed_sequences_stay_torchs(fresh):
    model = nn.LSTM(5, 7, batch_first=True)
    x = torch.randn(3, 6, 5)

    def packed(x):
        rows = nn.utils.rnn.pack_padded_sequence(x.sin(), torch.tensor([6, 4, 1]), batch_first=True)
        return nn.utils.rnn.pad_packed_sequence(model(rows)[0], batch_first=True)[0].cos()

    torch._dynamo.reset()
    got, want = (step(f, model.parameters(), x) for f in (torch.compile(packed, backend="coil"), packed))
    for g, w in zip((*got[0], *got[1]), (*want[0], *want[1]), strict=True):
        torch.testing.assert_close(g, w, rtol=1e-5, atol=1e-5)


def test_loops_are_recorded(fresh):
    """With CUDA graphs, which the emulated GPU records as well."""
    model = Around(nn.LSTM(5, 7, bidirectional=True))
    function = compiled(model, options=EMULATED | {"cuda.graphs": True})
    x = torch.randn(4, 3, 5)
    for _ in range(4):
        check(function, model, x)
