// Special functions, written once for CPUs and GPUs: of f64, from elementary functions that all preludes have; narrower
// types go through f64. Where a machine has no f64, it stands for f32, in which they are as near as f32 computes. A
// language brings a number that stands for infinitely large ones (`COIL_LARGE`), its reciprocal, and from where on the
// asymptotic series of erfcx is the better (`COIL_ERFCX_SERIES`: erfc has not underflown there, nor exp(x^2) over).
#pragma once

// @piece c_i0e
// Modified Bessel functions of the first kind, exp(-|x|) I_n(x): the power series, all of whose terms are positive,
// then the asymptotic one, whose least term at 20 is exp(-40).
COIL_SPECIAL f64 c_i0e(f64 x) {
  const f64 a = c_abs(x);
  f64 t = 1, s = 1;
  if (a < 20) {
    const f64 q = 0.25 * a * a;
    for (int k = 1; k < 80 && t > s * 1e-18; k++) {
      t *= q / ((f64)k * k);
      s += t;
    }
    return s * c_exp(-a);
  }
  for (int k = 1; k < 40 && t > 1e-18; k++) {
    t *= (f64)(2 * k - 1) * (2 * k - 1) / (8 * k * a);
    s += t;
  }
  return s / c_sqrt(6.283185307179586 * a);
}
COIL_OF_ONE(c_i0e)

// @piece c_i0
COIL_SPECIAL f64 c_i0(f64 x) { return c_i0e(x) * c_exp(c_abs(x)); }
COIL_OF_ONE(c_i0)

// @piece c_i1e
COIL_SPECIAL f64 c_i1e(f64 x) {
  const f64 a = c_abs(x);
  f64 s;
  if (a < 20) {
    const f64 q = 0.25 * a * a;
    f64 t = 0.5 * a;
    s = t;
    for (int k = 1; k < 80 && t > s * 1e-18; k++) {
      t *= q / ((f64)k * (k + 1));
      s += t;
    }
    s *= c_exp(-a);
  } else {
    f64 t = 1;
    s = 1;
    for (int k = 1; k < 40 && c_abs(t) > 1e-18; k++) {
      t *= ((f64)(2 * k - 1) * (2 * k - 1) - 4) / (8 * k * a);
      s += t;
    }
    s /= c_sqrt(6.283185307179586 * a);
  }
  return x < 0 ? -s : s;
}
COIL_OF_ONE(c_i1e)

// @piece c_i1
COIL_SPECIAL f64 c_i1(f64 x) { return c_i1e(x) * c_exp(c_abs(x)); }
COIL_OF_ONE(c_i1)

// @piece c_bessel_k_integral
// exp(x) K_nu(x) for x > 1, the integral of exp(-x (cosh t - 1)) cosh(nu t) over t > 0: the trapezoid rule's error
// falls as exp(-pi^2 / step).
COIL_SPECIAL f64 c_bessel_k_integral(f64 nu, f64 x) {
  if (x > COIL_LARGE) return 0;
  const f64 h = x > 12 ? 0.7 / c_sqrt(x) : 0.2;
  f64 s = 0.5;
  for (int k = 1; k < 200; k++) {
    const f64 d = c_sinh(0.5 * k * h), e = c_exp(-2 * x * d * d) * c_cosh(nu * k * h);
    s += e;
    if (!(e > 1e-18 * s)) break;
  }
  return h * s;
}

// @piece c_k0_small
// Of the second kind: up to 2 by the series in x^2 / 4 with a logarithm.
COIL_SPECIAL f64 c_k0_small(f64 x) {
  const f64 q = 0.25 * x * x;
  f64 t = 1, h = 0, i = 1, s = 0;
  for (int k = 1; k < 30; k++) {
    t *= q / ((f64)k * k);
    h += 1.0 / k;
    i += t;
    s += t * h;
  }
  return s - (c_log(0.5 * x) + 0.57721566490153286) * i;
}

