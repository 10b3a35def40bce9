"""Programs of `user_harness.py`: functional transforms, optimizers, losses, quantization, flows, autograd functions."""

import functools
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, grad_and_value, jacfwd, jacrev, jvp, vjp, vmap

from user_harness import program

R = torch.randn


def net(parameters, x):
    return (x @ parameters["a"]).tanh() @ parameters["b"]


def weights():
    return {"a": R(4, 6), "b": R(6, 2)}


@program(lambda: (weights(), R(5, 4), R(5, 2)), lambda: (weights(), R(8, 4), R(8, 2)), package=False)
def per_sample_gradients(parameters, x, y):
    loss = lambda p, x, y: F.mse_loss(net(p, x), y)
    each = vmap(grad(loss), (None, 0, 0))(parameters, x, y)
    norm = sum(g.flatten(1).square().sum(1) for g in each.values()).sqrt()
    scale = (1.0 / norm).clamp(max=1)
    return {k: (g * scale.view(-1, 1, 1)).mean(0) for k, g in each.items()}, norm


@program(lambda: (weights(), R(5, 4)), package=False)
def jacobians_and_hessians(parameters, x):
    f = lambda x: net(parameters, x).sin()
    forward, backward = vmap(jacfwd(f))(x), vmap(jacrev(f))(x)
    second = vmap(jacfwd(grad(lambda x: f(x).sum())))(x)
    out, tangent = jvp(f, (x,), (torch.ones_like(x),))
    value, pull = vjp(f, x)
    return (
        forward,
        backward,
        second,
        out,
        tangent,
        pull(torch.ones_like(value))[0],
        second.diagonal(dim1=1, dim2=2).sum(1),
    )


@program(lambda: (weights(), R(3, 5, 4), R(3, 5, 2)), package=False)
def maml_inner_steps(parameters, x, y):
    def task(x, y):
        p = parameters
        for _ in range(2):
            g = grad(lambda p: F.mse_loss(net(p, x), y))(p)
            p = {k: p[k] - 0.1 * g[k] for k in p}
        return F.mse_loss(net(p, x), y)

    outer, value = grad_and_value(lambda: 0.0) if False else (None, vmap(task)(x, y))
    return value, value.mean()


@program(lambda: (R(4, 3),), lambda: (R(6, 3),), package=False)
class EnsembleByVmap(nn.Module):
    def __init__(self):
        super().__init__()
        models = [nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)) for _ in range(3)]
        self.base = models[0]
        self.names = [n for n, _ in self.base.named_parameters()]
        stacked = [torch.stack([dict(m.named_parameters())[n].detach() for m in models]) for n in self.names]
        self.stacked = nn.ParameterList(stacked)

    def forward(self, x):
        one = lambda p, x: functional_call(self.base, p, (x,))
        out = vmap(one, in_dims=(0, None))(dict(zip(self.names, self.stacked)), x)
        return out, out.std(0), vmap(vmap(torch.dot))(out, out)


@program(lambda: (weights(), weights(), weights(), R(5, 4), 3), package=False)
def adam_by_hand(p, m, v, x, step):
    g = grad(lambda p: net(p, x).square().mean())(p)
    total = torch.sqrt(sum(t.square().sum() for t in g.values()))
    clip = (1.0 / (total + 1e-6)).clamp(max=1.0)
    for k in p:
        gk = g[k] * clip
        m[k].lerp_(gk, 0.1)
        v[k].abs_().mul_(0.99).addcmul_(gk, gk, value=0.01)
        denominator = (v[k] / (1 - 0.99**step)).sqrt_().add_(1e-8)
        p[k].mul_(1 - 1e-3).addcdiv_(m[k], denominator, value=-1e-2 / (1 - 0.9**step))
    return total


@program(lambda: (R(6, 8), R(6, 8)), lambda: (R(8, 6), R(8, 6)), package=True, tolerance=2e-3)
def muon_step(p, g):
    x = g / (g.norm() + 1e-7)
    flip = x.size(0) > x.size(1)
    x = x.T if flip else x
    for _ in range(3):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    x = x.T if flip else x
    p -= 0.02 * max(1, g.size(0) / g.size(1)) ** 0.5 * x
    return p.norm(), x


