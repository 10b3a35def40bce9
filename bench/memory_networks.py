"""Thirty small networks of many families for `network_peaks.py`: each is a module and its inputs."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class ConvStack(nn.Module):
    """Plain convolutions, norms and pooling."""

    def __init__(self):
        super().__init__()
        layers = []
        for a, b in ((3, 32), (32, 32), (32, 64), (64, 64), (64, 128)):
            layers += [nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU()]
            if b != a:
                layers.append(nn.MaxPool2d(2))
        self.features, self.head = nn.Sequential(*layers), nn.Linear(128 * 64, 10)

    def forward(self, x):
        return self.head(self.features(x).flatten(1))


class Inception(nn.Module):
    """Branches of several kernel sizes, concatenated."""

    class Cell(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.one = nn.Conv2d(c, 16, 1)
            self.three = nn.Sequential(nn.Conv2d(c, 24, 1), nn.ReLU(), nn.Conv2d(24, 32, 3, padding=1))
            self.five = nn.Sequential(nn.Conv2d(c, 8, 1), nn.ReLU(), nn.Conv2d(8, 16, 5, padding=2))
            self.pool = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(c, 16, 1))

        def forward(self, x):
            return torch.cat([F.relu(f(x)) for f in (self.one, self.three, self.five, self.pool)], 1)

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, 2, 1)
        self.cells = nn.Sequential(self.Cell(32), self.Cell(80), self.Cell(80))
        self.head = nn.Linear(80, 10)

    def forward(self, x):
        return self.head(self.cells(F.relu(self.stem(x))).mean((2, 3)))


class Dense(nn.Module):
    """Each layer reads all layers before it."""

    def __init__(self, layers=6, growth=16):
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, 2, 1)
        widths = [32 + growth * k for k in range(layers)]
        self.norms = nn.ModuleList(nn.BatchNorm2d(w) for w in widths)
        self.convs = nn.ModuleList(nn.Conv2d(w, growth, 3, padding=1) for w in widths)
        self.head = nn.Linear(32 + growth * layers, 10)

    def forward(self, x):
        values = [self.stem(x)]
        for norm, conv in zip(self.norms, self.convs, strict=True):
            values.append(conv(F.relu(norm(torch.cat(values, 1)))))
        return self.head(torch.cat(values, 1).mean((2, 3)))


class Double(nn.Sequential):
    def __init__(self, a, b):
        super().__init__(
            nn.Conv2d(a, b, 3, padding=1, bias=False),
            nn.BatchNorm2d(b),
            nn.LeakyReLU(0.1),
            nn.Conv2d(b, b, 3, padding=1, bias=False),
            nn.BatchNorm2d(b),
            nn.LeakyReLU(0.1),
        )


class GatedUNet(nn.Module):
    """A U-Net with gates on its skips and transposed convolutions."""

    def __init__(self, widths=(16, 32, 64, 128)):
        super().__init__()
        self.down = nn.ModuleList(Double(a, b) for a, b in zip((1, *widths), widths, strict=False))
        pairs = list(zip(widths[-2::-1], widths[:0:-1], strict=True))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in pairs)
        self.gates = nn.ModuleList(nn.Conv2d(2 * a, a, 1) for a, _ in pairs)
        self.merge = nn.ModuleList(Double(2 * a, a) for a, _ in pairs)
        self.out = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x):
        skips = []
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = F.avg_pool2d(x, 2)
        x = skips.pop()
        for up, gate, merge in zip(self.up, self.gates, self.merge, strict=True):
            x, skip = up(x), skips.pop()
            skip = skip * torch.sigmoid(gate(torch.cat([x, skip], 1)))
            x = merge(torch.cat([x, skip], 1))
        return self.out(x)


class Pyramid(nn.Module):
    """A detector: a feature pyramid, and heads that give classes and boxes of all levels."""

    def __init__(self, c=64, classes=20):
        super().__init__()
        self.stages = nn.ModuleList(nn.Conv2d(a, b, 3, 2, 1) for a, b in ((3, 32), (32, 64), (64, 96), (96, 128)))
        self.lateral = nn.ModuleList(nn.Conv2d(a, c, 1) for a in (64, 96, 128))
        self.smooth = nn.ModuleList(nn.Conv2d(c, c, 3, padding=1) for _ in range(3))
        tower = lambda n: nn.Sequential(
            nn.Conv2d(c, c, 3, padding=1), nn.GroupNorm(8, c), nn.ReLU(), nn.Conv2d(c, n, 3, padding=1)
        )
        self.classes, self.boxes, self.count = tower(3 * classes), tower(12), classes

    def forward(self, x):
        levels = []
        for stage in self.stages:
            x = F.relu(stage(x))
            levels.append(x)
        levels = [f(v) for f, v in zip(self.lateral, levels[1:], strict=True)]
        for k in (1, 0):
            levels[k] = levels[k] + F.interpolate(levels[k + 1], scale_factor=2.0, mode="nearest")
        levels = [f(v) for f, v in zip(self.smooth, levels, strict=True)]
        b = x.shape[0]
        rows = lambda v, n: v.permute(0, 2, 3, 1).reshape(b, -1, n)
        scores = torch.cat([rows(self.classes(v), self.count) for v in levels], 1).sigmoid()
        return scores, torch.cat([rows(self.boxes(v), 4) for v in levels], 1)


class Anchors(nn.Module):
    """A one-stage detector whose results are decoded with a grid."""

    def __init__(self, classes=8):
        super().__init__()
        blocks = []
        for a, b in ((3, 16), (16, 32), (32, 64)):
            blocks += [nn.Conv2d(a, b, 3, 2, 1), nn.BatchNorm2d(b), nn.SiLU()]
        self.body, self.head = nn.Sequential(*blocks), nn.Conv2d(64, 3 * (5 + classes), 1)
        self.register_buffer("sizes", torch.tensor([[10.0, 13.0], [33.0, 23.0], [62.0, 45.0]]))

    def forward(self, x):
        y = self.head(self.body(x))
        b, _, h, w = y.shape
        y = y.view(b, 3, -1, h, w).permute(0, 1, 3, 4, 2).sigmoid()
        grid = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(h), indexing="xy"), -1).float()
        center = (y[..., :2] * 2 - 0.5 + grid) * 8
        size = (y[..., 2:4] * 2) ** 2 * self.sizes[:, None, None]
        boxes = torch.cat([center - size / 2, center + size / 2, y[..., 4:5] * y[..., 5:]], -1)
        return boxes.reshape(b, -1, boxes.shape[-1])


class Encoder(nn.Module):
    """Torch's own transformer layers, norms first."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(96, 6, 384, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
            for _ in range(3)
        )

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class RMS(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(c))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


