"""More of zoo_transformers.py: audio, several kinds of input, series, caches, symbolic sizes."""

import torch
from torch import nn

from zoo_transformers import AUDIO, DECODER, MODELS, TEXT, VISION, One, Three, Two, build, ids, image, last, text

# Audio.
for name, cls in dict(
    wav2vec2="Wav2Vec2", hubert="Hubert", wavlm="WavLM", unispeech="UniSpeech", data2vec="Data2VecAudio"
).items():
    MODELS[name] = lambda cls=cls: (One(build(f"{cls}Model", f"{cls}Config", **AUDIO), last), (torch.randn(1, 400),))
MODELS["wav2vec2_ctc"] = lambda: (
    One(
        build(
            "Wav2Vec2ForCTC",
            "Wav2Vec2Config",
            vocab_size=20,
            do_stable_layer_norm=True,
            feat_extract_norm="layer",
            **AUDIO,
        ),
        lambda m, x: m(x).logits,
    ),
    (torch.randn(2, 400),),
)
MODELS["sew"] = lambda: (One(build("SEWModel", "SEWConfig", squeeze_factor=2, **AUDIO), last), (torch.randn(1, 400),))
MODELS["sew_d"] = lambda: (
    One(
        build("SEWDModel", "SEWDConfig", squeeze_factor=2, position_buckets=8, max_position_embeddings=64, **AUDIO),
        last,
    ),
    (torch.randn(1, 400),),
)
MODELS["ast"] = lambda: (
    One(
        build(
            "ASTModel",
            "ASTConfig",
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=48,
            max_length=48,
            num_mel_bins=32,
            patch_size=16,
        ),
        last,
    ),
    (torch.randn(1, 48, 32),),
)
MODELS["dac"] = lambda: (
    One(
        build(
            "DacModel",
            "DacConfig",
            encoder_hidden_size=8,
            decoder_hidden_size=32,
            downsampling_ratios=[2, 4],
            upsampling_ratios=[4, 2],
            n_codebooks=2,
            codebook_size=32,
            codebook_dim=4,
        ),
        lambda m, x: m(x).audio_values,
    ),
    (torch.randn(1, 1, 64),),
)
MODELS["vits"] = lambda: (
    One(
        build(
            "VitsModel",
            "VitsConfig",
            vocab_size=99,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            ffn_dim=48,
            flow_size=16,
        ).text_encoder,
        lambda m, x: m(x, torch.ones(2, 11, 1)).last_hidden_state,
    ),
    (ids(2, 11),),
)
MODELS["speecht5_hifigan"] = lambda: (
    One(
        build(
            "SpeechT5HifiGan",
            "SpeechT5HifiGanConfig",
            model_in_dim=8,
            upsample_initial_channel=16,
            upsample_rates=[2, 2],
            upsample_kernel_sizes=[4, 4],
            resblock_kernel_sizes=[3],
            resblock_dilation_sizes=[[1, 3]],
        ),
        lambda m, x: m(x),
    ),
    (torch.randn(12, 8),),
)
MODELS["clap_audio"] = lambda: (
    One(
        build(
            "ClapAudioModel",
            "ClapAudioConfig",
            window_size=4,
            num_mel_bins=16,
            spec_size=32,
            patch_size=4,
            patch_stride=[4, 4],
            hidden_size=32,
            patch_embeds_hidden_size=8,
            depths=[1, 1],
            num_attention_heads=[2, 2],
            num_classes=5,
            enable_fusion=False,
        ),
        lambda m, x: m(x, is_longer=None).last_hidden_state,
    ),
    (torch.randn(1, 1, 64, 16),),
)

