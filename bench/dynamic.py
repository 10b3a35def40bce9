"""What free sizes cost: models compiled for one size and for all, by Coil and by Inductor; milliseconds at that one
size in bursts that take turns, and seconds of cold compile.

usage: dynamic.py [NAME,...] [--threads N] [--rounds N]
"""

import pathlib
import tempfile
import time

import torch
from torch.export import Dim

from common import burst, export, geometric_mean, main, table, take_turns
from workloads import MODELS

BATCH, LENGTH = Dim("batch", min=1, max=32), Dim("length", min=2, max=512)
SHAPES = {
    "bert_1x128": {0: BATCH, 1: LENGTH},
    "gpt2_1x128": {0: BATCH, 1: LENGTH},
    "resnet50_1": {0: BATCH, 2: Dim("height", min=64, max=512), 3: Dim("width", min=64, max=512)},
}
SIDES = ("inductor", "inductor dynamic", "coil", "coil dynamic")


def inductor(module, args, dynamic):
    """(call, seconds to make it), nothing taken from a cache."""
    import torch._inductor.config as config

    torch._dynamo.reset()
    compiled = torch.compile(module, dynamic=dynamic, fullgraph=True)
    start = time.perf_counter()
    with config.patch(fx_graph_cache=False):
        compiled(*args)
    return lambda: compiled(*args), time.perf_counter() - start


def measure(name, threads, rounds):
    """(milliseconds, cold seconds), each by side."""
    torch.manual_seed(0)
    module, args = MODELS[name]()
    if args[0].shape[0] == 1:  # torch specializes a size that is 1 in the example
        args = (torch.cat([args[0]] * 2),)
    cold, calls = {}, {}
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        archives = {side: pathlib.Path(folder) / f"{side}.pt2" for side in SIDES[2:]}
        export(module, args, archives["coil"])
        export(module, args, archives["coil dynamic"], (SHAPES[name],))
        for side in SIDES[:2]:
            calls[side], cold[side] = inductor(module, args, side.endswith("dynamic"))
            burst(calls[side], 3)
        best, compiles = take_turns(calls, archives, rounds, threads, "--seconds", 2)
    return best, cold | compiles


def run(names=None, threads=2, rounds=3):
    torch.set_num_threads(threads)
    rows, speeds, compiles = [], [], []
    for name in names or SHAPES:
        best, cold = measure(name, threads, rounds)
        speeds.append(best["coil"] / best["coil dynamic"])
        compiles.append(cold["coil dynamic"] / cold["coil"])
        rows.append(
            [
                name.replace("_1", "_2"),
                *(best[s] for s in SIDES),
                speeds[-1],
                best["inductor dynamic"] / best["coil dynamic"],
                *(cold[s] for s in SIDES),
                compiles[-1],
                cold["inductor dynamic"] / cold["coil dynamic"],
            ]
        )
        print(*rows[-1], flush=True)
    heads = [
        "model, ms",
        *SIDES[:2],
        *(f"**{s}**" for s in SIDES[2:]),
        "coil / dynamic",
        "inductor dynamic / coil dynamic",
        *(f"cold s: {s}" for s in SIDES),
        "cold: dynamic / coil",
        "cold: inductor dynamic / coil dynamic",
    ]
    return table(heads, rows) + (
        f"\nGeometric means: speed with free sizes {geometric_mean(speeds):.2f} of that without, compile time "
        f"{geometric_mean(compiles):.2f} times that without\n"
    )


if __name__ == "__main__":
    main(run, __doc__)
