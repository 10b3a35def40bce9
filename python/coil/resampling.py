"""Interpolation as single operators in the graphs that AOTAutograd traces: torch has Python kernels that take it apart
there, into gathers with f32 values that are as large as the result several times over.
"""

import contextlib
import unittest.mock

import torch
from torch._C import DispatchKey
from torch._decomp.decompositions import upsample_compute_output_size

from . import _native

aten = torch.ops.aten

_DIMENSIONS = {"1d": 1, "2d": 2, "3d": 3}
_KEYS = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)
_NAMES = (
    *(f"upsample_nearest{d}" for d in _DIMENSIONS),
    *(f"_upsample_nearest_exact{d}" for d in _DIMENSIONS),
    *("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d"),
)


def _by_factors(packet, dimensions):
    """The overload that takes a size or factors, by way of the one that takes both, as torch's own in C++; sizes may be
    symbols.
    """

    def compute(input, output_size, *rest):
        *corners, factors = rest
        size = upsample_compute_output_size(input.size(), output_size, factors)
        return packet.default(input, size, *corners, *(factors or [None] * dimensions))

    return compute


def _is_known(packet, known):
    backward = getattr(aten, f"{packet.__name__}_backward", None)
    return str(packet.default) in known and backward is not None and str(backward.default) in known


def has_free_sizes(inputs):
    return any(
        isinstance(value, torch.SymInt)
        or (isinstance(value, torch.Tensor) and any(type(n) is torch.SymInt for n in value.shape))
        for value in inputs
    )


@contextlib.contextmanager
def kept_whole():
    """While AOTAutograd traces. Not for gradients where sizes are free: torch has no shapes of those operators then."""
    known = set(_native.operators())
    changed = []
    with contextlib.ExitStack() as stack:
        for name in _NAMES:
            packet = getattr(aten, name, None)
            if packet is None or not _is_known(packet, known):
                continue
            whole = {key: kernel for key, kernel in packet.default.py_kernels.items() if key not in _KEYS}
            vec = packet.vec.py_kernels | dict.fromkeys(_KEYS, _by_factors(packet, _DIMENSIONS[name[-2:]]))
            for op, kernels in ((packet.default, whole), (packet.vec, vec)):
                stack.enter_context(unittest.mock.patch.object(op, "py_kernels", kernels))
                changed.append(op)
                op._dispatch_cache.clear()
        try:
            yield
        finally:
            stack.close()
            for op in changed:
                op._dispatch_cache.clear()
