"""Weights of packages for torch: named, looked at, exchanged, swapped, used in place, from several threads; what is
wrong with them is an error, and the next call is right.
"""

import gc
import json
import os
import pathlib
import threading
import zipfile

import pytest
import torch
import torch.nn.functional as F

from coil_harness import SOURCES, device, ok
from torch_packages import export, load, on_device, package, wrong_results

SETS = torch._C._aoti


class Net(torch.nn.Module):
    """Parameters of several dtypes, of one element, without a reader, in channels that one may fold; a buffer that
    stays and one that is written to.
    """

    def __init__(self):
        super().__init__()
        self.first, self.norm = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)
        self.last = torch.nn.Linear(4, 5)
        self.scale = torch.nn.Parameter(torch.tensor(1.5))
        self.turn = torch.nn.Parameter(torch.randn(5, dtype=torch.complex64))
        self.unread = torch.nn.Parameter(torch.randn(2))
        self.register_buffer("shift", torch.randn(5))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls.add_(1)
        y = self.norm(self.first(x)).relu().mean((2, 3))
        return self.last(y) * self.scale + self.shift, (self.turn * self.turn).abs(), self.calls * 1


def net():
    torch.manual_seed(0)
    return on_device(Net().eval())


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("weights")
    export(net(), on_device((torch.randn(2, 3, 6, 6),)), folder / "m.pt2", dynamic=({0: torch.export.Dim.AUTO},))
    return package(folder / "m.pt2")


def given(n=2):
    return on_device(torch.randn(n, 3, 6, 6))


def other(seed=7):
    """Other values for all weights."""
    torch.manual_seed(seed)
    return {k: v + torch.rand_like(v) for k, v in net().state_dict().items() if v.is_floating_point() or v.is_complex()}


def expected(state, x, calls):
    module = net()
    module.load_state_dict(state, strict=False)
    with torch.no_grad():
        module.calls.fill_(calls - 1)
        return module(x)


def check(loaded, state, calls, x=None):
    x = given() if x is None else x
    wrong = wrong_results(loaded(x), expected(state, x, calls), 1e-5)
    assert not wrong, "\n".join(wrong)


def floating(state):
    return {k: v for k, v in state.items() if k != "norm.num_batches_tracked"}


def test_names(file):
    loaded = load(file)
    assert set(loaded.get_constant_fqns()) >= set(floating(net().state_dict()))
    assert loaded.get_metadata()["AOTI_DEVICE_KEY"] == device().split(":")[0]


def test_exchange(file):
    loaded, state = load(file), floating(net().state_dict())
    check(loaded, state, 1)
    new = other()
    loaded.load_constants({"last.weight": new["last.weight"]}, check_full_update=False)
    check(loaded, state | {"last.weight": new["last.weight"]}, 2)
    new.pop("calls")
    loaded.load_constants(new, check_full_update=True)
    check(loaded, new, 3)
    new["scale"].fill_(100)  # it was copied
    check(loaded, new | {"scale": other()["scale"]}, 4)
    check(load(file), state, 1)


def test_no_value_is_taken_for_granted(file):
    """A NaN or an infinity in new weights goes where it goes in eager."""
    for name, value in (("first.weight", torch.nan), ("last.weight", torch.inf), ("scale", -torch.inf)):
        loaded, new = load(file), other()
        new.pop("calls")
        new[name].view(-1)[0] = value
        loaded.load_constants(new, check_full_update=True)
        check(loaded, new, 1)


def test_in_other_strides(file):
    loaded, new = load(file), other()
    new.pop("calls")
    new["last.weight"] = new["last.weight"].t().contiguous().t()
    new["first.weight"] = new["first.weight"].to(memory_format=torch.channels_last)
    new["shift"] = new["shift"].repeat_interleave(2)[::2]
    loaded.load_constants(new, check_full_update=True)
    check(loaded, new, 1)


