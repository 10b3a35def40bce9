"""Random programs through torch.compile against eager, run by hand: writes to inputs and to views of views, mixed
types, several results, gradients, dynamic sizes.

    program_sweep.py [--programs N] [--first N] [--seed S] [--out FOLDER] [--device DEVICE] [--seconds S]

Each program is compiled as it is and with dynamic sizes, every third one with gradients; results (values, types, sizes,
strides), what inputs hold afterwards and gradients are compared. One that differs is cut down to the lines that it
needs and printed, and written to a file of `--out` that shows it. Counts come at the end.
"""

import argparse
import collections
import logging
import os
import pathlib
import random
import signal
import sys
import time
import warnings

import torch
import torch.nn.functional as F

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))

from layer_draws import moved  # noqa: E402

DTYPES = [torch.float32] * 8 + [torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.uint8]
DTYPES += [torch.bool, torch.int64, torch.complex64]
TOLERANCE = {torch.float64: 1e-7, torch.float32: 2e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}
SECONDS = 60  # of one program

POINTWISE = """
{a} + {b} | {a} * {b} | {a} - {b} | {a} / ({b}.abs() + 1) | torch.maximum({a}, {b}) | torch.minimum({a}, {b})
torch.where({a} > {b}, {a}, {b}) | {a} // 2 | {a} % 3 | {a} * 2 | {a} + 1 | 1 - {a} | {a} * 0.5 | {a}.abs() | -{a}
{a}.clamp(-1, 2) | {a}.relu() | {a}.sigmoid() | {a}.tanh() | {a}.sin() | {a}.float().exp().clamp(max=50)
{a}.to({d}) | {a}.to({d}) | {a} > 0 | {a} == {b} | {a}.bool() | ~({a} > 0) | {a}.round() | {a}.sign()
F.gelu({a}) | F.silu({a}) | F.softplus({a}) | torch.atan2({a}, {b}) | {a}.square() | {a}.floor() | {a}.trunc()
torch.lerp({a}.float(), {b}.float(), 0.3) | torch.addcmul({a}, {b}, {b}, value=2) | {a}.masked_fill({b} > 0, 2)
{a}.bitwise_and(3) | {a} ^ {b} | {a}.isnan() | {a}.float().sqrt() | {a}.float().rsqrt().nan_to_num() | {a}.pow(2)
torch.remainder({a}, 2) | torch.fmod({a}, 3) | {a}.sgn() | {a}.real | torch.logical_xor({a}, {b}) | {a}.type_as({b})
torch.hypot({a}.float(), {b}.float()) | {a}.cumsum({i}) | {a}.flip({i}) | {a}.roll(1, {i}) | F.hardswish({a})
"""
REDUCTIONS = """
{a}.sum({i}) | {a}.sum() | {a}.mean({i}) | {a}.amax({i}) | {a}.amin({i}, keepdim=True) | {a}.argmax({i}) | {a}.any({i})
{a}.all() | {a}.prod({i}) | {a}.var({i}, correction=0) | {a}.std() | {a}.softmax({i}) | {a}.float().logsumexp({i})
{a}.max({i})[0] | {a}.min({i})[1] | {a}.sort({i}, stable=True)[0] | {a}.norm() | {a}.float().norm(1, {i})
{a}.count_nonzero({i}) | {a}.cumprod({i}) | {a}.cummax({i})[0] | {a}.median()
{a}.log_softmax({i}) | {a}.logical_not().sum()
{a}.topk(1, {i})[0] | {a}.nansum({i}) | F.layer_norm({a}, {a}.shape[-1:]) | {a}.float().logcumsumexp({i}) | {a}.mean()
"""
VIEWS = """
{a}.transpose({i}, {j}) | {a}.reshape(-1) | {a}.unsqueeze({i}) | {a}.select({i}, 0)
{a}.select({i}, -1) | {a}[..., ::2]
{a}.narrow({i}, 0, 1) | {a}.flatten() | {a}[1:] | {a}[:-1] | {a}.squeeze() | {a}.expand(2, *{a}.shape) | {a}.diagonal()
torch.cat([{a}, {a}], {i}) | torch.stack([{a}, {b}]) | torch.stack([{a}, {a}], {i}) | {a}.repeat(2, *[1] * {a}.dim())
{a}.contiguous() | {a}.clone() | {a}.unfold({i}, 1, 1) | {a}.chunk(2, {i})[-1] | {a}.unbind({i})[0] | {a}.mT | {a}[None]
{a}.movedim(0, -1) | F.pad({a}, (1, 2)) | F.pad({a}, (-1, 1)) | {a}.tril() | {a}.triu(1) | {a}.as_strided((2,), (1,))
{a}.view(-1) | {a}.movedim({i}, 0) | {a}.swapaxes({i}, {j}).contiguous()
{a}.index_select({i}, {a}.new_zeros(2, dtype=torch.int64))
{a}[{a} > 0].sum() | {a}.gather({i}, torch.zeros_like({a}, dtype=torch.int64)) | {a}.detach()
{a}.tile(2) | {a}.rot90()
{a}.unflatten({i}, (1, -1)) | {a}.broadcast_to(3, *{a}.shape) | torch.broadcast_tensors({a}, {b})[0] | {a}.view_as({a})
"""
PRODUCTS = """
{a} @ {a}.mT / 8 | torch.einsum('...i,...i->...', {a}, {a}) | torch.outer({a}.flatten()[:5], {b}.flatten()[:5])
torch.tensordot({a}, {a}, 1) | {a}.float() @ {a}.float().mT / 8 | torch.mv({a}, {a}[0]) | F.linear({a}, {a}[:2])
"""
WRITES = """
{v}.add_(1) | {v}.mul_(2) | {v}.zero_() | {v}.fill_(3) | {v}.copy_({b}) | {v}.add_({b}) | {v}.clamp_(-1, 1) | {v}.neg_()
{v}.sub_({b}, alpha=2) | {v}.masked_fill_({v} > 1, 0) | {v}.tanh_()
{v}.relu_() | {v}.index_fill_(0, {v}.new_zeros(1, dtype=torch.int64), 1)
{v}[0] = 5 | {v}[..., 0] = 1 | {v}[{v} > 0] = -1 | {v} += 1 | {v} *= {b} | {v}.exp_().clamp_(max=9) | {v}.cumsum_(0)
{v}.index_add_(0, {v}.new_zeros(1, dtype=torch.int64), {v}[:1].clone()) | {v}.square_() | {v}.floor_()
{v}.transpose_(0, -1) | {v}.unsqueeze_(0)
"""
SEEN = """
{a} | {a}[0] | {a}[1:] | {a}.t() | {a}.transpose(0, -1) | {a}.view(-1) | {a}[..., ::2] | {a}.diagonal() | {a}.mT[0]
"""


