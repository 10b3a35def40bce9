"""The memory-bound rows on a GPU: eager, Inductor and Coil, both through torch.compile; milliseconds by events, share
of the copy ceiling, seconds of the first call.

usage: gpu_rows.py [NAME,...] [--seconds N] [--backends NAME,...] [--set KEY=VALUE ...]     a NAME may also be
`selection`: sorting, scans, scatters and what the data decides the size of
`device` behind Coil's time is the device's alone, without what the host takes to call. With --set, Coil is also timed
with each of these settings by itself.
"""

import argparse

import torch
import torch.nn.functional as F
from torch.utils import _pytree as pytree

import gpu_sides as sides
from micro import size, traffic
from rows import adam_step

F32, BF16 = torch.float32, torch.bfloat16


def normal(*sizes, dtype=F32):
    return torch.randn(*sizes, dtype=dtype, device="cuda")


def index(high, *sizes):
    return torch.randint(0, high, sizes, device="cuda")


def rms_norm(x, w):
    h = x.float()
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * w


def rope(q, cos, sin):
    a, b = q.chunk(2, -1)
    return q * cos + torch.cat([-b, a], -1) * sin


def adam_state(count=32):
    make = lambda: [normal(1024, 1024) for _ in range(count)]
    return make(), make(), make(), [t.abs() for t in make()]


WIDE = 4096
ROWS = {
    "add_relu": (lambda x, y: F.relu(x + y) * 2.0, lambda: (normal(8192, 16384), normal(8192, 16384))),
    "bias_gelu_bf16": (lambda x, b: F.gelu(x + b), lambda: (normal(16384, 8192, dtype=BF16), normal(8192, dtype=BF16))),
    "swiglu_bf16": (
        lambda a, b: F.silu(a) * b,
        lambda: (normal(16384, 11008, dtype=BF16), normal(16384, 11008, dtype=BF16)),
    ),
    "softmax_bf16": (lambda x: F.softmax(x.float(), -1).to(BF16), lambda: (normal(32768, WIDE, dtype=BF16),)),
    "layer_norm_bf16": (
        lambda x, g, b: F.layer_norm(x, (WIDE,), g, b),
        lambda: (normal(32768, WIDE, dtype=BF16), normal(WIDE, dtype=BF16), normal(WIDE, dtype=BF16)),
    ),
    "rms_norm_bf16": (rms_norm, lambda: (normal(32768, WIDE, dtype=BF16), normal(WIDE, dtype=BF16))),
    "add_rms_norm_bf16": (
        lambda x, y, w: (x + y, rms_norm(x + y, w)),
        lambda: (normal(16384, WIDE, dtype=BF16), normal(16384, WIDE, dtype=BF16), normal(WIDE, dtype=BF16)),
    ),
    "sum_all": (lambda x: x.sum(), lambda: (normal(16384, 8192),)),
    "sum_columns": (lambda x: x.sum(0), lambda: (normal(16384, 8192),)),
    "sum_rows": (lambda x: x.sum(1), lambda: (normal(16384, 8192),)),
    "transpose_add": (lambda x, y: x + y.t(), lambda: (normal(8192, 8192), normal(8192, 8192))),
    "cross_entropy_bf16": (
        lambda x, t: F.cross_entropy(x.float(), t),
        lambda: (normal(8192, 50304, dtype=BF16), index(50304, 8192)),
    ),
    "rope_bf16": (
        rope,
        lambda: (normal(8, 32, 2048, 128, dtype=BF16), normal(2048, 128, dtype=BF16), normal(2048, 128, dtype=BF16)),
    ),
    "embed_add_ln_bf16": (
        lambda n, e, p, g, b: F.layer_norm(e[n] + p, (1024,), g, b),
        lambda: (
            index(50000, 32, 4096),
            normal(50000, 1024, dtype=BF16),
            normal(4096, 1024, dtype=BF16),
            normal(1024, dtype=BF16),
            normal(1024, dtype=BF16),
        ),
    ),
    "cumsum": (lambda x: x.cumsum(-1), lambda: (normal(16384, WIDE),)),
    "argmax": (lambda x: x.argmax(-1), lambda: (normal(16384, 8192),)),
    "batch_norm_stats": (lambda x: torch.var_mean(x, (0, 2, 3)), lambda: (normal(64, 256, 56, 56),)),
    "group_norm_silu_bf16": (
        lambda x, g, b: F.silu(F.group_norm(x, 32, g, b)),
        lambda: (normal(16, 512, 64, 64, dtype=BF16), normal(512, dtype=BF16), normal(512, dtype=BF16)),
    ),
    "adam_32": (adam_step, adam_state),
}

