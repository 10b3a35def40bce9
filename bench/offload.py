"""Training steps with `memory.offload` on a GPU: for shares of what the forward graph keeps, the most memory that
torch's allocator had, the time of a step, page-locked memory of the host, and whether gradients are those without it.

usage: offload.py [gpt2,bert] [--shares 0,0.25,0.5,0.75,1] [--batch 8] [--length 512] [--layers 12] [--steps 10]
                  [--check]

GPT-2 and BERT as large as published (12 layers of 768, fewer with --layers), random weights, dropout off, under
autocast to bf16. Memory is counted above parameters, gradients and inputs, which are there before. Share 0 runs first,
and again last: the difference of these two is the noise. `lower bound` is the time that the copies of both directions
take by themselves at the speed measured for one of 256 MiB.

With --check nothing is measured: each value that comes back is compared, bit for bit, with a copy that the computing
stream made of it when it was sent, and gradients with those of share 0, both compiled with `deterministic`. The exit
status is 1 where a value came back changed.
"""

import argparse
import pathlib
import statistics
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "build/python"))
import coil  # noqa: E402, F401
from coil import offload  # noqa: E402
from common import table  # noqa: E402

MIB = 1 << 20


def model_of(name, layers, length):
    import transformers

    if name == "gpt2":
        off = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
        config = transformers.GPT2Config(n_layer=layers, n_positions=max(length, 1024), use_cache=False, **off)
        return transformers.GPT2LMHeadModel(config), config.vocab_size
    off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = transformers.BertConfig(num_hidden_layers=layers, max_position_embeddings=max(length, 512), **off)
    return transformers.BertForMaskedLM(config), config.vocab_size


def seconds_a_byte():
    """Of a copy to page-locked memory, and of one back."""
    there = torch.empty(256 * MIB, dtype=torch.uint8, pin_memory=True)
    here = torch.empty_like(there, device="cuda")
    found = []
    for to, value in ((there, here), (here, there)):
        to.copy_(value, non_blocking=True)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        to.copy_(value, non_blocking=True)
        torch.cuda.synchronize()
        found.append((time.perf_counter() - begin) / (256 * MIB))
    return found


class Counted(offload._Streams):
    """Counts what goes to the host."""

    bytes = 0

    def send(self, slot, value):
        Counted.bytes += value.numel() * value.element_size()
        return super().send(slot, value)


class Checked(offload._Streams):
    """Compares what comes back with what was sent, in the order of the stream that computes."""

    sent, compared, wrong = {}, 0, None  # sent: by the address of the host's memory

    @staticmethod
    def bits(value):
        return value.flatten().view(torch.uint8) if value.is_contiguous() else Checked.bits(value.contiguous())

    def send(self, slot, value):
        kept = value.clone()
        host = super().send(slot, value)
        Checked.sent[host.data_ptr()] = kept
        return host

    def fetch(self, slot, host):
        value = super().fetch(slot, host)
        self.__dict__.setdefault("pairs", {})[slot] = value, Checked.sent.pop(host.data_ptr())
        return value

    def end(self, slot):
        super().end(slot)
        if pair := self.__dict__.get("pairs", {}).pop(slot, None):
            differs = (self.bits(pair[0]) != self.bits(pair[1])).any().int()
            Checked.wrong = differs if Checked.wrong is None else Checked.wrong + differs
            Checked.compared += 1


def checked(name, args):
    """Whether all values came back as they were sent, for each share."""
    torch.manual_seed(0)
    model, words = model_of(name, args.layers, args.length)
    model = model.cuda().train()
    ids = torch.randint(0, words, (args.batch, args.length), device="cuda")
    want, right = None, True
    for share in sorted({0.0, *args.shares}):
        torch._dynamo.reset()
        options = {"memory.offload": share, "deterministic": "true"}
        compiled = torch.compile(model, backend="coil", options=options)
        Checked.sent, Checked.compared, Checked.wrong = {}, 0, None
        for _ in range(args.steps):
            model.zero_grad(set_to_none=True)
            with torch.autocast("cuda", torch.bfloat16):
                loss = compiled(input_ids=ids, labels=ids).loss
            loss.backward()
        got = [p.grad.clone() for p in model.parameters()]
        want = got if want is None else want
        wrong = 0 if Checked.wrong is None else Checked.wrong.item()
        right = right and wrong == 0 and (share == 0 or Checked.compared > 0)
        print(f"{name}, share {share:g}: {wrong} of {Checked.compared} values changed; gradients: {differs(got, want)}")
    return right


def measured(model, ids, share, steps):
    """Bytes at the fullest, seconds of a step, bytes that moved, and the gradients."""
    torch._dynamo.reset()
    torch.cuda.empty_cache()
    compiled = torch.compile(model, backend="coil", options={"memory.offload": share})

    def step():
        for p in model.parameters():
            p.grad.zero_()
        with torch.autocast("cuda", torch.bfloat16):
            loss = compiled(input_ids=ids, labels=ids).loss
        loss.backward()

    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    Counted.bytes = 0
    times = []
    for _ in range(steps):
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    peak = torch.cuda.max_memory_allocated() - before
    return peak, statistics.median(times), Counted.bytes // steps, [p.grad.clone() for p in model.parameters()]


def differs(got, want):
    """`equal`, or the norm of the differences beside that of all gradients: some, such as that of a key's bias, are
    nothing but rounding.
    """
    if all(map(torch.equal, got, want)):
        return "equal"
    norm = lambda tensors: sum(t.double().norm() ** 2 for t in tensors).sqrt().item()
    return f"{norm([a - b for a, b in zip(got, want)]) / norm(want):.1e}"


def rows_of(name, args, speed):
    torch.manual_seed(0)
    model, words = model_of(name, args.layers, args.length)
    model = model.cuda().train()
    ids = torch.randint(0, words, (args.batch, args.length), device="cuda")
    want, rows = None, []
    for share in [*args.shares, 0.0]:
        peak, seconds, moved, got = measured(model, ids, share, args.steps)
        want = got if want is None else want
        bound = sum(moved * each for each in speed)
        rows.append(
            [
                name,
                f"{share:g}",
                f"{peak / MIB:.1f}",
                f"{moved / MIB:.1f}",
                f"{seconds * 1e3:.2f}",
                f"{bound * 1e3:.2f}",
            ]
            + [differs(got, want)]
        )
        print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="?", default="gpt2,bert")
    parser.add_argument("--shares", default="0,0.25,0.5,0.75,1", type=lambda text: [float(s) for s in text.split(",")])
    for key, value in (("batch", 8), ("length", 512), ("layers", 12), ("steps", 10)):
        parser.add_argument(f"--{key}", type=int, default=value)
    parser.add_argument("--check", action="store_true", help="compare what comes back with what was sent")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("there is no GPU that torch knows")
    if args.check:
        offload._MOVERS["cuda"] = Checked
        sys.exit(not all([checked(name, args) for name in args.models.split(",")]))
    offload._MOVERS["cuda"] = Counted
    speed = seconds_a_byte()
    print(
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {1 / speed[0] / 1e9:.1f} GB/s to the host, ",
        end="",
    )
    print(f"{1 / speed[1] / 1e9:.1f} back\n")
    head = ["model", "share", "peak, MiB", "moved, MiB", "step, ms", "lower bound, ms", "gradients"]
    print(table(head, [row for name in args.models.split(",") for row in rows_of(name, args, speed)]))


if __name__ == "__main__":
    main()
