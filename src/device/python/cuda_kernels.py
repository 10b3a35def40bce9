"""Kernels of a GPU: compiled by NVRTC and launched by the driver, both opened through ctypes."""

import concurrent.futures
import ctypes
import hashlib
import os
import pathlib
import tempfile

import torch

from .program import DEVICE, KERNELS
from .tensors import check

# @piece cuda_kernels
# ---- Kernels: compiled once by NVRTC for the GPU at hand, kept by the hash of their text, launched by the driver ----


def open_nvrtc():
    """The library that COIL_NVRTC names or that lies in that folder; else one that the loader finds, that of torch's
    packages, or a toolkit's."""
    names, folders = (
        ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"),
        ("", "lib64", "lib", "nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"),
    )
    within = lambda base: [
        path for folder in folders for name in names if (path := pathlib.Path(base) / folder / name).exists()
    ]
    if given := os.environ.get("COIL_NVRTC"):
        paths = within(given) if os.path.isdir(given) else [pathlib.Path(given)]
    else:
        toolkits = filter(None, (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"))
        paths = [
            *names,
            *within(pathlib.Path(torch.__file__).parents[1]),
            *(path for base in toolkits for path in within(base)),
        ]
    for path in paths:
        try:
            library = ctypes.CDLL(str(path))
        except OSError:
            continue
        for beside in path.parent.glob("libnvrtc-builtins*.so*") if isinstance(path, pathlib.Path) else ():
            ctypes.CDLL(str(beside), mode=ctypes.RTLD_GLOBAL)  # NVRTC opens it by its bare name
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        return library
    raise RuntimeError(
        "no NVRTC (libnvrtc.so) found for this program's kernels: install nvidia-cuda-nvrtc, or set COIL_NVRTC to the "
        "library or its folder"
    )


def compile_unit(nvrtc, source, flags):
    """CUDA text to a cubin."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()

    def read(what):
        getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        getattr(nvrtc, f"nvrtcGet{what}")(program, text)
        return text.raw

    status = nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None)
    try:
        status = status or nvrtc.nvrtcCompileProgram(
            program, len(flags), (ctypes.c_char_p * len(flags))(*map(str.encode, flags))
        )
        if status:
            log = read("ProgramLog").decode(errors="replace") if program else ""
            raise RuntimeError(
                f"NVRTC refused this program's kernels: {nvrtc.nvrtcGetErrorString(status).decode()}: {log[:2000]}"
            )
        return read("CUBIN")
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def compile_kernels(head, kernels, flags, arch):
    """Cubins, each of several kernels behind `head`; those that are in the cache are not compiled. They are written
    aside and renamed."""
    nvrtc, major, minor = open_nvrtc(), ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    flags = [f"-arch={arch}", *flags]
    folder = pathlib.Path(
        os.environ.get("COIL_CACHE")
        or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "coil" / "python"
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = pathlib.Path(tempfile.gettempdir())

    def made(source):
        path = folder / (
            hashlib.sha256("\0".join([f"nvrtc {major.value}.{minor.value}", *flags, source]).encode()).hexdigest()
            + ".cubin"
        )
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=folder) as work:
                (pathlib.Path(work) / "kernels.cubin").write_bytes(compile_unit(nvrtc, source, flags))
                os.replace(pathlib.Path(work) / "kernels.cubin", path)
        return path.read_bytes()

    jobs = min(os.cpu_count() or 1, 16)
    units = max(1, min(jobs, len(kernels) // 4))  # a unit costs its head
    with concurrent.futures.ThreadPoolExecutor(jobs) as threads:
        return list(threads.map(made, (head + "".join(kernels[unit::units]) for unit in range(units))))


def device_arch(least):
    """`sm_90`, of the GPU that the program is for; refuses one below `least`."""
    check(torch.cuda.is_available(), f"this program runs on {DEVICE}, but torch finds no GPU")
    major, minor = torch.cuda.get_device_capability(DEVICE)
    check(
        10 * major + minor >= least,
        f"this program's kernels need sm_{least} or later, but {DEVICE} is sm_{major}{minor}",
    )
    return f"sm_{major}{minor}"


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_int), ("rest", ctypes.c_int * 15)]


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(LaunchAttribute)),
        ("count", ctypes.c_uint),
    ]


class LoadedKernels:
    """Cubins on the device. `early`: kernels wait themselves for the one before them, and are launched while it
    runs."""

    SHARED_UNASKED, INVALID_CONTEXT = 48 << 10, 201

    def __init__(self, cubins, early):
        torch.empty(1, device=DEVICE)  # makes torch's context
        self.driver, self.early, self.context, self.modules = ctypes.CDLL("libcuda.so.1"), early, ctypes.c_void_p(), []
        with torch.cuda.device(DEVICE):
            torch.cuda.synchronize()
            self.done(self.driver.cuCtxGetCurrent(ctypes.byref(self.context)), "find the device's context")
            for cubin in cubins:
                self.modules.append(ctypes.c_void_p())
                self.done(
                    self.driver.cuModuleLoadData(ctypes.byref(self.modules[-1]), cubin), "load this program's kernels"
                )

    def done(self, status, what):
        if status:
            name = ctypes.c_char_p()
            self.driver.cuGetErrorName(status, ctypes.byref(name))
            raise RuntimeError(f"CUDA cannot {what}: {(name.value or b'error').decode()}")

    def find(self, name):
        function = ctypes.c_void_p()
        for module in self.modules:
            if not self.driver.cuModuleGetFunction(ctypes.byref(function), module, name.encode()):
                return function
        raise RuntimeError(f"this program's cubins have no kernel {name}")

    def tensor_map(self, address, sizes, strides, element, box, swizzle):
        """A descriptor of a tensor for the GPU's copy engine, the outermost dimension first; strides in bytes."""
        rank = len(box)
        inner_first = lambda kind, numbers: (kind * rank)(*reversed(numbers))
        sizes, box = inner_first(ctypes.c_uint64, sizes), inner_first(ctypes.c_uint32, box)
        steps, outer = (ctypes.c_uint32 * rank)(*[1] * rank), inner_first(ctypes.c_uint64, (*strides[:-1], 0))
        outer = (ctypes.c_uint64 * rank)(*outer[1:], 0)
        room = (ctypes.c_uint64 * 24)()
        made = (ctypes.c_uint64 * 16).from_buffer(room, -ctypes.addressof(room) % 64)
        promoted_to_128_bytes = 2
        self.done(
            self.driver.cuTensorMapEncodeTiled(
                made, element, rank, ctypes.c_void_p(address), sizes, outer, box, steps, 0, swizzle,
                promoted_to_128_bytes, 0,
            ),
            f"describe a tensor of {sizes[::-1]} elements to the copy engine",
        )  # fmt: skip
        version = ctypes.c_int()
        self.driver.cuDriverGetVersion(ctypes.byref(version))
        if version.value <= 13010 and sum((s - 1) * t for s, t in zip(sizes[::-1], strides)) + 1 < 128 << 10:
            made[1] &= ~(1 << 21)  # a bit that these drivers set for small tensors, and must not
        return made

    def launch(self, kernel, words, grid, block, shared, maps=()):
        """`words`: pointers, then numbers, then the status, as the kernel's parameters lie; `maps` are behind them."""
        each = None
        if maps:
            places = [ctypes.addressof(words) + 8 * k for k in range(len(words))] + [ctypes.addressof(m) for m in maps]
            each = (ctypes.c_void_p * len(places))(*places)
        if shared > self.SHARED_UNASKED:
            self.done(
                self.driver.cuFuncSetAttribute(kernel.function, 8, shared),
                f"give {kernel.__name__} {shared} bytes of shared memory",
            )
        size = ctypes.c_size_t(ctypes.sizeof(words))
        extra = None if maps else (ctypes.c_void_p * 5)(1, ctypes.addressof(words), 2, ctypes.addressof(size), 0)
        with torch.cuda.device(DEVICE):
            stream = ctypes.c_void_p(torch.cuda.current_stream(DEVICE).cuda_stream)
            if self.early:
                dependent = LaunchAttribute(id=6, value=1)  # programmatic stream serialization
                config = LaunchConfig(grid, (block, 1, 1), shared, stream, ctypes.pointer(dependent), 1)
                run = lambda: self.driver.cuLaunchKernelEx(ctypes.byref(config), kernel.function, each, extra)
            else:
                run = lambda: self.driver.cuLaunchKernel(
                    kernel.function, *grid, block, 1, 1, shared, stream, each, extra
                )
            status = run()
            if status == self.INVALID_CONTEXT:  # a thread in which torch has not used the device
                self.driver.cuCtxSetCurrent(self.context)
                status = run()
        self.done(status, f"launch {kernel.__name__} on a grid of {grid}")


class Kernel:
    """A compiled kernel, launched on torch's current stream. A grid with a 0 in it launches nothing."""

    def __init__(self, description):
        self.__name__, self.__doc__ = description.__name__, description.__doc__
        self.function = KERNELS.find(self.__name__)

    def __call__(self, buffers, scalars, grid, block, shared=0, failure=0, maps=()):
        """`failure`: the status for the kernel to tell of its failure, or to see another's; 0 for none. `maps`: the
        tensors that it takes descriptors of, as (buffer, offset, sizes, strides, element, box, swizzle)."""
        grid = (*grid, 1, 1)[:3]
        if min(grid) <= 0:
            return
        words = [*(b.data_ptr() for b in buffers), *scalars, failure]
        check(all(-(2**63) <= word < 2**63 for word in words), "the sizes of this call overflow 64 bits")
        made = [KERNELS.tensor_map(words[buffer] + offset, *rest) for buffer, offset, *rest in maps]
        KERNELS.launch(self, (ctypes.c_int64 * len(words))(*words), grid, block, shared, made)
