"""Python and FX files of CUDA programs on the CPU: their kernels' text behind the machine of `cuda.emulate`
(src/device/cuda/emulated.h), their tensors and torch's operators on the CPU.
"""

import ctypes
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import pytest

from coil_harness import ROOT, SOURCES
from emitted import BUILD, load_module

VALUES = "\ntemplate <class T> C_FN f64 c_cast_f64(T x)"  # where the part begins that a GPU and a CPU share


def emulated_machine():
    texts = [(ROOT / "src/device" / name).read_text() for name in ("grid/fibers.h", "cuda/emulated.h")]
    return "".join(text[text.index("// @piece") :] for text in texts)


class EmulatedKernels:
    """What stands for LoadedKernels."""

    machine = None

    def __init__(self, head, kernels):
        EmulatedKernels.machine = EmulatedKernels.machine or emulated_machine()
        fail = re.search(r"C_FN void c_fail\(i64\* status\) \{\n(.*?)\n\}\n", head, re.DOTALL)[0]
        machine = re.sub(r"C_FN void c_fail.*\n", lambda _: fail, self.machine)
        text = (
            "#define __grid_constant__\n"
            + machine
            + head[head.index(VALUES) :]
            + "".join(kernels).replace('extern "C" __global__', "__global__")
            + (SOURCES / "emulated_calls.h").read_text()
        )
        for kernel in kernels:
            name, cluster = re.search(r"(coil_\w+)\(", kernel)[1], re.search(r"__cluster_dims__\((\d+)", kernel)
            text += (
                f'extern "C" void {name}_run(const i64* words, const u64* grid, u32 block) {{ run({name}, words, '
                f"grid, block, {cluster[1] if cluster else 1}); }}\n"
            )
        folder = pathlib.Path(BUILD) / "python-kernels"
        folder.mkdir(exist_ok=True)
        library = folder / f"{hashlib.sha256(text.encode()).hexdigest()}.emulated.so"
        if not library.exists():
            with tempfile.TemporaryDirectory(dir=folder) as work:
                (pathlib.Path(work) / "kernels.cpp").write_text(text)
                done = subprocess.run(
                    [
                        "g++",
                        "-std=c++20",
                        "-O1",
                        "-fwrapv",
                        "-w",
                        "-fPIC",
                        "-shared",
                        "-ffp-contract=off",
                        "kernels.cpp",
                        "-o",
                        "kernels.so",
                    ],
                    cwd=work,
                    capture_output=True,
                    text=True,
                )
                assert done.returncode == 0, done.stderr[:4000]
                os.replace(pathlib.Path(work) / "kernels.so", library)
        self.library = ctypes.CDLL(str(library))

    def find(self, name):
        return self.library[f"{name}_run"]

    def launch(self, kernel, words, grid, block, shared, maps=()):
        kernel.function(words, (ctypes.c_uint64 * 3)(*grid), ctypes.c_uint(block))


def with_emulated_kernels(path):
    """The file with its kernels behind the machine; its device stays the GPU."""
    text = re.sub(
        r"^KERNELS = LoadedKernels\(.*$",
        "from emulated_cuda import EmulatedKernels\nKERNELS = EmulatedKernels(KERNEL_HEAD, KERNEL_TEXTS)",
        path.read_text(),
        flags=re.MULTILINE,
    )
    emulated = path.with_name("emulated_" + path.name)
    emulated.write_text(text)
    return emulated


def on_the_cpu(path):
    """The file with the CPU for its device, and its kernels behind the machine."""
    emulated = with_emulated_kernels(path)
    text = (
        emulated.read_text()
        .replace('DEVICE = torch.device("cuda:0")', 'DEVICE = torch.device("cpu")')
        .replace("operators(cuda=LibraryCall, cpu=HostLibraryCall)", "operators(cpu=HostLibraryCall)")
        .replace("operators(cuda=", "operators(cpu=")
        .replace("@cuda:0", "")
    )
    emulated.write_text(text)
    return emulated


def load_emulated(path):
    return load_module(on_the_cpu(path))


@pytest.fixture(scope="module", autouse=True)
def library_calls_of_its_own():
    """Programs of CUDA that are emulated bring torch's library calls for the CPU; those of the CPU's programs come back
    after them.
    """
    libraries = lambda: getattr(sys.modules.get("_coil_wrapper"), "libraries", {})
    kept = libraries().pop("cpu", None)
    yield
    libraries().pop("cpu", None)
    if kept:
        libraries()["cpu"] = kept
