"""Kernels as Triton text: their values by Triton's interpreter on the CPU against eager, their compile to code for GPUs
where none is here, and what says in which language a kernel is.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

import batch
import coil
from batch import Case
from coil_harness import ENVIRONMENT, ROOT, coil as command, coil_ok, export
from emitted import BUILD, load_module
from test_cuda_values import SHAPES, seeded
from test_emit_cuda import PLACE
from test_ops import CHUNKS
from triton_text_sweep import EMULATED, interpreted

SOURCES = ROOT / "test/python/sources"
pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")

FOR_GPU = ("--device", "cuda", "--set", "cuda.kernels=triton", "--set", f"cuda.python={sys.executable}")
FAMILIES = ["unary0", "unary6", "unary7", "binary0", "binary3", "scalars2", "reductions1", "reductions2", "scans0"]
FAMILIES += ["norms0", "views0", "sampling0"]
# Each form of kernel; long scans but for one of each kind are left out, which the interpreter takes half a minute for.
FORMS = [c for c in SHAPES if c.group in ("forms", "gathered", "integers") and "_tiles" not in c.name]


def wrong(cases, monkeypatch, *options):
    monkeypatch.setattr(batch, "run", interpreted)
    found = {name: text for name, text in batch.outcomes(cases, False, *EMULATED, *options).items() if text}
    return "\n".join(f"{k}: {v}" for k, v in found.items())


# ---- Values ----


@pytest.mark.parametrize("family", FAMILIES)
def test_family(family, monkeypatch):
    found = wrong(CHUNKS[family], monkeypatch)
    assert not found, found


@pytest.mark.parametrize("part", range(3))
def test_forms(part, monkeypatch):
    found = wrong(FORMS[part::3], monkeypatch)
    assert not found, found


def test_other_launch_configs(monkeypatch):
    names = ("run", "transposed", "row_block", "columns_long", "scan_odd", "rows_arg")
    found = wrong([c for c in SHAPES if c.name in names], monkeypatch, "--set", "cuda.launch_config=2")
    assert not found, found


LONG = [
    Case("long", "softmax", lambda x: (F.softmax(x, -1), x.logsumexp(-1), F.log_softmax(x, -1)), (seeded(2, 40000),)),
    Case(
        "long",
        "masked",
        lambda x: (F.softmax(x, -1), x.logsumexp(-1)),
        (torch.stack([torch.full((40000,), float("-inf")), seeded(40000).index_fill(0, torch.arange(39000), -1e38)]),),
    ),
    Case("long", "infinite", lambda x: x.logsumexp(-1), (seeded(1, 40000).index_fill(1, torch.tensor(7), 1e400),)),
    Case("long", "moments", lambda x: (torch.var_mean(x, -1), F.layer_norm(x, (40000,))), (seeded(2, 40000) * 3 + 50,)),
]


def test_rows_in_one_pass(monkeypatch):
    found = wrong(LONG, monkeypatch)
    assert not found, found


def test_symbolic_sizes(tmp_path):
    class Module(torch.nn.Module):
        def forward(self, x):
            apart = x[:, 0, None, None] + x[0, :, None] * torch.arange(3.0)  # a step of rows is 3 s1
            return F.softmax(x, -1), x.t().contiguous() * 2, x.sum(0), x.cumsum(-1), apart

    sizes = {0: torch.export.Dim("rows", max=4096), 1: torch.export.Dim("columns", max=4096)}
    export(Module(), (seeded(33, 130),), tmp_path / "m.pt2", dynamic={"x": sizes})
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", *EMULATED)
    model = coil.load(tmp_path / "m.coil")
    for shape in ((33, 130), (4, 33), (8, 1), (1, 700)):
        x = seeded(*shape)
        for got, want in zip(model(x), Module()(x)):
            torch.testing.assert_close(got, want, rtol=2e-5, atol=2e-5)


def test_random_bits_are_those_of_other_languages(tmp_path):
    class Module(torch.nn.Module):
        def forward(self, x):
            return torch.rand_like(x), F.dropout(x, 0.3, training=True), torch.randint_like(x, 1000)

    export(Module(), (torch.ones(5, 77),), tmp_path / "m.pt2")
    drawn = []
    for options in ((), EMULATED):
        coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", *options)
        model = coil.load(tmp_path / "m.coil")
        model.seed(7)
        drawn.append(model(torch.ones(5, 77)))
    assert all(torch.equal(a, b) for a, b in zip(*drawn))


FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)
BYTES = torch.arange(256, dtype=torch.uint8)
EDGES = torch.tensor([0.0, -0.0, 1e-9, 0.0009765625, 0.0146, 448, 463, 464, 465, 5e4, 57344, 61440, 1e9, -1e9, 1 / 3])
EDGES = torch.cat(
    [EDGES, torch.tensor([float("inf"), float("-inf"), float("nan")]), seeded(200) * 20, seeded(99) * 0.01]
)
PLACES, MORE = torch.arange(160) * 7 % 40, torch.arange(160) % 3 + 1
NARROW = [
    Case(
        "narrow",
        f"float8_{k}",
        lambda x, y, d=d: (x.to(d).float(), y.float(), y.float().exp().to(d).float(), y.to(torch.bfloat16)),
        (EDGES, BYTES.view(d)),
    )
    for k, d in enumerate(FLOAT8)
] + [
    Case(
        "narrow",
        f"{str(d).rpartition('.')[2]}_{kind}",
        lambda x, i, v, kind=kind: x.scatter_reduce(0, i, v, kind),
        ((torch.arange(40) % 5 + 1).to(d), PLACES, MORE.to(d)),
    )
    for d in (torch.bfloat16, torch.float16, torch.int16, torch.int8, torch.uint8)
    for kind in ("sum", "amax", "amin", "prod")
]
NARROW += [
    Case(
        "narrow",
        "truth",
        lambda x, i, v: (x.index_put((i,), v, accumulate=True), x.scatter_reduce(0, i, v, "amin")),
        (torch.arange(40) % 3 == 0, PLACES, MORE > 1),
    )
]


def test_narrow_types(monkeypatch):
    found = wrong(NARROW, monkeypatch)
    assert not found, found


def test_narrow_types_are_in_triton(tmp_path):
    """And compile for GPUs that have no such instructions."""

    class Module(torch.nn.Module):
        def forward(self, x, y, z, i):
            return (
                x.to(FLOAT8[0]),
                x.to(FLOAT8[1]),
                y.float() * 2,
                z.index_add(0, i, z),
                z.scatter_reduce(0, i, z, "amax"),
            )

    given = (EDGES, BYTES.view(FLOAT8[0]), MORE[:40].to(torch.bfloat16), PLACES[:40])
    export(Module(), given, tmp_path / "m.pt2")
    assert "CUDA C++" not in command("explain", tmp_path / "m.pt2", *EMULATED).stdout
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", *EMULATED)
    for got, want in zip(coil.load(tmp_path / "m.coil")(*given), Module()(*given)):
        torch.testing.assert_close(got.float(), want.float(), rtol=0, atol=0, equal_nan=True)
    for_gpu(tmp_path / "m.pt2", tmp_path / "m.coil", "--cache", tmp_path / "cache", arch="sm_80").check_returncode()


# ---- Order ----


def falling(*shape, dtype):
    """Integers around 0, many of them equal."""
    return (seeded(*shape) * 40).to(dtype)


ENDS = torch.tensor([[float("nan"), -0.0, 0.0, float("inf"), float("-inf"), float("nan")]])
SORTED = [
    Case(
        "order",
        "rows",
        lambda x: (
            x.sort(dim=-1, stable=True),
            x.sort(dim=0, stable=True, descending=True),
            x.argsort(stable=True, dim=-1),
        ),
        (torch.cat([seeded(5, 70).round(), ENDS.expand(5, 6)], -1),),
    ),
    Case("order", "first", lambda x: (x.topk(8, 0), x.topk(1), x.topk(33, largest=False)), (seeded(40, 33),)),
    Case("order", "one", lambda x: (x.sort(stable=True), x[:, 0].sort(dim=0, stable=True)), (seeded(3, 1),)),
    Case("order", "none", lambda x: x.sort(stable=True), (torch.zeros(3, 0),)),
    Case("order", "whole", lambda x: x.sort(stable=True), (seeded(1, 4096).bfloat16(),)),
] + [
    Case(
        "order",
        str(d).rpartition(".")[2],
        lambda x: (x.sort(stable=True), x.t().sort(dim=0, stable=True, descending=True)),
        (torch.cat([falling(3, 70, dtype=d), torch.tensor(ends, dtype=d).expand(3, 2)], -1),),
    )
    for d, ends in (
        (torch.int8, (127, -128)),
        (torch.uint8, (255, 0)),
        (torch.int16, (2**15 - 1, -(2**15))),
        (torch.int32, (2**31 - 1, -(2**31))),
        (torch.bool, (1, 0)),
        (torch.float16, (65504, -65504)),
        (torch.bfloat16, (1e38, -1e38)),
    )
]


def in_triton(cases, folder, *options):
    """Whether all of their kernels are."""
    export(batch.Batch(cases), ({c.name: c.args for c in cases},), folder / "m.pt2")
    return "CUDA C++" not in command("explain", folder / "m.pt2", *EMULATED, *options).stdout


def test_order(monkeypatch, tmp_path):
    found = wrong(SORTED, monkeypatch)
    assert not found, found
    assert in_triton(SORTED, tmp_path)


def test_what_has_no_order_in_triton(tmp_path):
    """Rows that do not fit a block, and elements that leave no room for their place."""

    class Module(torch.nn.Module):
        def forward(self, x, i):
            return *x.topk(3), *i.sort(stable=True)

    export(Module(), (seeded(2, 5000), torch.arange(50)), tmp_path / "m.pt2")
    told = command("explain", tmp_path / "m.pt2", *EMULATED).stdout
    assert "(CUDA C++: an order of rows that may be longer than 4096)" in told
    assert "(CUDA C++: an order of i64 with places)" in told


def test_one_place_in_order(monkeypatch, tmp_path):
    """Deterministic programs add, multiply and assign at one place in the order of the program."""
    i = torch.arange(60) * 7 % 10
    columns = i[:, None].expand(60, 8).contiguous()
    rows, narrow = seeded(60, 8), falling(60, 8, dtype=torch.int8)
    programs = {
        "added": (lambda x, y: (x.index_add(0, i, y), x.scatter_add(0, columns, y)), (seeded(10, 8), rows)),
        "columns": (lambda x, y: x.scatter_add(1, columns.t(), y), (seeded(8, 10), rows.t().contiguous())),
        "assigned": (lambda x, y: (x.index_copy(0, i, y), x.scatter(0, columns, y)), (seeded(10, 8), rows)),
        "product": (lambda x, y: x.scatter_reduce(0, columns, y, "prod"), (seeded(10, 8), rows)),
        "bf16": (
            lambda x, y: x.scatter_reduce(0, columns, y, "amax"),
            (seeded(10, 8).bfloat16(), rows.bfloat16()),
        ),
        "bytes": (
            lambda x, y: (x.index_add(0, i, y), x.scatter_reduce(0, columns, y, "amin")),
            (narrow[:10], narrow),
        ),
        "truth": (lambda x, y: x.index_put((i,), y, accumulate=True), (torch.zeros(10, 8).bool(), rows > 1)),
    }
    cases = [Case("ordered", name, f, args) for name, (f, args) in programs.items()]
    found = wrong(cases, monkeypatch, "--set", "deterministic=true")
    assert not found, found
    assert in_triton(cases, tmp_path, "--set", "deterministic=true")


# ---- Indices that are checked as they are read ----


class Indexed(torch.nn.Module):
    """In points, in rows that are summed, in scatters, and of a single element."""

    def forward(self, x, i, j):
        y = torch.zeros_like(x).index_add(0, j, x[: j.shape[0]])
        return x[i].relu(), x.index_select(0, j) * 2, x[i].sum(-1), x[i[0]].exp(), y, x.gather(1, j[:, None] * 2)


FAILED = r"an index read from a tensor is out of range \(at .*\)"
INDEXED = (seeded(5, 700), torch.tensor([1, -2, 4]), torch.tensor([0, 3]))
BAD = [(torch.tensor([1, b, 0]), INDEXED[2]) for b in (5, -6, 2**40, -(2**62))]
BAD += [(INDEXED[1], torch.tensor([0, 5])), (torch.tensor([-6, 0, 0]), INDEXED[2])]


@pytest.fixture(scope="module")
def indexed(tmp_path_factory):
    path = tmp_path_factory.mktemp("indexed") / "m.pt2"
    export(Indexed(), INDEXED, path)
    return path


def checks_indices(run):
    """Values are eager's; bad indices fail with CUDA C++'s words, and the next call is right again."""
    want = Indexed()(*INDEXED)
    for i, j in BAD:
        with pytest.raises((RuntimeError, coil.Error), match=FAILED):
            run(INDEXED[0], i, j)
        for got, expected in zip(run(*INDEXED), want):
            torch.testing.assert_close(got, expected)


def test_checked_indices(indexed, tmp_path):
    report = command("explain", indexed, *EMULATED).stdout
    assert "CUDA C++" not in report and report.count("(Triton)") >= 5
    coil_ok("compile", indexed, "-o", tmp_path / "m.coil", *EMULATED)
    checks_indices(coil.load(tmp_path / "m.coil"))


@pytest.mark.parametrize("form", ["python", "fx"])
def test_checked_indices_of_written_programs(indexed, form, tmp_path):
    coil_ok("compile", indexed, "-o", tmp_path / f"written_{form}.py", "--emit", form, *EMULATED)
    written = load_module(tmp_path / f"written_{form}.py")
    checks_indices((lambda *args: written.call(list(args))) if form == "python" else written.load())


SPECIAL = {
    name: getattr(torch.special, name)
    for name in (
        "digamma bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_k0 modified_bessel_k1 erfcx ndtri "
        "scaled_modified_bessel_k0 scaled_modified_bessel_k1 i0 i0e i1 i1e"
    ).split()
}
SPECIAL_OF_TWO = "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w "
SPECIAL_OF_TWO += "hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p"


def test_special_functions(tmp_path):
    """On ends, poles and both sides of where formulas change."""

    class Module(torch.nn.Module):
        def forward(self, x, n, a, b):
            two = [getattr(torch.special, name)(x[:, None], n) for name in SPECIAL_OF_TWO.split()]
            gammas = [torch.special.gammainc(a[:, None], a), torch.special.gammaincc(a[:, None], a)]
            more = [
                torch.special.zeta(a[:, None] + 1, x),
                torch.gcd(b[:, None], b),
                torch.gcd(b.int()[:, None], b.int()),
            ]
            return *(f(x) for f in SPECIAL.values()), *two, *gammas, *more

    inf, nan = float("inf"), float("nan")
    x = torch.tensor([-inf, -30, -12.5, -3, -1, -0.4, -0.0, 0.0, 0.3, 0.5, 1, 1.7, 2, 2.5, 12, 21, 26, 40, inf, nan])
    n = torch.tensor([-1.0, 0, 1, 2, 5.5, 7, 9, 20])
    a = torch.tensor([0.0, 0.1, 1, 3.5, 21, 40, 1e3])
    b = torch.tensor([0, 1, -12, 18, 2**31 - 1, 360, -7])
    for dtype in (torch.float64, torch.float32):
        given = (x.to(dtype), n.to(dtype), a.to(dtype), b)
        export(Module(), given, tmp_path / "m.pt2")
        assert "CUDA C++" not in command("explain", tmp_path / "m.pt2", *EMULATED).stdout
        coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", *EMULATED)
        results = coil.load(tmp_path / "m.coil")(*given)
        names = [*SPECIAL, *SPECIAL_OF_TWO.split(), "gammainc", "gammaincc", "zeta", "gcd", "gcd of 32 bits"]
        for name, got, want in zip(names, results, Module()(*given)):
            near = 1e-9 if dtype == torch.float64 else 2e-5
            torch.testing.assert_close(got, want, rtol=near, atol=near, equal_nan=True, msg=(name + ": {}").format)


# ---- Code for GPUs, without one ----


class Behind(torch.nn.Module):
    """A kernel that may fail, and one behind it that writes to memory of the caller."""

    def forward(self, x, i, z):
        y = x[i] * 2
        z.add_(1)
        return y


@pytest.fixture(scope="module")
def behind(tmp_path_factory):
    folder = tmp_path_factory.mktemp("behind")
    export(Behind(), (seeded(5, 64), torch.tensor([1, 2]), torch.ones(64)), folder / "m.pt2")
    return folder / "m.pt2"


def plan_of(path):
    package = path.read_bytes().decode(errors="replace")
    return json.JSONDecoder().raw_decode(package, package.index('{"format":"coil-plan"'))[0]


def test_a_status_in_packages(behind, tmp_path):
    """The fake driver's kernels find it in their argument blocks."""
    for_gpu(behind, tmp_path / "m.coil", "--cache", tmp_path / "cache").check_returncode()
    plan = plan_of(tmp_path / "m.coil")
    gather, add = (k["symbol"] for k in plan["kernels"])
    assert add.endswith("_stops") and plan["stops_on_failure"] and len(plan["parts"]) == 1
    library = tmp_path / "kernels.so"
    symbols = [f"-DGATHER={gather}_run", f"-DADD={add}_run"]
    subprocess.run(["g++", "-shared", "-fPIC", *symbols, SOURCES / "indexed_kernels.cpp", "-o", library], check=True)
    environment = ENVIRONMENT | {
        "LD_LIBRARY_PATH": os.path.join(BUILD, "lib", "fake_cuda"),
        "COIL_FAKE_CUDA_KERNELS": str(library),
    }
    given = {"x": seeded(5, 64), "z": torch.zeros(64)}
    for index in (torch.tensor([4, 0]), torch.tensor([4, 7])):
        save_file(given | {"i": index}, tmp_path / "in")
        files = ("--inputs", tmp_path / "in", "--outputs", tmp_path / "out")
        done = command("run", tmp_path / "m.coil", *files, env=environment)
        if index[1] == 7:
            assert done.returncode == 1 and re.search(FAILED, done.stderr), done.stderr
        else:
            assert done.returncode == 0, done.stderr
            assert torch.equal(load_file(tmp_path / "out")["output"], 2 * given["x"][index])


