"""Networks and programs of `zoo_cpu_models.py` that are written here, third part: kinds that the first two parts do not
have, small enough for two cores.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from zoo_models import Entry, pictures, words


class LinearMemory(nn.Module):
    """Weighted means over the past that each step brings up to date, between layers that mix neighbours (RWKV)."""

    class Block(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
            mix = lambda: nn.Parameter(torch.rand(dim))
            self.mix_k, self.mix_v, self.mix_r, self.mix_up, self.mix_gate = mix(), mix(), mix(), mix(), mix()
            layer = lambda a, b: nn.Linear(a, b, bias=False)
            self.k, self.v, self.r, self.out = (layer(dim, dim) for _ in range(4))
            self.up, self.down, self.gate = layer(dim, 4 * dim), layer(4 * dim, dim), layer(dim, dim)
            self.decay, self.first = nn.Parameter(torch.randn(dim)), nn.Parameter(torch.randn(dim))

        @staticmethod
        def mixed(x, before, mix):
            return x * mix + before * (1 - mix)

        def memory(self, k, v):
            above, below, top, results = torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0]), k[:, 0] - 1e30, []
            decay = -torch.exp(self.decay)
            for t in range(k.shape[1]):
                now = torch.maximum(top, self.first + k[:, t])
                old, new = torch.exp(top - now), torch.exp(self.first + k[:, t] - now)
                results.append((old * above + new * v[:, t]) / (old * below + new))
                now = torch.maximum(top + decay, k[:, t])
                old, new = torch.exp(top + decay - now), torch.exp(k[:, t] - now)
                above, below, top = old * above + new * v[:, t], old * below + new, now
            return torch.stack(results, 1)

        def forward(self, x):
            h = self.norm1(x)
            before = F.pad(h, (0, 0, 1, -1))
            k, v = self.k(self.mixed(h, before, self.mix_k)), self.v(self.mixed(h, before, self.mix_v))
            x = x + self.out(torch.sigmoid(self.r(self.mixed(h, before, self.mix_r))) * self.memory(k, v))
            h = self.norm2(x)
            before = F.pad(h, (0, 0, 1, -1))
            up = torch.relu(self.up(self.mixed(h, before, self.mix_up))).square()
            return x + torch.sigmoid(self.gate(self.mixed(h, before, self.mix_gate))) * self.down(up)

    def __init__(self, vocabulary=4096, dim=192, layers=3):
        super().__init__()
        self.words, self.norm = nn.Embedding(vocabulary, dim), nn.LayerNorm(dim)
        self.blocks = nn.Sequential(*(self.Block(dim) for _ in range(layers)))
        self.last = nn.Linear(dim, vocabulary, bias=False)

    def forward(self, ids):
        return self.last(self.norm(self.blocks(self.words(ids))))


class Retention(nn.Module):
    """Products of queries and keys that fade with distance, normalized for each head, and a gate (RetNet)."""

    def __init__(self, dim=256, heads=4, layers=4):
        super().__init__()
        self.heads, self.layers = heads, layers
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2 * layers))
        self.mixed = nn.ModuleList(nn.Linear(dim, 4 * dim, bias=False) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(dim, dim, bias=False) for _ in range(layers))
        self.each = nn.ModuleList(nn.GroupNorm(heads, dim) for _ in range(layers))
        self.up = nn.ModuleList(nn.Linear(dim, 2 * dim) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(2 * dim, dim) for _ in range(layers))
        self.register_buffer("fading", 1 - 2.0 ** (-5 - torch.arange(heads)))

    def retain(self, x, k):
        n, length, dim = x.shape
        q, key, v, gate = self.mixed[k](x).view(n, length, 4, self.heads, -1).permute(2, 0, 3, 1, 4)
        place = torch.arange(length)
        distance = place[:, None] - place
        fading = torch.where(distance >= 0, self.fading[:, None, None] ** distance.clamp(min=0), 0.0)
        h = (q @ key.transpose(-1, -2) / math.sqrt(q.shape[-1]) * fading) @ v
        h = self.each[k](h.transpose(1, 2).reshape(n * length, dim)).view(n, length, dim)
        return self.out[k](F.silu(gate).transpose(1, 2).reshape(n, length, dim) * h)

    def forward(self, x):
        for k in range(self.layers):
            x = x + self.retain(self.norms[2 * k](x), k)
            x = x + self.down[k](F.gelu(self.up[k](self.norms[2 * k + 1](x))))
        return x


class Weather(nn.Module):
    """Recurrent layers whose gates are convolutions over each frame, and frames ahead (ConvLSTM)."""

    def __init__(self, channels=24, ahead=4):
        super().__init__()
        self.channels, self.ahead = channels, ahead
        self.gates1 = nn.Conv2d(1 + channels, 4 * channels, 3, padding=1)
        self.gates2 = nn.Conv2d(2 * channels, 4 * channels, 3, padding=1)
        self.last = nn.Conv2d(channels, 1, 1)

    @staticmethod
    def step(layer, x, h, c):
        i, f, o, g = layer(torch.cat([x, h], 1)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c

    def forward(self, frames):
        n, steps, height, width = frames.shape
        h1 = c1 = h2 = c2 = frames.new_zeros(n, self.channels, height, width)
        results, x = [], None
        for t in range(steps + self.ahead):
            x = frames[:, t : t + 1] if t < steps else results[-1]
            h1, c1 = self.step(self.gates1, x, h1, c1)
            h2, c2 = self.step(self.gates2, h1, h2, c2)
            if t >= steps - 1:
                results.append(self.last(h2))
        return torch.cat(results, 1)


class Separator(nn.Module):
    """Masks over a learned transform of a signal, from dilated depthwise convolutions (Conv-TasNet)."""

    def __init__(self, filters=128, channels=64, wide=128, repeats=2, depth=5, speakers=2):
        super().__init__()
        self.speakers, self.filters = speakers, filters
        self.there = nn.Conv1d(1, filters, 16, 8, bias=False)
        self.back = nn.ConvTranspose1d(filters, 1, 16, 8, bias=False)
        self.first = nn.Sequential(nn.GroupNorm(1, filters), nn.Conv1d(filters, channels, 1))
        block = lambda d: nn.Sequential(
            nn.Conv1d(channels, wide, 1),
            nn.PReLU(),
            nn.GroupNorm(1, wide),
            nn.Conv1d(wide, wide, 3, padding=d, dilation=d, groups=wide),
            nn.PReLU(),
            nn.GroupNorm(1, wide),
            nn.Conv1d(wide, channels, 1),
        )
        self.blocks = nn.ModuleList(block(2**k) for _ in range(repeats) for k in range(depth))
        self.masks = nn.Sequential(nn.PReLU(), nn.Conv1d(channels, speakers * filters, 1), nn.Sigmoid())

    def forward(self, x):
        w = F.relu(self.there(x))
        h = self.first(w)
        for block in self.blocks:
            h = h + block(h)
        n, _, length = w.shape
        parts = self.masks(h).view(n, self.speakers, self.filters, length) * w[:, None]
        return self.back(parts.flatten(0, 1)).view(n, self.speakers, -1)


class VolumeUNet(nn.Module):
    """Strided and transposed convolutions over volumes, groups normalized (V-Net, nnU-Net)."""

    def __init__(self, width=12):
        super().__init__()
        block = lambda a, b, s=1: nn.Sequential(nn.Conv3d(a, b, 3, s, 1), nn.GroupNorm(4, b), nn.LeakyReLU(0.01))
        self.level1, self.level2 = block(2, width), block(width, 2 * width, 2)
        self.level3 = nn.Sequential(block(2 * width, 4 * width, 2), block(4 * width, 4 * width))
        self.turn2, self.up2 = nn.ConvTranspose3d(4 * width, 2 * width, 2, 2), block(4 * width, 2 * width)
        self.turn1, self.up1 = nn.ConvTranspose3d(2 * width, width, 2, 2), block(2 * width, width)
        self.last = nn.Conv3d(width, 3, 1)

    def forward(self, x):
        first = self.level1(x)
        second = self.level2(first)
        h = self.up2(torch.cat([self.turn2(self.level3(second)), second], 1))
        return self.last(self.up1(torch.cat([self.turn1(h), first], 1))).softmax(1)


class TurnedPoints(nn.Module):
    """Points and their features turned by matrices that a small network of each finds (PointNet's segmentation)."""

    def __init__(self, parts=16):
        super().__init__()
        self.turn3, self.turn32 = self.turning(3), self.turning(32)
        layer = lambda a, b: nn.Sequential(nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU())
        self.early, self.late = layer(3, 32), nn.Sequential(layer(32, 64), layer(64, 256))
        self.last = nn.Sequential(layer(32 + 256, 128), layer(128, 64), nn.Conv1d(64, parts, 1))

    @staticmethod
    def turning(width):
        points = nn.Sequential(nn.Conv1d(width, 64, 1), nn.ReLU(), nn.Conv1d(64, 128, 1), nn.ReLU())
        return nn.ModuleList([points, nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, width * width))])

    @staticmethod
    def turned(x, layers):
        c = x.shape[1]
        matrix = layers[1](layers[0](x).amax(2)).view(-1, c, c) + torch.eye(c)
        return (x.transpose(1, 2) @ matrix).transpose(1, 2)

    def forward(self, x):
        h = self.turned(self.early(self.turned(x, self.turn3)), self.turn32)
        whole = self.late(h).amax(2, keepdim=True).expand(-1, -1, x.shape[2])
        return self.last(torch.cat([h, whole], 1)).log_softmax(1)


