"""PyTorch's own operator database (`torch.testing._internal` OpInfo) as a source of programs: each sample is exported,
compiled, run and compared with eager.

    opinfo_sweep.py [--dtype f32 ...] [--op NAME ...] [--samples N] [--decomposed] [--report FILE]

Every sample ends in one of these: right; refused (Coil says by name what it does not do); random (eager itself differs
from call to call, draws numbers, or leaves open which of equal elements an index names); no program (torch.export or
eager refuses it); WRONG; crash.
It takes minutes, so `make test` runs the fixed few of `test_opinfo.py` alone. It needs `expecttest`, which torch's
testing modules import.
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
import unittest.mock
import warnings

import torch
from torch.utils import _pytree as pytree

from batch import Case, outcomes, plain
from coil_harness import coil, export

DTYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "i64": torch.int64,
    "i32": torch.int32,
    "u8": torch.uint8,
    "b8": torch.bool,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "c64": torch.complex64,
}
# Looser than the harness: samples hold values near the edges of their operators' domains.
TOLERANCE = {torch.float32: 1e-4, torch.float16: 8e-3, torch.bfloat16: 4e-2}
CHUNK = 48


@dataclasses.dataclass(frozen=True)
class Sample:
    """One call of one operator: a function of its tensors alone."""

    op: str
    number: int
    text: str
    function: object
    args: tuple
    dtype: torch.dtype  # that is swept

    @property
    def name(self):
        return re.sub(r"\W", "_", f"{self.op}_{self.number}")


def spread(items, count):
    """At most `count` of them, evenly from first to last."""
    return items if len(items) <= count else [items[i * (len(items) - 1) // (count - 1)] for i in range(count)]


def numbers_as_they_are(value):
    return (
        f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
        if isinstance(value, torch.Tensor)
        else repr(value)
    )


def samples_of(op, dtype, count):
    torch.manual_seed(0)
    inputs = list(op.sample_inputs("cpu", dtype, requires_grad=False))
    for number, sample in enumerate(spread(inputs, count)):
        leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        where = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

        def function(*tensors, leaves=leaves, spec=spec, where=where):
            leaves = list(leaves)
            for i, tensor in zip(where, tensors):
                leaves[i] = tensor
            first, args, kwargs = pytree.tree_unflatten(leaves, spec)
            made = op.op(first, *args, **kwargs)
            return tuple(map(torch.abs, determined(op.name, made))) if op.name in UP_TO_SIGN else made

        text = ", ".join([numbers_as_they_are(leaf) for leaf in leaves])
        name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        # Memory of its own: samples share running statistics, which calls write to.
        own = copy.deepcopy(tuple(leaves[i].detach() for i in where))
        yield Sample(name, number, f"{name}({text})", function, own, dtype)


# Where eager gives memory as it comes.
UNWRITTEN = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
# Where eager leaves open which of equal elements an index names.
TIES = {"argsort", "kthvalue", "mode", "sort", "topk"}


# Where a library may turn the signs of vectors.
UP_TO_SIGN = {"linalg.eigh", "linalg.svd", "svd"}


def determined(name, made):
    """Of a factorization, the vectors that the matrix determines: any others complete a basis."""
    if name == "linalg.eigh":
        return made
    u, s, v = made
    count = s.shape[-1]
    return u[..., :count], s, v[..., :count] if name == "svd" else v[..., :count, :]


class One(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, of):
        return plain(self.function(*of))


def same(a, b):
    """Whether two results are bit for bit the same."""
    pairs = list(zip(pytree.tree_leaves(a), pytree.tree_leaves(b)))
    return all(
        torch.equal(x.nan_to_num(), y.nan_to_num())
        if isinstance(x, torch.Tensor) and x.dtype.is_floating_point
        else str(x) == str(y)
        for x, y in pairs
    )


def draws(archive):
    """Whether a program holds an operator that draws random numbers."""
    nodes = torch.export.load(archive).graph.nodes
    return any(torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) for node in nodes)


def first_verdict(sample, decomposed, folder):
    """None for a sample that can be compiled; else (verdict, why)."""
    try:
        # Samples that draw numbers seed the generator themselves, to the same number each time.
        with torch.no_grad(), unittest.mock.patch("torch.manual_seed", lambda seed: None):
            one = sample.function(*copy.deepcopy(sample.args))
            torch.rand(11)
            two = sample.function(*copy.deepcopy(sample.args))
            random = not same(one, two)
    except Exception as error:
        return "no program", f"eager: {error}"
    if random or sample.op in UNWRITTEN:
        return "random", ""
    archive = pathlib.Path(folder) / "sample.pt2"
    try:
        export(One(sample.function), (sample.args,), archive, decomposed=decomposed)
        if draws(archive):
            return "random", "it draws numbers"
    except Exception as error:
        return "no program", f"export: {type(error).__name__} {str(error).strip().splitlines()[:1]}"
    done = coil("compile", archive, "--emit=cpp", "-o", pathlib.Path(folder) / "sample.cpp")
    if done.returncode == 0:
        return None
    lines = done.stderr.strip().splitlines()
    refusal = done.returncode == 1 and lines and lines[-1].startswith("coil: error: ") and "internal" not in lines[-1]
    return "refused" if refusal else "crash", lines[-1].removeprefix(
        "coil: error: "
    ) if lines else f"exit code {done.returncode}"


def torch_fails(sample):
    """What torch itself says of the sample's exported program, if it does not run there."""
    with tempfile.TemporaryDirectory() as folder:
        archive = pathlib.Path(folder) / "sample.pt2"
        export(One(sample.function), (sample.args,), archive)
        try:
            torch.export.load(archive).module()(copy.deepcopy(sample.args))
        except Exception as error:
            return f"exported: {error}"
    return ""


