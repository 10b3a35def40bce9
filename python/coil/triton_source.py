"""The source of a user's Triton kernel, with all that it uses, as one text that stands on its own: what Python programs
show, what the interpreter runs, and what compiled kernels are found again by.
"""

import ast
import enum
import hashlib
import inspect
import types

import triton
import triton.language as tl

_ConstexprFunction = getattr(triton.runtime.jit, "ConstexprFunction", ())  # from Triton 3.4 on


class NoText(Exception):
    """A kernel uses something that cannot be written as source text."""


def _is_jitted(value):
    """A function that kernels call, run by Triton or while it compiles."""
    return isinstance(value, (triton.JITFunction, _ConstexprFunction))


def _has_source(value):
    """One of the user's."""
    return _is_jitted(value) and not _is_tritons(value.fn)


def _names(function):
    """Names that the function's text uses, and dotted ones (`helpers.scale`) by their first two parts."""
    tree = ast.parse(function.src)
    own = {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    own |= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    plain = {n.id: None for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id not in own}
    dotted = {
        (n.value.id, n.attr): None
        for n in ast.walk(tree)
        if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id not in own
    }
    return plain, dotted


def _scope(function):
    """What the function's names mean: globals, and variables of the functions around it."""
    inner = function.fn
    cells = dict(zip(inner.__code__.co_freevars, inner.__closure__ or ()))
    around = {}
    for name, cell in cells.items():
        try:
            around[name] = cell.cell_contents
        except ValueError:
            pass  # not set yet
    return inner.__globals__ | around


def _is_tritons(value):
    return (getattr(value, "__module__", None) or "").split(".")[0] == "triton"


def literal(value, name_of=lambda function: None):
    """A constant as a Python expression; `name_of` gives the name of a jitted function. Raises NoText."""
    if isinstance(value, tl.constexpr):
        return literal(value.value, name_of)
    for plain in (bool, int, float, str):  # of an enumeration's members their values
        if isinstance(value, plain) and isinstance(value, enum.Enum):
            value = plain(value.value)
    if value is None or isinstance(value, (bool, int, str)):
        return repr(value)
    if isinstance(value, float):
        return repr(value) if value - value == 0 else f'float("{value}")'
    if isinstance(value, tl.dtype) and not isinstance(value, (tl.pointer_type, tl.block_type)):
        return f"triton.language.{_dtype_name(value)}"
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        items = "".join(f"{literal(v, name_of)}, " for v in value)
        return f"({items})" if isinstance(value, tuple) else f"[{items}]"
    if isinstance(value, triton.JITFunction) and (name := name_of(value)):
        return name
    raise NoText(f"a {type(value).__name__} has no text")


def _dtype_name(dtype):
    found = next((k for k, v in vars(tl).items() if isinstance(v, tl.dtype) and v == dtype and k.isidentifier()), None)
    if found is None:
        raise NoText(f"the type {dtype} has no name in triton.language")
    return found


class _Writer:
    def __init__(self):
        self.lines, self.functions = [], []  # what names mean, and definitions
        self.bound = {}  # name -> (what it means, how it is written)
        self.opened = {}  # jitted functions that are written, by id

    def bind(self, name, value, text):
        known = self.bound.get(name)
        if known is not None:
            if known[0] is not value and known[1] != text:
                raise NoText(f"`{name}` means one thing in one of its functions and another in the next")
            return
        self.bound[name] = (value, text)
        if text:
            self.lines.append(text)

    def jitted(self, function):
        """The function's name, once it and all that it uses is written."""
        name = function.fn.__name__
        if id(function) in self.opened:
            return name
        self.opened[id(function)] = function  # held, so that the number stays its own
        self.bind(name, function, "")
        scope = _scope(function)
        plain, dotted = _names(function)
        for used in plain:
            if used in scope and not (scope[used] is function and used == name):
                self.used(used, scope[used], [second for first, second in dotted if first == used])
        if isinstance(function, _ConstexprFunction):
            self.functions.append(f"\n\n@triton.constexpr_function\n{function.src.rstrip()}\n")
            return name
        options = [f"{o}=True" for o in ("noinline", "debug") if getattr(function, o, False)]
        for option in ("do_not_specialize", "do_not_specialize_on_alignment"):
            if given := getattr(function, option, None):
                options.append(f"{option}={list(given)!r}")
        decorator = f"@triton.jit({', '.join(options)})" if options else "@triton.jit"
        self.functions.append(f"\n\n{decorator}\n{function.src.rstrip()}\n")
        return name

    def used(self, name, value, parts=()):
        """`parts`: what is used of it, where it is a module."""
        if isinstance(value, types.ModuleType) and any(_has_source(getattr(value, p, None)) for p in parts):
            self.module(name, value, parts)
        elif isinstance(value, types.ModuleType):
            self.bind(name, value, f"import {value.__name__} as {name}" if name != value.__name__ else f"import {name}")
        elif _has_source(value):
            made = self.jitted(value)
            if made != name:
                self.functions.append(f"\n\n{name} = {made}\n")
                self.bind(name, value, "")
        elif _is_jitted(value):
            self.bind(name, value, f"from {value.fn.__module__} import {value.fn.__name__} as {name}")
        elif isinstance(value, tl.dtype) or value is None or isinstance(value, (tuple, list)):
            self.bind(name, value, f"{name} = {literal(value)}")
        elif isinstance(value, (bool, int, float, str, tl.constexpr)):
            self.bind(name, value, f"{name} = triton.language.constexpr({literal(value)})")
        elif _is_tritons(value) and hasattr(value, "__qualname__"):
            self.bind(name, value, f"from {value.__module__} import {value.__qualname__} as {name}")
        else:
            raise NoText(f"`{name}` is a {type(value).__name__}, which has no text")

    def module(self, name, value, parts):
        """One of the user's, with functions that kernels call: a module of the same name that has what they use."""
        if name not in self.bound:
            self.bind("types", types, "import types")
            self.bind(name, value, f'{name} = types.ModuleType("{name}")')
        elif self.bound[name][0] is not value:
            raise NoText(f"`{name}` means one thing in one of its functions and another in the next")
        for part in parts:
            given = getattr(value, part)
            if _has_source(given):
                self.functions.append(f"\n\n{name}.{part} = {self.jitted(given)}\n")
            elif isinstance(given, tl.constexpr) or type(given) in (bool, int, float, str):
                self.functions.append(f"\n\n{name}.{part} = triton.language.constexpr({literal(given)})\n")
            else:
                raise NoText(f"`{name}.{part}` is a {type(given).__name__}, which has no text")

    def text(self):
        head = [line for line in self.lines if line.startswith(("import ", "from "))]
        rest = [line for line in self.lines if line not in head and line]
        first = (
            [] if self.bound.get("triton", (triton,))[0] is not triton else ["import triton", "import triton.language"]
        )
        lines = [*first, *(line for line in head if line not in first), *([""] if rest else []), *rest]
        return "\n".join(lines) + "\n" + "".join(self.functions)


def program_text(kernel, constants):
    """The text, and the constants as expressions over its names. Raises NoText."""
    writer = _Writer()
    writer.jitted(kernel)
    written = {name: literal(value, writer.jitted) for name, value in constants.items()}
    return writer.text(), written


def _pieces(function, seen):
    """All that the compiled code of a function depends on, as strings: its text, and what its names mean."""
    if id(function) in seen:
        return
    seen[id(function)] = function
    yield f"def {function.fn.__name__}"
    yield function.src
    yield f"noinline {getattr(function, 'noinline', False)} debug {getattr(function, 'debug', False)}"
    scope = _scope(function)
    plain, dotted = _names(function)
    meanings = {name: scope[name] for name in sorted(plain) if name in scope}
    for first, second in sorted(dotted):
        module = scope.get(first)
        if isinstance(module, types.ModuleType) and module.__name__.split(".")[0] != "triton":
            meanings[f"{first}.{second}"] = getattr(module, second, None)
    for name, value in meanings.items():
        if isinstance(value, types.ModuleType):
            yield f"{name} module {value.__name__}"
        elif _has_source(value):
            yield f"{name} function"
            yield from _pieces(value, seen)
        elif _is_tritons(value):
            yield f"{name} {getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value)}"
        elif inspect.isroutine(value) or inspect.isclass(value):
            yield f"{name} {value.__module__}.{value.__qualname__} {_text_of(value)}"
        else:
            yield f"{name} = {type(value).__name__} {value!r}"


def _text_of(value):
    """Of a user's plain function or class, if it was written in Python."""
    if value.__module__.split(".")[0] in ("builtins", "numpy", "torch"):
        return ""
    try:
        return inspect.getsource(value)
    except (OSError, TypeError):
        return ""


def key(kernel, *facts):
    """A hash of the kernel's source with all that it calls and reads, of `facts` and of Triton's version. It does not
    depend on where in its file a function stands.
    """
    hasher = hashlib.sha256()
    constants = facts[0] if facts else {}
    seen = {}
    pieces = [*_pieces(kernel, seen)]
    for name, value in sorted(constants.items()):
        pieces.append(f"constant {name} {value!r}" if not isinstance(value, triton.JITFunction) else f"constant {name}")
        if isinstance(value, triton.JITFunction):
            pieces += _pieces(value, seen)
    for piece in (*pieces, *(repr(f) for f in facts[1:]), triton.__version__):
        data = piece.encode()
        hasher.update(len(data).to_bytes(8, "little") + data)
    return hasher.hexdigest()
