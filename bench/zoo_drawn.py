"""Models of the sweeps that are drawn at random, so that no list can be tuned to: `timm:NAME` is a configuration of
`timm`, `transformers:TYPE` the base model of a type of `transformers`, cut to a few layers. Inputs are made by rule.
Those of other libraries are in zoo_libraries.py.
"""

import inspect
import random

import torch

import zoo_libraries
from zoo_entries import Entry, Output, of_timm

MOST_PARAMETERS = {"timm": 250_000_000, "transformers": 1_100_000_000}
LAYERS = 4  # of a drawn model of transformers, at most
VOCABULARY = 32_000
LENGTH = 384  # of texts, or three quarters of what a type has places for: some keep a few for themselves
DEPTHS = (
    "num_hidden_layers",
    "num_layers",
    "encoder_layers",
    "decoder_layers",
    "n_layer",
    "n_layers",
    "num_encoder_layers",
    "num_decoder_layers",
    "vision_layers",
)
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")


def draw(source, count, seed):
    """`count` names of `source`, the same ones for a seed and a version of the library."""
    chance = random.Random(seed)
    own = {"timm": draw_timm, "transformers": draw_transformers}
    return own[source](count, chance) if source in own else zoo_libraries.drawn(source, count, chance)


def entry(name):
    source, _, model = name.partition(":")
    own = {"timm": timm_entry, "transformers": transformers_entry}
    return own[source](model) if source in own else zoo_libraries.entry(source, model)


def chosen(a, models):
    """The names that a sweep's options ask for: those given, those drawn, or all of `models`."""
    if a.draw:
        source, count, seed = a.draw.split(":")
        return draw(source, int(count), int(seed))
    return a.names.split(",") if a.names else list(models)


def find(models, name):
    """The entry of a name that a list of models has, or that was drawn."""
    return models[name] if name in models else entry(name)


# ---- timm


def draw_timm(count, chance):
    """One configuration of each family, which is a module of timm."""
    import timm

    families = sorted(timm.list_modules())
    chance.shuffle(families)
    found = []
    for family in families:
        names = sorted(timm.list_models(module=family))
        if names and len(found) < count:
            found.append(f"timm:{chance.choice(names)}")
    return found


def timm_entry(name):
    import timm

    with torch.device("meta"):
        model = timm.create_model(name, pretrained=False)
    parameters = sum(p.numel() for p in model.parameters())
    if parameters > MOST_PARAMETERS["timm"]:
        raise ValueError(f"{name} has {parameters / 1e6:.0f} million parameters, more than are drawn")
    size = model.default_cfg.get("input_size", (3, 224, 224))[-1]
    return of_timm(name, size, large=64 if parameters < 30_000_000 and size <= 256 else 16)


# ---- transformers


def draw_transformers(count, chance):
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    kinds = sorted(MODEL_MAPPING_NAMES)
    return [f"transformers:{kind}" for kind in chance.sample(kinds, min(count, len(kinds)))]


def cut(config, seen=()):
    """A configuration with fewer layers, experts and words, and so those it is made of."""
    import transformers

    for key, value in list(vars(config).items()):
        if isinstance(value, transformers.PretrainedConfig) and value not in seen:
            cut(value, (*seen, config))
        elif key in DEPTHS and isinstance(value, int):
            setattr(config, key, min(value, LAYERS))
        elif key == "layer_types" and isinstance(value, list):
            setattr(config, key, value[-LAYERS:])
        elif key in EXPERTS and isinstance(value, int):
            setattr(config, key, min(value, 16))
        elif key == "vocab_size" and isinstance(value, int):
            setattr(config, key, min(value, VOCABULARY))
        elif key.endswith("token_id") and isinstance(value, int) and value >= VOCABULARY:
            setattr(config, key, value % 100 + 3)


