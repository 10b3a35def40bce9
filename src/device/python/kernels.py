"""Kernels of the CPU: compiled once, kept by the hash of their text."""

import concurrent.futures
import ctypes
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile

import torch

from .program import HOST_KERNELS
from .runtime import RUNTIME

# @piece kernels
# ---- Kernels: compiled once, kept by the hash of their text ----


def require_isa(isa):
    """Fails on a machine that lacks the instruction set, where kernels would only crash."""
    levels = {"avx512": "avx512f avx512bw avx512cd avx512dq avx512vl", "avx2": "avx2 fma bmi1 bmi2", "baseline": ""}
    level, *extensions = isa.split("+")
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return
    present = {flag.replace("_", "") for line in lines if line.startswith("flags") for flag in line.split()}
    missing = [
        f for f in [*levels.get(level, level).split(), *(e.replace("-", "") for e in extensions)] if f not in present
    ]
    if present and missing:
        raise RuntimeError(f"this program's kernels need the instruction set {isa}, which this machine does not have")


def compile_host_kernels(source, flags):
    """Builds the shared object, unless an equal one is in the cache that loads; written aside and renamed."""
    compiler = os.environ.get("CXX") or next(filter(shutil.which, ("c++", "g++", "clang++")), None)
    if not compiler:
        raise RuntimeError("no C++ compiler found for this program's kernels: install g++ or set CXX")
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout
    if "clang" in version:
        flags = [f for i, f in enumerate(flags) if f != "--param" and flags[i - 1] != "--param"]
    key = hashlib.sha256("\0".join([version, *flags, source]).encode()).hexdigest()
    folder = pathlib.Path(
        os.environ.get("COIL_CACHE")
        or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "coil" / "python"
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = pathlib.Path(tempfile.gettempdir())
    made = folder / f"{key}.so"
    if made.exists():
        try:
            return ctypes.CDLL(str(made))
        except OSError:  # damaged: made anew
            pass
    with tempfile.TemporaryDirectory(dir=folder) as work:
        (pathlib.Path(work) / "kernels.cpp").write_text(source)
        done = subprocess.run(
            [compiler, *flags, "kernels.cpp", "-o", "kernels.so", "-lm"], cwd=work, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"{compiler} refused this program's kernels: {done.stderr[:2000]}")
        os.replace(pathlib.Path(work) / "kernels.so", made)
    return ctypes.CDLL(str(made))


def int64s(values):
    """As an array for kernels; refuses what 64 bits cannot hold."""
    if any(not -(2**63) <= v < 2**63 for v in values):
        raise RuntimeError("the sizes of this call overflow 64 bits")
    return (ctypes.c_int64 * len(values))(*values)


class HostKernel:
    """A compiled kernel, to be run over [0, extent) in pieces of at least `grain`, in any order and at once."""

    def __init__(self, description):
        self.__name__, self.__doc__ = description.__name__, description.__doc__
        self.entry = getattr(HOST_KERNELS, description.__name__)
        self.entry.restype = None

    def __call__(self, buffers, scalars, extent, grain, failure=None):
        status, scalars = ctypes.c_int64(0), int64s(scalars)
        pointers = (ctypes.c_void_p * (len(buffers) + 1))(*(b.data_ptr() for b in buffers), ctypes.addressof(status))
        if RUNTIME:
            RUNTIME.coil_parallel_for(self.entry, pointers, scalars, *int64s([extent, grain]))
        elif extent > 0:
            pieces = max(1, min(torch.get_num_threads(), extent // grain))
            cuts = [ctypes.c_int64(extent * i // pieces) for i in range(pieces + 1)]
            list(THREADS.map(lambda i: self.entry(pointers, scalars, cuts[i], cuts[i + 1]), range(pieces)))
        if failure and status.value:
            raise RuntimeError(failure)


THREADS = concurrent.futures.ThreadPoolExecutor(max_workers=max(1, torch.get_num_threads()))
