"""The models of `zoo_cpu.py`: published configurations of `transformers`, some of them with fewer layers so that a call
takes well under a second on two cores, and networks written here, in `zoo_cpu_networks.py`, in
`zoo_cpu_programs.py` and in `zoo_cpu_others.py`, all with random weights.
"""

import torch
import torch.nn.functional as F
from torch import nn

from zoo_cpu_networks import NETWORKS
from zoo_cpu_others import OTHERS
from zoo_cpu_programs import PROGRAMS
from zoo_models import (
    DiffusionUNet,
    Entry,
    GraphNetwork,
    Recommender,
    RelativeEncoder,
    Tagger,
    of_transformers,
    pictures,
    words,
)

# ---- Networks written here


def normalized(inputs, outputs, kernel=3, stride=1, groups=1, active=True):
    layers = [
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*layers, *([nn.ReLU(inplace=True)] if active else []))


class Squeeze(nn.Module):
    """Channels weighted by what their means say."""

    def __init__(self, channels, reduced):
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, reduced, 1), nn.Conv2d(reduced, channels, 1)

    def forward(self, x):
        return x * torch.sigmoid(self.up(F.relu(self.down(F.adaptive_avg_pool2d(x, 1)))))


class GroupedBlock(nn.Module):
    def __init__(self, inputs, outputs, stride, groups, squeeze):
        super().__init__()
        self.body = nn.Sequential(
            normalized(inputs, outputs, 1),
            normalized(outputs, outputs, 3, stride, groups),
            Squeeze(outputs, outputs // 4) if squeeze else nn.Identity(),
            normalized(outputs, outputs, 1, active=False),
        )
        keeps = inputs == outputs and stride == 1
        self.skip = nn.Identity() if keeps else normalized(inputs, outputs, 1, stride, active=False)

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


def grouped_network(widths=(48, 104, 208, 440), depths=(1, 2, 4, 2), width_of_group=8, squeeze=False):
    """In the manner of RegNet and ResNeXt."""
    layers, inputs = [normalized(3, 32, 3, 2)], 32
    for width, depth in zip(widths, depths, strict=True):
        for k in range(depth):
            layers.append(GroupedBlock(inputs, width, 2 if k == 0 else 1, width // width_of_group, squeeze))
            inputs = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


class DenseLayer(nn.Module):
    def __init__(self, channels, growth):
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(channels), nn.Conv2d(channels, 4 * growth, 1, bias=False)
        self.norm2, self.conv2 = nn.BatchNorm2d(4 * growth), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x):
        return torch.cat([x, self.conv2(F.relu(self.norm2(self.conv1(F.relu(self.norm1(x))))))], 1)


def dense_network(growth=24, depths=(4, 6, 8)):
    layers, channels = [normalized(3, 48, 7, 2), nn.MaxPool2d(3, 2, 1)], 48
    for depth in depths:
        for _ in range(depth):
            layers.append(DenseLayer(channels, growth))
            channels += growth
        layers += [nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, channels // 2, 1), nn.AvgPool2d(2)]
        channels //= 2
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


class Shuffle(nn.Module):
    """Half of the channels pass, the other half is convolved, and the two are dealt out in turn (ShuffleNet v2)."""

    def __init__(self, channels):
        super().__init__()
        half = channels // 2
        self.body = nn.Sequential(
            normalized(half, half, 1), normalized(half, half, 3, 1, half, active=False), normalized(half, half, 1)
        )

    def forward(self, x):
        kept, changed = x.chunk(2, 1)
        n, c, h, w = x.shape
        return torch.cat([kept, self.body(changed)], 1).view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


def shuffle_network():
    layers, channels = [normalized(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1)], 24
    for width, depth in ((116, 3), (232, 7), (464, 3)):
        layers += [normalized(channels, width, 3, 2), *(Shuffle(width) for _ in range(depth))]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


class Mixer(nn.Module):
    def __init__(self, patch=16, size=224, dim=384, layers=6):
        super().__init__()
        places = (size // patch) ** 2
        self.first = nn.Conv2d(3, dim, patch, patch)
        block = lambda width, hidden: nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))
        self.places = nn.ModuleList(block(places, 2 * places) for _ in range(layers))
        self.channels = nn.ModuleList(block(dim, 4 * dim) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2 * layers))

    def forward(self, x):
        x = self.first(x).flatten(2).transpose(1, 2)
        for k, (places, channels) in enumerate(zip(self.places, self.channels, strict=True)):
            x = x + places(self.norms[2 * k](x).transpose(1, 2)).transpose(1, 2)
            x = x + channels(self.norms[2 * k + 1](x))
        return x.mean(1)


class PlainUNet(nn.Module):
    """Segmentation by convolutions, four levels, transposed convolutions on the way up."""

    def __init__(self, width=16):
        super().__init__()
        widths = [width << k for k in range(5)]
        double = lambda a, b: nn.Sequential(normalized(a, b), normalized(b, b))
        self.down = nn.ModuleList(double(a, b) for a, b in zip([3, *widths], widths))
        self.turn = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(widths, widths[1:]))
        self.up = nn.ModuleList(double(2 * a, a) for a in widths[:-1])
        self.last = nn.Conv2d(width, 21, 1)

    def forward(self, x):
        kept = []
        for k, level in enumerate(self.down):
            x = level(x if k == 0 else F.max_pool2d(x, 2))
            kept.append(x)
        for k in reversed(range(len(self.up))):
            x = self.up[k](torch.cat([self.turn[k](x), kept[k]], 1))
        return self.last(x)


