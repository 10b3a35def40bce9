"""Operators of one's own (`coil.Library`, coil_operator_register) in archives, torch.compile, packages and every form
of output.
"""

import copy
import ctypes
import os
import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file

from coil_harness import COIL, ENVIRONMENT, ROOT, SOURCES, coil as command, coil_ok, run
from emitted import BUILD, call_program, emit, load_module

sys.path.insert(0, str(ROOT / "build/python"))
coil = pytest.importorskip("coil", reason="the Python extension is not built")


@pytest.fixture(scope="module")
def library():
    """shop::soft_step (called), shop::twice (decomposed), shop::liar (says another shape than it gives)."""
    shop = coil.Library("shop")
    soft_step = shop.define(
        "soft_step(Tensor x, float width=1.0) -> Tensor",
        shape=lambda x, width=1.0: torch.empty_like(x),
        implementation=lambda x, width=1.0: x / (x.abs() + width),
        backward=lambda ctx, g: (
            g * ctx.saved_tensors[0] / (ctx.saved_tensors[1].abs() + ctx.saved_tensors[0]) ** 2,
            None,
        ),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(torch.tensor(inputs[1]), inputs[0]),
    )
    called = []
    twice = shop.define(
        "twice(Tensor x) -> Tensor",
        shape=torch.empty_like,
        implementation=lambda x: called.append(1) or x * 2,
        decomposition=lambda x: x + x,
    )
    split = shop.define(
        "halves(Tensor x, int dim=0) -> (Tensor, Tensor)",
        shape=lambda x, dim=0: tuple(
            torch.empty_like(t, memory_format=torch.contiguous_format) for t in x.chunk(2, dim)
        ),
        implementation=lambda x, dim=0: tuple(t.contiguous() for t in x.chunk(2, dim)),
    )
    liar = shop.define("liar(Tensor x) -> Tensor", shape=torch.empty_like, implementation=lambda x: x[:1].clone())

    def raises(x):
        raise ValueError("the shop is closed")

    shop.define("closed(Tensor x) -> Tensor", shape=torch.empty_like, implementation=raises)
    shop.define(
        "bump_(Tensor(a!) x, float by=1.0) -> ()",
        shape=lambda x, by=1.0: None,
        implementation=lambda x, by=1.0: x.add_(by).numel() and None,
    )
    shop.define(
        "drain(Tensor(a!) x, Tensor(b!)[] tanks, *, Tensor(c!)? log=None) -> (Tensor, Tensor)",
        shape=lambda x, tanks, log=None: (torch.empty_like(x), x.new_empty((), dtype=torch.int64)),
        implementation=drain,
    )
    return dict(soft_step=soft_step, twice=twice, halves=split, liar=liar, called=called)


def drain(x, tanks, log=None):
    """Moves a tenth of x into each tank; counts into the log."""
    old = x.clone()
    for tank in tanks:
        tank.add_(x.sum() / 10)
        x.mul_(0.9)
    if log is not None:
        log.add_(len(tanks))
    return old, torch.tensor(len(tanks))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 8)

    def forward(self, x):
        y = torch.ops.shop.soft_step(self.linear(x).relu(), 0.5)
        a, b = torch.ops.shop.halves(y, 1)
        return torch.ops.shop.twice(a + b).sum(-1), b


ROWS = {"x": {0: torch.export.Dim("rows", min=2, max=64)}}


@pytest.fixture(scope="module")
def archive(library, tmp_path_factory):
    torch.manual_seed(0)
    net = Net().eval()
    path = tmp_path_factory.mktemp("library") / "m.pt2"
    with torch.no_grad():
        torch.export.save(torch.export.export(net, (torch.randn(5, 6),), dynamic_shapes=ROWS), path)
    return net, path


def check(function, net):
    for rows in (5, 2, 31):
        x = torch.randn(rows, 6)
        with torch.no_grad():
            torch.testing.assert_close(tuple(function(x)), net(x))


def test_torch_compile(library, archive):
    net, _ = archive
    torch._dynamo.reset()
    with torch.no_grad():
        check(torch.compile(net, backend="coil", fullgraph=True, dynamic=True, options={"fallback": False}), net)
    assert not library["called"] or len(library["called"]) <= 3  # eager's own calls alone
    torch._dynamo.reset()
    x, y = (torch.randn(4, 6).requires_grad_() for _ in range(2))
    y.data.copy_(x.data)
    one = OneOperator()  # the other operators have no backward
    torch.compile(one, backend="coil", fullgraph=True)(x).sum().backward()
    one(y).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)


