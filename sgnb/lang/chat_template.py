"""SGLang's path of chat templates. SGLang chooses a template by name or model path; sgnb reads the
template of the model."""

from .chat import PLAIN, ChatTemplate
from .location import caller, warn_once

__all__ = ["ChatTemplate", "get_chat_template", "get_chat_template_by_model_path"]


def get_chat_template(name: str) -> ChatTemplate:
    """Return a plain template, and warn: roles are written as the model's own template has them."""
    warn_once(f"chat template {name!r} has no effect: the model's own is used", caller())
    return PLAIN


get_chat_template_by_model_path = get_chat_template