class Decoder(nn.Module):
    """Rotary positions, grouped queries, gated linear units, RMS norms."""

    class Layer(nn.Module):
        def __init__(self, c=128, heads=8, groups=2, wide=352):
            super().__init__()
            self.heads, self.groups, self.each = heads, groups, c // heads
            self.q, self.kv = nn.Linear(c, c, bias=False), nn.Linear(c, 2 * groups * self.each, bias=False)
            self.out = nn.Linear(c, c, bias=False)
            self.first, self.second = RMS(c), RMS(c)
            self.gate, self.up = nn.Linear(c, wide, bias=False), nn.Linear(c, wide, bias=False)
            self.down = nn.Linear(wide, c, bias=False)

        def rotate(self, x, cos, sin):
            a, b = x.chunk(2, -1)
            return x * cos + torch.cat([-b, a], -1) * sin

        def forward(self, x, cos, sin):
            y = self.first(x)
            b, n, c = x.shape
            q = self.q(y).view(b, n, self.heads, self.each).transpose(1, 2)
            k, v = self.kv(y).view(b, n, 2, self.groups, self.each).permute(2, 0, 3, 1, 4)
            q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
            k, v = (t.repeat_interleave(self.heads // self.groups, 1) for t in (k, v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, n, c))
            y = self.second(x)
            return x + self.down(F.silu(self.gate(y)) * self.up(y))

    def __init__(self):
        super().__init__()
        self.words, self.layers = nn.Embedding(1000, 128), nn.ModuleList(self.Layer() for _ in range(3))
        self.norm, self.head = RMS(128), nn.Linear(128, 1000, bias=False)

    def forward(self, ids):
        x = self.words(ids)
        angles = torch.outer(torch.arange(ids.shape[1]).float(), 1e4 ** (-torch.arange(0, 16, 2).float() / 16))
        angles = torch.cat([angles, angles], -1)
        cos, sin = angles.cos(), angles.sin()
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.head(self.norm(x))


class Mixer(nn.Module):
    def __init__(self, tokens=64, c=96, depth=4):
        super().__init__()
        self.patch = nn.Conv2d(3, c, 8, 8)
        mlp = lambda n, wide: nn.Sequential(nn.Linear(n, wide), nn.GELU(), nn.Linear(wide, n))
        self.norms = nn.ModuleList(nn.LayerNorm(c) for _ in range(2 * depth))
        self.tokens = nn.ModuleList(mlp(tokens, 128) for _ in range(depth))
        self.channels = nn.ModuleList(mlp(c, 384) for _ in range(depth))
        self.head = nn.Linear(c, 10)

    def forward(self, x):
        x = self.patch(x).flatten(2).mT
        for k, (tokens, channels) in enumerate(zip(self.tokens, self.channels, strict=True)):
            x = x + tokens(self.norms[2 * k](x).mT).mT
            x = x + channels(self.norms[2 * k + 1](x))
        return self.head(x.mean(1))


class SpatialGates(nn.Module):
    """gMLP: half of the channels gates the other, along the sequence."""

    class Layer(nn.Module):
        def __init__(self, n, c, wide):
            super().__init__()
            self.norm, self.inner = nn.LayerNorm(c), nn.LayerNorm(wide // 2)
            self.up, self.down = nn.Linear(c, wide), nn.Linear(wide // 2, c)
            self.along = nn.Conv1d(n, n, 1)

        def forward(self, x):
            u, v = F.gelu(self.up(self.norm(x))).chunk(2, -1)
            return x + self.down(u * self.along(self.inner(v)))

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*(self.Layer(128, 96, 512) for _ in range(3)))

    def forward(self, x):
        return self.layers(x)


class Recurrent(nn.Module):
    """Two layers of LSTM in both directions over embedded words."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(500, 64)
        self.lstm = nn.LSTM(64, 96, 2, batch_first=True, bidirectional=True)
        self.tags = nn.Linear(192, 20)

    def forward(self, ids):
        return self.tags(self.lstm(self.words(ids))[0]).log_softmax(-1)


class Steps(nn.Module):
    """A cell of own writing, unrolled, with attention over what it has seen."""

    def __init__(self, c=64):
        super().__init__()
        self.x, self.h, self.out = nn.Linear(c, 3 * c), nn.Linear(c, 3 * c), nn.Linear(2 * c, c)

    def forward(self, x):
        h, seen = x.new_zeros(x.shape[0], x.shape[2]), []
        for t in range(x.shape[1]):
            a, b = self.x(x[:, t]).chunk(3, -1), self.h(h).chunk(3, -1)
            r, z = torch.sigmoid(a[0] + b[0]), torch.sigmoid(a[1] + b[1])
            h = (1 - z) * torch.tanh(a[2] + r * b[2]) + z * h
            seen.append(h)
        seen = torch.stack(seen, 1)
        weights = torch.softmax(seen @ seen.mT / 8, -1)
        return self.out(torch.cat([seen, weights @ seen], -1))


class StateSpace(nn.Module):
    """A selective scan written with cumulative sums, between gates."""

    def __init__(self, c=64, n=8):
        super().__init__()
        self.into, self.out = nn.Linear(c, 4 * c), nn.Linear(2 * c, c)
        self.conv = nn.Conv1d(2 * c, 2 * c, 4, padding=3, groups=2 * c)
        self.bc, self.dt = nn.Linear(2 * c, 2 * n), nn.Linear(2 * c, 2 * c)
        self.a = nn.Parameter(-torch.rand(2 * c, n) * 0.1)

    def forward(self, u):
        x, gate = self.into(u).chunk(2, -1)
        x = F.silu(self.conv(x.mT)[..., : u.shape[1]].mT)
        b, c = self.bc(x).chunk(2, -1)
        dt = F.softplus(self.dt(x))
        decay = torch.cumsum(dt[..., None] * self.a, 1)
        states = torch.cumsum((dt * x)[..., None] * b[:, :, None] * torch.exp(-decay), 1) * torch.exp(decay)
        y = (states * c[:, :, None]).sum(-1)
        return u + self.out(y * F.silu(gate))


class Denoiser(nn.Module):
    """A diffusion model's U-Net: embedded time, self attention, cross attention on words."""

    class Res(nn.Module):
        def __init__(self, a, b, t=64):
            super().__init__()
            self.first, self.second = nn.GroupNorm(8, a), nn.GroupNorm(8, b)
            self.conv, self.last = nn.Conv2d(a, b, 3, padding=1), nn.Conv2d(b, b, 3, padding=1)
            self.time, self.skip = nn.Linear(t, b), nn.Conv2d(a, b, 1) if a != b else nn.Identity()

        def forward(self, x, t):
            y = self.conv(F.silu(self.first(x))) + self.time(F.silu(t))[:, :, None, None]
            return self.skip(x) + self.last(F.silu(self.second(y)))

    class Attend(nn.Module):
        def __init__(self, c, given):
            super().__init__()
            self.norm, self.q, self.kv = nn.GroupNorm(8, c), nn.Linear(c, c), nn.Linear(given, 2 * c)
            self.out = nn.Linear(c, c)

        def forward(self, x, words=None):
            b, c, h, w = x.shape
            y = self.norm(x).flatten(2).mT
            k, v = self.kv(y if words is None else words).chunk(2, -1)
            heads = lambda t: t.reshape(b, -1, 4, c // 4).transpose(1, 2)
            y = F.scaled_dot_product_attention(heads(self.q(y)), heads(k), heads(v))
            return x + self.out(y.transpose(1, 2).reshape(b, h * w, c)).mT.reshape(b, c, h, w)

    def __init__(self):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 64))
        self.first = nn.Conv2d(4, 32, 3, padding=1)
        self.a, self.b, self.c = self.Res(32, 32), self.Res(32, 64), self.Res(64, 64)
        self.own, self.cross = self.Attend(64, 64), self.Attend(64, 48)
        self.d, self.e = self.Res(128, 32), self.Res(64, 32)
        self.last = nn.Conv2d(32, 4, 3, padding=1)

    def forward(self, x, t, words):
        angles = t[:, None] * torch.exp(torch.arange(16) * (-math.log(1e4) / 16))
        t = self.time(torch.cat([angles.sin(), angles.cos()], -1))
        a = self.a(self.first(x), t)
        b = self.b(F.avg_pool2d(a, 2), t)
        y = self.cross(self.own(self.c(b, t)), words)
        y = self.d(torch.cat([y, b], 1), t)
        return self.last(self.e(torch.cat([F.interpolate(y, scale_factor=2.0), a], 1), t))


class GraphSums(nn.Module):
    """Messages along edges, summed at nodes."""

    def __init__(self, c=64):
        super().__init__()
        self.into = nn.Linear(16, c)
        self.edges = nn.ModuleList(nn.Linear(2 * c + 4, c) for _ in range(3))
        self.nodes = nn.ModuleList(nn.Linear(2 * c, c) for _ in range(3))
        self.head = nn.Linear(c, 1)

    def forward(self, x, edge, weight):
        x = F.relu(self.into(x))
        for edges, nodes in zip(self.edges, self.nodes, strict=True):
            messages = F.silu(edges(torch.cat([x[edge[0]], x[edge[1]], weight], -1)))
            sums = torch.zeros_like(x).index_add(0, edge[1], messages)
            x = x + F.silu(nodes(torch.cat([x, sums], -1)))
        return self.head(x)


class GraphAttention(nn.Module):
    """Softmax over the edges of each node."""

    def __init__(self, c=32, heads=4):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(c * heads, c * heads, bias=False) for _ in range(3))
        self.scores = nn.ParameterList(nn.Parameter(torch.randn(2, heads, c) / 8) for _ in range(3))
        self.c, self.heads = c, heads

    def forward(self, x, edge):
        n = x.shape[0]
        for layer, score in zip(self.layers, self.scores, strict=True):
            h = layer(x).view(n, self.heads, self.c)
            from_, to = (h * score[0]).sum(-1), (h * score[1]).sum(-1)
            e = F.leaky_relu(from_[edge[0]] + to[edge[1]], 0.2)
            at = edge[1][:, None].expand_as(e)
            most = torch.full((n, self.heads), -1e9).scatter_reduce(0, at, e, "amax")
            e = torch.exp(e - most[edge[1]])
            total = torch.zeros(n, self.heads).scatter_add(0, at, e)
            messages = h[edge[0]] * (e / total[edge[1]])[..., None]
            x = F.elu(torch.zeros_like(h).index_add(0, edge[1], messages).flatten(1)) + x
        return x


class Experts(nn.Module):
    """Two experts of eight for each token, all computed and weighted."""

    def __init__(self, c=64, wide=128, experts=8):
        super().__init__()
        self.gate = nn.Linear(c, experts)
        self.up = nn.Parameter(torch.randn(experts, c, wide) / 8)
        self.down = nn.Parameter(torch.randn(experts, wide, c) / 11)

    def forward(self, x):
        scores, chosen = self.gate(x).softmax(-1).topk(2, -1)
        weights = torch.zeros(*x.shape[:-1], self.up.shape[0]).scatter(-1, chosen, scores)
        h = F.gelu(torch.einsum("bnc,ecw->benw", x, self.up))
        return x + torch.einsum("benc,bne->bnc", torch.einsum("benw,ewc->benc", h, self.down), weights)


class Latents(nn.Module):
    """A few latent vectors read a long input, twice."""

    def __init__(self, c=96):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(32, c))
        self.into = nn.Linear(24, c)
        self.cross = nn.MultiheadAttention(c, 4, batch_first=True)
        self.own = nn.MultiheadAttention(c, 4, batch_first=True)
        self.norm, self.mlp = nn.LayerNorm(c), nn.Sequential(nn.Linear(c, 4 * c), nn.GELU(), nn.Linear(4 * c, c))

    def forward(self, x):
        x = self.into(x)
        y = self.latents.expand(x.shape[0], -1, -1)
        for _ in range(2):
            y = y + self.cross(y, x, x, need_weights=False)[0]
            y = y + self.own(y, y, y, need_weights=False)[0]
            y = y + self.mlp(self.norm(y))
        return y


