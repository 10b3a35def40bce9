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
from distribution_programs import CHUNKS
from emitted import build_program, emit

pytestmark = pytest.mark.xdist_group("distribution")  # exported once
PROGRAMS = (
    "reductions",
    "exchanges",
    "mlp",
    "in_place",
    "types",
    "experts",
    "one_expert",
    "messages",
    "around",
    "batched",
    "ring",
    "dimensions",
    "shared",
    "sharded",
    "planned",
    "mixture",
    "branches",
    "chunks",
)
RANKS = 2
EXCHANGES = ("all_gather", "reduce_scatter", "all_reduce")


def exported(folder, ranks, *names):
    script = ROOT / "test/python/distribution_programs.py"
    processes = [
        subprocess.Popen(
            [sys.executable, script, str(rank), str(ranks), folder, *names], stderr=subprocess.PIPE, text=True
        )
        for rank in range(ranks)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors[-2000:]
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Programs, inputs and eager's results of each rank, and packages."""
    return exported(tmp_path_factory.mktemp("ranks"), RANKS)


def compiled(folder, name, ranks=RANKS, options=lambda rank: ()):
    for rank in range(ranks):
        package = folder / f"{name}.{rank}.coil"
        if not package.exists() or options(rank):
            coil_ok("compile", folder / f"{name}.{rank}.pt2", "-o", package, *options(rank))
    return folder / f"{name}.{{rank}}.coil"


def run(folder, name, package, ranks=RANKS):
    inputs, results = folder / f"{name}.{{rank}}.in.safetensors", folder / f"{name}.{{rank}}.out.safetensors"
    coil_ok("run", package, "--ranks", ranks, "--inputs", inputs, "--outputs", results, timeout=60)
    for rank in range(ranks):
        got = load_file(folder / f"{name}.{rank}.out.safetensors")
        assert not differences(got, load_file(folder / f"{name}.{rank}.want.safetensors"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(folder, name):
    run(folder, name, compiled(folder, name))


def test_four_ranks(tmp_path):
    names = ("branches", "mixture", "experts", "ring")
    exported(tmp_path, 4, *names)
    for name in names:
        run(tmp_path, name, compiled(tmp_path, name, 4), 4)


def test_exchanges_start_together_and_beside_other_work(folder):
    """In the program's order; and `explain` says so."""
    report = coil_ok("explain", folder / "branches.0.pt2").stdout
    text = coil_ok("compile", folder / "branches.0.pt2", "--emit", "wrapper", "-o", "-").stdout
    apart = coil_ok(
        "compile", folder / "branches.0.pt2", "--emit", "wrapper", "-o", "-", "--set", "distribution.overlap=false"
    ).stdout
    starts = lambda lines: [op for line in lines.splitlines() for op in EXCHANGES if f" = {op}(" in line]
    assert starts(apart) == [op for op in EXCHANGES for _ in range(5)] and starts(text) == list(EXCHANGES)
    assert "3 exchanges of several tensors" in report and "all_gather buf" in report and "group 0" in report


@pytest.mark.parametrize("ranks", [2, 4])
def test_products_in_chunks(folder, tmp_path, ranks):
    """Exchanges of what products make and take, chunk by chunk, of rows that chunks do not share equally."""
    place = folder if ranks == RANKS else exported(tmp_path, ranks, "chunks")
    apart = [*CHUNKS, "--set", "distribution.bucket_bytes=0"]  # the model would start such small gathers together
    text = coil_ok("compile", place / "chunks.0.pt2", "--emit", "wrapper", "-o", "-", *apart).stdout
    assert {op: text.count(f" = {op}(") for op in EXCHANGES} == {"all_gather": 4, "reduce_scatter": 3, "all_reduce": 6}
    assert text.count(" = wait_collective(") == 13
    report = coil_ok("explain", place / "chunks.0.pt2", *CHUNKS).stdout
    assert report.count(" in 3 chunks") == 4 and report.count("in one piece: chunks would need more memory") == 1, (
        report
    )
    run(place, "chunks", compiled(place, "chunks", ranks, lambda rank: CHUNKS), ranks)


def test_products_in_chunks_by_the_model(folder):
    """What is small stays whole, and says why."""
    auto = [*CHUNKS, "--set", "distribution.chunks=auto"]
    report = coil_ok("explain", folder / "chunks.0.pt2", *auto).stdout
    assert report.count("in one piece: it is too small") == 5, report


@pytest.mark.parametrize("form", ["python", "fx"])
def test_products_in_chunks_in_python(folder, form):
    script = ROOT / "test/python/distribution_programs.py"
    processes = [
        subprocess.Popen([sys.executable, script, "--emitted", f"{form}-chunks", str(r), str(RANKS), folder, "chunks"])
        for r in range(RANKS)
    ]
    assert not any([process.wait(100) for process in processes])
    for rank in range(RANKS):
        got = load_file(folder / f"chunks.{rank}.{form}-chunks.safetensors")
        assert not differences(got, load_file(folder / f"chunks.{rank}.want.safetensors"))


def test_products_in_chunks_in_cpp(folder):
    env = coil_harness.ENVIRONMENT | {"COIL_GROUP_STORE": f"file:{folder / 'cpp'}", "WORLD_SIZE": str(RANKS)}
    processes = []
    for rank in range(RANKS):
        program = build_program(emit(folder / f"chunks.{rank}.pt2", "cpp", *CHUNKS))
        files = [folder / f"chunks.{rank}.{kind}.safetensors" for kind in ("in", "cpp")]
        processes.append(subprocess.Popen([program, *files], env=env | {"RANK": str(rank)}))
    assert not any([process.wait(100) for process in processes])
    for rank in range(RANKS):
        got = load_file(folder / f"chunks.{rank}.cpp.safetensors")
        assert not differences(got, load_file(folder / f"chunks.{rank}.want.safetensors"))


def test_ranks_that_start_other_ones_together(folder):
    """One of them was compiled without buckets: the exchanges go one after the other then."""
    apart = lambda rank: ("--set", f"distribution.bucket_bytes={rank}MiB")
    run(folder, "branches", compiled(folder, "branches", options=apart))


def test_under_torchrun(folder, tmp_path):
    """Programs one after the other, and again when all processes are started anew, at one store of the agent's."""
    package, inputs = compiled(folder, "branches"), folder / "branches.{rank}.in.safetensors"
    script = tmp_path / "twice.sh"
    run = f"{coil_harness.COIL} run {package} --inputs {inputs} --outputs {tmp_path}/$TORCHELASTIC_RESTART_COUNT"
    script.write_text(
        f"""#!/bin/bash
set -e
{run}.1.{{rank}}
[ $TORCHELASTIC_RESTART_COUNT = 1 ]
{run}.2.{{rank}}
"""
    )
    script.chmod(0o755)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts", "1"]
    env = {k: v for k, v in coil_harness.ENVIRONMENT.items() if not k.startswith("COIL_GROUP")}
    done = subprocess.run(
        [*command, "--nproc-per-node", str(RANKS), "--no-python", script],
        env=env | {"COIL_GROUP_TIMEOUT": "30"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for rank in range(RANKS):
        for which in ("0.1", "1.1", "1.2"):
            got = load_file(tmp_path / f"{which}.{rank}")
            assert not differences(got, load_file(folder / f"branches.{rank}.want.safetensors"))


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
