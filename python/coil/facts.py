"""Facts about free sizes that a program relies on: each becomes a guard of torch's shape environment, so that Dynamo
compiles again when one no longer holds. There are none but for what a compile cannot do without, and what the option
`size_facts` asks for.
"""

import math

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils._sympy.functions import Mod

_MOST = 2**31 - 1  # elements that 32 bits count


def numbers_of(tensor):
    """What tells how a tensor lies in memory: sizes, strides and offset, some of them perhaps free."""
    return *tensor.shape, *tensor.stride(), tensor.storage_offset()


def _sizes(gm):
    """The backed symbols of a graph's inputs: {sympy symbol: its ShapeEnv}."""
    found = {}

    def look(value):
        if isinstance(value, torch.Tensor):
            for s in numbers_of(value):
                look(s)
        elif isinstance(value, torch.SymInt):
            for symbol in value.node.expr.free_symbols:
                if not free_unbacked_symbols(symbol):
                    found[symbol] = value.node.shape_env

    for node in gm.graph.nodes:
        if node.op == "placeholder":
            look(node.meta.get("val"))
    return found


def _hint(symbol, env):
    values = env.backed_var_to_val if hasattr(env, "backed_var_to_val") else env.var_to_val
    value = values.get(symbol)
    return None if value is None else int(value)


def _guard(condition, env):
    """Makes a condition that its hints fulfil a guard. False where the environment takes no more."""
    if env.frozen:
        return False
    return bool(env.evaluate_expr(condition))


def fix(gm, names):
    """Gives free sizes, by name, their values of now, by a guard of each. False where one of them has none or can no
    longer be guarded, and nothing has changed.
    """
    sizes = {symbol.name: (symbol, env) for symbol, env in _sizes(gm).items()}
    if not names or not all(name in sizes and _hint(*sizes[name]) is not None for name in names):
        return False
    return all(_guard(sympy.Eq(symbol, _hint(symbol, env)), env) for symbol, env in map(sizes.get, names))


def names_in(nodes):
    """The names of free sizes that tell how the tensors of these nodes, and of their operands, lie in memory."""
    tensors = [n.meta.get("val") for node in nodes for n in (node, *node.all_input_nodes)]
    numbers = [s for t in tensors if isinstance(t, torch.Tensor) for s in numbers_of(t)]
    return sorted({symbol.name for s in numbers if isinstance(s, torch.SymInt) for symbol in s.node.expr.free_symbols})


def wanted(gm, kinds):
    """Makes guards of the facts of these kinds (options.FACTS) that hold for the sizes of now. Gives the conditions, as
    sympy has them.
    """
    sizes = {symbol: env for symbol, env in _sizes(gm).items() if _hint(symbol, env)}
    conditions = []
    for symbol, env in sizes.items():
        hint = _hint(symbol, env)
        if "multiple8" in kinds and hint % 8 == 0:
            conditions.append((sympy.Eq(Mod(symbol, 8), 0), env))
        if "atleast2" in kinds and hint >= 2:
            conditions.append((sympy.Ge(symbol, 2), env))
    if "index32" in kinds:
        conditions += [(sympy.Le(symbol, most), sizes[symbol]) for symbol, most in _largest(gm, sizes).items()]
    return [c for c, env in conditions if c not in (sympy.true, sympy.false) and _guard(c, env)]


def _largest(gm, sizes):
    """For each size the most that it may be so that no tensor of the graph has more elements than 32 bits count: all
    grow by the same factor. Empty where one has too many now.
    """
    counts = set()
    for node in gm.graph.nodes:
        values = node.meta.get("val")
        for value in values if isinstance(values, (list, tuple)) else [values]:
            if isinstance(value, torch.Tensor):
                numel = value.numel()
                if isinstance(numel, torch.SymInt) and numel.node.expr.free_symbols <= sizes.keys():
                    counts.add(numel.node.expr)
    symbols = list(sizes)
    functions = [sympy.lambdify(symbols, e, modules=[{"Mod": lambda a, b: a % b}, "math"]) for e in _plain(counts)]
    hints = [_hint(s, sizes[s]) for s in symbols]

    def fits(factor):
        return all(f(*(int(h * factor) for h in hints)) <= _MOST for f in functions)

    if not functions or not fits(1):
        return {}
    low, high = 1.0, float(_MOST)
    for _ in range(64):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return {s: int(h * low) for s, h in zip(symbols, hints)}


def _plain(counts):
    """Those that sympy can evaluate without torch's own functions."""
    return sorted((e for e in counts if not e.atoms(sympy.Function)), key=str)