@pytest.mark.parametrize("form", ["cpp", "python", "fx"])
def test_a_status_in_written_programs(behind, form, tmp_path):
    out = tmp_path / f"m.{'cpp' if form == 'cpp' else 'py'}"
    for_gpu(behind, out, "--emit", form, "--cache", tmp_path / "cache").check_returncode()
    text = out.read_text()
    if form == "cpp":
        assert text.count("pointer(failures.status(0), 0)") == 2 and "failures.check();" not in text.split("run(")[0]
    else:
        compile(text, str(out), "exec")
        given = (
            ("failure=failures(0, ", "failure=failures.any)")
            if form == "python"
            else (", failures, 0,", '"", failures,')
        )
        assert all(g in text for g in given)


class Mixed(torch.nn.Module):
    """A kernel of each form, and one that Triton has no function for."""

    def forward(self, x, w, i):
        y = F.gelu(F.layer_norm(x, (x.shape[-1],), w))
        z = y + x.cumsum(-1)
        return (
            F.softmax(z, -1),
            z.argmax(-1),
            z.sum(0),
            F.dropout(z, 0.3, training=True),
            z.t() + x.t(),
            w[i],
            torch.special.airy_ai(x),
        )


ARGS = (torch.randn(64, 1000), torch.randn(1000), torch.arange(5))


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("mixed") / "m.pt2"
    export(Mixed(), ARGS, path)
    return path


