"""Operators of your own: `coil.Library`."""

import ctypes

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

    def register_symm_mem_args(self, op, names):
        """Says that these arguments of an operator of this library, tensors or lists of tensors, lie in memory that the
        ranks of a process group share: programs make them there, and the operator finds the other ranks' by
        `coil.comm_peers`. The group is the one that the operator's argument `group_name` or `group` names, else that of
        all processes.

        The implementation is given that memory itself and must not keep it: later runs write to it.

        op: what `define` gave back, or its name (`push`, `push.out`).
        Raises coil.Error for an operator that is not defined, a name that its schema does not have, an argument that is
        no tensor, a name that comes twice, other names than those registered before, and an operator that returns an
        argument that it writes to."""
        schema = self._schema(op)
        _native.register_symm_mem_args(str(schema), list(names))

    def symm_mem_args(self, op):
        """Those that were registered, in their order."""
        schema = self._schema(op)
        return _native.symm_mem_args(f"{schema.name.replace('::', '.')}.{schema.overload_name or 'default'}")

    def _schema(self, op):
        if isinstance(op, torch._ops.OpOverload):
            found = op
        else:
            packet, _, overload = str(op).removeprefix(self.namespace + "::").partition(".")
            found = getattr(getattr(torch.ops, self.namespace), packet, None)
            found = getattr(found, overload or "default", None)
        if found is None or found.namespace != self.namespace:
            raise _native.Error(f"there is no operator {op} in the library {self.namespace}; define it first")
        return found._schema


def comm_peers(tensor):
    """The same tensor of each rank, in the order of their ranks, of one that lies in memory that ranks share; this
    rank's own in its place. Raises coil.Error for a tensor that does not lie there, and where the ranks cannot reach
    each other's memory."""
    place = _native.comm_place(tensor.data_ptr())
    if place is None:
        raise _native.Error("the tensor does not lie in memory that ranks share")
    rank, _, addresses = place
    if not all(addresses):
        raise _native.Error("the ranks of this process group cannot reach each other's memory")
    span = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride())) if tensor.numel() else 0
    return [tensor if r == rank else _at(a, span, tensor) for r, a in enumerate(addresses)]


def _at(address, span, like):
    if span == 0:
        return torch.empty_like(like)
    memory = (ctypes.c_byte * (span * like.element_size())).from_address(address)
    return torch.frombuffer(memory, dtype=like.dtype).as_strided(like.shape, like.stride())


def comm_barrier(tensor):
    """Returns when all ranks have come to it, by any tensor in memory that they share: what they wrote before can be
    read then."""
    _native.comm_barrier(tensor.data_ptr())
