"""What the GPU benchmarks share: timing by events with the cache flushed, by the host's clock, sides that take turns, a
deadline.
"""

import argparse
import statistics
import time

import torch

OPTIONS = {"cpu.isa": "avx2"}


class Deadline:
    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def passed(self):
        return time.monotonic() > self.end


def parser(doc, chosen):
    """Arguments of a benchmark of models: names, `--sides` (those `chosen` where nothing is said), a limit in seconds
    and settings of Coil's sides.
    """
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("names", nargs="?")
    made.add_argument("--sides", default=chosen)
    made.add_argument("--seconds", type=float, default=1e9)
    made.add_argument("--set", action="append", default=[])
    return made


def each(a, models):
    """The models that parsed arguments name, until their time is over, each with the deadline. Their settings hold from
    now on.
    """
    OPTIONS.update(s.split("=", 1) for s in a.set)
    deadline = Deadline(a.seconds)
    for name in a.names.split(",") if a.names else models:
        if deadline.passed():
            print(f"{name} not reached in time")
        else:
            yield name, deadline


def compiled(function, backend, mode=None, options={}, fullgraph=True, reset=True, dynamic=None):
    """A function compiled by a backend of torch.compile, cold caches for Coil, which takes options too; nothing is
    compiled yet. What was compiled before is forgotten, without `reset` it stays.
    """
    if reset:
        torch._dynamo.reset()
    if backend != "coil":
        return torch.compile(function, backend=backend, fullgraph=fullgraph, mode=mode, dynamic=dynamic)
    graphs = {"cuda.graphs": True} if mode == "reduce-overhead" else {}  # torch takes a mode or options
    return torch.compile(
        function,
        backend=backend,
        fullgraph=fullgraph,
        options=OPTIONS | {"cache": "none"} | graphs | options,
        dynamic=dynamic,
    )


def first_call(call):
    """Seconds of a call that compiles."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def by_events(call):
    """Median milliseconds on the GPU, the L2 cache flushed between calls."""
    from triton.testing import do_bench

    return do_bench(call, warmup=10, rep=40, return_mode="median")


def queued(call, calls=20, rounds=1):
    """Milliseconds of a call among others that are queued one after the other: the least of some rounds."""
    for _ in range(3):
        call()
    times = []
    for _ in range(rounds):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / calls)
    return min(times)


def on_device(call, calls=15):
    """Median milliseconds of the device alone: it is kept busy, the L2 cache flushed, until the host has queued all of
    a call.
    """
    flush = torch.empty(1 << 28, dtype=torch.int8, device="cuda")
    marks = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(calls)]
    for begin, end in marks:
        torch.cuda._sleep(1_500_000)  # cycles; not far from a millisecond
        flush.zero_()
        begin.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(begin.elapsed_time(end) for begin, end in marks)


def by_clock(call, calls=20):
    """Median milliseconds of calls that are waited for one by one."""
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def difference(got, want):
    """Norm of the difference over the norm of what is wanted; NaN where a NaN is new."""
    got, want = got.double(), want.double()
    return ((got - want).norm() / want.norm().clamp_min(1e-30)).item()


def line(error):
    return " ".join(str(error).split())[-300:]
