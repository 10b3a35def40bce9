"""Devices from outside: examples/device built against the installed package alone, programs on it in every way that the
command and Python have, and libraries that bring what they should not.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file

import coil_harness as harness
import test_several_devices as several
from coil_harness import ROOT, SOURCES, coil, coil_ok, differences, eager, export, ok
from test_signature import edited
from test_torch_compile import coil as package, same

pytestmark = pytest.mark.xdist_group("outside_device")
CONFORMANCE = [ROOT / "build/bin/device_conformance", ROOT / "build-debug/bin/device_conformance"]


@pytest.fixture(scope="module")
def toy(prefix, tmp_path_factory):
    """The library, made by a project that knows the installed package and nothing of the sources."""
    folder = tmp_path_factory.mktemp("toy")
    source = folder / "source"
    ok("cp", "-r", ROOT / "examples/device", source)
    ok("cmake", "-S", source, "-B", folder / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}")
    ok("cmake", "--build", folder / "build")
    return folder / "build/libtoy.so"


@pytest.fixture(scope="module")
def extension(prefix, tmp_path_factory):
    """A function that makes a library of a file in `sources`."""
    folder = tmp_path_factory.mktemp("extensions")
    include = prefix / "include"

    def build(name):
        library = folder / f"{name}.so"
        flags = ["-std=c++20", "-fPIC", "-shared", f"-I{include}", f"-I{include}/coil/extension"]
        ok("g++", *flags, SOURCES / f"{name}.cpp", "-o", library, "-lfmt")
        return library

    return build


class Mixed(torch.nn.Module):
    """Kernels of every form, and library calls that the device has."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = torch.nn.Linear(12, 16), torch.nn.LayerNorm(16)
        self.table = torch.nn.Embedding(10, 16)

    def forward(self, x, where):
        y = self.norm(torch.nn.functional.gelu(self.first(x))) + self.table(where)
        weights = torch.softmax(y @ y.transpose(-1, -2), -1)
        placed = torch.zeros(10, 16).index_add(0, where, y)
        return weights @ y, y.cumsum(0), y.argmax(-1), placed, torch.where(y > 0, y, y.exp() - 1)


def mixed(rows=7):
    torch.manual_seed(rows)
    return torch.randn(rows, 12), torch.randint(0, 10, (rows,))


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    torch.manual_seed(0)
    module, path = Mixed().eval(), tmp_path_factory.mktemp("mixed") / "m.pt2"
    rows = torch.export.Dim("rows", min=2, max=100)
    export(module, mixed(), path, ({0: rows}, {0: rows}))
    return module, path


def check(module, args, toy, tmp_path, *options):
    export(module, args, tmp_path / "m.pt2")
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", "--load", toy, "--device", "toy", *options)
    before, want = eager(module, args)
    assert not differences(harness.run(tmp_path / "m.coil", before, tmp_path, "--load", toy), want)


# ---- The device ----


def test_nothing_of_coils_names_it():
    found = subprocess.run(
        ["grep", "-rliE", r"\btoy", ROOT / "src", ROOT / "include", ROOT / "python", ROOT / "tools"],
        capture_output=True,
        text=True,
    )
    assert found.stdout == ""


def test_the_walk_through_quotes_what_is_there():
    text = (ROOT / "docs/extending.md").read_text()
    walk = text[text.index("## A device of your own") : text.index("## A wrapper backend from outside")]
    sources = [p.read_text() for p in (ROOT / "examples/device").iterdir()]
    quotes = re.findall(r"```cpp\n(.*?)```", walk, re.DOTALL)
    assert len(quotes) == 6
    for quote in quotes:
        assert any(quote in source for source in sources), quote


def test_the_host_cannot_touch_its_memory(tmp_path):
    device, program = ROOT / "examples/device", tmp_path / "touch"
    ok("g++", "-std=c++20", f"-I{device}", device / "machine.cpp", SOURCES / "touch_device_memory.cpp", "-o", program)
    ok(program)
    assert subprocess.run([program, "touch"]).returncode == -signal.SIGSEGV