# Several kinds of input at once.
PAIR = dict(
    text_config=TEXT | dict(max_position_embeddings=20, bos_token_id=0, eos_token_id=98),
    vision_config=VISION,
    projection_dim=16,
)
MODELS["clip"] = lambda: (
    Two(
        build("CLIPModel", "CLIPConfig", **PAIR),
        lambda m, x, y: (lambda o: (o.logits_per_image, o.text_embeds))(m(input_ids=x, pixel_values=y)),
    ),
    (ids(2, 9), image(3)),
)
MODELS["siglip"] = lambda: (
    Two(
        build("SiglipModel", "SiglipConfig", text_config=TEXT | dict(max_position_embeddings=9), vision_config=VISION),
        lambda m, x, y: m(input_ids=x, pixel_values=y).logits_per_image,
    ),
    (ids(2, 9), image(3)),
)
MODELS["blip"] = lambda: (
    Two(
        build(
            "BlipForImageTextRetrieval",
            "BlipConfig",
            text_config=TEXT | dict(encoder_hidden_size=32),
            vision_config=VISION,
        ),
        lambda m, x, y: m(input_ids=x, pixel_values=y, use_itm_head=True).itm_score,
    ),
    (ids(1, 9), image(1)),
)
MODELS["bert_qa"] = lambda: (
    Two(
        build("BertForQuestionAnswering", "BertConfig", **TEXT), lambda m, x, y: dict(m(input_ids=x, attention_mask=y))
    ),
    (ids(2, 9), torch.ones(2, 9, dtype=torch.long)),
)
MODELS["layoutlm"] = lambda: (
    Two(build("LayoutLMModel", "LayoutLMConfig", **TEXT), lambda m, x, y: m(input_ids=x, bbox=y).last_hidden_state),
    (ids(2, 9), torch.randint(0, 100, (2, 9, 2)).repeat(1, 1, 2).cumsum(-1)),
)
MODELS["lxmert"] = lambda: (
    Three(
        build(
            "LxmertModel",
            "LxmertConfig",
            vocab_size=99,
            hidden_size=32,
            num_attention_heads=4,
            intermediate_size=48,
            l_layers=1,
            x_layers=1,
            r_layers=1,
            visual_feat_dim=12,
        ),
        lambda m, x, y, z: (lambda o: (o.language_output, o.vision_output))(
            m(input_ids=x, visual_feats=y, visual_pos=z)
        ),
    ),
    (ids(1, 9), torch.randn(1, 5, 12), torch.rand(1, 5, 4)),
)
MODELS["visual_bert"] = lambda: (
    Two(
        build("VisualBertModel", "VisualBertConfig", visual_embedding_dim=12, **TEXT),
        lambda m, x, y: m(input_ids=x, visual_embeds=y).last_hidden_state,
    ),
    (ids(1, 9), torch.randn(1, 5, 12)),
)
MODELS["perceiver"] = lambda: (
    One(
        build(
            "PerceiverModel",
            "PerceiverConfig",
            num_latents=8,
            d_latents=16,
            d_model=24,
            num_blocks=1,
            num_self_attends_per_block=2,
            num_self_attention_heads=4,
            num_cross_attention_heads=4,
        ),
        last,
    ),
    (torch.randn(1, 10, 24),),
)

# Time series.
SERIES = dict(
    prediction_length=4,
    context_length=12,
    lags_sequence=[1, 2],
    num_time_features=1,
    d_model=16,
    encoder_layers=1,
    decoder_layers=1,
    encoder_attention_heads=2,
    decoder_attention_heads=2,
    encoder_ffn_dim=24,
    decoder_ffn_dim=24,
)


