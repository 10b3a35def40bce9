"""AOTAutograd's results in torch's cache with Coil's graphs in them: found by equal graphs, in another process and out
of torch's cache artifacts; not found where anything differs; torn ones are a miss.
"""

import importlib
import pathlib

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

from test_standalone import in_fresh_process
from test_torch_compile import coil, graphs_of, same

dynamo, library, kept = (importlib.import_module(f"coil.{name}") for name in ("dynamo", "library", "kept"))


@pytest.fixture(autouse=True)
def folders(fresh, tmp_path, monkeypatch):
    """Caches in which nothing is, and no operators but those that the test defines: other tests' stay registered."""
    others, decompositions = set(library.decompositions()), library.decompositions
    monkeypatch.setattr(
        library, "decompositions", lambda: {op: f for op, f in decompositions().items() if op not in others}
    )
    if kept._native.has_symm_mem_args():
        monkeypatch.setattr(kept._native, "has_symm_mem_args", lambda: False)
    monkeypatch.setenv("COIL_CACHE", str(tmp_path / "coil"))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "torch"))
    return tmp_path


def count(run):
    """(graphs of Dynamo's that a run found, that it did not find)."""
    torch._dynamo.reset()
    counters.clear()
    run()
    kept = counters["aot_autograd"]
    return kept["autograd_cache_hit"], kept["autograd_cache_miss"]


def step(x, w):
    return (x @ w).softmax(-1).sum(0)


def infer(x=None, w=None, options=None, f=step, **more):
    def run():
        a, b = torch.randn(4, 8) if x is None else x, torch.randn(8, 3) if w is None else w
        with torch.no_grad():
            same(torch.compile(f, backend="coil", options=options, **more)(a, b), f(a, b))

    return run


def train():
    x, w = torch.randn(4, 8), torch.randn(8, 3, requires_grad=True)
    torch.compile(step, backend="coil")(x, w).square().sum().backward()
    got, w.grad = w.grad, None
    step(x, w).square().sum().backward()
    same(got, w.grad)


def test_an_equal_graph_is_found_and_another_is_not():
    assert count(infer()) == (0, 1)
    assert count(infer()) == (1, 0)
    assert count(train) == (0, 1), "with a gradient to make"
    assert count(train) == (1, 0)
    for other in (
        infer(x=torch.randn(5, 8)),
        infer(options={"fuse": False}),
        infer(options={"cuda.graphs": True}),
        infer(f=lambda x, w: (x @ w).softmax(0).sum(0)),
        infer(dynamic=True),
    ):
        assert count(other)[0] == 0
    torch.use_deterministic_algorithms(True)
    try:
        assert count(infer())[0] == 0
    finally:
        torch.use_deterministic_algorithms(False)
    with torch.autocast("cpu", torch.bfloat16):
        assert count(infer(f=lambda x, w: (x.double() @ w.double()).sum(0)))[0] == 0


def test_steps_of_recurrent_layers_are_found():
    """They run in operators of Coil's own, which are no operators of the user's."""
    layer, x = nn.GRU(5, 7, 2), torch.randn(4, 3, 5)

    def run():
        out = torch.compile(layer, backend="coil", fullgraph=True)(x)[0]
        got, want = (torch.autograd.grad(o.cos().sum(), [*layer.parameters()]) for o in (out, layer(x)[0]))
        for g, w in zip(got, want, strict=True):
            torch.testing.assert_close(g, w, rtol=1e-5, atol=1e-5)

    assert count(run) == (0, 1)
    assert count(run) == (1, 0)


def rows_apart(x, w):
    y = x @ w
    return y[:, 1:], y[:, 0]


