"""More architectures of the `transformers` library for `zoo.py`, made small by a table of sizes. Name -> a function
that makes (module, args).

A configuration gets the table's value for each field that it has, inside too; weights that are all alike are made to
differ, because routers and scorers begin as zeros, and of equal scores top-k takes any.
"""

import inspect

import torch
from torch import nn

from zoo_transformers import ids, image

MODELS = {}

SIZES = dict(
    hidden_size=32,
    d_model=32,
    dim=32,
    n_embd=32,
    embed_dim=32,
    emb_dim=32,
    embedding_size=32,
    intermediate_size=48,
    ffn_dim=48,
    encoder_ffn_dim=48,
    decoder_ffn_dim=48,
    d_ff=48,
    d_kv=8,
    dff=48,
    mlp_dim=48,
    out_hidden_size=32,
    projection_dim=16,
    num_hidden_layers=2,
    num_layers=2,
    n_layer=2,
    n_layers=2,
    encoder_layers=2,
    decoder_layers=2,
    num_encoder_layers=2,
    num_decoder_layers=2,
    depth=2,
    depths=[1, 1, 1, 1],
    hidden_sizes=[8, 16, 16, 32],
    num_attention_heads=4,
    n_head=4,
    n_heads=4,
    num_heads=4,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    num_global_key_value_heads=2,
    global_head_dim=8,
    sliding_window=6,
    vocab_size=99,
    entity_vocab_size=20,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    max_position_embeddings=64,
    max_source_positions=20,
    use_cache=False,
    num_kv_shared_layers=0,
    laurel_rank=4,
    vocab_size_per_layer_input=99,
    hidden_size_per_layer_input=8,
    image_size=32,
    patch_size=8,
    temporal_patch_size=2,
    spatial_merge_size=2,
    num_channels=3,
    window_size=16,
    conv_kernel_size=5,
    num_mel_bins=16,
    moe_intermediate_size=16,
    shared_expert_intermediate_size=16,
    shared_intermediate_size=16,
    num_experts=4,
    num_local_experts=4,
    n_routed_experts=4,
    moe_num_experts=4,
    num_experts_per_tok=2,
    moe_k=2,
    moe_top_k=2,
    n_group=1,
    topk_group=1,
    n_shared_experts=1,
    first_k_dense_replace=1,
    q_lora_rank=16,
    kv_lora_rank=16,
    qk_nope_head_dim=8,
    qk_rope_head_dim=8,
    v_head_dim=8,
    index_n_heads=2,
    index_head_dim=16,
    index_topk=16,
    mamba_n_heads=8,
    mamba_d_head=8,
    mamba_n_groups=1,
    mamba_d_state=8,
    mamba_chunk_size=4,
    linear_num_value_heads=4,
    linear_num_key_heads=2,
    linear_key_head_dim=8,
    linear_value_head_dim=8,
    image_token_id=5,
    image_token_index=5,
    video_token_id=6,
    audio_token_id=7,
    audio_token_index=7,
    vision_start_token_id=8,
    vision_end_token_id=9,
)


def value_of(config, name):
    try:
        return getattr(config, name, None)
    except Exception:  # one that layers may have each of their own
        return None


def small(config_class, settings):
    """What to make a small configuration of this class with. A setting that is a configuration itself says its
    `model_type`, or is added to the one that the class has there.
    """
    try:
        default = config_class()
    except Exception:
        default = None
    fields = set(inspect.signature(config_class.__init__).parameters).union(
        *(getattr(c, "__annotations__", {}) for c in config_class.__mro__), vars(default) if default else ()
    )
    made = {}
    for name, size in SIZES.items():
        old = value_of(default, name)
        if name == "image_size" and isinstance(old, (list, tuple)):
            size = [size] * len(old)
        if name in fields and (isinstance(old, (list, tuple)) == isinstance(size, list)):
            made[name] = size
    if value_of(default, "layer_types") and "num_hidden_layers" in made:  # one layer of each
        kinds = list(dict.fromkeys(default.layer_types))
        made["num_hidden_layers"] = max(2, len(kinds))
        made["layer_types"] = (kinds * 2)[: made["num_hidden_layers"]]
    for name, inner in (getattr(config_class, "sub_configs", None) or {}).items():
        if isinstance(inner, type) and inner.__name__ != "AutoConfig":
            made[name] = small(inner, settings.get(name, {}))
        elif (given := value_of(default, name)) is not None:
            made[name] = small(type(given), settings.get(name, {})) | {"model_type": given.model_type}
    return made | {
        k: v
        for k, v in settings.items()
        if not (isinstance(v, dict) and isinstance(made.get(k), dict) and "model_type" not in v)
    }


