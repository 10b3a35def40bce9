"""Programs over the CPU and another device. They are exported with fake tensors for a GPU, so that none is needed, and
run on the device `metal`, whose machine here is the library of test/fake_metal; test_outside_device.py has them on a
device whose memory the host cannot touch.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import zipfile

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch._higher_order_ops.while_loop import while_loop
from torch._subclasses import FakeTensorMode
from torch.export import Dim

from coil_harness import ENVIRONMENT, coil, differences, eager
from emitted import BUILD
from emulated_cuda import EmulatedKernels
from test_emit_cuda import PLACE
from test_metal import WITH_MACHINE, needs_machine

# Subscripts would ask torch for a GPU, where tensors are fake ones of such.
index, slice_of = torch.ops.aten.index.Tensor, torch.ops.aten.slice.Tensor


class Program(torch.nn.Module):
    """`far` is the device that is not the CPU: a GPU where it is exported, the CPU where it is eager."""

    far = "cpu"


def far(tensor):
    """An argument that lies on the other device."""
    tensor.is_far = True
    return tensor


def exported_over(module, args, dynamic=None):
    def fake(t):
        device = "cuda:0" if getattr(t, "is_far", False) else "cpu"
        return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=device)

    module.far = "cuda:0"
    with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True):
        program = torch.export.export(module, tuple(map(fake, args)), dynamic_shapes=dynamic)
    module.far = "cpu"
    return program


def export_over(module, args, path, dynamic=None):
    torch.export.save(exported_over(module, args, dynamic), path)


class Crossing(Program):
    """Copies both ways, blocking and not, of values and of views; numbers on the CPU beside tensors elsewhere."""

    def forward(self, x, y, s):
        a = (x * 2 + s).relu()
        b = a.cpu()
        c = torch.sort(b + y, -1).values
        back = c.to(self.far, non_blocking=True)
        ahead = (a - s).to("cpu", non_blocking=True)
        corner = slice_of(a.narrow(0, 1, a.shape[0] - 1), 1, 0, 9, 2).cpu()
        return back @ x.T, c, a.sum().cpu(), ahead.cumsum(0), corner * 2, (x > y.max()).to("cpu"), x.select(1, 1).cpu()


class Indexes(Program):
    """Indices on the CPU into tensors elsewhere, and the other way round by a copy."""

    def forward(self, table, i, y):
        rows = index(table, [i])
        placed = torch.zeros(7, 3, device=self.far).index_put((i,), rows + 1, accumulate=True)
        far = y.to(self.far)
        return rows, placed, y[i] + rows.cpu(), index(far, [i.to(self.far)])


class Writes(Program):
    """Inputs on both devices and a state on the CPU are written to with values of the other device."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x, y):
        self.total += x.sum(0).cpu()
        x.mul_(0.5).add_((y * 2).to(self.far))
        y.add_(x.cpu())
        return self.total + 1, x + 1


class Branches(Program):
    """A branch that the CPU decides over values of both, and memory of both whose size the CPU tells."""

    def forward(self, x, y):
        chosen = torch.cond(y.sum() > 0, lambda x, y: (x + 1, y * 2), lambda x, y: (x - 1, y * 3), (x, y))
        found = torch.nonzero(y > 0)
        picked = index(x, [found.select(1, 0), found.select(1, 1)])
        return chosen[0].cpu() + chosen[1], found + 1, picked * 2, picked.cpu() - 1


class Turns(Program):
    """A loop whose counter lies on the CPU, beside values of both that its turns hand on."""

    def forward(self, x, y):
        def turn(i, x, y):
            return i + 1, x.sin() + i.to(x.dtype).to(self.far), y * 2 + x.select(0, 0).cpu()

        first = torch.zeros((), dtype=torch.int64)
        return while_loop(lambda i, x, y: i < 3, turn, (first, x, y))


class Large(Program):
    """Copies to the device that nobody keeps a second copy of on the CPU, whose memory is soon another value's."""

    def forward(self, x, y):
        a = (y * 2).to(self.far)
        b = (x + a).cpu()
        c = (y.cumsum(0) + b).to(self.far, non_blocking=True)
        return b.sum(0), (c * x).sum(0).cpu(), (y.cumsum(1) * 3).to(self.far) - a


class Solves(Program):
    """Operators that are made of others, which make tensors of their own, on each device."""

    def forward(self, x, y):
        far = torch.linalg.inv(x @ x.T + torch.eye(4, device=self.far))
        near = torch.linalg.inv(y @ y.T + torch.eye(4))
        return far.cpu() @ near, (torch.linalg.matrix_power(x @ x.T, 3) / 100).cpu(), torch.nn.functional.gelu(y).T


