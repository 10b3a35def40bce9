"""Complex tensors, Fourier transforms, bags and segments of rows, conditionals."""

import torch
import torch.nn.functional as F

from cases.data import Family

numbers, fourier, segments = Family("complex"), Family("fourier"), Family("segments")
n, f, g = numbers, fourier, segments


def complex_normal(*sizes):
    return torch.complex(n.normal(*sizes), n.normal(*sizes))


n.add(
    "made",
    lambda a, b: (lambda z: (z.real, z.imag, z.abs(), z.angle(), torch.view_as_real(z)))(torch.complex(a, b)),
    n.normal(3, 4),
    n.normal(3, 4),
)
n.add(
    "arithmetic",
    lambda a, b: (a + b, a - 2 * b, a * b, a / b, -a, a * 3 + 1, 1 - a, a.conj(), 1 / a, a**3, a.exp(), a.sgn()),
    complex_normal(3, 4),
    complex_normal(4),
)
n.add(
    "with_real",
    lambda a, x: (a * x, x - a, a / x, x.to(torch.complex64) + a, a.real.double() + 1),
    complex_normal(3, 4),
    n.uniform(1, 2, 4),
)
n.add(
    "products",
    lambda a, b: (a @ b.mT, torch.einsum("ij,kj->ki", a, b), torch.vdot(a[0], b[0]), a.mH @ a),
    complex_normal(3, 4),
    complex_normal(3, 4),
)
n.add(
    "products_of_several",
    lambda a, b, x: (
        torch.einsum("ij,kj,j->ik", a, b, b[0]),
        torch.einsum("ij,ij,j,ij->i", a.conj(), b, x, a),
    ),
    complex_normal(3, 4),
    complex_normal(3, 4),
    n.normal(4),
)
n.add(
    "moved",
    lambda a: (
        a.t(),
        a.reshape(2, 6),
        a[1:, ::2],
        torch.cat([a, a * 2]),
        a.unbind()[1],
        a.chunk(2, 1)[1],
        a.sum(0),
        a.mean(),
        a.flip(1),
        a.t().contiguous().abs(),
    ),
    complex_normal(3, 4),
)
n.add(
    "rotary",
    lambda x, t: torch.view_as_real(
        torch.view_as_complex(x.reshape(2, 5, 4, 2)) * torch.polar(torch.ones_like(t), t)
    ).flatten(2),
    n.normal(2, 5, 8),
    n.normal(5, 4),
)
n.add(
    "chosen",
    lambda a, m: (torch.where(m, a, 0), a.masked_fill(m, 2.0), a == a.conj()),
    complex_normal(3, 4),
    n.bools(3, 4),
)
n.add(
    "numbers",
    lambda a, x, k: (
        a * 2j,
        x * (1 - 2j),
        k + 0.5j,
        a - (1 + 1j),
        (2 + 1j) - a,
        (1 + 2j) / a,
        a / (1 + 2j),
        torch.add(a, a, alpha=1j),
        torch.exp(2j * torch.pi * x),
    ),
    complex_normal(3, 4),
    n.normal(4),
    n.integers(-3, 4, 4),
)
n.add(
    "numbers_in_double",
    lambda a, x: (
        torch.view_as_real(torch.complex(a, x) * (0.1 + 0.2j)),
        (x * 0.3j).imag.clone(),
        x == 0.3j,
        torch.complex(a, x) == 1j,
    ),
    n.normal(3, dtype=torch.float64),
    n.normal(3, dtype=torch.float64),
)
n.add(
    "filled",
    lambda a, m: (
        torch.full((3,), 1 + 2j) * a[:, 0],
        torch.full_like(a, 1j),
        a.new_full((2,), 3 - 1j),
        torch.where(m, a, 1j),
        a.masked_fill(m, 2 - 1j),
        a.clone().fill_(2j),
        a.clone().mul_(1j),
        a == 1j,
    ),
    complex_normal(3, 4),
    n.bools(3, 4),
)
n.add(
    "functions",
    lambda z: (
        z.sqrt(),
        z.rsqrt(),
        z.exp2(),
        z.expm1(),
        z.log(),
        z.log2(),
        z.log10(),
        z.log1p(),
        z.sigmoid(),
        F.silu(z),
    ),
    complex_normal(3, 4),
)
n.add(
    "log_sums",
    lambda z: (z.logsumexp(0), z.logsumexp((0, 1)), (z * 100).logsumexp(-1, keepdim=True), z[:0].logsumexp(0)),
    complex_normal(3, 4),
)
n.add(
    "spaced",
    lambda z: (
        torch.linspace(-1, 2, 4, dtype=torch.complex64) + z,
        torch.linspace(1 + 2j, 3, 4, dtype=torch.complex64) * z,
        torch.linspace(z[0, 0].real, 2.5, 6, dtype=torch.complex64),
        torch.logspace(0, 1.5, 4, base=2, dtype=torch.complex64),
        torch.logspace(z[0, 0].real, z[1, 1].real, 5, dtype=torch.complex64),
        torch.linspace(0, 1j, 1, dtype=torch.complex64),
    ),
    complex_normal(3, 4),
)
n.add(
    "circular",
    lambda z: (
        z.sin(),
        z.cos(),
        z.tan(),
        z.sinh(),
        z.cosh(),
        z.tanh(),
        z.asin(),
        z.acos(),
        z.atan(),
        z.asinh(),
        z.acosh(),
        z.atanh(),
        torch.sinc(z),
    ),
    complex_normal(3, 4),
    tolerance=2e-5,
)
n.add(
    "large",
    lambda z: (
        (z * 1e30).abs(),
        (z * 1e30).sqrt(),
        (z * 1e30) / (z * 2e30),
        (z * 40).tanh(),
        (z * 1e-30).abs(),
        (z * 1e30).log1p(),
    ),
    complex_normal(3, 4),
)
n.add(
    "powers",
    lambda z, w, x: (z**0, z**2, z**-3, z**0.5, z**-0.5, z**2.5, z**11, z ** (1 + 2j), z**w, x**w, x**1j, 2**z, z**x),
    complex_normal(3, 4),
    complex_normal(4),
    n.uniform(0.5, 2, 4),
    tolerance=1e-4,
)
n.add("powers_of_zero", lambda z: (z**2.5, z**0.0, z ** (1 + 1j)), torch.zeros(2, dtype=torch.complex64))
n.add(
    "asked",
    lambda z: (
        z.bool(),
        z.isnan(),
        z.isinf(),
        z.isfinite(),
        z.isreal(),
        z.logical_not(),
        z.any(0),
        z.all(),
        z.count_nonzero(),
        z == 1j,
        torch.isclose(z, z + 1e-7),
    ),
    torch.tensor([1j, 0, 1, complex(float("nan"), 1), complex(1, float("inf")), complex(0, -0.0)]),
)
n.add(
    "by_stride",
    lambda z: (
        z.as_strided((3, 2), (2, 1), 1),
        z.t().as_strided((2, 3), (1, 4)),
        (z * 2).t().as_strided((5,), (2,), 2),
    ),
    complex_normal(3, 4),
)
n.add(
    "rearranged",
    lambda z, w: (
        F.pad(z, (1, 2)),
        torch.meshgrid(z[0], w, indexing="ij")[1],
        torch.diff(z),
        torch.diag(w),
        z.take(torch.tensor([3, 1])),
        torch.block_diag(z, z),
        z.tensor_split(2)[1],
        z.index_copy(0, torch.tensor([1]), z[:1]),
        z.index_add(0, torch.tensor([1]), z[:1], alpha=2),
        z.index_fill(0, torch.tensor([2]), 1j),
        torch.trapezoid(z),
        torch.lerp(z, w, 0.3),
    ),
    complex_normal(3, 4),
    complex_normal(4),
)
n.add(
    "more_products",
    lambda a, b, v: (
        F.linear(a, b),
        F.linear(a, b, v[:3]),
        torch.addmm(v[:3], a, b.mT, beta=0.5, alpha=2j),
        torch.addmv(v[:3], a, v, alpha=0.6),
        torch.addr(a @ b.mT, v[:3], v[1:], alpha=1.5),
        torch.tensordot(a, b, dims=([1], [1])),
        torch.addcmul(a, a, b, value=0.5),
        torch.addcdiv(a, a, b, value=0.5),
        a.var(0),
        a.std(),
        torch.cross(a[:, :3], b[:, 1:], dim=1),
    ),
    complex_normal(3, 4),
    complex_normal(3, 4),
    complex_normal(4),
)
n.add(
    "convolutions",
    lambda x, w, b: (F.conv1d(x, w, b, stride=2), F.conv_transpose1d(x, w.transpose(0, 1), b)),
    complex_normal(2, 3, 9),
    complex_normal(4, 3, 3),
    complex_normal(4),
    tolerance=1e-4,
)
n.add(
    "half",
    lambda h, z: (torch.view_as_real(h * 1j), torch.view_as_real(h[0, 0] * 1j), (h * z).imag, (h * 2j).abs()),
    n.normal(3, 4, dtype=torch.float16),
    torch.tensor(1 + 2j),
    tolerance=4e-3,
)
n.add(
    "products_along",
    lambda z, one: (
        z.prod(),
        z.prod(0),
        z.prod(1, keepdim=True),
        z.cumprod(1),
        z.cumprod(0),
        z[:, :0].prod(1),
        one.prod(),
        one.cumprod(0),
        torch.prod(z.real, 0, dtype=torch.complex64),
    ),
    complex_normal(5, 7),
    torch.tensor(1 + 2j),
    tolerance=5e-5,
)
n.add(
    "products_of_infinities",
    lambda z: (z.cumprod(0).isnan(), z.prod().isnan()),
    torch.tensor([1j, 2, complex(float("inf"), 1), 3]),
)
n.add(
    "selected",
    lambda z, m: (z[m], z.masked_select(m), z[m[:, 0]], (z * 1j).masked_select(m[1]), z[:, m[0]].abs() + 1, z[m].sum()),
    complex_normal(3, 4),
    n.bools(3, 4),
)
n.add("returned", lambda a: (a, a + 0), complex_normal(3))
n.add(
    "backwards_of_views",
    lambda a, b, c: (
        torch.ops.aten.slice_backward(a, [3, 9], 1, 1, 9, 2),
        torch.ops.aten.select_backward(b, [3, 4], 0, 1),
        torch.ops.aten.diagonal_backward(b, [4, 5], 0, 0, 1),
        torch.ops.aten.unfold_backward(a[None], [1, 6], 1, 4, 1),
        torch.ops.aten._unsafe_index(a, [torch.tensor([2, 0], device=a.device)]),
        torch.ops.aten._unsafe_index_put(a, [torch.tensor([2, 0], device=a.device)], b, True),
        torch.select_copy(a, 1, 2),
        torch.slice_copy(a, 1, 1, 4, 2),
        F.pad(c, (1, 2), "reflect"),
        F.pad(c[None], (1, 2, 0, 1), "replicate"),
    ),
    complex_normal(3, 4),
    complex_normal(4),
    complex_normal(2, 5),
)

