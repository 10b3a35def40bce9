"""Loading a package with gigabytes of weights, which are mapped and not read: seconds to load and to the first result,
and what is resident before, behind the load and behind the call, each in a process of its own.

usage: large_package.py [--gib 5] [--folder FOLDER]

The weights are zeros: files on disk are given holes behind each step, so that they take the size of one while it is
written and hardly any room after.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import torch

ROOT = pathlib.Path(__file__).resolve().parents[1]
WIDTH, TABLES = 1024, 4

LOADER = """
import json, pathlib, sys, time
sys.path.insert(0, sys.argv[1])
import torch, coil
def resident():
    return next(int(l.split()[1]) // 1024 for l in pathlib.Path("/proc/self/status").open() if l.startswith("VmRSS"))
torch.zeros(3) + 1
told = {"resident before, MiB": resident()}
start = time.perf_counter()
model = coil.load(sys.argv[2])
told["load, s"] = round(time.perf_counter() - start, 4)
told["resident behind the load, MiB"] = resident()
start = time.perf_counter()
sums = model(torch.tensor([0, 5, -1]))
told["first call, s"] = round(time.perf_counter() - start, 4)
told["resident behind the call, MiB"] = resident()
assert sums.shape == (3, 1024) and torch.equal(sums, torch.full((3, 1024), 1.0)), sums
print(json.dumps(told))
"""


class Tables(torch.nn.Module):
    """Rows of tables that lie in a file of holes."""

    def __init__(self, folder, gib):
        super().__init__()
        rows = int(gib * 2**30) // (4 * WIDTH * TABLES)
        for k in range(TABLES):
            path = folder / f"table{k}"
            with path.open("wb") as file:
                file.truncate(4 * WIDTH * rows)
            table = torch.from_file(str(path), shared=False, size=WIDTH * rows).view(rows, WIDTH)
            self.register_parameter(f"table{k}", torch.nn.Parameter(table, requires_grad=False))

    def forward(self, i):
        return sum(getattr(self, f"table{k}")[i] for k in range(TABLES)) + 1


def with_holes(path):
    subprocess.run(["fallocate", "--dig-holes", path], check=True)
    return path


def run(gib, folder):
    start = time.perf_counter()
    archive, package = folder / "m.pt2", folder / "m.coil"
    torch.export.save(torch.export.export(Tables(folder, gib), (torch.tensor([0, 1, 2]),)), archive)
    with_holes(archive)
    written = time.perf_counter()
    subprocess.run([ROOT / "build/bin/coil", "compile", archive, "-o", package], check=True)
    compiled = time.perf_counter()
    with_holes(package)
    print(
        f"{package.stat().st_size / 2**30:.2f} GiB; export {written - start:.1f} s, compile {compiled - written:.1f} s"
    )
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", LOADER, ROOT / "build/python", package], check=True, capture_output=True, text=True
        )
        told = json.loads(done.stdout)
        print(told, flush=True)
        assert told["load, s"] < 1, "loading reads the weights"
        assert told["resident behind the call, MiB"] - told["resident before, MiB"] < 256, "weights are copied"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, default=5)
    parser.add_argument("--folder", help="where files of this size have room; a temporary folder")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as at:
        run(given.gib, pathlib.Path(at))
