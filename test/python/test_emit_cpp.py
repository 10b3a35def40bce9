"""`--emit=cpp`: source that compiles alone gives the same bits as the compiled program; as a program and as a
library.
"""

import ctypes
import pathlib
import subprocess

import pytest
import torch
from safetensors.torch import load_file, save_file

from coil_harness import COIL, ROOT, coil, coil_ok, eager, export, named_inputs, run, same

BUILD = pathlib.Path(COIL).resolve().parents[1]


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(16, 32), torch.nn.Linear(32, 8)
        self.register_buffer("calls", torch.zeros(3))

    def forward(self, x):
        self.calls.add_(1)
        z = self.second(torch.relu(self.first(x)))
        return {
            "p": torch.softmax(z, -1),
            "sum": z.sum(0),
            "part": x[:, ::2],
            "calls": self.calls * 2,
            "n": x.shape[0] * 3,
        }


class Numbers(torch.nn.Module):
    def forward(self, x, y, i):
        table = x.cumsum(1)
        y.mul_(2)
        return (
            table[:, i],
            (x.double().exp() / 3).to(torch.bfloat16),
            y.argmax(-1),
            x.view(-1)[1:] // 2,
            torch.cat([x, y], 1).transpose(0, 1),
        )


def build(source, output, *flags):
    command = [
        "g++",
        "-std=c++20",
        *flags,
        f"-I{ROOT}/include",
        source,
        "-o",
        output,
        f"-L{BUILD}/lib",
        "-lcoil_runtime",
        f"-Wl,-rpath,{BUILD}/lib",
    ]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]


def emitted(module, args, folder, dynamic=None):
    torch.manual_seed(0)
    export(module, args, folder / "m.pt2", dynamic)
    coil_ok("compile", folder / "m.pt2", "-o", folder / "m.cpp", "--emit", "cpp")
    return folder / "m.cpp"


