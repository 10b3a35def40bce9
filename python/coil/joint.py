"""What is changed in a graph of both directions before torch's partitioner says what the forward one keeps for the
backward one.
"""

import torch

aten = torch.ops.aten

_POOLS = {aten.max_pool2d_with_indices.default: 2, aten.max_pool3d_with_indices.default: 3}  # dimensions of a picture


def partition(joint, inputs, **options):
    """As torch's partitioner by the least that is kept."""
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    narrow_indices(joint)
    return min_cut_rematerialization_partition(joint, inputs, **options)


def narrow_indices(joint):
    """Lets the indices of maxima be kept in the narrowest integers that hold all places of a picture: I64 has four or
    two times as many bytes as that takes.
    """
    for node in list(joint.graph.nodes):
        if node.op != "call_function" or node.target not in _POOLS:
            continue
        places = 1
        for size in node.args[0].meta["val"].shape[-_POOLS[node.target] :]:
            places *= size if type(size) is int else 1 << 31
        if places > 1 << 31:
            continue
        narrow = torch.int16 if places <= 1 << 15 else torch.int32
        for item in [u for u in node.users if u.args[1] == 1]:
            with joint.graph.inserting_after(item):
                kept = joint.graph.call_function(aten._to_copy.default, (item,), {"dtype": narrow})
            kept.meta = item.meta | {"val": item.meta["val"].to(narrow)}
            with joint.graph.inserting_after(kept):
                wide = joint.graph.call_function(aten._to_copy.default, (kept,), {"dtype": torch.int64})
            wide.meta = dict(item.meta)
            item.replace_all_uses_with(wide, delete_user_cb=lambda user: user is not kept)
    joint.recompile()
