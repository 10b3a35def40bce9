"""Packages for torch: every program of these tests, written by `--emit=aoti` and called through torch's loader of
AOTInductor packages, gives eager's results.
"""

import json
import pathlib
import sys
import zipfile

import pytest
import torch

import fixture_programs
from batch import Batch
from coil_harness import COIL, ENVIRONMENT, CoilError, coil, ok
from models import SMALL
from test_branch_sizes import PROGRAMS as BRANCHES
from test_control_flow import Collatz, Mapped, Nested, Recurrent, Settling, Suppress, TwoNetworks
from test_cuda_text import NVRTC
from test_emitters import EveryProducer, Masked, boxes, producers, random_program
from test_models import TOLERANCE
from test_ops import CHUNKS
from torch_packages import check, compare_calls, export, load, on_device, package

FIXTURES = ["nested", "structure", "symbols", "weights", "results", "arguments", "unbacked"]
EVERY_RUN = 7  # of the chunks of test_ops.py one in so many is loaded in every run, all with --full


@pytest.mark.parametrize("name", FIXTURES)
def test_fixture_programs(name, tmp_path):
    module, args, kwargs, dynamic = fixture_programs.PROGRAMS[name]()
    check(module, args, tmp_path, kwargs, dynamic)


@pytest.mark.parametrize("name", SMALL)
def test_models(name, tmp_path):
    module, args, dynamic, others = SMALL[name]()
    dtype = next(iter(module.parameters())).dtype
    check(module, args, tmp_path, dynamic=dynamic, others=others, tolerance=TOLERANCE[dtype])


@pytest.mark.parametrize(
    "chunk",
    [
        pytest.param(chunk, marks=() if number % EVERY_RUN == 0 else pytest.mark.full)
        for number, chunk in enumerate(CHUNKS)
    ],
)
def test_operators(chunk, tmp_path):
    """As test_ops.py has them, a chunk of cases in one program."""
    cases = CHUNKS[chunk]
    tolerances = {c.name: c.tolerance for c in cases}
    with torch.backends.mkldnn.flags(enabled=False):
        check(
            Batch(cases),
            ({case.name: case.args for case in cases},),
            tmp_path,
            tolerance=lambda path: tolerances[path[0].key],
            strides=not chunk.startswith("complex"),  # parts of one complex tensor are tensors of their own
        )


def test_sizes_that_depend_on_data(tmp_path):
    others = [(torch.randn(6, 3).abs() * sign,) for sign in (1, -1)]
    check(Masked(), (torch.randn(6, 3),), tmp_path, others=others)


@pytest.mark.parametrize("decomposed", [False, True], ids=["exported", "decomposed"])
def test_every_producer_of_sizes(decomposed, tmp_path):
    rows = torch.export.Dim("rows", min=4, max=512)
    dynamic = ({0: rows}, {0: rows}, None, None, None)
    others = [producers(13, 5, 11), producers(64, 3, 32), producers(257, 2, 1)]
    check(EveryProducer(), producers(6, 4, 3), tmp_path, dynamic=dynamic, others=others, decomposed=decomposed)


@pytest.mark.parametrize(
    "program",
    [
        (TwoNetworks().eval(), (torch.ones(3, 4),), [(-torch.ones(3, 4),)]),
        (Suppress(), boxes(), [boxes()]),
        (Recurrent().eval(), (torch.randn(5, 3, 2), torch.randn(3, 4)), []),
        (Mapped(), (torch.randn(3, 4), torch.randn(4)), []),
        (Collatz(), (torch.tensor(6),), [(torch.tensor(n),) for n in (1, 27)]),
        (Settling(), (torch.randn(4, 3), torch.tensor(3)), [(-torch.randn(4, 3), torch.tensor(0))]),
        (Nested(), (torch.randn(4, 3).round(), torch.tensor(3)), [(torch.randn(4, 3).abs(), torch.tensor(0))]),
    ],
    ids=["branch", "loop", "scan", "map", "loop in branch in loop", "branch in loop in region", "all in all"],
)
def test_control_flow(program, tmp_path):
    module, args, others = program
    check(module, args, tmp_path, others=others)


@pytest.mark.parametrize("name", BRANCHES)
def test_sizes_that_a_branch_tells(name, tmp_path):
    module, args, dynamic, others = BRANCHES[name]
    check(module, args, tmp_path, dynamic=dynamic, others=others[:4])


