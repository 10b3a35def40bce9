"""The sweep over models that nobody named (`zoo_models.py`): eager, Inductor, Inductor with CUDA graphs, Coil,
Coil with
CUDA graphs, through torch.compile on one GPU.

usage: zoo_gpu.py [NAME,...] [--modes MODE,...] [--sides SIDE,...] [--results FILE] [--jobs N] [--seconds N]
                  [--again] [--profile] [--set KEY=VALUE ...]
       zoo_gpu.py --table FILE [--worst N]

MODE: bf16, f32 (inference of a large batch), bf16:small, f32:small (of a small one), train (forward, a loss and the
gradients of all parameters, under autocast to bf16). Each model is a process of its own, which adds its figures to the
results' file; what is there already is left out, so that a run that ended early goes on where it stopped. Processes
that run side by side (`--jobs`) compile together, and then time one after the other.

Of each side: milliseconds of calls that are waited for one by one (least of three medians), MiB of torch's allocator at
its peak, seconds of the first call, and the distance from the same model in f32 (norm of the difference over the norm),
which is right where it is at most one and a half times eager's. `--profile` adds the longest kernels.
"""

import argparse
import contextlib
import fcntl
import json
import math
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

SIDES = {
    "eager": None,
    "inductor": ("inductor", None),
    "inductor graphs": ("inductor", "reduce-overhead"),
    "coil": ("coil", None),
    "coil graphs": ("coil", "reduce-overhead"),
}
PEERS = ("eager", "inductor", "inductor graphs")
COIL = ("coil", "coil graphs")
ALLOWED = 1.5  # of eager's own distance from f32
OTHERS_TURNS = 60  # seconds in which the models that were prepared beside one are timed


