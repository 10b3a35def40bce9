"""Training steps against eager: loss and gradients of small models from the operators that autograd calls, and fifty
steps of AdamW.
"""

import pathlib
import tempfile

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call
from torch.fx.experimental.proxy_tensor import make_fx

from coil_harness import coil_ok, difference, export, run


def language_model(kind, **settings):
    import transformers

    model = getattr(transformers, f"{kind[0]}")(getattr(transformers, kind[1])(vocab_size=120, **settings)).train()
    ids = torch.randint(0, 120, (2, 12))
    return model, dict(input_ids=ids, labels=ids.clone()), lambda out: out.loss


def classifier(kind, dtype, **settings):
    import transformers

    model = getattr(transformers, kind[0])(getattr(transformers, kind[1])(num_labels=3, **settings)).train().to(dtype)
    return (
        model,
        dict(pixel_values=torch.randn(4, 3, 32, 32, dtype=dtype), labels=torch.randint(0, 3, (4,))),
        lambda out: out.loss,
    )


class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(128, 10),
        )

    def forward(self, images, digits):
        return F.cross_entropy(self.net(images), digits)


class Bits(nn.Module):
    """Layers that the other models lack, in bfloat16 autocast."""

    def __init__(self):
        super().__init__()
        self.down, self.norm, self.up = (
            nn.Conv2d(2, 8, 3, stride=2, padding=1),
            nn.GroupNorm(2, 8),
            nn.ConvTranspose2d(8, 4, 2, stride=2),
        )
        self.table, self.out, self.scale = nn.Embedding(7, 16, padding_idx=0), nn.Linear(16, 4), nn.PReLU()

    def forward(self, images, words):
        y = F.interpolate(self.up(F.silu(self.norm(self.down(images)))), scale_factor=2, mode="bilinear")
        with torch.autocast("cpu", torch.bfloat16):
            z = self.out(F.layer_norm(self.scale(self.table(words)), (16,)))
        return (F.avg_pool2d(y, 3, 2, 1) ** 2).mean() + F.mse_loss(
            z.float().log_softmax(-1), torch.ones_like(z, dtype=torch.float32)
        )


TINY = dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=48)
MODELS = {
    "bert": lambda: language_model(
        ("BertForMaskedLM", "BertConfig"), hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **TINY
    ),
    "gpt2": lambda: language_model(
        ("GPT2LMHeadModel", "GPT2Config"),
        n_embd=32,
        n_layer=1,
        n_head=2,
        n_positions=32,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
    ),
    "llama": lambda: language_model(
        ("LlamaForCausalLM", "LlamaConfig"), num_key_value_heads=1, use_cache=False, **TINY
    ),
    "resnet": lambda: classifier(
        ("ResNetForImageClassification", "ResNetConfig"),
        torch.float32,
        embedding_size=8,
        hidden_sizes=[16, 32],
        depths=[1, 2],
    ),
    # In double: of so many activations some lie near a bound of ReLU6, and roundings of f32 decide on which side.
    "mobilenetv2": lambda: classifier(
        ("MobileNetV2ForImageClassification", "MobileNetV2Config"),
        torch.float64,
        depth_multiplier=0.2,
        image_size=32,
        classifier_dropout_prob=0.0,
    ),
    "digits": lambda: (
        Digits().train(),
        dict(images=torch.randn(6, 1, 8, 8), digits=torch.randint(0, 10, (6,))),
        lambda loss: loss,
    ),
    "bits": lambda: (
        Bits().train(),
        dict(images=torch.randn(2, 2, 8, 8), words=torch.randint(0, 7, (3, 5))),
        lambda loss: loss,
    ),
}
# bfloat16 rounds what the layers of `bits` compute.
TOLERANCE = {"bits": 2e-2}


def gradients(model, loss_of):
    """(parameters, buffers, batch) -> the loss and every parameter's gradient, as autograd computes them; the buffers
    as forward left them.
    """

    def step(parameters, buffers, batch):
        wanted = {k: v for k, v in parameters.items()}
        buffers = {k: v.clone() for k, v in buffers.items()}
        loss = loss_of(functional_call(model, {**wanted, **buffers}, (), batch))
        given = torch.autograd.grad(loss, list(wanted.values()), allow_unused=True)
        return {
            "loss": loss.detach(),
            "gradients": {k: g for k, g in zip(wanted, given) if g is not None},
            "buffers": buffers,
        }

    return step


def state(model):
    return {k: v.detach().clone().requires_grad_() for k, v in model.named_parameters()}, {
        k: v.detach().clone() for k, v in model.named_buffers()
    }


class Traced(nn.Module):
    """A step as one graph of operators, gradients included; arguments by name."""

    def __init__(self, step, args):
        super().__init__()
        self.graph = make_fx(step, tracing_mode="fake")(*args)

    def forward(self, parameters, buffers, batch):
        return self.graph(parameters, buffers, batch)


def traced(name):
    """A model's step as a module and its arguments."""
    torch.manual_seed(0)
    model, batch, loss_of = MODELS[name]()
    args = (*state(model), batch)
    return Traced(gradients(model, loss_of), args), tuple({k: v.detach() for k, v in d.items()} for d in args)


