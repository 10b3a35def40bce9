"""Exported programs with collectives on CUDA devices where there are none: packages of two ranks on the driver of
test/fake_cuda, over the NCCL of test/fake_nccl, against what eager gives over Gloo.
"""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load_file, save_file

from coil_harness import COIL, ENVIRONMENT, ROOT, coil, coil_ok, differences
from emitted import BUILD, build_program, emit
from emulated_cuda import load_emulated
from test_emit_cuda import CUDA as TO_CUDA, PLACE

pytestmark = [
    pytest.mark.skipif(PLACE is None, reason="nvidia-cuda-nvrtc is not installed"),
    pytest.mark.xdist_group("distribution_cuda"),  # exported once
]
CUDA = [*TO_CUDA, "--set", f"cuda.nvrtc={pathlib.Path(PLACE or '.').parent}"]
PROGRAMS = ["kinds", "exchanges", "in_place", "experts", "around", "large", "branches", "residuals", "residual"]
RANKS = 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Programs, inputs and eager's results of each rank."""
    folder = tmp_path_factory.mktemp("cuda_ranks")
    script = ROOT / "test/python/distribution_programs.py"
    processes = [
        subprocess.Popen([sys.executable, script, str(rank), str(RANKS), folder, *PROGRAMS]) for rank in range(RANKS)
    ]
    assert not any([process.wait(300) for process in processes])
    return folder


def environment(folder, archive, rank, store, options=(), **more):
    """Of a rank's process: the driver and the NCCL of tests, with the program's own kernels."""
    kernels = load_emulated(emit(archive, "python", *TO_CUDA, *options)).KERNELS.library._name
    return (
        ENVIRONMENT
        | {
            "LD_LIBRARY_PATH": os.path.join(BUILD, "lib", "fake_cuda"),
            "COIL_FAKE_CUDA_KERNELS": kernels,
            "COIL_FAKE_NCCL_FOLDER": str(folder / "nccl"),
            "COIL_GROUP_STORE": f"file:{folder / store}",
            "COIL_GROUP_TIMEOUT": "60",
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(RANKS),
        }
        | more
    )


