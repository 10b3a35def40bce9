"""Peak bytes of temporaries of programs with free sizes on the CPU, as planned for some sizes, beside those of programs
that were compiled for these sizes alone; and milliseconds of a call with the sizes of the call before it, with sizes
that come in turn, and with sizes that are new.

usage: free_sizes_peaks.py [NAME,...]
Models are small configurations.
"""

import argparse
import pathlib
import statistics
import sys
import tempfile
import time

import torch
from safetensors.torch import save_file
from torch.export import Dim

from common import coil_bench, export, table
from memory_budget import UNet, model_of
from peaks import Logits

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "build/python"))
import coil  # noqa: E402

BATCH, LENGTH = Dim("batch", min=1, max=64), Dim("length", min=2, max=128)


def words(rows, length):
    return torch.randint(0, 512, (rows, length))


def pictures(rows, side):
    return torch.randn(rows, 3, side, side)


def of_transformers(name):
    made, given = model_of(name)
    return Logits(made.eval(), next(iter(given)))


# A model, its inputs for two numbers, its free sizes, and numbers to ask for.
MODELS = {
    "bert": (lambda: of_transformers("bert"), words, {0: BATCH, 1: LENGTH}, [(1, 16), (2, 128), (7, 50), (32, 100)]),
    "gpt2": (lambda: of_transformers("gpt2"), words, {0: BATCH, 1: LENGTH}, [(1, 16), (2, 128), (7, 50), (32, 100)]),
    "resnet": (lambda: of_transformers("resnet"), pictures, {0: BATCH}, [(1, 64), (3, 64), (16, 64)]),
    "unet": (lambda: UNet().eval(), pictures, {0: BATCH}, [(1, 64), (3, 64), (16, 64)]),
    "unet, free sides": (
        lambda: UNet().eval(),
        pictures,
        {0: BATCH, 2: 4 * Dim("h", min=4, max=64), 3: 4 * Dim("w", min=4, max=64)},
        [(1, 32), (3, 64), (4, 128)],
    ),
}


def peak(archive, args, folder):
    path = folder / "in.safetensors"
    save_file({f"{k}": a for k, a in enumerate(args)}, path)
    name = torch.export.load(archive).graph_signature.user_inputs[0]
    save_file({name: args[0]}, path)
    return coil_bench(archive, 1, "--seconds", 0.05, "--inputs", path)["planned_peak_bytes"]


def milliseconds(model, make, sizes):
    """Of calls with the same sizes, with two sizes in turn, and with sizes that are new, least of a few."""

    def timed(args):
        start = time.perf_counter()
        model(*args)
        return (time.perf_counter() - start) * 1e3

    same, others = make(*sizes), [make(rows, sizes[1]) for rows in range(1, 12)]
    for _ in range(3):
        model(same)
    repeated = min(timed([same]) for _ in range(20))
    news = []
    for other in others:
        first = timed([other])
        news.append(first - min(timed([other]) for _ in range(3)))
    return repeated, statistics.median(news)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="?", default=",".join(MODELS))
    rows = []
    for name in parser.parse_args().names.split(","):
        build, make, free, asked = MODELS[name]
        torch.manual_seed(0)
        module = build()
        with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            example = make(2, asked[-1][1])
            export(module, (example,), folder / "free.pt2", (free,))
            model = coil.compile(folder / "free.pt2")
            _, new = milliseconds(model, make, asked[0])
            for sizes in asked:
                given = make(*sizes)
                export(module, (given,), folder / "fixed.pt2")
                free_peak, fixed = (peak(folder / f"{which}.pt2", (given,), folder) for which in ("free", "fixed"))
                rows.append(
                    [name, str(sizes), f"{fixed / 2**20:.3f}", f"{free_peak / 2**20:.3f}"]
                    + [f"{free_peak / max(fixed, 1):.3f}", f"{new:.3f}"]
                )
                print(rows[-1], flush=True)
    print(table(["model", "sizes", "fixed, MiB", "free, MiB", "ratio", "ms for new sizes"], rows))


if __name__ == "__main__":
    main()
