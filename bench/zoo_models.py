"""Published configurations of models, with random weights, for `zoo_gpu.py`: each entry makes a module in f32 and, for
a number of samples, its inputs.

Families: convolutional, depthwise, attention, hybrid and mixer kinds of `timm`; encoders, decoders, encoder-decoders,
speech and vision of `transformers`; a recommender, a U-Net of diffusion, graph and recurrent networks written here.
"""

import torch
import torch.nn.functional as F
from torch import nn

import zoo_decoding
import zoo_gpu_networks as networks
import zoo_later_models as later
from zoo_entries import Entry, decoder, of_timm, of_transformers, pictures, words

# ---- Networks written here


class Recommender(nn.Module):
    """Dot products of embeddings and of dense features, between two stacks of products (Naumov et al. 2019)."""

    def __init__(self, tables=26, rows=100_000, dim=64):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, dim, mode="sum") for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, dim), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(dim + pairs, 1024), nn.ReLU(), nn.Linear(1024, 256), nn.ReLU())
        self.last = nn.Linear(256, 1)
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1))

    def forward(self, dense, indices):
        x = self.bottom(dense)
        rows = [table(indices[:, i]) for i, table in enumerate(self.tables)]
        all = torch.stack([x, *rows], 1)
        products = all @ all.transpose(1, 2)
        return self.last(self.top(torch.cat([x, products[:, self.pairs[0], self.pairs[1]]], 1)))


class ResidualBlock(nn.Module):
    def __init__(self, channels, out, time):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, channels), nn.GroupNorm(8, out)
        self.conv1, self.conv2 = nn.Conv2d(channels, out, 3, padding=1), nn.Conv2d(out, out, 3, padding=1)
        self.time = nn.Linear(time, out)
        self.skip = nn.Conv2d(channels, out, 1) if channels != out else nn.Identity()

    def forward(self, x, time):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
        return self.conv2(F.silu(self.norm2(h))) + self.skip(x)


class PictureAttention(nn.Module):
    def __init__(self, channels, heads=4):
        super().__init__()
        self.norm, self.heads = nn.GroupNorm(8, channels), heads
        self.qkv, self.out = nn.Conv2d(channels, 3 * channels, 1), nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        n, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(n, 3, self.heads, c // self.heads, h * w).transpose(3, 4).unbind(1)
        return x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(2, 3).reshape(n, c, h, w))


