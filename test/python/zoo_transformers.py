"""Architectures of the `transformers` library for `zoo.py`: small configurations, random weights. Name -> a function
that makes (module, args[, dynamic shapes, more args to run]).
"""

import torch
from torch import nn

MODELS = {}

TEXT = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, vocab_size=99)
DECODER = dict(num_key_value_heads=2, use_cache=False, **TEXT)
SEQ2SEQ = dict(
    vocab_size=99,
    d_model=32,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=48,
    decoder_ffn_dim=48,
)
VISION = dict(
    hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=32, patch_size=8
)
AUDIO = dict(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=48,
    conv_dim=[16, 16],
    conv_kernel=[10, 3],
    conv_stride=[5, 2],
    num_conv_pos_embeddings=16,
    num_conv_pos_embedding_groups=4,
    num_feat_extract_layers=2,
)


class One(nn.Module):
    """A model called by `call(model, x)`."""

    def __init__(self, model, call):
        super().__init__()
        self.model, self.call = model, call

    def forward(self, x):
        return self.call(self.model, x)


class Two(One):
    def forward(self, x, y):
        return self.call(self.model, x, y)


class Three(One):
    def forward(self, x, y, z):
        return self.call(self.model, x, y, z)


def ids(*shape):
    return torch.randint(3, 90, shape)


def image(n=1, size=32):
    return torch.randn(n, 3, size, size)


def build(name, config, **settings):
    import transformers

    torch.manual_seed(0)
    return getattr(transformers, name)(getattr(transformers, config)(**settings)).eval()


def last(model, x):
    return model(x).last_hidden_state


def text(name, cls, call=last, shape=(2, 11), config=None, **settings):
    MODELS[name] = lambda: (
        One(build(cls, config or cls.removesuffix("Model") + "Config", **settings), call),
        (ids(*shape),),
    )


def vision(name, cls, size=32, call=last, config=None, **settings):
    MODELS[name] = lambda: (
        One(build(cls, config or cls.removesuffix("Model") + "Config", **settings), call),
        (image(1, size),),
    )


def encoder_decoder(name, cls, **settings):
    # Masks are given: some of the models make none themselves.
    call = lambda m, x, y: m(
        input_ids=x,
        attention_mask=torch.ones_like(x),
        decoder_input_ids=y,
        decoder_attention_mask=torch.ones_like(y),
        use_cache=False,
    ).last_hidden_state
    MODELS[name] = lambda: (
        Two(build(cls, cls.removesuffix("Model") + "Config", **settings), call),
        (ids(2, 9), ids(2, 5)),
    )


