"""On a machine with a GPU: a CUDA program's package, its C++ source, its Python file and its FX graph against eager
there. Two minutes with `pytest -n 4`.
"""

import copy
import threading

import pytest
import torch
from torch.utils import _pytree as pytree

from coil_harness import ENVIRONMENT, coil_ok, dense, difference, export, named_inputs, named_outputs, run
from emitted import build_program, call_program, emit, load_module
from models import SMALL
from test_emit_cpp_cuda import check_what_stays
from test_emit_cuda import PLACE, PROGRAMS, ROWS, Net, of, seeded

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
CUDA = ["--device", "cuda", *(["--set", f"cuda.nvrtc={PLACE}/.."] if PLACE else [])]
MODELS = ["digits", "bert", "bert_bf16", "bert_dynamic", "gpt2", "llama", "resnet", "vit", "nested", "buffers"]
torch.backends.cudnn.allow_tf32 = False


def on_gpu(value):
    return pytree.tree_map(
        lambda x: x.cuda() if isinstance(x, (torch.Tensor, torch.nn.Module)) else x, copy.deepcopy(value)
    )


def cases(name):
    """Module, calls, sizes that are free."""
    torch.manual_seed(0)
    if name in PROGRAMS:
        return PROGRAMS[name]
    module, args, dynamic, others = SMALL[name]()
    return module, [args, *others], dynamic


@pytest.mark.parametrize("name", [*PROGRAMS, *MODELS])
def test_every_form_gives_eagers_results(name, tmp_path):
    module, calls, dynamic = cases(name)
    training = module.training and name == "buffers"
    module.train(training)
    archive = tmp_path / "m.pt2"
    export(copy.deepcopy(module), calls[0], archive, dynamic)
    coil_ok("compile", archive, "-o", tmp_path / "m.coil", *CUDA)
    files = emit(archive, "python", *CUDA), emit(archive, "fx", *CUDA)
    program = build_program(emit(archive, "cpp", *CUDA))
    for args in calls:
        python, fx = load_module(files[0]).call, load_module(files[1]).load()  # programs may keep state
        # Torch has eigenvalues on a GPU with MAGMA alone, and that pair of operators on the CPU.
        device = "cpu" if name == "factors" or "in training" in name else "cuda"
        theirs = copy.deepcopy(args) if device == "cpu" else on_gpu(args)
        with torch.no_grad(), torch.device(device):
            want = named_outputs(copy.deepcopy(module).to(device)(*theirs))
        after = [dense(x) for x in pytree.tree_leaves(theirs)]
        inputs = named_inputs(module, args)
        results = {"package": run(tmp_path / "m.coil", inputs, tmp_path), "cpp": call_program(program, inputs)}
        wrong = {
            k: d
            for k in inputs
            if k in results["cpp"] and k not in want and (d := difference(results["cpp"][k], results["package"][k]))
        }
        assert not wrong, f"inputs after cpp: {wrong}"
        for form, call in (("python", python), ("fx", lambda inputs: fx(*inputs))):
            given = pytree.tree_leaves(on_gpu(args))
            made = call(given)
            assert len(made) == len(want) and all(t.is_cuda for t in made if isinstance(t, torch.Tensor)), form
            results[form] = dict(zip(want, map(dense, made)))
            wrong = [d for g, w in zip(given, after, strict=True) if (d := difference(dense(g), w))]
            assert not wrong, f"inputs after {form}: {wrong}"
        for form, got in results.items():
            wrong = {k: d for k in want if (d := difference(got[k], want[k]))}
            assert not wrong, f"{form}: {wrong}"


def net(tmp_path, language, *options):
    torch.manual_seed(0)
    export(
        Net(),
        (seeded(5, 16), seeded(4, 3), torch.arange(5)),
        tmp_path / "m.pt2",
        {"x": {0: ROWS}, "h": None, "i": {0: ROWS}},
    )
    module = load_module(emit(tmp_path / "m.pt2", language, *CUDA, *options))
    return module, (module.load() if language == "fx" else lambda *args: module.call(list(args)))


def check_net(call):
    torch.manual_seed(0)
    x, h, i = seeded(64, 16), seeded(4, 3), torch.arange(64) % 10
    with torch.no_grad():
        want = Net()(x, h.clone(), i)
    for got, expected in zip(call(x.cuda(), h.cuda(), i.cuda()), want, strict=True):
        assert got == expected if isinstance(expected, int) else not difference(got.cpu(), expected)


@pytest.mark.parametrize("language", ["python", "fx"])
def test_streams_threads_and_strides(language, tmp_path):
    _, call = net(tmp_path, language)
    check_net(call)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        check_net(net(tmp_path, language)[1])
    failed = []

    def work():
        try:
            check_net(net(tmp_path, language)[1])
        except BaseException as error:  # reported by the test's own thread
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not failed
    # An address that is no multiple of 16.
    x = torch.cat([torch.zeros(1, device="cuda"), seeded(5, 16).cuda().flatten()])[1:].view(5, 16)
    h, i = seeded(3, 4).cuda().t(), torch.arange(5, device="cuda")
    before = h.clone()
    got = call(x, h, i)
    assert torch.equal(h, before * 2) and torch.allclose(got[0], call(x.clone(), h.contiguous(), i)[0], atol=1e-5)


