"""Training steps of programs with recurrent layers on a GPU: eager, Inductor, Coil and Coil with CUDA graphs, each side
in a process of its own, since Dynamo remembers what code one backend gave no graph for.

usage: gpu_recurrent_training.py [NAME,...] [--sides NAME,...] [--types NAME,...] [--small] [--device cuda]
[--set KEY=VALUE ...]     settings of Coil's sides
A step is forward, loss, backward, in f32 or in f32 under autocast to bf16. Milliseconds of a step (median of calls that
are waited for one by one), seconds of the first, MiB of torch's allocator at the peak, breaks of Dynamo's graph, and
how far loss and gradients lie from eager's in f32, relative to those. `--small --device cpu`: that the programs run.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

SIDES = {"eager": None, "inductor": "inductor", "coil": "coil", "coil-graphs": "coil"}
TYPES = ("f32", "bf16")


class Tagger(nn.Module):
    """Each word of a sentence gets a tag, by two layers in both directions."""

    def __init__(self, words=20_000, dim=256, tags=32):
        super().__init__()
        self.embed = nn.Embedding(words, dim)
        self.lstm = nn.LSTM(dim, dim, num_layers=2, batch_first=True, bidirectional=True)
        self.last = nn.Linear(2 * dim, tags)

    def forward(self, ids, tags):
        return F.cross_entropy(self.last(self.lstm(self.embed(ids))[0]).flatten(0, 1).float(), tags.flatten())


class Encoder(nn.Module):
    """Gated units in two layers, of whose rows those that count are averaged."""

    def __init__(self, features=128, hidden=512):
        super().__init__()
        self.norm = nn.LayerNorm(features)
        self.rnn = nn.GRU(features, hidden, 2, batch_first=True)
        self.last = nn.Linear(hidden, features)

    def forward(self, x, counts):
        rows, state = self.rnn(self.norm(x))
        mask = torch.arange(x.shape[1], device=x.device) < counts[:, None]
        mean = (rows * mask[..., None]).sum(1) / counts[:, None]
        return F.mse_loss(self.last(mean).float(), x.mean(1)) + state[-1].float().square().mean()


class Crf(nn.Module):
    """Tags of a sentence, each of which depends on the one before: the sum over all ways through them (CRF)."""

    def __init__(self, words=20_000, dim=128, tags=12):
        super().__init__()
        self.embed = nn.Embedding(words, dim)
        self.lstm = nn.LSTM(dim, dim, batch_first=True, bidirectional=True)
        self.last = nn.Linear(2 * dim, tags)
        self.follows = nn.Parameter(torch.zeros(tags, tags))

    def forward(self, ids, tags):
        scores = self.last(self.lstm(self.embed(ids))[0]).float()
        along = scores.gather(2, tags[..., None]).sum((1, 2)) + self.follows[tags[:, :-1], tags[:, 1:]].sum(1)
        ways = scores[:, 0]
        for row in scores.unbind(1)[1:]:
            ways = torch.logsumexp(ways[:, :, None] + self.follows, 1) + row
        return (torch.logsumexp(ways, 1) - along).mean()


class Translator(nn.Module):
    """Words that are read, and attended to while others are written with their own words."""

    def __init__(self, words=10_000, dim=256):
        super().__init__()
        self.source, self.target = nn.Embedding(words, dim), nn.Embedding(words, dim)
        self.read, self.write = nn.LSTM(dim, dim, batch_first=True), nn.LSTM(dim, dim, batch_first=True)
        self.join, self.last = nn.Linear(2 * dim, dim), nn.Linear(dim, words)

    def forward(self, source, target):
        memory, state = self.read(self.source(source))
        rows, _ = self.write(self.target(target[:, :-1]), state)
        weights = (rows @ memory.transpose(1, 2) / 16).softmax(-1)
        made = self.last(torch.tanh(self.join(torch.cat([rows, (weights @ memory).to(rows.dtype)], -1))))
        return F.cross_entropy(made.flatten(0, 1).float(), target[:, 1:].flatten())


def words(batch, steps, count):
    return torch.randint(0, count, (batch, steps))


PROGRAMS = {  # the module, and inputs for so many rows and steps
    "tagger": (Tagger, lambda n, t: (words(n, t, 20_000), words(n, t, 32)), (64, 64)),
    "encoder": (Encoder, lambda n, t: (torch.randn(n, t, 128), torch.randint(1, t + 1, (n,))), (64, 128)),
    "crf": (Crf, lambda n, t: (words(n, t, 20_000), words(n, t, 12)), (64, 32)),
    "translator": (Translator, lambda n, t: (words(n, t, 10_000), words(n, t, 10_000)), (64, 48)),
}


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def program(name, small, device):
    made, inputs, (rows, steps) = PROGRAMS[name]
    torch.manual_seed(0)
    module = made()
    given = inputs(4, 9) if small else inputs(rows, steps)
    return module.to(device), [t.to(device) for t in given]


def step_of(module, function, inputs, dtype, device):
    def step():
        module.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16, enabled=dtype == "bf16"):
            loss = function(*inputs)
        loss.backward()
        return loss

    return step


def results(module, loss):
    return [loss.detach().float().cpu(), *(p.grad.float().cpu() for p in module.parameters())]


def distance(got, want):
    return max(((g - w).norm() / w.norm().clamp_min(1e-12)).item() for g, w in zip(got, want))


def measure(name, side, dtype, a):
    """The figures of one side, in this process."""
    torch._dynamo.config.cache_size_limit = 64
    module, inputs = program(name, a.small, a.device)
    exact = step_of(module, module, inputs, "f32", a.device)
    want = results(module, exact())
    function = module
    if side == "inductor":
        function = torch.compile(module, backend="inductor")
    elif side != "eager":
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "build" / "python"))
        options = dict(s.split("=", 1) for s in a.set) | {"cache": "none"}
        if side == "coil-graphs":
            options["cuda.graphs"] = True
        function = torch.compile(module, backend="coil", options=options)
    step = step_of(module, function, inputs, dtype, a.device)
    begin = time.perf_counter()
    loss = step()
    synchronize(a.device)
    figures = {
        "first_s": round(time.perf_counter() - begin, 2),
        "distance": float(f"{distance(results(module, loss), want):.2g}"),
    }
    for _ in range(4):
        step()
    figures["distance_later"] = float(f"{distance(results(module, step()), want):.2g}")
    if a.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(5 if a.small else 25):
        begin = time.perf_counter()
        step()
        synchronize(a.device)
        times.append(time.perf_counter() - begin)
    figures["ms"] = round(statistics.median(times) * 1e3, 3)
    if a.device == "cuda":
        figures["peak_mib"] = round(torch.cuda.max_memory_allocated() / (1 << 20), 1)
    figures["breaks"] = sum(torch._dynamo.utils.counters["graph_break"].values())
    return figures


def in_process(name, side, dtype, a):
    command = [sys.executable, __file__, name, "--one", "--sides", side, "--types", dtype, "--device", a.device]
    command += ["--small"] * a.small + [part for s in a.set for part in ("--set", s)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        return {"error": (done.stderr.strip().splitlines() or ["nothing was printed"])[-1][:300]}
    return json.loads(lines[-1])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="?", default=",".join(PROGRAMS))
    p.add_argument("--sides", default=",".join(SIDES))
    p.add_argument("--types", default=",".join(TYPES))
    p.add_argument("--device", default="cuda")
    p.add_argument("--small", action="store_true")
    p.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    p.add_argument("--set", action="append", default=[])
    a = p.parse_args()
    if a.one:
        return print(json.dumps(measure(a.names, a.sides, a.types, a)))
    for name in a.names.split(","):
        for dtype in a.types.split(","):
            base = None
            for side in a.sides.split(","):
                figures = in_process(name, side, dtype, a)
                if "ms" in figures:
                    base = base or figures["ms"]
                    figures["of_first_side"] = round(base / figures["ms"], 2)
                print(name, dtype, side, json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
