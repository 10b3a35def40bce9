"""Kernels in Metal's language. None of this runs on an Apple GPU: the text is compiled as C++ behind a shim that stands
for Metal's library (src/device/metal/shim.h), its threads as fibers, and compared with eager; and Clang reads it as C++
for OpenCL, which is as strict about address spaces as Metal is and has no double either.

`metal_sweep.py` runs all cases of test_ops.py, by hand.
"""

import graphlib
import os
import re
import shutil
import subprocess

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.export import Dim
from torch.nn import functional as F

from batch import Batch, Case, outcomes
from coil_harness import ENVIRONMENT, ROOT, SOURCES, coil, coil_ok, export
from emitted import BUILD
from test_cuda_sorting import CASES as SORTS
from test_cuda_values import SHAPES, seeded
from test_ops import CHUNKS

EMULATE = ("--set", "metal.emulate=true")
BF16 = torch.bfloat16
# Metal has no f64; the others go through all forms of kernels.
DOUBLE = {
    "row_shared_again",
    "scan_odd",
    "scan_few_long",
    "scan_tiles",
    "scan_tiles_groups",
    "scan_logsumexp_special",
    "scan_logsumexp_tiles",
    "rank_float64",
}
FORMS = [c for c in SHAPES if c.group == "forms" and c.name not in DOUBLE] + [
    Case("forms", "scan_infinite", lambda x: (x.logcumsumexp(-1), x.half().logcumsumexp(-1)), (seeded(3, 900) * 20,)),
    Case(
        "forms",
        "whole_numbers",
        lambda x: (x // 3, x % 7, x << 2, x.pow(3), torch.gcd(x, x + 6)),
        (torch.arange(-40, 40),),
    ),
    Case(
        "forms",
        "narrow_numbers",
        lambda x: (x.to(torch.int8) + 1, x.to(torch.uint8) * 3, x.to(torch.int16) >> 1, x.half() / 3, x.to(BF16).exp()),
        (torch.arange(-60, 60),),
    ),
    Case("forms", "remainders", lambda x, y: (torch.fmod(x, y), x % y, x // y), (seeded(700) * 50, seeded(700) * 3)),
    Case(
        "forms",
        "small_arguments",
        lambda x: (torch.expm1(x), torch.log1p(x), torch.hypot(x, x + 1), torch.nextafter(x, -x), torch.sinh(x)),
        (torch.cat([seeded(300) * 1e-4, seeded(50), torch.tensor([0.0, -0.0, 1e-30, float("inf"), float("nan")])]),),
    ),
]
UPDATES = [
    Case(
        "updates",
        f"{name}_{kind}",
        lambda x, i, v, kind=kind: x.scatter_reduce(0, i, v, kind),
        (
            (torch.arange(40) % 5 + 1).to(dtype),
            torch.arange(160) * 7 % 40,
            (torch.arange(160) % 3 + 1).to(dtype),
        ),
    )
    for name, dtype in {
        "f32": torch.float32,
        "f16": torch.float16,
        "bf16": BF16,
        "i32": torch.int32,
        "i16": torch.int16,
        "i8": torch.int8,
        "u8": torch.uint8,
    }.items()
    for kind in ("sum", "amax", "amin")
] + [
    Case(
        "updates",
        "i64_sum",
        lambda x, i, v: x.index_add(0, i, v),
        (torch.arange(40) - (1 << 40), torch.arange(160) * 7 % 40, torch.arange(160) * (1 << 33) - (1 << 38)),
    ),
]
PRODUCTS = [
    Case(
        "products", "linear", lambda x, w, b: F.gelu(F.linear(x, w, b)), (seeded(3, 37, 50), seeded(41, 50), seeded(41))
    ),
    Case("products", "linear_of_a_vector", F.linear, (seeded(50), seeded(41, 50), seeded(41))),
    Case("products", "linear_bf16", F.linear, (seeded(5, 64, dtype=BF16), seeded(70, 64, dtype=BF16))),
    Case("products", "matrices", lambda x, y: (x @ y, x.t() @ x, y.t() @ x.t()), (seeded(33, 70), seeded(70, 65))),
    Case(
        "products",
        "batches",
        lambda x, y: (torch.bmm(x, y), x @ y[0], torch.matmul(x[:, None], y), x[:0] @ y[:0], x[:, :, :0] @ y[:, :0]),
        (seeded(3, 17, 40), seeded(3, 40, 9)),
    ),
    Case(
        "products",
        "added",
        lambda b, x, y: torch.addmm(b, x, y, beta=2, alpha=0.5),
        (seeded(64), seeded(64, 64), seeded(64, 64)),
    ),
    Case("products", "f16", lambda x, y: x @ y, (seeded(20, 30).half(), seeded(30, 20).half())),
    Case(
        "products",
        "convolution",
        lambda x, w, b: (F.conv2d(x, w, b, stride=2, padding=1), F.conv2d(x, w[:, :3], b, dilation=2, groups=2).relu()),
        (seeded(2, 6, 17, 19), seeded(8, 6, 3, 3), seeded(8)),
    ),
    Case(
        "products", "convolution_of_rows", lambda x, w: F.conv1d(x, w, padding=2), (seeded(2, 6, 17), seeded(8, 6, 5))
    ),
    Case(
        "products",
        "convolution_of_volumes",
        lambda x, w: F.conv3d(x, w, padding=1),
        (seeded(1, 3, 5, 6, 7), seeded(4, 3, 3, 3, 3)),
    ),
    Case(
        "products",
        "transposed_convolution",
        lambda x, w, b: (
            F.conv_transpose2d(x, w[:, :4], b[:4], stride=2, padding=1, output_padding=1),
            F.conv_transpose2d(x, w[:, :4], b, stride=3, groups=2, dilation=2),
        ),
        (seeded(2, 6, 7, 9), seeded(6, 8, 3, 3), seeded(8)),
    ),
    Case(
        "products",
        "channels_last",
        lambda x, w: F.conv2d(x, w, padding="same"),
        (seeded(1, 4, 9, 9, dtype=BF16).to(memory_format=torch.channels_last), seeded(4, 4, 3, 3, dtype=BF16)),
    ),
    Case(
        "products",
        "convolution_gradients",
        lambda dy, x, w: (
            torch.ops.aten.convolution_backward(dy, x, w, [8], [2, 1], [1, 0], [1, 2], False, [0, 0], 2, [True] * 3),
            torch.ops.aten.convolution_backward(
                dy[:, :, 0], x[:, :, 0], w[:, :, 0], [8], [2], [2], [1], False, [0], 2, [False, True, False]
            )[1],
        ),
        (seeded(2, 8, 5, 6), seeded(2, 6, 9, 10), seeded(8, 3, 3, 3)),
    ),
    Case(
        "products",
        "attention",
        lambda q, k, v: (
            F.scaled_dot_product_attention(q, k, v),
            F.scaled_dot_product_attention(q, k[:, :, :20], v[:, :, :20], is_causal=True),
            F.scaled_dot_product_attention(q.to(BF16), k.to(BF16), v.to(BF16)),
        ),
        (seeded(2, 3, 20, 16), seeded(2, 3, 24, 16), seeded(2, 3, 24, 16)),
    ),
]
# Short rows in a threadgroup's memory, longer ones in merged pieces, of free length in the results' memory. Of f64 too,
# as the numbers of 64 bits that have its order.
SORTED = [c for c in SHAPES if c.group == "sorted"] + [c for c in SORTS if c.name not in DOUBLE]
POSITIVE, SIGNED = seeded(200).abs() * 6 + 0.01, torch.cat([seeded(150) * 4, torch.tensor([0.0, -0.0, 30.0, -30.0])])
SPECIAL = [
    Case("special", name, function, (x,), tolerance=4e-5)
    for name, function, x in [
        ("erfc", lambda x: (torch.erfc(x), torch.special.erfcx(x.clamp(-3))), SIGNED),
        ("erfinv", torch.erfinv, torch.cat([SIGNED.tanh(), torch.tensor([1.0, -1.0, 0.9999, -1e-5])])),
        ("lgamma", lambda x: (torch.lgamma(x), torch.digamma(x)), torch.cat([POSITIVE, seeded(60) * 3 - 0.77])),
        ("poles", lambda x: (torch.lgamma(x), torch.digamma(x)), torch.tensor([0.0, -1.0, -0.0, 1.0, 2.0])),
        ("bessel", lambda x: (torch.special.i0(x), torch.special.i0e(x), torch.special.i1(x)), SIGNED.clamp(-9, 9)),
        ("bessel_k", lambda x: torch.special.scaled_modified_bessel_k1(x), POSITIVE + 0.2),
        ("ndtri", torch.special.ndtri, seeded(200).sigmoid()),
        ("gammainc", lambda x: (torch.special.gammainc(x, x * 0.9), torch.special.gammaincc(x + 1, x)), POSITIVE),
        ("zeta", lambda x: torch.special.zeta(x + 1.5, x), POSITIVE),
        ("airy", torch.special.airy_ai, SIGNED.clamp(-8, 6)),
        ("chebyshev", lambda x: torch.special.chebyshev_polynomial_t(x, torch.arange(154) % 9), SIGNED / 12),
    ]
]
# What is f64, or of 64 bits and updated, elsewhere.
EDGES = [0.0, -0.0, 1.0, -1.5, float("inf"), float("-inf"), float("nan"), 1e-40, -1e-45, 2.0**-126, 3.4e38, 1 / 3]
ROUNDED = [*EDGES, 1 + 2.0**-24, 1 + 3 * 2.0**-24, 2.0**-149, 2.0**-150, 1.5 * 2.0**-150, 3.4028236e38, 1e39, -1e-300]
WHOLE = [0, 1, -1, 3, 2**53, 2**53 + 1, 2**53 + 3, 2**62 + 257, 2**63 - 1, -(2**63), -(2**54) - 2, 12345]
NARROW = [
    Case(
        "narrow",
        "ramps",
        lambda x: (
            x + torch.arange(6.0),
            x * torch.arange(0, 3, 0.5),
            torch.arange(2.5, 40, 1.25) + 1,
            x * torch.hann_window(6),
            torch.arange(-3.0, 70000.0, 7.0) * 2,
        ),
        (seeded(4, 6),),
    ),
    Case(
        "narrow",
        "fourier",
        lambda x: (
            torch.fft.fft(x).abs(),
            torch.fft.irfft(torch.fft.rfft(x), 300),
            torch.stft(x.flatten(), 64, 16, window=torch.ones(64), return_complex=True).abs(),
        ),
        (seeded(3, 300),),
    ),
    Case(
        "narrow",
        "i64_updates",
        lambda x, i, v: tuple(x.scatter_reduce(0, i, v, kind) for kind in ("amax", "amin", "prod", "sum")),
        (torch.arange(40) * 3 - 50, torch.arange(90) * 7 % 40, (torch.arange(90) % 5 - 2) << 20),
    ),
    Case(
        "narrow",
        "f64_moved",
        lambda y, x: (
            y.t().contiguous(),
            torch.cat([y, y.flip(0)]),
            torch.where(x > 0, y, y.flip(1)),
            y[:, torch.tensor([2, 0, 1])],
            F.pad(y, (1, 2)),
        ),
        (seeded(20, 30).double() * 1.1, seeded(20, 30)),
        signs=True,
    ),
    Case(
        "narrow",
        "f64_made",
        lambda x, i: (x.double(), (x > 0).double(), i.double(), i.to(torch.int16).double(), x.half().double()),
        (torch.tensor(EDGES), torch.tensor(WHOLE)),
        tolerance=0.0,
        signs=True,
    ),
    Case(
        "narrow",
        "f64_rounded",
        lambda y: (y.float(), y.float().exp(), y.half(), torch.ones(3, dtype=torch.float64)),
        (torch.tensor(ROUNDED, dtype=torch.float64),),
        tolerance=1e-7,
        signs=True,
    ),
    Case("narrow", "number", lambda x: x * x.sum().item(), (seeded(30),)),
    *[
        Case(
            "narrow",
            f"runs_of_rows_{name}",
            lambda x, w, ends: torch._grouped_mm(x, w, ends),
            (
                seeded(rows, 40, dtype=BF16),
                seeded(len(ends), 40, 72, dtype=BF16),
                torch.tensor(ends, dtype=torch.int32),
            ),
        )
        for name, rows, ends in (("several", 100, [10, 10, 75, 100]), ("one", 33, [33]), ("none", 40, [0, 40]))
    ],
]
CASES = FORMS + UPDATES + PRODUCTS + SORTED + SPECIAL + NARROW


@pytest.fixture(scope="module")
def found():
    return outcomes(CASES, False, *EMULATE)


@pytest.mark.parametrize("name", [c.name for c in CASES])
def test_form(found, name):
    assert not found[name]


@pytest.mark.parametrize("family", ["indexing0", "selection0"])
def test_family(family):
    wrong = {name: text for name, text in outcomes(CHUNKS[family], False, *EMULATE).items() if text}
    assert not {name: text for name, text in wrong.items() if "Metal does not have" not in text}
    assert len(wrong) < len(CHUNKS[family]) // 4


def test_inputs_at_any_address(tmp_path):
    """Of two inputs of whole packs one begins 8 bytes behind a multiple of 16 in its file, which is read in place."""

    class Sums(torch.nn.Module):
        def forward(self, a, b, c, d):
            return b.sum(), d.sum(), a + c.sum()

    given = dict(zip("abcd", (torch.arange(n) + n for n in (1, 64, 65, 64))))
    export(Sums(), tuple(given.values()), tmp_path / "m.pt2")
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", *EMULATE)
    save_file(given, tmp_path / "in")
    coil_ok("run", tmp_path / "m.coil", "--inputs", tmp_path / "in", "--outputs", tmp_path / "out")
    got = load_file(tmp_path / "out")
    for k, want in enumerate(Sums()(*given.values())):
        assert torch.equal(got[str(k)], want)


# ---- The device, whose machine here is the library of test/fake_metal


MACHINE = os.path.join(BUILD, "lib", "fake_metal")
WITH_MACHINE = ENVIRONMENT | {"LD_LIBRARY_PATH": MACHINE}
needs_machine = pytest.mark.skipif(not os.path.isdir(MACHINE), reason="fake_metal is not built")


class Model(torch.nn.Module):
    """Of each kind of kernel one, with an index that may be out of range and a state that is written to."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(10, 20)
        self.linear = torch.nn.Linear(20, 30)
        self.convolution = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x, i, image):
        self.count.add_(1)
        h = F.gelu(self.linear(x + self.embedding(i)))
        return F.softmax(h @ h.t(), -1), self.convolution(image).relu().mean((2, 3)), h.argmax(-1), x.sum(0)


def inputs(rows):
    generator = torch.Generator().manual_seed(rows)
    return {
        "x": torch.randn(rows, 20, generator=generator),
        "i": torch.arange(rows) % 10,
        "image": torch.randn(2, 3, 9, 9, generator=generator),
    }


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("metal")
    torch.manual_seed(0)
    module = Model().eval()
    rows = Dim("rows", min=2, max=4096)
    export(module, tuple(inputs(16).values()), folder / "m.pt2", {"x": {0: rows}, "i": {0: rows}, "image": None})
    return module, folder


def differs(folder, module, given):
    """What the file of outputs has other than eager."""
    want = dict(zip("0123", module(*given.values())))
    got = load_file(folder / "out.safetensors")
    return [k for k, w in want.items() if not torch.allclose(got[k].float(), w.float(), rtol=1e-4, atol=1e-5)]


@needs_machine
def test_device(model):
    """One package for several sizes; a run that fails says where, and the next is right."""
    module, folder = model
    done = coil("compile", folder / "m.pt2", "-o", folder / "m.coil", "--device", "metal")
    assert done.returncode == 0, done.stderr
    for rows in (16, 3, 200):
        given = inputs(rows)
        save_file(given, folder / "in.safetensors")
        run = ("run", folder / "m.coil", "--inputs", folder / "in.safetensors", "--outputs", folder / "out.safetensors")
        done = coil(*run, env=WITH_MACHINE)
        assert done.returncode == 0, done.stderr
        assert not differs(folder, module, given)
    save_file(inputs(16) | {"i": torch.full((16,), 10)}, folder / "in.safetensors")
    done = coil(*run, env=WITH_MACHINE)
    assert done.returncode == 1 and "an index read from a tensor is out of range (at test_metal.py:" in done.stderr


@needs_machine
def test_program_in_cpp(model):
    """`--emit=cpp`: the wrapper in C++ with Metal's source in it, built by a plain call of the compiler."""
    module, folder = model
    done = coil("compile", folder / "m.pt2", "-o", folder / "m.cpp", "--device", "metal", "--emit", "cpp")
    assert done.returncode == 0, done.stderr
    text = (folder / "m.cpp").read_text()
    assert "kernel void coil_" in text and "queue.launch(coil_" in text
    library = os.path.join(BUILD, "lib")
    build = ["g++", "-std=c++20", "-O1", "-DCOIL_MAIN", f"-I{ROOT}/include", "m.cpp", f"-L{library}", "-lcoil_runtime"]
    subprocess.run([*build, f"-Wl,-rpath,{library}", "-o", "m"], cwd=folder, check=True)
    for rows in (16, 5):
        given = inputs(rows)
        save_file(given, folder / "in.safetensors")
        subprocess.run(["./m", "in.safetensors", "out.safetensors"], cwd=folder, check=True, env=WITH_MACHINE)
        assert not differs(folder, module, given)


@needs_machine
def test_many_arguments(tmp_path):
    """Kernels with more numbers than Metal has arguments take them as one array."""

    class Many(torch.nn.Module):
        def forward(self, xs):
            return sum(x[:, :3].contiguous().sum(0) * k for k, x in enumerate(xs)), torch.cat([x.flatten() for x in xs])

    xs = [torch.randn(5 + k, 6 + k) for k in range(20)]
    export(Many(), (xs,), tmp_path / "m.pt2", ([{0: Dim.AUTO, 1: Dim.AUTO} for _ in xs],))
    done = coil("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", "--device", "metal", "--debug-dir", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "constant c_numbers<" in (tmp_path / "kernels.cpp").read_text()
    done = coil("run", tmp_path / "m.coil", "--outputs", tmp_path / "out.safetensors", env=WITH_MACHINE)
    assert done.returncode == 0, done.stderr
    want = torch.export.load(tmp_path / "m.pt2").module()(xs)
    got = load_file(tmp_path / "out.safetensors")
    assert torch.allclose(got["0"], want[0], rtol=1e-4, atol=1e-3) and torch.equal(got["1"], want[1])


@needs_machine
def test_left_to_the_host(tmp_path):
    """Library operations that have no kernel are carried out by the host, between kernels of the device."""

    class Solved(torch.nn.Module):
        def forward(self, x, y):
            values, vectors = torch.linalg.eigh(y @ y.t())
            return x.cumsum(-1), values.sum(), vectors.abs() * 2, torch.linalg.solve(y @ y.t(), y) + 1

    given = (seeded(5, 40), torch.eye(6) + seeded(6, 6) * 0.1)
    export(Solved(), given, tmp_path / "m.pt2")
    done = coil("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", "--device", "metal")
    assert done.returncode == 0, done.stderr
    done = coil("run", tmp_path / "m.coil", "--outputs", tmp_path / "out.safetensors", env=WITH_MACHINE)
    assert done.returncode == 0, done.stderr
    got = load_file(tmp_path / "out.safetensors")
    for k, want in enumerate(Solved()(*given)):
        assert torch.allclose(got[str(k)], want, rtol=1e-4, atol=1e-5), k


@needs_machine
def test_complex_inputs_and_results(tmp_path):
    """The host takes complex numbers apart and puts them together; what lies between is kernels'."""

    class Complex(torch.nn.Module):
        def forward(self, x, y):
            return x.t() * torch.polar(y.abs() + 1, y), torch.fft.fft(x[:, ::2]).abs(), x[1:] + 1j

    given = (torch.complex(seeded(6, 8), seeded(6, 8) + 1), seeded(8, 6))
    export(Complex(), given, tmp_path / "m.pt2")
    done = coil("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", "--device", "metal")
    assert done.returncode == 0, done.stderr
    run = ("run", tmp_path / "m.coil", "--outputs", tmp_path / "out.safetensors")
    save_file(dict(zip("xy", given)), tmp_path / "in.safetensors")
    done = coil(*run, "--inputs", tmp_path / "in.safetensors", env=WITH_MACHINE)
    assert done.returncode == 0, done.stderr
    got = load_file(tmp_path / "out.safetensors")
    for k, want in enumerate(Complex()(*given)):
        assert torch.allclose(got[str(k)], want, rtol=1e-4, atol=1e-5), k


CONFORMANCE = os.path.join(BUILD, "bin", "device_conformance")


@needs_machine
@pytest.mark.skipif(not os.path.exists(CONFORMANCE), reason="device_conformance is not built")
def test_conformance():
    done = subprocess.run(
        [CONFORMANCE, "--device", "metal", "--gtest_filter=-*EveryForm*"],
        capture_output=True,
        text=True,
        env=WITH_MACHINE,
    )
    assert done.returncode == 0, done.stdout[-3000:]


# ---- What the text may hold


TILES = [
    Case(
        "tiles",
        "several",
        lambda x, y, z: (x.t() + y.t() + z, (x * 2).t().contiguous()),
        (seeded(130, 70), seeded(130, 70), seeded(70, 130)),
    ),
    Case("tiles", "f32", lambda x: x.permute(2, 1, 0).contiguous(), (seeded(256, 3, 300),)),
]


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """The kernels of all cases for the device."""
    folder = tmp_path_factory.mktemp("text")
    cases = CASES + TILES
    export(Batch(cases), ({case.name: case.args for case in cases},), folder / "m.pt2")
    done = coil("compile", folder / "m.pt2", "-o", folder / "m.coil", "--device", "metal", "--debug-dir", folder)
    assert done.returncode == 0, done.stderr
    return (folder / "kernels.cpp").read_text()


def parameters(line):
    """Of the function that the line begins."""
    out, depth = [""], 0
    for c in line[line.index("(") :].split("{")[0]:
        depth += (c in "(<") - (c in ")>")
        if c == "," and depth == 1:
            out.append("")
        out[-1] += c
    return out


def test_address_spaces(text, tmp_path):
    """Clang's C++ for OpenCL tells the address spaces of pointers apart as Metal does, and is given no double here."""
    for line in text.splitlines():
        if ("C_FN" in line and "#define" not in line) or "kernel void" in line:
            for parameter in parameters(line):
                spaced = re.search(r"\b(device|constant|thread|COIL_LOCAL|C_LOCAL)\b", parameter)
                assert spaced or not re.search("[*&]", parameter), line
    # What Clang made of it: no function calls itself, by whatever way, and methods are called on values of a thread,
    # for which Metal takes them; what lies elsewhere is copied. (The space of all pointers is 4, threadgroups' is 3.)
    functions = re.split(r"\n(?=define )", machine_code(text, tmp_path))
    calls = {}
    for function in functions:
        if name := re.match(r"define [^@]*@(\S+?)\(", function):
            calls[name[1]] = set(re.findall(r"call [^@\n]*@([^\s(]+)\(", function))
        for value in re.findall(r"(%\S+) = addrspacecast \(?ptr addrspace\([123]\)", function):
            uses = [line for line in function.splitlines() if re.search(re.escape(value) + r"\b", line)]
            assert any("@llvm.memcpy" in line for line in uses), function[:2000]
    assert len(calls) > 500
    graphlib.TopologicalSorter(calls).prepare()  # raises CycleError


def machine_code(text, folder):
    """Clang's, of kernels as C++ for OpenCL."""
    clang = shutil.which("clang++-16") or shutil.which("clang++")
    if not clang:
        pytest.skip("there is no Clang")
    source, made = folder / "kernels.clcpp", folder / "kernels.ll"
    source.write_text((SOURCES / "metal_names.h").read_text() + text.replace("#include <metal_stdlib>\n", ""))
    done = subprocess.run(
        [
            clang,
            *("-x", "clcpp", "-cl-std=clc++2021", "-Wno-unknown-attributes", "-Wno-division-by-zero"),
            *("-Xclang", "-cl-ext=-cl_khr_fp64,-__opencl_c_fp64", "-target", "spir64"),
            *("-O0", "-Xclang", "-disable-llvm-passes", "-S", "-emit-llvm", source, "-o", made),
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and not done.stderr, done.stderr[:3000]
    return made.read_text()


# Of Metal 3.0's C++: what Apple's compiler has not, or has for pointers of another kind alone.
NOT_IN_METAL = {
    "a 64-bit float": r"\b(double|long double)\b",
    "a number of C++'s or CUDA's own": r"\b(long long|size_t|ptrdiff_t|u?int\d+_t)\b|\b\d+(ll|LL|ull|ULL)\b",
    "a lambda": r"\[[&=]?\]\s*\(",
    "a feature of C++": r"\b(new|delete|throw|try|catch|goto|virtual|dynamic_cast|typeid|thread_local|asm)\b",
    "the host's library": r"\bstd::|\b(printf|memcpy|memset|malloc|assert)\(",
    "CUDA": r"__(shared|global|device|syncthreads|shfl\w*)__?|\b(blockIdx|threadIdx|blockDim)\b",
    "a type that not all of Apple's GPUs have": r"\bbfloat\b",
    "an initial value in threadgroup memory": r"^\s*threadgroup [\w<>, ]+ \w+(\[[^\]]*\])*\s*=",
}


@pytest.mark.parametrize("what", NOT_IN_METAL)
def test_what_metal_has_not(text, what):
    found = [line for line in text.splitlines() if re.search(NOT_IN_METAL[what], line.split("//")[0])]
    assert not found, found[:3]


def test_parameters_of_kernels(text):
    """Each has its place among at most 31 of a kernel, or is the position of its thread."""
    heads = re.findall(r"^\[\[max_total_threads_per_threadgroup\((\d+)\)\]\] kernel void (\w+)\((.*)\) \{$", text, re.M)
    assert len(heads) == text.count("kernel void ") > 100 and len({name for _, name, _ in heads}) == len(heads)
    for threads, name, inside in heads:
        assert int(threads) <= 1024, name
        places = []
        for parameter in parameters(f"({inside}"):
            declared = parameter.strip(" (),")
            if place := re.search(r"\[\[buffer\((\d+)\)\]\]$", declared):
                places.append(int(place[1]))
                assert re.match(r"(device (const )?\w+\* |constant (long|c_numbers<\d+>)& )\w+ ", declared), declared
            else:
                positions = r"uint3 \w+ \[\[(threadgroup_position_in_grid|thread_position_in_threadgroup)\]\]"
                assert re.fullmatch(positions, declared), declared
        assert places == list(range(len(places))) and len(places) <= 31, name


def test_types_in_threadgroup_memory(text):
    """None has a constructor, which Metal would want for that address space."""
    used = set(re.findall(r"^\s*threadgroup (c_\w+|f64)\b", text, re.M)) - {"c_counter"}
    assert used
    for name in used:
        body = re.search(rf"\bstruct {name} \{{(.*?)\n\}};", text, re.S)[1]
        assert not re.search(rf"\b{name}\(", body), body


def bytes_of(type_):
    """Of a value in threadgroup memory."""
    inside = re.fullmatch(r"c_(arg|soft|moments|lse)<(.*)>", type_)
    if not inside:
        return {"bool": 1, "c_counter": 4}.get(type_) or int(type_[1:]) // 8
    parts = inside[2].split(", ") * {"arg": 1, "soft": 2, "moments": 3, "lse": 2}[inside[1]]
    widest = max(map(bytes_of, parts))
    return -(-sum(map(bytes_of, parts)) // widest) * widest


def test_threadgroup_memory(text):
    """A threadgroup has 32 KiB at most."""
    most = 0
    for kernel in text.split("kernel void ")[1:]:
        total = 0
        for type_, names in re.findall(r"threadgroup ([\w<>, ]+?) (\w+(?:\[.*?\])*(?:, \w+\[.*?\])*);", kernel):
            for name in names.split(", "):
                count = 1
                for size in re.findall(r"\[(.*?)\]", name):
                    count *= eval(size)  # `16 * 33`
                total += count * bytes_of(type_)
        assert total <= 32768, kernel[:1000]
        most = max(most, total)
    assert most >= 4096  # something was found


@pytest.mark.parametrize(
    "function,reason",
    [
        (lambda x: x.double() * 2, r"computes in f64, which Metal does not have"),
        (lambda x: x.double().argmax(), r"argmax.*computes in f64"),
        (lambda x: torch.poisson(x), r"poisson.*computes in f64"),
        (lambda x: torch.special.bessel_j0(x), r"computes \w*j0, for which Coil has no function without f64"),
        (lambda x: x.double().sum(), r"gives f64, which Metal does not have"),
        (lambda x: torch.linalg.inv(x.reshape(2, 2).double()).cumsum(0), r"gives f64"),
    ],
)
def test_refusals(tmp_path, function, reason):
    """What Metal has not is refused with the operator's name and line."""

    class Module(torch.nn.Module):
        def forward(self, x):
            return function(x)

    export(Module(), (torch.rand(4),), tmp_path / "m.pt2")
    done = coil("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", "--device", "metal")
    assert done.returncode == 1 and re.search(reason, done.stderr) and "test_metal.py:" in done.stderr, done.stderr
    assert not (tmp_path / "m.coil").exists()


def test_without_a_machine(model):
    """A machine without Metal compiles for it, and does not run it; Python has no programs for it."""
    _, folder = model
    assert coil("compile", folder / "m.pt2", "-o", folder / "n.coil", "--device", "metal").returncode == 0
    done = coil("run", folder / "n.coil", env=ENVIRONMENT | {"LD_LIBRARY_PATH": ""})
    assert done.returncode == 1 and "programs for metal run on Apple's machines" in done.stderr
    done = coil("compile", folder / "m.pt2", "-o", folder / "n.py", "--device", "metal", "--emit", "python")
    assert done.returncode == 1 and "--emit=python writes no programs for metal:0" in done.stderr
    both = ("--set", "metal.emulate=true", "--set", "cuda.emulate=true")
    done = coil("compile", folder / "m.pt2", "-o", folder / "n.coil", *both)
    assert done.returncode == 1 and "cuda.emulate and metal.emulate are both set" in done.stderr