class Constants(Program):
    """Constants and drawn numbers of the CPU that the other device reads; what was drawn is told from its range."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scale", numbers(6, seed=3))

    def forward(self, x, y):
        moved = x * self.scale.to(self.far) + torch.tensor([1.0, 2, 3, 4, 5, 6]).to(self.far)
        drawn = (torch.rand(6) < 2).to(self.far) * x
        return moved, drawn, (y * self.scale + x.cpu()), torch.arange(6).to(self.far) + x


class Made(Program):
    """Masks, positions and factors that a model makes on the CPU and copies: all of it may be made where it is read."""

    def forward(self, x):
        regions = torch.zeros(1, 4, 6)
        for k, part in enumerate((slice(0, 2), slice(2, None))):
            regions[:, part, 1:] = k + 1
        apart = regions.reshape(1, 1, -1) - regions.reshape(1, -1, 1)
        mask = apart.masked_fill(apart != 0, -100.0).masked_fill(apart == 0, 0.0)
        places = torch.arange(x.shape[0] - 1, -1, -1)
        factors = torch.tensor([1.0, 0.5]).repeat(12)
        return (x + mask.to(self.far)).softmax(-1), index(x, [places]) * factors.to(self.far)


def numbers(*sizes, seed=0):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


CASES = {
    "crossing": (Crossing, lambda n=4: (far(numbers(n, 6)), numbers(n, 6, seed=1), torch.tensor(0.25))),
    "indexes": (Indexes, lambda n=5: (far(numbers(7, 3)), torch.arange(n) * 3 % 7, numbers(7, 3, seed=1))),
    "writes": (Writes, lambda n=4: (far(numbers(n, 3)), numbers(n, 3, seed=1))),
    "large": (Large, lambda: (far(numbers(200, 300)), numbers(200, 300, seed=1))),
    "solves": (Solves, lambda: (far(numbers(4, 6)), numbers(4, 6, seed=1))),
    "turns": (Turns, lambda n=4: (far(numbers(n, 3)), numbers(n, 3, seed=2))),
    "branches": (Branches, lambda n=4: (far(numbers(n, 3)), numbers(n, 3, seed=2))),
    "constants": (Constants, lambda n=4: (far(numbers(n, 6)), numbers(n, 6, seed=1))),
}


def compiled(folder, *options, emit=None, name="m"):
    out = folder / (f"{name}.txt" if emit else f"{name}.coil")
    done = coil("compile", folder / "m.pt2", "-o", out, *options, *(["--emit", emit] if emit else []))
    assert done.returncode == 0, done.stderr
    return out


def results(package, before, folder, *options, **environment):
    save_file(before, folder / "in.safetensors")
    given = ("--inputs", folder / "in.safetensors", "--outputs", folder / "out.safetensors")
    done = coil("run", package, *given, *options, **environment)
    assert done.returncode == 0, done.stderr
    return load_file(folder / "out.safetensors")


def plan_of(package):
    with zipfile.ZipFile(package) as archive:
        return json.loads(archive.read("manifest.json"))


@needs_machine
@pytest.mark.parametrize("name", CASES)
def test_values(name, tmp_path):
    program, args = CASES[name]
    module = program()
    export_over(module, args(), tmp_path / "m.pt2")
    package = compiled(tmp_path, "--device", "metal", "--set", "verify=true")
    plan = plan_of(package)
    assert plan["device"] == "metal:0" and [d["device"] for d in plan["others"]] == ["cpu"]
    before, want = eager(module, args())
    assert not differences(results(package, before, tmp_path, env=WITH_MACHINE), want)


@needs_machine
@pytest.mark.parametrize("dynamic", [None, ({0: Dim("rows", min=2, max=9)},)])
def test_what_is_made_of_no_input_is_made_where_it_is_read(dynamic, tmp_path):
    module, args = Made(), lambda n=3: (far(numbers(n, 24, 24)),)
    export_over(module, args(), tmp_path / "m.pt2", dynamic)
    package = compiled(tmp_path, "--device", "metal", "--set", "verify=true")
    plan = plan_of(package)
    assert plan["device"] == "metal:0" and "others" not in plan
    for n in (3, 5) if dynamic else (3,):
        before, want = eager(module, args(n))
        assert not differences(results(package, before, tmp_path, env=WITH_MACHINE), want)


@needs_machine
def test_constants_lie_where_they_are_read(tmp_path):
    """Nothing is copied in a run but what was drawn and an input; the CPU's draws have their seed on the CPU."""
    export_over(Constants(), CASES["constants"][1](), tmp_path / "m.pt2")
    plan = plan_of(compiled(tmp_path, "--device", "metal"))
    steps = json.dumps(plan["steps"])
    assert steps.count("device_copy") == 2
    seeds = [c for c in plan["constants"] if c.get("seed")]
    holders = [b for b in plan["buffers"] if b["kind"] == "constant" and plan["constants"][b["index"]].get("seed")]
    assert len(seeds) == 1 and all(b.get("place", 0) == 1 for b in holders), holders


