"""What Coil does not compile is refused in one line that names the operators and the user's lines."""

import os
import subprocess

import pytest
import torch

from coil_harness import COIL, check, coil, export
from models import lstm
from test_cli import refused


class Edges(torch.nn.Module):
    def forward(self, x):
        return torch.ops.aten._histogramdd_bin_edges(x, [3] * 8)


class Packed(torch.nn.Module):
    def forward(self, x):
        return torch.ops.aten._weight_int8pack_mm(x, x.to(torch.int8), x[:, 0])


class Both(torch.nn.Module):
    def forward(self, x):
        return Edges()(x), Packed()(x)


def test_every_unsupported_operator_is_listed(tmp_path):
    export(Both(), (torch.randn(4, 8),), tmp_path / "m.pt2")
    refused(
        coil("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil"),
        "aten._histogramdd_bin_edges.default",
        "aten._weight_int8pack_mm.default",
        "test_refusals.py:",
    )
    assert not (tmp_path / "m.coil").exists()


@pytest.mark.parametrize("decomposed", [False, True])
def test_lstm(decomposed):
    module, args, dynamic, others = lstm()
    check(module, args, dynamic, others, decomposed=decomposed, tolerance=2e-4)


@pytest.mark.parametrize(
    "module, operator", [(Edges(), "aten._histogramdd_bin_edges"), (Packed(), "aten._weight_int8pack_mm")]
)
def test_operators_without_lowering(module, operator, tmp_path):
    export(module, (torch.randn(4, 8),), tmp_path / "m.pt2")
    refused(coil("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil"), operator, "test_refusals.py:")


class Transposed(torch.nn.Module):
    def forward(self, x):
        return x.t_().mul_(2)


def test_other_sizes_of_an_input(tmp_path):
    export(Transposed(), (torch.randn(4, 4),), tmp_path / "m.pt2")
    refused(
        coil("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil"),
        "aten.t_.default gives the input x other sizes or strides",
        "test_refusals.py:",
    )


def test_machine_without_lapack(tmp_path):
    """A library that cannot be opened is named with the way out when the program runs, and stands in the way of nothing
    else.
    """

    class Net(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.solve(x, x)

    export(Net(), (torch.eye(3),), tmp_path / "m.pt2")
    for name in ("libopenblas.so.0", "liblapack.so.3", "libopenblas.so"):
        (tmp_path / name).write_bytes(b"no library")
    done = coil("run", tmp_path / "m.pt2", env=os.environ | {"LD_LIBRARY_PATH": str(tmp_path)})
    assert done.returncode == 1 and done.stderr.startswith("coil: error: ") and done.stderr.count("\n") == 1, (
        done.stderr
    )
    assert "LAPACK is not on this machine" in done.stderr and "libopenblas0" in done.stderr


def test_disk_of_a_few_pages(tmp_path):
    """A real file system that is full, where the machine lets us make one: nothing is left behind."""
    disk = tmp_path / "disk"
    disk.mkdir()
    script = (
        f"mount -t tmpfs -o size=16k none {disk} && {COIL} compile {tmp_path / 'm.pt2'} -o {disk / 'm.coil'}; "
        f"code=$?; ls -A {disk}; exit $code"
    )
    export(torch.nn.Linear(64, 64), (torch.randn(2, 64),), tmp_path / "m.pt2")
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("no mount name spaces for this user")
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith("coil: error: ") and "m.coil" in done.stderr, done.stderr
    assert done.stdout == "", "something half-written stayed"
