"""Programs of `user_harness.py`: signals, complex numbers, physics, filters, linear algebra, in several precisions."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from user_harness import program

R = torch.randn
D = lambda *s: torch.randn(*s, dtype=torch.float64)
C = lambda *s: torch.randn(*s, dtype=torch.complex64)


@program(lambda: (R(2, 400),), lambda: (R(1, 480),), grad=True)
def mel_spectrogram(wave):
    window = torch.hann_window(64)
    spectrum = torch.stft(wave, 64, 16, window=window, center=True, pad_mode="reflect", return_complex=True)
    power = spectrum.abs().square()
    mel = lambda f: 2595 * math.log10(1 + f / 700)
    points = torch.linspace(mel(0), mel(8000), 12)
    hertz = 700 * (10 ** (points / 2595) - 1)
    frequency = torch.linspace(0, 8000, 33)
    slope = hertz[None] - frequency[:, None]
    down = -slope[:, :-2] / (hertz[1:] - hertz[:-1])[:-1]
    up = slope[:, 2:] / (hertz[1:] - hertz[:-1])[1:]
    bank = torch.minimum(down, up).clamp(min=0)
    m = torch.einsum("bft,fm->bmt", power, bank).clamp(min=1e-5).log10() * 10
    return torch.maximum(m, m.amax((1, 2), keepdim=True) - 80)


@program(lambda: (torch.rand(1, 33, 9),))
def griffin_lim(magnitude):
    window = torch.hann_window(64)
    angle = torch.ones_like(magnitude, dtype=torch.complex64)
    before = torch.zeros_like(angle)
    for _ in range(3):
        wave = torch.istft(magnitude * angle, 64, 16, window=window)
        rebuilt = torch.stft(wave, 64, 16, window=window, return_complex=True)
        angle = rebuilt - 0.5 * before
        angle = angle / (angle.abs() + 1e-6)
        before = rebuilt
    return torch.istft(magnitude * angle, 64, 16, window=window), angle.abs()


@program(lambda: (R(3, 50), R(3), R(3)), lambda: (R(2, 33), R(2), R(2)), grad=True)
def biquad_filter(x, cutoff, q):
    w = cutoff.sigmoid() * math.pi
    alpha = w.sin() / (2 * (q.exp() + 0.5))
    b0, b1, a0 = (1 - w.cos()) / 2, 1 - w.cos(), 1 + alpha
    a1, a2 = -2 * w.cos() / a0, (1 - alpha) / a0
    y1 = y2 = x1 = x2 = torch.zeros_like(cutoff)
    out = []
    for t in range(20):
        y = (b0 * x[:, t] + b1 * x1 + b0 * x2) / a0 - a1 * y1 - a2 * y2
        x2, x1, y2, y1 = x1, x[:, t], y1, y
        out.append(y)
    return torch.stack(out, -1)


@program(lambda: (D(12, 2), 0.1), lambda: (D(9, 2), 0.1), grad=True)
def kalman_filter(observed, dt):
    f = torch.eye(4, dtype=torch.float64)
    f[0, 2] = f[1, 3] = dt
    h = torch.eye(2, 4, dtype=torch.float64)
    q, r = 0.01 * torch.eye(4, dtype=torch.float64), 0.1 * torch.eye(2, dtype=torch.float64)
    x, p, log = observed.new_zeros(4), torch.eye(4, dtype=torch.float64), 0.0
    states = []
    for z in observed.unbind(0)[:8]:
        x, p = f @ x, f @ p @ f.T + q
        s = h @ p @ h.T + r
        gain = torch.linalg.solve(s, h @ p).T
        e = z - h @ x
        log = log - 0.5 * (e @ torch.linalg.solve(s, e) + torch.logdet(s))
        x, p = x + gain @ e, p - gain @ s @ gain.mT
        states.append(x)
    return torch.stack(states), log, p


@program(lambda: (D(5, 3), D(5, 3), torch.rand(5, dtype=torch.float64) + 0.5), grad=True)
def n_body_leapfrog(position, velocity, mass):
    def force(x):
        d = x[None] - x[:, None]
        inverse = (d.square().sum(-1) + 1e-2).pow(-1.5)
        inverse = inverse.fill_diagonal_(0)
        return (mass[None, :, None] * d * inverse[..., None]).sum(1)

    a = force(position)
    for _ in range(5):
        velocity = velocity + 0.005 * a
        position = position + 0.01 * velocity
        a = force(position)
        velocity = velocity + 0.005 * a
    kinetic = 0.5 * (mass * velocity.square().sum(-1)).sum()
    i, j = torch.triu_indices(5, 5, 1)
    potential = -(mass[i] * mass[j] / torch.pdist(position)).sum()
    return position, velocity, kinetic + potential


@program(lambda: (R(3, 4),), lambda: (R(5, 4),), grad=True)
class NeuralOde(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 4))

    def f(self, t, y):
        return self.net(torch.cat([y, torch.full_like(y[:, :1], t)], 1))

    def forward(self, y):
        t, h, worst = 0.0, 0.1, y.new_tensor(0.0)
        for _ in range(4):
            k1 = self.f(t, y)
            k2 = self.f(t + h / 2, y + h / 2 * k1)
            k3 = self.f(t + h / 2, y + h / 2 * k2)
            k4 = self.f(t + h, y + h * k3)
            new = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            worst = torch.maximum(worst, (new - (y + h * k1)).abs().max())
            y, t = new, t + h
        return y, worst


@program(lambda: (D(16, 16), 5), lambda: (D(20, 12), 5))
def heat_equation_in_place(field, steps):
    field[0], field[-1], field[:, 0], field[:, -1] = 1.0, 0.0, 0.5, 0.5
    for _ in range(steps):
        inner = field[1:-1, 1:-1]
        inner += 0.2 * (field[:-2, 1:-1] + field[2:, 1:-1] + field[1:-1, :-2] + field[1:-1, 2:] - 4 * inner)
    return field[1:-1, 1:-1].mean(), torch.gradient(field, dim=(0, 1))


@program(lambda: (torch.rand(8, 8), torch.rand(8, 8) > 0.6), grad=False)
def game_of_life_and_diffusion(levels, alive):
    kernel = torch.ones(1, 1, 3, 3)
    kernel[..., 1, 1] = 0
    for _ in range(3):
        near = F.conv2d(F.pad(alive[None, None].float(), (1, 1, 1, 1), mode="circular"), kernel).squeeze()
        alive = (alive & (near == 2)) | (near == 3)
        levels = torch.where(alive, levels, levels.roll(1, 0) * 0.5)
    return alive, levels, alive.sum(), alive.nonzero().shape[0]


@program(lambda: (C(3, 8), C(8, 8)), lambda: (C(2, 8), C(8, 8)), grad=True)
def quantum_circuit(state, mixing):
    u = torch.linalg.matrix_exp(0.5 * (mixing - mixing.mH))
    state = state / torch.linalg.vector_norm(state, dim=-1, keepdim=True)
    state = torch.einsum("bi,ji->bj", state, u)
    h = torch.tensor([[1, 1], [1, -1]], dtype=torch.complex64) / math.sqrt(2)
    s = state.view(-1, 2, 2, 2)
    s = torch.einsum("ij,bjkl->bikl", h, s)
    s = torch.cat([s[:, :1], s[:, 1:].flip(3)], 1)
    phase = torch.polar(torch.ones(2), torch.tensor([0.0, math.pi / 4]))
    s = s * phase[None, None, None]
    z = torch.tensor([1.0, -1.0])
    probability = s.abs().square()
    return (probability.sum((2, 3)) * z).sum(1), s.flatten(1).conj(), torch.vdot(s[0].flatten(), s[1].flatten()).imag


@program(lambda: (R(2, 3, 16),), lambda: (R(2, 3, 32),), grad=True)
class FourierLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 4, 5, dtype=torch.cfloat) / 4)
        self.skip = nn.Conv1d(3, 4, 1)

    def forward(self, x):
        spectrum = torch.fft.rfft(x, norm="ortho")
        out = torch.zeros(x.shape[0], 4, spectrum.shape[-1], dtype=torch.cfloat)
        out[:, :, :5] = torch.einsum("bix,iox->box", spectrum[:, :, :5], self.weight)
        return F.gelu(torch.fft.irfft(out, n=x.shape[-1], norm="ortho") + self.skip(x))


@program(lambda: (R(64), R(64)), grad=True)
def hilbert_and_correlation(x, y):
    n = x.shape[0]
    h = torch.zeros(n)
    h[0] = h[n // 2] = 1
    h[1 : n // 2] = 2
    analytic = torch.fft.ifft(torch.fft.fft(x) * h)
    envelope, phase = analytic.abs(), torch.angle(analytic)
    cross = torch.fft.irfft(torch.fft.rfft(x, 128) * torch.fft.rfft(y, 128).conj(), 128)
    return envelope, phase.cos(), torch.fft.fftshift(cross), torch.view_as_real(analytic)


@program(lambda: (C(4, 6, 6), C(4, 6)), grad=False)
def beamforming_mvdr(snapshots, steering):
    covariance = snapshots @ snapshots.mH / 6 + 0.1 * torch.eye(6)
    w = torch.linalg.solve(covariance, steering.unsqueeze(-1)).squeeze(-1)
    w = w / (steering.conj() * w).sum(-1, keepdim=True)
    power = torch.einsum("bi,bij,bj->b", w.conj(), covariance, w)
    return w, power.real, power.imag.abs() < 1e-3, (w.conj() * steering).sum(-1)


@program(lambda: (R(5, 4), R(5)), lambda: (R(8, 4), R(8)), grad=True, tolerance=2e-3)
def gaussian_process(x, y):
    k = (-0.5 * torch.cdist(x, x).square()).exp() + 0.2 * torch.eye(len(x))
    chol = torch.linalg.cholesky(k)
    alpha = torch.cholesky_solve(y[:, None], chol)
    query = x[:3] + 0.1
    ks = (-0.5 * torch.cdist(query, x).square()).exp()
    v = torch.linalg.solve_triangular(chol, ks.T, upper=False)
    evidence = -0.5 * y @ alpha.squeeze(-1) - chol.diagonal().log().sum() - len(x) / 2 * math.log(2 * math.pi)
    return (ks @ alpha).squeeze(-1), 1 - v.square().sum(0), evidence


@program(lambda: (D(4, 20, 3), D(20)), lambda: (D(2, 31, 3), D(31)), grad=True)
def levenberg_marquardt_lines(points, y):
    theta = points.new_zeros(points.shape[0], 3)
    damping = 1e-2
    for _ in range(3):
        prediction = torch.tanh(torch.einsum("bni,bi->bn", points, theta))
        jacobian = (1 - prediction**2)[..., None] * points
        residual = y - prediction
        normal = jacobian.mT @ jacobian + damping * torch.eye(3, dtype=torch.float64)
        theta = theta + torch.linalg.solve(normal, jacobian.mT @ residual[..., None])[..., 0]
    return theta, residual.square().mean(-1)


@program(lambda: (R(30, 4), 3), lambda: (R(41, 4), 3))
def k_means(x, k):
    centers = x[:k].clone()
    for _ in range(4):
        label = torch.cdist(x, centers).argmin(1)
        count = torch.bincount(label, minlength=k).clamp(min=1)
        centers = torch.zeros_like(centers).index_add(0, label, x) / count[:, None]
    inertia = (x - centers[label]).square().sum()
    means = torch.zeros(k, 4).scatter_reduce(0, label[:, None].expand(-1, 4), x, "mean", include_self=False)
    return centers, label, inertia, means


@program(lambda: (R(8, 6), R(5, 6), torch.arange(8) % 3), lambda: (R(11, 6), R(4, 6), torch.arange(11) % 3))
def nearest_neighbours(base, queries, labels):
    similarity = F.normalize(queries, dim=-1) @ F.normalize(base, dim=-1).T
    value, index = similarity.topk(3)
    votes = torch.zeros(len(queries), 3).scatter_add_(1, labels[index], (value / 0.1).exp())
    rank = similarity.argsort(dim=1, descending=True, stable=True).argsort(1)
    recall = (labels[index] == labels[: len(queries), None]).any(1).float().mean()
    return votes.argmax(1), votes, rank, recall, labels[index].mode(1).values


@program(lambda: (R(6, 4), R(5, 4)), lambda: (R(8, 4), R(7, 4)), grad=True)
def sinkhorn(x, y):
    cost = torch.cdist(x, y, p=1)
    f, g = torch.zeros(len(x)), torch.zeros(len(y))
    for _ in range(6):
        f = -0.2 * torch.logsumexp((g - cost) / 0.2 - math.log(len(y)), 1)
        g = -0.2 * torch.logsumexp((f[:, None] - cost) / 0.2 - math.log(len(x)), 0)
    plan = ((f[:, None] + g - cost) / 0.2).exp() / (len(x) * len(y))
    return (plan * cost).sum(), plan, plan.argmax(1)


@program(lambda: (D(3, 5, 5),), lambda: (D(2, 7, 7),), grad=True)
def matrix_functions(a):
    s = a @ a.mT + torch.eye(a.shape[-1], dtype=a.dtype)
    w, v = torch.linalg.eigh(s)
    root = (v * w.sqrt()[..., None, :]) @ v.mT
    q, r = torch.linalg.qr(a)
    power = torch.linalg.matrix_power(a / 4, 3)
    return (
        root,
        w.log().sum(-1),
        torch.linalg.slogdet(s)[1],
        (q @ r - a).abs().amax(),
        power,
        torch.linalg.pinv(a).sum(),
    )


@program(lambda: (R(4, 50), torch.linspace(0, 1, 50)), lambda: (R(2, 64), torch.linspace(0, 1, 64)), grad=True)
def resampling_and_integrals(y, t):
    query = torch.linspace(0.05, 0.9, 11)
    right = torch.searchsorted(t, query).clamp(1, len(t) - 1)
    t0, t1 = t[right - 1], t[right]
    w = (query - t0) / (t1 - t0)
    value = y[:, right - 1] * (1 - w) + y[:, right] * w
    area = torch.trapezoid(y, t)
    running = torch.cumulative_trapezoid(y, dx=0.5)
    smooth = F.avg_pool1d(F.pad(y[:, None], (2, 2), mode="replicate"), 5, 1).squeeze(1)
    return value, area, running, smooth, torch.diff(y, n=2), torch.bucketize(query, t[::5])


@program(lambda: (R(2, 1, 64), R(2, 5, 8)), grad=True, bf16=True)
class WaveGenerator(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose1d(5, 6, 16, stride=8, padding=4)
        self.dilated = nn.ModuleList(nn.Conv1d(1 if i == 0 else 4, 8, 2, dilation=2**i) for i in range(3))
        self.condition = nn.ModuleList(nn.Conv1d(6, 8, 1) for _ in range(3))
        self.snake = nn.Parameter(torch.ones(4, 1))
        self.final = nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 2, 1))

    def forward(self, x, mel):
        c, skip = self.up(mel), 0
        for i, (conv, condition) in enumerate(zip(self.dilated, self.condition)):
            a, b = (conv(F.pad(x, (2**i, 0))) + condition(c)).chunk(2, 1)
            y = a.tanh() * b.sigmoid()
            y = y + (self.snake * y).sin().square() / (self.snake + 1e-9)
            x = y if i == 0 else (x + y) * 0.5**0.5
            skip = skip + y
        return self.final(skip)
