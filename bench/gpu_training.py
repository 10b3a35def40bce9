"""Training steps (forward, loss, backward; bf16) on a GPU: eager, Inductor and Coil, both through torch.compile, in one
process.

usage: gpu_training.py [NAME,...] [--sides NAME,...] [--dropout] [--small] [--device cuda] [--seconds N] [--set
KEY=VALUE ...]     settings of Coil's sides: cuda.tf32=all
Milliseconds of a step (median of 15, by events), GiB of torch's allocator at its peak, seconds of the step that
compiles, and what lies between loss and gradients and eager's, relative to those.
`--dropout`: BERT and GPT-2 with the dropout that `transformers` gives them, which every side draws for itself, so that
losses and gradients are far apart. `--small`: a size for machines without a GPU (`--device cpu`).
"""

import gc
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

import gpu_sides as sides
from gpu_models import BF16, COMPILED, Result

STEPS = 15


class Rotary(nn.Module):
    def __init__(self, dim, tokens, base=500000.0):
        super().__init__()
        angles = torch.outer(torch.arange(tokens).float(), base ** (-torch.arange(0, dim, 2).float() / dim)).repeat(
            1, 2
        )
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, x):
        low, high = x.chunk(2, -1)
        return x * self.cos + torch.cat((-high, low), -1) * self.sin


class Norm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        y = x.float()
        return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.weight


