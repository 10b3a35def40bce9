"""Programs as users write them, each in one of the ways of user_harness.py against eager, and in all with --full."""

import pytest

import user_mixed  # noqa: F401
import user_sequences  # noqa: F401
import user_signals  # noqa: F401
import user_tensors  # noqa: F401
import user_training  # noqa: F401
import user_vision  # noqa: F401
from test_torch_compile import coil
from user_harness import PROGRAMS, WAYS, judge

# Torch fails in these by itself, with every backend.
TORCH_FAILS = {
    ("jacobians_and_hessians", "compile"),
    ("jacobians_and_hessians", "dynamic"),
    ("laplacian_by_nested_jvp", "compile"),
    ("laplacian_by_nested_jvp", "dynamic"),
}
# A package has no recompiles, so that the groups of a convolution cannot be a free size.
REFUSED = {("HyperNetwork", "package"), ("ModulatedConv", "package")}


def cases():
    """Which way a program has in every run moves on from one program to the next."""
    found = []
    for number, (name, each) in enumerate(PROGRAMS.items()):
        for k, way in enumerate(each.ways):
            if (name, way) not in TORCH_FAILS:
                often = (k - number) % len(each.ways) == 0
                found.append(pytest.param(name, way, marks=() if often else pytest.mark.full, id=f"{name}-{way}"))
    return found


@pytest.mark.cpu("eager and packages run there")
@pytest.mark.parametrize("name, way", cases())
def test_program(name, way):
    assert way in WAYS
    if (name, way) in REFUSED:
        with pytest.raises(coil.Error, match="aten.convolution.*wants a constant argument"):
            judge(name, way)
        return
    differences = judge(name, way)
    assert not differences, "\n".join(differences)
