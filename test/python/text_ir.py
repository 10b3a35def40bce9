"""Runs Coil's text form of a graph with torch, so that passes can be checked before anything is compiled."""

import math
import operator
import re
import subprocess

import torch

from coil_harness import COIL

DTYPES = {
    "u8": torch.uint8,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "f16": torch.float16,
    "f32": torch.float32,
    "f64": torch.float64,
    "c64": torch.complex64,
    "c128": torch.complex128,
    "b8": torch.bool,
    "bf16": torch.bfloat16,
}
WORDS = {
    **DTYPES,
    "inf": math.inf,
    "nan": math.nan,
    "cpu": torch.device("cpu"),
    "strided": torch.strided,
    "contiguous_format": torch.contiguous_format,
    "preserve_format": torch.preserve_format,
    "channels_last": torch.channels_last,
    "channels_last_3d": torch.channels_last_3d,
    "FloorDiv": operator.floordiv,
    "CeilDiv": lambda a, b: -(-a // b),
    "Mod": operator.mod,
    "Min": min,
    "Max": max,
    "Bool": bool,
    "Eq": operator.eq,
    "Ne": operator.ne,
    "Where": lambda c, a, b: a if c else b,
}
NODE = re.compile(
    r"%(\w+)(?: : (.*?))? = (placeholder|get_attr|call_function)\[target=([^\]]*)\](?:\(args = \((.*)\), kwargs "
    r"= \{(.*)\}\))?$"
)


def opt(path, *passes):
    """The text that `coil opt` prints after these passes."""
    command = [COIL, "opt"] + [word for name in passes for word in ("--pass", name)] + [str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def evaluate(text, values):
    nodes = re.sub(r"%(\w+)", r"_nodes['\1']", text)
    return eval(nodes, {**WORDS, **values.get("_symbols", {})}, {"_nodes": values})


def function(target):
    if target.startswith("_operator."):
        return getattr(operator, target.removeprefix("_operator."))
    if target.startswith("torch.sym_"):
        return getattr(torch, target.removeprefix("torch."))
    space, name, overload = target.split(".")
    return getattr(getattr(getattr(torch.ops, space), name), overload)


def significant(strides, sizes):
    """Strides of dimensions of size 1 left out: torch's fake tensors and its kernels disagree about them themselves."""
    return [] if 0 in sizes else [stride for stride, size in zip(strides, sizes) if size != 1]


class Program:
    """A printed graph. `mutations` are (kind, target, position among the results)."""

    def __init__(self, text):
        self.lines = [line.strip() for line in text.splitlines()]
        self.mutations = [
            (k, t, int(i)) for k, t, i in re.findall(r"^mutation (input|attribute) (\S+) = (\d+)$", text, re.M)
        ]
        self.targets = re.findall(r"call_function\[target=([^\]]*)\]", text)

    def __call__(self, inputs, attributes):
        """Results by position, without the mutations carried out; `inputs` by placeholder's name."""
        values = {}
        for line in self.lines:
            if line.startswith("return "):
                return evaluate(line.removeprefix("return "), values)
            match = NODE.match(line)
            if not match:
                continue
            name, type_, opcode, target, args, kwargs = match.groups()
            if opcode == "placeholder":
                values[name] = inputs.get(name)
            elif opcode == "get_attr":
                values[name] = attributes[target]
            else:
                named = re.sub(r"(\w+): ", r"'\1': ", kwargs)
                value = function(target)(*evaluate(f"({args})", values), **evaluate(f"{{{named}}}", values))
                if target.endswith("_scatter.default") or target == "aten.copy.default":
                    # Eager keeps the gaps of a tensor that is not dense, which a functional graph has no use for.
                    value = value.clone()
                self.check(name, type_, value)
                values[name] = value
        raise AssertionError("the graph has no return")

    @staticmethod
    def check(name, type_, value):
        """The printed type is what torch made: dtype, sizes, strides."""
        if not isinstance(value, torch.Tensor) or not type_:
            return
        dtype, sizes, strides = re.match(r"(\w+)\[([\d, ]*)\](?:\{([\d, ]*)\})?", type_).groups()
        sizes = eval(f"({sizes},)") if sizes else ()
        found = f"%{name} : {type_} is {value.dtype} {tuple(value.shape)} {value.stride()}"
        assert value.dtype == DTYPES[dtype] and tuple(value.shape) == sizes, found
        printed = eval(f"({strides},)") if strides else torch.empty(sizes, device="meta").stride()
        assert significant(value.stride(), sizes) == significant(printed, sizes), found