def words_of(config, samples, length):
    text = getattr(config, "text_config", None) or config
    length = min(length, 3 * (getattr(text, "max_position_embeddings", None) or LENGTH) // 4)
    return torch.randint(110, min(getattr(text, "vocab_size", 1000), VOCABULARY) - 1, (samples, length))


def bins(config):
    """How many numbers a spectrum has, by the names that configurations have for it."""
    encoder = getattr(config, "encoder_config", None) or getattr(config, "audio_config", None) or config
    names = ("num_mel_bins", "input_feat_per_channel", "feature_projection_input_dim", "input_dim")
    return next((getattr(c, n) for c in (config, encoder) for n in names if getattr(c, n, None)), 80)


def kinds_of_input(config, main):
    """Sizes of the input `main` but its samples, as models of different makes have them; nothing of texts."""
    vision = getattr(config, "vision_config", None) or config
    if main in ("pixel_values", "pixel_values_videos"):
        size = getattr(vision, "image_size", None) or 224
        height, width = size if isinstance(size, (list, tuple)) else (size, size)
        picture = (getattr(vision, "num_channels", 3) or 3, height, width)
        return [picture, (getattr(vision, "num_frames", 8), *picture)]
    if main == "input_values":
        return [(16_000,), (1, 16_000)]
    if main == "input_features":
        frames = 2 * getattr(config, "max_source_positions", 500)
        return [(bins(config), frames), (frames, bins(config)), (1_000, bins(config))]
    return []


def inputs_of(config, names, main):
    """Of what a model's forward may take, by name, in the order in which it is to be tried: functions of samples."""

    def with_decoder(given, samples):
        return given | ({"decoder_input_ids": words_of(config, samples, 128)} if "decoder_input_ids" in names else {})

    floats = lambda sizes: lambda n: with_decoder({main: torch.randn(n, *sizes)}, n)
    texts = lambda n: with_decoder({main: words_of(config, n, LENGTH)}, n)
    alone = [floats(sizes) for sizes in kinds_of_input(config, main)] or [texts]
    return alone + with_texts(config, names)


def with_texts(config, names):
    """Pictures or sounds and a text, for models that compare the two."""
    if "input_ids" not in names:
        return []
    both = lambda other, sizes: lambda n: {
        "input_ids": words_of(config, n, LENGTH),
        other: torch.randn(n, *sizes),
    }
    others = [name for name in ("pixel_values", "input_features", "input_values") if name in names]
    return [both(other, sizes) for other in others for sizes in kinds_of_input(config, other)]


def taken(model, kinds):
    """The first kind of inputs that a model without values runs on; the first of all where none is, since some models
    ask for values.
    """
    for given in kinds if len(kinds) > 1 else ():
        try:
            model(**{name: t.to("meta") for name, t in given(1).items()})
            return given
        except Exception:  # of whatever kind: it is not what the model takes
            continue
    return kinds[0]


class Named(torch.nn.Module):
    """A model of transformers that takes its inputs in order, keeps no cache and gives one tensor."""

    def __init__(self, model, names):
        super().__init__()
        self.model = Output(model)
        self.names = names
        self.settings = {"use_cache": False} if "use_cache" in inspect.signature(model.forward).parameters else {}

    def forward(self, *inputs):
        out = self.model(**dict(zip(self.names, inputs, strict=True)), **self.settings)
        return out if isinstance(out, torch.Tensor) else [v for v in out.to_tuple() if isinstance(v, torch.Tensor)]


def transformers_entry(kind):
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_MAPPING

    config = CONFIG_MAPPING[kind]()
    cut(config)
    model_of = MODEL_MAPPING[type(config)]
    model_of = model_of[0] if isinstance(model_of, (tuple, list)) else model_of
    with torch.device("meta"):
        model = model_of(config).eval()
    parameters = sum(p.numel() for p in model.parameters())
    if parameters > MOST_PARAMETERS["transformers"]:
        raise ValueError(f"{kind} has {parameters / 1e6:.0f} million parameters, more than are drawn")
    names = inspect.signature(model_of.forward).parameters
    needed = [n for n, p in names.items() if n != "self" and p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    main = model_of.main_input_name if model_of.main_input_name in names else needed[0]
    given = taken(model, inputs_of(config, names, main))
    order = list(given(1))
    make = lambda: Named(model_of(config), order)
    return Entry(make, lambda samples: tuple(given(samples).values()), large=16)
