"""Factorizations of complex matrices and what is made of them. LAPACK builds differ in the phases of vectors and in the
order of eigenvalues: bases are compared by what they make of each other.
"""

import torch
from torch import linalg as L

from cases.data import Family

n = Family("complex_factors")


def normal(*sizes):
    return torch.complex(n.normal(*sizes, dtype=torch.float64), n.normal(*sizes, dtype=torch.float64))


def solved(a, b):
    lu = L.lu_factor(a)
    return (
        L.solve(a, b),
        L.solve(a, b.mT, left=False),
        L.inv(a),
        *(L.lu_solve(*lu, b, adjoint=adjoint) for adjoint in (False, True)),
        *(L.lu_solve(*lu, b.mT, left=False, adjoint=adjoint) for adjoint in (False, True)),
    )


def orthogonal(t, c):
    made = [(q @ r, q.mH @ q, r.abs()) for mode in ("reduced", "complete") for q, r in [L.qr(t, mode)]]
    h, tau = torch.geqrf(t)
    return (
        *made[0],
        *made[1],
        L.qr(t, "r")[1].abs(),
        L.householder_product(h, tau) @ h[..., : t.shape[-1], :].triu(),
        torch.ormqr(h, tau, torch.ormqr(h, tau, c), transpose=True),
        torch.ormqr(h, tau, torch.ormqr(h, tau, c.mT, left=False), left=False, transpose=True),
    )


def singular(t, h):
    made = []
    for full in (False, True):
        u, s, vh = L.svd(t, full_matrices=full)
        made += [(u[..., : s.shape[-1]] * s.unsqueeze(-2)) @ vh[..., : s.shape[-1], :], u.mH @ u, s]
    u, s, v = torch.svd(t)
    return (
        *made,
        (u * s.unsqueeze(-2)) @ v.mH,
        L.svdvals(t),
        L.pinv(t),
        L.pinv(h, hermitian=True),
        L.matrix_rank(t),
        *(L.cond(h, p) for p in (None, 1, "fro", -2)),
        L.matrix_norm(t, "nuc"),
    )


def spectra(h, a):
    w, v = L.eigh(h)
    x, y = L.eigh(h, UPLO="U")
    e, z = L.eig(a)
    return (
        w,
        (v * w.unsqueeze(-2)) @ v.mH,
        (y * x.unsqueeze(-2)) @ y.mH,
        L.eigvalsh(h),
        z @ torch.diag_embed(e) @ L.inv(z),
        L.eigvals(a).abs().sort(-1).values,
    )


def symmetric(h, b, a):
    return (
        L.ldl_solve(*L.ldl_factor(h, hermitian=True), b, hermitian=True),
        L.ldl_solve(*L.ldl_factor(a + a.mT), b),
        torch.cholesky_inverse(L.cholesky(h)),
    )


def in_parts(function):
    """Files hold no c128: numbers as pairs of their parts."""

    def of_parts(*args):
        made = function(*map(torch.view_as_complex, args))
        return [torch.view_as_real(x.resolve_conj()) if x.is_complex() else x for x in made]

    return of_parts


def add(name, function, *args):
    n.add(f"{name}_c64", function, *(x.to(torch.complex64) for x in args))
    n.add(f"{name}_c128", in_parts(function), *map(torch.view_as_real, args))


a, b, t = normal(3, 4, 4), normal(3, 4, 2), normal(2, 5, 3)
well, hermitian = a + 6 * torch.eye(4), a @ a.mH + torch.eye(4)
add("solved", solved, well, b)
add("factored", lambda a: (*L.lu(a), *L.lu_factor(a)), a)
add("determinants", lambda a: (L.det(a), *L.slogdet(a), torch.logdet(a)), a)
add("orthogonal", orthogonal, t, normal(2, 5, 2))
add("singular", singular, t, hermitian)
add("spectra", spectra, hermitian, a)
add("symmetric", symmetric, hermitian, b, well)
add("empty", lambda a: (L.det(a[:0]), L.inv(a[:, :0, :0]), *L.qr(a[:, :0]), L.svdvals(a[:, :0])), a)
add("moments", lambda a: (*torch.var_mean(a, 1), *torch.std_mean(a), L.vecdot(a, a.mT)), a)
