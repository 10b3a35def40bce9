"""Collectives through torch.compile: two processes over Gloo go through collective_cases.py and own_exchange_cases.py,
whose cases are tests here.
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest

import collective_cases
import own_exchange_cases

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "build/python"))
pytest.importorskip("coil", reason="the Python extension is not built")
pytestmark = [
    pytest.mark.cpu("bench/collectives_check.py runs the same on GPUs"),
    pytest.mark.xdist_group("collectives"),
]
WORLD, SECONDS = 2, 600


@pytest.fixture(scope="module")
def found(request, tmp_path_factory):
    """What each rank found, by case. A rank that hangs is ended; the others then fail in its place."""
    here = [item for item in request.session.items if item.path == request.path and "found" in item.fixturenames]
    names = [item.callspec.params["name"] for item in here]
    folder = tmp_path_factory.mktemp("collectives")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "COIL_CACHE": str(folder / "cache"),
        "OMP_NUM_THREADS": "1",
    }
    script = pathlib.Path(own_exchange_cases.__file__)
    ranks = []
    for rank in range(WORLD):
        command = [sys.executable, script, str(rank), str(WORLD), folder / "store", folder / f"{rank}.json", *names]
        log = (folder / f"{rank}.log").open("w")
        ranks.append(subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT))
    for process in ranks:
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    results = []
    for rank in range(WORLD):
        lines = (folder / f"{rank}.json").read_text().splitlines() if (folder / f"{rank}.json").exists() else []
        results.append({line["name"]: line for line in map(json.loads, lines)})
        results[-1]["log"] = (folder / f"{rank}.log").read_text()[-3000:]
    return results


@pytest.mark.parametrize("name", collective_cases.CASES)
def test_case(found, name):
    failed = [f"rank {rank}: {r[name]['failed']}" for rank, r in enumerate(found) if "failed" in r.get(name, {})]
    assert not failed, "\n".join(failed)
    for rank, results in enumerate(found):
        assert name in results, f"rank {rank} did not come to it, for what went before failed: {results['log']}"


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