class Conformer(nn.Module):
    class Layer(nn.Module):
        def __init__(self, c=96):
            super().__init__()
            half = lambda: nn.Sequential(nn.LayerNorm(c), nn.Linear(c, 4 * c), nn.SiLU(), nn.Linear(4 * c, c))
            self.a, self.b = half(), half()
            self.norm, self.attend = nn.LayerNorm(c), nn.MultiheadAttention(c, 4, batch_first=True)
            self.inner, self.up = nn.LayerNorm(c), nn.Conv1d(c, 2 * c, 1)
            self.deep, self.bn = nn.Conv1d(c, c, 15, padding=7, groups=c), nn.BatchNorm1d(c)
            self.down, self.last = nn.Conv1d(c, c, 1), nn.LayerNorm(c)

        def forward(self, x):
            x = x + 0.5 * self.a(x)
            y = self.norm(x)
            x = x + self.attend(y, y, y, need_weights=False)[0]
            y = F.glu(self.up(self.inner(x).mT), 1)
            x = x + self.down(F.silu(self.bn(self.deep(y)))).mT
            return self.last(x + 0.5 * self.b(x))

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(self.Layer(), self.Layer())

    def forward(self, x):
        return self.layers(x)


class Waves(nn.Module):
    """Dilated convolutions with gates; all layers' skips are summed."""

    def __init__(self, c=32, depth=8):
        super().__init__()
        self.into, self.out = nn.Conv1d(1, c, 1), nn.Conv1d(c, 64, 1)
        self.gated = nn.ModuleList(nn.Conv1d(c, 2 * c, 2, dilation=2**k) for k in range(depth))
        self.skips = nn.ModuleList(nn.Conv1d(c, c, 1) for _ in range(depth))
        self.rest = nn.ModuleList(nn.Conv1d(c, c, 1) for _ in range(depth))

    def forward(self, x):
        x, skips = self.into(x), []
        for k, (gated, skip, rest) in enumerate(zip(self.gated, self.skips, self.rest, strict=True)):
            a, b = gated(F.pad(x, (2**k, 0))).chunk(2, 1)
            y = torch.tanh(a) * torch.sigmoid(b)
            skips.append(skip(y))
            x = x + rest(y)
        return self.out(F.relu(sum(skips)))


