"""Factorizations of matrices and what is made of them. LAPACK builds differ in signs of vectors and in last bits: bases
are compared by what they make of each other.
"""

import torch
from torch import linalg as L

from cases.data import Family

solves, spectra = Family("solves"), Family("spectra")
f, e = solves, spectra


def well(family, *sizes, dtype=torch.float32):
    """Matrices far from singular."""
    n = sizes[-1]
    return family.normal(*sizes, dtype=dtype) + 2 * n**0.5 * torch.eye(n, dtype=dtype)


def positive(family, *sizes, dtype=torch.float32):
    a = family.normal(*sizes, dtype=dtype)
    return a @ a.mT + torch.eye(sizes[-1], dtype=dtype)


for short, dtype in {"f32": torch.float32, "f64": torch.float64}.items():
    f.add(f"solve_{short}", L.solve, well(f, 3, 5, 5, dtype=dtype), f.normal(3, 5, 2, dtype=dtype))
    f.add(f"inv_{short}", lambda a: (L.inv(a), torch.inverse(a.mT)), well(f, 2, 3, 4, 4, dtype=dtype))
    f.add(f"det_{short}", lambda a: (L.det(a), *L.slogdet(a), torch.logdet(a)), f.normal(4, 3, 3, dtype=dtype))
    f.add(f"cholesky_{short}", lambda a: (L.cholesky(a), L.cholesky(a, upper=True)), positive(f, 3, 6, 6, dtype=dtype))
    f.add(
        f"lu_{short}",
        lambda a, b: (*L.lu(a), *L.lu_factor(a), *L.lu(b), *L.lu(b.mT)),
        f.normal(3, 5, 5, dtype=dtype),
        f.normal(2, 4, 7, dtype=dtype),
    )
    f.add(
        f"triangular_{short}",
        lambda a, b, c: (
            L.solve_triangular(a, b, upper=False),
            L.solve_triangular(a, b, upper=True, unitriangular=True),
            L.solve_triangular(a.mT, c, upper=True, left=False),
        ),
        well(f, 2, 5, 5, dtype=dtype),
        f.normal(2, 5, 3, dtype=dtype),
        f.normal(2, 3, 5, dtype=dtype),
        tolerance=2e-3 if dtype == torch.float32 else None,
    )
    e.add(
        f"qr_{short}",
        lambda a, b: [
            x
            for m in (a, a.mT, b)
            for mode in ("reduced", "complete")
            for q, r in [L.qr(m, mode)]
            for x in (q @ r, q.mT @ q, r.abs())
        ],
        e.normal(2, 5, 3, dtype=dtype),
        e.normal(4, 4, dtype=dtype),
    )
    e.add(
        f"svd_{short}",
        lambda a, b: [
            x
            for m in (a, a.mT, b)
            for u, s, v in [L.svd(m, full_matrices=False)]
            for x in (u * s.unsqueeze(-2) @ v, s, u.mT @ u, v @ v.mT)
        ],
        e.normal(2, 5, 3, dtype=dtype),
        e.normal(4, 4, dtype=dtype),
    )
    e.add(
        f"eigh_{short}",
        lambda a: [
            x for side in "LU" for w, v in [L.eigh(a, UPLO=side)] for x in (w, v * w.unsqueeze(-2) @ v.mT, v.mT @ v)
        ],
        positive(e, 2, 5, 5, dtype=dtype),
    )
