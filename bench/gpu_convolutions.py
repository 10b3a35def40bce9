"""Convolutions drawn at random, each alone, on a GPU in 16 bits: eager and Coil, on the device's clock.

usage: gpu_convolutions.py [--count N] [--seed N] [--channels usual|odd] [--train] [--seconds N] [--results FILE]

One to three dimensions, transposed or not, any window, stride and dilation, rows or channels innermost, with and
without a bias and an activation. A result is right where its distance from f32 is at most one and a half times eager's,
and its strides are eager's but for dimensions of size 1; with `--train` the gradients too. The slowest rows are printed
with both sides' kernels; FILE holds [name, eager, Coil] in milliseconds of all kernels of a call.
"""

import argparse
import copy
import json
import math
import pathlib
import random
import time
from dataclasses import dataclass

import torch
from torch import nn

import zoo_gpu

DEVICE = "cuda"
CHANNELS = {
    "usual": [1, 2, 3, 5, 8, 12, 16, 24, 32, 48, 64, 72, 96, 100, 128, 160, 192, 200, 256, 384, 512],
    "odd": [1, 2, 3, 4, 5, 6, 10, 12, 18, 20, 21, 30, 36, 50, 64, 72, 100, 128, 130],
}
KINDS = [nn.Conv1d, nn.Conv2d, nn.Conv3d], [nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d]
MULTIPLICATIONS = [2e8, 2e9]  # of a drawn convolution, about, for each of its results' channels
LONGEST = {1: 20_000, 2: 256, 3: 40}
MOST_INPUT = 100_000_000  # elements


@dataclass
class Drawn:
    name: str
    module: nn.Module
    x: torch.Tensor
    activation: object

    def __call__(self, x):
        y = self.module(x)
        return self.activation(y) if self.activation else y

    def exact(self):
        return Drawn(self.name, copy.deepcopy(self.module).float(), self.x.float(), self.activation)


def draw(chance, channels):
    """None where the input would be too large."""
    rank, transposed = chance.choice([1, 2, 2, 2, 2, 3]), chance.random() < 0.15
    inputs, outputs, samples = chance.choice(channels), chance.choice(channels), chance.choice([1, 4, 16])
    window = [chance.choice([1, 3, 3, 5, 7])] * rank
    if chance.random() < 0.3:
        window = [chance.choice([1, 1, 3, 3, 5, 7]) for _ in range(rank)]
    stride, dilation = chance.choice([1, 1, 1, 2]), chance.choice([1, 1, 1, 2])
    places = chance.choice(MULTIPLICATIONS) / (samples * inputs * outputs * math.prod(window))
    side = min(int(places ** (1 / rank)) * (1 if transposed else stride), LONGEST[rank])
    sizes = [max(max(window) * dilation + 1, side) + chance.choice([0, 0, 1]) for _ in range(rank)]
    dtype, last = chance.choice([torch.bfloat16, torch.float16]), rank == 2 and chance.random() < 0.4
    kind, activation = KINDS[transposed][rank - 1], chance.choice([None, torch.relu, nn.functional.silu])
    bias = chance.random() < 0.6
    if samples * inputs * math.prod(sizes) > MOST_INPUT:
        return None
    module = kind(inputs, outputs, window, stride, [k // 2 for k in window], dilation=dilation, bias=bias)
    x = torch.randn(samples, inputs, *sizes, device=DEVICE, dtype=dtype)
    layout = " channels last" if last else ""
    name = f"{kind.__name__} {inputs} to {outputs}, window {window}, stride {stride}, dilation {dilation}, "
    name += f"x {list(x.shape)}{layout} {dtype}"
    if last:
        x = x.contiguous(memory_format=torch.channels_last)
    return Drawn(name, module.to(DEVICE, dtype), x, activation)


def distance(given, wanted):
    return ((given.float() - wanted).norm() / wanted.norm()).item()


def call_of(function, drawn, dy):
    """What is called and timed: the result, or with a gradient of it also those of the operands."""
    if dy is None:
        return lambda: [function(drawn.x)]
    x, dy = drawn.x.detach().requires_grad_(), dy.to(drawn.x.dtype)

    def step():
        y = function(x)
        return [y.detach(), *torch.autograd.grad(y, [x, *drawn.module.parameters()], dy)]

    return step


def strides(x):
    """Where fake tensors record other strides than eager's along dimensions of size 1, so does every compiler."""
    return [stride for stride, size in zip(x.stride(), x.shape) if size > 1]


def wrong(got, eager, wanted):
    for g, e, w in zip(got, eager, wanted):
        theirs, ours = distance(e, w), distance(g, w)
        if not ours <= 1.5 * theirs + 1e-4:
            return f"{ours:.2g} from f32, eager {theirs:.2g}"
        if strides(g) != strides(e):
            return f"strides {g.stride()}, eager {e.stride()}"
    return None


def measure(drawn, train):
    """Milliseconds and kernels of eager and of Coil, and what is wrong with Coil's results."""
    torch._dynamo.reset()
    exact = drawn.exact()
    dy = torch.randn_like(exact(exact.x)) if train else None
    compiled = torch.compile(drawn.__call__, backend="coil", dynamic=False, options={"fallback": False})
    with torch.set_grad_enabled(train):
        sides = [call_of(f, drawn, dy) for f in (drawn, compiled)]
        eager, got = (side() for side in sides)
        fault = wrong(got, eager, call_of(exact, exact, dy)())
        return [zoo_gpu.longest_kernels(side, 4) for side in sides], fault


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--channels", choices=CHANNELS, default="usual")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--results", type=pathlib.Path)
    a = parser.parse_args()
    chance, end = random.Random(a.seed), time.monotonic() + a.seconds
    torch.manual_seed(a.seed)
    torch.backends.cudnn.allow_tf32 = False
    rows, faults = [], 0
    for _ in range(a.count):
        drawn = draw(chance, CHANNELS[a.channels])
        if drawn is None or time.monotonic() > end:
            continue
        (eager, coil), fault = measure(drawn, a.train)
        rows.append((eager["device_ms"] / coil["device_ms"], drawn.name, eager, coil))
        if fault:
            faults += 1
            print(f"WRONG {drawn.name}: {fault}", flush=True)
    rows.sort(key=lambda row: row[0])
    for ratio, name, *sides in rows[:12]:
        print(f"{ratio:.2f}  {name}")
        for side, label in zip(sides, ("eager", "Coil")):
            kernels = ", ".join(f"{key[:60]} {ms}" for ms, _, key in side["kernels"])
            print(f"      {label} {side['device_ms']}: {kernels}")
    mean = math.exp(sum(math.log(row[0]) for row in rows) / max(len(rows), 1))
    print(f"{len(rows)} of {a.count}, {faults} wrong; eager over Coil {mean:.2f} in geometric mean,", end=" ")
    print(f"{sum(row[0] < 1 for row in rows)} below 1")
    if a.results:
        a.results.write_text(json.dumps([[name, e["device_ms"], c["device_ms"]] for _, name, e, c in rows]))


if __name__ == "__main__":
    main()
