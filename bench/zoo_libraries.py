"""Models of the sweeps from libraries that need no configuration to be drawn: `torchvision:NAME`, `torchaudio:NAME` and
`torch_geometric:NAME`. A draw takes them in a random order; inputs follow from what a model is for.
"""

import inspect

import torch
from torch import nn

from zoo import tensors_of
from zoo_entries import Entry, Output, pictures

FRAMES = 16  # of a film
SECONDS_OF_SOUND = 2
NODES, EDGES, FEATURES, CLASSES = 20_000, 160_000, 128, 40  # of a graph; several samples are a larger one


class Tensors(nn.Module):
    """The tensors that a model returns, in the order in which they lie in tuples and dicts."""

    def __init__(self, model):
        super().__init__()
        self.model = Output(model)

    def forward(self, *inputs):
        return tensors_of(self.model(*inputs))


def drawn(source, count, chance):
    names = {"torchvision": torchvision_names, "torchaudio": lambda: AUDIO, "torch_geometric": lambda: GRAPHS}[source]()
    names = sorted(names)
    chance.shuffle(names)
    return [f"{source}:{name}" for name in names[:count]]


def entry(source, name):
    return {"torchvision": vision_entry, "torchaudio": audio_entry, "torch_geometric": graph_entry}[source](name)


# ---- torchvision


def torchvision_names():
    """Of each module of its models one, the smallest name of those that are not quantized."""
    import torchvision

    found = {}
    for name in torchvision.models.list_models():
        module = torchvision.models.get_model_builder(name).__module__
        if "quantization" not in module:
            found.setdefault(module, name)
    return list(found.values())


class Trunk(nn.Module):
    """A detector up to what its heads say of each place; which boxes remain depends on values."""

    def __init__(self, model):
        super().__init__()
        self.trunk, self.rest = model.backbone, getattr(model, "rpn", model)

    def forward(self, pictures):
        features = self.trunk(pictures)
        features = [features] if isinstance(features, torch.Tensor) else list(features.values())
        return tensors_of(self.rest.head(features))


def vision_entry(name):
    import torchvision

    module = torchvision.models.get_model_builder(name).__module__
    make = lambda: torchvision.models.get_model(name, weights=None, **without_weights(name))
    if "video" in module:
        size = 112 if "resnet" in module else 224
        return Entry(make, lambda n: (torch.randn(n, 3, FRAMES, size, size),), large=8)
    if "optical_flow" in module:
        return Entry(lambda: Tensors(make()), lambda n: tuple(torch.randn(n, 3, 256, 256) for _ in range(2)), large=4)
    if "detection" in module:
        return Entry(lambda: Trunk(make()), pictures(320), large=16)
    if "segmentation" in module:
        return Entry(lambda: Tensors(make()), pictures(384), large=16)
    size = 299 if "inception" in name else 224
    return Entry(lambda: Tensors(make()), pictures(size), large=64)


def without_weights(name):
    """The options by which a model loads no part of itself and has no second result in training."""
    import torchvision

    names = inspect.signature(torchvision.models.get_model_builder(name)).parameters
    options = {"weights_backbone": None, "init_weights": True}
    if name in ("googlenet", "inception_v3"):
        options["aux_logits"] = False
    return {key: value for key, value in options.items() if key in names or key == "aux_logits"}


# ---- torchaudio


def sounds(n):
    return (torch.randn(n, 16_000 * SECONDS_OF_SOUND),)


def spectra(frames, bins):
    """Spectra and how many frames each has."""
    return lambda n: (torch.randn(n, frames, bins), torch.full((n,), frames))


def audio(make, inputs, large=8):
    def build():
        import torchaudio

        return Tensors(make(torchaudio.models))

    return Entry(build, inputs, large=large)


AUDIO = {
    "conformer": lambda: audio(lambda m: m.Conformer(80, 4, 320, 8, 31), spectra(400, 80)),
    "emformer": lambda: audio(
        lambda m: m.Emformer(512, 8, 2048, 8, 16, 0.0, right_context_length=4), spectra(260, 512)
    ),
    "conv_tasnet": lambda: audio(
        lambda m: m.ConvTasNet(), lambda n: (torch.randn(n, 1, 8_000 * SECONDS_OF_SOUND),), large=4
    ),
    "deepspeech": lambda: audio(lambda m: m.DeepSpeech(80), lambda n: (torch.randn(n, 1, 400, 80),)),
    "wav2letter": lambda: audio(lambda m: m.Wav2Letter(40, "mfcc", 80), lambda n: (torch.randn(n, 80, 400),)),
    "wav2vec2_base": lambda: audio(lambda m: m.wav2vec2_base(), sounds),
    "hubert_base": lambda: audio(lambda m: m.hubert_base(), sounds),
    "wavlm_base": lambda: audio(lambda m: m.wavlm_base(), sounds),
    "hdemucs_low": lambda: audio(
        lambda m: m.hdemucs_low(["drums", "bass", "other", "vocals"]), lambda n: (torch.randn(n, 2, 88_200),), large=2
    ),
    "squim_objective": lambda: audio(lambda m: m.squim_objective_base(), sounds, large=4),
    "wavernn": lambda: audio(
        lambda m: m.WaveRNN(upsample_scales=[5, 5, 8], n_classes=512, hop_length=200),
        lambda n: (torch.randn(n, 1, (20 - 5 + 1) * 200), torch.randn(n, 1, 128, 20)),
        large=16,
    ),
}


def audio_entry(name):
    return AUDIO[name]()


# ---- torch_geometric


def graph(n):
    nodes, edges = n * NODES // 4, n * EDGES // 4
    return torch.randn(nodes, FEATURES), torch.randint(0, nodes, (2, edges))


def network(make):
    def build():
        import torch_geometric

        return Tensors(make(torch_geometric.nn))

    return Entry(build, graph, large=16)


GRAPHS = {
    "gcn": lambda: network(lambda g: g.GCN(FEATURES, 256, 3, CLASSES)),
    "graph_sage": lambda: network(lambda g: g.GraphSAGE(FEATURES, 256, 3, CLASSES)),
    "gin": lambda: network(lambda g: g.GIN(FEATURES, 256, 3, CLASSES)),
    "gat": lambda: network(lambda g: g.GAT(FEATURES, 256, 3, CLASSES, heads=4)),
    "gat_v2": lambda: network(lambda g: g.GAT(FEATURES, 128, 2, CLASSES, v2=True, heads=4)),
    "pna": lambda: network(
        lambda g: g.PNA(
            *(FEATURES, 64, 2, CLASSES),
            aggregators=["mean", "min", "max", "std"],
            scalers=["identity", "amplification"],
            deg=torch.tensor([0, 0, 0, 0, 10, 30, 40, 60, 80, 60, 40]),
        )
    ),
    "edge_cnn": lambda: network(lambda g: g.EdgeCNN(FEATURES, 64, 2, CLASSES)),
    "lightgcn_convolutions": lambda: network(lambda g: Layers([g.LGConv() for _ in range(3)])),
    "transformer_convolutions": lambda: network(
        lambda g: Layers([g.TransformerConv(FEATURES, 32, heads=4), g.TransformerConv(128, 32, heads=4)])
    ),
    "graph_convolutions": lambda: network(
        lambda g: Layers([g.GraphConv(FEATURES, 128, aggr="max"), g.ResGatedGraphConv(128, 128), g.GENConv(128, 128)])
    ),
}


class Layers(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x, edges):
        for layer in self.layers:
            x = layer(x, edges).relu()
        return x


def graph_entry(name):
    return GRAPHS[name]()