@program(
    lambda: [R(3, 4), R(5), R(2, 2, 2)] and ([R(3, 4), R(5), R(2, 2, 2)], [R(3, 4), R(5), R(2, 2, 2)]), package=False
)
def foreach_optimizer(p, g):
    torch._foreach_mul_(p, 0.99)
    torch._foreach_add_(p, g, alpha=-0.1)
    norms = torch._foreach_norm(g)
    signs = [t.sign() for t in g]
    torch._foreach_addcmul_(p, g, signs, 0.01)
    torch._foreach_clamp_min_(p, -1.0)
    return torch.stack(norms), torch._foreach_maximum(p, g)


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        ctx.mark_non_differentiable(kept := (x.abs() <= scale))
        return (x / scale * 127).round().clamp(-128, 127) * scale / 127, kept

    @staticmethod
    def backward(ctx, g, _):
        x, scale = ctx.saved_tensors
        inside = x.abs() <= scale
        return g * inside, (g * torch.where(inside, 0, x.sign())).sum() if ctx.needs_input_grad[1] else None


@program(lambda: (R(4, 6), torch.tensor(1.5)), lambda: (R(7, 6), torch.tensor(1.1)), grad=True, package=False)
def quantizer_with_own_gradient(x, scale):
    y, kept = StraightThrough.apply(x, scale)
    return y.square(), kept.float().mean()


class GradientReversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -ctx.factor * g, None


@program(lambda: (R(4, 6), 0.3), lambda: (R(5, 6), 0.3), grad=True, bf16=True, package=False)
class DomainAdversarial(nn.Module):
    def __init__(self):
        super().__init__()
        self.features, self.domain = nn.Linear(6, 5), nn.Linear(5, 2)

    def forward(self, x, factor):
        f = F.elu(self.features(x))
        return f, self.domain(GradientReversal.apply(f, factor)).log_softmax(-1)


@program(lambda: (R(2, 4, 6, 6),), lambda: (R(1, 4, 5, 8),), grad=True)
class VectorQuantizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.codes = nn.Embedding(16, 4)
        self.register_buffer("used", torch.zeros(16))

    def forward(self, z):
        flat = z.permute(0, 2, 3, 1).reshape(-1, 4)
        d = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ self.codes.weight.t() + self.codes.weight.pow(2).sum(1)
        index = d.argmin(1)
        q = self.codes(index).view(z.shape[0], *z.shape[2:], 4).permute(0, 3, 1, 2)
        loss = F.mse_loss(q.detach(), z) * 0.25 + F.mse_loss(q, z.detach())
        share = F.one_hot(index, 16).float().mean(0)
        self.used.mul_(0.9).add_(share, alpha=0.1)
        perplexity = (-(share * (share + 1e-10).log()).sum()).exp()
        return z + (q - z).detach(), loss, perplexity, index.view(z.shape[0], *z.shape[2:])


@program(lambda: (R(4, 6),), lambda: (R(7, 6),), grad=True)
class RealNvp(nn.Module):
    def __init__(self):
        super().__init__()
        self.nets = nn.ModuleList(nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(0.1), nn.Linear(8, 6)) for _ in range(3))
        self.register_buffer("order", torch.tensor([3, 4, 5, 0, 1, 2]))
        self.log_scale, self.shift = nn.Parameter(torch.zeros(6)), nn.Parameter(torch.zeros(6))

    def forward(self, x):
        log = self.log_scale.sum().expand(x.shape[0])
        z = x * self.log_scale.exp() + self.shift
        for f in self.nets:
            a, b = z.chunk(2, 1)
            s, t = f(a).chunk(2, 1)
            s = torch.tanh(s)
            z = torch.cat([a, b * s.exp() + t], 1)[:, self.order]
            log = log + s.sum(1)
        prior = -0.5 * (z**2 + math.log(2 * math.pi)).sum(1)
        return prior + log, z