class SparseTable(nn.Module):
    """Steps that each choose features of a table by a sparse softmax (TabNet)."""

    def __init__(self, features=54, width=64, steps=4):
        super().__init__()
        self.norm, self.width = nn.BatchNorm1d(features), width
        gated = lambda a: nn.Sequential(nn.Linear(a, 4 * width, bias=False), nn.BatchNorm1d(4 * width), nn.GLU(1))
        self.shared = gated(features)
        self.own = nn.ModuleList(gated(2 * width) for _ in range(steps + 1))
        self.choices = nn.ModuleList(
            nn.Sequential(nn.Linear(width, features), nn.BatchNorm1d(features)) for _ in range(steps)
        )
        self.last = nn.Linear(width, 7)

    @staticmethod
    def sparse(x):
        ordered = x.sort(-1, descending=True).values
        ranks = torch.arange(1, x.shape[-1] + 1)
        sums = ordered.cumsum(-1) - 1
        count = (ranks * ordered > sums).sum(-1, keepdim=True)
        return (x - sums.gather(-1, count - 1) / count).clamp(min=0)

    def stage(self, x, own):
        h = self.shared(x)
        return (h + own(h)) * math.sqrt(0.5)

    def forward(self, x):
        x = self.norm(x)
        prior, total = torch.ones_like(x), 0
        h = self.stage(x, self.own[0])
        for choice, own in zip(self.choices, self.own[1:]):
            mask = self.sparse(choice(h[:, self.width :]) * prior)
            prior = prior * (1.3 - mask)
            h = self.stage(x * mask, own)
            total = total + F.relu(h[:, : self.width])
        return self.last(total)


