"""`--emit=python` and `--emit=fx`: what the files define, how they fail, what else can be done with them. That their
results are the plan's is in test_emitters.py.
"""

import ast
import operator
import os
import re
import subprocess
import sys

import pytest
import torch

from coil_harness import ENVIRONMENT, ROOT, coil, coil_ok, difference, export
from emitted import BUILD, emit, load_module

ROWS = torch.export.Dim("rows", min=2, max=64)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(16, 32), torch.nn.Linear(32, 8)
        self.register_buffer("calls", torch.zeros(3))

    def forward(self, x, h):
        self.calls.add_(1)
        h.mul_(2)
        z = self.second(torch.relu(self.first(x)))
        values, indices = z.sort(-1)
        return torch.softmax(z, -1), z.sum(0), x[:, ::2], h.t(), self.calls * 2, x.shape[0] * 3, values, indices


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("emit") / "m.pt2"
    export(Net(), (torch.randn(5, 16), torch.randn(4, 3)), path, {"x": {0: ROWS}, "h": None})
    return path


@pytest.fixture(scope="module")
def python(archive):
    return emit(archive, "python")


@pytest.fixture(scope="module")
def fx(archive):
    return emit(archive, "fx")


def check_outputs(function):
    """Values, strides, aliasing and mutation against eager."""
    torch.manual_seed(0)
    module = Net()
    for calls, rows in enumerate((5, 64), 1):
        x, h = torch.randn(rows, 16), torch.randn(4, 3)
        want_h = h * 2
        got = function(x, h)
        with torch.no_grad():
            want = module(x, h.clone() / 2)
        for k, (g, w) in enumerate(zip(got, want)):
            if isinstance(w, torch.Tensor):
                assert not difference(g, w), (k, difference(g, w))
                assert g.stride() == w.stride(), k
            else:
                assert type(g) is int and g == w
        assert torch.equal(h, want_h)
        # Views of the caller's own memory.
        assert got[2].data_ptr() == x.data_ptr() and got[3].data_ptr() == h.data_ptr()
        got[2].fill_(7)
        assert (x[:, ::2] == 7).all()


def test_python(python):
    module = load_module(python)
    check_outputs(lambda *args: module.call(list(args)))


def test_fx(fx):
    check_outputs(load_module(fx).load())


def test_torch_alone(python, fx, tmp_path):
    """Without Coil's runtime library operations are torch's."""
    script = f"""
import importlib.util, torch, pathlib
def load(path):
    spec = importlib.util.spec_from_file_location("m", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
one, two = load({str(python)!r}), load({str(fx)!r})
assert one.RUNTIME is None
x, h = torch.arange(80.0).reshape(5, 16) / 80, torch.ones(4, 3)
torch.save((one.call([x, h.clone()]), two.load()(x, h.clone())), {str(tmp_path / "out.pt")!r})
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=ENVIRONMENT | {"COIL_RUNTIME": "none", "COIL_CACHE": os.path.join(BUILD, "python-kernels")},
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert done.returncode == 0, done.stderr[-2000:]
    torch.manual_seed(0)
    with torch.no_grad():
        want = Net()(torch.arange(80.0).reshape(5, 16) / 80, torch.ones(4, 3))
    for results in torch.load(tmp_path / "out.pt"):
        for got, w in zip(results, want):
            assert got == w if isinstance(w, int) else not difference(got, w)


def test_factorizations_in_torch(tmp_path, monkeypatch):
    class Factored(torch.nn.Module):
        def forward(self, a, b):
            linalg, (lu, pivots) = torch.linalg, torch.linalg.lu_factor(a)
            q, r = linalg.qr(b)
            u, s, v = linalg.svd(b, full_matrices=False)
            w, x = linalg.eigh(a @ a.mT)
            h, tau = torch.geqrf(b)
            return (
                linalg.solve(a, b),
                *torch.lu_unpack(lu, pivots),
                linalg.lu_solve(lu, pivots, b.mT, left=False),
                linalg.cholesky(a @ a.mT),
                linalg.solve_triangular(a.tril(), b, upper=False),
                q @ r,
                (u * s) @ v,
                linalg.svdvals(b),
                (x * w) @ x.mT,
                linalg.eigvalsh(a + a.mT),
                linalg.householder_product(h, tau).abs(),
                torch.ormqr(h, tau, b).abs(),
                torch.matrix_exp(a / 8),
                linalg.ldl_solve(*linalg.ldl_factor(a + a.mT), b),
                linalg.eigvals(a).abs().sum(),
            )

    torch.manual_seed(0)
    inputs = torch.randn(4, 4) + 3 * torch.eye(4), torch.randn(4, 3)
    inputs = inputs[0], torch.cat([inputs[1], inputs[1][:, :1] ** 2], 1)
    export(Factored(), inputs, tmp_path / "m.pt2")
    monkeypatch.setenv("COIL_RUNTIME", "none")
    for got, want in zip(
        load_module(emit(tmp_path / "m.pt2", "python")).call([t.clone() for t in inputs]),
        Factored()(*inputs),
        strict=True,
    ):
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4)


def test_other_strides_and_numbers_are_taken(tmp_path):
    class Scaled(torch.nn.Module):
        def forward(self, x, n, flag):
            x.add_(1)
            return x * n, flag

    export(
        Scaled(),
        (torch.randn(3, 4), 3, True),
        tmp_path / "m.pt2",
        {"x": None, "n": torch.export.Dim.DYNAMIC, "flag": None},
    )
    call, module = (
        load_module(emit(tmp_path / "m.pt2", "python")).call,
        load_module(emit(tmp_path / "m.pt2", "fx")).load(),
    )
    for function in (lambda *args: call(list(args)), module):
        columns = torch.zeros(4, 3).t()  # columns where the program was compiled for rows
        assert (function(columns, 5, True)[0] == 5).all()
        assert (columns == 1).all()


@pytest.mark.parametrize("language", ["python", "fx"])
def test_a_damaged_cache_is_mended(language, python, fx, tmp_path, monkeypatch):
    """By the next process: a file that one has opened is not cut."""
    path = python if language == "python" else fx
    script = f"""
