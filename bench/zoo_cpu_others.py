"""Networks and programs of `zoo_cpu_models.py`, fourth part: kinds that the first three parts do not have, written
before anything was known of their speed. Some are no networks: statistics, filters, simulations.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from zoo_models import Entry, of_transformers, pictures, words


class OddPictures(nn.Module):
    """Convolutions whose numbers of channels are no multiples of anything."""

    def __init__(self, widths=(3, 13, 27, 51, 77, 101), classes=37):
        super().__init__()
        self.first, self.second, self.skip = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for a, b in zip(widths, widths[1:]):
            self.first.append(nn.Sequential(nn.Conv2d(a, b, 3, 2, 1, bias=False), nn.BatchNorm2d(b)))
            self.second.append(nn.Sequential(nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b)))
            self.skip.append(nn.Conv2d(a, b, 1, 2))
        self.last = nn.Linear(widths[-1], classes)

    def forward(self, x):
        for first, second, skip in zip(self.first, self.second, self.skip):
            x = F.relu(second(F.relu(first(x))) + skip(x))
        return self.last(x.mean((2, 3)))


class Residual(nn.Module):
    """One to some channels, one depthwise, one back, of which the means weight the channels (MobileNet)."""

    def __init__(self, a, b, stride, grown, kernel):
        super().__init__()
        norm = nn.BatchNorm2d
        self.up = nn.Sequential(nn.Conv2d(a, grown, 1, bias=False), norm(grown), nn.ReLU6())
        depthwise = nn.Conv2d(grown, grown, kernel, stride, kernel // 2, groups=grown, bias=False)
        self.each = nn.Sequential(depthwise, norm(grown), nn.ReLU6())
        self.squeeze, self.spread = nn.Linear(grown, grown // 4), nn.Linear(grown // 4, grown)
        self.down = nn.Sequential(nn.Conv2d(grown, b, 1, bias=False), norm(b))
        self.keeps = a == b and stride == 1

    def forward(self, x):
        h = self.each(self.up(x))
        weight = F.hardsigmoid(self.spread(F.relu(self.squeeze(h.mean((2, 3))))))
        h = self.down(h * weight[:, :, None, None])
        return x + h if self.keeps else h


def residuals():
    plan = [(20, 28, 2, 60, 3), (28, 28, 1, 84, 5), (28, 44, 2, 132, 5), (44, 44, 1, 132, 3), (44, 76, 2, 228, 3)]
    first = nn.Sequential(nn.Conv2d(3, 20, 3, 2, 1), nn.ReLU6())
    return nn.Sequential(first, *(Residual(*p) for p in plan), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(76, 50))


class Wide(nn.Module):
    """Depthwise convolutions of seven by seven and layers over the channels (ConvNeXt)."""

    class Block(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.each, self.norm = nn.Conv2d(dim, dim, 7, 1, 3, groups=dim), nn.LayerNorm(dim)
            self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
            self.scale = nn.Parameter(torch.full((dim,), 0.1))

        def forward(self, x):
            h = self.norm(self.each(x).permute(0, 2, 3, 1))
            return x + (self.scale * self.down(F.gelu(self.up(h)))).permute(0, 3, 1, 2)

    def __init__(self, widths=(40, 80, 160), depth=2):
        super().__init__()
        layers, inputs = [], 3
        for k, width in enumerate(widths):
            layers += [nn.Conv2d(inputs, width, 4 if k == 0 else 2, 4 if k == 0 else 2)]
            layers += [self.Block(width) for _ in range(depth)]
            inputs = width
        self.body, self.last = nn.Sequential(*layers), nn.Linear(widths[-1], 20)

    def forward(self, x):
        return self.last(self.body(x).mean((2, 3)))


class Wave(nn.Module):
    """Causal convolutions with growing distances, gates and a sum of what each layer says (WaveNet)."""

    def __init__(self, width=48, layers=8):
        super().__init__()
        self.first = nn.Conv1d(1, width, 1)
        self.both = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=2**k) for k in range(layers))
        self.skip = nn.ModuleList(nn.Conv1d(width, 64, 1) for _ in range(layers))
        self.back = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(layers))
        self.last = nn.Sequential(nn.ReLU(), nn.Conv1d(64, 64, 1), nn.ReLU(), nn.Conv1d(64, 128, 1))

    def forward(self, x):
        x, total = self.first(x), 0
        for k in range(len(self.both)):
            a, b = self.both[k](F.pad(x, (2**k, 0))).chunk(2, 1)
            h = torch.tanh(a) * torch.sigmoid(b)
            total, x = total + self.skip[k](h), x + self.back[k](h)
        return self.last(total)


class Stems(nn.Module):
    """Strided convolutions with gated units, a recurrent layer between, and transposed ones (Demucs)."""

    def __init__(self, width=24, levels=3):
        super().__init__()
        self.down, self.up, a = nn.ModuleList(), nn.ModuleList(), 1
        for k in range(levels):
            b = width * 2**k
            self.down.append(nn.Sequential(nn.Conv1d(a, b, 8, 4, 2), nn.ReLU(), nn.Conv1d(b, 2 * b, 1), nn.GLU(1)))
            self.up.insert(0, nn.Sequential(nn.Conv1d(b, 2 * b, 1), nn.GLU(1), nn.ConvTranspose1d(b, a, 8, 4, 2)))
            a = b
        self.recurrent, self.narrow = nn.LSTM(a, a, 1, bidirectional=True, batch_first=True), nn.Linear(2 * a, a)

    def forward(self, x):
        kept = []
        for layer in self.down:
            x = layer(x)
            kept.append(x)
        x = self.narrow(self.recurrent(x.transpose(1, 2))[0]).transpose(1, 2)
        for k, layer in enumerate(self.up):
            x = layer(x + kept.pop())
            if k + 1 < len(self.up):
                x = F.relu(x)
        return x


class Spelling(nn.Module):
    """Words from their letters by convolutions and a maximum, and a recurrent layer over them."""

    def __init__(self, letters=96, width=100, tags=19):
        super().__init__()
        self.letters, self.spelled = nn.Embedding(letters, 24), nn.Conv1d(24, 50, 3, padding=1)
        self.words = nn.Embedding(8000, width)
        self.recurrent = nn.GRU(width + 50, 90, 1, bidirectional=True, batch_first=True)
        self.last = nn.Linear(180, tags)

    def forward(self, ids, letters):
        n, length, count = letters.shape
        h = self.letters(letters).view(n * length, count, -1).transpose(1, 2)
        h = F.relu(self.spelled(h)).amax(2).view(n, length, -1)
        return F.log_softmax(self.last(self.recurrent(torch.cat([self.words(ids), h], 2))[0]), -1)


class Splines(nn.Module):
    """Layers whose edges are splines (KAN)."""

    class Layer(nn.Module):
        def __init__(self, a, b, parts=5, order=3):
            super().__init__()
            self.order, count = order, parts + order
            self.register_buffer("knots", (torch.arange(-order, parts + order + 1) * (2.0 / parts) - 1).repeat(a, 1))
            self.spline, self.base = nn.Parameter(torch.randn(b, a * count) * 0.1), nn.Linear(a, b)

        def forward(self, x):
            t, k = x[..., None], self.knots
            basis = ((t >= k[:, :-1]) & (t < k[:, 1:])).to(x.dtype)
            for p in range(1, self.order + 1):
                left = (t - k[:, : -(p + 1)]) / (k[:, p:-1] - k[:, : -(p + 1)]) * basis[..., :-1]
                right = (k[:, p + 1 :] - t) / (k[:, p + 1 :] - k[:, 1:-p]) * basis[..., 1:]
                basis = left + right
            return self.base(F.silu(x)) + F.linear(basis.flatten(1), self.spline)

    def __init__(self, widths=(64, 48, 48, 10)):
        super().__init__()
        self.layers = nn.Sequential(*(self.Layer(a, b) for a, b in zip(widths, widths[1:])))

    def forward(self, x):
        return self.layers(x)


class Capsules(nn.Module):
    """Vectors that vote for vectors, three times (dynamic routing)."""

    def __init__(self, kinds=10, inner=8, outer=16):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 64, 9), nn.Conv2d(64, 8 * inner, 9, 2)
        self.inner, self.votes = inner, nn.Parameter(torch.randn(8 * 36, kinds, inner, outer) * 0.1)

    @staticmethod
    def squashed(x):
        square = (x * x).sum(-1, keepdim=True)
        return square / (1 + square) * x / torch.sqrt(square + 1e-8)

    def forward(self, x):
        h = self.second(F.relu(self.first(x))).view(x.shape[0], 8, self.inner, 36).permute(0, 1, 3, 2)
        h = self.squashed(h.reshape(x.shape[0], -1, self.inner))
        said = torch.einsum("nid,ikde->nike", h, self.votes)
        logits = torch.zeros(said.shape[:3], dtype=x.dtype)
        for _ in range(3):
            v = self.squashed((torch.softmax(logits, 2)[..., None] * said).sum(1))
            logits = logits + (said * v[:, None]).sum(-1)
        return v.norm(dim=-1)


class Neighbours(nn.Module):
    """Points' nearest ones gathered, layers over them and a maximum, twice (PointNet++)."""

    def __init__(self, count=16):
        super().__init__()
        self.count = count
        layer = lambda a, b: nn.Sequential(nn.Linear(a, b), nn.LayerNorm(b), nn.ReLU())
        self.first = nn.Sequential(layer(6, 32), layer(32, 48))
        self.second = nn.Sequential(layer(51, 64), layer(64, 96))
        self.last = nn.Linear(96, 13)

    def around(self, x, centres, values):
        distance = (centres[:, :, None] - x[:, None]).square().sum(-1)
        near = distance.topk(self.count, -1, largest=False).indices
        n, m, k = near.shape
        take = lambda v: torch.gather(v, 1, near.view(n, m * k, 1).expand(-1, -1, v.shape[2])).view(n, m, k, -1)
        return torch.cat([take(x) - centres[:, :, None], take(values)], -1)

    def forward(self, x):
        some = x[:, ::4]
        h = self.first(self.around(x, some, x)).amax(2)
        few = some[:, ::4]
        h = self.second(self.around(some, few, h)).amax(2)
        return self.last(h.amax(1))


