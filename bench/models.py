"""Models: eager, Inductor, Inductor frozen, ONNX Runtime, OpenVINO and Coil, in bursts that take turns; milliseconds,
and seconds of cold compile.

usage: models.py [NAME,...] [--threads N] [--rounds N]
"""

import pathlib
import tempfile

import torch

import peers
from common import burst, export, geometric_mean, main, table, take_turns
from workloads import MODELS


def measure(name, threads, rounds):
    """(milliseconds, cold seconds), each by side; a side that refuses the model is left out and says why."""
    torch.manual_seed(0)
    module, args = MODELS[name]()
    cold, calls = {}, {}
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        for side in peers.SIDES:
            try:
                calls[side], cold[side] = peers.make(side, module, args, folder, threads)
                burst(calls[side], 3)
            except Exception as error:  # a peer's own failure, of whatever kind, is a gap in the table
                calls.pop(side, None)
                print(f"  {name}: {side}: {str(error).splitlines()[0][:120]}", flush=True)
        archive = pathlib.Path(folder) / "model.pt2"
        export(module, args, archive)
        best, compiles = take_turns(calls, {"coil": archive}, rounds, threads)
    return best, cold | compiles


def run(names=None, threads=2, rounds=3):
    torch.set_num_threads(threads)
    rows, ratios = [], []
    for name in names or MODELS:
        best, cold = measure(name, threads, rounds)
        ratio = min(ms for side, ms in best.items() if side != "coil") / best["coil"]
        ratios.append(ratio)
        rows.append(
            [
                name,
                *(best.get(s) for s in (*peers.SIDES, "coil")),
                ratio,
                *(cold.get(s) for s in (*peers.SIDES[1:], "coil")),
            ]
        )
        print(name, {k: round(v, 2) for k, v in best.items()}, {k: round(v, 2) for k, v in cold.items()}, flush=True)
    heads = [
        "model, ms",
        *peers.SIDES,
        "**coil**",
        "best of the others / coil",
        *(f"cold s: {s}" for s in peers.SIDES[1:]),
        "cold s: **coil**",
    ]
    return table(heads, rows) + f"\nGeometric mean of the best of the others over Coil: {geometric_mean(ratios):.2f}\n"


if __name__ == "__main__":
    main(run, __doc__)