import importlib.util, torch
spec = importlib.util.spec_from_file_location("m", {str(path)!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
call = module.call if {language!r} == "python" else lambda args: module.load()(*args)
call([torch.ones(5, 16), torch.ones(4, 3)])
"""
    monkeypatch.setenv("COIL_CACHE", str(tmp_path))
    for _ in range(2):
        subprocess.run([sys.executable, "-c", script], check=True)
        made = list(tmp_path.rglob("*.so"))
        assert made and all(file.stat().st_size > 1000 for file in made)
        for file in made:
            file.write_bytes(file.read_bytes()[:100])


@pytest.mark.parametrize("language", ["python", "fx"])
def test_wrong_inputs_are_refused_by_name(language, python, fx):
    module = load_module(python if language == "python" else fx)
    function = (lambda *args: module.call(list(args))) if language == "python" else module.load()
    h = torch.ones(4, 3)
    for x, message in [
        (torch.randn(65, 16), "must be at most 64"),
        (torch.randn(5, 17), "input 'x' has size 17 in dimension 1"),
        (torch.ones(5, 16).long(), "input 'x' is torch.int64"),
        (torch.randn(5, 16, 1), "input 'x' has 3 dimensions"),
        (torch.randn(5, 16, device="meta"), "input 'x' is on meta"),
    ]:
        with pytest.raises((RuntimeError, AssertionError), match=message):
            function(x, h)
    if language == "python":
        with pytest.raises(RuntimeError, match="takes 2 inputs, but 1 were given"):
            module.call([h])


def test_kernels_say_where_they_come_from(python):
    module = load_module(python)
    kernels = [k for k in vars(module).values() if type(k).__name__ == "HostKernel"]
    assert kernels
    softmax = next(k for k in kernels if "%softmax" in k.__doc__)
    assert "aten.softmax.int" in softmax.__doc__ and "test_emit_python.py:" in softmax.__doc__
    assert "%linear" not in softmax.__doc__.split("=")[0]
    ast.parse(python.read_text())


# ---- What else can be done with a graph ----


def test_interpreted(fx):
    module = load_module(fx)
    check_outputs(torch.fx.Interpreter(module.load()).run)


def test_traced_again_edited_and_saved(fx, tmp_path):
    module = load_module(fx)
    check_outputs(torch.fx.symbolic_trace(module.load()))
    edited = module.load()
    result = next(n for n in edited.graph.nodes if n.op == "output")
    with edited.graph.inserting_before(result):
        doubled = edited.graph.call_function(torch.mul, (result.args[0][1], 2))
    result.args = ((result.args[0][0], doubled, *result.args[0][2:]),)
    assert edited.graph.eliminate_dead_code() in (True, False)
    edited.recompile()
    x, h = torch.randn(5, 16), torch.randn(4, 3)
    assert torch.equal(edited(x, h.clone())[1], module.load()(x, h.clone())[1] * 2)
    torch.save(module.load(), tmp_path / "m.pt")
    check_outputs(torch.load(tmp_path / "m.pt", weights_only=False))
    module.load().to_folder(tmp_path / "folder", "Saved")
    assert "coil_wrapper.kernel" in (tmp_path / "folder/module.py").read_text()


def test_traced_with_symbolic_sizes(fx):
    from torch.fx.experimental.proxy_tensor import make_fx

    module = load_module(fx)
    traced = make_fx(module.load(), tracing_mode="symbolic", _allow_non_fake_inputs=True)(
        torch.randn(5, 16), torch.randn(4, 3)
    )
    kernels = [n for n in traced.graph.nodes if n.target is torch.ops.coil_wrapper.kernel.default]
    assert kernels and any(isinstance(a, torch.fx.Node) for n in kernels for a in n.args[3] + [n.args[4]]), (
        "sizes became numbers"
    )


def test_graph_of_typed_nodes(fx):
    graph = load_module(fx).load().graph
    targets = {str(n.target) for n in graph.nodes if n.op == "call_function"}
    assert {
        "coil_wrapper.kernel.default",
        "coil_wrapper.library.default",
        "coil_wrapper.delete.default",
        "aten.as_strided.default",
        "aten.sym_size.int",
    } <= targets
    assert torch.ops.aten.new_empty_strided.default in {n.target for n in graph.nodes} and torch._assert in {
        n.target for n in graph.nodes
    }
    assert {n.target for n in graph.nodes if n.op == "get_attr"} == {
        n for n, _ in load_module(fx).load().named_parameters()
    }
    assert all(n.meta["origins"] for n in graph.nodes if str(n.target) == "coil_wrapper.kernel.default")


# ---- The graph's own text ----


def test_coil_opt_reads_the_graph(fx, tmp_path):
    """What it prints, `coil opt` prints back, and the module read from that computes the same; so does the one without
    the nodes that a pass takes out.
    """
    module = load_module(fx)
    (tmp_path / "m.fx").write_text(module.text())
    once = coil_ok("opt", "--origins", "--locations", tmp_path / "m.fx").stdout
    (tmp_path / "once.fx").write_text(once)
    assert coil_ok("opt", "--origins", "--locations", tmp_path / "once.fx").stdout == once
    lines = once.splitlines()
    assert any("call_function[target=torch._assert](args = (%" in line and "must be at least" in line for line in lines)
    assert any(
        "target=coil_wrapper.kernel.default" in line and "# from " in line and "# at test_emit_python.py:" in line
        for line in lines
    )
    assert module.text(module.read(module.text())) == re.sub(r"  # (at|from) .*", "", module.text())
    size = re.fullmatch(
        r"graph\((s\d+): \[\d, 64\] = 5, h_offset: unbacked \[0, inf\], x_offset: unbacked \[0, inf\]\):", lines[0]
    )[1]
    types = {m[1]: m[2] for m in map(re.compile(r" *%(\w+)(?: : (.*?))? = ").match, lines) if m}
    typed = {
        "aten.new_empty_strided.default",
        "aten.as_strided.default",
        "aten.sym_size.int",
        "coil_wrapper.lay_out.default",
    }
    assert all(
        types[n.name]
        for n in module.load().graph.nodes
        if n.op in ("placeholder", "get_attr") or str(n.target) in typed
    )
    assert types["x"] == f"f32[{size}, 16]{{16, 1}}+x_offset" and {
        f"f32[{size}, 8]{{16, 2}}+x_offset",
        "f32[3, 4]{1, 3}+h_offset",
        f"3*{size}",
    } <= set(types.values())

    graph = module.load()
    size = next(n for n in graph.graph.nodes if str(n.target) == "aten.sym_size.int")
    with graph.graph.inserting_after(size):
        graph.graph.call_function(operator.mul, (size, 3), name="idle")
    (tmp_path / "idle.fx").write_text(module.text(graph))
    assert "%idle" in coil_ok("opt", tmp_path / "idle.fx").stdout
    shorter = coil_ok("opt", "--pass", "eliminate-dead-code", tmp_path / "idle.fx").stdout
    assert "%idle" not in shorter and "torch._assert" in shorter
    check_outputs(module.read(shorter))


class Blocks(torch.nn.Module):
    def forward(self, x):
        y = torch.cond(x.sum() > 0, lambda x: (x + 1,), lambda x: (x * 2,), (x,))[0]
        return torch.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t * 2), (torch.tensor(0), y))


def test_text_with_blocks_and_odd_strings(tmp_path):
    export(Blocks(), (torch.ones(3),), tmp_path / "m.pt2")
    module = load_module(emit(tmp_path / "m.pt2", "fx"))
    (tmp_path / "m.fx").write_text(module.text())
    read = module.read(coil_ok("opt", tmp_path / "m.fx").stdout)
    assert any(isinstance(m, torch.fx.GraphModule) for m in read.children())
    for x in (torch.ones(3), -torch.ones(3)):
        for got, want in zip(read(x), module.load()(x), strict=True):
            assert torch.equal(got, want)
    odd = 'a "quoted" \\ back\nnew\ttab \x01 é #'
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(torch._assert, (x, odd))
    graph.output((x,))
    (tmp_path / "odd.fx").write_text(module.text(torch.fx.GraphModule(torch.nn.Module(), graph)))
    back = module.read(coil_ok("opt", tmp_path / "odd.fx").stdout)
    assert [n.args[1] for n in back.graph.nodes if n.target is torch._assert] == [odd]


# ---- Hostile names ----

HOSTILE = ["class", "torch", "check", "call", "__import__", "lambda", "take", "x" * 300]


def test_names_that_mean_something_to_python(tmp_path):
    parameters = ", ".join(n for n in ("torch", "check", "call", "take", "args", "kernel", "graph", "root", "node"))
    scope = {"torch": torch}
    exec(f"def forward(self, {parameters}):\n    return {' + '.join(parameters.split(', '))}\n", scope)
    module = type("M", (torch.nn.Module,), {"forward": scope["forward"]})()
    for k, name in enumerate(("class", "import", 'it\'s """ \\ odd\n')):
        module.register_buffer(name.replace(".", "_"), torch.full((2,), float(k)))
    args = tuple(torch.full((2,), float(k)) for k in range(9))
    export(module, args, tmp_path / "m.pt2")
    assert torch.equal(load_module(emit(tmp_path / "m.pt2", "python")).call(list(args))[0], torch.full((2,), 36.0))
    assert torch.equal(load_module(emit(tmp_path / "m.pt2", "fx")).load()(*args)[0], torch.full((2,), 36.0))


def test_what_cannot_be_written_is_refused(archive, tmp_path):
    done = coil("compile", archive, "-o", tmp_path / "no" / "such" / "folder" / "m.py", "--emit", "python")
    assert done.returncode == 1 and done.stderr.startswith("coil: error: ") and done.stderr.count("\n") == 1
    done = coil("compile", archive, "-o", tmp_path / "m.py", "--emit", "fortran")
    assert done.returncode == 2 and "fortran" in done.stderr and not (tmp_path / "m.py").exists()


def test_same_bytes_twice(archive, python, fx):
    before = python.read_bytes(), fx.read_bytes()
    assert (emit(archive, "python").read_bytes(), emit(archive, "fx").read_bytes()) == before


# ---- The wrapper's own text, and a backend from outside ----


def test_text_gives_the_same_program(archive, python, tmp_path):
    text = tmp_path / "m.wrap"
    coil_ok("compile", archive, "-o", text, "--emit", "wrapper", "--set", "pack_weights=false")
    again = coil_ok("opt", "--pass", "plan-lifetimes", "--pass", "verify", "--emit", "wrapper", text).stdout
    assert again == text.read_text()
    body = lambda source: source[source.index("def call(args):") :]
    assert body(coil_ok("opt", "--emit", "python", text).stdout) == body(python.read_text())


def test_a_backend_from_outside(archive, tmp_path):
    library = tmp_path / "timed_python.so"
    command = [
        "g++",
        "-std=c++20",
        "-fPIC",
        "-shared",
        f"-I{ROOT}/src",
        f"-I{ROOT}/include",
        ROOT / "examples/wrapper_backend/timed_python.cpp",
        "-o",
        library,
    ]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    coil_ok("compile", archive, "-o", tmp_path / "m.py", "--load", library, "--emit", "timed-python")
    module = load_module(tmp_path / "m.py")
    check_outputs(lambda *args: module.call(list(args)))
    assert module.SECONDS and all(s > 0 for s in module.SECONDS.values())
    assert all(
        "timed(coil_" in line
        for line in (tmp_path / "m.py").read_text().splitlines()
        if line.startswith("    ") and "extent=" in line
    )
    assert (
        coil("compile", archive, "-o", tmp_path / "n.py", "--load", tmp_path / "none.so", "--emit", "python").returncode
        == 1
    )
