"""Every form in which a program leaves the compiler gives the same bits: the plan, C++, Python, an FX graph."""
import copy

import pytest
import torch

import fixture_programs
from coil_harness import coil_ok, named_inputs, run, same
from emitted import bound, build_program, call_flat, call_program, emit, load_module
from models import FULL, SMALL
from test_control_flow import Collatz, Mapped, Nested, Recurrent, Suppress, TwoNetworks
from test_random_programs import Writer, module_of

# Constants are packed for the library in plans and in C++; Python and FX hold them as they are, and a library may round otherwise then.
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
    return module_of(source), tuple(writer.inputs.values()), {}, None, []


def named(module, args, kwargs):
    from coil_harness import dense, path_name
    from torch.utils import _pytree as pytree
    return {".".join(filter(None, [n, path_name(p)])): dense(x) for n, v in bound(module, args, kwargs).items() for p, x in pytree.tree_flatten_with_path(v)[0] if x is not None and not isinstance(x, str)}


def check_all(program, folder):
    module, args, kwargs, dynamic, others = program
    archive = folder / "m.pt2"
    with torch.no_grad():
        torch.export.save(torch.export.export(module, args, kwargs, dynamic_shapes=dynamic), archive)
    coil_ok("compile", archive, "-o", folder / "m.coil", *SETTINGS)
    cpp = build_program(emit(archive, "cpp", *SETTINGS))
    for each in [args, *others]:
        # A fresh start for each call: programs may keep state.
        python, fx = load_module(emit(archive, "python")).call, load_module(emit(archive, "fx")).load()
        inputs = named(module, each, kwargs)
        want = run(folder / "m.coil", inputs, folder)
        results = {
            "cpp": call_program(cpp, inputs),
            "python": call_flat(python, module, each, kwargs, want),
            "fx": call_flat(lambda flat: fx(*flat), module, each, kwargs, want),
            "fx interpreted": call_flat(lambda flat: torch.fx.Interpreter(load_module(emit(archive, "fx")).load()).run(*flat), module, each, kwargs, want),
        }
        for form, got in results.items():
            assert got.keys() == want.keys(), form
            wrong = [k for k in want if (got[k].dtype, got[k].shape) != (want[k].dtype, want[k].shape) or not same(got[k], want[k])]
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
    check_all((Masked(), (torch.randn(6, 3),), {}, None, [(torch.randn(6, 3).abs() * sign,) for sign in (1, -1)]), tmp_path)


def boxes():
    corner = torch.rand(8, 2) * 4
    return torch.cat([corner, corner + torch.rand(8, 2) * 3 + 0.1], 1), torch.randperm(8) / 8, torch.tensor(0.3)


@pytest.mark.parametrize("program", [(TwoNetworks().eval(), (torch.ones(3, 4),), {}, None, [(-torch.ones(3, 4),)]), (Suppress(), boxes(), {}, None, [boxes()]),
                                     (Recurrent().eval(), (torch.randn(5, 3, 2), torch.randn(3, 4)), {}, None, []), (Mapped(), (torch.randn(3, 4), torch.randn(4)), {}, None, []),
                                     (Collatz(), (torch.tensor(6),), {}, None, [(torch.tensor(n),) for n in (1, 27)]),
                                     (Nested(), (torch.randn(4, 3).round(), torch.tensor(3)), {}, None, [(torch.randn(4, 3).abs(), torch.tensor(0)), (-torch.randn(4, 3).abs(), torch.tensor(5))])],
                         ids=["branch", "loop", "scan", "map", "loop in branch in loop", "all in all"])
def test_control_flow(program, tmp_path):
    check_all(program, tmp_path)


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