def test_packages(library, archive, tmp_path):
    net, path = archive
    model = coil.compile(net, (torch.randn(5, 6),), dynamic_shapes=ROWS)
    check(model, net)
    model.save(tmp_path / "m.coil")
    check(coil.load(tmp_path / "m.coil"), net)
    # A host that lacks the operator refuses the package at load, by name and schema.
    done = subprocess.run([COIL, "run", tmp_path / "m.coil"], capture_output=True, text=True, env=ENVIRONMENT)
    assert (
        done.returncode == 1
        and (
            "leaves shop.halves.default (`shop::halves(Tensor x, SymInt dim=0) -> (Tensor, Tensor)`), "
            "shop.soft_step.default"
        )
        in done.stderr
    ), done.stderr
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'build/python')!r}); import coil; "
        f"coil.load({str(tmp_path / 'm.coil')!r})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1 and "shop.soft_step.default" in done.stderr and "no such operator" in done.stderr


class OneOperator(torch.nn.Module):
    def forward(self, x):
        return torch.ops.shop.soft_step(x * 2, 0.5) + 1


# ---- Operators that write to their arguments ----


class Writes(torch.nn.Module):
    """To a temporary, a view of one, an input, a buffer of its own, lists and optional arguments."""

    def __init__(self):
        super().__init__()
        self.register_buffer("level", torch.zeros(6))

    def forward(self, x, h):
        y = x * 2
        before = y + 0
        torch.ops.shop.bump_(y[:, 1:4], 3.0)
        torch.ops.shop.bump_(h)
        tank = y.sum(0)
        old, count = torch.ops.shop.drain(y, [tank, self.level], log=h[0])
        torch.ops.shop.drain(tank, [])
        return {
            "y": y + 1,
            "before": before,
            "old": old.relu(),
            "tank": tank,
            "twice": h * 2,
            "level": self.level + 0,
            "count": count,
        }


def written(module, x, h):
    """What a call gives and leaves behind, from a fresh start."""
    module = copy.deepcopy(module)
    x, h = x.clone(), h.clone()
    with torch.no_grad():
        return dict(module(x, h)), h, module.level.clone()


def some_input(rows):
    return torch.randn(rows, 6), torch.randn(3)


def test_writing_operators_under_torch_compile(library):
    torch._dynamo.reset()
    module = Writes()
    for dynamic in (False, True):
        torch._dynamo.reset()
        for rows in (5, 3):
            x, h = some_input(rows)
            want, want_h, want_level = written(module, x, h)
            other, got_h = copy.deepcopy(module), h.clone()
            with torch.no_grad():
                got = torch.compile(
                    other, backend="coil", fullgraph=True, dynamic=dynamic, options={"fallback": False}
                )(x, got_h)
            torch.testing.assert_close(dict(got), want)
            torch.testing.assert_close((got_h, other.level), (want_h, want_level))
    # In training, on a value that needs gradients.
    x = torch.randn(4, 6, requires_grad=True)

    def loss(x):
        y = x.sin()
        with torch.no_grad():
            scale = torch.ones(4, 6)
            torch.ops.shop.bump_(scale, 2.0)
        return (y * scale).sum()

    torch._dynamo.reset()
    torch.testing.assert_close(
        torch.autograd.grad(torch.compile(loss, backend="coil", fullgraph=True)(x), x), torch.autograd.grad(loss(x), x)
    )


