"""Archives that are damaged, hostile or beyond what Coil compiles: one clear error, nothing written, no crash."""

import io
import json
import random
import zipfile

import pytest
import torch
from torch import nn

from coil_harness import coil, export
from test_cli import refused


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 4)
        self.register_buffer("offset", torch.randn(4))

    def forward(self, x):
        return torch.tanh(self.lin(x) + self.offset)


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("archive") / "net.pt2"
    torch.manual_seed(0)
    export(Net().eval(), (torch.randn(3, 8),), path)
    return path.read_bytes()


def compile_bytes(content, folder):
    (folder / "m.pt2").write_bytes(content)
    return coil("compile", folder / "m.pt2", "-o", folder / "m.coil", timeout=60)


def rewritten(archive, change, compression=zipfile.ZIP_STORED):
    """The archive with each entry passed through change(name, bytes) -> [(name, bytes)]."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(out, "w", compression, compresslevel=1) as new:
        for entry in old.namelist():
            for name, content in change(entry, old.read(entry)):
                new.writestr(name, content)
    return out.getvalue()


def with_model(archive, change):
    """The archive with its graph's JSON changed in place."""

    def entry(name, content):
        if "/models/" in name and name.endswith(".json"):
            model = json.loads(content)
            change(model)
            content = json.dumps(model).encode()
        return [(name, content)]

    return rewritten(archive, entry)


def test_whole_archive_compiles(archive, tmp_path):
    assert compile_bytes(archive, tmp_path).returncode == 0
    assert compile_bytes(rewritten(archive, lambda n, c: [(n, c)], zipfile.ZIP_DEFLATED), tmp_path).returncode == 0
    assert (
        compile_bytes(rewritten(archive, lambda n, c: [("renamed/" + n.split("/", 1)[1], c)]), tmp_path).returncode == 0
    )


@pytest.mark.parametrize("share", [0, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
def test_truncated(archive, tmp_path, share):
    refused(compile_bytes(archive[: int(len(archive) * share)], tmp_path), "m.pt2")
    assert not (tmp_path / "m.coil").exists()


@pytest.mark.parametrize("seed", range(24))
def test_flipped_bits(archive, tmp_path, seed):
    """It may still be a valid archive (a weight's bits); else it is refused."""
    content, random_ = bytearray(archive), random.Random(seed)
    for _ in range(random_.choice([1, 3, 30])):
        content[random_.randrange(len(content))] ^= 1 << random_.randrange(8)
    done = compile_bytes(bytes(content), tmp_path)
    assert done.returncode in (0, 1), f"seed {seed}: exit {done.returncode}: {done.stderr}"
    if done.returncode:
        assert done.stderr.startswith("coil: error: "), done.stderr


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x05\x06" + b"\0" * 18], ids=["empty", "text", "empty zip"])
def test_not_archives(tmp_path, content):
    refused(compile_bytes(content, tmp_path), "m.pt2")


@pytest.mark.parametrize(
    "part", ["models/model.json", "data/weights/model_weights_config.json", "data/weights/weight_0"]
)
def test_missing_entry(archive, tmp_path, part):
    refused(compile_bytes(rewritten(archive, lambda n, c: [] if n.endswith(part) else [(n, c)]), tmp_path))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"graph_module": 3}',
        b'{"graph_module": {"graph": {"nodes": "x"}}}',
        b"[" * 100000,
    ],
    ids=str,
)
def test_wrong_json(archive, tmp_path, content):
    refused(
        compile_bytes(
            rewritten(archive, lambda n, c: [(n, content if n.endswith("models/model.json") else c)]), tmp_path
        )
    )


def graph(model):
    return model["graph_module"]["graph"]


def set_sizes(model, value):
    for tensor in graph(model)["tensor_values"].values():
        for size in tensor["sizes"]:
            size["as_int"] = value


CHANGES = {
    "nodes of the wrong type": lambda m: graph(m).update(nodes={"a": 1}),
    "a node without a target": lambda m: graph(m)["nodes"][0].pop("target"),
    "inputs missing": lambda m: graph(m).pop("inputs"),
    "tensor values missing": lambda m: graph(m).update(tensor_values={}),
    "an argument that names nothing": lambda m: graph(m)["nodes"][0]["inputs"][0]["arg"].update(
        as_tensor={"name": "nobody"}
    ),
    "a size that overflows": lambda m: set_sizes(m, 2**62),
    "a negative size": lambda m: set_sizes(m, -3),
    "a size that is text": lambda m: set_sizes(m, "many"),
    "an unknown dtype": lambda m: [t.update(dtype=99) for t in graph(m)["tensor_values"].values()],
    "outputs that name nothing": lambda m: graph(m).update(outputs=[{"as_tensor": {"name": "nobody"}}]),
    "no signature": lambda m: m["graph_module"].pop("signature"),
    "a node that uses itself": lambda m: graph(m)["nodes"][0]["inputs"][0]["arg"].update(
        as_tensor={"name": graph(m)["nodes"][0]["outputs"][0]["as_tensor"]["name"]}
    ),
    "two nodes of one name": lambda m: graph(m)["nodes"].append(graph(m)["nodes"][0]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_wrong_graph(archive, tmp_path, name):
    refused(compile_bytes(with_model(archive, CHANGES[name]), tmp_path))
    assert not (tmp_path / "m.coil").exists()


def test_unknown_operators_are_all_named(archive, tmp_path):
    def change(model):
        for node, target in zip(
            graph(model)["nodes"], ["torch.ops.mine.first.default", "torch.ops.mine.second.default"]
        ):
            node["target"] = target

    done = compile_bytes(with_model(archive, change), tmp_path)
    assert done.returncode == 1 and done.stderr.startswith("coil: error: ")
    for word in ("mine.first", "mine.second", "test_bad_archives.py:"):
        assert word in done.stderr, done.stderr


def test_weights_shorter_than_their_shape(archive, tmp_path):
    refused(
        compile_bytes(
            rewritten(archive, lambda n, c: [(n, c[:16] if n.endswith("weights/weight_0") else c)]), tmp_path
        ),
        "lin.weight",
    )


@pytest.mark.parametrize("escape", ["../../../../etc/passwd", "/etc/passwd"])
def test_path_escapes(archive, tmp_path, escape):
    def change(name, content):
        return [
            (
                name,
                content.replace(b'"weight_0"', json.dumps(escape).encode())
                if name.endswith("model_weights_config.json")
                else content,
            )
        ]

    refused(compile_bytes(rewritten(archive, change), tmp_path))


def test_zip_bomb(archive, tmp_path):
    """A small archive whose graph inflates to more than 1 GiB of blanks: refused for what it claims, not by running out
    of memory.
    """
    bomb = rewritten(
        archive, lambda n, c: [(n, b" " * (1100 << 20) if n.endswith("models/model.json") else c)], zipfile.ZIP_DEFLATED
    )
    assert len(bomb) < 1 << 23
    refused(compile_bytes(bomb, tmp_path))


class Unsupported(nn.Module):
    def forward(self, x):
        bins = [2, 2, 2, 2]
        return torch.ops.aten._histogramdd_bin_edges(x, bins)[0], torch.histogramdd(x, bins)[0]


def test_what_cannot_be_compiled_is_named_with_its_line(tmp_path):
    export(Unsupported(), (torch.randn(4, 4),), tmp_path / "m.pt2")
    done = coil("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil")
    assert done.returncode == 1
    for word in ("_histogramdd_bin_edges", "histogramdd.default", "test_bad_archives.py:"):
        assert word in done.stderr, done.stderr
