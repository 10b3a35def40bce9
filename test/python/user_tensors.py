"""Programs of `user_harness.py`: views, writes, numbers, structures, higher-order operators."""

import dataclasses
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

from user_harness import program

R = torch.randn
C = lambda *s: torch.randn(*s, dtype=torch.complex64)


@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    mask: torch.Tensor
    scale: float = 1.0
    name: str = ""


torch.utils._pytree.register_dataclass(Batch, serialized_type_name="user_tensors.Batch")


@program(
    lambda: (Batch(R(3, 4), R(3, 4) > 0, 2.0, "a"),),
    lambda: (Batch(R(5, 4), R(5, 4) > 0, 2.0, "a"),),
    grad=True,
    package=False,
)
def dataclass_in_and_out(batch):
    x = batch.x * batch.scale
    return Batch(torch.where(batch.mask, x, 0), ~batch.mask, batch.scale * 2, batch.name + "b"), x.sum()


@program(lambda: (R(4, 5), 3, 2.5, True), lambda: (R(6, 5), 4, 1.5, False), lambda: (R(6, 5), 7, -1.5, True))
def numbers_of_all_types(x, n, f, flag):
    y = x * n + f
    y = y.roll(n, 0) if flag else y - n // 2
    return y, n * 2, n + f, n / 3, not flag, x.shape[0] * n, math.sqrt(n), y[: n % 3], torch.full((n,), f), y.size()


@program(lambda: (R(6, 8),), lambda: (R(9, 8),), grad=True)
def as_strided_windows(x):
    x = x.contiguous()
    w = x.as_strided((x.shape[0] - 2, 3, 8), (8, 8, 1))
    d = x.as_strided((4,), (9,), 1)
    return w.mean(1), w, d, x.unfold(1, 4, 2), x.view(-1)[::3], x.unfold(0, 3, 1).sum(-1)


@program(lambda: (R(2, 3, 8, 8),), lambda: (R(1, 3, 10, 6),), grad=True, bf16=True)
def patches_there_and_back(x):
    n, c, h, w = x.shape
    columns = F.unfold(x, 3, padding=1, stride=2)
    back = F.fold(columns, (h, w), 3, padding=1, stride=2)
    count = F.fold(F.unfold(torch.ones_like(x), 3, padding=1, stride=2), (h, w), 3, padding=1, stride=2)
    patches = x.unfold(2, 2, 2).unfold(3, 2, 2).permute(0, 2, 3, 1, 4, 5).flatten(3)
    shuffled = F.pixel_shuffle(F.pixel_unshuffle(x, 2), 2)
    return back / count.clamp(min=1), patches, shuffled, columns.shape[-1]


@program(lambda: (torch.zeros(6, 5), torch.tensor([0, 2, 2, 5]), torch.tensor([1, 1, 1, 4]), R(4)))
def index_put_of_all_kinds(x, i, j, v):
    x.index_put_((i, j), v, accumulate=True)
    x[i] += 1
    x[i, j] = v
    x[:, j[:2]] *= 2
    x[torch.tensor([True, False, True, False, False, True])] -= 3
    y = x.clone()
    y[1:4, ::2] = torch.arange(9.0).view(3, 3)
    y[..., -1] = y[..., 0]
    y[i.unique()] = 7
    y.T[1] = 9
    return (
        y,
        x.index_put((i,), torch.ones(4, 5), accumulate=True),
        torch.index_reduce(y, 0, i, torch.ones(4, 5), "prod"),
    )


@program(lambda: (R(5, 6), R(5, 6)), lambda: (R(4, 7), R(4, 7)))
def slices_written(x, y):
    a = x[1:, ::2]
    a.copy_(y[1:, ::2])
    b = x.t()[0]
    b.zero_()
    x[:, 1].add_(x[:, 2])
    x[0, :3], x[1, :3] = x[1, :3].clone(), x[0, :3].clone()
    y.diagonal().fill_(1.0)
    z = y[None].expand(3, -1, -1)
    x.view(-1)[-2:].mul_(4)
    return a, b, z, x.select(0, 2)


@program(lambda: (R(3, 4, 5), R(5, 3), R(4, 4)), lambda: (R(2, 4, 5), R(5, 3), R(4, 4)), grad=True, bf16=True)
def einsum_of_many_kinds(a, b, c):
    return (
        torch.einsum("bij,jk->bik", a, b),
        torch.einsum("bij,bij->b", a, a),
        torch.einsum("bij,bkj,kl->bil", a, a, c),
        torch.einsum("ii->i", c),
        torch.einsum("ii", c),
        torch.einsum("b...->...b", a),
        torch.einsum("bij->", a),
        torch.einsum("...ij,...j->...i", a, a[:, 0]),
        torch.einsum("i,j->ij", c[0], b[:, 0]),
        torch.einsum(a, [0, 1, 2], b, [2, 3], [3, 1, 0]),
    )


