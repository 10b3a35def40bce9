"""Random programs of views, pads, slices, concatenations, reductions and pointwise operators over symbolic sizes,
compiled once and compared with eager at random sizes.

By hand, as long as one likes: `python test/python/test_random_shapes.py FIRST_SEED PROGRAMS [CALLS]` prints what it
ran. A failure prints its seed and its program.
"""

import pathlib
import random
import sys
import tempfile

import pytest
import torch

from coil_harness import ROOT, CoilError, coil_ok, difference, export, named_inputs, named_outputs, run
from program_writer import module_of

HIGH = 33
PROBES = ({"a": 5, "b": 7}, {"a": 1, "b": 1}, {"a": 2, "b": 16}, {"a": 13, "b": 3})
LAYOUTS = (("a", "b"), ("b", "a"), ("a",), ("b", 4), (2, "a", 3), ("a", "b", 2), (1, "b"), ("a", "a"))
SEEDS = (1, 3, 4, 8, 11, 20243, 60004)  # of those that torch exports for every size; the last two failed once
CALLS = 4


def tensors(layouts, sizes, generator=None):
    return {
        f"x{k}": torch.randn([sizes.get(d, d) for d in layout], generator=generator) for k, layout in enumerate(layouts)
    }


class Writer:
    """Writes a program whose every line eager takes at each of PROBES; values are followed at all of them."""

    def __init__(self, seed):
        self.random, self.lines = random.Random(seed), []
        torch.manual_seed(seed)
        self.layouts = [self.random.choice(LAYOUTS) for _ in range(self.random.randint(1, 3))]
        self.values = [tensors(self.layouts, sizes) for sizes in PROBES]
        self.inputs = list(self.values[0])

    def pick(self, rank=0):
        """A value's name, the newer the likelier."""
        names = [n for n, t in self.values[0].items() if t.dim() >= rank]
        return names[-1 - min(int(self.random.expovariate(0.4)), len(names) - 1)] if names else None

    def emit(self, text):
        made = []
        for values in self.values:
            try:
                made.append(eval(text, {"torch": torch, "F": torch.nn.functional, **values}))
            except (RuntimeError, IndexError, ValueError):
                return
        if any(m.numel() > 20000 or not (m.abs() < 1e4).all() for m in made):
            return
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        for values, m in zip(self.values, made):
            values[name] = m

    def pointwise(self):
        a, b = self.pick(), self.pick()
        self.emit(
            self.random.choice(
                [
                    f"torch.tanh({a})",
                    f"{a} * 0.5 + 1",
                    f"{a}.abs()",
                    f"torch.relu({a})",
                    f"{a}.clamp(-1, 1)",
                    f"{a} + {b}",
                    f"{a} * {b}",
                    f"{a} - {b}",
                    f"torch.where({a} > 0, {a}, {b})",
                    f"torch.maximum({a}, {b})",
                ]
            )
        )

    def place(self):
        a = self.pick(1)
        if a:
            d = self.random.randrange(self.values[0][a].dim())
            self.emit(
                self.random.choice(
                    [
                        f"{a} + torch.arange({a}.shape[-1])",
                        f"{a} * {a}.shape[{d}]",
                        f"{a} / {a}.numel()",
                        f"torch.full(({a}.shape[{d}], 2), 0.5) + {a}.sum()",
                        f"torch.zeros({a}.shape[{d}] + 1)",
                        f"torch.arange({a}.shape[{d}] * 2).reshape(2, -1) * 0.1",
                    ]
                )
            )

    def reduction(self):
        a = self.pick(1)
        if a:
            d, keep = self.random.randrange(self.values[0][a].dim()), self.random.random() < 0.5
            self.emit(
                self.random.choice(
                    [
                        f"{a}.sum({d}, keepdim={keep})",
                        f"{a}.mean({d}, keepdim={keep})",
                        f"{a}.amax({d}, keepdim={keep})",
                        f"torch.softmax({a}, {d})",
                        f"{a}.cumsum({d})",
                        f"{a}.sum()",
                        f"{a}.var({d}, correction=0, keepdim={keep})",
                        f"{a} - {a}.mean({d}, keepdim=True)",
                    ]
                )
            )

    def view(self):
        a = self.pick(1)
        if a:
            rank = self.values[0][a].dim()
            d, e = self.random.randrange(rank), self.random.randrange(rank)
            size, colons = f"{a}.shape[{d}]", ":, " * d
            self.emit(
                self.random.choice(
                    [
                        f"{a}.transpose({d}, {e})",
                        f"{a}.reshape(-1)",
                        f"{a}.unsqueeze({d})",
                        f"{a}.select({d}, {self.random.choice([0, -1])})",
                        f"{a}.flip({d})",
                        f"{a}.roll(1, {d})",
                        f"{a}.contiguous()",
                        f"{a}.narrow({d}, {size} // 3, {size} - {size} // 2)",
                        f"{a}[{colons}::2]",
                        f"{a}[{colons}1:]",
                        f"{a}[{colons}{size} // 2:]",
                        f"{a}.flatten({min(d, e)}, {max(d, e)})",
                        f"{a}.reshape({a}.shape[-1], -1)",
                        f"{a}.reshape(-1, {size})",
                        f"{a}.transpose({d}, {e}).reshape(-1, {size})",
                        f"{a}.expand(3, {', '.join(['-1'] * rank)})",
                        f"{a}.unflatten({d}, ({size}, 1))",
                        f"{a}.repeat_interleave(2, {d}).unflatten({d}, (-1, 2))",
                        f"{a}.tril()",
                    ]
                )
            )

    def join(self):
        a, b = self.pick(1), self.pick(1)
        if a:
            rank = self.values[0][a].dim()
            d = self.random.randrange(rank)
            colons = ":, " * d
            self.emit(
                self.random.choice(
                    [
                        f"torch.cat([{a}, {a}], {d})",
                        f"torch.cat([{a}, {b}], {d})",
                        f"torch.cat([{a}[{colons}1:], {a}, {a}[{colons}:1]], {d})",
                        f"torch.stack([{a}, {a} + 1], {d})",
                        f"F.pad({a}, (1, 2))",
                        f"F.pad({a}, (-1, 2), value=3.0)",
                        f"F.pad({a}, ({'0, 0, ' * (rank - 1 - d)}2, 1))",
                        f"{a}.repeat({', '.join('2' if k == d else '1' for k in range(rank))})",
                        f"torch.cat([{a}.sum({d}, keepdim=True), {a}], {d})",
                        f"{a}.unsqueeze(0) + {a}.unsqueeze(-1)",
                    ]
                )
            )

    def matmul(self):
        a = self.pick(2)
        if a:
            self.emit(f"{a} @ {a}.transpose(-1, -2) / {a}.shape[-1]")

    def program(self, length):
        for _ in range(length):
            self.random.choices(
                [self.pointwise, self.place, self.reduction, self.view, self.join, self.matmul], [6, 2, 3, 8, 4, 1]
            )[0]()
        made = [n for n in self.values[0] if n not in self.inputs]
        results = sorted({*self.random.sample(made, min(6, len(made))), *made[-1:]}, key=made.index)
        body = "\n".join(f"    {line}" for line in self.lines)
        return (
            f"def forward(self, {', '.join(self.inputs)}):\n    F = torch.nn.functional\n{body}\n    return "
            f"{{{', '.join(f'{r!r}: {r}' for r in results)}}}\n"
        )

    def shapes(self, low):
        sizes = {d: torch.export.Dim(d, min=low, max=HIGH) for d in ("a", "b")}
        return {
            f"x{k}": {d: sizes[s] for d, s in enumerate(layout) if s in sizes} for k, layout in enumerate(self.layouts)
        }


