"""Memory over very many calls: resident bytes of one process at its start and its end, for a function under
torch.compile and for a loaded package, with the sizes that change now and then.

usage: steady.py [--calls 1000000]
"""

import argparse
import gc
import pathlib
import sys
import tempfile
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "build/python"))
import coil  # noqa: E402


def resident():
    """KiB of this process."""
    gc.collect()
    return next(
        int(line.split()[1])
        for line in pathlib.Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmRSS")
    )


def steady(name, call, arguments, calls):
    """Calls in turn with each of the arguments; the first thousandth of the calls is warm-up."""
    for i in range(max(100, calls // 1000)):
        call(*arguments[i % len(arguments)])
    seen, start = [resident()], time.perf_counter()
    for _ in range(4):
        for i in range(calls // 4):
            call(*arguments[i % len(arguments)])
        seen.append(resident())
    microseconds = (time.perf_counter() - start) / calls * 1e6
    print(
        f"{name:42} {calls} calls, {microseconds:.2f} us each; KiB resident at the start and after each quarter: "
        f"{', '.join(map(str, seen))}",
        flush=True,
    )
    return seen


def run(calls):
    torch.set_num_threads(1)
    x, many = torch.randn(16), [torch.randn(16) for _ in range(30)]
    rows = [(torch.randn(n, 16),) for n in (3, 5, 8)]
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).eval()
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "m.coil"
        coil.compile(model, rows[0], dynamic_shapes=({0: torch.export.Dim("n", min=1, max=64)},)).save(path)
        cases = {
            "torch.compile, one kernel": (torch.compile(lambda t: t + 1, backend="coil", fullgraph=True), [(x,)]),
            "torch.compile, thirty inputs": (
                torch.compile(lambda *xs: sum(xs), backend="coil", fullgraph=True),
                [tuple(many)],
            ),
            "torch.compile, three sizes in turn": (
                torch.compile(model, backend="coil", fullgraph=True, dynamic=True),
                rows,
            ),
            "coil.load, torch, three sizes in turn": (coil.load(path), rows),
            "coil.load, NumPy": (coil.load(path), [(rows[0][0].numpy(),)]),
        }
        return {name: steady(name, call, arguments, calls) for name, (call, arguments) in cases.items()}


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--calls", type=int, default=1_000_000)
    run(options.parse_args().calls)
