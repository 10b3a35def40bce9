"""Limits on memory, arenas that cannot be had, sizes that overflow: refused before a run; the next call is right."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
import torch
from torch import nn

from coil_harness import coil as coil_run, coil_ok, export

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
coil = pytest.importorskip("coil", reason="the Python extension is not built")


class Widened(nn.Module):
    def __init__(self):
        super().__init__()
        self.widen, self.narrow = nn.Linear(64, 1024), nn.Linear(1024, 64)

    def forward(self, x):
        return self.narrow(torch.cumsum(self.widen(x), 1))


def same(got, expected):
    """Sums of a thousand in another order."""
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


def refusal(run):
    assert run.returncode == 1 and run.stderr.count("\n") == 1, run.stderr
    return run.stderr


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("limit") / "m.pt2"
    export(Widened().eval(), (torch.randn(256, 64),), path)
    return path


def compiled(archive, folder, limit):
    return coil_run("compile", archive, "-o", folder / "m.coil", "--set", f"memory.limit={limit}")


def test_a_program_over_the_limit_is_not_compiled(archive, tmp_path):
    message = refusal(compiled(archive, tmp_path, "1MiB"))
    assert "memory.limit" in message and re.search(r"buf\d+, 1\.0 MiB: .*test_memory_limit\.py:\d+", message), message
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("limit", ["0", "8MiB", "8192KiB", "1GiB", "100000000"])
def test_a_limit_that_is_kept_changes_nothing(archive, limit, tmp_path):
    assert compiled(archive, tmp_path, limit).returncode == 0
    coil_ok("bench", tmp_path / "m.coil", "--seconds", "0.01", "--json", tmp_path / "b.json")
    figures = json.loads((tmp_path / "b.json").read_text())
    assert 0 < figures["planned_peak_bytes"] == figures["measured_peak_bytes"]


@pytest.mark.parametrize("limit", ["-1", "1.5MiB", "MiB", "1 MiB", "many", "9999999999GiB"])
def test_a_limit_that_is_no_number_of_bytes_is_refused(archive, limit, tmp_path):
    assert "memory.limit" in refusal(compiled(archive, tmp_path, limit))


def test_calls_over_the_limit_are_refused_and_the_next_is_right():
    module = Widened().eval()
    made = torch.compile(module, backend="coil", dynamic=True, options={"memory.limit": "4MiB"})
    with torch.no_grad():
        for rows in (64, 65):
            x = torch.randn(rows, 64)
            same(made(x), module(x))
        with pytest.raises(coil.Error, match=r"memory\.limit.*buf\d+, [\d.]+ MiB: .*test_memory_limit\.py:\d+"):
            made(torch.randn(4096, 64))
        x = torch.randn(64, 64)
        same(made(x), module(x))


@pytest.mark.parametrize("language", ["cpp", "python", "fx"])
def test_programs_written_as_source_are_refused_over_the_limit_and_with_free_sizes(archive, language, tmp_path):
    out = tmp_path / "program"

    def written(given, limit):
        return coil_run("compile", given, "-o", out, "--emit", language, "--set", f"memory.limit={limit}")

    assert "memory.limit allows" in refusal(written(archive, "1MiB"))
    free = tmp_path / "free.pt2"
    export(Widened().eval(), (torch.randn(256, 64),), free, ({0: torch.export.Dim("rows", min=2, max=512)},))
    assert "memory.limit with free sizes" in refusal(written(free, "1GiB"))
    assert not out.exists()
    assert written(archive, "1GiB").returncode == 0


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.widen = nn.ModuleList(nn.Linear(64, 256) for _ in range(4))
        self.narrow = nn.ModuleList(nn.Linear(256, 64) for _ in range(4))

    def forward(self, x):
        for widen, narrow in zip(self.widen, self.narrow, strict=True):
            x = x + narrow(torch.softmax(nn.functional.gelu(widen(x)), -1))
        return x


def compiled_step(x, limit, **more):
    """Gradients of a step, compiled for training; the limit in bytes."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = Deep()
    options = {"cache": "none", "memory.limit": limit} | more
    torch.compile(model, backend="coil", options=options)(x).sum().backward()
    return [p.grad for p in model.parameters()]


