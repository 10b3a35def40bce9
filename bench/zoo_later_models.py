"""Models of `zoo_models.py` that were taken last, without having looked at how they fare: `timm`'s, `transformers`',
and the programs of `zoo_gpu_programs.py`.
"""

import torch

import zoo_gpu_programs as programs
from zoo_entries import Entry, decoder, of_timm, of_transformers, pictures, words


def small_vision(**settings):
    return dict(hidden_size=384, num_attention_heads=6, intermediate_size=1536) | settings


def translation(n):
    return torch.randint(5, 30000, (n, 256)), None, torch.randint(5, 30000, (n, 128))


TIMM = {
    "nextvit_small": of_timm("nextvit_small", large=32),
    "hgnetv2_b1": of_timm("hgnetv2_b1"),
    "efficientformerv2_s1": of_timm("efficientformerv2_s1"),
    "vitamin_small": of_timm("vitamin_small_224", large=32),
    "resnet10t": of_timm("resnet10t", large=128),
    "wide_resnet50": of_timm("wide_resnet50_2", large=32),
    "skresnext50": of_timm("skresnext50_32x4d", large=32),
    "cspresnext50": of_timm("cspresnext50", large=32),
    "gmixer_24": of_timm("gmixer_24_224"),
    "fbnetc_100": of_timm("fbnetc_100", large=128),
    "tinynet_a": of_timm("tinynet_a", size=192, large=128),
    "nf_resnet50": of_timm("nf_resnet50", large=32),
    "res2next50": of_timm("res2next50", large=32),
    "darknetaa53": of_timm("darknetaa53", size=256, large=32),
    "dla60x": of_timm("dla60x", large=32),
    "inception_resnet_v2": of_timm("inception_resnet_v2", size=299, large=32),
    "bat_resnext26ts": of_timm("bat_resnext26ts", size=256, large=32),
    "eca_botnext26ts": of_timm("eca_botnext26ts_256", size=256, large=32),
    "coatnext_nano": of_timm("coatnext_nano_rw_224", large=32),
    "maxxvit_nano": of_timm("maxxvit_rmlp_nano_rw_256", size=256, large=32),
    "swinv2_cr_tiny": of_timm("swinv2_cr_tiny_ns_224", large=32),
    "vit_tiny_hybrid": of_timm("vit_tiny_r_s16_p8_224"),
    "ghostnetv2_100": of_timm("ghostnetv2_100"),
    "hardcorenas_a": of_timm("hardcorenas_a", large=128),
    "sam2_hiera_tiny": of_timm("sam2_hiera_tiny", size=896, large=2),
    "resnet50_gn": of_timm("resnet50_gn", large=32),
    "densenetblur121d": of_timm("densenetblur121d", large=32),
    "legacy_seresnet50": of_timm("legacy_seresnet50", large=32),
    "repvgg_a2": of_timm("repvgg_a2"),
    "beitv2_base": of_timm("beitv2_base_patch16_224", large=32),
    "nf_regnet_b1": of_timm("nf_regnet_b1", size=256),
    "cs3sedarknet_l": of_timm("cs3sedarknet_l", size=256, large=32),
}

