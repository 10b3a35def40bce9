"""functionalize against eager: random programs of views and in-place writes give the same results, writes, strides and
aliasing.
"""

import copy
import os
import random
import warnings

import pytest
import torch

from text_ir import Program, opt, significant

warnings.filterwarnings("ignore")

# Each takes the random generator and tensors, and gives (name, function of tensors) or None.


def dims(r, t):
    return r.randrange(-t.dim(), t.dim()) if t.dim() else 0


VIEWS = [
    lambda r, t: ("transpose", lambda x, a=dims(r, t), b=dims(r, t): x.transpose(a, b)),
    lambda r, t: ("permute", lambda x, p=r.sample(range(t.dim()), t.dim()): x.permute(p)),
    lambda r, t: ("select", lambda x, d=dims(r, t), i=r.randrange(-1, 2): x.select(d, i)),
    lambda r, t: (
        "slice",
        lambda x, d=dims(r, t), a=r.randrange(-2, 2), s=r.randrange(1, 3): torch.ops.aten.slice(x, d, a, 9, s),
    ),
    lambda r, t: ("narrow", lambda x, d=dims(r, t), a=r.randrange(0, 2): x.narrow(d, a, 1)),
    lambda r, t: ("unsqueeze", lambda x, d=dims(r, t): x.unsqueeze(d)),
    lambda r, t: ("squeeze", lambda x: x.squeeze()),
    lambda r, t: ("view", lambda x: x.view(-1)),
    lambda r, t: ("view2", lambda x: x.view(2, -1)),
    lambda r, t: ("reshape", lambda x: x.reshape(2, -1)),
    lambda r, t: ("flatten", lambda x: x.flatten()),
    lambda r, t: ("contiguous", lambda x: x.contiguous()),
    lambda r, t: ("to", lambda x, d=r.choice([torch.float32, torch.float64]): x.to(d)),
    lambda r, t: ("detach", lambda x: x.detach()),
    lambda r, t: ("diagonal", lambda x, o=r.randrange(-1, 2): x.diagonal(o)),
    lambda r, t: ("expand", lambda x: x.expand(2, *x.shape)),
    lambda r, t: ("split", lambda x, d=dims(r, t), i=r.randrange(2): x.split(2, d)[i]),
    lambda r, t: ("chunk", lambda x, d=dims(r, t), i=r.randrange(2): x.chunk(2, d)[i]),
    lambda r, t: ("unbind", lambda x, d=dims(r, t), i=r.randrange(2): x.unbind(d)[i]),
    lambda r, t: ("movedim", lambda x, a=dims(r, t), b=dims(r, t): x.movedim(a, b)),
    lambda r, t: ("T", lambda x: x.mT),
    lambda r, t: ("as_strided", lambda x: x.as_strided((2, 2), (2, 1), 1)),
    lambda r, t: ("view_as", lambda x: x.view_as(x + 1)),
]
WRITES = [
    lambda r, t: ("add_", lambda x: x.add_(1.5)),
    lambda r, t: ("mul_", lambda x: x.mul_(2)),
    lambda r, t: ("sub_", lambda x: x.sub_(x.detach().clone(), alpha=0.5)),
    lambda r, t: ("relu_", lambda x: x.relu_()),
    lambda r, t: ("zero_", lambda x: x.zero_()),
    lambda r, t: ("fill_", lambda x: x.fill_(3)),
    lambda r, t: ("clamp_", lambda x: x.clamp_(-0.5, 2.0)),
    lambda r, t: ("hardtanh_", lambda x: torch.nn.functional.hardtanh_(x)),
    lambda r, t: ("masked_fill_", lambda x: x.masked_fill_(x > 0.5, -1.0)),
    lambda r, t: ("copy_", lambda x: x.copy_(torch.arange(x.numel(), dtype=torch.float64).reshape(x.shape))),
    lambda r, t: ("copy_row", lambda x: x.copy_(torch.ones(x.shape[-1:]))),
    lambda r, t: ("setitem", lambda x: x.__setitem__(0, 7.0) or x),
    lambda r, t: ("setmask", lambda x: x.__setitem__(x > 1, 0.25) or x),
    lambda r, t: (
        "index_put_",
        lambda x: x.index_put_((torch.tensor([0]),), torch.tensor(5.0, dtype=x.dtype), accumulate=True),
    ),
    lambda r, t: ("detach_", lambda x: x if x._is_view() else x.detach_()),
    lambda r, t: ("dropout_", lambda x: torch.nn.functional.dropout(x, 0.5, False, True)),
]
RESHAPES = [
    lambda r, t: ("unsqueeze_", lambda x: x.unsqueeze_(0)),
    lambda r, t: ("squeeze_", lambda x: x.squeeze_()),
    lambda r, t: ("transpose_", lambda x, a=dims(r, t), b=dims(r, t): x.transpose_(a, b)),
]
OTHERS = [
    lambda r, t: ("clone", lambda x: x.clone()),
    lambda r, t: ("neg", lambda x: -x),
    lambda r, t: ("sum", lambda x: x.sum(0, keepdim=True)),
    lambda r, t: ("empty", lambda x: torch.empty_like(x).copy_(x)),
    lambda r, t: ("new", lambda x: x.new_zeros(3, 4)),
]


