"""Whole small programs for `zoo.py` written by hand, each of an architecture of its own. Name -> a function that makes
(module, args).
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

r = torch.randn


class Seq2Seq(nn.Module):
    """A bidirectional encoder, a cell that attends to it and is unrolled over what it should say."""

    def __init__(self):
        super().__init__()
        self.words, self.encoder = nn.Embedding(50, 16), nn.LSTM(16, 16, bidirectional=True, batch_first=True)
        self.first, self.cell, self.query, self.out = (
            nn.Linear(32, 24),
            nn.GRUCell(48, 24),
            nn.Linear(24, 32),
            nn.Linear(56, 50),
        )

    def forward(self, source, target, lengths):
        encoded, (hidden, _) = self.encoder(self.words(source))
        state, context = torch.tanh(self.first(torch.cat([hidden[0], hidden[1]], -1))), encoded.mean(1)
        inside = torch.arange(source.shape[1])[None] < lengths[:, None]
        said = []
        for t in range(target.shape[1]):
            state = self.cell(torch.cat([self.words(target[:, t]), context], -1), state)
            weights = (encoded @ self.query(state)[:, :, None])[..., 0].masked_fill(~inside, -1e9).softmax(-1)
            context = (weights[:, None] @ encoded)[:, 0]
            said.append(self.out(torch.cat([state, context], -1)))
        return torch.stack(said, 1).log_softmax(-1)


class Modulated(nn.Module):
    """A convolution whose weights are scaled by a style and normalised, one set for each image; upsampled by a
    transposed one and a blur.
    """

    def __init__(self, channels, out, up):
        super().__init__()
        self.weight, self.style, self.up = nn.Parameter(r(out, channels, 3, 3)), nn.Linear(8, channels), up
        self.bias = nn.Parameter(r(out))
        self.register_buffer("blur", torch.tensor([1.0, 3.0, 3.0, 1.0]))

    def forward(self, x, z):
        n, channels, height, width = x.shape
        weight = self.weight[None] * (self.style(z) + 1)[:, None, :, None, None]
        weight = weight * torch.rsqrt(weight.pow(2).sum([2, 3, 4], keepdim=True) + 1e-8)
        x = x.reshape(1, n * channels, height, width)
        if self.up:
            x = F.conv_transpose2d(x, weight.transpose(1, 2).reshape(n * channels, -1, 3, 3), stride=2, groups=n)
            blur = torch.outer(self.blur, self.blur) / 16
            x = F.conv2d(F.pad(x, [1, 1, 1, 1]).transpose(0, 1), blur[None, None]).transpose(0, 1)
        else:
            x = F.conv2d(x, weight.reshape(-1, channels, 3, 3), padding=1, groups=n)
        x = x.reshape(n, -1, x.shape[2], x.shape[3])
        return F.leaky_relu(x + self.bias[None, :, None, None], 0.2) * math.sqrt(2)


class StyleGenerator(nn.Module):
    def __init__(self):
        super().__init__()
        self.constant = nn.Parameter(r(1, 6, 4, 4))
        self.mapping = nn.Sequential(nn.Linear(8, 8), nn.LeakyReLU(0.2), nn.Linear(8, 8))
        self.layers = nn.ModuleList([Modulated(6, 5, False), Modulated(5, 4, True), Modulated(4, 3, True)])

    def forward(self, z):
        z = self.mapping(z * torch.rsqrt(z.pow(2).mean(1, keepdim=True) + 1e-8))
        x = self.constant.repeat(z.shape[0], 1, 1, 1)
        for layer in self.layers:
            x = layer(x, z)
        return x.clamp(-1, 1)


class Capsules(nn.Module):
    """Routing by agreement."""

    def __init__(self):
        super().__init__()
        self.convolution, self.primary = nn.Conv2d(1, 8, 5), nn.Conv2d(8, 16, 5, stride=2)
        self.weight = nn.Parameter(r(1, 64, 5, 6, 4) * 0.1)

    def squash(self, x):
        n = x.norm(dim=-1, keepdim=True)
        return n**2 / (1 + n**2) * x / (n + 1e-8)

    def forward(self, image):
        u = (
            self.primary(self.convolution(image).relu())
            .view(image.shape[0], 4, 4, -1)
            .permute(0, 1, 3, 2)
            .reshape(image.shape[0], -1, 4)
        )
        votes = (self.weight @ self.squash(u)[:, :, None, :, None]).squeeze(-1)
        agreement = torch.zeros(votes.shape[:3])
        for _ in range(3):
            v = self.squash((agreement.softmax(2)[..., None] * votes).sum(1))
            agreement = agreement + (votes * v[:, None]).sum(-1)
        return v.norm(dim=-1), torch.einsum("bki,bkj->bij", v, v)


class GraphAttention(nn.Module):
    """Messages over edges: a softmax over each node's incoming ones, then pooling over the graphs of a batch."""

    def __init__(self):
        super().__init__()
        self.weight, self.out = nn.Linear(6, 12, bias=False), nn.Linear(12, 2)
        self.left, self.right = nn.Parameter(r(3, 4)), nn.Parameter(r(3, 4))

    def forward(self, x, edges, graph):
        n, (source, target) = x.shape[0], edges.unbind(0)
        h = self.weight(x).view(n, 3, 4)
        score = F.leaky_relu((h * self.left).sum(-1)[source] + (h * self.right).sum(-1)[target], 0.2)
        largest = torch.full((n, 3), -1e30).scatter_reduce(0, target[:, None].expand(-1, 3), score, "amax")
        weight = (score - largest[target]).exp()
        total = torch.zeros(n, 3).index_add(0, target, weight)
        out = F.elu(
            torch.zeros(n, 3, 4)
            .index_add(0, target, (weight / (total[target] + 1e-16))[..., None] * h[source])
            .flatten(1)
        )
        of = graph[:, None].expand(-1, 12)
        pooled = torch.zeros(3, 12).scatter_reduce(0, of, out, "mean", include_self=False) + torch.zeros(
            3, 12
        ).scatter_reduce(0, of, out, "amax", include_self=False)
        return self.out(pooled).log_softmax(-1), torch.zeros(n).scatter_add(
            0, target, torch.ones_like(target, dtype=torch.float)
        )