def run_program(program, inputs, folder):
    save_file(inputs, folder / "program.in")
    done = subprocess.run([program, folder / "program.in", folder / "program.out"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return load_file(folder / "program.out")


def assert_same_bits(got, want):
    assert got.keys() == want.keys()
    wrong = [name for name in want if not same(got[name], want[name])]
    assert not wrong, wrong


# Without optimisation as well: what kernels need is in the source.
@pytest.mark.parametrize("flags", [["-O0"], ["-O2", "-Wall", "-Wno-unused-function", "-Werror"]], ids=" ".join)
def test_same_bits_as_the_package(tmp_path, flags):
    rows = torch.export.Dim("rows", min=2, max=64)
    source = emitted(Classifier(), (torch.randn(5, 16),), tmp_path, ({0: rows},))
    build(source, tmp_path / "m", "-DCOIL_MAIN", *flags)
    for size in (5, 64):
        given = {"x": torch.randn(size, 16)}
        assert_same_bits(run_program(tmp_path / "m", given, tmp_path), run(tmp_path / "m.pt2", given, tmp_path))


def test_dtypes_views_indices_and_mutation(tmp_path):
    args = (torch.randn(6, 40), torch.randn(6, 40), torch.tensor([3, -1, 7]))
    source = emitted(Numbers(), args, tmp_path)
    build(source, tmp_path / "m", "-DCOIL_MAIN")
    given = named_inputs(Numbers(), args)
    got = run_program(tmp_path / "m", given, tmp_path)
    assert_same_bits(got, run(tmp_path / "m.pt2", given, tmp_path))
    assert same(got["y"], eager(Numbers(), args)[1]["y"])


class Nothing(torch.nn.Module):
    """A weight without elements, and an argument that nobody reads."""

    def __init__(self):
        super().__init__()
        self.register_buffer("none", torch.zeros(0, 3))

    def forward(self, x):
        return self.none, self.none @ x.new_ones(3, 2), torch.arange(5) * 2


def test_weights_without_elements(tmp_path):
    args = (torch.randn(4, 3),)
    build(emitted(Nothing(), args, tmp_path), tmp_path / "m", "-DCOIL_MAIN", "-O1", "-Wall", "-Werror")
    given = named_inputs(Nothing(), args)
    assert_same_bits(run_program(tmp_path / "m", given, tmp_path), run(tmp_path / "m.pt2", given, tmp_path))


def test_errors_are_one_line(tmp_path):
    rows = torch.export.Dim("rows", min=2, max=64)
    build(emitted(Classifier(), (torch.randn(5, 16),), tmp_path, ({0: rows},)), tmp_path / "m", "-DCOIL_MAIN")
    for given, message in [
        ({"x": torch.randn(65, 16)}, "must be at most 64"),
        ({"x": torch.randn(5, 17)}, "input 'x' has size 17 in dimension 1"),
        ({"x": torch.ones(5, 16).long()}, "input 'x' is int64, but the program takes float32"),
        ({"y": torch.randn(5, 16)}, "input x is missing"),
    ]:
        save_file(given, tmp_path / "in")
        done = subprocess.run([tmp_path / "m", tmp_path / "in", tmp_path / "out"], capture_output=True, text=True)
        assert (
            done.returncode == 1
            and done.stderr.startswith("coil: error: ")
            and done.stderr.count("\n") == 1
            and message in done.stderr
        ), done.stderr
        assert not (tmp_path / "out").exists()
    (tmp_path / "m.weights.safetensors").unlink()
    assert subprocess.run([tmp_path / "m", tmp_path / "in", tmp_path / "out"], capture_output=True).returncode == 1


class CTensor(ctypes.Structure):
    """coil_tensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int),
        ("rank", ctypes.c_int16),
        ("on_device", ctypes.c_int16),
        ("sizes", ctypes.c_int64 * 16),
        ("strides", ctypes.c_int64 * 16),
        ("owner", ctypes.c_void_p),
    ]

    @staticmethod
    def of(t):
        fill = (0,) * (16 - t.dim())
        return CTensor(
            t.data_ptr(), {torch.float32: 7}[t.dtype], t.dim(), 0, (*t.shape, *fill), (*t.stride(), *fill), None
        )


def test_as_a_library_through_the_c_entry(tmp_path):
    module = Classifier()
    build(emitted(module, (torch.randn(5, 16),), tmp_path), tmp_path / "libm.so", "-O1", "-fPIC", "-shared")
    library = ctypes.CDLL(str(tmp_path / "libm.so"))
    library.coil_program_open.restype = ctypes.c_void_p
    library.coil_last_error.restype = ctypes.c_char_p
    program = ctypes.c_void_p(library.coil_program_open(None))
    assert program, library.coil_last_error()
    count = ctypes.c_size_t()
    library.coil_program_outputs(program, ctypes.byref(count))
    outputs = (CTensor * count.value)()
    strided = torch.randn(16, 5).t()  # columns where the program was compiled for rows
    for calls in (1, 2):
        assert (
            library.coil_program_run(program, ctypes.byref(CTensor.of(strided)), ctypes.c_size_t(1), outputs, count)
            == 0
        ), library.coil_last_error()
        want = torch.softmax(module.second(torch.relu(module.first(strided))), -1)
        got = torch.frombuffer(ctypes.string_at(outputs[0].data, 160), dtype=torch.float32).view(5, 8)
        torch.testing.assert_close(got, want)
        state = torch.frombuffer(ctypes.string_at(outputs[3].data, 12), dtype=torch.float32)
        assert state.tolist() == [2.0 * calls] * 3  # kept from call to call
        for output in outputs:
            library.coil_tensor_release(ctypes.byref(output))
    library.coil_program_close(program)


def test_same_source_twice(tmp_path):
    source = emitted(Classifier(), (torch.randn(5, 16),), tmp_path)
    first, weights = source.read_bytes(), (tmp_path / "m.weights.safetensors").read_bytes()
    coil_ok("compile", tmp_path / "m.pt2", "-o", source, "--emit", "cpp")
    assert (source.read_bytes(), (tmp_path / "m.weights.safetensors").read_bytes()) == (first, weights)
    assert coil("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.x", "--emit", "fortran").returncode == 2
