"""Parts of a program that a graph of the device can hold, in every form in which the program leaves the compiler, and
as a run records them. test/lit/wrapper/partition*.wrap has where programs are cut.
"""

import copy
import json
import pathlib
import sys
import zipfile

import pytest
import torch

from coil_harness import coil_ok, differences, export, named_inputs, named_outputs, run
from emitted import build_program, call_flat, call_program, load_module
from user_harness import Called

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
pytest.importorskip("coil", reason="the Python extension is not built")

EMULATED = ["--set", "cuda.emulate=true"]


class Selected(torch.nn.Module):
    """A number that the host reads in the middle; an input that is written to on both sides of it; of `s0` only a
    multiple is seen behind it."""

    def forward(self, x, h):
        a = torch.relu(x @ x.t()).sum(1)
        h.add_(a.sum())
        picked = (x * 2)[x > 0]
        total = torch.softmax(picked, 0) * a.mean()
        h.mul_(total.sum())
        return total, a.cumsum(0), h * 2


FAILS = [False]


@torch.library.custom_op("parts_test::shifted", mutates_args=())
def shifted(x: torch.Tensor, by: int) -> torch.Tensor:
    if FAILS[0]:
        raise ValueError("the host's operator will not")
    return x + by


@shifted.register_fake
def _(x, by):
    return torch.empty_like(x)


class Chains(torch.nn.Module):
    """Two chains through numbers that the host reads, whose cuts become one, and results that are no tensors."""

    def forward(self, x, y):
        b = torch.softmax(x[torch.sigmoid(x @ x.t()) > 0.6], 0)
        d = torch.softmax(y[torch.sigmoid(y @ y.t()) > 0.6], 0)
        m = torch.outer(b, d)
        most = torch.softmax(m @ m.t(), 0) @ m
        return most.sum(0), m.sum(1), b.cumsum(0) + m[:, :1].sum(1), d.cumsum(0), x.shape[0] * 2, None


class Raising(torch.nn.Module):
    """An operator of the caller's between two parts, which may raise."""

    def forward(self, x, y):
        a = torch.ops.parts_test.shifted(torch.sigmoid(x @ x.t()), 1)
        b = torch.softmax(a, 1) @ x
        y.add_(b.sum())
        return b @ y, torch.relu(b).cumsum(0)


class Turns(torch.nn.Module):
    """A loop that data end, with a part in each turn."""

    def forward(self, x):
        def body(i, v):
            return i + 1, torch.softmax(v @ v.t(), 1) @ v

        _, v = torch._higher_order_ops.while_loop(
            lambda i, v: (i < 4) & (v.abs().sum() < 100.0), body, (torch.tensor(0), x)
        )
        return torch.relu(v @ v.t()).sum(0), v.cumsum(0)


ROWS = torch.export.Dim("rows", min=1, max=32)
PROGRAMS = {
    "selected": (Selected(), lambda n: (torch.randn(2 * n, 6), torch.randn(3)), ({0: 2 * ROWS}, None), 2),
    "chains": (Chains(), lambda n: (torch.randn(n, n), torch.randn(n, n)), ({0: ROWS, 1: ROWS}, {0: ROWS, 1: ROWS}), 2),
    "turns": (Turns(), lambda n: (torch.randn(n, 4),), ({0: ROWS},), 3),
}


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request, tmp_path_factory):
    """Its folder has the archive and the lines with parts; of the package for the CPU, which has none, results are
    asked."""
    folder = tmp_path_factory.mktemp(request.param)
    module, make, dynamic, parts = PROGRAMS[request.param]
    torch.manual_seed(1)
    export(module, make(3), folder / "m.pt2", dynamic)
    coil_ok("compile", folder / "m.pt2", "-o", folder / "m.wrap", "--emit", "wrapper")
    passes = [w for p in ("order-for-parts", "plan-lifetimes", "partition", "verify") for w in ("--pass", p)]
    cut = coil_ok("opt", *passes, *EMULATED, folder / "m.wrap").stdout
    (folder / "cut.wrap").write_text(cut)
    assert cut.count("end part") == parts, cut
    return request.param, module, [make(n) for n in (3, 7)], folder, parts


