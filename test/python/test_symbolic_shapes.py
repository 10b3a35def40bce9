"""Sizes that broke other compilers: broadcasting of sizes nobody knows, sizes that only one operator needs, library
calls in branches, compound sizes in any order of inputs; memory over many turns; messages about bad sizes.
"""

import os
import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file
from torch._higher_order_ops import while_loop

from coil_harness import (
    COIL,
    COMPILE_OPTIONS,
    ENVIRONMENT,
    CoilError,
    check,
    coil_ok,
    device,
    difference,
    export,
    named_inputs,
    run,
)
from emitted import build_program, call_program, emit, load_module
from zoo_transformers_mixed import MODELS

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
def test_tensors_made_of_sizes(decomposed):
    """For these torch leaves questions about types in the graph, which nothing reads."""

    class Program(torch.nn.Module):
        def forward(self, x):
            n = x.shape[0]
            assert x.is_same_size(x * 2)
            wide = torch.promote_types(x.dtype, torch.float64)
            assert torch.can_cast(x.dtype, wide)
            return (
                x[:, :2] * torch.tensor([2.0 / n, 1.0]),
                torch.tensor([n, 2, 3]),
                torch.tensor(n * 0.5),
                x.to(wide),
                x.to(torch.result_type(x, 3.5)),
            )

    example = lambda n: (torch.randn(n, 3),)
    check(Program(), example(5), {"x": {0: torch.export.Dim.AUTO}}, [example(n) for n in (2, 9)], decomposed)


@FORMS
def test_numbers_evenly_spaced_between_sizes(decomposed):
    class Program(torch.nn.Module):
        def forward(self, x):
            n, m = x.shape
            return (
                torch.linspace(0, m, 7),
                torch.linspace(-m, m - 1, 4, dtype=torch.float64),
                torch.linspace(n, 0, 5, dtype=torch.int64),
                torch.linspace(n / 2, m * 1.5, 1),
                torch.logspace(0, n / m, 3),
            )

    free = {"x": {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}}
    sizes = [(9, 4), (2, 8)]
    check(Program(), (torch.randn(5, 3),), free, [(torch.randn(*each),) for each in sizes], decomposed)


class Strided(torch.nn.Module):
    """Strides, paddings and dilations that are sizes, transposed and not."""

    def __init__(self):
        super().__init__()
        self.w, self.b = torch.nn.Parameter(torch.randn(6, 2, 3, 3)), torch.nn.Parameter(torch.randn(4))

    def forward(self, x):
        n = x.shape[0]
        plain, turned = torch.nn.functional.conv2d, torch.nn.functional.conv_transpose2d
        return (
            plain(x, self.w, stride=n, groups=3),
            plain(x, self.w, padding=(n, 0), dilation=(1, n), groups=3),
            turned(x, self.w, self.b, stride=n, padding=1, groups=2),
            turned(x, self.w, self.b, stride=(1, n), dilation=n, groups=2),
        )


class GroupForEachSample(torch.nn.Module):
    """Each sample has a weight of its own, and all are one convolution of groups."""

    def forward(self, x, w):
        n, c, h, width = x.shape
        one, rows = x.reshape(1, n * c, h, width), w.flatten(0, 1)
        line, row = x.flatten(2).flatten(0, 1), rows[:, :, 0].contiguous()
        return (
            torch.nn.functional.conv2d(one, rows, padding=1, groups=n),
            torch.nn.functional.conv1d(line, row, groups=n, dilation=2),
            torch.nn.functional.conv_transpose1d(line[None], w.transpose(1, 2).flatten(0, 1)[:, :, 0], groups=n),
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_convolutions_whose_steps_are_sizes(dtype):
    batch = {0: torch.export.Dim.AUTO}
    pictures = lambda n: (torch.randn(n, 6, 9, 9, dtype=dtype),)
    check(Strided().to(dtype), pictures(2), {"x": batch}, [pictures(n) for n in (1, 3)])
    weighted = lambda n: (torch.randn(n, 4, 9, 7, dtype=dtype), torch.randn(n, 5, 4, 3, 3, dtype=dtype))
    check(GroupForEachSample(), weighted(2), {"x": batch, "w": batch}, [weighted(n) for n in (1, 3)])


class TakesForGranted(torch.nn.Module):
    """Numbers that torch.export takes from the example's sizes, and a branch that it decides by them."""

    def forward(self, x, parts):
        y = x.unfold(0, x.shape[0] // 2, 1)
        y = torch.nn.functional.layer_norm(y, y.shape[1:], eps=1 / parts["a"][0].shape[0])
        return y if x.shape[0] > parts["a"][0].shape[0] else -y


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((9, 4), None),
        ((12, 4), r"exported for inputs with \(x.size\(\)\[0\] // 2\) == 4 "),
        ((9, 5), r"exported for inputs with \(1 / parts\['a'\]\[0\].size\(\)\[0\]\) == 0.25 "),
    ],
    ids=["holds", "whole", "real"],
)
def test_guards_of_torch_export(sizes, message, tmp_path):
    module, free = TakesForGranted(), {0: torch.export.Dim.AUTO}
    example = lambda n, m: (torch.randn(n), {"a": [torch.randn(m)]})
    export(module, example(8, 4), tmp_path / "m.pt2", {"x": free, "parts": {"a": [free]}})
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil")
    args = example(*sizes)
    inputs = {"x": args[0], "parts.a.0": args[1]["a"][0]}
    if message:
        with pytest.raises(CoilError, match=message):
            run(tmp_path / "m.coil", inputs, tmp_path)
    else:
        assert not difference(run(tmp_path / "m.coil", inputs, tmp_path)["output"], module(*args))


