"""Arithmetic of kernels in Triton: torch's answers where Triton's own operators have others (ir/scalar.h)."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


# @piece c_max
@triton.jit
def c_max(a, b):
    return tl.where((a > b) | (a != a), a, b)


# @piece c_min
@triton.jit
def c_min(a, b):
    return tl.where((a < b) | (a != a), a, b)


# @piece c_fmax
@triton.jit
def c_fmax(a, b):
    return tl.where((a > b) | (b != b), a, b)


# @piece c_fmin
@triton.jit
def c_fmin(a, b):
    return tl.where((a < b) | (b != b), a, b)


# @piece c_sign
@triton.jit
def c_sign(x):
    return tl.cast(x > 0, x.dtype) - tl.cast(x < 0, x.dtype)


# @piece c_div_float
@triton.jit
def c_div_float(x, y):
    if x.dtype == tl.float32:
        return tl.div_rn(x, y)
    return x / y


# @piece c_recip
@triton.jit
def c_recip(x):
    return c_div_float(tl.cast(1, x.dtype), x)


# @piece c_sqrt
@triton.jit
def c_sqrt(x):
    if x.dtype == tl.float32:
        return tl.sqrt_rn(x)
    return tl.sqrt(x)


# @piece c_sigmoid
@triton.jit
def c_sigmoid(x):
    one = tl.cast(1, x.dtype)
    return one / (one + libdevice.exp(-x))


# @piece c_shl
@triton.jit
def c_shl(x, n):
    inside = (n >= 0) & (n < x.dtype.primitive_bitwidth)
    return tl.where(inside, x << tl.where(inside, n, 0), 0)


# @piece c_shr
@triton.jit
def c_shr(x, n):
    most: tl.constexpr = x.dtype.primitive_bitwidth - 1
    inside = (n >= 0) & (n <= most)
    shifted = x >> tl.where(inside, n, most)
    if x.dtype.is_int_signed():
        return shifted
    return tl.where(inside, shifted, 0)


# @piece c_truncdiv
@triton.jit
def c_truncdiv(x, y):
    return tl.where(y == 0, 0, x // tl.where(y == 0, 1, y))


# @piece c_fmod
# What is left after c_truncdiv, with the sign of x.
@triton.jit
def c_fmod(x, y):
    return tl.where(y == 0, 0, x - c_truncdiv(x, y) * y)


# @piece c_rem
# Python's %: the sign of y.
@triton.jit
def c_rem(x, y):
    r = c_fmod(x, y)
    return tl.where((r != 0) & ((r < 0) ^ (y < 0)), r + y, r)


# @piece c_floordiv
# Python's //.
@triton.jit
def c_floordiv(x, y):
    q = c_truncdiv(x, y)
    r = x - q * y
    return tl.where((y != 0) & (r != 0) & ((r < 0) ^ (y < 0)), q - 1, q)


# @piece c_rem_float
@triton.jit
def c_rem_float(x, y):
    r = libdevice.fmod(x, y)
    return tl.where((r != 0) & ((r < 0) ^ (y < 0)), r + y, r)


# @piece c_floordiv_float
# As in torch's div_floor_floating, which is exact where x / y would round up to a whole number.
@triton.jit
def c_floordiv_float(x, y):
    quotient = c_div_float(x, y)
    r = libdevice.fmod(x, y)
    d = c_div_float(x - r, y)
    d = tl.where((r != 0) & ((y < 0) ^ (r < 0)), d - 1, d)
    f = tl.floor(d)
    f = tl.where(d - f > 0.5, f + 1, f)
    f = tl.where(d == 0, libdevice.copysign(d, quotient), f)
    return tl.where(y == 0, quotient, f)


# @piece c_pow_int
# A negative exponent gives 0, but for the bases 1 and -1.
@triton.jit
def c_pow_int(x, y):
    least = tl.where(x == 1, 1, 0)
    if x.dtype.is_int_signed():
        least = tl.where(x == -1, tl.where((y & 1) != 0, -1, 1), least)
    result = tl.where(y < 0, least, 1)
    base = x
    left = tl.where(y < 0, 0, y)
    for _ in range(x.dtype.primitive_bitwidth):
        result = tl.cast(tl.where((left & 1) != 0, result * base, result), x.dtype)
        base = base * base
        left = left >> 1
    return result


# @piece c_round_f16
@triton.jit
def c_round_f16(x):
    return tl.cast(tl.cast(x, tl.float16), tl.float32)


# @piece c_round_bf16
@triton.jit
def c_round_bf16(x):
    return tl.cast(tl.cast(x, tl.bfloat16), tl.float32)


# Floats of 8 bits, whose memory is taken for bytes, as every GPU has them: f32's own rounding, made to cut at their
# last digit by a large number added; what overflows is infinity in e5m2, the greatest number in e4m3fn.
# @piece c_put_float8
@triton.jit
def c_put_float8(x, SHIFT: tl.constexpr, LEAST: tl.constexpr, LIMIT: tl.constexpr, BEYOND: tl.constexpr):
    bits = tl.cast(x, tl.uint32, bitcast=True)
    u = bits & 0x7FFFFFFF
    e = tl.where((u & 0x7F800000) < LEAST, LEAST, u & 0x7F800000)
    big = tl.cast(e + (SHIFT << 23), tl.float32, bitcast=True)
    cut = tl.cast(tl.cast(u, tl.float32, bitcast=True) + big, tl.uint32, bitcast=True)
    made = cut - tl.cast(big, tl.uint32, bitcast=True) + ((e - LEAST) >> SHIFT)
    made = tl.where(u > 0x7F800000, 0x7F, tl.where(u >= LIMIT, BEYOND, made))
    return tl.cast(((bits >> 24) & 0x80) | made, tl.uint8)


# @piece c_put_f8e5m2
@triton.jit
def c_put_f8e5m2(x):
    return c_put_float8(x, 21, 0x38800000, 0x47800000, 0x7C)


# @piece c_put_f8e4m3fn
@triton.jit
def c_put_f8e4m3fn(x):
    return c_put_float8(x, 20, 0x3C800000, 0x43E80000, 0x7E)


# @piece c_get_f8e5m2
@triton.jit
def c_get_f8e5m2(x):
    return tl.cast(tl.cast(tl.cast(x, tl.uint16) << 8, tl.float16, bitcast=True), tl.float32)


# @piece c_get_f8e4m3fn
@triton.jit
def c_get_f8e4m3fn(x):
    bits = tl.cast(x, tl.uint32)
    size = tl.cast((bits & 0x7F) << 20, tl.float32, bitcast=True) * 1.329227995784916e36  # 2^120
    whole = tl.where((bits & 0x7F) == 0x7F, 0x7FC00000, tl.cast(size, tl.uint32, bitcast=True))
    return tl.cast(whole | ((bits & 0x80) << 24), tl.float32, bitcast=True)


# @piece c_round_f8e5m2
@triton.jit
def c_round_f8e5m2(x):
    return c_get_f8e5m2(c_put_f8e5m2(x))


# @piece c_round_f8e4m3fn
@triton.jit
def c_round_f8e4m3fn(x):
    return c_get_f8e4m3fn(c_put_f8e4m3fn(x))


# @piece c_combine_sum
@triton.jit
def c_combine_sum(a, b):
    return a + b


# @piece c_combine_prod
@triton.jit
def c_combine_prod(a, b):
    return a * b


# @piece c_combine_or
@triton.jit
def c_combine_or(a, b):
    return a | b


# @piece c_combine_and
@triton.jit
def c_combine_and(a, b):
    return a & b


# @piece c_combine_xor
@triton.jit
def c_combine_xor(a, b):
    return a ^ b


# @piece c_argmax
# The first extreme and its place; NaN counts as extreme.
@triton.jit
def c_argmax(a, at_a, b, at_b):
    better = (b > a) | ((b != b) & (a == a))
    same = (b == a) | ((b != b) & (a != a))
    take = better | (same & (at_b < at_a))
    return tl.where(take, b, a), tl.where(take, at_b, at_a)


# @piece c_argmin
@triton.jit
def c_argmin(a, at_a, b, at_b):
    better = (b < a) | ((b != b) & (a == a))
    same = (b == a) | ((b != b) & (a != a))
    take = better | (same & (at_b < at_a))
    return tl.where(take, b, a), tl.where(take, at_b, at_a)


# @piece c_soft
# A maximum with the sum of exponentials under it; what was summed under a lower maximum is scaled down. Equal maxima,
# infinite ones among them, are not.
@triton.jit
def c_soft(m, sum_m, n, sum_n):
    most = c_max(m, n)
    of_m = tl.where(m == most, 1.0, libdevice.exp(m - most))
    of_n = tl.where(n == most, 1.0, libdevice.exp(n - most))
    return most, sum_m * of_m + sum_n * of_n


# @piece c_moments
# Mean, sum of squares about it, and number of values, of two sets together.
@triton.jit
def c_moments(mean_a, squares_a, count_a, mean_b, squares_b, count_b):
    count = count_a + count_b
    share = tl.where(count == 0.0, 0.0, count_b / count)
    apart = mean_b - mean_a
    return mean_a + apart * share, squares_a + squares_b + apart * apart * count_a * share, count


# @piece c_logaddexp
# log(exp(a) + exp(b)), which of two infinities is that infinity.
@triton.jit
def c_logaddexp(a, b):
    most = c_max(a, b)
    least = c_min(a, b)
    together = most + libdevice.log1p(libdevice.exp(least - most))
    return tl.where((most == least) & (tl.abs(most) == float("inf")), most, together)


# @piece c_fail
# Where `failed` is true, the host is told, and the kernels behind this one (runtime/plan/plan.h).
@triton.jit
def c_fail(failed, status):
    if failed != 0:
        tl.store(tl.cast(tl.load(status + 1), tl.pointer_type(tl.int64)), 1)
        words = tl.cast(tl.load(status + 2), tl.pointer_type(tl.int64))
        for k in range(tl.load(status + 3)):
            tl.store(words + 4 * k, 1)


# @piece c_check
# An index that data decides, and whether it lies inside. It fails where one does not, of those that are there.
@triton.jit
def c_check(index, size, there, status):
    index = tl.cast(index, tl.int64)
    inside = (index >= 0) & (index < size)
    c_fail(tl.reduce(tl.cast(there & (inside == 0), tl.int32), None, c_combine_or), status)
    return index, inside


# What sorts a row: numbers in the order of the elements, a NaN above infinity, zeros alike, to which the place in the
# row is added, so that equal elements stay in their order.
# @piece c_order_of_float
@triton.jit
def c_order_of_float(x):
    x = tl.cast(x, tl.float32)
    bits = tl.cast(tl.cast(x, tl.int32, bitcast=True), tl.int64)
    order = tl.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
    return tl.where(x != x, 0x7FFFFFFF, order)


# @piece c_order_of_integer
@triton.jit
def c_order_of_integer(x):
    return tl.cast(x, tl.int64)


# @piece c_with_place
# What is behind a row's end comes last.
@triton.jit
def c_with_place(order, at, n, BLOCK: tl.constexpr, DESCENDING: tl.constexpr):
    if DESCENDING:
        order = -order
    return tl.where(at < n, order, 1 << 40) * BLOCK + at


# @piece c_place
@triton.jit
def c_place(row, BLOCK: tl.constexpr):
    return row & (BLOCK - 1)


# @piece c_random
@triton.jit
def c_random(seed, salt, at):
    at = tl.cast(at, tl.int64)
    block = at >> 2
    a = tl.cast(block & 0xFFFFFFFF, tl.uint32)
    b = tl.cast((block >> 32) & 0xFFFFFFFF, tl.uint32)
    c = tl.zeros_like(a) + tl.cast(tl.cast(salt, tl.int64) & 0xFFFFFFFF, tl.uint32)
    d = tl.zeros_like(a)
    key0 = tl.cast(seed & 0xFFFFFFFF, tl.uint32)
    key1 = tl.cast((seed >> 32) & 0xFFFFFFFF, tl.uint32)
    for _ in tl.static_range(10):
        high_a = tl.umulhi(a, tl.full(a.shape, 0xD2511F53, tl.uint32))
        low_a = a * tl.full(a.shape, 0xD2511F53, tl.uint32)
        high_c = tl.umulhi(c, tl.full(a.shape, 0xCD9E8D57, tl.uint32))
        low_c = c * tl.full(a.shape, 0xCD9E8D57, tl.uint32)
        a = high_c ^ b ^ key0
        c = high_a ^ d ^ key1
        b = low_c
        d = low_a
        key0 = key0 + tl.full(a.shape, 0x9E3779B9, tl.uint32)
        key1 = key1 + tl.full(a.shape, 0xBB67AE85, tl.uint32)
    word = at & 3
    return tl.where(word == 0, a, tl.where(word == 1, b, tl.where(word == 2, c, d)))
