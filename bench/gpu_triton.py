"""Kernels that a user wrote in Triton, on a GPU: values against plain torch, and what a launch costs through Coil,
through Inductor and by Triton alone.

usage: gpu_triton.py [--seconds N]      in a process that finds the package `coil`, torch with CUDA, and Triton
Milliseconds by events of 20 calls in a row; launches in microseconds of the host, the least of rounds of 200 calls that
are not waited for.
"""

import argparse
import math
import tempfile
import time

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

import coil
from gpu_sides import queued


@triton.jit
def sum_kernel(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, inside) + tl.load(y + at, inside), inside)


@triton.jit
def softmax_kernel(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * columns + at, at < columns, float("-inf")).to(tl.float32)
    weight = tl.exp(value - tl.max(value, 0))
    tl.store(out + row * columns + at, weight / tl.sum(weight, 0), at < columns)


@triton.jit
def layer_norm_kernel(x, gain, bias, out, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    value = tl.load(x + row * columns + at, inside, 0.0).to(tl.float32)
    mean = tl.sum(value, 0) / columns
    centred = tl.where(inside, value - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, 0) / columns + eps)
    made = centred * scale * tl.load(gain + at, inside, 0.0) + tl.load(bias + at, inside, 0.0)
    tl.store(out + row * columns + at, made, inside)