def for_gpu(archive, output, *options, arch="sm_90", **more):
    return command("compile", archive, "-o", output, "--set", f"cuda.arch={arch}", *FOR_GPU, *options, **more)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_compiles_without_a_gpu(tmp_path, arch):
    class Triton(torch.nn.Module):
        def forward(self, x, w):
            return (
                *Mixed.forward(self, x, w, slice(None))[:5],
                x[w.long()],
                x.digamma(),
                torch.gcd(w.int(), w.int() + 3),
                x.index_reduce(0, w.long()[:64] % 64, x, "amax"),
                x.double().scatter_reduce(1, w.long()[None] % 1000, x.double(), "prod"),
            )

    export(Triton(), ARGS[:2], tmp_path / "m.pt2")
    done = for_gpu(tmp_path / "m.pt2", tmp_path / "m.coil", "--cache", tmp_path / "cache", arch=arch)
    assert done.returncode == 0, done.stderr
    package = (tmp_path / "m.coil").read_bytes().decode(errors="replace")
    plan = plan_of(tmp_path / "m.coil")
    heads = dict(re.findall(rf"\.target {arch}a?\b.*?\.visible \.entry (coil_\w+)\((.*?)\)", package, re.DOTALL))
    calls = [step for step in plan["steps"] if "kernel" in step]
    assert len(heads) == len(plan["kernels"]) >= 4 and len(calls) >= 4
    for call in calls:
        # The argument block has what the compiled kernel takes, in its widths.
        head = heads[plan["kernels"][call["kernel"]]["symbol"]]
        taken = [int(bits) // 8 for bits in re.findall(r"\.param \.[a-z](\d+)", head)]
        assert [size for _, _, size in call["arguments"]] == taken


def test_kernels_say_their_language(archive):
    done = command("explain", archive, "--set", "cuda.emulate=true", "--set", "cuda.kernels=triton")
    assert done.returncode == 0, done.stderr
    assert "(Triton)" in done.stdout
    assert "(CUDA C++: airy_ai of f32)" in done.stdout


def test_python_form_holds_text(archive, tmp_path):
    for_gpu(archive, tmp_path / "m.py", "--emit", "python").check_returncode()
    text = (tmp_path / "m.py").read_text()
    assert "@triton.jit\ndef coil_" in text and "tl.associative_scan(" in text and "XBLOCK: tl.constexpr" in text


def test_equal_kernels_are_one_launch(tmp_path):
    """As optimizers have them; the program's text is run by the interpreter where its device is the CPU."""

    class Module(torch.nn.Module):
        def forward(self, *tensors):
            return *(t.sin() * 2 + t for t in tensors), *(t.sum(-1) for t in tensors[:2])

    tensors = tuple(seeded(n, 50) + k for k, n in enumerate((6, 6, 6, 3, 6, 6)))
    export(Module(), tensors, tmp_path / "m.pt2")
    for_gpu(tmp_path / "m.pt2", tmp_path / "m.py", "--emit", "python").check_returncode()
    text = (tmp_path / "m.py").read_text()
    program = text[text.index("\ndef call(args)") :]
    names = re.findall(r"    (coil_\w+)\(\[.*\], \[\], grid=", program)
    assert len(names) == 3 and {n[21:] for n in names} == {"", "_x2", "_x3"}, names
    assert text.count('DEVICE = torch.device("cuda:0")') == 1
    (tmp_path / "m.py").write_text(text.replace('torch.device("cuda:0")', 'torch.device("cpu")'))
    results = load_module(tmp_path / "m.py").call(list(tensors))
    for got, want in zip(results, Module()(*tensors), strict=True):
        torch.testing.assert_close(got, want, rtol=2e-6, atol=2e-6)


def test_finds_what_was_compiled(tmp_path):
    """The second compile asks for Triton's version and no more."""

    class Module(torch.nn.Module):
        def forward(self, x):
            return x.sin() + 1

    export(Module(), (torch.randn(7, 9),), tmp_path / "m.pt2")
    script, calls = tmp_path / "python", tmp_path / "calls"
    script.write_text(f'#!/bin/sh\necho "$1" >> {calls}\nexec {sys.executable} "$@"\n')
    script.chmod(0o755)
    counts = []
    for _ in range(2):
        done = for_gpu(
            tmp_path / "m.pt2", tmp_path / "m.coil", "--cache", tmp_path / "cache", "--set", f"cuda.python={script}"
        )
        assert done.returncode == 0, done.stderr
        counts.append(sum(line.endswith("compile.py") for line in calls.read_text().splitlines()))
    assert counts == [1, 1]


@pytest.mark.skipif(PLACE is None, reason="nvidia-cuda-nvrtc is not installed")
def test_the_better_language_is_measured(behind, tmp_path):
    """Where there is nothing to measure on, kernels are CUDA C++, and no Triton is needed."""
    nvrtc = ("--set", f"cuda.nvrtc={os.path.dirname(PLACE)}")
    options = ("--set", "cuda.kernels=auto", "--set", "max_autotune=true", "--set", "cuda.python=/nowhere/python")
    done = for_gpu(behind, tmp_path / "m.coil", "--cache", tmp_path / "cache", *options, *nvrtc)
    assert done.returncode == 0, done.stderr
    assert "arguments" not in json.dumps(plan_of(tmp_path / "m.coil")["steps"])


# ---- Bad input ----


def test_without_triton(archive, tmp_path):
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nexit 1\n")
    script.chmod(0o755)
    done = for_gpu(archive, tmp_path / "m.coil", "--cache", tmp_path / "cache", "--set", f"cuda.python={script}")
    assert done.returncode != 0
    assert f"cuda.kernels=triton: {script} has no Triton; pip install triton, or set cuda.python" in done.stderr
    assert not os.path.exists(tmp_path / "m.coil")


def test_without_python(archive, tmp_path):
    done = for_gpu(archive, tmp_path / "m.coil", "--set", "cuda.python=/nowhere/python")
    assert done.returncode != 0 and "no Python /nowhere/python: set cuda.python to one that has Triton" in done.stderr


def test_unknown_language(archive, tmp_path):
    done = command("compile", archive, "-o", tmp_path / "m.coil", "--set", "cuda.kernels=metal")
    assert done.returncode != 0 and "cuda.kernels is metal: it may be cuda, triton or auto" in done.stderr