@pytest.mark.parametrize("decomposed", (False, True), ids=("exported", "decomposed"))
def test_writing_operators_in_archives_and_every_output(library, decomposed, tmp_path):
    module = Writes()
    x, h = some_input(5)
    program = torch.export.export(
        copy.deepcopy(module), (x, h), dynamic_shapes=({0: torch.export.Dim("rows", min=2, max=64)}, None)
    )
    if decomposed:
        program = program.run_decompositions()
    torch.export.save(program, tmp_path / "m.pt2")
    model = coil.compile(program, options={"verify": True, "assert_lifetimes": True})
    model.save(tmp_path / "m.coil")
    # The text of the wrapper travels as well, and what is written from it is what is written at once.
    built = writing_library(tmp_path)
    plain = coil_ok(
        "opt", "--pass", "plan-lifetimes", "--pass", "verify", "--emit", "python", emit_wrapper(tmp_path, built)
    ).stdout
    python = emit(tmp_path / "m.pt2", "python", "--load", built)
    assert plain[plain.index("def call(args):") :] == python.read_text()[python.read_text().index("def call(args):") :]
    cpp = emit(tmp_path / "m.pt2", "cpp", "--load", built)
    for rows in (5, 31):
        x, h = some_input(rows)
        want, want_h, _ = written(module, x, h)
        for form, function in {
            "compiled": model,
            "loaded": coil.load(tmp_path / "m.coil"),
            "python": listed(load_module(python).call),
            "fx": load_module(emit(tmp_path / "m.pt2", "fx", "--load", built)).load(),
            "interpreted": interpreted(load_module(emit(tmp_path / "m.pt2", "fx", "--load", built)).load()),
        }.items():
            if form == "compiled" and rows != 5:
                continue  # it keeps its state
            got_h = h.clone()
            got = function(x.clone(), got_h)
            got = dict(zip(want, got)) if isinstance(got, tuple) else dict(got)
            torch.testing.assert_close(got, want, msg=lambda m: f"{form}: {m}")
            torch.testing.assert_close(got_h, want_h)
    # The command and the C++ program, whose host is a library in C.
    program = cpp.with_suffix("")
    subprocess.run(
        [
            "g++",
            "-std=c++20",
            "-O1",
            "-DCOIL_MAIN",
            f"-I{ROOT}/include",
            cpp,
            tmp_path / "writing.o",
            "-o",
            program,
            f"-L{BUILD}/lib",
            "-lcoil_runtime",
            f"-Wl,-rpath,{BUILD}/lib",
        ],
        check=True,
    )
    x, h = some_input(7)
    want, want_h, _ = written(module, x, h)
    for got in (
        run(tmp_path / "m.pt2", {"x": x, "h": h}, tmp_path, "--load", built),
        call_program(program, {"x": x, "h": h}),
    ):
        torch.testing.assert_close(dict(got), want | {"h": want_h})


def listed(call):
    return lambda *args: call(list(args))


def interpreted(module):
    return lambda *args: torch.fx.Interpreter(module).run(*args)


def emit_wrapper(folder, built):
    coil_ok(
        "compile",
        folder / "m.pt2",
        "-o",
        folder / "m.wrap",
        "--emit",
        "wrapper",
        "--set",
        "pack_weights=false",
        "--load",
        built,
    )
    return folder / "m.wrap"


def writing_library(folder, source=None):
    (folder / "writing.c").write_text(source or (SOURCES / "writing_operators.c").read_text())
    flags = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fPIC", f"-I{ROOT}/include", folder / "writing.c"]
    subprocess.run([*flags, "-c", "-o", folder / "writing.o"], check=True)
    subprocess.run([*flags, "-shared", "-o", folder / "writing.so"], check=True)
    return folder / "writing.so"


def test_what_writing_operators_may_not_do(library, tmp_path):
    class Overlapping(torch.nn.Module):
        def forward(self, x):
            y = x + 1
            torch.ops.shop.drain(y[:2], [y[1:]])
            return y

    torch.export.save(torch.export.export(Overlapping(), (torch.randn(5),)), tmp_path / "m.pt2")
    with pytest.raises(coil.Error, match="memory of %.* that it is given twice"):
        coil.compile(tmp_path / "m.pt2")
    with pytest.raises(coil.Error, match="returns views"):
        coil.Library("shop").define("half(Tensor(a) x) -> Tensor(a)", shape=None, implementation=None)


def test_implementations_that_raise(library, tmp_path):
    class Closed(torch.nn.Module):
        def forward(self, x):
            return torch.ops.shop.closed(x + 1)

    x = torch.randn(4)
    torch._dynamo.reset()
    compiled = torch.compile(Closed(), backend="coil")
    for _ in range(2):
        with torch.no_grad(), pytest.raises(ValueError, match="the shop is closed"):
            compiled(x)
    coil.compile(Closed(), (x,)).save(tmp_path / "m.coil")
    model = coil.load(tmp_path / "m.coil")
    for _ in range(2):
        with pytest.raises(ValueError, match="the shop is closed"):
            model(x)

    class Liar(torch.nn.Module):
        def forward(self, x):
            return torch.ops.shop.liar(x) + 1

    with pytest.raises(coil.Error, match=r"shop.liar.default gave f32\[1\] where f32\[4\] was expected"):
        coil.compile(Liar(), (x,))(x)


