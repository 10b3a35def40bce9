"""A fixed few of PyTorch's operator database; `opinfo_sweep.py` goes through all of it."""

import functools

import pytest
import torch

from opinfo_sweep import database, samples_of, sweep

# One compile for all: operators whose samples have found faults, or that other tests do not call in this variety.
NAMES = [
    "diag_embed",
    "index_add",
    "masked_scatter",
    "nanmedian",
    "kthvalue",
    "linalg.vector_norm",
    "nn.functional.instance_norm",
    "tensordot",
    "quantile",
    "var_mean",
]


@functools.cache
def verdicts():
    samples = {
        name: list(samples_of(op, torch.float32, 2))
        for name in NAMES
        for op in database([name])
        if not op.variant_test_name
    }
    results = sweep([sample for each in samples.values() for sample in each])
    return {name: [r for r in results if r[0] in each] for name, each in samples.items()}


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.xdist_group("opinfo")) for name in NAMES])
def test_samples(name):
    found = verdicts()[name]
    assert found, f"no samples of {name}"
    wrong = [f"{s.text}: {v}: {why}" for s, v, why in found if v not in ("right", "no program")]
    assert not wrong, "\n".join(wrong)
