"""One direction of one layer of a recurrent network where gradients are wanted: operators that give what the gradients
need, and the gradients. Coil has them as loops over the steps (src/passes/graph/recurrent_steps.h); what is here runs
where torch runs a graph. Products whose terms come from all steps, those of the weights' gradients, are outside of the
loops, one for all steps.
"""

import torch
from torch.nn.functional import linear

_LIBRARY = torch.library.Library("coil", "FRAGMENT")
_DEFINITIONS = (  # as in src/ops/shapes/recurrent.cpp
    "lstm_training(Tensor gates, Tensor hidden, Tensor cell, Tensor weight, Tensor? bias, Tensor? projection, "
    "bool reverse) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    "gru_training(Tensor gates, Tensor hidden, Tensor weight, Tensor? bias, bool reverse) -> (Tensor, Tensor, Tensor)",
    "recurrent_layer(Tensor gates, Tensor hidden, Tensor weight, Tensor? bias, str mode, bool reverse) -> "
    "(Tensor, Tensor)",
    "lstm_backward(Tensor grads, Tensor grad_hidden, Tensor grad_cell, Tensor saved, Tensor cells, Tensor previous, "
    "Tensor weight, Tensor? projection, bool reverse) -> (Tensor, Tensor, Tensor)",
    "gru_backward(Tensor grads, Tensor grad_hidden, Tensor saved, Tensor previous, Tensor weight, bool reverse) -> "
    "(Tensor, Tensor)",
    "plain_backward(Tensor grads, Tensor grad_hidden, Tensor sequence, Tensor weight, str mode, bool reverse) -> "
    "(Tensor, Tensor)",
)
for _definition in _DEFINITIONS:
    _LIBRARY.define(_definition)


def _implements(name):
    return torch.library.impl(f"coil::{name}", "CompositeExplicitAutograd", lib=_LIBRARY)


def _has_shape(name):
    return torch.library.register_fake(f"coil::{name}", lib=_LIBRARY)


def _order(steps, from_end):
    return range(steps)[:: -1 if from_end else 1]


# ---- The layers


@_has_shape("lstm_training")
def _(gates, hidden, cell, weight, bias, projection, reverse):
    steps, batch = gates.shape[:2]
    return (
        gates.new_empty(steps, batch, hidden.shape[1]),
        gates.new_empty(hidden.shape),
        cell.new_empty(cell.shape),
        gates.new_empty(gates.shape),
        cell.new_empty(steps, batch, cell.shape[1]),
    )


@_implements("lstm_training")
def _(gates, hidden, cell, weight, bias, projection, reverse):
    steps, batch = gates.shape[:2]
    sequence, saved = gates.new_empty(steps, batch, hidden.shape[1]), gates.new_empty(gates.shape)
    cells = cell.new_empty(steps, batch, cell.shape[1])
    for t in _order(steps, reverse):
        parts = (gates[t] + linear(hidden, weight, bias)).chunk(4, 1)
        enters, kept, fresh, out = (
            f(part) for f, part in zip((torch.sigmoid,) * 2 + (torch.tanh, torch.sigmoid), parts)
        )
        cell = kept * cell + enters * fresh
        hidden = (out * cell.tanh()).to(gates.dtype)
        if projection is not None:
            hidden = linear(hidden, projection)
        sequence[t], saved[t], cells[t] = hidden, torch.cat((enters, kept, fresh, out), 1), cell
    return sequence, hidden.clone(), cell.clone(), saved, cells


@_has_shape("gru_training")
def _(gates, hidden, weight, bias, reverse):
    steps, batch = gates.shape[:2]
    width = hidden.shape[1]
    return (
        gates.new_empty(steps, batch, width),
        gates.new_empty(hidden.shape),
        gates.new_empty(steps, batch, 4 * width),
    )


@_implements("gru_training")
def _(gates, hidden, weight, bias, reverse):
    steps, batch = gates.shape[:2]
    sequence = gates.new_empty(steps, batch, hidden.shape[1])
    saved = gates.new_empty(steps, batch, 4 * hidden.shape[1])
    for t in _order(steps, reverse):
        (x0, x1, x2), (h0, h1, told) = gates[t].chunk(3, 1), linear(hidden, weight, bias).chunk(3, 1)
        reset, kept = (x0 + h0).sigmoid(), (x1 + h1).sigmoid()
        fresh = (x2 + reset * told).tanh()
        hidden = (hidden - fresh) * kept + fresh
        sequence[t], saved[t] = hidden, torch.cat((reset, kept, fresh, told), 1)
    return sequence, hidden.clone(), saved


