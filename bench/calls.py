"""What a call costs beside its kernels, in microseconds: one tiny kernel, thirty inputs, a hundred launches; eager and
Inductor beside it.

usage: calls.py
"""

import pathlib
import tempfile

import torch

from common import burst, coil_bench, export, table


class One(torch.nn.Module):
    def forward(self, x):
        return x + 1


class Thirty(torch.nn.Module):
    def forward(self, xs):
        return sum(xs)


class Hundred(torch.nn.Module):
    def forward(self, x, w):
        for _ in range(50):
            x = torch.mm(x, w).relu()
        return x


CASES = {
    "one kernel of 16 elements": (One, (torch.randn(16),)),
    "thirty inputs": (Thirty, ([torch.randn(16) for _ in range(30)],)),
    "fifty products and relus, 8 by 8": (Hundred, (torch.randn(8, 8), torch.randn(8, 8) * 0.3)),
}


def run():
    torch.set_num_threads(1)
    rows = []
    for name, (kind, args) in CASES.items():
        module = kind()
        with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
            torch._dynamo.reset()
            compiled = torch.compile(module, fullgraph=True)
            burst(lambda: compiled(*args), 50)
            archive = pathlib.Path(folder) / "m.pt2"
            export(module, args, archive)
            figures = coil_bench(archive, 1, "--seconds", 0.5)
            rows.append(
                [
                    name,
                    burst(lambda: module(*args), 2000) * 1e3,
                    burst(lambda: compiled(*args), 2000) * 1e3,
                    figures["latency_ms"]["median"] * 1e3,
                    figures["latency_ms"]["min"] * 1e3,
                ]
            )
        print(*rows[-1], flush=True)
    return table(["call, µs", "eager", "inductor", "**coil**", "coil, least"], rows)


if __name__ == "__main__":
    print(run())