f.add(
    "complex",
    lambda x: (
        torch.view_as_real(torch.fft.fft(x)),
        torch.fft.ifft(x).abs(),
        torch.fft.fft(x, n=5).real,
        torch.fft.fft2(x, norm="ortho").imag,
    ),
    f.normal(3, 8),
)
f.add(
    "real",
    lambda x: (
        torch.fft.rfft(x).abs(),
        torch.fft.irfft(torch.fft.rfft(x, dim=0), n=5, dim=0),
        torch.fft.irfft2(torch.fft.rfft2(x) * 2),
        torch.fft.rfftn(x, norm="forward").real,
    ),
    f.normal(5, 9),
)
f.add(
    "long",
    lambda x: (
        torch.fft.fft(x).abs(),
        torch.fft.irfft(torch.fft.rfft(x)),
        torch.fft.rfft(x[:, :200]).imag,
        torch.fft.ifft(torch.fft.fft(x[:, :131])).real,
    ),
    f.normal(2, 360),
    tolerance=5e-5,
)
f.add(
    "rows",
    lambda x, y: (
        torch.fft.rfft(x).abs(),
        torch.fft.rfft(x.transpose(0, 1), dim=0).imag,
        torch.fft.irfft(torch.fft.rfft(x), n=143),
        torch.fft.irfft(torch.fft.fft(x)[:, :80], n=131),
        torch.fft.fft2(y, dim=(0, 1), norm="ortho").real,
        torch.fft.irfftn(torch.fft.rfftn(y), s=y.shape),
        torch.fft.ifft(x, n=101).imag,
        torch.fft.hfft(torch.fft.ihfft(x)),
    ),
    f.normal(9, 144),
    f.normal(36, 40, 4),
    tolerance=5e-5,
)
f.add(
    "prime",
    lambda x: (torch.fft.fft(x).abs(), torch.fft.irfft(torch.fft.rfft(x), n=4099)),
    f.normal(1, 4099),
    tolerance=2e-4,
)
f.add("double", lambda x: torch.fft.irfft(torch.fft.rfft(x)), f.normal(7, 96, dtype=torch.float64))
f.add(
    "shift",
    lambda x: (
        torch.fft.fftshift(x),
        torch.fft.ifftshift(x, dim=1),
        torch.fft.fftshift(torch.fft.fft2(x)).abs(),
        torch.fft.fftfreq(7) + 0,
        torch.fft.rfftfreq(8, 0.5) + 0,
    ),
    f.normal(4, 5),
)
f.add("hermitian", lambda x: torch.fft.hfft(torch.fft.ihfft(x), n=8), f.normal(3, 8))
f.add(
    "stft",
    lambda x: torch.stft(x, 16, hop_length=4, win_length=12, window=torch.hann_window(12), return_complex=True).abs(),
    f.normal(2, 64),
)
f.add(
    "stft_of_complex_signals",
    lambda z, w: (
        torch.stft(z, 16, hop_length=4, window=torch.hann_window(16), return_complex=True, onesided=False),
        torch.stft(z[0], 16, 4, 12, center=False, normalized=True, return_complex=True, onesided=False),
        torch.stft(z, 16, 4, window=w, return_complex=True, onesided=False),
        torch.stft(z.real, 16, 4, window=w, return_complex=True, onesided=False),
    ),
    complex_normal(2, 64),
    complex_normal(16),
)
f.add(
    "istft_of_both_sides",
    lambda z: (torch.istft(z, 10), torch.istft(z, 10, return_complex=True, onesided=False)),
    torch.complex(f.normal(10, 12), f.normal(10, 12)),
    tolerance=1e-4,
)
f.add(
    "istft",
    lambda x: torch.istft(
        torch.stft(x, 16, hop_length=4, window=torch.hann_window(16), return_complex=True),
        16,
        hop_length=4,
        window=torch.hann_window(16),
    ),
    f.normal(2, 64),
)