@pytest.mark.parametrize("language", ["python", "fx"])
def test_failures(language, tmp_path):
    module, call = net(tmp_path, language)
    x, h, i = seeded(5, 16).cuda(), seeded(4, 3).cuda(), torch.arange(5, device="cuda")
    before = h.clone()
    with pytest.raises(RuntimeError, match="an index read from a tensor is out of range"):
        call(x, h, i + 9)
    torch.cuda.synchronize()
    assert torch.equal(h, before)
    call(x, h, i)
    assert torch.equal(h, before * 2)
    for given, message in [
        ((x.cpu(), h, i), "input 'x' is on cpu, but the program takes it on cuda:0"),
        ((x, h, i.int()), "input 'i' is torch.int32"),
        ((seeded(70, 16).cuda(), h, torch.arange(70, device="cuda")), "must be at most 64"),
    ]:
        with pytest.raises((RuntimeError, AssertionError), match=message):
            call(*given)


@pytest.mark.parametrize("language", ["python", "fx"])
def test_dependent_launches(language, tmp_path):
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("from sm_90 on")
    module, call = net(tmp_path, language, "--set", "cuda.dependent_launch=true")
    assert module.KERNELS.early
    check_net(call)
    given = lambda: (seeded(5, 16).cuda(), seeded(4, 3).cuda(), torch.arange(5, device="cuda"))
    first = call(*given())[0]
    assert all(torch.equal(call(*given())[0], first) for _ in range(50))


@pytest.mark.parametrize("language", ["python", "fx"])
def test_much_shared_memory_and_empty_grids(language, tmp_path):
    def module(x):
        return x.sort(dim=-1, stable=True).values, x.softmax(-1), x.sum(0)

    rows = torch.export.Dim("rows", min=0, max=100)
    export(of(module), (seeded(3, 12000),), tmp_path / "m.pt2", {"args": ({0: rows},)})
    loaded = load_module(emit(tmp_path / "m.pt2", language, *CUDA))
    call = loaded.load() if language == "fx" else lambda *args: loaded.call(list(args))
    for n in (3, 0, 50):
        for got, want in zip(call(seeded(n, 12000).cuda()), module(seeded(n, 12000)), strict=True):
            assert not difference(got.cpu(), want)


@pytest.mark.parametrize("early", ["false", "true"])
def test_much_shared_memory_and_empty_grids_of_cpp(early, tmp_path):
    if early == "true" and torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("from sm_90 on")
    module = of(lambda x: (x.sort(dim=-1, stable=True).values, x.softmax(-1), x.sum(0)))
    export(module, (seeded(3, 12000),), tmp_path / "m.pt2", {"args": ({0: torch.export.Dim("rows", min=0, max=100)},)})
    program = build_program(emit(tmp_path / "m.pt2", "cpp", *CUDA, "--set", f"cuda.dependent_launch={early}"))
    for n in (3, 0, 50):
        args = (seeded(n, 12000),)
        got = call_program(program, named_inputs(module, args))
        wrong = {k: d for k, w in named_outputs(module(*args)).items() if (d := difference(got[k], w))}
        assert not wrong, wrong


def test_tensors_of_cpp_that_stay_on_the_device(tmp_path):
    check_what_stays(tmp_path, CUDA, lambda archive: ENVIRONMENT)


def test_recorded_as_a_graph(tmp_path):
    """All of a call is on torch's current stream, so torch can record it."""

    def module(x, w):
        return torch.relu(x @ w).softmax(-1)

    export(of(module), (seeded(8, 16), seeded(16, 24)), tmp_path / "m.pt2")
    loaded = load_module(emit(tmp_path / "m.pt2", "python", *CUDA))
    x, w = seeded(8, 16).cuda(), seeded(16, 24).cuda()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        loaded.call([x, w])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        (made,) = loaded.call([x, w])
    x.mul_(3)
    graph.replay()
    torch.cuda.synchronize()
    assert not difference(made.cpu(), module(x.cpu(), w.cpu()))


def test_random_numbers(tmp_path):
    export(of(lambda x: torch.nn.functional.dropout(x, 0.25, True)), (torch.ones(400, 500),), tmp_path / "m.pt2")
    for language in ("python", "fx"):
        loaded = load_module(emit(tmp_path / "m.pt2", language, *CUDA))
        call = loaded.load() if language == "fx" else lambda *args: loaded.call(list(args))
        x = torch.ones(400, 500, device="cuda")
        torch.manual_seed(3)
        one, two = call(x)[0], call(x)[0]
        torch.manual_seed(3)
        assert torch.equal(one, call(x)[0]) and not torch.equal(one, two) and 0.74 < (one > 0).float().mean() < 0.76


def test_graphs_of_fake_tensors(tmp_path):
    from torch.fx.experimental.proxy_tensor import make_fx

    _, call = net(tmp_path, "fx")
    args = seeded(5, 16).cuda(), seeded(4, 3).cuda(), torch.arange(5, device="cuda")
    traced = make_fx(call, tracing_mode="symbolic", _allow_non_fake_inputs=True)(*args)
    launches = [n for n in traced.graph.nodes if n.target is torch.ops.coil_wrapper.launch.default]
    assert launches and any(isinstance(a, torch.fx.Node) for n in launches for a in [*n.args[3], *n.args[4]]), (
        "sizes became numbers"
    )
    check_net(torch.fx.symbolic_trace(call))
