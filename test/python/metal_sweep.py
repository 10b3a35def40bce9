"""All operator cases with kernels as Metal text, compiled as C++ behind a shim (`metal.emulate`): how many are right,
how many are refused by name and why, and which are wrong.

usage: PYTHONPATH=build/python python test/python/metal_sweep.py [CHUNK …]    chunks of test_ops.py, else all
"""

import collections
import pathlib
import re
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import batch  # noqa: E402

EMULATED = ("--set", "metal.emulate=true")
REFUSED = re.compile(
    r"((?:computes|gives|updates) .*Metal .*|a kernel with \d+ buffers.*"
    r"|\w+ of \w+ has no kernel on metal|\w+ has no implementation on \w+)"
)


def main(names):
    from test_ops import CHUNKS

    torch.set_num_threads(1)
    right, refused, wrong = 0, collections.Counter(), 0
    for key, cases in CHUNKS.items():
        if names and key not in names:
            continue
        found = batch.outcomes(cases, False, *EMULATED, caught=Exception)
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