def refused(x, limit):
    with pytest.raises(Exception, match=r"memory\.limit allows") as raised:
        compiled_step(x, limit)
    return str(raised.value)


def test_a_training_program_over_the_limit_is_told_which_budget_fits():
    x = torch.randn(1024, 64)
    told = refused(x, 1 << 16)
    found = re.search(
        r"no memory\.budget would fit: the lowest planned peak is ([\d.]+) MiB, with memory\.budget=", told
    )
    assert found, told
    assert "of 64.0 KiB that there are, libraries' scratch memory not counted" in told
    assert "; what else lowers memory: memory.offload=1 on a GPU, a smaller batch" in told
    assert re.search(r"buf\d+, .*MiB: .*test_memory_limit\.py:\d+", told)
    limit = int((float(found[1]) + 0.75) * 2**20)  # with scratch memory of products
    found = re.search(r"memory\.budget=([\d.]+) would fit: a planned peak of ([\d.]+) MiB of", refused(x, limit))
    assert found and float(found[2]) * 2**20 <= limit
    want = compiled_step(x, 0)
    for got, expected in zip(compiled_step(x, limit, **{"memory.budget": found[1]}), want, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


def test_inference_over_the_limit_is_told_what_lowers_memory():
    torch._dynamo.reset()
    options = {"cache": "none", "memory.limit": "64KiB", "memory.order": False}
    with pytest.raises(Exception, match="memory.limit allows") as raised, torch.no_grad():
        torch.compile(Deep(), backend="coil", options=options)(torch.randn(1024, 64))
    assert "; what lowers memory: memory.order=true, a smaller batch" in str(raised.value)


OUT = """
import resource, sys
# From the start there is some limit, so that no addresses are reserved ahead of need.
resource.setrlimit(resource.RLIMIT_AS, (1 << 45, resource.RLIM_INFINITY))
sys.path.insert(0, sys.argv[1])
import torch
import coil
from test_memory_limit import Deep

made = torch.compile(Deep(), backend="coil", dynamic=True, options={"cache": "none"})
for rows in (64, 96):
    made(torch.randn(rows, 64)).sum().backward()
taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
more = torch.randn(1 << 18, 64)
resource.setrlimit(resource.RLIMIT_AS, (taken + (150 << 20), resource.RLIM_INFINITY))
try:
    made(more).sum().backward()
except coil.Error as error:
    print(error)
"""


def test_a_training_program_that_finds_no_memory_is_told_which_budget_fits(tmp_path):
    script = tmp_path / "out.py"
    script.write_text(OUT)
    told = subprocess.run(
        [sys.executable, script, ROOT / "build/python"],
        env=os.environ | {"PYTHONPATH": str(ROOT / "test/python")},
        capture_output=True,
        text=True,
    ).stdout
    assert re.search(r"(out of memory|allocate memory).*needs [\d.]+ [MG]iB \(.*buf\d+, [\d.]+ MiB: ", told), told
    assert re.search(r"memory\.budget(=[\d.]+ would fit: a planned peak of| would fit: the lowest)", told), told


class Grown(nn.Module):
    def forward(self, x, n):
        return torch.cumsum(x.expand(n.shape[0], n.shape[0], n.shape[0], -1), 0).sum()


def test_sizes_that_overflow_or_cannot_be_had_are_refused_and_the_next_call_is_right():
    made = torch.compile(Grown(), backend="coil", dynamic=True)
    x = torch.randn(8)

    def given(n):
        return x, torch.empty(1).expand(n)

    with torch.no_grad():
        for n in (3, 5):
            torch.testing.assert_close(made(*given(n)), Grown()(*given(n)))
        with pytest.raises(coil.Error, match="overflow"):
            made(*given(1 << 21))
        with pytest.raises(coil.Error, match=r"out of memory.*buf\d+.*test_memory_limit\.py:\d+"):
            made(*given(1 << 14))
        torch.testing.assert_close(made(*given(4)), Grown()(*given(4)))


def test_explain_says_who_owns_the_peak(archive):
    text = coil_ok("explain", archive).stdout
    assert "Memory over time" in text
    assert re.search(r"The peak, [\d.]+ MiB, at call \d+: ", text)
    assert re.search(r"1\.0 MiB  buf\d+.*: made by .*test_memory_limit\.py:\d+", text)
    assert "What would lower it next" in text
