#!/usr/bin/env python3
"""Matrix products in bf16 with what follows them and what is in front, on a GPU: eager, Coil with the library, with
kernels of its own, and with the choice that max_autotune makes; Inductor with max-autotune where asked for.

usage: gpu_products.py [NAMES] [--inductor] [--seconds N]

Milliseconds of a call whose operands are not in the cache, the least of three medians, all sides in turns; behind them
TFLOP/s, and the greatest distance from the product in f32 over its standard deviation.
"""

import argparse
import time

import torch
from torch.nn import functional as F

import coil  # noqa: F401  (registers the backend)

# By name: rows, columns, what is summed over, what follows; in some, what makes the first operand.
ROWS = {
    "square": (4096, 4096, 4096, "none"),
    "square_gelu": (4096, 4096, 4096, "gelu"),
    "bert_up": (8192, 3072, 768, "gelu"),
    "bert_down": (8192, 768, 3072, "residual"),
    "llama_gate": (2048, 5504, 2048, "gate"),
    "llama_down": (2048, 2048, 5504, "residual"),
    "vision": (12608, 384, 384, "silu"),
    "narrow": (65536, 64, 256, "hardswish"),
    "token": (1, 4096, 4096, "gate"),
    "tokens": (16, 11008, 4096, "silu"),
    "long_sum": (256, 256, 16384, "none"),
    "cast": (4096, 1024, 1024, "none", "cast"),
    "gated_down": (2048, 2048, 5504, "residual", "gated"),
    "normed_up": (2048, 2048, 2048, "none", "normed"),
    "normed_tokens": (16, 4096, 4096, "none", "normed"),
}


def after(kind, y, other):
    if kind == "gate":
        return F.silu(y) * other
    if kind == "residual":
        return y + other
    return y if kind == "none" else getattr(F, kind)(y)


def before(kind, x, w):
    """Of rows that are twice as long where they are gated by their second half."""
    if kind == "cast":
        return x.to(w.dtype)
    if kind == "gated":
        half = x.shape[-1] // 2
        return F.silu(x[:, :half]) * x[:, half:]
    if kind == "normed":
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)
    return x


def operands(name):
    m, n, k, kind, front = (*ROWS[name], "none")[:5]
    wide = 2 * k if front == "gated" else k
    x, w, other = (torch.randn(*s, device="cuda").bfloat16() for s in ((m, wide), (n, k), (m, n)))
    w /= k**0.5
    if front == "cast":
        x = x.float()
    return lambda x, w, other: after(kind, F.linear(before(front, x, w), w), other), (x, w, other)


def compiled(function, **options):
    torch._dynamo.reset()
    return torch.compile(function, backend="coil", options=options or None)


def sides(function, inductor):
    yield "eager", function
    yield "library", compiled(function, **{"cuda.products": "library"})
    yield "own", compiled(function, **{"cuda.products": "own"})
    yield "auto", compiled(function, max_autotune=True)
    if inductor:
        torch._dynamo.reset()
        yield "inductor", torch.compile(function, mode="max-autotune-no-cudagraphs")


def medians(calls, args, rounds=3, times=15):
    """Of each call the least of some medians, in milliseconds."""
    flush = torch.empty(64 << 20, dtype=torch.int32, device="cuda")
    best = [float("inf")] * len(calls)
    for _ in range(rounds):
        for at, call in enumerate(calls):
            found = []
            for _ in range(times):
                flush.zero_()
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                call(*args)
                end.record()
                end.synchronize()
                found.append(begin.elapsed_time(end))
            best[at] = min(best[at], sorted(found)[times // 2])
    return best


def row(name, inductor):
    m, n, k = ROWS[name][:3]
    function, args = operands(name)
    exact = function(*(t.float() for t in args))
    names, calls, off = [], [], []
    for side, call in sides(function, inductor):
        names.append(side)
        calls.append(call)
        off.append(((call(*args).float() - exact).abs().max() / exact.std()).item())
    parts = [
        f"{side} {ms:.4f} ms {2 * m * n * k / ms / 1e9:4.0f} ({distance:.0e})"
        for side, ms, distance in zip(names, medians(calls, args), off, strict=True)
    ]
    print(f"{name:12}", "   ".join(parts), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="?", default=",".join(ROWS))
    parser.add_argument("--inductor", action="store_true")
    parser.add_argument("--seconds", type=float, default=1e9, help="no row begins later")
    a = parser.parse_args()
    print(torch.cuda.get_device_name(), flush=True)
    begin = time.monotonic()
    for name in a.names.split(","):
        if time.monotonic() - begin < a.seconds:
            row(name, a.inductor)


if __name__ == "__main__":
    main()