def test_a_package_runs_for_each_size(archive, toy, tmp_path):
    module, path = archive
    coil_ok("compile", path, "-o", tmp_path / "m.coil", "--load", toy, "--device", "toy", "--set", "verify=true")
    for rows in (7, 2, 100):
        before, want = eager(module, mixed(rows))
        assert not differences(harness.run(tmp_path / "m.coil", before, tmp_path, "--load", toy), want)


def test_a_second_one_of_its_kind(archive, toy, tmp_path):
    module, path = archive
    before, want = eager(module, mixed())
    coil_ok("compile", path, "-o", tmp_path / "m.coil", "--load", toy, "--device", "toy:1")
    assert not differences(harness.run(tmp_path / "m.coil", before, tmp_path, "--load", toy), want)
    coil_ok("compile", path, "-o", tmp_path / "n.coil", "--load", toy, "--device", "toy:2")
    done = coil("run", tmp_path / "n.coil", "--load", toy)
    assert done.returncode == 1 and "there is no device toy:2; there are 2" in done.stderr


def test_bench_and_explain_know_it(archive, toy, tmp_path):
    _, path = archive
    coil_ok("compile", path, "-o", tmp_path / "m.coil", "--load", toy, "--device", "toy")
    assert "on toy:0" in coil_ok("bench", tmp_path / "m.coil", "--load", toy, "--seconds", "0.2").stdout
    told = coil_ok("explain", path, "--load", toy, "--device", "toy").stdout
    assert re.search(r"toy_[0-9a-f]{16}", told) and "library linear" in told and "library matmul" in told


def test_its_own_language_and_no_other(archive, toy, tmp_path):
    _, path = archive
    place = ("--load", toy, "--device", "toy")
    coil_ok("compile", path, "-o", tmp_path / "m.c", *place, "--emit", "toy-listing")
    text = (tmp_path / "m.c").read_text()
    assert 'extern "C" void toy_' in text and re.search(r"^// .*launch toy_\w+\(", text, re.MULTILINE)
    for language in ("python", "cpp", "fx"):
        done = coil("compile", path, "-o", tmp_path / "m.x", *place, "--emit", language)
        assert done.returncode == 1 and "toy:0" in done.stderr and not (tmp_path / "m.x").exists()
    done = coil("compile", path, "-o", tmp_path / "m.x", "--load", toy, "--emit", "toy-listing")
    assert done.returncode == 1 and "--emit=toy-listing writes programs for toy, not for cpu" in done.stderr


def test_its_own_language_has_programs_on_one_device(toy, tmp_path):
    """A language that does not say that it keeps devices is not given a program over several."""
    program, args = several.CASES["crossing"]
    several.export_over(program(), args(), tmp_path / "m.pt2")
    given = ("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.c", "--load", toy, "--device", "toy")
    done = coil(*given, "--emit", "toy-listing")
    assert done.returncode == 1 and not (tmp_path / "m.c").exists()
    assert "--emit=toy-listing writes programs on one device; this one lies on toy:0 and cpu" in done.stderr
    # Sorting stays the CPU's whatever is moved; what is nothing but loops is the device's.
    program, args = several.CASES["writes"]
    several.export_over(program(), args(), tmp_path / "m.pt2")
    assert coil(*given, "--emit", "toy-listing").returncode == 1
    coil_ok(*given, "--emit", "toy-listing", "--set", "one_device=true")


def test_what_it_does_not_carry_out_goes_to_the_host(toy, tmp_path):
    class Solves(torch.nn.Module):
        def forward(self, a, b):
            return torch.linalg.solve(a @ a.T + 4 * torch.eye(5), b).relu(), torch.linalg.inv(a @ a.T + torch.eye(5))

    torch.manual_seed(1)
    check(Solves(), (torch.randn(5, 5), torch.randn(5, 3)), toy, tmp_path)
    place = ("--load", toy)
    told = coil_ok("explain", tmp_path / "m.pt2", "--device", "toy", *place).stdout
    assert "library cholesky" not in told and "library lu_factor on cpu" in told, told
    # What one call on the CPU gives another has no need of the device.
    assert told.count("library device_copy from cpu to toy:0") < told.count(" on cpu\n") + 3


