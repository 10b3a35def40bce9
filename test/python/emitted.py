"""Programs written as source, loaded and called: every output form of the compiler behind one function, so that tests
can loop over them.
"""

import copy
import importlib.util
import os
import subprocess
import sys

import torch
from safetensors.torch import load_file, save_file
from torch.utils import _pytree as pytree

from coil_harness import COIL, ENVIRONMENT, ROOT, coil_ok, dense, named_outputs, path_name

BUILD = os.path.dirname(os.path.dirname(os.path.abspath(COIL)))
RUNTIME = os.path.join(BUILD, "lib", "libcoil_runtime.so")


def load_module(path):
    """Imports a file that coil wrote; with Coil's runtime, unless COIL_RUNTIME says otherwise."""
    os.environ.setdefault("COIL_RUNTIME", RUNTIME)
    os.environ.setdefault("COIL_CACHE", os.path.join(BUILD, "python-kernels"))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    # A file of the same length may take this one's place within the second by which bytecode is known.
    kept, sys.dont_write_bytecode = (
        sys.dont_write_bytecode,
        True,
    )
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = kept
    return module


def emit(archive, language, *options):
    """The file that `coil compile --emit` writes beside the archive."""
    suffix = {"python": ".py", "fx": ".fx.py", "cpp": ".cpp"}[language]
    path = archive.with_name(f"emitted_{language}_{archive.stem}{suffix}")
    coil_ok("compile", archive, "-o", path, "--emit", language, *options)
    return path


def run_program(program, inputs, environment):
    """The finished process, and the named results where there are some."""
    given, results = program.with_suffix(".in"), program.with_suffix(".out")
    results.unlink(missing_ok=True)
    save_file(inputs, given)
    done = subprocess.run([program, given, results], capture_output=True, text=True, env=environment)
    return done, load_file(results) if results.exists() else None


def build_program(source):
    """The C++ output as a program; returns its path."""
    program = source.with_suffix("")
    command = [
        "g++",
        "-std=c++20",
        "-O1",
        "-DCOIL_MAIN",
        f"-I{ROOT}/include",
        source,
        "-o",
        program,
        f"-L{BUILD}/lib",
        "-lcoil_runtime",
        f"-Wl,-rpath,{BUILD}/lib",
    ]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return program


def call_program(program, inputs):
    """A C++ program on named inputs; its named results."""
    environment = ENVIRONMENT | {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    done, results = run_program(program, inputs, environment)
    assert done.returncode == 0, done.stderr
    return results


def call_flat(function, module, args, kwargs, want):
    """A function of flat inputs; its results by the names that `want` (a run of the plan) has, inputs written to
    included.
    """
    names = [
        ".".join(filter(None, [n, path_name(p)]))
        for n, v in bound(module, args, kwargs).items()
        for p, _ in pytree.tree_flatten_with_path(v)[0]
    ]
    flat = [x for v in bound(module, args, kwargs).values() for x in pytree.tree_flatten(copy.deepcopy(v))[0]]
    results = function(flat)
    assert isinstance(results, tuple)
    with torch.no_grad():
        keys = list(named_outputs(copy.deepcopy(module)(*copy.deepcopy(args), **copy.deepcopy(kwargs))))
    assert len(keys) == len(results), f"{len(results)} results for {keys}"
    named = {k: dense(v) for k, v in zip(keys, results)}
    return named | {
        n: dense(x) for n, x in zip(names, flat) if n in want and n not in named and isinstance(x, torch.Tensor)
    }


def bound(module, args, kwargs):
    import inspect

    names = list(inspect.signature(module.forward).parameters)
    return dict(zip(names, args)) | kwargs