def test_in_place(file):
    """User-managed weights are used where they lie: later changes are seen."""
    loaded, new = load(file), other()
    new.pop("calls")
    loaded.load_constants(new, check_full_update=True, user_managed=True)
    check(loaded, new, 1)
    for value in new.values():
        value.mul_(1.25)
    check(loaded, new, 2)
    kept = {k: v.clone() for k, v in new.items()}
    del new, value
    gc.collect()
    check(loaded, kept, 3)
    with pytest.raises(RuntimeError, match="last.weight.*strides"):
        turned = kept["last.weight"].t().contiguous().t()
        loaded.load_constants({"last.weight": turned}, check_full_update=False, user_managed=True)
    check(loaded, kept, 4)


def unpacked(file, folder):
    with zipfile.ZipFile(file) as archive:
        archive.extractall(folder)
    return folder / "model/data/aotinductor/model"


def runner(file, folder):
    """Torch's runner on the library itself, without the loader of packages."""
    library = str(unpacked(file, folder) / "coil.wrapper.so")
    if device() == "cpu":
        return SETS.AOTIModelContainerRunnerCpu(library, 1)
    return SETS.AOTIModelContainerRunnerCuda(library, 1, device())


def test_two_sets(file, tmp_path):
    run, state, new = runner(file, tmp_path), floating(net().state_dict()), other()
    new.pop("calls")
    loaded = lambda x: tuple(run.run([x]))
    check(loaded, state, 1)
    with pytest.raises(RuntimeError, match="no inactive set"):
        run.swap_constant_buffer()
    run.update_constant_buffer(new, True, True)
    check(loaded, state, 2)
    run.swap_constant_buffer()
    check(loaded, new, 2)  # of the state as it was when the other set was made
    run.swap_constant_buffer()
    check(loaded, state, 3)
    run.swap_constant_buffer()
    run.free_inactive_constant_buffer()
    check(loaded, new, 3)
    with pytest.raises(RuntimeError, match="no inactive set"):
        run.swap_constant_buffer()
    # A part of the inactive set alone: the others are the active ones.
    run.update_constant_buffer({"scale": state["scale"]}, True, False)
    run.swap_constant_buffer()
    check(loaded, new | {"scale": state["scale"]}, 4)


def test_looked_at(file, tmp_path):
    run, state = runner(file, tmp_path), floating(net().state_dict())
    seen = run.extract_constants_map(False)
    assert set(seen) == set(state) - {"unread"}
    for name, value in seen.items():
        assert (value.dtype, value.stride()) == (state[name].dtype, state[name].stride()), name
        assert torch.equal(value.cpu(), state[name].cpu()), name
    run.run([given()])
    assert seen["calls"].item() == 1
    seen["scale"].fill_(3)  # it is the weight itself
    wrong = wrong_results(tuple(run.run([x := given()])), expected(state | {"scale": torch.tensor(3.0)}, x, 2), 1e-5)
    assert not wrong, "\n".join(wrong)
    assert run.extract_constants_map(True) == {}
    names = run.get_constant_names_to_original_fqns()
    assert names["last_weight"] == "last.weight" and run.get_constant_names_to_dtypes()["turn"] is not None
    del run
    gc.collect()
    assert torch.equal(seen["last.bias"].cpu(), state["last.bias"].cpu())


@pytest.mark.parametrize(
    "name,value,message",
    [
        (
            "last.weight",
            lambda w: w.double(),
            r"weight 'last.weight' is float32\[5, 4\], but float64\[5, 4\] was given",
        ),
        ("last.weight", lambda w: w[:2], r"weight 'last.weight' is float32\[5, 4\], but float32\[2, 4\] was given"),
        ("nowhere", lambda w: w, "nowhere"),
        ("last.weight", lambda w: w.to_sparse(), "last.weight"),
    ],
    ids=["dtype", "size", "name", "sparse"],
)
def test_refused(name, value, message, file):
    loaded, state = load(file), floating(net().state_dict())
    with pytest.raises(RuntimeError, match=message):
        loaded.load_constants({name: value(state["last.weight"]), "scale": other()["scale"]}, check_full_update=False)
    check(loaded, state, 1)