class GlobalFilter(nn.Module):
    """Mixing in the frequency domain, by complex weights."""

    def __init__(self):
        super().__init__()
        self.filter, self.norm, self.mlp = (
            nn.Parameter(r(4, 9, 5, 2) * 0.1),
            nn.LayerNorm(4),
            nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4)),
        )

    def forward(self, x):
        spectrum = torch.fft.rfft2(x, norm="ortho")
        y = torch.fft.irfft2(spectrum * torch.view_as_complex(self.filter)[None], s=x.shape[2:], norm="ortho")
        z = (x + y).permute(0, 2, 3, 1)
        return z + self.mlp(self.norm(z)), torch.fft.fftshift(spectrum.abs(), dim=2).log1p()


class NeuralODE(nn.Module):
    """Runge and Kutta's steps through a network."""

    def __init__(self):
        super().__init__()
        self.field = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))

    def slope(self, t, y):
        return self.field(torch.cat([y, t.expand(y.shape[0], 1)], -1))

    def forward(self, y, times):
        path = [y]
        for i in range(6):
            t, h = times[i], times[i + 1] - times[i]
            a = self.slope(t, y)
            b = self.slope(t + h / 2, y + h / 2 * a)
            c = self.slope(t + h / 2, y + h / 2 * b)
            y = y + h / 6 * (a + 2 * b + 2 * c + self.slope(t + h, y + h * c))
            path.append(y)
        return torch.stack(path)