class TimeConvolutions(nn.Module):
    """Dilated causal convolutions with gates over a signal (WaveNet)."""

    def __init__(self, channels=64, layers=10):
        super().__init__()
        self.first = nn.Conv1d(1, channels, 1)
        self.filters = nn.ModuleList(nn.Conv1d(channels, 2 * channels, 2, dilation=2**k) for k in range(layers))
        self.mixed = nn.ModuleList(nn.Conv1d(channels, channels, 1) for _ in range(layers))
        self.last = nn.Sequential(nn.ReLU(), nn.Conv1d(channels, channels, 1), nn.ReLU(), nn.Conv1d(channels, 256, 1))

    def forward(self, x):
        x, total = self.first(x), 0
        for k, (filters, mixed) in enumerate(zip(self.filters, self.mixed, strict=True)):
            value, gate = filters(F.pad(x, (2**k, 0))).chunk(2, 1)
            skipped = mixed(value.tanh() * gate.sigmoid())
            x, total = x + skipped, total + skipped
        return self.last(total)


class SuperResolution(nn.Module):
    def __init__(self, channels=48, blocks=6):
        super().__init__()
        self.first = nn.Conv2d(3, channels, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(channels, channels, 3, padding=1), nn.PReLU(), nn.Conv2d(channels, channels, 3, padding=1)
            )
            for _ in range(blocks)
        )
        self.last = nn.Sequential(nn.Conv2d(channels, 12, 3, padding=1), nn.PixelShuffle(2))

    def forward(self, x):
        h = first = self.first(x)
        for block in self.blocks:
            h = h + block(h)
        return self.last(h + first) + F.interpolate(x, scale_factor=2, mode="bilinear")


class Forecaster(nn.Module):
    """A recurrent encoder and a head for each step ahead."""

    def __init__(self, features=16, hidden=128, steps=24):
        super().__init__()
        self.rnn, self.norm = nn.GRU(features, hidden, 2, batch_first=True), nn.LayerNorm(hidden)
        self.heads = nn.Sequential(nn.Linear(hidden, 256), nn.GELU(), nn.Linear(256, steps))

    def forward(self, x):
        return self.heads(self.norm(self.rnn(x)[0][:, -1]))


class Tabular(nn.Module):
    """Embeddings of categories, a cross of features and deep layers."""

    def __init__(self, fields=20, rows=10_000, dim=16):
        super().__init__()
        width = fields * dim + 10
        self.table = nn.Embedding(fields * rows, dim)
        self.register_buffer("first", torch.arange(fields) * rows)
        self.cross = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.deep = nn.Sequential(nn.Linear(width, 400), nn.ReLU(), nn.BatchNorm1d(400), nn.Linear(400, 400), nn.ReLU())
        self.last = nn.Linear(width + 400, 1)

    def forward(self, numbers, categories):
        x0 = x = torch.cat([self.table(categories + self.first).flatten(1), numbers], 1)
        for layer in self.cross:
            x = x0 * layer(x) + x
        return torch.sigmoid(self.last(torch.cat([x, self.deep(x0)], 1)))


