"""Kernels in Metal's language. None of this runs on an Apple GPU: the text is compiled as C++ behind a shim that stands
for Metal's library (src/device/metal/shim.h), its threads as fibers, and compared with eager; and Clang reads it as C++
for OpenCL, which is as strict about address spaces as Metal is and has no double either.

`metal_sweep.py` runs all cases of test_ops.py, by hand.
"""

import pytest
import torch

from batch import Case, outcomes
from test_cuda_values import SHAPES, seeded
from test_ops import CHUNKS

EMULATE = ("--set", "metal.emulate=true")
BF16 = torch.bfloat16
# Metal has no f64; the others go through all forms of kernels.
DOUBLE = {
    "row_shared_again",
    "scan_odd",
    "scan_few_long",
    "scan_tiles",
    "scan_tiles_groups",
    "scan_logsumexp_special",
    "scan_logsumexp_tiles",
}
FORMS = [c for c in SHAPES if c.group == "forms" and c.name not in DOUBLE] + [
    Case("forms", "scan_infinite", lambda x: (x.logcumsumexp(-1), x.half().logcumsumexp(-1)), (seeded(3, 900) * 20,)),
    Case(
        "forms",
        "whole_numbers",
        lambda x: (x // 3, x % 7, x << 2, x.pow(3), torch.gcd(x, x + 6)),
        (torch.arange(-40, 40),),
    ),
    Case(
        "forms",
        "narrow_numbers",
        lambda x: (x.to(torch.int8) + 1, x.to(torch.uint8) * 3, x.to(torch.int16) >> 1, x.half() / 3, x.to(BF16).exp()),
        (torch.arange(-60, 60),),
    ),
    Case("forms", "remainders", lambda x, y: (torch.fmod(x, y), x % y, x // y), (seeded(700) * 50, seeded(700) * 3)),
    Case(
        "forms",
        "small_arguments",
        lambda x: (torch.expm1(x), torch.log1p(x), torch.hypot(x, x + 1), torch.nextafter(x, -x), torch.sinh(x)),
        (torch.cat([seeded(300) * 1e-4, seeded(50), torch.tensor([0.0, -0.0, 1e-30, float("inf"), float("nan")])]),),
    ),
]
UPDATES = [
    Case(
        "updates",
        f"{name}_{kind}",
        lambda x, i, v, kind=kind: x.scatter_reduce(0, i, v, kind),
        (
            (torch.arange(40) % 5 + 1).to(dtype),
            torch.arange(160) * 7 % 40,
            (torch.arange(160) % 3 + 1).to(dtype),
        ),
    )
    for name, dtype in {
        "f32": torch.float32,
        "f16": torch.float16,
        "bf16": BF16,
        "i32": torch.int32,
        "i16": torch.int16,
        "i8": torch.int8,
        "u8": torch.uint8,
    }.items()
    for kind in ("sum", "amax", "amin")
] + [
    Case(
        "updates",
        "i64_sum",
        lambda x, i, v: x.index_add(0, i, v),
        (torch.arange(40) - (1 << 40), torch.arange(160) * 7 % 40, torch.arange(160) * (1 << 33) - (1 << 38)),
    ),
]


@pytest.fixture(scope="module")
def found():
    return outcomes(FORMS + UPDATES, False, *EMULATE)


@pytest.mark.parametrize("name", [c.name for c in FORMS + UPDATES])
def test_form(found, name):
    assert not found[name]


@pytest.mark.parametrize("family", ["indexing0", "selection0"])
def test_family(family):
    wrong = {name: text for name, text in outcomes(CHUNKS[family], False, *EMULATE).items() if text}
    assert not {name: text for name, text in wrong.items() if "Metal does not have" not in text}
    assert len(wrong) < len(CHUNKS[family]) // 4
