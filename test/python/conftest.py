"""What every test here needs: quiet, reproducible torch, and the command built."""
import logging
import os
import pathlib
import sys
import warnings

import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import coil_harness  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "full: the models of the contract at their full size (minutes); run with --full")
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    if not os.access(coil_harness.COIL, os.X_OK):
        pytest.exit(f"{coil_harness.COIL} is not there: build first, or set COIL", returncode=2)


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="run the tests marked full as well")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--full"):
        full = [item for item in items if item.get_closest_marker("full")]
        config.hook.pytest_deselected(items=full)
        items[:] = [item for item in items if item not in set(full)]


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)
