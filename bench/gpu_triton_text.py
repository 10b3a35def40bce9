"""Coil's kernels as Triton text and as CUDA C++, on a GPU: values against eager, and times beside Inductor's.

usage: gpu_triton_text.py [--only TEXT] [--calls N]     in a process that finds the package `coil`, torch with CUDA,
                                                        and Triton
One table: the largest difference from eager in units of the largest value, and milliseconds of a call by events of N
calls in a row, the least of three rounds. `kernels` are those in Triton and those that stayed CUDA C++; the reasons of
these stand below.
"""

import argparse
import collections
import re

import torch
import torch.nn.functional as F

import coil
from gpu_rows import rms_norm, rope
from gpu_sides import queued

SIDES = {"CUDA C++": {"cuda.kernels": "cuda"}, "Triton text": {"cuda.kernels": "triton"}}


def cross_entropy(logits, target):
    return F.cross_entropy(logits.float(), target)


def batch_statistics(x):
    return torch.var_mean(x.float(), (0, 2, 3))


def masked_attention(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, mask)


def causal_attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def runs_of_rows(x, weight, ends):
    """Runs of rows times a matrix for each, behind an activation."""
    return torch._grouped_mm(F.silu(x), weight, offs=ends)


def run_ends(rows, runs):
    """Where runs of random lengths end; the last ends with the rows."""
    inner = torch.randint(rows + 1, (runs - 1,), device="cuda").sort().values
    return torch.cat([inner, torch.full((1,), rows, device="cuda")]).int()


def cases():
    """name -> (function, arguments, largest difference allowed)"""
    make = lambda *sizes, dtype=torch.float32: torch.randn(sizes, device="cuda").to(dtype)
    half = torch.bfloat16
    heads = lambda *sizes: tuple(make(*sizes) for _ in range(3))
    leaves = lambda *sizes: tuple(t.requires_grad_() for t in heads(*sizes))
    return {
        "add, relu 64M f32": (lambda x, y: F.relu(x + y) * 2, (make(8192, 8192), make(8192, 8192)), 1e-6),
        "gelu of a sum 64M bf16": (
            lambda x, b: F.gelu(x + b),
            (make(8192, 8192, dtype=half), make(8192, dtype=half)),
            2e-2,
        ),
        "silu gate 32M bf16": (
            lambda x, y: F.silu(x) * y,
            (make(4096, 8192, dtype=half), make(4096, 8192, dtype=half)),
            2e-2,
        ),
        "rows of 1,003 f32": (lambda x, y: x * 2 + y, (make(30000, 1003), make(1003)), 1e-6),
        "transposed sum 8,192 x 4,096 f32": (lambda x, y: x + y.t(), (make(8192, 4096), make(4096, 8192)), 1e-6),
        "permuted 64 x 512 x 1,024 bf16": (
            lambda x: x.permute(2, 1, 0).contiguous(),
            (make(64, 512, 1024, dtype=half),),
            0,
        ),
        "softmax 16,384 x 1,024 f32": (lambda x: F.softmax(x, -1), (make(16384, 1024),), 1e-5),
        "softmax 4,096 x 32,000 bf16": (lambda x: F.softmax(x, -1), (make(4096, 32000, dtype=half),), 2e-2),
        "cross entropy 4,096 x 32,000 bf16": (
            cross_entropy,
            (make(4096, 32000, dtype=half), torch.randint(32000, (4096,), device="cuda")),
            1e-4,
        ),
        "layer norm 16,384 x 4,096 bf16": (
            lambda x, w, b: F.layer_norm(x, (4096,), w, b),
            (make(16384, 4096, dtype=half), make(4096, dtype=half), make(4096, dtype=half)),
            2e-2,
        ),
        "rms norm 16,384 x 4,096 bf16": (rms_norm, (make(16384, 4096, dtype=half), make(4096, dtype=half)), 2e-2),
        "rows summed 16,384 x 4,096 f32": (lambda x: x.sum(-1), (make(16384, 4096),), 1e-5),
        "all summed 64M f32": (lambda x: x.sum(), (make(8192, 8192),), 1e-4),
        "columns summed 16,384 x 4,096 f32": (lambda x: x.sum(0), (make(16384, 4096),), 1e-5),
        "columns' mean 16,384 x 1,024 bf16": (lambda x: x.float().mean(0), (make(16384, 1024, dtype=half),), 1e-5),
        "batch statistics 64 x 256 x 56 x 56": (batch_statistics, (make(64, 256, 56, 56, dtype=half),), 1e-5),
        "arg max 16,384 x 4,096 f32": (lambda x: x.argmax(-1), (make(16384, 4096),), 0),
        "running sum 4,096 x 8,192 f32": (lambda x: x.cumsum(-1), (make(4096, 8192),), 1e-4),
        "columns' running sum 4,096 x 4,096": (lambda x: x.cumsum(0), (make(4096, 4096),), 1e-4),
        "rotary 8 x 32 x 2,048 x 128 bf16": (
            rope,
            (make(8, 32, 2048, 128, dtype=half), make(2048, 128, dtype=half), make(2048, 128, dtype=half)),
            2e-2,
        ),
        "embedding and norm 16,384 x 1,024": (
            lambda i, e, w: F.layer_norm(e[i], (1024,), w),
            (torch.randint(50000, (16384,), device="cuda"), make(50000, 1024), make(1024)),
            1e-5,
        ),
        "rows added by index 65,536 x 256": (
            lambda x, i, y: x.index_add(0, i, y),
            (make(10000, 256), torch.randint(10000, (65536,), device="cuda"), make(65536, 256)),
            1e-4,
        ),
        "100 tensors of 64 x 64 f32": (
            lambda *tensors: [t.sin() * 2 + t for t in tensors],
            tuple(make(64, 64) for _ in range(100)),
            1e-6,
        ),
        "attention 8 x 12 x 1,024 x 64 f32": (F.scaled_dot_product_attention, heads(8, 12, 1024, 64), 1e-5),
        "attention, mask 4 x 8 x 500 x 80 f32": (
            masked_attention,
            (*heads(4, 8, 500, 80), make(4, 1, 500, 500)),
            1e-5,
        ),
        "attention's gradients 4 x 12 x 1,024 x 64": (causal_attention, leaves(4, 12, 1024, 64), 1e-4),
        "runs of rows 8,192 x 1,024 x 2,048 bf16": (
            runs_of_rows,
            (make(8192, 1024, dtype=half), make(8, 1024, 2048, dtype=half), run_ends(8192, 8)),
            2e-2,
        ),
        "digamma 4M f32": (torch.special.digamma, (make(2048, 2048),), 1e-5),
    }


