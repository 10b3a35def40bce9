"""Drawn calls that Coil takes, many in one compile, run and compared with eager's values."""

import re

import torch

from coil import _native
from coil_harness import difference
from schema_calls import Build
from schema_draws import flat
from schema_eager import copied

# Results that say nothing: memory as it comes, and numbers that are drawn.
UNWRITTEN = re.compile(r"\.(new_)?empty(_like|_strided|_permuted)?\.")
# Which of equal elements an index names is left open.
TIES = re.compile(r"\.(sort|argsort|topk|kthvalue|mode|median|nanmedian|msort|unique\w*)\.")
# Vectors that a library may turn, and factors that it may choose.
CHOSEN = re.compile(r"\.(_?linalg_(eigh?|svd|qr|eig)|svd|qr|geqrf|ormqr|linalg_lstsq|triangular_solve|_linalg_\w+)\.")


def has_values(draw):
    """Whether eager's values are the only right ones."""
    tags = draw.operator.tags
    return torch.Tag.nondeterministic_seeded not in tags and not any(
        p.search(draw.target) for p in (UNWRITTEN, TIES, CHOSEN)
    )


class Batch:
    """Draws in one program. `draws`: (number, draw, eager's answer with values)."""

    def __init__(self, draws, settings):
        self.draws = draws
        graph = _native.TracedGraph("main")
        self.builds = [Build(draw, answer.shape, graph, f"d{number}_") for number, draw, answer in draws]
        graph.infer()
        graph.output([node for build in self.builds for node in build.results])
        self.program = graph.compile(settings, None, [], "cpu")

    def run(self, other=None):
        """(arguments, results) by draw. `other`: {place of a draw: its inputs}, in place of its own."""
        inputs, after = [], []
        for k, (_, draw, _) in enumerate(self.draws):
            args, kwargs = copied(draw)
            leaves = (other or {}).get(k) or flat((args, kwargs))
            after.append(leaves)
            inputs += self.builds[k].chosen(leaves)
        results = list(self.program(*inputs))
        by_draw = []
        for build, leaves in zip(self.builds, after):
            by_draw.append((leaves, results[: len(build.results)]))
            del results[: len(build.results)]
        return by_draw


def outcomes(draws, settings):
    """{number: what is wrong, or nothing}. Where all together do not compile or run, halves are tried."""
    if not draws:
        return {}
    try:
        batch = Batch(draws, settings)
        got = batch.run()
    except Exception as error:
        if len(draws) == 1:
            return {draws[0][0]: f"{type(error).__name__}: {error}"}
        half = len(draws) // 2
        return outcomes(draws[:half], settings) | outcomes(draws[half:], settings)
    return {number: compared(answer, *made) for (number, _, answer), made in zip(draws, got)}


def compared(answer, leaves, results):
    """Against eager, or where the two are far apart, against eager in f64."""
    after, want = answer.values
    lines = []
    for k, (g, w) in enumerate(zip(results, want)):
        if wrong := one(g, w):
            lines.append(f"result {k}: {wrong}")
    for k, (g, w) in enumerate(zip(leaves, after)):
        if isinstance(w, torch.Tensor) and (wrong := one(g, w)):
            lines.append(f"argument {k} after the call: {wrong}")
    return "; ".join(lines)


def one(got, want):
    if isinstance(want, torch.Tensor) != isinstance(got, torch.Tensor):
        return f"{type(got).__name__}, expected {type(want).__name__}"
    if not isinstance(want, torch.Tensor):
        return "" if got == want or got != got and want != want else f"{got}, expected {want}"
    if want.dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        got, want = got.float(), want.float()
    return difference(got, want)