@needs_machine
def test_graphs_that_torch_traced(tmp_path):
    """The graphs of torch.compile keep their devices, and what is left to torch takes its operands where they lie."""
    command = [sys.executable, pathlib.Path(__file__).with_name("traced_over_two.py")]
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | WITH_MACHINE | path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count(" right") == 7


class Draws(Program):
    def forward(self, x):
        return torch.rand(500).to(self.far) + x


@needs_machine
def test_each_run_draws_anew(tmp_path):
    export_over(Draws(), (far(torch.zeros(500)),), tmp_path / "m.pt2")
    package = compiled(tmp_path, "--device", "metal")

    def run(seed):
        (drawn,) = results(package, {"x": torch.zeros(500)}, tmp_path, "--seed", str(seed), env=WITH_MACHINE).values()
        return drawn

    one, same, other = run(1), run(1), run(2)
    assert torch.equal(one, same) and not torch.equal(one, other)
    assert 0.4 < one.mean() < 0.6 and one.min() >= 0 and one.max() < 1 and one.unique().numel() > 450


@needs_machine
def test_one_package_for_several_sizes(tmp_path):
    module, (_, args) = Crossing(), CASES["crossing"]
    rows = Dim("rows", min=3, max=500)
    export_over(module, args(), tmp_path / "m.pt2", ({0: rows}, {0: rows}, None))
    package = compiled(tmp_path, "--device", "metal")
    for n in (4, 3, 300):
        before, want = eager(module, args(n))
        assert not differences(results(package, before, tmp_path, env=WITH_MACHINE), want)


def test_all_on_one_device(tmp_path):
    """On the CPU, and by a setting, nothing is copied."""
    module, (_, args) = Crossing(), CASES["crossing"]
    export_over(module, args(), tmp_path / "m.pt2")
    package = compiled(tmp_path)
    assert "others" not in plan_of(package) and "device_copy" not in json.dumps(plan_of(package))
    before, want = eager(module, args())
    assert not differences(results(package, before, tmp_path), want)
    package = compiled(tmp_path, "--device", "metal", "--set", "one_device=true")
    assert "others" not in plan_of(package) and "device_copy" not in json.dumps(plan_of(package))


def test_what_lies_on_a_gpu_alone_stays_on_one_device(tmp_path):
    """Whatever its operators are made of, and with a number that its author made on the CPU."""

    class Alone(Program):
        number = None

        def forward(self, x):
            y = x @ x.T + torch.eye(4, device=self.far)
            if self.number:
                y = y * torch.tensor(self.number)
            return torch.nn.functional.huber_loss(y, y + 1), torch.triu(y).cumsum(0), y.std()

    for number in (None, 2.0):
        Alone.number = number
        export_over(Alone(), (far(numbers(4, 6)),), tmp_path / "m.pt2")
        plan = plan_of(compiled(tmp_path, "--device", "metal"))
        assert "others" not in plan and "device_copy" not in json.dumps(plan)


def test_what_a_device_has_no_form_of_is_the_cpus(tmp_path):
    """By copies and a call on the CPU, in a program that its author put on the device alone."""

    class Solves(Program):
        def forward(self, x):
            return torch.linalg.eigvalsh(x @ x.T).cumsum(0) * 2

    export_over(Solves(), (far(numbers(4, 6)),), tmp_path / "m.pt2")
    plan = plan_of(compiled(tmp_path, "--device", "metal"))
    calls = [s["library"] for s in plan["steps"] if "library" in s]
    assert [d["device"] for d in plan["others"]] == ["cpu"]
    assert [c for c in calls if c in ("device_copy", "eigh")] == ["device_copy", "eigh", "device_copy"], calls


def test_copies_keep_layouts(tmp_path):
    """A copy lies as what it is a copy of: transposed, channels last, broadcast made dense; as eager's."""

    class Layouts(Program):
        def forward(self, x, image):
            return (
                x.T.cpu(),
                image.cpu(),
                torch.nan_to_num(x.T).cpu(),
                x.narrow(0, 0, 1).expand(3, 6).cpu(),
                x.cpu().T.to(self.far),
            )

    image = numbers(2, 3, 4, 5).to(memory_format=torch.channels_last)
    module, args = Layouts(), (far(numbers(4, 6)), far(image))
    export_over(module, args, tmp_path / "m.pt2")
    text = compiled(tmp_path, "--device", "metal", emit="wrapper").read_text()
    outputs = dict(re.findall(r"^buffer (\w+) : f32\[[^{]*\] \{\[([^\]]*)\]\} output", text, re.MULTILINE))
    order = re.findall(r'^output "\d" = (\w+)', text, re.MULTILINE)
    # What is on the CPU already is no copy there.
    want = [", ".join(map(str, t.to("cpu", copy=True).stride())) for t in module(*args)]
    assert [outputs[name] for name in order] == want
    assert text.startswith("wrapper main() on metal:0 and cpu:") and "= device_copy(" in text


