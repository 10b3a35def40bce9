"""Elementwise operators over dtypes, special values, broadcasting and layouts."""

import torch
import torch.nn.functional as F

from cases.data import ALL, FLOATS, INTS, SPECIAL, Family

unary, binary, shapes, scalars = Family("unary"), Family("binary"), Family("broadcast"), Family("scalars")

# name -> (function, low, high): where it is defined, and smooth enough to compare
SMOOTH = {
    "exp": (torch.exp, -5, 5),
    "exp2": (torch.exp2, -5, 5),
    "expm1": (torch.expm1, -3, 3),
    "log": (torch.log, 0.01, 50),
    "log2": (torch.log2, 0.01, 50),
    "log10": (torch.log10, 0.01, 50),
    "log1p": (torch.log1p, -0.9, 20),
    "sqrt": (torch.sqrt, 0, 50),
    "rsqrt": (torch.rsqrt, 0.01, 50),
    "sin": (torch.sin, -10, 10),
    "cos": (torch.cos, -10, 10),
    "tan": (torch.tan, -1.4, 1.4),
    "asin": (torch.asin, -1, 1),
    "acos": (torch.acos, -1, 1),
    "atan": (torch.atan, -9, 9),
    "sinh": (torch.sinh, -3, 3),
    "cosh": (torch.cosh, -3, 3),
    "tanh": (torch.tanh, -4, 4),
    "asinh": (torch.asinh, -9, 9),
    "acosh": (torch.acosh, 1, 9),
    "atanh": (torch.atanh, -0.9, 0.9),
    "erf": (torch.erf, -3, 3),
    "erfc": (torch.erfc, -2, 2),
    "sigmoid": (torch.sigmoid, -9, 9),
    "reciprocal": (torch.reciprocal, 0.1, 9),
    "square": (torch.square, -3, 3),
    "relu": (F.relu, -3, 3),
    "relu6": (F.relu6, -3, 9),
    "gelu": (F.gelu, -4, 4),
    "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), -4, 4),
    "silu": (F.silu, -6, 6),
    "mish": (F.mish, -6, 6),
    "softplus": (F.softplus, -6, 30),
    "hardswish": (F.hardswish, -5, 5),
    "hardsigmoid": (F.hardsigmoid, -5, 5),
    "hardtanh": (F.hardtanh, -3, 3),
    "elu": (F.elu, -3, 3),
    "selu": (F.selu, -3, 3),
    "celu": (F.celu, -3, 3),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.1), -3, 3),
    "logsigmoid": (F.logsigmoid, -6, 6),
    "softsign": (F.softsign, -6, 6),
    "threshold": (lambda x: F.threshold(x, 0.5, -2.0), -3, 3),
    "abs": (torch.abs, -3, 3),
    "neg": (torch.neg, -3, 3),
    "sign": (torch.sign, -3, 3),
    "floor": (torch.floor, -9, 9),
    "ceil": (torch.ceil, -9, 9),
    "trunc": (torch.trunc, -9, 9),
    "round": (torch.round, -9, 9),
    "frac": (torch.frac, -9, 9),
    "round_2": (lambda x: torch.round(x, decimals=2), -9, 9),
    "lgamma": (torch.lgamma, 0.5, 20),
    "digamma": (torch.digamma, 0.5, 20),
    "erfinv": (torch.erfinv, -0.9, 0.9),
    "clamp": (lambda x: torch.clamp(x, -1, 1.5), -3, 3),
    "clamp_min": (lambda x: x.clamp(min=0.25), -3, 3),
    "nan_to_num": (torch.nan_to_num, -3, 3),
    "deg2rad": (torch.deg2rad, -300, 300),
    "logit": (lambda x: torch.logit(x, 1e-3), 0.01, 0.99),
    "tanhshrink": (F.tanhshrink, -3, 3),
    "hardshrink": (F.hardshrink, -3, 3),
    "softshrink": (F.softshrink, -3, 3),
    "dropout": (lambda x: F.dropout(x, 0.5, False), -3, 3),
}
LOOSE = {"lgamma", "digamma", "erfinv", "tan", "sinh", "cosh", "atanh", "acosh"}
STEPS = {"floor", "ceil", "trunc", "round", "frac", "sign"}
for name, (function, low, high) in SMOOTH.items():
    for short, dtype in FLOATS.items():
        if name == "round_2" and short != "f64" and short != "f32":
            continue
        unary.add(
            f"{name}_{short}",
            function,
            unary.uniform(low, high, 5, 37, dtype=dtype),
            tolerance=2e-4 if name in LOOSE and short == "f32" else None,
        )
