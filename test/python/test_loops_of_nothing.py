"""Loops that never run read nothing, be it in front of them: at fixed sizes of 0, and at free ones that come to 0; on
the CPU, and as CUDA kernels that run there.
"""

import pathlib
import sys

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

from coil_harness import check, export
from emitted import emit
from emulated_cuda import library_calls_of_its_own, load_emulated  # noqa: F401 (the fixture serves by being here)
from test_emit_cuda import CUDA, check_calls

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
pytest.importorskip("coil", reason="the Python extension is not built")

R = torch.randn


def none(*sizes):
    return torch.zeros(sizes, dtype=torch.long)


PROGRAMS = {
    "modes": (lambda x: x.mode(1).values, (R(0, 4),)),
    "sums_of_rows_told_by_data": (lambda x, i: x[i].sum(0), (R(6, 5), none(0))),
    "sums_with_a_factor_of_all": (
        lambda x, s, i: (x * s[i[0]]).sum(1) if x.numel() else x.sum(1),
        (R(3, 0), R(4), none(1)),
    ),
    "one_row_for_all": (lambda x, i: x[i[:1].expand(i.shape[0])] * 2, (R(6, 5), none(0))),
    "averages": (lambda x: F.adaptive_avg_pool2d(x, (0, 2)), (R(2, 3, 4, 5),)),
    "averages_of_volumes": (lambda x: F.adaptive_avg_pool3d(x, (2, 0, 1)), (R(2, 3, 4, 5, 6),)),
    "maxima": (lambda x: F.adaptive_max_pool2d(x, (2, 0), return_indices=True), (R(2, 3, 4, 5),)),
    "areas": (lambda x: F.interpolate(x, scale_factor=(2, 0.5), mode="area"), (R(1, 3, 1, 1),)),
    "biased_scores": (
        lambda q, b, i: ((q @ q.mT) * 0.7 + b[i].view(4, 4)).softmax(-1) @ q,
        (R(0, 2, 4, 3), R(9), torch.arange(16) % 9),
    ),
    "masked_attention": (
        lambda q, k: F.scaled_dot_product_attention(q, k, k, torch.ones(5, 0, dtype=torch.bool)),
        (R(3, 5, 4), R(1, 0, 4)),
    ),
}


def of(function):
    return type("Of", (torch.nn.Module,), {"forward": lambda self, *args: function(*args)})()


class Rows(torch.nn.Module):
    def forward(self, x, i, s):
        return x * s[i[0]] + s[1]


class Columns(torch.nn.Module):
    def forward(self, x, i, s):
        return (x * s[i.expand(x.shape[1])]).sum(1)


@pytest.mark.parametrize("name", PROGRAMS)
def test_fixed_sizes(name):
    function, inputs = PROGRAMS[name]
    check(of(function), inputs)


@pytest.mark.cpu("emulates a GPU")
@pytest.mark.parametrize("name", PROGRAMS)
def test_fixed_sizes_of_cuda(name, tmp_path):
    function, inputs = PROGRAMS[name]
    export(of(function), inputs, tmp_path / "m.pt2")
    emitted = load_emulated(emit(tmp_path / "m.pt2", "python", *CUDA))
    check_calls(lambda *args: emitted.call(list(args)), of(function), [inputs])


@pytest.mark.parametrize("module", [Rows(), Columns()], ids=["rows", "columns"])
def test_free_sizes(module):
    """What all rows share is read once, in front of the loop over them."""
    free = 0 if isinstance(module, Rows) else 1
    given = lambda n: (R((n, 3) if free == 0 else (3, n)), none(1), R(4))
    sizes = ({free: Dim("n", min=0, max=64)}, None, None)
    check(module, given(8), dynamic=sizes, others=[given(n) for n in (0, 1, 33)])