@program(lambda: (R(3, 5),), grad=True)
def rational_quadratic_spline(x):
    torch.manual_seed(0)
    w = F.softmax(torch.arange(6.0).sin().expand(3, 5, 6), -1) * 0.94 + 0.01
    edges = F.pad(w.cumsum(-1), (1, 0)) * 6 - 3
    h = F.softmax(torch.arange(6.0).cos().expand(3, 5, 6), -1) * 0.94 + 0.01
    heights = F.pad(h.cumsum(-1), (1, 0)) * 6 - 3
    slope = F.softplus(torch.arange(7.0).sin()).expand(3, 5, 7) + 1e-3
    inside = (x > -3) & (x < 2.9)
    safe = x.clamp(-2.99, 2.8)
    k = (torch.searchsorted(edges.contiguous(), safe[..., None].contiguous(), right=True) - 1).clamp(0, 5)
    at = lambda t: t.gather(-1, k).squeeze(-1)
    width, height = at(edges[..., 1:]) - at(edges), at(heights[..., 1:]) - at(heights)
    delta, u = height / width, (safe - at(edges)) / width
    d0, d1 = at(slope), at(slope[..., 1:])
    top = height * (delta * u**2 + d0 * u * (1 - u))
    bottom = delta + (d0 + d1 - 2 * delta) * u * (1 - u)
    y = at(heights) + top / bottom
    det = delta**2 * (d1 * u**2 + 2 * delta * u * (1 - u) + d0 * (1 - u) ** 2) / bottom**2
    return torch.where(inside, y, x), torch.where(inside, det.log(), 0.0).sum(-1)


@program(lambda: (R(8, 3), R(8), R(8) > 1), lambda: (R(12, 3), R(12), R(12) > 1), grad=True)
def advantages_and_clipped_objective(logits, values, done):
    rewards = logits.detach().sum(1)
    n = len(rewards)
    keep = 1 - done.to(values.dtype)
    advantages = torch.zeros_like(rewards)
    last = torch.zeros(())
    following = torch.cat([values[1:], values.new_zeros(1)]).detach()
    delta = rewards + 0.99 * following * keep - values.detach()
    for t in reversed(range(n)):
        last = delta[t] + 0.99 * 0.95 * keep[t] * last
        advantages[t] = last
    returns = advantages + values.detach()
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    action = logits.detach().argmin(1)
    log = logits.log_softmax(1).gather(1, action[:, None]).squeeze(1)
    ratio = (log - log.detach() * 0.9).exp()
    policy = -torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
    value = F.smooth_l1_loss(values, returns)
    entropy = torch.distributions.Categorical(logits=logits).entropy().mean()
    return policy + 0.5 * value - 0.01 * entropy, advantages, returns


@program(lambda: (R(3, 6, 5), R(3, 5)), lambda: (R(2, 8, 5), R(2, 5)), grad=True, bf16=True)
class HyperNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.make = nn.Linear(5, 5 * 4 + 4)

    def forward(self, x, code):
        w, b = self.make(code).split([20, 4], -1)
        y = torch.baddbmm(b[:, None], x, w.reshape(-1, 5, 4))
        kernels = w[:, :15].reshape(-1, 1, 3)
        conv = F.conv1d(x[:, :5].reshape(1, -1, 5), kernels, groups=kernels.shape[0])
        return y, conv.view(x.shape[0], 5, -1)