def tensors(output):
    """What a model gives back, without caches and the like."""
    if isinstance(output, torch.Tensor):
        return output
    if isinstance(output, (list, tuple)):
        return [t for t in map(tensors, output) if t is not None] or None
    if isinstance(output, dict):
        return {k: t for k, t in ((k, tensors(v)) for k, v in output.items()) if t is not None} or None
    return None


class Named(nn.Module):
    """A model whose arguments are given by name."""

    def __init__(self, model, names, rest):
        super().__init__()
        self.model, self.names, self.rest = model, names, rest

    def forward(self, *values):
        return tensors(self.model(**dict(zip(self.names, values)), **self.rest))


def usual_inputs(model, config):
    takes = inspect.signature(model.forward).parameters
    main = model.main_input_name if model.main_input_name in takes else next(iter(takes))
    if main == "pixel_values":
        size = getattr(config, "image_size", None) or 64
        return dict(pixel_values=image(1, size[0] if isinstance(size, (list, tuple)) else size))
    if main == "pixel_values_videos":
        return dict(pixel_values_videos=torch.randn(1, 4, 3, 32, 32))
    if main == "input_features":
        return dict(input_features=torch.randn(1, getattr(config, "num_mel_bins", 16), 40))
    if main == "input_values":
        return dict(input_values=torch.randn(1, 1, 800))
    return dict(input_ids=ids(2, 11)) | (
        dict(attention_mask=torch.ones(2, 11, dtype=torch.long), decoder_input_ids=ids(2, 5))
        if "decoder_input_ids" in takes
        else {}
    )


def words_around_a_picture(model, config):
    """As many placeholders among the words as the tower for pictures makes of one."""
    size = getattr(config.vision_config, "image_size", 32)
    picture = image(1, size[0] if isinstance(size, (list, tuple)) else size)
    with torch.no_grad():
        features = model.get_image_features(pixel_values=picture)
    features = getattr(features, "pooler_output", features)
    count = sum(f.numel() // f.shape[-1] for f in (features if isinstance(features, (list, tuple)) else [features]))
    words = [
        torch.randint(12, 90, (1, 3)),
        torch.full((1, count), SIZES["image_token_id"]),
        torch.randint(12, 90, (1, 4)),
    ]
    return dict(input_ids=torch.cat(words, 1), pixel_values=picture)


def made_small(cls, config_class, settings, inputs, rest):
    import transformers

    config = getattr(transformers, config_class)
    config = config(**small(config, settings))
    torch.manual_seed(0)
    model = getattr(transformers, cls)(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            if p.is_floating_point() and (p.dim() < 2 or p.min() == p.max()):
                p.add_(torch.randn_like(p) * 0.05)
    given = inputs(model, config)
    return Named(
        model,
        list(given),
        {"use_cache": False} | rest if "use_cache" in inspect.signature(model.forward).parameters else rest,
    ), tuple(given.values())


def add(name, cls, config_class, settings, inputs=None, **rest):
    """A model of this class; `inputs` makes its arguments by name, `rest` are arguments that are no inputs."""
    MODELS[name] = lambda: made_small(
        cls, config_class, settings, (lambda model, config: inputs()) if inputs else usual_inputs, rest
    )


def add_type(model_type, inputs=usual_inputs, rest={}, **settings):
    """The model that `transformers` has for a type of configuration."""

    def make():
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
        from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

        cls = MODEL_MAPPING_NAMES[model_type]
        return made_small(
            cls if isinstance(cls, str) else cls[0], CONFIG_MAPPING_NAMES[model_type], settings, inputs, rest
        )

    MODELS[model_type.replace("-", "_")] = make


# Text, and towers of models for several kinds of input, by their types.
for model_type in (
    "afmoe albert apertus aria_text beam bert-generation bigbird_pegasus blenderbot-small "
    "clip_text_model cohere2_moe cpmant cwm data2vec-text deepseek_v4 distilbert doge dots1 dpr "
    "embedding_gemma2_text ernie4_5_moe eurobert exaone_moe flex_olmo flint gemma3n_text gemma4_text "
    "gemma4_unified_text gpt_neox_japanese granite_docling_text granite_docling_vision "
    "granite_swa granitemoe_swa granitemoeshared gte hrm_text hunyuan_v1_moe hy_v3 hyperclovax "
    "idefics3_vision imagegpt inkling2_text inkling_text internlm3 iquestcoder jais2 jetmoe "
    "jina_embeddings_v3 kolibri1 laguna lfm3 llama4_text mellum mimo_v2_flash minimax_m2 "
    "minimax_m3_vl_text ministral ministral3 modernbert-decoder molmo2_text muse_glimmer_text "
    "muse_spark_text mvp nanochat nemotron_h nllb-moe nomic_bert olmo3 olmo_hybrid pegasus_x "
    "qwen3_5_moe_text qwen3_5_text qwen3_vl_moe_text qwen3_vl_text roberta roberta-prelayernorm "
    "seamless_m4t seamless_m4t_v2 smolvlm_vision solar_open switch_transformers tipsv2_text_model "
    "ultrabert vaultgemma xlm-roberta xlm-roberta-xl xlstm aimv2_vision_model "
    "chinese_clip_vision_model clip_vision_model data2vec-vision dinov3_convnext glmasr_encoder "
    "hgnet_v2 internvl_vision mgp-str mlcd_vision_model mobilenet_v2 moss_transcribe_diarize_audio "
    "pixio pixtral pp_ocrv6_small_rec pp_ocrv6_tiny_rec qianfan_ocr_vision qwen2_audio_encoder radio "
    "sam3_lite_text_text_model sam3_vision_model sam3_vit_model sam_hq_vision_model sapiens2 "
    "siglip_vision_model tipsv2_vision_model voxtral_encoder voxtral_realtime_encoder xcodec"
).split():
    add_type(model_type)
for model_type in (
    "axk1 axk2 bailing_hybrid deepseek_v32 glm4_moe_lite glm_moe_dsa kimi_linear esmc"
).split():  # a key for each head
    add_type(model_type, num_key_value_heads=4)
for model_type in "cosmos3_edge_text glm4v_text glm_image_text glm_ocr_text hunyuan_vl_text".split():
    add_type(model_type, rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]})