# Encoders of text.
text("bert", "BertModel", call=lambda m, x: (lambda o: (o.last_hidden_state, o.pooler_output))(m(x)), **TEXT)
text(
    "bert_hidden_states",
    "BertModel",
    call=lambda m, x: dict(m(x, output_hidden_states=True, output_attentions=True)),
    attn_implementation="eager",
    **TEXT,
)
text("electra", "ElectraModel", embedding_size=16, **TEXT)
text("deberta", "DebertaModel", relative_attention=True, max_relative_positions=16, pos_att_type=["p2c", "c2p"], **TEXT)
text("deberta_v2", "DebertaV2Model", relative_attention=True, position_buckets=16, pos_att_type=["p2c", "c2p"], **TEXT)
text("mpnet", "MPNetModel", **TEXT)
text("ernie", "ErnieModel", **TEXT)
text("camembert", "CamembertModel", **TEXT)
text("rembert", "RemBertModel", input_embedding_size=16, **TEXT)
text("nezha_like_roformer", "RoFormerModel", embedding_size=32, **TEXT)
text("megatron_bert", "MegatronBertModel", **TEXT)
text(
    "mobilebert",
    "MobileBertModel",
    **(TEXT | dict(hidden_size=32, intra_bottleneck_size=16, embedding_size=16, num_feedforward_networks=2)),
)
text("ibert", "IBertModel", **TEXT)
text("modernbert", "ModernBertModel", pad_token_id=0, **TEXT)
text("xlnet", "XLNetModel", d_model=32, n_layer=2, n_head=4, d_inner=48, vocab_size=99)
text("xlm", "XLMModel", emb_dim=32, n_layers=2, n_heads=4, vocab_size=99)
text("flaubert", "FlaubertModel", emb_dim=32, n_layers=2, n_heads=4, vocab_size=99)
text("squeezebert", "SqueezeBertModel", **(TEXT | dict(embedding_size=32)))
text("fnet", "FNetModel", hidden_size=32, num_hidden_layers=2, intermediate_size=48, vocab_size=99)
text(
    "funnel",
    "FunnelBaseModel",
    config="FunnelConfig",
    vocab_size=99,
    block_sizes=[1, 1],
    d_model=32,
    n_head=4,
    d_head=8,
    d_inner=48,
)
text("bigbird", "BigBirdModel", attention_type="original_full", **TEXT)
text(
    "bigbird_sparse",
    "BigBirdModel",
    shape=(1, 64),
    attention_type="block_sparse",
    block_size=4,
    num_random_blocks=2,
    **TEXT,
)
text("convbert", "ConvBertModel", embedding_size=32, **TEXT)
text("nystromformer", "NystromformerModel", num_landmarks=12, segment_means_seq_len=12, shape=(2, 12), **TEXT)
text("yoso", "YosoModel", use_expectation=True, **TEXT)
text("mra_like_luke", "LukeModel", entity_vocab_size=20, entity_emb_size=16, **TEXT)
text(
    "canine",
    "CanineModel",
    shape=(1, 32),
    downsampling_rate=4,
    local_transformer_stride=8,
    num_hash_buckets=64,
    **{k: v for k, v in TEXT.items() if k != "vocab_size"},
)
text(
    "reformer",
    "ReformerModel",
    shape=(1, 32),
    attention_head_size=8,
    hidden_size=32,
    num_attention_heads=4,
    feed_forward_size=48,
    vocab_size=99,
    axial_pos_shape=[4, 8],
    axial_pos_embds_dim=[16, 16],
    attn_layers=["local", "local"],
    local_attn_chunk_length=8,
    num_buckets=None,
    use_cache=False,
    max_position_embeddings=32,
    is_decoder=False,
)
text("esm", "EsmModel", pad_token_id=1, **TEXT)
text("bert_mask_dyn_layout", "LayoutLMModel", **TEXT)
text("tapas", "TapasModel", **TEXT)
text("roc_bert", "RoCBertModel", config="RoCBertConfig", enable_pronunciation=False, enable_shape=False, **TEXT)
text("splinter", "SplinterModel", **TEXT)
text("xmod", "XmodModel", default_language="en_XX", **TEXT)
text("bros_like_markuplm", "MarkupLMModel", **TEXT)

# Decoders of text.
for name, cls in dict(
    mistral="Mistral",
    gemma="Gemma",
    gemma2="Gemma2",
    gemma3="Gemma3Text",
    qwen2="Qwen2",
    qwen3="Qwen3",
    phi3="Phi3",
    phi="Phi",
    stablelm="StableLm",
    olmo="Olmo",
    olmo2="Olmo2",
    granite="Granite",
    cohere="Cohere",
    cohere2="Cohere2",
    starcoder2="Starcoder2",
    glm="Glm",
    nemotron="Nemotron",
    persimmon="Persimmon",
    helium="Helium",
    smollm3="SmolLM3",
    exaone4="Exaone4",
    ernie45="Ernie4_5",
    seed_oss="SeedOss",
    hunyuan="HunYuanDenseV1",
    arcee="Arcee",
    diffllama="DiffLlama",
    bitnet="BitNet",
).items():
    more = (
        dict(head_dim=8)
        if name in ("gemma", "gemma2", "gemma3", "qwen3", "glm", "helium", "hunyuan", "seed_oss", "ernie45")
        else {}
    )
    if name in ("phi3", "glm", "smollm3"):
        more["pad_token_id"] = 0
    text(name, f"{cls}Model", **more, **DECODER)
