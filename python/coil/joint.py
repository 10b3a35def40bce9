"""What is changed in a graph of both directions before torch's partitioner says what the forward one keeps for the
backward one.
"""

import collections
import copy
import math
import operator
import warnings

import torch
from torch._functorch import partitioners

from . import draws, duplicates, late_products, operands, recomputed, triton_kernels, triton_memory, windows
from .adder import Adder, dense_order, sized_like
from .nodes import is_item, is_pointwise, is_view, memory_of, owners, reached, size_of

aten = torch.ops.aten

# Gradients that ask of their second operand only how large it is.
_SIZED_BY_SECOND = {
    getattr(aten, name).default
    for name in (
        *(f"max_pool{d}d_with_indices_backward" for d in (2, 3)),
        *(f"avg_pool{d}d_backward" for d in (2, 3)),
        *(f"adaptive_max_pool{d}d_backward" for d in (2, 3)),
        *(f"_adaptive_avg_pool{d}d_backward" for d in (2, 3)),
        *(f"{kind}_pad{d}d_backward" for kind in ("reflection", "replication") for d in (1, 2, 3)),
    )
}


_EXTREMES = {aten.amax.default, aten.amin.default, aten.max.default, aten.min.default, aten.median.default}
_EXTREMES |= {aten.nanmedian.default, aten.linalg_vector_norm.default}
_EXACT = {aten.abs.default, aten.neg.default}


def prepare(joint, torchs_random, spares_memory=False):
    """Once, before a graph is divided. `torchs_random`: torch draws random numbers; `spares_memory`: less memory is
    worth time to the caller.
    """
    for node in filter(triton_kernels.is_call, joint.graph.nodes):
        triton_memory.note(node)
    tell_places(joint)
    windows.narrow_indices(joint)
    free_operands(joint)
    take_batch_norms_apart(joint)
    compute_softmaxes_again(joint)
    keep_what_is_compared(joint)
    copy_written_inputs(joint)
    if not torchs_random:
        draws.draw_again(joint)
    joint.meta["draws"] = draws.keep_other_draws(joint)
    duplicates.share(joint.graph)
    enough = math.inf if spares_memory else operands.ENOUGH
    operands.compute_again(joint, reached(_tangents(joint)), enough)


def divided(joint, inputs, budget, **options):
    """A prepared graph in two, as torch's partitioner divides it with this budget. With 1 the graph is used up."""
    # At 0 nothing but inputs is kept, not even a seed.
    share = budget or (1e-6 if joint.meta["draws"] else 0)
    with torch._functorch.config.patch(activation_memory_budget=share, cse=False), recomputed.more():
        try:
            forward, backward = partitioners.min_cut_rematerialization_partition(joint, inputs, **options)
        except RuntimeError:  # some of what is to be computed again cannot be
            if not operands.forget(joint):
                raise
            return partitioners.min_cut_rematerialization_partition(joint, inputs, **options)
    late_products.postpone(backward, _is_loop)
    return forward, backward


def tell_places(joint):
    """Gives each node of the backward direction the stack trace of the forward node whose gradient it helps to compute:
    torch numbers the two alike, and records traces of the forward one alone.
    """
    forward, without = {}, []
    for node in joint.graph.nodes:
        number = node.meta.get("seq_nr")
        if trace := node.meta.get("stack_trace"):
            forward.setdefault(number, trace)
        elif number is not None:
            without.append((node, number))
    for node, number in without:
        if number in forward:
            node.meta["stack_trace"] = forward[number]


def copied(graph_module):
    with warnings.catch_warnings(action="ignore", category=FutureWarning):  # torch's own
        made = torch.fx.GraphModule(graph_module, copy.deepcopy(graph_module.graph))
    made.meta = dict(graph_module.meta)
    return made


def has_fixed_size(value):
    return not isinstance(value, torch.Tensor) or all(type(n) is int for n in (*value.shape, *value.stride()))


def _is_loop(node):
    """Whether a call becomes loops, which share kernels with others."""
    if is_pointwise(node) or node.target in operands.BY_ELEMENT:
        return True
    is_reduction = torch.Tag.reduction in getattr(node.target, "tags", ())
    is_fused = getattr(node.target, "overloadpacket", None) in recomputed.FUSED
    return node.op == "call_function" and (is_view(node) or is_item(node) or is_reduction or is_fused)


def is_kept(placeholder):
    """Whether an input is the other direction's, and not of those that the caller has in any case."""
    return not placeholder.name.startswith("primals") and "fwd_seed" not in placeholder.name


def kept_memory(forward, backward):
    """Where what a backward graph is given of the other direction lies: for its inputs by name, the number of their
    memory and its bytes. Views of one value share its memory; those of what the caller has in any case are left out,
    and what stands in the place of a value that was moved to the host.
    """
    made = {node.name: node for node in forward.graph.nodes}
    numbers, found = {}, {}
    for node in backward.graph.find_nodes(op="placeholder"):
        if not is_kept(node) or node.meta.get("moved"):
            continue
        memory = memory_of(made.get(node.name, node))
        if memory.op == "placeholder" and not is_kept(memory):
            continue
        found[node.name] = numbers.setdefault(memory, len(numbers)), size_of(memory)
    return found


