"""What forward graphs keep for backward ones, in bytes, and what runs on a GPU's memory are planned to have at their
fullest; gradients are eager's.
"""

import copy
import pathlib
import sys

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
coil = pytest.importorskip("coil", reason="the Python extension is not built")
from coil import dynamo, joint, nodes, operands  # noqa: E402
from coil.graph import translate  # noqa: E402
from coil.options import parse  # noqa: E402


def kept(model, x, dtype=None, **options):
    """Bytes that one call of the compiled model keeps besides parameters and the input, by type; checks gradients."""
    torch._dynamo.reset()
    model.train()
    made = copy.deepcopy(model)
    function = torch.compile(made, backend="coil", options={"cache": "none"} | options)
    own = {t.untyped_storage().data_ptr() for t in (*made.parameters(), *made.buffers(), x)}
    held = {}

    def pack(value):
        if value.untyped_storage().data_ptr() not in own:
            held[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes(), value.dtype
        return value

    def step(call, hooks):
        with hooks, torch.autocast("cpu", dtype or torch.bfloat16, enabled=dtype is not None):
            out = call(x)
        out.float().square().sum().backward()
        return out

    want = step(model, torch.autograd.graph.saved_tensors_hooks(lambda v: v, lambda v: v))
    got = step(function, torch.autograd.graph.saved_tensors_hooks(pack, lambda v: v))
    close = dict(rtol=5e-2, atol=5e-2) if dtype else dict(rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(got, want, **close)
    for (name, p), q in zip(model.named_parameters(), made.parameters(), strict=True):
        scale = p.grad.abs().max().clamp(min=1e-6)
        torch.testing.assert_close(q.grad / scale, p.grad / scale, **close, msg=lambda m, name=name: f"{name}: {m}")
    for b, c in zip(model.buffers(), made.buffers(), strict=True):
        torch.testing.assert_close(c, b, rtol=1e-3, atol=1e-3)
    out = {}
    for size, kind in held.values():
        out[kind] = out.get(kind, 0) + size
    return out


SMALL = 4 << 10  # statistics and scalars


def conv():
    """Without a bias, whose gradient is nothing but rounding where a norm comes next."""
    return nn.Conv2d(8, 8, 3, padding=1, bias=False)


def x_of(channels, side=16):
    torch.manual_seed(0)
    return torch.randn(4, channels, side, side)


@pytest.mark.parametrize("activation", [nn.Hardswish, nn.SiLU, nn.GELU, nn.LeakyReLU, nn.Hardsigmoid, nn.ELU])
def test_batch_norms_are_computed_again(activation):
    """Of convolution, norm, activation, convolution: the first one's result and what the second reads."""
    model = nn.Sequential(conv(), nn.BatchNorm2d(8), activation(), nn.Conv2d(8, 4, 1))
    x = x_of(8)
    assert sum(kept(model, x).values()) <= 2 * x.nbytes + SMALL


def test_batch_norms_under_autocast_are_kept_in_16_bits():
    model = nn.Sequential(conv(), nn.BatchNorm2d(8), nn.Hardswish(), nn.Conv2d(8, 4, 1))
    x = x_of(8)
    bytes = kept(model, x, torch.bfloat16)
    assert bytes[torch.bfloat16] <= 3 * x.nbytes // 2 + SMALL, "the input's copy, and two values"
    assert sum(bytes.values()) <= 3 * x.nbytes // 2 + SMALL


def test_norms_without_weights_and_in_one_dimension():
    model = nn.Sequential(
        nn.Linear(32, 64, bias=False), nn.BatchNorm1d(64, affine=False), nn.Hardswish(), nn.Linear(64, 8)
    )
    torch.manual_seed(0)
    x = torch.randn(128, 32)
    assert sum(kept(model, x).values()) <= 2 * 128 * 64 * 4 + SMALL


class LastRelu(nn.Module):
    """Nothing but the sign of what relu reads is asked for."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x):
        return self.conv(x).relu().mean((2, 3))


def test_of_values_of_which_only_the_sign_is_read_truth_values_are_kept():
    x = x_of(8)
    bytes = kept(LastRelu(), x)
    assert bytes.pop(torch.bool) == x.numel()
    assert sum(bytes.values()) <= SMALL


@pytest.mark.parametrize(
    "pool",
    [
        nn.MaxPool2d(3, 2, 1),
        nn.AvgPool2d(2),
        nn.AdaptiveAvgPool2d(4),
        nn.ReflectionPad2d(2),
        nn.ReplicationPad2d(1),
    ],
    ids=lambda m: type(m).__name__,
)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=["rows", "channels last"])
def test_what_only_sizes_are_read_of_is_not_kept(pool, layout):
    """The gradient of pooling takes what was pooled, and needs no value of it."""
    model = nn.Sequential(conv(), nn.BatchNorm2d(8), nn.ReLU(), pool, nn.Conv2d(8, 4, 1))
    x = x_of(8).to(memory_format=layout)
    with torch.no_grad():
        pooled = model[:4](x).nbytes
    indices = pooled // 2 if isinstance(pool, nn.MaxPool2d) else 0
    assert sum(kept(model, x).values()) <= x.nbytes + pooled + indices + SMALL


# ---- Peaks that are planned for a GPU


def planned(model, x, monkeypatch):
    torch._dynamo.reset()
    peaks, graphs = {}, {}

    def plan(gm, options, name="main", **layouts):
        going = joint.kept_memory(graphs["forward"], gm) if name == "backward" else {}
        graphs[name] = gm
        traced = translate(gm, name, None, options.hands_over, options.fallback_random, **layouts)
        peaks[name] = traced.planned_peaks({"cuda.arch": "sm_90"}, "cuda:0", going)
        return dynamo._InTorch(gm)

    monkeypatch.setattr(dynamo, "compile_graph", plan)
    out = torch.compile(model, backend="coil", options={"cache": "none"})(x)
    if out.requires_grad:
        out.square().sum().backward()
    return peaks


def test_temporaries_are_gone_when_large_results_come(monkeypatch):
    """As in a language model: large values within, and the largest at the end."""
    model = nn.Sequential(nn.Linear(64, 1024), nn.GELU(), nn.Linear(1024, 64), nn.Linear(64, 2048))
    with torch.no_grad():
        peaks = planned(model, torch.randn(256, 64), monkeypatch)["inference"]
    result, last = 256 * 2048 * 4, 256 * 64 * 4
    assert peaks["outputs"] == result
    assert peaks["pieces"] <= 1.01 * (result + last)
    assert peaks["whole"] > 1.3 * result


def test_backward_graphs_give_back_what_they_are_done_with(monkeypatch):
    """Layers that are wide at first and narrow at last: the arena is large when little else is left."""
    widths = [512, 384, 256, 192, 128, 96, 64, 32]
    layers = [m for a, b in zip(widths, widths[1:], strict=False) for m in (nn.Linear(a, b), nn.GELU())]
    peaks = planned(nn.Sequential(*layers).train(), torch.randn(512, 512), monkeypatch)["backward"]
    assert peaks["kept"] > 0
    assert peaks["pieces"] <= 1.03 * peaks["least"]
    assert peaks["whole"] > 1.1 * peaks["least"]


class Tables(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(4096, 32) for _ in range(4))
        self.layers = nn.Sequential(*(nn.Linear(32, 32) for _ in range(2)), nn.Linear(32, 2048), nn.Linear(2048, 1))

    def forward(self, x):
        return self.layers(sum(table(x) for table in self.tables))


def test_gradients_that_are_added_to_are_filled_when_the_first_is_added(monkeypatch):
    """Each table's gradient is 512 KiB of zeros at first; wide values of 8 MiB are gone by then."""
    peaks = planned(Tables(), torch.randint(0, 4096, (1024,)), monkeypatch)["backward"]
    wide = 1024 * 2048 * 4
    assert peaks["least"] < 2 * wide + wide // 4


class Attends(nn.Module):
    """Attention that is written out, with a mask: under autocast scores are in 16 bits, and the softmax in 32."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(32, 96, bias=False)
        self.register_buffer("mask", torch.zeros(1, 1, 128).masked_fill(torch.arange(128) > 99, -1e4))

    def forward(self, x):
        q, k, v = self.project(x).chunk(3, -1)
        scores = q @ k.mT / 32**0.5 + self.mask
        return torch.softmax(scores, -1).to(v.dtype) @ v


def test_softmaxes_in_32_bits_are_computed_again():
    """Of the softmax there are the scores and the weights, both in 16 bits, and two numbers a row in 32."""
    torch.manual_seed(0)
    x = torch.randn(2, 128, 32)
    held = kept(Attends(), x, torch.bfloat16)
    scores, rows = 2 * 128 * 128 * 2, 2 * 2 * 128 * 4
    assert held.get(torch.float32, 0) <= rows + SMALL
    assert held[torch.bfloat16] <= 2 * scores + 4 * x.nbytes // 2 + SMALL + 96 * 32 * 2


def test_softmaxes_of_wide_scores_are_kept():
    torch.manual_seed(0)
    x = torch.randn(2, 128, 32)
    held = kept(Attends(), x)
    assert held[torch.float32] <= 2 * 128 * 128 * 4 + 4 * x.nbytes + SMALL


class NearlySoftmax(nn.Module):
    """Shares of a sum, of scores that a number is taken from."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(32, 32, bias=False)

    def forward(self, x):
        shares = (self.project(x) @ x.mT - 1.0).exp()
        return shares / shares.sum([-1], True)


def test_what_only_looks_like_a_softmax_is_as_it_was():
    torch.manual_seed(0)
    kept(NearlySoftmax(), torch.randn(2, 16, 32) / 8, torch.bfloat16)


class Biased(nn.Module):
    """Attention with a bias that learns, and with dropout: PyTorch writes it out in 32 bits."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(32, 96, bias=False)
        self.bias = nn.Parameter(torch.randn(1, 1, 128, 128) / 8)

    def forward(self, x):
        q, k, v = (t[:, None] for t in self.project(x).chunk(3, -1))
        return nn.functional.scaled_dot_product_attention(q, k, v, self.bias.to(q.dtype), dropout_p=0.1)[:, 0]


class Normalizes(nn.Module):
    """Scores between heads of unit length, as cross-covariance attention has them."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(32, 64, bias=False)

    def forward(self, x):
        q, k = (nn.functional.normalize(h, dim=-1) for h in self.project(x).mT.chunk(2, -2))
        return q @ k.mT


def test_values_that_are_divided_by_their_norm_are_kept_once():
    """What products read, and the projection's result; not the quotients as gradients read them."""
    torch.manual_seed(0)
    x = torch.randn(4, 128, 32)
    assert sum(kept(Normalizes(), x).values()) <= 4 * x.nbytes + 3 * SMALL


def test_narrow_copies_behind_views_are_computed_again():
    """Scores in 32 bits are kept, the input and the heads in 16, and no transposed copy of probabilities in 16."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, x, held = Biased(), torch.randn(2, 128, 32), {}

    def pack(value):
        held[value.untyped_storage().data_ptr()] = value
        return value

    function = torch.compile(model, backend="coil", options={"cache": "none"})
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda v: v), torch.autocast("cpu", torch.bfloat16):
        function(x)
    narrow = [v for v in held.values() if v.dtype == torch.bfloat16]
    assert narrow and sum(v.untyped_storage().nbytes() for v in narrow) <= 4 * x.nbytes // 2


class Heads(nn.Module):
    """Causal attention of heads that lie one behind the other, as rotated ones do, and a product of their rows."""

    def __init__(self):
        super().__init__()
        self.project, self.last = nn.Linear(64, 192, bias=False), nn.Linear(64, 64, bias=False)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (4, 16)).transpose(1, 2) * 1.5 for t in self.project(x).chunk(3, -1))
        y = nn.functional.scaled_dot_product_attention(q.contiguous(), k, v, is_causal=True)
        return self.last(y.transpose(1, 2).contiguous().flatten(2))


def test_copies_that_lie_as_what_they_copy_are_kept_once(monkeypatch):
    """A GPU's attention gives the heads of one query side by side, as the product of rows reads them."""
    torch.manual_seed(0)
    x = torch.randn(2, 128, 64)
    with torch.autocast("cpu", torch.bfloat16):
        peaks = planned(Heads(), x, monkeypatch)["forward"]
    # The input, queries, keys, values and what attention gives, the sums' logarithms, and the result.
    narrow = x.nbytes // 2
    assert peaks["outputs"] <= 6 * narrow + 2 * 4 * 128 * 4 + 64 * 64 * 2


def test_what_is_kept_once_is_right():
    """The same on the CPU, of a graph as AOTAutograd makes them, whose results may all lie as Coil likes."""

    def attend(q, k, v):
        y = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)[0]
        return y, y.transpose(1, 2).clone().view(2, 128, 64), y.clone() * 2

    torch.manual_seed(0)
    given = [torch.randn(2, 128, 4, 16).transpose(1, 2) for _ in range(3)]
    graph = make_fx(attend, tracing_mode="fake")(*given)
    made = dynamo.compile_graph(graph, parse({"cache": "none"}, None), "forward", free=range(3))(*given)
    for got, want in zip(made, attend(*given), strict=True):
        torch.testing.assert_close(got, want)
    first, copy, other = (t.untyped_storage().data_ptr() for t in made)
    assert first == copy != other


class Gate(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.gate, self.down = nn.Linear(64, 256), nn.Linear(64, 256), nn.Linear(256, width)

    def forward(self, x):
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


@pytest.mark.parametrize("activation", [nn.GELU, nn.SiLU, lambda: nn.GELU(approximate="tanh"), nn.Mish])
def test_activations_in_front_of_wide_products_are_computed_again(activation):
    """What the activation reads is kept in any case, for its own gradient."""
    torch.manual_seed(0)
    x, wide = torch.randn(128, 64), 128 * 256 * 4
    model = nn.Sequential(nn.Linear(64, 256), activation(), nn.Linear(256, 512))
    assert sum(kept(model, x).values()) <= wide + SMALL
    narrow = nn.Sequential(nn.Linear(64, 256), activation(), nn.Linear(256, 32))
    assert sum(kept(narrow, x).values()) >= 2 * wide, "to write it again would take long beside so small a product"


def test_gates_are_computed_again():
    torch.manual_seed(0)
    x, wide = torch.randn(128, 64), 128 * 256 * 4
    assert sum(kept(Gate(512), x).values()) <= 2 * wide + SMALL
    assert sum(kept(Gate(512), x, torch.bfloat16).values()) <= wide + x.nbytes // 2 + 4 * 64 * 512 * 2 + SMALL


def large_steps(share):
    """A wide activation between narrow layers, and how many bytes are saved, as a GPU's gradients would have it."""
    samples = 2048 if share else 16
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 512), nn.GELU(), nn.Linear(512, 256), nn.Linear(256, 64))
    x = torch.randn(samples, 64)
    return sum(kept(model, x).values()), samples * 512 * 4


