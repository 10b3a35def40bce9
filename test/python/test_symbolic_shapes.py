"""Sizes that broke other compilers: broadcasting of sizes nobody knows, sizes that only one operator needs, library calls in branches, compound sizes in any order of inputs; memory over many turns; messages about bad sizes."""
import os
import pathlib
import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file
from torch._higher_order_ops import while_loop

from coil_harness import COIL, ENVIRONMENT, CoilError, check, coil_ok, difference, export, named_inputs, run
from emitted import build_program, emit

FORMS = pytest.mark.parametrize("decomposed", [False, True], ids=["exported", "decomposed"])


@FORMS
def test_broadcast_of_a_quotient_of_an_unknown_size(decomposed):
    class Program(torch.nn.Module):
        def forward(self, at, row):
            n = at.item()
            torch._check(n >= 0)
            torch._check(n <= 100)
            a, c = torch.ones(n // 3, 2) * 2, torch.arange(n // 3).unsqueeze(1)
            return a + row, a * c, (a + row).sum(0), torch.cat([a, a * c], 1)

    example = lambda n: (torch.tensor(n), torch.randn(1, 2))
    check(Program(), example(9), others=[example(n) for n in (0, 2, 3, 5, 100)], decomposed=decomposed)


@FORMS
def test_a_size_that_only_sizes_need(decomposed):
    """Nothing reads what defines the size: it stays all the same, and before every use."""
    class Program(torch.nn.Module):
        def forward(self, x):
            n = torch.nonzero(x > 0).shape[0]
            return torch.cat([torch.zeros(n, 2), torch.ones(n, 2)]), torch.empty(n, 3).fill_(1.5), torch.arange(n) + n, x[:1].expand(n + 1), n

    check(Program(), (torch.tensor([1.0, -1, 2, 3]),), others=[(torch.full((4,), value),) for value in (1.0, -1.0)], decomposed=decomposed)


@FORMS
def test_library_calls_and_constants_of_both_branches(decomposed):
    class Program(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4, bias=False), torch.nn.Linear(4, 4)

        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda y: self.a(y).sort(-1).values, lambda y: self.b(y).topk(4, -1).values, (self.c(x),))

    check(Program().eval(), (torch.ones(3, 4),), others=[(-torch.ones(3, 4),)], decomposed=decomposed)


def test_a_sum_of_sizes_before_its_parts():
    class Program(torch.nn.Module):
        def forward(self, both, first, second):
            return torch.cat([first, second]) + both[:, 0], both.sum(1)

    example = lambda a, b: (torch.randn(a + b, 4), torch.randn(a), torch.randn(b))
    auto = {0: torch.export.Dim.AUTO}
    check(Program(), example(5, 3), dynamic=(auto, auto, auto), others=[example(a, b) for a, b in ((2, 2), (17, 31))])


CALL_SOURCE = """
import sys
sys.path[:0] = [sys.argv[1]]
import pathlib, torch
from emitted import load_module
from safetensors.torch import load_file
path = pathlib.Path(sys.argv[2])
module, given = load_module(path), load_file(sys.argv[3])
flat = [given["x"], given["turns"]]
module.load()(*flat) if path.suffixes == [".fx", ".py"] else module.call(flat)
"""


@pytest.mark.parametrize("form, turns, size", [("package", 10_000, 2000), ("cpp", 10_000, 2000), ("python", 500, 20_000), ("fx", 500, 20_000)])
def test_memory_is_flat_over_turns(form, turns, size, tmp_path):
    """Many turns, each with a tensor whose size is data and calls of library operations, need no more memory than ten, in every language."""
    class Program(torch.nn.Module):
        def forward(self, x, turns):
            def turn(i, x, total):
                kept = x[x > 0]
                return i + 1, x.roll(1) - (i % 2) * 0.1 + 0.05, total + kept.sum()

            return while_loop(lambda i, x, total: i < turns, turn, (torch.zeros((), dtype=torch.int64), x, torch.zeros(())))

    module, x = Program(), torch.randn(size)
    archive, given, results = tmp_path / "m.pt2", tmp_path / "in.safetensors", tmp_path / "out.safetensors"
    export(module, (x, torch.tensor(3)), archive)
    if form == "package":
        coil_ok("compile", archive, "-o", tmp_path / "m.coil")
        command = [COIL, "run", tmp_path / "m.coil", "--inputs", given, "--outputs", results]
    elif form == "cpp":
        command = [build_program(emit(archive, "cpp")), given, results]
    else:
        command = [sys.executable, "-W", "ignore", "-c", CALL_SOURCE, os.path.dirname(__file__), emit(archive, form), given]
    peak = {}
    for n in (10, turns):
        save_file(named_inputs(module, (x, torch.tensor(n))), given)
        child = subprocess.Popen(list(map(str, command)), env=ENVIRONMENT)
        _, status, usage = os.wait4(child.pid, 0)
        assert status == 0
        peak[n] = usage.ru_maxrss
    assert peak[turns] < peak[10] + 4096, f"KiB: {peak}"


