"""Interpolation stays one operator while AOTAutograd traces. Torch would write it out in gathers before it
differentiates, so that its gradient would be scatters; Coil knows both as they are, and gathers the gradient.
"""

import contextlib
import itertools

import torch
from torch._C import DispatchKey
from torch._decomp.decompositions import upsample_compute_output_size
from torch._prims_common import suggest_memory_format

_KEYS = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)
_NAMES = (
    *(f"upsample_nearest{n}d" for n in (1, 2, 3)),
    *(f"_upsample_nearest_exact{n}d" for n in (1, 2, 3)),
    *("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d"),
)


def _of_sizes(operator):
    """What `operator.vec` does, by `operator` with sizes and a factor for each dimension."""

    def call(input, output_size, *rest):
        *corners, factors = rest
        sizes = upsample_compute_output_size(input.size(), output_size, factors)
        return operator(input, sizes, *corners, *(factors or [None] * len(sizes)))

    return call


# Gradients that eager gives channels last where the gradient of the result is.
_KEEP_LAYOUT = ("upsample_nearest2d", "_upsample_nearest_exact2d", "upsample_bilinear2d", "upsample_trilinear3d")


def _gradient_of(name):
    """The shape of an operator's gradient, also for sizes that are symbols, of which torch's own knows nothing."""

    def call(grad, output_size, input_size, *rest):
        made = grad.new_empty(input_size)
        return made.to(memory_format=suggest_memory_format(grad)) if name in _KEEP_LAYOUT else made

    return call


@contextlib.contextmanager
def interpolation():
    """While this lasts. Dynamo compiles one graph at a time, so that no other thread traces meanwhile."""
    before = []
    for name, overload in itertools.product(_NAMES, ("vec", "default")):
        packet = getattr(torch.ops.aten, name)
        operator = getattr(packet, overload)
        before.append((operator, dict(operator.py_kernels)))
        for key in _KEYS:
            kernel = operator.py_kernels.pop(key, None)
            if kernel is not None and overload == "vec":
                operator.py_kernels[key] = _of_sizes(packet.default)
        operator._dispatch_cache.clear()
    for name in _NAMES:
        operator = getattr(torch.ops.aten, f"{name}_backward").default
        before.append((operator, dict(operator.py_kernels)))
        operator.py_kernels.setdefault(DispatchKey.Meta, _gradient_of(name))
        operator._dispatch_cache.clear()
    try:
        yield
    finally:
        for operator, kernels in before:
            operator.py_kernels.clear()
            operator.py_kernels.update(kernels)
            operator._dispatch_cache.clear()
