"""Attention on a GPU, forward and with its gradient: eager, the same by products (torch's MATH), Inductor and Coil;
milliseconds by events, TFLOP/s of the two (of five) products, MiB that a call takes at its peak.

usage: gpu_attention.py [NAME,...] [--seconds N] [--sides NAME,...] [--set KEY=VALUE ...]
"""

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import gpu_sides as sides

# dtype, batch, heads, heads of keys, queries, keys, head size, causal
CASES = {
    "f32_bert": (torch.float32, 16, 12, 12, 512, 512, 64, False),
    "f32_vit": (torch.float32, 32, 12, 12, 197, 197, 64, False),
    "f32_short": (torch.float32, 1, 12, 12, 128, 128, 64, False),
    "f32_causal": (torch.float32, 4, 16, 16, 2048, 2048, 64, True),
    "f32_causal_128": (torch.float32, 2, 16, 4, 2048, 2048, 128, True),
    "f32_long": (torch.float32, 1, 8, 8, 8192, 8192, 128, False),
    "f32_256": (torch.float32, 2, 8, 4, 2048, 2048, 256, True),
    "f32_80": (torch.float32, 4, 16, 16, 1024, 1024, 80, False),
    "bf16_causal_128": (torch.bfloat16, 4, 32, 8, 2048, 2048, 128, True),
    "bf16_256": (torch.bfloat16, 2, 8, 4, 2048, 2048, 256, True),
    "bf16_192": (torch.bfloat16, 2, 16, 16, 2048, 2048, 192, True),
}


def peak(call):
    """MiB beyond what is held before."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def step(attend, given, slope, training):
    if not training:
        with torch.no_grad():
            return [attend(*given)]
    y = attend(*given)
    return [y, *torch.autograd.grad(y, given, slope)]


def measure(name, training, chosen):
    dtype, batch, heads, groups, queries, keys, depth, causal = CASES[name]
    torch.manual_seed(0)
    given = [
        torch.randn(batch, h, n, depth, dtype=dtype, device="cuda", requires_grad=training)
        for h, n in ((heads, queries), (groups, keys), (groups, keys))
    ]
    slope = torch.randn(batch, heads, queries, depth, dtype=dtype, device="cuda")
    attend = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=heads != groups)

    def by_products(q, k, v):
        with sdpa_kernel(SDPBackend.MATH):
            return attend(q, k, v)

    functions = {
        "eager": lambda: attend,
        "products": lambda: by_products,
        "inductor": lambda: sides.compiled(attend, "inductor"),
        "coil": lambda: sides.compiled(attend, "coil"),
    }
    operations = batch * heads * queries * keys * depth * (14 if training else 4) / (2 if causal else 1)
    want, texts = None, []
    for side in chosen:
        try:
            function = functions[side]()
            call = lambda: step(function, given, slope, training)
            got = call()
            want = want or got
            off = max(map(sides.difference, got, want))
            ms = min(sides.by_events(call) for _ in range(2))
            texts.append(
                f"{side} {ms:8.3f} ms {operations / ms / 1e9:6.1f} {peak(call):6.0f} "
                f"MiB{f' off {off:.1e}' if side != 'eager' else ''}"
            )
            del got
        except Exception as error:
            texts.append(f"{side}: {sides.line(error)}")
        torch.cuda.empty_cache()
    print(f"{name:16s} {'training' if training else 'forward '} {'   '.join(texts)}", flush=True)


def main():
    a = sides.parser(__doc__, "eager,products,inductor,coil").parse_args()
    print(torch.cuda.get_device_name())
    for name, deadline in sides.each(a, CASES):
        for training in (False, True):
            if not deadline.passed():
                measure(name, training, a.sides.split(","))


if __name__ == "__main__":
    main()
