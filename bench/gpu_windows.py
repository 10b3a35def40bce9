"""Convolutions of each channel by itself, or in groups of few channels, on a GPU: eager with rows and with channels
innermost, cuDNN through Coil, and Coil's kernels, forward and both gradients, in bf16.

usage: gpu_windows.py [--groups] [--shapes N] [--seconds N]      --shapes: also the launch configs 1 to N-1
Milliseconds by events with the L2 cache flushed, the share of the copy's bandwidth (operands read once and results
written once), and the distance from f32.
"""

import argparse

import torch
import torch.nn.functional as F

import gpu_sides as sides

# samples, channels, height and width, window, stride, channels of a group
CASES = [
    (64, 96, 56, 7, 1, 1),
    (64, 384, 14, 7, 1, 1),
    (64, 768, 7, 7, 1, 1),
    (128, 96, 112, 3, 2, 1),
    (128, 144, 56, 3, 1, 1),
    (128, 240, 28, 5, 1, 1),
    (128, 672, 14, 5, 1, 1),
    (1, 384, 14, 3, 1, 1),
]
GROUPS = [
    (64, 336, 28, 3, 1, 24),
    (64, 888, 14, 3, 2, 24),
    (64, 384, 28, 3, 1, 48),
    (64, 256, 56, 3, 1, 8),
    (64, 512, 28, 3, 1, 16),
    (64, 1024, 14, 3, 1, 32),
    (64, 896, 14, 3, 1, 64),
    (64, 2048, 7, 3, 1, 64),
    (64, 448, 28, 3, 1, 56),
    (1, 336, 28, 3, 1, 24),
]


def copy_gb_per_s():
    x = torch.randn(1 << 28, device="cuda")
    y = torch.empty_like(x)
    return 2 * x.numel() * 4 / sides.by_events(lambda: y.copy_(x)) * 1e3 / 1e9


def forward(x, w, b, stride, padding):
    return F.conv2d(x, w, b, stride, padding, groups=x.shape[1] // w.shape[1])


def backward(x, w, dy, stride, padding, wanted=(True, True, False)):
    groups = x.shape[1] // w.shape[1]
    results = torch.ops.aten.convolution_backward(
        dy, x, w, None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], groups, wanted
    )
    return tuple(g for g in results if g is not None)


def of_input(x, w, dy, stride, padding):
    return backward(x, w, dy, stride, padding, (True, False, False))


def of_weight(x, w, dy, stride, padding):
    return backward(x, w, dy, stride, padding, (False, True, False))


def tell(name, call, want, gb, ceiling):
    try:
        got = call()
        got = got if isinstance(got, tuple) else (got,)
        distances = [sides.difference(g, w) for g, w in zip(got, want)]
        ms = sides.by_events(call)
        print(
            f"    {name:22s} {ms:8.4f} ms  {gb / ms * 1e3 / ceiling:5.2f} of the copy  "
            + ", ".join(f"{d:.1e}" for d in distances),
            flush=True,
        )
    except Exception as error:
        print(f"    {name:22s} {sides.line(error)}", flush=True)


def measure(case, shapes, ceiling):
    n, c, size, window, stride, per_group = case
    torch.manual_seed(0)
    padding = window // 2
    x = torch.randn(n, c, size, size, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(c, per_group, window, window, device="cuda", dtype=torch.bfloat16) / (window * per_group**0.5)
    b = torch.randn(c, device="cuda", dtype=torch.bfloat16)
    last = x.contiguous(memory_format=torch.channels_last)
    y = forward(x.float(), w.float(), b.float(), stride, padding)
    dy = torch.randn_like(y).bfloat16()
    dy_last = dy.contiguous(memory_format=torch.channels_last)
    print(f"{n}x{c}x{size}x{size}, window {window}, stride {stride}, {per_group} channels a group", flush=True)
    with torch.no_grad():
        for direction, function, args, args_last, want, gb in (
            ("forward", forward, (x, w, b), (last, w, b), (y,), (x.numel() + y.numel()) * 2e-9),
            *(
                (
                    f"gradient of the {name}",
                    function,
                    (x, w, dy),
                    (last, w, dy_last),
                    function(x.float(), w.float(), dy.float(), stride, padding),
                    (x.numel() + y.numel()) * 2e-9,
                )
                for name, function in (("input", of_input), ("weight", of_weight))
            ),
        ):
            print(f"  {direction}")
            tell("eager, rows", lambda: function(*args, stride, padding), want, gb, ceiling)
            tell("eager, channels last", lambda: function(*args_last, stride, padding), want, gb, ceiling)
            options = [("Coil", {})] + [(f"Coil, shape {k}", {"cuda.launch_config": k}) for k in range(1, shapes)]
            for name, extra in [("cuDNN through Coil", {"cuda.windows": "false"}), *options]:
                compiled = sides.compiled(function, "coil", options=extra)
                tell(name, lambda: compiled(*args_last, stride, padding), want, gb, ceiling)
            compiled = sides.compiled(function, "coil")
            tell("Coil, rows", lambda: compiled(*args, stride, padding), want, gb, ceiling)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--groups", action="store_true")
    p.add_argument("--shapes", type=int, default=1)
    p.add_argument("--seconds", type=float, default=1e9)
    a = p.parse_args()
    deadline = sides.Deadline(a.seconds)
    ceiling = copy_gb_per_s()
    print(f"{torch.cuda.get_device_name()}: a copy moves {ceiling:.0f} GB/s")
    for case in GROUPS if a.groups else CASES:
        if deadline.passed():
            print(f"{case} not reached in time")
        else:
            measure(case, a.shapes, ceiling)


if __name__ == "__main__":
    main()
