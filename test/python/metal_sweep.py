"""All operator cases and the programs of the CUDA emulator's tests with kernels as Metal text: how many are right, how
many are refused by name and why, and which are wrong.

usage: PYTHONPATH=build/python python test/python/metal_sweep.py [--device] [CHUNK …]

Chunks are those of test_ops.py and `cuda-forms`, `cuda-sorting` and the like; else all. The text is compiled as C++
behind a shim, with libraries of the CPU's (`metal.emulate`); with `--device` packages are for the device, whose machine
is that of test/fake_metal: what has no kernel there is refused or left to the host.
"""

import collections
import os
import pathlib
import re
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import batch  # noqa: E402

REFUSED = re.compile(
    r"((?:computes|gives|updates) .*Metal .*|a kernel with \d+ buffers.*"
    r"|\w+ of \w+ has no kernel on metal|\w+ has no implementation on \w+)"
)


def emulated_programs():
    """The programs that the CUDA emulator runs in tests, by group."""
    import test_cuda_group_convolutions
    import test_cuda_sorting
    import test_cuda_values
    import test_cuda_windows

    groups = collections.defaultdict(list)
    for case in test_cuda_values.SHAPES:
        groups[f"cuda-{case.group}"].append(case)
    groups["cuda-sorting"] = list(test_cuda_sorting.CASES)
    groups["cuda-windows"] = list(test_cuda_windows.CASES)
    groups["cuda-convolutions"] = list(test_cuda_group_convolutions.CASES)
    return groups


def main(names):
    options = ("--set", "metal.emulate=true")
    if "--device" in names:
        import coil_harness

        options, names = ("--device", "metal"), [n for n in names if n != "--device"]
        coil_harness.ENVIRONMENT["LD_LIBRARY_PATH"] = os.fspath(coil_harness.ROOT / "build/lib/fake_metal")
    from test_ops import CHUNKS

    torch.set_num_threads(1)
    right, refused, wrong = 0, collections.Counter(), 0
    for key, cases in (emulated_programs() | CHUNKS).items():
        if names and key not in names:
            continue
        found = batch.outcomes(cases, False, *options, caught=Exception)
        reasons = {name: REFUSED.search(text) for name, text in found.items() if text}
        bad = {name: found[name] for name, reason in reasons.items() if not reason}
        refused.update(reason[1] for reason in reasons.values() if reason)
        right, wrong = right + len(found) - len(reasons), wrong + len(bad)
        print(f"{key}: {len(found) - len(reasons)} right, {len(reasons) - len(bad)} refused", flush=True)
        for name, text in bad.items():
            print(f"  {name}: {text[:400]}", flush=True)
    print(f"{right} cases right, {refused.total()} refused, {wrong} wrong")
    for reason, count in refused.most_common():
        print(f"{count:6} {reason}")


if __name__ == "__main__":
    main(sys.argv[1:])
