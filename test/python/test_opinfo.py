"""A fixed few of PyTorch's operator database; `opinfo_sweep.py` goes through all of it."""
import functools

import pytest
import torch

from opinfo_sweep import database, samples_of, sweep

# One compile for all: operators whose samples have found faults, or that other tests do not call in this variety.
NAMES = ["diag_embed", "index_add", "masked_scatter", "nanmedian", "kthvalue", "linalg.vector_norm", "nn.functional.instance_norm", "nn.functional.pad", "scatter_reduce", "tensordot", "quantile", "var_mean"]


@functools.cache
def verdicts():
    samples = [sample for op in database(NAMES) if not op.variant_test_name or op.name == "nn.functional.pad" for sample in samples_of(op, torch.float32, 2)]
    return {name: [(s, v, why) for s, v, why in sweep(samples) if s.op.split(".")[0] == name.split(".")[0] and s.op.startswith(name)] for name in NAMES}


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.xdist_group("opinfo")) for name in NAMES])
def test_samples(name):
    found = verdicts()[name]
    assert found, f"no samples of {name}"
    wrong = [f"{s.text}: {v}: {why}" for s, v, why in found if v not in ("right", "no program")]
    assert not wrong, "\n".join(wrong)