PADDING = 3
rows, at, offsets = g.normal(10, 4), g.integers(0, 10, 9), torch.tensor([0, 4, 4, 7])
at[1] = PADDING
for mode in ("sum", "mean", "max"):
    g.add(
        f"bag_{mode}",
        lambda w, i, o, mode=mode: (
            F.embedding_bag(i, w, o, mode=mode),
            F.embedding_bag(i.view(3, 3), w, mode=mode),
            F.embedding_bag(i, w, o, mode=mode, padding_idx=PADDING, include_last_offset=True),
            F.embedding_bag(i, w, o, mode=mode, padding_idx=PADDING - 10),
        ),
        rows,
        at,
        offsets,
    )


def far_from_singular(*sizes):
    return complex_normal(*sizes) + 4 * torch.eye(sizes[-1])


n.add(
    "cholesky",
    lambda a, b: (
        lambda h: (
            lambda l, u: (
                l,
                u,
                *torch.linalg.cholesky_ex(h),
                torch.cholesky_solve(b, l),
                torch.cholesky_solve(b, u, upper=True),
                torch.cholesky_inverse(l),
            )
        )(torch.linalg.cholesky(h), torch.linalg.cholesky(h, upper=True))
    )(a @ a.mH),
    far_from_singular(2, 4, 4),
    complex_normal(2, 4, 3),
)
n.add(
    "triangles",
    lambda a, b: (
        torch.linalg.solve_triangular(a, b, upper=False),
        torch.linalg.solve_triangular(a, b, upper=True, unitriangular=True),
        torch.linalg.solve_triangular(a, b.mT, upper=True, left=False),
    ),
    far_from_singular(2, 4, 4),
    complex_normal(2, 4, 3),
)
n.add(
    "solutions",
    lambda a, b: (
        torch.linalg.solve(a, b),
        torch.linalg.solve(a, b.mT, left=False),
        torch.linalg.solve(a, b[..., 0]),
        *torch.linalg.solve_ex(a, b),
        *torch.linalg.inv_ex(a),
        torch.linalg.matrix_power(a, 3),
    ),
    far_from_singular(2, 4, 4),
    complex_normal(2, 4, 3),
)
n.add(
    "singular_values",
    lambda a, b: (
        torch.linalg.svdvals(b),
        torch.linalg.eigvalsh(a),
        torch.linalg.eigvalsh(a, UPLO="U"),
        *(torch.linalg.matrix_norm(b, p) for p in (1, float("inf"), "fro")),
        torch.linalg.norm(b),
    ),
    far_from_singular(2, 4, 4),
    complex_normal(2, 4, 3),
)
g.add(
    "bag_weights",
    lambda w, i, o, s: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=s),
    rows,
    at,
    offsets,
    g.normal(9),
)
for how in ("sum", "mean", "max", "min", "prod"):
    g.add(
        f"segment_{how}",
        lambda x, n, how=how: torch.segment_reduce(x, how, lengths=n, axis=0, unsafe=True),
        g.normal(6, 3),
        torch.tensor([2, 1, 3]),
    )