def series(cls, **settings):
    class Forecast(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = build(f"{cls}Model", f"{cls}Config", **SERIES, **settings)

        def forward(self, values, times, observed, later, later_times):
            return self.model(
                past_values=values,
                past_time_features=times,
                past_observed_mask=observed,
                future_values=later,
                future_time_features=later_times,
                use_cache=False,
            ).last_hidden_state

    return Forecast(), (
        torch.randn(2, 14),
        torch.randn(2, 14, 1),
        torch.ones(2, 14),
        torch.randn(2, 4),
        torch.randn(2, 4, 1),
    )


MODELS["time_series_transformer"] = lambda: series("TimeSeriesTransformer")
MODELS["informer"] = lambda: series("Informer", attention_type="full")
MODELS["patchtst"] = lambda: (
    One(
        build(
            "PatchTSTForPrediction",
            "PatchTSTConfig",
            num_input_channels=2,
            context_length=16,
            patch_length=4,
            patch_stride=4,
            prediction_length=4,
            d_model=16,
            num_attention_heads=2,
            ffn_dim=24,
            num_hidden_layers=1,
            loss="mse",
        ),
        lambda m, x: m(past_values=x).prediction_outputs,
    ),
    (torch.randn(2, 16, 2),),
)
MODELS["patchtsmixer"] = lambda: (
    One(
        build(
            "PatchTSMixerForPrediction",
            "PatchTSMixerConfig",
            num_input_channels=2,
            context_length=16,
            patch_length=4,
            patch_stride=4,
            prediction_length=4,
            d_model=8,
            num_layers=1,
            loss="mse",
        ),
        lambda m, x: m(past_values=x).prediction_outputs,
    ),
    (torch.randn(2, 16, 2),),
)
MODELS["decision_transformer"] = lambda: (
    Three(
        build(
            "DecisionTransformerModel",
            "DecisionTransformerConfig",
            state_dim=5,
            act_dim=3,
            hidden_size=32,
            n_layer=1,
            n_head=4,
            max_ep_len=30,
        ),
        lambda m, s, a, r: m(
            states=s,
            actions=a,
            rewards=r,
            returns_to_go=r,
            timesteps=torch.arange(4)[None],
            attention_mask=torch.ones(1, 4),
        ).action_preds,
    ),
    (torch.randn(1, 4, 5), torch.randn(1, 4, 3), torch.randn(1, 4, 1)),
)


# Caches of keys and values, in and out.
class Cached(nn.Module):
    def __init__(self, cls="LlamaForCausalLM", config="LlamaConfig"):
        super().__init__()
        self.model = build(cls, config, **(TEXT | dict(num_key_value_heads=2)))

    def forward(self, x, past):
        import transformers

        cache = transformers.DynamicCache()
        for i, (k, v) in enumerate(past):
            cache.update(k, v, i)
        out = self.model(x, past_key_values=cache, use_cache=True)
        return out.logits, [(layer.keys, layer.values) for layer in out.past_key_values.layers]


def keys_and_values(n, batch=2, layers=2):
    return [(torch.randn(batch, 2, n, 8), torch.randn(batch, 2, n, 8)) for _ in range(layers)]


def cached_dynamic():
    n = torch.export.Dim.AUTO
    return (
        Cached(),
        (ids(2, 1), keys_and_values(7)),
        (None, [({2: n}, {2: n})] * 2),
        [(ids(2, 1), keys_and_values(3)), (ids(2, 1), keys_and_values(20))],
    )


def prefill():
    n = torch.export.Dim("n", min=2, max=64)
    call = lambda m, x: (lambda o: (o.logits, [(layer.keys, layer.values) for layer in o.past_key_values.layers]))(
        m(x, use_cache=True)
    )
    return (
        One(build("LlamaForCausalLM", "LlamaConfig", **(TEXT | dict(num_key_value_heads=2))), call),
        (ids(2, 9),),
        ({1: n},),
        [(ids(2, 3),), (ids(2, 30),)],
    )


def static_cache():
    """transformers' own module for export: a cache of fixed size as buffers that a call writes to."""
    import transformers
    from transformers.integrations.executorch import TorchExportableModuleWithStaticCache

    config = transformers.LlamaConfig(**(TEXT | dict(num_key_value_heads=2)))
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config).eval()
    model.generation_config = transformers.GenerationConfig(
        use_cache=True,
        cache_implementation="static",
        max_length=16,
        cache_config={"batch_size": 1, "max_cache_len": 16, "device": "cpu"},
    )
    return Two(
        TorchExportableModuleWithStaticCache(model, batch_size=1, max_cache_len=16, device=torch.device("cpu")),
        lambda m, x, p: m(input_ids=x, cache_position=p),
    ), (ids(1, 1), torch.tensor([3]))


def decoder_dynamic(cls="LlamaForCausalLM", config="LlamaConfig", **settings):
    n, b = torch.export.Dim("n", min=2, max=64), torch.export.Dim("b", min=1, max=8)
    settings = settings or dict(num_key_value_heads=2, use_cache=False, **TEXT)
    return (
        One(build(cls, config, **settings), lambda m, x: m(x).logits),
        (ids(2, 9),),
        ({0: b, 1: n},),
        [(ids(1, 4),), (ids(3, 33),)],
    )


MODELS |= {
    "llama_cache": lambda: (Cached(), (ids(2, 1), keys_and_values(7))),
    "qwen2_cache": lambda: (Cached("Qwen2ForCausalLM", "Qwen2Config"), (ids(2, 3), keys_and_values(7))),
    "llama_cache_dynamic": cached_dynamic,
    "llama_prefill": prefill,
    "llama_static_cache": static_cache,
    "llama_dynamic": decoder_dynamic,
    "gpt2_dynamic": lambda: decoder_dynamic(
        "GPT2LMHeadModel", "GPT2Config", n_embd=32, n_layer=2, n_head=4, vocab_size=99, use_cache=False
    ),
    "qwen3_dynamic": lambda: decoder_dynamic("Qwen3ForCausalLM", "Qwen3Config", head_dim=8, **DECODER),
    "bloom_dynamic": lambda: decoder_dynamic(
        "BloomForCausalLM", "BloomConfig", hidden_size=32, n_layer=2, n_head=4, vocab_size=99, use_cache=False
    ),
}


def dynamic_image(name, size, other, **settings):
    """Batch, height and width free."""
    d = torch.export.Dim
    return (
        One(build(name + "Model", name + "Config", **settings), last),
        (image(2, size),),
        ({0: d("n", min=1, max=8), 2: d.AUTO, 3: d.AUTO},),
        [(image(1, other),)],
    )


