"""Every form in which a program leaves the compiler gives the same bits: the plan, C++, Python, an FX graph."""

import json
import resource
import signal

import pytest
import torch

import fixture_programs
import test_training_graphs
from coil_harness import coil, coil_ok, run, same
from emitted import bound, build_program, call_flat, call_program, emit, load_module
from models import FULL, SMALL
from test_branch_sizes import PROGRAMS as BRANCHES
from test_control_flow import Collatz, Mapped, Nested, Recurrent, Settling, Suppress, TwoNetworks
from test_random_programs import Writer

# Constants are packed for the library in plans and in C++; Python and FX hold them as they are, and a library may round
# otherwise then.
SETTINGS = ["--set", "pack_weights=false"]
FIXTURES = ["nested", "structure", "symbols", "weights", "results", "arguments"]
MODELS = ["digits", "bert_dynamic", "buffers"]
OTHER_MODELS = sorted(set(SMALL) - {*MODELS, "nested"})
SEEDS = [1, 7]


def fixture(name):
    module, args, kwargs, dynamic = fixture_programs.PROGRAMS[name]()
    return module, args, kwargs, dynamic, []


def model(name):
    module, args, dynamic, others = SMALL[name]()
    return module, args, {}, dynamic, others


def random_program(seed):
    writer = Writer(seed)
    source = writer.program(25)
    return writer.module(source), tuple(writer.inputs.values()), {}, None, []


def named(module, args, kwargs):
    from torch.utils import _pytree as pytree

    from coil_harness import dense, path_name

    return {
        ".".join(filter(None, [n, path_name(p)])): dense(x)
        for n, v in bound(module, args, kwargs).items()
        for p, x in pytree.tree_flatten_with_path(v)[0]
        if x is not None and not isinstance(x, str)
    }


def through_passes(module, folder):
    """The graph as text with types, after passes that want them, read back."""
    text = folder / "m.fx"
    text.write_text(module.text())
    lines = [
        line
        for line in text.read_text().splitlines()
        if " = placeholder[" in line or " = get_attr[" in line or "new_empty_strided" in line
    ]
    assert all(" : " in line.split(" = ")[0] for line in lines if " = placeholder[" not in line), lines
    passes = [
        word
        for name in ("propagate", "eliminate-common-subexpressions", "eliminate-dead-code", "propagate")
        for word in ("--pass", name)
    ]
    return module.read(coil_ok("opt", *passes, text).stdout)


def check_all(program, folder, decomposed=False):
    module, args, kwargs, dynamic, others = program
    archive = folder / "m.pt2"
    with torch.no_grad():
        exported = torch.export.export(module, args, kwargs, dynamic_shapes=dynamic)
        torch.export.save(exported.run_decompositions() if decomposed else exported, archive)
    coil_ok("compile", archive, "-o", folder / "m.coil", *SETTINGS)
    cpp = build_program(emit(archive, "cpp", *SETTINGS))
    for each in [args, *others]:
        # A fresh start for each call: programs may keep state.
        python, fx = load_module(emit(archive, "python")).call, load_module(emit(archive, "fx")).load()
        inputs = named(module, each, kwargs)
        # Products of the library may add in another order on more threads: programs in this process run on torch's.
        want = run(folder / "m.coil", inputs, folder, "--threads", torch.get_num_threads())
        results = {
            "cpp": call_program(cpp, inputs),
            "python": call_flat(python, module, each, kwargs, want),
            "fx": call_flat(lambda flat: fx(*flat), module, each, kwargs, want),
            "fx interpreted": call_flat(
                lambda flat: torch.fx.Interpreter(load_module(emit(archive, "fx")).load()).run(*flat),
                module,
                each,
                kwargs,
                want,
            ),
            "fx through passes": call_flat(
                lambda flat: through_passes(load_module(emit(archive, "fx")), folder)(*flat), module, each, kwargs, want
            ),
        }
        for form, got in results.items():
            assert got.keys() == want.keys(), form
            wrong = [
                k
                for k in want
                if (got[k].dtype, got[k].shape) != (want[k].dtype, want[k].shape) or not same(got[k], want[k])
            ]
            assert not wrong, f"{form}: {wrong}"


@pytest.mark.parametrize("name", FIXTURES)
def test_fixture_programs(name, tmp_path):
    check_all(fixture(name), tmp_path)


@pytest.mark.parametrize("name", MODELS)
def test_models(name, tmp_path):
    check_all(model(name), tmp_path)


class Masked(torch.nn.Module):
    def forward(self, x):
        rows = x[x[:, 0] > 0]
        return rows * 2, rows.sum(0), torch.nonzero(x > 0), torch.unique(x > 0, return_counts=True)[1]


def test_sizes_that_depend_on_data(tmp_path):
    check_all(
        (Masked(), (torch.randn(6, 3),), {}, None, [(torch.randn(6, 3).abs() * sign,) for sign in (1, -1)]), tmp_path
    )