// @piece c_k1_small
COIL_SPECIAL f64 c_k1_small(f64 x) {
  const f64 q = 0.25 * x * x;
  f64 t = 1, a = 1 - 2 * 0.57721566490153286, i = 1, s = a;
  for (int k = 1; k < 30; k++) {
    t *= q / ((f64)k * (k + 1));
    a += 1.0 / k + 1.0 / (k + 1);
    i += t;
    s += t * a;
  }
  return 1 / x + 0.5 * x * c_log(0.5 * x) * i - 0.25 * x * s;
}

// @piece c_k0
COIL_SPECIAL f64 c_k0(f64 x) {
  return x > 2 ? c_exp(-x) * c_bessel_k_integral(0.0, x) : x > 0 ? c_k0_small(x) : x == 0 ? COIL_INFINITY : COIL_NAN;
}
COIL_OF_ONE(c_k0)

// @piece c_k0e
COIL_SPECIAL f64 c_k0e(f64 x) {
  return x > 2 ? c_bessel_k_integral(0.0, x) : x > 0 ? c_exp(x) * c_k0_small(x) : x == 0 ? COIL_INFINITY : COIL_NAN;
}
COIL_OF_ONE(c_k0e)

// @piece c_k1
COIL_SPECIAL f64 c_k1(f64 x) {
  return x > 2 ? c_exp(-x) * c_bessel_k_integral(1.0, x) : x > 0 ? c_k1_small(x) : x == 0 ? COIL_INFINITY : COIL_NAN;
}
COIL_OF_ONE(c_k1)

// @piece c_k1e
COIL_SPECIAL f64 c_k1e(f64 x) {
  return x > 2 ? c_bessel_k_integral(1.0, x) : x > 0 ? c_exp(x) * c_k1_small(x) : x == 0 ? COIL_INFINITY : COIL_NAN;
}
COIL_OF_ONE(c_k1e)

// @piece c_j0
COIL_FROM_C(j0)
COIL_SPECIAL f64 c_j0(f64 x) { return j0(x); }
COIL_OF_ONE(c_j0)

// @piece c_j1
COIL_FROM_C(j1)
COIL_SPECIAL f64 c_j1(f64 x) { return j1(x); }
COIL_OF_ONE(c_j1)

// @piece c_y0
COIL_FROM_C(y0)
COIL_SPECIAL f64 c_y0(f64 x) { return x > 0 ? y0(x) : x == 0 ? -COIL_INFINITY : COIL_NAN; }
COIL_OF_ONE(c_y0)

// @piece c_y1
COIL_FROM_C(y1)
COIL_SPECIAL f64 c_y1(f64 x) { return x > 0 ? y1(x) : x == 0 ? -COIL_INFINITY : COIL_NAN; }
COIL_OF_ONE(c_y1)

// @piece c_erfcx
// exp(x^2) erfc(x), x^2 in two parts of which the first is exact; where erfc underflows the asymptotic series.
COIL_SPECIAL f64 c_erfcx(f64 x) {
  if (x < -27) return COIL_INFINITY;
  if (!(x >= COIL_ERFCX_SERIES)) {
    const f64 h = (f64)(f32)x;
    return c_exp(h * h) * c_exp((x - h) * (x + h)) * c_erfc(x);
  }
  const f64 z = 0.5 / x / x;
  f64 t = 1, s = 1;
  for (int k = 1; k < 12; k++) {
    t *= -(2 * k - 1) * z;
    s += t;
  }
  return s * 0.56418958354775629 / x;
}
COIL_OF_ONE(c_erfcx)

