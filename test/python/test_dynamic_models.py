"""One compile, twenty sizes: models whose batch, lengths, heights and widths are free, at random sizes with the edges
of each range among them, against eager.
"""

import random

import pytest

from coil_harness import check
from dynamic_models import MODELS

# Layers add up what single operators are allowed.
TOLERANCE = 2e-4
CALLS = 20
TORCH_CANNOT_DECOMPOSE = {"gpt2"}


def sizes_of(ranges, seed):
    """`CALLS` distinct choices where there are as many: both edges of all, then of each alone, then any, primes and
    powers of two among them.
    """
    rng = random.Random(seed)
    chosen = [tuple(low for low, _ in ranges), tuple(high for _, high in ranges)]
    chosen += [
        tuple(ranges[d][edge] if d == k else rng.randint(*ranges[d]) for d in range(len(ranges)))
        for k in range(len(ranges))
        for edge in (0, 1)
    ]
    # Every second one of primes and powers of two, where a range has any.
    special = lambda low, high: [
        n for n in range(low, high + 1) if n & (n - 1) == 0 or all(n % k for k in range(2, n))
    ] or [low, high]
    while len(chosen) < CALLS:
        chosen.append(tuple(rng.choice(special(*r)) if len(chosen) % 2 else rng.randint(*r) for r in ranges))
    return chosen[:CALLS]


@pytest.mark.parametrize(
    "decomposed", [False, pytest.param(True, marks=pytest.mark.full)], ids=["exported", "decomposed"]
)
@pytest.mark.parametrize("name", MODELS)
def test_twenty_sizes(name, decomposed):
    if decomposed and name in TORCH_CANNOT_DECOMPOSE:
        pytest.skip(
            "torch's own run_decompositions() fails: it lays attention's result out in another order, and then views it"
        )
    module, make, shapes, ranges = MODELS[name]()
    example = tuple((low + high) // 2 for low, high in ranges)
    check(module, make(*example), shapes, [make(*sizes) for sizes in sizes_of(ranges, seed=1)], decomposed, TOLERANCE)
