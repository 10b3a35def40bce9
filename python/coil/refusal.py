"""Errors about a node of a graph, with the operator and the user's line."""

import re

from ._native import Error


def refuse(node, what):
    """Raises coil.Error: `aten.foo.default WHAT (called at model.py:12)`; `what` may end in a way out after `; `."""
    lines = re.findall(r'File "([^"]*)", line (\d+)', node.meta.get("stack_trace") or "")
    what, *way_out = what.split("; ", 1)
    called = f" (called at {':'.join(lines[-1])})" if lines else ""
    raise Error("; ".join([f"{node.target} {what}{called}", *way_out]))
