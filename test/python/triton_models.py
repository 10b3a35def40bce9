"""Models whose parts are kernels that a user wrote in Triton, each beside the same in plain torch: a mixture of
experts, and a small Llama whose norms and rotary embeddings are kernels in both directions.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

# ---- A mixture of experts: rows of tokens by expert, padded to blocks that have one expert each ----


@triton.jit
def experts_kernel(
    x, w, out, tokens, expert_of_block, count, depth, width, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):
    token = tl.load(tokens + tl.program_id(0) * M + tl.arange(0, M))
    expert = tl.load(expert_of_block + tl.program_id(0))
    columns = tl.program_id(1) * N + tl.arange(0, N)
    there = token < count
    total = tl.zeros((M, N), dtype=tl.float32)
    for begin in range(0, depth, K):
        inner = begin + tl.arange(0, K)
        rows = tl.load(x + token[:, None] * depth + inner[None, :], there[:, None] & (inner[None, :] < depth), 0.0)
        at = expert * depth * width + inner[:, None] * width + columns[None, :]
        total += tl.dot(rows, tl.load(w + at, (inner[:, None] < depth) & (columns[None, :] < width), 0.0))
    tl.store(out + token[:, None] * width + columns[None, :], total, there[:, None] & (columns[None, :] < width))


def by_expert(expert, experts, block):
    """(token of each row, expert of each block): rows without a token have the number of tokens."""
    count = expert.shape[0]
    of = F.one_hot(expert, experts)
    padded = (of.sum(0) + block - 1) // block * block
    ends = padded.cumsum(0)
    place = (ends - padded)[expert] + of.cumsum(0).gather(1, expert[:, None])[:, 0] - 1
    blocks = experts + count // block
    tokens = expert.new_full((blocks * block,), count).scatter(0, place, torch.arange(count, device=expert.device))
    starts = torch.arange(blocks, device=expert.device) * block
    return tokens, torch.searchsorted(ends, starts, right=True).clamp(max=experts - 1)


def mixture(x, gate, w):
    """Each token by the two experts that its gate likes best."""
    weight, chosen = (x @ gate).softmax(-1).topk(2, -1)
    made = []
    for k in range(2):
        tokens, expert_of_block = by_expert(chosen[:, k], w.shape[0], 16)
        out = torch.empty(x.shape[0], w.shape[2], dtype=x.dtype, device=x.device)
        grid = lambda meta: (tokens.shape[0] // meta["M"], triton.cdiv(w.shape[2], meta["N"]))  # noqa: E731
        experts_kernel[grid](x, w, out, tokens, expert_of_block, x.shape[0], x.shape[1], w.shape[2], M=16, N=32, K=16)
        made.append(out * weight[:, k, None])
    return F.silu(made[0] + made[1])


def plain_mixture(x, gate, w):
    weight, chosen = (x @ gate).softmax(-1).topk(2, -1)
    each = torch.einsum("td,edn->ten", x, w)
    return F.silu((each.gather(1, chosen[:, :, None].expand(-1, -1, w.shape[2])) * weight[:, :, None]).sum(1))


def mixture_inputs(tokens=40, depth=24, width=40, experts=4, seed=0, device="cpu"):
    generator = torch.Generator().manual_seed(seed)
    sizes = (tokens, depth), (depth, experts), (experts, depth, width)
    return [torch.randn(s, generator=generator, device="cpu").to(device) * 0.5 for s in sizes]


# ---- A small Llama ----


@triton.jit
def norm_kernel(x, gain, out, scales, rows, columns, eps, R: tl.constexpr, C: tl.constexpr):
    i, j = tl.program_id(0) * R + tl.arange(0, R), tl.arange(0, C)
    inside = (i[:, None] < rows) & (j[None, :] < columns)
    value = tl.load(x + i[:, None] * columns + j[None, :], inside, 0.0)
    scale = tl.rsqrt(tl.sum(value * value, 1) / columns + eps)
    tl.store(scales + i, scale, i < rows)
    made = value * scale[:, None] * tl.load(gain + j, j < columns, 0.0)[None, :]
    tl.store(out + i[:, None] * columns + j[None, :], made, inside)


@triton.jit
def norm_backward_kernel(x, gain, scales, dy, dx, dgain, rows, columns, R: tl.constexpr, C: tl.constexpr):
    i, j = tl.program_id(0) * R + tl.arange(0, R), tl.arange(0, C)
    inside = (i[:, None] < rows) & (j[None, :] < columns)
    at = i[:, None] * columns + j[None, :]
    scale = tl.load(scales + i, i < rows, 0.0)[:, None]
    normal, given = tl.load(x + at, inside, 0.0) * scale, tl.load(dy + at, inside, 0.0)
    through = given * tl.load(gain + j, j < columns, 0.0)[None, :]
    shared = tl.sum(through * normal, 1)[:, None] / columns
    tl.store(dx + at, (through - normal * shared) * scale, inside)
    tl.atomic_add(dgain + j, tl.sum(given * normal, 0), j < columns)


ROWS = 16  # of a program


class Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gain, eps):
        flat = x.reshape(-1, x.shape[-1])
        out, scales = torch.empty_like(flat), torch.empty(flat.shape[0], device=x.device)
        rows, columns = flat.shape
        grid, block = (triton.cdiv(rows, ROWS),), triton.next_power_of_2(columns)
        norm_kernel[grid](flat, gain, out, scales, rows, columns, eps, R=ROWS, C=block)
        ctx.save_for_backward(flat, gain, scales)
        return out.view(x.shape)

    @staticmethod
    def backward(ctx, dy):
        flat, gain, scales = ctx.saved_tensors
        dx, dgain = torch.empty_like(flat), torch.zeros_like(gain)
        rows, columns = flat.shape
        grid, block = (triton.cdiv(rows, ROWS),), triton.next_power_of_2(columns)
        given = dy.reshape(rows, columns).contiguous()
        norm_backward_kernel[grid](flat, gain, scales, given, dx, dgain, rows, columns, R=ROWS, C=block)
        return dx.view(dy.shape), dgain, None


@triton.jit
def rotary_kernel(x, cosines, sines, rows, length, sign, H: tl.constexpr, R: tl.constexpr):
    """In place: pairs of elements, H apart, turn by the angle of their row's place in its sequence."""
    i, j = tl.program_id(0) * R + tl.arange(0, R), tl.arange(0, H)
    inside = (i[:, None] < rows) & (j[None, :] < H)
    angle = (i % length)[:, None] * H + j[None, :]
    cosine, sine = tl.load(cosines + angle, inside, 0.0), tl.load(sines + angle, inside, 0.0) * sign
    first = x + i[:, None] * 2 * H + j[None, :]
    a, b = tl.load(first, inside, 0.0), tl.load(first + H, inside, 0.0)
    tl.store(first, a * cosine - b * sine, inside)
    tl.store(first + H, b * cosine + a * sine, inside)