def choices(text):
    return [c.strip() for line in text.strip().splitlines() for c in line.split(" | ")]


POINTWISE, REDUCTIONS, VIEWS, PRODUCTS, WRITES, SEEN = map(
    choices, (POINTWISE, REDUCTIONS, VIEWS, PRODUCTS, WRITES, SEEN)
)


def scope_of():
    return {"torch": torch, "F": F}


def function_of(arguments, lines, results):
    """The program as a function, and its source."""
    body = "".join(f"    {line}\n" for line in lines)
    source = f"def program({', '.join(arguments)}):\n{body}    return {', '.join([*results, ''])}\n"
    scope = scope_of()
    exec(source, scope)
    return scope["program"], source


class Writer:
    """Lines that eager takes, found by running each as it is written."""

    def __init__(self, seed, training):
        self.random, self.training = random.Random(seed), training
        torch.manual_seed(self.random.getrandbits(40))
        self.inputs = {f"x{k}": self.tensor() for k in range(self.random.randint(1, 3))}
        self.values = {k: copied(t) for k, t in self.inputs.items()}
        self.lines = []

    def tensor(self):
        r = self.random
        sizes = [r.choice([1, 2, 3, 4, 5, 8, 17]) for _ in range(r.choice([1, 2, 2, 2, 3, 3, 4]))]
        dtype = torch.float32 if self.training else r.choice(DTYPES)
        made = (torch.randn(sizes) * 2).to(dtype) if dtype != torch.complex64 else torch.randn(sizes, dtype=dtype)
        if dtype == torch.uint8:
            made = torch.randint(0, 200, sizes, dtype=dtype)
        if len(sizes) > 1 and r.random() < 0.25:
            made = made.transpose(0, -1)
        return made

    def pick(self):
        names = list(self.values)
        return names[-1 - min(int(self.random.expovariate(0.5)), len(names) - 1)]

    def step(self):
        r, a, b = self.random, self.pick(), self.pick()
        kind = r.choices([POINTWISE, REDUCTIONS, VIEWS, PRODUCTS, WRITES], [9, 3, 6, 1, 3])[0]
        rank = max(self.values[a].dim(), 1)
        words = {"a": a, "b": b, "i": r.randrange(-rank, rank), "j": r.randrange(rank)}
        words["d"] = r.choice(DTYPES[:-1])
        if kind is WRITES:
            if self.training and a in self.inputs:
                return
            name = f"w{len(self.lines)}"
            lines = [f"{name} = {r.choice(SEEN).format(**words)}", r.choice(WRITES).format(v=name, **words)]
        else:
            name = f"v{len(self.lines)}"
            lines = [f"{name} = {r.choice(kind).format(**words)}"]
        self.attempt(name, lines)

    def attempt(self, name, lines):
        """Keeps the lines where the whole program still runs, and its values stay of a size."""
        try:
            function, _ = function_of(self.inputs, self.lines + lines, [*self.inputs, *self.made(), name])
            with torch.no_grad():
                results = function(*map(copied, self.inputs.values()))
        except Exception:
            return
        if any(not isinstance(t, torch.Tensor) or not 0 < t.numel() < 5000 for t in results):
            return
        if any(t.is_floating_point() and not (t.abs() < 1e4).all() for t in results):
            return
        self.lines += lines
        self.values = dict(zip([*self.inputs, *self.made(), name], results))

    def made(self):
        return [n for n in self.values if n not in self.inputs]

    def write(self, length):
        for _ in range(length):
            self.step()
        made = self.made()
        return sorted({*self.random.sample(made, min(5, len(made))), *made[-1:]}, key=made.index)


