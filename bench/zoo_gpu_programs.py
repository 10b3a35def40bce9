"""Networks of `zoo_later_models.py` that are written here: programs that people train and serve on GPUs and that
neither `timm` nor `transformers` has in this form.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from zoo_gpu_networks import Heads, Scale

# ---- Pictures, films and signals


class Film(nn.Module):
    """Patches of a film; each block attends within a picture, then along the time (latent video transformers)."""

    def __init__(self, dim=512, heads=8, depth=6, patch=16):
        super().__init__()
        self.patches = nn.Conv3d(3, dim, (2, patch, patch), (2, patch, patch))
        self.space = nn.ModuleList(Heads(dim, heads) for _ in range(depth))
        self.time = nn.ModuleList(Heads(dim, heads, causal=True) for _ in range(depth))
        self.mlps = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
            for _ in range(depth)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2 * depth))
        self.last = nn.Linear(dim, 2 * patch * patch * 3)

    def forward(self, x):
        x = self.patches(x)
        n, dim, frames, high, wide = x.shape
        x = x.flatten(3).permute(0, 2, 3, 1)
        for i, (space, time, mlp) in enumerate(zip(self.space, self.time, self.mlps)):
            rows = self.norms[2 * i](x).reshape(n * frames, high * wide, dim)
            x = x + space(rows).view(n, frames, high * wide, dim)
            columns = self.norms[2 * i + 1](x).transpose(1, 2).reshape(n * high * wide, frames, dim)
            x = x + time(columns).view(n, high * wide, frames, dim).transpose(1, 2)
            x = x + mlp(x)
        return self.last(x)


class ActionUNet(nn.Module):
    """A U-Net along the time whose channels a condition scales and shifts (diffusion policies)."""

    def __init__(self, actions=16, condition=256, channels=(128, 256, 512)):
        super().__init__()
        first, middle, last = channels
        self.down = nn.ModuleList(self._block(a, b) for a, b in ((actions, first), (first, middle), (middle, last)))
        self.up = nn.ModuleList(self._block(a, b) for a, b in ((last + middle, middle), (middle + first, first)))
        self.films = nn.ModuleList(nn.Linear(condition, 2 * c) for c in (first, middle, last, middle, first))
        self.out = nn.Conv1d(first, actions, 1)

    @staticmethod
    def _block(inputs, outputs):
        return nn.ModuleList(
            [
                nn.Conv1d(inputs, outputs, 5, padding=2),
                nn.GroupNorm(8, outputs),
                nn.Conv1d(outputs, outputs, 5, padding=2),
            ]
        )

    def _apply_block(self, block, film, x, condition):
        scale, shift = film(F.mish(condition))[:, :, None].chunk(2, 1)
        return F.mish(block[2](F.mish(block[1](block[0](x))) * (1 + scale) + shift))

    def forward(self, x, condition):
        kept = []
        for block, film in zip(self.down, self.films):
            x = self._apply_block(block, film, x, condition)
            kept.append(x)
            x = F.avg_pool1d(x, 2) if len(kept) < 3 else x
        for block, film, level in zip(self.up, self.films[3:], (kept[1], kept[0])):
            x = F.interpolate(x, size=level.shape[-1], mode="linear")
            x = self._apply_block(block, film, torch.cat([x, level], 1), condition)
        return self.out(x)


class Codebook(nn.Module):
    """Pictures to codes and back: the nearest of 1,024 vectors stands for each place (VQ-VAE)."""

    def __init__(self, channels=128, codes=1024, size=64):
        super().__init__()
        c = channels
        self.encode = nn.Sequential(
            nn.Conv2d(3, c, 4, 2, 1), nn.SiLU(), nn.Conv2d(c, c, 4, 2, 1), nn.SiLU(), nn.Conv2d(c, size, 3, padding=1)
        )
        self.codes = nn.Parameter(torch.randn(codes, size))
        self.decode = nn.Sequential(
            nn.Conv2d(size, c, 3, padding=1),
            nn.SiLU(),
            nn.ConvTranspose2d(c, c, 4, 2, 1),
            nn.SiLU(),
            nn.ConvTranspose2d(c, 3, 4, 2, 1),
        )

    def forward(self, x):
        z = self.encode(x).permute(0, 2, 3, 1)
        flat = z.reshape(-1, z.shape[-1])
        distances = flat.square().sum(1, keepdim=True) - 2 * flat @ self.codes.t() + self.codes.square().sum(1)
        quantized = self.codes[distances.argmin(1)].view(z.shape)
        loss = (quantized.detach() - z).square().mean() * 0.25 + (quantized - z.detach()).square().mean()
        straight = z + (quantized - z).detach()
        return self.decode(straight.permute(0, 3, 1, 2)), loss


class Operators(nn.Module):
    """Products with the lowest frequencies of a field, beside products at each place (Fourier neural operator)."""

    def __init__(self, width=48, modes=16, depth=4):
        super().__init__()
        self.modes = modes
        self.first, self.last = nn.Linear(3, width), nn.Sequential(nn.Linear(width, 128), nn.GELU(), nn.Linear(128, 1))
        self.weights = nn.ParameterList(torch.randn(2, width, width, modes, modes, 2) / width for _ in range(depth))
        self.places = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(depth))

    def forward(self, x):
        m = self.modes
        x = self.first(x).permute(0, 3, 1, 2)
        for weights, places in zip(self.weights, self.places):
            waves = torch.fft.rfft2(x.float())
            low, high = torch.view_as_complex(weights.float())
            out = torch.zeros_like(waves)
            out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", waves[:, :, :m, :m], low)
            out[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", waves[:, :, -m:, :m], high)
            x = F.gelu(torch.fft.irfft2(out, s=x.shape[-2:]).to(x.dtype) + places(x))
        return self.last(x.permute(0, 2, 3, 1))


class Loudness(nn.Module):
    """Short-time spectra, triangular bands, logarithms, and convolutions along the time (keyword spotting)."""

    def __init__(self, bands=80, channels=256, words=35):
        super().__init__()
        self.register_buffer("window", torch.hann_window(400))
        self.register_buffer("bands", torch.rand(201, bands))
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.Conv1d(bands if i == 0 else channels, channels, 9, padding=4, groups=1 if i == 0 else 32),
                nn.BatchNorm1d(channels),
                nn.ReLU(),
                nn.Conv1d(channels, channels, 1),
            )
            for i in range(4)
        )
        self.last = nn.Linear(2 * channels, words)

    def forward(self, x):
        spectrum = torch.stft(
            x.float(), 400, 160, window=self.window.float(), center=True, return_complex=True, pad_mode="reflect"
        )
        power = spectrum.abs().square().transpose(1, 2) @ self.bands.float()
        x = (power + 1e-6).log()
        x = ((x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-5)).transpose(1, 2).to(self.last.weight.dtype)
        for i, layer in enumerate(self.layers):
            x = layer(x) + (x if i else 0)
        return self.last(torch.cat([x.mean(-1), x.std(-1)], 1))


class Critic(nn.Module):
    """Strided convolutions with slanted rectifiers and instance norms, a score for each patch (PatchGAN)."""

    def __init__(self, channels=64):
        super().__init__()
        c = channels
        layers = [nn.Conv2d(6, c, 4, 2, 1), nn.LeakyReLU(0.2)]
        for a, b, stride in ((c, 2 * c, 2), (2 * c, 4 * c, 2), (4 * c, 8 * c, 1)):
            layers += [nn.Conv2d(a, b, 4, stride, 1, bias=False), nn.InstanceNorm2d(b), nn.LeakyReLU(0.2)]
        self.layers = nn.Sequential(*layers, nn.Conv2d(8 * c, 1, 4, 1, 1))

    def forward(self, x, y):
        return self.layers(torch.cat([x, y], 1))


class DeformedAttention(nn.Module):
    """Each query reads four places of each of three pictures, where it asks for them (deformable DETR)."""

    def __init__(self, dim=256, heads=8, points=4, layers=4):
        super().__init__()
        self.heads, self.points = heads, points
        make = lambda out: nn.ModuleList(nn.Linear(dim, out) for _ in range(layers))
        self.values, self.outs = make(dim), make(dim)
        self.offsets, self.weights = make(heads * 3 * points * 2), make(heads * 3 * points)
        self.norms, self.ups = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers)), make(4 * dim)
        self.downs = nn.ModuleList(nn.Linear(4 * dim, dim) for _ in range(layers))
        self.corners = nn.Linear(dim, 2)

    def _sampled(self, levels, where):
        n, queries, heads = where.shape[:3]
        found = []
        for level, x in enumerate(levels):
            grid = (2 * where[:, :, :, level] - 1).transpose(1, 2).flatten(0, 1)
            picture = x.view(n * heads, -1, *x.shape[-2:])
            found.append(F.grid_sample(picture, grid, mode="bilinear", padding_mode="zeros", align_corners=False))
        return torch.stack(found, -2).flatten(-2)

    def forward(self, queries, a, b, c):
        n, count, dim = queries.shape
        corners = self.corners(queries).sigmoid()
        for i in range(len(self.values)):
            levels = [
                self.values[i](x.flatten(2).transpose(1, 2)).transpose(1, 2).reshape(n, dim, *x.shape[-2:])
                for x in (a, b, c)
            ]
            shape = (n, count, self.heads, 3, self.points)
            offsets = self.offsets[i](queries).view(*shape, 2) * 0.05
            weights = self.weights[i](queries).view(n, count, self.heads, -1).softmax(-1)
            found = self._sampled(levels, corners[:, :, None, None, None] + offsets)
            weights = weights.permute(0, 2, 1, 3).flatten(0, 1)[:, None]
            rows = (found * weights).sum(-1).view(n, dim, count).transpose(1, 2)
            queries = self.norms[i](queries + self.outs[i](rows))
            queries = queries + self.downs[i](F.relu(self.ups[i](queries)))
        return queries

    @staticmethod
    def inputs(n):
        return (torch.randn(n, 300, 256), *(torch.randn(n, 256, size, size) for size in (64, 32, 16)))


# ---- Words


class GatedRecall(nn.Module):
    """Attention without softmax whose memory fades by gates, in chunks of 64 words (gated linear attention)."""

    def __init__(self, dim=512, heads=4, depth=6, vocabulary=20000, chunk=64):
        super().__init__()
        self.heads, self.chunk = heads, chunk
        self.embed = nn.Embedding(vocabulary, dim)
        self.norms = nn.ModuleList(Scale(dim) for _ in range(2 * depth))
        self.qkvg = nn.ModuleList(nn.Linear(dim, 4 * dim, bias=False) for _ in range(depth))
        self.outs = nn.ModuleList(nn.Linear(dim, dim, bias=False) for _ in range(depth))
        self.ups = nn.ModuleList(nn.Linear(dim, 4 * dim, bias=False) for _ in range(depth))
        self.downs = nn.ModuleList(nn.Linear(2 * dim, dim, bias=False) for _ in range(depth))
        self.last = nn.Linear(dim, vocabulary, bias=False)

    def _recall(self, q, k, v, gate):
        """q, k, v: [n, heads, chunks, chunk, size]; gate: the logarithms of what remains, alike."""
        run = gate.cumsum(-2)
        q, k_in = q * run.exp(), k * (-run).exp()
        k_out = k * (run[..., -1:, :] - run).exp()
        scores = (q @ k_in.transpose(-1, -2)).tril()
        own = scores @ v
        memories = k_out.transpose(-1, -2) @ v
        state, states = torch.zeros_like(memories[:, :, 0]), []
        for i in range(memories.shape[2]):
            states.append(state)
            state = state * run[:, :, i, -1, :, None].exp() + memories[:, :, i]
        return own + q @ torch.stack(states, 2)

    def forward(self, ids):
        x = self.embed(ids)
        n, words, dim = x.shape
        for i, (qkvg, out, up, down) in enumerate(zip(self.qkvg, self.outs, self.ups, self.downs)):
            parts = qkvg(self.norms[2 * i](x)).view(n, words // self.chunk, self.chunk, 4, self.heads, -1)
            q, k, v, g = parts.permute(3, 0, 4, 1, 2, 5)
            rows = self._recall(q, k / math.sqrt(k.shape[-1]), v, F.logsigmoid(g.float()).to(x.dtype) / 16)
            x = x + out(rows.permute(0, 2, 3, 1, 4).reshape(n, words, dim))
            a, b = up(self.norms[2 * i + 1](x)).chunk(2, -1)
            x = x + down(F.silu(a) * b)
        return self.last(x)


class ShiftedRelations(nn.Module):
    """Attention whose scores by distance are made by a product and shifted into place (Transformer-XL)."""

    def __init__(self, dim=512, heads=8, depth=6, vocabulary=20000):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(vocabulary, dim)
        make = lambda a, b: nn.ModuleList(nn.Linear(a, b) for _ in range(depth))
        self.qkv, self.places, self.outs = make(dim, 3 * dim), make(dim, dim), make(dim, dim)
        self.u = nn.Parameter(torch.randn(heads, dim // heads))
        self.v = nn.Parameter(torch.randn(heads, dim // heads))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2 * depth))
        self.ups, self.downs = make(dim, 4 * dim), make(4 * dim, dim)
        self.last = nn.Linear(dim, vocabulary)

    @staticmethod
    def _shifted(x):
        n, heads, rows, columns = x.shape
        return F.pad(x, (1, 0)).view(n, heads, columns + 1, rows)[:, :, 1:].view(n, heads, rows, columns)

    def forward(self, ids):
        x = self.embed(ids)
        n, words, dim = x.shape
        angles = torch.arange(words - 1, -1, -1, device=x.device)[:, None] * torch.exp(
            -torch.arange(0, dim, 2, device=x.device) / dim * math.log(10000)
        )
        waves = torch.cat([angles.sin(), angles.cos()], -1).to(x.dtype)
        hidden = torch.ones(words, words, dtype=torch.bool, device=x.device).triu(1)
        for i in range(len(self.qkv)):
            q, k, v = self.qkv[i](x).view(n, words, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            r = self.places[i](waves).view(words, self.heads, -1).transpose(0, 1)
            content = (q + self.u[:, None]) @ k.transpose(-1, -2)
            distance = self._shifted((q + self.v[:, None]) @ r.transpose(-1, -2))
            scores = ((content + distance) / math.sqrt(q.shape[-1])).masked_fill(hidden, -1e4)
            rows = (scores.softmax(-1) @ v).transpose(1, 2).reshape(n, words, dim)
            x = self.norms[2 * i](x + self.outs[i](rows))
            x = self.norms[2 * i + 1](x + self.downs[i](F.relu(self.ups[i](x))))
        return self.last(x)


class SkippedWords(nn.Module):
    """Every other block works on an eighth of the words, which a product chooses (mixture of depths)."""

    def __init__(self, dim=512, heads=8, depth=8, vocabulary=20000):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        self.attend = nn.ModuleList(Heads(dim, heads, causal=True) for _ in range(depth))
        self.norms = nn.ModuleList(Scale(dim) for _ in range(2 * depth))
        self.mlps = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)) for _ in range(depth)
        )
        self.routers = nn.ModuleList(nn.Linear(dim, 1) for _ in range(depth))
        self.last = nn.Linear(dim, vocabulary)

    def _block(self, i, x):
        x = x + self.attend[i](self.norms[2 * i](x))
        return x + self.mlps[i](self.norms[2 * i + 1](x))

    def forward(self, ids):
        x = self.embed(ids)
        for i in range(len(self.attend)):
            if i % 2 == 0:
                x = self._block(i, x)
                continue
            weights = self.routers[i](x).squeeze(-1)
            top, places = weights.topk(x.shape[1] // 8, dim=1)
            places, order = places.sort(dim=1)
            rows = places[:, :, None].expand(-1, -1, x.shape[2])
            chosen = x.gather(1, rows)
            gates = top.gather(1, order)[:, :, None].sigmoid()
            x = x.scatter_add(1, rows, gates * (self._block(i, chosen) - chosen))
        return self.last(x)


class Tags(nn.Module):
    """Scores of tag sequences: the sum over all of them, by a recurrence over the words (CRF)."""

    def __init__(self, vocabulary=20000, dim=256, tags=48):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        self.convolutions = nn.ModuleList(nn.Conv1d(dim, dim, 3, padding=1) for _ in range(3))
        self.last = nn.Linear(dim, tags)
        self.moves = nn.Parameter(torch.randn(tags, tags) * 0.1)

    def forward(self, ids, tags):
        x = self.embed(ids).transpose(1, 2)
        for convolution in self.convolutions:
            x = x + F.relu(convolution(x))
        scores = self.last(x.transpose(1, 2)).float()
        moves = self.moves.float()
        alpha = scores[:, 0]
        for t in range(1, ids.shape[1]):
            alpha = torch.logsumexp(alpha[:, :, None] + moves, 1) + scores[:, t]
        own = scores.gather(2, tags[:, :, None]).squeeze(2).sum(1) + moves[tags[:, :-1], tags[:, 1:]].sum(1)
        return alpha.logsumexp(1) - own


class Sampling(nn.Module):
    """The last layer of a language model and the choice of a word: penalties, the likeliest that sum to 0.9, a given
    draw.
    """

    def __init__(self, dim=1024, vocabulary=32000):
        super().__init__()
        self.norm, self.last = Scale(dim), nn.Linear(dim, vocabulary, bias=False)

    def forward(self, x, said, draws):
        scores = self.last(self.norm(x)).float()
        before = scores.gather(1, said)
        scores = scores.scatter(1, said, torch.where(before > 0, before / 1.2, before * 1.2)) / 0.8
        sorted, places = scores.sort(-1, descending=True)
        chances = sorted.softmax(-1)
        chances = chances.masked_fill(chances.cumsum(-1) - chances > 0.9, 0.0)
        run = chances.cumsum(-1)
        chosen = torch.searchsorted(run, draws * run[:, -1:]).clamp(max=scores.shape[-1] - 1)
        return places.gather(1, chosen), sorted[:, :8]


class NarrowCache(nn.Module):
    """A step of decoding whose keys and values of all heads lie in one narrow row for each word (latent attention)."""

    def __init__(self, dim=1024, heads=16, narrow=256, turned=64, size=64, layers=6, vocabulary=32000):
        super().__init__()
        self.heads, self.size, self.turned = heads, size, turned
        make = lambda a, b: nn.ModuleList(nn.Linear(a, b, bias=False) for _ in range(layers))
        self.embed = nn.Embedding(vocabulary, dim)
        self.q, self.to_narrow = make(dim, heads * (size + turned)), make(dim, narrow + turned)
        self.to_keys = nn.ParameterList(torch.randn(heads, size, narrow) * 0.05 for _ in range(layers))
        self.to_values = nn.ParameterList(torch.randn(heads, narrow, size) * 0.05 for _ in range(layers))
        self.outs, self.ups, self.downs = make(heads * size, dim), make(dim, 5504), make(2752, dim)
        self.norms = nn.ModuleList(Scale(dim) for _ in range(2 * layers))
        self.last = nn.Linear(dim, vocabulary, bias=False)

    def forward(self, words, place, caches):
        x = self.embed(words)
        n = x.shape[0]
        seen = torch.arange(caches.shape[2], device=x.device) <= place
        for i in range(len(self.q)):
            h = self.norms[2 * i](x)
            cache = caches[i].index_copy(1, place, self.to_narrow[i](h)[:, None])
            q, turned = self.q[i](h).view(n, self.heads, -1).split([self.size, self.turned], -1)
            narrow = torch.einsum("nhd,hdc->nhc", q, self.to_keys[i])
            keys = cache.transpose(1, 2)
            scores = torch.cat([narrow, turned], -1) @ keys / math.sqrt(self.size + self.turned)
            weights = scores.masked_fill(~seen, float("-inf")).softmax(-1)
            rows = weights @ cache[..., : narrow.shape[-1]]
            x = x + self.outs[i](torch.einsum("nhc,hcd->nhd", rows, self.to_values[i]).flatten(1))
            a, b = self.ups[i](self.norms[2 * i + 1](x)).chunk(2, -1)
            x = x + self.downs[i](F.silu(a) * b)
        return self.last(x)

    @staticmethod
    def inputs(n):
        return (torch.randint(0, 32000, (n,)), torch.tensor([900]), torch.randn(6, n, 1024, 320))


class WordsAndPictures(nn.Module):
    """Two towers, means of tokens, cosines of all pairs, and the loss of both directions (CLIP's objective)."""

    def __init__(self, dim=384, heads=6, depth=4, vocabulary=20000):
        super().__init__()
        self.embed, self.patches = nn.Embedding(vocabulary, dim), nn.Conv2d(3, dim, 16, 16)
        layer = lambda: nn.TransformerEncoderLayer(dim, heads, 4 * dim, 0.0, "gelu", batch_first=True, norm_first=True)
        self.words, self.pictures = (nn.ModuleList(layer() for _ in range(depth)) for _ in range(2))
        self.scale = nn.Parameter(torch.tensor(2.6))

    def forward(self, ids, pictures):
        x, y = self.embed(ids), self.patches(pictures).flatten(2).transpose(1, 2)
        for words, picture in zip(self.words, self.pictures):
            x, y = words(x), picture(y)
        mask = (ids > 1000).to(x.dtype)[:, :, None]
        x = F.normalize((x * mask).sum(1) / mask.sum(1).clamp(min=1), dim=-1)
        y = F.normalize(y.mean(1), dim=-1)
        scores = self.scale.exp() * x @ y.t()
        own = torch.arange(scores.shape[0], device=x.device)
        return F.cross_entropy(scores, own) + F.cross_entropy(scores.t(), own)


# ---- Experts, tables, graphs, functions


class SoftExperts(nn.Module):
    """Slots take weighted means of all tokens, experts take slots, tokens take weighted means of slots (Soft MoE)."""

    def __init__(self, dim=384, experts=16, slots=12, depth=4):
        super().__init__()
        self.slots = nn.ParameterList(torch.randn(experts, slots, dim) * 0.05 for _ in range(depth))
        self.ups = nn.ParameterList(torch.randn(experts, dim, 4 * dim) * 0.03 for _ in range(depth))
        self.downs = nn.ParameterList(torch.randn(experts, 4 * dim, dim) * 0.03 for _ in range(depth))
        self.attend = nn.ModuleList(Heads(dim, 6) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2 * depth))

    def forward(self, x):
        for i, (slots, up, down) in enumerate(zip(self.slots, self.ups, self.downs)):
            x = x + self.attend[i](self.norms[2 * i](x))
            h = self.norms[2 * i + 1](x)
            scores = torch.einsum("ntd,esd->ntes", F.normalize(h, dim=-1), F.normalize(slots, dim=-1)) * 10
            inward, outward = scores.softmax(1), scores.flatten(2).softmax(-1).view(scores.shape)
            rows = torch.einsum("ntd,ntes->nesd", h, inward)
            rows = torch.einsum("nesh,ehd->nesd", F.gelu(torch.einsum("nesd,edh->nesh", rows, up)), down)
            x = x + torch.einsum("nesd,ntes->ntd", rows, outward)
        return x