class Variational(nn.Module):
    def __init__(self):
        super().__init__()
        down, up = [], []
        for a, b in ((3, 32), (32, 64), (64, 128)):
            down += [nn.Conv2d(a, b, 4, 2, 1), nn.ELU()]
        for a, b in ((128, 64), (64, 32), (32, 3)):
            up += [nn.ConvTranspose2d(a, b, 4, 2, 1), nn.ELU() if b > 3 else nn.Sigmoid()]
        self.down, self.up = nn.Sequential(*down), nn.Sequential(*up)
        self.stats, self.back = nn.Linear(128 * 64, 64), nn.Linear(32, 128 * 64)

    def forward(self, x, noise):
        mean, log = self.stats(self.down(x).flatten(1)).chunk(2, -1)
        z = mean + noise * torch.exp(log / 2)
        return self.up(self.back(z).view(-1, 128, 8, 8)), mean, log


class Enlarge(nn.Module):
    """Super-resolution: residual blocks, then pixels out of channels."""

    def __init__(self, c=32, depth=4):
        super().__init__()
        self.first = nn.Conv2d(3, c, 3, padding=1)
        block = lambda: nn.Sequential(nn.Conv2d(c, c, 3, padding=1), nn.PReLU(), nn.Conv2d(c, c, 3, padding=1))
        self.blocks = nn.ModuleList(block() for _ in range(depth))
        self.up, self.last = nn.Conv2d(c, 4 * c, 3, padding=1), nn.Conv2d(c, 3, 3, padding=1)

    def forward(self, x):
        y = first = self.first(x)
        for block in self.blocks:
            y = y + 0.1 * block(y)
        return self.last(F.pixel_shuffle(self.up(y + first), 2))


