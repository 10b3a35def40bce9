"""Attention on the CPU with its gradients, through torch.compile: milliseconds of the forward and of the backward part
of eager, Inductor and Coil, in turns, least of five medians, and the largest difference of a gradient from eager's
beside the largest gradient.

usage: attention_gradients.py [--sides eager,inductor,coil] [--dtype f32,bf16]
"""

import argparse
import pathlib
import statistics
import sys
import time

import torch
from torch.nn import functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "build/python"))
import coil  # noqa: E402, F401
from common import table  # noqa: E402

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
# Batch, heads, queries and keys, elements of a head, causal.
SIZES = (
    (16, 12, 128, 64, False),
    (32, 3, 197, 64, False),
    (4, 4, 256, 16, False),
    (8, 12, 512, 64, False),
    (2, 12, 1024, 64, True),
    (1, 8, 1024, 128, True),
)


def side_of(name, causal):
    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    if name == "eager":
        return attend
    torch._dynamo.reset()
    return torch.compile(attend, backend=name)


def step(attend, leaves, gradient):
    """Seconds of both parts."""
    for leaf in leaves:
        leaf.grad = None
    begin = time.perf_counter()
    out = attend(*leaves)
    middle = time.perf_counter()
    out.backward(gradient)
    return middle - begin, time.perf_counter() - middle


def measure(size, dtype, names):
    batch, heads, length, depth, causal = size
    torch.manual_seed(0)
    *leaves, gradient = (torch.randn(batch, length, heads, depth, dtype=dtype).transpose(1, 2) for _ in range(4))
    leaves = [t.detach().requires_grad_() for t in leaves]
    sides, times, gradients = {}, {name: [] for name in names}, {}
    for name in names:
        sides[name] = side_of(name, causal)
        for _ in range(3):
            step(sides[name], leaves, gradient)
        gradients[name] = [t.grad.clone() for t in leaves]
    calls = max(3, int(0.2 / step(sides[names[0]], leaves, gradient)[1]))
    for _ in range(5):
        for name in names:
            parts = zip(*(step(sides[name], leaves, gradient) for _ in range(calls)), strict=True)
            times[name].append([statistics.median(part) for part in parts])
    least = {name: [min(part) * 1e3 for part in zip(*times[name], strict=True)] for name in names}
    return least, gradients


def distance(got, want):
    return max(
        ((a.float() - b.float()).abs().max() / b.float().abs().max()).item() for a, b in zip(got, want, strict=True)
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sides", default="eager,inductor,coil")
    parser.add_argument("--dtype", default="f32,bf16")
    a = parser.parse_args()
    names, rows = a.sides.split(","), []
    for kind in a.dtype.split(","):
        for size in SIZES:
            least, gradients = measure(size, DTYPES[kind], names)
            cells = [f"{forward:.2f} + {backward:.2f}" for forward, backward in least.values()]
            far = f"{distance(gradients['coil'], gradients['eager']):.1e}" if {"coil", "eager"} <= set(names) else ""
            rows.append([kind, " × ".join(map(str, size[:4])) + (", causal" if size[4] else ""), *cells, far])
            print(*rows[-1], flush=True)
    print(table(["", "batch × heads × length × depth", *names, "gradients from eager's"], rows))


if __name__ == "__main__":
    main()
