"""Triton kernels written in ways that users write them (triton_user_programs.py): values against plain torch, by
Triton's interpreter.
"""

import pytest

triton = pytest.importorskip("triton", reason="Triton is not installed")

import torch  # noqa: E402

import coil  # noqa: E402
import triton_algorithms  # noqa: E402, F401
import triton_models as models  # noqa: E402
import triton_user_programs as programs  # noqa: E402
from test_triton import FOR_GPU, compiled, definitions, exported, seen_by_dynamo  # noqa: E402, F401


def tensors(value):
    return [value] if isinstance(value, torch.Tensor) else [t for v in value for t in tensors(v)]


def same(got, want):
    got, want = tensors(got), tensors(want)
    assert len(got) == len(want)
    for g, w in zip(got, want):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        torch.testing.assert_close(g, w, rtol=2e-5, atol=2e-5)


def own(args):
    """Copies of tensors, but of those whose elements lie in one memory."""
    return [a if 0 in a.stride() else a.clone() for a in args]


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_gives_what_torch_gives(name):
    function, args, plain = programs.PROGRAMS[name]
    given, wanted = own(args), own(args)
    same(compiled(function)(*given), plain(*wanted))
    same([g.float() for g in given], [w.float() for w in wanted])


def test_floats_of_sizes():
    """As attention's scale: a guard says which float it was."""

    def scaled(x):
        out = torch.empty_like(x)
        programs.scaled_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), x.shape[1] ** -0.5)
        return out

    run = torch.compile(scaled, backend="coil", dynamic=True, fullgraph=True, options={"cache": "none"})
    for rows, columns in ((5, 16), (7, 16), (5, 20)):
        x = torch.randn(rows, columns)
        with torch._dynamo.config.patch(error_on_recompile=rows == 7):
            same(run(x), x * columns**-0.5)


@pytest.mark.parametrize("name", programs.TRAINED)
def test_gradients(name):
    function, x, plain = programs.TRAINED[name]

    def step(function):
        given = x.clone().requires_grad_()
        result = function(given)
        result.sum().backward()
        return result.detach(), given.grad

    same(step(compiled(function)), step(plain))


@pytest.mark.parametrize(
    "function,said",
    [
        (programs.several_types, r"writes to one of `a`, `b`, which are views of one memory of several types"),
        (
            programs.tuple_of_tensors,
            r"several_kernel \(.*\) takes tensors in a tuple for `xs`, which graphs do not hold",
        ),
        (programs.in_place_on_expanded, r"elements lie in the same memory|single memory location"),
    ],
)
def test_refusals(function, said):
    with pytest.raises(Exception, match=said):
        compiled(function)(programs.drawn(40))


class Defaults(torch.nn.Module):
    def forward(self, x):
        return programs.defaults(x)


def test_exported_programs_copy_what_kernels_write_to(tmp_path):
    """torch.export takes a kernel to write to all that it is given where there is no GPU."""
    program = coil.with_user_kernels(exported(Defaults(), (torch.randn(100),)))
    (call,) = [n for n in program.graph.nodes if str(n.target) == "coil.user_kernel.default"]
    assert [n.name for n in call.args[1]] == ["sin", "empty_like"] and call.args[4] == [1]
    x = torch.randn(100)
    same(program.module()(x), (x.sin() * 2).relu())


def test_views_in_exported_programs(tmp_path):
    """In torch, in the archive and in the package views of one memory stay such."""

    class Overlapping(torch.nn.Module):
        def forward(self, x):
            return programs.PROGRAMS["overlapping parts of one memory"][0](x), programs.columns(x)

    x = torch.randn(40)
    want = programs.PROGRAMS["overlapping parts of one memory"][2](x), torch.stack([x + 1, x + 2], 1)
    program = coil.with_user_kernels(exported(Overlapping(), (torch.randn(40),)))
    same(program.module()(x), want)
    torch.export.save(program, tmp_path / "m.pt2")
    loaded = torch.export.load(tmp_path / "m.pt2")
    same(coil.compile(loaded, options={"cache": "none"})(x), want)


def test_alignment_in_memory_that_views_share():
    """A view's address is a multiple of 16 bytes or not by where it lies in the memory that the call makes."""

    class Parts(torch.nn.Module):
        def forward(self, x):
            y = torch.empty(80)[8:]
            programs.halves_kernel[(1,)](y[:40], y[2:], x, 40, B=64)
            return y[:42] * 1

    program = coil.with_user_kernels(exported(Parts(), (torch.randn(40),)), "cuda", FOR_GPU | {"cache": "none"})
    (definition,) = definitions(program)
    assert [p["aligned"] for p in definition["parameters"] if p["kind"] == "tensor"] == [True, False, True]


def test_a_mixture_of_experts():
    given = models.mixture_inputs()
    same(compiled(models.mixture)(*given), models.plain_mixture(*given))


def test_a_model_is_trained():
    """Ten steps of a small Llama whose norms and rotary embeddings are kernels."""
    tokens = torch.randint(50, (2, 17), generator=torch.Generator().manual_seed(0))
    model, plain = models.Llama(kernels=True), models.Llama(kernels=False)
    losses = models.train(model, compiled(model), tokens)
    same(losses, models.train(plain, plain, tokens))
    assert losses[-1] < losses[0]
    same([*model.parameters()], [*plain.parameters()])