class Points(nn.Module):
    """Points of a cloud with a learned rotation, each beside what is largest of all."""

    def __init__(self):
        super().__init__()
        mlp = lambda *w: nn.Sequential(
            *(f for a, b in zip(w, w[1:], strict=False) for f in (nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU()))
        )
        self.turn, self.matrix = mlp(3, 32, 128), nn.Linear(128, 9)
        self.first, self.second = mlp(3, 32, 64), mlp(64, 128, 256)
        self.head = nn.Sequential(mlp(320, 128), nn.Conv1d(128, 12, 1))

    def forward(self, x):
        turn = self.matrix(self.turn(x).amax(-1)).view(-1, 3, 3) + torch.eye(3)
        local = self.first(turn @ x)
        whole = self.second(local).amax(-1, keepdim=True).expand(-1, -1, x.shape[-1])
        return self.head(torch.cat([local, whole], 1))


class Towers(nn.Module):
    """Two encoders and the matrix of similarities."""

    def __init__(self):
        super().__init__()
        tower = lambda n: nn.Sequential(
            nn.Linear(n, 512), nn.LayerNorm(512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 64)
        )
        self.a, self.b, self.scale = tower(64), tower(128), nn.Parameter(torch.tensor(2.0))

    def forward(self, a, b):
        a, b = F.normalize(self.a(a), dim=-1), F.normalize(self.b(b), dim=-1)
        scores = self.scale.exp() * a @ b.T
        return scores.log_softmax(0).diagonal() + scores.log_softmax(1).diagonal()