@_has_shape("recurrent_layer")
def _(gates, hidden, weight, bias, mode, reverse):
    return gates.new_empty(*gates.shape[:2], hidden.shape[1]), gates.new_empty(hidden.shape)


@_implements("recurrent_layer")
def _(gates, hidden, weight, bias, mode, reverse):
    activation = {"tanh": torch.tanh, "relu": torch.relu}[mode]
    sequence = gates.new_empty(*gates.shape[:2], hidden.shape[1])
    for t in _order(len(gates), reverse):
        sequence[t] = hidden = activation(gates[t] + linear(hidden, weight, bias))
    return sequence, hidden.clone()


# ---- Their gradients


@_has_shape("lstm_backward")
def _(grads, grad_hidden, grad_cell, saved, cells, previous, weight, projection, reverse):
    return grads.new_empty(saved.shape), grads.new_empty(grad_hidden.shape), grad_cell.new_empty(grad_cell.shape)


@_implements("lstm_backward")
def _(grads, grad_hidden, grad_cell, saved, cells, previous, weight, projection, reverse):
    grad_gates = grads.new_empty(saved.shape)
    for t in _order(len(grads), not reverse):
        enters, kept, fresh, out = saved[t].chunk(4, 1)
        hidden, cell = grads[t] + grad_hidden, cells[t].tanh()
        if projection is not None:
            hidden = hidden @ projection
        grad_cell = grad_cell + hidden * out * (1 - cell * cell)
        grad_gates[t] = torch.cat(
            (
                grad_cell * fresh * _sigmoid_slope(enters),
                grad_cell * previous[t] * _sigmoid_slope(kept),
                grad_cell * enters * (1 - fresh * fresh),
                hidden * cell * _sigmoid_slope(out),
            ),
            1,
        )
        grad_hidden, grad_cell = grad_gates[t] @ weight, grad_cell * kept
    return grad_gates, grad_hidden.clone(), grad_cell.clone()


def _sigmoid_slope(y):
    return y - y * y


@_has_shape("gru_backward")
def _(grads, grad_hidden, saved, previous, weight, reverse):
    return grads.new_empty(*grads.shape[:2], weight.shape[0]), grads.new_empty(grad_hidden.shape)


@_implements("gru_backward")
def _(grads, grad_hidden, saved, previous, weight, reverse):
    grad_gates = grads.new_empty(*grads.shape[:2], weight.shape[0])
    for t in _order(len(grads), not reverse):
        reset, kept, fresh, told = saved[t].chunk(4, 1)
        hidden = grads[t] + grad_hidden
        grad_fresh = (hidden - hidden * kept) * (1 - fresh * fresh)
        grad_reset = grad_fresh * told * _sigmoid_slope(reset)
        grad_kept = hidden * (previous[t] - fresh) * _sigmoid_slope(kept)
        grad_gates[t] = torch.cat((grad_reset, grad_kept, grad_fresh), 1)
        grad_hidden = torch.cat((grad_reset, grad_kept, grad_fresh * reset), 1) @ weight + hidden * kept
    return grad_gates, grad_hidden.clone()


@_has_shape("plain_backward")
def _(grads, grad_hidden, sequence, weight, mode, reverse):
    return grads.new_empty(*grads.shape[:2], weight.shape[0]), grads.new_empty(grad_hidden.shape)


@_implements("plain_backward")
def _(grads, grad_hidden, sequence, weight, mode, reverse):
    grad_gates = grads.new_empty(*grads.shape[:2], weight.shape[0])
    for t in _order(len(grads), not reverse):
        slope = 1 - sequence[t] * sequence[t] if mode == "tanh" else sequence[t] > 0
        grad_gates[t] = (grads[t] + grad_hidden) * slope
        grad_hidden = grad_gates[t] @ weight
    return grad_gates, grad_hidden.clone()


# ---- What autograd is told


def _before(steps, first, reverse):
    """What each step begins with, of what steps end with."""
    first = first.to(steps.dtype).unsqueeze(0)
    return torch.cat((steps[1:], first)) if reverse else torch.cat((first, steps[:-1]))


