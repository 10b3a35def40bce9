"""Trains the digits network of `make demo` and writes digits.pt2 and held_out.safetensors beside this file.

Run once, in the tests' environment (build/venv/bin/python examples/digits/train.py); what it wrote is committed, so
that the demo needs no Python.
"""

import pathlib
import re

import torch
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

HERE = pathlib.Path(__file__).parent
EPOCHS, BATCH = 40, 64


class Digits(nn.Module):
    """[n, 1, 8, 8] grey images in 0..1 -> [n, 10] scores."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classify = nn.Sequential(nn.Flatten(), nn.Linear(32 * 4 * 4, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, images):
        return self.classify(self.features(images))


def shift(images):
    """Moves each batch by up to one pixel, so that the network does not learn positions."""
    dy, dx = torch.randint(-1, 2, (2,)).tolist()
    return torch.roll(images, (dy, dx), (2, 3))


def relative_traces(program):
    """Cuts the folders of this machine out of the stack traces that the archive keeps."""
    for node in program.graph.nodes:
        if trace := node.meta.get("stack_trace"):
            node.meta["stack_trace"] = re.sub(r'File ".*?([^/"]+/[^/"]+)"', r'File "\1"', trace)


def main():
    torch.manual_seed(0)
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target)
    train_x, test_x, train_y, test_y = train_test_split(images, labels, test_size=0.3, random_state=0, stratify=labels)
    net = Digits()
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    for _ in range(EPOCHS):
        order = torch.randperm(len(train_x))
        for i in range(0, len(order), BATCH):
            pick = order[i : i + BATCH]
            loss = nn.functional.cross_entropy(net(shift(train_x[pick])), train_y[pick])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
    net.eval()
    with torch.no_grad():
        right = (net(test_x).argmax(1) == test_y).sum().item()
    print(f"held out: {right} of {len(test_y)} right")

    batch = torch.export.Dim("batch", min=1, max=4096)
    with torch.no_grad():
        program = torch.export.export(net, (test_x[:2].clone(),), dynamic_shapes={"images": {0: batch}})
    relative_traces(program)
    torch.export.save(program, HERE / "digits.pt2")
    save_file({"images": test_x.contiguous(), "labels": test_y.contiguous()}, HERE / "held_out.safetensors")


if __name__ == "__main__":
    main()