class EveryProducer(torch.nn.Module):
    """Every operator that makes a size, or a number, out of data; what it gives is used where a size may stand."""

    def forward(self, x, counts, at, real, flag):
        n = at.item()
        torch._check(n >= 0)
        torch._check(n + 2 <= x.shape[0])
        first, second = counts[:2].tolist()
        torch._check(first >= 0)
        torch._check(second >= 0)
        torch._check(first + second <= x.shape[0])
        pieces = torch.split(x, [first, second, x.shape[0] - first - second])
        left, middle, right = torch.tensor_split(x, counts[:2])
        values, inverse, times = torch.unique(counts, return_inverse=True, return_counts=True)
        runs, lengths = torch.unique_consecutive(counts, return_counts=True)
        rows, row_of = torch.unique(x > 0, dim=0, return_inverse=True)
        where = torch.nonzero(x > 0, as_tuple=True)
        changed = x.clone()
        changed[x > 0] = changed[x > 0] * 2 + 1
        f = real.item()
        return {
            "nonzero": torch.nonzero(x > 0),
            "argwhere": torch.argwhere(x[:, 0] > 0).sum(),
            "nonzero_tuple": where[0] * 2 + where[1],
            "nonzero_static": torch.nonzero_static(x > 0, size=5),
            "item": n,
            "item_sum": n + 1,
            "item_float": f,
            "item_float_used": x * f,
            "item_bool": x[:, 0] * flag.long().item(),
            "masked_select": torch.masked_select(x, x > 0).exp(),
            "mask": x[x[:, 0] > 0] * 2,
            "mask_sums": x[x > 0].sum(),
            "mask_written": changed,
            "mask_of_columns": x[:, x[0] > 0],
            "repeats": x.repeat_interleave(counts, dim=0),
            "repeats_alone": torch.repeat_interleave(counts),
            "repeats_sum": torch.repeat_interleave(x.t(), counts, dim=1).sum(1),
            "unique": values,
            "unique_inverse": inverse,
            "unique_counts": times,
            "unique_rows": rows,
            "unique_row_of": row_of,
            "runs": runs,
            "run_lengths": lengths,
            "bincount": torch.bincount(counts),
            "bincount_weighted": torch.bincount(counts, weights=x[:, 0].double(), minlength=3),
            "bincount_total": torch.bincount(counts).cumsum(0),
            "tensor_split": left * 2,
            "tensor_split_sum": middle.sum(0),
            "tensor_split_last": right,
            "split": pieces[0] + 1,
            "split_sum": pieces[1].sum(0),
            "split_last": pieces[2],
            "slice": x[:n] * 2,
            "slice_end": x[n:].sum(0),
            "narrow": x.narrow(0, n, 2) + 1,
            "select": x[n] - 1,
            "select_column": x[:, x.shape[1] - 1 - n % 2],
            "topk": x[:, 0].topk(n)[0],
            "arange": torch.arange(n) + 1,
            "arange_steps": torch.arange(0, 2 * n, 3),
            "zeros": torch.zeros(n, 3),
            "full": torch.full((2, n), 4.0),
        }


def producers(size, top, at):
    x = torch.randn(size, 4)
    counts = torch.randint(0, top, (size,))
    counts[:2] = counts[:2].clamp(max=size // 2)
    return x, counts, torch.tensor(at), torch.tensor(0.37), torch.tensor(at % 2 == 0)


@pytest.mark.parametrize("decomposed", [False, True], ids=["exported", "decomposed"])
def test_every_producer_of_sizes(decomposed, tmp_path):
    rows = torch.export.Dim("rows", min=4, max=512)
    none = producers(7, 1, 0)
    none[0].abs_().neg_()  # nothing is found, nothing is repeated
    check_all(
        (
            EveryProducer(),
            producers(6, 4, 3),
            {},
            ({0: rows}, {0: rows}, None, None, None),
            [none, producers(13, 5, 11), producers(64, 3, 32), producers(257, 2, 1)],
        ),
        tmp_path,
        decomposed,
    )


def boxes():
    corner = torch.rand(8, 2) * 4
    return torch.cat([corner, corner + torch.rand(8, 2) * 3 + 0.1], 1), torch.randperm(8) / 8, torch.tensor(0.3)


@pytest.mark.parametrize(
    "program",
    [
        (TwoNetworks().eval(), (torch.ones(3, 4),), {}, None, [(-torch.ones(3, 4),)]),
        (Suppress(), boxes(), {}, None, [boxes()]),
        (Recurrent().eval(), (torch.randn(5, 3, 2), torch.randn(3, 4)), {}, None, []),
        (Mapped(), (torch.randn(3, 4), torch.randn(4)), {}, None, []),
        (Collatz(), (torch.tensor(6),), {}, None, [(torch.tensor(n),) for n in (1, 27)]),
        (Settling(), (torch.randn(4, 3), torch.tensor(3)), {}, None, [(-torch.randn(4, 3), torch.tensor(0))]),
        (
            Nested(),
            (torch.randn(4, 3).round(), torch.tensor(3)),
            {},
            None,
            [(torch.randn(4, 3).abs(), torch.tensor(0)), (-torch.randn(4, 3).abs(), torch.tensor(5))],
        ),
    ],
    ids=["branch", "loop", "scan", "map", "loop in branch in loop", "branch in loop in region", "all in all"],
)
def test_control_flow(program, tmp_path):
    check_all(program, tmp_path)


@pytest.mark.parametrize("name", BRANCHES)
def test_sizes_that_a_branch_tells(name, tmp_path):
    module, args, dynamic, others = BRANCHES[name]
    check_all((module, args, {}, dynamic, others[:4]), tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("digits", "gpt2") else pytest.mark.full)
        for name in test_training_graphs.MODELS
    ],
)
def test_training_steps(name, tmp_path):
    module, args = test_training_graphs.traced(name)
    check_all((module, args, {}, None, []), tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("name", OTHER_MODELS)
def test_other_models(name, tmp_path):
    check_all(model(name), tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(FULL))
def test_full_models(name, tmp_path):
    module, args, dynamic, others = FULL[name]()
    check_all((module, args, {}, dynamic, others), tmp_path)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs(seed, tmp_path):
    check_all(random_program(seed), tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 130))
