"""Networks of `zoo_cpu_models.py` that are written here, second part: kinds of models that people use and that neither
`transformers` nor the first part has, small enough for two cores.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from zoo_models import Entry, pictures, words


def activated(inputs, outputs, kernel=3, stride=1, groups=1, dilation=1, act=nn.ReLU):
    padding = dilation * (kernel // 2)
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, padding, dilation, groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), act())


class TextLines(nn.Module):
    """Convolutions over the picture of a line, and two recurrent layers along it (CRNN)."""

    def __init__(self, classes=97):
        super().__init__()
        layers, inputs = [], 1
        for outputs, pool in ((32, 2), (64, 2), (128, (2, 1)), (128, (2, 1))):
            layers += [activated(inputs, outputs), nn.MaxPool2d(pool)]
            inputs = outputs
        self.body = nn.Sequential(*layers)
        self.rnn = nn.LSTM(2 * inputs, 128, 2, bidirectional=True, batch_first=True)
        self.last = nn.Linear(256, classes)

    def forward(self, x):
        x = self.body(x).flatten(1, 2).transpose(1, 2)
        return self.last(self.rnn(x)[0]).log_softmax(-1)


class CausalBlock(nn.Module):
    def __init__(self, inputs, outputs, dilation):
        super().__init__()
        self.reach = 2 * dilation
        self.conv1 = nn.utils.parametrizations.weight_norm(nn.Conv1d(inputs, outputs, 3, dilation=dilation))
        self.conv2 = nn.utils.parametrizations.weight_norm(nn.Conv1d(outputs, outputs, 3, dilation=dilation))
        self.skip = nn.Conv1d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x):
        h = F.relu(self.conv1(F.pad(x, (self.reach, 0))))
        h = F.relu(self.conv2(F.pad(h, (self.reach, 0))))
        return F.relu(h + self.skip(x))


class TemporalNetwork(nn.Module):
    """Dilated causal convolutions with weights by norm and direction (TCN)."""

    def __init__(self, features=24, channels=64, layers=6):
        super().__init__()
        widths = [features] + [channels] * layers
        self.body = nn.Sequential(*(CausalBlock(a, b, 2**k) for k, (a, b) in enumerate(zip(widths, widths[1:]))))
        self.last = nn.Linear(channels, 10)

    def forward(self, x):
        return self.last(self.body(x)[:, :, -1])


class ConformerBlock(nn.Module):
    def __init__(self, dim=144, heads=4, kernel=31):
        super().__init__()
        feed = lambda: nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Linear(4 * dim, dim))
        self.feed1, self.feed2, self.heads = feed(), feed(), heads
        self.norm1, self.qkv, self.out = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.norm2, self.wide = nn.LayerNorm(dim), nn.Conv1d(dim, 2 * dim, 1)
        self.deep = nn.Conv1d(dim, dim, kernel, padding=kernel // 2, groups=dim)
        self.batch_norm, self.narrow, self.last = nn.BatchNorm1d(dim), nn.Conv1d(dim, dim, 1), nn.LayerNorm(dim)

    def forward(self, x):
        n, length, dim = x.shape
        x = x + 0.5 * self.feed1(x)
        q, k, v = self.qkv(self.norm1(x)).view(n, length, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, length, dim))
        h = F.glu(self.wide(self.norm2(x).transpose(1, 2)), 1)
        x = x + self.narrow(F.silu(self.batch_norm(self.deep(h)))).transpose(1, 2)
        return self.last(x + 0.5 * self.feed2(x))


class Conformer(nn.Module):
    def __init__(self, bins=80, dim=144, layers=4):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(1, dim, 3, 2), nn.ReLU(), nn.Conv2d(dim, dim, 3, 2), nn.ReLU())
        self.project = nn.Linear(dim * (((bins - 1) // 2 - 1) // 2), dim)
        self.blocks = nn.Sequential(*(ConformerBlock(dim) for _ in range(layers)))
        self.last = nn.Linear(dim, 256)

    def forward(self, x):
        h = self.first(x[:, None]).transpose(1, 2).flatten(2)
        return self.last(self.blocks(self.project(h)))


class DilatedSegmentation(nn.Module):
    """A residual network whose last stage is dilated, dilated branches side by side, and upsampling (DeepLab)."""

    def __init__(self, width=32, classes=21):
        super().__init__()
        c = 8 * width
        self.early = nn.Sequential(activated(3, width, 3, 2), activated(width, 2 * width, 3, 2))
        self.body = nn.Sequential(activated(2 * width, 4 * width, 3, 2), activated(4 * width, c, 3, 1, 1, 2))
        self.branches = nn.ModuleList(
            [activated(c, 64, 1), *(activated(c, 64, 3, 1, 1, dilation) for dilation in (6, 12, 18))]
        )
        self.pooled = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, 64, 1), nn.ReLU())
        self.project, self.low = activated(5 * 64, 64, 1), activated(2 * width, 24, 1)
        self.last = nn.Sequential(activated(88, 64), nn.Conv2d(64, classes, 1))

    def forward(self, x):
        early = self.early(x)
        h = self.body(early)
        pooled = F.interpolate(self.pooled(h), size=h.shape[2:], mode="bilinear")
        h = self.project(torch.cat([*(branch(h) for branch in self.branches), pooled], 1))
        h = F.interpolate(h, size=early.shape[2:], mode="bilinear")
        return F.interpolate(self.last(torch.cat([h, self.low(early)], 1)), size=x.shape[2:], mode="bilinear")


class Translator(nn.Module):
    """A recurrent encoder, and a decoder that attends to it in each of a fixed number of steps (Bahdanau)."""

    def __init__(self, vocabulary=8000, dim=128, hidden=256, steps=12):
        super().__init__()
        self.steps, self.words = steps, nn.Embedding(vocabulary, dim)
        self.encoder = nn.GRU(dim, hidden, bidirectional=True, batch_first=True)
        self.start, self.keys = nn.Linear(2 * hidden, hidden), nn.Linear(2 * hidden, hidden)
        self.query, self.score = nn.Linear(hidden, hidden), nn.Linear(hidden, 1)
        self.cell, self.last = nn.GRUCell(dim + 2 * hidden, hidden), nn.Linear(hidden, vocabulary)

    def forward(self, ids):
        states, _ = self.encoder(self.words(ids))
        keys, h, word = self.keys(states), torch.tanh(self.start(states.mean(1))), ids[:, 0]
        results = []
        for _ in range(self.steps):
            weights = self.score(torch.tanh(keys + self.query(h)[:, None])).softmax(1)
            context = (weights * states).sum(1)
            h = self.cell(torch.cat([self.words(word), context], 1), h)
            results.append(self.last(h))
            word = results[-1].argmax(-1)
        return torch.stack(results, 1)


class RegisterBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        hidden = 8 * dim // 3 // 16 * 16
        self.heads, self.norm1, self.norm2 = heads, nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.query_norm, self.key_norm = nn.LayerNorm(dim // heads), nn.LayerNorm(dim // heads)
        self.gate, self.down = nn.Linear(dim, 2 * hidden), nn.Linear(hidden, dim)
        self.scale1, self.scale2 = nn.Parameter(torch.full((dim,), 0.1)), nn.Parameter(torch.full((dim,), 0.1))

    def forward(self, x):
        n, places, dim = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(n, places, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(self.query_norm(q), self.key_norm(k), v)
        x = x + self.scale1 * self.out(h.transpose(1, 2).reshape(n, places, dim))
        gate, value = self.gate(self.norm2(x)).chunk(2, -1)
        return x + self.scale2 * self.down(F.silu(gate) * value)


class RegisterTransformer(nn.Module):
    """Patches beside registers, which are dropped at the end; gated layers, queries and keys normalized."""

    def __init__(self, size=160, patch=16, dim=192, layers=6, registers=4):
        super().__init__()
        self.first, self.registers = nn.Conv2d(3, dim, patch, patch), registers
        self.extra = nn.Parameter(torch.randn(1, 1 + registers, dim) * 0.02)
        self.places = nn.Parameter(torch.randn(1, (size // patch) ** 2, dim) * 0.02)
        self.blocks = nn.Sequential(*(RegisterBlock(dim, 3) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(2 * dim, 1000)

    def forward(self, x):
        x = self.first(x).flatten(2).transpose(1, 2) + self.places
        x = self.norm(self.blocks(torch.cat([self.extra.expand(x.shape[0], -1, -1), x], 1)))
        return self.head(torch.cat([x[:, 0], x[:, 1 + self.registers :].mean(1)], 1))


class SeriesMixer(nn.Module):
    """Layers along time and along features in turn (TSMixer)."""

    def __init__(self, length=336, features=21, hidden=64, layers=4, ahead=96):
        super().__init__()
        norm = lambda: nn.BatchNorm1d(length)
        self.norms = nn.ModuleList(norm() for _ in range(2 * layers))
        self.times = nn.ModuleList(nn.Linear(length, length) for _ in range(layers))
        self.up = nn.ModuleList(nn.Linear(features, hidden) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(hidden, features) for _ in range(layers))
        self.last = nn.Linear(length, ahead)

    def forward(self, x):
        mean = x.mean(1, keepdim=True)
        deviation = torch.sqrt(x.var(1, keepdim=True, unbiased=False) + 1e-5)
        x = (x - mean) / deviation
        for k, (time, up, down) in enumerate(zip(self.times, self.up, self.down)):
            x = x + F.relu(time(self.norms[2 * k](x).transpose(1, 2))).transpose(1, 2)
            x = x + down(F.relu(up(self.norms[2 * k + 1](x))))
        return self.last(x.transpose(1, 2)).transpose(1, 2) * deviation + mean


class Tower(nn.Module):
    def __init__(self, rows, bags, dim=32):
        super().__init__()
        self.single = nn.ModuleList(nn.Embedding(rows, dim) for _ in range(bags))
        self.many = nn.EmbeddingBag(rows, dim, mode="mean")
        width = (bags + 1) * dim
        self.body = nn.Sequential(nn.Linear(width, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 64))

    def forward(self, ids, history):
        rows = [table(ids[:, k]) for k, table in enumerate(self.single)]
        return F.normalize(self.body(torch.cat([*rows, self.many(history)], 1)), dim=1)


class TwoTowers(nn.Module):
    """Users against items: the products of normalized embeddings."""

    def __init__(self, rows=50_000):
        super().__init__()
        self.user, self.item = Tower(rows, 6), Tower(rows, 4)

    def forward(self, user, seen, item, tags):
        return self.user(user, seen) @ self.item(item, tags).T * 20.0


class ModulatedConvolution(nn.Module):
    """A 3x3 convolution whose weight each sample scales by its style, and normalizes (StyleGAN2)."""

    def __init__(self, inputs, outputs, style=256, kernel=3, normalize=True):
        super().__init__()
        self.style, self.normalize = nn.Linear(style, inputs), normalize
        self.weight = nn.Parameter(torch.randn(outputs, inputs, kernel, kernel) / math.sqrt(inputs * kernel * kernel))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x, w):
        n, c, height, width = x.shape
        weight = self.weight * (self.style(w) + 1)[:, None, :, None, None]
        if self.normalize:
            weight = weight * torch.rsqrt(weight.square().sum((2, 3, 4), keepdim=True) + 1e-8)
        weight = weight.reshape(-1, c, *self.weight.shape[2:])
        x = F.conv2d(x.reshape(1, n * c, height, width), weight, padding=weight.shape[-1] // 2, groups=n)
        return x.reshape(n, -1, height, width) + self.bias[:, None, None]


class Generator(nn.Module):
    def __init__(self, widths=(256, 256, 128, 64, 32), style=256):
        super().__init__()
        self.map = nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(style, style), nn.LeakyReLU(0.2))))
        self.start = nn.Parameter(torch.randn(1, widths[0], 4, 4))
        self.convolutions = nn.ModuleList(ModulatedConvolution(a, b, style) for a, b in zip(widths, widths[1:]))
        self.colours = nn.ModuleList(ModulatedConvolution(b, 3, style, 1, False) for b in widths[1:])

    def forward(self, z):
        w = self.map(z * torch.rsqrt(z.square().mean(1, keepdim=True) + 1e-8))
        x, picture = self.start.expand(z.shape[0], -1, -1, -1), None
        for convolution, colour in zip(self.convolutions, self.colours):
            x = F.interpolate(x, scale_factor=2.0, mode="bilinear")
            x = F.leaky_relu(convolution(x, w), 0.2) * math.sqrt(2)
            more = colour(x, w)
            picture = more if picture is None else more + F.interpolate(picture, scale_factor=2.0, mode="bilinear")
        return picture


class ChannelAttentionBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1, self.conv2 = (
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.Conv2d(channels, channels, 3, padding=1),
        )
        self.squeeze = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, 4, 1), nn.ReLU(), nn.Conv2d(4, channels, 1), nn.Sigmoid()
        )

    def forward(self, x):
        h = self.conv2(F.relu(self.conv1(x)))
        return x + h * self.squeeze(h)


class Enlarger(nn.Module):
    """Four times the size by pixels dealt out twice, blocks with attention over channels (RCAN)."""

    def __init__(self, channels=32, blocks=6):
        super().__init__()
        self.first = nn.Conv2d(3, channels, 3, padding=1)
        self.blocks = nn.Sequential(*(ChannelAttentionBlock(channels) for _ in range(blocks)))
        up = lambda: (nn.Conv2d(channels, 4 * channels, 3, padding=1), nn.PixelShuffle(2), nn.LeakyReLU(0.2))
        self.last = nn.Sequential(*up(), *up(), nn.Conv2d(channels, 3, 3, padding=1))

    def forward(self, x):
        first = self.first(x)
        return self.last(first + self.blocks(first)) + F.interpolate(x, scale_factor=4, mode="nearest")


class GraphAttention(nn.Module):
    """Weights of edges by a softmax over each node's own (GAT), two layers."""

    def __init__(self, features=128, heads=4, dim=32, classes=16):
        super().__init__()
        self.heads = heads
        widths = (features, heads * dim, heads * classes)
        self.layers = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in zip(widths, widths[1:]))
        self.sources = nn.ParameterList(nn.Parameter(torch.randn(heads, b // heads) * 0.1) for b in widths[1:])
        self.targets = nn.ParameterList(nn.Parameter(torch.randn(heads, b // heads) * 0.1) for b in widths[1:])

    def attend(self, x, edges, k):
        nodes = x.shape[0]
        h = self.layers[k](x).view(nodes, self.heads, -1)
        source, target = edges[0], edges[1]
        score = (h * self.sources[k]).sum(-1)[source] + (h * self.targets[k]).sum(-1)[target]
        score = F.leaky_relu(score, 0.2)
        top = score.new_full(score.shape, -1e30).scatter_reduce(0, target[:, None].expand_as(score), score, "amax")
        weight = torch.exp(score - top[target])
        total = torch.zeros_like(top).index_add(0, target, weight)
        weight = weight / (total[target] + 1e-16)
        return torch.zeros_like(h).index_add(0, target, h[source] * weight[..., None])

    def forward(self, x, edges):
        h = F.elu(self.attend(x, edges, 0).flatten(1))
        return self.attend(h, edges, 1).mean(1)


class Vocoder(nn.Module):
    """Transposed convolutions and dilated residual ones from a spectrogram to samples (HiFi-GAN)."""

    def __init__(self, bins=80, channels=128):
        super().__init__()
        self.first = nn.Conv1d(bins, channels, 7, padding=3)
        self.turns, self.blocks = nn.ModuleList(), nn.ModuleList()
        for rate in (8, 8, 4):
            self.turns.append(nn.ConvTranspose1d(channels, channels // 2, 2 * rate, rate, rate // 2))
            channels //= 2
            for kernel in (3, 7):
                self.blocks.append(
                    nn.ModuleList(nn.Conv1d(channels, channels, kernel, padding="same", dilation=d) for d in (1, 3, 5))
                )
        self.last = nn.Conv1d(channels, 1, 7, padding=3)

    def forward(self, x):
        x = self.first(x)
        for k, turn in enumerate(self.turns):
            x, total = turn(F.leaky_relu(x, 0.1)), 0
            for block in self.blocks[2 * k : 2 * k + 2]:
                h = x
                for layer in block:
                    h = h + layer(F.leaky_relu(h, 0.1))
                total = total + h
            x = total / 2
        return torch.tanh(self.last(F.leaky_relu(x, 0.1)))


class EdgePoints(nn.Module):
    """Layers over the differences to the nearest points, found anew in each layer (DGCNN)."""

    def __init__(self, near=12, widths=(3, 32, 64), classes=40):
        super().__init__()
        self.near = near
        self.layers = nn.ModuleList(nn.Conv2d(2 * a, b, 1) for a, b in zip(widths, widths[1:]))
        self.last = nn.Linear(sum(widths[1:]), classes)

    def edges(self, x):
        n, c, points = x.shape
        square = x.square().sum(1)
        distance = square[:, :, None] + square[:, None] - 2 * x.transpose(1, 2) @ x
        nearest = distance.topk(self.near, largest=False).indices
        found = x.transpose(1, 2).gather(1, nearest.flatten(1)[..., None].expand(-1, -1, c))
        found = found.view(n, points, self.near, c).permute(0, 3, 1, 2)
        own = x[..., None].expand_as(found)
        return torch.cat([own, found - own], 1)

    def forward(self, x):
        kept = []
        for layer in self.layers:
            x = F.leaky_relu(layer(self.edges(x)), 0.2).amax(-1)
            kept.append(x)
        return self.last(torch.cat(kept, 1).amax(-1))


class InvertedBlock(nn.Module):
    def __init__(self, inputs, wide, outputs, kernel, stride, act):
        super().__init__()
        self.up, self.deep = activated(inputs, wide, 1, act=act), activated(wide, wide, kernel, stride, wide, act=act)
        self.down = activated(wide, outputs, 1, act=nn.Identity)
        self.squeeze = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(wide, wide // 4, 1), nn.ReLU(), nn.Conv2d(wide // 4, wide, 1)
        )
        self.keeps = inputs == outputs and stride == 1

    def forward(self, x):
        h = self.deep(self.up(x))
        h = self.down(h * F.hardsigmoid(self.squeeze(h)))
        return x + h if self.keeps else h


def inverted_network(act=nn.Hardswish):
    """In the manner of MobileNet v3."""
    blocks = ((16, 64, 24, 3, 2), (24, 72, 24, 3, 1), (24, 96, 40, 5, 2), (40, 240, 40, 5, 1), (40, 240, 80, 3, 2))
    blocks += ((80, 200, 80, 3, 1), (80, 480, 112, 3, 1), (112, 672, 160, 5, 2), (160, 960, 160, 5, 1))
    layers = [activated(3, 16, 3, 2, act=act), *(InvertedBlock(*block, act) for block in blocks)]
    return nn.Sequential(*layers, activated(160, 960, 1, act=act), nn.AdaptiveAvgPool2d(1), nn.Flatten())


class Pyramid(nn.Module):
    """A pyramid of features and heads over each level (RetinaNet)."""

    def __init__(self, width=32, channels=64, anchors=9, classes=20):
        super().__init__()
        widths = [width << k for k in range(5)]
        self.stages = nn.ModuleList(
            nn.Sequential(activated(a, b, 3, 2), activated(b, b)) for a, b in zip([3, *widths], widths)
        )
        self.sides = nn.ModuleList(nn.Conv2d(w, channels, 1) for w in widths[2:])
        self.smooth = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in widths[2:])
        block = lambda: (nn.Conv2d(channels, channels, 3, padding=1), nn.GroupNorm(8, channels), nn.ReLU())
        self.scores = nn.Sequential(*block(), *block(), nn.Conv2d(channels, anchors * classes, 3, padding=1))
        self.boxes = nn.Sequential(*block(), *block(), nn.Conv2d(channels, anchors * 4, 3, padding=1))
        self.classes = classes

    def forward(self, x):
        kept = []
        for stage in self.stages:
            x = stage(x)
            kept.append(x)
        levels = [side(h) for side, h in zip(self.sides, kept[2:])]
        for k in (1, 0):
            levels[k] = levels[k] + F.interpolate(levels[k + 1], scale_factor=2.0, mode="nearest")
        levels = [smooth(h) for smooth, h in zip(self.smooth, levels)]
        flat = lambda h, last: h.permute(0, 2, 3, 1).reshape(h.shape[0], -1, last)
        scores = torch.cat([flat(self.scores(h), self.classes) for h in levels], 1).sigmoid()
        return scores, torch.cat([flat(self.boxes(h), 4) for h in levels], 1)


class Radiance(nn.Module):
    """Colour and density at points seen from directions (NeRF)."""

    def __init__(self, hidden=128, waves=10):
        super().__init__()
        self.register_buffer("frequencies", 2.0 ** torch.arange(waves))
        width = 3 + 6 * waves
        self.early = nn.ModuleList(nn.Linear(a, hidden) for a in (width, hidden, hidden, hidden))
        self.late = nn.ModuleList(nn.Linear(a, hidden) for a in (hidden + width, hidden, hidden))
        self.density, self.mixed, self.colour = nn.Linear(hidden, 1), nn.Linear(hidden + width, 64), nn.Linear(64, 3)

    def waves(self, x):
        angles = (x[..., None] * self.frequencies).flatten(-2)
        return torch.cat([x, angles.sin(), angles.cos()], -1)

    def forward(self, points, directions):
        h = first = self.waves(points)
        for layer in self.early:
            h = F.relu(layer(h))
        h = torch.cat([first, h], -1)
        for layer in self.late:
            h = F.relu(layer(h))
        mixed = F.relu(self.mixed(torch.cat([h, self.waves(directions)], -1)))
        return torch.cat([torch.sigmoid(self.colour(mixed)), F.softplus(self.density(h))], -1)


class Quantizer(nn.Module):
    """An encoder, the nearest of 512 codes at each place, and a decoder (VQ-VAE)."""

    def __init__(self, channels=96, dim=64, codes=512):
        super().__init__()
        self.codes = nn.Parameter(torch.randn(codes, dim))
        residual = lambda: nn.Sequential(
            nn.ReLU(), nn.Conv2d(channels, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, channels, 1)
        )
        self.residual = nn.ModuleList(residual() for _ in range(4))
        self.down1, self.down2 = nn.Conv2d(3, channels // 2, 4, 2, 1), nn.Conv2d(channels // 2, channels, 4, 2, 1)
        self.inner, self.outer = nn.Conv2d(channels, dim, 1), nn.Conv2d(dim, channels, 3, padding=1)
        self.up1 = nn.ConvTranspose2d(channels, channels // 2, 4, 2, 1)
        self.up2 = nn.ConvTranspose2d(channels // 2, 3, 4, 2, 1)

    def forward(self, x):
        h = self.down2(F.relu(self.down1(x)))
        for block in self.residual[:2]:
            h = h + block(h)
        z = self.inner(F.relu(h)).permute(0, 2, 3, 1)
        flat = z.reshape(-1, z.shape[-1])
        distance = flat.square().sum(1, keepdim=True) + self.codes.square().sum(1) - 2 * flat @ self.codes.T
        h = self.outer(self.codes[distance.argmin(1)].view(z.shape).permute(0, 3, 1, 2))
        for block in self.residual[2:]:
            h = h + block(h)
        return self.up2(F.relu(self.up1(F.relu(h))))


class SignalBlock(nn.Module):
    def __init__(self, inputs, outputs, time):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, inputs), nn.GroupNorm(8, outputs)
        self.conv1 = nn.Conv1d(inputs, outputs, 5, padding=2)
        self.conv2 = nn.Conv1d(outputs, outputs, 5, padding=2)
        self.time = nn.Linear(time, 2 * outputs)
        self.skip = nn.Conv1d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x, time):
        scale, shift = self.time(F.silu(time))[..., None].chunk(2, 1)
        h = self.norm2(self.conv1(F.silu(self.norm1(x)))) * (scale + 1) + shift
        return self.conv2(F.silu(h)) + self.skip(x)


class SignalUNet(nn.Module):
    """Diffusion of trajectories: one-dimensional, the step scales and shifts each block (Janner et al. 2022)."""

    def __init__(self, features=14, width=64, time=64):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(time, 4 * time), nn.Mish(), nn.Linear(4 * time, time))
        self.first = nn.Conv1d(features, width, 5, padding=2)
        self.down1, self.half1 = SignalBlock(width, width, time), nn.Conv1d(width, width, 3, 2, 1)
        self.down2, self.half2 = SignalBlock(width, 2 * width, time), nn.Conv1d(2 * width, 2 * width, 3, 2, 1)
        self.middle = SignalBlock(2 * width, 2 * width, time)
        self.twice2 = nn.ConvTranspose1d(2 * width, 2 * width, 4, 2, 1)
        self.up2 = SignalBlock(4 * width, width, time)
        self.twice1, self.up1 = nn.ConvTranspose1d(width, width, 4, 2, 1), SignalBlock(2 * width, width, time)
        self.last = nn.Conv1d(width, features, 1)

    def forward(self, x, step):
        angles = step[:, None] * torch.exp(-torch.arange(32) * 0.3)
        time = self.time(torch.cat([angles.sin(), angles.cos()], 1))
        level1 = self.down1(self.first(x), time)
        level2 = self.down2(self.half1(level1), time)
        h = self.twice2(self.middle(self.half2(level2), time))
        h = self.up2(torch.cat([h, level2], 1), time)
        return self.last(self.up1(torch.cat([self.twice1(h), level1], 1), time))


class TableTransformer(nn.Module):
    """A token for each column of a table (FT-Transformer)."""

    def __init__(self, numbers=12, fields=8, rows=500, dim=96, layers=3):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.randn(numbers, dim)), nn.Parameter(torch.randn(numbers, dim))
        self.table, self.first = nn.Embedding(fields * rows, dim), nn.Parameter(torch.randn(1, 1, dim))
        self.register_buffer("offsets", torch.arange(fields) * rows)
        layer = lambda: nn.TransformerEncoderLayer(
            dim, 8, 2 * dim, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.ModuleList(layer() for _ in range(layers))
        self.norm, self.last = nn.LayerNorm(dim), nn.Linear(dim, 2)

    def forward(self, numbers, categories):
        rows = [numbers[..., None] * self.scale + self.shift, self.table(categories + self.offsets)]
        x = torch.cat([self.first.expand(numbers.shape[0], -1, -1), *rows], 1)
        for layer in self.layers:
            x = layer(x)
        return self.last(F.relu(self.norm(x[:, 0])))


class Sentences(nn.Module):
    """Windows of three lengths over words, and the greatest of each (Kim 2014)."""

    def __init__(self, vocabulary=20_000, dim=128, channels=100):
        super().__init__()
        self.words = nn.Embedding(vocabulary, dim)
        self.windows = nn.ModuleList(nn.Conv1d(dim, channels, kernel) for kernel in (3, 4, 5))
        self.last = nn.Linear(3 * channels, 5)

    def forward(self, ids):
        x = self.words(ids).transpose(1, 2)
        return self.last(torch.cat([F.relu(window(x)).amax(2) for window in self.windows], 1))


def points(n):
    return torch.randn(n, 3, 512)


NETWORKS = {
    "text_lines": Entry(TextLines, lambda n: (torch.randn(n, 1, 32, 256),), large=8),
    "temporal_network": Entry(TemporalNetwork, lambda n: (torch.randn(n, 24, 400),), large=8),
    "conformer": Entry(Conformer, lambda n: (torch.randn(n, 400, 80),), large=4),
    "dilated_segmentation": Entry(DilatedSegmentation, pictures(224), large=2),
    "translator": Entry(Translator, words(20, 8000), large=16),
    "register_transformer": Entry(RegisterTransformer, pictures(160), large=8),
    "series_mixer": Entry(SeriesMixer, lambda n: (torch.randn(n, 336, 21),), large=32),
    "two_towers": Entry(
        TwoTowers,
        lambda n: tuple(torch.randint(0, 50_000, (n, k)) for k in (6, 40, 4, 8)),
        small=16,
        large=256,
    ),
    "generator": Entry(Generator, lambda n: (torch.randn(n, 256),), large=4),
    "enlarger": Entry(Enlarger, pictures(64), large=4),
    "graph_attention": Entry(
        GraphAttention, lambda n: (torch.randn(n * 2_000, 128), torch.randint(0, n * 2_000, (2, n * 16_000))), large=4
    ),
    "vocoder": Entry(Vocoder, lambda n: (torch.randn(n, 80, 64),), large=4),
    "edge_points": Entry(EdgePoints, lambda n: (points(n),), large=8),
    "inverted_network": Entry(inverted_network, pictures(224), large=8),
    "pyramid": Entry(Pyramid, pictures(256), large=4),
    "radiance": Entry(Radiance, lambda n: (torch.randn(n, 3), torch.randn(n, 3)), small=256, large=4096),
    "quantizer": Entry(Quantizer, pictures(64), large=8),
    "signal_unet": Entry(SignalUNet, lambda n: (torch.randn(n, 14, 64), torch.rand(n) * 100), large=16),
    "table_transformer": Entry(
        TableTransformer, lambda n: (torch.randn(n, 12), torch.randint(0, 500, (n, 8))), large=64
    ),
    "sentences": Entry(Sentences, words(56, 20_000), large=32),
}