class Rows(torch.nn.Module):
    def forward(self, x, y):
        return x + y, x.sum(0)


@pytest.mark.parametrize("sizes, message", [((65, 65), r"size of [xy] in dimension 0 .*at most 64.*65"), ((3, 4), r"input '[xy]'.*dimension 0")])
def test_bad_sizes_name_input_and_dimension(sizes, message, tmp_path):
    rows = {0: torch.export.Dim("rows", min=2, max=64)}
    export(Rows(), (torch.randn(3, 2), torch.randn(3, 2)), tmp_path / "m.pt2", (rows, rows))
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil")
    with pytest.raises(CoilError, match=message):
        run(tmp_path / "m.coil", {"x": torch.randn(sizes[0], 2), "y": torch.randn(sizes[1], 2)}, tmp_path)
    assert run(tmp_path / "m.coil", {"x": torch.ones(5, 2), "y": torch.ones(5, 2)}, tmp_path)["0"].eq(2).all()


def test_more_elements_than_32_bits_count(tmp_path):
    """Views of 2^32 elements and more: slices, selections, sums of a few of them, and a flat view whose elements are numbered beyond 2^31 (which eager would copy: 4 GiB)."""
    class Program(torch.nn.Module):
        def forward(self, x, y, places):
            n = x.shape[0]
            wide = x.view(n, 1, 1).expand(n, 65536, 32768)  # 2^31 for each of x
            square = y.unsqueeze(1).expand(65536, 65537)
            flat = square.reshape(-1)
            return (wide[:, 65535, 30000:30007] * 2, wide.select(1, 40000).select(1, 7) + 1, wide[:, ::65535, ::32767].sum((1, 2)), square[65530:, 65530:].sum(), wide.shape[1] * wide.shape[2] * n,
                    flat[2**31 + 5:2**31 + 65537 * 3:30011] * 1, flat[places] + 0, (flat[-3:] + 1).sum())

    module, rows = Program(), {0: torch.export.Dim("rows", min=1, max=8)}
    places = torch.tensor([0, 2**31, 2**32, 65536 * 65537 - 1])
    example = lambda n: (torch.randn(n), torch.randint(-100, 100, (65536,), dtype=torch.int8), places)
    export(module, example(3), tmp_path / "m.pt2", (rows, None, None))
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil")
    for n in (1, 2, 7, 8):
        x, y, _ = given = example(n)
        far = torch.arange(2**31 + 5, 2**31 + 65537 * 3, 30011)
        want = [x[:, None].expand(n, 7) * 2, x + 1, x * 4, y[65530:].sum() * 7, torch.tensor(n * 2**31), y[far // 65537], y[places // 65537], (y[-1:].expand(3) + 1).sum()]
        got = run(tmp_path / "m.coil", named_inputs(module, given), tmp_path)
        for k, w in enumerate(want):
            assert not difference(got[str(k)], w.contiguous()), (n, k)


def test_a_sum_of_more_elements_than_32_bits_count(tmp_path):
    """(Eager writes the truth values out as integers first: 26 GB.)"""
    class Program(torch.nn.Module):
        def forward(self, x):
            return (x.view(-1, 1, 1) != 0).expand(-1, 40000, 27000).sum()

    module = Program()
    export(module, (torch.tensor([1, 0, 2], dtype=torch.int8),), tmp_path / "m.pt2", ({0: torch.export.Dim("rows", min=1, max=8)},))
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil")
    assert run(tmp_path / "m.coil", {"x": torch.tensor([3, 0, 5, 1], dtype=torch.int8)}, tmp_path)["output"] == 3 * 40000 * 27000
