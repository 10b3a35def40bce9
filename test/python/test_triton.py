"""Kernels that users wrote in Triton: programs compared with eager, where Triton's interpreter runs them; what is
compiled for a GPU without one; what is refused.
"""

import hashlib
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

triton = pytest.importorskip("triton", reason="Triton is not installed")

import torch  # noqa: E402
import torch.utils._triton  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

import coil  # noqa: E402
import triton_programs as programs  # noqa: E402
from coil_harness import ENVIRONMENT, ROOT, SOURCES, coil as command, coil_ok  # noqa: E402
from emitted import BUILD, load_module  # noqa: E402
from test_emit_cuda import PLACE  # noqa: E402
from triton_programs import PROGRAMS, copies, expected  # noqa: E402


@pytest.fixture(autouse=True)
def seen_by_dynamo(monkeypatch):
    """Dynamo leaves kernels alone where there is no GPU."""
    monkeypatch.setattr(torch.utils._triton, "has_triton", lambda: True)
    monkeypatch.setattr(torch.utils._triton, "has_triton_tensor_descriptor_host_tma", lambda: True)
    torch._dynamo.reset()


def compiled(function, **options):
    return torch.compile(
        function, backend="coil", fullgraph=True, options={"cache": "none", "fallback": True} | options
    )


