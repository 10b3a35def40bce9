"""The files in src/device are whole programs of their languages: each compiles by itself, with what it includes."""

import ctypes
import subprocess

import pytest

from coil_harness import ROOT
from test_cuda_text import NVRTC

DEVICE = ROOT / "src/device"
CUDA = sorted(p.name for p in (DEVICE / "cuda").glob("*.cuh"))


def compile_by_nvrtc(source, arch):
    """The complaints."""
    library = ctypes.CDLL(str(next(NVRTC.rglob("libnvrtc.so*"))))
    for builtins in NVRTC.rglob("libnvrtc-builtins*.so*"):
        ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    assert library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"all.cu", 0, None, None) == 0
    flags = [f"-arch={arch}".encode(), f"-I{DEVICE}".encode(), b"-default-device", b"-diag-suppress=177"]
    failed = library.nvrtcCompileProgram(program, len(flags), (ctypes.c_char_p * len(flags))(*flags))
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    return log.value.decode() or ("failed" if failed else "")


@pytest.mark.skipif(NVRTC is None, reason="nvidia-cuda-nvrtc is not installed")
@pytest.mark.parametrize("name", CUDA)
def test_each_cuda_file(name):
    assert compile_by_nvrtc(f'#include "cuda/{name}"\n', "sm_90a") == ""


@pytest.mark.skipif(NVRTC is None, reason="nvidia-cuda-nvrtc is not installed")
@pytest.mark.parametrize("arch", ["sm_80", "sm_100"])
def test_cuda_files_together(arch):
    names = [f"cuda/{name}" for name in CUDA] + ["grid/random.h", "shared/sizes.h", "shared/special.h"]
    assert compile_by_nvrtc("".join(f'#include "{name}"\n' for name in names), arch) == ""


def test_machine_on_the_cpu(tmp_path):
    (tmp_path / "all.cpp").write_text('#include "cuda/emulated.h"\n')
    command = ["g++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wno-unused", f"-I{DEVICE}", tmp_path / "all.cpp"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr[:2000]


def test_python_files_are_a_package():
    """What a file takes from another is there (ruff knows only names within one)."""
    missing = []
    for path in sorted((DEVICE / "python").glob("*.py")):
        for line in path.read_text().split("\n"):
            if not line.startswith("from ."):
                continue
            other, names = line.removeprefix("from .").split(" import ")
            text = (DEVICE / "python" / f"{other}.py").read_text()
            for name in names.split(", "):
                made = (f"def {name}(", f"class {name}", f"import {name}", f"{name} =", f"{name},", f", {name}")
                if not any(mark in text for mark in made):
                    missing.append(f"{path.name}: {name} of {other}.py")
    assert not missing, missing


def test_every_file_is_named_by_the_compiler():
    """A file that nothing reads is no part of Coil."""
    sources = "".join(p.read_text() for p in (ROOT / "src").rglob("*.cpp"))
    folders = ("cpp", "cuda", "grid", "metal", "shared", "triton", "page")
    files = [f"{folder}/{p.name}" for folder in folders for p in (DEVICE / folder).iterdir()]
    unread = [name for name in files if f'"{name}"' not in sources]
    assert len(files) > 30 and not unread, unread
