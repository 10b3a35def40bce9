"""Peak bytes of a training step (forward, a loss, all gradients), and what its forward part keeps for the backward one:
eager's and Inductor's on the CPU, as torch's profiler counts allocations, beside what Coil plans for a GPU that need
not be there. Parameters and inputs do not count, gradients do.

usage: training_peaks.py [NAME,...] [--device cuda:0] [--no-inductor] [--dropout] [--offload SHARE] [--set ...]

The step runs under autocast to bf16. Coil's graphs are planned and then carried out by torch: `least` is what is live
at the fullest step, `pieces` what a run on torch's memory takes (runtime/plan/arena_pieces.h), `one arena` the same
with temporaries in one block for the whole run. Each is the larger of the forward graph's peak, and the backward
graph's with what was kept; scratch memory of libraries is not in it.
"""

import argparse
import contextlib
import pathlib
import sys
import unittest.mock

import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "build/python"))
from coil import budget, dynamo, joint, offload, operands  # noqa: E402
from coil.graph import translate  # noqa: E402
from common import table  # noqa: E402
from memory_budget import model_of  # noqa: E402
from peaks import allocated  # noqa: E402


class Squeezed(nn.Module):
    """A residual block of depthwise convolutions with hard activations and a gate, as mobile networks have them."""

    def __init__(self, width, wide):
        super().__init__()
        self.widen = nn.Sequential(nn.Conv2d(width, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.Hardswish())
        self.deep = nn.Sequential(
            nn.Conv2d(wide, wide, 5, padding=2, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.Hardswish()
        )
        self.gate = nn.Sequential(nn.Conv2d(wide, wide // 4, 1), nn.ReLU(), nn.Conv2d(wide // 4, wide, 1))
        self.narrow = nn.Sequential(nn.Conv2d(wide, width, 1, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        y = self.deep(self.widen(x))
        return x + self.narrow(y * nn.functional.hardsigmoid(self.gate(y.mean((2, 3), keepdim=True))))


class Mobile(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 24, 3, stride=2, padding=1), nn.Hardswish())
        self.blocks = nn.Sequential(*(Squeezed(24, 72) for _ in range(4)))
        self.head = nn.Linear(24, 10)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


class Recommender(nn.Module):
    """Dot products of embeddings and dense features between two stacks of products."""

    def __init__(self, tables=8, rows=2000, dim=32):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, dim, mode="sum") for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, dim), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(dim + pairs, 512), nn.ReLU(), nn.Linear(512, 128), nn.ReLU())
        self.last = nn.Linear(128, 1)
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1))

    def forward(self, dense, bags):
        x = self.bottom(dense)
        all = torch.stack([x, *(t(b) for t, b in zip(self.tables, bags.unbind(), strict=True))], 1)
        dots = (all @ all.mT)[:, self.pairs[0], self.pairs[1]]
        return self.last(self.top(torch.cat([x, dots], 1)))


def speech():
    import transformers

    config = transformers.Wav2Vec2Config(
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=512,
        conv_dim=(128,) * 7,
        num_conv_pos_embedding_groups=4,
        apply_spec_augment=False,
    )
    return transformers.Wav2Vec2Model(config), (torch.randn(2, 40_000),)


def of_budget(name):
    def make():
        model, given = model_of(name)
        key = next(k for k in given if k != "labels")
        return model, (given[key],)

    return make


MODELS = {name: of_budget(name) for name in ("bert", "gpt2", "resnet", "vit")} | {
    "mobile": lambda: (Mobile(), (torch.randn(8, 3, 96, 96),)),
    "recommender": lambda: (
        Recommender(),
        (torch.randn(2048, 13), torch.randint(0, 2000, (8, 2048, 4))),
    ),
    "speech": speech,
}


def step_of(function, given):
    def step():
        with torch.autocast("cpu", torch.bfloat16):
            out = function(*given)
        tensors = [out] if isinstance(out, torch.Tensor) else [v for v in out.values() if isinstance(v, torch.Tensor)]
        sum(t.float().square().mean() for t in tensors if t.is_floating_point()).backward()

    return step


