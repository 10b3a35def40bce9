"""Special functions of kernels in Triton, by the formulas of shared/special.h: in f64, on blocks. Where that ends a
loop early, here it ends when all elements of a block are done. A number that a variable holds is Triton's of f32:
those that need more stand where they are used.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from .values import c_combine_or, c_max, c_min


# @piece c_any
@triton.jit
def c_any(mask):
    return tl.reduce(tl.cast(mask, tl.int32), None, c_combine_or) != 0


# @piece c_update
# What several programs combine in one place, where Triton has no atomic operation: each tries until nobody else came
# between. `first`: the start of the memory, which exists where any place does, and is left as it is.
@triton.jit
def c_update(places, first, x, there, kind: tl.constexpr):
    if x.dtype.primitive_bitwidth == 64:
        words = tl.cast(places, tl.pointer_type(tl.int64))
        start = tl.cast(first, tl.pointer_type(tl.int64))
    elif x.dtype.primitive_bitwidth == 16:
        words = tl.cast(places, tl.pointer_type(tl.int16))
        start = tl.cast(first, tl.pointer_type(tl.int16))
    else:
        words = tl.cast(places, tl.pointer_type(tl.int32))
        start = tl.cast(first, tl.pointer_type(tl.int32))
    left = tl.broadcast_to(there, x.shape)
    old = tl.load(words, left, other=0)
    stored: tl.constexpr = x.dtype
    if x.dtype.primitive_bitwidth == 16 and x.dtype.is_floating():
        x = tl.cast(x, tl.float32)
    while c_any(left):
        value = tl.cast(tl.cast(old, stored, bitcast=True), x.dtype)
        if kind == "max":
            made = c_max(value, x)
        elif kind == "min":
            made = c_min(value, x)
        elif kind == "prod":
            made = value * x
        else:
            made = value + x
        made = tl.cast(made, stored)
        new = tl.where(left, tl.cast(made, words.dtype.element_ty, bitcast=True), 0)
        expected = tl.where(left, old, 0)
        found = tl.atomic_cas(tl.where(left, words, start), expected, new, sem="relaxed")
        left = left & (found != expected)
        old = tl.where(left, found, old)


# @piece c_update_byte
# The same where a place has a byte: the four of a word are compared and swapped together. The sum of truth values is
# whether any is true.
@triton.jit
def c_update_byte(places, first, x, there, kind: tl.constexpr):
    left = tl.broadcast_to(there, x.shape)
    start = tl.cast(first, tl.int64)
    address = tl.where(left, tl.cast(places, tl.int64), start)
    words = tl.cast(address & -4, tl.pointer_type(tl.int32))
    shift = tl.cast((address & 3) * 8, tl.int32)
    old = tl.load(words, left, other=0)
    truth: tl.constexpr = x.dtype == tl.int1
    if truth:
        x = tl.cast(x, tl.int8)
    while c_any(left):
        value = tl.cast((old >> shift) & 0xFF, x.dtype)
        if kind == "max":
            made = c_max(value, x)
        elif kind == "min":
            made = c_min(value, x)
        elif kind == "prod":
            made = value * x
        elif truth:
            made = value | x
        else:
            made = value + x
        byte = tl.cast(made, tl.int32) & 0xFF
        new = tl.where(left, (old & ~(0xFF << shift)) | (byte << shift), 0)
        expected = tl.where(left, old, 0)
        found = tl.atomic_cas(words, expected, new, sem="relaxed")
        left = left & (found != expected)
        old = tl.where(left, found, old)


# @piece c_gcd
@triton.jit
def c_gcd(x, y):
    if x.dtype.is_int_signed():
        x = tl.where(x < 0, 0 - x, x)
        y = tl.where(y < 0, 0 - y, y)
    while c_any(x != 0):
        left = tl.where(x == 0, y, y % tl.where(x == 0, 1, x))
        y = tl.where(x == 0, y, x)
        x = tl.where(x == 0, x, left)
    return y


# @piece c_digamma
@triton.jit
def c_digamma(x):
    v = tl.cast(x, tl.float64)
    negative = v < 0
    fraction = v - libdevice.trunc(v)
    tangent = libdevice.tan(3.14159265358979323846 * tl.where(negative, fraction, 0.25))
    r = tl.where(negative, -3.14159265358979323846 / tangent, 0.0)
    a = tl.where(negative, 1.0 - v, v)
    for _ in range(10):
        r = tl.where(a < 10.0, r - 1.0 / a, r)
        a = tl.where(a < 10.0, a + 1.0, a)
    z = 1.0 / (a * a)
    s = 1.0 / 132.0 - z * (691.0 / 32760.0 - z * (1.0 / 12.0))
    s = z * (1.0 / 12.0 - z * (1.0 / 120.0 - z * (1.0 / 252.0 - z * (1.0 / 240.0 - z * s))))
    r = r + libdevice.log(a) - 0.5 / a - s
    r = tl.where(negative & (fraction == 0.0), float("nan"), r)
    r = tl.where(v == 0.0, libdevice.copysign(tl.full(v.shape, float("inf"), tl.float64), v * -1.0), r)
    return tl.cast(r, x.dtype)


# @piece c_i0e
@triton.jit
def c_i0e(x):
    a = tl.abs(tl.cast(x, tl.float64))
    small = a < 20.0
    q = tl.where(small, 0.25 * a * a, 0.0)
    t = tl.full(a.shape, 1.0, tl.float64)
    s = t
    for k in range(1, 80):
        t = t * (q / tl.cast(k * k, tl.float64))
        s = s + t
    t = tl.full(a.shape, 1.0, tl.float64)
    far = t
    b = tl.where(small, 20.0, a)
    for k in range(1, 40):
        t = t * (tl.cast((2 * k - 1) * (2 * k - 1), tl.float64) / (8.0 * tl.cast(k, tl.float64) * b))
        far = far + t
    r = tl.where(small, s * libdevice.exp(a * -1.0), far / tl.sqrt(6.283185307179586 * b))
    return tl.cast(tl.where(a != a, a, r), x.dtype)


# @piece c_i0
@triton.jit
def c_i0(x):
    v = tl.cast(x, tl.float64)
    return tl.cast(c_i0e(v) * libdevice.exp(tl.abs(v)), x.dtype)


# @piece c_i1e
@triton.jit
def c_i1e(x):
    v = tl.cast(x, tl.float64)
    a = tl.abs(v)
    small = a < 20.0
    q = tl.where(small, 0.25 * a * a, 0.0)
    t = tl.where(small, 0.5 * a, 0.0)
    s = t
    for k in range(1, 80):
        t = t * (q / tl.cast(k * (k + 1), tl.float64))
        s = s + t
    t = tl.full(a.shape, 1.0, tl.float64)
    far = t
    b = tl.where(small, 20.0, a)
    for k in range(1, 40):
        t = t * (tl.cast((2 * k - 1) * (2 * k - 1) - 4, tl.float64) / (8.0 * tl.cast(k, tl.float64) * b))
        far = far + t
    r = tl.where(small, s * libdevice.exp(a * -1.0), far / tl.sqrt(6.283185307179586 * b))
    r = tl.where(a != a, a, r)
    return tl.cast(tl.where(v < 0, r * -1.0, r), x.dtype)


# @piece c_i1
@triton.jit
def c_i1(x):
    v = tl.cast(x, tl.float64)
    return tl.cast(c_i1e(v) * libdevice.exp(tl.abs(v)), x.dtype)


# @piece c_bessel_k_integral
@triton.jit
def c_bessel_k_integral(nu, x):
    h = tl.where(x > 12.0, 0.7 / tl.sqrt(x), 0.2)
    s = tl.full(x.shape, 0.5, tl.float64)
    k = tl.full(x.shape, 1.0, tl.float64)
    going = x <= 1e300
    while c_any(going):
        d = libdevice.sinh(0.5 * k * h)
        e = libdevice.exp(-2.0 * x * d * d) * libdevice.cosh(nu * k * h)
        s = tl.where(going, s + e, s)
        going = going & (e > 1e-18 * s) & (k < 199.0)
        k = k + 1.0
    return tl.where(x > 1e300, 0.0, h * s)


# @piece c_k0_small
@triton.jit
def c_k0_small(x):
    q = 0.25 * x * x
    t = tl.full(x.shape, 1.0, tl.float64)
    h = tl.full(x.shape, 0.0, tl.float64)
    i = t
    s = h
    for k in range(1, 30):
        t = t * (q / tl.cast(k * k, tl.float64))
        h = h + 1.0 / tl.cast(k, tl.float64)
        i = i + t
        s = s + t * h
    return s - (libdevice.log(0.5 * x) + 0.57721566490153286) * i


# @piece c_k1_small
@triton.jit
def c_k1_small(x):
    q = 0.25 * x * x
    t = tl.full(x.shape, 1.0, tl.float64)
    a = tl.full(x.shape, 1.0 - 2.0 * 0.57721566490153286, tl.float64)
    i = t
    s = a
    for k in range(1, 30):
        t = t * (q / tl.cast(k * (k + 1), tl.float64))
        a = a + 1.0 / tl.cast(k, tl.float64) + 1.0 / tl.cast(k + 1, tl.float64)
        i = i + t
        s = s + t * a
    return 1.0 / x + 0.5 * x * libdevice.log(0.5 * x) * i - 0.25 * x * s


# @piece c_bessel_k_ends
@triton.jit
def c_bessel_k_ends(x, v, r):
    r = tl.where(v > 0.0, r, tl.where(v == 0.0, float("inf"), float("nan")))
    return tl.cast(r, x.dtype)


# @piece c_k0e
@triton.jit
def c_k0e(x):
    v = tl.cast(x, tl.float64)
    far = v > 2.0
    near = tl.where(far, 1.0, v)
    r = libdevice.exp(near) * c_k0_small(near)
    return c_bessel_k_ends(x, v, tl.where(far, c_bessel_k_integral(0.0, tl.where(far, v, 3.0)), r))


# @piece c_k0
@triton.jit
def c_k0(x):
    v = tl.cast(x, tl.float64)
    far = v > 2.0
    r = libdevice.exp(v * -1.0) * c_bessel_k_integral(0.0, tl.where(far, v, 3.0))
    return c_bessel_k_ends(x, v, tl.where(far, r, c_k0_small(tl.where(far, 1.0, v))))


# @piece c_k1e
@triton.jit
def c_k1e(x):
    v = tl.cast(x, tl.float64)
    far = v > 2.0
    near = tl.where(far, 1.0, v)
    r = libdevice.exp(near) * c_k1_small(near)
    return c_bessel_k_ends(x, v, tl.where(far, c_bessel_k_integral(1.0, tl.where(far, v, 3.0)), r))


# @piece c_k1
@triton.jit
def c_k1(x):
    v = tl.cast(x, tl.float64)
    far = v > 2.0
    r = libdevice.exp(v * -1.0) * c_bessel_k_integral(1.0, tl.where(far, v, 3.0))
    return c_bessel_k_ends(x, v, tl.where(far, r, c_k1_small(tl.where(far, 1.0, v))))


# @piece c_j0
@triton.jit
def c_j0(x):
    return tl.cast(libdevice.j0(tl.cast(x, tl.float64)), x.dtype)


# @piece c_j1
@triton.jit
def c_j1(x):
    return tl.cast(libdevice.j1(tl.cast(x, tl.float64)), x.dtype)


# @piece c_bessel_y_ends
@triton.jit
def c_bessel_y_ends(x, v, r):
    r = tl.where(v > 0.0, r, tl.where(v == 0.0, float("-inf"), float("nan")))
    return tl.cast(r, x.dtype)


# @piece c_y0
@triton.jit
def c_y0(x):
    v = tl.cast(x, tl.float64)
    return c_bessel_y_ends(x, v, libdevice.y0(v))


# @piece c_y1
@triton.jit
def c_y1(x):
    v = tl.cast(x, tl.float64)
    return c_bessel_y_ends(x, v, libdevice.y1(v))


# @piece c_erfcx
@triton.jit
def c_erfcx(x):
    v = tl.cast(x, tl.float64)
    h = tl.cast(tl.cast(v, tl.float32), tl.float64)
    near = libdevice.exp(h * h) * libdevice.exp((v - h) * (v + h)) * libdevice.erfc(v)
    far = v >= 25.0
    w = tl.where(far, v, 25.0)
    z = 0.5 / w / w
    t = tl.full(v.shape, 1.0, tl.float64)
    s = t
    for k in range(1, 12):
        t = t * (tl.cast(1 - 2 * k, tl.float64) * z)
        s = s + t
    r = tl.where(far, s * 0.56418958354775629 / w, tl.where(v < -27.0, float("inf"), near))
    return tl.cast(r, x.dtype)


# @piece c_ndtri
@triton.jit
def c_ndtri(x):
    p = tl.cast(x, tl.float64)
    inside = (p > 0.0) & (p < 1.0)
    upper = inside & (p > 0.5)
    log = libdevice.log(tl.where(inside, tl.where(upper, 1.0 - p, p), 0.5))
    t = tl.sqrt(-2.0 * log)
    r = (2.515517 + t * (0.802853 + t * 0.010328)) / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308))) - t
    for _ in range(3):
        u = 2.5066282746310005 * (0.5 * c_erfcx(-0.70710678118654752 * r) - libdevice.exp(log + 0.5 * r * r))
        r = r - u / (1.0 + 0.5 * r * u)
    r = tl.where(p == 0.5, 0.0, tl.where(upper, r * -1.0, r))
    ends = tl.where(p == 0.0, float("-inf"), tl.where(p == 1.0, float("inf"), float("nan")))
    return tl.cast(tl.where(inside, r, ends), x.dtype)


# @piece c_zeta
@triton.jit
def c_zeta(exponent, from_):
    x = tl.cast(exponent, tl.float64)
    q = tl.cast(from_, tl.float64)
    wrong = (x < 1.0) | (q != q) | (q == float("inf"))
    pole = (wrong == 0) & (q <= 0.0) & (q == tl.floor(q))
    wrong = wrong | ((pole == 0) & (((q <= 0.0) & (x != tl.floor(x))) | (x != x)))
    fine = (x > 1.0) & (wrong == 0) & (pole == 0)
    a = tl.where(fine, q, 1.0)
    e = tl.where(fine, x * -1.0, -2.0)
    s = tl.full(x.shape, 0.0, tl.float64)
    k = tl.full(x.shape, 0.0, tl.float64)
    ended = s != 0.0
    going = fine & ((k < 10.0) | (a <= 10.0))
    while c_any(going):
        b = libdevice.pow(a, e)
        s = tl.where(going, s + b, s)
        ends = going & ((tl.abs(b) < 1e-17 * tl.abs(s)) | (k > 10000000.0))
        ended = ended | ends
        a = tl.where(going & (ends == 0), a + 1.0, a)
        k = k + 1.0
        going = going & (ends == 0) & ((k < 10.0) | (a <= 10.0))
    far = (s == 0.0) & (x > 2.5e13)
    w = libdevice.pow(a, e)
    z = 1.0 / (a * a)
    r = s + w * a / (x - 1.0) + 0.5 * w
    t = x * w / a
    r = r + t / 12.0
    t = t * ((x + 1.0) * (x + 2.0) * z)
    r = r - t / 720.0
    t = t * ((x + 3.0) * (x + 4.0) * z)
    r = r + t / 30240.0
    t = t * ((x + 5.0) * (x + 6.0) * z)
    r = r - t / 1209600.0
    t = t * ((x + 7.0) * (x + 8.0) * z)
    r = r + t / 47900160.0
    t = t * ((x + 9.0) * (x + 10.0) * z)
    r = r - t * (691.0 / 1307674368000.0)
    t = t * ((x + 11.0) * (x + 12.0) * z)
    r = r + t / 74724249600.0
    t = t * ((x + 13.0) * (x + 14.0) * z)
    r = r - t * (3617.0 / 10670622842880000.0)
    r = tl.where(ended, s, tl.where(far, float("nan"), r))
    r = tl.where(wrong, float("nan"), tl.where(pole, float("inf"), r))
    return tl.cast(tl.where(x == 1.0, float("inf"), r), exponent.dtype)


# @piece c_gamma_front
@triton.jit
def c_gamma_front(a, x):
    small = libdevice.exp(a * libdevice.log(x) - x - libdevice.lgamma(a + 1.0))
    m = (x - a) / a
    z = 1.0 / (a * a)
    d = tl.where(tl.abs(m) < 0.5, libdevice.log1p(m) - m, libdevice.log(x / a) - m)
    series = (1.0 / 12.0 - z * (1.0 / 360.0 - z * (1.0 / 1260.0 - z / 1680.0))) / a
    return tl.where(a < 20.0, small, libdevice.exp(a * d - series) / tl.sqrt(6.283185307179586 * a))


# @piece c_gamma_series
@triton.jit
def c_gamma_series(a, x, wanted):
    t = tl.full(x.shape, 1.0, tl.float64)
    s = t
    k = t
    going = wanted
    while c_any(going):
        t = tl.where(going, t * (x / (a + k)), t)
        s = tl.where(going, s + t, s)
        k = k + 1.0
        going = going & (t > s * 1e-17) & (k < 10000.0)
    return c_gamma_front(a, x) * s


# @piece c_gamma_fraction
@triton.jit
def c_gamma_fraction(a, x, wanted):
    b = x + 1.0 - a
    c = tl.full(x.shape, 1e300, tl.float64)
    d = 1.0 / b
    r = d
    k = tl.full(x.shape, 1.0, tl.float64)
    going = wanted
    while c_any(going):
        n = k * (a - k)
        b = b + 2.0
        d = n * d + b
        d = 1.0 / tl.where(tl.abs(d) < 1e-300, 1e-300, d)
        c = b + n / c
        c = tl.where(tl.abs(c) < 1e-300, 1e-300, c)
        r = tl.where(going, r * (c * d), r)
        k = k + 1.0
        going = going & (tl.abs(c * d - 1.0) >= 1e-16) & (k < 10000.0)
    return c_gamma_front(a, x) * a * r


# @piece c_gamma_large
# The upper function (`sign` 1) or the lower one (-1) where a is large and x near it, by Temme's uniform expansion
# (DLMF 8.12), as in device/shared/special.h.
@triton.jit
def c_gamma_large(a, x, sign: tl.constexpr):
    m = (x - a) / a
    d = tl.full(x.shape, 0.0, tl.float64)
    for k in tl.static_range(19):
        d = 1.0 / (20.0 - k) - m * d
    d = tl.where(tl.abs(m) < 0.1, m * m * d, m - libdevice.log1p(m))
    h = tl.where(m < 0.0, -1.0, 1.0) * tl.sqrt(2.0 * d)
    c0 = 6.707853543401498e-09
    c0 = -1.7665952736826078e-07 + h * c0
    c0 = 8.296711340953087e-07 + h * c0
    c0 = -1.85406221071516e-06 + h * c0
    c0 = -2.185448510679992e-06 + h * c0
    c0 = 3.919263178522438e-05 + h * c0
    c0 = -0.0001787551440329218 + h * c0
    c0 = 0.0003527336860670194 + h * c0
    c0 = 0.0011574074074074073 + h * c0
    c0 = -0.014814814814814815 + h * c0
    c0 = 0.08333333333333333 + h * c0
    c0 = -0.3333333333333333 + h * c0
    c1 = -1.8098550334489977e-05
    c1 = -4.018775720164609e-07 + h * c1
    c1 = 0.00020576131687242798 + h * c1
    c1 = -0.0009902263374485596 + h * c1
    c1 = 0.0026455026455026454 + h * c1
    c1 = -0.003472222222222222 + h * c1
    c1 = -0.001851851851851852 + h * c1
    c2 = 0.004133597883597883 + h * (-0.0026813271604938273 + h * 0.0007716049382716049)
    c3 = 0.0006494341563786008
    rest = c0 + (c1 + (c2 + c3 / a) / a) / a
    front = libdevice.exp(-a * d) / tl.sqrt(6.283185307179586 * a)
    return 0.5 * libdevice.erfc(sign * h * tl.sqrt(0.5 * a)) + sign * rest * front


# @piece c_igamma_parts
# Of the lower function, or of the upper one.
@triton.jit
def c_igamma_parts(a, x, lower: tl.constexpr):
    bad = (a < 0.0) | (x < 0.0) | ((a == 0.0) & ((x > 0.0) == 0)) | ((a > 1e300) & (x > 1e300))
    least = (a > 1e300) | (x == 0.0)  # of the lower function
    most = (a == 0.0) | (x > 1e300)
    unknown = (a != a) | (x != x)
    plain = (bad | least | most | unknown) == 0
    a = tl.where(plain, a, 1.0)
    x = tl.where(plain, x, 1.0)
    near = x < a + 1.0
    large = (a > 1e5) & (tl.abs(x - a) < 0.3 * a)
    series = c_gamma_series(a, x, plain & near & (large == 0))
    fraction = c_gamma_fraction(a, x, plain & (near == 0) & (large == 0))
    if lower:
        r = tl.where(large, c_gamma_large(a, x, -1.0), tl.where(near, series, 1.0 - fraction))
        r = tl.where(least, 0.0, tl.where(most, 1.0, tl.where(unknown, float("nan"), r)))
    else:
        r = tl.where(large, c_gamma_large(a, x, 1.0), tl.where(near, 1.0 - series, fraction))
        r = tl.where(least, 1.0, tl.where(most, 0.0, tl.where(unknown, float("nan"), r)))
    return tl.where(bad, float("nan"), r)


# @piece c_igamma
@triton.jit
def c_igamma(a, x):
    return tl.cast(c_igamma_parts(tl.cast(a, tl.float64), tl.cast(x, tl.float64), True), x.dtype)


# @piece c_igammac
@triton.jit
def c_igammac(a, x):
    return tl.cast(c_igamma_parts(tl.cast(a, tl.float64), tl.cast(x, tl.float64), False), x.dtype)


# @piece c_degree
@triton.jit
def c_degree(n):
    v = tl.cast(n, tl.float64)
    return tl.where(tl.abs(v) < 9e18, libdevice.trunc(v), -1.0)


# @piece c_is_odd
@triton.jit
def c_is_odd(n):
    return libdevice.fmod(n, tl.full(n.shape, 2.0, tl.float64)) != 0.0


# @piece c_chebyshev_recurrence
@triton.jit
def c_chebyshev_recurrence(x, n, first, wanted):
    p = tl.full(x.shape, 1.0, tl.float64)
    q = first
    k = tl.full(x.shape, 2.0, tl.float64)
    going = wanted & (k <= n) & (q == q)
    while c_any(going):
        r = (x + x) * q - p
        p = tl.where(going, q, p)
        q = tl.where(going, r, q)
        k = k + 1.0
        going = going & (k <= n) & (q == q)
    return tl.where(n == 0.0, 1.0, q)


# @piece c_chebyshev
# One of the four kinds: what it is at 1 and at -1, beyond which degree cosines have it (`far`), and its first degree.
@triton.jit
def c_chebyshev(x, n, top, bottom, limit, far, first):
    edge = tl.abs(x) == 1.0
    high = (n > limit) & (tl.abs(x) < 1.0)
    r = c_chebyshev_recurrence(x, n, first, (n >= 0.0) & (edge == 0) & (high == 0))
    r = tl.where(edge, tl.where(x > 0.0, top, bottom), tl.where(high, far, r))
    return tl.where(n < 0.0, 0.0, r)


# @piece c_chebyshev_t
@triton.jit
def c_chebyshev_t(x, degree):
    v = tl.cast(x, tl.float64)
    n = c_degree(degree)
    one = tl.full(v.shape, 1.0, tl.float64)
    bottom = tl.where(c_is_odd(n), -1.0, one)
    far = libdevice.cos(n * libdevice.acos(v))
    return tl.cast(c_chebyshev(v, n, one, bottom, 6.0, far, v), x.dtype)


# @piece c_chebyshev_u
@triton.jit
def c_chebyshev_u(x, degree):
    v = tl.cast(x, tl.float64)
    n = c_degree(degree)
    bottom = tl.where(c_is_odd(n), -1.0 - n, n + 1.0)
    angle = libdevice.acos(v)
    far = libdevice.sin((n + 1.0) * angle) / libdevice.sin(angle)
    return tl.cast(c_chebyshev(v, n, n + 1.0, bottom, 8.0, far, v + v), x.dtype)


# @piece c_chebyshev_v
@triton.jit
def c_chebyshev_v(x, degree):
    v = tl.cast(x, tl.float64)
    n = c_degree(degree)
    one = tl.full(v.shape, 1.0, tl.float64)
    bottom = tl.where(c_is_odd(n), -1.0 - n - n, n + n + 1.0)
    angle = libdevice.acos(v)
    far = libdevice.cos((n + 0.5) * angle) / libdevice.cos(0.5 * angle)
    return tl.cast(c_chebyshev(v, n, one, bottom, 8.0, far, v + v - 1.0), x.dtype)


# @piece c_chebyshev_w
@triton.jit
def c_chebyshev_w(x, degree):
    v = tl.cast(x, tl.float64)
    n = c_degree(degree)
    one = tl.full(v.shape, 1.0, tl.float64)
    bottom = tl.where(c_is_odd(n), -1.0, one)
    angle = libdevice.acos(v)
    far = libdevice.sin((n + 0.5) * angle) / libdevice.sin(0.5 * angle)
    return tl.cast(c_chebyshev(v, n, n + n + 1.0, bottom, 8.0, far, v + v + 1.0), x.dtype)


# @piece c_hermite
@triton.jit
def c_hermite(x, n, first, step, factor):
    p = tl.full(x.shape, 1.0, tl.float64)
    q = first
    k = p
    going = (k < n) & (n <= 512.0)
    while c_any(going):
        r = step * q - factor * k * p
        p = tl.where(going, q, p)
        q = tl.where(going, r, q)
        k = k + 1.0
        going = going & (k < n)
    q = tl.where(n > 512.0, float("nan"), q)
    return tl.where(n < 0.0, 0.0, tl.where(n == 0.0, 1.0, q))


# @piece c_hermite_h
@triton.jit
def c_hermite_h(x, degree):
    v = tl.cast(x, tl.float64)
    return tl.cast(c_hermite(v, c_degree(degree), v + v, v + v, 2.0), x.dtype)


# @piece c_hermite_he
@triton.jit
def c_hermite_he(x, degree):
    v = tl.cast(x, tl.float64)
    return tl.cast(c_hermite(v, c_degree(degree), v, v, 1.0), x.dtype)


# @piece c_laguerre
@triton.jit
def c_laguerre(x, degree):
    v = tl.cast(x, tl.float64)
    n = c_degree(degree)
    p = tl.full(v.shape, 1.0, tl.float64)
    q = 1.0 - v
    k = p
    going = (k < n) & (v != 0.0) & (q == q)
    while c_any(going):
        r = ((k + k + 1.0 - v) * q - k * p) / (k + 1.0)
        p = tl.where(going, q, p)
        q = tl.where(going, r, q)
        k = k + 1.0
        going = going & (k < n) & (q == q)
    q = tl.where((v == 0.0) | (n == 0.0), 1.0, q)
    return tl.cast(tl.where(n < 0.0, 0.0, q), x.dtype)


# @piece c_legendre
@triton.jit
def c_legendre(x, degree):
    v = tl.cast(x, tl.float64)
    n = c_degree(degree)
    p = tl.full(v.shape, 1.0, tl.float64)
    q = v
    k = p
    edge = tl.abs(v) == 1.0
    going = (k < n) & (edge == 0) & (q == q)
    while c_any(going):
        r = ((k + k + 1.0) * v * q - k * p) / (k + 1.0)
        p = tl.where(going, q, p)
        q = tl.where(going, r, q)
        k = k + 1.0
        going = going & (k < n) & (q == q)
    q = tl.where(n == 0.0, 1.0, q)
    q = tl.where(edge, tl.where((v < 0.0) & c_is_odd(n), -1.0, 1.0), q)
    return tl.cast(tl.where(n < 0.0, 0.0, q), x.dtype)


# @piece c_poisson_draw
@triton.jit
def c_poisson_draw(mean, uniform):
    rate = tl.cast(mean, tl.float64)
    u = tl.cast(uniform, tl.float64)
    large = rate > 1e6
    z = c_ndtri(tl.where(u > 0.0, u, 1e-17))
    n = tl.floor(rate + z * tl.sqrt(rate) + (z * z - 1.0) / 6.0 + 0.5)
    n = tl.where(n > 0.0, n, 0.0)
    plain = (rate > 0.0) & (large == 0)
    m = tl.where(plain, rate, 1.0)
    up = tl.floor(m)
    down = up
    above = tl.where(up == 0.0, libdevice.exp(m * -1.0), c_gamma_front(tl.where(up == 0.0, 1.0, up), m))
    below = above
    u = u - above
    found = tl.floor(m)
    going = plain & (u >= 0.0) & ((above > 1e-20) | (below > 1e-20))
    while c_any(going):
        up = up + 1.0
        above = above * (m / up)
        u = u - above
        ends = going & (u < 0.0)
        found = tl.where(ends, up, found)
        going = going & (ends == 0)
        below = below * (down / m)
        down = tl.where(down > 0.0, down - 1.0, down)
        u = u - below
        ends = going & (u < 0.0)
        found = tl.where(ends, down, found)
        going = going & (ends == 0) & ((above > 1e-20) | (below > 1e-20))
    r = tl.where(large, n, tl.where(rate == 0.0, 0.0, found))
    return tl.cast(tl.where(rate >= 0.0, r, float("nan")), mean.dtype)
