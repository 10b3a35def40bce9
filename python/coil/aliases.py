"""What AOTAutograd records of results: how those that are views are made again, and how gradients of them lie. And
results that are views of inputs which the graph writes to.
"""

import contextlib
import unittest.mock

import torch
from torch._functorch._aot_autograd.schemas import OutputType

from .adder import Adder
from .facts import numbers_of
from .nodes import is_item, is_view

try:
    from torch._functorch._aot_autograd import collect_metadata_analysis as analysis

    _recorded, _format = analysis.ViewMetaSequence, analysis.MemoryFormatMeta
    _format_of = _format.from_tensor
except (ImportError, AttributeError):  # a torch that records nothing of the kind
    analysis = None


@contextlib.contextmanager
def sound():
    """Within it, AOTAutograd does not record what is wrong in torch 2.13 whatever the backend:

    - The views behind a product of more than two dimensions. What is recorded of `_unsafe_view` refers to sizes that
      are gone: views are made again with numbers that happen to lie there, in this process and in one that finds the
      record in a cache. Without a record the result is made again by its strides.
    - That gradients lie as results do whose elements share memory, as those of `unfold` do: a gradient that is copied
      to such memory loses what it has for all but one of the elements that share a place.
    """
    if analysis is None:
        yield
        return
    with (
        unittest.mock.patch.object(analysis, "ViewMetaSequence", _record),
        unittest.mock.patch.object(_format, "from_tensor", staticmethod(_lay_out)),
    ):
        yield


def view_written_inputs(gm):
    """Makes results of an inference graph that are views of an input which it writes to such views, where sizes are
    free: AOTAutograd makes them again by the strides and the offset of what the graph gives, which would be a view of
    the value that is written, or memory of its own.
    """
    output = gm.graph.output_node()
    results = list(output.args[0])
    for k, base, value in _views_of_inputs(gm):
        view = results[k].meta["val"]
        if value is not base and _is_free(view) and _sees_elements(view, base.meta["val"]):
            steps = _steps(results[k], value)
            again = steps is not None and _seen_again(gm.graph, output, base, steps)
            results[k] = again or _viewed(gm.graph, output, base, view)
    output.args = (tuple(results),)


class SeenInTorch:
    """A compiled graph some of whose results torch makes of the inputs, as views."""

    host_calls = True
    exchanges = [], ""
    arguments = -1  # AOTAutograd stays around it

    def __init__(self, graph, views, places):
        self.graph, self.views, self.places = graph, views, places

    def __call__(self, *args):
        given = args[0] if len(args) == 1 and isinstance(args[0], list) else list(args)
        seen = self.views(*given)
        results = list(self.graph(given))
        for place, view in zip(self.places, seen, strict=True):
            results[place] = view
        return results

    def constant_strides(self, result):
        return None if result in self.places else self.graph.constant_strides(result)


def leave_to_torch(gm):
    """Takes from a graph the results that are views of inputs which only torch can make again: of or as complex
    numbers, or negated, where sizes are free. AOTAutograd asks such a result what it is a view of, and how. Gives the
    graph of those views, and which results they are; None where there are none.
    """
    output = gm.graph.output_node()
    results, found = list(output.args[0]), {}
    for k, base, value in _views_of_inputs(gm):
        if not _sees_other_numbers(results[k].meta["val"], base.meta["val"]):
            continue
        steps = _steps(results[k], value) or ()
        if any(_is_free(t) for t in (step.meta["val"] for step in steps) if isinstance(t, torch.Tensor)):
            found[k] = base, value
    views = found and _graph_of(gm, dict(found.values()), [results[k] for k in found])
    if not views:
        return None
    for k in found:
        results[k] = None
    output.args = (tuple(results),)
    gm.graph.eliminate_dead_code()
    return views, list(found)


def _views_of_inputs(gm):
    """For each result that AOTAutograd sees as a view of an input: its place, the input, and the value that the input
    has in the end, which is another node's where the graph writes to it.
    """
    context = torch._guards.TracingContext.try_get()
    meta = context and context.fw_metadata
    placeholders = gm.graph.find_nodes(op="placeholder")
    if meta is None or len(placeholders) != len(meta.input_info):
        return
    written = {n.args[0]: n for n in gm.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)}
    results = gm.graph.output_node().args[0]
    for k, info in enumerate(meta.output_info, len(meta.mutated_inp_runtime_indices)):
        aliases = info.base_idx is not None and info.output_type is OutputType.alias_of_input
        if aliases and isinstance(results[k], torch.fx.Node):
            base = placeholders[info.base_idx]
            yield k, base, written[base].args[1] if base in written else base


def _graph_of(gm, values, wanted):
    """A graph of views alone. `values`: what the inputs hold in the end. None where a number is made of elements."""
    graph = torch.fx.Graph()
    made = {node: graph.node_copy(node) for node in gm.graph.find_nodes(op="placeholder")}
    made |= {value: made[base] for base, value in values.items()}

    def copied(node):
        if node not in made:
            if isinstance(node.meta.get("val"), torch.Tensor) and not (is_view(node) or is_item(node)):
                raise LookupError(node)
            made[node] = graph.node_copy(node, copied)
        return made[node]

    try:
        graph.output(tuple(map(copied, wanted)))
    except LookupError:
        return None
    return torch.fx.GraphModule(gm, graph)


def _is_free(view):
    return any(type(n) is not int for n in numbers_of(view))


def _sees_elements(view, base):
    """Whether a view is of whole elements, as they are."""
    return view.dtype == base.dtype and not _sees_other_numbers(view, base)


def _sees_other_numbers(view, base):
    return base.is_complex() or view.is_complex() or view.is_neg() or base.is_neg()


def _steps(node, value):
    """The views that lead from a value to a node; None where something else does."""
    steps = []
    while node is not value:
        if node.op != "call_function" or not (is_item(node) or is_view(node)):
            return None
        steps.append(node)
        node = node.args[0]
    return steps[::-1]


def _seen_again(graph, before, base, steps):
    """The same views of another tensor, which may have other strides; None where it cannot be seen so."""
    call, made = Adder(graph, before.prev, {}), base
    try:
        with base.meta["val"].fake_mode:
            for step in steps:
                made = call(step.target, made, *step.args[1:], **step.kwargs)
    except RuntimeError:
        return None
    return made


def _viewed(graph, before, base, view):
    with graph.inserting_before(before):
        where = list(view.shape), list(view.stride()), view.storage_offset()
        made = graph.call_function(torch.ops.aten.as_strided.default, (base, *where))
    made.meta["val"] = view
    return made


def _record(tensor):
    made = _recorded(tensor)
    lost = any(type(view).__name__ == "_unsafe_view_ViewMeta" for view in made.sequence)
    return None if lost else made


def _lay_out(tensor, *args, **kwargs):
    made = _format_of(tensor, *args, **kwargs)
    by_strides = made is not None and made.memory_format is None
    return _format(memory_format=torch.contiguous_format) if by_strides and _may_overlap(tensor) else made


def _may_overlap(tensor):
    """Whether two elements may have one place. Sizes and strides are numbers."""
    past = 1
    for stride, size in sorted((s, n) for n, s in zip(tensor.shape, tensor.stride(), strict=True) if n > 1):
        if stride < past:
            return True
        past += (size - 1) * stride
    return False
