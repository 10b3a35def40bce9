"""Memory-bound rows: eager, Inductor and Coil; milliseconds, and the share of the machine's copy bandwidth that each
reaches.

usage: micro.py [NAME,...] [--threads N]
"""

import argparse
import pathlib
import tempfile

import torch
from torch.utils import _pytree as pytree

from common import burst, export, geometric_mean, table, take_turns
from rows import ROWS


class Row(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, args):
        return self.function(*args)


def size(tree):
    return sum(t.numel() * t.element_size() for t in pytree.tree_leaves(tree) if isinstance(t, torch.Tensor))


def traffic(name, args, result):
    """Bytes that any implementation must move: inputs once, outputs once; of an embedding table only the rows read."""
    return 2 * size(result) + size(args[0]) if name.startswith("embed") else size(args) + size(result)


def copy_bandwidth():
    """Bytes moved by a millisecond of the fastest copy of 32 MiB to warm pages."""
    source = torch.randn(1 << 23)
    target = torch.empty_like(source)
    return 2 * size(source) / min(burst(lambda: target.copy_(source), 20) for _ in range(3))


def least_times(function, args, threads, rounds, seconds):
    """Milliseconds of eager, Inductor and Coil; `seconds` of calls of Coil in each round."""
    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True)
    compiled(*args)
    with tempfile.TemporaryDirectory() as folder:
        archive = pathlib.Path(folder) / "row.pt2"
        export(Row(function), (args,), archive)
        calls = {"eager": lambda: function(*args), "inductor": lambda: compiled(*args)}
        return take_turns(calls, {"coil": archive}, rounds, threads, "--seconds", seconds)[0]


def run(names=None, threads=2):
    torch.set_num_threads(threads)
    ceiling = copy_bandwidth()
    rows = []
    for name in names or ROWS:
        torch.manual_seed(0)
        function, make = ROWS[name]
        args = make()
        with torch.no_grad():
            floor = traffic(name, args, function(*args)) / ceiling
            best = least_times(function, args, threads, 3, 0.7)
        rows.append([name, *best.values(), *(floor / ms for ms in best.values())])
        print(name, {k: round(v, 3) for k, v in best.items()}, f"{floor / best['coil']:.2f} of copy", flush=True)
    heads = [
        "row",
        "eager ms",
        "inductor ms",
        "**coil** ms",
        "eager, share of copy",
        "inductor, share",
        "**coil**, share",
    ]
    return (
        f"Copy ceiling {ceiling / 1e6:.0f} GB/s\n\n"
        + table(heads, rows)
        + f"\nGeometric mean of Inductor over Coil: {geometric_mean([r[2] / r[3] for r in rows]):.2f}\n"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="?")
    parser.add_argument("--threads", type=int, default=2)
    a = parser.parse_args()
    print(run(a.names and a.names.split(","), a.threads))
