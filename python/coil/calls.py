"""Calls in Dynamo's graphs that other functions take the place of, before AOTAutograd, because what it makes of them is
not what eager computes, or nothing.

- `flex_attention` becomes products, the caller's functions of scores, and a softmax, as in eager, so that the rest of
  the compiler sees ordinary operators, in training too. The scores are computed whole.
- `multilabel_margin_loss`: torch's decomposition (2.13), which tracing takes whatever the backend, also counts a label
  0 for each place behind the first -1.
"""

import torch

try:
    from torch._higher_order_ops.flex_attention import flex_attention, sdpa_dense
except ImportError:  # a torch without it has no graphs with it
    flex_attention = sdpa_dense = None


def replace(gm):
    """Rewrites the calls in a Dynamo graph, and in the graphs that it holds, in place."""
    for module in gm.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        found = False
        for target, function in _FUNCTIONS.items():
            for node in module.graph.find_nodes(op="call_function", target=target):
                node.target, found = function, True
        if found:
            module.recompile()


def _attention(query, key, value, *more, **named):
    """As the operator; under autocast in its type."""
    device = query.device.type
    if torch.is_autocast_enabled(device):
        wanted = torch.get_autocast_dtype(device)
        query, key, value = (t.to(wanted) for t in (query, key, value))
    return sdpa_dense(query, key, value, *more, **named)


def _multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """Margins between the labels before the first -1 and the classes that are none."""
    if size_average is not None or reduce is not None:
        reduction = torch.nn._reduction.legacy_get_string(size_average, reduce)
    if input.dim() > 2 or input.shape != target.shape or target.dtype != torch.int64:
        return torch.nn.functional.multilabel_margin_loss(input, target, reduction=reduction)  # eager's error
    scores, labels = (t.unsqueeze(0) if t.dim() == 0 else t for t in (input, target))
    place = torch.arange(labels.shape[-1], device=labels.device)
    counts = (labels == -1).cumsum(-1) == 0
    label = torch.where(counts, labels, 0)
    is_target = ((label.unsqueeze(-1) == place) & counts.unsqueeze(-1)).any(-2)
    margins = (1 - scores.gather(-1, label).unsqueeze(-1) + scores.unsqueeze(-2)).clamp_min(0)
    margins = torch.where(counts.unsqueeze(-1) & ~is_target.unsqueeze(-2), margins, 0)
    losses = margins.sum((-2, -1)) / labels.shape[-1]
    return losses if reduction == "none" else losses.sum() if reduction == "sum" else losses.mean()


_FUNCTIONS = {torch.nn.functional.multilabel_margin_loss: _multilabel_margin_loss}
if flex_attention is not None:
    _FUNCTIONS[flex_attention] = _attention
