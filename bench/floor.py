"""What a call through torch.compile costs before a backend has done anything, in microseconds: eager, a backend that returns what it computed once, Coil and Inductor, in turns in one process.

usage: floor.py [--rounds 20]
"""
import argparse
import pathlib
import sys
import time

import torch

from common import table

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "build/python"))


def floor(gm, inputs):
    """Does nothing from the second call on."""
    with torch.no_grad():
        results = tuple(gm(*inputs))
    return lambda *_: results


def one():
    return (lambda x: x + 1), (torch.randn(16),)


def thirty():
    return (lambda *xs: sum(xs)), tuple(torch.randn(16) for _ in range(30))


def compiled(case, backend):
    """Functions share a code object, which Dynamo keeps its entries by: each side has one of its own."""
    function, args = case()
    function = type(function)(function.__code__.replace(co_name=f"{case.__name__}_{getattr(backend, '__name__', backend)}"), function.__globals__)
    call = torch.compile(function, backend=backend, fullgraph=True) if backend else function
    for _ in range(100):
        call(*args)
    return lambda: call(*args)


def microseconds(call, calls=500):
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls * 1e6


def run(rounds):
    torch.set_num_threads(1)
    rows = []
    with torch.no_grad():
        for name, case in (("one kernel of 16 elements", one), ("thirty inputs", thirty)):
            sides = [compiled(case, backend) for backend in (None, floor, "coil", "inductor")]
            best = [min(times) for times in zip(*([microseconds(side) for side in sides] for _ in range(rounds)))]
            rows.append([name, *best])
            print(*rows[-1], flush=True)
    return table(["call through torch.compile, µs", "eager", "a backend that does nothing", "**coil**", "inductor"], rows)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=20)
    print(run(options.parse_args().rounds))
