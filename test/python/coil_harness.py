"""Exports modules, compiles and runs them with the `coil` command, and compares with eager PyTorch.

Names of inputs and outputs are those of the command's contract: the parameter, then dict keys and positions, joined by
dots.
"""

import copy
import inspect
import os
import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file
from torch.utils import _pytree as pytree

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ROOT / "test/python/sources"  # programs of other languages that tests compile
COIL = os.environ.get("COIL", str(ROOT / "build/bin/coil"))
UNIT_TESTS = next(
    (p for p in (pathlib.Path(COIL).with_name("unit_tests"), ROOT / "build-debug/bin/unit_tests") if p.exists()), None
)
BUILD = pathlib.Path(COIL).resolve().parents[1]
sys.path.insert(0, str(BUILD / "python"))  # where the package `coil` is built
RUNTIME = BUILD / "lib/libcoil_runtime.so"
COMPILE_OPTIONS = []  # of every compile, after its own: what `pytest --device` and `--set` add

# Largest difference allowed, relative to the larger of 1 and the largest expected value, and its cause: eager rounds to
# the narrow type after each
# operator where Coil computes a fused kernel in f32 and rounds once; sums are added in another order; elementary
# functions differ by a few ulp.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 2e-2}


class CoilError(Exception):
    """`coil` exited with an error; the text is what it printed."""


# Tests share the cores with each other: a thread that waits must not spin.
ENVIRONMENT = os.environ | {"OMP_WAIT_POLICY": "passive"}


def coil(*arguments, timeout=300, env=ENVIRONMENT, **popen):
    """Runs the command; returns the finished process, whatever its exit code."""
    options = COMPILE_OPTIONS if arguments[:1] == ("compile",) else []
    return subprocess.run(
        [COIL, *map(str, arguments), *options], capture_output=True, text=True, timeout=timeout, env=env, **popen
    )


def coil_ok(*arguments, **popen):
    """Runs the command; raises CoilError unless it succeeded."""
    done = coil(*arguments, **popen)
    if done.returncode:
        raise CoilError(f"coil {arguments[0]} exited with {done.returncode}: {done.stderr.strip()[-2000:]}")
    return done


def device():
    """Where the programs of this run of the tests are for."""
    return COMPILE_OPTIONS[COMPILE_OPTIONS.index("--device") + 1] if "--device" in COMPILE_OPTIONS else "cpu"


def path_name(path):
    return ".".join(str(getattr(k, "key", getattr(k, "idx", getattr(k, "name", "?")))) for k in path)


