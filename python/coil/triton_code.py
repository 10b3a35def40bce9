"""How Triton compiles one call of a user's kernel: the types and constants of its parameters, and the compiled code."""

import inspect
import re
import struct

import torch
from torch.fx import Node

_ALIGNED_WORKSPACE = 128  # bytes
_ALIGNED = 16  # bytes; also what an integer must be a multiple of to be told so
# Shared memory of a block by compute capability, as CUDA's documentation has it; a GPU that is there is asked.
_SHARED_BYTES = {80: 166912, 86: 101376, 87: 166912, 89: 101376, 90: 232448, 100: 232448, 103: 232448, 120: 101376}


class Refusal(Exception):
    """Why a kernel cannot be compiled, in words that follow its name."""


def value_of(argument):
    return argument.meta["val"] if isinstance(argument, Node) else argument


def _is_multiple(number, of):
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    return number % of == 0 if type(number) is int else statically_known_true(number % of == 0)


def _is_narrow(number):
    """Whether 32 bits hold a size; of one that inputs tell the graph's guards then say so."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true

    if statically_known_true(number <= 2**31 - 1) and statically_known_true(number >= -(2**31)):
        return True
    if free_unbacked_symbols(number):
        return False
    return bool(number <= 2**31 - 1) and bool(number >= -(2**31))


class Signature:
    """How Triton compiles a call: a type for each parameter, what is constant, what is known of the others.
    `descriptors`: the tiles of tensors that the host makes descriptors of, by parameter; `begin`: where tensors begin
    in memory that the call makes for them with others.
    """

    def __init__(self, parameters, capability, descriptors=None, begin=None):
        self.begin = begin or {}
        self.types, self.attributes, self.constants, self.values = {}, {}, {}, {}
        self.kinds, self.bits, self.capability, self.descriptors = {}, {}, capability, descriptors or {}
        for index, (p, value) in enumerate(parameters):
            seen = value_of(value)
            if p.is_constexpr or seen is None:
                self.constant(p.name, value)
            elif p.name in self.descriptors:
                self.descriptor(p, value, seen)
            elif isinstance(seen, torch.Tensor):
                self.tensor(index, p, value, seen)
            elif isinstance(seen, (bool, int, torch.SymInt)) and not (isinstance(value, Node) and type(seen) is bool):
                self.integer(index, p, value, seen)
            elif isinstance(seen, float):
                self.real(p, seen)
            elif isinstance(value, Node) or isinstance(seen, (torch.SymFloat, torch.SymBool)):
                raise Refusal(f"takes a {type(seen).__name__} for `{p.name}`; give it as a tensor")
            elif p.annotation_type:
                raise Refusal(f"takes a {type(seen).__name__} for `{p.name}`")
            elif isinstance(seen, (tuple, list)) and any(isinstance(v, torch.Tensor) for v in seen):
                raise Refusal(f"takes tensors in a {type(seen).__name__} for `{p.name}`, which graphs do not hold")
            else:
                self.constant(p.name, value)

    def tensor_names(self):
        return [n for n, kind in self.kinds.items() if kind in ("tensor", "descriptor")]

    def number_names(self):
        return [n for n, kind in self.kinds.items() if kind == "number"]

    def constant(self, name, value):
        self.types[name] = "constexpr"
        self.constants[name] = value

    def tensor(self, index, p, value, seen):
        from triton._utils import canonicalize_dtype

        if not isinstance(value, Node):
            raise Refusal(f"takes a tensor for `{p.name}` that is no value of the graph")
        try:
            dtype = canonicalize_dtype(seen.dtype)
        except KeyError:
            raise Refusal(f"takes a tensor of {seen.dtype} for `{p.name}`, which Triton has no type for") from None
        self.types[p.name] = ("*k" if p.is_const else "*") + dtype
        offset = 0 if value.op == "placeholder" else seen.storage_offset()
        aligned = _is_multiple(self.begin.get(p.name, offset) * seen.dtype.itemsize, _ALIGNED)
        if aligned and not p.do_not_specialize_on_alignment and not p.do_not_specialize:
            self.attributes[(index,)] = [["tt.divisibility", _ALIGNED]]
        self.kinds[p.name], self.values[p.name] = "tensor", value

    def descriptor(self, p, value, seen):
        """Of a tensor, by the rules of Triton's TensorDescriptor; what only the run tells of strides, the driver
        checks.
        """
        from torch.fx.experimental.symbolic_shapes import statically_known_true
        from triton._utils import canonicalize_dtype

        tile, strides = self.descriptors[p.name], seen.stride()
        if len(tile) != seen.dim() or not 1 <= len(tile) <= 5:
            raise Refusal(
                f"takes a descriptor of tiles of {list(tile)} for `{p.name}`, which has {seen.dim()} dimensions"
            )
        if statically_known_true(strides[-1] != 1):
            raise Refusal(f"takes a descriptor of `{p.name}`, whose last dimension is not contiguous; give it a copy")
        if any(statically_known_true(s * seen.dtype.itemsize % _ALIGNED != 0) for s in strides[:-1]):
            raise Refusal(
                f"takes a descriptor of `{p.name}`, whose rows do not begin at multiples of {_ALIGNED} bytes; pad them"
            )
        self.types[p.name] = f"tensordesc<{canonicalize_dtype(seen.dtype)}{list(map(int, tile))}>"
        self.kinds[p.name], self.values[p.name] = "descriptor", value

    def integer(self, index, p, value, seen):
        fixed = not isinstance(seen, torch.SymInt)
        if fixed and seen == 1 and type(seen) is int and not p.do_not_specialize:
            return self.constant(p.name, 1)
        if p.annotation_type:
            self.types[p.name] = p.annotation_type
        elif type(seen) is bool:
            self.types[p.name] = "u1"
        elif fixed:
            self.types[p.name] = "i32" if -(2**31) <= seen < 2**31 else "i64" if seen < 2**63 else "u64"
        else:
            self.types[p.name] = "i32" if _is_narrow(seen) else "i64"
        if type(seen) is not bool and not p.do_not_specialize and not p.do_not_specialize_on_alignment:
            if _is_multiple(seen, _ALIGNED):
                self.attributes[(index,)] = [["tt.divisibility", _ALIGNED]]
        if fixed:
            self.kinds[p.name], self.constants[p.name] = "constant", seen
            self.bits[p.name] = int(seen) if int(seen) < 2**63 else int(seen) - 2**64
        else:
            self.kinds[p.name], self.values[p.name] = "number", value

    def real(self, p, seen):
        kind = p.annotation_type or "fp32"
        if kind not in ("fp32", "fp64"):
            raise Refusal(f"takes a float for `{p.name}`, which is a {kind}")
        self.types[p.name] = kind
        form = ("<f", "<i") if kind == "fp32" else ("<d", "<q")
        self.kinds[p.name], self.constants[p.name] = "constant", seen
        try:
            self.bits[p.name] = struct.unpack(form[1], struct.pack(form[0], seen))[0]
        except OverflowError:
            raise Refusal(f"takes {seen} for `{p.name}`, which 32 bits do not hold") from None

    def block(self, widths=None, maps=None):
        """The argument block, but for scratch memory; `widths` in bytes, as the compiled kernel has them; `maps`: what
        it says of each descriptor, where it takes such and not the tensor itself.
        """
        out, maps = [], list(maps or [])
        for index, name in enumerate(self.types):
            kind = self.kinds.get(name)
            if kind is None:
                continue
            if kind == "descriptor":
                out += self.described(name, maps.pop(0) if maps else None, bool(widths))
                continue
            entry = {"name": name, "kind": kind}
            if kind == "tensor":
                entry["aligned"] = (index,) in self.attributes and self.capability is not None
            else:
                entry["bytes"] = widths[len(out)] if widths else 8
            if kind == "constant":
                entry["bits"] = self.bits[name]
            out.append(entry)
        return out

    def described(self, name, map, compiled):
        """What a kernel takes for a descriptor: itself or, on a GPU that has none, the tensor with sizes, strides and
        how to fill what lies outside; then sizes and strides.
        """
        if not compiled:  # the interpreter makes it
            return [{"name": name, "kind": "tensor"}]
        rank = len(self.descriptors[name])
        first = {"name": name, "kind": "tensor", "aligned": True}
        if map:
            if map["fp4_padded"]:
                raise Refusal(f"takes a descriptor of numbers of 4 bits for `{name}`, which is not supported")
            element = _HOST_ELEMENT.get(map["elem_type"], map["elem_type"])
            first["bytes"] = 128
            first["map"] = {"element": element, "swizzle": map["swizzle"], "box": list(map["block_size"])}
        sizes = [{"name": name, "kind": "size", "dimension": d, "bytes": 8} for d in range(rank)]
        strides = [{"name": name, "kind": "stride", "dimension": d, "bytes": 8} for d in range(rank)]
        flags = [{"name": name, "kind": "constant", "bytes": 1, "bits": 0}] * _flags()
        return [first, *(() if map else [*sizes, *strides, *flags]), *({**s, "bytes": 4} for s in sizes), *strides]


def _flags():
    """Numbers of one bit, such as how to fill what lies outside, that stand behind a tensor in place of a descriptor
    (Triton's launcher, triton/backends/nvidia/driver.py).
    """
    from triton.backends.nvidia import driver

    return 2 if hasattr(driver, "expand_signature") else 1  # from Triton 3.7 on; before


_HOST_ELEMENT = {8: 10, 9: 8, 10: 9}  # values of CUtensorMapDataType where Triton's compiler has others
_PARAMETER = re.compile(r"\.param \.(?:align \d+ )?\.?([a-z])(\d+)[^,\n)]*_param_(\d+)")


def _widths(ptx, symbol):
    """Bytes of each parameter of the entry point, from its head."""
    head = ptx[ptx.index(f".entry {symbol}(") :]
    head = head[: head.index(")")]
    return [int(bits) // 8 for _, bits, _ in _PARAMETER.findall(head)]


def compile_kernel(function, symbol, key, facts, options, capability):
    """The compiled kernel as a part of its definition."""
    import copy

    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    # The function has another name for each of its compiled forms, which one program may hold side by side.
    named = copy.copy(function)
    setattr(named, "_repr" if hasattr(named, "_repr") else "repr", lambda _: symbol)
    named.hash = key
    held = set(facts.kinds)
    constants = {k: v for k, v in facts.constants.items() if k not in held}
    source = ASTSource(named, dict(facts.types), constants, dict(facts.attributes))
    try:
        made = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    except Exception as error:
        raise Refusal(f"does not compile: {_complaint(function, error)}") from error
    m = made.metadata
    for what, refused in (
        ("clusters of blocks (num_ctas)", getattr(m, "num_ctas", 1) != 1),
        ("a profiler's memory", getattr(m, "profile_scratch_size", 0)),
        ("a cooperative grid", getattr(m, "launch_cooperative_grid", False)),
        ("a launch ahead of the kernel before it", getattr(m, "launch_pdl", False)),
    ):
        if refused:
            raise Refusal(f"needs {what}, which is not supported")
    limit = _SHARED_BYTES.get(capability)
    if torch.cuda.is_available() and torch.cuda.get_device_capability() == divmod(capability, 10):
        limit = torch.cuda.get_device_properties(0).shared_memory_per_block_optin
    if limit is not None and m.shared > limit:
        raise Refusal(
            f"needs {m.shared} bytes of shared memory, but a block of sm_{capability} has {limit}; "
            "take smaller blocks or fewer stages"
        )
    widths = _widths(made.asm["ptx"], symbol)
    block = facts.block(widths, getattr(m, "tensordesc_meta", None))
    # Behind them memory for itself, where it needs such, and that of profilers.
    scratch = [{"name": "scratch", "kind": "constant", "bytes": w, "bits": 0} for w in widths[len(block) :]]
    workspace = getattr(m, "global_scratch_size", 0) * getattr(m, "num_ctas", 1)
    if workspace:
        if getattr(m, "global_scratch_align", 1) > _ALIGNED_WORKSPACE:
            raise Refusal(f"needs memory at multiples of {m.global_scratch_align} bytes, which is not supported")
        scratch[0] = {"name": "scratch", "kind": "workspace"}
    block += scratch
    return {
        "workspace_bytes": workspace,
        "arch": f"sm_{capability}",
        "binary": made.asm["cubin"].hex(),
        "ptx": made.asm["ptx"],
        "block": m.num_warps * 32,
        "shared_bytes": m.shared,
        "parameters": block,
    }


def _complaint(function, error):
    """What Triton's compiler says, with the user's line."""
    lines = []
    cause = error
    while cause is not None and hasattr(cause, "node"):
        if getattr(cause.node, "lineno", None) is not None:
            file, begin = inspect.getsourcefile(function.fn), _first_line(function)
            if getattr(cause, "src", None) in (None, function.src):
                lines.append(f"{file}:{begin + cause.node.lineno - 1}")
        error, cause = cause, cause.__cause__
    if cause is not None:
        error = cause
    message = str(getattr(error, "error_message", None) or error).strip() or type(error).__name__
    said = [line.strip() for line in message.splitlines()]
    # The assembler's words are in the midst of how Triton called it.
    told = next((line for line in said if line.startswith("ptxas ") and re.search(r"\berror\b", line)), said[-1])
    return f"{told}{' (at ' + lines[0] + ')' if lines else ''}"


def _first_line(function):
    """The line of `def`."""
    text, first = inspect.getsourcelines(function.fn)
    return first + next((i for i, line in enumerate(text) if line.lstrip().startswith("def ")), 0)
