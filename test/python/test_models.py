"""Real models against eager, as exported and decomposed: small configurations always, the contract's sizes with
--full.
"""

import pytest
import torch

from coil_harness import check
from models import FULL, SMALL

# Relative to the largest value of an output: layers add up what single operators are allowed.
TOLERANCE = {torch.float32: 2e-4, torch.bfloat16: 3e-2}


def check_model(make, decomposed):
    module, args, dynamic, others = make()
    dtype = next(iter(module.parameters())).dtype
    check(module, args, dynamic, others, decomposed, TOLERANCE[dtype])


@pytest.mark.parametrize("decomposed", [False, True], ids=["exported", "decomposed"])
@pytest.mark.parametrize("name", SMALL)
def test_small_model(name, decomposed):
    check_model(SMALL[name], decomposed)


@pytest.mark.full
@pytest.mark.parametrize("decomposed", [False, True], ids=["exported", "decomposed"])
@pytest.mark.parametrize("name", FULL)
def test_full_model(name, decomposed):
    check_model(FULL[name], decomposed)
