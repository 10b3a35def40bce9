"""Programs of `user_harness.py`: many small models."""

import torch
import torch.nn.functional as F
from torch import nn

from user_harness import program

R = torch.randn
ints = lambda high, *shape: torch.randint(0, high, shape)


@program(lambda: (R(3, 7, 10),), lambda: (R(2, 12, 10),), grad=True, bf16=True)
class ConvGlu(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv1d(10, 24, 3, padding=2)
        self.n = nn.LayerNorm(12)
        self.out = nn.Linear(12, 10, bias=False)
        self.scale = nn.Parameter(torch.full((10,), 0.3))

    def forward(self, x):
        y = self.c(x.mT)[..., :-2].mT
        a, b = y.chunk(2, -1)
        return x + self.out(self.n(a * torch.sigmoid(b))) * self.scale


@program(lambda: (R(3, 8), R(3, 8)), lambda: (R(5, 8), R(5, 8)), grad=True)
class GruByHandWithNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.i = nn.Linear(8, 24)
        self.h = nn.Linear(8, 24, bias=False)
        self.n1, self.n2 = nn.LayerNorm(24), nn.LayerNorm(24)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x, h):
        out = []
        for t in range(4):
            r, z, n = self.n1(self.i(x.roll(t, -1))).chunk(3, -1)
            hr, hz, hn = self.n2(self.h(h)).chunk(3, -1)
            z = torch.sigmoid(z + hz)
            h = (1 - z) * torch.tanh(n + torch.sigmoid(r + hr) * hn) + z * h
            out.append(h)
        self.steps += 4
        return torch.stack(out, 1), h


@program(lambda: (R(4, 3, 12, 12),), lambda: (R(2, 3, 12, 12),), grad=True)
class MixerWithFourier(nn.Module):
    def __init__(self):
        super().__init__()
        self.p = nn.Conv2d(3, 16, 4, 4)
        self.w = nn.Parameter(torch.randn(3, 2, 16, 2) * 0.1)
        self.n = nn.GroupNorm(4, 16)

    def forward(self, x):
        x = self.n(self.p(x)).permute(0, 2, 3, 1)
        f = torch.fft.rfft2(x, dim=(1, 2), norm="ortho")
        f = f * torch.view_as_complex(self.w)
        return torch.fft.irfft2(f, s=x.shape[1:3], dim=(1, 2), norm="ortho") + x


@program(lambda: (R(5, 8),), lambda: (R(9, 8),), grad=True)
class LowRankWithBuffers(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(8, 8)
        self.a, self.b = nn.Parameter(torch.randn(2, 8) * 0.1), nn.Parameter(torch.randn(8, 2) * 0.1)
        self.register_buffer("seen", torch.zeros(8))
        self.register_buffer("count", torch.tensor(0))

    def forward(self, x):
        with torch.no_grad():
            self.count.add_(x.shape[0])
            self.seen.lerp_(x.abs().amax(0), 1.0 / self.count)
        scale = self.seen.clamp(min=1e-3).sqrt()
        return self.base(x / scale) + (x @ self.a.mT) @ self.b.mT, self.seen.clone()


@program(lambda: (R(8, 5), R(8)), lambda: (R(12, 5), R(12)), grad=True)
class GatedExperts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(5, 4)
        self.w1, self.w2 = nn.Parameter(torch.randn(4, 5, 7) * 0.3), nn.Parameter(torch.randn(4, 7, 5) * 0.3)

    def forward(self, x, noise):
        logits = self.gate(x) + noise[:, None] * 0.01
        p, i = logits.softmax(-1).topk(2, -1)
        p = p / p.sum(-1, keepdim=True)
        full = torch.zeros_like(logits).scatter(-1, i, p)
        y = torch.einsum("nd,edh->neh", x, self.w1)
        y = torch.einsum("neh,ehd->ned", F.silu(y), self.w2)
        load = full.mean(0)
        return (y * full[..., None]).sum(1), (load * logits.softmax(-1).mean(0)).sum() * 4, i


@program(lambda: (R(3, 16, 8), R(3, 16, 8)), lambda: (R(2, 16, 8), R(2, 16, 8)), grad=True, bf16=True)
class CrossStitch(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.kv, self.o = nn.Linear(8, 16), nn.Linear(8, 16), nn.Linear(16, 8)
        self.table = nn.Parameter(torch.randn(31, 4) * 0.1)
        self.n = nn.RMSNorm(8)

    def forward(self, x, y):
        q = self.q(self.n(x)).unflatten(-1, (4, 4)).transpose(1, 2)
        k, v = self.kv(self.n(y)).unflatten(-1, (2, 8)).transpose(1, 2).split(4, -1)
        i = torch.arange(16)
        bias = self.table[i[:, None] - i + 15].permute(2, 0, 1)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype), enable_gqa=True)
        return x + self.o(a.transpose(1, 2).flatten(2))


