"""What the sweeps over many models share (`zoo_gpu.py`, `zoo_cpu.py`): a file of results that processes add to, a
process for each model, and the table.
"""

import argparse
import contextlib
import dataclasses
import fcntl
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

OTHERS_TURNS = 60  # seconds in which the models that were prepared beside one are timed


@dataclasses.dataclass
class Sweep:
    """The sides of a sweep: `peers` are what Coil's own sides are compared with."""

    script: str
    peers: tuple
    own: tuple
    allowed: float = 1.5  # distance from the exact result, of eager's
    rounding: float = 1e-7  # and this much more, for whatever order sums are taken in
    timed_for: float = OTHERS_TURNS

    @property
    def sides(self):
        return (*self.peers, *self.own)

    def ratio(self, sides):
        """The best of the others' time over the best of Coil's; None where a side is missing."""
        best = lambda names: min((sides[n]["ms"] for n in names if "ms" in sides.get(n, {})), default=None)
        peers, own = best(self.peers), best(self.own)
        return peers / own if peers and own else None

    def is_right(self, sides, name):
        figures, eager = sides.get(name, {}), sides.get("eager", {})
        if "distance" not in figures or "distance" not in eager:
            return None
        return figures["distance"] <= self.allowed * eager["distance"] + self.rounding

    def told_right(self, sides):
        right = [self.is_right(sides, n) for n in self.own]
        return "–" if all(r is None for r in right) else "yes" if all(r in (True, None) for r in right) else "NO"


class Results:
    """A JSON file of {model: {mode: {side: figures}}} that several processes add to. Locks lie beside it; with `locks`,
    beside that path, so that sweeps and other work can share them.
    """

    def __init__(self, path, locks=None):
        self.path = pathlib.Path(path)
        self.locks = locks or self.path
        self.path.parent.mkdir(parents=True, exist_ok=True)

    @contextlib.contextmanager
    def locked(self, purpose, shared=False):
        with open(f"{self.locks}.{purpose}", "w") as file:
            fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
            yield

    @contextlib.contextmanager
    def preparing(self):
        """Beside others who prepare, while nobody times or waits to."""
        with self.locked("gate"):
            pass
        with self.locked("quiet", shared=True):
            yield

    @contextlib.contextmanager
    def timing(self):
        """Alone; while one waits for that, nobody begins to prepare."""
        with self.locked("gate", shared=True), self.locked("quiet"):
            yield

    def read(self):
        return json.loads(self.path.read_text()) if self.path.exists() else {}

    def add(self, name, mode, figures):
        with self.locked("lock"):
            all = self.read()
            all.setdefault(name, {}).setdefault(mode, {}).update(figures)
            aside = self.path.with_suffix(".new")
            aside.write_text(json.dumps(all, indent=1))
            os.replace(aside, self.path)


def without_chance(module):
    """Nothing is dropped at random, neither values nor paths nor layers: each step has the same gradients."""
    import torch

    for m in module.modules():
        if isinstance(m, torch.nn.modules.dropout._DropoutNd):
            m.p = 0.0
        for holder in (m, getattr(m, "config", None)):
            rates = [k for k, v in vars(holder).items() if "drop" in k and isinstance(v, float)] if holder else []
            for name in rates:
                setattr(holder, name, 0.0)


def tensors_of(value):
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [t for item in items for t in tensors_of(item)]


def distance(got, want):
    """Of several tensors, as one vector, in f64."""
    up = sum(((g.double() - w.double()) ** 2).sum().item() for g, w in zip(got, want, strict=True))
    down = sum((w.double() ** 2).sum().item() for w in want)
    return math.sqrt(up / max(down, 1e-300))


# ---- The table


