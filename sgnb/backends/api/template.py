"""The chat template of a model that another machine serves, read from its tokenizer here."""

from __future__ import annotations

import warnings
from typing import Any

from ...errors import printable
from ...lang.chat import PLAIN, ChatTemplate, Messages, from_render


def template_of(name: str) -> ChatTemplate:
    """That of the tokenizer of a folder or hub id that is on this machine; plain roles, and a
    warning, where it is not."""
    try:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(name, local_files_only=True)

        def render(messages: Messages, tools: Any = None) -> str:
            return str(tokenizer.apply_chat_template(list(messages), tokenize=False))

        return from_render(name, render)
    except Exception as error:  # a file that is missing, or a template, which may raise anything
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        what = f"the chat template of {name} cannot be read here ({reason}); plain role marks"
        warnings.warn(printable(f"{what} are used: give chat_template="), stacklevel=3)
        return PLAIN