f.add(
    "solve_vector",
    lambda a, b, c: (L.solve(a, b), L.solve(a, c), L.solve(a[0], b)),
    well(f, 3, 4, 4),
    f.normal(4),
    f.normal(3, 4),
)
f.add("solve_right", lambda a, b: L.solve(a, b, left=False), well(f, 3, 4, 4), f.normal(5, 4))
f.add("solve_broadcast", L.solve, well(f, 2, 1, 4, 4), f.normal(3, 4, 2))
f.add(
    "solve_strides",
    lambda a, b: L.solve(a.permute(2, 0, 1)[:, ::2, 1:4], b.t()),
    f.normal(6, 5, 2) + torch.eye(6, 5).unsqueeze(-1) * 5,
    f.normal(2, 3),
)
f.add(
    "with_info",
    lambda a: (
        *L.inv_ex(a),
        *L.solve_ex(a, a),
        *L.cholesky_ex(a),
        *L.lu_factor_ex(a),
        L.inv_ex(a[:1] * 0).info,
        L.cholesky_ex(-a).info,
    ),
    positive(f, 2, 4, 4),
)
f.add(
    "lu_solve",
    lambda a, b, c: (
        torch.lu_solve(b, *L.lu_factor(a)),
        L.lu_solve(*L.lu_factor(a), b, adjoint=True),
        L.lu_solve(*L.lu_factor(a), c, left=False),
        L.lu_solve(*L.lu_factor(a), c, left=False, adjoint=True),
    ),
    well(f, 3, 4, 4),
    f.normal(3, 4, 2),
    f.normal(3, 2, 4),
)
f.add(
    "lu_unpack",
    lambda a: [
        x
        for d in (True, False)
        for p in (True, False)
        for x in torch.lu_unpack(*L.lu_factor(a), unpack_data=d, unpack_pivots=p)
    ],
    f.normal(2, 5, 5),
)
f.add(
    "cholesky_solves",
    lambda a, b: (
        torch.cholesky_solve(b, L.cholesky(a)),
        torch.cholesky_solve(b, L.cholesky(a, upper=True), upper=True),
        torch.cholesky_inverse(L.cholesky(a)),
        torch.cholesky(a),
    ),
    positive(f, 2, 4, 4),
    f.normal(4, 3),
)
f.add(
    "triangular_solve",
    lambda b, a: (
        *torch.triangular_solve(b, a),
        *torch.triangular_solve(b, a, upper=False, transpose=True, unitriangular=True),
    ),
    f.normal(2, 4, 3),
    well(f, 4, 4),
)
f.add("ldl", lambda a, b: (*L.ldl_factor(a), L.ldl_solve(*L.ldl_factor(a), b)), positive(f, 2, 4, 4), f.normal(2, 4, 3))
f.add(
    "tensor_forms",
    lambda a, b: (L.tensorinv(a, ind=2), L.tensorsolve(a, b), L.tensorsolve(a.permute(2, 0, 1), b, dims=(0,))),
    well(f, 12, 12).reshape(4, 3, 12),
    f.normal(4, 3),
)
f.add("matrix_power", lambda a: (L.matrix_power(a, -1), L.matrix_power(a, -3)), well(f, 2, 3, 3))
f.add(
    "diagonal",
    lambda a: (L.diagonal(a), L.diagonal(a, offset=-1, dim1=0), L.diagonal(a * 2).mul_(2)),
    f.normal(3, 4, 5),
)
f.add("vander", lambda x: (L.vander(x), L.vander(x, N=5), L.vander(x[0, :2])), f.normal(3, 4))
f.add(
    "empty",
    lambda a, b: (
        L.inv(a),
        L.det(a),
        L.solve(a, b),
        L.cholesky(a),
        *L.lu(b),
        *L.qr(b),
        *L.qr(b, "complete"),
        *L.svd(b),
        *L.eigh(a),
        torch.matrix_exp(a),
    ),
    torch.ones(2, 0, 0),
    torch.ones(2, 0, 3),
)
f.add("no_batch", lambda a: (L.inv(a), L.det(a), *L.lu_factor(a), *L.slogdet(a)), torch.ones(0, 3, 3))
f.add(
    "singular",
    lambda a: (L.det(a), *L.slogdet(a), torch.logdet(a), L.matrix_rank(a), L.cond(a, 1)),
    torch.tensor([[1.0, 2.0], [2.0, 4.0]]),
)
f.add("large", lambda a, b: (L.solve(a, b), L.det(a / 40)), well(f, 300, 300), f.normal(300, 3), tolerance=1e-3)
f.add(
    "complex",
    lambda a, b, c: (L.solve(a, b), L.solve(a, c), L.inv(a), torch.matrix_exp(a / 4)),
    torch.complex(well(f, 2, 3, 3), f.normal(2, 3, 3)),
    torch.complex(f.normal(2, 3, 2), f.normal(2, 3, 2)),
    torch.complex(f.normal(3), f.normal(3)),
    tolerance=1e-4,
)