TRANSFORMERS = {
    "ernie4_5_200m": decoder("Ernie4_5", num_attention_heads=16, num_key_value_heads=4),
    "glm4_200m": decoder("Glm4", num_attention_heads=16, num_key_value_heads=4, head_dim=64, pad_token_id=0),
    "nemotron_200m": decoder("Nemotron", num_attention_heads=16, num_key_value_heads=4),
    "diffllama_200m": decoder("DiffLlama", num_attention_heads=16, num_key_value_heads=8),
    "smollm3_200m": decoder("SmolLM3", num_attention_heads=16, num_key_value_heads=4, pad_token_id=0),
    "lfm2_small": decoder(
        "Lfm2", num_attention_heads=16, num_key_value_heads=4, full_attn_idxs=[2, 5, 8, 11], block_multiple_of=64
    ),
    "deepseek_v2_small": decoder(
        "DeepseekV2",
        num_hidden_layers=6,
        num_attention_heads=16,
        num_key_value_heads=16,
        q_lora_rank=None,
        kv_lora_rank=256,
        n_routed_experts=8,
        num_experts_per_tok=2,
        n_group=1,
        topk_group=1,
        topk_method="greedy",
        moe_intermediate_size=512,
        first_k_dense_replace=1,
        large=2,
    ),
    "falcon_h1_small": decoder(
        "FalconH1",
        num_hidden_layers=6,
        num_attention_heads=16,
        num_key_value_heads=4,
        mamba_d_ssm=1024,
        mamba_n_heads=16,
        mamba_d_head=64,
        large=2,
    ),
    "recurrent_gemma": decoder(
        "RecurrentGemma", num_hidden_layers=6, num_attention_heads=8, lru_width=1024, attention_window_size=512, large=2
    ),
    "gpt_neo_local": decoder("GPTNeo", num_layers=12, num_heads=16, attention_types=[[["global", "local"], 6]]),
    "codegen_200m": decoder("CodeGen", n_embd=1024, n_layer=12, n_head=16, rotary_dim=32),
    "biogpt_200m": decoder("BioGpt", num_attention_heads=16),
    "rembert_small": of_transformers(
        "RemBertModel",
        "RemBertConfig",
        words(512, 30000),
        vocab_size=30000,
        hidden_size=768,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=3072,
    ),
    "big_bird": of_transformers(
        "BigBirdModel", "BigBirdConfig", words(1024, 30000), large=4, num_hidden_layers=6, vocab_size=30000
    ),
    "canine": of_transformers("CanineModel", "CanineConfig", words(1024, 50000), large=4, num_hidden_layers=6),
    "yoso": of_transformers(
        "YosoModel", "YosoConfig", words(512, 30000), num_hidden_layers=6, use_expectation=True, use_fast_hash=False
    ),
    "lilt": of_transformers(
        "LiltModel",
        "LiltConfig",
        lambda n: (torch.randint(0, 30522, (n, 512)), torch.randint(0, 500, (n, 512, 4)).sort(-1).values),
        max_position_embeddings=600,
    ),
    "xlm_roberta_xl": of_transformers(
        "XLMRobertaXLModel",
        "XLMRobertaXLConfig",
        words(500, 30000),
        vocab_size=30000,
        hidden_size=768,
        num_hidden_layers=8,
        num_attention_heads=12,
        intermediate_size=3072,
    ),
    "m2m_small": of_transformers(
        "M2M100ForConditionalGeneration",
        "M2M100Config",
        translation,
        use_cache=False,
        vocab_size=30000,
        d_model=512,
        encoder_layers=6,
        decoder_layers=6,
        encoder_attention_heads=8,
        decoder_attention_heads=8,
        encoder_ffn_dim=2048,
        decoder_ffn_dim=2048,
    ),
    "prophetnet": of_transformers(
        "ProphetNetForConditionalGeneration",
        "ProphetNetConfig",
        translation,
        use_cache=False,
        hidden_size=512,
        num_encoder_layers=4,
        num_decoder_layers=4,
        num_encoder_attention_heads=8,
        num_decoder_attention_heads=8,
        encoder_ffn_dim=2048,
        decoder_ffn_dim=2048,
    ),
    "bit_resnetv2": of_transformers("BitModel", "BitConfig", pictures(224), large=32),
    "pvt_v2_b2_hf": of_transformers("PvtV2Model", "PvtV2Config", pictures(224), large=32, depths=[3, 4, 6, 3]),
    "ijepa_small": of_transformers("IJepaModel", "IJepaConfig", pictures(224), large=64, **small_vision()),
    "vivit_small": of_transformers(
        "VivitModel",
        "VivitConfig",
        lambda n: (torch.randn(n, 16, 3, 224, 224),),
        large=4,
        num_frames=16,
        **small_vision(),
    ),
    "donut_swin": of_transformers("DonutSwinModel", "DonutSwinConfig", pictures(224), large=32),
    "dinov3_vit": of_transformers("DINOv3ViTModel", "DINOv3ViTConfig", pictures(224), large=64, **small_vision()),
    "mobilenet_v2_hf": of_transformers("MobileNetV2Model", "MobileNetV2Config", pictures(224), large=64),
    "speech_to_text": of_transformers(
        "Speech2TextForConditionalGeneration",
        "Speech2TextConfig",
        lambda n: (torch.randn(n, 1000, 80), None, torch.randint(0, 10000, (n, 64))),
        large=8,
        use_cache=False,
    ),
    "unispeech": of_transformers(
        "UniSpeechModel", "UniSpeechConfig", lambda n: (torch.randn(n, 80_000),), large=8, apply_spec_augment=False
    ),
    "seamless_speech": of_transformers(
        "Wav2Vec2BertModel",
        "Wav2Vec2BertConfig",
        lambda n: (torch.randn(n, 500, 160),),
        large=8,
        apply_spec_augment=False,
        hidden_size=512,
        num_hidden_layers=6,
        num_attention_heads=8,
        intermediate_size=2048,
    ),
    "dac_codec": of_transformers("DacModel", "DacConfig", lambda n: (torch.randn(n, 1, 16_384),), large=4),
    "time_mixer": of_transformers(
        "PatchTSMixerForPrediction",
        "PatchTSMixerConfig",
        lambda n: (torch.randn(n, 512, 7),),
        large=128,
        context_length=512,
        prediction_length=96,
        num_input_channels=7,
        patch_length=16,
        patch_stride=8,
        d_model=64,
        num_layers=6,
    ),
    "imagegpt": of_transformers(
        "ImageGPTModel", "ImageGPTConfig", words(1024, 512), large=4, n_layer=8, use_cache=False
    ),
}

