"""The table of passes: docs/passes.md shows it, and each pass has a test of its own as text. `python test_passes.py
--write` brings the page up to date.
"""

import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from coil_harness import ROOT, coil, coil_ok  # noqa: E402

PAGE = ROOT / "docs/passes.md"


def page():
    return coil_ok("opt", "--list-passes").stdout


def names(*titles):
    """Passes and stages of these parts of the page, in order."""
    parts = re.findall(r"^## (.*)\n((?:(?!##).*\n?)*)", page(), re.M)
    return [name for title, part in parts if title in titles for name in re.findall(r"^\| `([\w-]+)` \|", part, re.M)]


def test_the_page_is_true():
    assert PAGE.read_text() == page(), "docs/passes.md is out of date (python test/python/test_passes.py --write)"


LEVELS = {
    "On the graph": "fx",
    "On loops": "loop",
    "From loops to kernels": "loop",
    "On the wrapper's lines": "wrap",
}


@pytest.mark.parametrize("title", LEVELS)
def test_each_pass_has_a_file(title):
    used = set()
    for path in (ROOT / "test/lit").rglob(f"*.{LEVELS[title]}"):
        used |= set(re.findall(r"--pass ([\w-]+)", path.read_text()))
    assert names(title)
    assert not [name for name in names(title) if name not in used]


def test_each_pass_can_be_logged():
    shown = names("On the graph", "On loops", "On the wrapper's lines", "What else `--log` shows")
    done = coil("compile", "no.pt2", "-o", "no.coil", "--log", ",".join(shown))
    assert "unknown log stage" not in done.stderr


if __name__ == "__main__":
    assert sys.argv[1:] == ["--write"], "usage: test_passes.py --write"
    PAGE.write_text(page())