e.add(
    "svd_full",
    lambda a: [x for u, s, v in [L.svd(a)] for x in (u.mT @ u, s, v @ v.mT, u[..., :3] * s.unsqueeze(-2) @ v)],
    e.normal(2, 5, 3),
)
e.add(
    "svd_older",
    lambda a: [
        x
        for some in (True, False)
        for u, s, v in [torch.svd(a, some=some)]
        for x in (u[..., :3] * s.unsqueeze(-2) @ v.mT, s)
    ],
    e.normal(2, 5, 3),
)
e.add("svd_no_vectors", lambda a: torch.svd(a, compute_uv=False), e.normal(2, 5, 3))
e.add(
    "values",
    lambda a, b: (L.svdvals(a), L.eigvalsh(b), L.eigvalsh(b, UPLO="U"), torch.linalg.qr(a, "r")[1].abs()),
    e.normal(2, 5, 3),
    positive(e, 3, 4, 4),
)
e.add(
    "ranks",
    lambda a, b: (
        L.matrix_rank(a @ a.mT),
        L.matrix_rank(b, hermitian=True),
        L.matrix_rank(b, tol=2.0),
        L.matrix_rank(a, atol=1.5, rtol=0.1),
        L.matrix_rank(b, torch.tensor([0.5, 3.0, 1.0])),
    ),
    e.normal(2, 5, 3),
    positive(e, 3, 4, 4),
)
e.add(
    "pseudo_inverse",
    lambda a, b: (
        L.pinv(a),
        L.pinv(a @ a.mT, rtol=1e-3),
        L.pinv(b, hermitian=True),
        L.pinv(a, rcond=0.4),
        torch.pinverse(a),
        L.pinv(a, atol=torch.tensor(1.0)),
    ),
    e.normal(2, 5, 3),
    positive(e, 3, 4, 4),
    tolerance=1e-4,
)
e.add(
    "conditions",
    lambda a: [L.cond(a, p) for p in (None, 2, -2, 1, -1, float("inf"), float("-inf"), "fro", "nuc")],
    well(e, 2, 4, 4),
)
e.add(
    "norms",
    lambda a: [
        L.matrix_norm(a, p, dim=d, keepdim=k)
        for p in (2, -2, "nuc")
        for d, k in (((-2, -1), False), ((0, 2), True), ((2, 1), False))
    ]
    + [L.norm(a[0], 2), L.norm(a[0], "nuc"), torch.norm(a[0], "nuc"), torch.norm(a, "nuc", dim=(0, 1))],
    e.normal(3, 4, 5),
)
e.add(
    "householder",
    lambda a, c: [
        x
        for h, tau in [torch.geqrf(a)]
        for x in (
            L.householder_product(h, tau).abs(),
            torch.ormqr(h, tau, c).abs(),
            torch.ormqr(h, tau, c, transpose=True).abs(),
            torch.ormqr(h, tau, c.mT, left=False).abs(),
            tau,
            h.triu().abs(),
        )
    ],
    e.normal(2, 5, 3),
    e.normal(2, 5, 4),
)
e.add(
    "matrix_exp",
    lambda a: (torch.matrix_exp(a), torch.matrix_exp(a * 6), torch.matrix_exp(a * 1e-3), L.matrix_exp(a.double() * 3)),
    e.normal(3, 4, 4),
    tolerance=2e-4,
)
e.add(
    "eig",
    lambda a: [
        x
        for w, v in [L.eig(a)]
        for x in (
            w.real.sum(-1),
            w.abs().sort().values,
            torch.view_as_real(a.to(w.dtype) @ v - v * w.unsqueeze(-2)),
            L.eigvals(a).imag.abs().sum(-1),
        )
    ],
    e.normal(3, 4, 4),
    tolerance=1e-4,
)