def tell_what_goes(forward, backward):
    """Notes at a backward graph's inputs which memory a run lets go of when it needs it no more: the compiler orders
    calls by that, and makes values where saved ones lay that nobody else has.
    """
    going = kept_memory(forward, backward)
    saved = _saved_alone(forward, backward)
    for node in backward.graph.find_nodes(op="placeholder"):
        if node.name in going:
            node.meta["goes"] = *going[node.name], node.name in saved


def _saved_alone(forward, backward):
    """Names of what a forward graph makes for its backward graph alone: neither a result in the program's sense, nor
    where one lies.
    """
    wanted = {node.name for node in backward.graph.find_nodes(op="placeholder")}
    results = [node for node in forward.graph.output_node().args[0] if isinstance(node, torch.fx.Node)]
    saved = {node for node in results if node.name in wanted}
    # What is both comes twice.
    others = [node for node, times in collections.Counter(results).items() if node not in saved or times > 1]
    elsewhere = {memory_of(node) for node in others}
    return {node.name for node in saved if memory_of(node).op != "placeholder" and memory_of(node) not in elsewhere}


def kept_bytes(backward):
    inputs = backward.graph.find_nodes(op="placeholder")
    return sum(size_of(node) for node in inputs if is_kept(node))


def peak_bytes(graph_module):
    """What a graph of one direction has in memory at its fullest: what it keeps or is given of the other direction, and
    values from where they are made to where they are read last. A pointwise value that only its one reader needs, which
    is pointwise too, is never in memory. What the caller has in any case, parameters and inputs, does not count.
    """
    nodes = list(graph_module.graph.nodes)
    place = {node: k for k, node in enumerate(nodes)}
    owner, last = owners(graph_module), {}
    for node in nodes:
        for operand in node.all_input_nodes:
            last[owner[operand]] = place[node]
    change = [0] * (len(nodes) + 1)
    for node in nodes:
        fused = is_pointwise(node) and len(node.users) == 1 and is_pointwise(next(iter(node.users)))
        given = node.op == "placeholder" and not is_kept(node)
        if owner[node] is not node or node.op == "output" or fused or given:
            continue
        size = size_of(node)
        change[0 if node.op == "placeholder" else place[node]] += size
        change[max(last.get(node, 0), place[node]) + 1] -= size
    live = peak = 0
    for by in change:
        live += by
        peak = max(peak, live)
    return peak


def take_batch_norms_apart(joint):
    """Lets a batch norm's result be computed again from its input and statistics, which the backward graph needs in any
    case: it is a result beside them of one operator, which the partitioner can only keep.
    """
    for node in list(joint.graph.nodes):
        if node.target is not aten._native_batch_norm_legit_functional.default or not node.args[5]:
            continue
        parts = {user.args[1]: user for user in node.users}
        if 0 not in parts or not parts.keys() >= {1, 2}:
            continue
        made = _normalized(joint.graph, node, parts)
        parts[0].replace_all_uses_with(made)
        joint.graph.erase_node(parts[0])
    joint.recompile()


def _normalized(graph, norm, parts):
    """(x - mean) * rstd * weight + bias in 32 bits or more, behind the last of `parts`."""
    x, weight, bias = norm.args[:3]
    order = {node: k for k, node in enumerate(graph.nodes)}
    call = Adder(graph, max(parts.values(), key=order.__getitem__), parts[0].meta)
    channels = [1, -1, *[1] * (x.meta["val"].dim() - 2)]
    mean, rstd = parts[1], parts[2]
    wide = mean.meta["val"].dtype
    if wide in (torch.float16, torch.bfloat16):
        wide = torch.float32
    y = x if x.meta["val"].dtype is wide else call(aten._to_copy.default, x, dtype=wide)
    if mean.meta["val"].dtype is not wide:
        mean, rstd = _statistics(call, y, norm.args[7])

    def channel(value):
        return call(aten.view.default, value, channels)

    y = call(aten.mul.Tensor, call(aten.sub.Tensor, y, channel(mean)), channel(rstd))
    if weight is not None:
        y = call(aten.mul.Tensor, y, channel(weight))
    if bias is not None:
        y = call(aten.add.Tensor, y, channel(bias))
    narrow = parts[0].meta["val"].dtype
    return y if narrow is y.meta["val"].dtype else call(aten._to_copy.default, y, dtype=narrow)


def _statistics(call, x, epsilon):
    """Mean and 1 / deviation of the channels as they were before a batch norm rounded them to 16 bits. It computes the
    same, once for both.
    """
    dims = [d for d in range(x.meta["val"].dim()) if d != 1]
    both = call(aten.var_mean.correction, x, dims, correction=0)
    variance, mean = (call(operator.getitem, both, k) for k in (0, 1))
    return mean, call(aten.rsqrt.default, call(aten.add.Tensor, variance, epsilon))


