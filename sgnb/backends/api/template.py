"""Chat template of a remotely served model, read from a local copy of its tokenizer."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

from ...errors import printable, shown
from ...lang.chat import PLAIN, ChatTemplate, Messages, from_render

_HUB_ID = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")


def template_named(name: str) -> ChatTemplate:
    """Return the chat template of a tokenizer by the hub id from a service. Folders stay closed:
    an answer must not select files of this machine."""
    if _HUB_ID.fullmatch(name) and ".." not in name and not Path(name).exists():
        return template_of(name)
    message = f"the service names the tokenizer {shown(name)}, which is no hub id"
    hint = "plain role marks are used: give chat_template= its folder"
    warnings.warn(f"{message}; {hint}", stacklevel=3)
    return PLAIN


def template_of(name: str) -> ChatTemplate:
    """Return the chat template of a tokenizer on this machine, by folder or hub id; warn and return
    plain roles if the template is missing."""
    try:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(
            name, local_files_only=True, trust_remote_code=False
        )

        def render(messages: Messages, tools: Any = None) -> str:
            return str(tokenizer.apply_chat_template(list(messages), tokenize=False))

        return from_render(name, render)
    except Exception as error:  # missing file, or a template error of any type
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        what = f"the chat template of {name} cannot be read here ({reason}); plain role marks"
        warnings.warn(printable(f"{what} are used: give chat_template="), stacklevel=3)
        return PLAIN