def written(folder, language, suffix, text="cut.wrap"):
    path = folder / f"{text.split('.')[0]}_{language}{suffix}"
    path.write_text(coil_ok("opt", *EMULATED, "--emit", language, folder / text).stdout)
    return path


def test_python_has_a_function_for_each_part(program):
    """It knows nothing but what it is given, and is called through run_part, where a recorder may stand."""
    name, module, calls, folder, parts = program
    cut, whole = (load_module(written(folder, "python", ".py", text)) for text in ("cut.wrap", "m.wrap"))
    taken = []

    def recorder(number, part, given):
        assert part.__code__.co_freevars == (), part.__code__.co_freevars
        assert all(isinstance(x, (torch.Tensor, int)) for x in given)
        taken.append(number)
        results = part(given)
        assert given == [] and all(isinstance(x, torch.Tensor) for x in results)
        return results

    for args in calls:
        want = call_flat(whole.call, module, args, {}, {"h": None})
        assert not differences(call_flat(cut.call, module, args, {}, {"h": None}), want)
        cut.run_part, plain = recorder, cut.run_part
        assert not differences(call_flat(cut.call, module, args, {}, {"h": None}), want)
        cut.run_part = plain
        eager = named_outputs(copy.deepcopy(module)(*copy.deepcopy(args)))
        assert not differences({k: want[k] for k in eager}, eager)
    assert set(taken) == set(range(parts))


def test_fx_nodes_know_their_part(program):
    name, module, calls, folder, parts = program
    cut, whole = (load_module(written(folder, "fx", ".py", text)) for text in ("cut.wrap", "m.wrap"))
    loaded, plain = cut.load(), whole.load()
    split = cut.split_parts(loaded) if name != "turns" else loaded  # (one of its parts lies in the loop's own graph)
    if name != "turns":
        named = [f"submod_part_{k}" for k in range(parts)]
        assert [n for n, _ in split.named_children() if "part" in n] == named
        for part in named:
            names = {str(n.target) for n in split.get_submodule(part).graph.nodes}
            assert not any("histogram" in n or "integer" in n for n in names), names
    for args in calls:
        want = call_flat(lambda flat: plain(*flat), module, args, {}, {"h": None})
        assert not differences(call_flat(lambda flat: loaded(*flat), module, args, {}, {"h": None}), want)
        assert not differences(call_flat(lambda flat: split(*flat), module, args, {}, {"h": None}), want)


def test_cpp_names_what_crosses_a_parts_borders(program):
    """Each part is a function that captures by name: what it used besides would not compile."""
    name, module, calls, folder, parts = program
    if name == "chains":
        pytest.skip("two programs will do")
    source = written(folder, "cpp", ".cpp")
    assert source.read_text().count(" = [this") == parts
    built, whole = build_program(source), load_module(written(folder, "python", ".py", "m.wrap"))
    for args in calls:
        got = call_program(built, named_inputs(module, args))
        assert not differences(got, call_flat(whole.call, module, args, {}, got))


def test_text_and_plan_have_the_parts(program):
    name, module, calls, folder, parts = program
    text = (folder / "cut.wrap").read_text()
    assert coil_ok("opt", "--pass", "verify", folder / "cut.wrap").stdout == text
    plan = json.loads(coil_ok("opt", "--emit", "plan", folder / "cut.wrap").stdout)
    told = plan["parts"]
    assert plan["version"] == 12 and len(told) == parts
    assert all(a["end"] <= b["first"] for a, b in zip(told, told[1:]))
    for part in told:
        for step in plan["steps"][part["first"] : part["end"]]:
            assert not {"host", "read", "set", "assert"} & set(step), step
    if name == "selected":
        sizes = [plan["shape_program"][s][0] for s in told[1]["sizes"]]
        assert "runtime" in sizes and "floordiv" in sizes, "u0, and s0 of which only 2*s0 is seen"


