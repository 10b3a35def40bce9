"""Programs of every kind, made small and with random weights, each compiled and compared with eager as exported and
decomposed; a table of what came of them.

    zoo.py [NAME ...] [--list] [--form exported|decomposed] [--report FILE]

A name is a program's, or a prefix of some. Each program and form ends in one of these: right; WRONG; refused (Coil says
by name what it does not do); crash; no program (torch.export or eager refuses it).
It is run by hand: exporting takes minutes. `test_models.py` and `test_ops.py` hold what must stay right.
"""

import argparse
import collections
import copy
import dataclasses
import logging
import pathlib
import re
import sys
import tempfile
import time
import warnings

import torch

from coil_harness import CoilError, coil, differences, eager, named_outputs, run
from zoo_architectures import ARCHITECTURES
from zoo_functions import PROGRAMS
from zoo_small_mixed import MODELS as SMALL_MODELS
from zoo_transformers_mixed import MODELS

# Relative to the largest value of an output: layers add up what single operators are allowed.
TOLERANCE = {torch.float64: 1e-8, torch.float32: 2e-4, torch.float16: 1e-2, torch.bfloat16: 3e-2}
ZOO = MODELS | SMALL_MODELS | PROGRAMS | ARCHITECTURES


@dataclasses.dataclass
class Outcome:
    name: str
    form: str
    verdict: str
    why: str = ""
    seconds: float = 0


def exported(module, args, dynamic):
    """Yields (form, program or the exception that took its place)."""
    try:
        with torch.no_grad():
            program = torch.export.export(module, copy.deepcopy(args), dynamic_shapes=dynamic)
    except Exception as error:
        yield "exported", error
        return
    yield "exported", program
    try:
        yield "decomposed", program.run_decompositions()
    except Exception as error:
        yield "decomposed", error


def judge(program, module, calls, folder):
    """(verdict, why, seconds of the compile)"""
    archive, package = pathlib.Path(folder) / "m.pt2", pathlib.Path(folder) / "m.coil"
    try:
        torch.export.save(program, archive)
    except Exception as error:
        return "no program", f"saving: {type(error).__name__} {error}", 0
    start = time.perf_counter()
    done = coil("compile", archive, "-o", package)
    seconds = time.perf_counter() - start
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        refusal = done.returncode == 1 and lines[-1].startswith("coil: error: ") and "internal" not in lines[-1]
        return "refused" if refusal else "crash", lines[-1].removeprefix("coil: error: "), seconds
    for number, args in enumerate(calls):
        before, want = eager(module, args)
        try:
            got = run(package, before, folder)
        except CoilError as error:
            return "crash", f"call {number}: {error}", seconds
        wrong = differences(got, want, lambda name: {"tolerance": TOLERANCE.get(want[name].dtype)})
        if wrong and differences(
            named_outputs(program.module()(*copy.deepcopy(args))),
            want,
            lambda name: {"tolerance": TOLERANCE.get(want[name].dtype)},
        ):
            return "no program", "torch's own form of it has other results than eager", seconds
        if wrong:
            return "WRONG", f"call {number}: " + " | ".join(wrong), seconds
    return "right", "", seconds


def visit(name, make, form=None):
    """The outcomes of one program; (module, args[, dynamic shapes, more args to run])."""
    torch.manual_seed(0)
    try:
        module, args, dynamic, others = (*make(), None, ())[:4] if len(made := make()) < 4 else made
        eager(module, args)
    except Exception as error:
        return [Outcome(name, "both", "no program", f"eager: {type(error).__name__} {error}")]
    outcomes = []
    for each, program in exported(module, args, dynamic):
        if form and each != form:
            continue
        if isinstance(program, Exception):
            outcomes.append(Outcome(name, each, "no program", f"{type(program).__name__} {str(program).strip()}"))
        else:
            with tempfile.TemporaryDirectory() as folder:
                outcomes.append(Outcome(name, each, *judge(program, module, [args, *others], folder)))
        if each == form:
            break
    return outcomes


def report(outcomes, out):
    counts = collections.Counter(o.verdict for o in outcomes)
    print(", ".join(f"{counts[v]} {v}" for v in ("right", "WRONG", "crash", "refused", "no program")), file=out)
    refusals = collections.Counter(o.why.split(":", 1)[0] for o in outcomes if o.verdict == "refused")
    for what, count in refusals.most_common():
        print(f"{count:4d} refused: {what}", file=out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="programs, or prefixes of their names")
    parser.add_argument("--list", action="store_true", help="print the names")
    parser.add_argument("--form", choices=["exported", "decomposed"])
    parser.add_argument("--part", default="0/1", help="K/N: every N-th program from the K-th on")
    parser.add_argument("--report", type=argparse.FileType("w"), default=sys.stdout)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    part, parts = map(int, args.part.split("/"))
    names = [n for n in ZOO if not args.names or any(n == p or n.startswith(p) for p in args.names)][part::parts]
    if args.list:
        print(*names, sep="\n")
        return
    outcomes = []
    for name in names:
        for o in visit(name, ZOO[name], args.form):
            outcomes.append(o)
            why = re.sub(r"\s+", " ", o.why)[:400]
            print(f"{o.name:24s} {o.form:10s} {o.verdict:10s} {o.seconds:5.1f} s  {why}", file=args.report, flush=True)
    report(outcomes, args.report)
    sys.exit(any(o.verdict in ("WRONG", "crash") for o in outcomes))


if __name__ == "__main__":
    main()