add_type(
    "glm4v_moe_text",
    rope_parameters={
        "rope_type": "default",
        "rope_theta": 10000.0,
        "mrope_section": [1, 1, 0],
        "partial_rotary_factor": 0.5,
    },
)
add_type("lfm2_moe", layer_types=["conv", "full_attention"], num_hidden_layers=2)

# Words around a picture, whose number the model checks.
PICTURED = (
    "aya_vision blip-2 cohere2_vision deepseek_vl got_ocr2 internvl llava minimax_m3_vl qianfan_ocr step3p7 video_llava"
)
for model_type in PICTURED.split():
    add_type(model_type, words_around_a_picture, {"use_cache": False})

# Detection and segmentation.
RESNET = lambda stages: dict(
    model_type="resnet", embedding_size=8, hidden_sizes=[16, 16, 32, 32], depths=[1, 1, 1, 1], out_features=stages
)
BASE = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4)
DETECTOR = dict(
    d_model=32,
    hidden_size=32,
    encoder_layers=1,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=48,
    decoder_ffn_dim=48,
    num_queries=4,
    use_timm_backbone=False,
    backbone=None,
    use_pretrained_backbone=False,
)
picture = lambda n=1, size=64: lambda: dict(pixel_values=image(n, size))
add(
    "conditional_detr",
    "ConditionalDetrForObjectDetection",
    "ConditionalDetrConfig",
    DETECTOR | dict(backbone_config=RESNET(["stage4"])),
    picture(2),
)
add(
    "detr_mask",
    "DetrForObjectDetection",
    "DetrConfig",
    DETECTOR | dict(backbone_config=RESNET(["stage4"])),
    lambda: dict(
        pixel_values=image(2, 64), pixel_mask=torch.cat([torch.ones(2, 64, 40), torch.zeros(2, 64, 24)], 2).long()
    ),
)
add(
    "dab_detr",
    "DabDetrForObjectDetection",
    "DabDetrConfig",
    DETECTOR | dict(backbone_config=RESNET(["stage4"])),
    picture(2),
)
add(
    "table_transformer",
    "TableTransformerForObjectDetection",
    "TableTransformerConfig",
    DETECTOR | dict(backbone_config=RESNET(["stage4"])),
    picture(2),
)
add(
    "rf_detr",
    "RfDetrForObjectDetection",
    "RfDetrConfig",
    DETECTOR
    | dict(
        backbone_config=dict(
            model_type="rf_detr_dinov2",
            image_size=64,
            patch_size=8,
            num_windows=2,
            out_features=["stage1", "stage2"],
            **BASE,
        ),
        decoder_self_attention_heads=4,
        decoder_cross_attention_heads=4,
        group_detr=2,
        decoder_n_points=2,
    ),
    picture(1),
)
add(
    "lw_detr",
    "LwDetrForObjectDetection",
    "LwDetrConfig",
    DETECTOR
    | dict(
        backbone_config=dict(
            model_type="lw_detr_vit",
            image_size=64,
            pretrain_image_size=64,
            patch_size=8,
            num_windows=4,
            window_block_indices=[0],
            out_indices=[1, 2],
            **BASE,
        ),
        projector_scale_factors=[1.0],
        decoder_self_attention_heads=4,
        decoder_cross_attention_heads=4,
        group_detr=2,
        decoder_n_points=2,
    ),
    picture(1),
)