def _after(steps, last, reverse):
    return _before(steps, last, not reverse)


def _over_steps(grads, x):
    """The gradient of a weight that `x` of every step is multiplied with."""
    return grads.flatten(0, 1).t() @ x.flatten(0, 1)


def _of_state(ctx, grad_sums, previous):
    """The gradients of the weight and the bias by which the hidden state adds to the gates."""
    bias = grad_sums.sum((0, 1)) if ctx.has_bias else None
    return _over_steps(grad_sums, previous), bias


def _keep_lstm(ctx, inputs, output):
    _, hidden, cell, weight, bias, projection, ctx.reverse = inputs
    sequence, _, _, saved, cells = output
    ctx.has_bias = bias is not None
    ctx.save_for_backward(hidden, cell, weight, projection, sequence, saved, cells)


def _differentiate_lstm(ctx, grads, grad_hidden, grad_cell, *_):
    hidden, cell, weight, projection, sequence, saved, cells = ctx.saved_tensors
    with torch.autocast(grads.device.type, enabled=False):
        grad_gates, first_hidden, first_cell = torch.ops.coil.lstm_backward(
            *(grads, grad_hidden, grad_cell, saved, cells, _before(cells, cell, ctx.reverse), weight, projection),
            ctx.reverse,
        )
        grad_projection = None
        if projection is not None:
            reached = grads + _after(grad_gates @ weight, grad_hidden, ctx.reverse)
            made = (saved.chunk(4, 2)[3] * cells.tanh()).to(saved.dtype)
            grad_projection = _over_steps(reached, made)
        of_state = _of_state(ctx, grad_gates, _before(sequence, hidden, ctx.reverse))
    return grad_gates, first_hidden, first_cell, *of_state, grad_projection, None


def _keep_gru(ctx, inputs, output):
    _, hidden, weight, bias, ctx.reverse = inputs
    ctx.has_bias = bias is not None
    ctx.save_for_backward(hidden, weight, output[0], output[2])


def _differentiate_gru(ctx, grads, grad_hidden, _):
    hidden, weight, sequence, saved = ctx.saved_tensors
    previous = _before(sequence, hidden, ctx.reverse)
    with torch.autocast(grads.device.type, enabled=False):
        grad_gates, first = torch.ops.coil.gru_backward(grads, grad_hidden, saved, previous, weight, ctx.reverse)
        width = hidden.shape[1]
        # The last gate takes its share of the state times the reset gate.
        told = grad_gates[..., 2 * width :] * saved[..., :width]
        of_state = _of_state(ctx, torch.cat((grad_gates[..., : 2 * width], told), 2), previous)
    return grad_gates, first, *of_state, None


def _keep_plain(ctx, inputs, output):
    _, hidden, weight, bias, ctx.mode, ctx.reverse = inputs
    ctx.has_bias = bias is not None
    ctx.save_for_backward(hidden, weight, output[0])


def _differentiate_plain(ctx, grads, grad_hidden):
    hidden, weight, sequence = ctx.saved_tensors
    with torch.autocast(grads.device.type, enabled=False):
        grad_gates, first = torch.ops.coil.plain_backward(grads, grad_hidden, sequence, weight, ctx.mode, ctx.reverse)
        of_state = _of_state(ctx, grad_gates, _before(sequence, hidden, ctx.reverse))
    return grad_gates, first, *of_state, None, None


for _name, _keep, _differentiate in (
    ("lstm_training", _keep_lstm, _differentiate_lstm),
    ("gru_training", _keep_gru, _differentiate_gru),
    ("recurrent_layer", _keep_plain, _differentiate_plain),
):
    torch.library.register_autograd(f"coil::{_name}", _differentiate, setup_context=_keep, lib=_LIBRARY)


def run(mode, gates, states, weight, bias, projection, reverse):
    """One direction of a layer: the hidden states of every step, then the last states. `gates`: what the input adds to
    them in every step.
    """
    if mode == "lstm":
        return torch.ops.coil.lstm_training(gates, *states, weight, bias, projection, reverse)[:3]
    if mode == "gru":
        return torch.ops.coil.gru_training(gates, *states, weight, bias, reverse)[:2]
    return torch.ops.coil.recurrent_layer(gates, *states, weight, bias, mode.removeprefix("rnn_"), reverse)