// @piece c_ndtri
// The quantile of the normal distribution: a start that is right to 5e-4 (Hastings 1955), then Halley's method on the
// distribution over its density.
COIL_SPECIAL f64 c_ndtri(f64 p) {
  if (!(p > 0 && p < 1)) return p == 0 ? -COIL_INFINITY : p == 1 ? COIL_INFINITY : COIL_NAN;
  if (p == 0.5) return 0;
  const bool upper = p > 0.5;
  const f64 l = c_log(upper ? 1 - p : p), t = c_sqrt(-2 * l);
  f64 x = (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))) - t;
  for (int k = 0; k < 3; k++) {
    const f64 u = 2.5066282746310005 * (0.5 * c_erfcx(-0.70710678118654752 * x) - c_exp(l + 0.5 * x * x));
    x -= u / (1 + 0.5 * x * u);
  }
  return upper ? -x : x;
}
COIL_OF_ONE(c_ndtri)

// @piece c_airy_ai
// Right of 2 by K_{1/3}; left of -10 the asymptotic series; between them Taylor's series of y'' = x y, stepped from 0
// where it swings.
COIL_SPECIAL f64 c_airy_ai(f64 x) {
  if (!(c_abs(x) < COIL_LARGE)) return COIL_NAN;
  if (x > 2) {
    const f64 z = x * c_sqrt(x) * (2.0 / 3);
    return x > 103.892 ? 0.0 : c_exp(-z) * c_sqrt(x / 3) * 0.31830988618379067 * c_bessel_k_integral(1.0 / 3, z);
  }
  if (x < -10) {
    const f64 a = -x, r = c_sqrt(a), z = a * r * (2.0 / 3);
    f64 u = 1, p = 1, q = 0;
    for (int k = 1; k < 16; k++) {
      u *= (6.0 * k - 5) * (6.0 * k - 3) * (6.0 * k - 1) / (216.0 * k * (2 * k - 1)) / z;
      (k & 1 ? q : p) += k & 2 ? -u : u;
    }
    return (c_cos(z - 0.78539816339744831) * p + c_sin(z - 0.78539816339744831) * q) * 0.56418958354775629 / c_sqrt(r);
  }
  f64 at = 0, y = 0.35502805388781724, d = -0.25881940379280680;
  for (int step = 0; step < 12; step++) {
    const f64 h = x - at < -1 ? -1.0 : x - at;
    f64 a0 = y, a1 = d, a2 = 0.5 * at * y, power = h * h;
    y = a0 + a1 * h + a2 * power;
    d = a1 + 2 * a2 * h;
    for (int n = 1; n < 50; n++) {
      const f64 a3 = (at * a1 + a0) / ((n + 1.0) * (n + 2.0));
      d += (n + 2) * a3 * power;
      power *= h;
      y += a3 * power;
      a0 = a1;
      a1 = a2;
      a2 = a3;
    }
    at += h;
    if (at == x) break;
  }
  return y;
}
COIL_OF_ONE(c_airy_ai)

// @piece c_zeta
// Hurwitz's zeta function: the first terms, then Euler and Maclaurin's formula. Where all terms are 0, eager's factors
// of the formula leave the range of doubles, and their products with 0 are NaN.
COIL_SPECIAL f64 c_zeta(f64 x, f64 q) {
  if (x == 1) return COIL_INFINITY;
  if (x < 1 || q != q || q == COIL_INFINITY) return COIL_NAN;
  if (q <= 0) {
    if (q == c_floor(q)) return COIL_INFINITY;
    if (x != c_floor(x)) return COIL_NAN;
  }
  if (x != x) return COIL_NAN;
  f64 s = 0, a = q;
  for (int k = 0; k < 10 || a <= 10; k++) {
    const f64 b = c_pow(a, -x);
    s += b;
    if (c_abs(b) < 1e-17 * c_abs(s) || k > 10000000) return s;
    a += 1;
  }
  if (s == 0 && x > 2.5e13) return COIL_NAN;
  const f64 w = c_pow(a, -x), z = 1 / (a * a);
  s += w * a / (x - 1) + 0.5 * w;
  f64 t = x * w / a;
  s += t / 12;
  t *= (x + 1) * (x + 2) * z;
  s -= t / 720;
  t *= (x + 3) * (x + 4) * z;
  s += t / 30240;
  t *= (x + 5) * (x + 6) * z;
  s -= t / 1209600;
  t *= (x + 7) * (x + 8) * z;
  s += t / 47900160;
  t *= (x + 9) * (x + 10) * z;
  s -= t * (691 / 1307674368000.0);
  t *= (x + 11) * (x + 12) * z;
  s += t / 74724249600.0;
  t *= (x + 13) * (x + 14) * z;
  s -= t * (3617 / 10670622842880000.0);
  return s;
}
COIL_OF_TWO(c_zeta)