def bad_index(options):
    """An index beyond the end: the call fails and writes to no state behind it, and the next is right. Counts what is
    wrong.
    """

    def step(x, i, state):
        y = x[i] * 2
        state.add_(y.sum())
        return y

    torch._dynamo.reset()
    call = torch.compile(step, backend="coil", options=options | {"cuda.graphs": True}, dynamic=False)
    x, state, wrong = torch.ones(1000, 64, device="cuda"), torch.zeros(8, device="cuda"), 0
    for turn in range(6):
        i = torch.arange(100, device="cuda")
        if turn in (2, 4):
            i[50] = 1000
        before = state.clone()
        try:
            y = call(x, i, state)
            torch.cuda.synchronize()
            call(x, torch.arange(100, device="cuda"), state)
            wrong += turn in (2, 4) or not bool((y == 2).all())
        except Exception as error:
            said = str(error).splitlines()[0]
            same = torch.equal(state, before)
            print(f"turn {turn}: {said}{'' if same else ', and the state was written to'}", flush=True)
            wrong += turn not in (2, 4) or "out of range" not in said or not same
    return wrong


def distance(got, want):
    """The largest difference of any result, in units of its largest value; NaN must meet NaN."""
    if not isinstance(want, (tuple, list)):
        got, want = [got], [want]
    far = 0.0
    for g, w in zip(got, want, strict=True):
        if (g.dtype, g.shape) != (w.dtype, w.shape):
            return float("inf")
        g, w = g.double(), w.double()
        if not torch.equal(g.isnan(), w.isnan()):
            return float("inf")
        apart = torch.where(g == w, 0, (g - w).abs()).nan_to_num(0)
        far = max(far, (apart.max() / w.abs().nan_to_num(0, 0, 0).max().clamp(min=1)).item())
    return far


def languages(function, args):
    """(kernels in Triton, kernels in CUDA C++, why these) of the program, as its report has them."""

    class Module(torch.nn.Module):
        def forward(self, *given):
            return function(*given)

    report = coil.compile(Module(), args, options={"cuda.kernels": "triton"}).report
    others = re.findall(r"\(CUDA C\+\+: (.*)\)$", report, re.MULTILINE)
    return len(re.findall(r"\(Triton\)$", report, re.MULTILINE)), len(others), others


def with_gradients(call, args):
    """The result and its gradients, whose slope is the result itself."""
    out = call(*args)
    return [out.detach(), *torch.autograd.grad(out, args, out.detach())]


def row(name, function, args, limit, calls):
    run = with_gradients if args[0].requires_grad else lambda call, args: call(*args)
    want, wrong, cells = run(function, args), 0, [f"{queued(lambda: run(function, args), calls, rounds=3):8.3f}"]
    backends = [("inductor", None)] + [("coil", options) for options in SIDES.values()]
    for backend, options in backends:
        torch._dynamo.reset()
        try:
            call = torch.compile(function, backend=backend, options=options, dynamic=False)
            far = distance(run(call, args), want)
            wrong += backend == "coil" and not far <= limit
            cells += [
                f"{far:8.1e}{' ' if far <= limit else '!'}",
                f"{queued(lambda: run(call, args), calls, rounds=3):8.3f}",
            ]
        except Exception as error:
            wrong += backend == "coil"
            cells += [f"{type(error).__name__[:9]:>9}", f"{'':8}"]
            print(f"{name}, {backend} {options or ''}: {str(error)[:500]}")
    try:
        triton, others, why = languages(function, args)
        kernels = f"{triton} + {others}"
    except Exception as error:
        kernels, why = "?", [str(error)[:200]]
    print(f"{name:36} {' '.join(cells)}  {kernels}", flush=True)
    return wrong, why


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases whose names have this in them")
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--auto", action="store_true", help="a third side: the better language by measurement")
    given = parser.parse_args()
    if given.auto:
        SIDES["the better, measured"] = {"cuda.kernels": "auto", "max_autotune": True}
    torch.manual_seed(0)
    print(torch.cuda.get_device_name(), torch.__version__)
    sides = "".join(f"  {s:>16}" for s in ("Inductor", *SIDES))
    print(f"{'':36} {'eager':>8}{sides}  Triton + CUDA C++ kernels")
    wrong, reasons = 0, collections.Counter()
    for name, (function, args, limit) in cases().items():
        if given.only not in name:
            continue
        bad, why = row(name, function, args, limit, given.calls)
        wrong += bad
        reasons.update(why)
        torch.cuda.empty_cache()
    for reason, count in reasons.most_common():
        print(f"CUDA C++ ({count}): {reason}")
    for side, options in SIDES.items():
        print(f"a bad index, {side}", flush=True)
        wrong += bad_index(options)
    print(f"{wrong} wrong")
    raise SystemExit(wrong > 0)


if __name__ == "__main__":
    main()