@needs_machine
def test_failures_are_told(tmp_path):
    """An index out of range on either device fails the run before the CPU writes what follows from it."""

    class Fails(Program):
        def forward(self, table, i, y, k):
            y.add_(index(table, [i.to(self.far)]).cpu())
            return y[k]

    module = Fails()
    args = (far(numbers(7, 3)), torch.tensor([1, 2]), numbers(2, 3), torch.tensor([1]))
    export_over(module, args, tmp_path / "m.pt2")
    package = compiled(tmp_path, "--device", "metal")
    before, want = eager(module, args)
    assert not differences(results(package, before, tmp_path, env=WITH_MACHINE), want)
    for wrong in ({"i": torch.tensor([1, 7])}, {"k": torch.tensor([2])}):
        save_file(before | {name: t for name, t in wrong.items()}, tmp_path / "in.safetensors")
        done = coil("run", package, "--inputs", tmp_path / "in.safetensors", env=WITH_MACHINE)
        assert done.returncode == 1 and "an index read from a tensor is out of range" in done.stderr, done.stderr


def test_what_is_refused(tmp_path):
    class Three(Program):
        def forward(self, x, y):
            return x.cpu() + y

    with torch.no_grad(), FakeTensorMode():
        args = torch.empty(3, device="cuda:1"), torch.empty(3)
        two = torch.empty(3, device="cuda:0")
        torch.export.save(torch.export.export(Three(), args), tmp_path / "m.pt2")

        class All(torch.nn.Module):
            def forward(self, x, y, z):
                return x.cpu() + y + z.cpu()

        torch.export.save(torch.export.export(All(), (*args, two)), tmp_path / "all.pt2")
    assert plan_of(compiled(tmp_path, "--device", "metal"))["device"] == "metal:0"
    done = coil("compile", tmp_path / "all.pt2", "-o", tmp_path / "all.coil", "--device", "metal")
    assert done.returncode == 1 and not (tmp_path / "all.coil").exists()
    assert "lies on the cpu and one other device" in done.stderr and "one_device=true" in done.stderr
    coil("compile", tmp_path / "all.pt2", "-o", tmp_path / "all.coil", "--device", "metal", "--set", "one_device=true")
    assert plan_of(tmp_path / "all.coil")["device"] == "metal:0"
    done = coil(
        "compile", tmp_path / "m.pt2", "-o", tmp_path / "w.coil", "--set", "assert_lifetimes=true", "--device", "metal"
    )
    assert done.returncode == 1 and "assert_lifetimes watches" in done.stderr


def kernels_for_the_fake_driver(package):
    """What the driver of tests runs: the package's CUDA kernels on the CPU."""
    with zipfile.ZipFile(package) as archive:
        text = archive.read("kernels/kernels.cpp").decode().split("\n// On cpu:\n")[0]
    begin = text.index('extern "C" __global__')
    return EmulatedKernels(text[:begin], re.split(r'(?=extern "C" __global__)', text[begin:])[1:]).library._name


@pytest.mark.skipif(PLACE is None, reason="nvidia-cuda-nvrtc is not installed")
@pytest.mark.parametrize("graphs", ["false", "true"])
def test_on_cuda_by_the_driver_of_tests(graphs, tmp_path):
    """Streams that run ahead, page-locked memory, and parts recorded as graphs; three calls in a row are alike."""

    class Steps(Program):
        def forward(self, x, y, s):
            a = (x * 2 + s).relu()
            ahead = a.to("cpu", non_blocking=True)
            beside = y.cumsum(0)
            far = (ahead + beside).to(self.far)
            return (far * x).sum(0), ahead * 2, far.cpu().softmax(-1), a.cpu()

    module, args = Steps(), CASES["crossing"][1]
    export_over(module, args(), tmp_path / "m.pt2")
    nvrtc = ("--set", "cuda.arch=sm_90", "--set", f"cuda.nvrtc={pathlib.Path(PLACE).parent}")
    package = compiled(tmp_path, "--device", "cuda", *nvrtc)
    before, want = eager(module, args())
    fake = {"LD_LIBRARY_PATH": os.path.join(BUILD, "lib", "fake_cuda")}
    env = ENVIRONMENT | fake | {"COIL_FAKE_CUDA_KERNELS": kernels_for_the_fake_driver(package)}
    got = results(package, before, tmp_path, "--set", f"cuda.graphs={graphs}", env=env)
    assert not differences(got, want)
    done = coil("bench", package, "--set", f"cuda.graphs={graphs}", "--seconds", "0.1", env=env)
    assert done.returncode == 0 and "on cuda:0" in done.stdout, done.stderr
