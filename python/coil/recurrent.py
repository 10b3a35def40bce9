"""Layers of recurrent networks (nn.LSTM, nn.GRU, nn.RNN) in graphs, without a break.

Dynamo breaks a graph at such a layer, unless its `allow_rnn` is on, since torch would write a layer out step by step.
Coil has the layers whole: while Dynamo compiles for Coil, `allow_rnn` is on, and the layer's call in the graph becomes
an operator of Coil's. In inference AOTAutograd leaves it alone. Where gradients are wanted each direction of each layer
is an operator with a gradient (recurrent_steps.py), and the products over all steps stand around it.

Why in steps, and not as the library's operator (`_cudnn_rnn`, `mkldnn_rnn_layer`) with its own gradient: those are
calls into torch that keep a buffer of a size that only they know, cannot be recorded, and know one layout and no
neighbours; a loop of Coil's was three times as fast as cuDNN's in inference, has the same code for every device and
type, and leaves the products of the weights' gradients, where the time goes, to the library of products.
"""

import sys

import torch
from torch.utils._python_dispatch import _disable_current_modes

from . import recurrent_steps

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
    """Puts the operators in the place of torch's functions in a Dynamo graph, but for packed sequences."""
    for module in gm.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        found = False
        for function, operator in _LAYERS.items():
            for node in module.graph.find_nodes(op="call_function", target=function):
                if len(node.args) == 9 and isinstance(node.args[3], bool):
                    node.target, found = operator, True
                    if not node.args[6]:
                        node.update_arg(5, 0.0)  # which may be a number that Dynamo left free
        if found:
            module.recompile()


# ---- What the operators of a Dynamo graph are made of when AOTAutograd traces it


def _network(name, function):
    """The layers as one operator, or in steps where gradients are wanted or autocast has its say."""

    def call(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
        states = list(hx) if name == "lstm" else [hx]
        autocast = torch.is_autocast_enabled(input.device.type)
        differentiated = torch.is_grad_enabled() and any(t.requires_grad for t in (input, *states, *params))
        if not differentiated and not autocast:
            whole = (_DRAWING if train else _WHOLE)[function][0]
            return whole(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
        types = _types(function, input, states, params, has_biases, bidirectional) if autocast else None
        with torch.autocast(input.device.type, enabled=False):
            layers = _Layers(name, params, has_biases, len(states) == 2 and states[0].shape[2] != states[1].shape[2])
            x = input.transpose(0, 1) if batch_first else input
            x, *last = layers.run(x, states, num_layers, bidirectional, dropout if train else 0.0, types)
        return x.transpose(0, 1) if batch_first else x, *last

    return call


def _types(function, input, states, params, has_biases, bidirectional):
    """Those of the results that eager has under the autocast that is on: of the output, and of the states."""
    device = input.device.type
    key = (*(t.dtype for t in (input, *states, params[0])), len(params), len(states), has_biases, bidirectional)
    key = (function, device, torch.get_autocast_dtype(device), *key, torch.is_grad_enabled())
    if key not in _known_types:
        _known_types[key] = _types_of_eager(function, input, states, params, has_biases, bidirectional)
    return _known_types[key]


_known_types = {}


def _types_of_eager(function, input, states, params, has_biases, bidirectional):
    """By a call on one element; where eager refuses it, those that autocast is for."""
    # Python's dispatcher, which is on where AOTAutograd traces, has the layers in small steps, with types of their own.
    with _disable_current_modes(), torch._C._DisablePythonDispatcher():
        directions = 2 if bidirectional else 1
        projects = len(states) == 2 and states[0].shape[2] != states[1].shape[2]
        gates = {torch.lstm: 4, torch.gru: 3}.get(function, 1)
        wide = 2 if projects else 1

        def made(like, *sizes):
            return torch.zeros(sizes, dtype=like.dtype, device=like.device)

        x = made(input, 1, 1, 1)
        hx = [made(s, directions, 1, wide if k == 1 else 1) for k, s in enumerate(states)]
        weights = [made(params[0], gates * wide, 1), made(params[0], gates * wide, 1)]
        weights += [made(params[0], gates * wide)] * (2 if has_biases else 0)
        if projects:
            weights.append(made(params[0], 1, wide))
        try:
            results = function(
                *(x, hx if len(hx) > 1 else hx[0], weights * directions, has_biases, 1, 0.0, True),
                *(bidirectional, False),
            )
        except RuntimeError:
            return [torch.get_autocast_dtype(input.device.type)] * (1 + len(states))
        return [t.dtype for t in results]


class _Layers:
    """A network's layers, one by one, in steps (recurrent_steps.py)."""

    def __init__(self, name, params, has_biases, projects):
        self.name, self.has_biases, self.projects = name, has_biases, projects
        self.params = iter(params)

    def run(self, x, states, num_layers, bidirectional, dropout, types):
        """The output of the last layer, and the last states, in these types."""
        kind = types[0] if types else x.dtype
        last = [[] for _ in states]
        directions = (False, True) if bidirectional else (False,)
        x = x.to(kind)
        for layer in range(num_layers):
            made = []
            for reverse in directions:
                first = [s[layer * len(directions) + reverse] for s in states]
                sequence, *ends = self.direction(x, first, kind, reverse)
                made.append(sequence)
                for all_layers, end in zip(last, ends):
                    all_layers.append(end)
            x = torch.cat(made, 2) if bidirectional else made[0]
            if layer < num_layers - 1:
                x = torch.dropout(x, dropout, dropout > 0)
        return x, *(torch.stack(ends).to(t) for ends, t in zip(last, types[1:] if types else [s.dtype for s in states]))

    def direction(self, x, states, kind, reverse):
        take = lambda: next(self.params).to(kind)
        of_input, of_state = take(), take()
        input_bias, state_bias = (take(), take()) if self.has_biases else (None, None)
        projection = take() if self.projects else None
        hidden, *cell = states
        # A sum over all steps: not in 16 bits.
        cell = [c.to(torch.promote_types(kind, torch.float32)) for c in cell]
        gates = torch.nn.functional.linear(x, of_input, input_bias)
        return recurrent_steps.run(
            self.name, gates, [hidden.to(kind), *cell], of_state, state_bias, projection, reverse
        )


def _define_layers(name):
    function = getattr(torch, name)
    signature = str(getattr(torch.ops.aten, name).input._schema).split("(", 1)[1]
    _LIBRARY.define(f"{name}_layers({signature}")
    _LIBRARY.impl(f"{name}_layers", _network(name, function), "CompositeImplicitAutograd")
    return getattr(torch.ops.coil_recurrent, f"{name}_layers").default


_LAYERS = {getattr(torch, name): _define_layers(name) for name in _NAMES}


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


_before = []


def _start(_):
    if _compiles_for_coil():
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
