"""Sizes and numbers that Python floats of sizes are made into: `int(n * 0.75)`, `math.sqrt(n)`, `n / 3`, interpolation
by scales, at many sizes, in every form that a program leaves the compiler in.

As torch's strict export records them: without strict it fixes most of these sizes. (`round`, `math.ceil` and
`math.floor` of floats torch cannot write to an archive; torch.compile hands them over.)
"""

import math
import pathlib
import re
import sys

import pytest
import torch
import torch.nn.functional as F

from coil_harness import CoilError, coil_ok, dense, device, difference, differences, eager, run, same
from emitted import build_program, call_program, emit, load_module

PROGRAMS = {
    "scale": lambda x: x[: int(x.shape[0] * 0.75)] * 1,
    "third": lambda x: x[: int(x.shape[0] * 0.3)] * 1,
    "truncated": lambda x: x[: math.trunc(x.shape[0] * 0.7)].sum(),
    "more": lambda x: torch.zeros(int(x.shape[0] * 1.7)) + x[0],
    "added": lambda x: x[: max(1, int(0.3 * x.shape[0] + 0.5))] * 1,
    "topk": lambda x: x.topk(max(int(x.shape[0] * 0.35), 1))[0],
    "root": lambda x: x / math.sqrt(x.shape[0]),
    "side": lambda x: x[: int(math.sqrt(x.shape[0]))] * 1,
    "power": lambda x: x * (x.shape[0] ** 0.5) + x.shape[0] ** -0.25,
    "powered": lambda x: torch.ones(int(x.shape[0] ** 0.5), 2) * x[0],
    "quotient": lambda x: x * (x.shape[0] / 7) + float(x.shape[0]),
    "extremes": lambda x: x * min(x.shape[0] * 0.5, 3.5) + max(x.shape[0] / 7, 1.5),
    "remainder": lambda x: x * (x.shape[0] % 2.5),
    "negated": lambda x: x * -(x.shape[0] * 0.3),
    "frequencies": lambda x: torch.sin(x * (10000 ** (2 / x.shape[0]))),
    "filled": lambda x: torch.full((3,), x.shape[0] * 0.1) + x[0],
    "range": lambda x: torch.arange(0, x.shape[0] * 0.5, 0.25) + x[0],
    "range_uneven": lambda x: torch.arange(0, x.shape[0] * 0.3, 0.7) + x[0],
    "places": lambda x: torch.arange(int(x.shape[0] * 0.3) + 1) * 2,
    "given_back": lambda x: (x * 2, x.shape[0] * 0.5, int(x.shape[0] * 0.3)),
    "halved": lambda x: F.interpolate(x[None, None], scale_factor=0.5, mode="linear"),
    "grown": lambda x: F.interpolate(x[None, None], scale_factor=1.5, mode="nearest"),
    "grown_again": lambda x: F.interpolate(x[None, None], scale_factor=1.7, mode="linear", recompute_scale_factor=True),
    "image": lambda x: F.interpolate(x.expand(1, 1, 4, x.shape[0]), scale_factor=(2.0, 0.3), mode="bilinear"),
    "used_again": lambda x: (x[: int(x.shape[0] * 0.6)].reshape(-1, 1) * torch.arange(3)).sum(0)
    / int(x.shape[0] * 0.6),
}


