"""What Coil does not compile is refused in one line that names the operators and the user's lines."""
import pytest
import torch

from coil_harness import check, coil, export
from models import lstm
from test_cli import refused


class Counted(torch.nn.Module):
    def forward(self, x):
        return torch.binomial(x.abs() + 4, x.sigmoid())


class Sampled(torch.nn.Module):
    def forward(self, x):
        return torch.poisson(x.abs())


class Both(torch.nn.Module):
    def forward(self, x):
        return Counted()(x), Sampled()(x)


def test_every_unsupported_operator_is_listed(tmp_path):
    export(Both(), (torch.randn(4, 8),), tmp_path / "m.pt2")
    refused(coil("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil"), "aten.binomial.default", "aten.poisson.default", "test_refusals.py:")
    assert not (tmp_path / "m.coil").exists()


@pytest.mark.parametrize("decomposed", [False, True])
def test_lstm(decomposed):
    module, args, dynamic, others = lstm()
    check(module, args, dynamic, others, decomposed=decomposed, tolerance=2e-4)


@pytest.mark.parametrize("module, operator", [(Counted(), "aten.binomial"), (Sampled(), "aten.poisson")])
def test_operators_without_lowering(module, operator, tmp_path):
    export(module, (torch.randn(4, 8),), tmp_path / "m.pt2")
    refused(coil("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil"), operator, "test_refusals.py:")


class Transposed(torch.nn.Module):
    def forward(self, x):
        return x.t_().mul_(2)


def test_other_sizes_of_an_input(tmp_path):
    export(Transposed(), (torch.randn(4, 4),), tmp_path / "m.pt2")
    refused(coil("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil"), "aten.t_.default gives the input x other sizes or strides", "test_refusals.py:")