def test_not_all_are_given(file):
    loaded, state = load(file), floating(net().state_dict())
    with pytest.raises(RuntimeError, match="first.bias"):
        loaded.load_constants({"scale": state["scale"]}, check_full_update=True)
    check(loaded, state, 1)


def test_fixed(file):
    """A package whose weights went into what the library likes best says so."""
    fixed = package(file.with_name("m.pt2"), "--set", "keep_weights=false")
    loaded, state = load(fixed), floating(net().state_dict())
    check(loaded, state, 1)
    with pytest.raises(RuntimeError, match="keep_weights"):
        loaded.load_constants({"scale": state["scale"]}, check_full_update=False)
    check(loaded, state, 2)


@pytest.mark.parametrize(
    "args,message",
    [
        (lambda: (torch.randn(2, 3, 6, 7),), "'x'.*6.*7"),
        (lambda: (torch.randn(2, 3, 6),), "'x'"),
        (lambda: (torch.randn(2, 3, 6, 6).double(),), "'x'.*float64"),
        (lambda: (), "takes 1 tensors, but 0 were given"),
        (lambda: (given(), given()), "takes 1 tensors, but 2 were given"),
        (lambda: (torch.randn(2, 3, 6, 6).to_sparse(),), "'x'"),
    ],
    ids=["size", "rank", "dtype", "too few", "too many", "sparse"],
)
def test_wrong_inputs(args, message, file):
    loaded = load(file)
    with pytest.raises(RuntimeError, match=message):
        loaded.loader.boxed_run(list(on_device(args())))
    check(loaded, floating(net().state_dict()), 1)


def rewritten(file, to, change):
    """The package with other contents: `change(name, bytes)` gives those of an entry, or None to leave it out."""
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(to, "w", zipfile.ZIP_STORED) as new:
        for name in old.namelist():
            content = change(name.split("/")[-1], old.read(name))
            if content is not None:
                new.writestr(name, content)
    return to


def interface_with(**members):
    return lambda name, content: json.dumps(json.loads(content) | members) if name == "interface.json" else content


