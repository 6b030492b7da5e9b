"""Images, videos and sounds in requests: content parts of OpenAI's format, and data of SGLang's."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from ...errors import OptionError, RequestError, shown
from ...lang.executor import Call, ScoreCall
from ...media import Audio, Image, MediaItem, Video, png, wav, with_article
from ...segment import Segment
from .endpoint import CompletionRequest

KINDS = ("image", "video", "audio")

CHARACTERS_PER_ITEM = 4000
"""Length of a part with an image or sound, for estimates of tokens."""


def checked_modalities(modalities: Iterable[str] | None) -> frozenset[str] | None:
    """Return the declared kinds of media; None if nothing is declared.

    Raises:
        OptionError: A kind is unknown.
    """
    if modalities is None:
        return None
    names = [modalities] if isinstance(modalities, str) else list(modalities)
    for name in names:
        if name not in KINDS:
            hint = f"give a tuple with {', '.join(map(repr, KINDS))}"
            raise OptionError(f"modalities={shown(modalities)} has no kind {shown(name)}", hint)
    return frozenset(names)


def media_in(segments: Sequence[Segment]) -> tuple[MediaItem, ...]:
    """Return the items of a prompt, in order."""
    return tuple(segment.item for segment in segments if segment.kind == "media")


def content_parts(text: str, media: Sequence[tuple[int, MediaItem]]) -> list[dict[str, Any]]:
    """Return the content of a turn as parts.

    Args:
        text: The text of the turn.
        media: Pairs of a position in the text and an item, sorted.
    """
    parts: list[dict[str, Any]] = []
    begin = 0
    for position, item in (*media, (len(text), None)):
        if begin < position:
            parts.append({"type": "text", "text": text[begin:position]})
        if item is not None:
            parts += _parts_of(item)
        begin = position
    return parts


def with_text(content: Any, text: str) -> Any:
    """Return the content of a turn with a paragraph appended."""
    if isinstance(content, list):
        return [*content, {"type": "text", "text": f"\n\n{text}"}]
    return f"{content}\n\n{text}"


def num_characters(request: CompletionRequest) -> int:
    """Return the number of characters of a request, for estimates of tokens."""
    count = len(request.prompt) + CHARACTERS_PER_ITEM * len(request.media)
    for turn in request.messages:
        content = turn["content"] or ""
        parts = content if isinstance(content, list) else [{"text": content}]
        texts = [part.get("text") for part in parts]
        count += sum(CHARACTERS_PER_ITEM if text is None else len(text) for text in texts)
        count += sum(len(call["function"]["arguments"]) for call in turn.get("tool_calls", ()))
    return count


def media_data(items: Iterable[MediaItem]) -> dict[str, list[str]]:
    """Return items as arguments of SGLang's `/generate`; frames of videos are images."""
    images = [url for item in items if not isinstance(item, Audio) for url in image_urls(item)]
    sounds = [audio_url(item) for item in items if isinstance(item, Audio)]
    data = {"image_data": images, "audio_data": sounds}
    return {name: values for name, values in data.items() if values}


class TextPrompt(NamedTuple):
    """A prompt as text, with the model's text for each item."""

    text: str
    segments: tuple[Segment, ...]
    items: tuple[MediaItem, ...]


def text_prompt(call: Call | ScoreCall, tokens: Mapping[str, str]) -> TextPrompt:
    """Return the prompt of a call to a text endpoint.

    Args:
        call: The call.
        tokens: Text of an image and of a sound, by kind. Each frame of a video is an image.

    Raises:
        RequestError: The text of an item is unknown.
    """
    items = media_in(call.segments)
    if not items:
        return TextPrompt(call.prompt, call.segments, ())
    segments = tuple(
        Segment(_token_text(call.name, s.item, tokens)) if s.kind == "media" else s
        for s in call.segments
    )
    return TextPrompt("".join([segment.text for segment in segments]), segments, items)


def _token_text(name: str, item: MediaItem, tokens: Mapping[str, str]) -> str:
    kind = "audio" if isinstance(item, Audio) else "image"
    if kind not in tokens:
        noun = with_article(item.kind)
        raise RequestError(
            f"{name!r} follows {noun}, and the text of {noun} in the server's prompts is unknown",
            f"give it to the backend: media_tokens={{{kind!r}: ...}}",
        )
    return tokens[kind] * (len(item.frames) if isinstance(item, Video) else 1)


def _parts_of(item: MediaItem) -> list[dict[str, Any]]:
    if isinstance(item, Audio):
        data = audio_url(item).partition(",")[2]
        return [{"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}]
    return [{"type": "image_url", "image_url": {"url": url}} for url in image_urls(item)]


@lru_cache(maxsize=8)
def image_urls(item: MediaItem) -> tuple[str, ...]:
    """Return an image, or each frame of a video, as a data URL with a PNG."""
    assert isinstance(item, Image | Video)
    frames = item.frames if isinstance(item, Video) else item.pixels[None]
    encoded = (base64.b64encode(png(frame)).decode() for frame in frames)
    return tuple(f"data:image/png;base64,{data}" for data in encoded)


def audio_url(item: Audio) -> str:
    """Return a sound as a data URL with a WAV of 16 bits."""
    return f"data:audio/wav;base64,{base64.b64encode(wav(item, bits=16)).decode()}"