@pytest.mark.parametrize("seed", [1, 7, 11])
def test_random_programs(seed, tmp_path):
    module, args, kwargs, dynamic, _ = random_program(seed)
    check(module, args, tmp_path, kwargs, dynamic)


class Views(torch.nn.Module):
    """Results that view inputs, one another, and a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.arange(6.0))

    def forward(self, x, y):
        y.add_(1)
        z = x * 2
        return x, x.t(), x[1:], x.view(torch.int32), y, z, z[0], self.table, self.table[1:]


def test_results_that_view_inputs(tmp_path):
    base = on_device(torch.randn(5, 4))
    args = (base[1:], on_device(torch.randn(3)))
    loaded = check(Views(), args, tmp_path)
    x, y = base.clone()[1:], args[1].clone()
    results = loaded(x, y)
    same, turned, later, bits, written = results[:5]
    for t in (same, turned, later, bits):
        assert t.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert (same.data_ptr(), later.data_ptr()) == (x.data_ptr(), x[1:].data_ptr())
    assert written.data_ptr() == y.data_ptr()
    assert results[5].untyped_storage().data_ptr() == results[6].untyped_storage().data_ptr()
    table, rest = results[7:]
    del loaded, results, x, base, y
    torch.testing.assert_close(table.cpu(), torch.arange(6.0))
    torch.testing.assert_close(rest.cpu(), torch.arange(1.0, 6.0))
    assert same.shape == (4, 4) and turned.stride() == (1, 4)


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("seen", torch.zeros(3, 2))

    def forward(self, x, at):
        self.calls.add_(1)
        self.seen.index_copy_(0, at, x)
        return self.seen.sum() + self.calls, self.calls


@pytest.mark.parametrize("runners", [1, 3])
def test_states_go_on_from_call_to_call(runners, tmp_path):
    module = on_device(Counter())
    calls = [(on_device((torch.full((1, 2), float(n)), torch.tensor([n % 3]))), {}) for n in range(6)]
    _, fixed = export(Counter().to(module.seen.device), calls[0][0], tmp_path / "m.pt2")
    path = package(tmp_path / "m.pt2")
    loaded = load(path, num_runners=runners)
    compare_calls(loaded, module, calls, fixed)
    # Another one begins anew.
    compare_calls(load(path), module, calls, fixed)


class Layouts(torch.nn.Module):
    def forward(self, x):
        return x.contiguous() + 1, x.mul(2)


def test_inputs_in_other_strides(tmp_path):
    """They are copied, and the results are right."""
    args = (torch.randn(4, 6),)
    others = [(torch.randn(6, 4).t(),), (torch.randn(8, 12)[::2, ::2],), (torch.randn(6).expand(4, 6),)]
    module, _, archive = Layouts(), None, tmp_path / "m.pt2"
    export(module, on_device(args), archive)
    loaded = load(package(archive))
    for (x,) in on_device(others):
        got = loaded(x)
        torch.testing.assert_close(got[0], x + 1)
        torch.testing.assert_close(got[1], x * 2)


class Parts(torch.nn.Module):
    def forward(self, z, x):
        return (z * 2).real + 0, x * 2


def test_inputs_that_torch_has_put_off_to_compute(tmp_path):
    z = on_device(torch.randn(4, dtype=torch.complex64))
    export(Parts(), (z, z.real.clone()), tmp_path / "m.pt2")
    loaded = load(package(tmp_path / "m.pt2"))
    given = (z.conj(), z.conj().imag)
    assert given[0].is_conj() and given[1].is_neg()
    torch.testing.assert_close(loaded(*given), Parts()(*given))


@pytest.mark.cpu("there is no GPU")
@pytest.mark.skipif(NVRTC is None, reason="nvidia-cuda-nvrtc is not installed")
def test_package_for_cuda(tmp_path):
    """It is written where there is no GPU, and where torch has none, torch says so."""
    export(torch.nn.Linear(4, 3), (torch.randn(2, 4),), tmp_path / "m.pt2")
    options = ("--device", "cuda", "--set", "cuda.arch=sm_90", "--set", f"cuda.nvrtc={NVRTC}")
    path = package(tmp_path / "m.pt2", *options)
    with zipfile.ZipFile(path) as archive:
        folder = "model/data/aotinductor/model/"
        assert json.loads(archive.read(folder + "coil.wrapper_metadata.json"))["AOTI_DEVICE_KEY"] == "cuda"
        described = json.loads(archive.read(folder + "interface.json"))
        assert [w["constant"] for w in described["weights"]] == ["bias", "weight"]
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="cuda"):
            torch._C._aoti.AOTIModelPackageLoader(str(path), "model", False, 1, -1)


@pytest.mark.skipif(NVRTC is None, reason="nvidia-cuda-nvrtc is not installed")
def test_package_for_cuda_with_calls_on_the_cpu(tmp_path):
    """Nobody outside sees what lies on the CPU between two steps of the GPU."""

    class Solves(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.eigvalsh(x @ x.T) + 1

    export(Solves(), (torch.randn(3, 4),), tmp_path / "m.pt2")
    package(tmp_path / "m.pt2", "--device", "cuda", "--set", "cuda.arch=sm_90", "--set", f"cuda.nvrtc={NVRTC}")


@pytest.mark.cpu("the script's tensors")
def test_from_python(tmp_path):
    """In a process of its own: the extension and the package each have a runtime inside."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, torch, coil\n"
        "module, x = torch.nn.Linear(4, 3), torch.randn(2, 4)\n"
        "program = torch.export.export(module, (x,))\n"
        "for k, source in enumerate((program, module)):\n"
        "    path = coil.aoti_compile_and_package(source, (x,), package_path=f'{sys.argv[1]}/{k}.pt2')\n"
        "    got = torch._inductor.aoti_load_package(path)(x)\n"
        "    torch.testing.assert_close(got, module(x).detach())\n"
    )
    python_path = {"PYTHONPATH": str(pathlib.Path(COIL).resolve().parents[1] / "python")}
    ok(sys.executable, script, tmp_path, env=ENVIRONMENT | python_path)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="streams of a GPU")