// @piece c_gamma_front
// x^a exp(-x) / Gamma(a + 1): by Stirling's formula for large a, where the powers would lose digits.
COIL_SPECIAL f64 c_gamma_front(f64 a, f64 x) {
  if (a < 20) return c_exp(a * c_log(x) - x - c_lgamma(a + 1));
  const f64 m = (x - a) / a, z = 1 / (a * a);
  const f64 d = c_abs(m) < 0.5 ? c_log1p(m) - m : c_log(x / a) - m;
  return c_exp(a * d - (1.0 / 12 - z * (1.0 / 360 - z * (1.0 / 1260 - z / 1680))) / a) / c_sqrt(6.283185307179586 * a);
}

// @piece c_gamma_series
COIL_SPECIAL f64 c_gamma_series(f64 a, f64 x) {
  f64 t = 1, s = 1;
  for (int k = 1; k < 10000 && t > s * 1e-17; k++) {
    t *= x / (a + k);
    s += t;
  }
  return c_gamma_front(a, x) * s;
}

// @piece c_gamma_fraction
// The continued fraction of the upper function, by Lentz's method.
COIL_SPECIAL f64 c_gamma_fraction(f64 a, f64 x) {
  f64 b = x + 1 - a, c = COIL_LARGE, d = 1 / b, r = d;
  for (int k = 1; k < 10000; k++) {
    const f64 n = -k * (k - a);
    b += 2;
    d = n * d + b;
    c = b + n / c;
    d = 1 / (c_abs(d) < COIL_SMALL ? COIL_SMALL : d);
    c = c_abs(c) < COIL_SMALL ? COIL_SMALL : c;
    r *= c * d;
    if (c_abs(c * d - 1) < 1e-16) break;
  }
  return c_gamma_front(a, x) * a * r;
}

// @piece c_gamma_is_large
// Whether the series and the fraction would take very many terms: a is large, and x near it.
COIL_SPECIAL bool c_gamma_is_large(f64 a, f64 x) { return a > 1e5 && c_abs(x - a) < 0.3 * a; }

// @piece c_gamma_large
// The upper function (`sign` 1) or the lower one (-1) there, by Temme's uniform expansion (DLMF 8.12): powers of h, of
// which those below 0.13 matter, in parts that a power of 1/a goes with each.
COIL_SPECIAL f64 c_gamma_large(f64 a, f64 x, f64 sign) {
  const f64 m = (x - a) / a;
  f64 d = 0;  // m - log(1 + m), which where m is small must not be computed as a difference
  for (int k = 18; k >= 0; k--) d = 1.0 / (k + 2) - m * d;
  d = c_abs(m) < 0.1 ? m * m * d : m - c_log1p(m);
  const f64 h = m < 0 ? -c_sqrt(2 * d) : c_sqrt(2 * d);
  const f64 p[] = {-0.3333333333333333,   0.08333333333333333,    -0.014814814814814815,   0.0011574074074074073,
                   0.0003527336860670194, -0.0001787551440329218, 3.919263178522438e-05,   -2.185448510679992e-06,
                   -1.85406221071516e-06, 8.296711340953087e-07,  -1.7665952736826078e-07, 6.707853543401498e-09};
  const f64 q[] = {-0.001851851851851852,  -0.003472222222222222,  0.0026455026455026454,  -0.0009902263374485596,
                   0.00020576131687242798, -4.018775720164609e-07, -1.8098550334489977e-05};
  f64 c0 = 0, c1 = 0;
  for (int k = 11; k >= 0; k--) c0 = p[k] + h * c0;
  for (int k = 6; k >= 0; k--) c1 = q[k] + h * c1;
  const f64 c2 = 0.004133597883597883 + h * (-0.0026813271604938273 + h * 0.0007716049382716049);
  const f64 c3 = 0.0006494341563786008;
  const f64 rest = c0 + (c1 + (c2 + c3 / a) / a) / a;
  return 0.5 * c_erfc(sign * h * c_sqrt(0.5 * a)) + sign * rest * c_exp(-a * d) / c_sqrt(6.283185307179586 * a);
}