class Interests(nn.Module):
    """What a user clicked, weighted by what is offered, between embeddings and products (deep interest network)."""

    def __init__(self, items=100_000, dim=48, fields=8):
        super().__init__()
        self.items, self.users = nn.Embedding(items, dim), nn.Embedding(20_000, dim)
        self.weigh = nn.Sequential(nn.Linear(4 * dim, 64), nn.PReLU(), nn.Linear(64, 1))
        self.top = nn.Sequential(
            nn.Linear(dim * (fields + 2), 256), nn.BatchNorm1d(256), nn.PReLU(), nn.Linear(256, 64), nn.PReLU()
        )
        self.last = nn.Linear(64, 1)

    def forward(self, clicked, lengths, offered, user):
        rows, offer = self.items(clicked), self.items(offered)
        wide = offer[:, None].expand_as(rows)
        scores = self.weigh(torch.cat([rows, wide, rows - wide, rows * wide], -1)).squeeze(-1)
        seen = torch.arange(clicked.shape[1], device=clicked.device) < lengths[:, None]
        weights = scores.masked_fill(~seen, -1e4).softmax(-1)
        interest = (weights[:, None] @ rows).squeeze(1)
        return self.last(self.top(torch.cat([interest, offer, self.users(user).flatten(1)], 1)))

    @staticmethod
    def inputs(n):
        return (
            torch.randint(0, 100_000, (n, 50)),
            torch.randint(1, 51, (n,)),
            torch.randint(0, 100_000, (n,)),
            torch.randint(0, 20_000, (n, 8)),
        )