def dense(value):
    """A tensor of its own memory, on the CPU; a Python number as 0-d (int64, float64, bool)."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone().contiguous().cpu()
    return torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None, device="cpu")


def named_outputs(value):
    return {path_name(p) or "output": dense(x) for p, x in pytree.tree_flatten_with_path(value)[0] if x is not None}


def argument_names(module, n):
    """Of `n` arguments given by position; those of `*rest` are `rest_0`, `rest_1`, as torch.export names them."""
    names = []
    for p in inspect.signature(module.forward).parameters.values():
        names += [f"{p.name}_{i}" for i in range(n - len(names))] if p.kind == p.VAR_POSITIONAL else [p.name]
    return names[:n]


def named_inputs(module, args):
    named = zip(argument_names(module, len(args)), args)
    return {
        ".".join(filter(None, [n, path_name(p)])): dense(x)
        for n, v in named
        for p, x in pytree.tree_flatten_with_path(v)[0]
        if x is not None
    }


def same(a, b):
    """Bit for bit, so that NaN equals itself."""
    # Of one element, even a contiguous tensor may have any stride.
    bits = lambda t: torch.empty(t.numel(), dtype=t.dtype).copy_(t.reshape(-1)).view(torch.uint8)
    return torch.equal(bits(a), bits(b))


class Call(torch.nn.Module):
    """A function as a module."""

    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, *args):
        return self.fn(*args)


def eager(module, args, onednn=True):
    """(inputs, expected): by name, the inputs before the call; the outputs, and the inputs that the call wrote to.

    `onednn`: whether eager may call it. On Intel's processors with AVX-512 it does so for gelu, which is then NaN for
    infinity and not infinity.
    """
    before, live = named_inputs(module, args), copy.deepcopy(args)
    with torch.no_grad(), torch.backends.mkldnn.flags(enabled=onednn):
        results = named_outputs(copy.deepcopy(module)(*live))
    return before, results | {k: v for k, v in named_inputs(module, live).items() if not same(v, before[k])}


def difference(got, want, tolerance=None, signs=False):
    """What is wrong with one tensor, or an empty string. `signs`: zeros must have the same sign."""
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return f"{got.dtype}{tuple(got.shape)}, expected {want.dtype}{tuple(want.shape)}"
    if want.dtype.is_complex:
        return difference(torch.view_as_real(got), torch.view_as_real(want), tolerance, signs)
    if not want.dtype.is_floating_point:
        if torch.equal(got, want):
            return ""
        wrong = (got != want).sum().item()
        return f"{wrong} of {want.numel()} elements differ, the first: {first_difference(got, want, got != want)}"
    g, w = got.double(), want.double()
    finite = w[w.isfinite()]
    scale = max(1.0, finite.abs().max().item()) if finite.numel() else 1.0
    limit = tolerance if tolerance is not None else TOLERANCE[want.dtype]
    close = torch.isclose(g, w, rtol=limit, atol=limit * scale, equal_nan=True)
    if signs:
        close &= (g.signbit() == w.signbit()) | w.isnan()
    if close.all():
        return ""
    return (
        f"{(~close).sum().item()} of {want.numel()} elements differ by more than {limit:g}, the first: "
        f"{first_difference(g, w, ~close)}"
    )


def is_as_near(got, want, exact):
    """Whether it is no farther from the exact value than eager by much."""
    if exact is None or not exact.is_floating_point() or got is None or got.shape != exact.shape:
        return False
    distance = lambda t: (t.double() - exact).norm().item()
    return distance(got) <= 1.5 * distance(want) + 1e-3 * exact.norm().item()


def first_difference(got, want, wrong):
    index = tuple(wrong.nonzero()[0].tolist()) if wrong.dim() else ()
    return f"at {list(index)} {got[index].item()}, expected {want[index].item()}"


def ok(*command, **popen):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=600, **popen)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def differences(got, want, tolerances=None):
    """Every difference between two sets of named tensors, as lines."""
    lines = [f"{k}: missing" for k in sorted(set(want) - set(got))]
    lines += [f"{k}: not expected" for k in sorted(set(got) - set(want))]
    for name in sorted(set(got) & set(want)):
        if wrong := difference(got[name], want[name], **(tolerances(name) if tolerances else {})):
            lines.append(f"{name}: {wrong}")
    return lines


def library_convolutions(archive):
    """What oneDNN says of each convolution that it carries out: implementation, layouts and sizes among others."""
    env = ENVIRONMENT | {"ONEDNN_VERBOSE": "1"}
    said = coil_ok("bench", archive, "--threads", 1, "--seconds", 0.01, env=env).stdout
    return [line.split(",") for line in said.splitlines() if ",exec," in line and ",convolution," in line]


def export(module, args, path, dynamic=None, decomposed=False):
    """Writes the archive that `torch.export.save` makes: as exported, or after run_decompositions()."""
    with torch.no_grad():
        program = torch.export.export(module, args, dynamic_shapes=dynamic)
        torch.export.save(program.run_decompositions() if decomposed else program, path)


def run(model, inputs, folder, *options):
    """`coil run` on these inputs; the results by name."""
    given, results = pathlib.Path(folder) / "in.safetensors", pathlib.Path(folder) / "out.safetensors"
    save_file(inputs, given)
    coil_ok("run", model, "--inputs", given, "--outputs", results, *options)
    return load_file(results)


def check(module, args, dynamic=None, others=(), decomposed=False, tolerance=None, settings=()):
    """Fails unless the compiled module gives eager's results for `args` and for each of `others`. `settings` are
    KEY=VALUE.
    """
    with tempfile.TemporaryDirectory() as folder:
        archive, package = pathlib.Path(folder) / "m.pt2", pathlib.Path(folder) / "m.coil"
        export(module, args, archive, dynamic, decomposed)
        coil_ok(
            "compile",
            archive,
            "-o",
            package,
            *[word for setting in ("verify=true", *settings) for word in ("--set", setting)],
        )
        for number, each in enumerate([args, *others]):
            before, want = eager(module, each)
            wrong = differences(run(package, before, folder), want, lambda name: {"tolerance": tolerance})
            assert not wrong, "\n".join([f"call {number}:", *wrong])
