"""Decompositions against eager: the decomposed graph, run by PyTorch one operator at a time, gives the values and
layouts of the operator itself.
"""

import os

import pytest
import torch

import text_graph
from shape_cases_layers import CASES
from test_shapes import NEW_STORAGE, SEED, accepted_calls, opt

CALLS = int(os.environ.get("COIL_TEST_CALLS", "10"))
# Results in narrow types are rounded after each operator here, once in eager's kernel: a few units in the last place;
# sums add up in another order.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}


def flat(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


def same_values(a, b):
    if a.dtype.is_floating_point:
        tolerance = TOLERANCE[a.dtype]
        return torch.allclose(a.double(), b.double(), rtol=tolerance, atol=tolerance, equal_nan=True)
    return torch.equal(a, b)


@pytest.mark.parametrize("op", sorted(set(CASES) - {"empty_like.default"}))
def test_values(op):
    calls = accepted_calls(op, CALLS)
    graph, names, wanted = text_graph.Graph(), [], []
    for args, kwargs, result in calls:
        name = graph.call(op, args, kwargs)
        several = isinstance(result, (list, tuple))
        names += [graph.item(name, i) for i in range(len(result))] if several else [name]
        wanted += flat(result)
    printed, error = opt(graph.text(names), ["propagate", "decompose", "propagate"])
    assert not error, f"seed {SEED}: {error}"
    results = text_graph.run(printed, graph.inputs)
    for name, got, want in zip(names, results, wanted):
        call = next(l.strip() for l in graph.lines if l.startswith(f"    %{name.split('_')[0]} ="))
        assert got.dtype == want.dtype and got.shape == want.shape, (
            f"seed {SEED}: {call}: {got.dtype} {list(got.shape)}, eager {want.dtype} {list(want.shape)}"
        )
        assert same_values(got, want), (
            f"seed {SEED}: {call}\n  Coil  {got.flatten()[:8].tolist()}\n  eager "
            f"{want.flatten()[:8].tolist()}\n{printed if len(printed) < 4000 else ''}"
        )
        if op not in NEW_STORAGE and not text_graph.is_view(op):
            have, expected = text_graph.metadata_of(got)[0], text_graph.metadata_of(want)[0]
            assert have[:3] == expected[:3], f"seed {SEED}: {call}: strides {have[2]}, eager {expected[2]}"