def in_double(args):
    return tuple(
        {k: v.detach().double().requires_grad_(v.requires_grad) if v.is_floating_point() else v for k, v in d.items()}
        for d in args
    )


def limit(name, eager, exact):
    """Batch norms over few elements magnify roundings, eager's as well, though its statistics are sums in double: some
    times as far from the gradient in double as eager is.
    """
    if name in TOLERANCE or not exact.is_floating_point() or exact.numel() == 0:
        return TOLERANCE.get(name)
    scale = max(1.0, exact.abs().max().item())
    return max(1e-4, 10 * (eager.double() - exact).abs().max().item() / scale)


def flat(args):
    """The names that the command gives to inputs, without what is not a tensor."""
    names = ("parameters", "buffers", "batch")
    return {f"{n}.{k}": v.detach().contiguous() for n, d in zip(names, args) for k, v in d.items()}


def expected(results):
    return {
        "loss": results["loss"],
        **{f"gradients.{k}": v for k, v in results["gradients"].items()},
        **{f"buffers.{k}": v for k, v in results["buffers"].items()},
    }


@pytest.mark.parametrize("name", MODELS)
def test_gradients(name):
    torch.manual_seed(0)
    model, batch, loss_of = MODELS[name]()
    step = gradients(model, loss_of)
    args = (*state(model), batch)
    want = {k: v.detach() for k, v in expected(step(*args)).items()}
    exact = want if name in TOLERANCE else {k: v.detach() for k, v in expected(step(*in_double(args))).items()}
    with tempfile.TemporaryDirectory() as folder:
        archive, package = pathlib.Path(folder) / "m.pt2", pathlib.Path(folder) / "m.coil"
        traced = Traced(step, args)
        export(traced, tuple({k: v.detach() for k, v in d.items()} for d in args), archive)
        coil_ok("compile", archive, "-o", package)
        got = run(package, flat(args), folder)
    assert set(got) == set(want)
    wrong = [
        f"{k}: {w}"
        for k in want
        if (w := difference(got[k], exact[k].to(want[k].dtype), limit(name, want[k], exact[k])))
    ]
    assert not wrong, "\n".join(wrong)


def adamw(p, g, m, v, step, lr=1e-2, beta1=0.9, beta2=0.999, eps=1e-8, decay=1e-2):
    """torch.optim.AdamW's single-tensor step."""
    p = p * (1 - lr * decay)
    m = torch.lerp(m, g, 1 - beta1)
    v = torch.addcmul(v * beta2, g, g, value=1 - beta2)
    size = lr / (1 - beta1**step)
    return p - size * m / (v.sqrt() / (1 - beta2**step).sqrt() + eps), m, v


class Update(nn.Module):
    """One step of the digits net and its optimizer: gradients, then AdamW on lists, as `torch.optim` writes it."""

    def __init__(self, model):
        super().__init__()
        self.names = [k for k, _ in model.named_parameters()]
        self.step = gradients(model, lambda loss: loss)

    def forward(self, parameters, buffers, batch, first, second, count):
        results = self.step(parameters, buffers, batch)
        count = count + 1
        new = {k: adamw(parameters[k], results["gradients"][k], first[k], second[k], count) for k in self.names}
        return {
            "loss": results["loss"],
            "buffers": results["buffers"],
            "count": count,
            **{n: {k: t[i] for k, t in new.items()} for i, n in enumerate(("parameters", "first", "second"))},
        }


def test_fifty_steps():
    torch.manual_seed(0)
    model = Digits().train()
    images, digits = torch.randn(16, 1, 8, 8), torch.randint(0, 10, (16,))
    update = Update(model)
    parameters, buffers = state(model)
    zeros = lambda: {k: torch.zeros_like(v) for k, v in parameters.items()}
    args = (parameters, buffers, dict(images=images, digits=digits), zeros(), zeros(), torch.zeros(()))
    graph = make_fx(lambda *a: update(*a), tracing_mode="fake")(*args)

    class Step(nn.Module):
        def forward(self, parameters, buffers, batch, first, second, count):
            return graph(parameters, buffers, batch, first, second, count)

    def detached(value):
        return {k: v.detach() for k, v in value.items()} if isinstance(value, dict) else value

    eager_model = Digits().train()
    eager_model.load_state_dict(model.state_dict())
    optimizer = torch.optim.AdamW(eager_model.parameters(), lr=1e-2, foreach=False)
    with tempfile.TemporaryDirectory() as folder:
        archive, package = pathlib.Path(folder) / "m.pt2", pathlib.Path(folder) / "m.coil"
        export(Step(), tuple(map(detached, args)), archive)
        coil_ok("compile", archive, "-o", package)
        names = ("parameters", "buffers", "batch", "first", "second")
        given = {f"{n}.{k}": v.detach() for n, d in zip(names, args) for k, v in d.items()} | {"count": args[5]}
        for step in range(50):
            loss = eager_model(images, digits)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            got = run(package, given, folder)
            # Roundings of one step are carried on by the next: a looser bound than for one.
            assert not (wrong := difference(got["loss"], loss.detach(), 1e-3)), f"step {step}: {wrong}"
            given.update({k: v for k, v in got.items() if k in given})
    assert got["loss"] < 0.1
