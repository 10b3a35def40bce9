"""Programs over the CPU and another device as C++, Python and FX. C++ runs on the device `metal`, whose machine here is
the library of test/fake_metal, and on the driver of test/fake_cuda; Python and FX of programs for CUDA run behind the
machine of `cuda.emulate`.
"""

import copy
import os
import pathlib
import subprocess

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.export import Dim

from coil_harness import ENVIRONMENT, ROOT, coil, differences, eager
from emitted import BUILD, call_flat, emit, load_module, run_program
from emulated_cuda import library_calls_of_its_own, load_emulated, with_emulated_kernels  # noqa: F401 (a fixture)
from test_emit_cuda import CUDA as TO_CUDA, PLACE
from test_metal import WITH_MACHINE, needs_machine
from test_several_devices import (
    CASES,
    Constants,
    Crossing,
    Program,
    compiled,
    export_over,
    far,
    kernels_for_the_fake_driver,
    numbers,
    results,
)

NVRTC = [*TO_CUDA, "--set", f"cuda.nvrtc={pathlib.Path(PLACE or '.').parent}"]
needs_nvrtc = pytest.mark.skipif(PLACE is None, reason="nvidia-cuda-nvrtc is not installed")
BUILD_STRICTLY = [
    "g++",
    "-std=c++20",
    "-O1",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unused-parameter",
    "-Wno-unused-variable",
    "-DCOIL_MAIN",
    f"-I{ROOT}/include",
]


class Aliases(Program):
    """Results that are inputs or views of them, on either device; states of both; numbers on the CPU."""

    def __init__(self):
        super().__init__()
        self.register_buffer("near", torch.zeros(3))
        self.register_buffer("weight", numbers(3, seed=5))

    def forward(self, x, y, s, n):
        self.near += (x * s).sum(0).cpu() + self.weight
        y.mul_(2)
        x.add_(n)
        return x, y.T, x.select(0, 1), self.near * 1, y + self.near, (x * s + n).cpu()


CASES = CASES | {
    "aliases": (
        Aliases,
        lambda n=4: (far(numbers(n, 3)), numbers(n, 3, seed=1), torch.tensor(0.5), far(torch.tensor(3.0))),
    )
}


def archived(name, folder):
    program, args = CASES[name]
    module = program()
    export_over(module, args(), folder / "m.pt2")
    return module, args


