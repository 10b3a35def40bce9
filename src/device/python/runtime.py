"""Library operations by Coil's runtime library, of programs for the CPU."""

import ctypes
import ctypes.util
import os

from .imports import HERE
from .program import DTYPE_NUMBERS, TORCH_OPS

# @piece runtime
# ---- Coil's runtime library, where it is there: operations and threads of compiled packages, so the same bits ----


class CTensor(ctypes.Structure):
    """`coil_tensor` of coil/runtime.h."""

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
        return CTensor(
            t.data_ptr(),
            DTYPE_NUMBERS[t.dtype],
            t.dim(),
            0,
            (ctypes.c_int64 * 16)(*t.shape),
            (ctypes.c_int64 * 16)(*t.stride()),
            None,
        )


def load_runtime():
    """The library that COIL_RUNTIME names (`none`: do without, in torch), one beside this file, or one that the
    system's loader finds."""
    given = os.environ.get("COIL_RUNTIME", "")
    beside = HERE / "libcoil_runtime.so"
    path = given or (str(beside) if beside.exists() else ctypes.util.find_library("coil_runtime"))
    if not path or path == "none":
        return None
    library = ctypes.CDLL(path)
    library.coil_last_error.restype = ctypes.c_char_p
    library.coil_op_create.restype = ctypes.c_void_p
    return library


RUNTIME = load_runtime()


# Exchanges that torch's process groups carry out, whether or not the runtime has them.
EXCHANGES = {
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "send",
    "receive",
    "wait_collective",
}
EXCHANGES |= {"one_shot_all_reduce", "two_shot_all_reduce", "begin_peer_sum", "comm_barrier"}


class HostLibraryCall:
    """A call site of a library operation on the CPU: views in, views out."""

    def __init__(self, op, **attributes):
        self.op, self.attributes, self.handle = op, attributes, None
        if RUNTIME and op not in EXCHANGES:
            self.handle = ctypes.c_void_p(RUNTIME.coil_op_create(op.encode()))
            if not self.handle and op not in TORCH_OPS:
                raise RuntimeError(RUNTIME.coil_last_error().decode())
            for name, value in attributes.items() if self.handle else ():
                self.set(name.encode(), value)

    def set(self, name, value):
        kinds = {int: ("int", ctypes.c_int64), float: ("float", ctypes.c_double), str: ("string", ctypes.c_char_p)}
        many = isinstance(value, list)
        kind, ctype = kinds[type(value[0]) if value else int] if many else kinds[type(value)]
        items = [v.encode() if isinstance(v, str) else v for v in (value if many else [value])]
        setter = getattr(RUNTIME, f"coil_op_set_{kind}{'s' if many else ''}")
        setter(self.handle, name, (ctype * len(items))(*items), ctypes.c_size_t(len(items))) if many else setter(
            self.handle, name, ctype(items[0])
        )

    def __call__(self, inputs, outputs):
        if not self.handle:
            if self.op not in TORCH_OPS:
                raise RuntimeError(
                    f"the library operation '{self.op}' needs Coil's runtime library: set COIL_RUNTIME to "
                    "libcoil_runtime.so"
                )
            TORCH_OPS[self.op](inputs, outputs, **self.attributes)
            return
        given, results = (
            (CTensor * len(inputs))(*map(CTensor.of, inputs)),
            (CTensor * len(outputs))(*map(CTensor.of, outputs)),
        )
        if RUNTIME.coil_op_run(
            self.handle, given, ctypes.c_size_t(len(inputs)), results, ctypes.c_size_t(len(outputs))
        ):
            raise RuntimeError(RUNTIME.coil_last_error().decode())
