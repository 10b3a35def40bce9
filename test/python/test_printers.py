"""Symbolic sizes as code: random expressions printed for C++, CUDA, Metal, Triton and Python in 32 and 64 bits, and the
text run. A host has no GPU: NVRTC compiles the CUDA text, which then runs as the C++
that it also is, as does Metal's; Triton's runs under integers that divide and wrap as Triton's do.

COIL_SYM_COUNT sets how many (the test's own run is short), COIL_SYM_SEED which.
"""

import ctypes
import os
import pathlib
import random
import subprocess
import types

import pytest

from coil_harness import UNIT_TESTS
from test_cuda_text import NVRTC

COUNT = int(os.environ.get("COIL_SYM_COUNT", 400))
SEED = os.environ.get("COIL_SYM_SEED") or str(random.SystemRandom().randrange(2**32))
SYMBOLS = ("s0", "s1", "s2", "i0", "i1", "i2", "r0")
LANGUAGES = ("cpp", "cuda", "metal", "triton", "python")
pytestmark = pytest.mark.skipif(UNIT_TESTS is None, reason="the unit tests are not built, which print the expressions")


class Texts:
    """`cases`: (width, {language: text}, [(value, symbols' values)]); `helpers`: by language, the functions that they
    call.
    """

    def __init__(self, folder):
        path = folder / "texts"
        done = subprocess.run(
            [UNIT_TESTS, "--gtest_filter=SymProperty.TextsForLanguages", "--gtest_brief=1"],
            capture_output=True,
            text=True,
            env=os.environ | {"COIL_SYM_TEXTS": str(path), "COIL_SYM_COUNT": str(COUNT), "COIL_SYM_SEED": SEED},
        )
        assert done.returncode == 0, done.stdout[-2000:]
        self.cases = []
        for line in path.read_text().splitlines():
            width, *rest = line.split("\t")
            points = [[int(v) for v in p.split()] for p in rest[len(LANGUAGES) :]]
            self.cases.append((int(width), dict(zip(LANGUAGES, rest)), [(p[0], p[1:]) for p in points]))
        assert len(self.cases) == COUNT
        self.helpers = {name: path.with_name(f"texts.{name}").read_text() for name in LANGUAGES}


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return Texts(tmp_path_factory.mktemp("printers"))


def functions(texts, language, types_of, head=""):
    """A function for each case, in a language of C's family."""
    lines = [head, texts.helpers[language]]
    for k, (width, text, _) in enumerate(texts.cases):
        t = types_of[width]
        lines.append(
            (
                f"{head and '__global__ '}void f{k}({', '.join(f'{t} {s}' for s in SYMBOLS)}, {t}* out) {{ *out = "
                f"{text[language]}; }}"
            )
            if language == "cuda" and head
            else f"static {t} f{k}({', '.join(f'{t} {s}' for s in SYMBOLS)}) {{ return {text[language]}; }}"
        )
    return lines


@pytest.mark.parametrize(
    "language, standard, types_of",
    [
        ("cpp", "c++20", {32: "int", 64: "long long"}),
        ("cuda", "c++17", {32: "int", 64: "long long"}),
        ("metal", "c++14", {32: "int", 64: "long"}),
    ],
)
def test_text_of_c_like_languages_runs(language, standard, types_of, texts, tmp_path):
    lines = ["#include <cstdio>", *functions(texts, language, types_of), "int main() {"]
    for k, (_, _, points) in enumerate(texts.cases):
        for value, symbols in points:
            arguments = ", ".join(f"{v}LL" for v in symbols)
            lines.append(
                f'  if (f{k}({arguments}) != {value}LL) std::printf("{k}: %lld, not {value}\\n", (long '
                f"long)f{k}({arguments}));"
            )
    source, program = tmp_path / "texts.cpp", tmp_path / "texts"
    source.write_text("\n".join([*lines, "}"]))
    # -fwrapv: sums may pass the range on the way, as they may in all of these languages but this one. An overflow of a
    # narrow constant is an error all the same.
    built = subprocess.run(
        ["g++", f"-std={standard}", "-O0", "-fwrapv", "-Werror=overflow", source, "-o", program],
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, f"seed {SEED}\n{built.stderr[-3000:]}"
    said = subprocess.run([program], capture_output=True, text=True).stdout.splitlines()
    assert not said, f"seed {SEED}: {len(said)} wrong; {said[0]} for {texts.cases[int(said[0].split(':')[0])]}"


@pytest.mark.skipif(NVRTC is None, reason="nvidia-cuda-nvrtc is not installed")
def test_cuda_text_compiles(texts):
    first = lambda pattern: str(sorted(pathlib.Path(NVRTC).rglob(pattern))[0])
    ctypes.CDLL(first("libnvrtc-builtins.so*"))  # which the library opens by its bare name
    nvrtc = ctypes.CDLL(first("libnvrtc.so*"))
    source = "\n".join(functions(texts, "cuda", {32: "int", 64: "long long"}, head=" "))
    program = ctypes.c_void_p()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"texts.cu", 0, None, None) == 0
    options = (ctypes.c_char_p * 3)(b"-std=c++17", b"-default-device", b"--gpu-architecture=sm_90")
    status = nvrtc.nvrtcCompileProgram(program, 3, options)
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value + 1)
    nvrtc.nvrtcGetProgramLog(program, log)
    assert status == 0, f"seed {SEED}\n{log.value.decode()[:3000]}"
    cubin = ctypes.c_size_t()
    assert nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(cubin)) == 0 and cubin.value > 1000
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def test_python_text_runs(texts):
    for _, text, points in texts.cases:
        for value, symbols in points:
            got = eval(text["python"], dict(zip(SYMBOLS, symbols)))
            assert got == value, f"seed {SEED}: {text['python']} is {got}, not {value}, at {symbols}"