class Messages(nn.Module):
    """Messages along edges from a layer of both ends, summed and taken in by a recurrent cell (MPNN)."""

    def __init__(self, dim=48, rounds=3):
        super().__init__()
        self.rounds, self.first = rounds, nn.Linear(16, dim)
        self.message = nn.Sequential(nn.Linear(2 * dim + 4, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.cell, self.last = nn.GRUCell(dim, dim), nn.Linear(dim, 1)

    def forward(self, x, edges, kinds):
        h = self.first(x)
        for _ in range(self.rounds):
            said = self.message(torch.cat([h[edges[0]], h[edges[1]], kinds], 1))
            h = self.cell(torch.zeros_like(h).index_add(0, edges[1], said), h)
        return self.last(torch.relu(h)).mean(0)


def graphs(n):
    nodes = 100 * n
    return torch.randn(nodes, 16), torch.randint(0, nodes, (2, 6 * nodes)), torch.randn(6 * nodes, 4)


class ManyTables(nn.Module):
    """Forty tables of embeddings, layers that cross them with the input, and layers (DCN)."""

    def __init__(self, tables=40, rows=2000, dim=8, dense=10):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, dim) for _ in range(tables))
        width = tables * dim + dense
        self.cross = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.deep = nn.Sequential(nn.Linear(width, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU())
        self.last = nn.Linear(width + 64, 1)

    def forward(self, ids, dense):
        first = torch.cat([t(ids[:, k]) for k, t in enumerate(self.tables)] + [dense], 1)
        x = first
        for layer in self.cross:
            x = first * layer(x) + x
        return torch.sigmoid(self.last(torch.cat([x, self.deep(first)], 1)))


class SoftTrees(nn.Module):
    """Trees whose questions are sigmoids, and whose leaves are weighted by the products of the answers (NODE)."""

    def __init__(self, features=32, trees=64, depth=4, outputs=3):
        super().__init__()
        self.depth = depth
        self.choice = nn.Parameter(torch.randn(features, trees * depth))
        self.bound = nn.Parameter(torch.randn(trees, depth))
        self.leaf = nn.Parameter(torch.randn(trees, 2**depth, outputs))

    def forward(self, x):
        asked = (x @ torch.softmax(self.choice, 0)).view(x.shape[0], -1, self.depth)
        yes = torch.sigmoid(4 * (asked - self.bound))
        weight = torch.ones_like(yes[..., :1])
        for k in range(self.depth):
            y = yes[..., k : k + 1]
            weight = torch.cat([weight * y, weight * (1 - y)], -1)
        return torch.einsum("ntl,tlo->no", weight, self.leaf)


class TextWindows(nn.Module):
    """Convolutions of several lengths over embeddings, and the maximum of each (text CNN)."""

    def __init__(self, vocabulary=10_000, dim=100, width=72):
        super().__init__()
        self.words = nn.Embedding(vocabulary, dim)
        self.windows = nn.ModuleList(nn.Conv1d(dim, width, k) for k in (2, 3, 4, 5))
        self.last = nn.Linear(4 * width, 6)

    def forward(self, ids):
        x = self.words(ids).transpose(1, 2)
        return self.last(torch.cat([F.relu(w(x)).amax(2) for w in self.windows], 1))


class Denoiser(nn.Module):
    """A small U-Net that a time scales and shifts, with attention whose cost is linear (diffusion)."""

    class Block(nn.Module):
        def __init__(self, a, b, time):
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(a, b, 3, 1, 1), nn.Conv2d(b, b, 3, 1, 1)
            self.norm1, self.norm2 = nn.GroupNorm(4, b), nn.GroupNorm(4, b)
            self.time, self.skip = nn.Linear(time, 2 * b), nn.Conv2d(a, b, 1) if a != b else nn.Identity()

        def forward(self, x, t):
            scale, shift = self.time(t)[:, :, None, None].chunk(2, 1)
            h = F.silu(self.norm1(self.conv1(x)) * (1 + scale) + shift)
            return F.silu(self.norm2(self.conv2(h))) + self.skip(x)

    class Linear(nn.Module):
        def __init__(self, dim, heads=4, each=16):
            super().__init__()
            self.heads, self.norm = heads, nn.GroupNorm(1, dim)
            self.all, self.out = nn.Conv2d(dim, 3 * heads * each, 1, bias=False), nn.Conv2d(heads * each, dim, 1)

        def forward(self, x):
            n, _, height, width = x.shape
            q, k, v = self.all(self.norm(x)).view(n, 3, self.heads, -1, height * width).unbind(1)
            context = torch.softmax(k, -1) @ v.transpose(-1, -2)
            h = context.transpose(-1, -2) @ torch.softmax(q, -2)
            return x + self.out(h.reshape(n, -1, height, width))

    def __init__(self, width=28, time=64):
        super().__init__()
        self.width, self.first = width, nn.Conv2d(3, width, 5, 1, 2)
        self.time = nn.Sequential(nn.Linear(width, time), nn.GELU(), nn.Linear(time, time))
        self.down1, self.down2 = self.Block(width, width, time), self.Block(width, 2 * width, time)
        self.middle, self.attend = self.Block(2 * width, 2 * width, time), self.Linear(2 * width)
        self.up2, self.up1 = self.Block(4 * width, width, time), self.Block(2 * width, width, time)
        self.last = nn.Conv2d(width, 3, 1)

    def forward(self, x, t):
        waves = t[:, None] * torch.exp(torch.arange(self.width // 2) * (-math.log(1e4) / (self.width // 2)))
        t = self.time(torch.cat([waves.sin(), waves.cos()], 1))
        one = self.down1(self.first(x), t)
        two = self.down2(F.avg_pool2d(one, 2), t)
        h = self.attend(self.middle(F.avg_pool2d(two, 2), t))
        h = self.up2(torch.cat([F.interpolate(h, scale_factor=2.0), two], 1), t)
        return self.last(self.up1(torch.cat([F.interpolate(h, scale_factor=2.0), one], 1), t))


class Twins(nn.Module):
    """One network of two pictures, and the cosine of what it says of them."""

    def __init__(self, width=30):
        super().__init__()
        layer = lambda a, b: nn.Sequential(nn.Conv2d(a, b, 5, 1, 2), nn.BatchNorm2d(b), nn.PReLU(b), nn.MaxPool2d(2))
        self.body = nn.Sequential(layer(1, width), layer(width, 2 * width), layer(2 * width, 2 * width), nn.Flatten())
        self.last = nn.Linear(2 * width * 8 * 8, 64)

    def forward(self, a, b):
        said = lambda x: self.last(self.body(x))
        return F.cosine_similarity(said(a), said(b))


class HalfEncoder(nn.Module):
    """A transformer's layers in 16 bits."""

    def __init__(self, dim=192, heads=6, layers=3):
        super().__init__()
        layer = nn.TransformerEncoderLayer(dim, heads, 2 * dim, 0.0, "gelu", batch_first=True, norm_first=True)
        self.body = nn.ModuleList(
            type(layer)(dim, heads, 2 * dim, 0.0, "gelu", batch_first=True, norm_first=True) for _ in range(layers)
        )
        self.last = nn.Linear(dim, 40)
        self.to(torch.bfloat16)

    def forward(self, x):
        x = x.to(self.last.weight.dtype)
        for layer in self.body:
            x = layer(x)
        return self.last(x.mean(1)).to(torch.float32)


class CachedStep(nn.Module):
    """One more word: keys and values of the earlier ones are inputs, and results with the new ones."""

    def __init__(self, vocabulary=6000, dim=320, heads=5, layers=4):
        super().__init__()
        self.heads, self.words = heads, nn.Embedding(vocabulary, dim)
        self.norms = nn.ModuleList(nn.RMSNorm(dim) for _ in range(2 * layers + 1))
        self.all = nn.ModuleList(nn.Linear(dim, 3 * dim, bias=False) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(dim, dim, bias=False) for _ in range(layers))
        self.up = nn.ModuleList(nn.Linear(dim, 5 * dim, bias=False) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(5 * dim // 2, dim, bias=False) for _ in range(layers))
        self.last = nn.Linear(dim, vocabulary, bias=False)

    def forward(self, ids, keys, values):
        x, new_keys, new_values = self.words(ids), [], []
        for k in range(len(self.all)):
            q, key, value = self.all[k](self.norms[2 * k](x)).view(x.shape[0], 1, 3, self.heads, -1).unbind(2)
            key = torch.cat([keys[:, k], key.transpose(1, 2)], 2)
            value = torch.cat([values[:, k], value.transpose(1, 2)], 2)
            h = F.scaled_dot_product_attention(q.transpose(1, 2), key, value)
            x = x + self.out[k](h.transpose(1, 2).reshape(x.shape))
            a, b = self.up[k](self.norms[2 * k + 1](x)).chunk(2, -1)
            x = x + self.down[k](F.silu(a) * b)
            new_keys.append(key)
            new_values.append(value)
        return self.last(self.norms[-1](x)), torch.stack(new_keys, 1), torch.stack(new_values, 1)


def cached(n):
    return torch.randint(0, 6000, (n, 1)), torch.randn(n, 4, 5, 120, 64), torch.randn(n, 4, 5, 120, 64)


class Factors(nn.Module):
    """A matrix as a product of two others without negative numbers, by updates that multiply."""

    def __init__(self, rank=12, rounds=10):
        super().__init__()
        self.rounds, self.right = rounds, nn.Parameter(torch.rand(rank, 160) + 0.1)

    def forward(self, x):
        right = self.right.expand(x.shape[0], -1, -1)
        left = x @ right.transpose(1, 2) / x.shape[2]
        for _ in range(self.rounds):
            left = left * (x @ right.transpose(1, 2)) / (left @ (right @ right.transpose(1, 2)) + 1e-6)
            right = right * (left.transpose(1, 2) @ x) / ((left.transpose(1, 2) @ left) @ right + 1e-6)
        return left, right


class Statistics(nn.Module):
    """What one asks of columns of numbers: order statistics, moments, running sums, correlations."""

    def forward(self, x):
        ordered = x.sort(-1).values
        quarters = ordered[..., [x.shape[-1] // 4, x.shape[-1] // 2, 3 * x.shape[-1] // 4]]
        z = (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6)
        skew, tails = z.pow(3).mean(-1), z.pow(4).mean(-1)
        running = x.cumsum(-1)
        drop = (running.cummax(-1).values - running).amax(-1)
        smooth = F.avg_pool1d(F.pad(x, (7, 0)), 8, 1)
        related = z @ z.transpose(1, 2) / x.shape[-1]
        highest = x.topk(5, -1).values
        shares = torch.softmax(z, -1)
        entropy = -(shares * shares.log()).sum(-1)
        lagged = (z[..., 1:] * z[..., :-1]).mean(-1)
        scores = torch.stack(
            [skew, tails, drop, entropy, lagged, smooth.std(-1), (x > smooth).to(x.dtype).mean(-1)], -1
        )
        return torch.cat([quarters, highest, scores], -1), related


class Filters(nn.Module):
    """Blur, edges, sharpening, a median and colours of pictures."""

    def __init__(self):
        super().__init__()
        line = torch.exp(-(torch.arange(-4, 5.0) ** 2) / 6)
        self.register_buffer("line", (line / line.sum()).view(1, 1, 1, 9).repeat(3, 1, 1, 1))
        across = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]])
        self.register_buffer("edges", torch.stack([across, across.T])[:, None])

    def forward(self, x):
        n, _, height, width = x.shape
        blurred = F.conv2d(F.pad(x, (4, 4, 0, 0), mode="reflect"), self.line, groups=3)
        blurred = F.conv2d(F.pad(blurred, (0, 0, 4, 4), mode="reflect"), self.line.transpose(2, 3), groups=3)
        sharp = (x + 1.5 * (x - blurred)).clamp(0, 1)
        grey = 0.299 * x[:, :1] + 0.587 * x[:, 1:2] + 0.114 * x[:, 2:]
        found = F.conv2d(F.pad(grey, (1, 1, 1, 1), mode="replicate"), self.edges)
        strength = found.square().sum(1, keepdim=True).sqrt()
        around = F.unfold(F.pad(grey, (1, 1, 1, 1), mode="replicate"), 3).view(n, 9, height, width)
        middle = around.sort(1).values[:, 4:5]
        value, least = x.amax(1, keepdim=True), x.amin(1, keepdim=True)
        saturation = torch.where(value > 0, (value - least) / value.clamp(min=1e-6), 0.0)
        return torch.cat([sharp.pow(1 / 2.2), strength, middle, saturation], 1)


class Loudness(nn.Module):
    """Spectra of windows of a signal, in bands of mel, their logarithms and cosines (MFCC)."""

    def __init__(self, length=512, step=160, bands=40):
        super().__init__()
        self.length, self.step = length, step
        self.register_buffer("window", torch.hann_window(length))
        self.register_buffer("mel", torch.rand(length // 2 + 1, bands))
        k = torch.arange(bands, dtype=torch.float32)
        self.register_buffer("cosines", torch.cos(math.pi / bands * (k[:, None] + 0.5) * k[None, :20]))

    def forward(self, x):
        spectrum = torch.fft.rfft(x.unfold(-1, self.length, self.step) * self.window)
        power = spectrum.real.square() + spectrum.imag.square()
        h = torch.log(power @ self.mel + 1e-6) @ self.cosines
        return (h - h.mean(1, keepdim=True)) / (h.std(1, keepdim=True) + 1e-5)


class Experts(nn.Module):
    """Layers of which two of eight serve a row, all computed and weighted."""

    def __init__(self, dim=96, experts=8, layers=2):
        super().__init__()
        self.gates = nn.ModuleList(nn.Linear(dim, experts) for _ in range(layers))
        new = lambda *sizes: nn.Parameter(torch.randn(*sizes) / math.sqrt(sizes[1]))
        self.up = nn.ParameterList(new(experts, dim, 2 * dim) for _ in range(layers))
        self.down = nn.ParameterList(new(experts, 2 * dim, dim) for _ in range(layers))

    def forward(self, x):
        for gate, up, down in zip(self.gates, self.up, self.down):
            weight, chosen = gate(x).topk(2, -1)
            full = torch.zeros(x.shape[0], up.shape[0], dtype=x.dtype).scatter(1, chosen, torch.softmax(weight, -1))
            h = F.relu(torch.einsum("nd,edh->enh", x, up))
            x = x + torch.einsum("enh,ehd,ne->nd", h, down, full)
        return x


class Induced(nn.Module):
    """Attention of a set through few learned points, and of learned questions to it (set transformer)."""

    class Attend(nn.Module):
        def __init__(self, dim, heads=4):
            super().__init__()
            self.heads, self.q, self.kv, self.out = (
                heads,
                nn.Linear(dim, dim),
                nn.Linear(dim, 2 * dim),
                nn.Linear(dim, dim),
            )
            self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

        def forward(self, x, y):
            split = lambda v: v.view(v.shape[0], v.shape[1], self.heads, -1).transpose(1, 2)
            q = self.q(x)
            k, v = self.kv(y).chunk(2, -1)
            h = F.scaled_dot_product_attention(split(q), split(k), split(v)).transpose(1, 2).reshape(q.shape)
            h = self.norm1(q + h)
            return self.norm2(h + F.relu(self.out(h)))

    def __init__(self, dim=96, points=12):
        super().__init__()
        self.first, self.points = nn.Linear(5, dim), nn.Parameter(torch.randn(2, 1, points, dim))
        self.asked, self.last = nn.Parameter(torch.randn(1, 2, dim)), nn.Linear(2 * dim, 7)
        self.attend = nn.ModuleList(self.Attend(dim) for _ in range(5))

    def forward(self, x):
        h = self.first(x)
        for k in range(2):
            h = self.attend[2 * k](h, self.attend[2 * k + 1](self.points[k].expand(x.shape[0], -1, -1), h))
        return self.last(self.attend[4](self.asked.expand(x.shape[0], -1, -1), h).flatten(1))


class Bodies(nn.Module):
    """Bodies that draw each other, four steps of them."""

    def forward(self, place, speed, mass):
        for _ in range(4):
            apart = place[:, None] - place[:, :, None]
            near = (apart.square().sum(-1) + 0.01).rsqrt()
            pull = (apart * (mass[:, None] * near**3)[..., None]).sum(2)
            speed = speed + 0.01 * pull
            place = place + 0.01 * speed
        return place, speed


class Flowing(nn.Module):
    """A small network's differential equation, by steps of fourth order."""

    def __init__(self, dim=20, hidden=90, steps=6):
        super().__init__()
        self.steps, self.body = steps, nn.Sequential(nn.Linear(dim, hidden), nn.Tanh(), nn.Linear(hidden, dim))

    def forward(self, x):
        step = 1 / self.steps
        for _ in range(self.steps):
            a = self.body(x)
            b = self.body(x + step / 2 * a)
            c = self.body(x + step / 2 * b)
            x = x + step / 6 * (a + 2 * b + 2 * c + self.body(x + step * c))
        return x


def small_text(model, config, vocabulary, length=64, large=4, **settings):
    sizes = {"hidden_size": 192, "num_attention_heads": 6, "num_hidden_layers": 3, "intermediate_size": 576}
    return of_transformers(model, config, words(length, vocabulary), large=large, **{**sizes, **settings})


OTHERS = {
    "odd_pictures": Entry(OddPictures, pictures(96), large=8),
    "residuals": Entry(residuals, pictures(112), large=8),
    "wide": Entry(Wide, pictures(96), large=4),
    "wave": Entry(Wave, lambda n: (torch.randn(n, 1, 1000),), large=4),
    "stems": Entry(Stems, lambda n: (torch.randn(n, 1, 4096),), large=4),
    "spelling": Entry(
        Spelling, lambda n: (torch.randint(0, 8000, (n, 30)), torch.randint(0, 96, (n, 30, 12))), large=16
    ),
    "splines": Entry(Splines, lambda n: (torch.rand(n, 64) * 1.8 - 0.9,), large=256),
    "capsules": Entry(Capsules, pictures(28, 1), large=8),
    "neighbours": Entry(Neighbours, lambda n: (torch.randn(n, 512, 3),), large=8),
    "messages": Entry(Messages, graphs, large=8),
    "many_tables": Entry(ManyTables, lambda n: (torch.randint(0, 2000, (n, 40)), torch.randn(n, 10)), large=256),
    "soft_trees": Entry(SoftTrees, lambda n: (torch.randn(n, 32),), large=512),
    "text_windows": Entry(TextWindows, words(60, 10_000), large=32),
    "denoiser": Entry(Denoiser, lambda n: (torch.randn(n, 3, 32, 32), torch.rand(n) * 100), large=4),
    "twins": Entry(Twins, lambda n: (torch.rand(n, 1, 64, 64), torch.rand(n, 1, 64, 64)), large=8),
    "half_encoder": Entry(HalfEncoder, lambda n: (torch.randn(n, 50, 192),), large=4),
    "cached_step": Entry(CachedStep, cached, large=8),
    "factors": Entry(Factors, lambda n: (torch.rand(n, 120, 160),), large=4),
    "statistics": Entry(Statistics, lambda n: (torch.randn(n, 12, 1000),), large=16),
    "filters": Entry(Filters, lambda n: (torch.rand(n, 3, 120, 160),), large=4),
    "loudness": Entry(Loudness, lambda n: (torch.randn(n, 16_000),), large=8),
    "experts": Entry(Experts, lambda n: (torch.randn(n, 96),), small=16, large=256),
    "induced": Entry(Induced, lambda n: (torch.randn(n, 150, 5),), large=8),
    "bodies": Entry(Bodies, lambda n: (torch.randn(n, 100, 3), torch.randn(n, 100, 3), torch.rand(n, 100)), large=16),
    "flowing": Entry(Flowing, lambda n: (torch.randn(n, 20),), large=256),
    # Of transformers
    "esm": small_text("EsmModel", "EsmConfig", 33, vocab_size=33, pad_token_id=1, position_embedding_type="rotary"),
    "convbert": small_text("ConvBertModel", "ConvBertConfig", 30522, embedding_size=192),
    "gpt_neo": of_transformers(
        "GPTNeoForCausalLM",
        "GPTNeoConfig",
        words(64, 6000),
        large=4,
        vocab_size=6000,
        hidden_size=192,
        num_layers=4,
        num_heads=6,
        attention_types=[[["global", "local"], 2]],
        window_size=16,
        use_cache=False,
    ),
    "qwen3": small_text(
        "Qwen3ForCausalLM", "Qwen3Config", 6000, vocab_size=6000, num_key_value_heads=2, head_dim=32, use_cache=False
    ),
    "ts_mixer": of_transformers(
        "PatchTSMixerModel",
        "PatchTSMixerConfig",
        lambda n: (torch.randn(n, 256, 5),),
        large=16,
        context_length=256,
        num_input_channels=5,
        patch_length=16,
        patch_stride=16,
        d_model=48,
    ),
    "swift_former": of_transformers("SwiftFormerModel", "SwiftFormerConfig", pictures(128), large=4),
    "text_net": of_transformers("TextNetModel", "TextNetConfig", pictures(128), large=4),
}
