"""What torch's partitioner may compute again for the backward graph, beyond what it knows by itself."""

import contextlib
import dataclasses
import unittest.mock

import torch
from torch._functorch import partitioners
from torch.utils.checkpoint import CheckpointPolicy

from .nodes import size_of

aten = torch.ops.aten

# Computed element by element, though torch does not say so.
UNTAGGED = (aten.hardswish, aten.log_sigmoid_forward, aten._prelu_kernel, torch.ops.coil.draw)
# Views that torch's partitioner expects to have become others. Unknown to it they end what it computes again.
_VIEWS = (
    aten.transpose,
    aten.diagonal,
    aten.unfold,
    aten.split_with_sizes,
    aten.unbind,
    aten.detach,
    aten.view_as_real,
    aten.view_as_complex,
)
# Fills, which ask no more of an operand than its size.
_FILLED = (
    *(getattr(aten, f"new_{kind}") for kind in ("zeros", "ones", "full")),
    *(getattr(aten, f"{kind}_like") for kind in ("zeros", "ones", "full")),
)
# Elements read at places that are computed or given, as `index` and `gather` read them.
_GATHERED = (
    aten.index_select,
    aten.embedding,
    aten.take,
    aten.flip,
    aten.roll,
    aten.tril,
    aten.diag_embed,
    aten.repeat,
    aten.constant_pad_nd,
    aten.slice_scatter,
    aten.select_scatter,
    aten.upsample_nearest1d,
    aten.upsample_nearest2d,
    aten.upsample_nearest3d,
    aten._upsample_nearest_exact1d,
    aten._upsample_nearest_exact2d,
    aten._upsample_nearest_exact3d,
    *(getattr(aten, f"{kind}_pad{d}d") for kind in ("reflection", "replication") for d in (1, 2, 3)),
)
# Sums and the like that share kernels with what makes their operand and what reads them. Unknown to it, torch's
# partitioner takes what a later operator reads as well for something that must be stored in any case.
FUSED = (
    aten.linalg_vector_norm,
    aten.logsumexp,
    aten.amin,
    aten.prod,
    aten.all,
    aten.argmin,
    aten._softmax,
    aten._log_softmax,
    aten.native_layer_norm,
    aten.native_layer_norm_backward,
    aten.native_group_norm,
    aten.native_group_norm_backward,
    aten.native_batch_norm_backward,
    aten._native_batch_norm_legit_functional,
)

_MOST_SOURCES = 32  # of which a value is made, that are counted
_LITTLE = 0.5  # of a value's bytes: what is made of no more is made of little


@contextlib.contextmanager
def more():
    """The partitioner knows more operators that are computed element by element, and more views, and may compute again
    what is made of little.
    """
    known = getattr(partitioners, "get_default_op_list", None)
    if known is None:
        yield
        return

    def with_more():
        ops = known()
        views = type(ops.view_ops)(_VIEWS)
        more = views | UNTAGGED | type(views)((*_FILLED, *_GATHERED))
        return dataclasses.replace(
            ops,
            fusible_ops=ops.fusible_ops | more | type(more)(FUSED),
            recomputable_ops=ops.recomputable_ops | more,
            view_ops=ops.view_ops | views,
        )

    solve = partitioners.solve_min_cut

    def solve_with_more(graph, info, options, dont_ban=None):
        allowed = made_of_little(graph, info, with_more())
        return solve(graph, info, options, allowed | set(dont_ban or ()))

    with (
        unittest.mock.patch.object(partitioners, "get_default_op_list", with_more),
        unittest.mock.patch.object(partitioners, "solve_min_cut", solve_with_more),
    ):
        yield


def made_of_little(graph, info, ops):
    """The nodes of the forward direction that are made, by operators which may be computed again, of values that take
    at most half as many bytes: rows gathered for each edge of a graph, say, and what follows them. The partitioner
    would keep them where what they are made of has been stored and read long before. What the backward graph would
    have to store stays with the partitioner. Inputs count as well, though they are there in any case: to gather
    embeddings again from their tables is no less to read than what they make.
    """
    sources, found = {}, set()
    for node in filter(info.is_required_fw, graph.nodes):
        again = _may_be_computed_again(node, ops)
        read = () if getattr(node.target, "overloadpacket", None) in _FILLED else node.all_input_nodes
        made_of = set().union(*(sources.get(n, {n}) for n in read)) if again else {node}
        sources[node] = made_of if len(made_of) <= _MOST_SOURCES else {node}
        if again and sum(map(size_of, sources[node])) <= _LITTLE * size_of(node):
            found.add(node)
    return {n for n in found if not _is_stored_in_backward(n, info, ops)}


def _may_be_computed_again(node, ops):
    known = node.op == "call_function" and (ops.is_view(node) or ops.is_recomputable(node))
    return known and node.meta.get("recompute") != CheckpointPolicy.MUST_SAVE


def _is_stored_in_backward(node, info, ops):
    """Whether an operator of the backward direction reads a node's value, itself or a view, that shares no kernel with
    what makes it.
    """
    readers = list(node.users)
    for user in readers:
        if ops.is_view(user):
            readers += user.users
        elif not info.is_required_fw(user) and not ops.is_fusible(user) and user.target is not aten.cat.default:
            return True
    return False
