"""Shape functions against eager: dtype, sizes, strides and offset of random calls of every operator in
shape_cases.py.
"""

import os
import zlib

import pytest
import torch

import text_graph
from coil_harness import coil
from shape_cases import Random
from shape_cases_layers import CASES

SEED = int(os.environ.get("COIL_TEST_SEED", "1"))
CALLS = int(os.environ.get("COIL_TEST_CALLS", "25"))


# Eager copies these with the strides and offset of their input, gaps included; Coil's copies are dense.
NEW_STORAGE = {"copy.default", "slice_scatter.default", "select_scatter.default"}


def accepted_calls(op, count):
    """Random calls that eager takes, with what it gives."""
    seed = SEED * 1000003 + zlib.crc32(op.encode())
    torch.manual_seed(seed)
    r = Random(seed)
    f = text_graph.operator(op)
    found = []
    for _ in range(count):
        args, kwargs = r.choice(CASES[op])(r)
        try:
            found.append((args, kwargs, f(*args, **kwargs)))
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
            continue
    assert found, f"eager takes none of the calls of {op}"
    return found


def opt(text, passes):
    """`coil opt` over a text graph: (what it printed, what went wrong)."""
    flags = [w for p in passes for w in ("--pass", p)]
    done = coil("opt", *flags, "-", input=text)
    return done.stdout, done.stderr.strip()


@pytest.mark.parametrize("op", sorted(CASES))
def test_metadata(op):
    calls = accepted_calls(op, CALLS)
    graph = text_graph.Graph()
    names = [graph.call(op, args, kwargs) for args, kwargs, _ in calls]
    printed, error = opt(graph.text(names[:1]), ["propagate"])
    assert not error, f"seed {SEED}: {error}\n" + next(
        (l for l in graph.lines if f"%{error.split('node %')[-1].split(')')[0]} =" in l), ""
    )
    have = {name: type for name, type, *_ in text_graph.nodes(printed)}
    for name, (args, kwargs, result) in zip(names, calls):
        want = text_graph.metadata_of(result)
        got = text_graph.metadata(have[name])
        if op in NEW_STORAGE:
            want, got = ([(m[0], m[1]) for m in ms] for ms in (want, got))
        call = next(l.strip() for l in graph.lines if l.startswith(f"    %{name} ="))
        inputs = [
            l.strip()
            for l in graph.lines
            if "placeholder[" in l and l.split(" : ")[0].strip() + "," in call.replace("]", ",").replace(")", ",")
        ]
        assert got == want, f"seed {SEED}: {call}\n  of {inputs}\n  Coil  {got}\n  eager {want}"
