"""Role marks, tool format and special tokens of an engine's tokenizer."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..engine.device.background import WorkerThread
from ..errors import SgnbWarning, printable
from ..lang.chat import PLAIN, ChatTemplate, Messages, TemplateError, from_render, with_tools
from .any_engine import AnyEngine

TEMPLATE_SECONDS = 5.0
"""Time limit for rendering a few short turns with a model's chat template."""


def special_tokens(engine: AnyEngine) -> re.Pattern[str] | None:
    """Return a pattern of the tokenizer's special tokens in a text."""
    return engine.tokenizer.special_tokens if engine.tokenizer else None


def chat_template(engine: AnyEngine) -> ChatTemplate:
    """Return the role marks of the model's chat template, or plain marks without a template."""
    tokenizer = engine.tokenizer.hf if engine.tokenizer else None
    if tokenizer is None or not tokenizer.chat_template:
        return PLAIN

    def render(messages: Messages, tools: Any = None) -> str:
        return tokenizer.apply_chat_template(list(messages), tools=tools, tokenize=False)

    name = engine.model_name
    try:
        template = _read_template(name, render)
    except Exception as error:  # a Jinja template may raise anything
        message = f"{name}'s chat template cannot be parsed ({error}); plain role marks are used"
        warnings.warn(printable(message), SgnbWarning, stacklevel=2)
        return PLAIN
    if template.last_answer.strip():
        message = (
            f"{name}'s chat template writes {template.last_answer!r} before a conversation's last "
            "answer; a program that wants it writes assistant(raw(...) + gen(...))"
        )
        warnings.warn(printable(message), SgnbWarning, stacklevel=2)
    return _with_stops(engine, template)


def _with_stops(engine: AnyEngine, template: ChatTemplate) -> ChatTemplate:
    """Add the text after an answer, or before the next turn, to the stops of `template`. The stop
    is a string or a special token that does not end generations by default."""
    assert engine.tokenizer is not None
    after = template.roles["assistant"][1]
    closing = (after if after.strip() else after + template.roles["user"][0]).rstrip()
    mark = (
        engine.tokenizer.special_tokens.search(closing) if engine.tokenizer.special_tokens else None
    )
    text = closing if mark is None else closing[: mark.start()].rstrip()
    if text:
        return replace(template, stop=(text,))
    token = engine.tokenizer.hf.convert_tokens_to_ids(mark[0]) if mark else None
    stops = () if token is None or token in engine.eos_token_ids else (token,)
    return replace(template, stop_token_ids=stops)


def _read_template(name: str, render: Callable[..., str]) -> ChatTemplate:
    """Read a template on a stoppable thread: a template is a program and may not terminate."""
    reading = WorkerThread(lambda: with_tools(from_render(name, render), render), "sgnb-template")
    try:
        if reading.wait(TEMPLATE_SECONDS):
            template: ChatTemplate = reading.result()
            return template
    except KeyboardInterrupt:
        reading.stop()
        raise
    reading.stop()
    message = f"rendering takes more than {TEMPLATE_SECONDS:g} s"
    raise TemplateError(message, "give the roles as a ChatTemplate")
