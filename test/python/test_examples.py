"""The C, Rust and ctypes examples run a package and give what `coil run` gives."""

import json
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "build/lib/libcoil_runtime.so"


def read(path):
    """The tensors of a safetensors file as {name: (dtype, shape, bytes)}."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    return {n: (h["dtype"], h["shape"], data[8 + length :][slice(*h["data_offsets"])]) for n, h in header.items()}


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples")
    model = ROOT / "examples/digits/digits.pt2"
    coil = ROOT / "build/bin/coil"
    if not (model.exists() and coil.exists() and LIBRARY.exists()):
        pytest.skip("needs the built command, the built runtime and the digits net")
    subprocess.run([coil, "compile", model, "-o", folder / "m.coil"], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def inputs(package):
    """A batch for the digits net: the ports say what it takes."""
    sys.path.insert(0, str(ROOT / "examples/python_ctypes"))
    import ctypes

    import run_package

    coil = run_package.load_library(str(LIBRARY))
    model = coil.coil_model_load(str(package / "m.coil").encode())
    assert model, coil.coil_last_error()
    count = ctypes.c_size_t()
    port = coil.coil_model_inputs(model, ctypes.byref(count))[0]
    coil.coil_model_input_sizes.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_int64)]
    sizes = (ctypes.c_int64 * run_package.MAX_RANK)()
    assert coil.coil_model_input_sizes(model, 0, sizes) == 0
    shape = [s if s > 0 else 4 for s in sizes[: port.rank]]
    n = 1
    for s in shape:
        n *= s
    header = json.dumps({port.name.decode(): {"dtype": "F32", "shape": shape, "data_offsets": [0, 4 * n]}}).encode()
    header += b" " * (-len(header) % 8)
    values = struct.pack(f"<{n}f", *[(i * 37 % 17) / 17 for i in range(n)])
    path = package / "in.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + values)
    coil.coil_model_free(model)
    return path


@pytest.fixture(scope="module")
def expected(package, inputs):
    out = package / "expected.safetensors"
    subprocess.run(
        [ROOT / "build/bin/coil", "run", package / "m.coil", "--inputs", inputs, "--outputs", out],
        check=True,
        capture_output=True,
    )
    return read(out)


def test_c_program(package, inputs, expected):
    compiler = shutil.which("gcc") or pytest.skip("needs gcc")
    program, out = package / "run_package", package / "c.safetensors"
    subprocess.run(
        [
            compiler,
            "-std=c11",
            "-Wall",
            "-Werror",
            f"-I{ROOT}/include",
            ROOT / "examples/c/run_package.c",
            f"-L{LIBRARY.parent}",
            "-lcoil_runtime",
            f"-Wl,-rpath,{LIBRARY.parent}",
            "-o",
            program,
        ],
        check=True,
    )
    subprocess.run([program, package / "m.coil", inputs, out], check=True)
    assert read(out) == expected


def test_ctypes_program(package, inputs, expected):
    out = package / "ctypes.safetensors"
    subprocess.run(
        [sys.executable, ROOT / "examples/python_ctypes/run_package.py", LIBRARY, package / "m.coil", inputs, out],
        check=True,
    )
    assert read(out) == expected


def test_rust_program(package, inputs, expected):
    compiler = shutil.which("rustc") or pytest.skip("needs rustc")
    program, out = package / "run_package_rust", package / "rust.safetensors"
    done = subprocess.run(
        [
            compiler,
            "-O",
            "-D",
            "warnings",
            ROOT / "examples/rust/run_package.rs",
            "-L",
            LIBRARY.parent,
            "-C",
            f"link-arg=-Wl,-rpath,{LIBRARY.parent}",
            "-o",
            program,
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    subprocess.run([program, package / "m.coil", inputs, out], check=True)
    assert read(out) == expected
    failed = subprocess.run([program, package / "absent.coil", inputs, out], capture_output=True, text=True)
    assert failed.returncode == 1 and failed.stderr.startswith("error: ") and "absent.coil" in failed.stderr


def test_errors_are_one_line(package, inputs):
    run = subprocess.run(
        [
            sys.executable,
            ROOT / "examples/python_ctypes/run_package.py",
            LIBRARY,
            package / "absent.coil",
            inputs,
            package / "x",
        ],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 1 and run.stderr.startswith("error: ") and run.stderr.count("\n") == 1
