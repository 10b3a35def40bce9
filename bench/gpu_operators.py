"""Every operator case of the CPU's tests, compiled for the GPU and run there, against eager on the CPU.

usage: gpu_operators.py [GROUP ...] [--seconds N] [--jobs N]     groups as test/python/test_ops.py names them; all when
none is named
Exit 1 when a case is wrong or was not reached.
"""

import argparse
import collections
import multiprocessing
import os
import re
import time

os.environ["OMP_NUM_THREADS"] = "2"
import torch

import test_ops
from batch import outcomes

OPTIONS = ("--device", "cuda", "--set", "cpu.isa=avx2")


def check(key):
    torch.set_num_threads(2)
    for cases in (
        [test_ops.CHUNKS[key]],
        [[case] for case in test_ops.CHUNKS[key]],
    ):  # together; where torch itself fails, one by one
        found = {}
        for some in cases:
            try:
                found |= outcomes(some, False, *OPTIONS)
            except Exception as error:
                found |= {case.name: f"harness: {error!r}"[:600] for case in some}
        if not any(said.startswith("harness") for said in found.values()):
            break
    return key, found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--jobs", type=int, default=min(14, os.cpu_count()))
    a = parser.parse_args()
    end = time.monotonic() + a.seconds
    keys = [k for k in test_ops.CHUNKS if not a.groups or any(k.startswith(g) for g in a.groups)]
    wrong, right, reached = {}, 0, set()
    # A forked process hangs in OpenMP once its parent has used threads, and at torch's second export.
    pool = multiprocessing.get_context("spawn").Pool(a.jobs, maxtasksperchild=1)
    results = pool.imap_unordered(check, keys)
    while len(reached) < len(keys):
        try:
            key, cases = results.next(timeout=max(0.1, end - time.monotonic()))
        except multiprocessing.TimeoutError:
            break
        reached.add(key)
        right += sum(not said for said in cases.values())
        wrong |= {f"{key}/{name}": said for name, said in cases.items() if said}
    for name, said in sorted(wrong.items()):
        print(f"{name}: {said}")
    kinds = collections.Counter(re.sub(r"[0-9.e+-]+", "#", str(said))[:140] for said in wrong.values())
    for kind, count in kinds.most_common(20):
        print(f"{count:5d} x {kind}")
    if missing := sorted(set(keys) - reached):
        print(f"not reached in time: {' '.join(missing)}")
    print(f"operators: {right} right, {len(wrong)} wrong, {len(reached)} of {len(keys)} groups", flush=True)
    os._exit(bool(wrong or missing))  # workers that hang are not waited for


if __name__ == "__main__":
    main()
