"""What an entry of `zoo_models.py` is, and entries of configurations of `timm` and `transformers`."""

import dataclasses
from collections.abc import Callable

import torch
from torch import nn


@dataclasses.dataclass
class Entry:
    make: Callable  # () -> module in f32
    inputs: Callable  # (samples) -> tuple of tensors
    small: int = 1  # samples of a small batch, and of a large one
    large: int = 64


class Output(nn.Module):
    """The one tensor of interest of what a model returns."""

    NAMES = (
        "logits",
        "last_hidden_state",
        "prediction_logits",
        "reconstruction",
        "prediction_outputs",
        "audio_values",
        "predicted_depth",
    )

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs, **named):
        out = self.model(*inputs, **named)
        for name in self.NAMES:
            if getattr(out, name, None) is not None:
                return getattr(out, name)
        return out


def pictures(size, channels=3):
    return lambda n: (torch.randn(n, channels, size, size),)


def words(length, vocabulary, several=1):
    return lambda n: tuple(torch.randint(0, vocabulary, (n, length)) for _ in range(several))


def of_timm(name, size=224, large=64, **settings):
    def make():
        import timm

        return timm.create_model(name, pretrained=False, **settings)

    return Entry(make, pictures(size), large=large)


def of_transformers(model, config, inputs, large=16, **settings):
    def make():
        import transformers

        return Output(getattr(transformers, model)(getattr(transformers, config)(**settings)))

    return Entry(make, inputs, large=large)


def decoder(family, large=4, **settings):
    """A decoder of some 200 million parameters, of texts of 1,024 words."""
    sizes = {
        "vocab_size": 32000,
        "hidden_size": 1024,
        "intermediate_size": 2816,
        "num_hidden_layers": 12,
        "use_cache": False,
    }
    return of_transformers(f"{family}ForCausalLM", f"{family}Config", words(1024, 32000), large, **sizes | settings)