class Results:
    """A JSON file of {model: {mode: {side: figures}}} that several processes add to."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)

    @contextlib.contextmanager
    def locked(self, purpose, shared=False):
        with open(f"{self.path}.{purpose}", "w") as file:
            fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
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


def ratio(sides):
    """The best of the others' time over the best of Coil's; None where a side is missing."""
    best = lambda names: min((sides[n]["ms"] for n in names if "ms" in sides.get(n, {})), default=None)
    peers, coil = best(PEERS), best(COIL)
    return peers / coil if peers and coil else None


def is_right(sides, name):
    figures, eager = sides.get(name, {}), sides.get("eager", {})
    if "distance" not in figures or "distance" not in eager:
        return None
    return figures["distance"] <= ALLOWED * eager["distance"] + 1e-7


def table(results, worst=None):
    """Rows by how far Coil is ahead, the worst first."""
    rows = []
    for name, modes in results.items():
        for mode, sides in modes.items():
            rows.append((ratio(sides) or 0, name, mode, sides))
    rows.sort(key=lambda r: r[:3])
    names = list(SIDES)
    lines = [
        f"| model | mode | {' | '.join(names)} | others / Coil | MiB: best of the others, Coil | right |",
        "|" + " --- |" * (len(names) + 5),
    ]
    for value, name, mode, sides in rows[:worst]:
        cells = [f"{sides[n]['ms']:.3f}" if "ms" in sides.get(n, {}) else "–" for n in names]
        # A recording's memory is not the allocator's own to count.
        peak = lambda sides_of: min(
            (sides[n]["peak_mib"] for n in sides_of if "peak_mib" in sides.get(n, {}) and "graphs" not in n),
            default=math.nan,
        )
        right = [is_right(sides, n) for n in COIL]
        told = "–" if all(r is None for r in right) else "yes" if all(r in (True, None) for r in right) else "NO"
        lines.append(
            f"| {name} | {mode} | {' | '.join(cells)} | {value:.2f} | {peak(PEERS):.0f}, {peak(COIL):.0f} | {told} |"
        )
    known = [r[0] for r in rows if r[0] > 0]
    if known:
        mean = math.exp(statistics.fmean(map(math.log, known)))
        lines.append(f"\n{len(known)} rows, geometric mean {mean:.2f}, {sum(v < 1 for v in known)} below 1")
    return "\n".join(lines)


# ---- One model


def tensors_of(value):
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [t for item in items for t in tensors_of(item)]


def distance(got, want):
    """Of several tensors, as one vector, in f64."""
    up = sum(((g.double() - w.double()) ** 2).sum().item() for g, w in zip(got, want))
    down = sum((w.double() ** 2).sum().item() for w in want)
    return math.sqrt(up / max(down, 1e-300))


class Case:
    """A model in a mode: what to call, what it gives, and the same in f32."""

    def __init__(self, name, mode):
        import torch

        from zoo_models import MODELS

        torch.manual_seed(0)
        entry = MODELS[name]
        kind, _, size = mode.partition(":")
        self.train = kind == "train"
        self.module = entry.make().train(self.train).cuda()
        if self.train:
            for m in self.module.modules():
                if isinstance(m, torch.nn.Dropout):
                    m.p = 0.0
        inputs = entry.inputs(entry.small if size == "small" else entry.large)
        self.inputs = [t.cuda() if isinstance(t, torch.Tensor) else t for t in inputs]
        state = {k: v.clone() for k, v in self.module.state_dict().items()} if self.train else None
        self.want = [t.cpu() for t in self.results(self.call_of(self.module, exact=True)())]
        if self.train:
            self.module.load_state_dict(state)
        elif kind == "bf16":
            self.module = self.module.bfloat16()
            to = lambda t: t.bfloat16() if isinstance(t, torch.Tensor) and t.is_floating_point() else t
            self.inputs = [to(t) for t in self.inputs]

    def call_of(self, function, exact=False):
        import torch

        if not self.train:

            def infer():
                with torch.no_grad():
                    return function(*self.inputs)

            return infer

        def step():
            self.module.zero_grad(set_to_none=True)
            with torch.autocast("cuda", torch.bfloat16, enabled=not exact):
                outputs = [t for t in tensors_of(function(*self.inputs)) if t.is_floating_point()]
            loss = sum(t.float().square().mean() for t in outputs)
            loss.backward()
            return loss

        return step

    def results(self, value):
        if not self.train:
            return [t for t in tensors_of(value) if t.is_floating_point()]
        return [value.detach(), *(p.grad for p in self.module.parameters() if p.grad is not None)]


def longest_kernels(call, count=14):
    import torch
    from torch.profiler import ProfilerActivity, profile

    call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(3):
            call()
        torch.cuda.synchronize()
    events = [e for e in profiler.key_averages() if e.self_device_time_total > 0]
    events.sort(key=lambda e: -e.self_device_time_total)
    total = sum(e.self_device_time_total for e in events) / 3e3
    rows = [[round(e.self_device_time_total / 3e3, 4), e.count // 3, e.key[:110]] for e in events[:count]]
    return {"device_ms": round(total, 4), "kernels": rows}


def prepare(case, side, allocated):
    """A side's call after it was compiled and called, and its figures so far; no call where it failed."""
    import torch

    import gpu_sides as sides

    figures = {"card": torch.cuda.get_device_name(), "date": time.strftime("%Y-%m-%d")}
    try:
        function = case.module
        if SIDES[side] is not None:
            function = sides.compiled(case.module, *SIDES[side], fullgraph=False, reset=False)
        call = case.call_of(function)
        figures["first_s"] = round(sides.first_call(call), 3)
        for _ in range(3):
            call()
        figures["distance"] = distance([t.cpu() for t in case.results(call())], case.want)
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call()
        torch.cuda.synchronize()
        figures["peak_mib"] = round((allocated + torch.cuda.max_memory_allocated() - before) / (1 << 20), 1)
        return call, figures
    except Exception as error:
        return None, figures | {"error": sides.line(error)}


