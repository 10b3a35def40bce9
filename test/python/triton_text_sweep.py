"""All operator cases with kernels as Triton text, by Triton's interpreter on the CPU: how many are right, and how many
of their kernels are in Triton; which stay CUDA C++, and why.

usage: PYTHONPATH=build/python python test/python/triton_text_sweep.py [CHUNK …]    chunks of test_ops.py, else all
"""

import collections
import pathlib
import re
import sys
import tempfile

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import batch  # noqa: E402
import coil  # noqa: E402
from coil_harness import coil as command, dense, export, same  # noqa: E402

EMULATED = ("--set", "cuda.emulate=true", "--set", "cuda.kernels=triton")


def interpreted(package, inputs, _folder):
    """The results of a package by name, as `coil run` gives them, with kernels that Python carries out."""
    model = coil.load(package)
    given = {name: value.clone() for name, value in inputs.items()}
    results = model._graph([given[name] for name in model.inputs])
    changed = {name: value for name, value in given.items() if not same(value, inputs[name])}
    return {name: dense(value) for name, value in zip(model.outputs, results)} | changed


def languages(cases):
    """Counter of the reasons of kernels that are not in Triton, and under "" how many are."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "m.pt2"
        export(batch.Batch(cases), ({c.name: c.args for c in cases},), path)
        report = command("explain", path, *EMULATED).stdout
    found = collections.Counter(re.findall(r"\(CUDA C\+\+: (.*)\)$", report, re.MULTILINE))
    found[""] = len(re.findall(r"\(Triton\)$", report, re.MULTILINE))
    return found


def main(names):
    from test_ops import CHUNKS

    torch.set_num_threads(1)
    batch.run = interpreted
    right, wrong, kernels = 0, 0, collections.Counter()
    for key, cases in CHUNKS.items():
        if names and key not in names:
            continue
        found = batch.outcomes(cases, False, *EMULATED, caught=Exception)
        bad = {name: text for name, text in found.items() if text}
        right, wrong = right + len(found) - len(bad), wrong + len(bad)
        kernels.update(languages(cases))
        print(f"{key}: {len(found) - len(bad)} right", flush=True)
        for name, text in bad.items():
            print(f"  {name}: {text[:300]}", flush=True)
    print(f"{right} cases right, {wrong} wrong; {kernels.pop('', 0)} kernels in Triton, {kernels.total()} in CUDA C++:")
    for reason, count in kernels.most_common():
        print(f"{count:6} {reason}")


if __name__ == "__main__":
    main(sys.argv[1:])
