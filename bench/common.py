"""What the benchmarks share: the command, exporting, timing in turns, peak memory of a process, tables."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
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
        done = subprocess.run(
            [COIL, "bench", str(model), "--threads", str(threads), "--json", str(result), *map(str, options)],
            capture_output=True,
            text=True,
        )
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


def take_turns(calls, archives, rounds, threads, *options):
    """(least milliseconds, least cold seconds) by side: bursts of the `calls` and runs of `coil bench` on the
    `archives`, in rounds, so that what disturbs the machine disturbs all. Only archives have cold seconds.
    """
    best, cold = {}, {}
    for _ in range(rounds):
        for side, call in calls.items():
            best[side] = min(best.get(side, 1e9), burst(call))
        for side, archive in archives.items():
            figures = coil_bench(archive, threads, *options)
            best[side] = min(best.get(side, 1e9), figures["latency_ms"]["median"])
            cold[side] = min(cold.get(side, 1e9), figures["compile_s"])
    return best, cold


def main(run, doc):
    """The command line of a table with a row for each model: `run(names, threads, rounds)` gives its text."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("names", nargs="?")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    a = parser.parse_args()
    print(run(a.names and a.names.split(","), a.threads, a.rounds))


# Linux counts what a process held before `exec` into its peak, which after a fork is its parent's memory: a small
# process starts the command, so that a large benchmark does not show through.
_WATCH = """import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(done.returncode)"""


def peak_rss(command):
    """MiB that a process of its own held at its peak; raises when it failed."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", _WATCH, *map(str, command)], capture_output=True, text=True, errors="replace"
    )
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise RuntimeError(said[-1] if said else f"exit {done.returncode}")
    return int(done.stdout) / 1024


def table(heads, rows):
    """A Markdown table."""
    cell = (
        lambda v: "–"
        if v is None
        else f"{v:.3g}"
        if isinstance(v, float) and abs(v) < 100
        else f"{v:.0f}"
        if isinstance(v, float)
        else str(v)
    )
    text = [heads, ["---"] * len(heads), *[[cell(v) for v in row] for row in rows]]
    return "\n".join("| " + " | ".join(line) + " |" for line in text) + "\n"


def geometric_mean(values):
    return statistics.geometric_mean(values) if values else float("nan")
