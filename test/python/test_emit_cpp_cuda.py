"""`--emit cpp` of CUDA programs where there is no GPU: the source compiles without a warning, and on the driver of
test/fake_cuda, whose kernels are the compiler's own behind the machine of `cuda.emulate`, it gives eager's results.
"""

import copy
import os
import pathlib
import subprocess

import pytest
import torch

from coil_harness import (
    ENVIRONMENT,
    ROOT,
    SOURCES,
    CoilError,
    coil,
    coil_ok,
    difference,
    export,
    named_inputs,
    named_outputs,
)
from emitted import BUILD, build_program, emit, run_program
from emulated_cuda import library_calls_of_its_own, load_emulated  # noqa: F401 (the fixture serves by being here)
from test_emit_cuda import CUDA as TO_CUDA, PLACE, PROGRAMS, of, seeded

pytestmark = pytest.mark.skipif(PLACE is None, reason="nvidia-cuda-nvrtc is not installed")
CUDA = [*TO_CUDA, "--set", f"cuda.nvrtc={pathlib.Path(PLACE or '.').parent}"]
# The others call cuBLAS or cuDNN.
EMULATED = [
    "pointwise",
    "reduction",
    "attention in f32",
    "attention in f32 in training",
    "attention in f32 in training, masked",
    "blocks",
    "selected",
    "sorts and scans",
    "scattered",
    "many alike",
]


def archived(name, folder):
    torch.manual_seed(0)
    module, calls, dynamic = PROGRAMS[name]
    module = module.eval()
    with torch.no_grad():
        torch.export.save(
            torch.export.export(copy.deepcopy(module), calls[0], dynamic_shapes=dynamic), folder / "m.pt2"
        )
    return module, calls, folder / "m.pt2"


def on_the_fake_driver(archive):
    """The environment in which a program finds the driver of tests, with this one's kernels."""
    kernels = load_emulated(emit(archive, "python", *TO_CUDA)).KERNELS.library._name
    return ENVIRONMENT | {"LD_LIBRARY_PATH": os.path.join(BUILD, "lib", "fake_cuda"), "COIL_FAKE_CUDA_KERNELS": kernels}


