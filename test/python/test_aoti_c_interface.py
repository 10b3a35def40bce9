"""The C functions of packages for torch as a host calls them that is not torch: codes and messages, names, pairs of
names and tensors, models without a container, weights in one blob.
"""

import ctypes
import zipfile
from ctypes import POINTER, byref, c_bool, c_char_p, c_int32, c_int64, c_size_t, c_uint64, c_void_p

import pytest
import torch

from torch_packages import export, package

pytestmark = pytest.mark.cpu("calls functions by hand")


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))
        self.register_buffer("shift", torch.tensor([10.0, 20.0, 30.0]))
        self.register_buffer("whole", torch.tensor([4, 5], dtype=torch.int16))

    def forward(self, x, *, k):
        return {"y": self.weight * x + self.shift, "n": (x.shape[0], None), "k": k.sum() + self.whole[0]}


class Pair(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("handle", c_void_p)]


class Torch:
    """Tensors by libtorch's C functions."""

    def __init__(self):
        self.library = ctypes.CDLL(str(torch.__path__[0]) + "/lib/libtorch_cpu.so")

    def handle(self, t):
        """A handle on a copy of a dense f32 tensor."""
        made, data = c_void_p(), c_void_p()
        sizes, strides = (c_int64 * t.dim())(*t.shape), (c_int64 * t.dim())(*t.stride())
        dtype = self.library.aoti_torch_dtype_float32()
        assert not self.library.aoti_torch_empty_strided(
            c_int64(t.dim()), sizes, strides, c_int32(dtype), c_int32(0), c_int32(0), byref(made)
        )
        assert not self.library.aoti_torch_get_data_ptr(made, byref(data))
        ctypes.memmove(data.value, t.data_ptr(), t.numel() * 4)
        return made

    def values(self, handle, count, kind=ctypes.c_float):
        data = c_void_p()
        assert not self.library.aoti_torch_get_data_ptr(c_void_p(handle), byref(data))
        return list((kind * count).from_address(data.value))

    def delete(self, handle):
        assert not self.library.aoti_torch_delete_tensor_object(c_void_p(handle))


class Library:
    """The C functions, whose names all begin alike; each returns 0 or raises with the message."""

    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))

    def error(self):
        message = c_char_p()
        assert not self.library.AOTInductorGetLastError(byref(message))
        return message.value.decode()

    def __getattr__(self, name):
        function = getattr(self.library, "AOTInductorModel" + name)

        def call(*arguments):
            if function(*arguments):
                raise ValueError(self.error())
            assert self.error() == ""

        return call

    def get(self, name, kind, *arguments):
        got = kind()
        getattr(self, name)(*arguments, byref(got))
        return got.value


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("c")
    n = torch.export.Dim("n", min=1, max=8)
    export(Scaled(), (torch.randn(2, 3),), folder / "m.pt2", {"k": torch.ones(2)}, {"x": {0: n}, "k": None})
    with zipfile.ZipFile(package(folder / "m.pt2")) as archive:
        archive.extractall(folder)
    return Library(folder / "model/data/aotinductor/model/coil.wrapper.so")


@pytest.fixture
def container(library):
    made = c_void_p()
    library.ContainerCreateWithDevice(byref(made), c_size_t(2), b"cpu", None)
    yield made
    library.ContainerDelete(made)


def run(library, container, x, single=False):
    tensors, outputs = Torch(), (c_void_p * 4)()
    inputs = (c_void_p * 2)(tensors.handle(x), tensors.handle(torch.ones(2)))
    call = library.ContainerRunSingleThreaded if single else library.ContainerRun
    call(container, inputs, c_size_t(2), outputs, c_size_t(4), None, None)
    y, n, none, k = outputs
    assert none is None
    found = (tensors.values(y, x.numel()), tensors.values(n, 1, c_int64), tensors.values(k, 1))
    for handle in (y, n, k):
        tensors.delete(handle)
    return found


X = torch.tensor([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]])


def test_what_it_is(library, container):
    assert library.get("ContainerGetNumInputs", c_size_t, container) == 2
    assert library.get("ContainerGetNumOutputs", c_size_t, container) == 4
    assert [library.get("ContainerGetInputName", c_char_p, container, c_size_t(i)) for i in range(2)] == [b"x", b"k"]
    names = [library.get("ContainerGetOutputName", c_char_p, container, c_size_t(i)) for i in range(4)]
    assert names == [b"y", b"n.0", b"None", b"k"]
    count = library.get("ContainerGetNumConstants", c_size_t, container)
    about = {}
    for i in map(c_size_t, range(count)):
        name = library.get("ContainerGetConstantOriginalFQN", c_char_p, container, i).decode()
        about[name] = (
            library.get("ContainerGetConstantType", c_int32, container, i),
            library.get("ContainerGetConstantDataSize", c_size_t, container, i),
            library.get("ContainerGetConstantFromFolded", c_bool, container, i),
            library.get("ContainerGetConstantDtype", c_int32, container, i),
        )
    shorts = Torch().library.aoti_torch_dtype_int16()
    floats = Torch().library.aoti_torch_dtype_float32()
    assert about == {"weight": (1, 12, False, floats), "shift": (2, 12, False, floats), "whole": (2, 4, False, shorts)}
    specs = c_char_p(), c_char_p()
    library.ContainerGetCallSpec(container, *map(byref, specs))
    assert all(s.value.startswith(b"[1, ") for s in specs)