def test_packages_carry_parts(tmp_path):
    """And are run by them; one without, as older ones are, gives the same."""
    module, make, dynamic, _ = PROGRAMS["selected"]
    args, results = make(3), []
    export(module, args, tmp_path / "m.pt2", dynamic)
    for setting in ("true", "false"):
        coil_ok(
            "compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", *EMULATED, "--set", f"graphs.partition={setting}"
        )
        with zipfile.ZipFile(tmp_path / "m.coil") as package:
            plan = json.loads(package.read("manifest.json"))
        assert (plan["version"] == 12 and len(plan["parts"]) == 2) if setting == "true" else "parts" not in plan
        results.append(run(tmp_path / "m.coil", named_inputs(module, args), tmp_path))
    assert not differences(*results)
    want = named_outputs(copy.deepcopy(module)(*copy.deepcopy(args)))
    assert not differences({k: results[0][k] for k in want}, want)


def test_explain_tells_parts_and_cuts(tmp_path):
    export(Chains(), PROGRAMS["chains"][1](3), tmp_path / "m.pt2", PROGRAMS["chains"][2])
    told = coil_ok("explain", tmp_path / "m.pt2", *EMULATED).stdout
    told = told[told.index("Parts that are recorded: 2, of ") :].split("\n\n")[0]
    assert "2 runs of calls between cuts, 4 as written" in told
    assert "cut: the host reads u0 from " in told and "cut: the host reads u1 from " in told
    assert "part 1: " in told
    told = coil_ok("explain", tmp_path / "m.pt2", *EMULATED, "--set", "graphs.partition=false")
    assert "Parts that are recorded" not in told.stdout


NOTHING_TO_RECORD = {
    "views": lambda x: (x.t(), x[:2]),
    "operator": lambda x: torch.ops.parts_test.shifted(x, 1),
    "operators": lambda x: torch.ops.parts_test.shifted(torch.ops.parts_test.shifted(x, 1), x.shape[0]),
    "sizes": lambda x: (torch.full((2,), 0.5), x.shape[0] * 2),
}


@pytest.mark.parametrize("name", NOTHING_TO_RECORD)
def test_nothing_to_record(name):
    """Each call is right, whatever came before it."""
    f = NOTHING_TO_RECORD[name]
    compiled = torch.compile(
        f, backend="coil", dynamic=True, options={"cuda.emulate": True, "cuda.graphs": True, "cache": "none"}
    )
    for n in (3, 3, 3, 4, 0, 3):
        x = torch.randn(n, 3)
        assert not differences(named_outputs(compiled(x)), named_outputs(f(x)))


def test_lines_without_a_part(tmp_path):
    module, x = Called(NOTHING_TO_RECORD["views"]), torch.randn(4, 3)
    export(module, (x,), tmp_path / "m.pt2", None)
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.wrap", "--emit", "wrapper")
    passes = [w for p in ("order-for-parts", "plan-lifetimes", "partition", "verify") for w in ("--pass", p)]
    cut = coil_ok("opt", *passes, *EMULATED, tmp_path / "m.wrap").stdout
    assert "part" not in cut
    (tmp_path / "cut.wrap").write_text(cut)
    python, fx = (load_module(written(tmp_path, language, ".py")) for language in ("python", "fx"))
    for got in (python.call([x]), fx.load()(x), python.call([x])):
        assert all(map(torch.equal, got, module(x)))


@pytest.mark.parametrize("name", ["selected", "raising"])
def test_a_run_in_parts_under_torch(name):
    """An operator that raises between two parts is the caller's error, and the next call is right."""
    module = Raising() if name == "raising" else PROGRAMS[name][0]
    make = (lambda n: (torch.randn(n, 4), torch.randn(4))) if name == "raising" else PROGRAMS[name][1]
    compiled = torch.compile(
        module, backend="coil", dynamic=True, options={"cuda.emulate": True, "cuda.graphs": True, "cache": "none"}
    )
    try:
        for k in range(5):
            args = make(3 + k % 2)
            if name == "raising" and k == 3:
                FAILS[0] = True
                with pytest.raises(Exception, match="the host's operator will not"):
                    compiled(*args)
                FAILS[0] = False
            ours, theirs = copy.deepcopy(args), copy.deepcopy(args)
            got, want = named_outputs(compiled(*ours)), named_outputs(module(*theirs))
            assert not differences(got, want)
            assert not differences(named_inputs(module, ours), named_inputs(module, theirs))
    finally:
        FAILS[0] = False
