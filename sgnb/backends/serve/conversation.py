"""A conversation in OpenAI's format as a prompt. Knows no HTTP and no engine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from ...errors import MediaError, RequestError, shown
from ...lang.chat import ChatTemplate
from ...lang.chat.tool_format import ToolFormat
from ...lang.ir import media_segment
from ...media import read_image
from ...segment import Segment
from .bodies import ChatMessage, ImagePart, MessageCall, TextPart


def chat_segments(chat: ChatTemplate, messages: Sequence[ChatMessage]) -> list[Segment]:
    """Return the prompt of a conversation, up to the next answer. Special tokens in a message are
    plain text.

    Args:
        chat: The model's template, with the declared tools.
        messages: The turns. Results of tools follow the answer with the calls.

    Raises:
        RequestError: A turn is empty, or a result belongs to no call of the answer before.
        MediaError: An image is no data URL, or cannot be read.
    """
    if not messages:
        raise RequestError("messages is empty", "send at least one message")

    segments: list[Segment] = []
    previous, calls = None, dict[str, MessageCall]()
    results: list[ChatMessage] = []
    for message in messages:
        if message.role == "tool":
            results.append(message)
            continue
        segments += _results(chat, calls, results)
        previous = "tool" if results else previous
        results, calls = [], {call.id: call for call in message.tool_calls or ()}
        role = "system" if message.role == "developer" else message.role
        segments.append(Segment(chat.opening(role, previous)))
        segments += map(_part, message.parts)
        segments += _calls(chat.tools, message.tool_calls or ())
        segments.append(Segment(chat.roles[role][1]))
        previous = role
    segments += _results(chat, calls, results)
    previous = "tool" if results else previous
    return [*segments, Segment(chat.opening("assistant", previous))]


def _part(part: TextPart | ImagePart) -> Segment:
    if isinstance(part, TextPart):
        return Segment(part.text, "data")
    url = part.image_url.url
    if url[:5].lower() != "data:":  # neither a file of this machine nor a download
        hint = "send the image itself: data:image/png;base64,..."
        raise MediaError(f"the image {shown(url[:80])} is no data URL", hint)
    return media_segment(read_image(url))


def _calls(form: ToolFormat, calls: Sequence[MessageCall]) -> Iterator[Segment]:
    """Yield the calls of an answer in the model's format."""
    separator = form.close + form.open if form.separator is None else form.separator
    for index, call in enumerate(calls):
        yield Segment(separator if index else form.open)
        yield Segment(_call_text(form, call), "data")
    if calls:
        yield Segment(form.close)


def _call_text(form: ToolFormat, call: MessageCall) -> str:
    try:
        arguments: Any = json.loads(call.function.arguments)
    except (ValueError, RecursionError):
        message = f"the arguments of the call {call.name!r} are no JSON"
        raise RequestError(message, "send the arguments of the answer unchanged") from None
    values = {form.name_key: call.name, form.arguments_key: arguments, form.id_key: call.id}
    values |= dict(form.constants)
    blanks = (",", ":") if form.whitespace == 0 else (", ", ": ")
    members = {key: values[key] for key in form.keys}
    return json.dumps(members, ensure_ascii=False, separators=blanks)


def _results(
    chat: ChatTemplate, calls: dict[str, MessageCall], results: Sequence[ChatMessage]
) -> Iterator[Segment]:
    """Yield the turn with the results of calls."""
    if not results:
        return

    called, texts = list[MessageCall](), list[str]()
    for result in results:
        call = calls.get(result.tool_call_id or "")
        if call is None:
            message = f"the result of {shown(result.tool_call_id)} follows no such call"
            raise RequestError(message, "send the answer with the call before its result")
        parts = result.parts
        if not all(isinstance(part, TextPart) for part in parts):
            raise RequestError("the result of a tool has an image", "send results as text")
        called.append(call)
        texts.append("".join(part.text for part in parts if isinstance(part, TextPart)))

    for prefix, text in chat.tools.results(chat.roles["user"], called, texts):
        yield Segment(prefix)
        if text:
            yield Segment(text, "data")
