"""The sweep over models that nobody named (`zoo_models.py`): eager, Inductor, Inductor with CUDA graphs, Coil, Coil
with CUDA graphs, through torch.compile on one GPU.

usage: zoo_gpu.py [NAME,... | --draw SOURCE:COUNT:SEED] [--modes MODE,...] [--sides SIDE,...]
                  [--results FILE] [--jobs N] [--seconds N] [--again] [--profile] [--set KEY=VALUE ...]
       zoo_gpu.py --table FILE [--worst N]

MODE: bf16, f32 (inference of a large batch), bf16:small, f32:small (of a small one), train (forward, a loss and the
gradients of all parameters, under autocast to bf16). Each model is a process of its own, which adds its figures to the
results' file; what is there already is left out, so that a run that ended early goes on where it stopped. Processes
that run side by side (`--jobs`) compile together, and then time one after the other.

Of each side: milliseconds of calls that are waited for one by one (least of three medians), MiB of torch's allocator at
its peak, seconds of the first call, and the distance from the same model in f32, of an f32 mode in f64 (norm of the
difference over the norm), which is right where it is at most one and a half times eager's. `--profile` adds the longest
kernels.
"""

import argparse
import json
import math
import pathlib
import signal
import time

import zoo
from zoo import Results, distance, tensors_of, without_chance

SIDES = {
    "eager": None,
    "inductor": ("inductor", None),
    "inductor graphs": ("inductor", "reduce-overhead"),
    "coil": ("coil", None),
    "coil graphs": ("coil", "reduce-overhead"),
}
SWEEP = zoo.Sweep(__file__, ("eager", "inductor", "inductor graphs"), ("coil", "coil graphs"))


def peaks(sides):
    """MiB of the best of the others, and of Coil; a recording's memory is not the allocator's own to count."""
    peak = lambda names: min(
        (sides[n]["peak_mib"] for n in names if "peak_mib" in sides.get(n, {}) and "graphs" not in n), default=math.nan
    )
    return f"{peak(SWEEP.peers):.0f}, {peak(SWEEP.own):.0f}"


def table(results, worst=None):
    return zoo.table(SWEEP, results, worst, [("MiB: best of the others, Coil", peaks)])


# ---- One model


class Case:
    """A model in a mode: what to call, what it gives, and the same in f32."""

    def __init__(self, name, mode):
        import torch

        import zoo_drawn
        from zoo_models import MODELS

        torch.manual_seed(0)
        entry = zoo_drawn.find(MODELS, name)
        kind, _, size = mode.partition(":")
        self.train = kind == "train"
        self.module = entry.make().train(self.train).cuda()
        if self.train:
            without_chance(self.module)
        inputs = entry.inputs(entry.small if size == "small" else entry.large)
        self.inputs = [t.cuda() if isinstance(t, torch.Tensor) else t for t in inputs]
        self.remembered = [] if self.train else [b.cpu().clone() for b in self.module.buffers()]
        state = {k: v.clone() for k, v in self.module.state_dict().items()} if self.train else None
        self.want = [t.cpu() for t in self.exact(kind)]
        self.rewind()
        if self.train:
            self.module.load_state_dict(state)
        elif kind == "bf16":
            self.become(torch.bfloat16)

    def become(self, dtype):
        """Makes the model and its inputs of another type of floats."""
        import torch

        to = lambda t: t.to(dtype) if isinstance(t, torch.Tensor) and t.is_floating_point() else t
        self.module = self.module._apply(to)  # Module.to() would take complex buffers along
        self.inputs = [to(t) for t in self.inputs]

    def exact(self, kind):
        """The results in f32; of a mode that is f32 itself in f64, where the model runs in that."""
        import torch

        if kind == "f32":
            try:
                self.become(torch.float64)
                return self.results(self.call_of(self.module)())
            except RuntimeError:  # an operator that has no f64
                pass
            finally:
                self.become(torch.float32)
        return self.results(self.call_of(self.module, exact=True)())

    def rewind(self):
        """Gives what the model remembers from call to call its first values."""
        for buffer, value in zip(self.module.buffers(), self.remembered, strict=False):
            buffer.copy_(value)

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
        case.rewind()
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

    with results.preparing():
        signal.alarm(round(limit))  # one that takes too long ends here, so that the others' turn comes
        torch._dynamo.config.recompile_limit = 64  # all sides stay compiled, and a model may need several for each
        case = Case(name, mode)
        torch.cuda.empty_cache()
        allocated = torch.cuda.memory_allocated()
        prepared = {side: prepare(case, side, allocated) for side in chosen}
        signal.alarm(0)
    with results.timing():
        for side, (call, figures) in prepared.items():
            if call:
                figures["ms"] = round(min(sides.by_clock(call, calls=8) for _ in range(3)), 4)
                if profiled:
                    figures |= longest_kernels(call)
            results.add(name, mode, {side: figures})


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    zoo.add_options(p, SWEEP, "build-gpu/zoo.json", "bf16", 240)
    a = p.parse_args()
    chosen = a.sides.split(",")
    if a.table:
        return print(table(json.loads(pathlib.Path(a.table).read_text()), a.worst))
    results = Results(a.results, a.locks)
    if a.one:
        import gpu_sides

        gpu_sides.OPTIONS.update(s.split("=", 1) for s in a.set)
        return measure(a.one, a.modes, chosen, results, a.profile, a.limit)
    import zoo_drawn
    from zoo_models import MODELS

    zoo.run_all(SWEEP, a, zoo_drawn.chosen(a, MODELS), a.modes.split(","), chosen, results)
    print(table(results.read(), a.worst))


if __name__ == "__main__":
    main()
