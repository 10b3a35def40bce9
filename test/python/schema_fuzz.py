"""Thousands of calls of operators, drawn from their schemas, by eager and by Coil.

    schema_fuzz.py [--first N] [--draws N] [--seed S] [--workers W] [--seconds T] [--ops PATTERN] [--recorded FILE]
                   [--in-place] [--report FILE] [--resume]
    schema_fuzz.py --seed S --only NUMBER ...

Each draw must end in eager's result (element type, sizes, strides and what it shares memory with) or in a refusal that
names the operator, and what eager refuses Coil must refuse. Coil goes down to the text of its kernels and the plan; the
kernels are not compiled, so that a draw takes milliseconds. A worker process makes the draws of a chunk; one that dies
or hangs is a finding, and another takes its place. The report has a line of JSON for each draw that is not right, and
one of the counts at the end; the draws of a seed are the same each time, and `--only` repeats some.

`--recorded` takes the calls of schema_corpus.py as one more source. `--in-place` draws `add_` and its kind.
"""

import argparse
import collections
import contextlib
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

CHUNK = 500  # draws that a worker is given at once, at most
BLOCK = 50  # draws that it accounts for at once
SECONDS = 10  # of one draw in Coil: more is taken for a hang
SILENCE = 300  # of a worker that says nothing of a block: it hangs itself
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


def in_place_targets(pattern=""):
    """Torch's operators that write to their argument in place of those."""
    written = [in_place(t) for t in all_targets()]
    return [t for t in targets_of(written, pattern) if not LEFT_OUT.search(t)]


def in_place(target):
    space, name, overload = target.split(".")
    return f"{space}.{name}_.{overload}"


def make_drawer(args):
    recorded = schema_corpus.load(args.recorded) if args.recorded else None
    targets = in_place_targets(args.ops) if args.in_place else all_targets(args.ops)
    return Drawer(args.seed, targets, recorded)


def arguments_of(args):
    options = ["--recorded", args.recorded] if args.recorded else []
    return ["--seed", str(args.seed), "--ops", args.ops, *options, *(["--in-place"] if args.in_place else [])]


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
        self.args, self.drawer, self.eager, self.progress = args, make_drawer(args), make_eager(args), Progress()

    def run(self, first, end):
        while first < end:
            if self.eager.process.poll() is not None:
                self.eager = make_eager(self.args)
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
            tell_finding(number, CRASH, self.drawer.draw(number), phase, why)
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
                    tell_finding(number, category, draw, by_eager, by_coil)
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


def tell_finding(number, category, draw, by_eager, by_coil):
    both = {"eager": by_eager[:600], "coil": (by_coil or "")[:600]}
    tell(number=number, category=category, operator=draw.target, draw=draw.text(), **both)


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
        start_new_session=True,
    )