def test_gpus_compute_again_what_lowers_the_peak(monkeypatch):
    """Where all gradients at the end are more than what was saved, nothing is written again."""
    monkeypatch.setattr(operands, "_is_on_gpu", lambda value: True)
    saved, wide = large_steps(share=True)
    assert saved < 2 * wide
    saved, wide = large_steps(share=False)
    assert saved >= 2 * wide


def kept_by_eight_pairs(**options):
    """Of layers with a wide activation in each."""
    torch.manual_seed(0)
    layers = [m for _ in range(8) for m in (nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))]
    return sum(kept(nn.Sequential(*layers), torch.randn(4096, 64), **options).values())


def test_gpus_stop_when_enough_is_computed_again(monkeypatch):
    monkeypatch.setattr(operands, "_is_on_gpu", lambda value: True)
    wide = 4096 * 256 * 4
    some = kept_by_eight_pairs()
    monkeypatch.setattr(operands, "ENOUGH", 1.0)
    all = kept_by_eight_pairs()
    assert some >= all + 4 * wide, "half of the activations are a third of all"
    assert some <= all + 6 * wide


def test_less_than_the_whole_budget_is_no_limit(monkeypatch):
    """Whoever asks for less memory pays in time."""
    monkeypatch.setattr(operands, "_is_on_gpu", lambda value: True)
    less = kept_by_eight_pairs(**{"memory.budget": 0.9})
    assert less <= kept_by_eight_pairs() - 4 * (4096 * 256 * 4)


