"""Branches in loops in invoked regions: library calls, operators of the host, constants and kernels of all blocks are
gathered and numbered over the whole program, in every form in which it leaves the compiler.
"""

import json
import re
import zipfile

import pytest
import torch
from torch._higher_order_ops import while_loop

import coil
from coil_harness import coil_ok, differences, export, named_outputs
from emitted import call_flat, emit, load_module
from test_emitters import check_all


@torch.library.custom_op("gathered_test::shifted", mutates_args=())
def shifted(x: torch.Tensor, by: int) -> torch.Tensor:
    return x + by


@shifted.register_fake
def _(x, by):
    return torch.empty_like(x)


class Gathered(torch.nn.Module):
    """A region that is called twice, in it a loop, in that a branch in a branch; each side has a product, a constant of
    its own and a kernel."""

    def __init__(self, host):
        super().__init__()
        self.host = shifted if host else lambda x, by: x + by
        self.w = torch.nn.Parameter(torch.randn(4, 4) / 4)
        for k in range(3):
            self.register_buffer(f"c{k}", torch.randn(4) + k)

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
    check_all((Gathered(False), CALLS[0], {}, None, CALLS[1:]), tmp_path)


@pytest.fixture(scope="module")
def with_host(tmp_path_factory):
    torch.manual_seed(0)
    module, archive = Gathered(True).eval(), tmp_path_factory.mktemp("gathered") / "m.pt2"
    export(module, CALLS[0], archive)
    coil_ok("compile", archive, "-o", archive.with_suffix(".coil"), "--set", "fallback=true")
    return module, archive


def test_operators_of_the_host_are_named_once_with_their_calls(with_host):
    module, archive = with_host
    with zipfile.ZipFile(archive.with_suffix(".coil")) as package:
        steps = json.loads(package.read("manifest.json"))["steps"]
        operators = json.loads(package.read("operators.json"))
    (only,) = operators
    assert only["operator"] == "gathered_test.shifted.default"
    calls = only["calls"]
    assert [c["step"] for c in calls] == [k for k, s in enumerate(steps) if "host" in s] and len(calls) == 7
    kinds = [[steps[k]["control"] for k in c["inside"]] for c in calls]
    assert sum(not k for k in kinds) == 1 and sorted(map(len, kinds)) == [0, 2, 2, 2, 3, 3, 3], kinds
    assert all(k[0] == "loop" for k in kinds if k)
    loaded = coil.load(archive.with_suffix(".coil"))
    for args in CALLS:
        with torch.no_grad():
            assert not differences(named_outputs(loaded(*args)), named_outputs(module(*args)))


def test_kernels_calls_and_constants_are_numbered_over_all_blocks(with_host):
    """Equal kernels of blocks are one, and no two constants or calls share a name."""
    module, archive = with_host
    source = emit(archive, "python", "--set", "fallback=true").read_text()
    calls = re.findall(r"^(\w+) = LibraryCall\(", source, re.M)
    weights = re.findall(r"^(\w+) = weight\(", source, re.M)
    kernels = re.findall(r'^extern "C" void (coil_\w+)\(', source, re.M)
    assert len(calls) >= 6 and len(set(calls)) == len(calls)
    assert len(set(weights)) == len(weights) >= 4
    assert len(set(kernels)) == len(kernels) > 0
    for form in ("python", "fx"):
        made = load_module(emit(archive, form, "--set", "fallback=true"))
        call = made.call if form == "python" else (lambda graph: lambda flat: graph(*flat))(made.load())
        for args in CALLS:
            want = named_outputs(module(*args))
            with torch.no_grad():
                assert not differences(call_flat(call, module, args, {}, want), want)
