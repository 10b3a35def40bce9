"""Makes src/runtime/cuda/groups/peer_sums.ptx, which the runtime loads, of peer_sums.cu.

    python tools/compile_peer_sums.py LIBNVRTC [OUTPUT]

Packages run where no compiler is, so that the kernels are a part of the runtime; the driver compiles their PTX for the
device that is there.
"""

import ctypes
import pathlib
import re
import sys

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "src/runtime/cuda/groups"
OPTIONS = [b"--gpu-architecture=compute_80", b"--std=c++17", b"-default-device"]
# The oldest driver that Coil takes, 12.0, knows this version, and no instruction of these kernels is newer.
VERSION, OLDEST = r"\.version \d+\.\d+", ".version 8.0"


def compiled(nvrtc):
    """The PTX as text."""
    for part in pathlib.Path(nvrtc).parent.glob("libnvrtc-builtins.so.*"):
        ctypes.CDLL(str(part), mode=ctypes.RTLD_GLOBAL)
    library = ctypes.CDLL(str(nvrtc))
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    text = (FOLDER / "peer_sums.cu").read_text().encode()
    library.nvrtcCreateProgram(ctypes.byref(program), text, b"peer_sums.cu", 0, None, None)
    options = (ctypes.c_char_p * len(OPTIONS))(*OPTIONS)
    failed = library.nvrtcCompileProgram(program, len(OPTIONS), options)
    if failed:
        library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        library.nvrtcGetProgramLog(program, log)
        sys.exit(log.value.decode())
    library.nvrtcGetPTXSize(program, ctypes.byref(size))
    ptx = ctypes.create_string_buffer(size.value)
    library.nvrtcGetPTX(program, ptx)
    lines = [
        re.sub(r"[ \t]+", " ", line.split("//")[0]).strip()
        for line in re.sub(VERSION, OLDEST, ptx.value.decode()).splitlines()
    ]
    return "\n".join(line for line in lines if line) + "\n"


if __name__ == "__main__":
    output = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else FOLDER / "peer_sums.ptx"
    output.write_text(compiled(sys.argv[1]))
