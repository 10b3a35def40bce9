"""Peak bytes of temporaries and outputs of one call on the CPU: Coil's as planned and measured (`coil bench --json`),
with the program's own order and as it is, beside eager's and Inductor's as torch's profiler counts allocations.

usage: peaks.py [NAME,...] [--no-inductor]
Models are small configurations, on fixed inputs, in inference.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from torch import nn

from common import COIL, export, table
from memory_budget import model_of

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "test/python"))
from memory_programs import Branches, ReadLate, Sorted  # noqa: E402


class Products(nn.Module):
    """A sum of a hundred products, all multiplied first."""

    def forward(self, x):
        total = x
        for value in [(x + k) @ x / 512 for k in range(100)]:
            total = total + value
        return total


class Logits(nn.Module):
    def __init__(self, model, name):
        super().__init__()
        self.model, self.name = model, name

    def forward(self, x):
        return self.model(**{self.name: x}).logits


def model(name):
    made, given = model_of(name)
    key = next(iter(given))
    return Logits(made.eval(), key), (given[key],)


PROGRAMS = {
    "branches": lambda: (Branches(), (torch.randn(2048, 64),)),
    "sorted": lambda: (Sorted(), (torch.randn(1024, 1024),)),
    "read late": lambda: (ReadLate(), (torch.randn(1024, 16),)),
    "products": lambda: (Products(), (torch.randn(512, 512),)),
} | {name: (lambda name=name: model(name)) for name in ("bert", "gpt2", "resnet", "vit")}


def allocated(call):
    """The most that a call has allocated at once, and what is left of that at its end: the outputs."""
    call()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        kept = call()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        events = [e for e in json.loads(path.read_text())["traceEvents"] if e.get("name") == "[memory]"]
    live = peak = 0
    for event in sorted(events, key=lambda e: e["ts"]):
        live += event["args"]["Bytes"]
        peak = max(peak, live)
    del kept
    return peak, live


def coil(module, args, settings=()):
    with tempfile.TemporaryDirectory() as folder:
        archive, figures = pathlib.Path(folder) / "m.pt2", pathlib.Path(folder) / "figures.json"
        export(module, args, archive)
        words = [word for s in settings for word in ("--set", s)]
        command = [COIL, "bench", archive, "--seconds", "0.1", "--threads", "2", "--json", figures, *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        read = json.loads(figures.read_text())
    return read["planned_peak_bytes"], read["measured_peak_bytes"], read["latency_ms"]["min"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="?", default=",".join(PROGRAMS))
    parser.add_argument("--no-inductor", action="store_true")
    a = parser.parse_args()
    rows = []
    for name in a.names.split(","):
        module, args = PROGRAMS[name]()
        with torch.no_grad():
            written = coil(module, args, ["memory.order=false"])
            planned, measured, ms = coil(module, args)
            eager, outputs = allocated(lambda: module(*args))
            inductor = None
            if not a.no_inductor:
                torch._dynamo.reset()
                compiled = torch.compile(module)
                inductor = allocated(lambda: compiled(*args))[0]
        cells = [eager, inductor, written[0] + outputs, planned + outputs, measured + outputs]
        rows.append([name, *("" if c is None else f"{c / 2**20:.2f}" for c in cells), f"{written[2]:.3g}", f"{ms:.3g}"])
        print(rows[-1], flush=True)
    print(
        table(["MiB", "eager", "Inductor", "program's order", "planned", "measured", "ms, program's order", "ms"], rows)
    )


if __name__ == "__main__":
    main()