def test_command_with_a_library_in_c(library, tmp_path):
    """The same schema registered by a C library: compiled, run and written as C++ by the command."""
    built = tmp_path / "custom_operator.so"
    subprocess.run(
        [
            "gcc",
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-fPIC",
            "-shared",
            f"-I{ROOT}/include",
            ROOT / "examples/c/custom_operator.c",
            "-o",
            built,
        ],
        check=True,
    )
    x = torch.randn(7, 3)
    torch.export.save(torch.export.export(OneOperator(), (x,), dynamic_shapes=ROWS), tmp_path / "m.pt2")
    assert "shop.soft_step.default" in command("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil").stderr
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", "--load", built)
    torch.testing.assert_close(
        run(tmp_path / "m.coil", {"x": x}, tmp_path, "--load", built)["output"], OneOperator()(x)
    )

    source = emit(tmp_path / "m.pt2", "cpp", "--load", built)
    program = source.with_suffix("")
    subprocess.run(
        [
            "gcc",
            "-std=c11",
            "-c",
            f"-I{ROOT}/include",
            ROOT / "examples/c/custom_operator.c",
            "-o",
            tmp_path / "operator.o",
        ],
        check=True,
    )
    subprocess.run(
        [
            "g++",
            "-std=c++20",
            "-O1",
            "-DCOIL_MAIN",
            f"-I{ROOT}/include",
            source,
            tmp_path / "operator.o",
            "-o",
            program,
            f"-L{BUILD}/lib",
            "-lcoil_runtime",
            f"-Wl,-rpath,{BUILD}/lib",
        ],
        check=True,
    )
    torch.testing.assert_close(call_program(program, {"x": x})["output"], OneOperator()(x))
    for language in ("python", "fx"):
        module = load_module(emit(tmp_path / "m.pt2", language, "--load", built))
        got = module.call([x])[0] if language == "python" else module.load()(x)[0]
        torch.testing.assert_close(got, OneOperator()(x))

    runtime = ctypes.CDLL(os.path.join(BUILD, "lib", "libcoil_runtime.so"))
    runtime.coil_model_load.restype = ctypes.c_void_p
    runtime.coil_last_error.restype = ctypes.c_char_p
    assert not runtime.coil_model_load(str(tmp_path / "m.coil").encode())
    assert b"shop.soft_step.default" in runtime.coil_last_error()


def test_what_is_refused(library):
    torch._dynamo.reset()
    with (
        torch.no_grad(),
        pytest.raises(Exception, match=r"shop.liar.default gave f32\[1\] where f32\[4\] was expected"),
    ):
        torch.compile(lambda x: torch.ops.shop.liar(x) + 1, backend="coil")(torch.randn(4))
    with pytest.raises(coil.Error, match="position"):
        coil.Library("shop").define("bad(Tensor x, -> Tensor", shape=None, implementation=None)
    with pytest.raises(coil.Error, match="torch's own"):
        coil.Library("aten")


# ---- Operators whose results have sizes that only they tell ----


@pytest.fixture(scope="module")
def finders(library):
    """shop::positive (one size), shop::extremes (two results, of sizes of their own and one known), shop::pieces (a
    list), shop::drawn (writes to its argument).
    """
    shop = coil.Library("shop")
    new = lambda: torch.library.get_ctx().new_dynamic_size()
    shop.define(
        "positive(Tensor x) -> Tensor", shape=lambda x: x.new_empty(new()), implementation=lambda x: x[x > 0].clone()
    )
    shop.define(
        "extremes(Tensor x, *, float below, float above) -> (Tensor, Tensor, Tensor)",
        shape=lambda x, below, above: (
            x.new_empty(new(), 2),
            x.new_empty((), dtype=torch.int64),
            x.new_empty(3, new()),
        ),
        implementation=lambda x, below, above: (
            x[x < below][:, None].repeat(1, 2),
            torch.tensor(x.numel()),
            x[x > above].repeat(3, 1),
        ),
    )
    shop.define(
        "pieces(Tensor x) -> Tensor[]",
        shape=lambda x: [x.new_empty(new()), x.new_empty(new())],
        implementation=lambda x: [x[x > 0].clone(), x[x <= 0].clone()],
    )

    def draw(x):
        taken = x[x > 0].clone()
        x[x > 0] = 0
        return taken

    shop.define("drawn(Tensor(a!) x) -> Tensor", shape=lambda x: x.new_empty(new()), implementation=draw)