def test_views_of_a_product_are_made_again_by_their_strides():
    """torch's own record of these views holds numbers that happen to lie in memory."""

    def run():
        x, w = torch.randn(2, 5, 8), torch.randn(8, 3, requires_grad=True)
        got = torch.compile(rows_apart, backend="coil")(x, w)
        want = rows_apart(x, w)
        for a, b in zip(got, want, strict=True):
            same(a, b)
            assert a.stride() == b.stride()
        sum(t.square().sum() for t in got).backward()
        made, w.grad = w.grad, None
        sum(t.square().sum() for t in want).backward()
        same(made, w.grad)

    assert count(run) == (0, 1)
    assert count(run) == (1, 0)


def test_bounds_of_sizes_are_part_of_the_key():
    def bounded(most, n):
        def run():
            x = torch.randn(n, 8)
            torch._dynamo.mark_dynamic(x, 0, min=2, max=most)
            infer(x=x)()

        return run

    assert count(bounded(10, 5)) == (0, 1)
    assert count(bounded(10, 7)) == (1, 0)
    assert count(bounded(100, 50)) == (0, 1), "a program for sizes up to 10"


def test_guards_of_a_result_are_dynamos_again_where_it_is_found():
    """The groups of a convolution are fixed by one: another number of them is compiled."""

    def grouped(*groups):
        def run():
            compiled = torch.compile(f, backend="coil", dynamic=True)
            for n in groups:
                x, w = torch.randn(2, n, 5, 5), torch.randn(n, 1, 3, 3)
                same(compiled(x, w), f(x, w))

        return run

    def f(x, w):
        return nn.functional.conv2d(x, w, groups=x.shape[1])

    assert count(grouped(4)) == (0, 1)
    assert count(grouped(4)) == (1, 0)
    assert count(grouped(4, 6)) == (1, 1)
    assert count(grouped(4, 6)) == (2, 0)


def test_a_float_that_was_taken_for_a_constant_is_no_other_float():
    """Its guard comes with tracing, which a result that is found leaves out."""

    def f(x, s):
        return x + s, x**s

    graph = torch.compile(f, backend="coil", dynamic=True)
    x = torch.rand(4)
    for s in (0.5, 1.5, 2.5):
        same(graph(x, s), f(x, s))


def test_effects_in_order_are_not_kept(folders):
    """AOTAutograd passes tokens to a graph with effects, but not to one that it found."""

    def f(x, w):
        return torch.linalg.solve(x[:, :4] @ x[:, :4].T + torch.eye(4), x @ w)

    run = infer(torch.rand(4, 8), f=f)
    found = [count(run), count(run)]
    assert found[0][0] == found[1][0] == 0


def test_a_graph_that_is_found_is_called_by_dynamo_itself():
    """Nothing of AOTAutograd stands around it, as where it was just compiled."""
    x, w = torch.randn(4, 8), torch.randn(8, 3)
    made = []

    def backend(gm, inputs):
        made.append(dynamo.coil(gm, inputs))
        return made[-1]

    def run():
        with torch.no_grad():
            same(torch.compile(step, backend=backend)(x, w), step(x, w))

    assert count(run) == (0, 1) and count(run) == (1, 0)
    assert [type(m) for m in made] == [coil._native.CompiledGraph] * 2


def test_torn_entries_are_a_miss(folders):
    def files(pattern):
        return [p for p in folders.rglob(pattern) if p.is_file()]

    count(train)
    packages = files("coil/graphs/*.coil")
    assert len(packages) == 2
    for package in packages:
        package.write_bytes(package.read_bytes()[:100])
    assert count(train) == (1, 0), "the result has the graphs itself"
    for cut in (50, 0, -20):
        results = files("torch/aotautograd/*/*")
        assert results
        for result in results:
            result.write_bytes(result.read_bytes()[:cut])
        assert count(train)[0] == 0
        assert count(train)[0] == 1


