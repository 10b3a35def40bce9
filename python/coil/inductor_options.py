"""Options of Inductor's that are about the program, in Coil's names; docs/python.md has the table. Of the others a
warning names each once.
"""

import sys
import warnings

from . import _native

# Inductor's key, Coil's, and what a value of Inductor's is among Coil's; None: the same.
_TABLE = {
    "fallback_random": ("fallback_random", None),
    "max_autotune": ("max_autotune", None),
    "max_autotune_gemm": ("max_autotune", None),
    "max_autotune_pointwise": ("max_autotune", None),
    "triton.cudagraphs": ("cuda.graphs", None),
    "graph_partition": ("graphs.partition", None),
    "epilogue_fusion": ("fuse_epilogues", None),
    "freezing": ("freeze", None),
    "deterministic": ("deterministic", None),
    "size_asserts": ("assert_sizes", None),
    "nan_asserts": ("assert_nan", None),
    "assume_32bit_indexing": ("size_facts", {True: "index32", False: ""}),
    "force_disable_caches": ("cache", {True: "none", False: None}),
    "cpp.simdlen": ("cpu.isa", {None: "native", 512: "avx512", 256: "avx2", 1: "baseline", 0: "baseline"}),
}
# Options that count where they are set for the whole process, with Inductor's default.
_GLOBAL = {
    **{"fallback_random": False, "max_autotune": False, "triton.cudagraphs": False, "epilogue_fusion": True},
    "force_disable_caches": False,
}

_named = set()


NONE = object()


def setting(key):
    """What Inductor has for a key now; NONE where it knows none, or is not loaded."""
    value = sys.modules.get("torch._inductor.config", NONE)
    for part in key.split("."):
        value = getattr(value, part, NONE)
    return value


def translated(given, known):
    """Options in Coil's names. `known`: keys that Coil has; of two that say the same, Coil's counts."""
    chosen = {key: value for key, value in given.items() if key in known}
    unknown = []
    for key, value in given.items():
        if key in known:
            continue
        if key not in _TABLE:
            unknown.append(key)
            continue
        name, value = _value(key, value)
        if name not in given and value is not None:
            chosen[name] = chosen.get(name) or value
    _name([key for key in unknown if setting(key) is not NONE])
    if unknown := [key for key in unknown if setting(key) is NONE]:
        raise _native.Error(f"unknown option '{unknown[0]}'; there are {', '.join(sorted(known))}")
    return chosen


def of_process():
    """What Inductor's own settings say where they are not as Inductor has them by default."""
    now = {key: setting(key) for key in _GLOBAL}
    return dict(_value(key, v) for key, v in now.items() if v is not NONE and v != _GLOBAL[key])


def _value(key, value):
    name, values = _TABLE[key]
    if values is None:
        if not isinstance(value, bool):
            raise _native.Error(f"option {key} takes True or False, not {value!r}")
        return name, value
    if not any(type(value) is type(v) and value == v for v in values):
        raise _native.Error(f"option {key} takes {', '.join(map(repr, values))}, not {value!r}")
    return name, values[value]


def _name(keys):
    """Warns of options that do nothing, of each once."""
    fresh = [key for key in keys if key not in _named]
    _named.update(fresh)
    if fresh:
        warnings.warn(
            f"Coil has no use for these options of Inductor's and ignores them: {', '.join(fresh)}", stacklevel=2
        )
