"""`coil.standalone_compile`: artifacts are called, saved, and loaded by a fresh process that compiles nothing; and what
is no artifact of this build is refused by name.
"""

import json
import subprocess
import sys

import pytest
import torch
from torch import nn

from test_torch_compile import ROOT, coil, same

pytestmark = pytest.mark.usefixtures("fresh")

# Loads every artifact of a folder with nothing in any cache, and calls it with what stands beside it.
LOADER = """
import json, pathlib, sys, torch, coil, coil.dynamo
def refuse(*args, **kwargs):
    raise AssertionError("a loaded artifact is compiled")
coil.dynamo.compile_graph = refuse
coil.dynamo.translate = refuse
folder = pathlib.Path(sys.argv[1])
for path in sorted(folder.glob("*.inputs")):
    for format in ("binary", "unpacked"):
        artifact = coil.CompiledArtifact.load(path=str(path.with_suffix("." + format)), format=format)
        results = []
        for inputs in torch.load(path):
            outputs = artifact(*inputs)
            outputs = [outputs] if isinstance(outputs, torch.Tensor) else list(outputs)
            if any(o.requires_grad for o in outputs):
                sum(o.sum() for o in outputs if o.requires_grad).backward()
                outputs += [i.grad for i in inputs if isinstance(i, torch.Tensor) and i.requires_grad]
            results.append([o.detach() for o in outputs])
        torch.save(results, path.with_suffix("." + format + ".results"))
print(json.dumps(dict(torch._dynamo.utils.counters["coil"])))
"""


def in_fresh_process(script, *args, folder):
    """Its standard output. Caches of its own in `folder`."""
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, args)],
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(ROOT / "build/python"),
            "COIL_CACHE": str(folder / "coil"),
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "torch"),
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def products(x, w):
    return (x @ w).relu().sum(-1), x + 1


def artifact_of(f, inputs, dynamic_shapes="from_tracing_context", **options):
    """What a backend that calls standalone_compile makes of a function, and the graph's inputs."""
    made = []

    def backend(gm, example_inputs):
        made.append(coil.standalone_compile(gm, example_inputs, dynamic_shapes=dynamic_shapes, options=options or None))
        return made[-1]

    results = torch.compile(f, backend=backend, fullgraph=True)(*inputs)
    (artifact,) = made
    return artifact, results


def rows(n, grad=False):
    x = torch.randn(n, 8, requires_grad=grad)
    torch._dynamo.mark_dynamic(x, 0)
    return x


def saved(artifact, folder, name, calls):
    for format in ("binary", "unpacked"):
        artifact.save(path=str(folder / f"{name}.{format}"), format=format)
    torch.save(calls, folder / f"{name}.inputs")


def test_a_fresh_process_loads_artifacts_and_compiles_nothing(tmp_path):
    w, wants = torch.randn(8, 4), {}
    (tmp_path / "artifacts").mkdir()

    def keep(name, artifact, calls, want):
        saved(artifact, tmp_path / "artifacts", name, calls)
        wants[name] = want

    x = rows(5)
    artifact, results = artifact_of(products, (x, w))
    same(results, products(x, w))
    other = torch.randn(9, 8)
    keep("free", artifact, [(5, x, w), (9, other, w)], [list(products(x, w)), list(products(other, w))])

    x = rows(5, grad=True)
    artifact, _ = artifact_of(products, (x, w))
    other = torch.randn(3, 8, requires_grad=True)
    sum(o.sum() for o in products(other, w)).backward()
    gradient, other.grad = other.grad, None
    keep("training", artifact, [(3, other, w)], [[*products(other, w), gradient]])

    module = nn.Linear(8, 3)  # a graph with weights of its own, of one bare result, and no cache to be seen
    x = torch.randn(4, 8)
    artifact = coil.standalone_compile(
        torch.fx.symbolic_trace(module), [x], dynamic_shapes="from_example_inputs", options={"cache": "none"}
    )
    assert isinstance(artifact(x), torch.Tensor)
    keep("weights", artifact, [(x,)], [[module(x)]])

    told = json.loads(in_fresh_process(LOADER, tmp_path / "artifacts", folder=tmp_path))
    assert told == {"graphs_loaded": 10}, "one graph of one, forward and backward of two, in two formats"
    for name, want in wants.items():
        for format in ("binary", "unpacked"):
            got = torch.load(tmp_path / "artifacts" / f"{name}.{format}.results")
            same(got, [[o.detach() for o in w] for w in want])


@pytest.fixture
def artifact(tmp_path):
    x = torch.randn(4, 8)
    graph = torch.fx.symbolic_trace(lambda x: (x.sin() * 2,))
    return coil.standalone_compile(graph, [x], dynamic_shapes="from_example_inputs"), x