class Particles(nn.Module):
    """Messages by distance move particles and change their features (equivariant graph network)."""

    def __init__(self, dim=128, depth=4):
        super().__init__()
        self.edge = nn.ModuleList(
            nn.Sequential(nn.Linear(2 * dim + 1, dim), nn.SiLU(), nn.Linear(dim, dim), nn.SiLU()) for _ in range(depth)
        )
        self.move = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, 1, bias=False)) for _ in range(depth)
        )
        self.node = nn.ModuleList(
            nn.Sequential(nn.Linear(2 * dim, dim), nn.SiLU(), nn.Linear(dim, dim)) for _ in range(depth)
        )

    def forward(self, h, x, edges):
        source, target = edges
        for edge, move, node in zip(self.edge, self.move, self.node):
            apart = x[source] - x[target]
            distance = apart.square().sum(-1, keepdim=True)
            message = edge(torch.cat([h[source], h[target], distance], -1))
            step = apart / (distance.sqrt() + 1) * move(message)
            x = x + torch.zeros_like(x).index_add(0, target, step.to(x.dtype)) * 0.1
            sums = torch.zeros_like(h).index_add(0, target, message.to(h.dtype))
            h = h + node(torch.cat([h, sums], -1))
        return h, x

    @staticmethod
    def inputs(n):
        return (torch.randn(8192, 128), torch.randn(8192, 3), torch.randint(0, 8192, (2, 65536)))


