"""Peak resident memory of a process that loads a model and runs it once, in MiB: `coil run` of a package, Inductor,
ONNX Runtime.

usage: memory.py [NAME,...]          (memory.py --side SIDE NAME runs one side, to be measured from outside)
"""

import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch

import peers
from common import COIL, export, peak_rss, table
from workloads import MODELS

SIDES = ("inductor", "inductor frozen", "onnxruntime")


def one_side(side, name, folder):
    torch.set_num_threads(2)
    module, args = MODELS[name]()
    with torch.no_grad():
        peers.make(side, module, args, folder, 2)[0]()


def command(side, name, folder):
    if side == "onnxruntime":
        return [
            sys.executable,
            pathlib.Path(__file__).with_name("onnx_once.py"),
            pathlib.Path(folder) / "model.onnx",
            pathlib.Path(folder) / "x.npy",
        ]
    return [sys.executable, __file__, "--side", side, name, folder]


def run(names=None):
    rows = []
    for name in names or MODELS:
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            module, args = MODELS[name]()
            archive, package = pathlib.Path(folder) / "m.pt2", pathlib.Path(folder) / "m.coil"
            export(module, args, archive)
            subprocess.run(
                [COIL, "compile", archive, "-o", package, "--threads", "2"], check=True, stdout=subprocess.DEVNULL
            )
            sides = list(SIDES)
            try:
                torch.onnx.export(module, args, pathlib.Path(folder) / "model.onnx", dynamo=True, verbose=False)
                numpy.save(pathlib.Path(folder) / "x.npy", args[0].numpy())
            except Exception as error:  # onnxruntime then has no figure
                print(f"  {name}: onnx: {str(error).splitlines()[0][:100]}", flush=True)
                sides.remove("onnxruntime")
            weights = sum(p.numel() * p.element_size() for p in module.parameters()) / 2**20
            figures = {"coil": peak_rss([COIL, "run", package, "--threads", "2"])}
            for side in sides:
                try:
                    figures[side] = peak_rss(command(side, name, folder))
                except RuntimeError as error:
                    print(f"  {name}: {side}: {str(error)[:100]}", flush=True)
        rows.append([name, weights, figures["coil"], *(figures.get(s) for s in SIDES)])
        print(*rows[-1], flush=True)
    return table(["model, MiB", "weights", "**coil run**", *SIDES], rows)


if __name__ == "__main__":
    if len(sys.argv) == 5 and sys.argv[1] == "--side":
        one_side(*sys.argv[2:])
    else:
        print(run(sys.argv[1].split(",") if len(sys.argv) > 1 else None))
