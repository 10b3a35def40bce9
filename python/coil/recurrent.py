"""Layers of recurrent networks (nn.LSTM, nn.GRU, nn.RNN) in graphs of inference, each as one operator.

Dynamo breaks a graph at such a layer, unless its `allow_rnn` is on, since torch would write a layer out step by step.
Coil has the layers whole: while Dynamo compiles for Coil, and nothing is to be differentiated, `allow_rnn` is on, and
the layer's call in the graph becomes an operator that AOTAutograd leaves alone. Training breaks the graph, as ever.
"""

import sys

import torch

_NAMES = ("lstm", "gru", "rnn_tanh", "rnn_relu")
_LIBRARY = torch.library.Library("coil_recurrent", "DEF")


def _shape(name):
    """What eager gives: the states of all steps, with steps first in memory, and the last states."""

    def call(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
        states = hx if name == "lstm" else [hx]
        steps, batch = input.shape[:2][:: -1 if batch_first else 1]
        output = input.new_empty(steps, batch, states[0].shape[2] * (2 if bidirectional else 1))
        return (output.transpose(0, 1) if batch_first else output, *(input.new_empty(s.shape) for s in states))

    return call


def _define(name, suffix="", tags=()):
    """An operator of the same arguments and results as torch's, and torch's, which Coil takes it for."""
    of_torch = getattr(torch.ops.aten, name).input
    signature = str(of_torch._schema).split("(", 1)[1]
    _LIBRARY.define(f"{name}{suffix}({signature}", tags=tags)
    _LIBRARY.impl(name + suffix, getattr(torch, name), "CompositeExplicitAutograd")
    torch.library.register_fake(f"coil_recurrent::{name}{suffix}", _shape(name), lib=_LIBRARY)
    return getattr(torch.ops.coil_recurrent, name + suffix).default, of_torch


_WHOLE = {getattr(torch, name): _define(name) for name in _NAMES}
_DRAWING = {  # with dropout between the layers
    getattr(torch, name): _define(name, "_drawing", (torch.Tag.nondeterministic_seeded,)) for name in _NAMES
}
OPERATORS = dict([*_WHOLE.values(), *_DRAWING.values()])


def replace(gm):
    """Puts the operators in the place of torch's functions in a Dynamo graph that is not differentiated, but for packed
    sequences.
    """
    for module in gm.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        found = False
        for function in _WHOLE:
            for node in module.graph.find_nodes(op="call_function", target=function):
                if len(node.args) == 9 and isinstance(node.args[2], (list, tuple)):
                    trains = node.args[6]
                    node.target, found = (_DRAWING if trains else _WHOLE)[function][0], True
                    if not trains:
                        node.update_arg(5, 0.0)  # which may be a number that Dynamo left free
        if found:
            module.recompile()


# ---- While Dynamo compiles for Coil


def _is_coils(compiler):
    """Whether a compiler that Dynamo was given is Coil's, in whatever torch has wrapped it."""
    for _ in range(8):
        if getattr(compiler, "__module__", None) == "coil.dynamo":
            return True
        compiler = next(
            (
                inner
                for name in ("compiler_fn", "_torchdynamo_orig_backend", "__wrapped__", "func")
                if (inner := getattr(compiler, name, None)) is not None
            ),
            None,
        )
        if compiler is None:
            return False
    return False


def _compiles_for_coil():
    """Asked in a callback of Dynamo's: who of those who called it compiles a frame, and with what."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "_compile" and "compiler_fn" in frame.f_locals:
            return _is_coils(frame.f_locals["compiler_fn"])
        frame = frame.f_back
    return False


def _computes_in_other_types():
    return torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")


_before = []


def _start(_):
    if not torch.is_grad_enabled() and not _computes_in_other_types() and _compiles_for_coil():
        _before.append(torch._dynamo.config.allow_rnn)
        torch._dynamo.config.allow_rnn = True


def _end(_):
    if _before:
        torch._dynamo.config.allow_rnn = _before.pop()


class _Lasting(list):
    """A list of callbacks that torch._dynamo.reset() clears but for Coil's, which it would not get anew."""

    def __init__(self, callbacks, own):
        super().__init__([*callbacks, own])
        self.own = own

    def clear(self):
        self[:] = [self.own]


def register():
    """Has Dynamo tell when it compiles; a torch in which it does not leaves these layers to eager."""
    handler = getattr(torch._dynamo, "callback_handler", None)
    if handler is not None and hasattr(torch._dynamo.config, "allow_rnn"):
        # Dynamo calls them while it holds a lock, which it would take again to compile what is called.
        start, end = (torch._dynamo.disable(callback) for callback in (_start, _end))
        handler.start_callbacks = _Lasting(handler.start_callbacks, start)
        handler.end_callbacks = _Lasting(handler.end_callbacks, end)