class Sweep:
    """Ranges of draws by several workers until there are none left, or no time; `found` is called with each finding, by
    one thread at a time.
    """

    def __init__(self, arguments, ranges, found, seconds=None):
        self.arguments, self.waiting, self.found = arguments, collections.deque(ranges), found
        self.lock, self.workers, self.stopped = threading.Lock(), set(), False
        self.end = time.monotonic() + seconds if seconds else None

    def run(self, workers):
        threads = [threading.Thread(target=self.serve, daemon=True) for _ in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(self.end and max(0, self.end - time.monotonic()))
        with self.lock:
            self.stopped = True  # for threads that are still waiting for a worker
            for worker in self.workers:
                kill(worker)

    def serve(self):
        """Gives ranges to one worker after the other."""
        while self.waiting and not self.stopped:
            with self.lock:
                worker = start_worker(self.arguments)
                self.workers.add(worker)
            while (part := self.next_range()) and self.carry_out(worker, part):
                pass
            with self.lock:
                self.workers.discard(worker)
            kill(worker)

    def next_range(self):
        with self.lock:
            return self.waiting.popleft() if self.waiting and not self.stopped else None

    def carry_out(self, worker, part):
        """Whether the worker did all of a range. Where it did not, the rest of the range waits for another."""
        block, (told, end) = [], part  # findings of draws that are not accounted for: a death makes them again
        for line in self.lines(worker, part):
            finding = json.loads(line)
            if "end" in finding:
                return True
            block = [f for f in block if f["number"] != finding.get("number")] + [finding]
            if "done" in finding:
                told = finding["done"][1]
                self.hand_over(block)
                block = []
        kill(worker)
        if told == end:
            return False
        next_told = min(told + BLOCK, end)
        why = f"the worker ended or was silent for {SILENCE} s in draws {told} to {next_told - 1}"
        lost = {"number": told, "category": CRASH, "operator": "?", "draw": "?", "eager": "", "coil": why}
        self.hand_over([lost, {"done": [told, next_told], "counts": {CRASH: 1, "not drawn": next_told - told - 1}}])
        if next_told < end:
            self.waiting.appendleft((next_told, end))
        return False

    def hand_over(self, block):
        with self.lock:
            for each in block if not self.stopped else []:
                self.found(each)

    def lines(self, worker, part):
        """What the worker says of a range, until it is silent."""
        try:
            print(*part, file=worker.stdin, flush=True)
        except BrokenPipeError:
            return
        said = threading.Timer(SILENCE, kill, [worker])
        said.start()
        for line in worker.stdout:
            said.cancel()
            yield line
            said = threading.Timer(SILENCE, kill, [worker])
            said.start()
        said.cancel()


def kill(worker):
    """With the processes that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()


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


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=0, help="the number of the first draw")
    parser.add_argument("--draws", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", "--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, help="of the whole sweep: what was not drawn by then is left out")
    parser.add_argument("--ops", default="", help="a pattern that the operators' names match")
    parser.add_argument("--in-place", action="store_true", help="operators that write to their argument, and no others")
    parser.add_argument("--recorded", help="calls that schema_corpus.py recorded")
    parser.add_argument("--report", type=pathlib.Path, help="a file for all that is not right, as JSON")
    parser.add_argument("--resume", action="store_true", help="leave out what the report has")
    parser.add_argument("--only", type=int, nargs="+", help="these draws alone, here")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--eager", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


class Report:
    """What was found, kept and written down."""

    def __init__(self, args):
        self.findings, self.counts, self.done, self.seed = [], collections.Counter(), set(), args.seed
        if args.resume and args.report.exists():
            for line in args.report.read_text().splitlines():
                self.take(json.loads(line))
            self.findings = [f for f in self.findings if f["number"] in self.done]
        self.file = args.report.open("a" if args.resume else "w") if args.report else None

    def take(self, finding):
        if "done" in finding:
            self.counts.update(finding["counts"])
            self.done.update(range(*finding["done"]))
        elif "number" in finding:
            self.findings.append(finding)

    def found(self, finding):
        self.take(finding)
        self.write({"seed": self.seed} | finding if "number" in finding else finding)
        if "done" in finding:
            print(f"{len(self.done)} draws", file=sys.stderr, flush=True)

    def write(self, what):
        if self.file:
            print(json.dumps(what), file=self.file, flush=True)


def ranges_of(args, done):
    end = args.first + args.draws
    chunk = max(BLOCK, min(CHUNK, args.draws // (8 * args.workers) // BLOCK * BLOCK))
    chunks = [[k for k in range(at, min(at + chunk, end)) if k not in done] for at in range(args.first, end, chunk)]
    return [(left[0], left[-1] + 1) for left in chunks if left]


def main():
    args = parsed()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    if args.worker:
        return work(args)
    if args.eager:
        return serve(make_drawer(args))
    if args.only:
        return only(args)
    report = Report(args)
    Sweep(arguments_of(args), ranges_of(args, report.done), report.found, args.seconds).run(args.workers)
    report.write({"total": report.counts, "draws": len(report.done)})
    summary(report.findings, report.counts)


if __name__ == "__main__":
    main()