def test_streams(tmp_path):
    """Calls on torch's current stream, whichever that is, in order with torch's own work on it."""
    module, x = (
        on_device(torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(4)))),
        on_device(torch.randn(64, 256)),
    )
    export(module, (x,), tmp_path / "m.pt2")
    loaded, streams = load(package(tmp_path / "m.pt2")), [torch.cuda.Stream() for _ in range(3)]
    with torch.no_grad():
        want = [module(x * k) + 1 for k in range(12)]
    torch.cuda.synchronize()
    got = []
    for k in range(12):
        with torch.cuda.stream(streams[k % 3] if k % 4 else torch.cuda.default_stream()):
            got.append(loaded(x * k) + 1)  # the argument goes while work that reads it is queued
    torch.cuda.synchronize()
    for a, b in zip(got, want):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


class Noise(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.dropout(x, 0.5, training=True) + torch.rand_like(x)


def test_random_numbers_follow_torchs_seed(tmp_path):
    x = on_device(torch.randn(64))
    export(Noise(), (x,), tmp_path / "m.pt2")
    loaded = load(package(tmp_path / "m.pt2"))
    torch.manual_seed(3)
    first, second = loaded(x), loaded(x)
    torch.manual_seed(3)
    assert torch.equal(first, loaded(x)) and not torch.equal(first, second)


def test_single_threaded(tmp_path):
    module, args, dynamic, others = SMALL["digits"]()
    module, args = on_device(module), on_device(args)
    _, fixed = export(module, args, tmp_path / "m.pt2", dynamic=dynamic)
    loaded = load(package(tmp_path / "m.pt2"), run_single_threaded=True)
    compare_calls(loaded, module, [(args, {})], fixed)


def test_refusals(tmp_path):
    """An operator that is left to the host, and a text to standard output: one line each."""
    export(Layouts(), (torch.randn(2),), tmp_path / "m.pt2")
    done = coil("compile", tmp_path / "m.pt2", "-o", "-", "--emit", "aoti")
    assert done.returncode == 2 and "standard output" in done.stderr
    torch.library.define("aoti_test::host", "(Tensor x) -> Tensor")
    torch.library.impl("aoti_test::host", "CompositeExplicitAutograd", lambda x: x + 1)
    torch.library.register_fake("aoti_test::host", lambda x: torch.empty_like(x))

    class Host(torch.nn.Module):
        def forward(self, x):
            return torch.ops.aoti_test.host(x)

    export(Host(), (torch.randn(2),), tmp_path / "host.pt2")
    with pytest.raises(CoilError, match="aoti_test.host"):
        package(tmp_path / "host.pt2", "--set", "fallback=true")
