"""More of zoo_small.py: sound, films, series, words with pictures, parts of larger models."""

import torch

from zoo_small import MODELS, SWIN, add, picture  # noqa: F401 (MODELS: with those added here)
from zoo_transformers import AUDIO, TEXT, VISION, ids, image

# Sound, films, series.
add(
    "univnet",
    "UnivNetModel",
    "UnivNetConfig",
    dict(
        model_in_channels=8,
        model_hidden_channels=8,
        num_mel_bins=10,
        kernel_predictor_hidden_channels=8,
        kernel_predictor_num_blocks=1,
    ),
    lambda: dict(input_features=torch.randn(1, 7, 10), noise_sequence=torch.randn(1, 7, 8)),
)
add(
    "fastspeech2_hifigan",
    "FastSpeech2ConformerHifiGan",
    "FastSpeech2ConformerHifiGanConfig",
    dict(
        model_in_dim=8,
        upsample_initial_channel=16,
        upsample_rates=[2, 2],
        upsample_kernel_sizes=[4, 4],
        resblock_kernel_sizes=[3],
        resblock_dilation_sizes=[[1, 3]],
    ),
    lambda: dict(spectrogram=torch.randn(2, 12, 8)),
)
add(
    "vjepa2",
    "VJEPA2Model",
    "VJEPA2Config",
    dict(
        patch_size=8,
        crop_size=16,
        frames_per_clip=4,
        hidden_size=24,
        num_attention_heads=2,
        num_hidden_layers=2,
        pred_hidden_size=24,
        pred_num_attention_heads=2,
        pred_num_hidden_layers=1,
        pred_num_mask_tokens=2,
    ),
    lambda: dict(pixel_values_videos=torch.randn(1, 4, 3, 16, 16)),
)
add(
    "timesfm",
    "TimesFmModelForPrediction",
    "TimesFmConfig",
    dict(
        patch_length=8,
        context_length=32,
        horizon_length=8,
        num_hidden_layers=2,
        hidden_size=32,
        intermediate_size=32,
        head_dim=8,
        num_attention_heads=4,
    ),
    lambda: dict(past_values=torch.randn(2, 32), freq=torch.tensor([0, 1])),
)
add(
    "timesfm2_5",
    "TimesFm2_5ModelForPrediction",
    "TimesFm2_5Config",
    dict(
        patch_length=8,
        context_length=32,
        horizon_length=8,
        num_hidden_layers=2,
        hidden_size=32,
        intermediate_size=32,
        head_dim=8,
        num_attention_heads=4,
        num_key_value_heads=4,
    ),
    lambda: dict(past_values=torch.randn(2, 32)),
)
add(
    "upernet",
    "UperNetForSemanticSegmentation",
    "UperNetConfig",
    dict(backbone_config=SWIN, hidden_size=16, auxiliary_channels=8, pool_scales=[1, 2]),
    picture(1, 64),
)
add(
    "upernet_convnext",
    "UperNetForSemanticSegmentation",
    "UperNetConfig",
    dict(
        backbone_config=dict(
            model_type="convnext",
            hidden_sizes=[8, 16, 16, 32],
            depths=[1, 1, 1, 1],
            out_features=["stage1", "stage2", "stage3", "stage4"],
        ),
        hidden_size=16,
        auxiliary_channels=8,
        auxiliary_in_channels=16,
        pool_scales=[1, 2, 3, 6],
    ),
    picture(1, 96),
)
add(
    "layoutlmv3",
    "LayoutLMv3Model",
    "LayoutLMv3Config",
    dict(
        hidden_size=36,
        coordinate_size=6,
        shape_size=6,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        vocab_size=99,
        input_size=32,
        patch_size=8,
        max_2d_position_embeddings=128,
        has_relative_attention_bias=True,
        has_spatial_attention_bias=True,
    ),
    lambda: dict(
        input_ids=ids(1, 7),
        bbox=torch.randint(0, 50, (1, 7, 2)).repeat(1, 1, 2).cumsum(-1),
        attention_mask=torch.ones(1, 7, dtype=torch.long),
        pixel_values=image(1, 32),
    ),
)

