"""Where there is no GPU: all CUDA text of these programs compiles, for each generation of machines, and packages are
made.
"""

import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sysconfig
import zipfile

import pytest
import torch

import models
from batch import Batch
from coil_harness import CoilError, coil_ok, export
from test_cuda_products import IN_FRONT, IN_PARTS
from test_cuda_values import SHAPES
from test_ops import CHUNKS

FOUND = importlib.util.find_spec("nvidia")
PLACE = next(
    (p for p in (FOUND.submodule_search_locations if FOUND else []) if list(pathlib.Path(p).rglob("libnvrtc.so*"))),
    None,
)
NVRTC = pathlib.Path(PLACE).parent if PLACE else None
pytestmark = pytest.mark.skipif(NVRTC is None, reason="nvidia-cuda-nvrtc is not installed")


def compile_for(arch, module, args, folder, *settings):
    export(module, args, folder / "m.pt2")
    coil_ok(
        "compile",
        folder / "m.pt2",
        "-o",
        folder / "m.coil",
        "--device",
        "cuda",
        "--set",
        f"cuda.arch={arch}",
        "--set",
        f"cuda.nvrtc={NVRTC}",
        *settings,
    )
    return folder / "m.coil"


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", pytest.param("sm_100", marks=pytest.mark.full)])
def test_forms_compile(arch, tmp_path):
    package = compile_for(arch, Batch(SHAPES), ({c.name: c.args for c in SHAPES},), tmp_path)
    assert b"\x7fELF" in package.read_bytes() or package.stat().st_size > 10000


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_products_with_what_is_in_front_compile(arch, tmp_path):
    cases = IN_FRONT + IN_PARTS
    args = ({c.name: c.args for c in cases},)
    compile_for(arch, Batch(cases), args, tmp_path, "--set", "cuda.products=own")


@pytest.mark.parametrize(
    "chunk", ["unary0", "reductions0", "special0", "selection0", "selection1", "gradients_convolutions0", "solves0"]
)
def test_operators_compile(chunk, tmp_path):
    cases = CHUNKS[chunk]
    compile_for("sm_90a", Batch(cases), ({c.name: c.args for c in cases},), tmp_path)


def test_explain_names_what_the_host_does(tmp_path):
    export(
        Batch([c := next(c for c in CHUNKS["solves0"] if c.name.startswith("cholesky"))]),
        ({c.name: c.args},),
        tmp_path / "m.pt2",
    )
    options = ("--device", "cuda", "--set", "cuda.arch=sm_90a", "--set", f"cuda.nvrtc={NVRTC}")
    assert "library cholesky on cpu" in coil_ok("explain", tmp_path / "m.pt2", *options).stdout
    assert " on cpu" not in coil_ok("explain", tmp_path / "m.pt2").stdout


class ScaledSoftmax(torch.nn.Module):
    def forward(self, x, y):
        return torch.softmax(x * 0.5, -1), (x + y).sum(0)


def show_binaries(tmp_path, *names, path=None, module=None, args=None):
    export(module or ScaledSoftmax(), args or (torch.randn(64, 3000), torch.randn(64, 3000)), tmp_path / "m.pt2")
    options = ("--device", "cuda", "--set", "cuda.arch=sm_90", "--set", f"cuda.nvrtc={NVRTC}")
    options += ("--set", "cuda.combine_launches=false")
    env = {**os.environ, **({"PATH": path} if path else {})}
    done = coil_ok(
        "compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", *options, "--log", ",".join(names), env=env
    )
    return done.stderr


def test_ptx_of_the_kernels_is_shown(tmp_path):
    shown = show_binaries(tmp_path, "ptx")
    assert ".target sm_90" in shown
    assert shown.count(".visible .entry coil_") == 2


class Widened(torch.nn.Module):
    """Points and rows of 16-bit elements that are stored in f32."""

    def forward(self, x, y):
        return torch.nn.functional.gelu(x.float()), torch.softmax(y.float(), -1)


