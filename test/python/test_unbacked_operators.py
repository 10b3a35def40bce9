"""Every operator over operands whose first dimension is a number that only data tell: the programs of test_ops.py, each
with its tensors taken by the positions that a mask has.
"""

import pytest
import torch

from batch import Case, outcomes
from test_ops import EXPORTED_ONLY, FAMILIES

CHUNK = 24
SHARE = 32  # one case in so many is part of every run; all are with `--full`


def length(case):
    """The first size that most tensors of the case have; None where there is none."""
    sizes = [a.shape[0] for a in case.args if isinstance(a, torch.Tensor) and a.dim() > 0]
    return max(sizes, key=sizes.count) if sizes else None


def with_free_length(case):
    """The same program, whose tensors of that length come as `a[positions]`, all of them, by a mask that is one more
    argument.
    """
    n = length(case)

    def function(*args):
        *args, keep = args
        at = torch.nonzero(keep).squeeze(1)
        return case.function(
            *(
                a.index_select(0, at) if isinstance(a, torch.Tensor) and a.dim() > 0 and a.shape[0] == n else a
                for a in args
            )
        )

    return Case(
        case.group,
        f"{case.group}_{case.name}",
        function,
        (*case.args, torch.ones(n, dtype=torch.bool)),
        case.tolerance,
        case.signs,
        case.exported_only,
    )


class Alone(torch.nn.Module):
    def __init__(self, case):
        super().__init__()
        self.case = case

    def forward(self, args):
        result = self.case.function(*args)
        return tuple(result) if isinstance(result, tuple) else result


def torch_exports(case):
    """Whether torch can: many of its own shape functions ask for the number."""
    try:
        with torch.no_grad():
            torch.export.export(Alone(case), (case.args,))
        return True
    except Exception:
        return False


def chunks():
    """(key, cases), as in test_ops.py; each chunk's sample first."""
    for family in FAMILIES:
        if family.group in EXPORTED_ONLY:
            continue
        cases = [c for c in family.cases if length(c)]
        for i in range(0, len(cases), CHUNK):
            yield f"{family.group}{i // CHUNK}", cases[i : i + CHUNK]


CHUNKS = dict(chunks())
EVERY = [c for cases in CHUNKS.values() for c in cases]
# Writes to places of which the run alone knows that they fit; weights of free sizes; kernels over nothing.
SAMPLE = EVERY[::SHARE] + [
    c for c in EVERY if c.name in ("copy_slice", "unfold", "pairwise", "masked_select_cube", "conv2d_grouped", "conv1d")
]


# Products of complex numbers along the dimension itself are written out factor by factor.
REFUSED = ("over a dimension of free size is not compiled for complex tensors",)


def check(cases, decomposed=False):
    """Nothing else may be refused, and nothing may come out wrong."""
    free = [c for c in map(with_free_length, cases) if not (decomposed and c.exported_only) and torch_exports(c)]
    found = outcomes(free, decomposed, "--set", "verify=true")
    wrong = {name: text for name, text in found.items() if text and not any(map(text.__contains__, REFUSED))}
    assert not wrong, "\n".join(f"{name}: {text}" for name, text in wrong.items())
    return len(free)


@pytest.mark.full
@pytest.mark.parametrize("decomposed", [False, True], ids=["exported", "decomposed"])
@pytest.mark.parametrize("chunk", CHUNKS)
def test_operators(chunk, decomposed):
    check(CHUNKS[chunk], decomposed)


@pytest.mark.parametrize("part", range(2))
def test_sample_of_operators(part):
    assert check(SAMPLE[part::2]) > 0