PROGRAMS = {
    "film": Entry(programs.Film, lambda n: (torch.randn(n, 3, 16, 224, 224),), large=4),
    "action_unet": Entry(programs.ActionUNet, lambda n: (torch.randn(n, 16, 64), torch.randn(n, 256)), large=128),
    "codebook": Entry(programs.Codebook, pictures(128), large=32),
    "operators": Entry(programs.Operators, lambda n: (torch.randn(n, 96, 96, 3),), large=16),
    "loudness": Entry(programs.Loudness, lambda n: (torch.randn(n, 16_000),), large=128),
    "critic": Entry(programs.Critic, lambda n: (torch.randn(n, 3, 256, 256), torch.randn(n, 3, 256, 256)), large=16),
    "deformed_attention": Entry(programs.DeformedAttention, programs.DeformedAttention.inputs, large=8),
    "gated_recall": Entry(programs.GatedRecall, words(1024, 20000), large=8),
    "shifted_relations": Entry(programs.ShiftedRelations, words(512, 20000), large=16),
    "skipped_words": Entry(programs.SkippedWords, words(1024, 20000), large=8),
    "tags": Entry(
        programs.Tags, lambda n: (torch.randint(0, 20000, (n, 48)), torch.randint(0, 48, (n, 48))), large=256
    ),
    "sampling": Entry(
        programs.Sampling,
        lambda n: (torch.randn(n, 1024), torch.randint(0, 32000, (n, 64)), torch.rand(n, 1)),
        large=64,
    ),
    "narrow_cache": Entry(programs.NarrowCache, programs.NarrowCache.inputs, large=32),
    "words_and_pictures": Entry(
        programs.WordsAndPictures, lambda n: (torch.randint(0, 20000, (n, 64)), torch.randn(n, 3, 224, 224)), large=64
    ),
    "soft_experts": Entry(programs.SoftExperts, lambda n: (torch.randn(n, 196, 384),), large=32),
    "interests": Entry(programs.Interests, programs.Interests.inputs, small=64, large=4096),
    "particles": Entry(programs.Particles, programs.Particles.inputs),
    "splines": Entry(programs.Splines, lambda n: (torch.rand(n, 64) * 2 - 1,), small=64, large=8192),
    "hashed_field": Entry(programs.HashedField, lambda n: (torch.rand(n, 3),), small=4096, large=262_144),
    "own_weights": Entry(programs.OwnWeights, pictures(128), large=32),
    "small_integers": Entry(programs.SmallIntegers, lambda n: (torch.randn(n, 1024),), large=32),
}

MODELS = {**TIMM, **TRANSFORMERS, **PROGRAMS}
