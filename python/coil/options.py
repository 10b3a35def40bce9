"""The options of a compile: the keys of `coil --set`, and a few that only make sense from Python."""

import collections.abc
import dataclasses
import itertools
import os
import pathlib
import sys

from . import _native, inductor_options

FACTS = ("multiple8", "atleast2", "index32")  # facts.py makes guards of them
MODES = (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")

# Keys that the command has flags for, with their help.
_OWN = {
    "cache": (
        "PATH|none",
        "folder of the kernel cache, shared between processes; $COIL_CACHE or ~/.cache/coil by default",
    ),
    "cuda.graphs": (
        "true|false",
        "on a GPU, record calls that repeat with the same memory as CUDA graphs; so do the modes reduce-overhead "
        "and max-autotune",
    ),
    "cuda.graphs_kept": (
        "N",
        "how many recorded calls a graph keeps, those last used; 8 by default (of programs that are recorded in parts, "
        "eight times as many parts)",
    ),
    "distribution.own": (
        "true|false",
        "exchanges in process groups of torch.distributed's over Gloo or NCCL are the program's own, where all ranks "
        "come to the same graphs; false leaves them to torch",
    ),
    "fallback_random": (
        "true|false",
        "leave operators that draw random numbers to torch, which draws the numbers that eager draws",
    ),
    "device": (
        "NAME",
        "where a program whose tensors lie on the CPU runs: a device that torch does not know, which a library brought "
        "(coil.load_library); its inputs are copied there and its results back",
    ),
    "freeze": (
        "true|false",
        "hold a model's weights as constants in graphs of inference, packed for the library; they are packed "
        "again after a write that torch counts (not through .data or NumPy)",
    ),
    "memory.budget": (
        "0..1",
        "in training, how much of what the forward graph would keep for the backward one it may keep, where 1, the "
        "default, keeps what is fastest and 0 computes all of it again; in steps of a tenth, and less never has a "
        "higher planned peak",
    ),
    "memory.offload": (
        "0..1",
        "in training on a GPU, how much of what the forward graph keeps for the backward one may wait in page-locked "
        "memory of the host meanwhile; 0, the default, is nothing",
    ),
    "size_facts": (
        "FACT,...",
        "facts about free sizes that a program may rely on where they hold in its first call, each a guard of "
        "torch.compile's and a recompile when it breaks: multiple8, atleast2, index32 (no tensor has more elements "
        "than 32 bits count)",
    ),
    "debug_dir": (
        "PATH",
        "a folder for what each stage made, one in it for each graph: graphs, IR before and after fusion, "
        "wrapper lines, kernels, timings",
    ),
    "log": (
        "STAGE,...",
        "stages to print to stderr, as `coil compile --log`; also by the names of torch's logs; recompiles: which "
        "guard failed, and what was compiled again; $COIL_LOGS by default",
    ),
}


# Stages by the names that TORCH_LOGS has for Inductor's.
_TORCH_NAMES = {
    "aot_graphs": "graph",
    "post_grad_graphs": "transformed",
    "ir_pre_fusion": "lower",
    "ir_post_fusion": "schedule",
    "fusion": "schedule",
    "output_code": "wrapper",
    "kernel_code": "kernels",
}


def settings():
    """All option keys: {key: (values, help)}."""
    return {key: (values, text) for key, values, text in _native.settings()} | _OWN


def default_cache():
    return pathlib.Path(os.environ.get("COIL_CACHE") or pathlib.Path.home() / ".cache" / "coil")


_debug_numbers = collections.defaultdict(itertools.count)  # of the next graph, for each folder of this process


@dataclasses.dataclass(frozen=True)
class Options:
    settings: dict
    cache: pathlib.Path | None
    log: list
    record: bool = False
    recordings: int = 8
    freeze: bool = False
    fallback_random: bool = False
    debug_dir: pathlib.Path | None = None
    size_facts: tuple = ()
    budget: float = 1.0  # of what is kept for the backward graph
    offload: float = 0.0  # of what is kept then, to the host
    recompiles: bool = False  # each recompile is told
    device: str | None = None
    own_exchanges: bool = True

    def debug_folder(self, name):
        """The folder of the next graph: numbers go on from frame to frame, and where a frame is compiled again."""
        return self.debug_dir and self.debug_dir / f"{next(_debug_numbers[self.debug_dir.absolute()])}_{name}"

    @property
    def hands_over(self):
        """Whether operators without lowering may be torch's to carry out."""
        return self.settings.get("fallback") != "false"

    def key(self):
        """What a compile depends on, besides its graph."""
        own = ([("device", self.device)] if self.device else []) + (
            [("memory.budget", str(self.budget))] if self.budget < 1 else []
        )
        own += [("memory.offload", str(self.offload))] if self.offload > 0 else []
        own += [] if self.own_exchanges else [("distribution.own", "false")]
        return sorted(self.settings.items()) + own


def _tf32(torch):
    """What torch may round to TF32, as a value of `cuda.tf32`."""

    def allowed(switch, old):
        # Since torch 2.9, which also keeps it where the old names are set; those may raise there.
        precision = getattr(switch, "fp32_precision", None)
        return old.allow_tf32 if precision is None else precision == "tf32"

    products = allowed(torch.backends.cuda.matmul, torch.backends.cuda.matmul)
    convolutions = allowed(getattr(torch.backends.cudnn, "conv", None), torch.backends.cudnn)
    return {(False, False): "none", (True, False): "products", (False, True): "convolutions", (True, True): "all"}[
        products, convolutions
    ]


def _text(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def _flag(given, key, default=False):
    text = _text(given.pop(key, default))
    if text not in ("true", "false"):
        raise _native.Error(f"option {key} takes true or false, not '{text}'")
    return text == "true"


def _count(given, key, default):
    text = str(given.pop(key, default))
    if not text.isdecimal() or not 0 < int(text) < 2**31:
        raise _native.Error(f"option {key} takes a number from 1 on, not '{text}'")
    return int(text)


def _share(given, key, default):
    value = given.pop(key, default)
    try:
        share = float(value) if not isinstance(value, bool) else -1.0
    except (TypeError, ValueError):
        share = -1.0
    if not 0 <= share <= 1:
        raise _native.Error(f"option {key} takes a number from 0 to 1, not {value!r}")
    return share


def _path(given, key):
    value = given.pop(key, None)
    if value is not None and not isinstance(value, (str, os.PathLike)):
        raise _native.Error(f"option {key} takes a path, not {value!r}")
    return value


def _words(given, key, default=""):
    """A list, or text with commas."""
    value = given.pop(key, default)
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, (list, tuple, set)) or not all(isinstance(w, str) for w in words):
        raise _native.Error(f"option {key} takes names with commas between them, not {value!r}")
    return [w.strip().lstrip("+") for w in words if w.strip()]


def _device(given):
    name = given.pop("device", None)
    if name is not None and not isinstance(name, str):
        raise _native.Error(f"option device takes the name of a device, not {name!r}")
    return name


def _facts(given):
    facts = _words(given, "size_facts")
    if unknown := [f for f in facts if f not in FACTS]:
        raise _native.Error(f"option size_facts takes {', '.join(FACTS)}, not '{unknown[0]}'")
    return tuple(facts)


def _check(options, mode):
    if mode is not None and not isinstance(mode, str) or mode not in MODES:
        raise _native.Error(f"unknown mode '{mode}'; there are {', '.join(m for m in MODES if m)}")
    if options is not None and not isinstance(options, collections.abc.Mapping):
        raise _native.Error(f"options are a dictionary, not a {type(options).__name__}")
    for key, value in (options or {}).items():
        if not isinstance(key, str):
            raise _native.Error(f"an option is named by a string, not by {key!r}")
        if isinstance(value, (dict, bytes)) or callable(value):
            raise _native.Error(f"option {key} takes text, a number, true or false, not a {type(value).__name__}")


def _of_torch(mode):
    """What torch's own switches and the mode say."""
    torch = sys.modules.get("torch")
    found = {"cuda.tf32": _tf32(torch)} if torch else {}
    if torch and torch.are_deterministic_algorithms_enabled():
        found["deterministic"] = "true"
    return found | ({"max_autotune": "true"} if mode and mode.startswith("max-autotune") else {})


def parse(options=None, mode=None):
    """Options from `torch.compile(options=…, mode=…)`, also by the names that Inductor has. Unknown keys and modes, and
    values of the wrong type, raise coil.Error with what there is.
    """
    _check(options, mode)
    given = inductor_options.of_process() | inductor_options.translated(dict(options or {}), settings())
    cache = _path(given, "cache")
    freeze, fallback_random, record = (
        _flag(given, "freeze"),
        _flag(given, "fallback_random"),
        _flag(given, "cuda.graphs", mode in ("reduce-overhead", "max-autotune")),
    )
    log = _words(given, "log", os.environ.get("COIL_LOGS", ""))
    recompiles = "recompiles" in log
    own_exchanges = _flag(given, "distribution.own", True)
    log = [_TORCH_NAMES.get(s, s) for s in log if s != "recompiles"]
    device = _device(given)
    debug_dir, facts, recordings = _path(given, "debug_dir"), _facts(given), _count(given, "cuda.graphs_kept", 8)
    budget, offload = _share(given, "memory.budget", 1.0), _share(given, "memory.offload", 0.0)
    chosen = {"fallback": "true"} | _of_torch(mode) | {k: _text(v) for k, v in given.items()}
    if chosen.get("cuda.kernels", "cuda") != "cuda":
        chosen.setdefault("cuda.python", sys.executable)
    _native.check_settings(chosen)
    return Options(
        settings=chosen,
        cache=None if cache == "none" else pathlib.Path(cache) if cache else default_cache(),
        log=log,
        record=record,
        recordings=recordings,
        freeze=freeze,
        fallback_random=fallback_random,
        debug_dir=pathlib.Path(debug_dir) if debug_dir else None,
        size_facts=facts,
        budget=budget,
        offload=offload,
        recompiles=recompiles,
        device=device,
        own_exchanges=own_exchanges,
    )