// @piece c_igamma
COIL_SPECIAL f64 c_igamma(f64 a, f64 x) {
  if (a < 0 || x < 0) return COIL_NAN;
  if (a == 0) return x > 0 ? 1.0 : COIL_NAN;
  if (x == 0) return 0;
  if (a > COIL_LARGE) return x > COIL_LARGE ? COIL_NAN : 0.0;
  if (x > COIL_LARGE) return 1;
  if (a != a || x != x) return COIL_NAN;
  if (c_gamma_is_large(a, x)) return c_gamma_large(a, x, -1);
  return x < a + 1 ? c_gamma_series(a, x) : 1 - c_gamma_fraction(a, x);
}
COIL_OF_TWO(c_igamma)

// @piece c_igammac
COIL_SPECIAL f64 c_igammac(f64 a, f64 x) {
  if (a < 0 || x < 0) return COIL_NAN;
  if (a == 0) return x > 0 ? 0.0 : COIL_NAN;
  if (x == 0) return 1;
  if (a > COIL_LARGE) return x > COIL_LARGE ? COIL_NAN : 1.0;
  if (x > COIL_LARGE) return 0;
  if (a != a || x != x) return COIL_NAN;
  if (c_gamma_is_large(a, x)) return c_gamma_large(a, x, 1);
  return x < a + 1 ? 1 - c_gamma_series(a, x) : c_gamma_fraction(a, x);
}
COIL_OF_TWO(c_igammac)

// @piece c_degree
// Orthogonal polynomials by their recurrences, of the degree that `n` is without its fraction; where eager has a form
// of its own (|x| = 1, cosines for high degrees) as there.
COIL_SPECIAL f64 c_degree(f64 n) { return c_abs(n) < 9e18 ? c_trunc(n) : -1.0; }

// @piece c_chebyshev_recurrence
COIL_SPECIAL f64 c_chebyshev_recurrence(f64 x, f64 n, f64 first) {
  if (n == 0) return 1;
  f64 p = 1, q = first;
  for (i64 k = 2; k <= (i64)n && q == q; k++) {
    const f64 r = (x + x) * q - p;
    p = q;
    q = r;
  }
  return q;
}

// @piece c_chebyshev_t
COIL_SPECIAL f64 c_chebyshev_t(f64 x, f64 degree) {
  const f64 n = c_degree(degree);
  if (n < 0) return 0;
  if (c_abs(x) == 1) return x > 0 || (i64)n % 2 == 0 ? 1.0 : -1.0;
  if (n > 6 && c_abs(x) < 1) return c_cos(n * c_acos(x));
  return c_chebyshev_recurrence(x, n, x);
}
COIL_OF_TWO(c_chebyshev_t)

// @piece c_chebyshev_u
COIL_SPECIAL f64 c_chebyshev_u(f64 x, f64 degree) {
  const f64 n = c_degree(degree);
  if (n < 0) return 0;
  if (c_abs(x) == 1) return x > 0 || (i64)n % 2 == 0 ? n + 1 : -(n + 1);
  if (n > 8 && c_abs(x) < 1) return c_sin((n + 1) * c_acos(x)) / c_sin(c_acos(x));
  return c_chebyshev_recurrence(x, n, x + x);
}
COIL_OF_TWO(c_chebyshev_u)

