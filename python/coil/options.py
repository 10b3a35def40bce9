"""The options of a compile: the keys of `coil --set`, and a few that only make sense from Python."""

import dataclasses
import itertools
import os
import pathlib
import sys

from . import _native

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
    "fallback_random": (
        "true|false",
        "leave operators that draw random numbers to torch, which draws the numbers that eager draws",
    ),
    "freeze": (
        "true|false",
        "hold a model's weights as constants in graphs of inference, packed for the library; they are packed "
        "again after a write that torch counts (not through .data or NumPy)",
    ),
    "debug_dir": (
        "PATH",
        "a folder for what each stage made, one in it for each graph: graphs, IR before and after fusion, "
        "wrapper lines, kernels, timings",
    ),
    "log": (
        "STAGE,...",
        "stages to print to stderr, as `coil compile --log`; also by the names of torch's logs; $COIL_LOGS by default",
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


@dataclasses.dataclass(frozen=True)
class Options:
    settings: dict
    cache: pathlib.Path | None
    log: list
    record: bool = False
    freeze: bool = False
    fallback_random: bool = False
    debug_dir: pathlib.Path | None = None
    numbers: itertools.count = dataclasses.field(default_factory=itertools.count, compare=False)

    def debug_folder(self, name):
        """The folder of the next graph."""
        return self.debug_dir and self.debug_dir / f"{next(self.numbers)}_{name}"

    @property
    def hands_over(self):
        """Whether operators without lowering may be torch's to carry out."""
        return self.settings.get("fallback") != "false"

    def key(self):
        """What a compile depends on, besides its graph."""
        return sorted(self.settings.items())


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


def parse(options=None, mode=None):
    """Options from `torch.compile(options=…, mode=…)`. Unknown keys and modes raise coil.Error with the list of those
    that exist.
    """
    if mode not in MODES:
        raise _native.Error(f"unknown mode '{mode}'; there are {', '.join(m for m in MODES if m)}")
    given = dict(options or {})
    if unknown := [k for k in given if k not in settings()]:
        raise _native.Error(f"unknown option '{unknown[0]}'; there are {', '.join(sorted(settings()))}")
    cache = given.pop("cache", None)

    def flag(key, default=False):
        text = _text(given.pop(key, default))
        if text not in ("true", "false"):
            raise _native.Error(f"option {key} takes true or false, not '{text}'")
        return text == "true"

    freeze, fallback_random, record = (
        flag("freeze"),
        flag("fallback_random"),
        flag("cuda.graphs", mode in ("reduce-overhead", "max-autotune")),
    )
    log = given.pop("log", os.environ.get("COIL_LOGS", ""))
    log = [s.strip().lstrip("+") for s in log.split(",") if s.strip()] if isinstance(log, str) else list(log)
    log = [_TORCH_NAMES.get(s, s) for s in log]
    debug_dir = given.pop("debug_dir", None)
    torch = sys.modules.get("torch")
    of_torch = {"cuda.tf32": _tf32(torch)} if torch else {}
    if torch and torch.are_deterministic_algorithms_enabled():
        of_torch["deterministic"] = "true"
    chosen = (
        {"fallback": "true"}
        | of_torch
        | ({"max_autotune": "true"} if mode and mode.startswith("max-autotune") else {})
        | {k: _text(v) for k, v in given.items()}
    )
    _native.check_settings(chosen)
    folder = None if cache == "none" else pathlib.Path(cache) if cache else default_cache()
    return Options(chosen, folder, log, record, freeze, fallback_random, pathlib.Path(debug_dir) if debug_dir else None)