for name in [
    "sin",
    "cos",
    "exp",
    "tanh",
    "sigmoid",
    "sqrt",
    "log",
    "abs",
    "neg",
    "sign",
    "relu",
    "square",
    "reciprocal",
    "erf",
    "floor",
    "round",
]:
    for short in ("u8", "i32", "i64"):
        unary.add(
            f"{name}_{short}",
            SMOOTH[name][0],
            unary.integers(0 if name in ("sqrt", "log") else -9, 10, 41, dtype=INTS[short]).abs()
            + (name in ("log", "reciprocal")),
        )
EXACT = [
    "relu",
    "abs",
    "neg",
    "sign",
    "floor",
    "ceil",
    "trunc",
    "round",
    "sqrt",
    "exp",
    "log",
    "log1p",
    "tanh",
    "sigmoid",
    "erf",
    "rsqrt",
    "reciprocal",
    "atan",
    "hardtanh",
    "clamp",
    "expm1",
    "leaky_relu",
    "silu",
    "gelu",
    "sin",
    "cos",
    "log2",
    "asinh",
    "square",
    "relu6",
    "nan_to_num",
]
for name in EXACT:
    # Eager's gelu of infinity is NaN in a vector and infinity in its remainder.
    values = [x for x in SPECIAL if not (abs(x) > 1e30 and name in ("sin", "cos", "gelu"))]
    unary.add(
        f"{name}_special", SMOOTH[name][0], torch.tensor(values), signs=name not in ("sin", "cos", "gelu", "silu")
    )
for name, function in {
    "isnan": torch.isnan,
    "isinf": torch.isinf,
    "isfinite": torch.isfinite,
    "signbit": torch.signbit,
    "logical_not": torch.logical_not,
    "isposinf": torch.isposinf,
}.items():
    unary.add(f"{name}_special", function, torch.tensor(SPECIAL))
for short, dtype in INTS.items():
    unary.add(f"bitwise_not_{short}", torch.bitwise_not, unary.any(dtype, 33))
unary.add("bitwise_not_b8", torch.bitwise_not, unary.bools(33))

for name, function in {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
}.items():
    for short, dtype in ALL.items():
        if not (name == "sub" and short == "b8"):
            binary.add(f"{name}_{short}", function, binary.any(dtype, 7, 19), binary.any(dtype, 7, 19))
for name, function in {
    "div": torch.div,
    "floor_divide": torch.floor_divide,
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "div_trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "div_floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
}.items():
    for short, dtype in (FLOATS | INTS).items():
        divisor = binary.any(dtype, 7, 19)
        # A quotient near an integer may round to either side: small whole numbers only.
        exact = name != "div" and short in (
            "f16",
            "bf16",
        )
        a = binary.integers(0, 20, 7, 19).to(dtype) if exact else binary.any(dtype, 7, 19) * 3
        b = (
            binary.integers(1, 6, 7, 19).to(dtype)
            if exact
            else torch.where(divisor.abs() < 0.1, torch.ones_like(divisor), divisor)
            if dtype.is_floating_point
            else torch.where(divisor == 0, 1, divisor).to(dtype)
        )
        binary.add(f"{name}_{short}", function, a, b)
for name, function in {"and": torch.bitwise_and, "or": torch.bitwise_or, "xor": torch.bitwise_xor}.items():
    for short, dtype in (INTS | {"b8": torch.bool}).items():
        binary.add(f"bitwise_{name}_{short}", function, binary.any(dtype, 33), binary.any(dtype, 33))
for name, function in {"left": torch.bitwise_left_shift, "right": torch.bitwise_right_shift}.items():
    for short, dtype in INTS.items():
        binary.add(f"shift_{name}_{short}", function, binary.any(dtype, 33), binary.integers(0, 4, 33, dtype=dtype))
for name, function in {"and": torch.logical_and, "or": torch.logical_or, "xor": torch.logical_xor}.items():
    for short in ("f32", "i32", "b8"):
        binary.add(
            f"logical_{name}_{short}",
            function,
            binary.integers(0, 2, 33).to(ALL[short]),
            binary.integers(0, 2, 33).to(ALL[short]),
        )