def copied(t):
    return t.detach().clone(memory_format=torch.preserve_format)


def tolerance(results):
    """Of the narrowest type that any of them has: what is widened later was rounded before."""
    return max((TOLERANCE.get(t.dtype, 2e-4) for t in results), default=2e-4)


def plain(t):
    t = t.detach().resolve_conj().resolve_neg()
    return torch.view_as_real(t) if t.is_complex() else t


def strides(t):
    return [s for s, n in zip(t.stride(), t.shape) if n > 1]


def difference(got, want, limit):
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return f"{got.dtype}{tuple(got.shape)}, expected {want.dtype}{tuple(want.shape)}"
    if strides(got) != strides(want):
        return f"strides {got.stride()}, expected {want.stride()}"
    g, w = plain(got).double(), plain(want).double()
    finite = w[w.isfinite()]
    scale = max(1.0, finite.abs().max().item()) if finite.numel() else 1.0
    if want.dtype in (torch.bool, torch.int64, torch.int32, torch.uint8):
        return "" if torch.equal(g, w) else f"{int((g != w).sum())} of {w.numel()} elements differ"
    close = torch.isclose(g, w, rtol=limit, atol=limit * scale, equal_nan=True)
    return "" if close.all() else f"{int((~close).sum())} of {w.numel()} elements differ"


def gradients(results, inputs):
    total = sum(
        (r * torch.linspace(-1, 1, r.numel(), device=r.device).reshape(r.shape)).sum()
        for r in results
        if r.requires_grad
    )
    return torch.autograd.grad(total, inputs, allow_unused=True) if isinstance(total, torch.Tensor) else []


def outcome_of(function, inputs, training):
    """[(name, tensor)] of a call: its results, what its inputs hold, gradients."""
    given = [copied(t).requires_grad_(training) for t in inputs]
    results = function(*given)
    named = [(f"result {k}", r) for k, r in enumerate(results)]
    if training:
        grads = gradients([r for r in results if r.is_floating_point()], given)
        return named + [(f"gradient {k}", g.contiguous()) for k, g in enumerate(grads) if g is not None]
    return named + [(f"input {k} afterwards", t) for k, t in enumerate(given)]


def wrong_with(arguments, lines, results, inputs, training, dynamic):
    """What differs, or nothing; None where eager does not take the program, or torch.compile without Coil does not."""
    function, _ = function_of(arguments, lines, results)
    try:
        want = outcome_of(function, inputs, training)
    except Exception:
        return None
    wrong = compared(function, inputs, training, dynamic, "coil", want, lines)
    as_by = lambda backend: compared(function, inputs, training, dynamic, backend, want, lines)
    # What torch's own tracing makes of a program, or records of a result's strides, is not for a backend to mend.
    if wrong and (as_by("aot_eager") or (": strides" in wrong and as_by("inductor") == wrong)):
        return None
    return wrong


