"""Small kernels that CUDA launches as one: values (with --device cuda, on a GPU), that NVRTC takes them, and that the
call may be told not to.
"""

import pytest
import torch

from coil_harness import check, coil_ok, export
from test_cuda_text import NVRTC

EXPERTS, CHOSEN, WIDTH = 12, 3, 64


class Routing(torch.nn.Module):
    """Which experts tokens go to, how many each has, and a mean of what they make: a chain of kernels of a few threads."""

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


def test_routing():
    check(Routing(), ROUTING, others=[(torch.randn(1, EXPERTS), torch.randn(1, WIDTH))])


def test_cache():
    check(Cache(), CACHE, others=[(*CACHE[:3], torch.tensor([15]))])


@pytest.mark.cpu("compiles for a GPU by itself")
@pytest.mark.skipif(NVRTC is None, reason="nvidia-cuda-nvrtc is not installed")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("program", ["routing", "cache"])
def test_compiles(program, arch, tmp_path):
    module, inputs = {"routing": (Routing(), ROUTING), "cache": (Cache(), CACHE)}[program]
    export(module, inputs, tmp_path / "m.pt2")
    options = ("--device", "cuda", "--set", f"cuda.arch={arch}", "--set", f"cuda.nvrtc={NVRTC}")
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", *options)
    launches = lambda *more: coil_ok("explain", tmp_path / "m.pt2", *options, *more).stdout.split(" kernels, ")[0]
    one = int(launches().split()[-1])
    each = int(launches("--set", "cuda.combine_launches=false").split()[-1])
    assert one < each, (one, each)
