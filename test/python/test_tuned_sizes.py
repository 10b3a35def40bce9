"""Tuning of packages whose sizes data tell: the example inputs say at which sizes kernels are timed."""

import zipfile

import pytest
import torch

from coil_harness import coil_ok, export
from test_cuda_text import NVRTC

pytestmark = pytest.mark.skipif(NVRTC is None, reason="nvidia-cuda-nvrtc is not installed")

PLAIN = ("--device", "cuda", "--set", "cuda.arch=sm_90a", "--set", f"cuda.nvrtc={NVRTC}")
OPTIONS = (*PLAIN, "--set", "max_autotune=true")


class Chosen(torch.nn.Module):
    """Writes to its input; the rows that are chosen, and as many numbers as another input says."""

    def forward(self, x, n):
        x.add_(1)
        count = n.max().item()
        torch._check(count >= 2)
        torch._check(count <= 4096)
        rows = x[x[:, 0] > 2]
        return rows.softmax(-1), torch.zeros(count, device=x.device).cumsum(0) + 1


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("tuned") / "m.pt2"
    x = torch.arange(40, dtype=torch.float32).reshape(10, 4) / 8  # rows 3 and on are above 2 with the 1 that is added
    export(Chosen(), (x, torch.tensor([3, 700, 5])), path)
    return path


def log_of(archive, out, *more):
    done = coil_ok("compile", archive, "-o", out, *OPTIONS, *more, "--log", "autotune,wrapper")
    return done.stdout + done.stderr


def test_sizes_are_those_of_the_example_inputs(archive, tmp_path):
    text = log_of(archive, tmp_path / "m.coil")
    found = [line.split(" is ")[1] for line in text.splitlines() if "] size " in line]
    assert sorted(found) == ["7 on the example inputs", "700 on the example inputs"], text


def test_kernels_are_written_once_after_the_choice(archive, tmp_path):
    text = log_of(archive, tmp_path / "m.coil")
    assert text.index("on the example inputs") < text.index("[wrapper] kernel coil_")


def test_example_inputs_stay_as_they_were(archive, tmp_path):
    """The program adds to its input; a tuned package has the same example, byte for byte, as one that is not."""
    tuned, plain = tmp_path / "tuned.coil", tmp_path / "plain.coil"
    assert "on the example inputs" in log_of(archive, tuned)
    coil_ok("compile", archive, "-o", plain, *PLAIN)
    with zipfile.ZipFile(tuned) as a, zipfile.ZipFile(plain) as b:
        names = [n for n in a.namelist() if "sample_inputs" in n]
        assert names
        for name in names:
            assert a.read(name) == b.read(name)
