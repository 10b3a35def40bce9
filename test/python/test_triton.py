"""Kernels that users wrote in Triton: programs compared with eager, where Triton's interpreter runs them; what is
compiled for a GPU without one; what is refused.
"""

import json
import os
import pathlib
import subprocess

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


def on_the_fake_driver(definition, folder):
    """The environment of a process whose GPU is the fake one, with the kernel written in C++."""
    library = folder / "kernel.so"
    source = SOURCES / "user_add_kernel.cpp"
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
    program = for_gpu(programs.Add(), args, kernel_cache, ({0: ROWS}, {0: ROWS}))
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
    # Blocks and threads; the number in the low half of its word; no memory for scratch.
    assert (tmp_path / "launches").read_text().splitlines() == [
        "2 1 1 x 128: 64 0 0 aligned 1",
        "3 1 1 x 128: 81 0 0 aligned 1",
    ]


def sets_of(settings):
    return [part for s in settings for part in ("--set", s)]


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


def test_a_package_for_the_cpu_is_run_by_python(tmp_path):
    x, y = torch.randn(101), torch.randn(101)
    model = coil.compile(exported(programs.Around(), (x, y)), options={"cache": "none"})
    model.save(tmp_path / "m.coil")
    want = (x.sin()[1:] + 3 * (y + 1)[1:]).relu()
    torch.testing.assert_close(coil.load(tmp_path / "m.coil")(x, y), want, rtol=2e-6, atol=2e-6)
    save_file({"x": x, "y": y}, tmp_path / "in")
    done = command("run", tmp_path / "m.coil", "--inputs", tmp_path / "in", "--outputs", tmp_path / "out")
    assert done.returncode == 1 and "coil.user_kernel.default" in done.stderr
