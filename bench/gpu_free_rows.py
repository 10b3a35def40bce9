"""What free sizes cost the memory-bound rows on a GPU: microseconds on the device alone, by eager, Inductor with
dynamic=True, Coil compiled for the sizes, and Coil with dynamic=True, compiled for other sizes before.

usage: gpu_free_rows.py [NAME,...] [--seconds N] [--sides NAME,...] [--set KEY=VALUE ...]
With --set, Coil with free sizes is also timed with each of these settings by itself, such as cuda.alternatives=off.
"""

import argparse

import torch
import torch.nn.functional as F

import gpu_sides as sides
from common import geometric_mean
from gpu_rows import normal, rms_norm, worst

F32, BF16 = torch.float32, torch.bfloat16
SIDES = ("eager", "inductor free", "coil", "coil free")


def of_rows(*sizes, dtype=BF16):
    """Arguments of a row at its own sizes, and at those that programs with free sizes are compiled at before."""
    return lambda rows, length: [normal(*(rows if s == "r" else length for s in size), dtype=dtype) for size in sizes]


def labels(rows, length):
    return [normal(rows, length, dtype=BF16), torch.randint(0, length, (rows,), device="cuda")]


def heads(rows, length):
    return [normal(4, rows, length, dtype=BF16), normal(4, 1, length, dtype=BF16)]


def norm(x, g, b):
    return F.layer_norm(x, (x.shape[-1],), g, b)


SOFTMAX = (lambda x: F.softmax(x, -1), of_rows("rl"))
NORM = (norm, of_rows("rl", "l", "l"))
GELU = (lambda x, b: F.gelu(x + b), of_rows("rl", "l"))
ENTROPY = (lambda x, y: F.cross_entropy(x.float(), y), labels)
ROWS = {
    "softmax 4096x2048": (*SOFTMAX, 4096, 2048),
    "softmax 4096x2047": (*SOFTMAX, 4096, 2047),
    "softmax 4096x48": (*SOFTMAX, 4096, 48),
    "softmax 64x60000": (*SOFTMAX, 64, 60000),
    "layer_norm 8192x1024": (*NORM, 8192, 1024),
    "layer_norm 8192x1023": (*NORM, 8192, 1023),
    "rms_norm 8192x4096": (rms_norm, of_rows("rl", "l"), 8192, 4096),
    "gelu_bias 16384x4096": (*GELU, 16384, 4096),
    "gelu_bias 16384x4095": (*GELU, 16384, 4095),
    "add_columns f32 8192x4096": (lambda x, y: x + y[:, None], of_rows("rl", "r", dtype=F32), 8192, 4096),
    "add_columns f32 8192x4093": (lambda x, y: x + y[:, None], of_rows("rl", "r", dtype=F32), 8192, 4093),
    "add_transposed f32 4096x4096": (lambda x, y: x + y.t(), of_rows("rl", "lr", dtype=F32), 4096, 4096),
    "heads 4x8192x1000": (lambda x, m: x * m, heads, 8192, 1000),
    "cross_entropy 4096x32000": (*ENTROPY, 4096, 32000),
    "cross_entropy 4096x32001": (*ENTROPY, 4096, 32001),
    "sum_rows 100000x48": (lambda x: x.float().sum(-1), of_rows("rl"), 100000, 48),
    "sum_all 8192x4095": (lambda x: x.float().sum(), of_rows("rl"), 8192, 4095),
}


def call_of(side, function, before, args):
    """A call of a side at `args`; with free sizes it was compiled at those of `before`."""
    if side == "eager":
        return lambda: function(*args)
    words = side.split()
    options = dict([words[2].split("=")]) if len(words) > 2 else {}
    compiled = sides.compiled(function, words[0], options=options, dynamic="free" in words)
    if "free" in words:
        compiled(*before)
    return lambda: compiled(*args)


def measure(name, chosen, settings):
    function, make, rows, length = ROWS[name]
    torch.manual_seed(0)
    before, args = make(600, 300), make(rows, length)
    want, micros, notes = function(*args), {}, []
    for side in [*chosen, *(f"coil free {one}" for one in settings)]:
        try:
            # What the next side compiles is compiled by itself, so each is timed before that.
            call = call_of(side, function, before, args)
            if (wrong := worst(call(), want)) > 2e-2:
                notes.append(f"{side} differs by {wrong:.1e}")
            micros[side] = 1e3 * min(sides.on_device(call) for _ in range(2))
        except Exception as error:
            notes.append(f"{side}: {sides.line(error)}")
    print(
        f"{name:29s} " + "   ".join(f"{k} {us:7.1f}" for k, us in micros.items()) + f"   {'; '.join(notes)}", flush=True
    )
    return micros


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="?")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    a = parser.parse_args()
    deadline, found = sides.Deadline(a.seconds), []
    with torch.no_grad():
        print(f"{torch.cuda.get_device_name()}, microseconds on the device", flush=True)
        for name in a.names.split(",") if a.names else ROWS:
            if deadline.passed():
                print(f"{name:29s} not reached in time")
                continue
            found.append(measure(name, a.sides.split(","), a.set))
            torch.cuda.empty_cache()
    for other in SIDES[:3]:
        if both := [m[other] / m["coil free"] for m in found if {other, "coil free"} <= m.keys()]:
            print(f"{other} over coil free: {geometric_mean(both):.2f} in geometric mean of {len(both)}")


if __name__ == "__main__":
    main()