def test_a_thread_stores_sixteen_bytes_at_once(tmp_path):
    args = tuple(torch.randn(4096, 1024).bfloat16() for _ in range(2))
    shown = show_binaries(tmp_path, "ptx", module=Widened(), args=args)
    stores = re.findall(r"st\.global\.v4\.\w+\s+\[(%rd\d+)(?:\+(\d+))?\]", shown)
    assert len({base for base, _ in stores}) >= 2
    assert "16" not in {offset for _, offset in stores}


RESOURCES = re.compile(
    r"(coil_\w+): (\d+) registers, (.*) of shared memory, (.*) of stack; (\d+) blocks of (\d+) threads at once, "
    r"(\d+) % of all threads, limited by (threads|blocks|registers|shared memory)"
)


def test_what_kernels_take_of_a_multiprocessor(tmp_path):
    kernels = RESOURCES.findall(show_binaries(tmp_path, "resources"))
    assert len(kernels) == 2
    for _, registers, _, stack, blocks, threads, share, _ in kernels:
        assert 8 <= int(registers) <= 255 and stack == "0 B"
        assert int(share) == round(100 * int(blocks) * int(threads) / 2048)
    options = ("--device", "cuda", "--set", "cuda.arch=sm_90", "--set", f"cuda.nvrtc={NVRTC}")
    options += ("--set", "cuda.combine_launches=false")
    explained = coil_ok("explain", tmp_path / "m.pt2", *options).stdout
    assert RESOURCES.findall(explained.split("What kernels take of a multiprocessor")[1]) == kernels
    assert "What kernels take" not in coil_ok("explain", tmp_path / "m.pt2").stdout


TOOLS = pathlib.Path(sysconfig.get_paths()["purelib"]) / "triton/backends/nvidia/bin"  # CUDA's, which Triton brings


@pytest.mark.skipif(not (TOOLS / "nvdisasm").exists(), reason="there is no nvdisasm")
def test_instructions_of_the_kernels_are_shown(tmp_path):
    shown = show_binaries(tmp_path, "sass", path=f"{TOOLS}:{os.environ['PATH']}")
    assert len(set(re.findall(r"\.text\.(coil_\w+):", shown))) == 2
    assert "EXIT" in shown


@pytest.mark.skipif(not (TOOLS / "cuobjdump").exists(), reason="there is no cuobjdump")
def test_what_kernels_take_is_what_the_toolkit_sees(tmp_path):
    ours = {
        symbol: (int(registers), shared)
        for symbol, registers, shared, *_ in RESOURCES.findall(show_binaries(tmp_path, "resources"))
    }
    seen = {}
    with zipfile.ZipFile(tmp_path / "m.coil") as package:
        for name in package.namelist():
            if package.read(name).startswith(b"\x7fELF"):
                package.extract(name, tmp_path)
                told = subprocess.run(
                    [TOOLS / "cuobjdump", "--dump-resource-usage", tmp_path / name],
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
                for symbol, registers, stack, shared in re.findall(
                    r"Function (coil_\w+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+)", told
                ):
                    assert stack == "0"
                    seen[symbol] = (int(registers), int(shared))
    assert seen.keys() == ours.keys()
    for symbol, (registers, shared) in seen.items():
        own = shared - 1024 if shared else 0  # the machine's own part
        text = f"{own} B" if own < 1024 else f"{own / 1024:.1f} KiB"
        assert ours[symbol] == (registers, text)


def test_a_machine_without_a_disassembler_says_so(tmp_path):
    folders = [f for f in os.environ["PATH"].split(os.pathsep) if not (pathlib.Path(f) / "nvdisasm").exists()]
    shown = show_binaries(tmp_path, "sass", path=os.pathsep.join(folders))
    assert "EXIT" in shown or "no nvdisasm in PATH" in shown  # it may be in the toolkit's folder


@pytest.mark.parametrize("name", ["encoder"])
def test_model_compiles(name, tmp_path):
    module, args = getattr(models, name)()[:2]
    compile_for("sm_90a", module.eval(), args, tmp_path)


def test_autotune_without_a_device(tmp_path):
    """Nothing can be timed: the program is the one without it, and the log says why."""
    export(torch.nn.ReLU(), (torch.randn(3000, 64),), tmp_path / "m.pt2")
    options = ("--device", "cuda", "--set", "cuda.arch=sm_90a", "--set", f"cuda.nvrtc={NVRTC}")
    done = coil_ok(
        "compile",
        tmp_path / "m.pt2",
        "-o",
        tmp_path / "tuned.coil",
        *options,
        "--set",
        "max_autotune=true",
        "--log",
        "autotune",
    )
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "plain.coil", *options)
    assert "nothing was measured: " in done.stdout + done.stderr
    assert (tmp_path / "tuned.coil").read_bytes() == (tmp_path / "plain.coil").read_bytes()


