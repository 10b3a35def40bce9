"""The simplifier of symbolic sizes against Z3: random expressions and what they were simplified to, proved equal
wherever the expression is defined.

COIL_SYM_COUNT sets how many (the test's own run is short), COIL_SYM_SEED which.
"""

import ast
import os
import random
import subprocess

import pytest

from coil_harness import UNIT_TESTS

z3 = pytest.importorskip("z3")
pytestmark = pytest.mark.skipif(UNIT_TESTS is None, reason="the unit tests are not built, which print the expressions")
COUNT = int(os.environ.get("COIL_SYM_COUNT", 150))
SEED = os.environ.get("COIL_SYM_SEED") or str(random.SystemRandom().randrange(2**32))
MILLISECONDS = 100  # for one proof; what takes longer counts as undecided

SYMBOLS = {name: z3.Int(name) for name in ("s0", "s1", "s2", "i0", "i1", "i2", "r0")}
S0, S1, S2 = (SYMBOLS[s] for s in ("s0", "s1", "s2"))
# The ranges that the generator's environment knows. A loop's variable is asked for while it runs.
DOMAIN = {
    "s0": [S0 >= 0],
    "s1": [S1 >= 1, S1 <= 40],
    "s2": [S2 >= 2],
    "i0": [SYMBOLS["i0"] >= 0, SYMBOLS["i0"] < S0, S0 >= 0],
    "i1": [SYMBOLS["i1"] >= 0, SYMBOLS["i1"] < 8],
    "i2": [SYMBOLS["i2"] >= 0, SYMBOLS["i2"] < S1, S1 <= 40],
    "r0": [SYMBOLS["r0"] >= 0, SYMBOLS["r0"] < (S2 + 1) / 2, S2 >= 2],
}


class Formula:
    """An expression's text as a term of Z3, with the conditions under which it is defined and the symbols in it."""

    def __init__(self, text):
        self.defined, self.symbols, self.guards = [], set(), []
        self.term = self.walk(ast.parse(text, mode="eval").body)

    def need(self, condition):
        """Only where it is reached: a Where's branch counts where it is taken."""
        self.defined.append(z3.Implies(z3.And(*self.guards), condition) if self.guards else condition)

    @staticmethod
    def truth(x):
        return x != 0

    @staticmethod
    def number(condition):
        return z3.If(condition, z3.IntVal(1), z3.IntVal(0))

    def floor_div(self, a, b):
        self.need(b != 0)
        return z3.If(b > 0, a / b, (-a) / (-b))  # Z3's quotient rounds down for positive divisors

    def call(self, name, args):
        if name == "Where":
            condition = self.truth(self.walk(args[0]))
            branches = []
            for guard, branch in ((condition, args[1]), (z3.Not(condition), args[2])):
                self.guards.append(guard)
                branches.append(self.walk(branch))
                self.guards.pop()
            return z3.If(condition, *branches)
        v = [self.walk(a) for a in args]
        if name in ("Add", "Mul", "Min", "Max", "And", "Or"):
            result = v[0]
            for x in v[1:]:
                result = {
                    "Add": lambda: result + x,
                    "Mul": lambda: result * x,
                    "Min": lambda: z3.If(result < x, result, x),
                    "Max": lambda: z3.If(result > x, result, x),
                    "And": lambda: self.number(z3.And(self.truth(result), self.truth(x))),
                    "Or": lambda: self.number(z3.Or(self.truth(result), self.truth(x))),
                }[name]()
            return result
        if name == "Not":
            return self.number(z3.Not(self.truth(v[0])))
        a, b = v
        if name == "FloorDiv":
            return self.floor_div(a, b)
        if name == "CeilDiv":
            return -self.floor_div(-a, b)
        if name == "Mod":
            return a - b * self.floor_div(a, b)
        if name == "BitAnd":
            return z3.Function("bit_and", z3.IntSort(), z3.IntSort(), z3.IntSort())(a, b)
        return self.number({"Eq": a == b, "Ne": a != b, "Lt": a < b, "Le": a <= b}[name])

    def walk(self, node):
        if isinstance(node, ast.Constant):
            return z3.IntVal(node.value)
        if isinstance(node, ast.Name):
            self.symbols.add(node.id)
            return SYMBOLS[node.id]
        if isinstance(node, ast.UnaryOp):
            return -self.walk(node.operand)
        if isinstance(node, ast.Compare):
            return self.call({ast.Lt: "Lt", ast.LtE: "Le"}[type(node.ops[0])], [node.left, node.comparators[0]])
        if isinstance(node, ast.BinOp):
            if isinstance(node.op, ast.Pow):
                result, base = z3.IntVal(1), self.walk(node.left)
                for _ in range(node.right.value):
                    result = result * base
                return result
            a, b = self.walk(node.left), self.walk(node.right)
            return {ast.Add: lambda: a + b, ast.Sub: lambda: a - b, ast.Mult: lambda: a * b}[type(node.op)]()
        return self.call(node.func.id, node.args)


def verdict(before, after):
    """'proved', 'undecided', or the values for which the two differ."""
    if before == after:
        return "proved"
    a, b = Formula(before), Formula(after)
    solver = z3.Solver()
    solver.set("timeout", MILLISECONDS)
    for symbol in sorted(a.symbols):
        solver.add(*DOMAIN[symbol])
    solver.add(*a.defined, z3.Or(a.term != b.term, *(z3.Not(d) for d in b.defined)))
    found = solver.check()
    if found == z3.sat and "BitAnd" in before:  # of which the solver is told nothing but that it is a function
        return "undecided"
    return "proved" if found == z3.unsat else "undecided" if found == z3.unknown else str(solver.model())


def test_simplified_expressions_are_equal(tmp_path):
    pairs = tmp_path / "pairs.txt"
    done = subprocess.run(
        [UNIT_TESTS, "--gtest_filter=SymProperty.PairsForASolver", "--gtest_brief=1"],
        capture_output=True,
        text=True,
        env=os.environ | {"COIL_SYM_PAIRS": str(pairs), "COIL_SYM_COUNT": str(COUNT), "COIL_SYM_SEED": SEED},
    )
    assert done.returncode == 0, done.stdout[-2000:]
    proved = 0
    for line in pairs.read_text().splitlines():
        before, after = line.split("\t")
        result = verdict(before, after)
        assert result in ("proved", "undecided"), f"seed {SEED}:\n  {before}\n  {after}\ndiffer for {result}"
        proved += result == "proved"
    print(f"{proved} of {COUNT} proved, the others undecided within {MILLISECONDS} ms each")
    assert proved > COUNT // 2, "most of these are within reach of the solver"