text("gptneox", "GPTNeoXModel", use_cache=False, **TEXT)
text(
    "gptneo",
    "GPTNeoModel",
    hidden_size=32,
    num_layers=2,
    num_heads=4,
    attention_types=[[["global", "local"], 1]],
    vocab_size=99,
    window_size=4,
    use_cache=False,
)
text("bloom", "BloomModel", hidden_size=32, n_layer=2, n_head=4, vocab_size=99, use_cache=False)
text("falcon", "FalconModel", **(DECODER | dict(alibi=False)))
text("falcon_alibi", "FalconModel", **(DECODER | dict(alibi=True)))
text("mpt", "MptModel", d_model=32, n_heads=4, n_layers=2, vocab_size=99, use_cache=False)
text("gptj", "GPTJModel", n_embd=32, n_layer=2, n_head=4, rotary_dim=4, vocab_size=99, use_cache=False)
text("codegen", "CodeGenModel", n_embd=32, n_layer=2, n_head=4, rotary_dim=4, vocab_size=99, use_cache=False)
text("gpt_bigcode", "GPTBigCodeModel", n_embd=32, n_layer=2, n_head=4, vocab_size=99, use_cache=False)
text("ctrl", "CTRLModel", n_embd=32, n_layer=2, n_head=4, dff=48, vocab_size=99, use_cache=False)
text("openai_gpt", "OpenAIGPTModel", n_embd=32, n_layer=2, n_head=4, vocab_size=99)
text("biogpt", "BioGptModel", **(TEXT | dict(use_cache=False)))
text("xglm", "XGLMModel", vocab_size=99, d_model=32, num_layers=2, attention_heads=4, ffn_dim=48, use_cache=False)
text(
    "opt",
    "OPTModel",
    hidden_size=32,
    word_embed_proj_dim=16,
    ffn_dim=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    vocab_size=99,
    use_cache=False,
)
text(
    "llama_rope_scaled",
    "LlamaModel",
    rope_parameters=dict(
        rope_type="llama3",
        rope_theta=10000.0,
        factor=8.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position_embeddings=16,
    ),
    **DECODER,
)
text(
    "gpt2_lm",
    "GPT2LMHeadModel",
    config="GPT2Config",
    call=lambda m, x: m(x, labels=x).loss,
    shape=(2, 9),
    n_embd=32,
    n_layer=2,
    n_head=4,
    vocab_size=99,
    use_cache=False,
)
text(
    "deepseek_v3",
    "DeepseekV3Model",
    n_routed_experts=4,
    n_group=2,
    topk_group=1,
    num_experts_per_tok=2,
    moe_intermediate_size=16,
    q_lora_rank=8,
    kv_lora_rank=8,
    qk_rope_head_dim=4,
    qk_nope_head_dim=4,
    v_head_dim=8,
    first_k_dense_replace=1,
    **(DECODER | dict(num_key_value_heads=4)),
)

# Mixtures of experts.
text("mixtral", "MixtralModel", num_local_experts=4, **DECODER)
text(
    "qwen2_moe",
    "Qwen2MoeModel",
    num_experts=4,
    num_experts_per_tok=2,
    moe_intermediate_size=16,
    shared_expert_intermediate_size=16,
    **DECODER,
)
text(
    "qwen3_moe", "Qwen3MoeModel", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, head_dim=8, **DECODER
)
text("olmoe", "OlmoeModel", num_experts=4, num_experts_per_tok=2, **DECODER)
text("gpt_oss", "GptOssModel", num_local_experts=4, num_experts_per_tok=2, head_dim=8, **DECODER)
text("granitemoe", "GraniteMoeModel", num_local_experts=4, num_experts_per_tok=2, **DECODER)

# State spaces and recurrences.
text("mamba", "MambaModel", hidden_size=32, num_hidden_layers=2, vocab_size=99, state_size=4, use_cache=False)
text(
    "mamba2",
    "Mamba2Model",
    hidden_size=32,
    num_hidden_layers=2,
    vocab_size=99,
    state_size=8,
    num_heads=8,
    head_dim=8,
    n_groups=2,
    chunk_size=8,
    use_cache=False,
)
text(
    "falcon_mamba",
    "FalconMambaModel",
    hidden_size=32,
    num_hidden_layers=2,
    vocab_size=99,
    state_size=4,
    use_cache=False,
)
text("rwkv", "RwkvModel", hidden_size=32, num_hidden_layers=2, vocab_size=99, attention_hidden_size=32, use_cache=False)
text(
    "recurrent_gemma",
    "RecurrentGemmaModel",
    attention_window_size=8,
    lru_width=32,
    head_dim=8,
    num_key_value_heads=1,
    **(TEXT | dict(use_cache=False, num_hidden_layers=3)),
)
text("lfm2", "Lfm2Model", **(DECODER | dict(layer_types=["conv", "full_attention"])))

