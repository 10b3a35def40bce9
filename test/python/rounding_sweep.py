"""The operators of `cases` in 16 bits: how far Coil is from the same function in 64 bits, beside how far eager is.

    rounding_sweep.py [--dtype bf16 f16] [--group PATTERN] [--part K/N] [--report FILE]

A case of f32 is tried with its values rounded to the narrow type: by Coil, by eager, and by eager in f64 on the rounded
values. Errors are counted in units of the last place of the result's type. Coil may be as far as half a unit, which is
what rounding once costs, or 1.5 times as far as eager; more is reported.
"""

import argparse
import dataclasses
import functools
import logging
import pathlib
import re
import sys
import tempfile
import warnings

import torch
from torch.utils import _pytree as pytree

from batch import Batch
from coil_harness import CoilError, coil_ok, eager, export, run
from test_ops import FAMILIES

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
ALLOWED = 1.5  # times eager's error
ONCE = 0.501  # units in the last place that rounding once may cost
CHUNK = 48


def cast(value, dtype):
    return pytree.tree_map(lambda t: t.to(dtype) if isinstance(t, torch.Tensor) and t.is_floating_point() else t, value)


def cases_of(dtype, pattern=""):
    """Every case whose floats are f32, in `dtype`, that eager takes in it and in f64."""
    for family in FAMILIES:
        for case in family.cases:
            floats = [t for t in pytree.tree_leaves(case.args) if isinstance(t, torch.Tensor) and t.is_floating_point()]
            if not re.search(pattern, f"{family.group}-{case.name}") or not floats:
                continue
            if any(t.dtype is not torch.float32 for t in floats):
                continue
            yield dataclasses.replace(case, name=f"{family.group}_{case.name}", args=cast(case.args, dtype))


def exact(case):
    """Eager in f64 on the same values; None where eager does not take it, or computes in another type anyway."""
    with torch.no_grad():
        results = case.function(*cast(pytree.tree_map(copied, case.args), torch.float64))
    return [r.detach() for r in pytree.tree_leaves(results) if isinstance(r, torch.Tensor)]


def copied(leaf):
    return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf


@functools.cache
def spacing(dtype):
    return torch.finfo(dtype).eps, torch.finfo(dtype).smallest_normal


def errors(value, reference, dtype):
    """In units of the last place of the reference; where that is infinite or NaN, 0 when the value is the same."""
    eps, least = spacing(dtype)
    limit = torch.finfo(dtype).max
    value, reference = value.double(), reference.double()
    unit = torch.exp2(torch.floor(torch.log2(reference.abs().clamp(min=least)))) * eps
    far = (value - reference).abs() / unit
    same = (value == reference) | (value.isnan() & reference.isnan())
    beyond = (reference.abs() > limit) & value.isinf() & (value.sign() == reference.sign())
    return torch.where(same | beyond, 0.0, far).nan_to_num(nan=torch.inf)


def judged(ours, eagers, reference):
    """What is wrong, or nothing: the largest error and the root of the mean square, each beside eager's."""
    dtype = eagers.dtype
    if dtype not in DTYPES.values() or not eagers.numel():
        return ""
    ours, eagers = (errors(v, reference, dtype) for v in (ours, eagers))
    for name, measure in ("largest", torch.max), ("mean square", lambda e: e.square().mean().sqrt()):
        o, e = measure(ours).item(), measure(eagers).item()
        floor = ONCE if name == "largest" else 0.3
        if not o <= max(ALLOWED * e, floor):
            return f"{name} error {o:.4g} units in the last place, eager's {e:.4g} (of {ours.numel()})"
    return ""


def compile_and_run(cases, folder):
    module, args = Batch(cases), ({case.name: case.args for case in cases},)
    archive, package = pathlib.Path(folder) / "m.pt2", pathlib.Path(folder) / "m.coil"
    export(module, args, archive)
    coil_ok("compile", archive, "-o", package)
    before, want = eager(module, args, onednn=False)
    return run(package, before, folder), want


def results_of(case, named):
    """A case's results in order."""
    found = []
    for name, value in named.items():
        if name == case.name or name.startswith(case.name + "."):
            found.append((name, value))
    return [v for _, v in sorted(found, key=lambda item: [int(n) for n in re.findall(r"\.(\d+)", item[0])])]


def verdicts(cases):
    """{case: what is wrong, nothing, or None where there is nothing to compare}."""
    if not cases:
        return {}
    try:
        with tempfile.TemporaryDirectory() as folder:
            got, want = compile_and_run(cases, folder)
    except (CoilError, RuntimeError, NotImplementedError, TypeError, ValueError) as error:
        if len(cases) == 1:
            return {cases[0].name: None if not isinstance(error, CoilError) else f"refused: {error}"}
        half = len(cases) // 2
        return verdicts(cases[:half]) | verdicts(cases[half:])
    found = {}
    for case in cases:
        ours, eagers, reference = results_of(case, got), results_of(case, want), exact(case)
        if not len(ours) == len(eagers) == len(reference) or any(e.shape != r.shape for e, r in zip(eagers, reference)):
            found[case.name] = None
            continue
        found[case.name] = "; ".join(filter(None, map(judged, ours, eagers, reference)))
    return found


def taken(case):
    try:
        exact(case)
        with torch.no_grad():
            case.function(*pytree.tree_map(copied, case.args))
        return True
    except Exception:
        return False


def sweep(names, pattern="", part=(0, 1), progress=lambda text: None):
    """[(dtype, case's name, what is wrong)] of those that were compared, with an empty text where nothing is."""
    found = []
    for name in names:
        cases = [c for c in list(cases_of(DTYPES[name], pattern))[part[0] :: part[1]] if taken(c)]
        for k in range(0, len(cases), CHUNK):
            results = verdicts(cases[k : k + CHUNK])
            found += [(name, case, wrong) for case, wrong in results.items() if wrong is not None]
            progress(f"{name}: {k + len(results)} of {len(cases)}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtype", nargs="+", default=list(DTYPES), choices=DTYPES)
    parser.add_argument("--group", default="", help="a pattern that group-case matches")
    parser.add_argument("--part", default="0/1", help="K/N: every N-th case from the K-th on")
    parser.add_argument("--report", type=argparse.FileType("w"), default=sys.stdout)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    found = sweep(
        args.dtype,
        args.group,
        tuple(map(int, args.part.split("/"))),
        lambda text: print(text, file=sys.stderr, flush=True),
    )
    wrong = [f for f in found if f[2]]
    print(f"{len(found)} cases compared, {len(wrong)} farther from f64 than {ALLOWED} times eager", file=args.report)
    for dtype, case, text in wrong:
        print(f"{dtype} {case}: {text}", file=args.report)


if __name__ == "__main__":
    main()