for short, dtype in FLOATS.items():
    positive = lambda: binary.uniform(0.2, 3, 7, 19, dtype=dtype)
    binary.add(
        f"pow_{short}",
        torch.pow,
        positive(),
        binary.uniform(-2, 2, 7, 19, dtype=dtype),
        tolerance=1e-4 if short == "f32" else None,
    )
    binary.add(f"atan2_{short}", torch.atan2, binary.normal(7, 19, dtype=dtype), binary.normal(7, 19, dtype=dtype))
    binary.add(f"hypot_{short}", torch.hypot, binary.normal(7, 19, dtype=dtype), binary.normal(7, 19, dtype=dtype))
    binary.add(
        f"copysign_{short}",
        torch.copysign,
        binary.normal(7, 19, dtype=dtype),
        binary.normal(7, 19, dtype=dtype),
        signs=True,
    )
    binary.add(f"xlogy_{short}", torch.xlogy, binary.normal(7, 19, dtype=dtype), positive())
    binary.add(
        f"logaddexp_{short}", torch.logaddexp, binary.normal(7, 19, dtype=dtype), binary.normal(7, 19, dtype=dtype)
    )
    binary.add(f"fmax_{short}", torch.fmax, binary.normal(7, 19, dtype=dtype), binary.normal(7, 19, dtype=dtype))
    binary.add(
        f"lerp_{short}",
        lambda a, b: torch.lerp(a, b, 0.3),
        binary.normal(7, 19, dtype=dtype),
        binary.normal(7, 19, dtype=dtype),
    )
    binary.add(
        f"addcmul_{short}",
        lambda a, b, c: torch.addcmul(a, b, c, value=0.5),
        *(binary.normal(7, 19, dtype=dtype) for _ in range(3)),
    )
    binary.add(
        f"addcdiv_{short}",
        lambda a, b, c: torch.addcdiv(a, b, c, value=0.5),
        binary.normal(7, 19, dtype=dtype),
        binary.normal(7, 19, dtype=dtype),
        positive(),
    )
    binary.add(
        f"where_{short}",
        torch.where,
        binary.bools(7, 19),
        binary.normal(7, 19, dtype=dtype),
        binary.normal(7, 19, dtype=dtype),
    )
special = torch.tensor(SPECIAL)
for name, function in {
    "add": torch.add,
    "mul": torch.mul,
    "div": torch.div,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "lt": torch.lt,
    "eq": torch.eq,
    "ge": torch.ge,
    "fmax": torch.fmax,
    "copysign": torch.copysign,
    "remainder": lambda a, b: torch.remainder(a, b + 2.5),
}.items():
    finite = special[special.abs() < 1e6] if name == "remainder" else special
    binary.add(
        f"{name}_special",
        function,
        finite.unsqueeze(0),
        finite.unsqueeze(1),
        signs=name not in ("remainder", "maximum", "minimum", "fmax"),
    )

for a, b in [
    ("f32", "f64"),
    ("f16", "bf16"),
    ("bf16", "f32"),
    ("i32", "f32"),
    ("i64", "f16"),
    ("u8", "i8"),
    ("u8", "i64"),
    ("b8", "i32"),
    ("b8", "f32"),
    ("i16", "i32"),
]:
    for name, function in {
        "add": torch.add,
        "mul": torch.mul,
        "div": torch.true_divide,
        "maximum": torch.maximum,
        "lt": torch.lt,
    }.items():
        y = scalars.any(ALL[b], 5, 9)
        scalars.add(
            f"{name}_{a}_{b}",
            function,
            scalars.any(ALL[a], 5, 9),
            torch.where(y == 0, 1, y).to(ALL[b]) if name == "div" else y,
        )
    scalars.add(f"zero_dim_{a}_{b}", lambda x, y: x * y + y, scalars.any(ALL[a], 5, 9), scalars.any(ALL[b]))
    scalars.add(
        f"cast_{a}_to_{b}", lambda x, d=ALL[b]: x.to(d), scalars.integers(0, 2 if a == "b8" else 100, 40).to(ALL[a])
    )
