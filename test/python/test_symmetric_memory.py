"""Sums over memory that ranks share, between processes of this machine: against eager's over Gloo, and to the bit the
same on all ranks. Then what goes wrong: ranks that end, programs that differ, memory that cannot be shared.
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
from coil_harness import COIL, ROOT, coil, coil_ok, differences
from emitted import build_program

pytestmark = pytest.mark.xdist_group("symmetric_memory")  # exported once
SCRIPT = ROOT / "test/python/distribution_programs.py"
NAMES = ["sums", "mlp"]
# One-shot, two-shot, and a mixture of the two with the group's own collective.
SETTINGS = {
    "one": ["distribution.one_shot_bytes=65536"],
    "two": ["distribution.one_shot_bytes=0", "distribution.two_shot_bytes=65536"],
    "mixed": ["distribution.one_shot_bytes=100", "distribution.two_shot_bytes=600"],
}


def on_ranks(ranks, command, env=None, timeout=300):
    """Runs `command(rank)` in a process for each rank; their (return code, output, errors)."""
    processes = [
        subprocess.Popen(
            list(map(str, command(rank))),
            env=(env or os.environ) | {"RANK": str(rank), "WORLD_SIZE": str(ranks)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    return [(p.returncode, *texts) for p in processes for texts in [p.communicate(timeout=timeout)]]


def all_well(results):
    for code, _, errors in results:
        assert code == 0, errors[-2000:]


@pytest.fixture(scope="module", params=[2, 4])
def exported(request, tmp_path_factory):
    """The number of ranks, and a folder with programs, inputs and eager's results of each."""
    folder = tmp_path_factory.mktemp("symmetric")
    all_well(on_ranks(request.param, lambda rank: [sys.executable, SCRIPT, rank, request.param, folder, *NAMES]))
    return request.param, folder


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("symmetric_pair")
    all_well(on_ranks(2, lambda rank: [sys.executable, SCRIPT, rank, 2, folder, *NAMES]))
    return folder


def compiled(folder, ranks, name, form, *settings):
    for rank in range(ranks):
        package = folder / f"{name}.{rank}.{form}.coil"
        if not package.exists():
            options = [o for s in settings for o in ("--set", s)]
            coil_ok("compile", folder / f"{name}.{rank}.pt2", "-o", package, *options)
    return folder / f"{name}.{{rank}}.{form}.coil"


@pytest.mark.parametrize("form", SETTINGS)
@pytest.mark.parametrize("name", NAMES)
def test_sums(exported, name, form):
    ranks, folder = exported
    package = compiled(folder, ranks, name, form, *SETTINGS[form])
    inputs, results = folder / f"{name}.{{rank}}.in.safetensors", folder / f"{name}.{{rank}}.{form}.safetensors"
    coil_ok("run", package, "--ranks", ranks, "--inputs", inputs, "--outputs", results, timeout=120)
    got = [load_file(folder / f"{name}.{rank}.{form}.safetensors") for rank in range(ranks)]
    tolerance = {torch.float16: 2e-3, torch.bfloat16: 2e-2}  # eager rounds to 16 bits between any two ranks
    for rank in range(ranks):
        want = load_file(folder / f"{name}.{rank}.want.safetensors")
        assert not differences(got[rank], want, lambda k: {"tolerance": tolerance.get(want[k].dtype, 1e-5)})
    if form != "mixed":  # Gloo does not promise it
        for key in got[0]:
            if key != "0" or name == "mlp":  # the product of each rank's own operands
                assert all(torch.equal(got[0][key], other[key]) for other in got[1:]), key


def test_the_sum_is_the_sum_of_the_operands_in_order(exported):
    """16-bit operands are added up in f32, in the order of the ranks, and rounded once."""
    ranks, folder = exported
    package = compiled(folder, ranks, "sums", "one", *SETTINGS["one"])
    inputs, results = folder / "sums.{rank}.in.safetensors", folder / "sums.{rank}.order.safetensors"
    coil_ok("run", package, "--ranks", ranks, "--inputs", inputs, "--outputs", results, timeout=120)
    given = [load_file(folder / f"sums.{rank}.in.safetensors") for rank in range(ranks)]
    got = load_file(folder / "sums.0.order.safetensors")
    for key, name in (("4.0", "halves"), ("4.1", "brains")):
        total = (given[0][name] + 1).float()
        for other in given[1:]:
            total = total + (other[name] + 1).float()
        assert torch.equal(got[key], total.to(given[0][name].dtype)), key


