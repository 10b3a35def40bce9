"""What the benchmarks share: the command, exporting, timing in turns, peak memory of a process, tables."""
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import torch

ROOT = pathlib.Path(__file__).resolve().parents[1]
COIL = os.environ.get("COIL", str(ROOT / "build/bin/coil"))


def export(module, args, path, dynamic=None):
    with torch.no_grad():
        torch.export.save(torch.export.export(module, args, dynamic_shapes=dynamic), path)


def coil_bench(model, threads, *options):
    """The figures of `coil bench --json`; raises with what it said when it failed."""
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder) / "b.json"
        done = subprocess.run([COIL, "bench", str(model), "--threads", str(threads), "--json", str(result), *map(str, options)], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        return json.loads(result.read_text())


def burst(call, calls=6):
    """Median milliseconds of some calls in a row."""
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def peak_rss(command):
    """MiB that a process held at its peak; raises when it failed."""
    process = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = process.stderr.read().decode(errors="replace")
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(said.strip().splitlines()[-1] if said.strip() else f"exit {process.returncode}")
    return usage.ru_maxrss / 1024


def table(heads, rows):
    """A Markdown table."""
    cell = lambda v: "–" if v is None else f"{v:.3g}" if isinstance(v, float) and abs(v) < 100 else f"{v:.0f}" if isinstance(v, float) else str(v)
    text = [heads, ["---"] * len(heads), *[[cell(v) for v in row] for row in rows]]
    return "\n".join("| " + " | ".join(line) + " |" for line in text) + "\n"


def geometric_mean(values):
    return statistics.geometric_mean(values) if values else float("nan")