# Encoders with decoders.
encoder_decoder("t5", "T5Model", vocab_size=99, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
encoder_decoder("mt5", "MT5Model", vocab_size=99, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
encoder_decoder("umt5", "UMT5Model", vocab_size=99, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
encoder_decoder(
    "longt5", "LongT5Model", vocab_size=99, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, local_radius=3
)
encoder_decoder("bart", "BartModel", **SEQ2SEQ)
encoder_decoder("mbart", "MBartModel", **SEQ2SEQ)
encoder_decoder("blenderbot", "BlenderbotModel", **SEQ2SEQ)
encoder_decoder("pegasus", "PegasusModel", **SEQ2SEQ)
encoder_decoder("marian", "MarianModel", pad_token_id=0, **SEQ2SEQ)
encoder_decoder("m2m100", "M2M100Model", **SEQ2SEQ)
encoder_decoder("plbart", "PLBartModel", **SEQ2SEQ)
encoder_decoder(
    "prophetnet",
    "ProphetNetModel",
    vocab_size=99,
    hidden_size=32,
    num_encoder_layers=2,
    num_decoder_layers=2,
    num_encoder_attention_heads=4,
    num_decoder_attention_heads=4,
    encoder_ffn_dim=48,
    decoder_ffn_dim=48,
)
MODELS["whisper"] = lambda: (
    Two(
        build(
            "WhisperModel",
            "WhisperConfig",
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
            num_mel_bins=8,
            max_source_positions=20,
            **SEQ2SEQ,
        ),
        lambda m, x, y: m(input_features=x, decoder_input_ids=y, use_cache=False).last_hidden_state,
    ),
    (torch.randn(1, 8, 40), ids(1, 5)),
)
MODELS["speech_to_text"] = lambda: (
    Two(
        build(
            "Speech2TextModel",
            "Speech2TextConfig",
            pad_token_id=1,
            input_feat_per_channel=8,
            conv_channels=16,
            **SEQ2SEQ,
        ),
        lambda m, x, y: m(input_features=x, decoder_input_ids=y, use_cache=False).last_hidden_state,
    ),
    (torch.randn(1, 24, 8), ids(1, 5)),
)

# Vision.
vision("deit", "DeiTModel", **VISION)
vision("beit", "BeitModel", **VISION)
vision("dinov2", "Dinov2Model", **VISION)
vision("dinov2_registers", "Dinov2WithRegistersModel", num_register_tokens=2, **VISION)
vision("vit_msn", "ViTMSNModel", **VISION)
vision("ijepa", "IJepaModel", **VISION)
vision("yolos", "YolosModel", **(VISION | dict(image_size=[32, 32], num_detection_tokens=4)))
vision("swin", "SwinModel", image_size=32, patch_size=4, embed_dim=16, depths=[2, 1], num_heads=[2, 4], window_size=4)
vision(
    "swin_padded",
    "SwinModel",
    size=40,
    image_size=40,
    patch_size=4,
    embed_dim=16,
    depths=[2, 1],
    num_heads=[2, 4],
    window_size=4,
)
vision(
    "swinv2", "Swinv2Model", image_size=32, patch_size=4, embed_dim=16, depths=[2, 1], num_heads=[2, 4], window_size=4
)
vision("swin2sr", "Swin2SRModel", image_size=16, size=16, embed_dim=16, depths=[2, 1], num_heads=[2, 4], window_size=4)
vision(
    "donut_swin",
    "DonutSwinModel",
    image_size=32,
    patch_size=4,
    embed_dim=16,
    depths=[2, 1],
    num_heads=[2, 4],
    window_size=4,
)
vision("convnext", "ConvNextModel", size=64, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1])
vision("convnextv2", "ConvNextV2Model", size=64, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1])
vision(
    "efficientnet",
    "EfficientNetModel",
    size=64,
    width_coefficient=0.3,
    depth_coefficient=0.3,
    hidden_dim=384,
    image_size=64,
)
vision("regnet", "RegNetModel", embedding_size=8, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], groups_width=8)
vision("bit", "BitModel", size=64, embedding_size=8, hidden_sizes=[32, 32, 32, 64], depths=[1, 1, 1, 1], num_groups=4)
vision("mobilenetv1", "MobileNetV1Model", size=64, depth_multiplier=0.25)
vision(
    "segformer",
    "SegformerForSemanticSegmentation",
    config="SegformerConfig",
    size=64,
    call=lambda m, x: m(x).logits,
    depths=[1, 1, 1, 1],
    hidden_sizes=[8, 16, 16, 32],
    num_attention_heads=[1, 2, 2, 4],
    decoder_hidden_size=16,
)
vision(
    "glpn",
    "GLPNForDepthEstimation",
    config="GLPNConfig",
    size=64,
    call=lambda m, x: m(x).predicted_depth,
    depths=[1, 1, 1, 1],
    hidden_sizes=[8, 16, 16, 32],
    num_attention_heads=[1, 2, 2, 4],
    decoder_hidden_size=16,
)
vision(
    "dpt",
    "DPTForDepthEstimation",
    config="DPTConfig",
    size=64,
    call=lambda m, x: m(x).predicted_depth,
    **(
        VISION
        | dict(
            image_size=64,
            patch_size=16,
            num_hidden_layers=4,
            backbone_out_indices=[0, 1, 2, 3],
            neck_hidden_sizes=[8, 16, 16, 16],
            fusion_hidden_size=16,
        )
    ),
)
vision(
    "beit_segmentation",
    "BeitForSemanticSegmentation",
    config="BeitConfig",
    size=64,
    call=lambda m, x: m(x).logits,
    **(VISION | dict(image_size=64, patch_size=16, num_hidden_layers=4, out_indices=[1, 2, 3, 4])),
)
vision(
    "mobilevit",
    "MobileViTModel",
    size=64,
    image_size=64,
    hidden_sizes=[16, 24, 32],
    neck_hidden_sizes=[8, 8, 16, 16, 24, 32, 40],
    num_attention_heads=2,
)
vision("mobilevitv2", "MobileViTV2Model", size=64, image_size=64, width_multiplier=0.25, n_attn_blocks=[1, 1, 1])
vision(
    "pvt",
    "PvtModel",
    size=64,
    image_size=64,
    hidden_sizes=[8, 16, 24, 32],
    depths=[1, 1, 1, 1],
    num_attention_heads=[1, 2, 4, 4],
)
vision(
    "pvt_v2",
    "PvtV2Model",
    size=64,
    image_size=64,
    hidden_sizes=[8, 16, 24, 32],
    depths=[1, 1, 1, 1],
    num_attention_heads=[1, 2, 4, 4],
)
vision(
    "levit",
    "LevitModel",
    size=64,
    image_size=64,
    hidden_sizes=[16, 32, 48],
    num_attention_heads=[2, 4, 6],
    depths=[1, 1, 1],
    key_dim=[8, 8, 8],
)
vision("poolformer", "PoolFormerModel", size=64, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1])
vision(
    "cvt",
    "CvtModel",
    size=64,
    embed_dim=[8, 16, 32],
    num_heads=[1, 2, 4],
    depth=[1, 2, 3],
    drop_path_rate=[0.0, 0.0, 0.1],
)
vision(
    "focalnet",
    "FocalNetModel",
    image_size=32,
    embed_dim=16,
    depths=[1, 1],
    hidden_sizes=[16, 32],
    focal_levels=[2, 2],
    focal_windows=[3, 3],
)
vision("swiftformer", "SwiftFormerModel", size=64, image_size=64, embed_dims=[8, 16, 24, 32], depths=[1, 1, 1, 1])
vision(
    "hiera",
    "HieraModel",
    image_size=[32, 32],
    embed_dim=16,
    depths=[1, 1, 1],
    num_heads=[1, 2, 4],
    patch_stride=[4, 4],
    masked_unit_size=[4, 4],
    query_stride=[2, 2],
    num_query_pool=2,
)
vision(
    "dinat_like_vitdet",
    "VitDetModel",
    **(VISION | dict(window_block_indices=[0], residual_block_indices=[], window_size=3)),
)
vision(
    "sam_vision",
    "SamVisionModel",
    config="SamVisionConfig",
    size=64,
    call=lambda m, x: m(x)[0],
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    image_size=64,
    patch_size=16,
    output_channels=16,
    window_size=2,
    global_attn_indexes=[1],
    mlp_dim=48,
)
vision(
    "yolo_timm_free_rt_resnet",
    "RTDetrResNetBackbone",
    config="RTDetrResNetConfig",
    size=64,
    call=lambda m, x: m(x).feature_maps,
    embedding_size=8,
    hidden_sizes=[16, 16, 32, 32],
    depths=[1, 1, 1, 1],
)
vision(
    "vit_mae",
    "ViTMAEModel",
    call=lambda m, x: m(x, noise=torch.arange(16.0)[None] * 7 % 16).last_hidden_state,
    mask_ratio=0.5,
    **VISION,
)
vision(
    "levit_classify",
    "ResNetForImageClassification",
    config="ResNetConfig",
    size=64,
    call=lambda m, x: m(x).logits.softmax(-1),
    embedding_size=8,
    hidden_sizes=[16, 32, 32, 64],
    depths=[1, 1, 1, 1],
)
vision(
    "superpoint_like_depth_anything",
    "DepthAnythingForDepthEstimation",
    config="DepthAnythingConfig",
    size=28,
    call=lambda m, x: m(x).predicted_depth,
    reassemble_hidden_size=32,
    patch_size=14,
    neck_hidden_sizes=[8, 8],
    fusion_hidden_size=8,
    head_hidden_size=8,
    reassemble_factors=[2, 1],
    backbone_config=dict(
        model_type="dinov2",
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=28,
        patch_size=14,
        out_features=["stage1", "stage2"],
        reshape_hidden_states=False,
    ),
)


