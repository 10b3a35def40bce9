"""What a call through torch.compile costs, in microseconds of the host's time: eager, a backend that does nothing, one
that allocates its results, Coil and Inductor, in turns in one process.

usage: floor.py [--rounds 20] [--device cuda]
A call is queued; on a GPU, twenty calls are queued and then waited for, and the second figure of each side is a call's
share of that whole time.
"""

import argparse
import pathlib
import sys
import time

import torch

from common import table

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "build/python"))


def nothing(gm, inputs):
    """Does nothing from the second call on."""
    with torch.no_grad():
        results = tuple(gm(*inputs))
    return lambda *_: results


def empty(gm, inputs):
    """Makes its results and leaves them as they are: what a backend in Python cannot go below."""
    with torch.no_grad():
        layouts = [(tuple(r.shape), r.stride(), {"dtype": r.dtype, "device": r.device}) for r in gm(*inputs)]
    make = torch.empty_strided
    return lambda *_: tuple([make(sizes, strides, **kind) for sizes, strides, kind in layouts])


def one(device):
    return (lambda x: x + 1), (torch.randn(16, device=device),)


def thirty(device):
    return (lambda *xs: sum(xs)), tuple(torch.randn(16, device=device) for _ in range(30))


def hundred(device):
    def layers(x, w):
        for _ in range(50):
            x = torch.mm(x, w).relu()
        return x

    return layers, (torch.randn(8, 8, device=device), torch.randn(8, 8, device=device) * 0.3)


CASES = {"one kernel of 16 elements": one, "thirty inputs": thirty, "fifty products and relus, 8 by 8": hundred}
SIDES = {
    "eager": None,
    "a backend that does nothing": dict(backend=nothing),
    "one that allocates its results": dict(backend=empty),
    "**coil**": dict(backend="coil"),
    "coil, recorded": dict(backend="coil", mode="reduce-overhead"),
    "inductor": dict(backend="inductor"),
}


def compiled(name, case, side, device):
    """Functions share a code object, which Dynamo keeps its entries by: each side has one of its own."""
    function, args = case(device)
    function = type(function)(
        function.__code__.replace(co_name=f"{case.__name__}_{sum(map(ord, name))}"), function.__globals__
    )
    call = torch.compile(function, fullgraph=True, **SIDES[side]) if SIDES[side] else function
    for _ in range(100):
        call(*args)
    return lambda: call(*args)


def microseconds(call, device, calls=500):
    """Of one call: until it is queued, and until it is done."""
    burst = 20 if device != "cpu" else calls
    queued = done = 0.0
    for _ in range(calls // burst):
        start = time.perf_counter()
        for _ in range(burst):
            call()
        queued += time.perf_counter() - start
        if device != "cpu":
            torch.cuda.synchronize()
        done += time.perf_counter() - start
    return queued / calls * 1e6, done / calls * 1e6


def run(rounds=20, device="cpu"):
    torch.set_num_threads(1)
    chosen = [side for side in SIDES if device != "cpu" or side != "coil, recorded"]
    rows = []
    with torch.no_grad():
        for name, case in CASES.items():
            sides = [compiled(side, case, side, device) for side in chosen]
            measured = [[microseconds(side, device) for side in sides] for _ in range(rounds)]
            best = [[min(m[k][what] for m in measured) for k in range(len(sides))] for what in (0, 1)]
            rows.append([name, *best[0]])
            if device != "cpu":
                rows.append([f"{name}, done", *best[1]])
            print(*rows[-1 - (device != "cpu") :], sep="\n", flush=True)
    return table(["call through torch.compile, µs", *chosen], rows)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=20)
    options.add_argument("--device", default="cpu")
    print(run(**vars(options.parse_args())))
