"""The sweep over models that nobody named on CPUs (`zoo_cpu_models.py`), f32: eager, Inductor, Inductor with freezing,
ONNX Runtime, OpenVINO and Coil, as a package and through torch.compile.

usage: zoo_cpu.py [NAME,... | --draw SOURCE:COUNT:SEED] [--modes MODE,...] [--sides SIDE,...]
                  [--results FILE] [--jobs N] [--threads N] [--again] [--set KEY=VALUE ...]
       zoo_cpu.py --table FILE [--worst N]

MODE: small, large (samples); train (few samples: forward, a loss and its gradients, dropout off, by eager and through
torch.compile by Inductor and Coil). Each model is a process of its own, which adds its figures to the results' file;
what is there already is left out. Models are compiled side by side (`--jobs`) and timed one after the other.

Of each side: milliseconds (the least of the medians of bursts that take turns), seconds of cold compile, and the
distance from the same model in f64 (norm of the difference over the norm; in training of all gradients), which is right
where it is at most one and a half times eager's and 1e-6. As a package Coil runs in a process without Python.
"""

import argparse
import json
import pathlib
import re
import signal
import statistics
import subprocess
import tempfile
import time

import peers
import zoo
from common import COIL, coil_bench, export

SWEEP = zoo.Sweep(__file__, peers.SIDES, ("coil", peers.THROUGH_TORCH), rounding=1e-6)
TRAINING = {"eager": None, "inductor": "inductor", peers.THROUGH_TORCH: "coil"}  # sides, and backends of theirs
ROUNDS = 3
BURST = 0.25  # seconds that a side is called for in a round, or six calls


def compile_seconds(sides):
    """Of Inductor with freezing, and of Coil."""
    cell = lambda name: f"{sides[name]['compile_s']:.2f}" if "compile_s" in sides.get(name, {}) else "–"
    return f"{cell('inductor frozen')}, {cell('coil')}"


def without_freezing(sides):
    """The better of eager and Inductor over Coil, where weights are arguments."""
    ms = {side: figures["ms"] for side, figures in sides.items() if "ms" in figures}
    best = min((ms[side] for side in ("eager", "inductor") if side in ms), default=None)
    return f"{best / ms[peers.THROUGH_TORCH]:.2f}" if best and peers.THROUGH_TORCH in ms else "–"


def table(results, worst=None):
    columns = [("through torch.compile", without_freezing), ("cold s: Inductor frozen, Coil", compile_seconds)]
    return zoo.table(SWEEP, results, worst, columns)


# ---- One model


def burst(call):
    """Median milliseconds of calls in a row."""
    times, end = [], time.perf_counter() + BURST
    while len(times) < 6 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def line(error):
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


