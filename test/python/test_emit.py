"""`--emit=cpp`: the source compiles alone against the runtime's C header, and gives eager's results."""

import re
import subprocess

import pytest
import torch
from safetensors.torch import load_file, save_file

from coil_harness import ENVIRONMENT, ROOT, check, coil_ok, differences, eager, export
from models import SMALL

MODELS = ["nested", "digits", "bert", "llama", "buffers"]


@pytest.mark.parametrize("name", MODELS)
def test_source_gives_eagers_results(name, tmp_path):
    module, args, dynamic, others = SMALL[name]()
    export(module, args, tmp_path / "m.pt2", dynamic)
    coil_ok("compile", tmp_path / "m.pt2", "--emit", "cpp", "-o", tmp_path / "m.cpp")
    built = subprocess.run(
        [
            "g++",
            "-std=c++20",
            "-O2",
            "-DCOIL_MAIN",
            f"-I{ROOT}/include",
            tmp_path / "m.cpp",
            f"-L{ROOT}/build/lib",
            "-lcoil_runtime",
            f"-Wl,-rpath,{ROOT}/build/lib",
            "-o",
            tmp_path / "program",
        ],
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr[-2000:]
    for each in [args, *others]:
        before, want = eager(module, each)
        save_file(before, tmp_path / "in.safetensors")
        done = subprocess.run(
            [tmp_path / "program", tmp_path / "in.safetensors", tmp_path / "out.safetensors"],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=ENVIRONMENT,
        )
        assert done.returncode == 0, done.stderr
        wrong = differences(load_file(tmp_path / "out.safetensors"), want, lambda _: {"tolerance": 2e-4})
        assert not wrong, "\n".join(wrong)


def test_the_source_names_no_machine(tmp_path):
    torch.manual_seed(0)
    module, args, dynamic, _ = SMALL["nested"]()
    texts = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        export(module, args, tmp_path / folder / "m.pt2", dynamic)
        coil_ok("compile", tmp_path / folder / "m.pt2", "--emit", "cpp", "-o", tmp_path / folder / "m.cpp")
        texts.append((tmp_path / folder / "m.cpp").read_text())
    assert texts[0] == texts[1] and str(tmp_path) not in texts[0]


class Named(torch.nn.Module):
    """A weight called as an input is, and inputs called as Coil calls what it computes."""

    def __init__(self):
        super().__init__()
        self.x, self.buf3 = (torch.nn.Parameter(torch.randn(4, 4)) for _ in range(2))

    def forward(self, x, buf6, buf7, buf8):
        return torch.softmax(x @ self.x + buf6, -1) @ self.buf3 * buf7.sum() + buf8


def test_names_that_coil_has_uses_for(tmp_path):
    module, args = Named(), tuple(torch.randn(4, 4) for _ in range(4))
    check(module, args)
    export(module, args, tmp_path / "m.pt2")
    text = tmp_path / "m.wrap"
    coil_ok("compile", tmp_path / "m.pt2", "--emit", "wrapper", "-o", text)
    names = re.findall(r"^buffer (\S+) :", text.read_text(), re.M)
    assert len(set(names)) == len(names) and {"x", "buf6", "buf7", "buf8"} <= set(names)
    assert coil_ok("opt", "--pass", "verify", text).stdout == text.read_text()