@program(lambda: (R(6, 4), torch.tensor(3)), lambda: (R(9, 4), torch.tensor(-2)), grad=True)
def cond_of_branches(x, n):
    def many(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() * 2, (x,))

    y = torch.cond(n > 0, many, lambda x: x.clone() - 1, (x,))
    return y, torch.cond(y.shape[0] > 7, lambda y: y.sum(0), lambda y: y.mean(0), (y,))


@program(lambda: (torch.rand(5) + 1,), lambda: (torch.rand(8) + 1,))
def newton_by_while_loop(a):
    go = lambda i, x: (i < 30) & ((x * x - a).abs().max() > 1e-6)
    step = lambda i, x: (i + 1, 0.5 * (x + a / x))
    count, root = while_loop(go, step, (torch.tensor(0), a.clone()))
    return count, root


@program(lambda: (R(3, 7, 4), R(3, 4)), lambda: (R(2, 9, 4), R(2, 4)), grad=True)
class ScanCell(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Linear(8, 4)

    def forward(self, x, h):
        def cell(h, x):
            new = torch.tanh(self.w(torch.cat([h, x], -1)))
            return new, new * 2

        return scan(cell, h, x, dim=1)


@program(lambda: (torch.rand(2, 8, 3), R(2, 8, 3)), lambda: (torch.rand(2, 12, 3), R(2, 12, 3)))
def associative_scan_of_pairs(a, b):
    combine = lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1])
    return associative_scan(combine, (a, b), dim=1, combine_mode="generic")


@program(lambda: (R(4, 3, 3), R(3, 3)))
def mapped_over_the_batch(xs, w):
    from torch._higher_order_ops.map import map as mapped

    return mapped(lambda x, w: (x @ w).softmax(-1).cumsum(0), xs, w)


