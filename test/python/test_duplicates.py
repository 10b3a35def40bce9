"""Values that a graph computes twice are computed once before torch's partitioner chooses among them."""

import collections
import os
import pathlib
import subprocess
import sys

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
pytest.importorskip("coil", reason="the Python extension is not built")
from coil import duplicates  # noqa: E402


def shared(function, *given):
    """How many calls of each operator are left where what is computed twice is computed once."""
    graph_module = make_fx(function, tracing_mode="fake")(*given)
    duplicates.share(graph_module.graph)
    graph_module.graph.eliminate_dead_code()
    graph_module.graph.lint()
    return collections.Counter(
        str(n.target).removeprefix("aten.") for n in graph_module.graph.nodes if n.op == "call_function"
    )


def test_what_is_computed_twice_is_computed_once():
    x, y = torch.randn(4), torch.randn(4)
    assert shared(lambda x: (x.sin() * 2 + x.sin() * 2).sum(), x)["sin.default"] == 1
    # Not where numbers are equal and not the same, of random numbers, of results, or across a write.
    assert shared(lambda x: (x * 0.0 + (x * -0.0)).sum(), x)["mul.Tensor"] == 2
    assert shared(lambda x: (x + 1 + (x + 1.0)).sum(), x)["add.Tensor"] == 3
    assert shared(lambda x: (torch.rand_like(x) * torch.rand_like(x)).sum(), x)["rand_like.default"] == 2
    assert shared(lambda x: (x.sin(), x.sin()), x)["sin.default"] == 2
    written = shared(lambda x, y: (x.sin() + y.copy_(x).sin() + y.sin()).sum(), x, y)
    assert written["sin.default"] == 2 and written["copy_.default"] == 1


def test_torchs_own_pass_stays_away():
    """It would bring Inductor's patterns, and with them Triton, into each process that compiles a training step."""
    program = """
import sys, torch, coil
x = torch.randn(4, 8, requires_grad=True)
step = torch.compile(lambda x: x.sin() * x.sin(), backend="coil", options={"cache": "none"})
step(x).sum().backward()
assert "torch._inductor.pattern_matcher" not in sys.modules
"""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "build/python")}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