def same(got, want):
    if isinstance(want, torch.Tensor):
        got, want = [got], [want]
    assert len(got) == len(want)
    for g, w in zip(got, want):
        assert (g.dtype, g.shape, g.stride()) == (w.dtype, w.shape, w.stride())
        torch.testing.assert_close(g, w, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("name", PROGRAMS)
def test_gives_what_eager_gives(name):
    function, args = PROGRAMS[name]
    want, left = expected(function, args)
    given = copies(args)
    same(compiled(function)(*given), want)
    same(given, left)


# ---- For a GPU, without one ----

NVRTC = pathlib.Path(PLACE or ".").parent
FOR_GPU = {"cuda.arch": "sm_90", "cuda.nvrtc": str(NVRTC), "cpu.isa": "avx2"}
ROWS = torch.export.Dim("rows", min=2, max=4096)


@pytest.fixture(scope="session")
def kernel_cache(tmp_path_factory):
    """One cache for the tests of this process: compiling a kernel takes most of their time."""
    return str(tmp_path_factory.mktemp("cache"))


def exported(module, args, dynamic=None):
    return torch.export.export(module, args, dynamic_shapes=dynamic, strict=True)


def definitions(program):
    """Of the users' kernels in an exported program, in the order of their calls."""
    calls = [n for n in program.graph.nodes if str(n.target) == "coil.user_kernel.default"]
    return [json.loads(n.args[0]) for n in calls]


def for_gpu(module, args, cache, dynamic=None):
    return coil.with_user_kernels(exported(module, args, dynamic), "cuda", FOR_GPU | {"cache": cache})


def on_the_fake_driver(definition, folder, name="user_add_kernel.cpp"):
    """The environment of a process whose GPU is the fake one, with the kernel written in C++."""
    library = folder / "kernel.so"
    source = SOURCES / name
    symbol = f"-DSYMBOL={definition['symbol']}_run"
    subprocess.run(["g++", "-shared", "-fPIC", symbol, source, "-o", library], check=True)
    return ENVIRONMENT | {
        "LD_LIBRARY_PATH": os.path.join(BUILD, "lib", "fake_cuda"),
        "COIL_FAKE_CUDA_KERNELS": str(library),
        "COIL_TEST_LAUNCHES": str(folder / "launches"),
    }


def test_a_package_launches_the_kernel_through_the_driver(tmp_path, kernel_cache):
    """With no Triton and no Python: `coil` compiles the archive, and the driver gets the argument block."""
    args = (torch.randn(100), torch.randn(100))
    rows = torch.export.Dim("rows", min=0, max=4096)
    program = for_gpu(programs.Add(), args, kernel_cache, ({0: rows}, {0: rows}))
    (definition,) = definitions(program)
    kinds = [(p["name"], p["kind"], p.get("bytes", 8)) for p in definition["parameters"]]
    assert kinds == [
        *((name, "tensor", 8) for name in ("x", "y", "out")),
        ("n", "number", 4),
        *[("scratch", "constant", 8)] * 2,
    ]
    assert definition["arch"] == "sm_90" and definition["block"] == 128
    torch.export.save(program, tmp_path / "m.pt2")
    sets = [f"{k}={v}" for k, v in FOR_GPU.items()]
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", "--device", "cuda", *sets_of(sets))
    environment = on_the_fake_driver(definition, tmp_path)
    for n in (100, 129):
        x, y = torch.randn(n), torch.randn(n)
        save_file({"x": x, "y": y}, tmp_path / "in")
        coil_ok("run", tmp_path / "m.coil", "--inputs", tmp_path / "in", "--outputs", tmp_path / "out", env=environment)
        torch.testing.assert_close(load_file(tmp_path / "out")["output"], x + 3 * y)
    # A grid of zero launches nothing.
    save_file({"x": torch.empty(0), "y": torch.empty(0)}, tmp_path / "in")
    coil_ok("run", tmp_path / "m.coil", "--inputs", tmp_path / "in", "--outputs", tmp_path / "out", env=environment)
    assert load_file(tmp_path / "out")["output"].shape == (0,)
    # Blocks and threads; the number in the low half of its word; no memory for scratch.
    assert (tmp_path / "launches").read_text().splitlines() == [
        "2 1 1 x 128: 64 0 0 aligned 1",
        "3 1 1 x 128: 81 0 0 aligned 1",
    ]


def test_descriptors_in_packages(tmp_path, kernel_cache):
    """The runtime has the driver describe the tensors: byte by byte what Triton's own launcher tells it."""
    program = for_gpu(programs.ScaledTiles(), (torch.randn(20, 36),), kernel_cache, ({0: ROWS},))
    (definition,) = definitions(program)
    tile = {"element": 7, "swizzle": 2, "box": [8, 16]}
    entries = [(p["kind"], p.get("bytes", 8), p.get("map")) for p in definition["parameters"]]
    described = [("size", 4, None)] * 2 + [("stride", 8, None)] * 2
    assert entries == [
        *[("tensor", 128, tile), *described] * 2,
        ("constant", 4, None),
        *[("constant", 8, None)] * 2,
    ]
    torch.export.save(program, tmp_path / "m.pt2")
    sets = sets_of(f"{k}={v}" for k, v in FOR_GPU.items())
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", "--device", "cuda", *sets)
    plan = (tmp_path / "m.coil").read_bytes()
    assert b'"version":13' in plan and b'"tensor_maps":[{' in plan
    environment = on_the_fake_driver(definition, tmp_path, "user_tiles_kernel.cpp")
    for n in (20, 33):
        x = torch.randn(n, 36)
        save_file({"x": x}, tmp_path / "in")
        coil_ok("run", tmp_path / "m.coil", "--inputs", tmp_path / "in", "--outputs", tmp_path / "out", env=environment)
        assert torch.equal(load_file(tmp_path / "out")["output"], x * 2.5)
    lines = (tmp_path / "launches").read_text().splitlines()
    for n, (head, *maps) in ((20, lines[:3]), (33, lines[3:])):
        assert head == f"{-(-n // 8)} 3 1 x 128, 0 0"
        said = f"element 7 rank 2 modes 0 2 2 0 tile 16 8 of 36 {n} by 144, {n} 36 by 36 1"
        assert maps == [said, said]


@pytest.fixture
def made_tiles(kernel_cache, tmp_path):
    """(archive, definition) of a kernel that makes descriptors for itself."""
    program = for_gpu(programs.MadeTiles(), (torch.randn(20, 36),), kernel_cache, ({0: ROWS},))
    torch.export.save(program, tmp_path / "m.pt2")
    return tmp_path / "m.pt2", *definitions(program)


def test_a_workspace_in_packages(made_tiles, tmp_path):
    """Lines of the wrapper allocate it before the call and free it after."""
    archive, definition = made_tiles
    assert definition["workspace_bytes"] == 256
    assert [p["kind"] for p in definition["parameters"] if p["name"] == "scratch"] == ["workspace", "constant"]
    sets = sets_of(f"{k}={v}" for k, v in FOR_GPU.items())
    log = coil_ok("compile", archive, "-o", tmp_path / "m.coil", "--device", "cuda", *sets, "--log", "wrapper").stderr
    call = re.search(r"user_kernel made_tiles_kernel_\w+\(\w+, &\w+, &(\w+); ", log)
    lines = [line.split("] ", 1)[-1].strip() for line in log.splitlines()]
    at = next(k for k, line in enumerate(lines) if line.startswith("user_kernel"))
    assert f"allocate {call[1]}" in lines[:at] and lines[at + 1] == f"free {call[1]}", log
    environment = on_the_fake_driver(definition, tmp_path, "user_made_tiles_kernel.cpp")
    for n in (20, 3000):
        x = torch.randn(n, 36)
        save_file({"x": x}, tmp_path / "in")
        files = ("--inputs", tmp_path / "in", "--outputs", tmp_path / "out")
        coil_ok("run", tmp_path / "m.coil", *files, env=environment)
        torch.testing.assert_close(load_file(tmp_path / "out")["output"], x * 2.5)
    assert (tmp_path / "launches").read_text().splitlines() == [
        "3 3 x 128: 20 by 36, workspace at a multiple of 128: 1",
        "375 3 x 128: 3000 by 36, workspace at a multiple of 128: 1",
    ]


@pytest.mark.parametrize("form", ["cpp", "python", "fx"])
def test_a_workspace_in_forms(form, made_tiles, tmp_path):
    out = tmp_path / f"m.{'cpp' if form == 'cpp' else 'py'}"
    sets = sets_of(f"{k}={v}" for k, v in FOR_GPU.items())
    coil_ok("compile", made_tiles[0], "-o", out, f"--emit={form}", "--device", "cuda", *sets)
    text = out.read_text()
    if form == "cpp":
        call = re.search(
            r"queue\.launch\(made_tiles_kernel_.*, pointer\((\w+)\.data(?:\(\))?, 0\), Argument\{0, 8\}\}", text
        )
        assert text.index(f" {call[1]}") < call.start()
        flags = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{ROOT}/include"]
        done = subprocess.run(["g++", *flags, out], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:2000]
    else:
        compile(text, str(out), "exec")
        assert "    has_workspace=True,\n" in text and ".written = (False, True, True)\n" in text
    if form == "python":
        # The workspace is a tensor of the program's, given up behind the call.
        call = re.search(r"made_tiles_kernel_\w+\(\[\w+, \w+, (\w+)\], ", text)
        assert re.search(rf"^ +{call[1]} = .*uint8", text[: call.start()], re.M), text[-3000:]


def test_triton_finds_the_workspace_that_a_call_gives():
    """As its launcher asks for it, and nothing of that stays behind."""
    from triton.runtime._allocation import _allocator

    from coil.host import _support

    seen, memory = [], torch.empty(8)
    before = _allocator.get()
    _support().with_workspace(lambda *_: memory, lambda: seen.append(_allocator.get()(256, 128, None)))
    assert seen == [memory] and _allocator.get() is before


def test_descriptors_for_a_gpu_without_them(kernel_cache):
    """The kernel takes the tensors, with sizes and strides as its own code and Triton's need them."""
    program = coil.with_user_kernels(
        exported(programs.Tiles(), (torch.randn(20, 36),)),
        "cuda",
        FOR_GPU | {"cuda.arch": "sm_80", "cache": kernel_cache},
    )
    (definition,) = definitions(program)
    one = [("tensor", 8), *[("size", 8)] * 2, *[("stride", 8)] * 2, *[("constant", 1)] * 2]
    one += [("size", 4)] * 2 + [("stride", 8)] * 2
    entries = [(p["kind"], p.get("bytes", 8)) for p in definition["parameters"]]
    assert entries == [*one, *one, ("constant", 4), *[("constant", 8)] * 2]


def sets_of(settings):
    return [part for s in settings for part in ("--set", s)]


@pytest.mark.parametrize("form", ["cpp", "python", "fx"])
def test_forms_have_descriptors(form, tmp_path, kernel_cache):
    program = for_gpu(programs.Tiles(), (torch.randn(20, 36),), kernel_cache, ({0: ROWS},))
    torch.export.save(program, tmp_path / "m.pt2")
    sets = sets_of(f"{k}={v}" for k, v in FOR_GPU.items())
    out = tmp_path / f"m.{'cpp' if form == 'cpp' else 'py'}"
    coil_ok("compile", tmp_path / "m.pt2", "-o", out, f"--emit={form}", "--device", "cuda", *sets)
    text = out.read_text()
    if form == "cpp":
        assert re.search(r"queue\.tensor_map\(pointer\(.*\), 7, 2, \{8, 16\}, \{.*, 36\}, \{144, 4\}\);", text)
        assert "map0.argument()" in text and "map1.argument()" in text
        flags = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{ROOT}/include"]
        done = subprocess.run(["g++", *flags, out], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:2000]
    else:
        compile(text, str(out), "exec")
        assert re.search(r"descriptors=\{\"(x|out)\": \[8, 16\], \"(x|out)\": \[8, 16\]\}", text)


@pytest.mark.parametrize("form", ["cpp", "python", "fx"])
def test_forms_for_a_gpu_say_the_launch(form, tmp_path, kernel_cache):
    program = for_gpu(programs.Around(), (torch.randn(101), torch.randn(101)), kernel_cache)
    (definition,) = definitions(program)
    torch.export.save(program, tmp_path / "m.pt2")
    sets = sets_of(f"{k}={v}" for k, v in FOR_GPU.items())
    out = tmp_path / f"m.{'cpp' if form == 'cpp' else 'py'}"
    coil_ok("compile", tmp_path / "m.pt2", "-o", out, f"--emit={form}", "--device", "cuda", *sets)
    text, symbol = out.read_text(), definition["symbol"]
    if form == "cpp":
        assert f"queue.launch({symbol}, {{pointer(" in text
        done = subprocess.run(
            ["g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{ROOT}/include", out],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr[:2000]
    else:
        compile(text, str(out), "exec")
        assert f"{symbol} = UserKernel(" in text and "def scaled_sum(a, b):" in text


@pytest.mark.parametrize("form", ["python", "fx"])
def test_forms_in_python_give_eagers_values(form, tmp_path):
    """The kernels' source text, with its docstrings, quotes and backslashes, runs as it stands in the file."""
    x, y = torch.randn(101), torch.randn(101)
    program = coil.with_user_kernels(exported(programs.Around(), (x, y)))
    torch.export.save(program, tmp_path / "m.pt2")
    out = tmp_path / "m.py"
    coil_ok("compile", tmp_path / "m.pt2", "-o", out, f"--emit={form}", "--set", "cpu.isa=avx2")
    written = load_module(out)
    (got,) = written.call([x, y]) if form == "python" else written.load()(x, y)
    torch.testing.assert_close(got, (x.sin()[1:] + 3 * (y + 1)[1:]).relu(), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("form", ["python", "fx"])
def test_forms_in_python_make_descriptors(form, tmp_path):
    x = torch.randn(20, 36)
    torch.export.save(coil.with_user_kernels(exported(programs.Tiles(), (x,))), tmp_path / "m.pt2")
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.py", f"--emit={form}", "--set", "cpu.isa=avx2")
    written = load_module(tmp_path / "m.py")
    (got,) = written.call([x]) if form == "python" else written.load()(x)
    torch.testing.assert_close(got, (x.sin() * 2.5).relu() + x.sin(), rtol=2e-6, atol=2e-6)


def test_a_package_for_the_cpu_is_run_by_python(tmp_path):
    x, y = torch.randn(101), torch.randn(101)
    model = coil.compile(exported(programs.Around(), (x, y)), options={"cache": "none"})
    model.save(tmp_path / "m.coil")
    want = (x.sin()[1:] + 3 * (y + 1)[1:]).relu()
    torch.testing.assert_close(coil.load(tmp_path / "m.coil")(x, y), want, rtol=2e-6, atol=2e-6)
    save_file({"x": x, "y": y}, tmp_path / "in")
    done = command("run", tmp_path / "m.coil", "--inputs", tmp_path / "in", "--outputs", tmp_path / "out")
    assert done.returncode == 1 and "coil.user_kernel.default" in done.stderr


# ---- Sizes that are free, operators made of kernels, training ----


def test_one_compile_serves_all_sizes():
    run = torch.compile(programs.fused, backend="coil", dynamic=True, fullgraph=True, options={"cache": "none"})
    for n in (5, 7, 200, 1000):
        x, y = torch.randn(n, 13), torch.randn(n, 13)
        want, _ = expected(programs.fused, (x, y))
        with torch._dynamo.config.patch(error_on_recompile=n > 5):
            same(run(x, y), want)


def test_an_operator_made_of_kernels():
    x = torch.randn(100)
    same(torch.compile(programs.doubled, backend="coil", fullgraph=True, options={"cache": "none"})(x), x * 2 + 1)
    exported_twice = coil.compile(torch.export.export(programs.Doubled(), (x,)), options={"cache": "none"})
    same(exported_twice(x), x * 2 + 1)


def test_a_kernel_in_a_step_of_training():
    x = torch.randn(64, requires_grad=True)
    run = torch.compile(lambda x: (programs.Twice.apply(x.sin()) ** 2).sum(), backend="coil", options={"cache": "none"})
    run(x).backward()
    want = torch.autograd.grad(((2 * x.sin()) ** 2).sum(), x)[0]
    torch.testing.assert_close(x.grad, want, rtol=1e-5, atol=1e-5)


# ---- What compiled kernels are found again by ----

TEXT = """
import triton
import triton.language as tl
import {helpers} as helpers

SCALE = tl.constexpr(2.0)


@triton.jit
def inner(x):
    return x * SCALE


@triton.jit
def outer_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, helpers.shifted(inner(tl.load(x + at, at < n))), at < n)
"""
HELPERS = """
import triton
import triton.language as tl

SHIFT = tl.constexpr(1.0)


@triton.jit
def shifted(x):
    return x + SHIFT
"""


def key_of(folder, text=TEXT, helpers=HELPERS, numbers=itertools.count()):
    """The key of outer_kernel in modules of these texts."""
    from coil import triton_source

    name = f"helpers_of_a_test_{next(numbers)}"
    (folder / f"{name}.py").write_text(helpers)
    path = folder / f"kernels_of_a_test_{next(numbers)}.py"
    path.write_text(text.replace("{helpers}", name))
    sys.path.insert(0, str(folder))
    try:
        module = load_module(path)
    finally:
        sys.path.remove(str(folder))
    # The module's own name is new each time.
    keys = [p.replace(name, "helpers") for p in triton_source._pieces(module.outer_kernel, {})]
    return hashlib.sha256("\0".join(keys).encode()).hexdigest()


@pytest.mark.parametrize(
    "edit",
    {
        "a helper": lambda t, h: (t.replace("x * SCALE", "x / SCALE"), h),
        "a global's value": lambda t, h: (t.replace("constexpr(2.0)", "constexpr(3.0)"), h),
        "a helper in another module": lambda t, h: (t, h.replace("x + SHIFT", "x - SHIFT")),
        "a global in another module": lambda t, h: (t, h.replace("constexpr(1.0)", "constexpr(4.0)")),
        "the kernel": lambda t, h: (t.replace("at < n))), at", "at < n, 0.0))), at"), h),
    }.items(),
    ids=lambda item: item[0],
)
def test_an_edit_of_what_a_kernel_uses_makes_another_key(edit, tmp_path):
    assert key_of(tmp_path, *edit[1](TEXT, HELPERS)) != key_of(tmp_path)


def test_an_edit_elsewhere_keeps_the_key(tmp_path):
    elsewhere = "# a comment\n" + TEXT.replace("SCALE = tl", "OTHER = 5\nSCALE = tl") + "\n\ndef f():\n    return 1\n"
    assert key_of(tmp_path, elsewhere, HELPERS + "\nUNUSED = 7\n") == key_of(tmp_path)


def test_constants_options_and_targets_are_in_the_key():
    from coil.triton_source import key

    facts = [({"B": 16}, {"num_warps": 4}, 90), ({"B": 32}, {"num_warps": 4}, 90), ({"B": 16}, {"num_warps": 8}, 90)]
    facts.append(({"B": 16}, {"num_warps": 4}, 80))
    keys = [key(programs.add_kernel, *f) for f in facts]
    assert len(set(keys)) == len(keys) and keys[0] == key(programs.add_kernel, *facts[0])


def test_a_second_process_compiles_nothing(kernel_cache, tmp_path):
    script = (
        "import sys, torch, triton\n"
        "import torch.utils._triton; torch.utils._triton.has_triton = lambda: True\n"
        "import coil, triton_programs as programs\n"
        "made = []\n"
        "compile = triton.compile\n"
        "triton.compile = lambda *a, **k: made.append(0) or compile(*a, **k)\n"
        "program = torch.export.export(programs.Add(), (torch.zeros(48), torch.zeros(48)), strict=True)\n"
        "coil.with_user_kernels(program, 'cuda', {'cuda.arch': 'sm_90', 'cache': sys.argv[1]})\n"
        "print(len(made))\n"
    )
    path = os.pathsep.join([str(pathlib.Path(__file__).parent), *sys.path])
    counts = [
        subprocess.run(
            [sys.executable, "-c", script, tmp_path / "cache"],
            capture_output=True,
            text=True,
            env=os.environ | {"PYTHONPATH": path},
        ).stdout.split()
        for _ in range(2)
    ]
    assert counts == [["1"], ["0"]]
    (entry,) = (tmp_path / "cache" / "triton").iterdir()
    entry.write_text(entry.read_text()[:-100])  # torn: a miss
    compiler = coil.triton_kernels.Compiler({}, tmp_path / "cache")
    assert compiler.cached(entry.stem, lambda: "made again") == "made again"


# ---- What is refused ----


def refused(function, args, device="cuda", options=FOR_GPU):
    class Program(torch.nn.Module):
        def forward(self, *args):
            return function(*args)

    with pytest.raises(coil.Error) as error:
        coil.with_user_kernels(exported(Program(), args), device, options | {"cache": "none"})
    return str(error.value)


def test_a_kernel_that_does_not_compile():
    said = refused(programs.broken, (torch.randn(8),))
    line = next(
        k
        for k, text in enumerate(pathlib.Path(programs.__file__).read_text().splitlines(), 1)
        if "no_such_name" in text
    )
    assert re.match(r"the Triton kernel broken_kernel \(.*triton_programs.py:\d+\) does not compile: ", said), said
    assert "no_such_name" in said and said.endswith(f"triton_programs.py:{line})")


def test_too_much_shared_memory():
    said = refused(programs.gathered, (torch.randn(65536), torch.zeros(65536, dtype=torch.int32)))
    assert re.match(r"the Triton kernel gather_kernel \(.*triton_programs.py:\d+\) needs ", said), said
    assert "needs 262144 bytes of shared memory, but a block of sm_90 has 232448" in said


def test_a_dtype_that_triton_lacks():
    said = refused(lambda x: programs.even(x.to(torch.complex64)).real, (torch.randn(8),))
    assert re.match(r"the Triton kernel even_kernel \(.*triton_programs.py:\d+\) takes a tensor of ", said), said
    assert "a tensor of torch.complex64 for `x`, which Triton has no type for" in said


def test_arguments_of_another_dtype():
    """Than the kernel's annotation says, or than its operations take."""
    said = refused(programs.annotated, (torch.randn(8),))
    assert re.match(r"the Triton kernel annotated_kernel \(.*triton_programs.py:\d+\) takes a float for `n`", said), (
        said
    )
    said = refused(programs.placed_by_floats, (torch.randn(8),))
    assert re.match(r"the Triton kernel placed_kernel \(.*triton_programs.py:\d+\) does not compile: ", said), said
    assert re.search(r"\(at .*triton_programs.py:\d+\)$", said), said


def test_a_gpu_that_nobody_names():
    options = {k: v for k, v in FOR_GPU.items() if k != "cuda.arch"}
    assert "cuda.arch" in refused(programs.add, (torch.randn(8), torch.randn(8)), options=options)


def test_without_triton(monkeypatch):
    program = exported(programs.Add(), (torch.randn(8), torch.randn(8)))
    monkeypatch.setitem(sys.modules, "triton", None)
    said = r"^the Triton kernel add_kernel \(.*triton_programs.py:\d+\) is compiled by Triton, which is not installed; "
    with pytest.raises(coil.Error, match=said + "pip install triton$"):
        coil.with_user_kernels(program, "cuda", FOR_GPU | {"cache": "none"})


def test_a_program_in_python_without_triton(tmp_path):
    """The written program says which kernel it cannot run, and where its text came from."""
    x = torch.randn(64)
    torch.export.save(coil.with_user_kernels(exported(programs.Add(), (x, x))), tmp_path / "m.pt2")
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.py", "--emit=python", "--set", "cpu.isa=avx2")
    script = "import sys; sys.modules['triton'] = None\nimport torch, m\nm.call([torch.zeros(64), torch.zeros(64)])\n"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    said = r"the kernel add_kernel \(.*triton_programs.py:\d+\) needs Triton, which is not installed"
    assert done.returncode and re.search(said, done.stderr), done.stderr


def test_descriptors_that_cannot_be_made():
    assert "rows do not begin at multiples of 16 bytes; pad them" in refused(programs.tiles, (torch.randn(20, 37),))
    turned = lambda x: programs.tiles(x.t())  # noqa: E731
    assert "last dimension is not contiguous; give it a copy" in refused(turned, (torch.randn(16, 24),))


def test_descriptors_of_the_old_interface():
    """Triton has no `triton.tools.experimental_descriptor` any more; torch still has the words for what it made."""
    from torch._higher_order_ops.triton_kernel_wrap import create_tma_experimental_metadata

    program = torch.export.export(programs.Tiles(), (torch.randn(20, 36),), strict=True)
    (call,) = filter(coil.triton_kernels.is_call, program.graph.nodes)
    old = {name: create_tma_experimental_metadata([20, 36], [8, 16], 4) for name in ("x", "out")}
    call.kwargs = dict(call.kwargs) | {"tma_descriptor_metadata": old, "tensors_to_clone": ["out"]}
    said = (
        r"^the Triton kernel tiles_kernel \(.*triton_programs.py:\d+\) takes a descriptor of Triton's old interface "
        r"\(create_1d_tma_descriptor and the like\) for `x`, which Triton has up to 3.3 alone; make it by "
        r"TensorDescriptor.from_tensor, which it has from 3.4 on$"
    )
    with pytest.raises(coil.Error, match=said):
        coil.triton_kernels.Compiler(FOR_GPU, None, "cuda").call(call)


def test_no_configuration_is_left():
    said = refused(programs.pruned, (torch.randn(8),))
    assert re.match(r"the Triton kernel pruned_kernel \(.*triton_programs.py:\d+\) has no configuration left", said), (
        said
    )
    assert "after pruning" in said


def test_a_kernel_of_another_gpu(tmp_path, kernel_cache):
    """The package tells which kernel, and where its text is."""
    program = for_gpu(programs.Add(), (torch.randn(64), torch.randn(64)), kernel_cache)
    torch.export.save(program, tmp_path / "m.pt2")
    sets = sets_of(f"{k}={v}" for k, v in FOR_GPU.items())
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", "--device", "cuda", *sets)
    save_file({"x": torch.randn(64), "y": torch.randn(64)}, tmp_path / "in")
    environment = ENVIRONMENT | {"LD_LIBRARY_PATH": os.path.join(BUILD, "lib", "fake_cuda")}
    done = command("run", tmp_path / "m.coil", "--inputs", tmp_path / "in", env=environment)
    assert done.returncode == 1 and "add_kernel (" in done.stderr and "triton_programs.py:" in done.stderr
