"""Collectives through torch.compile: two processes over Gloo go through collective_cases.py, own_exchange_cases.py,
failed_exchange_cases.py and rank_programs.py, whose cases are tests here, and four through some of them.
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest

import collective_cases
import rank_programs

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "build/python"))
pytest.importorskip("coil", reason="the Python extension is not built")
pytestmark = [
    pytest.mark.cpu("bench/collectives_check.py runs the same on GPUs"),
    pytest.mark.xdist_group("collectives"),
]
WORLD, SECONDS = 2, 600
# On four ranks: groups of some, meshes of two dimensions, empty parts, ranks that differ.
OF_FOUR = (
    pytest.param("products_of_all_placements", marks=pytest.mark.full),
    "uneven_shards",
    "two_dimensional_placements",
    "sharded_and_kept",
    "hybrid_sharding",
    "experts_with_empty_ranks",
    "loops_with_exchanges",
    "subgroups_of_ranks",
    "groups_in_turn",
    "tensor_and_data_parallel",
    "rows_that_differ_between_ranks",
    "recompiles_on_one_rank",
    "large_and_small_sums",
    "run_that_fails_on_one_rank",
)


def run_ranks(world, names, folder):
    """What each rank found, by case. A rank that hangs is ended; the others then fail in its place."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "COIL_CACHE": str(folder / "cache"),
        "OMP_NUM_THREADS": "1",
    }
    script = pathlib.Path(rank_programs.__file__)
    ranks = []
    for rank in range(world):
        command = [sys.executable, script, str(rank), str(world), folder / "store", folder / f"{rank}.json", *names]
        log = (folder / f"{rank}.log").open("w")
        ranks.append(subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT))
    for process in ranks:
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    results = []
    for rank in range(world):
        lines = (folder / f"{rank}.json").read_text().splitlines() if (folder / f"{rank}.json").exists() else []
        results.append({line["name"]: line for line in map(json.loads, lines)})
        results[-1]["log"] = (folder / f"{rank}.log").read_text()[-3000:]
    return results


def names_asked_for(request):
    """Of the tests of this session that use a fixture."""
    items = request.session.items
    here = [i for i in items if i.path == request.path and request.fixturename in i.fixturenames]
    return [i.callspec.params["name"] for i in here]


@pytest.fixture(scope="module")
def found(request, tmp_path_factory):
    return run_ranks(WORLD, names_asked_for(request), tmp_path_factory.mktemp("collectives"))


@pytest.fixture(scope="module")
def found_by_four(request, tmp_path_factory):
    return run_ranks(4, names_asked_for(request), tmp_path_factory.mktemp("four"))


def check(found, name):
    failed = [f"rank {rank}: {r[name]['failed']}" for rank, r in enumerate(found) if "failed" in r.get(name, {})]
    assert not failed, "\n".join(failed)
    for rank, results in enumerate(found):
        assert name in results, f"rank {rank} did not come to it, for what went before failed: {results['log']}"


def is_full(name):
    """The models and training of rank_programs.py take as long as all others together."""
    return collective_cases.CASES[name].__module__ == rank_programs.__name__


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.full if is_full(name) else ()) for name in collective_cases.CASES],
)
def test_case(found, name):
    check(found, name)


@pytest.mark.parametrize("name", OF_FOUR)
def test_case_of_four_ranks(found_by_four, name):
    check(found_by_four, name)


@pytest.mark.parametrize("kind", ["sum", "max"])
def test_rank_that_dies(tmp_path, kind):
    """The other one's call ends with an error that names it, whether ranks share memory or send messages."""
    script = pathlib.Path(__file__).resolve().with_name("endless_exchanges.py")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "COIL_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, script, tmp_path / "store", kind]
    first, second = (
        subprocess.Popen([*command, str(rank)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for rank in range(WORLD)
    )
    assert first.stdout.readline() == b"running\n", first.communicate(timeout=60)
    second.kill()
    second.wait()
    _, errors = first.communicate(timeout=60)
    said = errors.decode().strip().splitlines()[-1]
    assert first.returncode == 1 and "rank 1" in said and "process group 'torch:0'" in said, errors.decode()[-2000:]


def test_under_torchrun(tmp_path):
    """Four ranks that find one another at the store of torchrun's agent, in groups of a mesh."""
    script = pathlib.Path(__file__).resolve().with_name("mesh_exchanges.py")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "COIL_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4", script]
    done = subprocess.run(
        command, env=environment | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0 and done.stdout.count("right") == 4, done.stderr[-3000:]


def test_fake_group():
    """Whose ranks are not there, and whose store holds nothing: torch's calls do what they do there."""
    script = pathlib.Path(__file__).resolve().with_name("fake_group_exchanges.py")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
