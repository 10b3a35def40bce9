"""Where there is no GPU: all CUDA text of these programs compiles, for each generation of machines, and packages are
made.
"""

import importlib.util
import json
import pathlib
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