class RadianceField(nn.Module):
    """Rays through a field: volume rendering, and samples drawn again where the weight is."""

    def __init__(self):
        super().__init__()
        self.field = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, origin, direction):
        depth = torch.linspace(2, 6, 16)
        waves = (
            (origin[:, None] + direction[:, None] * depth[None, :, None])[..., None] * 2.0 ** torch.arange(4)
        ).flatten(-2)
        found = self.field(torch.cat([waves.sin(), waves.cos()], -1))
        alpha = 1 - torch.exp(-found[..., 3].relu() * torch.cat([depth[1:] - depth[:-1], torch.tensor([1e10])]))
        weight = alpha * torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1), -1)[:, :-1]
        reached = torch.cumsum(weight / (weight.sum(-1, keepdim=True) + 1e-5), -1)
        u = torch.linspace(0, 0.99, 8).expand(origin.shape[0], 8).contiguous()
        at = torch.searchsorted(reached.contiguous(), u, right=True)
        low, high = (at - 1).clamp(min=0), at.clamp(max=15)
        below, above = reached.gather(-1, low), reached.gather(-1, high)
        share = (u - below) / torch.where(above - below < 1e-5, 1.0, above - below)
        return (weight[..., None] * found[..., :3].sigmoid()).sum(1), (
            depth[low] + share * (depth[high] - depth[low])
        ).sort(-1).values


class Experts(nn.Module):
    """A mixture of experts with places for so many tokens each: what finds none is left out."""

    def __init__(self):
        super().__init__()
        self.gate, self.up, self.down = (
            nn.Linear(8, 4),
            nn.Parameter(r(4, 8, 16) * 0.2),
            nn.Parameter(r(4, 16, 8) * 0.2),
        )

    def forward(self, x):
        tokens = x.shape[0]
        weight, expert = self.gate(x).softmax(-1).topk(2, -1)
        chosen = F.one_hot(expert, 4)
        place = (chosen.transpose(0, 1).reshape(2 * tokens, 4).cumsum(0) - 1).reshape(2, tokens, 4).transpose(0, 1)
        place = (place * chosen).sum(-1)
        slot = torch.where(place < 6, expert * 6 + place, 24)
        given = torch.zeros(25, 8).index_put((slot.flatten(),), x.repeat_interleave(2, 0))[:24].view(4, 6, 8)
        made = torch.cat([torch.bmm(F.gelu(torch.bmm(given, self.up)), self.down).view(24, 8), torch.zeros(1, 8)])
        return (made[slot] * (weight * (place < 6))[..., None]).sum(1), torch.bincount(expert.flatten(), minlength=4)


class Detector(nn.Module):
    """Anchors to boxes, the best of them, and of those that overlap the better one."""

    def __init__(self):
        super().__init__()
        self.head = nn.Conv2d(8, 27, 1)

    def forward(self, features):
        n, _, height, width = features.shape
        p = self.head(features).view(n, 3, 9, height, width).permute(0, 1, 3, 4, 2)
        rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        anchors = torch.tensor([[1.0, 2.0], [2.0, 1.0], [3.0, 3.0]])[None, :, None, None]
        middle, size = (
            (p[..., :2].sigmoid() * 2 - 0.5 + torch.stack([columns, rows], -1)) * 8,
            (p[..., 2:4].sigmoid() * 2) ** 2 * anchors * 8,
        )
        score, kind = (p[..., 4:5].sigmoid() * p[..., 5:].sigmoid()).flatten(1, 3).max(-1)
        score, best = score.topk(12)
        boxes = (
            torch.cat([middle - size / 2, middle + size / 2], -1)
            .flatten(1, 3)
            .gather(1, best[..., None].expand(-1, -1, 4))
        )
        area = (boxes[..., 2:] - boxes[..., :2]).prod(-1)
        both = (
            (
                torch.minimum(boxes[:, :, None, 2:], boxes[:, None, :, 2:])
                - torch.maximum(boxes[:, :, None, :2], boxes[:, None, :, :2])
            )
            .clamp(min=0)
            .prod(-1)
        )
        overlap = both / (area[:, :, None] + area[:, None] - both)
        kept = torch.ones_like(score, dtype=torch.bool)
        for j in range(12):
            kept = kept & ~((overlap[:, j] > 0.45) & kept[:, j : j + 1] & (torch.arange(12) > j))
        return boxes, score * kept, kind.gather(1, best), kept