def attempt(seed, folder, calls):
    """Compares one program with eager; the number of calls, or nothing where torch does not export it for every size.
    Raises AssertionError.
    """
    writer = Writer(seed)
    source = writer.program(14)
    if not writer.lines:
        return None
    module, archive, package = module_of(source), pathlib.Path(folder) / "m.pt2", pathlib.Path(folder) / "m.coil"
    args = tuple(writer.values[0][n] for n in writer.inputs)
    for low in (0, 1):
        try:
            export(module, args, archive, writer.shapes(low), decomposed=seed % 2 == 1)
            break
        except Exception:  # whatever torch has against it
            if low == 1:
                return None
    rng = random.Random(seed)
    empty = [{"a": 0, "b": 3}, {"a": 5, "b": 0}, {"a": 0, "b": 0}] if low == 0 else []
    chosen = [{"a": 1, "b": 1}, {"a": HIGH, "b": HIGH}, *empty] + [
        {"a": rng.randint(1, HIGH), "b": rng.choice([1, 2, 8, 16, rng.randint(1, HIGH)])}
        for _ in range(calls - 2 - len(empty))
    ]
    made = 0
    try:
        coil_ok("compile", archive, "-o", package)
        call = loaded(package, module, folder)
        for sizes in chosen:
            given = tuple(tensors(writer.layouts, sizes).values())
            try:
                want = named_outputs(module(*given))
            except (RuntimeError, IndexError, ValueError):  # the largest of nothing
                continue
            try:
                got, made = call(given), made + 1
            except (CoilError, RuntimeError) as error:
                if 0 in sizes.values() and "would have -" in str(
                    error
                ):  # torch recorded the length of v[1:] as one less than v's, which is negative for nothing
                    continue
                raise
            wrong = [f"{k}: {w}" for k in want if (w := difference(got[k], want[k], 1e-4))]
            assert not wrong, f"at {sizes}: {wrong}"
    except (AssertionError, CoilError, RuntimeError) as error:
        raise AssertionError(f"seed {seed}:\n{source}\n{error}") from None
    return made


def loaded(package, module, folder):
    """The package as a function of tensors: in this process where the Python extension is built, else by the
    command.
    """
    sys.path.insert(0, str(ROOT / "build/python"))
    try:
        import coil
    except ImportError:
        return lambda given: run(package, named_inputs(module, given), folder)
    model = coil.load(package)
    return lambda given: named_outputs(model(*given))


@pytest.mark.parametrize("seed", SEEDS)
def test_random_shapes(seed, tmp_path):
    with torch.no_grad():
        if attempt(seed, tmp_path, CALLS) is None:
            pytest.skip("torch does not export this program for every size")


def main(first, programs, draws=20):
    ran = calls = 0
    failed = []
    for seed in range(first, first + programs):
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            try:
                made = attempt(seed, folder, draws)
            except AssertionError as error:
                failed.append(seed)
                print(error, flush=True)
                continue
        if made:
            ran, calls = ran + 1, calls + made
        if (seed - first) % 50 == 49:
            print(f"{seed - first + 1} seeds: {ran} programs, {calls} calls clean, {len(failed)} failed", flush=True)
    print(f"{programs} seeds from {first}: {ran} programs ran {calls} times as eager does; failed: {failed}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
