"""Seconds to the first result of a process whose caches an earlier one filled: eager, torch.compile with Dynamo's
tracing alone (`backend="eager"`), Coil and Inductor. Every figure is the least of some processes of its own, which take
turns; imports of torch, making the model and its inputs are not counted.

usage: warm_start.py [bert|resnet50|training,...] [--rounds N] [--sides eager,dynamo,coil,inductor]
`training` is a step of BERT with two layers: forward, loss and backward.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
SIDES = ("eager", "dynamo", "coil", "inductor")


def workload(name):
    """A callable without arguments, and the module in it."""
    import torch

    from workloads import MODELS

    if name in ("bert", "resnet50"):
        module, args = MODELS[{"bert": "bert_1x128", "resnet50": "resnet50_1"}[name]]()

        def infer():
            with torch.no_grad():
                return module(*args)

        return infer, module
    from compile_training import model_of

    torch.manual_seed(0)
    module, inputs = model_of("small", None, "cpu")

    def step():
        module(**inputs).loss.backward()

    return step, module


def child(name, side):
    """Prints the seconds of the first call, and of one more."""
    import torch

    run, module = workload(name)
    if side != "eager":
        module.compile(backend={"dynamo": "eager"}.get(side, side))
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    counters = torch._dynamo.utils.counters
    print(json.dumps({"seconds": seconds, "loaded": counters["coil"], "results": counters["aot_autograd"]}))


def measure(name, side, caches):
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "build/python"), os.environ.get("PYTHONPATH", "")]),
        "COIL_CACHE": str(caches / "coil"),
        "TORCHINDUCTOR_CACHE_DIR": str(caches / side),
    }
    done = subprocess.run(
        [sys.executable, __file__, name, "--side", side], env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="?", default="bert,resnet50,training")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--side", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side:
        return child(given.names, given.side)
    sides = given.sides.split(",")
    print("| program | " + " | ".join(sides) + " | Coil / Dynamo | cold " + ", ".join(sides[2:]) + " |")
    print("|" + " --- |" * (len(sides) + 3))
    for name in given.names.split(","):
        with tempfile.TemporaryDirectory() as folder:
            caches = pathlib.Path(folder)
            cold = {side: measure(name, side, caches)["seconds"][0] for side in sides}
            best = dict.fromkeys(sides, float("inf"))
            for _ in range(given.rounds):
                for side in sides:
                    best[side] = min(best[side], measure(name, side, caches)["seconds"][0])
        ratio = best["coil"] / best["dynamo"]
        row = [*(f"{best[side]:.2f}" for side in sides), f"{ratio:.2f}", ", ".join(f"{cold[s]:.1f}" for s in sides[2:])]
        print(f"| {name} | " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
