"""Kernels for some of the sizes (`cuda.alternatives`): which of them a call takes, and eager's values on both sides of
each border between them.
"""

import re

import pytest
import torch
from torch.export import Dim
from torch.nn import functional as F

from coil_harness import check, coil, coil_ok, export
from emitted import emit
from emulated_cuda import load_emulated

CUDA = ["--device", "cuda", "--set", "cuda.arch=sm_90", "--set", "cuda.alternatives=sizes"]
OFF = ["--set", "cuda.alternatives=off"]
EMULATE = "cuda.emulate=true"


class Rows(torch.nn.Module):
    def forward(self, x):
        return x.softmax(-1), F.layer_norm(x, (x.shape[-1],)).relu()


class Columns(torch.nn.Module):
    def forward(self, x):
        return x.sum(0), x.amax(0)


class Points(torch.nn.Module):
    def forward(self, x, y):
        return x.sin() * y


def seeded(*sizes):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes)))


def archive(module, args, dynamic, folder):
    torch.export.save(torch.export.export(module, args, dynamic_shapes=dynamic), folder / "m.pt2")
    return folder / "m.pt2"


def rows_of_free_length(folder, length=300):
    return archive(Rows(), (seeded(600, length),), ({1: Dim("length", min=2, max=200000)},), folder)


def launches(file, folder, *options):
    """The launches of a program's wrapper lines: symbol, condition or None."""
    coil_ok("compile", file, "-o", folder / "m.wrap", "--emit", "wrapper", *CUDA, *options)
    lines = [line for line in (folder / "m.wrap").read_text().splitlines() if line.startswith("launch ")]
    return [
        (
            re.match(r"launch (\w+)", line)[1],
            found[1] if (found := re.search(r" when \[(.*?)\](?: |$)", line)) else None,
        )
        for line in lines
    ]


def holds(condition, size):
    symbol = re.search(r"\bs\d+\b", condition)[0]
    return bool(
        eval(
            condition,
            {
                symbol: size,
                "And": lambda *x: all(x),
                "Not": lambda x: not x,
                "Or": lambda *x: any(x),
                "Mod": lambda a, b: a % b,
                "Eq": lambda a, b: a == b,
                "Ne": lambda a, b: a != b,
            },
        )
    )


def borders(conditions):
    """Sizes on both sides of each number in the conditions."""
    numbers = {int(n) for c in conditions for n in re.findall(r"(?<![\w])\d+", c)}
    return sorted({n + d for n in numbers for d in (-1, 0, 1)})


def test_each_size_has_one_kernel(tmp_path):
    conditional = [(symbol, c) for symbol, c in launches(rows_of_free_length(tmp_path), tmp_path) if c]
    assert len({symbol for symbol, _ in conditional}) > 2
    sizes = [2, 3, 1000, 150000, *borders([c for _, c in conditional])]
    assert {sum(holds(c, size) for _, c in conditional) for size in sizes} in ({1}, {2})  # a kernel for both, or two


@pytest.mark.parametrize("name", ["rows", "columns", "many rows", "points"])
def test_values_on_both_sides_of_each_border(name, tmp_path):
    free = Dim("free", min=2, max=60000)
    module, args, dynamic = {
        "rows": (Rows(), lambda n: (seeded(40, n),), ({1: free},)),
        "columns": (Columns(), lambda n: (seeded(n, 1000),), ({0: free},)),
        "many rows": (Rows(), lambda n: (seeded(n, 1024),), ({0: free},)),
        "points": (Points(), lambda n: (seeded(n, 40), seeded(40)), ({0: free}, None)),
    }[name]
    file = archive(module, args(50), dynamic, tmp_path)
    conditions = [c for _, c in launches(file, tmp_path) if c]
    assert conditions
    sizes = [n for n in [2, *borders(conditions)] if 2 <= n <= 300]  # more take long without a GPU
    check(
        module,
        args(50),
        dynamic=dynamic,
        others=[args(n) for n in sizes],
        settings=(EMULATE, "cuda.alternatives=sizes"),
        tolerance=1e-4,
    )


def test_a_call_takes_the_kernel_for_its_sizes(tmp_path):
    file = rows_of_free_length(tmp_path)
    program, wanted = load_emulated(emit(file, "python", *CUDA)), launches(file, tmp_path)
    ran = []
    for symbol in {symbol for symbol, _ in wanted}:
        kernel = getattr(program, symbol)

        def record(*args, symbol=symbol, kernel=kernel, **options):
            ran.append(symbol)
            return kernel(*args, **options)

        setattr(program, symbol, record)
    for size in borders([c for _, c in wanted if c]):
        if not 2 <= size <= 300:  # more take long without a GPU
            continue
        ran.clear()
        program.call([seeded(600, size)])
        assert ran == [symbol for symbol, c in wanted if c is None or holds(c, size)], size


@pytest.mark.parametrize("options", [OFF, ["--set", "cuda.launch_config=1"]])
def test_none_where_they_are_off(options, tmp_path):
    assert not any(c for _, c in launches(rows_of_free_length(tmp_path), tmp_path, *options))


def test_fixed_sizes_have_one_kernel(tmp_path):
    file = archive(Rows(), (seeded(600, 300),), None, tmp_path)
    assert launches(file, tmp_path) == launches(file, tmp_path, *OFF)


def test_short_rows_have_a_kernel_without_a_loop_alone(tmp_path):
    file = archive(Rows(), (seeded(600, 30),), ({1: Dim("length", min=2, max=60)},), tmp_path)
    with_, without = launches(file, tmp_path), launches(file, tmp_path, *OFF)
    assert not {symbol for symbol, _ in with_} & {symbol for symbol, _ in without}
    for size in (2, 3, 16, 59, 60):
        assert sum(c is None or holds(c, size) for _, c in with_) == len(without)


def test_explain_says_where_a_kernel_runs(tmp_path):
    text = coil_ok("explain", rows_of_free_length(tmp_path), "--set", EMULATE, *CUDA[-2:]).stdout
    assert re.search(r"coil_\w+, where .*s\d+ <= \d+", text)


def test_other_values_of_the_setting_are_refused(tmp_path):
    export(Rows(), (seeded(3, 4),), tmp_path / "m.pt2")
    done = coil("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", *CUDA, "--set", "cuda.alternatives=some")
    assert done.returncode and "cuda.alternatives is some: it may be vectors, sizes or off" in done.stderr
