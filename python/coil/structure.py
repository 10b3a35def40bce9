"""How a program's inputs and outputs nest: arguments to flat inputs, flat results to what the module returned. Needs
torch only for classes that torch's pytree knows and Python's library does not.
"""

import collections
import collections.abc
import json
import sys

from . import _native

_PAIRS = {
    "builtins.dict": dict,
    "collections.OrderedDict": collections.OrderedDict,
    "torch.fx.immutable_collections.immutable_dict": dict,
}
_LISTS = {
    "builtins.tuple": tuple,
    "builtins.list": list,
    "torch.fx.immutable_collections.immutable_list": list,
    "collections.deque": collections.deque,
    "torch.Size": tuple,
}


def _leaf(node):
    """Its place among inputs or outputs, or None."""
    return node["leaf"] if isinstance(node, dict) and "leaf" in node else node


def _is_leaf(node):
    return not isinstance(node, dict) or "leaf" in node


def _context(node):
    """What torch's pytree wrote of a container besides: mostly JSON within a string, or the name of a class."""
    context = node.get("context")
    if not isinstance(context, str):
        return context
    try:
        return json.loads(context)
    except ValueError:
        return context


def _dictionary_keys(node):
    """With their types, where those were plain."""
    context = _context(node)
    if isinstance(context, dict):
        context = context.get("dict_context")
    if (
        isinstance(context, list)
        and len(context) == len(node["keys"])
        and not any(isinstance(k, (dict, list)) for k in context)
    ):
        return context
    return node["keys"]


def _torch_spec(node, children):
    """torch's own form of one container; None where torch is not loaded or does not know the class."""
    if "torch" not in sys.modules:
        return None
    from torch.utils import _pytree

    leaf = {"type": None, "context": None, "children_spec": []}
    try:
        return _pytree.treespec_loads(
            json.dumps(
                [1, {"type": node["type"], "context": node.get("context", "null"), "children_spec": [leaf] * children}]
            )
        )
    except Exception:
        return None  # a class that nobody has registered in this process


def _named_tuple(node):
    name = str(node.get("context") or "result").rpartition(".")[2]
    return collections.namedtuple(name if name.isidentifier() else "result", node["keys"], rename=True)


def _builder(node):
    """A function from the list of children to the container."""
    kind, count = node["type"], len(node["children"])
    if kind in _PAIRS:
        keys = _dictionary_keys(node)
        return lambda items: _PAIRS[kind](zip(keys, items))
    if kind == "collections.deque":
        most = _context(node)
        return lambda items: collections.deque(items, most if isinstance(most, int) else None)
    if kind in _LISTS:
        return _LISTS[kind]
    if (spec := _torch_spec(node, count)) is not None:
        from torch.utils import _pytree

        return lambda items: _pytree.tree_unflatten(items, spec)
    if kind == "collections.namedtuple":
        return _named_tuple(node)._make
    keys = _dictionary_keys(node)
    return lambda items: dict(zip(keys, items))


class Results:
    """Flat results as the module returned them. A class that this process does not know becomes a dictionary, an
    unknown named tuple one of the same fields.
    """

    def __init__(self, root):
        self._root, self._build = root, None

    def _compile(self, node):
        if _is_leaf(node):
            leaf = _leaf(node)
            return (lambda values: None) if leaf is None else (lambda values: values[leaf])
        build, children = _builder(node), [self._compile(child) for child in node["children"]]
        return lambda values: build([child(values) for child in children])

    def __call__(self, values):
        # Not before the first results are there: by then their classes have been imported, if anybody has use for them.
        if self._build is None:
            self._build = self._compile(self._root)
        return self._build(values)


class Arguments:
    """What a module was called with, as the program's flat inputs."""

    def __init__(self, root, names):
        self._positional, self._named = root["children"]
        self._names = names

    def __call__(self, args, kwargs):
        flat = [None] * len(self._names)
        given, known = dict(kwargs), [*self._positional["keys"], *self._named["keys"]]
        if len(args) > len(self._positional["keys"]):
            raise _native.Error(
                f"the program takes {len(self._positional['keys'])} positional arguments "
                f"({', '.join(self._positional['keys'])}), but {len(args)} were given"
            )
        for name in given:
            if name not in known:
                raise _native.Error(f"there is no input '{name}'; there are {', '.join(known)}")
        for name, value in zip(self._positional["keys"], args):
            if name in given:
                raise _native.Error(f"input '{name}' was given twice")
            given[name] = value
        for node in (self._positional, self._named):
            for name, child in zip(node["keys"], node["children"]):
                if name not in given:
                    raise _native.Error(f"input '{name}' is missing; the program takes {', '.join(known)}")
                self._flatten(child, given[name], name, flat)
        return flat

    def _flatten(self, node, value, path, flat):
        if _is_leaf(node):
            if isinstance(node, dict):
                fixed = node["fixed"]
                if type(value) is not type(fixed) or value != fixed:
                    raise _native.Error(
                        f"input '{path}' was exported as {fixed!r} and is part of the program; {_short(value)} "
                        "was given"
                    )
                value = 0  # not read
            flat[_leaf(node)] = value
            return
        for key, child, item in zip(node["keys"], node["children"], _items(node, value, path)):
            self._flatten(child, item, f"{path}.{key}", flat)


def _short(value):
    return repr(value) if isinstance(value, (int, float, str, bool, type(None))) else f"a {type(value).__name__}"


def _items(node, value, path):
    """A container's children in the program's order."""
    kind, keys = node["type"], node["keys"]
    if kind in _LISTS:
        if isinstance(value, (tuple, list, collections.deque)) and len(value) == len(keys):
            return list(value)
        raise _native.Error(
            f"input '{path}' is a {kind.rpartition('.')[2]} of {len(keys)} in the program, but "
            f"{_described(value)} was given"
        )
    if isinstance(value, collections.abc.Mapping):
        wanted = _dictionary_keys(node)
        if kind in _PAIRS or kind == "collections.defaultdict":
            if set(value) != set(wanted):
                raise _native.Error(
                    f"input '{path}' has keys {', '.join(map(str, wanted))} in the program, but "
                    f"{_described(value)} was given"
                )
        if all(k in value for k in wanted):
            return [value[k] for k in wanted]
    elif kind == "collections.namedtuple" and isinstance(value, tuple) and len(value) == len(keys):
        return list(value)
    elif kind not in _PAIRS and all(hasattr(value, k) for k in keys):
        return [getattr(value, k) for k in keys]
    raise _native.Error(
        f"input '{path}' is a {kind} of {', '.join(keys) or 'nothing'} in the program, but {_described(value)} "
        "was given"
    )


def _described(value):
    if isinstance(value, collections.abc.Mapping):
        return f"a {type(value).__name__} with keys {', '.join(map(str, value)) or '(none)'}"
    if isinstance(value, (tuple, list, collections.deque)):
        return f"a {type(value).__name__} of {len(value)}"
    return _short(value)