class Splines(nn.Module):
    """Layers whose weights are functions: sums of cubic B-splines on a grid (Kolmogorov-Arnold networks)."""

    def __init__(self, sizes=(64, 128, 128, 10), cells=8):
        super().__init__()
        self.register_buffer("grid", torch.linspace(-1.75, 1.75, cells + 7))
        pairs = list(zip(sizes, sizes[1:]))
        self.base = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairs)
        self.splines = nn.ParameterList(torch.randn(b, a * (cells + 3)) * 0.05 for a, b in pairs)

    def _bases(self, x):
        x, grid = x[..., None], self.grid
        bases = ((x >= grid[:-1]) & (x < grid[1:])).to(x.dtype)
        for k in range(1, 4):
            left = (x - grid[: -(k + 1)]) / (grid[k:-1] - grid[: -(k + 1)])
            right = (grid[k + 1 :] - x) / (grid[k + 1 :] - grid[1:-k])
            bases = left * bases[..., :-1] + right * bases[..., 1:]
        return bases

    def forward(self, x):
        for base, splines in zip(self.base, self.splines):
            x = base(F.silu(x)) + self._bases(x).flatten(1) @ splines.t()
        return x


class HashedField(nn.Module):
    """Colours of points from hashed grids of sixteen resolutions, read between their corners (Instant NGP)."""

    def __init__(self, levels=16, rows=2**17, features=2):
        super().__init__()
        self.tables = nn.Parameter(torch.randn(levels, rows, features) * 0.1)
        self.register_buffer("sizes", (16 * 1.38 ** torch.arange(levels)).floor())
        self.register_buffer("primes", torch.tensor([1, 2654435761, 805459861]))
        self.register_buffer("corners", torch.cartesian_prod(*[torch.arange(2)] * 3))
        self.net = nn.Sequential(
            nn.Linear(levels * features, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4)
        )

    def forward(self, x):
        places = x[:, None].float() * self.sizes[:, None].float()
        low = places.floor()
        part = (places - low)[:, :, None]
        corner = low.long()[:, :, None] + self.corners
        hashed = corner * self.primes
        index = (hashed[..., 0] ^ hashed[..., 1] ^ hashed[..., 2]) % self.tables.shape[1]
        levels = torch.arange(self.tables.shape[0], device=x.device)[:, None]
        weights = torch.where(self.corners.bool(), part, 1 - part).prod(-1)
        rows = self.tables[levels, index]
        return self.net((rows * weights[..., None].to(rows.dtype)).sum(2).flatten(1))


