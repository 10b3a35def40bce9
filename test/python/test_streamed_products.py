"""Products whose operands a GPU's copy engine fetches (sm_90a): what descriptors of tensors say in each output form,
and, where there is such a GPU, values in each form against eager.
"""

import pathlib
import re
import subprocess

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from coil_harness import ENVIRONMENT, ROOT, coil_ok, dense, difference, named_inputs, named_outputs, run
from emitted import build_program, call_program, emit, load_module
from test_cuda_text import NVRTC

BF16 = torch.bfloat16
HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
needs_nvrtc = pytest.mark.skipif(NVRTC is None, reason="nvidia-cuda-nvrtc is not installed")
OWN = ("--device", "cuda", "--set", "cuda.products=own")
TEXT = (*OWN, "--set", "cuda.arch=sm_90", "--set", f"cuda.nvrtc={NVRTC}")
ROWS = torch.export.Dim("rows", min=2, max=4096)


class Part(torch.nn.Module):
    def forward(self, x, w):
        return x[:, 8:] @ w


class Gate(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(136, 264).bfloat16()

    def forward(self, x, g):
        return F.silu(self.up(x)) * g


class Heads(torch.nn.Module):
    def forward(self, q, k, r):
        return torch.relu(q @ k.transpose(1, 2)) + r


def seeded(*sizes):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes))).to(BF16)


def archive_of(folder, module, args, dynamic=None):
    path = folder / "m.pt2"
    torch.export.save(torch.export.export(module, args, dynamic_shapes=dynamic), path)
    return path


@pytest.fixture
def part(tmp_path):
    return archive_of(tmp_path, Part(), (seeded(300, 72), seeded(64, 256)), ({0: ROWS}, None))


@needs_nvrtc
@pytest.mark.skipif(torch.cuda.is_available(), reason="the fake driver stands in for one where there is none")
def test_packages_tell_the_driver_of_the_operands(part, tmp_path):
    coil_ok("compile", part, "-o", tmp_path / "m.coil", *TEXT)
    plan = (tmp_path / "m.coil").read_bytes()
    assert b'"version":14' in plan
    (symbol,) = set(re.findall(rb"coil_product_[0-9a-f]{16}", plan))
    scalars = re.search(rb'"scalars":\[([^\]]*)\]', plan)[1].count(b",") + 1
    words = 3 + scalars + 1  # pointers, numbers, the status; then the next multiple of 64 bytes
    library = tmp_path / "kernel.so"
    source = pathlib.Path(__file__).parent / "sources" / "streamed_product.cpp"
    flags = [f"-DSYMBOL={symbol.decode()}_run", f"-DFIRST_MAP={(words + 7) // 8 * 8}"]
    subprocess.run(["g++", "-shared", "-fPIC", *flags, source, "-o", library], check=True)
    environment = ENVIRONMENT | {
        "LD_LIBRARY_PATH": str(ROOT / "build" / "lib" / "fake_cuda"),
        "COIL_FAKE_CUDA_KERNELS": str(library),
        "COIL_TEST_LAUNCHES": str(tmp_path / "launches"),
    }
    for rows in (300, 1025):
        x, w = seeded(rows, 72), seeded(64, 256)
        save_file({"x": x, "w": w}, tmp_path / "in")
        coil_ok("run", tmp_path / "m.coil", "--inputs", tmp_path / "in", "--outputs", tmp_path / "out", env=environment)
        want = x[:, 8:].float() @ w.float()
        torch.testing.assert_close(load_file(tmp_path / "out")["output"], want.to(BF16))
    said = (tmp_path / "launches").read_text().splitlines()
    assert len(said) == 6 and all(line.endswith("x 384") for line in said[::3])
    for rows, x, w in ((300, *said[1:3]), (1025, *said[4:6])):
        assert x == f"element 9 swizzle 3 tile 64 128 1 of 64 {rows} 1 by 144 16"
        assert re.fullmatch(r"element 9 swizzle 3 tile 64 (32|64) 1 of 256 64 1 by 512 16", w)


@needs_nvrtc
@pytest.mark.parametrize("form", ["cpp", "python", "fx"])
def test_forms_describe_the_operands(form, part, tmp_path):
    out = tmp_path / f"m.{'cpp' if form == 'cpp' else 'py'}"
    coil_ok("compile", part, "-o", out, f"--emit={form}", *TEXT)
    text = out.read_text()
    if form == "cpp":
        assert re.search(
            r"queue\.tensor_map\(pointer\(.*, 16\), 9, 3, \{1, 128, 64\}, \{1, \w+, 64\}, \{16, 144, 2\}\);", text
        )
        assert re.search(r"queue\.launch\(coil_product_\w+, .*, nullptr, \{map0, map1\}\);", text)
        flags = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{ROOT}/include"]
        done = subprocess.run(["g++", *flags, out], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:2000]
        return
    compile(text, str(out), "exec")
    assert 'device_arch(90) + "a"' in text or 'device_arch(0) + "a"' in text
    described = {
        "python": r"maps=\[\(0, 16, [\[(]1, \w+, 64[\])], [\[(]16, 144, 2[\])], 9, \[1, 128, 64\], 3\), \(1, 0, ",
        "fx": r"maps=\[0, 16, 9, 3, 3, 1, \w+, 64, 16, 144, 2, 1, 128, 64, 1, 0, 9, 3, 3, ",
    }
    assert re.search(described[form], text)


PROGRAMS = {
    "part": (Part(), [(seeded(300, 72), seeded(64, 256)), (seeded(2000, 72), seeded(64, 256))], ({0: ROWS}, None)),
    "gate": (Gate(), [(seeded(1000, 136), seeded(1000, 264))], None),
    "heads": (Heads(), [(seeded(3, 200, 64), seeded(3, 520, 64), seeded(200, 520))], None),
}


@pytest.mark.skipif(not HOPPER, reason="needs a GPU of compute capability 9.0")
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_form_gives_eagers_results(name, tmp_path):
    module, calls, dynamic = PROGRAMS[name]
    archive = archive_of(tmp_path, module, calls[0], dynamic)
    coil_ok("compile", archive, "-o", tmp_path / "m.coil", *OWN)
    files = emit(archive, "python", *OWN), emit(archive, "fx", *OWN)
    assert all("maps=" in pathlib.Path(f).read_text() for f in files)
    program = build_program(emit(archive, "cpp", *OWN))
    python, fx = load_module(files[0]).call, load_module(files[1]).load()
    for args in calls:
        here = [a.cuda() for a in args]
        with torch.no_grad():
            want = named_outputs(module.cuda()(*here))
        inputs = named_inputs(module, args)
        results = {
            "package": run(tmp_path / "m.coil", inputs, tmp_path),
            "cpp": call_program(program, inputs),
            "python": dict(zip(want, map(dense, python(here)), strict=True)),
            "fx": dict(zip(want, map(dense, fx(*here)), strict=True)),
        }
        for form, got in results.items():
            assert not any(difference(got[k], dense(want[k]), 2e-2) for k in want), form