@pytest.mark.parametrize(
    "name", ["net", "selected", "blocks", "factors", "attention", "convolution", "lstm", "many alike", "complex"]
)
def test_source_compiles_without_a_warning(name, tmp_path):
    source = emit(archived(name, tmp_path)[2], "cpp", *CUDA)
    done = subprocess.run(
        [
            "g++",
            "-std=c++20",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-fsyntax-only",
            "-DCOIL_MAIN",
            f"-I{ROOT}/include",
            source,
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[:3000]


@pytest.mark.parametrize("name", EMULATED)
def test_gives_eagers_results(name, tmp_path):
    module, calls, archive = archived(name, tmp_path)
    program, environment = build_program(emit(archive, "cpp", *CUDA)), on_the_fake_driver(archive)
    for args in calls:
        theirs = copy.deepcopy(args)
        with torch.no_grad():
            want = named_outputs(copy.deepcopy(module)(*theirs))
        done, got = run_program(program, named_inputs(module, args), environment)
        assert done.returncode == 0, done.stderr
        wrong = {k: d for k in want if (d := difference(got[k], want[k]))}
        assert not wrong, wrong


class Written(torch.nn.Module):
    """An index that may be out of range, then an input and a state that are written to, and views of both."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(3))

    def forward(self, x, i, h):
        y = x[i]
        h.add_(1)
        self.calls.add_(1)
        return y, h.t(), self.calls * 2, y.sum(0), x.shape[0] * 2


def test_inputs_that_are_written_to(tmp_path):
    export(Written(), (seeded(6, 3), torch.tensor([2, 0]), torch.zeros(2, 3)), tmp_path / "m.pt2")
    program, environment = build_program(emit(tmp_path / "m.pt2", "cpp", *CUDA)), on_the_fake_driver(tmp_path / "m.pt2")
    inputs = {"x": seeded(6, 3), "i": torch.tensor([2, -1]), "h": torch.zeros(2, 3)}
    done, got = run_program(program, inputs, environment)
    assert done.returncode == 0, done.stderr
    assert (
        torch.equal(got["0"], inputs["x"][[2, 5]])
        and torch.equal(got["1"], torch.ones(3, 2))
        and torch.equal(got["2"], torch.full((3,), 2.0))
        and got["4"] == 12
    )
    assert torch.equal(got["h"], torch.ones(2, 3))
    for wrong, message in [
        ({"i": torch.tensor([2, 6])}, "an index read from a tensor is out of range"),
        ({"x": seeded(6, 4)}, "input 'x' has size 4 in dimension 1"),
        ({"h": torch.zeros(2, 3).long()}, "input 'h' is int64"),
    ]:
        done, got = run_program(program, inputs | wrong, environment)
        assert done.returncode == 1 and message in done.stderr and got is None, done.stderr


def check_what_stays(folder, options, environment):
    export(Written(), (seeded(6, 3), torch.tensor([2, 0]), torch.zeros(2, 3)), folder / "m.pt2")
    source = emit(folder / "m.pt2", "cpp", *options)
    source.write_text(source.read_text() + (SOURCES / "stay_on_device.cpp").read_text())
    command = [
        "g++",
        "-std=c++20",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        f"-I{ROOT}/include",
        source,
        "-o",
        folder / "caller",
        f"-L{BUILD}/lib",
        "-lcoil_runtime",
        f"-Wl,-rpath,{BUILD}/lib",
    ]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
    done = subprocess.run([folder / "caller"], capture_output=True, text=True, env=environment(folder / "m.pt2"))
    assert done.returncode == 0, done.stderr


def test_tensors_that_stay_on_the_device(tmp_path):
    check_what_stays(tmp_path, CUDA, on_the_fake_driver)


def test_library_calls_that_the_host_does(tmp_path):
    module, args = (
        of(lambda a: (torch.linalg.cholesky(a) * 2, torch.linalg.svdvals(a))),
        (seeded(4, 3, 3) / 9 + torch.eye(3),),
    )
    args = ((args[0] + args[0].mT) / 2,)
    export(module, args, tmp_path / "m.pt2")
    done, got = run_program(
        build_program(emit(tmp_path / "m.pt2", "cpp", *CUDA)),
        named_inputs(module, args),
        on_the_fake_driver(tmp_path / "m.pt2"),
    )
    assert done.returncode == 0, done.stderr
    wrong = [d for k, w in named_outputs(module(*args)).items() if (d := difference(got[k], w))]
    assert not wrong, wrong


def test_random_numbers(tmp_path):
    export(of(lambda x: torch.nn.functional.dropout(x, 0.25, True)), (torch.ones(40, 50),), tmp_path / "m.pt2")
    program, environment = build_program(emit(tmp_path / "m.pt2", "cpp", *CUDA)), on_the_fake_driver(tmp_path / "m.pt2")
    inputs = named_inputs(of(lambda x: x), (torch.ones(40, 50),))
    (done, one), (_, two) = (run_program(program, inputs, environment) for _ in range(2))
    assert done.returncode == 0, done.stderr
    one, two = next(iter(one.values())), next(iter(two.values()))
    assert not torch.equal(one, two) and 0.7 < (one > 0).float().mean() < 0.8


def test_the_queue_is_of_the_device_that_was_named(tmp_path):
    text = emit(
        archived("pointwise", tmp_path)[2],
        "cpp",
        "--device",
        "cuda:3",
        "--set",
        "cuda.arch=sm_90",
        *CUDA[-2:],
        "--set",
        "cuda.dependent_launch=true",
    ).read_text()
    assert '  Queue queue{"cuda:3", "sm_90", binaries(), true, false};' in text


def test_without_its_kernels(tmp_path):
    program = build_program(emit(archived("pointwise", tmp_path)[2], "cpp", *CUDA))
    done, _ = run_program(
        program,
        named_inputs(PROGRAMS["pointwise"][0], PROGRAMS["pointwise"][1][0]),
        ENVIRONMENT | {"LD_LIBRARY_PATH": os.path.join(BUILD, "lib", "fake_cuda")},
    )
    assert (
        done.returncode == 1 and done.stderr.startswith("coil: error: kernel 'coil_") and done.stderr.count("\n") == 1
    ), done.stderr


def test_programs_for_the_cpu_have_no_device_to_stay_on(tmp_path):
    export(torch.nn.ReLU(), (torch.randn(3),), tmp_path / "m.pt2")
    source = emit(tmp_path / "m.pt2", "cpp")
    source.write_text(source.read_text() + (SOURCES / "stay_on_cpu.cpp").read_text())
    subprocess.run(
        [
            "g++",
            "-std=c++20",
            "-Wall",
            "-Werror",
            f"-I{ROOT}/include",
            source,
            "-o",
            tmp_path / "caller",
            f"-L{BUILD}/lib",
            "-lcoil_runtime",
            f"-Wl,-rpath,{BUILD}/lib",
        ],
        check=True,
    )
    done = subprocess.run([tmp_path / "caller"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("the program runs on the cpu"), done


def test_what_a_gpus_program_leaves_to_its_host_is_refused(tmp_path):
    export(of(lambda x: torch.linalg.eigvals(x)), (seeded(3, 3),), tmp_path / "m.pt2")
    with pytest.raises(
        CoilError,
        match=(
            r"--emit=cpp: programs for cuda:0 cannot leave coil.eig_values.default to the host program; emit python "
            r"or fx, which call torch"
        ),
    ):
        coil_ok(
            "compile", tmp_path / "m.pt2", "-o", tmp_path / "m.cpp", "--emit", "cpp", *CUDA, "--set", "fallback=true"
        )


def test_wrapper_text_gives_the_same_program(tmp_path):
    _, _, archive = archived("blocks", tmp_path)
    text = tmp_path / "m.wrap"
    coil_ok("compile", archive, "-o", text, "--emit", "wrapper", *CUDA)
    run = lambda source: source[source.index("void coil_program::run(") : source.index("constexpr char binary0[]")]
    found = coil_ok(
        "opt", "--emit", "cpp", text, env=ENVIRONMENT | {"CUDA_HOME": str(pathlib.Path(PLACE).parent)}
    ).stdout
    assert run(found) == run(emit(archive, "cpp", *CUDA).read_text()) and '\nextern "C" __global__' in found
    done = coil(
        "opt",
        "--emit",
        "cpp",
        text,
        env={k: v for k, v in ENVIRONMENT.items() if k not in ("CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH")},
    )
    assert done.returncode == 0 or "no NVRTC" in done.stderr and "CUDA_HOME names a folder as well" in done.stderr, (
        done.stderr
    )