@program(lambda: (torch.arange(10),), lambda: (torch.arange(13),), package=False)
def sizes_told_by_data(x):
    even = x[x % 2 == 0]
    value, inverse, count = torch.unique(x // 3, return_inverse=True, return_counts=True)
    n = int(count.max())
    return (
        even * 2,
        value,
        inverse,
        count,
        torch.zeros(n, 2),
        x.nonzero().squeeze(1)[: n + 1],
        x.repeat_interleave(x % 3),
    )


@program(lambda: (R(3, 4), [R(2), R(2, 3)], {"a": (R(1), None), "b": R(4)[::2]}), grad=True)
def structures(x, items, table):
    out = {"first": x, "second": [t * 2 for t in items], **{k + "!": v for k, v in table.items()}}
    out["third"] = (x[0], items[0], table["a"][0].expand(3), None, ())
    return out


@program(lambda: (C(3, 4), R(3, 4)), lambda: (C(5, 4), R(5, 4)))
def complex_views(z, x):
    z.real.mul_(2)
    z.imag[0] = 1
    w = torch.view_as_complex(torch.stack([x, -x], -1))
    r = torch.view_as_real(z)
    return z.conj(), r, z.mH, w * z, z.abs(), z.conj().imag, (z * 1j).real, z.real, torch.complex(x, x).exp(), w.T


@program(lambda: (C(3, 4),))
def writes_through_conjugates(z):
    w = z * 1
    w.conj().imag[1].exp_()
    w.mH[0, 0] = 2 + 1j
    w.conj()[2, 2] *= 1j
    return w + 1


@program(
    lambda: (torch.arange(24, dtype=torch.int32).view(4, 6), R(4, 6)),
    lambda: (torch.arange(30, dtype=torch.int32).view(5, 6), R(5, 6)),
)
def bits_and_types(i, x):
    return (
        x.view(torch.int32),
        (x.view(torch.int32) >> 23) & 255,
        i.view(torch.float32) * 1,
        i.view(torch.int16),
        x.to(torch.float16).view(torch.int16),
        i.to(torch.uint8),
        (i * 77).to(torch.int8),
        (x * 100).to(torch.int8),
        i.bool().int() + True,
        i / 2,
        i // -4,
        i % -5,
        torch.bitwise_left_shift(i, 3),
        tuple(x.frexp()),
        torch.ldexp(x, i),
        (i.double() / 3).float(),
        x.bfloat16().double(),
        i.float().to(x),
    )


@program(lambda: (R(4, 6), R(4, 6)), grad=True)
def outputs_that_share(x, y):
    z = x + y
    return z, z.t(), z[1:], x, y.view(-1), z.detach(), (z, z)


@program(
    lambda: (R(4, 3, 6).transpose(0, 1), R(6, 4).t(), R(2, 6, 8)[:, ::2, 1::3]),
    lambda: (R(5, 3, 6).transpose(0, 1), R(6, 5).t(), R(2, 4, 8)[:, ::2, 1::3]),
)
def strides_kept(a, b, c):
    return (
        a * 2,
        a.clone(),
        a.contiguous(),
        torch.empty_like(a).fill_(1),
        b + b,
        b.exp(),
        c.relu(),
        c.clone(),
        a.sum(1),
        torch.zeros_like(c),
        b.to(torch.float64),
        c.softmax(1),
        a.cumsum(2),
        torch.where(b > 0, b, 0),
    )


@program(lambda: (R(2, 8, 4, 4).to(memory_format=torch.channels_last), R(3, 5)), grad=True, bf16=True)
class ChannelsLast(nn.Module):
    def __init__(self):
        super().__init__()
        self.c, self.b = nn.Conv2d(8, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6)

    def forward(self, x, y):
        z = self.b(self.c(x)).relu()
        return (
            z,
            z.mean((2, 3)),
            F.max_pool2d(z, 2),
            F.interpolate(z, scale_factor=2),
            x.contiguous(),
            torch.cat([x, x], 1),
            z.flatten(1),
            y,
        )


@program(lambda: (torch.tensor(3.0), torch.tensor(4), R(0, 3), R(2, 0)), grad=True)
def empty_and_scalar(a, i, e, f):
    return (
        a * i,
        e.sum(),
        e.sum(0),
        e.prod(1),
        f.mean(1),
        torch.cat([e, R(1, 3) * 0 + a]),
        e @ R(3, 2) * 0,
        f.T @ f,
        f @ f.T,
        e.softmax(0),
        a[None].expand(3, 1),
        i.view(1, 1),
        e.any(),
        f.reshape(0, 5),
        e.max(1)[0],
    )


@program(lambda: (R(3, 4).requires_grad_(), R(3, 4)), package=False)
def graph_breaks_and_prints(x, y):
    z = x * 2
    if z.sum().item() > 0:
        z = z + y
    else:
        z = z - y
    torch._dynamo.graph_break()
    y.add_(1)
    w = z.tolist()[0][0]
    return z.detach() * 3, y[0], w > 0


class State:
    def __init__(self):
        self.count, self.cache = 0, {}


@program(lambda: (R(3, 4),), package=False)
class KeepsStateOfItsOwn(nn.Module):
    def __init__(self):
        super().__init__()
        self.state = State()
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("steps", torch.tensor(0))

    def forward(self, x):
        self.state.count += 1
        self.steps += 1
        self.mean = self.mean * 0.9 + x.mean(0) * 0.1
        self.state.cache["last"] = x
        return x - self.mean, self.steps / self.state.count


@program(lambda: (R(4, 4), 2), lambda: (R(5, 5), 2))
def triangles_and_diagonals(x, k):
    i, j = torch.tril_indices(x.shape[0], x.shape[0], -1)
    upper = torch.zeros_like(x)
    upper[i, j] = x[i, j]
    return (
        x.tril(k - 3),
        x.triu(k),
        torch.diag_embed(x, 1),
        x.diagonal(1),
        upper + upper.T,
        torch.block_diag(x, x[:2]),
        torch.diagflat(x[0], -1),
        x.trace(),
        torch.vander(x[0], 3),
        torch.outer(x[0], x[1]),
        torch.cartesian_prod(x[0], x[1]),
    )


@program(lambda: (torch.randint(0, 2**62, (20,)), torch.randint(0, 2**31, (20,))))
def hashes_and_overflow(a, b):
    h = a ^ (a >> 33)
    h = h * -49064778989728563
    h = h ^ (h >> 29)
    total = (a * 31 + b).cumsum(0)
    return (
        h,
        total,
        h % 1024,
        torch.arange(20) * 10**9 * 10,
        (b.int() * 65537),
        a.float().long() - a,
        (h & 0xFF).to(torch.uint8),
        h.remainder(97),
    )


@program(lambda: (torch.tensor([1.0, float("nan"), -0.0, float("inf"), -float("inf"), 1e-40, 3e38]),))
def unusual_floats(x):
    return (
        x.max(),
        x.min(),
        x.argmax(),
        x.clamp(0, 1),
        x.sort()[0],
        x.sign(),
        x * 10,
        x.nan_to_num(),
        x.relu(),
        torch.fmax(x, x.flip(0)),
        x.round(),
        x.to(torch.float16),
        x.to(torch.bfloat16),
        x.cumsum(0),
        *x.cummax(0),
        x.softmax(0),
        x == x,
        x.signbit(),
        1 / x,
        x**0.5,
        x.logsumexp(0),
        x.topk(3)[0],
        x.unique(),
        x.isclose(x, equal_nan=True),
        torch.where(x > 0, x, -x),
        x.sigmoid(),
        x.atan2(x),
        x.nanmean(),
        x.nanmedian(),
        x // 2,
        x % 2,
        x.abs().log(),
        x.exp2(),
        x.copysign(-x),
        torch.nextafter(x, x + 1),
    )
