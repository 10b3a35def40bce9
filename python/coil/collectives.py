"""Collectives of torch.distributed in compiled programs: which operators they are, and who waits for their results.

A functional collective gives a tensor whose values are still on their way; torch keeps its pending work by the tensor's
storage, and `wait_tensor` waits for what that storage has. A compiled program holds values in memory of its own and not
in torch's tensors, so that the wait of the graph would find nothing. Instead the call of a collective that torch
carries out ends when its results are ready, before they are copied, and a wait in the graph is for what comes in from
outside alone. Most exchanges are the program's own (exchanges.py), and so are waits for them.
"""

import functools
import operator

import torch
from torch.fx import Node

from .refusal import refuse

_NAMESPACES = {"_c10d_functional", "_c10d_functional_autograd", "c10d_functional", "c10d", "_dtensor", "symm_mem"}
_WAITS = {"_c10d_functional.wait_tensor.default", "c10d_functional.wait_tensor.default"}
# A send is not waited for by the graphs that Dynamo makes, and a receive writes to its argument without saying so.
_POINT_TO_POINT = {f"_c10d_functional.{name}.default" for name in ("isend", "irecv", "batch_p2p_ops")}


def is_collective(target):
    """Whether an operator exchanges values with other processes: it is called in program order and exactly as often as
    the graph says, since the others wait for it.
    """
    return isinstance(target, torch._ops.OpOverload) and target.namespace in _NAMESPACES and str(target) not in _WAITS


def is_wait(target):
    return isinstance(target, torch._ops.OpOverload) and str(target) in _WAITS


def refuse_point_to_point(node):
    """Raises coil.Error for a send or a receive between two processes."""
    if str(node.target) in _POINT_TO_POINT:
        refuse(
            node,
            "sends to one process or receives from it, which is not compiled; without "
            "TORCHDYNAMO_ENABLE_P2P_COMPILATION torch carries it out between two graphs",
        )


def _operation(node):
    """The operator that a node calls, also where functionalization has wrapped it."""
    if isinstance(node.target, torch._ops.HigherOrderOperator) and node.args:
        return next((a for a in node.args[:2] if isinstance(a, torch._ops.OpOverload)), node.target)
    return node.target


def source(node):
    """The node whose result a node is, or is one of."""
    while isinstance(node, Node) and node.target is operator.getitem:
        node = node.args[0]
    return node


def nodes_of(gm):
    """The nodes by which a graph, or one that it takes, exchanges values."""
    return [
        node
        for module in gm.modules()
        if isinstance(module, torch.fx.GraphModule)
        for node in module.graph.nodes
        if node.op == "call_function" and is_collective(_operation(node))
    ]


def waits_for_inputs(gm):
    """Whether a graph, or one that it takes, waits for a tensor that no collective of the graph itself makes: it may
    come from outside, with its values still on their way.
    """
    return any(
        is_wait(node.target) and not is_collective(_operation(source(node.args[0])))
        for module in gm.modules()
        if isinstance(module, torch.fx.GraphModule)
        for node in module.graph.nodes
        if node.op == "call_function"
    )


@functools.cache
def _pending():
    """How many tensors torch has unfinished work of; None in a torch without collectives."""
    if not torch.distributed.is_available():
        return None
    return getattr(torch._C._distributed_c10d, "_get_work_registry_size", lambda: 1)


def _ready(value):
    if isinstance(value, torch.Tensor):
        torch.ops._c10d_functional.wait_tensor.default(value)
    elif isinstance(value, (list, tuple)):
        for v in value:
            _ready(v)


def _plain(value):
    """Without the wrapper that eager puts around a pending result."""
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value.trigger_wait() if hasattr(value, "trigger_wait") else value


def completed(op):
    """A function for an operator whose results, and what it writes to, are ready when it returns: on the CPU there, on
    a GPU for work that is queued on the current stream from then on.
    """
    pending = _pending()
    writes = op._schema.is_mutable

    def call(*args, **kwargs):
        results = op(*args, **kwargs)
        if pending is not None and pending():
            _ready(results)
            if writes:
                _ready((*args, *kwargs.values()))
        return results if type(results) is torch.Tensor else _plain(results)

    call._schema = op._schema
    return call


def wait_for_inputs(*inputs):
    """Waits for what is still on its way to a graph's inputs."""
    pending = _pending()
    if pending is not None and pending():
        _ready(inputs)
