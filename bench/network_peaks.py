"""Peak bytes of temporaries and outputs of thirty small networks on the CPU, of a call in inference and of a training
step: eager's and Inductor's as torch's profiler counts allocations, beside what Coil plans and what is the least.

usage: network_peaks.py [NAME ...] [--training] [--sides eager,inductor,coil] [--set ...] [--json FILE]

In inference Coil's is what `coil bench` measures of a package, and all results. Of a training step (a loss, all
gradients) it is the larger of the forward graph's peak, and the backward graph's with what was kept: `arena` with one
arena from the first step to the last, `least` what is live at the fullest step. The file keeps sides that were not
asked for this time.
"""

import argparse
import json
import pathlib
import unittest.mock

import torch
from torch._inductor.async_compile import AsyncCompile

import peaks
from coil import budget
from common import table
from memory_networks import NETWORKS
from training_peaks import in_training, planning


def call_of(function, given, trains):
    if not trains:
        return lambda: function(*given)

    def step():
        out = function(*given)
        out = out if isinstance(out, tuple) else (out,)
        sum(t.float().square().mean() for t in out).backward()

    return step


def made(name, trains):
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, given = NETWORKS[name]()
    return (in_training(model, False) if trains else model.eval()), given


def in_torch(name, trains, compiled, idle=True):
    model, given = made(name, trains)
    run = call_of(torch.compile(model) if compiled else model, given, trains)

    def call():
        model.zero_grad(set_to_none=True)
        return run()

    # What a run allocates does not depend on what its kernels do: they are compiled only where others read indices.
    if not compiled or not idle:
        with torch.set_grad_enabled(trains):
            return peaks.allocated(call)[0]
    kernels = unittest.mock.patch.object(AsyncCompile, "cpp_pybinding", lambda *args, **kwargs: lambda *args: None)
    with torch.set_grad_enabled(trains), kernels, torch._inductor.config.patch(force_disable_caches=True):
        try:
            return peaks.allocated(call)[0]
        except (IndexError, RuntimeError):
            pass
    return in_torch(name, trains, compiled, idle=False)


def coil(name, trains, settings):
    model, given = made(name, trains)
    log = []
    with planning(log, "cpu", settings), torch.set_grad_enabled(trains):
        call_of(torch.compile(model, backend="coil", options={"cache": "none"} | settings), given, trains)()
    whole = max(budget.peak_of_runs(p, "cpu") for _, p in log)
    if not trains:  # of a package: temporaries may lie in the memory of results
        words = [f"{key}={value}" for key, value in settings.items()]
        whole = peaks.coil(model, given, words)[1] + max(p["outputs"] for _, p in log)
    return whole, max(p["least"] for _, p in log), len(log)


def measure(name, trains, sides, settings, row):
    if "eager" in sides:
        row["eager"] = in_torch(name, trains, False)
    if "inductor" in sides:
        row["inductor"] = in_torch(name, trains, True)
    if "coil" in sides:
        row["coil"], row["least"], row["graphs"] = coil(name, trains, settings)
    print(name, row, flush=True)


def shown(name, row):
    best = min(row[side] for side in ("eager", "inductor") if side in row)
    cells = [f"{row[k] / 2**20:.2f}" if k in row else "" for k in ("eager", "inductor", "coil", "least")]
    return [name, *cells, f"{row['coil'] / best:.2f}" if "coil" in row else ""]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="all of them where none is named")
    parser.add_argument("--training", action="store_true")
    parser.add_argument("--sides", default="eager,inductor,coil")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--json", type=pathlib.Path)
    a = parser.parse_args()
    rows = json.loads(a.json.read_text()) if a.json and a.json.exists() else {}
    settings = dict(s.split("=", 1) for s in a.set)
    sides = a.sides.split(",")
    for name in a.names or NETWORKS:
        row = rows.setdefault(name, {})
        try:
            measure(name, a.training, sides, settings, row)
        except Exception as error:
            print(name, "failed:", str(error).splitlines()[0], flush=True)
        if a.json:
            a.json.write_text(json.dumps(rows))
    heads = ["MiB", "eager", "Inductor", "Coil", "least", "of the better"]
    print(table(heads, [shown(n, r) for n, r in rows.items() if "eager" in r or "inductor" in r]))


if __name__ == "__main__":
    main()
