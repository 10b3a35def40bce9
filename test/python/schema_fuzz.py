"""Thousands of calls of operators, drawn from their schemas, by eager and by Coil.

    schema_fuzz.py [--draws N] [--seed S] [--jobs J] [--ops PATTERN] [--recorded FILE] [--report FILE] [--resume]
    schema_fuzz.py --seed S --only NUMBER ...

Each draw must end in eager's result (element type, sizes, strides and what it shares memory with) or in a refusal that
names the operator, and what eager refuses Coil must refuse. Coil goes down to the text of its kernels and the plan; the
kernels are not compiled, so that a draw takes milliseconds. A worker process makes the draws of a chunk, and one that
dies is a finding. The report has a line of JSON for each draw that is not right; the draws of a seed are the same each
time, and `--only` repeats some.

`--recorded` takes the calls of schema_corpus.py as one more source.
"""

import argparse
import collections
import functools
import json
import logging
import mmap
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import threading
import time
import warnings

import torch

import schema_corpus
from schema_calls import BUGS, CATEGORIES, CRASH, _native, verdict
from schema_draws import Drawer, targets_of
from schema_eager import Eager, serve

CHUNK = 500  # draws that a worker is given at once
BLOCK = 50  # draws that it accounts for at once
SECONDS = 10  # of one draw in Coil: more is taken for a hang
MEMORY = 6 << 30  # bytes of address space of a worker

# Operators that have no value to compare: they draw numbers, give memory as it comes, or take no part in graphs.
LEFT_OUT = re.compile(
    r"\.(_?cudnn|miopen|mkldnn|mps|xpu|quantized|sparse|_sparse"
    r"|_nested|nested|_coalesce|_indices|_values|set_|record_stream|_neg_view"
    r"|_foobar|_test|_print|_assert|to_sparse|to_mkldnn|_to_sparse|resize|_fused|_cslt|_thnn|rename|refine_names|align)"
)


def all_targets(pattern=""):
    """Coil's operators, and those that torch calls core."""
    core = {
        str(op)
        for name in torch.ops.aten
        for op in [getattr(getattr(torch.ops.aten, name), o) for o in getattr(torch.ops.aten, name).overloads()]
        if torch.Tag.core in op.tags
    }
    return [t for t in targets_of(sorted(core | set(_native.operators())), pattern) if not LEFT_OUT.search(t)]


def make_drawer(args):
    recorded = schema_corpus.load(args.recorded) if args.recorded else None
    return Drawer(args.seed, all_targets(args.ops), recorded)


def arguments_of(args):
    return ["--seed", str(args.seed), "--ops", args.ops] + (["--recorded", args.recorded] if args.recorded else [])


def make_eager(args):
    return Eager([__file__, *arguments_of(args), "--eager"])


# --- a worker


class Progress:
    """Where a process is, in memory that its parent shares: the draw, what is done with it, and the first draw that is
    not accounted for.
    """

    def __init__(self):
        self.map = mmap.mmap(-1, 64)

    def set(self, number, phase, told):
        self.map[:] = f"{number} {phase} {told}".encode().ljust(64)

    def get(self):
        number, phase, told = bytes(self.map).split()
        return int(number), phase.decode(), int(told)


class Worker:
    """Makes the draws of ranges, each in a process that is forked for it, so that one that dies costs little."""

    def __init__(self, args):
        self.drawer, self.eager, self.progress = make_drawer(args), make_eager(args), Progress()

    def run(self, first, end):
        while first < end:
            self.progress.set(first, "start", first)
            sys.stdout.flush()
            if (child := os.fork()) == 0:
                self.draw_all(first, end)
                os._exit(0)
            why = self.wait(child)
            number, phase, first = self.progress.get()
            if not why:
                return
            self.run(first, number)  # what was drawn before it and not told, which ends as it did
            tell(number=number, category=CRASH, draw=self.drawer.draw(number).text(), eager=phase, coil=why)
            tell(done=[number, number + 1], counts={CRASH: 1})
            first = number + 1

    def wait(self, child):
        """Why the process did not end well, or nothing."""
        at, since = None, time.monotonic()
        while True:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                return f"exit code {code}" if code else ""
            number, phase, _ = self.progress.get()
            if (number, phase) != at:
                at, since = (number, phase), time.monotonic()
            elif phase == "coil" and time.monotonic() - since > SECONDS:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return f"more than {SECONDS} s"
            time.sleep(0.02)

    def draw_all(self, first, end):
        told, counts = first, collections.Counter()
        for number in range(first, end):
            self.progress.set(number, "draw", told)
            try:
                draw = self.drawer.draw(number)
            except RuntimeError:
                counts["not drawn"] += 1
            else:
                phase = functools.partial(self.progress.set, number, told=told)
                category, by_eager, by_coil = verdict(draw, number, self.eager, phase)
                counts[category] += 1
                if category != "right":
                    tell(number=number, category=category, draw=draw.text(), eager=by_eager[:600], coil=by_coil[:600])
            if number + 1 == end or (number + 1) % BLOCK == 0:
                tell(done=[told, number + 1], counts=counts)
                told, counts = number + 1, collections.Counter()
        self.progress.set(end, "end", told)


