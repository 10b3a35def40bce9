"""Exported programs that call users' Triton kernels: each call as an operator that archives hold."""

import contextlib
import functools
import json
import operator as operator_module

import torch


@contextlib.contextmanager
def decomposed():
    """While this lasts, run_decompositions() takes such operators apart, as it does for torch.compile: torch.export
    leaves them whole, as archives of torch's own cannot hold kernels. Where torch has no such switch they
    stay whole.
    """
    import torch.export._trace as trace

    switch = "custom_triton_ops_decomposition_disabled"
    before = getattr(trace, switch, None)
    if before is None:
        yield
        return
    setattr(trace, switch, lambda: False)
    try:
        yield
    finally:
        setattr(trace, switch, before)


@functools.cache
def operator():
    """`torch.ops.coil.user_kernel`, by which exported programs call such kernels: in torch it runs the kernel on copies
    of what it writes to.
    """
    library = torch.library.Library("coil", "FRAGMENT")
    library.define(
        "user_kernel(str kernel, Tensor[] tensors, SymInt[] numbers, SymInt[] grid, int[] written, "
        "SymInt[] memories=[]) -> Tensor[]"
    )

    def copy(t):
        return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device).copy_(t)

    def run(kernel, tensors, numbers, grid, written, memories=()):
        from .host import user_kernel

        program = json.loads(kernel)["program"]
        memories = memories or range(len(tensors))
        made = {k: copy(tensors[k]) for k in {memories[k] for k in written}}

        def place(k):
            t, memory = tensors[k], made.get(memories[k])
            if memory is None:
                return t
            return memory.as_strided(t.shape, t.stride(), t.storage_offset() - tensors[memories[k]].storage_offset())

        given = [place(k) for k in range(len(program["tensors"]))]
        user_kernel(json.dumps(program))(given, numbers, grid)
        return [given[k].clone() if tuple(memories).count(memories[k]) > 1 else given[k] for k in written]

    library.impl("user_kernel", run, "CompositeExplicitAutograd")
    torch.library.register_fake(
        "coil::user_kernel",
        lambda kernel, tensors, numbers, grid, written, memories=(): [
            torch.empty_strided(tensors[k].shape, tensors[k].stride(), dtype=tensors[k].dtype, device=tensors[k].device)
            for k in written
        ],
        lib=library,
    )
    return library, torch.ops.coil.user_kernel.default


def put_call(exported, node, call):
    """In the place of a node of torch's, one that archives hold."""
    graph = exported.graph
    with graph.inserting_before(node):
        made = graph.call_function(operator()[1], call.arguments())
        values = [node.meta["val"][name] for name in call.names]
        made.meta = dict(node.meta) | {"val": values}
        for user in list(node.users):
            item = call.left.get(user.args[1])
            if item is None:
                place = call.names.index(user.args[1])
                item = graph.call_function(operator_module.getitem, (made, place))
                item.meta = dict(user.meta) | {"val": values[place]}
            user.replace_all_uses_with(item)
            graph.erase_node(user)
            for spec in exported.graph_signature.output_specs:
                if spec.arg.name == user.name:
                    spec.arg.name = item.name
    graph.erase_node(node)
