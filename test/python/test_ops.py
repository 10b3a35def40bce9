"""Operator programs against eager: every case is a test of its own, though a chunk of them shares one compile."""

import functools

import pytest

from batch import outcomes
from cases import (
    complex_factors,
    complex_tensors,
    composites,
    edges,
    factorizations,
    gradients,
    library,
    mutation,
    pointwise,
    quantization,
    reductions,
    selection,
    special,
    views,
)
from cases.data import Family

FAMILIES = [
    v
    for module in (
        pointwise,
        reductions,
        views,
        library,
        mutation,
        composites,
        complex_tensors,
        factorizations,
        complex_factors,
        quantization,
        special,
        selection,
        gradients,
        edges,
    )
    for v in vars(module).values()
    if isinstance(v, Family)
]
CHUNK = 48  # cases in one compile
# Groups that are tested as exported only: torch unrolls recurrences into thousands of nodes.
EXPORTED_ONLY = {composites.recurrent.group}


def chunks():
    """(key, cases): the key names the family and the number of the chunk."""
    for family in FAMILIES:
        for i in range(0, len(family.cases), CHUNK):
            yield f"{family.group}{i // CHUNK}", family.cases[i : i + CHUNK]


CHUNKS = dict(chunks())


@functools.cache
def results(chunk, decomposed):
    return outcomes([c for c in CHUNKS[chunk] if not (decomposed and c.exported_only)], decomposed)


def parameters(decomposed):
    """Cases of one chunk go to one worker, which compiles it once. Every second chunk is decomposed in every run, the
    others with --full."""
    form = "decomposed" if decomposed else "exported"
    for number, (chunk, cases) in enumerate(CHUNKS.items()):
        marks = [pytest.mark.xdist_group(f"{chunk}-{form}")]
        if decomposed and number % 2:
            marks.append(pytest.mark.full)
        for case in cases:
            if decomposed and (case.group in EXPORTED_ONLY or case.exported_only):
                continue
            yield pytest.param(
                chunk,
                case.name,
                decomposed,
                id=f"{case.group}-{case.name}-{form}",
                marks=marks,
            )


@pytest.mark.parametrize("chunk,name,decomposed", [*parameters(False), *parameters(True)])
def test_operator(chunk, name, decomposed):
    if wrong := results(chunk, decomposed)[name]:
        pytest.fail(wrong, pytrace=False)