# The same in C, for the command, packages and C++ source.
FINDERS = (SOURCES / "finding_operators.c").read_text()


class Finds(torch.nn.Module):
    def forward(self, x):
        found = torch.ops.shop.positive(x * 2)
        low, count, high = torch.ops.shop.extremes(x, below=-0.5, above=0.5)
        again = torch.ops.shop.positive(found - 1)
        more, less = torch.ops.shop.pieces(x)
        return {
            "found": found + 1,
            "sum": found.sum(),
            "count": found.shape[0],
            "low": low.t() * 2,
            "all": count + 1,
            "high": high.sum(0),
            "again": again,
            "both": torch.cat([more, less, found]).cumsum(0),
            "steps": torch.ops.shop.soft_step(found, 0.5),
        }


VECTORS = [
    torch.tensor([1.0, -2, 3, 0.1, -0.1]),
    torch.full((4,), -1.0),
    torch.ones(7),
    torch.randn(1000),
    torch.zeros(2),
]
LENGTH = {"x": {0: torch.export.Dim("length", min=2, max=4096)}}


def test_sizes_that_an_operator_tells(library, finders, tmp_path):
    module = Finds()
    program = torch.export.export(module, (VECTORS[0],), dynamic_shapes=LENGTH)
    model = coil.compile(program, options={"verify": True, "assert_lifetimes": True})
    model.save(tmp_path / "m.coil")
    torch.export.save(program, tmp_path / "m.pt2")
    built = writing_library(tmp_path, FINDERS)
    python, fx = (load_module(emit(tmp_path / "m.pt2", form, "--load", built)) for form in ("python", "fx"))
    cpp = build_with(emit(tmp_path / "m.pt2", "cpp", "--load", built), tmp_path / "writing.o")
    left = len(coil.host._kept)
    for x in VECTORS * 2:
        want = module(x)
        given = {"x": x}
        forms = {
            "compiled": model,
            "loaded": coil.load(tmp_path / "m.coil"),
            "python": listed(python.call),
            "fx": fx.load(),
            "interpreted": interpreted(fx.load()),
            "command": lambda _: run(tmp_path / "m.coil", given, tmp_path, "--load", built),
            "cpp": lambda _: call_program(cpp, given),
        }
        for form, function in forms.items():
            got = function(x)
            got = dict(zip(want, got)) if isinstance(got, (tuple, list)) else dict(got)
            assert got.keys() == want.keys()
            for name, value in want.items():
                torch.testing.assert_close(
                    torch.as_tensor(got[name]), torch.as_tensor(value), msg=lambda m: f"{form}, {name}: {m}"
                )
    assert len(coil.host._kept) == left, "what was kept between two calls was taken"


def build_with(source, *objects):
    program = source.with_suffix("")
    subprocess.run(
        [
            "g++",
            "-std=c++20",
            "-O1",
            "-DCOIL_MAIN",
            f"-I{ROOT}/include",
            source,
            *objects,
            "-o",
            program,
            f"-L{BUILD}/lib",
            "-lcoil_runtime",
            f"-Wl,-rpath,{BUILD}/lib",
        ],
        check=True,
    )
    return program


def test_a_writer_that_tells_its_sizes(library, finders, tmp_path):
    class Draws(torch.nn.Module):
        def forward(self, x):
            y = x * 2
            first = torch.ops.shop.drawn(y)
            second = torch.ops.shop.drawn(x)
            return {"first": first * 3, "second": second.sum(), "y": y + 1, "none": torch.ops.shop.drawn(y)}

    program = torch.export.export(Draws(), (VECTORS[0].clone(),), dynamic_shapes=LENGTH)
    model = coil.compile(program, options={"verify": True, "assert_lifetimes": True})
    torch.export.save(program, tmp_path / "m.pt2")
    built = writing_library(tmp_path, FINDERS)
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", "--load", built)
    python, fx = (load_module(emit(tmp_path / "m.pt2", form, "--load", built)) for form in ("python", "fx"))
    cpp = build_with(emit(tmp_path / "m.pt2", "cpp", "--load", built), tmp_path / "writing.o")
    for x in VECTORS:
        after = x.clone()
        want = Draws()(after)
        for form, function in {"compiled": model, "python": listed(python.call), "fx": fx.load()}.items():
            given = x.clone()
            got = function(given)
            got = dict(zip(want, got)) if isinstance(got, (tuple, list)) else got
            for name, value in want.items():
                torch.testing.assert_close(got[name], value, msg=lambda m: f"{form}, {name}: {m}")
            torch.testing.assert_close(given, after, msg=lambda m: f"{form}: {m}")
        for form, got in {
            "command": run(tmp_path / "m.coil", {"x": x}, tmp_path, "--load", built),
            "cpp": call_program(cpp, {"x": x}),
        }.items():
            for name, value in {**want, "x": after}.items():
                torch.testing.assert_close(got[name], value, msg=lambda m: f"{form}, {name}: {m}")


