"""Layers drawn at random (layer_draws.py) through torch.compile against eager, run by hand: results, strides, what
operands hold afterwards, and gradients.

    layer_sweep.py [--programs N] [--first N] [--layers N] [--dtype DTYPE] [--dynamic] [--seconds S]
                   [--device DEVICE | --emulated] [--places]

A program has some layers, which are compiled together. A layer that differs, or a program that is refused, is tried
alone and printed. `--emulated` runs a GPU's kernels on the CPU. In 16 bits what differs is right where it is at most
one and a half times as far from the same in f64 as eager is.
"""

import argparse
import collections
import logging
import pathlib
import sys
import time
import warnings

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))

import place_draws  # noqa: E402
from coil_harness import is_as_near  # noqa: E402
from layer_draws import Drawer, Layer, call, copies, moved  # noqa: E402

LIMITS = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 6e-2}


def outcome(functions, layers):
    """[(name, tensor)] for each layer: results, operands afterwards, gradients."""
    given = [copies(layer, graded=True) for layer in layers]
    made = functions(given)
    found = []
    for layer, operands, results in zip(layers, given, made, strict=True):
        results = results if isinstance(results, tuple | list) else [results]
        named = [(f"result {k}", t) for k, t in enumerate(results)]
        graded = [t for t in results if t.requires_grad]
        if graded:
            weights = [weights_of(t) for t in graded]
            total = sum((t.double() * w).sum() for t, w in zip(graded, weights, strict=True))
            wanted = [operands[n] for n in layer.graded]
            gradients = torch.autograd.grad(total, wanted, allow_unused=True)
            named += [(f"gradient of {n}", g) for n, g in zip(layer.graded, gradients, strict=True) if g is not None]
        named += [(f"{n} afterwards", t) for n, t in operands.items() if n in "mv"]
        found.append([(n, t.detach()) for n, t in named])
    return found


def weights_of(t):
    return torch.linspace(-1, 1, t.numel(), dtype=torch.float64, device=t.device).reshape(t.shape)


def whole(layers):
    """All layers as one function of their operands."""
    functions = [call(layer) for layer in layers]
    return lambda given: [f(**operands) for f, operands in zip(functions, given, strict=True)]


def strides(t):
    return [s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1]


def difference(name, got, want, exact):
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return f"{got.dtype}{tuple(got.shape)}, not {want.dtype}{tuple(want.shape)}"
    if name.startswith("result") and want.numel() and strides(got) != strides(want):
        return f"strides {got.stride()}, not {want.stride()}"
    g, w = got.double(), want.double()
    limit = LIMITS.get(want.dtype, 1e-4)
    scale = max(1.0, w[w.isfinite()].abs().max().item()) if w.isfinite().any() else 1.0
    if torch.isclose(g, w, rtol=limit, atol=limit * scale, equal_nan=True).all():
        return ""
    if is_as_near(got, want, exact() if exact else None):
        return ""
    worst = (g - w).abs().nan_to_num(float("inf")).max().item()
    return f"differs by {worst:.3g} of {scale:.3g}"


def wide(layer):
    """The same layer in f64."""
    is_float = lambda t: t.is_floating_point()
    return Layer(layer.text, {n: t.double() if is_float(t) else t for n, t in layer.tensors.items()}, layer.graded)


OPTIONS = {}  # of Coil


def compared(layers, dynamic, backend="coil"):
    """What is wrong with each layer; raises what the compile does."""
    torch._dynamo.reset()
    want = outcome(whole(layers), layers)
    options = OPTIONS if backend == "coil" else None
    got = outcome(torch.compile(whole(layers), backend=backend, dynamic=dynamic, options=options), layers)
    found = []
    for layer, mine, theirs in zip(layers, got, want, strict=True):
        if [n for n, _ in mine] != [n for n, _ in theirs]:
            found.append(f"{[n for n, _ in mine]}, not {[n for n, _ in theirs]}")
            continue
        precise = []

        def exact(k, layer=layer, precise=precise):
            if not precise:
                precise.extend(outcome(whole([wide(layer)]), [wide(layer)])[0])
            return precise[k][1]

        wrong = [
            f"{n}: {why}"
            for k, ((n, g), (_, w)) in enumerate(zip(mine, theirs, strict=True))
            if (why := difference(n, g, w, lambda k=k: exact(k)))
        ]
        found.append("; ".join(wrong))
    return found


def shown(layer):
    return "  " + ", ".join(f"{n}: {tuple(t.shape)} {t.stride()} {t.dtype}" for n, t in layer.tensors.items())


def verdict(layer, why, dynamic):
    """Of what a layer's results differ in."""
    if not why:
        return "right", ""
    if "strides" in why and "strides" in compared([layer], dynamic, "inductor")[0]:
        return "strides of torch's tracing", ""  # not for a backend to mend
    dense = Layer(layer.text, {n: t.contiguous() for n, t in layer.tensors.items()}, layer.graded)
    if not matches(outcome(whole([layer]), [layer])[0], outcome(whole([dense]), [dense])[0]):
        return "eager differs by layout", ""
    return "wrong", why


def matches(some, others):
    return all(torch.allclose(a, b, 1e-3, 1e-3, equal_nan=True) for (_, a), (_, b) in zip(some, others, strict=True))


def verdicts(layers, dynamic):
    """(verdict, reason) of each layer; where a program of several is refused, each is tried alone."""
    try:
        found = [verdict(layer, why, dynamic) for layer, why in zip(layers, compared(layers, dynamic), strict=True)]
        if any(what == "wrong" for what, _ in found):
            traced = compared(layers, dynamic, "aot_eager")
            found = [
                ("wrong by torch's tracing", "") if what == "wrong" and other else (what, why)
                for (what, why), other in zip(found, traced, strict=True)
            ]
        return found
    except Exception as error:
        if len(layers) > 1:
            return [verdicts([layer], dynamic)[0] for layer in layers]
        return [refusal(layers, dynamic, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")]


def refusal(layers, dynamic, why):
    """Of what is not compiled: by Coil, or by torch before that."""
    try:
        compared(layers, dynamic, "aot_eager")
    except Exception:
        return "refused by torch's tracing", ""
    return "refused", why


def on_device(layer, device):
    if device == "cpu":
        return layer
    return Layer(layer.text, {n: moved(t, device) for n, t in layer.tensors.items()}, layer.graded)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--layers", type=int, default=12, help="of a program")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--dynamic", action="store_true")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--emulated", action="store_true")
    parser.add_argument("--places", action="store_true", help="draws of place_draws.py")
    a = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    if a.emulated:
        OPTIONS["cuda.emulate"] = "true"
    torch.backends.cudnn.allow_tf32 = False
    counts, end = collections.Counter(), time.monotonic() + a.seconds
    for number in range(a.first, a.first + a.programs):
        if time.monotonic() > end:
            break
        drawer = Drawer(number, getattr(torch, a.dtype), place_draws.KINDS if a.places else None)
        layers = [on_device(drawer.draw(), a.device) for _ in range(a.layers)]
        for layer, (found, why) in zip(layers, verdicts(layers, a.dynamic or None), strict=True):
            counts[found] += 1
            if found in ("wrong", "refused"):
                alone, reason = verdicts([layer], a.dynamic or None)[0]
                print(f"#{number} {found}: {why}\n  alone {alone} {reason}\n  {layer.text}\n{shown(layer)}", flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main()
