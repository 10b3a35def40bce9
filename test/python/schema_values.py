"""Drawn calls that Coil takes, many in one compile, run and compared with eager's values.

    schema_values.py [--draws N] [--first N] [--seed S] [--ops PATTERN] [--batch N] [--set KEY=VALUE ...]

The draws are those of schema_fuzz.py. A batch is compiled and run in a process of its own; where it dies or does not
compile, its halves are. A line for each draw that is not right, and the counts at the end.
"""

import argparse
import collections
import logging
import os
import pickle
import re
import signal
import sys
import warnings

import torch

from coil_harness import difference
from schema_calls import Build, _native, lowered
from schema_draws import flat
from schema_eager import copied, read_block, unpacked, write_block
from schema_fuzz import make_drawer, make_eager

SECONDS = 120  # of a batch

# Results that say nothing: memory as it comes, and numbers that are drawn.
UNWRITTEN = re.compile(r"\.(new_)?empty(_like|_strided|_permuted)?\.")
# Which of equal elements an index names is left open.
TIES = re.compile(r"\.(sort|argsort|topk|kthvalue|mode|median|nanmedian|msort|unique\w*)\.")
# Vectors that a library may turn, and factors that it may choose.
CHOSEN = re.compile(r"\.(_?linalg_(eigh?|svd|qr|eig)|svd|qr|geqrf|ormqr|linalg_lstsq|triangular_solve|_linalg_\w+)\.")
# Operands that must be sorted, or what an earlier call made.
GIVEN = re.compile(r"\.(log_sigmoid_backward|searchsorted|bucketize|\w*max_pool\w*_backward|max_unpool\w*)\.")


def has_values(draw):
    """Whether eager's values are the only right ones."""
    tags = draw.operator.tags
    return torch.Tag.nondeterministic_seeded not in tags and not any(
        p.search(draw.target) for p in (UNWRITTEN, TIES, CHOSEN, GIVEN)
    )


class Batch:
    """Draws in one program. `draws`: (number, draw, eager's answer with values)."""

    def __init__(self, draws, settings):
        self.draws = draws
        graph = _native.TracedGraph("main")
        self.builds = [Build(draw, answer.shape, graph, f"d{number}_") for number, draw, answer in draws]
        graph.infer()
        graph.output([node for build in self.builds for node in build.results])
        self.program = graph.compile(settings, None, [], "cpu")

    def run(self, other=None):
        """(arguments, results) by draw. `other`: {place of a draw: its inputs}, in place of its own."""
        inputs, after = [], []
        for k, (_, draw, _) in enumerate(self.draws):
            args, kwargs = copied(draw)
            leaves = (other or {}).get(k) or flat((args, kwargs))
            after.append(leaves)
            inputs += self.builds[k].chosen(leaves)
        results = list(self.program(*inputs))
        by_draw = []
        for build, leaves in zip(self.builds, after):
            by_draw.append((leaves, results[: len(build.results)]))
            del results[: len(build.results)]
        return by_draw


def outcomes(draws, settings):
    """{number: what is wrong, or nothing}. Where all together do not compile or run, halves are tried."""
    if not draws:
        return {}
    try:
        return in_a_process(lambda: outcomes_here(draws, settings))
    except Exception as error:
        if len(draws) == 1:
            return {draws[0][0]: f"{type(error).__name__}: {error}"}
        half = len(draws) // 2
        return outcomes(draws[:half], settings) | outcomes(draws[half:], settings)


def outcomes_here(draws, settings):
    got = Batch(draws, settings).run()
    return {number: compared(answer, *made) for (number, _, answer), made in zip(draws, got)}


def in_a_process(f):
    """What `f` gives in a fork; its error is raised here, and its end is one."""
    answers, out = os.pipe()
    sys.stdout.flush()
    if (child := os.fork()) == 0:
        try:
            told = f()
        except Exception as error:
            told = RuntimeError(f"{type(error).__name__}: {error}")
        write_block(out, pickle.dumps(told))
        os._exit(0)
    os.close(out)
    try:
        told = pickle.loads(read_block(answers, SECONDS))
    except TimeoutError:
        os.kill(child, signal.SIGKILL)
        raise RuntimeError(f"more than {SECONDS} s") from None
    except EOFError:
        raise RuntimeError("the process died") from None
    finally:
        os.close(answers)
        os.waitpid(child, 0)
    if isinstance(told, Exception):
        raise told
    return told


def compared(answer, leaves, results):
    """Of the results, and of arguments that the call may have written to."""
    after, want = ([unpacked(v) for v in side] for side in answer.values)
    lines = []
    for k, (g, w) in enumerate(zip(results, want)):
        if wrong := one(g, w):
            lines.append(f"result {k}: {wrong}")
    for k, (g, w) in enumerate(zip(leaves, after)):
        if isinstance(w, torch.Tensor) and (wrong := one(g, w)):
            lines.append(f"argument {k} after the call: {wrong}")
    return "; ".join(lines)


def one(got, want):
    if isinstance(want, (bool, int, float)) and isinstance(got, torch.Tensor) and got.dim() == 0:
        got = got.item()  # a float that the run reads comes as a tensor
    if isinstance(want, torch.Tensor) != isinstance(got, torch.Tensor):
        return f"{type(got).__name__}, expected {type(want).__name__}"
    if not isinstance(want, torch.Tensor):
        return "" if got == want or got != got and want != want else f"{got}, expected {want}"
    if want.dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        got, want = got.float(), want.float()
    return difference(got, want)


class Sweep:
    def __init__(self, args):
        self.args, self.drawer, self.eager = args, make_drawer(args), make_eager(args)
        self.settings = {"fallback": "false"} | dict(s.split("=", 1) for s in args.set)
        self.counts, self.batch = collections.Counter(), []

    def run(self):
        for number in range(self.args.first, self.args.first + self.args.draws):
            try:
                draw = self.drawer.draw(number)
            except RuntimeError:
                continue
            if kept := self.answered(number, draw):
                self.batch.append((number, draw, kept))
            if len(self.batch) == self.args.batch:
                self.end_batch()
        self.end_batch()
        self.eager.close()
        print(", ".join(f"{n} {what}" for what, n in self.counts.items()))

    def answered(self, number, draw):
        if not has_values(draw):
            return self.leave("without values to compare")
        answer = self.eager.ask("values", number)
        if answer.refused or answer.crashed:
            return self.leave("refused by eager")
        if lowered(draw, answer)[1]:
            return self.leave("refused by Coil")
        return answer

    def leave(self, why):
        self.counts[why] += 1

    def end_batch(self):
        draws = {number: draw for number, draw, _ in self.batch}
        for number, wrong in outcomes(self.batch, self.settings).items():
            self.counts["WRONG" if wrong else "right"] += 1
            if wrong:
                print(f"#{number} {draws[number].text()[:400]}\n    {wrong[:400]}", flush=True)
        print(dict(self.counts), file=sys.stderr, flush=True)
        self.batch = []


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--ops", default="", help="a pattern that the operators' names match")
    parser.add_argument("--set", action="append", default=[], help="a setting of the compiler")
    parser.add_argument("--recorded", help=argparse.SUPPRESS)
    parser.add_argument("--in-place", action="store_true", help="operators that write to their argument, and no others")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    Sweep(args).run()


if __name__ == "__main__":
    main()