@FORMS
def test_a_size_that_only_sizes_need(decomposed):
    """Nothing reads what defines the size: it stays all the same, and before every use."""

    class Program(torch.nn.Module):
        def forward(self, x):
            n = torch.nonzero(x > 0).shape[0]
            return (
                torch.cat([torch.zeros(n, 2), torch.ones(n, 2)]),
                torch.empty(n, 3).fill_(1.5),
                torch.arange(n) + n,
                x[:1].expand(n + 1),
                n,
            )

    check(
        Program(),
        (torch.tensor([1.0, -1, 2, 3]),),
        others=[(torch.full((4,), value),) for value in (1.0, -1.0)],
        decomposed=decomposed,
    )


@FORMS
def test_library_calls_and_constants_of_both_branches(decomposed):
    class Program(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4, bias=False), torch.nn.Linear(4, 4)

        def forward(self, x):
            return torch.cond(
                x.sum() > 0, lambda y: self.a(y).sort(-1).values, lambda y: self.b(y).topk(4, -1).values, (self.c(x),)
            )

    check(Program().eval(), (torch.ones(3, 4),), others=[(-torch.ones(3, 4),)], decomposed=decomposed)


def test_a_sum_of_sizes_before_its_parts():
    class Program(torch.nn.Module):
        def forward(self, both, first, second):
            return torch.cat([first, second]) + both[:, 0], both.sum(1)

    example = lambda a, b: (torch.randn(a + b, 4), torch.randn(a), torch.randn(b))
    auto = {0: torch.export.Dim.AUTO}
    check(Program(), example(5, 3), dynamic=(auto, auto, auto), others=[example(a, b) for a, b in ((2, 2), (17, 31))])


def test_conditions_on_sizes_are_not_of_what_is_computed_at_compile_time():
    """The pooled result, which nobody wants, has the sizes that its new form says under a condition on the image's;
    weights are folded before there is an image.
    """
    auto = torch.export.Dim.AUTO
    module, (image,) = MODELS["efficientnet"]()
    check(
        module,
        (torch.randn(2, *image.shape[1:]),),
        dynamic=({0: auto, 2: auto, 3: auto},),
        others=[(torch.randn(1, 3, 96, 70),)],
    )


CALL_SOURCE = """
import sys
sys.path[:0] = [sys.argv[1]]
import pathlib, torch
from emitted import load_module
from safetensors.torch import load_file
path = pathlib.Path(sys.argv[2])
module, given = load_module(path), load_file(sys.argv[3], device=sys.argv[4])
flat = [given["x"], given["turns"]]
module.load()(*flat) if path.suffixes == [".fx", ".py"] else module.call(flat)
"""


def kept_rows(x):
    """As many as the data say."""
    return x[x > 0]