@program(lambda: (R(5, 4), R(5, 4)), lambda: (R(7, 4), R(7, 4)), grad=True, bf16=True)
def contrastive_losses(a, b):
    a, b = F.normalize(a, dim=-1), F.normalize(b, dim=-1)
    logits = a @ b.T / 0.07
    target = torch.arange(len(a))
    clip = (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2
    z = torch.cat([a, b])
    sim = (z @ z.T / 0.5).masked_fill(torch.eye(len(z), dtype=torch.bool), -1e4)
    pair = torch.arange(len(z)).roll(len(a))
    c = (a - a.mean(0)).T @ (b - b.mean(0)) / len(a)
    off = c.flatten()[:-1].view(3, 5)[:, 1:].square().sum()
    triplet = F.triplet_margin_loss(a, b, b.flip(0), margin=0.5)
    return clip, F.cross_entropy(sim, pair), (c.diagonal() - 1).square().sum() + 0.005 * off, triplet


@program(lambda: (R(4, 3, 8, 8), torch.tensor([3, 50, 9, 77])), grad=True, bf16=True)
class DiffusionStep(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.time, self.outer = (
            nn.Conv2d(3, 8, 3, padding=1),
            nn.Linear(16, 8),
            nn.Conv2d(8, 3, 3, padding=1),
        )
        self.norm = nn.GroupNorm(4, 8)
        beta = torch.linspace(1e-4**0.5, 0.02**0.5, 100) ** 2
        self.register_buffer("cumulative", (1 - beta).cumprod(0))

    def forward(self, x, t):
        frequency = torch.exp(-math.log(10000) * torch.arange(8) / 8)
        angle = t[:, None].float() * frequency
        e = self.time(torch.cat([angle.sin(), angle.cos()], -1).to(x.dtype))
        noise = self.outer(F.silu(self.norm(self.inner(x) + e[:, :, None, None])))
        a = self.cumulative[t].view(-1, 1, 1, 1)
        before = self.cumulative[(t - 10).clamp(min=0)].view(-1, 1, 1, 1)
        start = ((x - (1 - a).sqrt() * noise) / a.sqrt()).clamp(-1, 1)
        quantile = torch.quantile(start.float().flatten(1).abs(), 0.9, dim=1).clamp(min=1)
        snr = a / (1 - a)
        loss = (
            noise.square().mean((1, 2, 3))
            * torch.stack([snr.flatten(), torch.full_like(t, 5.0, dtype=snr.dtype)], 1).min(1)[0]
        ).mean()
        return before.sqrt() * start + (1 - before).sqrt() * noise, quantile, loss


@program(lambda: (R(6, 4), torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2], [1, 2, 3, 4, 5, 0, 3, 5]])), grad=True)
class GraphAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.a = nn.Linear(4, 6, bias=False), nn.Parameter(R(2, 6))

    def forward(self, x, edges):
        source, target = edges
        h = self.w(x).view(-1, 2, 3)
        score = F.leaky_relu((torch.cat([h[source], h[target]], -1) * self.a).sum(-1), 0.2)
        top = torch.full((len(x), 2), -torch.inf).scatter_reduce(0, target[:, None].expand(-1, 2), score, "amax")
        p = (score - top[target]).exp()
        total = torch.zeros(len(x), 2).index_add(0, target, p)
        p = p / (total[target] + 1e-16)
        out = torch.zeros(len(x), 2, 3).index_put((target,), p[..., None] * h[source], accumulate=True)
        most = torch.zeros(len(x), 6).scatter_reduce(
            0, target[:, None].expand(-1, 6), h[source].flatten(1), "amax", include_self=False
        )
        degree = torch.bincount(target, minlength=len(x))
        return out.flatten(1), most, degree, p


@program(lambda: (R(3, 4), R(4, 5)), package=False)
def gradient_inside_the_program(x, w):
    x = x.detach().requires_grad_()
    y = (x @ w).tanh().sum()
    (g,) = torch.autograd.grad(y, x, create_graph=False)
    return g, y.detach()


@program(lambda: (R(5, 3),), package=False)
def laplacian_by_nested_jvp(x):
    f = lambda x: (x.sin() * x.flip(0)).sum()
    one = lambda v, x: jvp(grad(f), (x,), (v,))[1] @ v
    return vmap(lambda x: vmap(functools.partial(one, x=x))(torch.eye(3)).sum())(x)


@program(
    lambda: (torch.randint(-128, 127, (4, 16), dtype=torch.int8), torch.rand(4, 1), R(3, 16)),
    lambda: (torch.randint(-128, 127, (6, 16), dtype=torch.int8), torch.rand(6, 1), R(2, 16)),
)
def integer_products(weight, scale, x):
    top = x.abs().amax(-1, keepdim=True).clamp(min=1e-5)
    q = (x / top * 127).round().to(torch.int8)
    y = (q.to(torch.int32) @ weight.T.to(torch.int32)).float() * (top / 127) * scale.T
    packed = ((weight[:, ::2] & 15) | (weight[:, 1::2] << 4)).to(torch.uint8)
    low, high = (packed & 15).to(torch.int8), (packed >> 4).to(torch.int8)
    unpacked = torch.stack([torch.where(low > 7, low - 16, low), torch.where(high > 7, high - 16, high)], -1).flatten(1)
    return y, packed, unpacked, F.linear(x, weight.float() * scale), weight.sum(1), weight.long().prod(1)


@program(lambda: (R(4, 6, 5),), grad=True)
class SpectralNormAndParametrized(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.utils.parametrizations.orthogonal(nn.Linear(5, 5))
        self.b = nn.utils.parametrizations.spectral_norm(nn.Linear(5, 4)).eval()

    def forward(self, x):
        return self.b(self.a(x)), self.a.weight @ self.a.weight.T