class PointNetwork(nn.Module):
    """Features of points by shared layers, and the greatest of each (PointNet)."""

    def __init__(self):
        super().__init__()
        widths = (3, 64, 64, 128, 1024)
        self.points = nn.Sequential(
            *(layer for a, b in zip(widths, widths[1:]) for layer in (nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU()))
        )
        self.head = nn.Sequential(nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 40))

    def forward(self, x):
        return self.head(self.points(x).amax(2))


class Policy(nn.Module):
    """A small network of layers, as in control."""

    def __init__(self, inputs=64, hidden=256):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 8)
        )

    def forward(self, x):
        return self.body(x).tanh()


class Volume(nn.Module):
    """Convolutions over volumes."""

    def __init__(self, width=16):
        super().__init__()
        block = lambda a, b: nn.Sequential(nn.Conv3d(a, b, 3, padding=1), nn.InstanceNorm3d(b), nn.LeakyReLU(0.01))
        self.down1, self.down2, self.middle = block(1, width), block(width, 2 * width), block(2 * width, 2 * width)
        self.up = block(3 * width, width)
        self.last = nn.Conv3d(width, 4, 1)

    def forward(self, x):
        first = self.down1(x)
        h = self.middle(self.down2(F.max_pool3d(first, 2)))
        return self.last(self.up(torch.cat([F.interpolate(h, scale_factor=2.0), first], 1)))


class Decoder(nn.Module):
    """Llama-like: RMS norms, rotary positions, few key heads, gated layers."""

    def __init__(self, dim=512, layers=6, heads=8, key_heads=2, vocabulary=8192):
        super().__init__()
        import transformers

        config = transformers.LlamaConfig(
            hidden_size=dim,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=key_heads,
            intermediate_size=4 * dim,
            vocab_size=vocabulary,
            use_cache=False,
        )
        self.model = transformers.LlamaForCausalLM(config)

    def forward(self, ids):
        return self.model(ids).logits


def text(model, config, vocabulary, length=128, large=8, **settings):
    return of_transformers(model, config, words(length, vocabulary), large=large, **settings)


def picture(model, config, size=224, large=4, **settings):
    return of_transformers(model, config, pictures(size), large=large, **settings)


def mels(frames, bins=80):
    return lambda n: (torch.randn(n, bins, frames),)


