"""Functions that kernels of other modules call, by their own names and through this module."""

import triton
import triton.language as tl

OFFSET = tl.constexpr(1.5)


@triton.jit
def twice(x):
    return x * 2


@triton.jit
def clipped(x):
    return tl.minimum(twice(x), 3.0)
