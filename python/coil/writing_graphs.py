"""Operators whose graphs write to what they are given, as torch's functionalization hands them over: on copies of what
is written to. The graphs give what they leave there as further results, which are written to the copies.
"""

import functools

import torch

from . import _native
from .nodes import value_of

# By operator: the names of its graphs' arguments, and what the names of its operands begin with, in order.
_OPERATORS = {
    "cond": (("true_fn", "false_fn"), ("operand",)),
    "invoke_subgraph": (("subgraph",), ("arg",)),
    "while_loop": (("cond_fn", "body_fn"), ("carried_input", "additional_input")),
}


class WritingGraphs:
    """One such call in a graph that `translator` (graph.Translator) walks."""

    def __init__(self, translator, node, operation):
        self.translator, self.node, self.name, self.given = translator, node, operation.name(), node.kwargs
        if self.name not in _OPERATORS:
            raise _native.Error(
                f"%{node.name}: {self.name} with graphs that write to what they are given is not supported; let them "
                "give the values as results"
            )
        self.graphs, self.leads = _OPERATORS[self.name]
        self.bases = []  # pairs: the copy, and torch's record of it
        self.operands, self.views, self.counts = [], {}, []  # `views`: by operand, those that are written to

    def run(self):
        bases = self.given["_all_bases"]
        self.bases = [self.call("aten.clone.default", [self.translator.nodes[b]], value_of(b).clone()) for b in bases]
        for lead in self.leads:
            self.add_operands(lead)
        carried, order = self.counts[0], None
        if self.name == "while_loop":
            carried, order = self.carry_what_is_written()
        results = list(value_of(self.node)[: len(value_of(self.node)) - len(bases)])
        values = [*results, *(v.clone() for _, v in self.views.values())]
        made, _ = self.call(f"higher_order.{self.name}", self.arguments(self.bodies(order), carried), values)
        items = [self.call("_operator.getitem", [made, i], value)[0] for i, value in enumerate(values)]
        for (target, value), item in zip(self.views.values(), items[len(results) :]):
            self.call("aten.copy_.default", [target, item, False], value)
        for user in self.node.users:
            known = [*items[: len(results)], *(base for base, _ in self.bases)]
            self.translator.nodes[user] = known[user.args[1]]

    def call(self, target, args, value):
        """A call beside the operator, and torch's record of its result."""
        where = self.node.meta.get("stack_trace") or ""
        name = f"{self.node.name}_{target.split('.')[1]}"
        meta = self.translator.meta(value, self.node.name)
        return self.translator.native.call(target, args, {}, name, meta, where), value

    def add_operands(self, lead):
        begin = len(self.operands)
        while True:
            key = f"{lead}{len(self.operands) - begin}"
            if key in self.given:
                self.operands.append(self.translator.argument(self.given[key]))
            elif f"_{key}_base_index" in self.given:
                view = self.view(self.bases[self.given[f"_{key}_base_index"]], key)
                self.views[len(self.operands)] = view
                self.operands.append(view[0])
            else:
                self.counts.append(len(self.operands) - begin)
                return

    def view(self, base, key):
        """The view of a copy that stands for an operand."""
        if f"_{key}_slice_dim" in self.given:
            args = [self.given[f"_{key}_slice_{part}"] for part in ("dim", "start", "end")]
            record = torch.ops.aten.slice.Tensor(base[1], *map(value_of, args))
            return self.call("aten.slice.Tensor", [base[0], *map(self.translator.argument, args)], record)
        if f"_{key}_size" in self.given:
            args = [self.given[f"_{key}_{part}"] for part in ("size", "stride", "storage_offset")]
            record = torch.as_strided(base[1], *torch.fx.node.map_arg(args, value_of))
            return self.call("aten.as_strided.default", [base[0], *map(self.translator.argument, args)], record)
        return base

    def carry_what_is_written(self):
        """Puts what a loop writes to behind what it carries, since that goes from turn to turn as well. Gives how much
        is carried then, and the operands' new order.
        """
        carried = self.counts[0]
        if any(k < carried for k in self.views):
            raise _native.Error(
                f"%{self.node.name}: a while_loop that writes to what it carries is not supported; let it give the "
                "values as results"
            )
        others = (k for k in range(carried, len(self.operands)) if k not in self.views)
        order = [*range(carried), *self.views, *others]
        self.operands = [self.operands[k] for k in order]
        return carried + len(self.views), order

    def bodies(self, order):
        made = []
        for g in self.graphs:
            target = self.given[g].target
            body = functools.reduce(getattr, target.split("."), self.translator.gm)
            written = () if g == "cond_fn" else tuple(self.views)
            made.append(self.translator.nested(f"{target}_writing".replace(".", "_"), body, written, order))
        return made

    def arguments(self, bodies, carried):
        if self.name == "cond":
            return [self.translator.argument(self.given["pred"]), *bodies, self.operands]
        if self.name == "invoke_subgraph":
            return [*bodies, self.name, *self.operands]
        return [*bodies, self.operands[:carried], self.operands[carried:]]
