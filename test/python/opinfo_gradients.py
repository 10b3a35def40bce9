"""Operators of PyTorch's own database (`torch.testing._internal` OpInfo) through torch.compile against eager: results,
and gradients of all arguments that have one. Run by hand.

    opinfo_gradients.py [NAME ...] [--samples N] [--dynamic] [--dtype DTYPE] [--part K/N]
                        [--device DEVICE] [--seconds S]

A sample is right, wrong, refused, or random (eager differs from call to call); counts come at the end, and a line for
each that is wrong or refused.
"""

import argparse
import collections
import logging
import pathlib
import signal
import sys
import time
import warnings

import torch

torch.backends.cudnn.allow_tf32 = False  # torch's testing modules let nobody set it later

from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))

from module_sweep import afresh, difference, tensors_of  # noqa: E402

SECONDS = 60  # of one sample


def outcome(call, sample):
    """Results and gradients, in the order of arguments."""
    arguments = afresh((sample.input, sample.args, sample.kwargs))
    given, args, kwargs = arguments
    with torch.random.fork_rng():
        torch.manual_seed(3)
        results = tensors_of(call(given, *args, **kwargs))
        graded = [t for t in results if t.requires_grad]
        real = lambda t: torch.view_as_real(t.resolve_conj()) if t.is_complex() else t
        weights = lambda t: torch.linspace(0.1, 1, t.numel(), dtype=t.dtype, device=t.device).reshape(t.shape)
        if graded:
            sum((real(t) * weights(real(t))).sum().double() for t in graded).backward()
    return [t.detach() for t in results], [t.grad for t in tensors_of(arguments)]


def compared(got, want):
    for kind, g, w in zip(("result", "gradient"), got, want):
        if len(g) != len(w):
            return f"{len(g)} of kind {kind}, not {len(w)}"
        for k, (mine, theirs) in enumerate(zip(g, w)):
            if theirs is not None and mine is not None and theirs.is_complex() and mine.dtype == theirs.dtype:
                mine, theirs = torch.view_as_real(mine.resolve_conj()), torch.view_as_real(theirs.resolve_conj())
            if why := difference(mine, theirs):
                return f"{kind} {k}: {why}"
    return ""


def verdict(op, sample, dynamic):
    """One of `right`, `wrong`, `refused`, `random`, `sparse` and `eager refuses`, and a reason."""
    if any(t.layout is not torch.strided for t in tensors_of((sample.input, sample.args, sample.kwargs))):
        return "sparse", ""
    try:
        want = outcome(op.op, sample)
        again = outcome(op.op, sample)
    except Exception as e:
        return "eager refuses", str(e)
    if any(t is not None and t.layout is not torch.strided for t in (*want[0], *want[1])):
        return "sparse", ""
    if compared(again, want):
        return "random", ""
    torch._dynamo.reset()
    try:
        compiled = torch.compile(
            lambda *args, **kwargs: op.op(*args, **kwargs), backend="coil", dynamic=dynamic or None
        )
        got = outcome(compiled, sample)
    except Exception as e:
        return "refused", " ".join(f"{type(e).__name__} {e}".split())
    why = compared(got, want)
    return ("wrong", why) if why else ("right", "")


def late(*_):
    raise TimeoutError(f"more than {SECONDS} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--dynamic", action="store_true")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=1e9)
    a = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, late)
    end = time.monotonic() + a.seconds
    part, parts = map(int, a.part.split("/"))
    counts, dtype = collections.Counter(), getattr(torch, a.dtype)
    for op in [op for op in op_db if not a.names or op.name in a.names][part::parts]:
        if not op.supports_autograd or dtype not in op.supported_dtypes(a.device):
            continue
        try:
            samples = [s for s, _ in zip(op.sample_inputs(a.device, dtype, requires_grad=True), range(a.samples))]
        except Exception:
            counts["no samples"] += 1
            continue
        for k, sample in enumerate(samples):
            if time.monotonic() > end:
                break
            signal.alarm(SECONDS)
            found, why = verdict(op, sample, a.dynamic)
            signal.alarm(0)
            counts[found] += 1
            if found in ("wrong", "refused"):
                print(f"{found}: {op.name} {op.variant_test_name} {k}: {why[:300]}", flush=True)
    print(f"{a.dtype}{' dynamic' if a.dynamic else ''}:", dict(counts))
    return counts["wrong"] + counts["refused"] > 0


if __name__ == "__main__":
    sys.exit(main())