def sweep(samples, decomposed=False, progress=lambda text: None):
    """[(sample, verdict, why)]: what can be compiled is, dozens in one program."""
    results, pending = [], []

    def flush():
        for name, wrong in outcomes(
            [Case("opinfo", s.name, s.function, s.args, TOLERANCE.get(kind(s))) for s in pending], decomposed
        ).items():
            sample = next(s for s in pending if s.name == name)
            if "safetensors has no dtype" in wrong:
                results.append((sample, "no program", wrong))
                continue
            crashed = wrong.startswith("coil ")  # the command failed where compiling to source had not
            if crashed and (said := torch_fails(sample)):
                results.append((sample, "no program", said))
                continue
            tie = (
                wrong and sample.op in TIES and not any(t.dtype in (torch.float32, torch.float64) for t in sample.args)
            )
            results.append((sample, "crash" if crashed else "random" if tie else "WRONG" if wrong else "right", wrong))
        pending.clear()

    with tempfile.TemporaryDirectory() as folder:
        for sample in samples:
            if verdict := first_verdict(sample, decomposed, folder):
                results.append((sample, *verdict))
            else:
                pending.append(sample)
            if len(pending) >= CHUNK:
                progress(sample.op)
                flush()
        flush()
    return results


def kind(sample):
    """The narrowest floating type among the tensors, and the swept one: what decides the tolerance."""
    types = [t for t in (sample.dtype, *(tensor.dtype for tensor in sample.args)) if t.is_floating_point]
    return min(types, key=lambda t: torch.finfo(t).bits * 100 + (t == torch.float16), default=torch.float32)


def database(names=()):
    from torch.testing._internal.common_methods_invocations import op_db

    return [op for op in op_db if not names or op.name in names]


def report(results, out):
    counts = collections.Counter(verdict for _, verdict, _ in results)
    operators = collections.defaultdict(collections.Counter)
    for sample, verdict, _ in results:
        operators[sample.op][verdict] += 1
    whole = sum(1 for c in operators.values() if c["right"] and not c["refused"] + c["WRONG"] + c["crash"])
    print(
        "samples:",
        ", ".join(f"{counts[v]} {v}" for v in ("right", "refused", "random", "no program", "WRONG", "crash")),
        file=out,
    )
    print(
        f"operators: {len(operators)}, wholly right {whole}, wholly refused "
        f"{sum(1 for c in operators.values() if c['refused'] and not c['right'])}",
        file=out,
    )
    for verdict in ("WRONG", "crash", "refused", "no program", "random"):
        of = [(s, why) for s, v, why in results if v == verdict]
        print(f"\n== {verdict}: {len(of)}", file=out)
        for sample, why in of:
            print(f"{sample.text[:300]}\n      {' / '.join(why.splitlines())[:400]}", file=out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtype", nargs="+", default=["f32"], choices=DTYPES)
    parser.add_argument("--op", nargs="+", default=[], help="these operators only")
    parser.add_argument("--part", default="0/1", help="K/N: every N-th operator from the K-th on")
    parser.add_argument("--samples", type=int, default=6, help="of each operator and dtype, at most")
    parser.add_argument("--decomposed", action="store_true", help="after run_decompositions()")
    parser.add_argument("--report", type=argparse.FileType("w"), default=sys.stdout)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    part, parts = map(int, args.part.split("/"))
    for name in args.dtype:
        dtype = DTYPES[name]
        operators = [op for op in database(args.op) if dtype in op.supported_dtypes("cpu")][part::parts]

        def samples():
            for op in operators:
                try:
                    yield from samples_of(op, dtype, args.samples)
                except Exception as error:
                    print(f"no samples of {op.name}: {error}", file=args.report)

        results = sweep(samples(), args.decomposed, lambda op: print(f"{name}: at {op}", file=sys.stderr, flush=True))
        print(f"\n#### {name}{' decomposed' if args.decomposed else ''}", file=args.report)
        report(results, args.report)
        args.report.flush()


if __name__ == "__main__":
    main()
