"""Layers of torch.nn through torch.compile against eager: the samples of torch's own list of modules, in training with
gradients and in evaluation. Run by hand.

    module_sweep.py [NAME ...] [--dtype DTYPE] [--from NAME] [--dynamic] [--samples N]

NAME is one of the list, as nn.Linear; without any, all of them, or those from one on. Results, gradients of arguments
and parameters, and buffers are compared; what differs or is refused gets a line, and counts come at the end. In 16 bits
what differs is right where it is at most one and a half times as far from the same in f64 as eager is.
"""

import argparse
import collections
import copy
import logging
import pathlib
import sys
import warnings

import torch
from torch.testing._internal.common_modules import module_db
from torch.utils import _pytree as pytree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))

from coil_harness import is_as_near  # noqa: E402

NARROW = (torch.bfloat16, torch.float16)


def tensors_of(value):
    return [t for t in pytree.tree_leaves(value) if isinstance(t, torch.Tensor)]


def afresh(value):
    """Copies of tensors, which want gradients where they did."""
    copied = lambda t: t.detach().clone().requires_grad_(t.requires_grad)
    return pytree.tree_map(lambda x: copied(x) if isinstance(x, torch.Tensor) else x, value)


def outcome(call, module, arguments, differentiated):
    """Results, gradients and buffers of one call."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        args, kwargs = afresh(arguments)
        results = tensors_of(call(*args, **kwargs))
        graded = [t for t in results if t.is_floating_point() and t.requires_grad] if differentiated else []
        if graded:
            weights = lambda t: torch.linspace(0.1, 1, t.numel()).reshape(t.shape)
            sum((t.float() * weights(t)).sum() for t in graded).backward()
    gradients = [t.grad for t in (*tensors_of((args, kwargs)), *module.parameters())]
    return {"result": results, "gradient": gradients, "buffer": list(module.buffers())}


def difference(got, want):
    """In words; nothing where there is none."""
    if (got is None) != (want is None):
        return "one of them is None"
    if want is None:
        return None
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype} {tuple(got.shape)}, not {want.dtype} {tuple(want.shape)}"
    if got.numel() > 1 and got.is_contiguous() != want.is_contiguous():
        return f"strides {got.stride()}, not {want.stride()}"
    rtol, atol = (2e-2, 2e-2) if want.dtype in NARROW else (1e-4, 1e-5)
    try:
        torch.testing.assert_close(got.double(), want.double(), rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError as e:
        return " ".join(str(e).split())
    return None


def exact_outcome(module, arguments, differentiated):
    """The same in f64."""
    is_float = lambda x: isinstance(x, torch.Tensor) and x.is_floating_point()
    wide = lambda x: x.detach().double().requires_grad_(x.requires_grad) if is_float(x) else x
    module = copy.deepcopy(module).double()
    return outcome(module, module, pytree.tree_map(wide, arguments), differentiated)


def verdict(info, sample, dtype, train, dynamic):
    """One of `right`, `wrong`, `refused` and `eager refuses`, and a reason."""
    arguments = (sample.forward_input.args, sample.forward_input.kwargs)
    try:
        torch.manual_seed(0)
        made = sample.constructor_input
        module = info.module_cls(*made.args, **made.kwargs).to(dtype).train(train)
        other, third = copy.deepcopy(module), copy.deepcopy(module)
        want = outcome(module, module, arguments, train)
    except Exception as e:
        return "eager refuses", str(e)
    torch._dynamo.reset()
    try:
        got = outcome(torch.compile(other, backend="coil", dynamic=dynamic or None), other, arguments, train)
    except Exception as e:
        return "refused", " ".join(str(e).split())
    exact = None
    for kind, wanted in want.items():
        if len(got[kind]) != len(wanted):
            return "wrong", f"{len(got[kind])} of kind {kind}, not {len(wanted)}"
        for k, (g, w) in enumerate(zip(got[kind], wanted)):
            if not (why := difference(g, w)):
                continue
            if dtype in NARROW:
                exact = exact or exact_outcome(third, arguments, train)
            if not exact or not is_as_near(g, w, exact[kind][k]):
                return "wrong", f"{kind}: {why}"
    return "right", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--from", dest="start")
    parser.add_argument("--dynamic", action="store_true")
    parser.add_argument("--samples", type=int, default=1000, help="of each module, in each of the two modes")
    a = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    all = list(module_db)
    if a.start:
        all = all[[info.name for info in all].index(a.start) :]
    counts, dtype = collections.Counter(), getattr(torch, a.dtype)
    for info in all:
        for train in (True, False) if not a.names or info.name in a.names else ():
            try:
                samples = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=train, training=train)
            except Exception:
                counts["no samples"] += 1  # the list has none of this type
                continue
            for k, sample in enumerate(samples[: a.samples]):
                found, why = verdict(info, sample, dtype, train, a.dynamic)
                counts[found] += 1
                if found in ("wrong", "refused"):
                    print(f"{found}: {info.name} {k} {'train' if train else 'eval'}: {why[:300]}", flush=True)
    print(f"{a.dtype}{' dynamic' if a.dynamic else ''}:", dict(counts))
    return counts["wrong"] + counts["refused"] > 0


if __name__ == "__main__":
    sys.exit(main())
