"""Branches in loops in invoked regions: library calls, operators of the host, constants and kernels of all blocks are
gathered and numbered over the whole program, in every form in which it leaves the compiler.
"""

import json
import pathlib
import sys
import zipfile

import pytest
import torch
from torch._higher_order_ops import while_loop

from coil_harness import differences, named_outputs
from emitted import call_flat
from test_emitters import check_all

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
coil = pytest.importorskip("coil", reason="the Python extension is not built")


@torch.library.custom_op("gathered_test::moved", mutates_args=())
def moved(x: torch.Tensor, by: int) -> torch.Tensor:
    return x + by


@moved.register_fake
def _(x, by):
    return torch.empty_like(x)


class Gathered(torch.nn.Module):
    """A region that is called twice, in it a loop, in that a branch in a branch; each side has a product, a constant of
    its own and a kernel."""

    def __init__(self, host):
        super().__init__()
        self.has_host = host
        self.w = torch.nn.Parameter(torch.randn(4, 4) / 4)
        for k in range(3):
            self.register_buffer(f"c{k}", torch.randn(4) + k)

    def host(self, x, by):
        return moved(x, by) if self.has_host else x + by

    def forward(self, x, n):
        @torch.compiler.nested_compile_region
        def region(x, n):
            def body(i, v):
                def small(v):
                    return torch.softmax(self.host(v @ self.w, 1) * self.c0, 1)

                def large(v):
                    low = lambda v: torch.relu(v @ self.w.t()) - self.c1
                    return torch.cond(v.max() > 1.5, low, lambda v: self.host(v * self.c2, 2), (v,))

                return i + 1, torch.cond(v.sum() > 2, large, small, (v,))

            return while_loop(lambda i, v: i < n, body, (torch.zeros((), dtype=torch.int64), x))[1]

        return region(x, n) + region(self.host(x, -1), n), region(x, n).sum(0)


CALLS = [(torch.linspace(-1, 2, 12).reshape(3, 4) * scale, torch.tensor(n)) for scale, n in [(1, 3), (0.1, 5), (4, 0)]]


def test_every_form_gives_the_same_bits(tmp_path):
    torch.manual_seed(0)
    check_all((Gathered(False), CALLS[0], {}, None, []), tmp_path)


@pytest.fixture(scope="module")
def with_host(tmp_path_factory):
    torch.manual_seed(0)
    module, package = Gathered(True).eval(), tmp_path_factory.mktemp("gathered") / "m.coil"
    coil.compile(module, CALLS[0]).save(package)
    return module, package


def test_operators_of_the_host_are_named_once_with_their_calls(with_host):
    module, path = with_host
    with zipfile.ZipFile(path) as package:
        plan = json.loads(package.read("manifest.json"))
        operators = json.loads(package.read("operators.json"))
    (only,) = operators
    steps, calls = plan["steps"], only["calls"]
    assert only["operator"] == "gathered_test.moved.default" and "Tensor x, SymInt by" in only["schema"]
    assert [c["step"] for c in calls] == [k for k, s in enumerate(steps) if "host" in s] and len(calls) == 7
    kinds = [[steps[k]["control"] for k in c["inside"]] for c in calls]
    assert sorted(map(len, kinds)) == [0, 2, 2, 2, 3, 3, 3], kinds
    assert all(k[0] == "loop" for k in kinds if k)
    loaded = coil.load(path)
    for args in CALLS:
        with torch.no_grad():
            assert not differences(named_outputs(loaded(*args)), named_outputs(module(*args)))


def test_kernels_and_constants_are_numbered_over_all_blocks(with_host):
    """Equal kernels of blocks are one, and so are equal constants; a step names each by its place in the program."""
    module, path = with_host
    with zipfile.ZipFile(path) as package:
        plan = json.loads(package.read("manifest.json"))
    symbols = [k["symbol"] for k in plan["kernels"]]
    assert len(set(symbols)) == len(symbols) > 2
    assert sorted({s["kernel"] for s in plan["steps"] if "kernel" in s}) == list(range(len(symbols)))
    names = [c["name"] for c in plan["constants"]]
    assert len(set(names)) == len(names) >= 4, names
    graph = coil.fx_wrapper(module, CALLS[0])
    for args in CALLS:
        with torch.no_grad():
            want = named_outputs(module(*args))
            assert not differences(call_flat(lambda flat: graph(*flat), module, args, {}, want), want)
