"""What Coil does not compile is refused in one line that names the operators and the user's lines; a decomposed form that it knows is compiled."""
import pytest
import torch

from coil_harness import check, coil, export
from models import lstm
from test_cli import refused


class Narrower(torch.nn.Module):
    def forward(self, x):
        return x.view(torch.int16)


class DataDependent(torch.nn.Module):
    def forward(self, x):
        return x.nonzero()


def test_every_unsupported_operator_is_listed(tmp_path):
    module, args, _, _ = lstm()
    export(module, args, tmp_path / "m.pt2")
    refused(coil("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil"), "aten.lstm.input", "models.py:")
    assert not (tmp_path / "m.coil").exists()


def test_lstm_decomposed():
    module, args, dynamic, others = lstm()
    check(module, args, dynamic, others, decomposed=True, tolerance={torch.float32: 2e-4}[torch.float32])


@pytest.mark.parametrize("module, operator", [(Narrower(), "aten.view.dtype"), (DataDependent(), "aten.nonzero")])
def test_operators_without_lowering(module, operator, tmp_path):
    export(module, (torch.randn(4, 8),), tmp_path / "m.pt2")
    refused(coil("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil"), operator, "test_refusals.py:")
