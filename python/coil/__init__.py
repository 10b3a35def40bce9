"""Coil compiles PyTorch programs to native code.

`torch.compile(model, backend="coil")` works without importing this package. `coil.compile` compiles a module for given
inputs ahead of time, and `coil.load` reads what it saved.
"""

import importlib
import sys

from . import host  # noqa: F401  (tells the extension where operators without lowering are)
from ._native import Error
from .model import Model, aoti_compile_and_package, compile, fx_wrapper, load, load_library, with_user_kernels
from .options import settings

if "torch" in sys.modules:  # so that torch.compiler.load_cache_artifacts knows what Coil saved
    from .artifacts import register

    register()

__version__ = "0.1.0"
__all__ = [
    "CompiledArtifact",
    "Error",
    "Library",
    "Model",
    "aoti_compile_and_package",
    "comm_barrier",
    "comm_peers",
    "compile",
    "fx_wrapper",
    "load",
    "load_library",
    "settings",
    "standalone_compile",
    "with_user_kernels",
]

_NEED_TORCH = {
    "Library": "library",
    "comm_barrier": "library",
    "comm_peers": "library",
    "CompiledArtifact": "standalone",
    "standalone_compile": "standalone",
}


def __getattr__(name):
    if name in _NEED_TORCH:  # imported when it is asked for: packages run without torch
        return getattr(importlib.import_module(f".{_NEED_TORCH[name]}", __name__), name)
    raise AttributeError(f"module 'coil' has no attribute '{name}'")