def rows_of_a_branch(x):
    """As many as only the branch tells."""
    return torch.cond(x[0] > 0, lambda x: x[x > 0], lambda x: x[: x.shape[0] // 2] * 2, (x,))


@pytest.mark.parametrize(
    "form, turns, size, rows",
    [
        (*form, kept_rows)
        for form in (("package", 10_000, 2000), ("cpp", 10_000, 2000), ("python", 500, 20_000), ("fx", 500, 20_000))
    ]
    + [("package", 10_000, 2000, rows_of_a_branch), ("cpp", 10_000, 2000, rows_of_a_branch)],
)
def test_memory_is_flat_over_turns(form, turns, size, rows, tmp_path):
    """Many turns, each with a tensor whose size is not known before and calls of library operations, need no more
    memory than ten, in every language.
    """

    class Program(torch.nn.Module):
        def forward(self, x, turns):
            def turn(i, x, total):
                return i + 1, x.roll(1) - (i % 2) * 0.1 + 0.05, total + rows(x).sum()

            return while_loop(
                lambda i, x, total: i < turns, turn, (torch.zeros((), dtype=torch.int64), x, torch.zeros(()))
            )

    module, x = Program(), torch.randn(size)
    archive, given, results = tmp_path / "m.pt2", tmp_path / "in.safetensors", tmp_path / "out.safetensors"
    export(module, (x, torch.tensor(3)), archive)
    if form == "package":
        coil_ok("compile", archive, "-o", tmp_path / "m.coil")
        command = [COIL, "run", tmp_path / "m.coil", "--inputs", given, "--outputs", results]
    elif form == "cpp":
        command = [build_program(emit(archive, "cpp")), given, results]
    else:
        command = [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            CALL_SOURCE,
            os.path.dirname(__file__),
            emit(archive, form),
            given,
            "cuda" if "cuda" in COMPILE_OPTIONS else "cpu",
        ]
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


@pytest.mark.parametrize(
    "sizes, message",
    [((65, 65), r"size of [xy] in dimension 0 .*at most 64.*65"), ((3, 4), r"input '[xy]'.*dimension 0")],
)
def test_bad_sizes_name_input_and_dimension(sizes, message, tmp_path):
    rows = {0: torch.export.Dim("rows", min=2, max=64)}
    export(Rows(), (torch.randn(3, 2), torch.randn(3, 2)), tmp_path / "m.pt2", (rows, rows))
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil")
    with pytest.raises(CoilError, match=message):
        run(tmp_path / "m.coil", {"x": torch.randn(sizes[0], 2), "y": torch.randn(sizes[1], 2)}, tmp_path)
    assert run(tmp_path / "m.coil", {"x": torch.ones(5, 2), "y": torch.ones(5, 2)}, tmp_path)["0"].eq(2).all()


def test_more_elements_than_32_bits_count(tmp_path):
    """Views of 2^32 elements and more: slices, selections, sums of a few of them, and a flat view whose elements are
    numbered beyond 2^31 (which eager would copy: 4 GiB).
    """

    class Program(torch.nn.Module):
        def forward(self, x, y, places):
            n = x.shape[0]
            wide = x.view(n, 1, 1).expand(n, 65536, 32768)  # 2^31 for each of x
            square = y.unsqueeze(1).expand(65536, 65537)
            flat = square.reshape(-1)
            return (
                wide[:, 65535, 30000:30007] * 2,
                wide.select(1, 40000).select(1, 7) + 1,
                wide[:, ::65535, ::32767].sum((1, 2)),
                square[65530:, 65530:].sum(),
                wide.shape[1] * wide.shape[2] * n,
                flat[2**31 + 5 : 2**31 + 65537 * 3 : 30011] * 1,
                flat[places] + 0,
                (flat[-3:] + 1).sum(),
            )

    module, rows = Program(), {0: torch.export.Dim("rows", min=1, max=8)}
    places = torch.tensor([0, 2**31, 2**32, 65536 * 65537 - 1])
    example = lambda n: (torch.randn(n), torch.randint(-100, 100, (65536,), dtype=torch.int8), places)
    export(module, example(3), tmp_path / "m.pt2", (rows, None, None))
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil")
    for n in (1, 2, 7, 8):
        x, y, _ = given = example(n)
        far = torch.arange(2**31 + 5, 2**31 + 65537 * 3, 30011)
        want = [
            x[:, None].expand(n, 7) * 2,
            x + 1,
            x * 4,
            y[65530:].sum() * 7,
            torch.tensor(n * 2**31),
            y[far // 65537],
            y[places // 65537],
            (y[-1:].expand(3) + 1).sum(),
        ]
        got = run(tmp_path / "m.coil", named_inputs(module, given), tmp_path)
        for k, w in enumerate(want):
            assert not difference(got[str(k)], w.contiguous()), (n, k)


def test_a_sum_of_more_elements_than_32_bits_count(tmp_path):
    """(Eager writes the truth values out as integers first: 26 GB.)"""

    class Program(torch.nn.Module):
        def forward(self, x):
            return (x.view(-1, 1, 1) != 0).expand(-1, 40000, 27000).sum()

    module = Program()
    export(
        module,
        (torch.tensor([1, 0, 2], dtype=torch.int8),),
        tmp_path / "m.pt2",
        ({0: torch.export.Dim("rows", min=1, max=8)},),
    )
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil")
    assert (
        run(tmp_path / "m.coil", {"x": torch.tensor([3, 0, 5, 1], dtype=torch.int8)}, tmp_path)["output"]
        == 3 * 40000 * 27000
    )


def kernels_of(archive, *options):
    """The text of the program's kernels, without the prelude."""
    done = coil_ok("compile", archive, "-o", archive.with_suffix(".coil"), "--log", "kernels", *options)
    lines = [line.removeprefix("[kernels] ") for line in (done.stdout + done.stderr).splitlines()]
    first = next(
        k
        for k, line in enumerate(lines)
        if line.startswith(('extern "C" void coil_', 'extern "C" __global__ void')) or "_threads(" in line
    )
    return "\n".join(lines[first:])


def test_a_multiple_by_its_form_is_known_to_be_one(tmp_path):
    """Rows of 4*s0 elements are whole runs of four, whatever s0 is; of rows of s0 elements nobody knows."""

    class Program(torch.nn.Module):
        def forward(self, x):
            return torch.cat([x, x * 2, x + 1, -x], 1).relu()[:, None].expand(-1, 3, -1) * 2

    module, auto = Program(), torch.export.Dim.AUTO
    # Small programs are spread over threads, not packed.
    export(module, (torch.randn(700, 1021),), tmp_path / "m.pt2", ({0: auto, 1: auto},))
    export(Plain(), (torch.randn(700, 1021),), tmp_path / "plain.pt2", ({0: auto, 1: auto},))
    emulate = ("--set", "cuda.emulate=true", "--set", "cuda.alternatives=off")
    multiple, plain = kernels_of(tmp_path / "m.pt2", *emulate), kernels_of(tmp_path / "plain.pt2", *emulate)
    assert "c_write<4>(" in multiple and "c_write_part<4>(" not in multiple
    assert "c_write_part<4>(" in plain and "c_write<4>(" not in plain
    for sizes in ((5, 7), (2, 2), (13, 16)):
        x = torch.randn(sizes)
        assert not difference(run(tmp_path / "m.coil", {"x": x}, tmp_path)["output"], module(x).contiguous())


class Plain(torch.nn.Module):
    def forward(self, x):
        return x[:, None].expand(-1, 3, -1) * 2


class Rolled(torch.nn.Module):
    """What indices are made of takes divisions of sizes: here two thirds of one and a fifth of a product."""

    def forward(self, x, y):
        n, m = x.shape[0], y.shape[0]
        return x.roll(n // 3) * 2, torch.cat([x[: (n * m) // (5 * m)], y]) + 1, x[n // 2 :].cumsum(0)


@pytest.mark.parametrize("form", ["package", "cpp", "python", "fx"])
def test_costly_terms_of_indices_are_computed_once_on_the_host(form, tmp_path):
    module, auto = Rolled(), {0: torch.export.Dim.AUTO}
    example = lambda n, m: (torch.randn(n), torch.randn(m))
    export(module, example(12, 7), tmp_path / "m.pt2", (auto, auto))
    kernels = kernels_of(tmp_path / "m.pt2")
    assert "roll" not in kernels.replace("unroll", "") and not any(
        f" / {k})" in kernels or f", {k})" in line for k in (3, 5) for line in kernels.splitlines() if "div" in line
    ), kernels
    source = emit(tmp_path / "m.pt2", form) if form != "package" else None
    if form == "fx":
        assert "operator.floordiv" in source.read_text(), "nodes compute them, and kernels take them"
    program = build_program(source) if form == "cpp" else load_module(source) if source else None
    for n, m in ((12, 7), (10, 2), (64, 31), (13, 13)):
        given = example(n, m)
        named = named_inputs(module, given)
        if form == "package":
            got = run(tmp_path / "m.coil", named, tmp_path)
        elif form == "cpp":
            got = call_program(program, named)
        else:
            there = [t.to(device()) for t in given]
            got = program.load()(*there) if form == "fx" else program.call(there)
        got = [got[str(k)] for k in range(3)] if isinstance(got, dict) else got
        for g, w in zip(got, module(*given)):
            assert not difference(g.cpu(), w)
