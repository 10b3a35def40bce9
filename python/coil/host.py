"""Operators that Coil has no lowering for are torch's to carry out."""
import functools

from . import _native


def find(name):
    """torch's operator of a name such as `aten.cumsum.default`, or None. The prefix `host.` is of those that Coil must not take itself."""
    import torch

    try:
        return functools.reduce(getattr, name.removeprefix("host.").split("."), torch.ops)
    except AttributeError:
        return None


_native.set_host(find)