def measure(name, mode, chosen, results, profiled, limit):
    """Prepares all sides while other processes do; times them when nobody else is busy."""
    import torch

    import gpu_sides as sides

    with results.locked("quiet", shared=True):
        signal.alarm(round(limit))  # one that takes too long ends here, so that the others' turn comes
        case = Case(name, mode)
        torch.cuda.empty_cache()
        allocated = torch.cuda.memory_allocated()
        prepared = {side: prepare(case, side, allocated) for side in chosen}
        signal.alarm(0)
    with results.locked("quiet"):
        for side, (call, figures) in prepared.items():
            if call:
                figures["ms"] = round(min(sides.by_clock(call, calls=8) for _ in range(3)), 4)
                if profiled:
                    figures |= longest_kernels(call)
            results.add(name, mode, {side: figures})


# ---- The sweep


def missing(all, name, mode, chosen):
    there = all.get(name, {}).get(mode, {})
    return [side for side in chosen if side not in there]


def sweep(a, names, modes, chosen, results):
    deadline = time.monotonic() + a.seconds
    waiting = [(n, m) for m in modes for n in names if a.again or missing(results.read(), n, m, chosen)]
    running = []
    while waiting or running:
        # Together, since nobody times while others compile.
        started_now = not running
        while started_now and waiting and len(running) < a.jobs and time.monotonic() < deadline:
            name, mode = waiting.pop(0)
            sides = chosen if a.again else missing(results.read(), name, mode, chosen)
            command = [sys.executable, __file__, "--one", name, "--modes", mode, "--sides", ",".join(sides)]
            command += ["--results", str(results.path), "--limit", str(a.limit), *(["--profile"] if a.profile else [])]
            command += [x for s in a.set for x in ("--set", s)]
            said = tempfile.TemporaryFile("w+")
            running.append((name, mode, time.monotonic(), said, subprocess.Popen(command, stderr=said)))
        if time.monotonic() >= deadline:
            for *_, process in running:
                process.kill()
            print(f"out of time: {len(waiting) + len(running)} not done")
            return
        for item in list(running):
            name, mode, start, file, process = item
            if process.poll() is None and time.monotonic() - start < a.limit + OTHERS_TURNS:
                continue
            process.kill()
            file.seek(0)
            said = file.read().strip().splitlines()
            running.remove(item)
            here = results.read().get(name, {}).get(mode, {})
            found = ratio(here)
            print(
                f"{name:24s} {mode:10s} "
                + (f"{found:.2f}" if found else "    ")
                + "".join(f"  {s} {here[s]['ms']:.3f}" for s in chosen if "ms" in here.get(s, {}))
                + "".join(f"  {s}: {here[s]['error'][:200]}" for s in chosen if "error" in here.get(s, {}))
                + (f"  {said[-1][:200]}" if process.returncode and said else ""),
                flush=True,
            )
        time.sleep(0.2)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="?")
    p.add_argument("--modes", default="bf16")
    p.add_argument("--sides", default=",".join(SIDES))
    p.add_argument("--results", default="build-gpu/zoo.json")
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--seconds", type=float, default=1e9)
    p.add_argument("--limit", type=float, default=240, help="seconds of one model until it is timed")
    p.add_argument("--again", action="store_true")
    p.add_argument("--profile", action="store_true")
    p.add_argument("--set", action="append", default=[])
    p.add_argument("--one")
    p.add_argument("--table")
    p.add_argument("--worst", type=int)
    a = p.parse_args()
    chosen = a.sides.split(",")
    if a.table:
        return print(table(json.loads(pathlib.Path(a.table).read_text()), a.worst))
    results = Results(a.results)
    if a.one:
        import gpu_sides

        gpu_sides.OPTIONS.update(s.split("=", 1) for s in a.set)
        return measure(a.one, a.modes, chosen, results, a.profile, a.limit)
    from zoo_models import MODELS

    sweep(a, a.names.split(",") if a.names else list(MODELS), a.modes.split(","), chosen, results)
    print(table(results.read(), a.worst))


if __name__ == "__main__":
    main()
