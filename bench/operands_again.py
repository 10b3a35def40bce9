"""Training steps of the small networks of memory_networks.py on the CPU with and without operands of products that
gradients compute again (python/coil/operands.py): milliseconds, the lower quartile of steps that take turns.

usage: operands_again.py [NAME ...] [--steps N] [--threads N]
"""

import argparse
import math
import time
import unittest.mock

import torch

import network_peaks
from coil import operands
from common import table
from memory_networks import NETWORKS

# Options that mean the same: with equal ones Dynamo runs for both models what it compiled for the first.
KINDS = {"kept": {"cache": "none"}, "again": {"cache": "none", "memory.order": "true"}}


def step_of(made, kind):
    """A compiled training step of a model, which has run a few times."""
    model, given = made
    call = network_peaks.call_of(torch.compile(model, backend="coil", options=KINDS[kind]), given, True)

    def step():
        model.zero_grad(set_to_none=True)
        call()

    if kind == "kept":
        with unittest.mock.patch.object(operands, "compute_again", lambda *args: None):
            step()
    for _ in range(4):
        step()
    return step


def timed(name, count):
    models = {kind: network_peaks.made(name, True) for kind in KINDS}  # each forgets what was compiled before
    steps = {kind: step_of(made, kind) for kind, made in models.items()}
    seconds = {kind: [] for kind in KINDS}
    for k in range(count):
        for kind in sorted(KINDS, reverse=k % 2 == 1):
            start = time.perf_counter()
            steps[kind]()
            seconds[kind].append(time.perf_counter() - start)
    return [sorted(seconds[kind])[count // 4] * 1e3 for kind in KINDS]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="all of them where none is named")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--threads", type=int, default=2)
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    rows, ratios = [], []
    for name in a.names or NETWORKS:
        kept, again = timed(name, a.steps)
        ratios.append(again / kept)
        rows.append([name, f"{kept:.3f}", f"{again:.3f}", f"{ratios[-1]:.3f}"])
        print(*rows[-1], flush=True)
    print(table(["ms", *KINDS, "again / kept"], rows))
    print(f"geometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.4f}")


if __name__ == "__main__":
    main()
