"""What every test here needs: quiet, reproducible torch, and the command built."""

import collections
import contextlib
import functools
import gc
import logging
import os
import pathlib
import sys
import traceback
import warnings
import zlib

import pytest
import torch
import torch._export.utils

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import coil_harness  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "full: the models of the contract at their full size (minutes); run with --full")
    config.addinivalue_line(
        "markers", "cpu(why): looks at what only programs for the CPU have; skipped with another --device"
    )
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    gc.freeze()  # torch's million of objects, which each collection would look through
    gc.set_threshold(20000, 20, 20)
    # Each run_decompositions() asks for torch's C++ operators once for every namespace there is, a third of what it
    # takes; the answer stays the same.
    torch._export.utils._materialize_cpp_cia_ops = functools.cache(torch._export.utils._materialize_cpp_cia_ops)
    if (device := config.getoption("--device")) != "cpu":
        coil_harness.COMPILE_OPTIONS += ["--device", device, "--set", "cpu.isa=avx2"]
        torch.backends.cudnn.allow_tf32 = False  # eager is what results are compared with
    for setting in config.getoption("--set"):
        coil_harness.COMPILE_OPTIONS += ["--set", setting]
    if not os.access(coil_harness.COIL, os.X_OK):
        pytest.exit(f"{coil_harness.COIL} is not there: build first, or set COIL", returncode=2)


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="run the tests marked full as well")
    parser.addoption(
        "--share",
        metavar="K/N",
        help="of the cases of tests with several only the Kth of N parts, of tests with one case a half (default: all)",
    )
    parser.addoption("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of every compile")
    parser.addoption(
        "--device",
        default="cpu",
        help=(
            "where programs run (cuda: on the GPU of this machine; eager stays on the CPU but for torch.compile's "
            "tests)"
        ),
    )


def fixtures_named_by(item):
    """Definitions of what the test's parameters name, and of what those name in turn."""
    known, names, seen = item._fixtureinfo.name2fixturedefs, list(item._fixtureinfo.argnames), set()
    while names:
        if (name := names.pop()) not in seen:
            seen.add(name)
            for definition in known.get(name, ()):
                yield definition
                names += definition.argnames


def outside_share(items, share):
    """What a run of the share `K/N` leaves out: of tests with several cases those whose names fall to other parts, of
    tests with one case every other one.
    """
    part, parts = map(int, share.split("/"))
    test = lambda item: item.nodeid.partition("[")[0]
    cases = collections.Counter(map(test, items))
    parts_of = lambda item: parts if cases[test(item)] > 1 else min(parts, 2)
    return {item for item in items if (zlib.crc32(item.nodeid.encode()) - part) % parts_of(item)}


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(config, items):
    for item in items:  # what a module makes once is made by one worker
        if not item.get_closest_marker("xdist_group") and any(
            definition.scope == "module" for definition in fixtures_named_by(item)
        ):
            item.add_marker(pytest.mark.xdist_group(item.module.__name__))
    left_out = set() if config.getoption("--full") else {item for item in items if item.get_closest_marker("full")}
    if share := config.getoption("--share"):
        left_out |= outside_share(items, share)
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]
    if config.getoption("--device") != "cpu":
        for item in items:
            if mark := item.get_closest_marker("cpu"):
                item.add_marker(pytest.mark.skip(reason=f"of the CPU: {mark.args[0]}"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """What torch before 2.13, which the tests are written for, cannot export is no failure of Coil's."""
    try:
        return (yield)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        if torch.__version__ >= "2.13" or not any(
            f"torch{os.sep}{part}{os.sep}" in frame.filename for frame in frames for part in ("export", "_export")
        ):
            raise
        pytest.skip(f"torch {torch.__version__} does not export this program: {type(error).__name__}")


@pytest.fixture(autouse=True)
def seed(request):
    torch.manual_seed(0)
    device = request.config.getoption("--device")
    with (
        torch.device(device)
        if device != "cpu" and request.module.__name__.startswith("test_torch_")
        else contextlib.nullcontext()
    ):
        yield


@pytest.fixture
def on_cpu(request):
    """Whether programs run on the CPU, for looks at what only those have in tests of values that hold everywhere."""
    return request.config.getoption("--device") == "cpu"


@pytest.fixture
def fresh(tmp_path_factory, monkeypatch):
    """For torch.compile's tests: nothing compiled before counts, and kernels are kept in a folder of this run's."""
    monkeypatch.setenv("COIL_CACHE", str(tmp_path_factory.getbasetemp() / "kernels"))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "torch"))
    torch._dynamo.reset()


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """A folder that this build is installed in."""
    folder = tmp_path_factory.mktemp("prefix")
    coil_harness.ok("cmake", "--install", coil_harness.ROOT / "build", "--prefix", folder)
    return folder
