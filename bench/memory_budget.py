"""What `memory.budget` does to the peak of a training step on the CPU: for each tenth from 1 to 0 the planned peak of
activations and temporaries of its two graphs, and what the forward one keeps for the backward one.

usage: memory_budget.py [bert,gpt2,resnet,vit,unet] [--budgets 1,0.5,0] [--json FILE]
The models are small configurations. The peak is the larger of the forward graph's and of the backward graph's with what
was kept, as the plans for the CPU have them: one arena, outputs from their first step on, and what is kept until its
last reader; parameters do not count. The exit status is 1 where a smaller budget has the higher peak.
"""

import argparse
import dataclasses
import json
import pathlib
import sys
import unittest.mock

import torch
import transformers
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "build/python"))
from coil import budget, dynamo  # noqa: E402


def model_of(name):
    torch.manual_seed(0)
    match name:
        case "bert":
            config = transformers.BertConfig(
                vocab_size=512, hidden_size=128, num_hidden_layers=4, num_attention_heads=4, intermediate_size=512
            )
            ids = torch.randint(0, 512, (4, 128))
            return transformers.BertForMaskedLM(config), dict(input_ids=ids, labels=ids)
        case "gpt2":
            config = transformers.GPT2Config(
                vocab_size=512, n_positions=128, n_embd=128, n_layer=4, n_head=4, use_cache=False
            )
            ids = torch.randint(0, 512, (4, 128))
            return transformers.GPT2LMHeadModel(config), dict(input_ids=ids, labels=ids)
        case "resnet":
            config = transformers.ResNetConfig(
                embedding_size=16, hidden_sizes=[32, 64], depths=[2, 2], num_labels=10, layer_type="basic"
            )
            given = dict(pixel_values=torch.randn(4, 3, 64, 64), labels=torch.randint(0, 10, (4,)))
            return transformers.ResNetForImageClassification(config), given
        case "vit":
            config = transformers.ViTConfig(
                hidden_size=128,
                num_hidden_layers=4,
                num_attention_heads=4,
                intermediate_size=512,
                image_size=64,
                patch_size=8,
                num_labels=10,
            )
            given = dict(pixel_values=torch.randn(4, 3, 64, 64), labels=torch.randint(0, 10, (4,)))
            return transformers.ViTForImageClassification(config), given
        case "unet":
            return Scored(UNet()), dict(pictures=torch.randn(4, 3, 64, 64))
    raise SystemExit(f"there is no model {name}")


class Block(nn.Sequential):
    def __init__(self, a, b):
        super().__init__(nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(4, b), nn.SiLU(), nn.Conv2d(b, b, 3, padding=1))


class UNet(nn.Module):
    def __init__(self, widths=(16, 32, 64)):
        super().__init__()
        self.down = nn.ModuleList(Block(a, b) for a, b in zip((3, *widths), widths))
        self.up = nn.ModuleList(Block(a + b, a) for a, b in zip(widths[-2::-1], widths[:0:-1]))
        self.out = nn.Conv2d(widths[0], 3, 1)

    def forward(self, x):
        skipped = []
        for k, block in enumerate(self.down):
            x = block(x if k == 0 else nn.functional.max_pool2d(x, 2))
            skipped.append(x)
        for block, skip in zip(self.up, skipped[-2::-1]):
            x = block(torch.cat([nn.functional.interpolate(x, scale_factor=2.0), skip], 1))
        return self.out(x)


@dataclasses.dataclass
class Scores:
    loss: torch.Tensor


class Scored(nn.Module):
    """As models of transformers give it; the loss is how far the model is from giving the pictures back."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, pictures):
        return Scores((self.model(pictures) - pictures).square().mean())


def measured(name, share):
    """Planned peak and bytes kept of one step with the budget. Torch carries the graphs out."""
    made = []

    class Noted(budget.Partitioner):
        def __call__(self, *args, **kwargs):
            made.append(self)
            return super().__call__(*args, **kwargs)

    patch = unittest.mock.patch.object
    torch._dynamo.reset()
    model, given = model_of(name)
    in_torch = lambda gm, options, *args, **kwargs: dynamo._InTorch(gm)
    with patch(budget, "Partitioner", Noted), patch(dynamo, "compile_graph", in_torch):
        step = torch.compile(model.train(), backend="coil", options={"cache": "none", "memory.budget": share})
        loss = step(**given).loss
        loss.backward()
    gradients = all(p.grad is None or torch.isfinite(p.grad).all() for p in model.parameters())
    assert gradients and torch.isfinite(loss)
    budget._measure([each.chosen for each in made], made[0].options)
    fullest = max((each.chosen for each in made), key=lambda division: division.peak())
    return {"peak": fullest.peak(), "kept": fullest.kept, "loss": loss.item()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="?", default="bert,gpt2,resnet,vit,unet")
    parser.add_argument("--budgets", default="1,0.9,0.8,0.7,0.6,0.5,0.4,0.3,0.2,0.1,0")
    parser.add_argument("--json")
    a = parser.parse_args()
    budgets = [float(b) for b in a.budgets.split(",")]
    print("| peak, MiB (kept, MiB) | " + " | ".join(f"{b:g}" for b in budgets) + " |")
    print("| --- |" + " --- |" * len(budgets))
    results, rises = {}, False
    for name in a.models.split(","):
        rows = [measured(name, b) for b in budgets]
        results[name] = rows
        cells = [f"{r['peak'] / 2**20:.2f} ({r['kept'] / 2**20:.2f})" for r in rows]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
        rises |= any(later["peak"] > row["peak"] for row, later in zip(rows, rows[1:], strict=False))
    if a.json:
        with open(a.json, "w") as out:
            json.dump({"budgets": budgets, "models": results}, out, indent=2)
    sys.exit(rises)


if __name__ == "__main__":
    main()