// @piece c_chebyshev_v
COIL_SPECIAL f64 c_chebyshev_v(f64 x, f64 degree) {
  const f64 n = c_degree(degree);
  if (n < 0) return 0;
  if (c_abs(x) == 1) return x > 0 ? 1.0 : (i64)n % 2 == 0 ? n + n + 1 : -(n + n + 1);
  if (n > 8 && c_abs(x) < 1) return c_cos((n + 0.5) * c_acos(x)) / c_cos(0.5 * c_acos(x));
  return c_chebyshev_recurrence(x, n, x + x - 1);
}
COIL_OF_TWO(c_chebyshev_v)

// @piece c_chebyshev_w
COIL_SPECIAL f64 c_chebyshev_w(f64 x, f64 degree) {
  const f64 n = c_degree(degree);
  if (n < 0) return 0;
  if (c_abs(x) == 1) return x > 0 ? n + n + 1 : (i64)n % 2 == 0 ? 1.0 : -1.0;
  if (n > 8 && c_abs(x) < 1) return c_sin((n + 0.5) * c_acos(x)) / c_sin(0.5 * c_acos(x));
  return c_chebyshev_recurrence(x, n, x + x + 1);
}
COIL_OF_TWO(c_chebyshev_w)

// @piece c_hermite_h
COIL_SPECIAL f64 c_hermite_h(f64 x, f64 degree) {
  const f64 n = c_degree(degree);
  if (n < 0) return 0;
  if (n == 0) return 1;
  if (n > 512) return COIL_NAN;
  f64 p = 1, q = x + x;
  for (i64 k = 1; k < (i64)n; k++) {
    const f64 r = (x + x) * q - 2 * k * p;
    p = q;
    q = r;
  }
  return q;
}
COIL_OF_TWO(c_hermite_h)

// @piece c_hermite_he
COIL_SPECIAL f64 c_hermite_he(f64 x, f64 degree) {
  const f64 n = c_degree(degree);
  if (n < 0) return 0;
  if (n == 0) return 1;
  if (n > 512) return COIL_NAN;
  f64 p = 1, q = x;
  for (i64 k = 1; k < (i64)n; k++) {
    const f64 r = x * q - k * p;
    p = q;
    q = r;
  }
  return q;
}
COIL_OF_TWO(c_hermite_he)

// @piece c_laguerre
COIL_SPECIAL f64 c_laguerre(f64 x, f64 degree) {
  const f64 n = c_degree(degree);
  if (n < 0) return 0;
  if (x == 0 || n == 0) return 1;
  f64 p = 1, q = 1 - x;
  for (i64 k = 1; k < (i64)n && q == q; k++) {
    const f64 r = ((k + k + 1 - x) * q - k * p) / (k + 1);
    p = q;
    q = r;
  }
  return q;
}
COIL_OF_TWO(c_laguerre)

// @piece c_legendre
COIL_SPECIAL f64 c_legendre(f64 x, f64 degree) {
  const f64 n = c_degree(degree);
  if (n < 0) return 0;
  if (c_abs(x) == 1) return x > 0 || (i64)n % 2 == 0 ? 1.0 : -1.0;
  if (n == 0) return 1;
  f64 p = 1, q = x;
  for (i64 k = 1; k < (i64)n && q == q; k++) {
    const f64 r = ((k + k + 1) * x * q - k * p) / (k + 1);
    p = q;
    q = r;
  }
  return q;
}
COIL_OF_TWO(c_legendre)