class Coil:
    """Coil's side: the archive, its inputs, and a package made of it."""

    def __init__(self, module, args, folder, options):
        self.folder = pathlib.Path(folder)
        self.archive, self.package = self.folder / "model.pt2", self.folder / "model.coil"
        self.inputs = self.folder / "in.safetensors"  # a package holds no large ones
        export(module, args, self.archive)
        self.write_inputs(args)
        self.options = [x for s in options for x in ("--set", s)]
        self.command("compile", self.archive, "-o", self.package, *self.options)

    def write_inputs(self, args):
        import torch
        from safetensors.torch import save_file

        names = torch.export.load(self.archive).graph_signature.user_inputs
        save_file({name: tensor.contiguous() for name, tensor in zip(names, args, strict=True)}, self.inputs)

    def command(self, *arguments):
        done = subprocess.run([COIL, *map(str, arguments)], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return done.stdout

    def results(self):
        from safetensors.torch import load_file

        path = self.folder / "out.safetensors"
        self.command("run", self.package, "--inputs", self.inputs, "--outputs", path)
        named = load_file(path)
        number = lambda name: [int(n) for n in re.findall(r"\d+", name)]
        return [named[name] for name in sorted(named, key=number)]

    def milliseconds(self, threads):
        options = ("--inputs", self.inputs, "--seconds", BURST)
        return coil_bench(self.package, threads, *options)["latency_ms"]["median"]

    def compile_seconds(self, threads):
        return coil_bench(self.archive, threads, "--seconds", 0.05, *self.options)["compile_s"]


def values(results):
    """Floating-point tensors of a side's results, whatever it returns them as."""
    import torch

    kept = results if isinstance(results, (list, tuple, dict)) else [results]
    kept = [torch.as_tensor(v) for v in (kept.values() if isinstance(kept, dict) else kept)]
    return [t for t in kept if t.is_floating_point()]


def training(function, module, args):
    """A call that gives the gradients of the results' squares."""
    import torch

    @torch.enable_grad()
    def step():
        module.zero_grad(set_to_none=True)
        results = [t for t in zoo.tensors_of(function(*args)) if t.requires_grad]
        sum(t.square().mean() for t in results).backward()
        return [p.grad for p in module.parameters() if p.grad is not None]

    return step


def prepare_training(side, case, figures):
    import torch

    module, args, want = case
    torch._dynamo.reset()
    start = time.perf_counter()
    step = training(torch.compile(module, backend=TRAINING[side]) if TRAINING[side] else module, module, args)
    figures["distance"] = zoo.distance(step(), want)
    return step, figures | {"compile_s": time.perf_counter() - start}


def prepare(side, case, mode, folder, a):
    """(call, its figures so far); no call where the side refuses the model, and says why."""
    module, args, want = case
    figures = {"date": time.strftime("%Y-%m-%d")}
    try:
        if mode == "train":
            return prepare_training(side, case, figures)
        if side == "coil":
            coil = Coil(module, args, folder, a.set)
            figures["distance"] = zoo.distance(values(coil.results()), want)
            return coil, figures
        call, figures["compile_s"] = peers.make(side, module, args, folder, a.threads)
        got = call()
        figures["distance"] = zoo.distance(values(list(got.to_tuple()) if side == "openvino" else got), want)
        return call, figures
    except Exception as error:
        return None, figures | {"error": line(error)}


def made(entry, mode):
    """The module, with the same values each time."""
    import torch

    torch.manual_seed(0)
    module = entry.make().train(mode == "train")
    zoo.without_chance(module)
    return module


def case_of(name, mode):
    """(module, inputs, its results or gradients in f64, or in f32 where it does not run in that)."""
    import zoo_drawn
    from zoo_cpu_models import MODELS

    entry = zoo_drawn.find(MODELS, name)
    module = made(entry, mode)
    args = entry.inputs(entry.large if mode == "large" else entry.small)
    up = lambda t: t.double() if t.is_floating_point() else t
    run = lambda module, args: training(module, module, args)() if mode == "train" else values(module(*args))
    try:
        want = run(module.double(), [*map(up, args)])
    except RuntimeError:  # an operator that has no f64
        want = run(module.float(), args)
    return made(entry, mode), args, want


def time_all(prepared, a):
    calls = {side: call for side, (call, _) in prepared.items() if call}
    best = dict.fromkeys(calls, 1e9)
    for _ in range(ROUNDS):
        for side, call in calls.items():
            took = call.milliseconds(a.threads) if side == "coil" else burst(call)
            best[side] = min(best[side], took)
    for side, ms in best.items():
        prepared[side][1]["ms"] = round(ms, 4)
    if "coil" in calls:
        prepared["coil"][1]["compile_s"] = calls["coil"].compile_seconds(a.threads)


def measure(name, mode, chosen, results, a):
    import torch

    torch.set_num_threads(a.threads)
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        with results.preparing():
            signal.alarm(round(a.limit))  # one that takes too long ends here, so that the others' turn comes
            case = case_of(name, mode)
            chosen = [side for side in chosen if mode != "train" or side in TRAINING]
            prepared = {side: prepare(side, case, mode, folder, a) for side in chosen}
            signal.alarm(0)
        with results.timing():
            time_all(prepared, a)
        for side, (_, figures) in prepared.items():
            results.add(name, mode, {side: figures})


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    zoo.add_options(p, SWEEP, "build/zoo_cpu.json", "small,large", 400)
    p.add_argument("--threads", type=int, default=2)
    a = p.parse_args()
    chosen = a.sides.split(",")
    if a.table:
        return print(table(json.loads(pathlib.Path(a.table).read_text()), a.worst))
    results = zoo.Results(a.results, a.locks)
    if a.one:
        return measure(a.one, a.modes, chosen, results, a)
    import zoo_drawn
    from zoo_cpu_models import MODELS

    zoo.run_all(SWEEP, a, zoo_drawn.chosen(a, MODELS), a.modes.split(","), chosen, results)
    print(table(results.read(), a.worst))


if __name__ == "__main__":
    main()
