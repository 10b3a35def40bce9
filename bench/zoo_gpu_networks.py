"""Networks of `zoo_models.py` that are written here, second part: kinds of models that people train and serve on GPUs
and that neither `timm` nor `transformers` has in this form.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn


class Scale(nn.Module):
    """Root mean square norm."""

    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * self.weight


class Heads(nn.Module):
    """Attention of all tokens to all."""

    def __init__(self, dim, heads, causal=False):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        n, tokens, dim = x.shape
        q, k, v = self.qkv(x).view(n, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        rows = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(rows.transpose(1, 2).reshape(n, tokens, dim))


# ---- Diffusion and generation


class ModulatedBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, elementwise_affine=False, eps=1e-6)
        self.norm2 = nn.LayerNorm(dim, elementwise_affine=False, eps=1e-6)
        self.attend = Heads(dim, heads)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.modulation = nn.Linear(dim, 6 * dim)

    def forward(self, x, condition):
        shift1, scale1, gate1, shift2, scale2, gate2 = self.modulation(F.silu(condition))[:, None].chunk(6, -1)
        x = x + gate1 * self.attend(self.norm1(x) * (1 + scale1) + shift1)
        h = F.gelu(self.up(self.norm2(x) * (1 + scale2) + shift2), approximate="tanh")
        return x + gate2 * self.down(h)


class DiffusionTransformer(nn.Module):
    """Tokens of latent pictures, each block scaled and shifted by the step and the class (DiT)."""

    def __init__(self, dim=384, heads=6, layers=12, size=32, classes=1000):
        super().__init__()
        self.patches = nn.Conv2d(4, dim, 2, 2)
        self.place = nn.Parameter(torch.randn(1, (size // 2) ** 2, dim) * 0.02)
        self.time = nn.Sequential(nn.Linear(256, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.label = nn.Embedding(classes, dim)
        self.blocks = nn.ModuleList(ModulatedBlock(dim, heads) for _ in range(layers))
        self.norm, self.last = nn.LayerNorm(dim, elementwise_affine=False), nn.Linear(dim, 32)

    def forward(self, x, step, label):
        n, _, height, width = x.shape
        angles = step[:, None].float() * torch.exp(-math.log(10000) / 128 * torch.arange(128, device=x.device))
        condition = self.time(torch.cat([angles.cos(), angles.sin()], -1).to(x.dtype)) + self.label(label)
        h = self.patches(x).flatten(2).transpose(1, 2) + self.place
        for block in self.blocks:
            h = block(h, condition)
        h = self.last(self.norm(h)).view(n, height // 2, width // 2, 2, 2, 8)
        return h.permute(0, 5, 1, 3, 2, 4).reshape(n, 8, height, width)


class LatentDecoder(nn.Module):
    """From latent pictures to pictures: residual blocks with group norms between nearest enlargements (VAE)."""

    def __init__(self, widths=(256, 256, 128, 64)):
        super().__init__()
        layers = [nn.Conv2d(4, widths[0], 3, padding=1)]
        for inputs, outputs in zip(widths, widths[1:]):
            layers += [
                Residual(inputs, outputs),
                nn.Upsample(scale_factor=2),
                nn.Conv2d(outputs, outputs, 3, padding=1),
            ]
        layers += [nn.GroupNorm(16, widths[-1]), nn.SiLU(), nn.Conv2d(widths[-1], 3, 3, padding=1)]
        self.body = nn.Sequential(*layers)

    def forward(self, x):
        return self.body(x).clamp(-1, 1)


class Residual(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        norm = lambda c: nn.GroupNorm(16, c)
        self.body = nn.Sequential(
            norm(inputs),
            nn.SiLU(),
            nn.Conv2d(inputs, outputs, 3, padding=1),
            norm(outputs),
            nn.SiLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1),
        )
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x):
        return self.skip(x) + self.body(x)


class StyleTransfer(nn.Module):
    """Reflected borders, instance norms, two halvings and two enlargements (Johnson et al. 2016)."""

    def __init__(self):
        super().__init__()

        def layer(inputs, outputs, kernel, stride=1):
            convolution = nn.Conv2d(inputs, outputs, kernel, stride)
            return [nn.ReflectionPad2d(kernel // 2), convolution, nn.InstanceNorm2d(outputs, affine=True), nn.ReLU()]

        self.first = nn.Sequential(*layer(3, 32, 9), *layer(32, 64, 3, 2), *layer(64, 128, 3, 2))
        self.blocks = nn.ModuleList(nn.Sequential(*layer(128, 128, 3), *layer(128, 128, 3)[:-1]) for _ in range(5))
        up = nn.Upsample(scale_factor=2)
        self.last = nn.Sequential(
            up, *layer(128, 64, 3), up, *layer(64, 32, 3), nn.ReflectionPad2d(4), nn.Conv2d(32, 3, 9)
        )

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = x + block(x)
        return self.last(x)


# ---- Texts


def rotated(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class CachedLayer(nn.Module):
    def __init__(self, dim, heads, keys, hidden):
        super().__init__()
        self.heads, self.keys, self.size = heads, keys, dim // heads
        self.norm1, self.norm2 = Scale(dim), Scale(dim)
        self.q, self.kv = nn.Linear(dim, dim, bias=False), nn.Linear(dim, 2 * keys * self.size, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.gate, self.up = nn.Linear(dim, hidden, bias=False), nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x, place, mask, cos, sin, keys, values):
        n, tokens, dim = x.shape
        h = self.norm1(x)
        q = rotated(self.q(h).view(n, tokens, self.heads, self.size).transpose(1, 2), cos, sin)
        k, v = self.kv(h).view(n, tokens, 2, self.keys, self.size).permute(2, 0, 3, 1, 4)
        keys = keys.index_copy(2, place, rotated(k, cos, sin))
        values = values.index_copy(2, place, v)
        rows = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, enable_gqa=True)
        x = x + self.out(rows.transpose(1, 2).reshape(n, tokens, dim))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class DecodeStep(nn.Module):
    """One more word of a language model whose keys and values so far are given."""

    def __init__(self, dim=1024, heads=16, keys=4, hidden=2816, layers=8, room=1024, vocabulary=32000):
        super().__init__()
        self.room, self.size, self.keys = room, dim // heads, keys
        self.embed = nn.Embedding(vocabulary, dim)
        self.layers = nn.ModuleList(CachedLayer(dim, heads, keys, hidden) for _ in range(layers))
        self.norm, self.last = Scale(dim), nn.Linear(dim, vocabulary, bias=False)

    def forward(self, words, place, caches):
        x = self.embed(words)
        frequencies = 10000 ** (-torch.arange(0, self.size, 2, device=x.device) / self.size)
        angles = place[:, None] * frequencies
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        mask = (torch.arange(self.room, device=x.device)[None, :] <= place[:, None])[None, None]
        for i, layer in enumerate(self.layers):
            x = layer(x, place, mask, cos, sin, caches[2 * i], caches[2 * i + 1])
        return self.last(self.norm(x[:, -1]))

    @staticmethod
    def inputs(n):
        return (torch.randint(0, 32000, (n, 1)), torch.tensor([700]), torch.randn(16, n, 4, 1024, 64))


class LinearAttention(nn.Module):
    """Attention by a kernel of features, and local windows beside it (linear transformers)."""

    def __init__(self, dim=512, heads=8, layers=6, vocabulary=20000):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(vocabulary, dim)
        part = lambda: dict(
            norm1=nn.LayerNorm(dim),
            qkv=nn.Linear(dim, 3 * dim),
            out=nn.Linear(dim, dim),
            norm2=nn.LayerNorm(dim),
            up=nn.Linear(dim, 4 * dim),
            down=nn.Linear(4 * dim, dim),
        )
        self.layers = nn.ModuleList(nn.ModuleDict(part()) for _ in range(layers))

    def forward(self, words):
        x = self.embed(words)
        n, tokens, dim = x.shape
        for layer in self.layers:
            q, k, v = layer["qkv"](layer["norm1"](x)).view(n, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            q, k = F.elu(q) + 1, F.elu(k) + 1
            sums = torch.einsum("nhtd,nhte->nhde", k, v) / tokens
            scale = torch.einsum("nhtd,nhd->nht", q, k.mean(2))
            rows = torch.einsum("nhtd,nhde->nhte", q, sums) / (scale[..., None] + 1e-3)
            x = x + layer["out"](rows.transpose(1, 2).reshape(n, tokens, dim))
            x = x + layer["down"](F.gelu(layer["up"](layer["norm2"](x))))
        return x


class LocalAttention(nn.Module):
    """Each block of words attends to itself and to the block before it, with slopes by distance (ALiBi)."""

    def __init__(self, dim=512, heads=8, layers=6, block=128, vocabulary=20000):
        super().__init__()
        self.heads, self.block = heads, block
        self.embed = nn.Embedding(vocabulary, dim)
        self.norms = nn.ModuleList(Scale(dim) for _ in range(2 * layers))
        self.qkv = nn.ModuleList(nn.Linear(dim, 3 * dim, bias=False) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(dim, dim, bias=False) for _ in range(layers))
        self.up = nn.ModuleList(nn.Linear(dim, 6 * dim, bias=False) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(3 * dim, dim, bias=False) for _ in range(layers))
        self.register_buffer("slopes", 2.0 ** -torch.arange(1, heads + 1))

    def attend(self, q, k, v):
        with_last = lambda t: torch.cat([F.pad(t, (0, 0, 0, 0, 1, 0))[:, :, :-1], t], 3)
        scores = q @ with_last(k).transpose(-1, -2) / math.sqrt(q.shape[-1])
        rows = torch.arange(self.block, device=q.device)[:, None] + self.block
        distance = rows - torch.arange(2 * self.block, device=q.device)
        scores = scores - self.slopes[:, None, None, None].to(q.dtype) * distance
        scores = scores.masked_fill((distance < 0) | (distance >= self.block), -torch.inf)
        return scores.softmax(-1) @ with_last(v)

    def forward(self, words):
        x = self.embed(words)
        n, tokens, dim = x.shape
        shape = (n, tokens // self.block, self.block, 3, self.heads, dim // self.heads)
        for i, (qkv, out, up, down) in enumerate(zip(self.qkv, self.out, self.up, self.down)):
            q, k, v = qkv(self.norms[2 * i](x)).view(shape).permute(3, 0, 4, 1, 2, 5)
            x = x + out(self.attend(q, k, v).permute(0, 2, 3, 1, 4).reshape(n, tokens, dim))
            a, b = up(self.norms[2 * i + 1](x)).chunk(2, -1)
            x = x + down(F.gelu(a) * b)
        return x


class TopTwoExperts(nn.Module):
    """Each token goes to two of eight experts, by products with a one-hot dispatch within a capacity (GShard)."""

    def __init__(self, dim=512, experts=8, hidden=1024, layers=4):
        super().__init__()
        self.experts = experts
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.gates = nn.ModuleList(nn.Linear(dim, experts, bias=False) for _ in range(layers))
        self.up = nn.ParameterList(torch.randn(experts, dim, hidden) * 0.04 for _ in range(layers))
        self.down = nn.ParameterList(torch.randn(experts, hidden, dim) * 0.03 for _ in range(layers))

    def forward(self, x):
        n, tokens, dim = x.shape
        room = 2 * tokens // self.experts
        for norm, gate, up, down in zip(self.norms, self.gates, self.up, self.down):
            h = norm(x)
            weights, chosen = gate(h).softmax(-1).topk(2, -1)
            marks = F.one_hot(chosen, self.experts).flatten(1, 2)
            places = (marks.cumsum(1) - 1) * marks
            marks = marks * (places < room)
            dispatch = F.one_hot(places.clamp(max=room - 1), room) * marks[..., None]
            dispatch = dispatch.view(n, tokens, 2, self.experts, room).to(x.dtype)
            sent = torch.einsum("nrec,nrd->encd", dispatch.sum(2), h)
            made = F.relu(sent.flatten(1, 2) @ up) @ down
            combine = (dispatch * weights[..., None, None]).sum(2)
            x = x + torch.einsum("nrec,encd->nrd", combine, made.view(self.experts, n, room, dim))
        return x


# ---- Speech, series, points


class GatedWaves(nn.Module):
    """Dilated causal convolutions with gates, and the sum of all skips (WaveNet)."""

    def __init__(self, channels=64, skips=128, layers=16):
        super().__init__()
        self.first = nn.Conv1d(1, channels, 1)
        self.dilations = [2 ** (i % 8) for i in range(layers)]
        self.pairs = nn.ModuleList(nn.Conv1d(channels, 2 * channels, 2, dilation=d) for d in self.dilations)
        self.outs = nn.ModuleList(nn.Conv1d(channels, channels, 1) for _ in range(layers))
        self.skips = nn.ModuleList(nn.Conv1d(channels, skips, 1) for _ in range(layers))
        self.last = nn.Sequential(nn.ReLU(), nn.Conv1d(skips, skips, 1), nn.ReLU(), nn.Conv1d(skips, 256, 1))

    def forward(self, x):
        x, total = self.first(x), 0
        for dilation, pair, out, skip in zip(self.dilations, self.pairs, self.outs, self.skips):
            a, b = pair(F.pad(x, (dilation, 0))).chunk(2, 1)
            h = torch.tanh(a) * torch.sigmoid(b)
            total = total + skip(h)
            x = x + out(h)
        return self.last(total)


class SelectiveScan(nn.Module):
    """State spaces with gates, scanned in chunks by products (Mamba 2 in its chunked form)."""

    def __init__(self, dim=512, heads=16, state=64, chunk=64, layers=4):
        super().__init__()
        self.heads, self.state, self.chunk = heads, state, chunk
        self.norms = nn.ModuleList(Scale(dim) for _ in range(layers))
        self.inputs = nn.ModuleList(nn.Linear(dim, 2 * dim + 2 * state + heads) for _ in range(layers))
        self.mix = nn.ModuleList(
            nn.Conv1d(dim + 2 * state, dim + 2 * state, 4, groups=dim + 2 * state) for _ in range(layers)
        )
        self.outputs = nn.ModuleList(nn.Linear(dim, dim) for _ in range(layers))
        self.decay = nn.Parameter(torch.zeros(layers, heads))

    def scan(self, x, b, c, decay):
        """x: [n, chunks, places, heads, size]; b, c: [n, chunks, places, state]; decay: [n, chunks, places, heads]."""
        sums = decay.cumsum(2)
        between = (sums[:, :, :, None] - sums[:, :, None]).masked_fill(self.later, -torch.inf).exp()
        near = torch.einsum("bklm,bklmh,bkmhp->bklhp", c @ b.transpose(-1, -2), between.to(x.dtype), x)
        to_end = (sums[:, :, -1:] - sums).exp().to(x.dtype)
        states = torch.einsum("bkln,bklh,bklhp->bkhnp", b, to_end, x)
        carried, held = [], torch.zeros_like(states[:, 0])
        for i in range(states.shape[1]):
            carried.append(held)
            held = held * sums[:, i, -1].exp().to(x.dtype)[..., None, None] + states[:, i]
        far = torch.einsum("bkln,bkhnp,bklh->bklhp", c, torch.stack(carried, 1), sums.exp().to(x.dtype))
        return near + far

    def forward(self, x):
        n, tokens, dim = x.shape
        places = torch.arange(self.chunk, device=x.device)
        self.later = (places[:, None] < places)[:, :, None]
        for i, norm in enumerate(self.norms):
            gate, rest, step = self.inputs[i](norm(x)).split([dim, dim + 2 * self.state, self.heads], -1)
            rest = F.silu(self.mix[i](F.pad(rest.transpose(1, 2), (3, 0)))).transpose(1, 2)
            step = F.softplus(step.float())
            decay = (-step * self.decay[i].float().exp()).view(n, -1, self.chunk, self.heads)
            h, b, c = rest.view(n, -1, self.chunk, dim + 2 * self.state).split([dim, self.state, self.state], -1)
            h = h.reshape(*h.shape[:3], self.heads, -1) * step.view(*decay.shape, 1).to(x.dtype)
            x = x + self.outputs[i](self.scan(h, b, c, decay).reshape(n, tokens, dim) * F.silu(gate))
        return x


class Points(nn.Module):
    """A product for each point, the largest over all, and a transform that is learned (PointNet)."""

    def __init__(self, classes=40):
        super().__init__()
        layer = lambda a, b: nn.Sequential(nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU())
        self.look = nn.Sequential(layer(3, 64), layer(64, 128), layer(128, 1024))
        self.turn = nn.Sequential(nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 9))
        self.body = nn.Sequential(layer(3, 64), layer(64, 64), layer(64, 128), layer(128, 1024))
        self.last = nn.Sequential(nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, classes))

    def forward(self, x):
        turn = self.turn(self.look(x).amax(2)).view(-1, 3, 3) + torch.eye(3, device=x.device, dtype=x.dtype)
        return self.last(self.body(turn @ x).amax(2))


# ---- Pictures and volumes


class Volumes(nn.Module):
    """A U-Net over volumes with instance norms."""

    def __init__(self, widths=(32, 64, 128)):
        super().__init__()

        def double(inputs, outputs):
            layer = lambda a, b: [nn.Conv3d(a, b, 3, padding=1), nn.InstanceNorm3d(b, affine=True), nn.LeakyReLU(0.01)]
            return nn.Sequential(*layer(inputs, outputs), *layer(outputs, outputs))

        self.down = nn.ModuleList(double(a, b) for a, b in zip((1, *widths), widths))
        self.up = nn.ModuleList(nn.ConvTranspose3d(b, a, 2, 2) for a, b in zip(widths, widths[1:]))
        self.join = nn.ModuleList(double(2 * a, a) for a in widths[:-1])
        self.last = nn.Conv3d(widths[0], 4, 1)

    def forward(self, x):
        kept = []
        for i, down in enumerate(self.down):
            x = down(x if i == 0 else F.max_pool3d(x, 2))
            kept.append(x)
        for i in reversed(range(len(self.up))):
            x = self.join[i](torch.cat([self.up[i](x), kept[i]], 1))
        return self.last(x)


class Detector(nn.Module):
    """Three levels joined from the top down, and heads with group norms that all levels share (RetinaNet)."""

    def __init__(self, dim=128, classes=80, anchors=3):
        super().__init__()
        layer = lambda a, b, s: nn.Sequential(nn.Conv2d(a, b, 3, s, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU())
        self.stem = nn.Sequential(layer(3, 32, 2), layer(32, 64, 2), layer(64, 128, 2))
        self.levels = nn.ModuleList([layer(128, 256, 2), layer(256, 256, 2)])
        self.across = nn.ModuleList(nn.Conv2d(c, dim, 1) for c in (128, 256, 256))
        head = lambda out: nn.Sequential(
            *(m for _ in range(2) for m in (nn.Conv2d(dim, dim, 3, padding=1), nn.GroupNorm(16, dim), nn.ReLU())),
            nn.Conv2d(dim, anchors * out, 3, padding=1),
        )
        self.classes, self.boxes = head(classes), head(4)

    def forward(self, x):
        levels = [self.stem(x)]
        for level in self.levels:
            levels.append(level(levels[-1]))
        levels = [across(x) for across, x in zip(self.across, levels)]
        for i in (1, 0):
            levels[i] = levels[i] + F.interpolate(levels[i + 1], size=levels[i].shape[2:], mode="nearest")
        rows = lambda t, k: t.permute(0, 2, 3, 1).reshape(t.shape[0], -1, k)
        scores = torch.cat([rows(self.classes(x), 80) for x in levels], 1).sigmoid()
        return torch.cat([scores, torch.cat([rows(self.boxes(x), 4) for x in levels], 1)], 2)


class Enlarging(nn.Module):
    """Residual blocks without norms, then pixels shuffled apart (EDSR)."""

    def __init__(self, channels=64, blocks=16, factor=4):
        super().__init__()
        conv = lambda a, b: nn.Conv2d(a, b, 3, padding=1)
        self.first = conv(3, channels)
        self.blocks = nn.ModuleList(
            nn.Sequential(conv(channels, channels), nn.ReLU(), conv(channels, channels)) for _ in range(blocks)
        )
        up = [m for _ in range(factor // 2) for m in (conv(channels, 4 * channels), nn.PixelShuffle(2))]
        self.last = nn.Sequential(*up, conv(channels, 3))

    def forward(self, x):
        first = x = self.first(x)
        for block in self.blocks:
            x = x + 0.1 * block(x)
        return self.last(x + first)


class AxialAttention(nn.Module):
    """Attention along the rows, then along the columns of a picture, with convolutions between."""

    def __init__(self, dim=128, heads=4, layers=4):
        super().__init__()
        self.first = nn.Conv2d(3, dim, 4, 4)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2 * layers))
        self.attend = nn.ModuleList(Heads(dim, heads) for _ in range(2 * layers))
        part = lambda: nn.Sequential(nn.Conv2d(dim, dim, 3, padding=1, groups=dim), nn.BatchNorm2d(dim), nn.Hardswish())
        self.local = nn.ModuleList(part() for _ in range(layers))

    def forward(self, x):
        x = self.first(x)
        n, dim, height, width = x.shape
        for i, local in enumerate(self.local):
            x = x + local(x)
            rows = x.permute(0, 2, 3, 1).reshape(n * height, width, dim)
            rows = rows + self.attend[2 * i](self.norms[2 * i](rows))
            columns = rows.view(n, height, width, dim).transpose(1, 2).reshape(n * width, height, dim)
            columns = columns + self.attend[2 * i + 1](self.norms[2 * i + 1](columns))
            x = columns.view(n, width, height, dim).permute(0, 3, 2, 1)
        return x.mean((2, 3))


# ---- Tables, graphs, control


class CrossNetwork(nn.Module):
    """Embeddings, crosses of low rank beside a stack of products, and pairs by a factorization machine (DCN v2)."""

    def __init__(self, fields=32, rows=50_000, dim=16, rank=64):
        super().__init__()
        wide = fields * dim
        self.embed = nn.Embedding(fields * rows, dim)
        self.register_buffer("start", torch.arange(fields) * rows)
        self.down = nn.ModuleList(nn.Linear(wide, rank, bias=False) for _ in range(3))
        self.up = nn.ModuleList(nn.Linear(rank, wide) for _ in range(3))
        layer = lambda a, b: [nn.Linear(a, b), nn.BatchNorm1d(b), nn.ReLU()]
        self.deep = nn.Sequential(*layer(wide, 512), *layer(512, 256))
        self.last = nn.Linear(wide + 256, 1)

    def forward(self, ids):
        rows = self.embed(ids + self.start)
        x = first = rows.flatten(1)
        for down, up in zip(self.down, self.up):
            x = first * up(down(x)) + x
        pairs = 0.5 * (rows.sum(1).square() - rows.square().sum(1)).sum(1, keepdim=True)
        return torch.sigmoid(self.last(torch.cat([x, self.deep(first)], 1)) + pairs)


class EdgeAttention(nn.Module):
    """Softmax over the edges that reach a node, three layers (GAT)."""

    def __init__(self, nodes=10_000, dim=128, heads=4, classes=40):
        super().__init__()
        self.nodes, self.heads = nodes, heads
        self.rows = nn.ModuleList(nn.Linear(dim, dim) for _ in range(3))
        self.from_source = nn.Parameter(torch.randn(3, heads, dim // heads) * 0.1)
        self.to_target = nn.Parameter(torch.randn(3, heads, dim // heads) * 0.1)
        self.last = nn.Linear(dim, classes)

    def forward(self, x, edges):
        source, target = edges
        spread = target[:, None].expand(-1, self.heads)
        for i, rows in enumerate(self.rows):
            h = rows(x).view(self.nodes, self.heads, -1)
            a, b = (h * self.from_source[i]).sum(-1), (h * self.to_target[i]).sum(-1)
            score = F.leaky_relu(a[source] + b[target], 0.2)
            top = torch.full_like(a, -torch.inf).scatter_reduce(0, spread, score, "amax", include_self=True)
            weight = (score - top[target]).exp()
            total = torch.zeros_like(a).index_add(0, target, weight)
            weight = weight / (total[target] + 1e-6)
            x = F.elu(torch.zeros_like(h).index_add(0, target, h[source] * weight[..., None]).flatten(1))
        return self.last(x)


class ActorCritic(nn.Module):
    """Features normalised, two stacks of products, a distribution's log probabilities and a value (PPO)."""

    def __init__(self, features=64, hidden=256, actions=16):
        super().__init__()
        stack = lambda out: nn.Sequential(
            *(m for a in (features, hidden) for m in (nn.Linear(a, hidden), nn.LayerNorm(hidden), nn.Tanh())),
            nn.Linear(hidden, out),
        )
        self.policy, self.value = stack(2 * actions), stack(1)
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("scale", torch.ones(features))

    def forward(self, x, action):
        x = ((x - self.mean) / self.scale).clamp(-5, 5)
        mean, log_scale = self.policy(x).chunk(2, -1)
        log_scale = log_scale.clamp(-5, 2)
        density = -0.5 * ((action - mean) / log_scale.exp()).square() - log_scale - 0.5 * math.log(2 * math.pi)
        entropy = (log_scale + 0.5 + 0.5 * math.log(2 * math.pi)).sum(-1, keepdim=True)
        return torch.cat([density.sum(-1, keepdim=True), entropy, self.value(x)], -1)