def test_no_wait_and_no_copy(pair):
    """The product is made in the communication buffer, and nothing waits for the sum."""
    text = coil_ok("compile", pair / "mlp.0.pt2", "--emit", "wrapper", "-o", "-").stdout
    lines = [line.strip() for line in text.splitlines() if not line.startswith("buffer")]
    sums = [k for k, line in enumerate(lines) if "one_shot_all_reduce" in line]
    assert len(sums) == 2 and "wait_collective" not in text and "all_reduce(" in text
    for k in sums:
        operand = lines[k].split("one_shot_all_reduce(")[1].split(")")[0]
        made = next(line for line in lines if line.startswith(f"extern {operand} = "))
        assert "= linear(" in made, made
        assert any(line.startswith(f"comm allocate {operand} at ") for line in lines)


def test_explain_tells_what_sharing_saves(pair):
    text = coil_ok("explain", pair / "mlp.0.pt2").stdout
    part = text.split("Communication buffers")[1]
    assert "process group 0: 4.0 KiB, 4.0 KiB saved" in part, part[:400]


@pytest.mark.parametrize("form", ["python", "fx"])
def test_source_in_python(pair, form):
    """Over torch's groups, twice."""
    all_well(on_ranks(2, lambda rank: [sys.executable, SCRIPT, "--emitted", form, rank, 2, pair, *NAMES]))
    for name in NAMES:
        for rank in range(2):
            want = load_file(pair / f"{name}.{rank}.want.safetensors")
            got = load_file(pair / f"{name}.{rank}.{form}.safetensors")
            assert not differences(got, want, lambda _: {"tolerance": 2e-2})


@pytest.mark.parametrize("name", NAMES)
def test_source_in_cpp(pair, name):
    programs = []
    for rank in range(2):
        source = pair / f"{name}_{rank}.cpp"
        coil_ok("compile", pair / f"{name}.{rank}.pt2", "--emit", "cpp", "-o", source)
        programs.append(build_program(source))
    env = coil_harness.ENVIRONMENT | {"COIL_GROUP_STORE": f"file:{pair / f'store-cpp-{name}'}"}
    files = lambda rank: [pair / f"{name}.{rank}.in.safetensors", pair / f"{name}.{rank}.cpp.safetensors"]
    all_well(on_ranks(2, lambda rank: [programs[rank], *files(rank)], env))
    for rank in range(2):
        want = load_file(pair / f"{name}.{rank}.want.safetensors")
        got = load_file(pair / f"{name}.{rank}.cpp.safetensors")
        assert not differences(got, want, lambda _: {"tolerance": 2e-2})


def test_programs_that_plan_otherwise(pair):
    """Neither rank computes with what the other has put elsewhere."""
    mine = compiled(pair, 2, "mlp", "one", *SETTINGS["one"])
    other = compiled(pair, 2, "sums", "one", *SETTINGS["one"])
    packages = [str(mine).replace("{rank}", "0"), str(other).replace("{rank}", "1")]
    env = coil_harness.ENVIRONMENT | {"COIL_GROUP_STORE": f"file:{pair / 'store-plans'}", "COIL_GROUP_TIMEOUT": "20"}
    for code, _, errors in on_ranks(2, lambda rank: [COIL, "bench", packages[rank], "--seconds", 1], env):
        assert code == 1 and "rank 1 are planned otherwise than those of rank 0" in errors, errors


def test_rank_that_does_not_come(pair):
    package = compiled(pair, 2, "mlp", "one", *SETTINGS["one"])
    env = {
        "COIL_GROUP_STORE": f"file:{pair / 'store-alone'}",
        "COIL_GROUP_TIMEOUT": "2",
        "RANK": "0",
        "WORLD_SIZE": "2",
    }
    begin = time.monotonic()
    done = coil("bench", str(package).replace("{rank}", "0"), "--seconds", 1, env=coil_harness.ENVIRONMENT | env)
    assert done.returncode == 1 and "rank 1" in done.stderr and "internal error" not in done.stderr, done.stderr
    assert time.monotonic() - begin < 30


