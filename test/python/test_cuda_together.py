"""Small kernels that CUDA launches as one: values on the CPU's emulation (with --device cuda, on a GPU), that NVRTC
takes them, and that a compile may be told not to.
"""

import pytest
import torch

from coil_harness import check, coil_ok, export
from emitted import emit
from emulated_cuda import library_calls_of_its_own, load_emulated  # noqa: F401 (the fixture serves by being here)
from test_cuda_text import NVRTC
from test_emit_cuda import CUDA, check_calls

EXPERTS, CHOSEN, WIDTH = 12, 3, 64


class Routing(torch.nn.Module):
    """Which experts tokens go to, how many each has, a mean of what they make: a chain of kernels of a few threads."""

    def forward(self, scores, x):
        weights, experts = scores.softmax(-1).topk(CHOSEN)
        ordered, places = experts.flatten().sort()
        ends = torch.histc(ordered.float(), EXPERTS, 0, EXPERTS - 1).int().cumsum(0)
        rows = x[places // CHOSEN] * weights.flatten()[places].unsqueeze(-1)
        back = torch.empty_like(places)
        back[places] = torch.arange(places.numel())
        summed = rows[back].view(-1, CHOSEN, WIDTH).sum(1) + x
        return ends, torch.nn.functional.layer_norm(summed, (WIDTH,))


class Cache(torch.nn.Module):
    """Keys and values that are written where data say, and what turns the queries: some depend on others."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.randn(2, 16, 8))
        self.register_buffer("values", torch.randn(2, 16, 8))

    def forward(self, q, k, v, place):
        k = torch.nn.functional.rms_norm(k, (8,))
        self.keys.index_copy_(1, place, k * place.float().cos())
        self.values.index_copy_(1, place, v)
        return torch.cat((-q[..., 4:], q[..., :4]), -1) * place.sin(), self.keys * 2


ROUTING = torch.randn(1, EXPERTS), torch.randn(1, WIDTH)
CACHE = *(torch.randn(2, 1, 8) for _ in range(3)), torch.tensor([5])


PROGRAMS = {
    "routing": (Routing(), [ROUTING, (torch.randn(1, EXPERTS), torch.randn(1, WIDTH))]),
    "cache": (Cache(), [CACHE, (*CACHE[:3], torch.tensor([15]))]),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_values(program):
    module, (inputs, *others) = PROGRAMS[program]
    check(module, inputs, others=others)


@pytest.mark.cpu("compiles for a GPU by itself")
@pytest.mark.parametrize("program", PROGRAMS)
def test_values_where_there_is_no_gpu(program, tmp_path):
    module, calls = PROGRAMS[program]
    export(module, calls[0], tmp_path / "m.pt2")
    file = emit(tmp_path / "m.pt2", "python", *CUDA)
    assert "coil_together_" in file.read_text()
    emitted = load_emulated(file)
    check_calls(lambda *args: emitted.call(list(args)), module, calls)


@pytest.mark.cpu("compiles for a GPU by itself")
@pytest.mark.skipif(NVRTC is None, reason="nvidia-cuda-nvrtc is not installed")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_compiles(program, arch, tmp_path):
    module, calls = PROGRAMS[program]
    export(module, calls[0], tmp_path / "m.pt2")
    options = ("--device", "cuda", "--set", f"cuda.arch={arch}", "--set", f"cuda.nvrtc={NVRTC}")
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", *options)
    launches = lambda *more: coil_ok("explain", tmp_path / "m.pt2", *options, *more).stdout.split(" kernels, ")[0]
    one = int(launches().split()[-1])
    each = int(launches("--set", "cuda.combine_launches=false").split()[-1])
    assert one < each, (one, each)