# Words with pictures, parts of larger models.
BOTH = dict(
    text_config=TEXT | dict(max_position_embeddings=20, bos_token_id=0, eos_token_id=98),
    vision_config=VISION,
    projection_dim=16,
)
words_and_pictures = lambda: dict(
    input_ids=torch.cat([ids(2, 8), torch.full((2, 1), 98)], 1),
    pixel_values=image(2, 32),
    attention_mask=torch.ones(2, 9, dtype=torch.long),
)
for n, c in [
    ("altclip", "AltCLIP"),
    ("chinese_clip", "ChineseCLIP"),
    ("clipseg", "CLIPSeg"),
    ("metaclip2", "MetaClip2"),
]:
    add(n, c + "Model", c + "Config", BOTH, words_and_pictures)
add("owlvit_image", "OwlViTModel", "OwlViTConfig", BOTH | dict(projection_dim=32), words_and_pictures)
add(
    "groupvit",
    "GroupViTModel",
    "GroupViTConfig",
    dict(
        text_config=TEXT | dict(max_position_embeddings=20),
        vision_config=VISION | dict(depths=[1, 1, 1], num_group_tokens=[4, 2, 0], num_output_groups=[4, 2, 2]),
        projection_dim=16,
        projection_intermediate_dim=24,
    ),
    words_and_pictures,
)
add(
    "flava",
    "FlavaModel",
    "FlavaConfig",
    dict(
        text_config=TEXT,
        image_config=VISION,
        multimodal_config=dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=48),
        hidden_size=32,
        projection_dim=16,
    ),
    words_and_pictures,
)
add(
    "clipseg_seg",
    "CLIPSegForImageSegmentation",
    "CLIPSegConfig",
    BOTH
    | dict(
        extract_layers=[0, 1],
        reduce_dim=8,
        decoder_num_attention_heads=2,
        decoder_intermediate_size=16,
        conditional_layer=0,
    ),
    lambda: dict(pixel_values=image(2, 32), input_ids=torch.cat([ids(2, 8), torch.full((2, 1), 98)], 1)),
)
add(
    "xclip",
    "XCLIPModel",
    "XCLIPConfig",
    dict(
        text_config=TEXT | dict(max_position_embeddings=20, eos_token_id=98),
        vision_config=VISION
        | dict(
            num_frames=2,
            mit_hidden_size=32,
            mit_intermediate_size=48,
            mit_num_attention_heads=4,
            mit_num_hidden_layers=1,
        ),
        projection_dim=32,
        prompt_layers=1,
        prompt_num_attention_heads=4,
    ),
    lambda: dict(
        input_ids=torch.cat([ids(2, 8), torch.full((2, 1), 98)], 1), pixel_values=torch.randn(1, 2, 3, 32, 32)
    ),
)
add(
    "siglip2",
    "Siglip2VisionModel",
    "Siglip2VisionConfig",
    dict(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, patch_size=4, num_patches=16
    ),
    lambda: dict(
        pixel_values=torch.randn(2, 12, 48),
        pixel_attention_mask=torch.cat([torch.ones(2, 9), torch.zeros(2, 3)], 1).long(),
        spatial_shapes=torch.tensor([[3, 3], [3, 3]]),
    ),
)
add(
    "git",
    "GitForCausalLM",
    "GitConfig",
    dict(vision_config=VISION, **TEXT),
    lambda: dict(input_ids=ids(1, 7), pixel_values=image(1, 32)),
)
add(
    "trocr",
    "TrOCRForCausalLM",
    "TrOCRConfig",
    dict(d_model=32, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=48),
    lambda: dict(input_ids=ids(2, 7), encoder_hidden_states=torch.randn(2, 5, 32)),
)
add(
    "pix2struct",
    "Pix2StructVisionModel",
    "Pix2StructVisionConfig",
    dict(
        hidden_size=32,
        patch_embed_hidden_size=48,
        d_ff=48,
        d_kv=8,
        num_hidden_layers=2,
        num_attention_heads=4,
        seq_len=16,
    ),
    lambda: dict(flattened_patches=torch.cat([torch.randint(0, 4, (1, 9, 2)).float(), torch.randn(1, 9, 48)], 2)),
)
add(
    "mgp_str",
    "MgpstrForSceneTextRecognition",
    "MgpstrConfig",
    dict(
        image_size=[32, 32],
        patch_size=8,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_token_length=5,
        num_character_labels=11,
        num_bpe_labels=12,
        num_wordpiece_labels=13,
    ),
    lambda: dict(pixel_values=image(2, 32)),
)
add(
    "mllama_vision",
    "MllamaVisionModel",
    "MllamaVisionConfig",
    dict(
        hidden_size=32,
        num_hidden_layers=2,
        num_global_layers=1,
        attention_heads=4,
        intermediate_size=48,
        image_size=32,
        patch_size=8,
        max_num_tiles=2,
        intermediate_layers_indices=[0],
        vision_output_dim=64,
        supported_aspect_ratios=[[1, 1], [1, 2], [2, 1]],
    ),
    lambda: dict(
        pixel_values=torch.randn(1, 1, 2, 3, 32, 32),
        aspect_ratio_ids=torch.tensor([[2]]),
        aspect_ratio_mask=torch.ones(1, 1, 2, dtype=torch.long),
    ),
)
add(
    "dinov3_vit",
    "DINOv3ViTModel",
    "DINOv3ViTConfig",
    dict(num_register_tokens=2, image_size=32, patch_size=8),
    picture(1, 32),
)
add(
    "unispeech_sat",
    "UniSpeechSatModel",
    "UniSpeechSatConfig",
    dict(AUDIO),
    lambda: dict(input_values=torch.randn(2, 400)),
)
add(
    "whisper_cls",
    "WhisperForAudioClassification",
    "WhisperConfig",
    dict(
        d_model=32,
        num_mel_bins=8,
        max_source_positions=20,
        encoder_layers=2,
        encoder_attention_heads=4,
        encoder_ffn_dim=48,
        classifier_proj_size=16,
    ),
    lambda: dict(input_features=torch.randn(2, 8, 40)),
)
add(
    "seamless_text",
    "SeamlessM4Tv2ForTextToText",
    "SeamlessM4Tv2Config",
    dict(
        hidden_size=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        speech_encoder_layers=1,
        speech_encoder_attention_heads=4,
        speech_encoder_intermediate_size=48,
        feature_projection_input_dim=16,
        vocab_size=99,
        t2u_vocab_size=99,
        pad_token_id=0,
    ),
    lambda: dict(input_ids=ids(2, 9), decoder_input_ids=ids(2, 5)),
)
add(
    "seamless_speech",
    "SeamlessM4Tv2ForSpeechToText",
    "SeamlessM4Tv2Config",
    dict(
        hidden_size=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        speech_encoder_layers=1,
        speech_encoder_attention_heads=4,
        speech_encoder_intermediate_size=48,
        feature_projection_input_dim=16,
        vocab_size=99,
        pad_token_id=0,
        speech_encoder_chunk_size=8,
    ),
    lambda: dict(
        input_features=torch.randn(2, 20, 16),
        attention_mask=torch.ones(2, 20, dtype=torch.long),
        decoder_input_ids=ids(2, 5),
    ),
)
add(
    "bark_fine",
    "BarkFineModel",
    "BarkFineConfig",
    dict(
        hidden_size=32,
        num_layers=2,
        num_heads=4,
        block_size=16,
        input_vocab_size=50,
        output_vocab_size=50,
        n_codes_total=4,
        n_codes_given=1,
    ),
    lambda: dict(input_ids=torch.randint(0, 40, (1, 10, 4))),
    codebook_idx=2,
)
add(
    "bark_semantic",
    "BarkSemanticModel",
    "BarkSemanticConfig",
    dict(hidden_size=32, num_layers=2, num_heads=4, block_size=32, input_vocab_size=99, output_vocab_size=99),
    lambda: dict(input_ids=ids(1, 10)),
)
add(
    "musicgen_decoder",
    "MusicgenForCausalLM",
    "MusicgenDecoderConfig",
    dict(
        vocab_size=50,
        num_hidden_layers=2,
        ffn_dim=48,
        num_attention_heads=4,
        hidden_size=32,
        num_codebooks=2,
        pad_token_id=50,
        bos_token_id=50,
    ),
    lambda: dict(input_ids=torch.randint(0, 40, (4, 7)), encoder_hidden_states=torch.randn(2, 5, 32)),
)
add(
    "speecht5",
    "SpeechT5ForSpeechToText",
    "SpeechT5Config",
    dict(
        hidden_size=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        vocab_size=99,
        conv_dim=[16, 16],
        conv_kernel=[10, 3],
        conv_stride=[5, 2],
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
        num_feat_extract_layers=2,
    ),
    lambda: dict(input_values=torch.randn(1, 400), decoder_input_ids=ids(1, 5)),
)
add(
    "blip2_qformer",
    "Blip2QFormerModel",
    "Blip2QFormerConfig",
    dict(encoder_hidden_size=24, cross_attention_frequency=1, **TEXT),
    lambda: dict(query_embeds=torch.randn(1, 4, 32), encoder_hidden_states=torch.randn(1, 6, 24)),
)
