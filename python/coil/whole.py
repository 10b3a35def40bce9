"""What torch would write out otherwise than Coil likes it while AOTAutograd traces.

Interpolation stays one operator: torch would write it out in gathers before it differentiates, so that its gradient
would be scatters; Coil knows both as they are, and gathers the gradient. An einsum that multiplies matrices becomes a
matmul of permuted operands, by which attention is recognized; torch would put views of further dimensions around it.
"""

import contextlib
import itertools

import torch
from torch._C import DispatchKey
from torch._decomp import meta_table
from torch._decomp.decompositions import upsample_compute_output_size
from torch._prims_common import suggest_memory_format
from torch.fx.experimental.symbolic_shapes import statically_known_true

from . import _native

_KEYS = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)
_NAMES = (
    *(f"upsample_nearest{n}d" for n in (1, 2, 3)),
    *(f"_upsample_nearest_exact{n}d" for n in (1, 2, 3)),
    *("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d"),
)


def _of_sizes(operator, written_out):
    """What `operator.vec` does, by `operator` with sizes and a factor for each dimension. Of no pictures at all,
    `written_out` makes it: torch has no shapes for such a call.
    """

    def call(input, output_size, *rest):
        if statically_known_true(input.numel() == 0):
            return written_out(input, output_size, *rest)
        *corners, factors = rest
        sizes = upsample_compute_output_size(input.size(), output_size, factors)
        return operator(input, sizes, *corners, *(factors or [None] * len(sizes)))

    return call


# What eager gives channels last where the operand is.
_KEEP_LAYOUT = {
    *("upsample_nearest2d_backward", "_upsample_nearest_exact2d_backward"),
    *("upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d"),
    *("upsample_bilinear2d_backward", "upsample_trilinear3d_backward"),
}


def _shape(name):
    """The shape of an operator's result, also for sizes that are symbols: torch knows it by what it would write it out
    in, which on a GPU lies otherwise than eager's, or not at all.
    """

    def call(operand, output_size, *rest):
        sizes = rest[0] if name.endswith("_backward") else (*operand.shape[:2], *output_size)
        made = operand.new_empty(sizes)
        return made.to(memory_format=suggest_memory_format(operand)) if name in _KEEP_LAYOUT else made

    return call


def _shapes():
    """Operators of which torch has no such function in Python."""
    names = (*_NAMES, *(f"{name}_backward" for name in _NAMES))
    operators = {getattr(torch.ops.aten, name).default: _shape(name) for name in names}
    return {operator: shape for operator, shape in operators.items() if operator not in meta_table}


_EINSUM = torch.ops.aten.einsum.default


def _einsum(equation, tensors, *, path=None):
    product = _native.matrix_product(equation) if len(tensors) == 2 else None
    if product:
        (a, b), (left, right, turned, result) = tensors, product
        if (a.ndim, b.ndim) == (len(left), len(right)):
            summed = right[-1] if turned else right[-2]
            if statically_known_true(a.shape[left[-1]] == b.shape[summed]):
                b = b.permute(right)
                return torch.matmul(a.permute(left), b.transpose(-2, -1) if turned else b).permute(result)
    return _EINSUM._op_dk(DispatchKey.CompositeImplicitAutograd, equation, tensors, path=path)


@contextlib.contextmanager
def operators():
    """While this lasts. Dynamo compiles one graph at a time, so that no other thread traces meanwhile."""
    before = [(_EINSUM, dict(_EINSUM.py_kernels))]
    for key in _KEYS:
        _EINSUM.py_kernels[key] = _einsum
    _EINSUM._dispatch_cache.clear()
    for name, overload in itertools.product(_NAMES, ("vec", "default")):
        packet = getattr(torch.ops.aten, name)
        operator = getattr(packet, overload)
        before.append((operator, dict(operator.py_kernels)))
        for key in _KEYS:
            kernel = operator.py_kernels.pop(key, None)
            if kernel is not None and overload == "vec":
                operator.py_kernels[key] = _of_sizes(packet.default, kernel)
        operator._dispatch_cache.clear()
    shapes = _shapes()
    for operator, shape in shapes.items():
        before.append((operator, dict(operator.py_kernels)))
        operator.py_kernels[DispatchKey.Meta] = shape
        operator._dispatch_cache.clear()
    meta_table.update(shapes)
    try:
        yield
    finally:
        for operator in shapes:
            del meta_table[operator]
        for operator, kernels in reversed(before):
            operator.py_kernels.clear()
            operator.py_kernels.update(kernels)
            operator._dispatch_cache.clear()