def make_program(seed):
    """Steps (source, function, name): each appends its result to the tensors; the first two are the input and the
    buffer.
    """
    r = random.Random(seed)
    inputs = [torch.linspace(-2, 2, 24).reshape(2, 3, 4), torch.linspace(-1, 3, 12).reshape(3, 4)]
    tensors, steps, expanded = [t.clone() for t in inputs], [], []
    for _ in range(60):
        if len(steps) == 12:
            break
        kind = r.choices([VIEWS, WRITES, OTHERS, RESHAPES], [5, 4, 1, 0.3])[0]
        source = r.randrange(len(tensors))
        if kind is RESHAPES and any(tensors[source] is t for t in tensors[:2]):
            continue  # the caller's own tensor would have other sizes after the call
        if kind is WRITES and any(same_storage(tensors[source], t) for t in expanded if tensors[source]._is_view()):
            continue  # a write through `expand` is refused
        name, f = r.choice(kind)(r, tensors[source])
        try:
            f(run(steps, [t.clone() for t in inputs])[source])
            tensors.append(f(tensors[source]))
        except (RuntimeError, IndexError, ValueError, TypeError):
            tensors = run(steps, [t.clone() for t in inputs])
            expanded = [tensors[2 + i] for i, (_, _, step) in enumerate(steps) if step == "expand"]
            continue
        steps.append((source, f, name))
        if name == "expand":
            expanded.append(tensors[-1])
    if len(tensors) == 2:
        return make_program(seed + 100000)
    returned = sorted(r.sample(range(2, len(tensors)), min(4, len(tensors) - 2)))
    return inputs, steps, returned


def run(steps, tensors):
    for source, f, _ in steps:
        tensors.append(f(tensors[source]))
    return tensors


class Model(torch.nn.Module):
    def __init__(self, steps, returned, state):
        super().__init__()
        self.steps, self.returned = steps, returned
        self.register_buffer("state", state)

    def forward(self, x):
        tensors = run(self.steps, [x, self.state])
        return tuple(tensors[i] for i in self.returned)


def same_storage(a, b):
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def compare(model, x, path):
    try:
        exported = torch.export.export(copy.deepcopy(model), (x.clone(),))
    except torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode:
        pytest.skip("torch.export itself refuses the program")
    torch.export.save(exported, path)
    program = Program(opt(path, "remove-noops", "functionalize", "propagate"))
    for target in program.targets:
        if not target.startswith("_operator."):
            space, name, overload = target.split(".")
            schema = getattr(getattr(getattr(torch.ops, space), name), overload)._schema
            assert not schema.is_mutable, f"{target} still writes"

    eager_x = x.clone()
    expected = model(eager_x)
    attributes = {k: v.clone() for k, v in {**exported.state_dict, **exported.constants}.items()}
    ours_x = x.clone()
    results = program({"x": ours_x}, attributes)
    results, written = results[: len(expected)], {(k, t): results[i] for k, t, i in program.mutations}
    assert torch.equal(ours_x, x), "the functional graph wrote to its input"
    for i, (ours, theirs) in enumerate(zip(results, expected)):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape, f"result {i}"
        assert significant(ours.stride(), ours.shape) == significant(theirs.stride(), theirs.shape), (
            f"result {i}: strides {ours.stride()}, eager has {theirs.stride()}"
        )
        torch.testing.assert_close(
            ours, theirs, rtol=1e-6, atol=1e-6, equal_nan=True, msg=lambda m, i=i: f"result {i}: {m}"
        )
    torch.testing.assert_close(written.get(("input", "x"), x), eager_x, rtol=1e-6, atol=1e-6)
    for name, value in model.state_dict().items():
        torch.testing.assert_close(written.get(("attribute", name), attributes[name]), value, rtol=1e-6, atol=1e-6)

    # Who shares memory with whom: among results, and with what was written.
    holders = [(("input", "x"), eager_x)] + [(("attribute", n), b) for n, b in model.named_buffers()]
    for i, theirs in enumerate(expected):
        for j in range(i):
            assert same_storage(results[i], results[j]) == same_storage(theirs, expected[j]), (
                f"aliasing of results {i} and {j}"
            )
        for key, holder in holders:
            mine = written.get(key, ours_x if key[0] == "input" else attributes[key[1]])
            assert same_storage(results[i], mine) == same_storage(theirs, holder), f"aliasing of result {i} and {key}"


PROGRAMS = int(os.environ.get("COIL_TEST_PROGRAMS", "100"))


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_program(seed, tmp_path):
    inputs, steps, returned = make_program(seed)
    print("seed", seed, [(s, n) for s, _, n in steps], returned)
    compare(Model(steps, returned, inputs[1]), inputs[0], tmp_path / "program.pt2")