class Program(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.names = list(PROGRAMS)

    def forward(self, x):
        return {name: PROGRAMS[name](x) for name in self.names}


SIZES = [4, 5, 6, 7, 10, 12, 13, 20, 27, 33, 64, 70, 97, 100, 127, 199, 1000, 4099]


@pytest.fixture(scope="module", params=[False, True], ids=["exported", "decomposed"])
def archive(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("floats") / "m.pt2"
    with torch.no_grad():
        program = torch.export.export(
            Program(), (torch.randn(12),), dynamic_shapes=({0: torch.export.Dim.AUTO},), strict=True
        )
        torch.export.save(program.run_decompositions() if request.param else program, path)
    return path


def test_every_size(archive, tmp_path):
    coil_ok("compile", archive, "-o", tmp_path / "m.coil", "--set", "verify=true")
    for n in SIZES:
        before, want = eager(Program(), (torch.randn(n),))
        wrong = differences(run(tmp_path / "m.coil", before, tmp_path), want)
        assert not wrong, "\n".join([f"n = {n}:", *wrong])


@pytest.mark.parametrize("form", ["cpp", "python", "fx"])
def test_every_language(archive, form, tmp_path):
    coil_ok("compile", archive, "-o", tmp_path / "m.coil")
    source = emit(archive, form)
    program = build_program(source) if form == "cpp" else load_module(source)
    for n in (4, 7, 10, 33, 1000):
        x = torch.randn(n)
        want = run(tmp_path / "m.coil", {"x": x}, tmp_path)
        if form == "cpp":
            got = call_program(program, {"x": x})
        else:
            there = x.to(device())
            flat = program.load()(there) if form == "fx" else program.call([there])
            got = dict(zip(eager(Program(), (x,))[1], map(dense, flat)))
        wrong = [k for k in want if not same(got[k], want[k])]
        assert got.keys() == want.keys() and not wrong, f"n = {n}: {wrong}"


def test_text_reads_back(archive, tmp_path):
    """The graph and the wrapper, floats in them, are what they were after being written as text and read."""
    coil_ok("compile", archive, "-o", tmp_path / "m.wrap", "--emit", "wrapper")
    text = (tmp_path / "m.wrap").read_text()
    assert "TruncToInt(FloatMul(0.3, ToFloat(" in text
    assert coil_ok("opt", "--emit", "wrapper", tmp_path / "m.wrap").stdout == text
    done = coil_ok("compile", archive, "-o", tmp_path / "m.coil", "--log", "graph")
    graph = "\n".join(
        line.removeprefix("[graph] ")
        for line in (done.stdout + done.stderr).splitlines()
        if line.startswith("[graph] ")
    )
    (tmp_path / "g.fx").write_text(graph + "\n")
    assert "SymFloat(" in graph and coil_ok("opt", "--locations", tmp_path / "g.fx").stdout.strip() == graph.strip()


def test_rounding_to_digits(tmp_path):
    """`round(x, digits)`, which torch cannot write to an archive, put into a program's text: in every language that the
    text is printed in.
    """

    class Part(torch.nn.Module):
        def forward(self, x, digits):
            return x[: int(x.shape[0] * 0.3)] * digits.shape[0]

    free = {0: torch.export.Dim.AUTO}
    with torch.no_grad():
        torch.export.save(
            torch.export.export(Part(), (torch.randn(12), torch.randn(3)), dynamic_shapes=(free, free), strict=True),
            tmp_path / "m.pt2",
        )
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.wrap", "--emit", "wrapper")
    text = (tmp_path / "m.wrap").read_text()
    rows, digits = (
        re.search(r"symbol (\w+) = size\(x, 0\)", text)[1],
        re.search(r"symbol (\w+) = size\(digits, 0\)", text)[1],
    )
    given = f"FloatMul(0.3, ToFloat({rows}))"
    assert given in text
    (tmp_path / "r.wrap").write_text(
        text.replace(given, f"RoundDecimal(FloatMul(1.2345678, ToFloat({rows})), {digits} - 4)")
        .replace("TruncToInt(RoundDecimal", f"Min({rows}, TruncToInt(RoundDecimal")
        .replace(f"{digits} - 4))", f"{digits} - 4)))")
    )
    assert (
        f"RoundDecimal(FloatMul(1.2345678, ToFloat({rows})), {digits} - 4)"
        in coil_ok("opt", "--emit", "wrapper", tmp_path / "r.wrap").stdout
    )
    forms = {}
    for language, suffix in (("cpp", ".cpp"), ("python", ".py"), ("fx", ".fx.py")):
        path = tmp_path / f"r_{language}{suffix}"
        path.write_text(coil_ok("opt", "--emit", language, tmp_path / "r.wrap").stdout)
        forms[language] = build_program(path) if language == "cpp" else load_module(path)
    assert '"version": 7' in coil_ok("opt", "--emit", "plan", tmp_path / "r.wrap").stdout.replace(
        '"version":7', '"version": 7'
    )
    for n, d in [(12, 3), (40, 2), (99, 5), (100, 6), (4099, 2), (4050, 3), (20250, 2)]:
        x, y = torch.randn(n), torch.randn(d)
        want = x[: min(n, int(round(1.2345678 * n, d - 4)))] * d
        for language, form in forms.items():
            there = [t.to(device()) for t in (x, y)]
            got = (
                call_program(form, {"x": x, "digits": y})["output"]
                if language == "cpp"
                else (form.load()(*there) if language == "fx" else form.call(there))[0]
            )
            assert same(dense(got), want), (language, n, d, got.shape, want.shape)


ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))


def test_torch_compile():
    """Dynamo records roundings that archives cannot hold."""
    coil = pytest.importorskip("coil", reason="the Python extension is not built")
    del coil

    def function(x):
        n = x.shape[0]
        return (
            x[: round(n / 3)] * 1,
            x[: math.ceil(n / 4)] * 2,
            x[: math.floor(n * 0.3)] + n // 2.5,
            x * math.sqrt(n),
            torch.zeros(math.ceil(n**0.5)) + x[0],
        )

    compiled = torch.compile(function, backend="coil", dynamic=True)
    for n in (12, 13, 14, 15, 16, 40, 97):
        x = torch.randn(n)
        for got, want in zip(compiled(x), function(x)):
            assert not difference(got, want), n


class Read(torch.nn.Module):
    """Integers made of a float that is read from data: sizes, numbers, bounds of a loop over them."""

    def forward(self, x, scale):
        f = scale.item()
        n = torch.sym_int(f * 2)
        m = torch.sym_int(n * f / 3 + 0.5)
        torch._check(n >= 0)
        torch._check(n <= x.shape[0])
        torch._check(m >= 0)
        return (
            torch.ones(n) * f,
            n,
            x[:n].sum(0),
            torch.arange(m) * 2,
            m + n,
            x * (f / 7),
            torch.zeros(n, m).sum(),
            torch.cond(n > 3, lambda x: x * 2, lambda x: x + 1, (x,)),
        )


