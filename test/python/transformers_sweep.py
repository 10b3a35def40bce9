"""Models of the installed `transformers`, one class of each folder of its `models`, small and with random weights:
exported and compiled, and through torch.compile with gradients, against eager. Run by hand.

    transformers_sweep.py [FOLDER ...] [--all] [--list] [--part K/N] [--seconds N] [--report FILE]
                           [--budget SECONDS]

The folders are those of the package that hold a model, but for those whose classes the zoo has (`--all` takes these
too). Configurations are shrunk by the table of `zoo_small.py`; inputs are made from the names of what `forward` takes,
in a few sizes until eager takes them. Each folder is run in a process of its own and ends, in each of two ways, as one
of: right; WRONG; refused (by name); crash; late; no inputs (eager refuses all that were made); no program (torch
fails).
"""

import argparse
import collections
import copy
import importlib
import inspect
import json
import logging
import os
import pathlib
import re
import resource
import signal
import sys
import tempfile
import time
import warnings

import torch
import transformers

from module_sweep import afresh, tensors_of
from zoo import exported, judge
from zoo_small import Named, small, words_around_a_picture
from zoo_transformers import ids

HERE = pathlib.Path(__file__).resolve().parent
PARAMETERS = 30_000_000  # of a model at most, so that each ends in seconds
MEMORY = 12 << 30


# --- which models


def folders():
    """The folders of the package that define a model, in order."""
    root = pathlib.Path(transformers.__file__).parent / "models"
    return sorted({p.parent.name for p in root.glob("*/modeling_*.py")})


def zoo_folders():
    """Those whose classes are named in the zoo."""
    text = "".join(p.read_text() for p in HERE.glob("zoo_*.py"))
    words = set(re.findall(r"\w+", text))
    return {f for f in folders() if any(c in words for c in class_names(f))}


def class_names(folder):
    root = pathlib.Path(transformers.__file__).parent / "models" / folder
    text = "".join(p.read_text() for p in sorted(root.glob("modeling_*.py")))
    return re.findall(r"^class (\w+)\(.*(?:PreTrainedModel|GenerationMixin|Model)\b.*\):", text, re.M)


def classes(folder):
    """The models of a folder that are made from a configuration, the plain ones first."""
    found = []
    for path in sorted((pathlib.Path(transformers.__file__).parent / "models" / folder).glob("modeling_*.py")):
        module = importlib.import_module(f"transformers.models.{folder}.{path.stem}")
        for name in getattr(module, "__all__", ()):
            each = getattr(module, name, None)
            if inspect.isclass(each) and issubclass(each, transformers.PreTrainedModel) and each.config_class:
                if not name.endswith("PreTrainedModel") and "forward" in vars(each):
                    found.append(each)
    return sorted(found, key=lambda c: not c.__name__.endswith("Model"))


# --- inputs


def sizes_of(config):
    """Sizes of pictures to try, the configuration's first."""
    inner = [config, *(getattr(config, n, None) for n in ("vision_config", "backbone_config", "encoder"))]
    told = [getattr(c, "image_size", None) for c in inner if c is not None]
    flat = [max(t) if isinstance(t, (list, tuple)) else t for t in told if t]
    return list(dict.fromkeys([s for s in flat if isinstance(s, int) and s <= 384] + [32, 64, 128, 224]))


def floats(*shape):
    return torch.randn(*shape)


def table(config, size):
    """An input for each name that a `forward` may have; a dictionary of functions."""
    channels = getattr(config, "num_channels", None) or 3
    mels = getattr(config, "num_mel_bins", None) or getattr(config, "feature_size", None) or 16
    width = getattr(config, "hidden_size", None) or 32
    words = lambda: ids(2, 11)
    return {
        "input_ids": words,
        "input_ids_masked": words,
        "attention_mask": lambda: torch.ones(2, 11, dtype=torch.long),
        "decoder_input_ids": lambda: ids(2, 5),
        "bbox": lambda: torch.randint(0, 60, (2, 11, 2)).repeat(1, 1, 2).sort(-1).values,
        "pixel_values": lambda: floats(1, channels, size, size),
        "pixel_values_videos": lambda: floats(1, 4, channels, size, size),
        "pixel_mask": lambda: torch.ones(1, size, size, dtype=torch.long),
        "input_features": lambda: floats(1, mels, 40),
        "input_values": lambda: floats(1, 1600),
        "padding_mask": lambda: torch.ones(1, 1600, dtype=torch.long),
        "inputs_embeds": lambda: floats(2, 11, width),
        "hidden_states": lambda: floats(2, 11, width),
        "past_values": lambda: floats(2, getattr(config, "context_length", 16) or 16, 1),
        "position_ids": lambda: torch.arange(11)[None].repeat(2, 1),
        "token_type_ids": lambda: torch.zeros(2, 11, dtype=torch.long),
        "waveform": lambda: floats(1, 1600),
        "labels": words,
    }