class Fields(nn.Module):
    """Colours and densities of points along rays, summed up along them (NeRF)."""

    def __init__(self, hidden=256, octaves=10):
        super().__init__()
        self.register_buffer("bands", 2.0 ** torch.arange(octaves))
        wide = 3 + 6 * octaves
        self.first = nn.Sequential(nn.Linear(wide, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.second = nn.Sequential(nn.Linear(hidden + wide, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.density, self.colour = nn.Linear(hidden, 1), nn.Linear(hidden, 3)

    def forward(self, points):
        angles = (points[..., None] * self.bands).flatten(-2)
        x = torch.cat([points, angles.sin(), angles.cos()], -1)
        h = self.second(torch.cat([self.first(x), x], -1))
        alpha = 1 - torch.exp(-F.softplus(self.density(h)) * 0.03)
        passed = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha[:, :-1] + 1e-6], 1), 1)
        return (alpha * passed * self.colour(h).sigmoid()).sum(1)


class Speaker(nn.Module):
    """Words read by recurrent units, attended to while others are written with their own words (GRU)."""

    def __init__(self, words=10_000, dim=256):
        super().__init__()
        self.source, self.target = nn.Embedding(words, dim), nn.Embedding(words, dim)
        self.read, self.write = nn.GRU(dim, dim, batch_first=True), nn.GRU(dim, dim, batch_first=True)
        self.join, self.last = nn.Linear(2 * dim, dim), nn.Linear(dim, words)

    def forward(self, source, target):
        memory, state = self.read(self.source(source))
        rows, _ = self.write(self.target(target), state)
        weights = (rows @ memory.transpose(1, 2) / 16).softmax(-1)
        return self.last(torch.tanh(self.join(torch.cat([rows, weights @ memory], -1))))
