"""Exported programs with collectives, a package for each of two ranks: over Gloo, with no Python in the processes that
run them, against what eager gives over Gloo.
"""

import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load_file

import coil_harness
from coil_harness import ROOT, coil, coil_ok, differences

pytestmark = pytest.mark.xdist_group("distribution")  # exported once
PROGRAMS = (
    "reductions",
    "exchanges",
    "mlp",
    "in_place",
    "types",
    "experts",
    "messages",
    "around",
    "ring",
    "dimensions",
)
RANKS = 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Programs, inputs and eager's results of each rank, and packages."""
    folder = tmp_path_factory.mktemp("ranks")
    script = ROOT / "test/python/distribution_programs.py"
    processes = [
        subprocess.Popen([sys.executable, script, str(rank), str(RANKS), folder], stderr=subprocess.PIPE, text=True)
        for rank in range(RANKS)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors[-2000:]
    return folder


def compiled(folder, name):
    for rank in range(RANKS):
        package = folder / f"{name}.{rank}.coil"
        if not package.exists():
            coil_ok("compile", folder / f"{name}.{rank}.pt2", "-o", package)
    return folder / f"{name}.{{rank}}.coil"


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(folder, name):
    inputs, results = folder / f"{name}.{{rank}}.in.safetensors", folder / f"{name}.{{rank}}.out.safetensors"
    coil_ok("run", compiled(folder, name), "--ranks", RANKS, "--inputs", inputs, "--outputs", results, timeout=60)
    for rank in range(RANKS):
        got = load_file(folder / f"{name}.{rank}.out.safetensors")
        assert not differences(got, load_file(folder / f"{name}.{rank}.want.safetensors"))


def test_receive_into_what_is_read_is_refused(tmp_path):
    """Eager writes to the argument of irecv, which the graph does not say."""
    functional = torch.ops._c10d_functional

    class Reads(torch.nn.Module):
        def forward(self, x):
            into = torch.empty_like(x)
            come = functional.wait_tensor(functional.irecv(into, 1, 0, "default"))
            return come + into

    class Forgets(torch.nn.Module):
        def forward(self, x):
            functional.isend(x + 1, 1, 0, "default")
            return x * 2

    for module, words in ((Reads(), "also uses otherwise"), (Forgets(), "nothing waits for it")):
        coil_harness.export(module, (torch.ones(3),), tmp_path / "m.pt2")
        done = coil("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil")
        assert done.returncode == 1 and words in done.stderr and "internal error" not in done.stderr, done.stderr


def test_one_process_alone_is_refused(folder):
    env = {k: v for k, v in coil_harness.ENVIRONMENT.items() if k not in ("RANK", "WORLD_SIZE")}
    compiled(folder, "mlp")
    done = coil("run", folder / "mlp.0.coil", env=env)
    assert done.returncode == 1 and len(done.stderr.strip().splitlines()) == 1
    assert "RANK" in done.stderr and "internal error" not in done.stderr


def test_other_number_of_ranks_is_refused(folder):
    compiled(folder, "exchanges")
    done = coil("run", folder / "exchanges.0.coil", "--ranks", 1, timeout=60)
    assert done.returncode == 1 and "2" in done.stderr and "internal error" not in done.stderr


def test_rank_that_dies(folder):
    """The other one ends with an error that names the rank, whether it was in an exchange or still waited for it."""
    gloo = [o for n in ("one", "two") for o in ("--set", f"distribution.{n}_shot_bytes=0")]
    for rank in range(RANKS):
        coil_ok("compile", folder / f"mlp.{rank}.pt2", "-o", folder / f"mlp.{rank}.gloo.coil", *gloo)
    env = coil_harness.ENVIRONMENT | {
        "COIL_GROUP_STORE": f"file:{folder / 'store'}",
        "WORLD_SIZE": "2",
        "COIL_GROUP_TIMEOUT": "30",
    }
    command = [coil_harness.COIL, "bench", folder / "mlp.0.gloo.coil", "--seconds", "60"]
    first = subprocess.Popen(
        command, env=env | {"RANK": "0"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    command[2] = folder / "mlp.1.gloo.coil"
    second = subprocess.Popen(command, env=env | {"RANK": "1"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(5)
    assert first.poll() is None and second.poll() is None, (first.communicate(timeout=60), second.poll())
    os.kill(second.pid, signal.SIGKILL)
    second.wait()
    _, errors = first.communicate(timeout=120)
    assert first.returncode == 1 and "rank" in errors and "internal error" not in errors, errors