class OwnWeights(nn.Module):
    """Filters that are made for each picture, mixed from eight, and applied in groups (dynamic convolution)."""

    def __init__(self, channels=96, kernels=8, depth=6):
        super().__init__()
        self.first = nn.Conv2d(3, channels, 4, 4)
        self.kernels = nn.ParameterList(torch.randn(kernels, channels, channels, 3, 3) * 0.03 for _ in range(depth))
        self.weigh = nn.ModuleList(
            nn.Sequential(nn.Linear(channels, channels // 4), nn.ReLU(), nn.Linear(channels // 4, kernels))
            for _ in range(depth)
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(depth))
        self.last = nn.Linear(channels, 100)

    def forward(self, x):
        x = self.first(x)
        n, c, h, w = x.shape
        for kernels, weigh, norm in zip(self.kernels, self.weigh, self.norms):
            mix = (weigh(x.mean((2, 3))) / 30).softmax(-1)
            own = (mix @ kernels.flatten(1)).view(n * c, c, 3, 3)
            x = x + F.relu(norm(F.conv2d(x.reshape(1, n * c, h, w), own, padding=1, groups=n).view(n, c, h, w)))
        return self.last(x.mean((2, 3)))


class SmallIntegers(nn.Module):
    """Linear layers whose weights are bytes with a scale for each 64 of a row, made wide where they are used."""

    def __init__(self, dim=1024, depth=6):
        super().__init__()
        for i in range(depth):
            a, b = (dim, 4 * dim) if i % 2 == 0 else (4 * dim, dim)
            self.register_buffer(f"weight{i}", torch.randint(-127, 128, (b, a // 64, 64), dtype=torch.int8))
            self.register_parameter(f"scale{i}", nn.Parameter(torch.rand(b, a // 64, 1) * 1e-3))
        self.depth, self.norm = depth, Scale(dim)

    def forward(self, x):
        for i in range(0, self.depth, 2):
            h = self.norm(x)
            for k in (i, i + 1):
                weight = getattr(self, f"weight{k}").to(h.dtype) * getattr(self, f"scale{k}")
                h = h @ weight.flatten(1).t()
                h = F.gelu(h) if k == i else h
            x = x + h
        return x