def backward_of(model, x, monkeypatch):
    """The graph of gradients as it is compiled; they are checked."""
    graphs, compile = {}, dynamo.compile_graph

    def note(gm, options, name="main", **layouts):
        graphs[name] = gm
        return compile(gm, options, name, **layouts)

    monkeypatch.setattr(dynamo, "compile_graph", note)
    kept(model, x)
    return graphs["backward"]


def test_operands_are_computed_again_by_the_gradients_own_loops(monkeypatch):
    """The product that gives a weight's gradient comes behind the activation's own gradient, not in front of it."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.SiLU(), nn.Linear(256, 512), nn.Sigmoid(), nn.Linear(512, 128))
    graph = backward_of(model, torch.randn(128, 64, requires_grad=True), monkeypatch)
    nodes = list(graph.graph.nodes)
    aten = torch.ops.aten
    again = {node for node in nodes if node.meta.get("again")}
    readers = [k for k, n in enumerate(nodes) if n.target is aten.mm.default and again & {*_behind(n)}]
    assert readers
    for k in readers:
        before = [n for n in nodes[:k] if n.target is aten.sigmoid.default and n not in again]
        assert before, "the slope of silu is computed first"


def _behind(node):
    """Operands, and what they are views of."""
    found, waiting = [], list(node.all_input_nodes)
    while waiting:
        operand = waiting.pop()
        found.append(operand)
        waiting += operand.all_input_nodes if nodes.is_view(operand) or nodes.is_item(operand) else []
    return found


def test_gradients_of_convolutions_are_apart_where_one_needs_what_is_computed_again(monkeypatch):
    torch.manual_seed(0)
    wide = lambda: nn.Conv2d(64, 64, 3, padding=1)
    model = nn.Sequential(nn.Conv2d(8, 64, 1), nn.GroupNorm(8, 64), nn.SiLU(), wide(), nn.SiLU(), wide())
    graph = backward_of(model, torch.randn(2, 8, 12, 12, requires_grad=True), monkeypatch)
    calls = [n for n in graph.graph.nodes if n.target is torch.ops.aten.convolution_backward.default]
    masks = sorted(list(n.args[-1]) for n in calls)
    assert [True, False, False] in masks and [False, True, True] in masks
    for call in calls:
        if list(call.args[-1]) == [True, False, False]:
            assert not call.args[1].meta.get("again"), "it only asks how large its operand is"


def test_convolutions_of_free_sizes_compute_again_in_one_call(monkeypatch):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(8, 64, 1), nn.SiLU(), nn.Conv2d(64, 64, 3, padding=1)).train()
    torch._dynamo.reset()
    made = copy.deepcopy(model)
    function = torch.compile(made, backend="coil", options={"cache": "none"}, dynamic=True)
    for samples in (2, 3):
        x = torch.randn(samples, 8, 9, 9)
        for call in (model, function):
            call(x).square().mean().backward()
    for p, q in zip(model.parameters(), made.parameters(), strict=True):
        torch.testing.assert_close(q.grad, p.grad, rtol=1e-4, atol=1e-5)


def test_activations_that_are_read_by_loops_are_kept():
    """relu's own gradient reads its result, and what it read is not kept."""
    torch.manual_seed(0)
    x, wide = torch.randn(128, 64), 128 * 256 * 4
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 512))
    assert sum(kept(model, x).values()) <= wide + SMALL