def test_calls_and_pairs(library, container):
    tensors = Torch()
    assert run(library, container, X) == ([11, 22, 33, 12, 24, 36], [2], [6])
    assert run(library, container, X[:1], single=True) == ([11, 22, 33], [1], [6])
    new = tensors.handle(torch.tensor([0.0, 1.0, 0.0]))
    pairs = (Pair * 1)(Pair(b"weight", new))
    library.ContainerUpdateConstantBufferPairs(container, pairs, c_size_t(1), c_bool(False), c_bool(True))
    assert run(library, container, X[:1])[0] == [10, 21, 30]
    entries, count = POINTER(Pair)(), c_size_t()
    library.ContainerExtractConstantsMapEntries(container, byref(entries), byref(count), c_bool(False))
    seen = {entries[i].name: entries[i].handle for i in range(count.value)}
    assert tensors.values(seen[b"weight"], 3) == [0, 1, 0] and set(seen) == {b"weight", b"shift", b"whole"}
    pairs[0].name = b"shift"
    library.ContainerUpdateUserManagedConstantBufferPairs(container, pairs, c_size_t(1), c_bool(True), c_bool(False))
    library.ContainerSwapConstantBuffer(container)
    library.ContainerRunConstantFolding(container, c_bool(False), None, None)
    assert run(library, container, X[:1])[0] == [0, 2, 0]
    tensors.delete(new.value)
    library.ContainerFreeInactiveConstantBuffer(container)
    assert run(library, container, X[:1])[0] == [0, 2, 0]


def test_errors_are_codes(library, container):
    tensors = Torch()
    new = tensors.handle(torch.ones(2))
    pairs = (Pair * 1)(Pair(b"weight", new))
    with pytest.raises(ValueError, match=r"weight 'weight' is float32\[3\], but float32\[2\] was given"):
        library.ContainerUpdateConstantBufferPairs(container, pairs, c_size_t(1), c_bool(False), c_bool(False))
    tensors.delete(new.value)
    with pytest.raises(ValueError, match="no weight 9"):
        library.get("ContainerGetConstantName", c_char_p, container, c_size_t(9))
    with pytest.raises(ValueError, match="no inactive set"):
        library.ContainerSwapConstantBuffer(container)
    with pytest.raises(ValueError, match="'x'"):
        run(library, container, torch.ones(2, 4))
    with pytest.raises(ValueError, match="no container"):
        library.get("ContainerGetNumInputs", c_size_t, None)
    with pytest.raises(ValueError, match="cuda"):
        library.ContainerCreateWithDevice(byref(c_void_p()), c_size_t(1), b"cuda", None)
    with pytest.raises(ValueError, match="minimal"):
        library.RunMinimalArrayrefInterfaceV2(None, c_int32(0), None, c_int32(0), None)
    assert run(library, container, X[:1])[0] == [11, 22, 33]


def test_models_without_a_container(library):
    tensors, made = Torch(), c_void_p()
    new = tensors.handle(torch.zeros(3))
    pairs = (Pair * 1)(Pair(b"shift", new))
    library.CreateV2(byref(made), pairs, c_size_t(1))
    outputs = (c_void_p * 4)()
    inputs = (c_void_p * 2)(tensors.handle(X[:1]), tensors.handle(torch.ones(2)))
    library.Run(made, inputs, outputs)
    assert tensors.values(outputs[0], 3) == [1, 2, 3]
    pairs[0].name = b"weight"
    library.UpdateConstantsMapV2(made, pairs, c_int32(1))
    assert run(library, made, X[:1])[0] == [0, 0, 0]
    assert library.get("GetNumOutputs", c_size_t, made) == 4
    library.Delete(made)
    pairs[0].name = b"nothing"
    with pytest.raises(ValueError, match="no weight 'nothing'"):
        library.CreateV2(byref(made), pairs, c_size_t(1))
    assert made.value is None
    for handle in (new.value, *(h for h in outputs if h)):
        tensors.delete(handle)


def test_blob(library, container):
    size = library.get("ContainerGetConstantsBlobSize", c_uint64, container)
    assert size == 2 * 64 + 4
    blob = bytearray(128 + 4)
    # In the order of their names: shift, weight, whole.
    blob[0:12] = torch.tensor([1.0, 1.0, 1.0]).numpy().tobytes()
    blob[64:76] = torch.tensor([5.0, 6.0, 7.0]).numpy().tobytes()
    blob[128:132] = torch.tensor([-2, 0], dtype=torch.int16).numpy().tobytes()
    library.UpdateConstantsFromBlob(container, (ctypes.c_uint8 * len(blob)).from_buffer(blob))
    y, _, k = run(library, container, X[:1])
    assert (y, k) == ([6, 7, 8], [0])