def test_nothing_is_kept_that_the_key_does_not_name(folders):
    def none(**options):
        return count(infer(options=options))

    assert none(cache="none") == (0, 0) and none(debug_dir=str(folders / "debug")) == (0, 0)
    assert not list(folders.rglob("aotautograd/*"))
    held = torch.randn(8, 3)

    def holding(gm, inputs):
        gm.held = held
        return dynamo.coil(gm, inputs)

    def run():
        with torch.no_grad():
            same(torch.compile(torch.sin, backend=holding)(held), held.sin())

    assert count(run) == (0, 0)
    assert not list(folders.rglob("aotautograd/*"))


# What another process does with a filled cache, or with artifacts in an empty one.
# Both in processes of their own: torch's keys hold what tests before may have set.
RUN = """
inputs, net = torch.load(sys.argv[1], weights_only=False)
compiled = torch.compile(net, backend="coil")
compiled(inputs).sum().backward()
gradients = [p.grad for p in net.parameters()]
with torch.no_grad():
    torch.save(([compiled(inputs)], gradients), sys.argv[1] + results)
"""
FIRST = f"""
import sys, torch
results = ".first"
{RUN}
data, info = torch.compiler.save_cache_artifacts()
open(sys.argv[2], "wb").write(data)
print(len(info.artifacts["aot_autograd"]))
"""
ANOTHER = f"""
import sys, torch
if len(sys.argv) > 2:
    import coil
    torch.compiler.load_cache_artifacts(open(sys.argv[2], "rb").read())
import coil.dynamo
def refuse(*args, **kwargs):
    raise AssertionError("a graph is compiled")
coil.dynamo.compile_graph = refuse
results = ".results"
{RUN}
print(dict(torch._dynamo.utils.counters["coil"]))
"""


def test_another_process_finds_them_and_so_does_one_with_the_artifacts(folders):
    net, x = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16)), torch.randn(3, 8)
    torch.save((x, net), folders / "net")
    assert in_fresh_process(FIRST, folders / "net", folders / "artifacts", folder=folders) == "2\n"
    want = torch.load(str(folders / "net") + ".first")
    for place, artifacts in ((folders, []), (folders / "empty", [folders / "artifacts"])):
        told = in_fresh_process(ANOTHER, folders / "net", *artifacts, folder=place)
        assert told == "{'graphs_loaded': 3}\n", "forward, backward, inference"
        got = torch.load(str(folders / "net") + ".results")
        for g, w in zip(got, want):
            same(list(g), list(w))


def test_a_graph_that_torch_has_no_key_for_is_an_artifact_of_its_own():
    def branches(x, w):
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    torch.compiler._cache.CacheArtifactManager.clear()
    assert count(infer(f=branches)) == (0, 0)
    _, info = torch.compiler.save_cache_artifacts()
    assert len(info.artifacts["coil_graph"]) == 1 and "aot_autograd" not in info.artifacts


def test_graphs_without_a_result_around_them_are_artifacts_of_their_own(folders, monkeypatch):
    monkeypatch.setattr(coil.kept, "has_key", lambda gm: False)
    torch.compiler._cache.CacheArtifactManager.clear()
    assert count(infer()) == (0, 0)
    data, info = torch.compiler.save_cache_artifacts()
    (entry,) = info.artifacts["coil_graph"]
    monkeypatch.setenv("COIL_CACHE", str(folders / "other"))
    assert torch.compiler.load_cache_artifacts(data).artifacts["coil_graph"] == [entry]
    made = graphs_of(monkeypatch)
    count(infer())
    assert [g.compiled_here for g in made] == [False]
    # Torn ones, and what is none at all: nothing is found, and all goes on.
    monkeypatch.setenv("COIL_CACHE", str(folders / "third"))
    assert torch.compiler.load_cache_artifacts(data[: len(data) // 2]) is None
    coil.artifacts.GraphArtifact(entry, b"\xff" * 20).populate_cache()
    made.clear()
    count(infer())
    assert [g.compiled_here for g in made] == [True]
    assert pathlib.Path(folders / "third" / "graphs").is_dir()
