"""Algorithms that users write in Triton, each with what it gives as plain torch: those of triton_user_programs.py show
ways to call kernels, these what kernels do.
"""

import enum

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

import triton_helpers
from triton_helpers import clipped
from triton_user_programs import drawn, program


def whole(low, high, count, dtype=torch.int64):
    return torch.randint(low, high, (count,), generator=torch.Generator().manual_seed(0)).to(dtype)


@triton.jit
def stream_kernel(a, b, c, M, N, K, of_tile, total, of_program, B: tl.constexpr):
    step = tl.program_id(0) * of_program
    end = tl.minimum(step + of_program, total)
    while step < end:
        tile, first = step // of_tile, step % of_tile
        count = tl.minimum(of_tile - first, end - step)
        rows = tile // tl.cdiv(N, B) * B + tl.arange(0, B)
        columns = tile % tl.cdiv(N, B) * B + tl.arange(0, B)
        sums = tl.zeros((B, B), dtype=tl.float32)
        for k in range(first, first + count):
            at = k * B + tl.arange(0, B)
            x = tl.load(a + rows[:, None] * K + at[None, :], (rows[:, None] < M) & (at[None, :] < K), other=0.0)
            y = tl.load(b + at[:, None] * N + columns[None, :], (at[:, None] < K) & (columns[None, :] < N), other=0.0)
            sums += tl.dot(x, y, input_precision="ieee")
        there = (rows[:, None] < M) & (columns[None, :] < N)
        tl.atomic_add(c + rows[:, None] * N + columns[None, :], sums, there, sem="relaxed")
        step += count


@program("a product whose programs share out its steps", drawn(30, 40), drawn(40, 20, seed=1), gives=torch.mm)
def stream(a, b):
    (m, k), n = a.shape, b.shape[1]
    c = torch.zeros(m, n)
    of_tile = triton.cdiv(k, 16)
    total = triton.cdiv(m, 16) * triton.cdiv(n, 16) * of_tile
    stream_kernel[(3,)](a, b, c, m, n, k, of_tile, total, triton.cdiv(total, 3), B=16)
    return c


@triton.jit
def add_in_segments(first_flag, first, second_flag, second):
    return first_flag | second_flag, tl.where(second_flag, second, first + second)


@triton.jit
def segments_kernel(x, flags, out, N: tl.constexpr):
    at = tl.arange(0, N)
    _, sums = tl.associative_scan((tl.load(flags + at), tl.load(x + at)), 0, add_in_segments)
    tl.store(out + at, sums)


def sums_in_segments(x, flags):
    out = []
    for value, flag in zip(x, flags):
        out.append(value if flag or not out else out[-1] + value)
    return torch.stack(out)


@program("sums that begin anew", drawn(64), (drawn(64, seed=3) > 0.5).int(), gives=sums_in_segments)
def segments(x, flags):
    out = torch.empty_like(x)
    segments_kernel[(1,)](x, flags, out, N=64)
    return out


@triton.jit
def one_behind_another(a1, b1, a2, b2):
    return a1 * a2, a2 * b1 + b2


@triton.jit
def recurrence_kernel(a, b, out, T: tl.constexpr, D: tl.constexpr, REVERSE: tl.constexpr):
    at = tl.arange(0, T)[:, None] * D + tl.arange(0, D)[None, :]
    _, h = tl.associative_scan((tl.load(a + at), tl.load(b + at)), 0, one_behind_another, reverse=REVERSE)
    tl.store(out + at, h)


def recurrence_by_steps(a, b):
    h, out = torch.zeros(4), []
    for x, y in zip(a, b):
        h = x * h + y
        out.append(h)
    return torch.stack(out)


@program(
    "a recurrence from either end",
    drawn(16, 4).sigmoid(),
    drawn(16, 4, seed=1),
    gives=lambda a, b: (recurrence_by_steps(a, b), recurrence_by_steps(a.flip(0), b.flip(0)).flip(0)),
)
def recurrence(a, b):
    forth, back = torch.empty_like(a), torch.empty_like(a)
    recurrence_kernel[(1,)](a, b, forth, T=16, D=4, REVERSE=False)
    recurrence_kernel[(1,)](a, b, back, T=16, D=4, REVERSE=True)
    return forth, back


@triton.jit
def insert_kernel(keys, table, SIZE: tl.constexpr):
    key = tl.load(keys + tl.program_id(0))
    slot = key * 7919 % SIZE
    found = False
    while not found:
        old = tl.atomic_cas(table + slot, -1, key)
        found = (old == -1) | (old == key)
        slot = (slot + 1) % SIZE


@triton.jit
def find_kernel(keys, table, found, SIZE: tl.constexpr):
    key = tl.load(keys + tl.program_id(0))
    slot = key * 7919 % SIZE
    there = tl.load(table + slot)
    while (there != key) & (there != -1):
        slot = (slot + 1) % SIZE
        there = tl.load(table + slot)
    tl.store(found + tl.program_id(0), there == key)


@program(
    "a hash table",
    torch.arange(0, 20, 2, dtype=torch.int32),
    torch.arange(20, dtype=torch.int32),
    gives=lambda keys, asked: torch.isin(asked, keys),
)
def hash_table(keys, asked):
    table = torch.full((32,), -1, dtype=torch.int32)
    found = torch.zeros(asked.shape, dtype=torch.bool)
    insert_kernel[(keys.numel(),)](keys, table, SIZE=32)
    find_kernel[(asked.numel(),)](asked, table, found, SIZE=32)
    return found


