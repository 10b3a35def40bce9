"""Packages know how inputs and outputs nest: `coil.load` is called as the module was and returns what it returned.
Packages of older versions load, those of newer ones are refused.
"""

import collections
import ctypes
import ctypes.util
import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import torch

from coil_harness import ROOT, coil as command, coil_ok
from fixture_programs import Pair, State, structure

sys.path.insert(0, str(ROOT / "build/python"))
coil = pytest.importorskip("coil", reason="the Python extension is not built")

FIXTURES = ROOT / "test/fixtures"


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    path = tmp_path_factory.mktemp("signature") / "structure.coil"
    coil_ok("compile", FIXTURES / "structure.pt2", "-o", path)
    return path


def arguments():
    torch.manual_seed(5)
    _, args, kwargs, _ = structure()
    return args, kwargs


def test_results_nest_as_the_module_s(package):
    args, kwargs = arguments()
    want = structure()[0](*args, **kwargs)
    got = coil.load(package)(*args, **kwargs)
    assert type(got) is tuple and type(got[0]) is Pair and type(got[0].right) is list and type(got[0].right[0]) is State
    assert (
        got[0].right[0].note is None
        and got[0].right[1] is None
        and got[1]["none"] is None
        and list(got[1]) == ["k", "none"]
        and list(got[1]["k"]) == [2]
    )
    assert got[2:] == want[2:] == (7, 2.5)
    for g, w in zip(torch.utils._pytree.tree_leaves(got), torch.utils._pytree.tree_leaves(want)):
        torch.testing.assert_close(g, w, rtol=0, atol=0)
    # positional arguments by name, in any order
    names = ["a", "pair", "state", "scale", "mode", "skip"]
    again = coil.load(package)(**dict(reversed([*zip(names, args)])), **kwargs)
    torch.testing.assert_close(again[0].left, want[0].left, rtol=0, atol=0)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda a, k: (a[:3], k), "input 'scale' is missing"),
        (
            lambda a, k: ((*a[:4], "add", a[5]), k),
            "input 'mode' was exported as 'sub' and is part of the program; 'add' was given",
        ),
        (lambda a, k: ((*a[:3], 4, *a[4:]), k), "input 'scale' was exported as 3"),
        (lambda a, k: ((*a[:3], 3.0, *a[4:]), k), "input 'scale' was exported as 3"),
        (
            lambda a, k: ((a[0], (a[0], a[0], a[0]), *a[2:]), k),
            "input 'pair' is a collections.namedtuple of left, right in the program, but a tuple of 3",
        ),
        (
            lambda a, k: (a, k | {"more": [(a[0],), k["more"][1]]}),
            "input 'more.0' is a tuple of 2 in the program, but a tuple of 1",
        ),
        (
            lambda a, k: (a, k | {"more": [k["more"][0], {"deeper": a[0]}]}),
            "input 'more.1' has keys deep in the program, but a dict with keys deeper",
        ),
        (lambda a, k: (a, k | {"less": 1}), "there is no input 'less'; there are a, pair"),
        (lambda a, k: (a, k | {"a": a[0]}), "input 'a' was given twice"),
        (lambda a, k: ((*a, 1), k), "takes 6 positional arguments"),
        (
            lambda a, k: ((*a[:2], 3, *a[3:]), k),
            "input 'state' is a fixtures.State of h, c in the program, but 3 was given",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_named(package, change, message):
    args, kwargs = change(*arguments())
    with pytest.raises(coil.Error) as error:
        coil.load(package)(*args, **kwargs)
    assert message in str(error.value)


def test_without_torch(package):
    """Classes that the process does not know become dictionaries and named tuples of the same fields."""
    script = f"""
import sys; sys.path.insert(0, {str(ROOT / "build/python")!r})
import collections, types, numpy as np, coil
t = lambda: np.ones(2, np.float32)
State, Pair = types.SimpleNamespace, collections.namedtuple("Pair", "left right")
more = [(t(), t()), {{"deep": t()}}]
r = coil.load({str(package)!r})(t(), Pair(t(), t()), State(h=t(), c=t()), 3, "sub", None, flag=True, more=more)
assert "torch" not in sys.modules
assert type(r) is tuple and type(r[0]).__name__ == "Pair" and r[0]._fields == ("left", "right"), r
assert type(r[0].right) is list and set(r[0].right[0]) == {{"h", "c"}} and r[0].right[1] is None
assert type(r[1]) is dict and (r[1]["k"][2] == 2).all() and r[1]["none"] is None and r[2:] == (7, 2.5), r
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


class Containers(torch.nn.Module):
    def forward(self, x):
        return collections.OrderedDict(b=x + 1, a=[]), {}, ({1: x * 2, "z": (x * 3,)},), None


def test_containers_survive_saving(tmp_path):
    x = torch.randn(3)
    model = coil.compile(Containers(), (x,))
    model.save(tmp_path / "a.coil")
    loaded = coil.load(tmp_path / "a.coil")
    loaded.save(tmp_path / "b.coil")
    assert (tmp_path / "a.coil").read_bytes() == (tmp_path / "b.coil").read_bytes()
    for got in (model(x), loaded(x), loaded(x.numpy())):
        assert (
            type(got) is tuple
            and type(got[0]) is collections.OrderedDict
            and list(got[0]) == ["b", "a"]
            and got[0]["a"] == []
        )
        assert (
            got[1] == {}
            and type(got[2]) is tuple
            and set(got[2][0]) == {1, "z"}
            and type(got[2][0]["z"]) is tuple
            and got[3] is None
        )
        np.testing.assert_array_equal(np.asarray(got[2][0]["z"][0]), (x * 3).numpy())


def test_c_interface_tells_names_and_nesting(package):
    class Port(ctypes.Structure):
        _fields_ = [("name", ctypes.c_char_p), *((n, ctypes.c_int32) for n in ("dtype", "rank", "mutated", "unused"))]

    c = ctypes.CDLL(str(ROOT / "build/lib/libcoil_runtime.so"))
    c.coil_model_load.restype = ctypes.c_void_p
    c.coil_model_inputs.restype, c.coil_model_inputs.argtypes = (
        ctypes.POINTER(Port),
        [ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)],
    )
    c.coil_model_signature.restype, c.coil_model_signature.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
    c.coil_model_provenance.restype, c.coil_model_provenance.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
    c.coil_model_free.argtypes = [ctypes.c_void_p]
    model, count = c.coil_model_load(str(package).encode()), ctypes.c_size_t()
    ports = c.coil_model_inputs(model, ctypes.byref(count))
    assert [ports[i].name.decode() for i in range(4)] == ["a", "pair.left", "pair.right", "state.h"]
    assert {ports[i].name.decode() for i in range(count.value) if ports[i].unused} == {"scale", "mode", "skip", "flag"}
    signature = json.loads(c.coil_model_signature(model))
    positional, named = signature["inputs"]["children"]
    assert positional["keys"] == ["a", "pair", "state", "scale", "mode", "skip"] and named["keys"] == ["flag", "more"]
    assert (
        positional["children"][4] == {"leaf": 6, "fixed": "sub"}
        and signature["outputs"]["children"][1]["children"][1] is None
    )
    assert c.coil_model_provenance(model) == b"" and c.coil_model_signature(None) is None
    c.coil_model_free(model)


def test_provenance_travels_in_the_package(tmp_path):
    for name, more in (("a", ()), ("b", ("--provenance", tmp_path / "p.json")), ("plain", None)):
        coil_ok(
            "compile",
            FIXTURES / "nested.pt2",
            "-o",
            tmp_path / f"{name}.coil",
            *(() if more is None else ("--set", "provenance=true", *more)),
        )
    assert (tmp_path / "a.coil").read_bytes() == (tmp_path / "b.coil").read_bytes()
    p = coil.load(tmp_path / "a.coil").provenance
    assert p == json.loads((tmp_path / "p.json").read_text()) and any(
        call["name"] == "linear" and call["incoming"] for call in p["calls"]
    )
    assert coil.load(tmp_path / "plain.coil").provenance is None
    with zipfile.ZipFile(tmp_path / "a.coil") as z:
        assert json.loads(z.read("provenance.json")) == p


# ---- Versions
# ----------------------------------------------------------------------------------------------------


class Hash(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


def xxh3(data):
    function = ctypes.CDLL(ctypes.util.find_library("xxhash")).XXH3_128bits
    function.restype, function.argtypes = Hash, [ctypes.c_char_p, ctypes.c_size_t]
    h = function(data, len(data))
    return f"{h.high:016x}{h.low:016x}"


def edited(path, to, edit):
    """The package with another manifest, whose hash is right."""
    with zipfile.ZipFile(path) as z:
        content = {n: z.read(n) for n in z.namelist()}
    manifest = json.loads(content["manifest.json"])
    edit(manifest)
    content["manifest.json"] = json.dumps(manifest, separators=(",", ":")).encode()
    lines = [line for line in content["hashes"].decode().splitlines() if not line.endswith(" manifest.json")]
    content["hashes"] = "\n".join([f"{xxh3(content['manifest.json'])} manifest.json", *lines, ""]).encode()
    with zipfile.ZipFile(to, "w") as z:
        for name, data in content.items():
            z.writestr(zipfile.ZipInfo(name), data)
    return to


def test_a_package_of_version_3_loads_and_runs():
    """`plan_3.coil` is nested.pt2 as the compiler of 2026-11-22 wrote it before there were signatures, for any x86-64:
    `coil compile --set cpu.isa=baseline --set pack_weights=false`.
    """
    with zipfile.ZipFile(FIXTURES / "plan_3.coil") as z:
        assert json.loads(z.read("manifest.json"))["version"] == 3
    import fixture_programs  # noqa: F401  (registers the classes of the archives)

    eager = torch.export.load(FIXTURES / "nested.pt2").module()
    model = coil.load(FIXTURES / "plan_3.coil")
    assert model.inputs == ["x", "state.h"] and model.signature is None
    torch.manual_seed(3)
    for rows in (1, 3, 100):
        x, h = torch.randn(rows, 8), torch.randn(4)
        here, there = {"h": h.clone()}, {"h": h.clone()}
        want, got = eager(x, there), model(x, here)
        # one product of 8 terms, in another order of summation
        torch.testing.assert_close(got["y"][0], want["y"][0], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(here["h"], there["h"], rtol=1e-5, atol=1e-5)
        assert got["n"] == want["n"] == rows + 1 and got["y"][1].item() == want["y"][1].item()
    with pytest.raises(coil.Error, match="dimension 0"):
        model(torch.randn(101, 8), {"h": torch.randn(4)})


@pytest.mark.parametrize(
    "edit, message",
    [
        (lambda m: m.update(version=99), "it has version 99, but this runtime reads versions 3 to "),
        (lambda m: m.update(version=2), "it has version 2, but"),
        (lambda m: m.update(streams=[]), "it has a member 'streams', which this runtime does not know"),
        (lambda m: m["signature"]["outputs"]["keys"].pop(), "a container of 1 keys and 2 children"),
        (
            lambda m: m["signature"]["outputs"].update(children=[5, 6]),
            "the signature refers to something that is not there",
        ),
        (lambda m: m["signature"].update(inputs=json.loads("[" * 200 + "]" * 200)), "the plan is damaged"),
    ],
)
def test_newer_and_edited_packages_are_refused_by_name(tmp_path, edit, message):
    path = tmp_path / "nested.coil"
    coil_ok("compile", FIXTURES / "nested.pt2", "-o", path)
    coil.load(edited(path, tmp_path / "same.coil", lambda m: None))
    broken = edited(path, tmp_path / "edited.coil", edit)
    with pytest.raises(coil.Error) as error:
        coil.load(broken)
    assert message in str(error.value) and (
        "edited.coil" in str(error.value) or "the plan is broken" in str(error.value)
    )
    done = command("run", broken)
    assert done.returncode == 1 and message in done.stderr and done.stderr.count("\n") == 1


def test_what_is_no_program_is_refused():
    with pytest.raises(TypeError, match="a torch.nn.Module, an exported program or the path of a .pt2 is compiled"):
        coil.compile(lambda x: x + 1, (torch.ones(3),))
    with pytest.raises(TypeError, match="inputs are a tuple"):
        coil.compile(torch.nn.ReLU(), torch.ones(3))
    with pytest.raises(TypeError, match="integer"):
        coil.compile(torch.nn.ReLU(), (torch.ones(3),)).seed("a")