@program(lambda: (R(2, 4, 5, 6, 7),), lambda: (R(1, 4, 6, 6, 5),), grad=True)
class Volumes(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv3d(4, 6, 3, padding=1, groups=2, bias=False), nn.ConvTranspose3d(6, 4, 2, stride=2)
        self.n = nn.InstanceNorm3d(6, affine=True)

    def forward(self, x):
        y = F.elu(self.n(self.a(x)))
        return (
            F.avg_pool3d(self.b(y), 2),
            F.max_pool3d(y, (1, 2, 2)),
            F.adaptive_avg_pool3d(y, (2, None, 3)),
            F.interpolate(y, scale_factor=2, mode="trilinear"),
        )


@program(lambda: (R(2, 8, 16),), lambda: (R(3, 5, 16),), grad=True)
class WeightsShared(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(20, 16)
        self.l = nn.Linear(16, 16)
        self.layers = nn.ModuleList(
            [nn.Sequential(self.l, nn.GELU(approximate="tanh"), nn.LayerNorm(16)) for _ in range(3)]
        )

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        logits = F.linear(x, self.e.weight)
        return (
            logits,
            self.e(logits.argmax(-1)),
            F.embedding(logits.argmin(-1), self.e.weight, max_norm=None, padding_idx=0),
        )


@program(lambda: (R(2, 6, 4, 4),), lambda: (R(3, 6, 4, 4),), grad=True)
class NormsOfAllKinds(nn.Module):
    def __init__(self):
        super().__init__()
        self.b = nn.BatchNorm2d(6, momentum=0.3)
        self.l = nn.LocalResponseNorm(3)
        self.g = nn.GroupNorm(3, 6, affine=False)
        self.i = nn.InstanceNorm2d(6, track_running_stats=True)
        self.w = nn.utils.parametrizations.weight_norm(nn.Conv2d(6, 6, 1))

    def forward(self, x):
        return (
            self.b(x),
            self.l(x),
            self.g(x),
            self.i(x),
            F.normalize(self.w(x), dim=1),
            F.layer_norm(x, x.shape[2:]),
            self.b.num_batches_tracked + 0,
        )


@program(
    lambda: (R(2, 10, 16), torch.tensor([10, 6])), lambda: (R(3, 8, 16), torch.tensor([8, 3, 5])), grad=True, bf16=True
)
class EncoderWithLengths(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(
            16, 4, 32, dropout=0.0, batch_first=True, norm_first=True, activation="gelu"
        )
        self.pos = nn.Embedding(32, 16)
        self.pool = nn.Linear(16, 1)

    def forward(self, x, n):
        t = x.shape[1]
        keep = torch.arange(t)[None] < n[:, None]
        x = x + self.pos(torch.arange(t))
        x = self.layer(x, src_key_padding_mask=~keep)
        w = self.pool(x).squeeze(-1).masked_fill(~keep, -1e4).softmax(-1)
        return torch.einsum("bt,btc->bc", w, x), w


@program(lambda: (R(2, 6, 16), R(2, 9, 16)), lambda: (R(3, 4, 16), R(3, 7, 16)), grad=True)
class DecoderOfTorch(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerDecoderLayer(16, 2, 24, dropout=0.0, batch_first=True)
        self.d = nn.TransformerDecoder(layer, 2, norm=nn.LayerNorm(16))

    def forward(self, x, memory):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.d(x, memory, tgt_mask=mask, tgt_is_causal=True)


@program(lambda: (R(3, 12, 5), R(2, 3, 8)), lambda: (R(2, 7, 5), R(2, 2, 8)), grad=True)
class StackedLstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.r = nn.LSTM(5, 8, num_layers=2, batch_first=True)
        self.g = nn.GRU(8, 6, batch_first=True, bidirectional=True)
        self.h = nn.Linear(12, 3)

    def forward(self, x, h):
        y, (hn, cn) = self.r(x, (h, torch.zeros_like(h)))
        z, last = self.g(y)
        return self.h(z).log_softmax(-1), hn, cn, last


@program(lambda: (R(2, 3, 32, 32),), lambda: (R(1, 3, 48, 32),), grad=True, bf16=True)
class UNetSmall(nn.Module):
    def __init__(self):
        super().__init__()
        c = lambda i, o: nn.Sequential(
            nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True)
        )
        self.d1, self.d2, self.mid = c(3, 8), c(8, 16), c(16, 16)
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.u1, self.out = c(16, 8), nn.Conv2d(8, 2, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.mid(self.d2(F.max_pool2d(a, 2)))
        y = self.u1(torch.cat([self.up(b), a], 1))
        return self.out(y), F.interpolate(b, size=x.shape[2:], mode="nearest")


@program(lambda: (R(2, 3, 24, 24),), lambda: (R(1, 3, 24, 32),), grad=True)
class InvertedAndSqueezed(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 2, 1)
        self.e, self.p = nn.Conv2d(8, 24, 1), nn.Conv2d(24, 8, 1)
        self.dw = nn.Conv2d(24, 24, 5, padding=2, groups=24, bias=False)
        self.s1, self.s2 = nn.Conv2d(24, 6, 1), nn.Conv2d(6, 24, 1)
        self.n = nn.BatchNorm2d(24)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = F.hardswish(self.stem(x))
        y = F.hardswish(self.n(self.dw(F.relu6(self.e(x)))))
        y = y * F.hardsigmoid(self.s2(F.relu(self.s1(F.adaptive_avg_pool2d(y, 1)))))
        x = x + self.p(y)
        return self.head(x.mean((2, 3))), x.amax((2, 3))


@program(lambda: (ints(30, 4, 9), ints(2, 4)), lambda: (ints(30, 2, 12), ints(2, 2)), grad=True)
class TextCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(30, 12, padding_idx=0)
        self.c = nn.ModuleList(nn.Conv1d(12, 6, k) for k in (2, 3, 4))
        self.o = nn.Linear(18, 2)

    def forward(self, x, y):
        e = self.e(x).mT
        z = torch.cat([F.relu(c(e)).amax(-1) for c in self.c], -1)
        logits = self.o(z)
        return F.cross_entropy(logits, y), logits.argmax(-1), (logits.argmax(-1) == y).float().mean()


@program(lambda: (R(5, 3), R(5, 2), torch.rand(5)), lambda: (R(9, 3), R(9, 2), torch.rand(9)), grad=True)
class ActorCriticLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.b = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh())
        self.mu, self.v = nn.Linear(16, 2), nn.Linear(16, 1)
        self.log_std = nn.Parameter(torch.zeros(2))

    def forward(self, s, a, r):
        h = self.b(s)
        d = torch.distributions.Normal(self.mu(h), self.log_std.exp())
        lp = d.log_prob(a).sum(-1)
        v = self.v(h).squeeze(-1)
        g = torch.zeros(())
        out = []
        for i in reversed(range(5)):
            g = r[i] + 0.9 * g
            out.insert(0, g)
        ret = torch.stack(out)
        adv = (ret - v[:5]).detach()
        adv = (adv - adv.mean()) / (adv.std() + 1e-6)
        return -(lp[:5] * adv).mean() + F.mse_loss(v[:5], ret) - 0.01 * d.entropy().mean()


@program(lambda: (R(6, 4), ints(6, 2, 10)), lambda: (R(8, 4), ints(8, 2, 15)), grad=True)
class GraphConvs(nn.Module):
    def __init__(self):
        super().__init__()
        self.l, self.r, self.a = nn.Linear(4, 8), nn.Linear(4, 8), nn.Parameter(torch.randn(8))

    def forward(self, x, edges):
        src, dst = edges
        n = x.shape[0]
        deg = torch.zeros(n).scatter_add_(0, dst, torch.ones(dst.shape[0])).clamp(min=1)
        norm = deg.rsqrt()
        gcn = torch.zeros(n, 8).index_add(0, dst, self.l(x)[src] * (norm[src] * norm[dst])[:, None])
        e = F.leaky_relu((self.l(x)[src] + self.r(x)[dst]), 0.2) @ self.a
        e = (e - torch.zeros(n).scatter_reduce(0, dst, e, "amax", include_self=False)[dst]).exp()
        alpha = e / (torch.zeros(n).scatter_add(0, dst, e)[dst] + 1e-9)
        gat = torch.zeros(n, 8).index_add(0, dst, self.l(x)[src] * alpha[:, None])
        sage = torch.zeros(n, 4).index_reduce(0, dst, x[src], "mean", include_self=False)
        return (
            gcn,
            gat,
            sage,
            torch.zeros(n, 4).scatter_reduce(0, dst[:, None].expand(-1, 4), x[src], "amax", include_self=False),
        )


@program(lambda: (R(3, 8, 8),), lambda: (R(2, 12, 12),), grad=True)
class HyperAndFilm(nn.Module):
    def __init__(self):
        super().__init__()
        self.g = nn.Linear(1, 12)
        self.h = nn.Linear(4, 9)

    def forward(self, x):
        c = x.mean((1, 2), keepdim=True).flatten(1)
        scale, shift, w = self.g(c).split(4, -1)
        k = self.h(scale * shift.sigmoid() + w).softmax(-1).view(-1, 1, 3, 3)
        y = F.conv2d(x[None], k, padding=1, groups=x.shape[0])[0]
        return y * scale.mean(-1)[:, None, None] + shift.mean(-1)[:, None, None]


@program(lambda: (R(2, 5, 8), R(2, 7, 8)), lambda: (R(3, 6, 8), R(3, 4, 8)), grad=True, bf16=True)
class AttentionOfTorch(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.MultiheadAttention(8, 2, batch_first=True, add_bias_kv=True, add_zero_attn=True)

    def forward(self, q, k):
        y, w = self.a(q, k, k, average_attn_weights=False)
        z, _ = self.a(
            q, q, q, need_weights=False, attn_mask=torch.ones(q.shape[1], q.shape[1]).triu(1).bool(), is_causal=False
        )
        return y, w, z
