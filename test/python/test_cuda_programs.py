"""Programs as users write them, as CUDA kernels that run on the CPU's emulation, against eager: an eighth of them, and
all with --full. Where their sizes are small, most kernels are launched together with others.
"""

import copy

import pytest
import torch

import test_user_programs  # noqa: F401 (brings the programs)
from coil_harness import CoilError
from emitted import emit
from emulated_cuda import library_calls_of_its_own, load_emulated  # noqa: F401 (the fixture serves by being here)
from test_emit_cuda import CUDA
from user_harness import PROGRAMS, TOLERANCE, arguments_of, far, module_of, pytree, tensors_of

REFUSED = {"complex_linear_algebra"}  # no device has the determinant of complex matrices


def names():
    exported = [name for name, each in PROGRAMS.items() if "package" in each.ways]
    marks = lambda k: () if k % 8 == 0 else pytest.mark.full
    return [pytest.param(name, marks=marks(k), id=name) for k, name in enumerate(exported)]


def outcome(call, args):
    torch.manual_seed(3)
    return [t.detach() for t in tensors_of(call(args))]


@pytest.mark.cpu("emulates a GPU")
@pytest.mark.parametrize("name", names())
def test_program(name, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", False)  # by data, which export cannot do
    each = PROGRAMS[name]
    module, args = module_of(each), arguments_of(each.makers[0])
    torch.export.save(torch.export.export(module, args, strict=False), tmp_path / "m.pt2")
    if name in REFUSED:
        with pytest.raises(CoilError, match="not compiled for complex tensors"):
            emit(tmp_path / "m.pt2", "python", *CUDA)
        return
    emitted = load_emulated(emit(tmp_path / "m.pt2", "python", *CUDA))
    got = outcome(emitted.call, pytree.tree_leaves(copy.deepcopy(args)))
    want = outcome(lambda a: module(*a), args)
    assert len(got) == len(want)
    tolerances = [each.tolerance or TOLERANCE.get(t.dtype, 2e-4) for t in want]
    wrong = [far(*three) for three in zip(got, want, tolerances, strict=True)]
    assert not any(wrong), wrong
