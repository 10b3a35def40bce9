"""Convolutions in 16 bits whose channels are no whole vectors, which a GPU's library is slow at: channels of zeros are
added to the operands, and what the result has more is left out. On the emulated GPU, whose library is the host's.
"""

import pytest
import torch
from torch import nn

OPTIONS = {"cuda.emulate": True, "fallback": False}
CASES = {
    "input": dict(module=lambda: nn.Conv2d(5, 16, 3, padding=1), places=(9, 8)),
    "result": dict(module=lambda: nn.Conv2d(16, 3, 3, stride=2), places=(9, 8)),
    "both with gaps": dict(module=lambda: nn.Conv2d(9, 7, 3, padding=2, dilation=2), places=(9, 8)),
    "strides and gaps": dict(module=lambda: nn.Conv1d(100, 20, 5, stride=3, dilation=2, bias=False), places=(33,)),
    "one channel by wide windows": dict(
        module=lambda: nn.Conv2d(1, 16, 7, padding=(3, 1), stride=(1, 2)), places=(9, 8)
    ),
    "a line with gaps": dict(module=lambda: nn.Conv2d(5, 64, (1, 3), padding=(0, 2), dilation=(1, 2)), places=(4, 9)),
    "few zeros": dict(module=lambda: nn.Conv2d(30, 8, 3, stride=2, padding=1), places=(9, 8)),
    "every other place": dict(module=lambda: nn.Conv2d(3, 8, 1, stride=2), places=(9, 8)),
    "volumes": dict(module=lambda: nn.Conv3d(3, 10, 2, padding=1), places=(5, 4, 6)),
    "transposed": dict(module=lambda: nn.ConvTranspose2d(9, 3, 4, 2, 1), places=(5, 6)),
    "transposed with more rows": dict(module=lambda: nn.ConvTranspose1d(6, 5, 3, 2, 1, output_padding=1), places=(7,)),
    "one place": dict(module=lambda: nn.Conv2d(7, 9, 1), places=(5, 5)),
}


def distance(given, wanted):
    return ((given.double() - wanted).norm() / wanted.norm()).item()


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name, dtype, dynamic):
    torch.manual_seed(0)
    case = CASES[name]
    exact = nn.Sequential(case["module"](), nn.ReLU()).to(dtype).double()
    module = nn.Sequential(case["module"](), nn.ReLU()).to(dtype)
    module.load_state_dict(exact.state_dict())
    weight = module[0].weight
    channels = weight.shape[0 if isinstance(module[0], nn.modules.conv._ConvTransposeNd) else 1]
    x = torch.randn(2, channels, *case["places"]).to(dtype).requires_grad_()
    x64 = x.detach().double().requires_grad_()
    want, eager = exact(x64), module(x)
    got = torch.compile(module, backend="coil", dynamic=dynamic, options=OPTIONS)(x)
    assert (got.shape, got.stride(), got.dtype) == (eager.shape, eager.stride(), eager.dtype)
    dy = torch.randn_like(eager)
    gradients = lambda y, operands: torch.autograd.grad(y, operands, dy.to(y.dtype))
    rows = zip(
        [got, *gradients(got, [x, *module.parameters()])],
        [eager, *gradients(eager, [x, *module.parameters()])],
        [want, *gradients(want, [x64, *exact.parameters()])],
    )
    for given, theirs, wanted in rows:
        assert given.stride() == theirs.stride()
        assert distance(given, wanted) <= 1.5 * distance(theirs, wanted) + 1e-4


def test_a_chain_of_them():
    """What one has more is not seen by the next, and not by what stands between."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 9, 3, padding=1), nn.Sigmoid(), nn.Conv2d(9, 18, 3, padding=1), nn.Softmax(1)]
    module = nn.Sequential(*layers, nn.Conv2d(18, 5, 1)).half()
    x = torch.randn(2, 3, 12, 12).half()
    with torch.no_grad():
        want, eager = module.double()(x.double()), module.half()(x)
        got = torch.compile(module, backend="coil", options=OPTIONS)(x)
    assert got.shape == eager.shape and got.stride() == eager.stride()
    assert distance(got, want) <= 1.5 * distance(eager, want) + 1e-4