MODELS["convnext_dynamic"] = lambda: dynamic_image(
    "ConvNext", 64, 96, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1]
)
MODELS["resnet_dynamic"] = lambda: dynamic_image(
    "ResNet", 64, 96, embedding_size=8, hidden_sizes=[16, 32, 32, 64], depths=[1, 1, 1, 1]
)

# Attention and state spaces side by side, and experts of other kinds.
STATES = dict(mamba_n_heads=8, mamba_d_head=8, mamba_n_groups=1, mamba_d_state=8, mamba_chunk_size=4)
EXPERTS = dict(num_experts_per_tok=2, moe_intermediate_size=16)
text(
    "jamba",
    "JambaModel",
    num_experts=4,
    num_experts_per_tok=2,
    attn_layer_period=2,
    attn_layer_offset=1,
    expert_layer_period=2,
    expert_layer_offset=1,
    mamba_d_state=4,
    mamba_dt_rank=4,
    use_mamba_kernels=False,
    **DECODER,
)
text("bamba", "BambaModel", attn_layer_indices=[1], **STATES, **DECODER)
text(
    "zamba2",
    "Zamba2Model",
    use_cache=False,
    mamba_d_state=8,
    n_mamba_heads=4,
    mamba_headdim=16,
    chunk_size=4,
    layers_block_type=["mamba", "hybrid"],
    num_mem_blocks=1,
    hybrid_layer_ids=[1],
    **TEXT,
)
text(
    "granite_moe_hybrid",
    "GraniteMoeHybridModel",
    layer_types=["mamba", "attention"],
    num_local_experts=4,
    num_experts_per_tok=2,
    shared_intermediate_size=32,
    **STATES,
    **DECODER,
)
text(
    "deepseek_v2",
    "DeepseekV2Model",
    q_lora_rank=16,
    kv_lora_rank=16,
    qk_nope_head_dim=8,
    qk_rope_head_dim=8,
    v_head_dim=8,
    n_routed_experts=4,
    first_k_dense_replace=1,
    n_group=1,
    topk_group=1,
    **EXPERTS,
    **DECODER | {"num_key_value_heads": 4},
)
text(
    "glm4_moe",
    "Glm4MoeModel",
    head_dim=8,
    n_routed_experts=4,
    first_k_dense_replace=1,
    n_group=1,
    topk_group=1,
    **EXPERTS,
    **DECODER,
)
text("phimoe", "PhimoeModel", num_local_experts=4, **DECODER)
text("minimax", "MiniMaxModel", head_dim=8, num_local_experts=4, block_size=4, **DECODER)
text(
    "qwen3_next",
    "Qwen3NextModel",
    head_dim=8,
    linear_num_value_heads=4,
    linear_num_key_heads=2,
    linear_key_head_dim=8,
    linear_value_head_dim=8,
    num_experts=4,
    shared_expert_intermediate_size=16,
    layer_types=["linear_attention", "full_attention"],
    **EXPERTS,
    **DECODER,
)

# Sound by convolutions and attention, and films.
MODELS["wav2vec2_bert"] = lambda: (
    One(
        build(
            "Wav2Vec2BertModel",
            "Wav2Vec2BertConfig",
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=48,
            feature_projection_input_dim=16,
            conv_depthwise_kernel_size=7,
            add_adapter=False,
        ),
        last,
    ),
    (torch.randn(2, 20, 16),),
)
MODELS["wav2vec2_conformer"] = lambda: (
    One(build("Wav2Vec2ConformerModel", "Wav2Vec2ConformerConfig", **AUDIO), last),
    (torch.randn(2, 800),),
)
MODELS["moonshine"] = lambda: (
    One(
        build(
            "MoonshineModel",
            "MoonshineConfig",
            hidden_size=32,
            encoder_num_hidden_layers=2,
            decoder_num_hidden_layers=2,
            encoder_num_attention_heads=4,
            decoder_num_attention_heads=4,
            intermediate_size=48,
            vocab_size=99,
        ),
        lambda m, x: m.encoder(x).last_hidden_state,
    ),
    (torch.randn(1, 4000),),
)
FILM = dict(
    hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=16, num_frames=4
)
for name, cls, settings in [
    ("timesformer", "Timesformer", {"patch_size": 8}),
    ("videomae", "VideoMAE", {"patch_size": 8}),
    ("vivit", "Vivit", {"tubelet_size": [2, 8, 8]}),
]:
    MODELS[name] = lambda cls=cls, settings=settings: (
        One(build(f"{cls}Model", f"{cls}Config", **settings, **FILM), last),
        (torch.randn(1, 4, 3, 16, 16),),
    )