READ = [2.9, 0.0, 0.49, 0.5, 1.0, 3.7000000476837158, 4.5]


@pytest.fixture(scope="module", params=[False, True], ids=["exported", "decomposed"])
def read_archive(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("read") / "m.pt2"
    with torch.no_grad():
        program = torch.export.export(
            Read(), (torch.randn(12, 2), torch.tensor(1.3)), dynamic_shapes=({0: torch.export.Dim("rows", min=9)}, None)
        )
        torch.export.save(program.run_decompositions() if request.param else program, path)
    return path


def test_floats_read_from_data(read_archive, tmp_path):
    coil_ok("compile", read_archive, "-o", tmp_path / "m.coil", "--set", "verify=true")
    programs = {form: emit(read_archive, form) for form in ("cpp", "python", "fx")}
    library, python, fx = (
        build_program(programs["cpp"]),
        load_module(programs["python"]),
        load_module(programs["fx"]).load(),
    )
    for f in READ:
        before, expected = eager(Read(), (torch.randn(13, 2), torch.tensor(f)))
        got = {"package": run(tmp_path / "m.coil", before, tmp_path), "cpp": call_program(library, before)}
        there = [t.to(device()) for t in before.values()]
        got |= {
            form: dict(zip(expected, map(dense, flat)))
            for form, flat in (("python", python.call(list(there))), ("fx", fx(*there)))
        }
        for form, results in got.items():
            wrong = differences(results, expected)
            assert not wrong, "\n".join([f"{form}, {f}:", *wrong])
    for f, message in (
        (-1.0, r"test_float_sizes\.py"),
        (20.0, r"test_float_sizes\.py"),
        (float("nan"), r"test_float_sizes\.py.*no value"),
        (1e30, r"test_float_sizes\.py.*no value"),
    ):
        with pytest.raises(CoilError, match=message):
            run(tmp_path / "m.coil", {"x": torch.randn(13, 2), "scale": torch.tensor(f)}, tmp_path)


def test_read_floats_stand_in_texts(read_archive, tmp_path):
    """The graph and the wrapper are what they were after being written as text and read."""
    coil_ok("compile", read_archive, "-o", tmp_path / "m.wrap", "--emit", "wrapper")
    text = (tmp_path / "m.wrap").read_text()
    assert "FloatOfBits(zuf0)" in text
    assert coil_ok("opt", "--emit", "wrapper", tmp_path / "m.wrap").stdout == text
    done = coil_ok("compile", read_archive, "-o", tmp_path / "m.coil", "--log", "graph")
    graph = "\n".join(
        line.removeprefix("[graph] ")
        for line in (done.stdout + done.stderr).splitlines()
        if line.startswith("[graph] ")
    )
    (tmp_path / "g.fx").write_text(graph + "\n")
    assert (
        "FloatOfBits(zuf0)" in graph
        and coil_ok("opt", "--locations", tmp_path / "g.fx").stdout.strip() == graph.strip()
    )


def test_torch_compile_reads_floats():
    pytest.importorskip("coil", reason="the Python extension is not built")

    def function(x, scale):
        f = scale.item()
        n = int(f * 3)
        torch._check(n >= 0)
        torch._check(n <= x.shape[0])
        return (
            x[:n] * round(f, 1),
            torch.ones(n) + round(f * 10 + 0.123, 2),
            x * (n / 2),
            round(f + 2),
            x + round(x.shape[0] * 0.123, 2),
            round(x.shape[0] / 3, -1) * x,
        )

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = torch.compile(function, backend="coil", dynamic=True, fullgraph=True)
        for n, f in ((12, 2.25), (13, 0.05), (40, 1.15), (97, 12.345678)):
            args = torch.randn(n), torch.tensor(f)
            for got, want in zip(compiled(*args), function(*args)):
                assert not difference(dense(got), dense(want)), (n, f, got, want)


SCALED = {
    "addcmul": lambda x, v: torch.addcmul(x, x, x, value=v),
    "remainder": lambda x, v: x % v,
    "filled": lambda x, v: x * torch.full((3,), v),
    "copysign": lambda x, v: torch.copysign(x, v),
    "softplus": lambda x, v: F.softplus(x, v) + F.elu(x, v),
}


@pytest.mark.cpu("eager runs there")
@pytest.mark.parametrize("name", SCALED)
def test_numbers_that_the_backward_graph_takes(name):
    """A float that the forward graph reads goes to the backward graph as Python's own."""
    pytest.importorskip("coil", reason="the Python extension is not built")
    given, number = torch.linspace(-2, 2, 9).reshape(3, 3), torch.tensor(0.37)
    f = lambda x, n: SCALED[name](x.sin(), n.item()).cos()
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        torch._dynamo.reset()
        mine, theirs = given.clone().requires_grad_(), given.clone().requires_grad_()
        made, wanted = torch.compile(f, backend="coil", fullgraph=True)(mine, number), f(theirs, number)
        made.sum().backward()
        wanted.sum().backward()
    torch.testing.assert_close(made, wanted)
    torch.testing.assert_close(mine.grad, theirs.grad)
