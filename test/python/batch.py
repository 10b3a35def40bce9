"""Many small programs in one compile: an exported module that runs every case of a group, compared case by case."""

import dataclasses
import pathlib
import tempfile
import typing

import torch

from coil_harness import CoilError, coil_ok, differences, eager, export, run


@dataclasses.dataclass(frozen=True)
class Case:
    """A function of tensors (and what it closes over) and the arguments to try it on."""

    group: str
    name: str
    function: typing.Callable
    args: tuple
    tolerance: float | None = None
    signs: bool = False
    exported_only: str = ""  # why there is no decomposed form


def plain(result):
    """Torch's named results (`torch.return_types.max`) have no form in an archive: a tuple instead."""
    return tuple(map(plain, result)) if isinstance(result, tuple) else result


class Batch(torch.nn.Module):
    """Every case's results, by the case's name; the inputs are a dict of tuples."""

    def __init__(self, cases):
        super().__init__()
        self.cases = cases

    def forward(self, of):
        return {case.name: plain(case.function(*of[case.name])) for case in self.cases}


def outcomes_by_group(cases, *options):
    """The outcomes of cases as exported, each group in a compile of its own."""
    names = {}
    for group in sorted({c.group for c in cases}):
        names |= outcomes([c for c in cases if c.group == group], False, *options)
    return names


def outcomes(cases, decomposed=False, *options, caught=CoilError):
    """Name -> what is wrong with the case (empty when nothing is). Where a compile of all fails, halves are tried, so
    that only the cases at fault fail. `options`: of the compile; `caught`: what counts as a case's failure.
    """
    if not cases:
        return {}
    try:
        return compare(cases, decomposed, *options)
    except caught as error:
        if len(cases) == 1:
            said = str(error) if isinstance(error, CoilError) else f"{type(error).__name__}: {error}"
            return {cases[0].name: said}
    half = len(cases) // 2
    first, second = (outcomes(part, decomposed, *options, caught=caught) for part in (cases[:half], cases[half:]))
    return first | second


def compare(cases, decomposed, *options):
    module = Batch(cases)
    args = ({case.name: case.args for case in cases},)
    by_name = {case.name: case for case in cases}

    def owner(result):
        name = result.removeprefix("of.")
        while name not in by_name and "." in name:
            name = name.rsplit(".", 1)[0]
        return by_name[name]

    with tempfile.TemporaryDirectory() as folder:
        archive, package = pathlib.Path(folder) / "m.pt2", pathlib.Path(folder) / "m.coil"
        export(module, args, archive, decomposed=decomposed)
        coil_ok("compile", archive, "-o", package, *options)
        before, want = eager(module, args, onednn=False)
        got = run(package, before, folder)
    wrong = {case.name: [] for case in cases}
    for line in differences(got, want, lambda r: {"tolerance": owner(r).tolerance, "signs": owner(r).signs}):
        wrong[owner(line.split(":", 1)[0]).name].append(line)
    return {name: "\n".join(lines) for name, lines in wrong.items()}