for short, dtype in ALL.items():
    scalars.add(f"add_int_{short}", lambda x: x + 2, scalars.any(dtype, 21))
    scalars.add(f"mul_float_{short}", lambda x: x * 1.5, scalars.any(dtype, 21))
    scalars.add(f"div_int_{short}", lambda x: x / 3, scalars.any(dtype, 21))
    scalars.add(f"compare_{short}", lambda x: (x > 1, x == 0, x <= 0.5), scalars.any(dtype, 21))
    scalars.add(f"to_f32_{short}", lambda x: x.to(torch.float32), scalars.any(dtype, 21))
    scalars.add(f"to_i64_{short}", lambda x: x.to(torch.int64), scalars.any(dtype, 21))
    scalars.add(f"to_b8_{short}", lambda x: x.to(torch.bool), scalars.any(dtype, 21))
    if dtype != torch.bool:
        scalars.add(f"rsub_{short}", lambda x: 1 - x, scalars.any(dtype, 21))
        scalars.add(f"pow_2_{short}", lambda x: x**2, scalars.any(dtype, 21))
scalars.add("pow_half", lambda x: x**0.5, scalars.uniform(0.1, 4, 21))
scalars.add("pow_minus_one", lambda x: x**-1, scalars.uniform(0.1, 4, 21))
scalars.add("pow_3", lambda x: x**3, scalars.normal(21))
scalars.add("scalar_pow", lambda x: 2.0**x, scalars.normal(21))
scalars.add("where_scalars", lambda x: torch.where(x > 0, 1.0, -1.0), scalars.normal(21))
scalars.add("add_alpha", lambda x, y: torch.add(x, y, alpha=3), scalars.normal(21), scalars.normal(21))
scalars.add(
    "sub_alpha_int", lambda x, y: torch.sub(x, y, alpha=2), scalars.integers(-9, 9, 21), scalars.integers(-9, 9, 21)
)
scalars.add("int_overflow_wraps", lambda x: x * x, torch.tensor([100, 127, -128, 16], dtype=torch.int8))
scalars.add("u8_subtract_wraps", lambda x: x - 200, torch.tensor([0, 1, 200, 255], dtype=torch.uint8))
scalars.add("huge_i64", lambda x: x + 1, torch.tensor([2**62, -(2**62), 2**53 + 1]))

SIZES = [
    ((3, 5), (5,)),
    ((3, 1), (1, 5)),
    ((), (4,)),
    ((), ()),
    ((1,), (7,)),
    ((2, 1, 4), (3, 1)),
    ((0, 3), (1, 3)),
    ((2, 0), (2, 1)),
    ((1, 1, 1), (2, 3, 4)),
    ((65, 33), (65, 1)),
    ((17,), (17,)),
    ((2, 3, 4, 5), (4, 1)),
    ((1025,), (1,)),
    ((4, 0, 2), ()),
]
for left, right in SIZES:
    name = "x".join(map(str, left)) + "_with_" + "x".join(map(str, right))
    shapes.add(f"add_{name}", torch.add, shapes.normal(*left), shapes.normal(*right))
    shapes.add(f"chain_{name}", lambda a, b: torch.tanh(a * b + 0.5) - b, shapes.normal(*left), shapes.normal(*right))
    shapes.add(
        f"ints_{name}", lambda a, b: (a + b) * 2 - a, shapes.integers(-9, 9, *left), shapes.integers(-9, 9, *right)
    )
shapes.add("transposed", lambda a, b: a.t() + b, shapes.normal(37, 21), shapes.normal(21, 37))
shapes.add("both_transposed", lambda a, b: (a.t() * b.t()).relu(), shapes.normal(37, 21), shapes.normal(37, 21))
shapes.add("permuted", lambda a: a.permute(2, 0, 1).exp(), shapes.normal(5, 6, 7))
shapes.add("permuted_add", lambda a, b: a.permute(2, 0, 1) + b, shapes.normal(5, 6, 7), shapes.normal(7, 5, 6))
shapes.add("expanded", lambda a: a.expand(4, 3, 5) * 2, shapes.normal(3, 1))
shapes.add("strided", lambda a: a[::2, 1::3] + 1, shapes.normal(9, 20))
shapes.add("flipped", lambda a: a.flip(0) + a, shapes.normal(9, 20))
shapes.add("large", lambda a, b: (a + b).relu() * 2, shapes.normal(300, 401), shapes.normal(300, 401))
shapes.add("transposed_large", lambda a, b: a.t() + b, shapes.normal(300, 401), shapes.normal(401, 300))

for short, dtype in INTS.items():
    binary.add(
        f"gcd_lcm_{short}",
        lambda a, b: (torch.gcd(a, b), torch.lcm(a, b)),
        binary.any(dtype, 7, 19),
        binary.any(dtype, 19),
    )