SELECTION = {
    "sort_1e6": (lambda x: x.sort(), lambda: (normal(1_000_000),)),
    "sort_1e6_i64": (lambda x: x.sort(descending=True), lambda: (index(1 << 40, 1_000_000),)),
    "sort_rows": (lambda x: x.sort(-1), lambda: (normal(512, 4096),)),
    "sort_long_rows": (lambda x: x.sort(-1), lambda: (normal(64, 50304),)),
    "sort_short_rows": (lambda x: x.sort(-1), lambda: (normal(16384, 64),)),
    "argsort_bf16": (lambda x: x.argsort(-1), lambda: (normal(512, 4096, dtype=BF16),)),
    "topk_vocabulary": (lambda x: x.topk(50), lambda: (normal(512, 50304),)),
    "topk_experts": (lambda x: x.topk(8), lambda: (normal(16384, 256),)),
    "kthvalue": (lambda x: x.kthvalue(100, -1), lambda: (normal(512, 4096),)),
    "kthvalue_1e6": (lambda x: x.kthvalue(500_000), lambda: (normal(1_000_000),)),
    "median": (lambda x: x.median(-1), lambda: (normal(512, 4096),)),
    "cumsum_1e7": (lambda x: x.cumsum(0), lambda: (normal(10_000_000),)),
    "cumsum_columns": (lambda x: x.cumsum(0), lambda: (normal(4096, 4096),)),
    "cumsum_mask": (lambda x: x.cumsum(-1), lambda: (normal(4096, 4096) > 0,)),
    "cummax": (lambda x: x.cummax(-1), lambda: (normal(4096, 4096),)),
    "logcumsumexp": (lambda x: x.logcumsumexp(-1), lambda: (normal(4096, 4096),)),
    "nonzero": (lambda x: x.nonzero(), lambda: (normal(1_000_000) > 1,)),
    "masked_select": (lambda x: x[x > 0], lambda: (normal(1_000_000),)),
    "unique": (lambda x: x.unique(return_inverse=True, return_counts=True), lambda: (index(5000, 1_000_000),)),
    "bincount": (lambda x: x.bincount(minlength=1000), lambda: (index(1000, 1_000_000),)),
    "index_add": (
        lambda x, i, y: x.index_add(0, i, y),
        lambda: (normal(50_000, 256), index(50_000, 100_000), normal(100_000, 256)),
    ),
    "scatter_rows": (
        lambda x, i, y: x.scatter(1, i, y),
        lambda: (normal(4096, 4096), normal(4096, 4096).argsort(1)[:, :1024].contiguous(), normal(4096, 1024)),
    ),
    "scatter_amax": (
        lambda x, i, y: x.scatter_reduce(0, i, y, "amax"),
        lambda: (normal(1_000_000), index(1_000_000, 4_000_000), normal(4_000_000)),
    ),
    "gather_rows": (lambda x, i: x.gather(1, i), lambda: (normal(4096, 8192), index(8192, 4096, 4096))),
}


def copy_bandwidth():
    """Bytes that a copy of 1 GiB moves in a millisecond."""
    source = normal(1 << 28)
    target = torch.empty_like(source)
    return 2 * size(source) / sides.by_events(lambda: target.copy_(source))


def worst(got, want):
    pairs = zip(pytree.tree_leaves(got), pytree.tree_leaves(want))
    return max(sides.difference(g, w) for g, w in pairs)


def measure(name, ceiling, backends, settings):
    torch.manual_seed(0)
    function, make = (ROWS | SELECTION)[name]
    args = make()
    want = function(*args)
    floor = traffic(name, args, want) / ceiling
    calls, cold, notes = {"eager": lambda: function(*args)}, {}, []
    for backend in backends + [f"coil {one}" for one in settings]:
        compiled = sides.compiled(
            function, *backend.split()[:1], options=dict([backend.split()[1].split("=")]) if " " in backend else {}
        )
        call = lambda compiled=compiled: compiled(*args)
        try:
            cold[backend] = sides.first_call(call)
            if (wrong := worst(call(), want)) > 2e-2:
                notes.append(f"{backend} differs by {wrong:.1e}")
            calls[backend] = call
        except Exception as error:
            notes.append(f"{backend}: {sides.line(error)}")
    del want
    best = {k: min(sides.by_events(call) for _ in range(2)) for k, call in calls.items()}
    device = {k: f" device {sides.on_device(call):7.3f}" for k, call in calls.items() if k.startswith("coil")}
    text = "   ".join(
        f"{k} {ms:7.3f} ms {floor / ms:4.2f}" + device.get(k, "") + (f" ({cold[k]:4.1f} s)" if k in cold else "")
        for k, ms in best.items()
    )
    print(f"{name:21s} {text}   {'; '.join(notes)}", flush=True)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="?")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--backends", default="inductor,coil")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    a = parser.parse_args()
    torch._dynamo.config.capture_dynamic_output_shape_ops = True  # nonzero and its like
    names = [
        row for name in (a.names or ",".join(ROWS)).split(",") for row in (SELECTION if name == "selection" else [name])
    ]
    deadline = sides.Deadline(a.seconds)
    with torch.no_grad():
        ceiling = copy_bandwidth()
        print(
            f"{torch.cuda.get_device_name()}, copy ceiling {ceiling / 1e6:.0f} GB/s; share of it behind each time",
            flush=True,
        )
        for name in names:
            if deadline.passed():
                print(f"{name:21s} not reached in time")
                continue
            measure(name, ceiling, a.backends.split(","), a.set)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