class DiffusionUNet(nn.Module):
    """Two levels down and up, attention at the second and in the middle, a time step's embedding in each block."""

    def __init__(self, channels=64, time=256):
        super().__init__()
        c = channels
        self.channels = c
        self.time = nn.Sequential(nn.Linear(c, time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(3, c, 3, padding=1)
        self.down1, self.half1 = ResidualBlock(c, c, time), nn.Conv2d(c, c, 3, 2, 1)
        self.down2, self.attend2 = ResidualBlock(c, 2 * c, time), PictureAttention(2 * c)
        self.half2 = nn.Conv2d(2 * c, 2 * c, 3, 2, 1)
        self.middle1, self.attend = ResidualBlock(2 * c, 4 * c, time), PictureAttention(4 * c)
        self.middle2 = ResidualBlock(4 * c, 2 * c, time)
        self.up2, self.attend_up = ResidualBlock(4 * c, 2 * c, time), PictureAttention(2 * c)
        self.up1, self.norm, self.last = (
            ResidualBlock(3 * c, c, time),
            nn.GroupNorm(8, c),
            nn.Conv2d(c, 3, 3, padding=1),
        )

    def forward(self, x, step):
        frequencies = torch.exp(-torch.arange(self.channels // 2, device=x.device) * 0.2)
        angles = step[:, None].float() * frequencies
        time = self.time(torch.cat([angles.sin(), angles.cos()], 1).to(x.dtype))
        first = self.first(x)
        level1 = self.down1(first, time)
        level2 = self.attend2(self.down2(self.half1(level1), time))
        h = self.middle2(self.attend(self.middle1(self.half2(level2), time)), time)
        h = self.attend_up(self.up2(torch.cat([F.interpolate(h, scale_factor=2.0), level2], 1), time))
        h = self.up1(torch.cat([F.interpolate(h, scale_factor=2.0), level1], 1), time)
        return self.last(F.silu(self.norm(h)))


class RelativeEncoder(nn.Module):
    """Layers of attention with a bias by distance, which every sample shares."""

    def __init__(self, dim=768, heads=12, tokens=512, layers=6):
        super().__init__()
        self.heads = heads
        self.table = nn.Parameter(torch.randn(2 * tokens - 1, heads) * 0.1)
        place = torch.arange(tokens)
        self.register_buffer("index", place[:, None] - place + tokens - 1)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                dict(
                    norm1=nn.LayerNorm(dim),
                    qkv=nn.Linear(dim, 3 * dim),
                    out=nn.Linear(dim, dim),
                    norm2=nn.LayerNorm(dim),
                    up=nn.Linear(dim, 4 * dim),
                    down=nn.Linear(4 * dim, dim),
                )
            )
            for _ in range(layers)
        )

    def forward(self, x):
        n, tokens, dim = x.shape
        bias = self.table[self.index].permute(2, 0, 1)[None]
        for layer in self.layers:
            q, k, v = layer["qkv"](layer["norm1"](x)).view(n, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            x = x + layer["out"](F.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).flatten(2))
            x = x + layer["down"](F.gelu(layer["up"](layer["norm2"](x))))
        return x


class GraphNetwork(nn.Module):
    """Mean over neighbours and a product, three times (GraphSAGE)."""

    def __init__(self, nodes=10_000, dim=128, classes=40):
        super().__init__()
        self.nodes = nodes
        self.own = nn.ModuleList(nn.Linear(dim, dim) for _ in range(3))
        self.near = nn.ModuleList(nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.last = nn.Linear(dim, classes)

    def forward(self, x, edges):
        source, target = edges
        count = torch.zeros(self.nodes, device=x.device, dtype=x.dtype).index_add(
            0, target, torch.ones_like(target, dtype=x.dtype)
        )
        for own, near in zip(self.own, self.near):
            sums = torch.zeros_like(x).index_add(0, target, x[source])
            x = F.relu(own(x) + near(sums / count.clamp(min=1)[:, None]))
        return self.last(x)


class Tagger(nn.Module):
    def __init__(self, words=20_000, dim=256, tags=32):
        super().__init__()
        self.embed = nn.Embedding(words, dim)
        self.lstm = nn.LSTM(dim, dim, num_layers=2, batch_first=True, bidirectional=True)
        self.last = nn.Linear(2 * dim, tags)

    def forward(self, ids):
        return self.last(self.lstm(self.embed(ids))[0])


def edges_of(nodes, edges):
    return lambda n: (torch.randn(nodes, 128), torch.randint(0, nodes, (2, edges)))


MODELS = {
    # Depthwise convolutions
    "convnext_tiny": of_timm("convnext_tiny"),
    "convnextv2_nano": of_timm("convnextv2_nano"),
    "mobilenetv3_large": of_timm("mobilenetv3_large_100", large=128),
    "mobilenetv2": of_timm("mobilenetv2_100", large=128),
    "efficientnet_b0": of_timm("efficientnet_b0"),
    "efficientnetv2_s": of_timm("efficientnetv2_rw_s"),
    "mnasnet": of_timm("mnasnet_100", large=128),
    "ghostnet": of_timm("ghostnet_100", large=128),
    "repvit_m1": of_timm("repvit_m1"),
    "inception_next": of_timm("inception_next_tiny"),
    "edgenext_small": of_timm("edgenext_small"),
    "fastvit_t8": of_timm("fastvit_t8", size=256),
    # Convolutions
    "resnet50": of_timm("resnet50"),
    "resnext50": of_timm("resnext50_32x4d"),
    "regnety_016": of_timm("regnety_016"),
    "densenet121": of_timm("densenet121"),
    "vgg16": of_timm("vgg16", large=32),
    "inception_v3": of_timm("inception_v3", size=299),
    "seresnet50": of_timm("seresnet50"),
    "res2net50": of_timm("res2net50_26w_4s"),
    "hrnet_w18": of_timm("hrnet_w18", large=32),
    "dla34": of_timm("dla34"),
    "cspdarknet53": of_timm("cspdarknet53"),
    "nfnet_f0": of_timm("nfnet_f0", large=32),
    # Attention, mixers, hybrids
    "vit_small": of_timm("vit_small_patch16_224"),
    "deit_tiny": of_timm("deit_tiny_patch16_224"),
    "beit_base": of_timm("beit_base_patch16_224", large=32),
    "swin_tiny": of_timm("swin_tiny_patch4_window7_224"),
    "swinv2_tiny": of_timm("swinv2_tiny_window8_256", size=256),
    "vit_relpos": of_timm("vit_relpos_small_patch16_224"),
    "eva02_tiny": of_timm("eva02_tiny_patch14_224"),
    "cait_xxs24": of_timm("cait_xxs24_224", large=32),
    "xcit_tiny": of_timm("xcit_tiny_12_p16_224"),
    "pvt_v2_b0": of_timm("pvt_v2_b0"),
    "twins_svt_small": of_timm("twins_svt_small"),
    "mixer_b16": of_timm("mixer_b16_224"),
    "resmlp_12": of_timm("resmlp_12_224"),
    "gmlp_s16": of_timm("gmlp_s16_224"),
    "poolformer_s12": of_timm("poolformer_s12"),
    "mobilevit_s": of_timm("mobilevit_s", size=256),
    "maxvit_tiny": of_timm("maxvit_tiny_tf_224", large=32),
    "coatnet_0": of_timm("coatnet_0_rw_224", large=32),
    "levit_128": of_timm("levit_128"),
    "efficientformer_l1": of_timm("efficientformer_l1"),
    "convit_tiny": of_timm("convit_tiny"),
    "visformer_small": of_timm("visformer_small"),
    # Taken later, without having looked at how they fare
    "deit3_small": of_timm("deit3_small_patch16_224"),
    "crossvit_tiny": of_timm("crossvit_tiny_240", size=240),
    "davit_tiny": of_timm("davit_tiny"),
    "focalnet_tiny": of_timm("focalnet_tiny_srf"),
    "mobileone_s1": of_timm("mobileone_s1"),
    "mobilenetv4_small": of_timm("mobilenetv4_conv_small", large=128),
    "hgnet_tiny": of_timm("hgnet_tiny"),
    "rexnet_100": of_timm("rexnet_100"),
    "skresnet34": of_timm("skresnet34"),
    "selecsls42b": of_timm("selecsls42b"),
    "ecaresnet26t": of_timm("ecaresnet26t"),
    "volo_d1": of_timm("volo_d1_224", large=32),
    "tnt_s": of_timm("tnt_s_patch16_224"),
    "gcvit_tiny": of_timm("gcvit_tiny", large=32),
    "efficientvit_b1": of_timm("efficientvit_b1"),
    "efficientvit_m2": of_timm("efficientvit_m2"),
    "tiny_vit_11m": of_timm("tiny_vit_11m_224"),
    "convmixer_768": of_timm("convmixer_768_32", large=32),
    "nest_tiny": of_timm("nest_tiny"),
    "pit_s": of_timm("pit_s_224"),
    "caformer_s18": of_timm("caformer_s18"),
    "hiera_tiny": of_timm("hiera_tiny_224"),
    "resnest26d": of_timm("resnest26d"),
    "mvitv2_tiny": of_timm("mvitv2_tiny", large=32),
    "rdnet_tiny": of_timm("rdnet_tiny", large=32),
    "starnet_s2": of_timm("starnet_s2"),
    "mambaout_tiny": of_timm("mambaout_tiny"),
    "swin_s3_tiny": of_timm("swin_s3_tiny_224"),
    "vovnet19b_dw": of_timm("ese_vovnet19b_dw"),
    "halonet26t": of_timm("halonet26t", size=256),
    "botnet26t": of_timm("botnet26t_256", size=256),
    "lambda_resnet26t": of_timm("lambda_resnet26t", size=256),
    # Taken later again, in the same way
    "xception41": of_timm("xception41"),
    "dpn68": of_timm("dpn68"),
    "mixnet_s": of_timm("mixnet_s"),
    "gernet_s": of_timm("gernet_s"),
    "coat_tiny": of_timm("coat_tiny", large=32),
    "sequencer2d_s": of_timm("sequencer2d_s", large=16),
    "fasternet_t0": of_timm("fasternet_t0"),
    "shvit_s1": of_timm("shvit_s1"),
    "mobilevitv2_075": of_timm("mobilevitv2_075", size=256),
    "resnetv2_50": of_timm("resnetv2_50"),
    "swiftformer_xs": of_timm("swiftformer_xs"),
    "repghostnet_100": of_timm("repghostnet_100"),
    "tresnet_m": of_timm("tresnet_m"),
    "lcnet_100": of_timm("lcnet_100", large=128),
    "eca_nfnet_l0": of_timm("eca_nfnet_l0", large=32),
    "gcresnext26ts": of_timm("gcresnext26ts", size=256),
    "regnetz_b16": of_timm("regnetz_b16", large=32),
    "convformer_s18": of_timm("convformer_s18", large=32),
    "vit_medium_reg": of_timm("vit_medium_patch16_reg4_256", size=256),
    "mobilenetv4_hybrid": of_timm("mobilenetv4_hybrid_medium", size=256),
    # Encoders
    "bert_base": of_transformers("BertModel", "BertConfig", words(512, 30522)),
    "distilbert": of_transformers("DistilBertModel", "DistilBertConfig", words(512, 30522)),
    "albert_base": of_transformers(
        "AlbertModel",
        "AlbertConfig",
        words(512, 30000),
        hidden_size=768,
        num_attention_heads=12,
        intermediate_size=3072,
    ),
    "roberta_base": of_transformers("RobertaModel", "RobertaConfig", words(500, 50265), vocab_size=50265),
    "electra_small": of_transformers("ElectraModel", "ElectraConfig", words(512, 30522)),
    "mpnet_base": of_transformers("MPNetModel", "MPNetConfig", words(500, 30527)),
    "deberta_v3_small": of_transformers(
        "DebertaV2Model",
        "DebertaV2Config",
        words(512, 128000),
        hidden_size=768,
        num_attention_heads=12,
        num_hidden_layers=6,
        intermediate_size=3072,
        relative_attention=True,
        position_buckets=256,
        pos_att_type=["p2c", "c2p"],
    ),
    "fnet_base": of_transformers("FNetModel", "FNetConfig", words(512, 32000)),
    "modernbert_base": of_transformers("ModernBertModel", "ModernBertConfig", words(1024, 50368), large=8),
    "t5_encoder": of_transformers(
        "T5EncoderModel",
        "T5Config",
        words(512, 32128),
        d_model=768,
        d_ff=3072,
        num_layers=12,
        num_heads=12,
    ),
    # Decoders
    "gpt2": of_transformers("GPT2LMHeadModel", "GPT2Config", words(1024, 50257), large=8, use_cache=False),
    "opt_350m": of_transformers("OPTForCausalLM", "OPTConfig", words(1024, 50272), large=8, use_cache=False),
    "gpt_neox_160m": of_transformers(
        "GPTNeoXForCausalLM",
        "GPTNeoXConfig",
        words(1024, 50304),
        large=8,
        use_cache=False,
        hidden_size=768,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=3072,
        vocab_size=50304,
    ),
    "qwen2_500m": of_transformers(
        "Qwen2ForCausalLM",
        "Qwen2Config",
        words(1024, 32000),
        large=4,
        use_cache=False,
        hidden_size=896,
        intermediate_size=4864,
        num_hidden_layers=24,
        num_attention_heads=14,
        num_key_value_heads=2,
        vocab_size=32000,
    ),
    "gemma_300m": of_transformers(
        "GemmaForCausalLM",
        "GemmaConfig",
        words(1024, 32000),
        large=4,
        use_cache=False,
        hidden_size=1024,
        intermediate_size=4096,
        num_hidden_layers=12,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=256,
        vocab_size=32000,
    ),
    "phi_300m": of_transformers(
        "PhiForCausalLM",
        "PhiConfig",
        words(1024, 32000),
        large=4,
        use_cache=False,
        hidden_size=1024,
        intermediate_size=4096,
        num_hidden_layers=12,
        num_attention_heads=16,
        vocab_size=32000,
    ),
    "mixtral_small": of_transformers(
        "MixtralForCausalLM",
        "MixtralConfig",
        words(512, 32000),
        large=4,
        use_cache=False,
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=6,
        num_attention_heads=12,
        num_key_value_heads=4,
        num_local_experts=8,
        vocab_size=32000,
    ),
    "mamba_130m": of_transformers(
        "MambaForCausalLM",
        "MambaConfig",
        words(256, 32000),
        large=4,
        use_cache=False,
        num_hidden_layers=6,
        vocab_size=32000,
    ),
    # Encoders and decoders, speech, vision
    "t5_small": of_transformers(
        "T5ForConditionalGeneration",
        "T5Config",
        lambda n: (torch.randint(0, 32128, (n, 512)), None, torch.randint(0, 32128, (n, 128))),
        use_cache=False,
    ),
    "bart_base": of_transformers(
        "BartForConditionalGeneration",
        "BartConfig",
        lambda n: (torch.randint(0, 50265, (n, 512)), None, torch.randint(0, 50265, (n, 128))),
        use_cache=False,
        d_model=768,
        encoder_layers=6,
        decoder_layers=6,
        encoder_attention_heads=12,
        decoder_attention_heads=12,
        encoder_ffn_dim=3072,
        decoder_ffn_dim=3072,
    ),
    "whisper_encoder": of_transformers(
        "WhisperForAudioClassification",
        "WhisperConfig",
        lambda n: (torch.randn(n, 80, 3000),),
        large=8,
        d_model=512,
        encoder_layers=6,
        encoder_attention_heads=8,
        encoder_ffn_dim=2048,
    ),
    "wav2vec2_base": of_transformers(
        "Wav2Vec2Model", "Wav2Vec2Config", lambda n: (torch.randn(n, 80_000),), large=8, apply_spec_augment=False
    ),
    "hubert_base": of_transformers(
        "HubertModel", "HubertConfig", lambda n: (torch.randn(n, 80_000),), large=8, apply_spec_augment=False
    ),
    "clip_vision": of_transformers("CLIPVisionModel", "CLIPVisionConfig", pictures(224), large=64),
    "dinov2_small": of_transformers(
        "Dinov2Model", "Dinov2Config", pictures(224), large=64, hidden_size=384, num_attention_heads=6
    ),
    "segformer_b0": of_transformers("SegformerForSemanticSegmentation", "SegformerConfig", pictures(512), large=8),
    "videomae_small": of_transformers(
        "VideoMAEModel",
        "VideoMAEConfig",
        lambda n: (torch.randn(n, 16, 3, 224, 224),),
        large=4,
        hidden_size=384,
        num_attention_heads=6,
        intermediate_size=1536,
    ),
    # Taken later, without having looked at how they fare
    "llama_200m": decoder("Llama", num_attention_heads=16, num_key_value_heads=4),
    "bloom_200m": decoder("Bloom", n_layer=12, n_head=16),
    "falcon_200m": decoder("Falcon", num_attention_heads=16, ffn_hidden_size=4096),
    "olmo2_200m": decoder("Olmo2", num_attention_heads=16),
    "phi3_200m": decoder("Phi3", num_attention_heads=16, pad_token_id=0),
    "qwen3_200m": decoder("Qwen3", num_attention_heads=16, num_key_value_heads=8, head_dim=64),
    "gemma2_200m": decoder("Gemma2", num_attention_heads=4, num_key_value_heads=2, head_dim=256),
    "olmoe_small": decoder(
        "Olmoe", num_attention_heads=16, num_hidden_layers=6, num_experts=16, intermediate_size=1024
    ),
    "mamba2_130m": decoder(
        "Mamba2", hidden_size=768, expand=2, head_dim=64, num_heads=24, n_groups=1, num_hidden_layers=6, large=2
    ),
    "xlnet_base": of_transformers("XLNetModel", "XLNetConfig", words(512, 32000), d_model=768, n_layer=12, n_head=12),
    "roformer_base": of_transformers("RoFormerModel", "RoFormerConfig", words(512, 50000)),
    "convbert_base": of_transformers("ConvBertModel", "ConvBertConfig", words(512, 30522)),
    "squeezebert": of_transformers("SqueezeBertModel", "SqueezeBertConfig", words(512, 30522)),
    "esm_small": of_transformers(
        "EsmModel",
        "EsmConfig",
        words(512, 33),
        vocab_size=33,
        pad_token_id=1,
        hidden_size=640,
        num_hidden_layers=12,
        num_attention_heads=20,
        intermediate_size=2560,
        position_embedding_type="rotary",
    ),
    "yolos_small": of_transformers(
        "YolosForObjectDetection",
        "YolosConfig",
        pictures(512),
        image_size=(512, 512),
        hidden_size=384,
        num_attention_heads=6,
        intermediate_size=1536,
        use_mid_position_embeddings=False,
    ),
    "sam_vision": of_transformers(
        "SamVisionModel",
        "SamVisionConfig",
        pictures(512),
        large=4,
        image_size=512,
        hidden_size=384,
        num_hidden_layers=6,
        num_attention_heads=6,
        global_attn_indexes=[2, 5],
        mlp_dim=1536,
    ),
    "siglip_vision": of_transformers("SiglipVisionModel", "SiglipVisionConfig", pictures(224), large=64),
    "swin2sr": of_transformers("Swin2SRForImageSuperResolution", "Swin2SRConfig", pictures(64), large=16),
    "marian": of_transformers(
        "MarianMTModel",
        "MarianConfig",
        lambda n: (torch.randint(0, 58000, (n, 256)), None, torch.randint(0, 58000, (n, 128))),
        use_cache=False,
        d_model=512,
        encoder_layers=6,
        decoder_layers=6,
        encoder_attention_heads=8,
        decoder_attention_heads=8,
        encoder_ffn_dim=2048,
        decoder_ffn_dim=2048,
    ),
    "wavlm_base": of_transformers(
        "WavLMModel", "WavLMConfig", lambda n: (torch.randn(n, 80_000),), large=8, apply_spec_augment=False
    ),
    "conformer": of_transformers(
        "Wav2Vec2ConformerModel",
        "Wav2Vec2ConformerConfig",
        lambda n: (torch.randn(n, 80_000),),
        large=8,
        apply_spec_augment=False,
        hidden_size=512,
        num_hidden_layers=8,
        num_attention_heads=8,
        intermediate_size=2048,
    ),
    "audio_spectrogram": of_transformers("ASTModel", "ASTConfig", lambda n: (torch.randn(n, 1024, 128),), large=8),
    "timesformer": of_transformers(
        "TimesformerModel",
        "TimesformerConfig",
        lambda n: (torch.randn(n, 8, 3, 224, 224),),
        large=4,
        hidden_size=384,
        num_attention_heads=6,
        intermediate_size=1536,
    ),
    "patch_tst": of_transformers(
        "PatchTSTForPrediction",
        "PatchTSTConfig",
        lambda n: (torch.randn(n, 512, 7),),
        large=128,
        context_length=512,
        prediction_length=96,
        num_input_channels=7,
        patch_length=16,
        patch_stride=8,
        d_model=256,
        ffn_dim=512,
        num_attention_heads=8,
    ),
    "cvt_13": of_transformers("CvtModel", "CvtConfig", pictures(224), large=64),
    "perceiver": of_transformers(
        "PerceiverModel", "PerceiverConfig", lambda n: (torch.randn(n, 1024, 768),), large=8, num_latents=256
    ),
    # Taken later again, in the same way
    "stablelm_200m": decoder("StableLm", num_attention_heads=16, num_key_value_heads=16),
    "cohere_200m": decoder("Cohere", num_attention_heads=16, num_key_value_heads=4),
    "starcoder2_200m": decoder("Starcoder2", num_attention_heads=16, num_key_value_heads=2),
    "granite_200m": decoder("Granite", num_attention_heads=16, num_key_value_heads=4),
    "gptj_200m": decoder("GPTJ", n_embd=1024, n_layer=12, n_head=16, rotary_dim=32),
    "gpt_bigcode": decoder("GPTBigCode", n_embd=1024, n_layer=12, n_head=16),
    "qwen2_moe": decoder(
        "Qwen2Moe",
        num_attention_heads=16,
        num_key_value_heads=4,
        num_hidden_layers=6,
        num_experts=16,
        moe_intermediate_size=512,
        shared_expert_intermediate_size=1024,
    ),
    "rwkv_170m": of_transformers(
        "RwkvModel",
        "RwkvConfig",
        words(128, 20000),
        vocab_size=20000,
        hidden_size=768,
        num_hidden_layers=4,
        use_cache=False,
    ),
    "longformer_base": of_transformers(
        "LongformerModel",
        "LongformerConfig",
        words(1024, 30522),
        large=4,
        num_hidden_layers=6,
        attention_window=256,
        max_position_embeddings=1026,
    ),
    "funnel_small": of_transformers("FunnelModel", "FunnelConfig", words(512, 30522)),
    "nystromformer": of_transformers(
        "NystromformerModel", "NystromformerConfig", words(512, 30000), max_position_embeddings=512
    ),
    "mobilebert": of_transformers("MobileBertModel", "MobileBertConfig", words(512, 30522)),
    "layoutlm": of_transformers(
        "LayoutLMModel",
        "LayoutLMConfig",
        lambda n: (torch.randint(0, 30522, (n, 512)), torch.randint(0, 500, (n, 512, 4)).sort(-1).values),
    ),
    "pegasus": of_transformers(
        "PegasusForConditionalGeneration",
        "PegasusConfig",
        lambda n: (torch.randint(0, 50265, (n, 512)), None, torch.randint(0, 50265, (n, 128))),
        use_cache=False,
        d_model=768,
        encoder_layers=6,
        decoder_layers=6,
        encoder_attention_heads=12,
        decoder_attention_heads=12,
        encoder_ffn_dim=3072,
        decoder_ffn_dim=3072,
    ),
    "data2vec_audio": of_transformers(
        "Data2VecAudioModel", "Data2VecAudioConfig", lambda n: (torch.randn(n, 80_000),), large=8, mask_time_prob=0.0
    ),
    "sew_tiny": of_transformers(
        "SEWModel", "SEWConfig", lambda n: (torch.randn(n, 80_000),), large=8, apply_spec_augment=False
    ),
    "encodec": of_transformers("EncodecModel", "EncodecConfig", lambda n: (torch.randn(n, 1, 24_000),), large=8),
    "dpt_small": of_transformers(
        "DPTForDepthEstimation",
        "DPTConfig",
        pictures(384),
        large=8,
        hidden_size=384,
        num_attention_heads=6,
        intermediate_size=1536,
        backbone_out_indices=[2, 5, 8, 11],
        neck_hidden_sizes=[48, 96, 192, 384],
        fusion_hidden_size=128,
    ),
    "glpn": of_transformers("GLPNForDepthEstimation", "GLPNConfig", pictures(256), large=8),
    "vit_mae": of_transformers("ViTMAEModel", "ViTMAEConfig", pictures(224), large=64, mask_ratio=0.0),
    "levit_hf": of_transformers("LevitModel", "LevitConfig", pictures(224), large=64),
    "vitdet": of_transformers(
        "VitDetModel",
        "VitDetConfig",
        pictures(512),
        large=8,
        image_size=512,
        pretrain_image_size=512,
        hidden_size=384,
        num_attention_heads=6,
        window_size=8,
        window_block_indices=[0, 1, 3, 4, 6, 7, 9, 10],
        use_relative_position_embeddings=True,
    ),
    # Written here
    "recommender": Entry(
        Recommender, lambda n: (torch.randn(n, 13), torch.randint(0, 100_000, (n, 26, 4))), small=64, large=4096
    ),
    "unet_attention": Entry(
        DiffusionUNet, lambda n: (torch.randn(n, 3, 64, 64), torch.rand(n) * 1000), small=1, large=16
    ),
    "relative_encoder": Entry(RelativeEncoder, lambda n: (torch.randn(n, 512, 768),), large=16),
    "relative_encoder_197": Entry(lambda: RelativeEncoder(tokens=197), lambda n: (torch.randn(n, 197, 768),), large=64),
    "graph_sage": Entry(GraphNetwork, edges_of(10_000, 100_000)),
    "lstm_tagger": Entry(Tagger, words(64, 20_000), large=64),
    # Written in zoo_gpu_networks.py, in the same way
    "dit_small": Entry(
        networks.DiffusionTransformer,
        lambda n: (torch.randn(n, 4, 32, 32), torch.rand(n) * 1000, torch.randint(0, 1000, (n,))),
        large=32,
    ),
    "latent_decoder": Entry(networks.LatentDecoder, pictures(32, 4), large=16),
    "style_transfer": Entry(networks.StyleTransfer, pictures(256), large=8),
    "decode_step": Entry(networks.DecodeStep, networks.DecodeStep.inputs, large=16),
    "linear_attention": Entry(networks.LinearAttention, words(2048, 20000), large=8),
    "local_attention": Entry(networks.LocalAttention, words(2048, 20000), large=8),
    "top_two_experts": Entry(networks.TopTwoExperts, lambda n: (torch.randn(n, 512, 512),), large=16),
    "gated_waves": Entry(networks.GatedWaves, lambda n: (torch.randn(n, 1, 16000),), large=8),
    "selective_scan": Entry(networks.SelectiveScan, lambda n: (torch.randn(n, 1024, 512),), large=8),
    "points": Entry(networks.Points, lambda n: (torch.randn(n, 3, 1024),), large=64),
    "volumes": Entry(networks.Volumes, lambda n: (torch.randn(n, 1, 64, 64, 64),), large=4),
    "detector": Entry(networks.Detector, pictures(512), large=16),
    "enlarging": Entry(networks.Enlarging, pictures(64), large=16),
    "axial_attention": Entry(networks.AxialAttention, pictures(256), large=16),
    "cross_network": Entry(networks.CrossNetwork, lambda n: (torch.randint(0, 50_000, (n, 32)),), small=64, large=8192),
    "edge_attention": Entry(networks.EdgeAttention, edges_of(10_000, 100_000)),
    "actor_critic": Entry(
        networks.ActorCritic, lambda n: (torch.randn(n, 64), torch.randn(n, 16)), small=32, large=16384
    ),
    "fields": Entry(networks.Fields, lambda n: (torch.randn(n, 64, 3),), small=64, large=2048),
    "speaker": Entry(
        networks.Speaker, lambda n: (torch.randint(0, 10_000, (n, 40)), torch.randint(0, 10_000, (n, 40))), large=64
    ),
    # Written in zoo_later_models.py, in the same way
    **later.MODELS,
    **zoo_decoding.ENTRIES,
}
