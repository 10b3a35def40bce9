"""Arithmetic of sizes, as Triton prints it (sym/print.h)."""

import triton
import triton.language as tl


# @piece sizes
@triton.jit
def coil_floordiv(a, b):
    q = a // b
    return q - tl.where((a % b != 0) & ((a < 0) != (b < 0)), 1, 0)


@triton.jit
def coil_ceildiv(a, b):
    q = a // b
    return q + tl.where((a % b != 0) & ((a < 0) == (b < 0)), 1, 0)


@triton.jit
def coil_mod(a, b):
    r = a % b
    return r + tl.where((r != 0) & ((r < 0) != (b < 0)), b, 0)


@triton.jit
def coil_pow(a, b):
    r = a - a + b - b + 1
    while b > 0:
        r = r * a
        b = b - 1
    return r


@triton.jit
def coil_shr(a, b):
    return tl.cast(a, tl.int64) >> tl.minimum(b, 63)