@triton.autotune(
    [
        triton.Config({"M": m, "N": n, "K": k, "GROUP": 8}, num_warps=w, num_stages=s)
        for m, n, k, w, s in [(128, 128, 64, 8, 3), (128, 256, 64, 8, 3), (64, 128, 64, 4, 4), (64, 64, 32, 4, 4)]
    ],
    key=["m", "n", "k"],
)
@triton.jit
def product_kernel(a, b, out, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr):
    """Blocks in groups of rows, so that neighbours share operands in the cache."""
    rows, columns = tl.cdiv(m, M), tl.cdiv(n, N)
    group = tl.program_id(0) // (GROUP * columns)
    height = tl.minimum(rows - group * GROUP, GROUP)
    within = tl.program_id(0) % (GROUP * columns)
    at_m = (group * GROUP + within % height) * M + tl.arange(0, M)
    at_n = (within // height) * N + tl.arange(0, N)
    total = tl.zeros((M, N), tl.float32)
    for begin in range(0, k, K):
        at_k = begin + tl.arange(0, K)
        left = tl.load(a + at_m[:, None] * k + at_k[None, :], (at_m[:, None] < m) & (at_k[None, :] < k), 0.0)
        right = tl.load(b + at_k[:, None] * n + at_n[None, :], (at_k[:, None] < k) & (at_n[None, :] < n), 0.0)
        total = tl.dot(left, right, total)
    place = out + at_m[:, None] * n + at_n[None, :]
    tl.store(place, total.to(out.dtype.element_ty), (at_m[:, None] < m) & (at_n[None, :] < n))


@triton.jit
def tiles_kernel(a, b, out, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """A product whose operands and result are descriptors that the host makes."""
    at_m, at_n = tl.program_id(0) * M, tl.program_id(1) * N
    total = tl.zeros((M, N), tl.float32)
    for begin in range(0, k, K):
        total = tl.dot(a.load([at_m, begin]), b.load([begin, at_n]), total)
    out.store([at_m, at_n], total.to(out.dtype))


@triton.jit
def own_tiles_kernel(a, b, out, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """The same product; the kernel makes the descriptors, in memory that the call has for itself."""
    at_m, at_n = tl.program_id(0) * M, tl.program_id(1) * N
    left = tl.make_tensor_descriptor(a, [m, k], [k, 1], [M, K])
    right = tl.make_tensor_descriptor(b, [k, n], [n, 1], [K, N])
    made = tl.make_tensor_descriptor(out, [m, n], [n, 1], [M, N])
    total = tl.zeros((M, N), tl.float32)
    for begin in range(0, k, K):
        total = tl.dot(left.load([at_m, begin]), right.load([begin, at_n]), total)
    made.store([at_m, at_n], total.to(out.dtype.element_ty))


@triton.jit
def attention_kernel(q, k, v, out, length, scale, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    """One block of queries against all keys, with a running maximum and sum; heads lie one behind the other."""
    head = tl.program_id(1).to(tl.int64) * length * D
    at_m, at_d = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, D)
    query = tl.load(q + head + at_m[:, None] * D + at_d[None, :], at_m[:, None] < length, 0.0)
    most = tl.full((M,), float("-inf"), tl.float32)
    weight = tl.zeros((M,), tl.float32)
    total = tl.zeros((M, D), tl.float32)
    for begin in range(0, length, N):
        at_n = begin + tl.arange(0, N)
        key = tl.load(k + head + at_n[None, :] * D + at_d[:, None], at_n[None, :] < length, 0.0)
        score = tl.dot(query, key) * scale
        score = tl.where(at_n[None, :] < length, score, float("-inf"))
        higher = tl.maximum(most, tl.max(score, 1))
        share, old = tl.exp(score - higher[:, None]), tl.exp(most - higher)
        value = tl.load(v + head + at_n[:, None] * D + at_d[None, :], at_n[:, None] < length, 0.0)
        total = total * old[:, None] + tl.dot(share.to(value.dtype), value)
        weight = weight * old + tl.sum(share, 1)
        most = higher
    made = (total / weight[:, None]).to(out.dtype.element_ty)
    tl.store(out + head + at_m[:, None] * D + at_d[None, :], made, at_m[:, None] < length)


def add(x, y):
    out = torch.empty_like(x)
    sum_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)
    return out


def softmax(x):
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


def layer_norm(x, gain, bias):
    out = torch.empty_like(x)
    layer_norm_kernel[(x.shape[0],)](x, gain, bias, out, x.shape[1], 1e-5, BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


def product(a, b):
    (m, k), n = a.shape, b.shape[1]
    out = a.new_empty(m, n)
    product_kernel[lambda c: (triton.cdiv(m, c["M"]) * triton.cdiv(n, c["N"]),)](a, b, out, m, n, k)
    return out


def product_of_tiles(a, b):
    (m, k), n = a.shape, b.shape[1]
    out = a.new_empty(m, n)
    tiles_kernel[(triton.cdiv(m, 128), triton.cdiv(n, 128))](
        TensorDescriptor.from_tensor(a, [128, 64]),
        TensorDescriptor.from_tensor(b, [64, 128]),
        TensorDescriptor.from_tensor(out, [128, 128]),
        k,
        M=128,
        N=128,
        K=64,
    )
    return out


def product_of_own_tiles(a, b):
    (m, k), n = a.shape, b.shape[1]
    out = a.new_empty(m, n)
    own_tiles_kernel[(triton.cdiv(m, 128), triton.cdiv(n, 128))](a, b, out, m, n, k, M=128, N=128, K=64)
    return out


def attention(q, k, v):
    batch, heads, length, width = q.shape
    out = torch.empty_like(q)
    grid = (triton.cdiv(length, 64), batch * heads)
    attention_kernel[grid](q, k, v, out, length, 1 / math.sqrt(width), D=width, M=64, N=64)
    return out


def cases():
    """name -> (with kernels, plain torch, arguments, tolerance relative to the largest value: of the dtype)"""
    make = lambda *sizes, dtype=torch.float32: torch.randn(sizes, device="cuda", dtype=dtype)
    half = torch.bfloat16
    return {
        "vector addition, 98,432": (add, torch.add, (make(98432), make(98432)), 1e-6),
        "softmax 1,823 x 781": (softmax, lambda x: x.softmax(1), (make(1823, 781),), 1e-5),
        "layer norm 4,096 x 4,096": (
            layer_norm,
            lambda x, g, b: F.layer_norm(x, x.shape[1:], g, b),
            (make(4096, 4096), make(4096), make(4096)),
            1e-5,
        ),
        "autotuned product 4,096^3 bf16": (
            product,
            torch.mm,
            (make(4096, 4096, dtype=half), make(4096, 4096, dtype=half)),
            2e-2,
        ),
        "product by descriptors 4,000 x 4,096 x 4,032": (
            product_of_tiles,
            torch.mm,
            (make(4000, 4096, dtype=half), make(4096, 4032, dtype=half)),
            2e-2,
        ),
        "product by descriptors of its own": (
            product_of_own_tiles,
            torch.mm,
            (make(4000, 4096, dtype=half), make(4096, 4032, dtype=half)),
            2e-2,
        ),
        "attention 4 x 16 x 2,048 x 64 bf16": (
            attention,
            F.scaled_dot_product_attention,
            tuple(make(4, 16, 2048, 64, dtype=half) for _ in range(3)),
            2e-2,
        ),
    }


def microseconds(call, seconds):
    """Of the host, a call: the least of rounds of 200 calls that are not waited for."""
    for _ in range(50):
        call()
    best, until = math.inf, time.perf_counter() + seconds
    while time.perf_counter() < until:
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(200):
            call()
        best = min(best, (time.perf_counter() - begin) / 200 * 1e6)
    torch.cuda.synchronize()
    return best


def distance(got, want):
    return ((got.float() - want.float()).abs().max() / want.float().abs().max().clamp(min=1)).item()


def values():
    wrong = 0
    for name, (kernels, plain, args, tolerance) in cases().items():
        torch._dynamo.reset()
        want = plain(*args)
        print(name, flush=True)
        sides = {"plain torch": plain, "triton": kernels}
        sides |= {b: torch.compile(kernels, backend=b) for b in ("inductor", "coil")}
        for side, call in sides.items():
            try:
                far = distance(call(*args), want)
                wrong += side == "coil" and not far <= tolerance
                print(f"    {side:12s} {queued(lambda: call(*args)):8.4f} ms   off by {far:.1e}", flush=True)
            except Exception as error:
                wrong += side == "coil"
                print(f"    {side:12s} {str(error).strip().splitlines()[-1][:300]}", flush=True)
    return wrong


def package(name, multiply):
    """Wrong results of five calls of a package, on inputs that lie elsewhere at each call."""

    class Module(torch.nn.Module):
        def forward(self, a, b):
            return multiply(a.cos(), b).relu()

    args = [torch.randn(256, 192, device="cuda").bfloat16(), torch.randn(192, 320, device="cuda").bfloat16()]
    program = torch.export.export(Module(), tuple(args), strict=True)
    with tempfile.TemporaryDirectory() as folder:
        coil.compile(program, device="cuda").save(f"{folder}/m.coil")
        model, wrong = coil.load(f"{folder}/m.coil"), 0
        for _ in range(5):
            args = [a.clone().normal_() for a in args]
            far = distance(model(*args).cuda(), (args[0].cos() @ args[1]).relu())
            wrong += not far <= 2e-2
            print(f"a package with descriptors that {name} makes: off by {far:.1e}", flush=True)
    return wrong


def launches(seconds):
    """A kernel of 16 elements, once and a hundred times in a program."""
    x, y, out = (torch.randn(16, device="cuda") for _ in range(3))

    def many(x, y):
        for _ in range(100):
            x = add(x, y)
        return x

    print("a launch, microseconds of the host", flush=True)
    alone = microseconds(lambda: sum_kernel[(1,)](x, y, out, 16, BLOCK=1024), seconds)
    print(f"    triton alone                  {alone:8.2f}", flush=True)
    for backend in ("inductor", "coil"):
        torch._dynamo.reset()
        for name, function, count in (("one in a call", add, 1), ("each of a hundred in a call", many, 100)):
            run = torch.compile(function, backend=backend)
            took = microseconds(lambda: run(x, y), seconds) / count
            print(f"    {backend:9s} {name:27s} {took:8.2f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each launch is timed")
    options = parser.parse_args()
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, Triton {triton.__version__}", flush=True)
    with torch.no_grad():
        wrong = values()
        wrong += package("the host", product_of_tiles) + package("the kernel", product_of_own_tiles)
        launches(options.seconds)
    raise SystemExit(wrong > 0)
