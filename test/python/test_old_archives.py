"""Archives that older versions of torch wrote (test/fixtures), against the torch that is here running the same
archives.
"""

import pathlib

import pytest
import torch

from coil_harness import ROOT, coil_ok, differences, named_outputs, run

FIXTURES = pathlib.Path(ROOT, "test/fixtures")


# torch 2.11 records an LSTM's last states, and what is made of them, with a dimension that they do not have.
@pytest.mark.parametrize("name", ["recurrent", "recurrent_2_11"])
def test_recurrent(name, tmp_path):
    coil_ok("compile", FIXTURES / f"{name}.pt2", "-o", tmp_path / "m.coil", "--set", "verify=true")
    module = torch.export.load(FIXTURES / f"{name}.pt2").module()
    torch.manual_seed(7)
    x, c = torch.randn(2, 5, 3), torch.randn(4, 2, 4)
    with torch.no_grad():
        want = named_outputs(module(x, c))
    wrong = differences(run(tmp_path / "m.coil", {"x": x, "c": c}, tmp_path), want)
    assert not wrong, "\n".join(wrong)
