"""A written FX graph as text for `coil opt`, and read from it."""

import builtins
import math
import operator
import re

import torch

from .fx import typed
from .program import DTYPE_NAMES, SYMBOLS, load

# @piece graph_text
# ---- The graph as text, which `coil opt` reads and prints back ----


def target_text(target):
    if isinstance(target, torch._ops.HigherOrderOperator):
        return "higher_order." + target.name()
    return (
        str(target)
        if isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket))
        else f"{target.__module__}.{target.__name__}"
    )


def string_text(s):
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}
    return '"' + "".join(escapes.get(c) or (c if " " <= c != "\x7f" else f"\\x{ord(c):02x}") for c in s) + '"'


def value_text(value):
    if isinstance(value, torch.fx.Node):
        inner = value.op == "get_attr" and isinstance(
            getattr(value.graph.owning_module, value.target, None), torch.fx.GraphModule
        )
        return f"@{value.target}" if inner else f"%{value.name}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(value_text, value))}]"
    if isinstance(value, str):
        return string_text(value)
    if isinstance(value, torch.dtype):
        return DTYPE_NAMES[value]
    return str(value).removeprefix("torch.")


def node_text(node):
    name = lambda t: t if re.fullmatch(r"[\w.]+", t, re.ASCII) else string_text(t)
    made = f"%{node.name} : {node.meta['type']}" if "type" in node.meta else f"%{node.name}"
    if node.op != "call_function":
        return f"{made} = {node.op}[target={name(node.target)}]"
    args, kwargs = list(map(value_text, node.args)), [f"{k}: {value_text(v)}" for k, v in node.kwargs.items()]
    origins, where = re.fullmatch(r"(.*?)(?: \((.*:\d+)\))?", node.meta.get("origins", "")).groups()
    notes = (f"  # at {where}" if where else "") + (f"  # from {origins}" if origins else "")
    args, kwargs = ", ".join(args) + "," * (len(args) == 1), ", ".join(kwargs)
    target = name(target_text(node.target))
    return f"{made} = call_function[target={target}](args = ({args}), kwargs = {{{kwargs}}}){notes}"


def text(module=None):
    """The graph in the text form of `coil opt`, with types and asserts; of a module that load() made, edited or not.
    (Traced again, it has no types.)"""
    module = module or load()
    inner, found = {}, [module]
    while found:  # graphs inside graphs stand behind the outermost, by name
        one = found.pop()
        for node in one.graph.nodes:
            if (
                node.op == "get_attr"
                and isinstance(held := getattr(one, node.target), torch.fx.GraphModule)
                and node.target not in inner
            ):
                inner[node.target] = held
                found.append(held)

    def lines(one, indent):
        yield f"{indent}graph({'' if indent else SYMBOLS}):"
        for node in one.graph.nodes:
            if node.op == "output":
                results = node.args[0] if isinstance(node.args[0], (list, tuple)) else [node.args[0]]
                yield f"{indent}    return ({', '.join(map(value_text, results))}{',' * (len(results) == 1)})"
            elif value_text(node).startswith("%"):
                yield f"{indent}    {node_text(node)}"

    out = [*lines(module, "")]
    for name in sorted(inner):
        out += [f"subgraph {name}:", *lines(inner[name], "    ")]
    return "\n".join(out) + "\n"


def target_of(name):
    spaces = {"_operator": operator, "torch": torch, "math": math, "builtins": builtins}
    first, *rest = name.split(".")
    found = spaces.get(first) or getattr(torch.ops, first)
    for part in rest:
        found = getattr(found, part)
    return found


class TextValues:
    """Values of one line of text, read from left to right."""

    WORDS = {
        "None": None,
        "True": True,
        "False": False,
        **{n: t for t, n in DTYPE_NAMES.items()},
        **{
            n: getattr(torch, n)
            for n in (
                "contiguous_format",
                "preserve_format",
                "channels_last",
                "channels_last_3d",
                "strided",
                "sparse_coo",
            )
        },
    }

    def __init__(self, line, graph, nodes):
        self.graph, self.nodes, self.at = graph, nodes, 0
        self.tokens = re.findall(r'"(?:[^"\\]|\\.)*"|#.*|[%@]?[-\w.+:]+|[\[\](){},=]', line)

    def take(self):
        self.at += 1
        return self.tokens[self.at - 1]

    def many(self, close):
        values = []
        while self.tokens[self.at] != close:
            values.append(self.value())
            self.at += self.tokens[self.at] == ","
        self.at += 1
        return values

    def value(self):
        token = self.take()
        if token == "[":
            return self.many("]")
        if token[0] == "%":
            return self.nodes[token[1:]]
        if token[0] == "@":
            return self.graph.get_attr(token[1:])
        if token[0] == '"':
            return re.sub(
                r"\\(x..|.)",
                lambda m: chr(int(m[1][1:], 16)) if m[1][0] == "x" else {"n": "\n", "t": "\t"}.get(m[1], m[1]),
                token[1:-1],
            )
        if token in self.WORDS:
            return self.WORDS[token]
        if token.split(":")[0] in ("cpu", "cuda", "meta"):
            return torch.device(token)
        return int(token) if re.fullmatch(r"-?\d+", token) else float(token)

    def arguments(self):
        """`(args = (…), kwargs = {…})`"""
        self.at += 4
        args, kwargs = self.many(")"), {}
        self.at += 4
        while self.tokens[self.at] != "}":
            key = self.take().rstrip(":")
            kwargs[key] = self.value()
            self.at += self.tokens[self.at] == ","
        return args, kwargs


def read(text):
    """The module of a text that text() wrote, after `coil opt` or an editor. Kernels and weights are this file's."""
    module, graphs = load(), {}
    bare = set(re.findall(r"while_loop\]\(args = \(@(\w+)", text))  # what a loop goes on by is no tuple
    name = None
    for line in map(str.strip, text.split("\n")):  # strings may hold other line ends
        if line.startswith("subgraph "):
            name = line[len("subgraph ") : -1]
        elif line.startswith("graph"):
            graph = graphs[name] = torch.fx.Graph()
            nodes = {}
        elif line.startswith("return "):
            values = TextValues(line[len("return (") :], graph, nodes).many(")")
            graph.output(values[0] if name in bare else tuple(values))
        elif match := re.match(
            r'%(\w+)(?: : (.*?))? = (placeholder|get_attr|call_function)\[target=("(?:[^"\\]|\\.)*"|[^\]]*)\](.*)', line
        ):
            made, type, op, target, rest = match.groups()
            target = TextValues(target, graph, nodes).value() if target[0] == '"' else target
            args, kwargs = (), {}
            if op == "call_function":
                args, kwargs = TextValues(rest, graph, nodes).arguments()
                args = [tuple(a) if target.startswith("higher_order.") and isinstance(a, list) else a for a in args]
                target = target_of(target)
            nodes[made] = typed(graph.create_node(op, target, tuple(args), kwargs, made), type)

    def built(name):
        for node in graphs[name].nodes:
            if node.op == "get_attr" and node.target in graphs:
                module.add_module(node.target, built(node.target))
        graphs[name].lint()
        return torch.fx.GraphModule(module, graphs[name])

    return built(None)