VARIANTS = {
    "pixel_values": (
        lambda c, s: floats(1, 4, c, s, s),
        lambda c, s: floats(2, c, s, s),
        lambda c, s: floats(1, 2, c, s, s),
        lambda c, s: floats(16, c * 64),
    ),
    "input_features": (
        lambda c, s: floats(1, 40, 16),
        lambda c, s: floats(1, 80, 64),
        lambda c, s: floats(1, 64, 80),
        lambda c, s: floats(1, 128, 64),
        lambda c, s: floats(1, 1, 64, 64),
        lambda c, s: floats(1, 80, 3000),
    ),
    "input_values": (
        lambda c, s: floats(1, 1, 1600),
        lambda c, s: floats(1, 1, 3200),
        lambda c, s: floats(1, 64, 16),
        lambda c, s: floats(1, 1024, 128),
        lambda c, s: floats(1, 16000),
    ),
    "past_values": (lambda c, s: floats(2, 32, 7), lambda c, s: floats(2, 512, 1), lambda c, s: floats(2, 64)),
}


def attempts(model, config):
    """Dictionaries of inputs, from the likeliest on."""
    takes = inspect.signature(model.forward).parameters
    needed = [n for n, p in takes.items() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    main = model.main_input_name if model.main_input_name in takes else next(iter(takes))
    for size in sizes_of(config):
        made = table(config, size)
        names = list(dict.fromkeys([main, *needed]))
        pairs = [names] + [
            [*names, extra] for extra in ("decoder_input_ids", "input_ids", "pixel_values") if extra in takes
        ]
        for chosen in pairs:
            if all(n in made for n in chosen):
                yield {n: made[n]() for n in chosen}
        for n in names:
            for variant in VARIANTS.get(n, ()):
                if all(m in made for m in names):
                    yield {m: made[m]() for m in names} | {n: variant(getattr(config, "num_channels", 3) or 3, size)}
    if hasattr(config, "vision_config") and hasattr(model, "get_image_features"):
        yield words_around_a_picture(model, config)
    if isinstance(getattr(model, "dummy_inputs", None), dict):
        yield model.dummy_inputs


def made(cls):
    """A small model of the class; its weights are made to differ, since of equal scores top-k takes any."""
    config = cls.config_class(**small(cls.config_class, {}))
    with torch.device("meta"):
        count = sum(p.numel() for p in cls(copy.deepcopy(config)).parameters())
    if count > PARAMETERS:
        raise ValueError(f"{count} parameters")
    torch.manual_seed(0)
    model = cls(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            if p.is_floating_point() and (p.dim() < 2 or p.min() == p.max()):
                p.add_(torch.randn_like(p) * 0.05)
    return model, config


def program_of(folder):
    """(class, module, arguments) of the first class of a folder whose eager run takes one of the attempts."""
    why = []
    for cls in classes(folder)[:4]:
        try:
            model, config = made(cls)
        except Exception as e:
            why.append(f"{cls.__name__}: {type(e).__name__} {e}")
            continue
        rest = {"use_cache": False} if "use_cache" in inspect.signature(model.forward).parameters else {}
        tries = attempts(model, config)
        while True:
            try:
                given = next(tries)
            except StopIteration:
                break
            except Exception as e:
                why.append(f"{cls.__name__}: {type(e).__name__} {e}")
                break
            module = Named(model, list(given), rest)
            try:
                torch.manual_seed(3)
                if not tensors_of(module(*afresh(tuple(given.values())))):
                    continue
            except Exception as e:
                why.append(f"{cls.__name__} of {list(given)}: {type(e).__name__} {e}")
                continue
            return cls, module, tuple(given.values())
    raise LookupError(why[0] if why else "no class")


# --- verdicts


def outcome(call, module, args):
    """Results, and gradients of the weights and of inputs that are floats."""
    module.zero_grad()
    args = tuple(a.detach().clone().requires_grad_(a.is_floating_point()) for a in args)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        results = tensors_of(call(*args))
        graded = [t for t in results if t.requires_grad]
        weights = lambda t: torch.linspace(0.1, 1, t.numel(), dtype=t.dtype).reshape(t.shape)
        if graded:
            sum((t * weights(t)).sum() for t in graded).backward()
    named = [(f"argument {k}", a) for k, a in enumerate(args)] + list(module.named_parameters())
    return {f"result {k}": t.detach() for k, t in enumerate(results)} | {n: t.grad for n, t in named}


def far(got, want, exact):
    """In words, how a value differs by more than rounding explains; `exact` is the same in f64."""
    if got is None or want is None:
        return "" if got is want else "one of them is None"
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return f"{got.dtype} {tuple(got.shape)}, not {want.dtype} {tuple(want.shape)}"
    if not want.is_floating_point():
        return "" if torch.equal(got, want) else f"{(got != want).sum()} of {want.numel()} elements differ"
    if not torch.equal(got.isfinite(), want.isfinite()):
        return "other elements are finite"
    known = want.isfinite()
    got, want = got[known].double(), want[known].double()
    scale = want.abs().max().item() if want.numel() else 0
    error = (got - want).abs().max().item() if want.numel() else 0
    if error <= 2e-4 * scale + 1e-6:
        return ""
    if exact is not None:
        near = exact[known].double()
        if (got - near).norm() <= 2 * (want - near).norm() + 1e-5 * near.norm():
            return ""
    return f"{error:g} of {scale:g}"


def exact_outcome(module, args):
    try:
        wide = copy.deepcopy(module).double()
        return outcome(wide, wide, tuple(a.double() if a.is_floating_point() else a for a in args))
    except Exception:
        return {}


def compiled(module, args):
    """The verdict of torch.compile with gradients."""
    torch._dynamo.reset()
    want = outcome(module, module, args)
    try:
        got = outcome(torch.compile(module, backend="coil"), module, args)
    except Exception as e:
        try:
            outcome(torch.compile(module, backend="aot_eager"), module, args)
        except Exception as other:
            return "no program", f"{type(other).__name__} {other}"
        return "crash" if "internal" in str(e) else "refused", f"{type(e).__name__} {e}"
    wrong = differing(got, want, {}) and differing(got, want, exact_outcome(module, args))
    if wrong:
        torch._dynamo.reset()
        again = outcome(module, module, args)
        if differing(again, want, {}):
            return "no program", "eager has other results at each call"
        other = outcome(torch.compile(module, backend="aot_eager"), module, args)
        if differing(other, want, exact_outcome(module, args)):
            return "no program", "torch.compile has other results than eager with every backend"
        return "WRONG", " | ".join(wrong[:4])
    return "right", f"{sum(g is not None for g in got.values())} values"


def differing(got, want, exact):
    if got.keys() != want.keys():
        return [f"{len(got)} values, not {len(want)}"]
    why = {name: far(got[name], want[name], exact.get(name)) for name in want}
    return [f"{name}: {w}" for name, w in why.items() if w]


def package(module, args):
    """The verdict of the exported program, as the command compiles and runs it."""
    _, program = next(exported(module, args, None))
    if isinstance(program, Exception):
        return "no program", f"{type(program).__name__} {program}"
    with tempfile.TemporaryDirectory() as folder:
        return judge(program, module, [args], folder)[:2]


def verdicts(folder):
    """Prints a line of JSON for each way."""
    tell = lambda **what: print(json.dumps(dict(folder=folder, **what)), flush=True)
    try:
        cls, module, args = program_of(folder)
    except Exception as e:
        return tell(way="both", verdict="no inputs", why=str(e)[:300])
    for way, run in (("package", package), ("compile", compiled)):
        try:
            verdict, why = run(module, args)
        except Exception as e:
            verdict, why = "crash", f"{type(e).__name__} {e}"
        tell(cls=cls.__name__, way=way, verdict=verdict, why=re.sub(r"\s+", " ", why)[:600])


# --- a process for each


def apart(folder, seconds):
    """The lines that a process of its own prints about the folder."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.setsid()
        os.close(reader)
        os.dup2(writer, 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        sys.stdout = os.fdopen(1, "w", closefd=False)
        try:
            verdicts(folder)
        finally:
            os._exit(0)
    os.close(writer)
    status, start, late = None, time.monotonic(), False
    while status is None:
        done, code = os.waitpid(child, os.WNOHANG)
        status = code if done else None
        if status is None and time.monotonic() - start > seconds:
            os.killpg(child, signal.SIGKILL)
            late, status = True, os.waitpid(child, 0)[1]
        time.sleep(0.05)
    with os.fdopen(reader) as told:
        lines = [json.loads(line) for line in told if line.startswith("{")]
    if late or status:
        why = f"more than {seconds} s" if late else f"the process died of {status}"
        way = "both" if not lines else "compile"
        lines.append(dict(folder=folder, way=way, verdict="late" if late else "crash", why=why))
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--all", action="store_true", help="the folders that the zoo has, too")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--part", default="0/1", help="K/N: every N-th folder from the K-th on")
    parser.add_argument("--seconds", type=int, default=100, help="for a folder")
    parser.add_argument("--report", type=pathlib.Path, help="JSON lines; folders that it has already are left out")
    parser.add_argument("--budget", type=int, default=10**6, help="seconds after which no further folder is begun")
    a = parser.parse_args()
    part, parts = map(int, a.part.split("/"))
    left_out = set() if a.all else zoo_folders()
    chosen = a.folders or [f for f in folders() if f not in left_out][part::parts]
    if a.list:
        return print(*chosen, sep="\n")
    told = a.report.read_text().splitlines() if a.report and a.report.exists() else []
    known = {json.loads(line)["folder"] for line in told}
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    start, counts = time.monotonic(), collections.Counter()
    for folder in chosen:
        if folder in known or time.monotonic() - start > a.budget:
            continue
        for line in apart(folder, a.seconds):
            counts[line["way"], line["verdict"]] += 1
            told.append(json.dumps(line))
            print(f"{folder:28s} {line['way']:8s} {line['verdict']:10s} {line['why'][:300]}", flush=True)
            if a.report:
                a.report.write_text("\n".join(told) + "\n")
    for (way, verdict), count in sorted(counts.items()):
        print(f"{way:8s} {verdict:10s} {count}")


if __name__ == "__main__":
    main()