def test_library_calls_of_other_types_and_of_other_names_are_the_cpus(toy, tmp_path):
    """Products of floats are the device's; it has none of integers, and no convolutions."""

    class Calls(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(2, 3, 2)

        def forward(self, x, i):
            image = (x @ x.T)[None, None].expand(1, 2, 4, 4)
            return self.conv(image).relu() * 2, (i @ i.T).float() + 1

    torch.manual_seed(1)
    check(Calls().eval(), (torch.randn(4, 4), torch.arange(12).reshape(4, 3)), toy, tmp_path)
    told = coil_ok("explain", tmp_path / "m.pt2", "--device", "toy", "--load", toy).stdout
    assert "library convolution on cpu" in told
    assert " on toy:0" in told


def test_checks_of_values_look_at_copies_on_the_cpu(toy, tmp_path):
    class Logs(torch.nn.Module):
        def forward(self, x):
            return x.log() + 1

    export(Logs(), (torch.ones(4),), tmp_path / "m.pt2")
    place = ("--load", toy)
    coil_ok(
        "compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", "--device", "toy", "--set", "assert_nan=true", *place
    )
    for value, good in ((1.0, True), (-1.0, False)):
        save_file({"x": torch.full((4,), value)}, tmp_path / "in.safetensors")
        done = coil("run", tmp_path / "m.coil", "--inputs", tmp_path / "in.safetensors", *place)
        assert (done.returncode == 0) == good, done.stderr
        assert good or "output 'output' holds NaN at [0]" in done.stderr, done.stderr


def test_one_that_was_exported_on_the_cpu_moves_as_a_whole(toy, tmp_path):
    """Also the parts whose author named the CPU."""

    class Both(torch.nn.Module):
        def forward(self, x):
            return (x.to("cpu") * 2 + torch.ones(3, device="cpu")).sum(0), x.new_zeros(2)

    check(Both(), (torch.randn(4, 3),), toy, tmp_path)


@pytest.mark.parametrize("name", several.CASES)
def test_values_on_the_cpu_and_on_the_device(name, toy, tmp_path):
    """The CPU reads what it was given a copy of, when the device has come to it; neither touches the other's memory."""
    program, args = several.CASES[name]
    module, place = program(), ("--load", toy)
    several.export_over(module, args(), tmp_path / "m.pt2")
    made = several.compiled(tmp_path, "--device", "toy", "--set", "verify=true", *place)
    before, want = eager(module, args())
    assert not differences(several.results(made, before, tmp_path, *place), want)
    package.load_library(toy)
    for got, expected in zip(package.load(made)(*args()), module(*args())):
        assert not harness.difference(got, expected)
    told = coil_ok("explain", tmp_path / "m.pt2", "--device", "toy", *place).stdout
    assert "library device_copy from toy:0 to cpu" in told and " on cpu\n" in told


def test_what_it_writes_to_is_written_back(toy, tmp_path):
    class Counts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x):
            self.total += x.sum(0)
            x.mul_(2)
            return self.total + 1

    check(Counts(), (torch.randn(4, 3),), toy, tmp_path)


@pytest.mark.parametrize(
    "function, reason",
    [
        (lambda x: x.half().exp(), "toy has no kernels for float16"),
        (lambda x: torch.nn.functional.dropout(x, 0.5, True), "toy has no kernels with random numbers"),
        (lambda x: torch.special.i0(x), "toy has no kernels with i0"),
    ],
)
def test_what_it_has_nothing_for_is_refused_by_name(function, reason, toy, tmp_path):
    class Calls(torch.nn.Module):
        def forward(self, x):
            return function(x)

    export(Calls(), (torch.randn(4, 4),), tmp_path / "m.pt2")
    done = coil("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", "--load", toy, "--device", "toy")
    assert done.returncode == 1 and reason in done.stderr, done.stderr
    assert not (tmp_path / "m.coil").exists()


def test_an_index_out_of_range_fails_the_run(archive, toy, tmp_path):
    module, path = archive
    coil_ok("compile", path, "-o", tmp_path / "m.coil", "--load", toy, "--device", "toy")
    x, where = mixed()
    where[3] = 10
    with pytest.raises(harness.CoilError, match="an index read from a tensor is out of range"):
        harness.run(tmp_path / "m.coil", {"x": x, "where": where}, tmp_path, "--load", toy)


