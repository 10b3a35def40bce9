"""Programs over the CPU and a GPU, on one: packages, with and without CUDA graphs, and every output form."""

import copy

import pytest
import torch

from coil_harness import coil, differences, eager
from emitted import build_program, call_flat, call_program, emit, load_module
from test_emit_several_devices import CASES, Steps
from test_several_devices import compiled, export_over, results

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
CASES = CASES | {"steps": (Steps, CASES["crossing"][1])}
CUDA = ("--device", "cuda")


def exported(name, folder):
    """The module, its inputs by name and eager's results."""
    program, args = CASES[name]
    module = program()
    export_over(module, args(), folder / "m.pt2")
    return module, *eager(module, args())


@pytest.mark.parametrize("graphs", ["false", "true"])
@pytest.mark.parametrize("name", CASES)
def test_package(name, graphs, tmp_path):
    _, before, want = exported(name, tmp_path)
    package = compiled(tmp_path, *CUDA)
    setting = ("--set", f"cuda.graphs={graphs}")
    assert not differences(results(package, before, tmp_path, *setting), want)
    done = coil("bench", package, *setting, "--seconds", "0.2")
    assert done.returncode == 0 and "on cuda:0" in done.stdout, done.stderr


@pytest.mark.parametrize("name", CASES)
def test_cpp(name, tmp_path):
    _, before, want = exported(name, tmp_path)
    assert not differences(call_program(build_program(emit(tmp_path / "m.pt2", "cpp", *CUDA)), before), want)


def on_the_gpu(function, args):
    """`function` of flat inputs, which it is given where they lie; what it wrote to them and its results come back."""
    lies_far = [hasattr(t, "is_far") for t in args]

    def call(flat):
        placed = [t.cuda() if far else t for t, far in zip(flat, lies_far)]
        made = function(placed)
        for given, used in zip(flat, placed):
            given.copy_(used)
        return tuple(t.cpu() for t in made)

    return call


@pytest.mark.parametrize("form", ["python", "fx"])
@pytest.mark.parametrize("name", CASES)
def test_python(name, form, tmp_path):
    module, _, want = exported(name, tmp_path)
    program = load_module(emit(tmp_path / "m.pt2", form, *CUDA))
    function = program.call if form == "python" else lambda flat: program.load()(*flat)
    args = CASES[name][1]()
    assert not differences(call_flat(on_the_gpu(function, args), copy.deepcopy(module), args, {}, want), want)


@pytest.mark.parametrize("name", CASES)
def test_torch_compile(name):
    """Three calls in a row, with values and devices as eager has them."""
    torch._dynamo.reset()
    program, args = CASES[name]
    place = lambda args: [t.cuda() if hasattr(t, "is_far") else t for t in args]
    module, same = program(), program()
    module.far = same.far = "cuda"
    function = torch.compile(same, backend="coil")
    for _ in range(3):
        given, wanted = place(args()), place(args())
        with torch.no_grad():
            got, want = function(*given), module(*wanted)
        for one, other in zip((*got, *given), (*want, *wanted)):
            assert one.device == other.device and one.stride() == other.stride()
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