class SeparableSpeech(nn.Module):
    """Long windows along time for each channel by itself, then all channels (QuartzNet)."""

    def __init__(self, bins=64, channels=128, classes=29):
        super().__init__()
        self.first = self.layer(bins, channels, 33, 2)
        self.blocks = nn.ModuleList(
            nn.Sequential(self.layer(channels, channels, k), self.layer(channels, channels, k, active=False))
            for k in (33, 39, 51, 63)
        )
        self.skips = nn.ModuleList(
            nn.Sequential(nn.Conv1d(channels, channels, 1), nn.BatchNorm1d(channels)) for _ in "1234"
        )
        self.last = nn.Sequential(self.layer(channels, 2 * channels, 75), nn.Conv1d(2 * channels, classes, 1))

    @staticmethod
    def layer(a, b, kernel, stride=1, active=True):
        deep = nn.Conv1d(a, a, kernel, stride, kernel // 2, groups=a, bias=False)
        layers = [deep, nn.Conv1d(a, b, 1, bias=False), nn.BatchNorm1d(b)]
        return nn.Sequential(*layers, *([nn.ReLU()] if active else []))

    def forward(self, x):
        x = self.first(x)
        for block, skip in zip(self.blocks, self.skips):
            x = F.relu(block(x) + skip(x))
        return self.last(x).transpose(1, 2).log_softmax(-1)


class Reader(nn.Module):
    """A text and a question that attend to each other, and where the answer begins and ends (BiDAF)."""

    def __init__(self, vocabulary=10_000, dim=64):
        super().__init__()
        self.words = nn.Embedding(vocabulary, dim)
        rnn = lambda a: nn.LSTM(a, dim, bidirectional=True, batch_first=True)
        self.encode, self.model1, self.model2 = rnn(dim), rnn(8 * dim), rnn(2 * dim)
        self.text, self.question = nn.Linear(2 * dim, 1), nn.Linear(2 * dim, 1)
        self.both = nn.Parameter(torch.randn(2 * dim) * 0.1)
        self.start, self.end = nn.Linear(10 * dim, 1), nn.Linear(10 * dim, 1)

    def forward(self, text, question):
        h, u = self.encode(self.words(text))[0], self.encode(self.words(question))[0]
        s = self.text(h) + self.question(u).transpose(1, 2) + (h * self.both) @ u.transpose(1, 2)
        there = s.softmax(2) @ u
        back = (s.amax(2).softmax(1)[:, None] @ h).expand_as(h)
        g = torch.cat([h, there, h * there, h * back], 2)
        m = self.model1(g)[0]
        m2 = self.model2(m)[0]
        ends = self.start(torch.cat([g, m], 2)), self.end(torch.cat([g, m2], 2))
        return torch.cat(ends, 2).log_softmax(1)


class CrossCovariance(nn.Module):
    """Attention among channels, beside depthwise convolutions among places (XCiT)."""

    class Block(nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.norms, self.heads = nn.ModuleList(nn.LayerNorm(dim) for _ in range(3)), heads
            self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
            self.heat = nn.Parameter(torch.ones(heads, 1, 1))
            self.near1, self.near2 = (nn.Conv2d(dim, dim, 3, padding=1, groups=dim) for _ in range(2))
            self.near_norm = nn.BatchNorm2d(dim)
            self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
            self.scales = nn.Parameter(torch.full((3, dim), 0.1))

        def forward(self, x, side):
            n, places, dim = x.shape
            qkv = self.qkv(self.norms[0](x)).view(n, places, 3, self.heads, -1).permute(2, 0, 3, 4, 1)
            q, k, v = F.normalize(qkv[0], dim=-1), F.normalize(qkv[1], dim=-1), qkv[2]
            h = ((q @ k.transpose(-1, -2)) * self.heat).softmax(-1) @ v
            x = x + self.scales[0] * self.out(h.permute(0, 3, 1, 2).reshape(n, places, dim))
            h = self.norms[1](x).transpose(1, 2).reshape(n, dim, side, side)
            h = self.near2(self.near_norm(F.gelu(self.near1(h))))
            x = x + self.scales[1] * h.flatten(2).transpose(1, 2)
            return x + self.scales[2] * self.down(F.gelu(self.up(self.norms[2](x))))

    def __init__(self, dim=128, heads=4, layers=4):
        super().__init__()
        half = lambda a, b: nn.Sequential(nn.Conv2d(a, b, 3, 2, 1, bias=False), nn.BatchNorm2d(b), nn.GELU())
        self.first = nn.Sequential(half(3, dim // 4), half(dim // 4, dim // 2), half(dim // 2, dim))
        self.blocks = nn.ModuleList(self.Block(dim, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, 1000)

    def forward(self, x):
        x = self.first(x)
        side = x.shape[-1]
        x = x.flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x, side)
        return self.head(self.norm(x).mean(1))


def silu_layer(a, b, kernel=1, stride=1):
    return nn.Sequential(nn.Conv2d(a, b, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(b), nn.SiLU())


class SplitStage(nn.Module):
    """A part of the channels goes through blocks, and all of their results are joined (CSP)."""

    def __init__(self, inputs, outputs, depth, adds=True):
        super().__init__()
        self.half, self.adds = outputs // 2, adds
        self.first = silu_layer(inputs, outputs)
        block = lambda: nn.Sequential(silu_layer(self.half, self.half, 3), silu_layer(self.half, self.half, 3))
        self.blocks = nn.ModuleList(block() for _ in range(depth))
        self.last = silu_layer((2 + depth) * self.half, outputs)

    def forward(self, x):
        parts = list(self.first(x).split(self.half, 1))
        for block in self.blocks:
            parts.append(parts[-1] + block(parts[-1]) if self.adds else block(parts[-1]))
        return self.last(torch.cat(parts, 1))


class Detector(nn.Module):
    """Boxes from distributions over distances to their sides, the best of them chosen by score (YOLOv8)."""

    def __init__(self, width=16, classes=20, bins=16, kept=100):
        super().__init__()
        self.classes, self.bins, self.kept = classes, bins, kept
        w = [width << k for k in range(5)]
        self.first = nn.Sequential(silu_layer(3, w[0], 3, 2), silu_layer(w[0], w[1], 3, 2), SplitStage(w[1], w[1], 1))
        self.stages = nn.ModuleList(
            nn.Sequential(silu_layer(a, b, 3, 2), SplitStage(b, b, d)) for a, b, d in zip(w[1:], w[2:], (2, 2, 1))
        )
        self.reduce, self.spread = silu_layer(w[4], w[3]), silu_layer(4 * w[3], w[4])
        self.up4, self.up3 = SplitStage(w[4] + w[3], w[3], 1, False), SplitStage(w[3] + w[2], w[2], 1, False)
        head = lambda c, out: nn.Sequential(silu_layer(c, 32, 3), silu_layer(32, 32, 3), nn.Conv2d(32, out, 1))
        self.boxes = nn.ModuleList(head(c, 4 * bins) for c in (w[2], w[3], w[4]))
        self.scores = nn.ModuleList(head(c, classes) for c in (w[2], w[3], w[4]))
        for layer in (module for module in self.modules() if isinstance(module, nn.Conv2d)):
            nn.init.normal_(layer.weight, std=math.sqrt(2.2 / layer.weight[0].numel()))  # no two scores nearly equal
        self.register_buffer("distances", torch.arange(bins, dtype=torch.float32))

    def levels(self, x):
        h3 = self.stages[0](self.first(x))
        h4 = self.stages[1](h3)
        parts = [self.reduce(self.stages[2](h4))]
        for _ in range(3):
            parts.append(F.max_pool2d(parts[-1], 5, 1, 2))
        h5 = self.spread(torch.cat(parts, 1))
        up4 = self.up4(torch.cat([F.interpolate(h5, scale_factor=2.0), h4], 1))
        return self.up3(torch.cat([F.interpolate(up4, scale_factor=2.0), h3], 1)), up4, h5

    def decoded(self, h, box, stride):
        n, _, height, width = h.shape
        sides = box(h).view(n, 4, self.bins, height * width).softmax(2)
        sides = (sides * self.distances[:, None]).sum(2).transpose(1, 2)
        y, x = torch.meshgrid(torch.arange(height) + 0.5, torch.arange(width) + 0.5, indexing="ij")
        centre = torch.stack([x.flatten(), y.flatten()], 1)
        return torch.cat([centre - sides[..., :2], centre + sides[..., 2:]], -1) * stride

    def forward(self, x):
        levels = self.levels(x)
        boxes = torch.cat([self.decoded(h, b, 8 << k) for k, (h, b) in enumerate(zip(levels, self.boxes))], 1)
        scores = torch.cat([s(h).flatten(2).transpose(1, 2) for h, s in zip(levels, self.scores)], 1).sigmoid()
        best, place = scores.amax(-1).topk(self.kept, 1)
        return torch.cat([boxes.gather(1, place[..., None].expand(-1, -1, 4)), best[..., None]], -1)


class Molecules(nn.Module):
    """Filters of distances between atoms, summed over neighbours and then over molecules (SchNet)."""

    def __init__(self, dim=64, waves=50, layers=3, reach=5.0):
        super().__init__()
        self.reach, self.kinds = reach, nn.Embedding(100, dim)
        self.register_buffer("centres", torch.linspace(0, reach, waves))
        layer = lambda: nn.ModuleDict(
            {
                "filter1": nn.Linear(waves, dim),
                "filter2": nn.Linear(dim, dim),
                "inner": nn.Linear(dim, dim, bias=False),
                "outer1": nn.Linear(dim, dim),
                "outer2": nn.Linear(dim, dim),
            }
        )
        self.layers = nn.ModuleList(layer() for _ in range(layers))
        self.last = nn.Sequential(nn.Linear(dim, dim // 2), nn.Softplus(), nn.Linear(dim // 2, 1))

    def forward(self, kinds, places, edges, molecule):
        source, target = edges[0], edges[1]
        distance = ((places[source] - places[target]).square().sum(1) + 1e-12).sqrt()
        waves = torch.exp(-10 * (distance[:, None] - self.centres).square())
        near = 0.5 * (torch.cos(distance * math.pi / self.reach) + 1) * (distance < self.reach)
        smooth = lambda x: F.softplus(x) - math.log(2.0)
        x = self.kinds(kinds)
        for layer in self.layers:
            weight = layer["filter2"](smooth(layer["filter1"](waves))) * near[:, None]
            sums = torch.zeros_like(x).index_add(0, target, layer["inner"](x)[source] * weight)
            x = x + layer["outer2"](smooth(layer["outer1"](sums)))
        return x.new_zeros(64, 1).index_add(0, molecule, self.last(x))


def molecules(n):
    atoms = 20 * n
    edges = torch.randint(0, atoms, (2, 16 * atoms))
    return torch.randint(1, 100, (atoms,)), torch.randn(atoms, 3) * 2, edges, torch.randint(0, min(n, 64), (atoms,))


class Painter(nn.Module):
    """Reflected borders, instances normalized, and each style by its own factors (Johnson et al., Dumoulin et al.)."""

    class Normalized(nn.Module):
        def __init__(self, a, b, kernel, stride, styles=8):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(a, b, kernel, stride), nn.InstanceNorm2d(b)
            self.pad, self.factors = nn.ReflectionPad2d(kernel // 2), nn.Embedding(styles, 2 * b)

        def forward(self, x, style):
            scale, shift = self.factors(style)[..., None, None].chunk(2, 1)
            return self.norm(self.conv(self.pad(x))) * scale + shift

    def __init__(self, width=16, blocks=3):
        super().__init__()
        layer = self.Normalized
        self.first, self.half1 = layer(3, width, 9, 1), layer(width, 2 * width, 3, 2)
        self.half2 = layer(2 * width, 4 * width, 3, 2)
        self.blocks = nn.ModuleList(
            nn.ModuleList([layer(4 * width, 4 * width, 3, 1), layer(4 * width, 4 * width, 3, 1)]) for _ in range(blocks)
        )
        self.up1, self.up2 = layer(4 * width, 2 * width, 3, 1), layer(2 * width, width, 3, 1)
        self.last = nn.Sequential(nn.ReflectionPad2d(4), nn.Conv2d(width, 3, 9), nn.Sigmoid())

    def forward(self, x, style):
        h = F.relu(self.first(x, style))
        h = F.relu(self.half2(F.relu(self.half1(h, style)), style))
        for early, late in self.blocks:
            h = h + late(F.relu(early(h, style)), style)
        for up in (self.up1, self.up2):
            h = F.relu(up(F.interpolate(h, scale_factor=2.0), style))
        return self.last(h)


class FactorMachine(nn.Module):
    """Products of all pairs of embeddings by sums and squares, beside deep layers (DeepFM)."""

    def __init__(self, fields=26, rows=5_000, dim=16):
        super().__init__()
        self.register_buffer("first", torch.arange(fields) * rows)
        self.single, self.table = nn.Embedding(fields * rows, 1), nn.Embedding(fields * rows, dim)
        layers, inputs = [], fields * dim
        for outputs in (256, 128, 64):
            layers += [nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU()]
            inputs = outputs
        self.deep = nn.Sequential(*layers, nn.Linear(inputs, 1))

    def forward(self, ids):
        ids = ids + self.first
        rows = self.table(ids)
        pairs = 0.5 * (rows.sum(1).square() - rows.square().sum(1)).sum(1, keepdim=True)
        return torch.sigmoid(self.single(ids).sum(1) + pairs + self.deep(rows.flatten(1)))


class Interest(nn.Module):
    """A history weighed by what it has to do with a candidate, its end masked (DIN)."""

    def __init__(self, items=20_000, dim=32):
        super().__init__()
        self.items = nn.Embedding(items, dim)
        self.weigh = nn.Sequential(nn.Linear(4 * dim, 64), nn.PReLU(), nn.Linear(64, 16), nn.PReLU(), nn.Linear(16, 1))
        self.deep = nn.Sequential(nn.Linear(3 * dim, 128), nn.PReLU(), nn.Linear(128, 64), nn.PReLU(), nn.Linear(64, 1))

    def forward(self, history, lengths, candidate):
        h, c = self.items(history), self.items(candidate)
        wide = c[:, None].expand_as(h)
        score = self.weigh(torch.cat([wide, h, wide - h, wide * h], -1)).squeeze(-1)
        score = score.masked_fill(torch.arange(h.shape[1]) >= lengths[:, None], -1e9)
        interest = (score.softmax(1)[:, None] @ h)[:, 0]
        return torch.sigmoid(self.deep(torch.cat([interest, c, interest * c], 1)))


class GatedResidual(nn.Module):
    def __init__(self, inputs, dim, outputs=None):
        super().__init__()
        outputs = outputs or dim
        self.up, self.middle, self.gate = nn.Linear(inputs, dim), nn.Linear(dim, dim), nn.Linear(dim, 2 * outputs)
        self.skip = nn.Linear(inputs, outputs) if inputs != outputs else nn.Identity()
        self.norm = nn.LayerNorm(outputs)

    def forward(self, x):
        return self.norm(self.skip(x) + F.glu(self.gate(self.middle(F.elu(self.up(x)))), -1))


class TemporalFusion(nn.Module):
    """Features chosen at each step, a recurrent layer, and attention that heads share their values in (TFT)."""

    def __init__(self, features=8, dim=32, heads=4, ahead=24):
        super().__init__()
        self.heads, self.ahead = heads, ahead
        self.scale, self.shift = nn.Parameter(torch.randn(features, dim)), nn.Parameter(torch.randn(features, dim))
        self.choose = GatedResidual(features * dim, dim, features)
        self.each = nn.ModuleList(GatedResidual(dim, dim) for _ in range(features))
        self.rnn, self.gate, self.norm = nn.LSTM(dim, dim, batch_first=True), nn.Linear(dim, 2 * dim), nn.LayerNorm(dim)
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim // heads)
        self.out, self.last = nn.Linear(dim // heads, dim), GatedResidual(dim, dim)
        self.quantiles = nn.Linear(dim, 3)

    def forward(self, x):
        rows = x[..., None] * self.scale + self.shift
        weight = self.choose(rows.flatten(2)).softmax(-1)
        chosen = torch.stack([one(rows[:, :, k]) for k, one in enumerate(self.each)], 2)
        h = (chosen * weight[..., None]).sum(2)
        h = self.norm(h + F.glu(self.gate(self.rnn(h)[0]), -1))
        n, length, dim = h.shape
        heads = lambda t: t.view(n, length, self.heads, -1).transpose(1, 2)
        q, k, v = heads(self.q(h)), heads(self.k(h)), self.v(h)[:, None]
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        score = (q @ k.transpose(-1, -2) / math.sqrt(dim // self.heads)).masked_fill(later, -1e9).softmax(-1)
        h = self.last(h + self.out((score @ v).mean(1)))
        return self.quantiles(h[:, -self.ahead :])


class Tracker(nn.Module):
    """One network over a template and a search region, and the features of one slid over the other's (SiamRPN)."""

    def __init__(self, width=32):
        super().__init__()
        layer = lambda a, b, k, s: nn.Sequential(nn.Conv2d(a, b, k, s, bias=False), nn.BatchNorm2d(b), nn.ReLU())
        self.body = nn.Sequential(
            layer(3, width, 7, 2),
            nn.MaxPool2d(3, 2),
            layer(width, 2 * width, 5, 1),
            layer(2 * width, 4 * width, 3, 1),
            nn.Conv2d(4 * width, 4 * width, 3),
        )
        self.head = nn.Sequential(layer(4 * width, 64, 1, 1), nn.Conv2d(64, 6 * 5, 1))

    def forward(self, template, search):
        z, x = self.body(template), self.body(search)
        n, c, height, width = x.shape
        h = F.conv2d(x.reshape(1, n * c, height, width), z.reshape(n * c, 1, *z.shape[2:]), groups=n * c)
        return self.head(h.view(n, c, *h.shape[2:]))


class Drawn(nn.Module):
    """A picture from a latent vector and a class, by transposed convolutions (a conditional VAE's decoder)."""

    def __init__(self, latent=64, classes=10, width=128):
        super().__init__()
        self.classes, self.first = nn.Embedding(classes, 32), nn.Linear(latent + 32, width * 16)
        turn = lambda a, b: nn.Sequential(nn.ConvTranspose2d(a, b, 3, 2, 1, 1), nn.BatchNorm2d(b), nn.LeakyReLU(0.1))
        self.turns = nn.Sequential(turn(width, 64), turn(64, 32), turn(32, 32), turn(32, 16))
        self.last = nn.Conv2d(16, 3, 3, padding=1)

    def forward(self, z, kind):
        h = self.first(torch.cat([z, self.classes(kind)], 1)).view(z.shape[0], -1, 4, 4)
        return torch.tanh(self.last(self.turns(h)))


class Flow(nn.Module):
    """Correlations of two pictures' features, from coarse to fine, one warped by the flow so far (PWC-Net)."""

    def __init__(self, widths=(16, 32, 48), reach=3):
        super().__init__()
        self.reach, inputs, levels = reach, 3, []
        for outputs in widths:
            levels.append(
                nn.Sequential(
                    nn.Conv2d(inputs, outputs, 3, 2, 1),
                    nn.LeakyReLU(0.1),
                    nn.Conv2d(outputs, outputs, 3, 1, 1),
                    nn.LeakyReLU(0.1),
                )
            )
            inputs = outputs
        self.levels, cost = nn.ModuleList(levels), (2 * reach + 1) ** 2
        self.heads = nn.ModuleList(
            nn.Sequential(nn.Conv2d(cost + w + 2, 48, 3, 1, 1), nn.LeakyReLU(0.1), nn.Conv2d(48, 2, 3, 1, 1))
            for w in widths
        )

    @staticmethod
    def warped(x, flow):
        n, _, height, width = x.shape
        y, z = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        grid = torch.stack([z, y], 0).to(x.dtype) + flow
        size = torch.tensor([width - 1.0, height - 1.0]).view(1, 2, 1, 1)
        return F.grid_sample(x, (2 * grid / size - 1).permute(0, 2, 3, 1), align_corners=True)

    def correlation(self, a, b):
        height, width = a.shape[2:]
        b, side = F.pad(b, [self.reach] * 4), range(2 * self.reach + 1)
        return torch.stack([(a * b[:, :, i : i + height, j : j + width]).mean(1) for i in side for j in side], 1)

    def forward(self, first, second):
        pairs = []
        for level in self.levels:
            first, second = level(first), level(second)
            pairs.append((first, second))
        flow = first.new_zeros(first.shape[0], 2, *first.shape[2:])
        for k in reversed(range(len(pairs))):
            a, b = pairs[k]
            if k + 1 < len(pairs):
                flow = 2 * F.interpolate(flow, size=a.shape[2:], mode="bilinear", align_corners=False)
            cost = F.leaky_relu(self.correlation(a, self.warped(b, flow)), 0.1)
            flow = flow + self.heads[k](torch.cat([cost, a, flow], 1))
        return flow


PROGRAMS = {
    "linear_memory": Entry(LinearMemory, words(32, 4096), large=8),
    "retention": Entry(Retention, lambda n: (torch.randn(n, 96, 256),), large=8),
    "weather": Entry(Weather, lambda n: (torch.randn(n, 6, 32, 32),), large=4),
    "separator": Entry(Separator, lambda n: (torch.randn(n, 1, 8_000),), large=4),
    "volume_unet": Entry(VolumeUNet, lambda n: (torch.randn(n, 2, 32, 32, 32),), large=4),
    "turned_points": Entry(TurnedPoints, lambda n: (torch.randn(n, 3, 512),), large=8),
    "sparse_table": Entry(SparseTable, lambda n: (torch.randn(n, 54),), large=256),
    "separable_speech": Entry(SeparableSpeech, lambda n: (torch.randn(n, 64, 300),), large=8),
    "reader": Entry(Reader, lambda n: (torch.randint(0, 10_000, (n, 80)), torch.randint(0, 10_000, (n, 12))), large=16),
    "cross_covariance": Entry(CrossCovariance, pictures(128), large=8),
    "detector": Entry(Detector, pictures(256), large=4),
    "molecules": Entry(Molecules, molecules, small=2, large=64),
    "painter": Entry(Painter, lambda n: (torch.rand(n, 3, 128, 128), torch.randint(0, 8, (n,))), large=4),
    "factor_machine": Entry(FactorMachine, words(26, 5_000), large=256),
    "interest": Entry(
        Interest,
        lambda n: (
            torch.randint(0, 20_000, (n, 50)),
            torch.randint(1, 51, (n,)),
            torch.randint(0, 20_000, (n,)),
        ),
        large=128,
    ),
    "temporal_fusion": Entry(TemporalFusion, lambda n: (torch.randn(n, 72, 8),), large=16),
    "tracker": Entry(Tracker, lambda n: (torch.randn(n, 3, 63, 63), torch.randn(n, 3, 127, 127)), large=4),
    "drawn": Entry(Drawn, lambda n: (torch.randn(n, 64), torch.randint(0, 10, (n,))), large=16),
    "flow": Entry(Flow, lambda n: (torch.rand(n, 3, 64, 64), torch.rand(n, 3, 64, 64)), large=4),
}
