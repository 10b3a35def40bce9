"""Packages called with NumPy arrays: any strides, any dtype, arrays for reading only, results that are views."""

import gc
import pathlib
import sys
import threading

import numpy as np
import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
coil = pytest.importorskip("coil", reason="the Python extension is not built")


class Net(torch.nn.Module):
    def forward(self, x, d, n):
        return {
            "a": x * 2 + n,
            "b": (d["u"].t(), d["v"] > 0),
            "rows": x.shape[0],
            "half": x.half(),
            "small": d["u"].to(torch.int8),
        }


class Writer(torch.nn.Module):
    def forward(self, x, h):
        h.mul_(2)
        return x + h, x.t(), h


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("arrays")
    rows = torch.export.Dim("rows", min=1, max=9)
    nested = torch.randn(3, 4), {"u": torch.randn(2, 3), "v": torch.randint(-2, 2, (5,))}, torch.tensor(1.5)
    coil.compile(
        Net(), nested, dynamic_shapes=({0: rows}, {"u": None, "v": None}, None), options={"cache": "none"}
    ).save(folder / "net.coil")
    coil.compile(Writer(), (torch.ones(300, 300), torch.ones(300)), options={"cache": "none"}).save(
        folder / "writer.coil"
    )
    return folder


def floats(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


LAYOUTS = {
    "rows": floats(3, 4),
    "columns": np.asfortranarray(floats(9, 4)),
    "every other": floats(1, 8)[:, ::2],
    "upside down": floats(3, 4)[::-1],
    "mirrored": floats(5, 4)[:, ::-1],
    "expanded": np.broadcast_to(floats(4), (3, 4)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("scalar", [np.float32(1.5), np.array(1.5, np.float32)])
def test_layouts(layout, scalar, packages):
    x, u, v = LAYOUTS[layout], floats(2, 3), np.array([1, -1, 0, 2, -2])
    got = coil.load(packages / "net.coil")(x, {"u": u, "v": v}, scalar)
    want = Net()(torch.tensor(x.copy()), {"u": torch.tensor(u), "v": torch.tensor(v)}, torch.tensor(1.5))
    for g, w in (
        (got["a"], want["a"]),
        (got["b"][0], want["b"][0]),
        (got["b"][1], want["b"][1]),
        (got["half"], want["half"]),
        (got["small"], want["small"]),
    ):
        assert type(g) is np.ndarray and g.dtype == w.numpy().dtype and g.shape == tuple(w.shape)
        np.testing.assert_allclose(
            g.astype(np.float64), w.double().numpy(), rtol=1e-3 if g.dtype == np.float16 else 1e-6
        )
    assert got["rows"] == len(x) and np.shares_memory(got["b"][0], u)


@pytest.mark.parametrize(
    "x, message",
    [
        (np.zeros((3, 4)), "input 'x' is float64, but the program takes float32"),
        (np.zeros((3, 5), np.float32), "size 5"),
        (np.zeros((10, 4), np.float32), "must be at most 9"),
        (np.zeros((3, 4, 1), np.float32), "3 dimensions"),
        (np.zeros((3, 4), np.complex64), "input 'x' is complex64"),
        (np.zeros((3, 4), ">f4"), "input 'x' cannot be an array of >f4"),
        (np.full((3, 4), None), "input 'x' cannot be an array of object"),
        (np.zeros((3, 4), "S3"), "input 'x' cannot be an array of |S3"),
        (np.zeros((3, 4), "M8[s]"), "input 'x' cannot be an array of datetime64"),
    ],
)
def test_arrays_that_do_not_fit(x, message, packages):
    model = coil.load(packages / "net.coil")
    with pytest.raises(coil.Error) as error:
        model(x, {"u": floats(2, 3), "v": np.arange(5)}, np.float32(1))
    assert message in str(error.value)


def test_writes_and_views(packages):
    model = coil.load(packages / "writer.coil")
    x, h = floats(300, 300), np.ones(300, np.float32)
    total, turned, same = model(x, h)
    assert (h == 2).all() and np.array_equal(total, x + 2) and np.shares_memory(turned, x) and np.shares_memory(same, h)
    turned[0, 1] = 77
    assert x[1, 0] == 77
    h = np.arange(300, dtype=np.float32)
    model(x, h[::-1])
    assert np.array_equal(h, np.arange(300) * 2)


def test_arrays_for_reading_only(packages):
    model = coil.load(packages / "writer.coil")
    x, h = floats(300, 300), np.ones(300, np.float32)
    x.flags.writeable = False
    total, turned, same = model(x, h)
    assert same.flags.writeable and total.flags.writeable and not turned.flags.writeable
    h.flags.writeable = False
    with pytest.raises(coil.Error, match="the program writes to input 'h', and this array is for reading only"):
        model(x, h)
    assert (h == 2).all()


def test_a_view_outlives_its_array(packages):
    model = coil.load(packages / "writer.coil")

    def call():
        return model(np.full((300, 300), 7, np.float32), np.ones(300, np.float32))

    total, turned, same = call()
    gc.collect()
    others = [np.zeros((300, 300), np.float32) for _ in range(20)]
    assert (turned == 7).all() and (same == 2).all() and (total == 9).all() and not any(o.any() for o in others)


def test_one_package_loaded_from_several_threads(tmp_path):
    """Twice in each, one let go while the other is called: they share a file, and nothing else that goes away."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).eval()
    x = torch.randn(4, 64)
    with torch.no_grad():
        coil.compile(net, (x,)).save(tmp_path / "net.coil")
        want = net(x)
    wrong = []

    def work():
        try:
            for _ in range(8):
                first, second = coil.load(tmp_path / "net.coil"), coil.load(tmp_path / "net.coil")
                torch.testing.assert_close(first(x), want)
                del first
                torch.testing.assert_close(second(x), want)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong, wrong