@triton.jit
def locked_kernel(x, sums, lock, n, B: tl.constexpr):
    at = tl.arange(0, B)
    row = tl.load(x + tl.program_id(0) * n + at, at < n)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(sums + at, tl.load(sums + at, at < n) + row, at < n)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@program("a lock", drawn(7, 20), gives=lambda x: x.sum(0))
def locked(x):
    sums, lock = torch.zeros(20), torch.zeros(1, dtype=torch.int32)
    locked_kernel[(7,)](x, sums, lock, 20, B=32)
    return sums


@triton.jit
def counts_kernel(x, counts, whole, N: tl.constexpr, BINS: tl.constexpr):
    at = tl.arange(0, N)
    bins = tl.load(x + at)
    tl.atomic_add(counts + bins, 1)
    tl.store(whole + tl.arange(0, BINS), tl.histogram(bins, BINS))


@program(
    "counts",
    whole(0, 16, 128, torch.int32),
    gives=lambda x: (torch.bincount(x, minlength=16).int(), torch.bincount(x, minlength=16).int()),
)
def counts(x):
    one, other = torch.zeros(16, dtype=torch.int32), torch.empty(16, dtype=torch.int32)
    counts_kernel[(1,)](x, one, other, N=128, BINS=16)
    return one, other


@triton.jit
def products_kernel(a, b, c, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    sums = tl.full((N, N), 1.0, tl.float32)
    sums = tl.dot(tl.load(a + at), tl.load(b + at), sums)
    sums = tl.dot(tl.load(a + at), tl.trans(tl.load(b + at)), acc=sums)
    tl.store(c + at, sums)


def products_in_f32(a, b):
    a, b = a.float(), b.float()
    return a @ b + a @ b.t() + 1


for dtype in (torch.bfloat16, torch.float16, torch.float8_e5m2):

    @program(f"products of {dtype}", drawn(32, 32).to(dtype), drawn(32, 32, seed=1).to(dtype), gives=products_in_f32)
    def products(a, b):
        c = torch.empty(32, 32)
        products_kernel[(1,)](a, b, c, N=32)
        return c


@triton.jit
def library_kernel(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    v = tl.abs(tl.load(x + at))
    tl.store(out + at, libdevice.pow(v, 1.5) + libdevice.tanh(v) + libdevice.fmod(v, 0.5))


@program("library functions of numbers", drawn(64), gives=lambda x: x.abs() ** 1.5 + x.abs().tanh() + x.abs() % 0.5)
def library(x):
    out = torch.empty_like(x)
    library_kernel[(1,)](x, out, N=64)
    return out


@triton.jit
def helped_kernel(x, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + at, at < n)
    tl.store(out + at, clipped(v) + triton_helpers.twice(v) + triton_helpers.OFFSET, at < n)


@program("functions of another module", drawn(50), gives=lambda x: (x * 2).clamp(max=3) + x * 2 + 1.5)
def helped(x):
    out = torch.empty_like(x)
    helped_kernel[(2,)](x, out, 50, B=32)
    return out


class Mode(enum.IntEnum):
    SUM = 0
    PRODUCT = 1


@triton.jit
def mode_kernel(x, out, MODE: tl.constexpr, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    if MODE == 1:
        v = v * v
    else:
        v = v + v
    tl.store(out + tl.arange(0, N), v)


@program("a member of an enumeration", drawn(32), gives=lambda x: (x * x, x + x))
def modes(x):
    product, total = torch.empty_like(x), torch.empty_like(x)
    mode_kernel[(1,)](x, product, MODE=Mode.PRODUCT, N=32)
    mode_kernel[(1,)](x, total, MODE=Mode.SUM, N=32)
    return product, total


@triton.jit
def paged_kernel(q, k, v, pages, lengths, out, scale, P: tl.constexpr, D: tl.constexpr, MOST: tl.constexpr):
    row, d, t = tl.program_id(0), tl.arange(0, D), tl.arange(0, P)
    query = tl.load(q + row * D + d) * scale
    length = tl.load(lengths + row)
    top, total, sums = -float("inf"), 0.0, tl.zeros((D,), tl.float32)
    for p in range(0, tl.cdiv(length, P)):
        at = (tl.load(pages + row * MOST + p) * P + t)[:, None] * D + d[None, :]
        scores = tl.where(p * P + t < length, tl.sum(tl.load(k + at) * query[None, :], 1), -float("inf"))
        most = tl.maximum(top, tl.max(scores, 0))
        weights, before = tl.exp(scores - most), tl.exp(top - most)
        sums = sums * before + tl.sum(weights[:, None] * tl.load(v + at), 0)
        total = total * before + tl.sum(weights, 0)
        top = most
    tl.store(out + row * D + d, sums / total)


def paged_by_rows(q, k, v, pages, lengths):
    out = []
    for row, of_row, length in zip(q, pages.long(), lengths):
        keys, values = (t[of_row].reshape(-1, 16)[: int(length)] for t in (k, v))
        out.append((keys @ row * 0.25).softmax(0) @ values)
    return torch.stack(out)


@program(
    "attention over pages",
    drawn(3, 16),
    drawn(12, 4, 16, seed=1),
    drawn(12, 4, 16, seed=2),
    torch.randperm(12, generator=torch.Generator().manual_seed(0)).reshape(3, 4).int(),
    torch.tensor([3, 16, 9], dtype=torch.int32),
    gives=paged_by_rows,
)
def paged(q, k, v, pages, lengths):
    out = torch.empty_like(q)
    paged_kernel[(3,)](q, k, v, pages, lengths, out, q.shape[-1] ** -0.5, P=4, D=16, MOST=4)
    return out