def compared(function, inputs, training, dynamic, backend, want, lines):
    torch._dynamo.reset()
    try:
        got = outcome_of(torch.compile(function, backend=backend, dynamic=dynamic), inputs, training)
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    limit = tolerance([t for _, t in want] + list(inputs))
    if any(word in line for line in lines for word in ("float16", "bfloat16")):
        limit = max(limit, 1e-1 if any("bfloat16" in line for line in lines) else 2e-2)
    if [n for n, _ in got] != [n for n, _ in want]:
        return f"{[n for n, _ in got]}, expected {[n for n, _ in want]}"
    found = [f"{n}: {d}" for (n, g), (_, w) in zip(got, want) if (d := difference(g, w, limit))]
    return "; ".join(found)


def kind_of(wrong):
    """What a smaller program must still show."""
    return wrong.split(":")[0].rstrip("0123456789 ") if "Error" in wrong or "Failed" in wrong else "value"


def shrunk(arguments, lines, results, inputs, training, dynamic, wrong):
    """The same fault with fewer results and lines."""
    kind, until = kind_of(wrong), time.monotonic() + 120

    def still(fewer, kept):
        try:
            found = wrong_with(arguments, fewer, kept, inputs, training, dynamic)
        except Exception:
            return ""
        return found if found and kind_of(found) == kind else ""

    for result in results:
        if len(results) > 1 and (found := still(lines, [result])):
            results, wrong = [result], found
            break
    for k in reversed(range(len(lines))):
        fewer = lines[:k] + lines[k + 1 :]
        if time.monotonic() < until and (found := still(fewer, results)):
            lines, wrong = fewer, found
    return lines, results, wrong


def report(number, arguments, lines, results, inputs, training, dynamic, wrong, folder):
    _, source = function_of(arguments, lines, results)
    how = f"dynamic={dynamic}, training={training}"
    shapes = ", ".join(f"{n}: {t.dtype}{tuple(t.shape)}{t.stride()}" for n, t in zip(arguments, inputs))
    print(f"#{number} ({how}) {wrong}\n  {shapes}\n{source}", flush=True)
    if folder:
        torch.save(list(inputs), folder / f"{number}.pt")
        (folder / f"{number}.py").write_text(
            "import pathlib\n\nimport torch\nimport torch.nn.functional as F\n\nimport coil  # noqa: F401\n\n\n"
            f"{source}\n\n# {how}: {wrong}\ninputs = torch.load(pathlib.Path(__file__).with_suffix('.pt'))\n"
            f"print(program(*[t.clone() for t in inputs]))\n"
            f"print(torch.compile(program, backend='coil', dynamic={dynamic})(*inputs))\n"
        )


def run(number, seed, folder, device):
    """Counts of a program's outcomes."""
    counts = collections.Counter()
    training = number % 3 == 2
    writer = Writer(f"{seed}:{number}", training)
    results = writer.write(14)
    if not results:
        return counts
    arguments, inputs = list(writer.inputs), [moved(t, device) for t in writer.inputs.values()]
    for dynamic in (False, True):
        wrong = wrong_with(arguments, writer.lines, results, inputs, training, dynamic)
        what = "no program" if wrong is None else "right" if not wrong else kind_of(wrong)
        counts[what] += 1
        if wrong:
            least = shrunk(arguments, writer.lines, results, inputs, training, dynamic, wrong)
            report(number, arguments, *least[:2], inputs, training, dynamic, least[2], folder)
            break
    return counts


def guarded(number, seed, folder, device):
    def stop(*_):
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(4 * SECONDS)
    try:
        return run(number, seed, folder, device)
    except TimeoutError:
        print(f"#{number}: more than {4 * SECONDS} s", flush=True)
        return collections.Counter({"too long": 1})
    finally:
        signal.alarm(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=1e9)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
    counts, end = collections.Counter(), time.monotonic() + args.seconds
    for number in range(args.first, args.first + args.programs):
        if time.monotonic() > end:
            break
        counts += guarded(number, args.seed, args.out, args.device)
        if number % 20 == 19:
            print(f"{number + 1}: {dict(counts)}", file=sys.stderr, flush=True)
    print(", ".join(f"{n} {what}" for what, n in counts.items()))


if __name__ == "__main__":
    main()
