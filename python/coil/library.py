"""Operators of your own: `coil.Library`."""

import torch

from . import _native
from .graph import target_name

_decompositions = {}
_kept = []  # torch forgets the operators of a library object that nobody holds


def decompositions():
    """Those of all libraries: {OpOverload: function}."""
    return dict(_decompositions)


class Library:
    """Operators of a namespace, defined by schema strings in torch's notation. They are torch's as well
    (`torch.ops.NAMESPACE.NAME`), so that they export, and Coil's: programs that call them compile, and
    packages that were saved with them are bound to them when they are loaded, here or by another host that registers
    the same schema (`coil_operator_register` in C).
    """

    def __init__(self, namespace):
        if namespace in ("aten", "prims", "prim"):
            raise _native.Error(f"operators of '{namespace}' are torch's own; choose another namespace")
        self.namespace = namespace
        self._torch = torch.library.Library(namespace, "FRAGMENT")
        _kept.append(self._torch)

    def define(self, schema, *, shape, implementation, decomposition=None, backward=None, setup_context=None, tags=()):
        """Defines `scale(Tensor x, float by=1.0) -> Tensor` and gives it back as torch calls it. It returns new
        tensors, and may write to arguments that its
        schema says are written to (`Tensor(a!) x`).

        shape: the results for fake tensors, whose sizes may be symbolic (`torch.empty_like(x)`).
        implementation: the results for real ones. One that gives other sizes or another dtype than `shape` said fails
        the call.
        decomposition: the same in operators that torch has; compiled programs use it, and the implementation is not
        called then.
        backward, setup_context: as torch.library.register_autograd takes them."""
        _native.check_schema(schema if "::" in schema.split("(")[0] else f"{self.namespace}::{schema}")
        name = self._torch.define(schema.removeprefix(self.namespace + "::"), tags=tags)
        packet, _, overload = name.partition(".")
        op = getattr(getattr(getattr(torch.ops, self.namespace), packet), overload or "default")
        qualified = f"{self.namespace}::{name}"
        torch.library.register_fake(qualified, shape, lib=self._torch)
        self._torch.impl(name, implementation, "CompositeExplicitAutograd")
        if backward:
            torch.library.register_autograd(qualified, backward, setup_context=setup_context, lib=self._torch)
        target_name(op)
        _native.leave_to_host(str(op))
        if decomposition:
            _decompositions[op] = decomposition
        return op