def table(sweep, results, worst=None, columns=()):
    """Rows by how far Coil is ahead, the worst first. `columns` are further (head, function of a row's sides)."""
    rows = []
    for name, modes in results.items():
        for mode, sides in modes.items():
            rows.append((sweep.ratio(sides) or 0, name, mode, sides))
    rows.sort(key=lambda r: r[:3])
    heads = ["model", "mode", *sweep.sides, "others / Coil", *(head for head, _ in columns), "right"]
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    for value, name, mode, sides in rows[:worst]:
        cells = [f"{sides[n]['ms']:.3f}" if "ms" in sides.get(n, {}) else "–" for n in sweep.sides]
        more = [function(sides) for _, function in columns]
        lines.append("| " + " | ".join([name, mode, *cells, f"{value:.2f}", *more, sweep.told_right(sides)]) + " |")
    known = [r[0] for r in rows if r[0] > 0]
    if known:
        mean = math.exp(statistics.fmean(map(math.log, known)))
        lines.append(f"\n{len(known)} rows, geometric mean {mean:.2f}, {sum(v < 1 for v in known)} below 1")
    return "\n".join(lines)


# ---- The sweep


def missing(all, name, mode, chosen):
    there = all.get(name, {}).get(mode, {})
    return [side for side in chosen if side not in there]


@dataclasses.dataclass
class Running:
    name: str
    mode: str
    start: float
    said: object
    process: subprocess.Popen


def start(sweep, a, name, mode, sides, results):
    command = [sys.executable, sweep.script, "--one", name, "--modes", mode, "--sides", ",".join(sides)]
    command += ["--results", str(results.path), "--locks", str(results.locks), "--limit", str(a.limit)]
    command += ["--profile"] if a.profile else []
    command += [x for s in a.set for x in ("--set", s)]
    said = tempfile.TemporaryFile("w+")
    return Running(name, mode, time.monotonic(), said, subprocess.Popen(command, stderr=said))


def tell(sweep, run, sides, chosen):
    """A line on what became of a process."""
    run.said.seek(0)
    said = run.said.read().strip().splitlines()
    found = sweep.ratio(sides)
    print(
        f"{run.name:24s} {run.mode:10s} "
        + (f"{found:.2f}" if found else "    ")
        + "".join(f"  {s} {sides[s]['ms']:.3f}" for s in chosen if "ms" in sides.get(s, {}))
        + "".join(f"  {s}: {sides[s]['error'][:200]}" for s in chosen if "error" in sides.get(s, {}))
        + ("" if sweep.told_right(sides) != "NO" else "  WRONG")
        + (f"  {said[-1][:200]}" if run.process.returncode and said else ""),
        flush=True,
    )


def run_all(sweep, a, names, modes, chosen, results):
    """Processes that run side by side (`a.jobs`) prepare together, and then time one after the other."""
    deadline = time.monotonic() + a.seconds
    waiting = [(n, m) for m in modes for n in names if a.again or missing(results.read(), n, m, chosen)]
    running = []
    while waiting or running:
        # Together, since nobody times while others prepare.
        started_now = not running
        while started_now and waiting and len(running) < a.jobs and time.monotonic() < deadline:
            name, mode = waiting.pop(0)
            sides = chosen if a.again else missing(results.read(), name, mode, chosen)
            running.append(start(sweep, a, name, mode, sides, results))
        if time.monotonic() >= deadline:
            for run in running:
                run.process.kill()
            print(f"out of time: {len(waiting) + len(running)} not done")
            return
        for run in list(running):
            if run.process.poll() is None and time.monotonic() - run.start < a.limit + sweep.timed_for:
                continue
            run.process.kill()
            run.process.wait()
            running.remove(run)
            tell(sweep, run, results.read().get(run.name, {}).get(run.mode, {}), chosen)
        time.sleep(0.2)


def add_options(parser, sweep, results, modes, limit):
    parser.add_argument("names", nargs="?")
    parser.add_argument("--draw", metavar="SOURCE:COUNT:SEED", help="models drawn at random (zoo_drawn.py)")
    parser.add_argument("--modes", default=modes)
    parser.add_argument("--sides", default=",".join(sweep.sides))
    parser.add_argument("--results", default=results)
    parser.add_argument("--locks", help="path beside which the locks lie (default: the results' file)")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--limit", type=float, default=limit, help="seconds of one model until it is timed")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--table", metavar="FILE", help="only print what a results' file has")
    parser.add_argument("--worst", type=int, metavar="N", help="print the N worst rows alone")