def test_operators_in_c_that_tell_wrong_sizes(library, finders, tmp_path):
    """One that fails, one that gives another size in the second of two results than in the first, one registered
    without sizes.
    """

    class Finds(torch.nn.Module):
        def forward(self, x):
            return torch.ops.shop.extremes(x, below=-0.5, above=0.5)[0], torch.ops.shop.positive(x)

    class Knows(torch.nn.Module):
        def forward(self, x):
            return torch.ops.shop.soft_step(x)

    built = writing_library(tmp_path, FINDERS)
    torch.export.save(torch.export.export(Finds(), (VECTORS[0],), dynamic_shapes=LENGTH), tmp_path / "m.pt2")
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", "--load", built)
    cpp = build_with(emit(tmp_path / "m.pt2", "cpp", "--load", built), tmp_path / "writing.o")
    save_file({"x": torch.randn(666)}, tmp_path / "bad.safetensors")
    for done in (
        command("run", tmp_path / "m.coil", "--inputs", tmp_path / "bad.safetensors", "--load", built),
        subprocess.run(
            [cpp, tmp_path / "bad.safetensors", tmp_path / "out.safetensors"], capture_output=True, text=True
        ),
    ):
        assert done.returncode == 1 and "shop.positive.default: it finds nothing good" in done.stderr, done.stderr

    # A result of a size that is known before must have it.
    liar = writing_library(
        tmp_path,
        FINDERS.replace("add(results, 1, a[0].tensor->sizes[0], 0)", "add(results, 1, a[0].tensor->sizes[0] + 1, 0)"),
    )
    torch.export.save(torch.export.export(Knows(), (VECTORS[0],), dynamic_shapes=LENGTH), tmp_path / "k.pt2")
    coil_ok("compile", tmp_path / "k.pt2", "-o", tmp_path / "k.coil", "--load", liar)
    cpp = build_with(emit(tmp_path / "k.pt2", "cpp", "--load", liar), tmp_path / "writing.o")
    save_file({"x": torch.randn(5)}, tmp_path / "five.safetensors")
    for done in (
        command("run", tmp_path / "k.coil", "--inputs", tmp_path / "five.safetensors", "--load", liar),
        subprocess.run(
            [cpp, tmp_path / "five.safetensors", tmp_path / "out.safetensors"], capture_output=True, text=True
        ),
    ):
        assert done.returncode == 1 and "shop.soft_step.default gave f32[6] where f32[5] was expected" in done.stderr, (
            done.stderr
        )

    plain = writing_library(
        tmp_path,
        (SOURCES / "operators_of_the_wrong_kind.c").read_text(),
    )
    done = command("run", tmp_path / "m.coil", "--inputs", tmp_path / "five.safetensors", "--load", plain)
    assert (
        done.returncode == 1
        and "shop.extremes.default" in done.stderr
        and "coil_operator_register_results" in done.stderr
    ), done.stderr


def test_sizes_that_an_operator_tells_under_torch_compile(library, finders):
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(Finds(), backend="coil", fullgraph=True, dynamic=True)
        for x in VECTORS[:4]:
            want = Finds()(x)
            for name, value in compiled(x).items():
                torch.testing.assert_close(torch.as_tensor(value), torch.as_tensor(want[name]))


def test_a_failure_after_an_operator_told_its_sizes(library, finders):
    class Program(torch.nn.Module):
        def forward(self, x):
            found = torch.ops.shop.positive(x)
            torch._check(found.shape[0] <= 3)
            return found * 2

    model = coil.compile(Program(), (torch.tensor([1.0, -1]),), dynamic_shapes=LENGTH)
    for _ in range(2):
        with pytest.raises(coil.Error, match="test_library"):
            model(torch.ones(5))
        torch.testing.assert_close(model(torch.tensor([1.0, -1, 2])), torch.tensor([2.0, 4.0]))