class Rotary(torch.autograd.Function):
    @staticmethod
    def turned(x, cosines, sines, sign):
        out = x.contiguous().clone()
        rows, half = out.numel() // out.shape[-1], out.shape[-1] // 2
        rotary_kernel[(triton.cdiv(rows, 32),)](out, cosines, sines, rows, out.shape[-2], sign, H=half, R=32)
        return out

    @staticmethod
    def forward(ctx, x, cosines, sines):
        ctx.save_for_backward(cosines, sines)
        return Rotary.turned(x, cosines, sines, 1.0)

    @staticmethod
    def backward(ctx, dy):
        return Rotary.turned(dy, *ctx.saved_tensors, -1.0), None, None


def plain_norm(x, gain, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * gain


def plain_rotary(x, cosines, sines):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cosines - b * sines, b * cosines + a * sines], -1)


class Layer(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = (torch.nn.Parameter(torch.ones(width)) for _ in range(2))
        self.qkv, self.out = (torch.nn.Linear(width, n * width, bias=False) for n in (3, 1))
        self.up, self.down = (
            torch.nn.Linear(width, 4 * width, bias=False),
            torch.nn.Linear(2 * width, width, bias=False),
        )

    def forward(self, x, angles, norm, rotary):
        b, n, width = x.shape
        q, k, v = self.qkv(norm(x, self.first, 1e-5)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        made = F.scaled_dot_product_attention(rotary(q, *angles), rotary(k, *angles), v, is_causal=True)
        x = x + self.out(made.transpose(1, 2).reshape(b, n, width))
        gate, up = self.up(norm(x, self.second, 1e-5)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Llama(torch.nn.Module):
    """With `kernels` its norms and rotary embeddings are the user's; without, torch's."""

    def __init__(self, kernels, vocabulary=50, width=32, heads=2, layers=1, length=16, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.functions = (Norm.apply, Rotary.apply) if kernels else (plain_norm, plain_rotary)
        self.embedding = torch.nn.Embedding(vocabulary, width)
        self.layers = torch.nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.gain = torch.nn.Parameter(torch.ones(width))
        half = width // heads // 2
        angles = torch.arange(length)[:, None] / 10000 ** (torch.arange(half) / half)
        self.register_buffer("cosines", angles.cos())
        self.register_buffer("sines", angles.sin())

    def forward(self, tokens):
        x = self.embedding(tokens[:, :-1])
        for layer in self.layers:
            x = layer(x, (self.cosines, self.sines), *self.functions)
        logits = self.functions[0](x, self.gain, 1e-5) @ self.embedding.weight.t()
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def train(model, run, tokens, steps=10):
    """The loss of each step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        loss = run(tokens)
        losses.append(loss.detach())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return torch.stack(losses)