g.add(
    "grouped_mm",
    lambda x, w, o: torch._grouped_mm(x, w, offs=o),
    g.normal(90, 16, dtype=torch.bfloat16),
    g.normal(4, 16, 32, dtype=torch.bfloat16),
    torch.tensor([5, 5, 77, 90], dtype=torch.int32),
)
g.add(
    "cond",
    lambda x: torch.cond(x.sum() > 0, lambda t: (t.sin() + 1, t * 3), lambda t: (t.cos() - 1, t * 2), (x,)),
    g.normal(4),
)
g.add(
    "cond_nested",
    lambda x: torch.cond(
        x[0] > 9, lambda t: t + 1, lambda t: torch.cond(t[1] > -9, lambda u: u * 2, lambda u: u / 2, (t,)), (x,)
    ),
    g.normal(4),
)
f.add(
    "hermitian_many",
    lambda x: (
        torch.fft.hfft2(torch.fft.fft(x)),
        torch.fft.hfftn(x, s=(5, 8), norm="ortho"),
        torch.fft.ihfft2(x).real,
        torch.fft.ihfftn(x, norm="forward").imag,
    ),
    f.normal(5, 6),
)
g.add("embedding_max_norm", lambda w, i: (F.embedding(i, w, max_norm=1.0), w), g.normal(7, 4), g.integers(0, 7, 2, 3))
g.add(
    "index_reduce_number", lambda a, b: torch.index_reduce(a, 0, torch.tensor([0]), b, "prod"), g.normal(), g.normal()
)
