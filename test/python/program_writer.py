"""Straight-line programs written at random: what test_random_programs.py and test_random_nets.py share."""

import random

import torch
import torch.nn.functional as F

NAMES = {"torch": torch, "F": F}


def module_of(source, weights=None):
    """A module whose `forward` is this source; `weights` are its parameters by name."""
    scope = dict(NAMES)
    exec(source, scope)
    made = type("Program", (torch.nn.Module,), {"forward": scope["forward"]})()
    for name, weight in (weights or {}).items():
        made.register_parameter(name, weight)
    return made.eval()


class ProgramWriter:
    """Follows the values of the program that it writes by running it as it goes."""

    OLDER = 0.5  # how fast older values become rarer as operands
    MOST_ELEMENTS = 50000
    MOST_MAGNITUDE = 1e3

    def __init__(self, seed):
        self.random, self.lines, self.weights = random.Random(seed), [], {}
        torch.manual_seed(seed)
        self.inputs = self.make_inputs()
        self.values = dict(self.inputs)

    def pick(self, keep=lambda t: True):
        """A value's name, the newer the likelier."""
        names = [n for n, t in self.values.items() if keep(t)]
        return names[-1 - min(int(self.random.expovariate(self.OLDER)), len(names) - 1)] if names else None

    def emit(self, text):
        """Adds `vN = text` and its value, and gives its name; nothing when eager refuses it or it grows out of
        bounds.
        """
        try:
            with torch.no_grad():
                value = eval(
                    text,
                    {
                        **NAMES,
                        "self": type("Weights", (), self.weights),
                        **{k: v.clone() for k, v in self.values.items()},
                    },
                )
        except (RuntimeError, IndexError, ValueError):
            return None
        if value.numel() > self.MOST_ELEMENTS or not (value.abs() < self.MOST_MAGNITUDE).all():
            return None
        return self.add(f"v{len(self.lines)}", text, value)

    def add(self, name, text, value):
        self.lines.append(f"{name} = {text}")
        self.values[name] = value
        return name

    def write_through(self, of, views, writes):
        """A write to a fresh copy through a view of it; `views` are expressions of a name."""
        name = f"v{len(self.lines)}"
        view, write = self.random.choice(views).format(name), self.random.choice(writes)
        value = self.values[of].clone()
        exec(f"{view}.{write}", {name: value, "torch": torch})
        self.add(name, f"{of}.clone(); {view}.{write}", value)

    def program(self, length, results=8):
        for _ in range(length):
            self.step()
        made = [n for n in self.values if n not in self.inputs]
        returned = sorted({*self.random.sample(made, min(results, len(made))), *(made[-1:])})
        body = "\n".join(f"    {line}" for line in self.lines)
        return (
            f"def forward(self, {', '.join(self.inputs)}):\n{body}\n    return "
            f"{{{', '.join(f'{r!r}: {r}' for r in returned)}}}\n"
        )

    def module(self, source):
        return module_of(source, self.weights)