def test_torch_compile(toy):
    package.load_library(toy)
    package.load_library(toy)  # once is enough
    torch.manual_seed(0)
    module = Mixed().eval()
    torch._dynamo.reset()
    compiled = torch.compile(module, backend="coil", options={"device": "toy"})
    with torch.no_grad():
        for rows in (7, 9, 20):
            for got, want in zip(compiled(*mixed(rows)), module(*mixed(rows))):
                assert not harness.difference(got, want)

    def writes(x):
        x.add_(1)
        return x * 2, x.sum()

    torch._dynamo.reset()
    x, y = torch.ones(4), torch.ones(4)
    same(torch.compile(writes, backend="coil", options={"device": "toy"})(x), writes(y))
    same(x, y)


def test_caches_know_which_library_was_loaded(toy, tmp_path):
    """A changed library, as another file of its name is, finds nothing that the old one compiled."""
    told = """
import sys
from coil import _native, load_library
assert not _native.libraries_hash()
load_library(sys.argv[1])
print(_native.libraries_hash())
"""
    changed = tmp_path / pathlib.Path(toy).name
    changed.write_bytes(pathlib.Path(toy).read_bytes() + b"\0")
    environment = os.environ | {"PYTHONPATH": str(ROOT / "build/python")}
    run = lambda library: subprocess.run(
        [sys.executable, "-c", told, library], env=environment, check=True, capture_output=True, text=True
    ).stdout
    assert run(toy) == run(toy) != run(changed)
    assert run(toy).strip()


def test_artifacts_for_the_host_need_no_library(toy, tmp_path):
    """What a process compiled for the host beside a library is loaded by one that has not loaded it."""
    package.load_library(toy)
    graph = torch.fx.symbolic_trace(lambda x: (x * 2 + 1,))
    package.standalone_compile(graph, [torch.ones(3)], dynamic_shapes="from_example_inputs").save(path=tmp_path / "a")
    told = "import sys, torch, coil; print(coil.CompiledArtifact.load(path=sys.argv[1])(torch.ones(3))[0].tolist())"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "build/python")}
    got = subprocess.run(
        [sys.executable, "-c", told, tmp_path / "a"], env=environment, check=True, capture_output=True, text=True
    ).stdout
    assert got.strip() == "[3.0, 3.0, 3.0]"


def test_training_with_torch_compile(toy):
    package.load_library(toy)
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    x = torch.randn(5, 6)
    torch._dynamo.reset()
    torch.compile(module, backend="coil", options={"device": "toy"})(x).square().mean().backward()
    got = [p.grad.clone() for p in module.parameters()]
    module.zero_grad()
    module(x).square().mean().backward()
    for gradient, p in zip(got, module.parameters()):
        assert not harness.difference(gradient, p.grad)


def test_packages_in_python(archive, toy, tmp_path):
    package.load_library(toy)
    module, path = archive
    model = package.compile(path, device="toy")
    model.save(tmp_path / "m.coil")
    for each in (model, package.load(tmp_path / "m.coil")):
        for got, want in zip(each(*mixed()), module(*mixed())):
            assert not harness.difference(got, want)


def conformance(*arguments):
    binary = next((p for p in CONFORMANCE if p.exists()), None)
    if not binary:
        pytest.skip("device_conformance is not built")
    # An allocation that is too large is the device's to refuse, not the sanitizer's.
    env = os.environ | {"ASAN_OPTIONS": "allocator_may_return_null=1"}
    return subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True, timeout=550, env=env)


@pytest.mark.parametrize("name", ["cpu", "emulated", "fake", "toy"])
def test_every_device_conforms(name, toy):
    load = ("--load", toy) if name == "toy" else ()
    done = conformance(*load, "--device", name, "--gtest_brief=1")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert int(re.search(r"\[  PASSED  \] (\d+) tests", done.stdout).group(1)) > 10


# ---- Bad input ----


def refusal(*arguments):
    done = coil(*arguments)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_a_package_for_a_device_that_nothing_brings(archive, toy, tmp_path):
    _, path = archive
    coil_ok("compile", path, "-o", tmp_path / "m.coil", "--load", toy, "--device", "toy:1")
    for command in ("run", "bench"):
        told = refusal(command, tmp_path / "m.coil")
        assert "m.coil" in told and "it is for the device 'toy:1', which nothing here brings" in told
    assert "unknown device 'toy'" in refusal("compile", path, "-o", tmp_path / "n.coil", "--device", "toy")
    assert not (tmp_path / "n.coil").exists()