def start(folder, name, command, store, *options, **more):
    """A process of each rank, with its package compiled by these options, or by those that a function of the rank
    gives.
    """
    processes = []
    for rank in range(RANKS):
        archive, package = folder / f"{name}.{rank}.pt2", folder / f"{name}.{rank}.{store}.coil"
        given = options[0](rank) if options and callable(options[0]) else options
        coil_ok("compile", archive, "-o", package, *CUDA, *given)
        processes.append(
            subprocess.Popen(
                list(map(str, [COIL, command(rank)[0], package, *command(rank)[1:]])),
                env=environment(folder, archive, rank, store, given, **more),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    return processes


def run(folder, name, store, *options, **more):
    def command(rank):
        part = folder / f"{name}.{{rank}}"
        return "run", "--inputs", f"{part}.in.safetensors", "--outputs", f"{part}.{store}.safetensors"

    for rank, process in enumerate(start(folder, name, command, store, *options, **more)):
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors[-2000:]
        got = load_file(folder / f"{name}.{rank}.{store}.safetensors")
        assert not differences(got, load_file(folder / f"{name}.{rank}.want.safetensors"))
        yield errors


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(folder, name):
    for errors in run(folder, name, f"nccl-{name}"):
        assert ("cannot share memory" in errors) == (
            name in ("kinds", "in_place", "messages", "large", "residuals", "residual")
        )  # the driver of tests maps none


def going_on(processes, *stores, seconds=1.5):
    """All have met the other rank at their store, and go on for this time."""
    end = time.monotonic() + 60
    met = lambda store: {name[-4:] for name in os.listdir(store)} >= {f"_2f{rank}" for rank in range(RANKS)}
    while not all(store.exists() and met(store) for store in stores) and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(seconds)
    ended = [p.communicate(timeout=60)[1] for p in processes if p.poll() is not None]
    assert not ended


def run_on(processes, *stores):
    """None of them ends."""
    try:
        going_on(processes, *stores)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_recorded(folder):
    """As CUDA graphs: whole, and in parts where the host reads the splits between a start and its wait. Calls go on for
    as long as they are let; neither rank ends with an error.
    """
    command = lambda _: ("bench", "--seconds", "60", "--set", "cuda.graphs=true")
    names = ("exchanges", "experts")
    processes = [p for name in names for p in start(folder, name, command, f"recorded-{name}")]
    run_on(processes, *(folder / f"recorded-{name}" for name in names))


def test_shots_by_the_number_of_ranks(folder):
    """Unless the program was compiled with a number of bytes."""
    given = lambda *options: emit(folder / "large.0.pt2", "python", *TO_CUDA, *options).read_text()
    assert "two_shot_all_reduce" in given() and "by_ranks=1" in given()
    fixed = given("--set", "distribution.one_shot_bytes=1000")
    assert "two_shot_all_reduce" in fixed and "by_ranks=1" not in fixed
    assert "one_shot_all_reduce" in given("--set", "distribution.one_shot_bytes=1000000")


def test_messages_recorded(folder):
    """As CUDA graphs, each rank sending before it receives."""
    command = lambda _: ("bench", "--seconds", "60", "--set", "cuda.graphs=true")
    processes = start(folder, "around", command, "recorded-around")
    run_on(processes, folder / "recorded-around")


def test_sums_by_nccl(folder):
    no_shots = [o for n in ("one", "two") for o in ("--set", f"distribution.{n}_shot_bytes=0")]
    for errors in run(folder, "kinds", "no-shots", *no_shots):
        assert not errors


SHARES = {"COIL_FAKE_CUDA_SHARES": "1"}


def test_sums_in_kernels(folder):
    """Over memory of the other rank's device that kernels write to: call after call, so that both places that lines lie
    in come to be used again. The library is asked for no sum.
    """
    text = emit(folder / "residuals.0.pt2", "python", *TO_CUDA).read_text()
    assert "one_shot_all_reduce" not in text and "c_peer_sum" in text
    for errors in run(folder, "residuals", "fused", **SHARES):
        assert not errors
    command = lambda _: ("bench", "--seconds", "60")
    run_on(start(folder, "residuals", command, "fused-bench", **SHARES), folder / "fused-bench")


def test_sums_in_kernels_recorded(folder):
    command = lambda _: ("bench", "--seconds", "60", "--set", "cuda.graphs=true")
    run_on(start(folder, "residuals", command, "fused-recorded", **SHARES), folder / "fused-recorded")


def test_sums_in_calls_of_their_own(folder):
    apart = ("--set", "distribution.fuse_sums=false")
    text = emit(folder / "residuals.0.pt2", "python", *TO_CUDA, *apart).read_text()
    assert "begin_peer_sum" not in text and "one_shot_all_reduce" in text
    for errors in run(folder, "residuals", "apart", *apart):
        assert "cannot share memory" in errors


@pytest.mark.parametrize("form", ["python", "fx"])
def test_sums_in_kernels_in_python(folder, form):
    """Over torch's group, twice: kernels find the sum in their operand, and no other rank to wait for."""
    text = emit(folder / "residuals.0.pt2", form, *TO_CUDA).read_text()
    assert "torch_begin_peer_sum" in text and "c_peer_sum<" in text
    script, names = ROOT / "test/python/distribution_programs.py", ("residuals", "residual")
    processes = [
        subprocess.Popen(
            [sys.executable, script, "--emitted", f"{form}-cuda", str(rank), str(RANKS), folder, *names],
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(RANKS)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=200)
        assert process.returncode == 0, errors[-2000:]
    for name in names:
        for rank in range(RANKS):
            got = load_file(folder / f"{name}.{rank}.{form}-cuda.safetensors")
            assert not differences(got, load_file(folder / f"{name}.{rank}.want.safetensors"))


def test_rank_that_fuses_no_sums(folder):
    """Ranks that would wait for one another in different ways are told before anything is exchanged."""
    apart = lambda rank: ("--set", "distribution.fuse_sums=false") if rank == 1 else ()
    command = lambda _: ("bench", "--seconds", "60")
    for process in start(folder, "residuals", command, "fuses-not", apart, **SHARES):
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 1 and "planned otherwise" in errors, errors


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGSTOP])
def test_rank_that_leaves_sums_in_kernels(folder, ending):
    """The other one's kernel gives up after the timeout, and the error names the rank."""
    processes = start(
        folder,
        "residuals",
        lambda _: ("bench", "--seconds", "60"),
        f"leaves-{ending}",
        **SHARES,
        COIL_GROUP_TIMEOUT="10",
    )
    going_on(processes, folder / f"leaves-{ending}")
    os.kill(processes[1].pid, ending)
    begin = time.monotonic()
    _, errors = processes[0].communicate(timeout=60)
    processes[1].kill()
    processes[1].wait()
    assert processes[0].returncode == 1 and time.monotonic() - begin < 30
    assert "a sum of" in errors and "rank 1 is gone" in errors and "internal error" not in errors, errors


@pytest.mark.parametrize("graphs", ["false", "true"])
def test_ranks_at_sums_of_other_sizes(folder, graphs):
    """Each is told of the other's size long before the time is over, whether it has more elements or fewer."""
    for rank, rows in enumerate((4, 6)):
        save_file({"x": torch.ones(rows, 512)}, folder / f"rows.{rank}.safetensors")
    inputs = lambda rank: ("--inputs", folder / f"rows.{rank}.safetensors")
    command = lambda rank: ("bench", "--seconds", "60", "--set", f"cuda.graphs={graphs}", *inputs(rank))
    begin = time.monotonic()
    processes = start(folder, "residual", command, f"sizes-{graphs}", **SHARES)
    for rank, process in enumerate(processes):
        _, errors = process.communicate(timeout=60)
        own, others = (2048, 3072) if rank == 0 else (3072, 2048)
        assert process.returncode == 1 and time.monotonic() - begin < 50
        assert f"a sum of {own} elements" in errors and "internal error" not in errors, errors
        assert f"rank {1 - rank} is at another sum, of {others} elements" in errors, errors


@pytest.mark.parametrize("graphs", ["false", "true"])
def test_rank_that_dies(folder, graphs):
    """The other one ends with an error that names the rank and the collective, long before the time is over."""
    command = lambda _: ("bench", "--seconds", "60", "--set", f"cuda.graphs={graphs}")
    processes = start(folder, "exchanges", command, f"dies-{graphs}")
    going_on(processes, folder / f"dies-{graphs}")
    os.kill(processes[1].pid, signal.SIGKILL)
    processes[1].wait()
    begin = time.monotonic()
    _, errors = processes[0].communicate(timeout=60)
    assert processes[0].returncode == 1 and time.monotonic() - begin < 20
    assert (
        "rank 1 is gone" in errors and ("collective" in errors or graphs == "true") and "internal error" not in errors
    ), errors


def test_rank_that_is_late(folder):
    """It is stopped, and not gone: found by the time alone."""
    processes = start(folder, "exchanges", lambda _: ("bench", "--seconds", "60"), "late", COIL_GROUP_TIMEOUT="5")
    going_on(processes, folder / "late")
    os.kill(processes[1].pid, signal.SIGSTOP)
    _, errors = processes[0].communicate(timeout=60)
    os.kill(processes[1].pid, signal.SIGKILL)
    assert processes[0].returncode == 1, errors
    assert "did not end within 5" in errors and "rank 1 gone or late" in errors, errors


def test_without_nccl(folder, tmp_path):
    coil_ok("compile", folder / "exchanges.0.pt2", "-o", tmp_path / "alone.coil", *CUDA)
    (tmp_path / "libcuda.so.1").symlink_to(os.path.join(BUILD, "lib/fake_cuda/libcuda.so.1"))
    alone = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "x", "MASTER_PORT": "1", "LD_LIBRARY_PATH": str(tmp_path)}
    done = coil("run", tmp_path / "alone.coil", env=ENVIRONMENT | alone)
    assert done.returncode == 1 and "NCCL" in done.stderr and "internal error" not in done.stderr, done.stderr


