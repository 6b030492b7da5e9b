"""Multimodal model types without a small model, with the reasons."""

from __future__ import annotations

TIMM = "the vision encoder is a timm model, and timm is not installed"
CROSS = "cross-attention to the image in the decoder"
ENCODER_DECODER = "encoder and decoder"
TORCHAUDIO = "the feature extractor needs torchaudio, which is not installed"

WHY_NOT: dict[str, str] = {
    "blip": "cross-attention to the image, no image tokens",
    "diffusion_gemma": "generates blocks by diffusion",
    "evolla": "proteins, cross-attention in the decoder",
    "fast_vlm": TIMM,
    "fuyu": "the processor drops the first placeholder, for tokenizers that prepend an underscore",
    "llama4": "its forward in transformers 5.24 reads `image_outputs`, which its decoder lacks",
    "florence2": ENCODER_DECODER,
    "gemma3n": TIMM,
    "git": "image features in front of the text, without tokens",
    "idefics": CROSS,
    "mistral4": "text only",
    "mllama": CROSS,
    "perception_lm": TIMM,
    "pi0": "generates actions of robots",
    "pix2struct": ENCODER_DECODER,
    "pp_formulanet": ENCODER_DECODER,
    "smolvlm": "the processor needs num2words, which is not installed",
    "t5gemma2": ENCODER_DECODER,
    "udop": ENCODER_DECODER,
    "vision-encoder-decoder": ENCODER_DECODER,
    "fun_asr_nano": TORCHAUDIO,
    "granite_speech": TORCHAUDIO,
    "granite_speech_plus": TORCHAUDIO,
    "inkling_mm_model": "needs scipy, which is not installed",
    "instructblipvideo": "video tokens in front of each text (Q-Former); frames given as `images`",
    "kosmos-2": "image latents under a mask of the processor",
    "kosmos-2.5": "image latents under a mask of the processor",
    "voxtral": "the processor needs chat templates of a tokenizer of mistral-common",
    "voxtral_realtime": "the processor needs a tokenizer file of mistral-common",
    "nemo_speechlm": "not tried: a sound encoder with diarization, and a second tokenizer",
    "inkling2_loop": "not tried: decoder layers run in loops, and the rules find no small sizes",
    "kyutai_speech_to_text": "adds codes of the sound to each text embedding in a loop of its own",
    "qwen2_5_omni": "text by the thinker, which is a type of its own",
    "qwen3_omni_moe": "text by the thinker, which is a type of its own",
}
"""Model type -> the reason why the type is left out."""