class Device:
    """An integer as Triton computes: of 1, 32 or 64 bits, wrapping, divided towards zero. Numbers of the text itself
    take the other side's width, at least 32 bits.
    """

    def __init__(self, value, width):
        self.width, self.value = (
            width,
            value & 1 if width == 1 else (value + (1 << (width - 1))) % (1 << width) - (1 << (width - 1)),
        )

    @staticmethod
    def of(x, beside=1):
        if isinstance(x, Device):
            return x
        return Device(int(x), 1 if isinstance(x, bool) else max(beside, 32 if -(2**31) <= x < 2**31 else 64))

    def _pair(self, other):
        other = Device.of(other, self.width)
        return self.value, other.value, max(self.width, other.width)

    def _make(name, compute, swapped=False):
        def method(self, other):
            a, b, width = self._pair(other)
            return Device(*compute(b, a, width) if swapped else compute(a, b, width))

        return method

    @staticmethod
    def _quotient(a, b):
        if b == 0:  # in the branch that tl.where does not take: a GPU goes on with any number
            return 0x5EED
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)

    def _shift(a, b, width):
        assert 0 <= b < width, f"a shift by {b} of {width} bits"
        return b

    ARITHMETIC = {
        "add": lambda a, b, w: (a + b, w),
        "sub": lambda a, b, w: (a - b, w),
        "mul": lambda a, b, w: (a * b, w),
        "floordiv": lambda a, b, w: (Device._quotient(a, b), w),
        "mod": lambda a, b, w: (a - b * Device._quotient(a, b), w),
        "and": lambda a, b, w: (a & b, w),
        "or": lambda a, b, w: (a | b, w),
        "xor": lambda a, b, w: (a ^ b, w),
        "lshift": lambda a, b, w, shift=_shift: (a << shift(a, b, w), w),
        "rshift": lambda a, b, w, shift=_shift: (a >> shift(a, b, w), w),
    }
    for _name, _compute in ARITHMETIC.items():
        locals()[f"__{_name}__"], locals()[f"__r{_name}__"] = _make(_name, _compute), _make(_name, _compute, True)
    for _name, _compute in {
        "eq": lambda a, b, w: (a == b, 1),
        "ne": lambda a, b, w: (a != b, 1),
        "lt": lambda a, b, w: (a < b, 1),
        "le": lambda a, b, w: (a <= b, 1),
        "gt": lambda a, b, w: (a > b, 1),
        "ge": lambda a, b, w: (a >= b, 1),
    }.items():
        locals()[f"__{_name}__"] = _make(_name, _compute)

    def __neg__(self):
        return Device(-self.value, self.width)

    def __bool__(self):
        return self.value != 0


def triton_language():
    def where(condition, a, b):
        a, b = Device.of(a), Device.of(b)
        assert Device.of(condition).width == 1, "a condition that is no truth value"
        return Device((a if condition else b).value, max(a.width, b.width))

    def pick(choose):
        return lambda a, b: (lambda x, y: Device(choose(x.value, y.value), max(x.width, y.width)))(
            Device.of(a), Device.of(b)
        )

    return types.SimpleNamespace(
        where=where,
        minimum=pick(min),
        maximum=pick(max),
        cast=lambda x, width: Device(Device.of(x).value, width),
        int64=64,
        int32=32,
        int1=1,
    )


def test_triton_text_runs(texts):
    names = {"tl": triton_language(), "triton": types.SimpleNamespace(jit=lambda f: f)}
    exec(texts.helpers["triton"], names)
    for width, text, points in texts.cases:
        code = compile(text["triton"], "triton", "eval")
        for value, symbols in points:
            # A size that 32 bits hold is an int32 argument, whatever the kernel computes in.
            given = {s: Device(v, 32 if -(2**31) <= v < 2**31 else 64) for s, v in zip(SYMBOLS, symbols)}
            got = eval(code, names | given)
            got = got if isinstance(got, Device) else Device.of(got)
            assert got.value == value and got.width <= max(width, 32) * (2 if "coil_shr" in text["triton"] else 1), (
                f"seed {SEED}: {text['triton']} is {got.value} of {got.width} bits, not {value}, at {symbols}"
            )
