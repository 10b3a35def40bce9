"""Where in the user's program a value comes from: every line once, however many operators it is made of, and of the
backward graph the line of the forward one.
"""

import inspect
import pathlib
import re
import sys

import pytest
import torch

from coil_harness import coil_ok, export

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
pytest.importorskip("coil", reason="the Python extension is not built")


class Attends(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        y = self.attention(x, x, x)[0]
        return (y.tanh() * x).sum(1)


def line_of(text):
    lines, first = inspect.getsourcelines(Attends.forward)
    return f"test_source_lines.py:{first + next(k for k, line in enumerate(lines) if text in line)}"


def test_a_line_of_many_operators_is_told_once(tmp_path):
    export(Attends().eval(), (torch.randn(2, 3, 8),), tmp_path / "m.pt2")
    told = coil_ok("explain", tmp_path / "m.pt2").stdout
    rows = [re.split(r", ", row) for row in re.findall(r"^ {20}from (.+)$", told, re.M)]
    assert all(len(set(row)) == len(row) for row in rows), rows
    of_attention, behind = line_of("self.attention(x"), line_of("tanh")
    assert sum(of_attention in row for row in rows) >= 3 and any(behind in row for row in rows), rows


def test_backward_values_come_from_forward_lines(capfd):
    torch.manual_seed(0)
    module, x = Attends(), torch.randn(2, 3, 8, requires_grad=True)
    compiled = torch.compile(module, backend="coil", options={"log": "graph,ir", "cache": "none"})
    compiled(x).sum().backward()
    told = capfd.readouterr().err
    backward = told[told.index("graph backward(") :]
    nodes = [row for row in backward.splitlines() if " = call_function[" in row]
    lines = [re.search(r"# at (\S+)", row) for row in nodes]
    assert len(nodes) > 10 and all(lines), [row for row, line in zip(nodes, lines) if not line]
    assert {line[1] for line in lines} == {line_of("self.attention(x"), line_of("tanh")}