def detr():
    import transformers

    backbone = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[16, 16, 32, 32], depths=[1, 1, 1, 1], out_features=["stage4"]
    )
    config = transformers.DetrConfig(
        use_timm_backbone=False,
        backbone_config=backbone,
        backbone=None,
        use_pretrained_backbone=False,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        num_queries=5,
    )
    torch.manual_seed(0)
    return One(
        transformers.DetrForObjectDetection(config).eval(), lambda m, x: (lambda o: (o.logits, o.pred_boxes))(m(x))
    ), (image(1, 64),)


def deformable_detr():
    import transformers

    backbone = transformers.ResNetConfig(
        embedding_size=8,
        hidden_sizes=[16, 16, 32, 32],
        depths=[1, 1, 1, 1],
        out_features=["stage2", "stage3", "stage4"],
    )
    config = transformers.DeformableDetrConfig(
        use_timm_backbone=False,
        backbone_config=backbone,
        backbone=None,
        use_pretrained_backbone=False,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        num_queries=5,
        num_feature_levels=3,
    )
    torch.manual_seed(0)
    return One(transformers.DeformableDetrModel(config).eval(), last), (image(1, 64),)


def maskformer():
    import transformers

    backbone = transformers.SwinConfig(
        image_size=64,
        patch_size=4,
        embed_dim=8,
        depths=[1, 1, 1, 1],
        num_heads=[1, 2, 2, 4],
        window_size=4,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )
    config = transformers.Mask2FormerConfig(
        backbone_config=backbone,
        feature_size=32,
        mask_feature_size=32,
        hidden_dim=32,
        encoder_feedforward_dim=24,
        encoder_layers=1,
        decoder_layers=2,
        num_attention_heads=4,
        dim_feedforward=24,
        num_queries=5,
        use_pretrained_backbone=False,
    )
    torch.manual_seed(0)
    return One(
        transformers.Mask2FormerForUniversalSegmentation(config).eval(),
        lambda m, x: (lambda o: (o.class_queries_logits, o.masks_queries_logits))(m(x)),
    ), (image(1, 64),)


MODELS |= {"detr": detr, "deformable_detr": deformable_detr, "mask2former": maskformer}
