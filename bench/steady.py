"""Memory over very many calls: resident bytes of one process at its start and its end, for a function under
torch.compile, for a loaded package and for emitted C++ through its C entry, with the sizes that change now and then.

usage: steady.py [--calls 1000000]
"""

import argparse
import ctypes
import gc
import pathlib
import subprocess
import sys
import tempfile
import time

import torch

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "build/python"), str(ROOT / "test/python")]
import coil  # noqa: E402
from test_emit_cpp import CTensor  # noqa: E402


def resident():
    """KiB of this process."""
    gc.collect()
    return next(
        int(line.split()[1])
        for line in pathlib.Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmRSS")
    )


def steady(name, call, arguments, calls):
    """Calls in turn with each of the arguments; the first thousandth of the calls is warm-up."""
    for i in range(max(100, calls // 1000)):
        call(*arguments[i % len(arguments)])
    seen, start = [resident()], time.perf_counter()
    for _ in range(4):
        for i in range(calls // 4):
            call(*arguments[i % len(arguments)])
        seen.append(resident())
    microseconds = (time.perf_counter() - start) / calls * 1e6
    print(
        f"{name:42} {calls} calls, {microseconds:.2f} us each; KiB resident at the start and after each quarter: "
        f"{', '.join(map(str, seen))}",
        flush=True,
    )
    return seen


def emitted(model, rows, dynamic, folder):
    """A call of the program in C++, built into a library: its inputs are borrowed, its output is let go of."""
    archive, source, built = folder / "m.pt2", folder / "m.cpp", folder / "libm.so"
    torch.export.save(torch.export.export(model, rows, dynamic_shapes=dynamic), archive)
    subprocess.run([ROOT / "build/bin/coil", "compile", archive, "-o", source, "--emit", "cpp"], check=True)
    flags = ["-std=c++20", "-O1", "-fPIC", "-shared", f"-I{ROOT}/include"]
    runtime = [f"-L{ROOT}/build/lib", "-lcoil_runtime", f"-Wl,-rpath,{ROOT}/build/lib"]
    subprocess.run(["g++", *flags, source, "-o", built, *runtime], check=True)
    library = ctypes.CDLL(str(built))
    library.coil_program_open.restype = ctypes.c_void_p
    program, one, output = ctypes.c_void_p(library.coil_program_open(None)), ctypes.c_size_t(1), CTensor()

    def call(x):
        failed = library.coil_program_run(program, ctypes.byref(CTensor.of(x)), one, ctypes.byref(output), one)
        assert not failed
        library.coil_tensor_release(ctypes.byref(output))

    return call


def run(calls):
    torch.set_num_threads(1)
    x, many = torch.randn(16), [torch.randn(16) for _ in range(30)]
    rows = [(torch.randn(n, 16),) for n in (3, 5, 8)]
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).eval()
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        path, dynamic = pathlib.Path(folder) / "m.coil", ({0: torch.export.Dim("n", min=1, max=64)},)
        coil.compile(model, rows[0], dynamic_shapes=dynamic).save(path)
        cases = {
            "torch.compile, one kernel": (torch.compile(lambda t: t + 1, backend="coil", fullgraph=True), [(x,)]),
            "torch.compile, thirty inputs": (
                torch.compile(lambda *xs: sum(xs), backend="coil", fullgraph=True),
                [tuple(many)],
            ),
            "torch.compile, three sizes in turn": (
                torch.compile(model, backend="coil", fullgraph=True, dynamic=True),
                rows,
            ),
            "coil.load, torch, three sizes in turn": (coil.load(path), rows),
            "coil.load, NumPy": (coil.load(path), [(rows[0][0].numpy(),)]),
            "C++, three sizes in turn": (emitted(model, rows[0], dynamic, pathlib.Path(folder)), rows),
        }
        return {name: steady(name, call, arguments, calls) for name, (call, arguments) in cases.items()}


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--calls", type=int, default=1_000_000)
    run(options.parse_args().calls)