def test_a_library_for_another_version(archive, extension, tmp_path):
    _, path = archive
    library = extension("extension_of_another_version")
    told = refusal("compile", path, "-o", tmp_path / "m.coil", "--load", library)
    found = re.search(
        r"cannot load (.*): it was built for version (\d+) of the interface .* this is version (\d+)", told
    )
    assert found and found[1] == str(library) and int(found[2]) == int(found[3]) + 1, told


def test_a_library_that_throws_has_brought_nothing(archive, extension):
    _, path = archive
    library = extension("extension_that_throws")
    assert f"cannot load {library}: it failed as it registered what it brings: the licence server is asleep" in refusal(
        "explain", path, "--load", library
    )
    with pytest.raises(package.Error, match="the licence server is asleep"):
        package.load_library(library)
    with pytest.raises(package.Error, match="unknown device 'half'; there are cpu, cuda, meta"):
        package.compile(path, device="half")


def test_a_device_is_registered_once(archive, toy, tmp_path):
    _, path = archive
    copy = tmp_path / "libcopy.so"
    ok("cp", toy, copy)
    told = refusal("explain", path, "--load", toy, "--load", copy)
    assert f"cannot load {copy}: there is a device 'toy' already, which {toy} brought" in told
    assert coil("explain", path, "--load", toy, "--load", toy).returncode == 0


def test_a_library_that_is_none(archive, tmp_path):
    _, path = archive
    (tmp_path / "x.so").write_text("not a library")
    for library in (tmp_path / "x.so", tmp_path / "none.so"):
        assert f"cannot load {library}" in refusal("explain", path, "--load", library)


def test_a_copy_that_fails_midway(extension, tmp_path):
    """Of two matrices and their product, it is the product's: the run fails with the device's own words, and no file of
    results is written."""
    library = extension("extension_with_flaky_copies")

    class Multiplies(torch.nn.Module):
        def forward(self, a, b):
            return a @ b

    export(Multiplies(), (torch.eye(3), torch.eye(3)), tmp_path / "m.pt2")
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", "--load", library, "--device", "flaky")
    results = tmp_path / "out.safetensors"
    told = refusal("run", tmp_path / "m.coil", "--load", library, "--outputs", results)
    assert "flaky:0 lost the bus in the middle of a copy" in told and not results.exists()


def test_a_copy_between_devices_that_fails_midway(extension, tmp_path):
    """The third copy is the program's own: it is told where from and where to, and nothing is written."""
    library = extension("extension_with_flaky_copies")

    class Brings(several.Program):
        def forward(self, a, b):
            return (a @ b).cpu() + 1

    args = several.far(torch.eye(3)), several.far(torch.eye(3))
    several.export_over(Brings(), args, tmp_path / "m.pt2")
    made = several.compiled(tmp_path, "--load", library, "--device", "flaky")
    results = tmp_path / "out.safetensors"
    several.save_file({"a": torch.eye(3), "b": torch.eye(3)}, tmp_path / "in.safetensors")
    given = ("--inputs", tmp_path / "in.safetensors", "--outputs", results)
    told = refusal("run", made, "--load", library, *given)
    assert "a copy of 36 bytes from flaky:0 to cpu failed: flaky:0 lost the bus" in told and not results.exists()


def test_a_part_for_a_device_that_nothing_brings(toy, tmp_path):
    """A package whose first device is there, and another is not; and one that puts a buffer where no device is."""
    module, args = several.Crossing(), several.CASES["crossing"][1]
    several.export_over(module, args(), tmp_path / "m.pt2")
    made = several.compiled(tmp_path, "--load", toy, "--device", "toy")
    plan = several.plan_of(made)
    for change, reason in (
        ({"device": "cpu", "others": plan["others"]}, "lies on cpu twice"),
        ({"others": [plan["others"][0] | {"device": "acme:1"}]}, "it is for the device 'acme:1', which nothing here"),
        ({"others": []}, "refers to something that is not there"),
    ):
        edited(made, tmp_path / "n.coil", lambda manifest, change=change: manifest.update(change))
        assert reason in refusal("run", tmp_path / "n.coil", "--load", toy)