class Losses(nn.Module):
    def forward(self, x, y, target, image, segments):
        sign = torch.sign(x[:, 0])
        return {
            "cosine": F.cosine_embedding_loss(x, y, sign),
            "margin": F.multi_margin_loss(x, target),
            "kl": F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean"),
            "kl_log": F.kl_div(x.log_softmax(-1), y.log_softmax(-1), log_target=True, reduction="sum"),
            "huber": F.huber_loss(x, y, delta=0.7),
            "smooth": F.smooth_l1_loss(x, y, beta=0.3),
            "triplet": F.triplet_margin_loss(x, y, y.flip(0), swap=True),
            "segments": F.nll_loss(image.log_softmax(1), segments, ignore_index=2, weight=torch.arange(1.0, 5.0)),
            "smoothed": F.cross_entropy(image, segments, label_smoothing=0.1),
            "soft": F.soft_margin_loss(x, torch.sign(y)),
            "labels": F.multilabel_soft_margin_loss(x, (y > 0).float()),
            "poisson": F.poisson_nll_loss(x, y.abs(), full=True),
            "hinge": F.hinge_embedding_loss(x, torch.sign(y)),
            "ranking": F.margin_ranking_loss(x[:, 0], y[:, 0], sign),
        }


class Filter(nn.Module):
    """Kalman's filter with its likelihood: small solves, factors and determinants."""

    def forward(self, x, p, seen):
        step, look = torch.eye(4) + torch.diag(torch.tensor([0.1, 0.1]), 2), torch.eye(4)[:2]
        likelihood = torch.zeros(())
        for t in range(4):
            x, p = step @ x, step @ p @ step.T + torch.eye(4) * 0.01
            s, error = look @ p @ look.T + torch.eye(2) * 0.1, seen[t] - look @ x
            gain = torch.linalg.solve(s, look @ p).T
            x, p = x + gain @ error, (torch.eye(4) - gain @ look) @ p
            factor = torch.linalg.cholesky(s)
            likelihood = (
                likelihood
                - 0.5 * (error @ torch.cholesky_solve(error[:, None], factor)[:, 0])
                - factor.diagonal().log().sum()
            )
        return x, p, likelihood, torch.linalg.slogdet(p)[1], torch.matrix_exp(p * 0.1)


def positive(n):
    a = r(n, n)
    return a @ a.T + torch.eye(n)


ARCHITECTURES = {
    "seq2seq": lambda: (
        Seq2Seq(),
        (torch.randint(0, 50, (3, 7)), torch.randint(0, 50, (3, 5)), torch.tensor([7, 4, 2])),
    ),
    "style_generator": lambda: (StyleGenerator(), (r(2, 8),)),
    "capsules": lambda: (Capsules(), (r(2, 1, 16, 16),)),
    "graph_attention": lambda: (
        GraphAttention(),
        (r(10, 6), torch.randint(0, 10, (2, 30)), torch.tensor([0, 0, 0, 1, 1, 1, 1, 2, 2, 2])),
    ),
    "global_filter": lambda: (GlobalFilter(), (r(2, 4, 9, 8),)),
    "neural_ode": lambda: (NeuralODE(), (r(5, 3), torch.linspace(0, 1, 7))),
    "radiance_field": lambda: (RadianceField(), (r(5, 3), F.normalize(r(5, 3), dim=-1))),
    "experts_with_places": lambda: (Experts(), (r(11, 8),)),
    "detector": lambda: (Detector(), (r(2, 8, 4, 5),)),
    "losses": lambda: (
        Losses(),
        (r(3, 5), r(3, 5), torch.tensor([0, 3, 4]), r(2, 4, 3, 3), torch.randint(0, 4, (2, 3, 3))),
    ),
    "kalman": lambda: (Filter(), (r(4), positive(4), r(4, 2))),
}
