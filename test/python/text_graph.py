"""Calls of operators as Coil's text IR, metadata read back from it, and the text run by PyTorch itself."""

import math
import re

import torch

SHORT = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "b8",
}
LONG = {v: k for k, v in SHORT.items()}
FORMATS = {
    torch.contiguous_format: "contiguous_format",
    torch.preserve_format: "preserve_format",
    torch.channels_last: "channels_last",
    torch.channels_last_3d: "channels_last_3d",
}


def operator(target):
    """`aten.add.Tensor` or `add.Tensor` as a torch operator."""
    name, overload = target.removeprefix("aten.").rsplit(".", 1)
    return getattr(getattr(torch.ops.aten, name), overload)


def is_view(target):
    """Whether the result may share its input's storage."""
    return any(r.alias_info for r in operator(target)._schema.returns)


class Graph:
    """A graph of independent calls; tensors among the arguments become its inputs."""

    def __init__(self):
        self.lines, self.inputs, self.calls = [], {}, []

    def type(self, t):
        return f"{SHORT[t.dtype]}{list(t.shape)}{{{', '.join(map(str, t.stride()))}}}" + (
            f"+{t.storage_offset()}" if t.storage_offset() else ""
        )

    def value(self, v):
        if isinstance(v, torch.Tensor):
            name = f"x{len(self.inputs)}"
            self.inputs[name] = v
            self.lines.append(f"    %{name} : {self.type(v)} = placeholder[target={name}]")
            return "%" + name
        if isinstance(v, (list, tuple)):
            return "[" + ", ".join(map(self.value, v)) + "]"
        if isinstance(v, str):
            return f'"{v}"'
        if isinstance(v, torch.dtype):
            return SHORT[v]
        if v in FORMATS:
            return FORMATS[v]
        return "inf" if v == math.inf else "-inf" if v == -math.inf else repr(v)

    def call(self, target, args, kwargs):
        args = ", ".join(map(self.value, args)) + ("," if len(args) == 1 else "")
        kwargs = ", ".join(f"{k}: {self.value(v)}" for k, v in kwargs.items())
        name = f"r{len(self.calls)}"
        self.calls.append(name)
        self.lines.append(f"    %{name} = call_function[target=aten.{target}](args = ({args}), kwargs = {{{kwargs}}})")
        return name

    def item(self, call, index):
        name = f"{call}_{index}"
        self.lines.append(
            f"    %{name} = call_function[target=_operator.getitem](args = (%{call}, {index}), kwargs = {{}})"
        )
        return name

    def text(self, results):
        inputs = [l for l in self.lines if "placeholder[" in l]
        rest = [l for l in self.lines if "placeholder[" not in l]
        return "\n".join(["graph():", *inputs, *rest, f"    return ({', '.join('%' + r for r in results)},)"]) + "\n"


TENSOR = re.compile(r"(\w+)\[([^\]]*)\](?:\{([^}]*)\})?(?:\+(\d+))?")


def dense_strides(sizes):
    strides, n = [], 1
    for s in reversed(sizes):
        strides.insert(0, n)
        n *= max(s, 1)
    return strides


def numbers(text):
    return [int(n) for n in text.split(",") if n.strip()]


def metadata(text):
    """`f32[2, 3]{1, 2}+4` as (dtype, sizes, strides, offset); a list of those for `[…, …]`."""
    out = []
    for dtype, sizes, strides, offset in TENSOR.findall(text):
        sizes = numbers(sizes)
        strides = numbers(strides) if strides else dense_strides(sizes)
        out.append(comparable(LONG[dtype], sizes, strides, int(offset or 0)))
    return out


def comparable(dtype, sizes, strides, offset):
    """Strides of dimensions of size 1 and of tensors without elements count for nothing."""
    empty = 0 in sizes
    return dtype, list(sizes), [None if n == 1 or empty else s for n, s in zip(sizes, strides)], offset


def metadata_of(value):
    values = value if isinstance(value, (list, tuple)) else [value]
    return [comparable(v.dtype, list(v.shape), list(v.stride()), v.storage_offset()) for v in values]


NODE = re.compile(
    r"\s+%(\w+)(?: : (.*?))? = (placeholder|call_function|get_attr)\[target=([^\]]*)\](?:\(args = \((.*)\), "
    r"kwargs = \{(.*)\}\))?"
)


def nodes(text):
    return [m.groups() for m in map(NODE.match, text.splitlines()) if m]


def results(text):
    return re.search(r"return \((.*)\)", text).group(1).replace("%", "").replace(",", " ").split()


class Namespace(dict):
    def __missing__(self, name):
        if name in LONG:
            return LONG[name]
        for value, spelled in FORMATS.items():
            if spelled == name:
                return value
        return {"inf": math.inf, "nan": math.nan, "cpu": torch.device("cpu"), "strided": torch.strided}[name]


def run(text, inputs):
    """The graph's results by PyTorch, one operator at a time."""
    env = Namespace(inputs)
    for name, _, kind, target, args, kwargs in nodes(text):
        if kind != "call_function":
            continue
        positional = eval(f"[{args.replace('%', '')}]", {}, env)
        named = {
            k: eval(v.replace("%", ""), {}, env) for k, v in re.findall(r"(\w+): ([^:]*?)(?:, (?=\w+:)|$)", kwargs)
        }
        env[name] = (
            positional[0][positional[1]] if target == "_operator.getitem" else operator(target)(*positional, **named)
        )
    return [env[r] for r in results(text)]
