"""The text decoder of a model: the model itself, or the part behind the encoders of images, videos
and sounds."""

from __future__ import annotations

from transformers import PreTrainedModel


def text_decoder(model: PreTrainedModel) -> PreTrainedModel:
    """Return the module that receives the embeddings of a multimodal model, or `model`."""
    if model.config.get_text_config() is model.config:
        return model
    try:
        decoder = model.get_decoder()
    except (AttributeError, NotImplementedError):
        return model
    return decoder if isinstance(decoder, PreTrainedModel) else model