SMALL_TEXT = {"hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 4, "intermediate_size": 1024}

MODELS = {
    # Convolutional, depthwise, hybrid
    "resnet18": picture(
        "ResNetModel", "ResNetConfig", depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512], layer_type="basic"
    ),
    "resnet50": picture("ResNetModel", "ResNetConfig"),
    "bit_50": picture("BitModel", "BitConfig"),
    "regnet_y": picture("RegNetModel", "RegNetConfig"),
    "convnext_tiny": picture("ConvNextModel", "ConvNextConfig"),
    "convnextv2_nano": picture(
        "ConvNextV2Model", "ConvNextV2Config", depths=[2, 2, 8, 2], hidden_sizes=[80, 160, 320, 640]
    ),
    "mobilenetv1": picture("MobileNetV1Model", "MobileNetV1Config"),
    "mobilenetv2": picture("MobileNetV2Model", "MobileNetV2Config"),
    "efficientnet_b0": picture(
        "EfficientNetModel", "EfficientNetConfig", width_coefficient=1.0, depth_coefficient=1.0, hidden_dim=1280
    ),
    "mobilevit_s": picture("MobileViTModel", "MobileViTConfig", size=256),
    "mobilevitv2": picture("MobileViTV2Model", "MobileViTV2Config", size=256),
    "levit": picture("LevitModel", "LevitConfig"),
    "poolformer": picture("PoolFormerModel", "PoolFormerConfig"),
    "cvt_13": picture("CvtModel", "CvtConfig"),
    "pvt_v2_b0": picture("PvtV2Model", "PvtV2Config"),
    "pvt_tiny": picture("PvtModel", "PvtConfig"),
    "focalnet_tiny": picture("FocalNetModel", "FocalNetConfig"),
    "segformer_b0": picture("SegformerForSemanticSegmentation", "SegformerConfig", size=256),
    "grouped_8": Entry(grouped_network, pictures(224), large=4),
    "grouped_16_squeeze": Entry(
        lambda: grouped_network((48, 112, 256, 640), (1, 2, 5, 2), 16, True), pictures(224), large=4
    ),
    "dense_network": Entry(dense_network, pictures(224), large=4),
    "shuffle_network": Entry(shuffle_network, pictures(224), large=8),
    "unet_plain": Entry(PlainUNet, pictures(192), large=4),
    "super_resolution": Entry(SuperResolution, pictures(96), large=4),
    "volume": Entry(Volume, lambda n: (torch.randn(n, 1, 32, 48, 48),), large=4),
    # Attention and mixers over pictures
    "vit_tiny": picture(
        "ViTModel", "ViTConfig", hidden_size=192, num_attention_heads=3, intermediate_size=768, num_hidden_layers=12
    ),
    "deit_small": picture("DeiTModel", "DeiTConfig", hidden_size=384, num_attention_heads=6, intermediate_size=1536),
    "beit_small": picture("BeitModel", "BeitConfig", hidden_size=384, num_attention_heads=6, intermediate_size=1536),
    "dinov2_small": picture("Dinov2Model", "Dinov2Config", hidden_size=384, num_attention_heads=6),
    "swin_tiny": picture("SwinModel", "SwinConfig"),
    "swinv2_tiny": picture("Swinv2Model", "Swinv2Config", size=256, image_size=256, window_size=8),
    "hiera_tiny": picture("HieraModel", "HieraConfig", large=2),
    "clip_vision": picture("CLIPVisionModel", "CLIPVisionConfig", num_hidden_layers=6),
    "siglip_vision": picture("SiglipVisionModel", "SiglipVisionConfig", num_hidden_layers=6),
    "yolos_small": picture(
        "YolosForObjectDetection",
        "YolosConfig",
        image_size=[256, 320],
        size=256,
        hidden_size=192,
        num_attention_heads=3,
        intermediate_size=768,
    ),
    "mixer": Entry(Mixer, pictures(224), large=4),
    "videomae_small": of_transformers(
        "VideoMAEModel",
        "VideoMAEConfig",
        lambda n: (torch.randn(n, 16, 3, 112, 112),),
        large=2,
        image_size=112,
        hidden_size=384,
        num_attention_heads=6,
        intermediate_size=1536,
        num_hidden_layers=6,
    ),
    # Encoders of text
    "bert_mini": text("BertModel", "BertConfig", 30522, **SMALL_TEXT),
    "distilbert": text("DistilBertModel", "DistilBertConfig", 30522, large=4),
    "albert_base": text(
        "AlbertModel", "AlbertConfig", 30000, 64, 4, hidden_size=768, num_attention_heads=12, intermediate_size=3072
    ),
    "electra_small": text("ElectraModel", "ElectraConfig", 30522),
    "mobilebert": text("MobileBertModel", "MobileBertConfig", 30522, 64, 4),
    "squeezebert": text("SqueezeBertModel", "SqueezeBertConfig", 30528, 64, 4, num_hidden_layers=6),
    "deberta_small": text(
        "DebertaV2Model",
        "DebertaV2Config",
        128100,
        relative_attention=True,
        position_buckets=64,
        pos_att_type=["p2c", "c2p"],
        **SMALL_TEXT,
    ),
    "fnet_small": text("FNetModel", "FNetConfig", 32000, hidden_size=256, num_hidden_layers=4, intermediate_size=1024),
    "modernbert_small": text("ModernBertModel", "ModernBertConfig", 50368, **SMALL_TEXT),
    "mpnet_small": text("MPNetModel", "MPNetConfig", 30527, **SMALL_TEXT),
    "t5_encoder": text("T5EncoderModel", "T5Config", 32128),
    "roformer_small": text("RoFormerModel", "RoFormerConfig", 50000, **SMALL_TEXT),
    "relative_encoder": Entry(lambda: RelativeEncoder(256, 8, 128, 4), lambda n: (torch.randn(n, 128, 256),), large=8),
    # Decoders of text
    "gpt2_mini": text(
        "GPT2LMHeadModel", "GPT2Config", 8192, n_embd=256, n_layer=4, n_head=4, vocab_size=8192, use_cache=False
    ),
    "opt_mini": text(
        "OPTForCausalLM",
        "OPTConfig",
        8192,
        vocab_size=8192,
        hidden_size=256,
        ffn_dim=1024,
        num_hidden_layers=4,
        num_attention_heads=4,
        word_embed_proj_dim=256,
        use_cache=False,
    ),
    "llama_mini": Entry(Decoder, words(64, 8192), large=4),
    "llama_step": Entry(Decoder, words(1, 8192), large=8),
    "neox_mini": text("GPTNeoXForCausalLM", "GPTNeoXConfig", 8192, vocab_size=8192, use_cache=False, **SMALL_TEXT),
    "bloom_mini": text(
        "BloomForCausalLM", "BloomConfig", 8192, vocab_size=8192, hidden_size=256, n_layer=4, n_head=4, use_cache=False
    ),
    "phi_mini": text("PhiForCausalLM", "PhiConfig", 8192, vocab_size=8192, use_cache=False, **SMALL_TEXT),
    "gemma_mini": text(
        "GemmaForCausalLM",
        "GemmaConfig",
        8192,
        vocab_size=8192,
        head_dim=64,
        num_key_value_heads=1,
        use_cache=False,
        **SMALL_TEXT,
    ),
    "mamba_mini": text(
        "MambaForCausalLM", "MambaConfig", 8192, 64, 4, vocab_size=8192, hidden_size=256, num_hidden_layers=4
    ),
    # Speech and time
    "whisper_encoder": of_transformers(
        "WhisperForAudioClassification",
        "WhisperConfig",
        mels(600),
        large=2,
        max_source_positions=300,
        d_model=256,
        encoder_layers=4,
        encoder_attention_heads=4,
        encoder_ffn_dim=1024,
    ),
    "wav2vec2_small": of_transformers(
        "Wav2Vec2Model",
        "Wav2Vec2Config",
        lambda n: (torch.randn(n, 16_000),),
        large=4,
        apply_spec_augment=False,
        **SMALL_TEXT,
    ),
    "audio_transformer": of_transformers(
        "ASTModel", "ASTConfig", lambda n: (torch.randn(n, 256, 128),), large=4, max_length=256, **SMALL_TEXT
    ),
    "patch_tst": of_transformers(
        "PatchTSTModel",
        "PatchTSTConfig",
        lambda n: (torch.randn(n, 512, 7),),
        large=16,
        context_length=512,
        num_input_channels=7,
        patch_length=16,
        patch_stride=16,
        do_mask_input=False,
    ),
    "time_convolutions": Entry(TimeConvolutions, lambda n: (torch.randn(n, 1, 4096),), large=4),
    "forecaster": Entry(Forecaster, lambda n: (torch.randn(n, 96, 16),), large=32),
    "lstm_tagger": Entry(lambda: Tagger(20_000, 128), words(32, 20_000), large=16),
    # Others
    "recommender": Entry(
        lambda: Recommender(rows=20_000),
        lambda n: (torch.randn(n, 13), torch.randint(0, 20_000, (n, 26, 4))),
        small=16,
        large=512,
    ),
    "tabular": Entry(Tabular, lambda n: (torch.randn(n, 10), torch.randint(0, 10_000, (n, 20))), large=256),
    "policy": Entry(Policy, lambda n: (torch.randn(n, 64),), large=128),
    "point_network": Entry(PointNetwork, lambda n: (torch.randn(n, 3, 1024),), large=8),
    "graph_sage": Entry(
        lambda: GraphNetwork(2_000), lambda n: (torch.randn(2_000, 128), torch.randint(0, 2_000, (2, 20_000)))
    ),
    "unet_attention": Entry(
        lambda: DiffusionUNet(32), lambda n: (torch.randn(n, 3, 32, 32), torch.rand(n) * 1000), large=4
    ),
    **NETWORKS,
    **PROGRAMS,
    **OTHERS,
}
