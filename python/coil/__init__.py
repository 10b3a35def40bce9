"""Coil compiles PyTorch programs to native code.

`torch.compile(model, backend="coil")` works without importing this package. `coil.compile` compiles a module for given
inputs ahead of time, and `coil.load` reads what it saved.
"""

from . import host  # noqa: F401  (tells the extension where operators without lowering are)
from ._native import Error
from .model import Model, compile, fx_wrapper, load, with_user_kernels
from .options import settings

__version__ = "0.1.0"
__all__ = ["Error", "Library", "Model", "compile", "fx_wrapper", "load", "settings", "with_user_kernels"]


def __getattr__(name):
    if name == "Library":  # what needs torch is imported when it is asked for: packages run without
        from .library import Library

        return Library
    raise AttributeError(f"module 'coil' has no attribute '{name}'")