@pytest.mark.parametrize("shots", [True, False])
def test_cpp(folder, shots):
    """Written as C++, one program for both ranks: sums over shared memory, or over NCCL, and other exchanges."""
    no_shots = [] if shots else [o for n in ("one", "two") for o in ("--set", f"distribution.{n}_shot_bytes=0")]
    source = emit(folder / "in_place.0.pt2", "cpp", *CUDA, *no_shots)
    other = emit(folder / "in_place.1.pt2", "cpp", *CUDA, *no_shots).read_text()
    assert source.read_text() == other.replace("in_place.1", "in_place.0")
    program = build_program(source)
    processes = []
    for rank in range(RANKS):
        part, results = folder / f"in_place.{rank}", folder / f"in_place.{rank}.cpp.safetensors"
        results.unlink(missing_ok=True)
        processes.append(
            subprocess.Popen(
                [program, f"{part}.in.safetensors", results],
                env=environment(folder, folder / f"in_place.{rank}.pt2", rank, f"cpp-{shots}", no_shots),
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    for rank, process in enumerate(processes):
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors[-2000:]
        assert ("cannot share memory" in errors) == shots, errors
        got = load_file(folder / f"in_place.{rank}.cpp.safetensors")
        assert not differences(got, load_file(folder / f"in_place.{rank}.want.safetensors"))


def test_ranks_that_start_other_ones_together(folder):
    """One of them was compiled without buckets: NCCL is given the exchanges one after the other then."""
    apart = lambda rank: ("--set", "distribution.bucket_bytes=0") if rank == 1 else ()
    for errors in run(folder, "branches", "apart", apart):
        assert not errors


def test_kernels(tmp_path):
    """With threads of the host for those of the device."""
    source, kernels = ROOT / "test/python/sources/peer_sums_emulated.cpp", ROOT / "src/runtime/cuda/groups"
    command = ["g++", "-std=c++20", "-O1", "-w", "-pthread", f"-I{kernels}", source, "-o", tmp_path / "kernels"]
    subprocess.run(command, check=True)
    done = subprocess.run([tmp_path / "kernels"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout


def test_kernels_are_those_of_their_text(tmp_path):
    """peer_sums.ptx is what NVRTC makes of peer_sums.cu."""
    nvrtc = next(p for p in pathlib.Path(PLACE).rglob("libnvrtc.so*") if "alt" not in p.name)
    command = [sys.executable, ROOT / "tools/compile_peer_sums.py", nvrtc, tmp_path / "made.ptx"]
    subprocess.run(command, check=True)
    assert (tmp_path / "made.ptx").read_text() == (ROOT / "src/runtime/cuda/groups/peer_sums.ptx").read_text(), (
        "run tools/compile_peer_sums.py"
    )
