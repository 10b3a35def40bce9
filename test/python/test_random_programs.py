"""Random programs of pointwise, reduction, view, matmul and in-place operators, against eager. A failure prints its seed and its program."""
import random

import pytest
import torch

from coil_harness import CoilError, check

SEEDS = range(40)
SIZES = (1, 2, 3, 4, 8, 17)


class Writer:
    """Writes a straight-line program over values whose shapes it follows by running it as it goes."""

    def __init__(self, seed):
        self.random, self.lines, self.values = random.Random(seed), [], {}
        torch.manual_seed(seed)
        for i in range(self.random.randint(1, 3)):
            self.values[f"x{i}"] = torch.randn([self.random.choice(SIZES) for _ in range(self.random.randint(0, 3))])
        self.inputs = dict(self.values)

    def pick(self, keep=lambda t: True):
        """A value's name, the newer the likelier."""
        names = [n for n, t in self.values.items() if keep(t)]
        return names[min(int(self.random.expovariate(0.4)), len(names) - 1) * -1 - 1] if names else None

    def emit(self, text):
        """Adds `vN = text` and its value; nothing when eager refuses it or it grows out of bounds."""
        try:
            value = eval(text, {"torch": torch, **{k: v.clone() for k, v in self.values.items()}})
        except (RuntimeError, IndexError):
            return
        if value.numel() > 20000 or not (value.abs() < 1e4).all():
            return
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        self.values[name] = value

    def pointwise(self):
        a, b = self.pick(), self.pick()
        self.emit(self.random.choice([
            f"torch.tanh({a})", f"torch.sigmoid({a})", f"torch.relu({a})", f"{a} * 0.5 + 1", f"{a}.abs()", f"-{a}", f"torch.sin({a})", f"torch.nn.functional.gelu({a})", f"{a}.clamp(-1, 1)", f"({a} * {a} + 1).sqrt()",
            f"{a} + {b}", f"{a} * {b}", f"{a} - {b}", f"{a} / ({b}.abs() + 1)", f"torch.maximum({a}, {b})", f"torch.where({a} > 0, {a}, {b})", f"torch.exp(-{a}.abs())"]))

    def reduction(self):
        a = self.pick(lambda t: t.dim() > 0 and t.numel() > 0)
        if a:
            dim, keep = self.random.randrange(self.values[a].dim()), self.random.random() < 0.5
            self.emit(f"{a}.{self.random.choice(['sum', 'mean', 'amax', 'amin'])}({dim}, keepdim={keep})")
            self.emit(self.random.choice([f"torch.softmax({a}, {dim})", f"{a}.cumsum({dim})", f"{a}.var({dim}, correction=0)", f"{a}.sum()"]))

    def view(self):
        a = self.pick(lambda t: t.dim() > 0)
        if a:
            shape = list(self.values[a].shape)
            i, j = self.random.randrange(len(shape)), self.random.randrange(len(shape))
            self.emit(self.random.choice([
                f"{a}.transpose({i}, {j})", f"{a}.reshape(-1)", f"{a}.unsqueeze({i})", f"{a}.select({i}, {-1 if shape[i] > 1 else 0})", f"{a}.narrow({i}, {shape[i] // 3}, {shape[i] - shape[i] // 3})",
                f"{a}.flip({i})", f"torch.cat([{a}, {a}], {i})", f"{a}.expand(2, {', '.join(map(str, shape))})", f"{a}.transpose({i}, {j}).reshape({-1}, {shape[i] or 1})", f"{a}.contiguous()",
                f"{a}[{', '.join(['::2'] * len(shape))}]", f"torch.nn.functional.pad({a}, (1, 2))", f"torch.stack([{a}, {a} + 1], {i})"]))

    def matmul(self):
        a = self.pick(lambda t: t.dim() >= 2)
        if a:
            self.emit(f"{a} @ {a}.transpose(-1, -2) / {self.values[a].shape[-1] or 1}")

    def inplace(self):
        """A write to a fresh copy through a view of it."""
        a = self.pick(lambda t: t.dim() > 0 and min(t.shape) > 0)
        if a:
            name, i = f"v{len(self.lines)}", self.random.randrange(self.values[a].dim())
            view = self.random.choice([name, f"{name}.select({i}, 0)", f"{name}.transpose(0, {i})", f"{name}.reshape({name}.shape)"])
            write = self.random.choice(["add_(1)", "mul_(0.5)", "tanh_()", "clamp_(min=0)", "zero_()"])
            value = self.values[a].clone()
            exec(f"{view}.{write}", {name: value, "torch": torch})
            self.lines.append(f"{name} = {a}.clone(); {view}.{write}")
            self.values[name] = value

    def program(self, length):
        for _ in range(length):
            self.random.choices([self.pointwise, self.reduction, self.view, self.matmul, self.inplace], [8, 3, 5, 1, 2])[0]()
        made = [n for n in self.values if n not in self.inputs]
        results = sorted({*self.random.sample(made, min(8, len(made))), *(made[-1:])})
        parameters = ", ".join(self.inputs)
        body = "\n".join(f"    {line}" for line in self.lines)
        return f"def forward(self, {parameters}):\n{body}\n    return {{{', '.join(f'{r!r}: {r}' for r in results)}}}\n"


def module_of(source):
    scope = {"torch": torch}
    exec(source, scope)
    return type("Program", (torch.nn.Module,), {"forward": scope["forward"]})()


@pytest.mark.parametrize("seed", SEEDS)
def test_random_program(seed):
    writer = Writer(seed)
    source = writer.program(25)
    try:
        check(module_of(source), tuple(writer.inputs.values()), tolerance=1e-4, decomposed=seed % 2 == 1)
    except (AssertionError, CoilError) as error:
        pytest.fail(f"seed {seed}:\n{source}\n{error}", pytrace=False)
