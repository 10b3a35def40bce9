"""Sources are formatted and linted, and no line of them is longer than 120 columns."""

import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOPS = ("src", "include", "tools", "python", "test", "bench", "examples", "cmake")
FILES = sorted(p for top in TOPS for p in (ROOT / top).rglob("*") if p.is_file())
FORMATTED = {".cpp", ".h", ".c", ".cuh", ".js"}
SOURCES = {*FORMATTED, ".py", ".rs", ".css", ".cmake", ".sh", ".txt", ".in", ".map"}
COLUMNS = 120


def test_lines_end_at_120_columns():
    files = [p for p in FILES if p.suffix in SOURCES and ROOT / "test/fixtures" not in p.parents]
    files += [ROOT / name for name in ("CMakeLists.txt", "CMakePresets.json", "Makefile", "pyproject.toml", ".ci/run")]
    long = [
        f"{p.relative_to(ROOT)}:{number}: {len(line)} columns"
        for p in files
        for number, line in enumerate(p.read_text().split("\n"), 1)
        if len(line) > COLUMNS
    ]
    assert len(files) > 500 and not long, "\n".join(long)


@pytest.mark.skipif(not shutil.which("clang-format-19"), reason="cmake/setup.sh clang installs clang-format-19")
def test_clang_format():
    files = [str(p) for p in FILES if p.suffix in FORMATTED]
    done = subprocess.run(["clang-format-19", "--dry-run", "-Werror", *files], capture_output=True, text=True)
    assert len(files) > 400 and done.returncode == 0, done.stderr[:4000]


@pytest.mark.parametrize("command", [["format", "--check"], ["check"]], ids=" ".join)
def test_ruff(command):
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *command, "--no-cache", "."], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[:4000] + done.stderr


def test_no_string_of_a_kernel_looks_like_a_comment():
    """cmake/embed.cmake cuts comments off kernels' text; it knows no strings."""
    files = [
        p for folder in ("cpp", "cuda", "grid", "metal", "shared") for p in (ROOT / "src/device" / folder).iterdir()
    ]
    wrong = [
        f"{p.name}: {line}"
        for p in files
        for line in p.read_text().split("\n")
        if "/*" in line or line.split("//")[0].count('"') % 2
    ]
    assert len(files) > 25 and not wrong, "\n".join(wrong)