class Windows(nn.Module):
    """Attention in windows, shifted in every other layer, with a bias for each distance."""

    class Layer(nn.Module):
        def __init__(self, c, heads, size, shift):
            super().__init__()
            self.norm, self.second = nn.LayerNorm(c), nn.LayerNorm(c)
            self.qkv, self.out = nn.Linear(c, 3 * c), nn.Linear(c, c)
            self.mlp = nn.Sequential(nn.Linear(c, 4 * c), nn.GELU(), nn.Linear(4 * c, c))
            self.bias = nn.Parameter(torch.randn(heads, size * size, size * size))
            self.heads, self.size, self.shift = heads, size, shift

        def forward(self, x):
            b, h, w, c = x.shape
            s = self.size
            y = torch.roll(self.norm(x), (-self.shift, -self.shift), (1, 2))
            y = y.view(b, h // s, s, w // s, s, c).transpose(2, 3).reshape(-1, s * s, c)
            q, k, v = self.qkv(y).view(-1, s * s, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
            scores = torch.softmax(q @ k.mT / (c // self.heads) ** 0.5 + self.bias, -1)
            y = self.out((scores @ v).transpose(1, 2).reshape(-1, s * s, c))
            y = y.view(b, h // s, w // s, s, s, c).transpose(2, 3).reshape(b, h, w, c)
            x = x + torch.roll(y, (self.shift, self.shift), (1, 2))
            return x + self.mlp(self.second(x))

    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 48, 4, 4)
        self.layers = nn.Sequential(*(self.Layer(48, 3, 4, 2 * (k % 2)) for k in range(4)))

    def forward(self, x):
        return self.layers(self.patch(x).permute(0, 2, 3, 1))


class Resolutions(nn.Module):
    """Three resolutions side by side that exchange what they have."""

    def __init__(self, widths=(16, 32, 64)):
        super().__init__()
        self.stem = nn.ModuleList(nn.Conv2d(3, w, 3, 2**k, 1) for k, w in enumerate(widths))
        self.blocks = nn.ModuleList(
            nn.ModuleList(nn.Sequential(nn.Conv2d(w, w, 3, padding=1), nn.BatchNorm2d(w), nn.ReLU()) for w in widths)
            for _ in range(2)
        )
        self.cross = nn.ModuleList(
            nn.ModuleList(nn.ModuleList(nn.Conv2d(a, b, 1) for a in widths) for b in widths) for _ in range(2)
        )

    def forward(self, x):
        levels = [f(x) for f in self.stem]
        for blocks, cross in zip(self.blocks, self.cross, strict=True):
            levels = [f(v) for f, v in zip(blocks, levels, strict=True)]
            levels = [
                F.relu(
                    sum(
                        F.interpolate(f(v), size=to.shape[2:], mode="bilinear", align_corners=False)
                        if v.shape[2] < to.shape[2]
                        else F.adaptive_avg_pool2d(f(v), to.shape[2:])
                        if v.shape[2] > to.shape[2]
                        else f(v)
                        for f, v in zip(row, levels, strict=True)
                    )
                )
                for row, to in zip(cross, levels, strict=True)
            ]
        return levels[0], levels[1], levels[2]


class Rays(nn.Module):
    """Encoded positions through a deep net with a skip, then composed along rays."""

    def __init__(self, c=128):
        super().__init__()
        self.first = nn.ModuleList(nn.Linear(a, c) for a in (39, c, c))
        self.second = nn.ModuleList(nn.Linear(a, c) for a in (c + 39, c))
        self.density, self.color = nn.Linear(c, 1), nn.Linear(c, 3)

    def forward(self, x):
        angles = x[..., None] * 2.0 ** torch.arange(6)
        code = torch.cat([x, angles.sin().flatten(-2), angles.cos().flatten(-2)], -1)
        y = code
        for f in self.first:
            y = F.relu(f(y))
        y = torch.cat([y, code], -1)
        for f in self.second:
            y = F.relu(f(y))
        alpha = 1 - torch.exp(-F.relu(self.density(y)).squeeze(-1) * 0.1)
        through = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha[:, :-1]], 1), 1)
        return ((alpha * through)[..., None] * self.color(y).sigmoid()).sum(1)


class Spectral(nn.Module):
    """Products of low frequencies, as neural operators have them."""

    def __init__(self, c=32, modes=12, depth=3):
        super().__init__()
        self.into, self.out, self.modes = nn.Conv1d(2, c, 1), nn.Conv1d(c, 1, 1), modes
        self.weights = nn.ParameterList(nn.Parameter(torch.randn(c, c, modes, 2) / c) for _ in range(depth))
        self.local = nn.ModuleList(nn.Conv1d(c, c, 1) for _ in range(depth))

    def forward(self, x):
        x = self.into(x)
        for weight, local in zip(self.weights, self.local, strict=True):
            low = torch.fft.rfft(x)[..., : self.modes]
            low = torch.einsum("bim,iom->bom", low, torch.view_as_complex(weight))
            x = F.gelu(torch.fft.irfft(low, n=x.shape[-1]) + local(x))
        return self.out(x)


class ChannelsLast(nn.Module):
    """ConvNeXt's blocks: wide depthwise convolutions and layer norms over channels."""

    class Block(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.deep, self.norm = nn.Conv2d(c, c, 7, padding=3, groups=c), nn.LayerNorm(c)
            self.up, self.down = nn.Linear(c, 4 * c), nn.Linear(4 * c, c)
            self.scale = nn.Parameter(torch.full((c,), 0.1))

        def forward(self, x):
            y = self.norm(self.deep(x).permute(0, 2, 3, 1))
            y = self.scale * self.down(F.gelu(self.up(y)))
            return x + y.permute(0, 3, 1, 2)

    def __init__(self):
        super().__init__()
        self.first, self.between = nn.Conv2d(3, 48, 4, 4), nn.Conv2d(48, 96, 2, 2)
        self.a, self.b = nn.Sequential(self.Block(48), self.Block(48)), nn.Sequential(self.Block(96), self.Block(96))
        self.head = nn.Linear(96, 10)

    def forward(self, x):
        return self.head(self.b(self.between(self.a(self.first(x)))).mean((2, 3)))


class LinearAttention(nn.Module):
    """Attention by features of keys and queries, causal in chunks."""

    def __init__(self, c=64, heads=4, chunk=32):
        super().__init__()
        self.qkv, self.out, self.norm = nn.Linear(c, 3 * c), nn.Linear(c, c), nn.LayerNorm(c)
        self.heads, self.chunk = heads, chunk

    def forward(self, x):
        for _ in range(2):
            b, n, c = x.shape
            y = self.qkv(self.norm(x)).view(b, n // self.chunk, self.chunk, 3, self.heads, c // self.heads)
            q, k, v = y.permute(3, 0, 4, 1, 2, 5)
            q, k = F.elu(q) + 1, F.elu(k) + 1
            states = torch.cumsum(k.mT @ v, 2)
            states = torch.cat([torch.zeros_like(states[:, :, :1]), states[:, :, :-1]], 2)
            inner = torch.tril(q @ k.mT) @ v
            y = (q @ states + inner).permute(0, 2, 3, 1, 4).reshape(b, n, c)
            x = x + self.out(y)
        return x


def graph():
    return torch.randint(0, 800, (2, 4000))


def words(rows, length, count):
    return torch.randint(0, count, (rows, length))


NETWORKS = {
    "convolutions": lambda: (ConvStack(), (torch.randn(4, 3, 64, 64),)),
    "inception": lambda: (Inception(), (torch.randn(4, 3, 64, 64),)),
    "dense": lambda: (Dense(), (torch.randn(4, 3, 64, 64),)),
    "gated U-Net": lambda: (GatedUNet(), (torch.randn(4, 1, 64, 64),)),
    "pyramid": lambda: (Pyramid(), (torch.randn(2, 3, 128, 128),)),
    "anchors": lambda: (Anchors(), (torch.randn(4, 3, 128, 128),)),
    "encoder": lambda: (Encoder(), (torch.randn(8, 128, 96),)),
    "decoder": lambda: (Decoder(), (words(4, 128, 1000),)),
    "mixer": lambda: (Mixer(), (torch.randn(8, 3, 64, 64),)),
    "spatial gates": lambda: (SpatialGates(), (torch.randn(8, 128, 96),)),
    "LSTM": lambda: (Recurrent(), (words(16, 64, 500),)),
    "unrolled cell": lambda: (Steps(), (torch.randn(64, 24, 64),)),
    "state space": lambda: (StateSpace(), (torch.randn(4, 128, 64),)),
    "denoiser": lambda: (Denoiser(), (torch.randn(4, 4, 32, 32), torch.rand(4) * 1000, torch.randn(4, 20, 48))),
    "graph, sums": lambda: (GraphSums(), (torch.randn(800, 16), graph(), torch.randn(4000, 4))),
    "graph, attention": lambda: (GraphAttention(), (torch.randn(800, 128), graph())),
    "experts": lambda: (Experts(), (torch.randn(4, 128, 64),)),
    "latents": lambda: (Latents(), (torch.randn(4, 512, 24),)),
    "conformer": lambda: (Conformer(), (torch.randn(4, 128, 96),)),
    "waves": lambda: (Waves(), (torch.randn(4, 1, 2048),)),
    "variational": lambda: (Variational(), (torch.randn(8, 3, 64, 64), torch.randn(8, 32))),
    "enlarge": lambda: (Enlarge(), (torch.randn(2, 3, 48, 48),)),
    "points": lambda: (Points(), (torch.randn(4, 3, 1024),)),
    "towers": lambda: (Towers(), (torch.randn(512, 64), torch.randn(512, 128))),
    "windows": lambda: (Windows(), (torch.randn(4, 3, 64, 64),)),
    "resolutions": lambda: (Resolutions(), (torch.randn(2, 3, 64, 64),)),
    "rays": lambda: (Rays(), (torch.randn(256, 32, 3),)),
    "spectral": lambda: (Spectral(), (torch.randn(8, 2, 512),)),
    "channels last": lambda: (ChannelsLast(), (torch.randn(4, 3, 64, 64),)),
    "linear attention": lambda: (LinearAttention(), (torch.randn(8, 256, 64),)),
}
