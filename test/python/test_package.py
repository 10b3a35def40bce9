"""What others build on: the installed CMake package, the pkg-config file, the runtime library alone, the examples."""

import os
import subprocess
import sys

import pytest

from coil_harness import ROOT, coil_ok, ok

PROGRAM = ROOT / "examples/cpp"


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    path = tmp_path_factory.mktemp("digits") / "digits.coil"
    coil_ok("compile", ROOT / "examples/digits/digits.pt2", "-o", path)
    return path


def library_folder(prefix):
    return next(prefix.rglob("libcoil.so")).parent


def test_find_package(prefix, package, tmp_path):
    ok("cmake", "-S", PROGRAM, "-B", tmp_path, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}")
    ok("cmake", "--build", tmp_path)
    for model in (package, ROOT / "examples/digits/digits.pt2"):
        assert ok(tmp_path / "ones", model).startswith("float32, first element ")


def test_pkg_config(prefix, package, tmp_path):
    folder = library_folder(prefix)
    flags = ok(
        "pkg-config", "--cflags", "--libs", "coil", env=os.environ | {"PKG_CONFIG_PATH": str(folder / "pkgconfig")}
    ).split()
    ok("g++", PROGRAM / "main.cpp", *flags, "-o", tmp_path / "ones")
    assert ok(tmp_path / "ones", package, env=os.environ | {"LD_LIBRARY_PATH": str(folder)}).startswith(
        "float32, first element "
    )


def test_cmake_snippet_beside_emitted_source(prefix, package, tmp_path):
    coil_ok("compile", ROOT / "examples/digits/digits.pt2", "-o", tmp_path / "the digits.cpp", "--emit", "cpp")
    (tmp_path / "CMakeLists.txt").write_text(
        'cmake_minimum_required(VERSION 3.20)\nproject(use CXX)\ninclude("the digits.cmake")\n'
    )
    ok(
        "cmake",
        "-S",
        tmp_path,
        "-B",
        tmp_path / "build",
        "-G",
        "Ninja",
        f"-DCMAKE_PREFIX_PATH={prefix}",
        "-DCMAKE_CXX_FLAGS=-O1",
    )
    ok("cmake", "--build", tmp_path / "build", "--target", "coil_the_digits")
    usage = subprocess.run([tmp_path / "build/coil_the_digits"], capture_output=True, text=True)
    assert usage.returncode == 2 and usage.stderr.startswith("usage: ")


def test_installed_command(prefix, package):
    assert "output: f32[" in ok(prefix / "bin/coil", "run", package)


def test_the_runtime_links_without_the_compiler(prefix):
    folder = library_folder(prefix)
    symbols = ok("nm", "-DC", folder / "libcoil_runtime.so")
    assert "coil::lowering::" not in symbols and "coil::frontend::" not in symbols
    assert (folder / "libcoil_runtime.so").stat().st_size < (folder / "libcoil.so").stat().st_size


def test_digits_demo():
    said = ok(ROOT / "build/bin/digits_demo", ROOT / "examples/digits")
    assert "held-out images right" in said and "latency" in said


def test_sentences_example():
    said = ok(sys.executable, ROOT / "examples/sentences/embed.py")
    assert "The cat sat" in said and "furthest from eager" in said