# Masks from prompts, other pictures of pictures.
SAM_VISION = dict(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    image_size=64,
    patch_size=16,
    output_channels=16,
    window_size=2,
    global_attn_indexes=[1],
    mlp_dim=48,
    num_pos_feats=8,
)
SAM_PROMPT = dict(hidden_size=16, image_size=64, patch_size=16, mask_input_channels=8)
SAM_DECODER = dict(hidden_size=16, mlp_dim=32, num_attention_heads=2, iou_head_hidden_dim=16, num_hidden_layers=1)
points = lambda: dict(
    pixel_values=image(1, 64),
    input_points=torch.tensor([[[[10.0, 20.0], [30.0, 40.0]]]]),
    input_labels=torch.tensor([[[1, 0]]]),
)
boxes = lambda: dict(
    pixel_values=image(1, 64), input_boxes=torch.tensor([[[10.0, 20.0, 50.0, 60.0], [5.0, 5.0, 20.0, 20.0]]])
)
for n, p in [("points", points), ("boxes", boxes)]:
    add(
        "sam_" + n,
        "SamModel",
        "SamConfig",
        dict(vision_config=SAM_VISION, prompt_encoder_config=SAM_PROMPT, mask_decoder_config=SAM_DECODER),
        p,
    )
    add(
        "sam_hq_" + n,
        "SamHQModel",
        "SamHQConfig",
        dict(
            vision_config=SAM_VISION,
            prompt_encoder_config=SAM_PROMPT,
            mask_decoder_config=SAM_DECODER | dict(vit_dim=32),
        ),
        p,
    )
    SAM2 = dict(
        vision_config=dict(
            backbone_config=dict(
                hidden_size=8,
                num_attention_heads=1,
                image_size=[64, 64],
                blocks_per_stage=[1, 1, 2, 1],
                embed_dim_per_stage=[8, 16, 32, 64],
                num_attention_heads_per_stage=[1, 2, 4, 8],
                window_size_per_stage=[4, 2, 2, 2],
                global_attention_blocks=[3],
                window_positional_embedding_background_size=[3, 3],
            ),
            backbone_channel_list=[64, 32, 16, 8],
            backbone_feature_sizes=[[16, 16], [8, 8], [4, 4]],
            fpn_hidden_size=16,
        ),
        prompt_encoder_config=SAM_PROMPT,
        mask_decoder_config=SAM_DECODER,
    )
    add("sam2_" + n, "Sam2Model", "Sam2Config", SAM2, p)