def test_many_random_programs(seed, tmp_path):
    check_all(random_program(seed), tmp_path)


# ---- Names and places that mean something to a language ----

TEXTS = [
    'a"; abort(); //',
    "*/ #error",
    'it\'s """ \\ odd',
    "line\nbreak\ttab",
    "{0} %s ${x} `id`",
    "</script><script>alert(1)</script>",
    "??/",
    "\u2028é🙂",
    'R"(x)"',
    "class",
    "x" * 300,
]
WORDS = (
    "double",
    "namespace",
    "std",
    "this",
    "template",
    "int64_t",
    "NULL",
    "main",
    "coil",
    "torch",
    "call",
    "buf0",
    "s0",
    "args",
    "self_",
)


def hostile(folder):
    """A program whose parameters, weights, results and source lines are named to break whatever writes them down
    unescaped.
    """
    source = (
        f"def forward(self, {', '.join(WORDS)}, given):\n    total = {' + '.join(WORDS)}\n    for value in "
        f"given.values():\n        total = total * 1.5 + value\n    out = {{}}\n    for k, name in "
        "enumerate(self.names):\n        out[name] = (total + getattr(self, name)).sin() * k if k % 3 else (total @ "
        "getattr(self, name).t()).cumsum(0)\n    return out\n"
    )
    scope = {}
    exec(compile(source, str(folder / 'a */ " \\ \'\'\' """ ??/.py'), "exec"), scope)
    module = type('class */ "', (torch.nn.Module,), {"forward": scope["forward"]})()
    module.names = TEXTS
    for k, name in enumerate(TEXTS):
        module.register_buffer(name, torch.randn(3, 3))
    args = (*(torch.randn(3, 3) for _ in WORDS), {name: torch.randn(3, 3) for name in TEXTS})
    return module, args, {}, None, [(*(torch.randn(3, 3) for _ in WORDS), {name: torch.randn(3, 3) for name in TEXTS})]


def test_hostile_names(tmp_path):
    check_all(hostile(tmp_path), tmp_path)
    archive = tmp_path / "m.pt2"
    coil_ok("explain", archive, "--html", tmp_path / "m.html")
    assert "<script>alert(1)" not in (tmp_path / "m.html").read_text()
    coil_ok("compile", archive, "-o", tmp_path / "m.coil", "--provenance", tmp_path / "m.json", "--log", "all")
    calls = json.loads((tmp_path / "m.json").read_text())["calls"]
    assert calls and all(c["incoming"] for c in calls)


@pytest.mark.parametrize("language", ["python", "fx", "cpp"])
@pytest.mark.parametrize("bytes", [512, 40_000])
def test_a_full_disk_leaves_no_part_of_a_program(language, bytes, tmp_path):
    """RLIMIT_FSIZE stands in for a full disk: the weights fit or do not, the source does not."""

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(32, 32)

        def forward(self, x):
            for _ in range(40):
                x = self.linear(x).softmax(-1).cumsum(0)
            return x

    with torch.no_grad():
        torch.export.save(torch.export.export(Net(), (torch.randn(4, 32),)), tmp_path / "m.pt2")
    written = tmp_path / "written"
    written.mkdir()

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes, bytes))

    done = coil("compile", tmp_path / "m.pt2", "-o", written / "m.py", "--emit", language, preexec_fn=limit)
    assert done.returncode == 1 and done.stderr.startswith("coil: error: ") and done.stderr.count("\n") == 1, (
        done.stderr
    )
    assert list(written.iterdir()) == []