def test_launch_configs_are_numbers(tmp_path):
    export(torch.nn.ReLU(), (torch.randn(3),), tmp_path / "m.pt2")
    with pytest.raises(CoilError, match="cuda.launch_config is wide"):
        coil_ok(
            "compile",
            tmp_path / "m.pt2",
            "-o",
            tmp_path / "m.coil",
            "--set",
            "cuda.emulate=true",
            "--set",
            "cuda.launch_config=wide",
        )


def test_no_nvrtc(tmp_path):
    export(torch.nn.ReLU(), (torch.randn(3),), tmp_path / "m.pt2")
    with pytest.raises(CoilError, match="cuda.nvrtc"):
        coil_ok(
            "compile",
            tmp_path / "m.pt2",
            "-o",
            tmp_path / "m.coil",
            "--device",
            "cuda",
            "--set",
            f"cuda.nvrtc={tmp_path}",
        )


def test_a_program_is_for_the_device_that_was_named(tmp_path):
    export(torch.nn.ReLU(), (torch.randn(3),), tmp_path / "m.pt2")
    for name in ("cuda", "cuda:0", "cuda:3"):
        coil_ok(
            "compile",
            tmp_path / "m.pt2",
            "-o",
            tmp_path / "m.coil",
            "--device",
            name,
            "--set",
            "cuda.arch=sm_90a",
            "--set",
            f"cuda.nvrtc={NVRTC}",
        )
        with zipfile.ZipFile(tmp_path / "m.coil") as package:
            assert json.loads(package.read("manifest.json"))["device"] == (name if ":" in name else "cuda:0")


class Patches(torch.nn.Module):
    """Patches of a picture as rows of tokens, and norms of these."""

    def __init__(self, spatial):
        super().__init__()
        kind = {1: torch.nn.Conv1d, 2: torch.nn.Conv2d}[spatial]
        self.patches = kind(3, 768, 16, 16)
        self.norms = torch.nn.ModuleList([torch.nn.LayerNorm(768), torch.nn.LayerNorm(768)])
        self.linear = torch.nn.Linear(768, 768)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = x + self.linear(self.norms[0](x))
        return self.norms[1](x)


@pytest.mark.parametrize("shape", [(1, 3, 224, 224), (4, 3, 4000)])
def test_norms_of_tokens_behind_a_convolution_are_kernels_each(shape, tmp_path):
    """However few tokens there are: their rows are no channels of a picture, and a block adds up a row."""
    export(Patches(len(shape) - 2).eval(), (torch.randn(shape),), tmp_path / "m.pt2")
    options = ("--device", "cuda", "--set", "cuda.arch=sm_90a", "--set", f"cuda.nvrtc={NVRTC}", "--emit", "wrapper")
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.txt", *options)
    lines = [line.strip() for line in (tmp_path / "m.txt").read_text().splitlines()]
    assert sum(line.startswith("launch ") for line in lines) <= 4