def program_of(source):
    program = source.with_suffix("")
    library = os.path.join(BUILD, "lib")
    link = ["-o", program, f"-L{library}", "-lcoil_runtime", f"-Wl,-rpath,{library}"]
    done = subprocess.run([*BUILD_STRICTLY, source, *link], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
    return program


@needs_machine
@pytest.mark.parametrize("name", CASES)
def test_cpp_on_metal(name, tmp_path):
    """The results are the package's bit for bit."""
    module, args = archived(name, tmp_path)
    program = program_of(emit(tmp_path / "m.pt2", "cpp", "--device", "metal"))
    package = compiled(tmp_path, "--device", "metal")
    before, want = eager(module, args())
    done, got = run_program(program, before, WITH_MACHINE)
    assert done.returncode == 0, done.stderr
    assert not differences(got, want)
    same = results(package, before, tmp_path, env=WITH_MACHINE)
    assert got.keys() == same.keys() and all(torch.equal(got[k], same[k]) for k in same)


@needs_machine
def test_cpp_for_several_sizes(tmp_path):
    module, (_, args) = Crossing(), CASES["crossing"]
    rows = Dim("rows", min=3, max=500)
    export_over(module, args(), tmp_path / "m.pt2", ({0: rows}, {0: rows}, None))
    program = program_of(emit(tmp_path / "m.pt2", "cpp", "--device", "metal"))
    for n in (4, 3, 300):
        before, want = eager(module, args(n))
        done, got = run_program(program, before, WITH_MACHINE)
        assert done.returncode == 0, done.stderr
        assert not differences(got, want)


@needs_machine
def test_cpp_tells_of_failures(tmp_path):
    """An index out of range on either device."""

    class Fails(Program):
        def forward(self, table, i, y, k):
            y.add_(torch.ops.aten.index.Tensor(table, [i.to(self.far)]).cpu())
            return y[k]

    module = Fails()
    args = (far(numbers(7, 3)), torch.tensor([1, 2]), numbers(2, 3), torch.tensor([1]))
    export_over(module, args, tmp_path / "m.pt2")
    program = program_of(emit(tmp_path / "m.pt2", "cpp", "--device", "metal"))
    before, want = eager(module, args)
    done, got = run_program(program, before, WITH_MACHINE)
    assert done.returncode == 0 and not differences(got, want), done.stderr
    for wrong in ({"i": torch.tensor([1, 7])}, {"k": torch.tensor([2])}):
        done, got = run_program(program, before | wrong, WITH_MACHINE)
        assert done.returncode == 1 and "an index read from a tensor is out of range" in done.stderr, done.stderr


class Steps(Program):
    """Copies that the host goes on from, beside its own work."""

    def forward(self, x, y, s):
        a = (x * 2 + s).relu()
        ahead = a.to("cpu", non_blocking=True)
        beside = y.cumsum(0)
        there = (ahead + beside).to(self.far)
        return (there * x).sum(0), ahead * 2, there.cpu().softmax(-1), a.cpu()


@needs_nvrtc
def test_cpp_on_the_driver_of_tests(tmp_path):
    """Copies that the host goes on from land in page-locked memory, and who reads them waits."""
    module, args = Steps(), CASES["crossing"][1]
    export_over(module, args(), tmp_path / "m.pt2")
    source = emit(tmp_path / "m.pt2", "cpp", *NVRTC)
    text = source.read_text()
    assert ", page_locked);" in text and "landing.add(" in text and "landing.await(" in text
    run_on_the_driver(module, args, source, tmp_path)


@needs_nvrtc
def test_cpp_draws_on_the_host(tmp_path):
    module, args = Constants(), CASES["constants"][1]
    export_over(module, args(), tmp_path / "m.pt2")
    source = emit(tmp_path / "m.pt2", "cpp", *NVRTC)
    assert "seeds.renew_on_host(" in source.read_text()
    run_on_the_driver(module, args, source, tmp_path)


def run_on_the_driver(module, args, source, tmp_path):
    kernels = kernels_for_the_fake_driver(compiled(tmp_path, *NVRTC))
    fake = {"LD_LIBRARY_PATH": os.path.join(BUILD, "lib", "fake_cuda"), "COIL_FAKE_CUDA_KERNELS": kernels}
    before, want = eager(module, args())
    done, got = run_program(program_of(source), before, ENVIRONMENT | fake)
    assert done.returncode == 0, done.stderr
    assert not differences(got, want)


@pytest.mark.parametrize("form", ["python", "fx"])
@pytest.mark.parametrize("name", [*CASES, "steps"])
def test_python_behind_the_machine(name, form, tmp_path):
    if name == "steps":
        module, args = Steps(), CASES["crossing"][1]
        export_over(module, args(), tmp_path / "m.pt2")
    else:
        module, args = archived(name, tmp_path)
    source = emit(tmp_path / "m.pt2", form, *TO_CUDA)
    text = source.read_text()
    assert "\nHOST_KERNELS = " in text and "\nKERNELS = " in text
    program = load_emulated(source)
    function = program.call if form == "python" else program.load()
    _, want = eager(copy.deepcopy(module), args())
    got = call_flat(function if form == "python" else lambda flat: function(*flat), module, args(), {}, want)
    assert not differences(got, want)


@pytest.mark.parametrize("form", ["python", "fx"])
def test_python_for_several_sizes(form, tmp_path):
    module, (_, args) = Crossing(), CASES["crossing"]
    rows = Dim("rows", min=3, max=500)
    export_over(module, args(), tmp_path / "m.pt2", ({0: rows}, {0: rows}, None))
    program = load_emulated(emit(tmp_path / "m.pt2", form, *TO_CUDA))
    for n in (4, 3, 300):
        _, want = eager(copy.deepcopy(module), args(n))
        function = program.call if form == "python" else lambda flat: program.load()(*flat)
        assert not differences(call_flat(function, module, args(n), {}, want), want)


@pytest.mark.parametrize("form", ["python", "fx"])
def test_python_tells_of_failures(form, tmp_path):
    """A kernel of the GPU that failed is told of before the CPU writes to its input what follows from it."""

    class Fails(Program):
        def forward(self, table, i, y):
            y.add_(torch.ops.aten.index.Tensor(table, [i.to(self.far)]).cpu())
            return y + 1

    args = (far(numbers(7, 3)), torch.tensor([1, 2]), numbers(2, 3))
    export_over(Fails(), args, tmp_path / "m.pt2")
    program = load_emulated(emit(tmp_path / "m.pt2", form, *TO_CUDA))
    function = (lambda *flat: program.call(list(flat))) if form == "python" else program.load()
    y = args[2].clone()
    with pytest.raises(RuntimeError, match="an index read from a tensor is out of range"):
        function(args[0], torch.tensor([1, 7]), y)
    assert torch.equal(y, args[2])
    (got,) = function(args[0], args[1], y)
    assert torch.equal(y, args[2] + args[0][args[1]]) and torch.equal(got, y + 1)


# (The others ask for values.)
@pytest.mark.parametrize("name", ["crossing", "indexes", "writes", "large", "aliases"])
def test_nodes_lie_where_they_should(name, tmp_path):
    """By fake tensors of a GPU: what a launch is given lies there, and what a kernel of the CPU is given here."""
    archived(name, tmp_path)
    module = load_module(with_emulated_kernels(emit(tmp_path / "m.pt2", "fx", *TO_CUDA))).load()
    seen = []

    class Look(torch.fx.Interpreter):
        def call_function(self, target, args, kwargs):
            where = {"launch": "cuda", "kernel": "cpu"}.get(getattr(target, "_opname", ""))
            if where:
                seen.append(where)
                assert {t.device.type for t in (*args[1], *args[2])} == {where}
            return super().call_function(target, args, kwargs)

    args = CASES[name][1]()
    where = lambda t: "cuda:0" if hasattr(t, "is_far") else "cpu"
    with FakeTensorMode(allow_non_fake_inputs=True):
        Look(module).run(*(torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=where(t)) for t in args))
    assert set(seen) == {"cuda", "cpu"}


def test_what_is_refused(tmp_path):
    """A form that has no programs for the device says so, and moves nothing; all on one device is asked for."""
    archived("crossing", tmp_path)
    done = coil("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.py", "--device", "metal", "--emit", "python")
    assert done.returncode == 1 and "--emit=python writes no programs for metal:0" in done.stderr
    done = coil("compile", tmp_path / "m.pt2", "-o", tmp_path / "t.pt2", "--device", "metal", "--emit", "aoti")
    assert done.returncode == 1 and not (tmp_path / "t.pt2").exists()
    assert "this one lies on metal:0 and cpu: compile with --set one_device=true" in done.stderr
    text = emit(tmp_path / "m.pt2", "cpp", "--device", "metal", "--set", "one_device=true").read_text()
    assert "device_copy" not in text and "check_input(input_ports[1], inputs[1]);" in text
