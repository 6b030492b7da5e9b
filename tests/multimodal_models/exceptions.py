"""Settings of single model types beyond the rules, as data."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from transformers import PreTrainedConfig

Settings = dict[str, Any]


@dataclass(frozen=True)
class Exceptions:
    """Deviations of a model type from the rules."""

    text: Settings = field(default_factory=dict)
    """Settings of the text decoder."""

    axes: int = 0
    """Rotary axes, if the source does not show the number."""

    config: dict[str, Settings] = field(default_factory=dict)
    """Settings by part; "" is the whole model."""

    processor: str = ""
    """Processor class, if transformers' table has none."""

    image_processor: str = ""
    video_processor: str = ""
    feature_extractor: str = ""

    arguments: Settings = field(default_factory=dict)
    """Arguments of the processor."""

    image: Settings = field(default_factory=dict)
    """Attributes of the image processor."""

    video: Settings = field(default_factory=dict)
    audio: Settings = field(default_factory=dict)

    attributes: Settings = field(default_factory=dict)
    """Attributes of the processor."""

    ids: dict[str, str | list[str]] = field(default_factory=dict)
    """Token by the name of a configuration's setting."""

    tokens: dict[str, str | None] = field(default_factory=dict)
    """Further special tokens by attribute of the tokenizer."""


def _width(text: PreTrainedConfig) -> int:
    """Return the hidden size of the decoder."""
    return int(text.hidden_size)


GRID = [[84, 168], [168, 84], [168, 168]]
"""Resolutions of pictures in tiles of 84 pixels."""

QWEN_IMAGE, QWEN2_VIDEO = "Qwen2VLImageProcessorPil", "Qwen2VLVideoProcessor"
FULL = {"sliding_window": None, "use_sliding_window": False}
"""Decoders that ignore the window, for which transformers' cache would drop keys."""

VISION_TOKENS = {"vision_start_token": "<|vision_start|>", "vision_end_token": "<|vision_end|>"}
GLM_IDS = {
    "image_start_token_id": "<|begin_of_image|>", "image_end_token_id": "<|end_of_image|>",
}  # fmt: skip
MERGER = {"": {"insert_layer_id": 1}, "vision_config": {"insert_layer_id": 1}}
MINICPM_IDS = {"image_token_id": "<|image|>", "video_token_id": "<|video|>"}
OVIS_TOKENS = ["<IMG_START>", "<IMG_GRID>", "<IMG_COL>", "<IMG_ROW>", "<IMG_END>"]