def test_a_division_that_fails_is_made_without(monkeypatch):
    """What is to be computed again may be what torch's partitioner cannot: it then decides for itself."""
    real, calls = joint.partitioners.min_cut_rematerialization_partition, []

    def fails_once(*args, **options):
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("failed to partition")
        return real(*args, **options)

    monkeypatch.setattr(joint.partitioners, "min_cut_rematerialization_partition", fails_once)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 512))
    assert sum(kept(model, torch.randn(128, 64)).values()) >= 2 * 128 * 256 * 4
    assert len(calls) == 2


class OverEdges(nn.Module):
    """Each node takes of each of four heads the mean of its neighbours' features, weighted by a softmax over edges."""

    def __init__(self):
        super().__init__()
        self.features, self.score = nn.Linear(32, 32), nn.Parameter(torch.randn(1, 4, 8))
        source, target = torch.randint(0, 256, (2, 4096))
        self.register_buffer("source", source)
        self.register_buffer("target", target)

    def forward(self, x):
        x = self.features(x).view(-1, 4, 8)
        scores = (x * self.score).sum(-1)
        weights = torch.exp(torch.tanh(scores[self.source] + scores[self.target]))
        sums = torch.zeros_like(scores).index_add(0, self.target, weights)
        shares = weights / sums[self.target]
        messages = x[self.source] * shares[:, :, None]
        return torch.zeros_like(x).index_add(0, self.target, messages)


def test_rows_gathered_for_each_edge_are_gathered_again():
    """The nodes' features and scores are kept in their place, though they were stored and read long before."""
    torch.manual_seed(0)
    of_edges, of_nodes = 4096 * 4 * 4, 256 * 32 * 4
    assert sum(kept(OverEdges(), torch.randn(256, 32)).values()) <= of_nodes + of_edges + 3 * SMALL