@pytest.mark.parametrize(
    "change,message",
    [
        (lambda n, c: None if n == "model.coil" else c, "model.coil"),
        (lambda n, c: c[: len(c) // 2] if n == "model.coil" else c, "model.coil"),
        (lambda n, c: c.replace(b"weights.bin", b"weights.bit") if n == "model.coil" else c, "model.coil"),
        (lambda n, c: None if n == "interface.json" else c, "interface.json"),
        (lambda n, c: b"{" if n == "interface.json" else c, "interface.json.*malformed"),
        (interface_with(version=99), "version 99"),
        (interface_with(outputs=[7]), "output 7"),
        (interface_with(inputs=[3]), "input 3"),
    ],
    ids=["no program", "half", "no weights", "no interface", "malformed", "version", "output", "input"],
)
def test_broken_packages(change, message, file, tmp_path):
    broken = rewritten(file, tmp_path / "broken.pt2", change)
    with pytest.raises(RuntimeError, match=message):
        SETS.AOTIModelPackageLoader(str(broken), "model", False, 1, -1)
    check(load(file), floating(net().state_dict()), 1)


class Stateless(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 16))

    def forward(self, x):
        return self.layers(x)


@pytest.fixture(scope="module")
def stateless(tmp_path_factory):
    torch.manual_seed(0)
    module, folder = on_device(Stateless()), tmp_path_factory.mktemp("stateless")
    export(module, on_device((torch.randn(2, 16),)), folder / "m.pt2", dynamic=({0: torch.export.Dim("n", max=64)},))
    return module, package(folder / "m.pt2")


@pytest.mark.parametrize("runners", [1, 3])
def test_threads(runners, stateless):
    """Calls of several threads, while weights are exchanged: each call sees one set, whole."""
    module, path = stateless
    loaded = load(path, num_runners=runners)
    states = [{k: v * s for k, v in module.state_dict().items()} for s in (1, 2, 3)]
    wrong, done = [], threading.Event()

    def call(n, x, possible):
        for _ in range(60):
            got = loaded(x)
            if not any(torch.allclose(got, p, rtol=1e-4, atol=1e-4) for p in possible):
                wrong.append(n)

    threads = []
    for n in (1, 2, 5, 64):
        x = on_device(torch.randn(n, 16))
        with torch.no_grad():
            possible = [torch.func.functional_call(module, s, (x,)) for s in states]
        threads.append(threading.Thread(target=call, args=(n, x, possible)))
    for thread in threads:
        thread.start()

    def exchange():
        turn = 0
        while not done.is_set():
            loaded.load_constants(states[turn % 3], check_full_update=True, user_managed=turn % 2 == 1)
            turn += 1

    changer = threading.Thread(target=exchange)
    changer.start()
    for thread in threads:
        thread.join()
    done.set()
    changer.join()
    assert not wrong


class Twice(Stateless):
    def forward(self, x):
        return self.layers(self.layers(x))


def test_shared_between_packages(stateless, tmp_path):
    """Two programs over one set of weights, which lie in memory once: what is written there both see, also from
    threads that have each loaded their own.
    """
    module, path = stateless
    export(Twice().to(device()), on_device((torch.randn(2, 16),)), tmp_path / "m.pt2")
    paths, x, wrong = (path, package(tmp_path / "m.pt2")), on_device(torch.randn(2, 16)), []
    shared = {k: v.detach().clone() for k, v in module.state_dict().items()}
    first, first_bias, last, last_bias = shared.values()
    layers = lambda x: F.linear(F.gelu(F.linear(x, first, first_bias)), last, last_bias)
    start = threading.Barrier(6, timeout=60)

    def one_thread(k):
        start.wait()
        loaded = load(paths[k % 2])
        loaded.load_constants(shared, check_full_update=True, user_managed=True)
        for turn in range(3):
            start.wait()
            with torch.no_grad():
                want = layers(layers(x)) if k % 2 else layers(x)
            for _ in range(20):
                if not torch.allclose(loaded(x), want, rtol=1e-4, atol=1e-4):
                    wrong.append((k, turn))
            if start.wait() == 0:
                first.mul_(1.5)

    threads = [threading.Thread(target=one_thread, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


class Sum(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((3,), 2.0))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls.add_(1)
        return self.weight * x + self.calls


@pytest.mark.cpu("the host")
def test_host_in_cpp(tmp_path):
    """Torch's loader in C++, in a process without Python (sources/aoti_loader.cpp)."""
    export(Sum(), (torch.randn(3),), tmp_path / "m.pt2")
    torch_folder = pathlib.Path(torch.__file__).parent
    include, lib, host = torch_folder / "include", torch_folder / "lib", tmp_path / "host"
    flags = ["-std=c++20", "-O0", f"-I{include}", f"-I{include}/torch/csrc/api/include"]
    libraries = [f"-L{lib}", f"-Wl,-rpath,{lib}", "-ltorch", "-ltorch_cpu", "-lc10"]
    ok("g++", *flags, SOURCES / "aoti_loader.cpp", "-o", host, *libraries)
    assert ok(host, package(tmp_path / "m.pt2")) == "all is well\n"


def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.cpu("memory of the process")
def test_no_leaks(file, stateless):
    """Neither calls, nor exchanges, nor packages that come and go leave anything behind."""
    module, path = stateless
    loaded, x, weights = load(path), torch.randn(64, 16), module.state_dict()
    states, y = load(file), given()

    def calls(n):
        for k in range(n):
            loaded(x), states(y)
            if k % 10 == 0:
                loaded.load_constants(weights, check_full_update=True, user_managed=k % 20 == 0)
            with pytest.raises(RuntimeError):
                loaded.loader.boxed_run([x.double()])

    def loads(n):
        for _ in range(n):
            load(path)(x), load(file)(y)

    for work, times, most in ((calls, 1000, 4 << 20), (loads, 30, 12 << 20)):
        work(max(times // 5, 8))
        gc.collect()
        before = resident()
        work(times)
        gc.collect()
        assert resident() - before < most, (work.__name__, resident() - before)
    with open("/proc/self/maps") as f:
        assert sum("coil.wrapper.so" in line for line in f) < 40