EXCEPTIONS: defaultdict[str, Exceptions] = defaultdict(Exceptions)
EXCEPTIONS |= {
    "aria": Exceptions(
        config={
            "": {
                "projector_patch_to_query_dict": {49: 8},
                "max_value_projector_patch_to_query_dict": 8,
            },
            "vision_config": {"image_size": 980, "patch_size": 140},
        },
        arguments={"size_conversion": {980: 8}},
    ),
    "aya_vision": Exceptions(arguments={"patch_size": 14, "img_size": 84, "downsample_factor": 2}),
    "chameleon": Exceptions(
        config={
            "": {"vocabulary_map": {f"IMGIMG{code}Z": 20 + i for i, code in enumerate("ABCDEFGH")}},
            "vq_config": {
                "num_embeddings": 8, "base_channels": 32, "channel_multiplier": [1, 2],
                "num_res_blocks": 1, "resolution": 12, "embed_dim": 32, "latent_channels": 32,
            },
        },
        arguments={"image_seq_length": 36},
        image={"size": {"shortest_edge": 12}, "crop_size": {"height": 12, "width": 12}},
    ),
    "emu3": Exceptions(
        config={
            "": {
                "vocabulary_map": {
                    "<|extra_200|>": 40,
                    **{f"<|visual token {i:06}|>": 20 + i for i in range(16)},
                },
            },
            "vq_config": {
                "codebook_size": 16, "base_channels": 32, "channel_multiplier": [1, 1, 1, 2],
                "num_res_blocks": 1, "hidden_size": 64,
            },
        },
        image={"min_pixels": 1600, "max_pixels": 4096},
    ),
    "apertus1p5": Exceptions(
        config={
            "": {"image_token_offset": 20, "audio_token_offset": 52},
            "vision_config": {
                "codebook_size": 32, "base_channels": 32, "channel_multiplier": [1, 1, 1, 1, 2],
                "num_res_blocks": 1, "embed_dim": 16, "latent_channels": 16,
            },
            "audio_config": {
                "codebook_size": 32, "codebook_dim": 64, "hidden_size": 64, "num_filters": 4,
            },
        },
        image={"size": {"min_pixels": 2304, "max_pixels": 9216}},
    ),
    "cohere2_vision": Exceptions(image={"patch_size": 3}),
    "cohere_compass": Exceptions(
        axes=-1, tokens={"image_token": "<|IMAGE_PAD|>", "video_token": "<|VIDEO_PAD|>"}
    ),
    "blip-2": Exceptions(tokens={"image_token": None}, ids={"image_token_index": "<image>"}),
    "instructblip": Exceptions(
        tokens={"image_token": None}, ids={"image_token_index": "<image>"}
    ),
    "paligemma": Exceptions(image={"image_seq_length": 36}),
    "cosmos3_omni": Exceptions(processor="Qwen3VLProcessor", image_processor=QWEN_IMAGE),
    "deepseek_vl": Exceptions(arguments={"num_image_tokens": 36}),
    "deepseek_vl_hybrid": Exceptions(arguments={"num_image_tokens": 36}),
    "janus": Exceptions(arguments={"num_image_tokens": 36}),
    "gemma3": Exceptions(
        ids={"image_token_index": "<|image|>"},
        config={"": {"mm_tokens_per_image": 9}},
        arguments={"image_seq_length": 9},
    ),
    "shieldgemma2": Exceptions(
        processor="Gemma3Processor",
        ids={"image_token_index": "<|image|>"},
        config={"": {"mm_tokens_per_image": 9}},
        arguments={"image_seq_length": 9},
    ),
    "glm4v_moe": Exceptions(ids=GLM_IDS, 
        image_processor="Glm4vImageProcessorPil", video_processor="Glm4vVideoProcessor"
    ),
    "glm_ocr": Exceptions(ids=GLM_IDS, 
        processor="Glm46VProcessor", image_processor="Glm46VImageProcessorPil",
        video_processor="Glm46VVideoProcessor",
    ),
    "glmga": Exceptions(ids=GLM_IDS, processor="Glm46VProcessor"),
    "glm4v": Exceptions(ids=GLM_IDS),
    "glm46v": Exceptions(ids=GLM_IDS),
    "hunyuan_vl": Exceptions(
        tokens={"newline_token": "<|image_newline|>"},
        ids={
            "im_start_id": "<|image_start|>", "im_end_id": "<|image_end|>",
            "im_newline_id": "<|image_newline|>",
        },
    ),
    "paddleocr_vl": Exceptions(
        tokens=VISION_TOKENS | {"video_token": "<|video_pad|>"}
    ),
    "qwen2_5_vl": Exceptions(tokens=VISION_TOKENS),
    "got_ocr2": Exceptions(
        config={"vision_config": {"image_size": 192}}, attributes={"num_image_tokens": 9}
    ),
    "pp_chart2table": Exceptions(
        config={"vision_config": {"image_size": 192}},
        tokens={"image_token": "<imgpad>", "boi_token": "<img>", "eoi_token": "</img>"},
    ),
    "granite4_vision": Exceptions(
        arguments={"downsample_rate": "1/2", "num_additional_image_tokens": 1},
        config={
            "": {
                "deepstack_layer_map": [[-1, 0], [-2, 1]], "downsample_rate": "1/2",
                "spatial_target_layers": [1, 2, 3, 0], "image_grid_pinpoints": GRID,
            },
            "vision_config": {"patch_size": 14, "image_size": 84},
        },
    ),
    "idefics2": Exceptions(
        config={"perceiver_config": {"hidden_size": _width, "num_key_value_heads": 2,
            "resampler_n_heads": 4, "resampler_head_dim": 12, "resampler_n_latents": 8,
            "resampler_depth": 2}},
        arguments={"image_seq_len": 8},
    ),
    "idefics3": Exceptions(arguments={"image_seq_len": 9}),
    "internvl": Exceptions(arguments={"image_seq_length": 9}),
    "qianfan_ocr": Exceptions(arguments={"image_seq_length": 9}),
    "llava": Exceptions(
        arguments={"patch_size": 14, "vision_feature_select_strategy": "default",
                   "num_additional_image_tokens": 1},
    ),
    "llava_next": Exceptions(
        config={"": {"image_grid_pinpoints": GRID}},
        arguments={"num_additional_image_tokens": 1},
    ),
    "llava_next_video": Exceptions(
        config={"": {"image_grid_pinpoints": GRID}},
        arguments={"num_additional_image_tokens": 1},
    ),
    "llava_onevision": Exceptions(
        config={"": {"image_grid_pinpoints": GRID}}, arguments={"num_image_tokens": 36}
    ),
    "molmo2": Exceptions(
        ids={
            "image_patch_id": "<im_patch>", "image_start_token_id": "<im_start>",
            "low_res_image_start_token_id": "<low_res_im_start>", "image_end_token_id": "<im_end>",
            "frame_start_token_id": "<frame_start>", "frame_end_token_id": "<frame_end>",
        },
        config={
            "adapter_config": {"vision_feature_layer": [2, 1]},
            "vision_config": {"num_position_embeddings": 36},
        },
        image={"max_crops": 2, "overlap_margins": [1, 1]},
    ),
    "muse_glimmer": Exceptions(config={"": {"out_hidden_size": 256}}),
    "muse_spark": Exceptions(
        config={
            "": {"out_hidden_size": 256},
            "audio_config": {"num_hidden_layers": 4, "hidden_sizes": [16, 24, 32, 40]},
        },
    ),
    "nemotron_h_omni": Exceptions(
        config={"": {
                "vision_hidden_size": 64,
                "audio_config": {
                    "model_type": "parakeet_encoder", "hidden_size": 64, "num_hidden_layers": 2,
                    "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 72,
                    "subsampling_conv_channels": 16, "projection_hidden_size": 88,
                    "projection_bias": False,
                },
                "image_token_id": 0, "video_token_id": 0, "audio_token_id": 0,
            }, "vision_config": {"video_temporal_patch_size": 2}},
        feature_extractor="ParakeetFeatureExtractor",
        video={"norm_mean": [0.5] * 3, "norm_std": [0.5] * 3},
    ),
    "deepseek_ocr2": Exceptions(
        text={"num_hidden_layers": 4, "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"]},
        config={"vision_config.sam_config": {"downsample_channels": [56, 64], "image_size": 768}},
        image={"size": {"height": 768, "width": 768}},
    ),
    "unlimited_ocr": Exceptions(
        text={"hidden_size": 96, "num_attention_heads": 6, "num_key_value_heads": 6},
        config={"vision_config.sam_config": {"downsample_channels": [56, 64]}}
    ),
    "ernie4_5_vl_moe": Exceptions(
        text={
            "moe_intermediate_size": [40, 24], "hidden_size": 192, "num_attention_heads": 8,
            "num_key_value_heads": 2,
        }, video={"draw_on_frames": False}
    ),
    "gemma4": Exceptions(
        config={
            "": {
                "vision_config": {
                    "model_type": "gemma4_vision", "hidden_size": 64, "intermediate_size": 72,
                    "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 4,
                    "head_dim": 16, "position_embedding_size": 40,
                },
                "audio_config": {
                    "model_type": "gemma4_audio", "hidden_size": 64, "num_hidden_layers": 2,
                    "num_attention_heads": 4, "subsampling_conv_channels": [128, 8],
                    "output_proj_dims": 72,
                },
            },
        },
        image={"max_soft_tokens": 70}, video={"max_soft_tokens": 70},
    ),
    "gemma4_unified": Exceptions(
        config={
            "": {
                "vision_config": {
                    "model_type": "gemma4_unified_vision", "mm_embed_dim": 72,
                    "mm_posemb_size": 40, "output_proj_dims": 72,
                },
                "audio_config": {"model_type": "gemma4_unified_audio"},
            },
        },
        image={"max_soft_tokens": 70}, video={"max_soft_tokens": 70},
    ),
    "granite_docling": Exceptions(
        image={"max_patches": 2},
        config={"vision_config": {"image_size": 128}}, arguments={"image_seq_len": 4}
    ),
    "inkling2": Exceptions(image={"size": {"height": 40, "width": 40}}),
    "kimi_k25": Exceptions(
        ids={"vision_start_token_id": "<|media_begin|>", "vision_end_token_id": "<|media_end|>"},
        config={"": {"projection_hidden_size": 64}}),
    "minicpm_ocr": Exceptions(config=MERGER, ids=MINICPM_IDS),
    "minicpmv4_6": Exceptions(config=MERGER, ids=MINICPM_IDS),
    "minicpmv4_7": Exceptions(config=MERGER, ids=MINICPM_IDS),
    "minimax_m3_vl": Exceptions(
        tokens={"image_token": "]<]image[>[", "video_token": "]<]video[>["}
    ),
    "step3p7": Exceptions(
        config={"vision_config": {"image_size": 112}},
        image={"size": {"height": 112, "width": 112}, "patch_size": 56},
    ),
    "phi4_multimodal": Exceptions(
        config={
            "audio_config": {
                "nemo_conv_channels": 64, "ext_pw_out_channel": 64,
                "depthwise_separable_out_channel": 64,
            },
            "vision_config": {"image_size": 448, "crop_size": 448},
        },
    ),
    "hy_v4_vl": Exceptions(
        text={
            "qk_rope_head_dim": 12,
            "rope_parameters": {
                "rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 2, 2],
            },
        },
    ),
    "glm5_next": Exceptions(ids=GLM_IDS, 
        text={
            "num_attention_heads": 6, "num_key_value_heads": 6, "qk_rope_head_dim": 0,
            "head_dim": 0, "index_kpool": 4, "index_topk": 16,
        },
    ),
    "dots3_note": Exceptions(
        config={
            "vision_config": {
                "adapter_in_dim": 64, "adapter_out_dim": _width,
                "mlp_layer_types": ["dense", "sparse", "sparse"],
                "per_layer_config": {
                    i: {"num_local_experts": 4, "num_experts_per_tok": 2} for i in (1, 2)
                },
            },
            "audio_config": {
                "adapter_input_size": 64, "adapter_out_dim": _width, "conv_output_size": 384,
            },
        },
        image={"temporal_patch_size": 1}, video={"temporal_patch_size": 1},
    ),
    "glmasr": Exceptions(
        config={"audio_config": {"intermediate_size": 256}}, audio={"chunk_length": 2}
    ),
    "vibevoice_asr": Exceptions(
        config={
            "acoustic_tokenizer_encoder_config": {"num_filters": 2},
            "semantic_tokenizer_encoder_config": {"num_filters": 2},
        },
    ),
    "ovis2": Exceptions(
        config={"vision_config": {"vocab_size": 60}},
        ids={"visual_indicator_token_ids": OVIS_TOKENS, "image_token_id": "<IMG_ATOM>"},
        arguments={"image_seq_length": 36},
    ),
    "qwen2_vl": Exceptions(
        tokens=VISION_TOKENS, config={"vision_config": {"hidden_size": _width}}),
    "qwen2_5_omni_thinker": Exceptions(
        processor="Qwen2_5OmniProcessor", image_processor=QWEN_IMAGE,
        video_processor=QWEN2_VIDEO, feature_extractor="WhisperFeatureExtractor",
        config={"": {"vision_start_token_id": 0}},
        ids={"vision_start_token_id": "<|vision_bos|>", "audio_start_token_id": "<|audio_bos|>",
             "audio_end_token_id": "<|audio_eos|>"},
    ),
    "qwen3_omni_moe_thinker": Exceptions(
        text=FULL,
        processor="Qwen3OmniMoeProcessor", image_processor=QWEN_IMAGE,
        video_processor=QWEN2_VIDEO, feature_extractor="WhisperFeatureExtractor",
        config={"": {"vision_start_token_id": 0}},
        ids={"vision_start_token_id": "<|vision_bos|>", "audio_start_token_id": "<|audio_bos|>",
             "audio_end_token_id": "<|audio_eos|>"},
    ),
    "qwen3_vl_moe": Exceptions(text=FULL, image_processor=QWEN_IMAGE),
    "vipllava": Exceptions(
        config={"": {"vision_feature_layers": [-1, -2]}},
        arguments={"patch_size": 14, "vision_feature_select_strategy": "default",
                   "num_additional_image_tokens": 1},
    ),
}  # fmt: skip