def still_right(artifact, x):
    same(artifact(x)[0], x.sin() * 2)


def test_damaged_and_foreign_files_are_refused(artifact, tmp_path):
    artifact, x = artifact
    path = tmp_path / "a"
    artifact.save(path=path)
    whole = path.read_bytes()
    magic, header, content = whole.split(b"\n", 2)
    foreign = {
        "another build": json.loads(header) | {"build": "0 avx2"},
        "torch 1.0": json.loads(header) | {"torch": "1.0"},
        "header": {},
    }
    damaged = {word: magic + b"\n" + json.dumps(h).encode() + b"\n" + content for word, h in foreign.items()}
    damaged |= {"cut short": whole[:-7], "altered": whole[:-9] + b"x" + whole[-8:], "no artifact": b"something else"}
    for word, data in damaged.items():
        path.write_bytes(data)
        with pytest.raises(coil.Error, match=word):
            coil.CompiledArtifact.load(path=path)
    with pytest.raises(coil.Error, match="cannot be read"):
        coil.CompiledArtifact.load(path=tmp_path / "none")
    path.write_bytes(whole)
    still_right(coil.CompiledArtifact.load(path=path), x)


def test_a_damaged_folder_is_refused_and_a_foreign_one_left_alone(artifact, tmp_path):
    artifact, x = artifact
    path = tmp_path / "a"
    artifact.save(path=path, format="unpacked")
    artifact.save(path=path, format="unpacked")  # over itself
    loaded = coil.CompiledArtifact.load(path=path, format="unpacked")
    still_right(loaded, x)
    loaded.save(path=path, format="unpacked")
    loaded.save(path=tmp_path / "file")
    still_right(coil.CompiledArtifact.load(path=tmp_path / "file"), x)
    (package,) = (path / "graphs").glob("*.coil")
    data = package.read_bytes()
    for torn in (data[: len(data) // 2], b""):
        package.write_bytes(torn)
        with pytest.raises(coil.Error, match="torn"):
            coil.CompiledArtifact.load(path=path, format="unpacked")
    package.unlink()
    with pytest.raises(coil.Error, match="damaged"):
        coil.CompiledArtifact.load(path=path, format="unpacked")
    with pytest.raises(coil.Error, match="cannot be read"):
        loaded.save(path=tmp_path / "another")
    still_right(loaded, x)
    with pytest.raises(coil.Error, match="is a folder"):
        artifact.save(path=path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "note").write_text("")
    with pytest.raises(coil.Error, match="left alone"):
        artifact.save(path=tmp_path / "mine", format="unpacked")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "file", "mine"]
    still_right(artifact, x)


def test_calls_that_make_no_sense_are_refused(artifact):
    artifact, x = artifact
    graph = torch.fx.symbolic_trace(lambda x: (x + 1,))
    with pytest.raises(coil.Error, match="from_graph, from_tracing_context, from_example_inputs"):
        coil.standalone_compile(graph, [x], dynamic_shapes="from_nowhere")
    with pytest.raises(coil.Error, match="no graph is being traced"):
        coil.standalone_compile(graph, [x], dynamic_shapes="from_tracing_context")
    with pytest.raises(coil.Error, match="torch.fx.GraphModule"):
        coil.standalone_compile(lambda x: x, [x])
    with pytest.raises(coil.Error, match="flat list"):
        coil.standalone_compile(torch.fx.symbolic_trace(lambda x: {"y": x + 1}), [x])
    with pytest.raises(coil.Error, match="binary and unpacked"):
        artifact.save(path="/dev/null", format="zip")
    frozen = coil.standalone_compile(
        graph, [x], dynamic_shapes="from_example_inputs", options={"freeze": True, "cache": "none"}
    )
    with pytest.raises(coil.Error, match="freeze"):
        frozen.save(path="/dev/null")
    same(frozen(x)[0], x + 1)
    with pytest.raises(coil.Error, match="size 5"):  # sizes of the example are the program's
        artifact(torch.randn(5, 8))
    still_right(artifact, x)


def test_sizes_of_the_graph_are_free(tmp_path):
    """`from_graph` takes the symbols of the metadata, as a host has them that cuts a Dynamo graph up."""
    parts = []

    def backend(gm, example_inputs):
        placeholders = [n.meta["example_value"] for n in gm.graph.nodes if n.op == "placeholder"]
        parts.append((gm, placeholders))
        return gm

    torch.compile(products, backend=backend)(rows(5), torch.randn(8, 4))
    ((gm, placeholders),) = parts
    before = gm.code
    artifact = coil.standalone_compile(gm, placeholders)
    assert gm.code == before
    for n in (5, 17):
        x, w = torch.randn(n, 8), torch.randn(8, 4)
        same(list(artifact(n, x, w)), list(products(x, w)))
