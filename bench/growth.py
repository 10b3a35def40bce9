"""How the cost of a compile grows: chains of pointwise operators and of small products, 100 to 10,000 nodes; seconds,
and seconds for each node.

usage: growth.py [LENGTH,...]
"""

import pathlib
import sys
import tempfile

import torch

from common import coil_bench, export, table

LENGTHS = (100, 1000, 10000)


class Pointwise(torch.nn.Module):
    def __init__(self, length):
        super().__init__()
        self.length = length

    def forward(self, x, y):
        for i in range(self.length // 2):
            x = torch.sin(x) + y if i % 7 else torch.cos(x * y)
        return x


class Products(torch.nn.Module):
    def __init__(self, length):
        super().__init__()
        self.length = length

    def forward(self, x, y):
        for _ in range(self.length // 2):
            x = torch.relu(x @ y)
        return x


def run(lengths=LENGTHS):
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for kind in (Pointwise, Products):
            for length in lengths:
                archive = pathlib.Path(folder) / "chain.pt2"
                export(kind(length), (torch.randn(8, 8), torch.randn(8, 8) * 0.2), archive)
                figures = coil_bench(archive, 2, "--seconds", 0.2)
                rows.append(
                    [
                        kind.__name__.lower(),
                        length,
                        figures["compile_s"],
                        figures["compile_s"] / length * 1e3,
                        figures["kernels"],
                        figures["extern_calls"],
                    ]
                )
                print(*rows[-1], flush=True)
    return table(["chain of", "nodes", "compile s", "ms for each node", "kernels", "library calls"], rows)


if __name__ == "__main__":
    print(run([int(n) for n in sys.argv[1].split(",")] if len(sys.argv) > 1 else LENGTHS))