class Block(nn.Module):
    def __init__(self, dim, heads, kv_heads, hidden):
        super().__init__()
        self.head = dim // heads
        linear = lambda a, b: nn.Linear(a, b, bias=False)
        self.q, self.k, self.v, self.o = (
            linear(dim, dim),
            linear(dim, kv_heads * self.head),
            linear(dim, kv_heads * self.head),
            linear(dim, dim),
        )
        self.gate, self.up, self.down = linear(dim, hidden), linear(dim, hidden), linear(hidden, dim)
        self.before, self.between = Norm(dim), Norm(dim)

    def forward(self, x, rotary):
        h = self.before(x)
        q, k, v = (layer(h).unflatten(-1, (-1, self.head)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        attended = F.scaled_dot_product_attention(rotary(q), rotary(k), v, is_causal=True, enable_gqa=True)
        x = x + self.o(attended.transpose(1, 2).flatten(2))
        h = self.between(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self, tokens, dim=2048, layers=16, heads=32, kv_heads=8, hidden=8192, words=32000):
        super().__init__()
        self.embed, self.rotary = nn.Embedding(words, dim), Rotary(dim // heads, tokens)
        self.blocks = nn.ModuleList(Block(dim, heads, kv_heads, hidden) for _ in range(layers))
        self.norm, self.out = Norm(dim), nn.Linear(dim, words, bias=False)
        self.apply(lambda m: nn.init.normal_(m.weight, std=0.02) if isinstance(m, (nn.Linear, nn.Embedding)) else None)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, self.rotary)
        return self.out(self.norm(x))


class CrossEntropy(nn.Module):
    """Of the words themselves, or (`ahead` 1) of those that follow."""

    def __init__(self, model, ahead):
        super().__init__()
        self.model, self.ahead = model, ahead

    def forward(self, ids):
        logits = self.model(ids)
        return F.cross_entropy(
            logits[:, : logits.shape[1] - self.ahead].flatten(0, 1).float(), ids[:, self.ahead :].flatten()
        )


class Classes(nn.Module):
    """Cross entropy, each picture of a class of its own."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return F.cross_entropy(self.model(x).float(), torch.arange(x.shape[0], device=x.device))


def llama(small, dropout):
    rows, words = ((2, 32), 512) if small else ((4, 2048), 32000)
    sizes = dict(dim=64, layers=2, heads=4, kv_heads=2, hidden=128) if small else {}
    return CrossEntropy(Llama(rows[1], words=words, **sizes), 1), torch.randint(0, words, rows)


def vit(small, dropout):
    import transformers

    sizes = (
        dict(
            hidden_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=128,
            image_size=32,
            patch_size=8,
        )
        if small
        else {}
    )
    config = transformers.ViTConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=1000, **sizes)
    return Classes(Result(transformers.ViTForImageClassification(config))), torch.randn(
        (2, 3, 32, 32) if small else (64, 3, 224, 224), dtype=BF16
    )


def bert(small, dropout):
    import transformers

    rows, words = ((2, 32), 512) if small else ((16, 512), 30522)
    sizes = (
        dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, vocab_size=words)
        if small
        else {}
    )
    none = {} if dropout else dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return CrossEntropy(
        Result(transformers.BertForMaskedLM(transformers.BertConfig(**sizes, **none))), 0
    ), torch.randint(0, words, rows)


def gpt2(small, dropout):
    import transformers

    rows, words = ((2, 32), 512) if small else ((8, 1024), 50257)
    sizes = dict(n_embd=64, n_layer=2, n_head=4, vocab_size=words) if small else {}
    none = {} if dropout else dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    return CrossEntropy(
        Result(transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False, **sizes, **none))), 1
    ), torch.randint(0, words, rows)


MODELS = {"llama": llama, "vit": vit, "bert": bert, "gpt2": gpt2}


def wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def step_time(step, device):
    """Milliseconds of a step that is waited for."""
    wait(device)
    if device.type == "cuda":
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        step()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end)
    start = time.perf_counter()
    step()
    return (time.perf_counter() - start) * 1e3


def gradient_difference(parameters, want):
    """Norm of the difference over the norm, of all gradients together: some by themselves are rounding errors (those of
    the keys' biases).
    """
    apart = whole = 0.0
    for p, w in zip(parameters, want):
        if w is None or p.grad is None:
            if w is not p.grad:
                return float("nan")
            continue
        w = w.to(p.device).double()
        apart += (p.grad.double() - w).square().sum().item()
        whole += w.square().sum().item()
    return (apart / max(whole, 1e-300)) ** 0.5


def run_side(side, module, x, eager):
    """A line of figures. `eager`: its loss and gradients (on the host, so that they count in no side's peak); empty
    until it has run.
    """
    device, parameters = x.device, list(module.parameters())
    loss_of = module if side == "eager" else sides.compiled(module, *COMPILED[side])

    def step():
        for p in parameters:
            p.grad = None
        loss = loss_of(x)
        loss.backward()
        return loss

    torch.manual_seed(0)
    wait(device)
    start = time.perf_counter()
    loss = step().item()
    wait(device)
    cold = time.perf_counter() - start
    if side == "eager":
        eager.update(loss=loss, gradients=[None if p.grad is None else p.grad.cpu() for p in parameters])
        apart = f"loss {loss:.4f}"
    elif eager:
        apart = (
            f"apart: loss {abs(loss - eager['loss']) / abs(eager['loss']):.1e}, gradients "
            f"{gradient_difference(parameters, eager['gradients']):.1e}"
        )
    else:
        apart = f"loss {loss:.4f}, no eager to compare with"
    for _ in range(3):
        step()
    wait(device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    ms = statistics.median(step_time(step, device) for _ in range(STEPS))
    peak = f"{torch.cuda.max_memory_allocated() / 2**30:7.2f} GiB" if device.type == "cuda" else "      – GiB"
    return f"{ms:9.3f} ms {peak}   cold {cold:6.2f} s   {apart}"


def measure(name, a, deadline):
    torch.manual_seed(0)
    module, x = MODELS[name](a.small, a.dropout)
    module, x = module.to(a.device, BF16).train(), x.to(a.device)
    print(
        f"{name} {'x'.join(map(str, x.shape))}, {sum(p.numel() for p in module.parameters()) / 1e6:.1f} million "
        "parameters",
        flush=True,
    )
    eager = {}
    for side in a.sides.split(","):
        if deadline.passed():
            print(f"  {side:16s} not reached in time")
            continue
        try:
            line = run_side(side, module, x, eager)
        except Exception as error:
            line = sides.line(error)
        print(f"  {side:16s} {line}", flush=True)
        torch._dynamo.reset()
        module.zero_grad(set_to_none=True)
        gc.collect()
        if x.is_cuda:
            torch.cuda.empty_cache()


def main():
    parser = sides.parser(__doc__, "eager,inductor,coil")
    parser.add_argument("--dropout", action="store_true")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--device", default="cuda")
    a = parser.parse_args()
    for name, deadline in sides.each(a, MODELS):
        measure(name, a, deadline)


if __name__ == "__main__":
    main()