SWIN = dict(
    model_type="swin",
    image_size=64,
    patch_size=4,
    embed_dim=8,
    depths=[1, 1, 1, 1],
    num_heads=[1, 2, 2, 4],
    window_size=4,
    out_features=["stage1", "stage2", "stage3", "stage4"],
)
add(
    "oneformer",
    "OneFormerForUniversalSegmentation",
    "OneFormerConfig",
    dict(
        backbone_config=SWIN,
        num_queries=5,
        task_seq_len=7,
        text_encoder_width=16,
        text_encoder_context_length=7,
        text_encoder_num_layers=1,
        text_encoder_vocab_size=99,
        text_encoder_n_ctx=2,
        conv_dim=32,
        mask_dim=32,
        hidden_dim=32,
        encoder_feedforward_dim=24,
        encoder_layers=1,
        decoder_layers=3,
        num_attention_heads=4,
        dim_feedforward=24,
        query_dec_layers=1,
        use_pretrained_backbone=False,
    ),
    lambda: dict(pixel_values=image(1, 64), task_inputs=ids(1, 7)),
)
add(
    "maskformer",
    "MaskFormerForInstanceSegmentation",
    "MaskFormerConfig",
    dict(
        backbone_config=SWIN,
        fpn_feature_size=32,
        mask_feature_size=32,
        decoder_config=dict(
            model_type="detr",
            d_model=32,
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=24,
            decoder_ffn_dim=24,
            num_queries=4,
            use_timm_backbone=False,
            backbone_config=RESNET(["stage4"]),
        ),
    ),
    picture(1),
)
add(
    "vitmatte",
    "VitMatteForImageMatting",
    "VitMatteConfig",
    dict(
        backbone_config=dict(
            model_type="vitdet",
            num_channels=4,
            image_size=64,
            patch_size=16,
            window_size=2,
            window_block_indices=[0],
            residual_block_indices=[1],
            out_features=["stage2"],
            use_relative_position_embeddings=True,
            **BASE,
        ),
        hidden_size=32,
        convstream_hidden_sizes=[8, 12, 16],
        fusion_hidden_sizes=[16, 12, 8, 8],
    ),
    lambda: dict(pixel_values=torch.randn(1, 4, 64, 64)),
)
add(
    "vitpose",
    "VitPoseForPoseEstimation",
    "VitPoseConfig",
    dict(
        backbone_config=dict(
            model_type="vitpose_backbone", image_size=[64, 48], patch_size=[16, 16], out_indices=[2], **BASE
        ),
        num_labels=5,
    ),
    lambda: dict(pixel_values=torch.randn(2, 3, 64, 48)),
)
add(
    "vitpose_classic",
    "VitPoseForPoseEstimation",
    "VitPoseConfig",
    dict(
        backbone_config=dict(
            model_type="vitpose_backbone", image_size=[64, 48], patch_size=[16, 16], out_indices=[2], **BASE
        ),
        num_labels=5,
        use_simple_decoder=False,
    ),
    lambda: dict(pixel_values=torch.randn(2, 3, 64, 48)),
)
add(
    "vitpose_moe",
    "VitPoseForPoseEstimation",
    "VitPoseConfig",
    dict(
        backbone_config=dict(
            model_type="vitpose_backbone",
            image_size=[64, 48],
            patch_size=[16, 16],
            out_indices=[2],
            num_experts=3,
            part_features=8,
            **BASE,
        ),
        num_labels=5,
    ),
    lambda: dict(pixel_values=torch.randn(2, 3, 64, 48), dataset_index=torch.tensor([0, 2])),
)
add(
    "zoedepth",
    "ZoeDepthForDepthEstimation",
    "ZoeDepthConfig",
    dict(
        backbone_config=dict(
            model_type="beit",
            image_size=64,
            patch_size=16,
            intermediate_size=48,
            out_features=["stage1", "stage2", "stage3", "stage4"],
            reshape_hidden_states=False,
            hidden_size=32,
            num_hidden_layers=4,
            num_attention_heads=4,
            use_relative_position_bias=True,
        ),
        neck_hidden_sizes=[8, 16, 16, 16],
        fusion_hidden_size=16,
        bottleneck_features=16,
        num_attractors=[4, 2, 1, 1],
        bin_embedding_dim=16,
        num_relative_features=8,
        bin_configurations=[dict(n_bins=8, min_depth=0.1, max_depth=10.0, name="nyu")],
    ),
    picture(1, 64),
)
DINO = dict(
    model_type="dinov2",
    image_size=32,
    patch_size=8,
    intermediate_size=48,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
)
add(
    "depth_pro",
    "DepthProForDepthEstimation",
    "DepthProConfig",
    dict(
        patch_size=32,
        fusion_hidden_size=16,
        intermediate_hook_ids=[1, 0],
        intermediate_feature_dims=[16, 16],
        scaled_images_ratios=[0.5, 1.0],
        scaled_images_overlap_ratios=[0.0, 0.25],
        scaled_images_feature_dims=[16, 16],
        merge_padding_value=1,
        image_model_config=DINO,
        patch_model_config=DINO,
        fov_model_config=DINO,
        use_fov_model=True,
    ),
    picture(1, 64),
)