FOREVER = """
import sys, torch
sys.path.insert(0, sys.argv[3])
import coil
from safetensors.torch import load_file
model = coil.load(sys.argv[1])
inputs = list(load_file(sys.argv[2]).values())
while True:
    model(*inputs)
    print("turn", flush=True)
"""


@pytest.mark.parametrize("form", ["one", "two"])
@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.full)])
def test_rank_that_dies(ranks, form, tmp_path_factory, request):
    """Each of the others ends within seconds, though the timeout is far longer, with an error that names it."""
    folder = tmp_path_factory.mktemp("dies")
    all_well(on_ranks(ranks, lambda rank: [sys.executable, SCRIPT, rank, ranks, folder, "mlp"]))
    package = str(compiled(folder, ranks, "mlp", form, *SETTINGS[form]))
    env = coil_harness.ENVIRONMENT | {"COIL_GROUP_STORE": f"file:{folder / 'store'}", "COIL_GROUP_TIMEOUT": "120"}
    processes = [
        subprocess.Popen(
            [
                *(sys.executable, "-c", FOREVER, package.replace("{rank}", str(rank))),
                *(folder / f"mlp.{rank}.in.safetensors", ROOT / "build/python"),
            ],
            env=env | {"RANK": str(rank), "WORLD_SIZE": str(ranks)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    for p in processes:
        assert p.stdout.readline() == "turn\n", p.communicate(timeout=60)
    os.kill(processes[-1].pid, signal.SIGKILL)
    begin = time.monotonic()
    for p in processes[:-1]:
        _, errors = p.communicate(timeout=60)
        # Another rank that found it first has failed by then.
        assert p.returncode == 1 and (f"rank {ranks - 1} is gone" in errors or "has failed" in errors), errors
        assert "internal error" not in errors and "process group 'default'" in errors, errors
    assert time.monotonic() - begin < 30
    processes[-1].communicate()


def test_memory_that_cannot_be_shared(pair):
    """The sums go through the group's own collectives, with one warning on each rank."""
    package = compiled(pair, 2, "sums", "one", *SETTINGS["one"])
    env = coil_harness.ENVIRONMENT | {"COIL_GROUP_STORE": f"file:{pair / 'store-apart'}", "COIL_GROUP_SHARED": "0"}
    files = lambda rank: [
        *("--inputs", pair / "sums.{rank}.in.safetensors", "--outputs", pair / "sums.{rank}.apart.safetensors"),
    ]
    done = on_ranks(2, lambda rank: [COIL, "run", str(package).replace("{rank}", str(rank)), *files(rank)], env)
    all_well(done)
    for rank, (_, _, errors) in enumerate(done):
        assert errors.count("cannot share memory") == 1, errors
        want = load_file(pair / f"sums.{rank}.want.safetensors")
        assert not differences(load_file(pair / f"sums.{rank}.apart.safetensors"), want, lambda _: {"tolerance": 2e-2})


def test_nothing_stays_behind(pair):
    """Names of shared memory go when all ranks have mapped it."""
    before = {n for n in os.listdir("/dev/shm") if n.startswith("coil-")}
    package = compiled(pair, 2, "mlp", "one", *SETTINGS["one"])
    coil_ok("run", package, "--ranks", 2, "--inputs", pair / "mlp.{rank}.in.safetensors", timeout=60)
    assert {n for n in os.listdir("/dev/shm") if n.startswith("coil-")} <= before


@pytest.mark.parametrize("key", ["distribution.one_shot_bytes", "distribution.two_shot_bytes"])
@pytest.mark.parametrize("value", ["many", "-1", "1.5", ""])
def test_bytes_that_are_no_number(pair, key, value):
    done = coil("compile", pair / "mlp.0.pt2", "-o", pair / "none.coil", "--set", f"{key}={value}")
    assert done.returncode == 1 and f"setting {key} takes a number of bytes" in done.stderr, done.stderr


def test_chart_shows_communication_buffers(pair, tmp_path):
    """In a color of their own, above the program's own memory."""
    options = [o for setting in SETTINGS["one"] for o in ("--set", setting)]
    coil_ok("explain", pair / "mlp.0.pt2", "--html", tmp_path / "page.html", *options)
    page = (tmp_path / "page.html").read_text()
    assert page.count('fill="#9bc9a4"') == 2  # a sum in each layer