def in_training(model, dropout):
    for module in model.modules():
        if isinstance(module, nn.Dropout) and not dropout:
            module.p = 0.0
    return model.train()


def kept_bytes(function, model, given):
    """Of distinct memory that autograd keeps, but parameters, buffers and inputs."""
    own = {t.untyped_storage().data_ptr() for t in (*model.parameters(), *model.buffers(), *given)}
    kept = {}

    def pack(value):
        kept[value.untyped_storage().data_ptr()] = value
        return value

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda v: v), torch.autocast("cpu", torch.bfloat16):
        held = function(*given)
    del held
    return sum(v.untyped_storage().nbytes() for at, v in kept.items() if at not in own)


def eager_or_inductor(name, compiled, dropout):
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, given = MODELS[name]()
    function = in_training(model, dropout)
    function = torch.compile(function) if compiled else function
    run = step_of(function, given)

    def step():
        model.zero_grad(set_to_none=True)
        run()

    return allocated(step)[0], kept_bytes(function, model, given)


@contextlib.contextmanager
def planning(log, device, settings):
    """Coil's graphs are planned for a device, and carried out by torch."""
    compile, place = dynamo.compile_graph, budget._place

    forward = []

    def planned(gm, options, name="main", **layouts):
        going = joint.kept_memory(forward[-1], gm) if name == "backward" else {}
        if name == "forward":
            forward.append(gm)
        traced = translate(gm, name, None, options.hands_over, options.fallback_random, **layouts)
        log.append((name, traced.planned_peaks(options.settings | settings, device, going)))
        return dynamo._InTorch(gm)

    dynamo.compile_graph, budget._place = planned, lambda traced, options: device
    try:
        # The step is traced on the CPU, where other activations would be computed again.
        with unittest.mock.patch.object(operands, "_is_on_gpu", lambda value: device.startswith("cuda")):
            yield
    finally:
        dynamo.compile_graph, budget._place = compile, place


def coil(name, device, settings, dropout, share):
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, given = MODELS[name]()
    log, options = [], {"cache": "none", "memory.offload": share} | settings
    with planning(log, device, settings):
        step_of(torch.compile(in_training(model, dropout), backend="coil", options=options), given)()
    kept = sum(p["outputs"] for kind, p in log if kind == "forward")
    return {kind: max(p[kind] for _, p in log) for kind in ("whole", "pieces", "least")} | {"kept": kept}


class Host:
    """Moves values at once, in the place of a GPU's streams."""

    def __init__(self, device):
        pass

    def send(self, slot, value):
        return value.clone()

    def fetch(self, slot, host):
        return host.clone()

    def end(self, slot):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="?", default=",".join(MODELS))
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--no-inductor", action="store_true")
    parser.add_argument("--dropout", action="store_true", help="with the models' own rates of dropout, not 0")
    parser.add_argument("--offload", type=float, default=0, help="the option memory.offload")
    parser.add_argument("--set", action="append", default=[])
    a = parser.parse_args()
    settings = dict(s.split("=", 1) for s in a.set)
    if a.device.startswith("cuda"):
        settings.setdefault("cuda.arch", "sm_90")
    offload._DEVICES, offload._MOVERS, offload._LEAST = {"cpu"}, {"cpu": Host}, 1 << 14
    rows = []
    for name in a.names.split(","):
        eager = eager_or_inductor(name, False, a.dropout)
        inductor = (None, None) if a.no_inductor else eager_or_inductor(name, True, a.dropout)
        own = coil(name, a.device, settings, a.dropout, a.offload)
        cells = [eager[0], inductor[0], own["whole"], own["pieces"], own["least"], eager[1], inductor[1], own["kept"]]
        rows.append([name, *("" if c is None else f"{c / 2**20:.2f}" for c in cells)])
        print(rows[-1], flush=True)
    peaks = ["eager", "Inductor", "Coil, one arena", "Coil, pieces", "Coil, least"]
    print(table(["MiB", *peaks, "kept: eager", "Inductor", "Coil"], rows))


if __name__ == "__main__":
    main()