// @piece c_gamma_quantile
// The x > 0 that the lower incomplete gamma function of a > 0 takes to u: Wilson and Hilferty's approximation, then
// Newton's method within a bracket that narrows.
COIL_SPECIAL f64 c_gamma_quantile(f64 a, f64 u) {
  if (!(a > 0) || !(u >= 0) || !(u <= 1)) return COIL_NAN;
  if (u == 0) return 0;
  if (u == 1) return COIL_INFINITY;
  const f64 h = 1 - 1 / (9 * a) + c_ndtri(u) / (3 * c_sqrt(a));
  f64 x = h > 0.1 && a > 0.5 ? a * h * h * h : c_exp((c_log(u) + c_lgamma(a + 1)) / a), low = 0, high = COIL_INFINITY;
  for (int k = 0; k < 60 && x > 0; k++) {
    const f64 over = c_igamma(a, x) - u;
    if (over > 0)
      high = x;
    else
      low = x;
    f64 next = x - over * x / (a * c_gamma_front(a, x));
    if (!(next > low) || !(next < high)) next = high < COIL_INFINITY ? 0.5 * (low + high) : 2 * low;
    if (c_abs(next - x) <= 1e-13 * x) return next;
    x = next;
  }
  return x;
}
COIL_OF_TWO(c_gamma_quantile)

// @piece c_poisson_draw
// Where u in [0, 1) falls among the probabilities of counts, taken from the most probable one outwards: some
// deviations' worth of steps. Of large means Cornish and Fisher's expansion, which is nearer than a count.
COIL_SPECIAL f64 c_poisson_draw(f64 rate, f64 u) {
  if (!(rate >= 0)) return COIL_NAN;
  if (rate == 0) return 0;
  if (rate > 1e6) {
    const f64 z = c_ndtri(u > 0 ? u : 1e-17), n = c_floor(rate + z * c_sqrt(rate) + (z * z - 1) / 6 + 0.5);
    return n > 0 ? n : 0.0;
  }
  f64 up = c_floor(rate), down = up, above = c_gamma_front(up, rate), below = above;
  if (up == 0) above = below = c_exp(-rate);
  u -= above;
  while (u >= 0 && (above > 1e-20 || below > 1e-20)) {
    up += 1;
    above *= rate / up;
    u -= above;
    if (u < 0) return up;
    below *= down / rate;
    if (down > 0) down -= 1;
    u -= below;
    if (u < 0) return down;
  }
  return c_floor(rate);
}
COIL_OF_TWO(c_poisson_draw)

// @piece c_binomial_draw
COIL_SPECIAL f64 c_binomial_draw(f64 count, f64 p, f64 u) {
  if (!(count >= 0) || !(p >= 0) || !(p <= 1)) return COIL_NAN;
  if (count == 0 || p == 0) return 0;
  if (p == 1) return count;
  if (count * p * (1 - p) > 1e6) {
    const f64 s = c_sqrt(count * p * (1 - p)), z = c_ndtri(u > 0 ? u : 1e-17),
              n = c_floor(count * p + z * s + (1 - 2 * p) * (z * z - 1) / 6 + 0.5);
    return n < 0 ? 0.0 : n > count ? count : n;
  }
  f64 mode = c_floor((count + 1) * p);
  if (mode > count) mode = count;
  f64 up = mode, down = mode;
  f64 above = c_exp(c_lgamma(count + 1) - c_lgamma(mode + 1) - c_lgamma(count - mode + 1) + mode * c_log(p) +
                    (count - mode) * c_log1p(-p)),
      below = above;
  const f64 odds = p / (1 - p);
  u -= above;
  while (u >= 0 && (above > 1e-20 || below > 1e-20)) {
    above *= (count - up) / (up + 1) * odds;
    if (up < count) up += 1;
    u -= above;
    if (u < 0) return up;
    below *= down / ((count - down + 1) * odds);
    if (down > 0) down -= 1;
    u -= below;
    if (u < 0) return down;
  }
  return mode;
}
COIL_OF_THREE(c_binomial_draw)