def work(args):
    """Draws from standard input's ranges, verdicts to standard output."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    worker = Worker(args)
    for line in sys.stdin:
        worker.run(*map(int, line.split()))
        tell(end=True)
    worker.eager.close()


def tell(**what):
    print(json.dumps(what), flush=True)


# --- the parent


def start_worker(arguments):
    return subprocess.Popen(
        [sys.executable, __file__, *arguments, "--worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
    )


def sweep(arguments, ranges, jobs, found):
    """Each range by one of `jobs` workers; `found` is called with each finding, by one thread at a time."""
    lock, waiting = threading.Lock(), iter(ranges)

    def run():
        worker = start_worker(arguments)
        while True:
            with lock:
                part = next(waiting, None)
            if part is None:
                worker.stdin.close()
                worker.wait()
                return
            print(*part, file=worker.stdin, flush=True)
            block = []  # findings of draws that are not accounted for: a process that dies makes them again
            for line in worker.stdout:
                finding = json.loads(line)
                if "end" in finding:
                    break
                block = [f for f in block if f["number"] != finding.get("number")] + [finding]
                if "done" in finding:
                    with lock:
                        for each in block:
                            found(each)
                    block = []

    threads = [threading.Thread(target=run) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def signature(finding):
    """What findings of one cause have in common."""
    text = finding["coil"] if finding["category"] != "computed where eager refuses" else finding["eager"]
    return re.sub(r"%\w+|\d+(\.\d+)?", "#", text)[:160]


def summary(findings, counts, out=sys.stdout):
    print(", ".join(f"{counts[c]} {c}" for c in (*CATEGORIES, "not drawn") if counts[c]), file=out)
    for category in BUGS:
        groups = collections.defaultdict(list)
        for f in findings:
            if f["category"] == category:
                groups[f["draw"].split("(")[0], signature(f)].append(f)
        if groups:
            print(f"\n== {category}: {sum(map(len, groups.values()))}", file=out)
        for (_, _), of in sorted(groups.items(), key=lambda item: -len(item[1])):
            f = of[0]
            print(f"{len(of):5} #{f['number']} {f['draw'][:220]}", file=out)
            print(f"        eager: {f['eager'][:160]!r}\n        coil:  {f['coil'][:260]!r}", file=out)


def only(args):
    drawer, eager = make_drawer(args), make_eager(args)
    for number in args.only:
        draw = drawer.draw(number)
        print(f"#{number} ({draw.source}) {draw.text()}", flush=True)
        category, by_eager, by_coil = verdict(draw, number, eager)
        print(f"  {category}\n  eager: {by_eager}\n  coil:  {by_coil}")
    eager.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--ops", default="", help="a pattern that the operators' names match")
    parser.add_argument("--recorded", help="calls that schema_corpus.py recorded")
    parser.add_argument("--report", type=pathlib.Path, help="a file for all that is not right, as JSON")
    parser.add_argument("--resume", action="store_true", help="leave out what the report has")
    parser.add_argument("--only", type=int, nargs="+", help="these draws alone, here")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--eager", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    if args.worker:
        return work(args)
    if args.eager:
        return serve(make_drawer(args))
    if args.only:
        return only(args)
    findings, counts, done = [], collections.Counter(), set()

    def take(finding):
        if "done" in finding:
            counts.update(finding["counts"])
            done.update(range(*finding["done"]))
        else:
            findings.append(finding)

    if args.resume and args.report.exists():
        for line in args.report.read_text().splitlines():
            take(json.loads(line))
        findings[:] = [f for f in findings if f["number"] in done]
    ranges = [(k, min(k + CHUNK, args.draws)) for k in range(0, args.draws, CHUNK) if k not in done]
    report = args.report.open("a" if args.resume else "w") if args.report else None

    def found(finding):
        take(finding)
        if report:
            print(json.dumps(finding), file=report, flush=True)
        if "done" in finding:
            print(f"{len(done)} draws", file=sys.stderr, flush=True)

    sweep(arguments_of(args), ranges, args.jobs, found)
    summary(findings, counts)


if __name__ == "__main__":
    main()
