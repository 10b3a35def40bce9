"""The loop IR, its schedule and loop nests as text: what was printed reads back as it was, and gives the same schedule
and the same kernels.
"""

import re

import pytest

from batch import Batch
from cases import data, library, mutation, pointwise, reductions, selection, views
from coil_harness import ROOT, coil, coil_ok, export

FIXTURES = sorted((ROOT / "test/fixtures").glob("*.pt2"))
TARGETS = {
    "cpu": (["--set", "cpu.isa=avx2"], "emit-cpp"),
    "cuda": (["--device", "cuda", "--set", "cuda.arch=sm_90a"], "emit-cuda"),
}


def opt(path, *options):
    return coil_ok("opt", *options, path).stdout


def kernels(text):
    """The kernels' texts, by symbol, of a program as wrapper text."""
    texts = re.findall(r"^text (\w+)\n((?:\|.*\n)+)", text, re.M)
    return {symbol: "".join(line[2:] + "\n" for line in body.splitlines()) for symbol, body in texts}


def check(archive, folder, target):
    """Compiles an archive, and goes the same way again from the texts of its stages."""
    options, emit = TARGETS[target]
    done = coil("compile", archive, "-o", folder / "m.wrap", "--emit", "wrapper", "--debug-dir", folder / "d", *options)
    if done.returncode:  # another test's business
        pytest.skip(done.stderr)
    loops = (folder / "d/ir_pre_fusion.txt").read_text()
    stages = [p for p in (folder / "d").iterdir() if p.read_text().startswith("loops(")]
    for path in stages:
        assert opt(path) == path.read_text(), path.name
    whole = folder / "whole.loop"
    whole.write_text(loops + (folder / "d/ir_post_fusion.txt").read_text())
    assert opt(whole) == whole.read_text()
    assert opt(folder / "d/ir_pre_fusion.txt", "--pass", "schedule", *options) == whole.read_text()
    nests = folder / "nests.loop"
    nests.write_text(opt(whole, "--pass", "nest", *options))
    assert opt(nests) == nests.read_text()
    emitted = opt(whole, "--pass", emit, *options)
    for symbol, text in kernels((folder / "m.wrap").read_text()).items():
        if not re.search(r"_x\d+$", symbol):  # of several launches in one, which come later
            assert text in emitted, symbol
    # Templates, which no loop nest has, are missing among those made from nests.
    for kernel in re.split(r"^(?=// coil_)", opt(nests, "--pass", emit, *options), flags=re.M):
        assert kernel in emitted


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("path", FIXTURES, ids=lambda p: p.stem)
def test_fixtures(path, target, tmp_path):
    check(path, tmp_path, target)


FAMILIES = [
    v
    for module in (pointwise, reductions, views, library, mutation, selection)
    for v in vars(module).values()
    if isinstance(v, data.Family)
]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.group)
def test_operators(family, tmp_path):
    cases = family.cases[:48]
    export(Batch(cases), ({case.name: case.args for case in cases},), tmp_path / "m.pt2")
    for target in TARGETS:
        folder = tmp_path / target
        folder.mkdir()
        check(tmp_path / "m.pt2", folder, target)
