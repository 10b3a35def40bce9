"""Special functions against eager, in f32 and f64, over random inputs and at the edges of their domains.

Tolerances: Coil computes in f64 whatever the type; eager in the type itself, so that in f32 the difference is eager's
rounding (its sums cancel near zeros of the functions).
In f64 both are good to some 1e-13, but for eager's Bessel functions J and Y and Airy's (1e-8, near zeros 1e-6) and its
incomplete gamma functions of large arguments (1e-9).
"""

import torch
from torch import special as S

from cases.data import Family

special = Family("special")
TYPES = {"f32": torch.float32, "f64": torch.float64}
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 8.0, 20.0, -30.0, float("inf"), float("-inf"), float("nan"), 1e-10, -2.5, 90.0]


def values(dtype, low, high, count=96):
    return torch.cat(
        [
            special.uniform(low, high, count, dtype=torch.float64),
            torch.tensor(EDGES, dtype=torch.float64).clamp(min=-700),
        ]
    ).to(dtype)


def add(name, function, *args, dtype, tolerance=None):
    special.add(
        f"{name}_{'f32' if dtype == torch.float32 else 'f64'}",
        function,
        *args,
        tolerance=tolerance or (2e-5 if dtype == torch.float32 else 1e-11),
    )


for dtype in TYPES.values():
    near, far, positive, unit = (
        values(dtype, -3, 3),
        values(dtype, -40, 40),
        values(dtype, 0, 12),
        torch.cat(
            [special.uniform(0, 1, 90), torch.tensor([0.0, 1.0, 0.5, -0.1, 1.1, 1e-30, 1 - 1e-6, float("nan")])]
        ).to(dtype),
    )
    # At infinity eager's I0 is infinity times infinity's root: NaN in both. In f32 it overflows at 88, where I0 itself
    # is still finite: past it nothing is compared.
    finite = far[far.abs() < 85]
    add("i", lambda x, y: (S.i0(x), S.i1(x), S.i0e(y), S.i1e(y), torch.i0(x)), finite, far, dtype=dtype)
    add("modified_bessel", lambda x: (S.modified_bessel_i0(x), S.modified_bessel_i1(x)), finite, dtype=dtype)
    add(
        "modified_bessel_k",
        lambda x: (
            S.modified_bessel_k0(x),
            S.modified_bessel_k1(x),
            S.scaled_modified_bessel_k0(x),
            S.scaled_modified_bessel_k1(x),
        ),
        positive,
        dtype=dtype,
    )
    add(
        "bessel",
        lambda x, y: (S.bessel_j0(x), S.bessel_j1(x), S.bessel_y0(y), S.bessel_y1(y), S.spherical_bessel_j0(x)),
        far[far.isfinite()],
        positive[positive < 1e30],
        dtype=dtype,
        tolerance=5e-5 if dtype == torch.float32 else 1e-7,
    )
    add("erfcx", lambda x, y: (S.erfcx(x), S.erfcx(y), S.log_ndtr(x), S.log_ndtr(y), S.ndtr(x)), near, far, dtype=dtype)
    add(
        "ndtri",
        lambda p: (S.ndtri(p), torch.erfinv(p), torch.logit(p)),
        unit,
        dtype=dtype,
        tolerance=1e-4 if dtype == torch.float32 else 1e-9,
    )
    add(
        "entr",
        lambda x: (S.entr(x), torch.special.xlog1py(x, x.abs()), torch.sinc(x), torch.hypot(x, 2 * x)),
        near,
        dtype=dtype,
    )
    add(
        "zeta",
        lambda s, q: (S.zeta(s, q), S.zeta(s, 2.5), S.zeta(3.0, q)),
        torch.cat([special.uniform(1, 9, 60), torch.tensor([1.0, 0.5, 2.0, 3.0, 2.0])]).to(dtype),
        torch.cat([special.uniform(0.1, 20, 60), torch.tensor([2.0, 2.0, -1.5, -2.0, 0.0])]).to(dtype),
        dtype=dtype,
    )
    add(
        "polygamma",
        lambda x, y: (
            torch.polygamma(0, x),
            torch.polygamma(1, x),
            torch.polygamma(2, x),
            torch.polygamma(5, x),
            torch.polygamma(2, y),
            torch.polygamma(3, y),
        ),
        special.uniform(0.2, 20, 60, dtype=dtype),
        torch.tensor([-0.5, -1.3, -2.75], dtype=dtype),
        dtype=dtype,
        tolerance=5e-5 if dtype == torch.float32 else 1e-10,
    )
    add(
        "igamma",
        lambda a, x: (torch.igamma(a, x), torch.igammac(a, x), torch.igamma(30 * a, 30 * x + 1)),
        torch.cat(
            [special.uniform(0.1, 12, 80), torch.tensor([0.0, 0.0, 1.0, -1.0, float("inf"), 2.0, float("nan"), 3.0])]
        ).to(dtype),
        torch.cat([special.uniform(0.1, 15, 80), torch.tensor([0.0, 1.0, 0.0, 1.0, 2.0, float("inf"), 1.0, -2.0])]).to(
            dtype
        ),
        dtype=dtype,
        tolerance=1e-4 if dtype == torch.float32 else 1e-8,
    )
    add(
        "airy_ai",
        S.airy_ai,
        torch.cat([special.uniform(-12, 9, 96), torch.tensor([0.0, 2.0, -10.0, float("inf"), float("nan"), 110.0])]).to(
            dtype
        ),
        dtype=dtype,
        tolerance=1e-4 if dtype == torch.float32 else 1e-5,
    )
    inside, degrees = (
        torch.cat([special.uniform(-1.2, 1.2, 60), torch.tensor([1.0, -1.0, 0.0, 0.5])]).to(dtype),
        special.integers(-1, 13, 64),
    )
    add(
        "orthogonal",
        lambda x, n: tuple(
            getattr(S, f"{name}_polynomial_{kind}")(x, n)
            for name, kinds in (
                ("chebyshev", "tuvw"),
                ("shifted_chebyshev", "tuvw"),
                ("laguerre", "l"),
                ("legendre", "p"),
            )
            for kind in kinds
        ),
        inside,
        degrees,
        dtype=dtype,
        tolerance=1e-3 if dtype == torch.float32 else 1e-9,
    )
    add(
        "hermite",
        lambda x, n: (
            S.hermite_polynomial_h(x, n),
            S.hermite_polynomial_he(x, n),
            S.hermite_polynomial_h(x, 3),
            S.legendre_polynomial_p(0.3, n.to(x.dtype)),
        ),
        inside,
        degrees,
        dtype=dtype,
        tolerance=1e-3 if dtype == torch.float32 else 1e-10,
    )
    add(
        "multigammaln",
        lambda x: (S.multigammaln(x, 3), torch.lgamma(x), torch.digamma(x)),
        special.uniform(2, 9, 20, dtype=dtype),
        dtype=dtype,
    )
special.add(
    "of_integers",
    lambda i: (
        torch.i0(i),
        S.i1e(i),
        S.erfcx(i),
        S.zeta(i + 2, i),
        S.chebyshev_polynomial_t(i, i),
        torch.polygamma(2, i + 1),
    ),
    special.integers(0, 6, 12),
)
special.add(
    "of_bf16",
    lambda x: (torch.i0(x), torch.igamma(x.abs() + 1, x.abs()), torch.polygamma(1, x.abs() + 1)),
    special.normal(20, dtype=torch.bfloat16),
    tolerance=2e-2,
)