def compute_softmaxes_again(joint):
    """Gradients compute a softmax in 32 bits of scores in 16, as autocast has it, again from the scores and two numbers
    a row. The partitioner would keep its result in 32 bits, beside that in 16 which a product takes, since it is read
    behind a sum.
    """
    backward = reached(_tangents(joint))
    for node in joint.graph.find_nodes(op="call_function", target=aten.div.Tensor):
        parts = None if node in backward else _parts_of_softmax(node)
        if parts and not backward.isdisjoint(reached([node])):
            # Rows that see nothing are made zeros behind it.
            chosen = [user for user in node.users if user.target is aten.where.self and user.args[2] is node]
            for part in (*parts, *chosen):
                part.meta["recompute"] = torch.utils.checkpoint.CheckpointPolicy.MUST_RECOMPUTE


def _tangents(joint):
    return [node for node in joint.graph.find_nodes(op="placeholder") if node.name.startswith("tangents")]


def _parts_of_softmax(quotient):
    """What is computed element by element from scores in 16 bits to the result of a decomposed softmax, that included;
    None where it is none.
    """
    shares, total = quotient.args
    if not isinstance(total, torch.fx.Node) or total.target is not aten.sum.dim_IntList or total.args[0] is not shares:
        return None
    if shares.target is not aten.exp.default or shares.args[0].target is not aten.sub.Tensor:
        return None
    shifted = shares.args[0]
    scores, highest = shifted.args
    if getattr(highest, "target", None) is not aten.amax.default or highest.args[0] is not scores:
        return None
    steps = _steps_from_narrow(scores)
    return steps and [quotient, shares, shifted, *steps]


def _steps_from_narrow(value):
    """The calls by which a value is computed element by element from as many numbers in 16 bits; None where that is not
    how, or where what else it is of is as large.
    """
    steps, waiting, found = [], [value], False
    while waiting:
        node = waiting.pop()
        tensor = node.meta.get("val")
        if node in steps or not isinstance(tensor, torch.Tensor) or tensor.numel() != value.meta["val"].numel():
            continue
        by_element = is_pointwise(node) or is_view(node) or node.target is aten._to_copy.default
        if tensor.element_size() <= 2 and not by_element:
            found = True
        elif by_element and node.op == "call_function" and len(steps) < 16:
            steps.append(node)
            waiting += node.all_input_nodes
        else:
            return None
    return steps if found else None


def keep_what_is_compared(joint):
    """Gradients of the largest or smallest of values find its places by comparing all with it, and divide by how many
    there are. Values that were computed again could be rounded in other places than the result, and none be equal.
    """
    for node in joint.graph.find_nodes(op="call_function", target=aten.eq.Tensor):
        ends = [_behind_views(n) for n in node.args if isinstance(n, torch.fx.Node)]
        if not any(end.target in _EXTREMES for end in ends):
            continue
        for end in ends:
            value = _rounded_at(end.args[0] if end.target in _EXTREMES else end)
            if value.op == "call_function":
                value.meta["recompute"] = torch.utils.checkpoint.CheckpointPolicy.MUST_SAVE


def _behind_views(node):
    while is_view(node) or is_item(node):
        node = node.args[0]
    return node


def _rounded_at(node):
    """Where a value was rounded last: views, absolute values and signs leave it."""
    while is_view(node) or is_item(node) or node.target in _EXACT:
        node = node.args[0]
    return node


def free_operands(joint):
    """Nothing is kept for gradients that ask only how large an operand is and in which order its dimensions lie."""
    for node in list(joint.graph.nodes):
        if node.op != "call_function" or node.target not in _SIZED_BY_SECOND or node.args[1].op == "placeholder":
            continue
        value = node.args[1].meta["val"]
        order = dense_order(value)
        if order is None:
            continue
        add = Adder(joint.graph, node.prev, node.meta)
        node.replace_input_with(node.args[1], sized_like(node.args[1], order, add))
    joint.recompile()


def copy_written_inputs(joint):
    """Gradients read inputs that the forward direction writes to as they were before: from a copy, where the
    partitioner would keep the input itself, which holds what was written by the time they are computed.
    """
    graph = joint.graph
    inputs = [n for n in graph.nodes if n.op == "placeholder"]
    backward = reached(_tangents(joint))
    written = {n.args[0] for n in graph.nodes if n.target is aten.copy_.default and n not in backward}
    for node in inputs:
        if node in backward or backward.isdisjoint(reached([node])):
            continue
        users = list(node.users)
        if node in written:
            old = _copy_of(graph, node, inputs[-1])
        elif len(users) == 1 and users[0].target is aten.clone.default:
            # What autograd sees written is put into place behind the graph, and AOTAutograd begins with its copy.
            old = users[0]
        else:
            continue
        old.meta["recompute"] = torch.utils.checkpoint.CheckpointPolicy.MUST_SAVE
    joint.recompile()


def _copy_of(graph, node, behind):
    """A copy of an input that all read in its place, but for the graph's output and what writes to it."""
    value = node.meta["val"]
    with value.fake_mode:
        old = Adder(graph, behind, node.meta)(aten.clone.default, node)
    into = lambda user: user.target is aten.copy_.default and user.args[0] is node
    node.replace_all_uses_with(old, lambda user: user not in (old, graph.output_node()) and not into(user))
    return old
