"""Kernels for every instruction set that can be asked for: what this machine runs is compared with eager; for the
others the kernels must compile, and running them is refused by name.
"""

import pathlib
import tempfile

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from coil_harness import coil, coil_ok, differences, eager, export, run

aten = torch.ops.aten
LEVELS = ("baseline", "avx2", "avx512")


def flags():
    with open("/proc/cpuinfo") as f:
        return set(next(line for line in f if line.startswith("flags")).split())


HERE = (
    {"baseline"}
    | ({"avx2"} if {"avx2", "fma"} <= flags() else set())
    | ({"avx512"} if {"avx512f", "avx512vl", "avx512bw", "avx512dq", "avx512cd"} <= flags() else set())
)


class Kinds(nn.Module):
    """One of each kind of kernel: pointwise, rows and columns reduced, scans, transposes, gathers, scatters, windows,
    narrow floats, integers, attention; and constants to fold.
    """

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(4, 32, 3, padding=1), nn.BatchNorm2d(32)
        self.weight = nn.Parameter(torch.randn(130, 130))

    def forward(self, x, i, image):
        h = x.bfloat16()
        q = x.reshape(3, 17, 2, 18).transpose(1, 2)
        attended, logs = aten._scaled_dot_product_flash_attention_for_cpu(q, q, q)
        return {
            "pointwise": F.gelu(x) * torch.exp(-x.abs()) + torch.sin(x),
            "softmax": x.softmax(-1),
            "layer_norm": F.layer_norm(x, (36,)),
            "columns": x.sum(0),
            "all": x.square().mean(),
            "argmax": x.argmax(-1),
            "cumsum": x.cumsum(1),
            "transpose": x.transpose(1, 2).contiguous() + 1,
            "gather": x.gather(2, i),
            "scatter": torch.zeros_like(x).scatter_add(2, i, x),
            "pool": F.max_pool2d(image, 3, 2, 1),
            "bf16": (h * 2 + h.sigmoid()).sum(1),
            "half": x.half().tanh(),
            "integers": (i * 7 - 3) // 5 % 4 ^ 3,
            "shift": i << 2,
            "bool": (x > 0) & (i > 2),
            "attention": F.scaled_dot_product_attention(q, q, q),
            "its_gradients": aten._scaled_dot_product_flash_attention_for_cpu_backward(
                q, q, q, q, attended, logs, 0.0, False
            ),
            "conv": torch.relu(self.norm(self.conv(image))),
            "folded": (self.weight @ self.weight).softmax(-1).sum(0) + x.sum(),
            "f64": x.double().log1p().nan_to_num(),
        }


@pytest.mark.parametrize("level", LEVELS)
def test_level(level):
    torch.manual_seed(5)
    module, args = (
        Kinds().eval(),
        (torch.randn(3, 17, 36), torch.randint(0, 36, (3, 17, 36)), torch.randn(1, 4, 13, 13)),
    )
    with tempfile.TemporaryDirectory() as folder:
        archive, package = pathlib.Path(folder) / "m.pt2", pathlib.Path(folder) / "m.coil"
        export(module, args, archive)
        coil_ok("compile", archive, "-o", package, "--set", f"cpu.isa={level}")
        if level in HERE:
            before, want = eager(module, args)
            wrong = differences(run(package, before, folder), want)
            assert not wrong, "\n".join(wrong)
        else:
            refused = coil("run", package)
            assert refused.returncode == 1 and level in refused.stderr and "this machine" in refused.stderr, (
                refused.stderr
            )
