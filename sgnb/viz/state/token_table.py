"""Conversion of token ids to text safe for display. Knows no tokenizer: the log has the bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ...events import MediaNamed, TokensNamed
from .media import MediaTable, span_label

_UNNAMED = "\N{REPLACEMENT CHARACTER}".encode()

_CONTROL = [*(code for code in range(0x20) if code not in (0x09, 0x0A)), *range(0x7F, 0xA0)]
_BIDI = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_ZERO_WIDTH = [
    0x00AD, 0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFEFF, 0xFFA0,
    *range(0x180B, 0x1810), *range(0x200B, 0x200E), *range(0x2060, 0x2066), *range(0x206A, 0x2070),
    *range(0xFE00, 0xFE0E), *range(0xE0000, 0xE0080), *range(0xE0100, 0xE01F0),
]  # fmt: skip
_NOT_TEXT = [*range(0xD800, 0xE000), 0xFFFE, 0xFFFF]
_VISIBLE = dict.fromkeys([*_CONTROL, *_BIDI, *_ZERO_WIDTH, *_NOT_TEXT], 0xFFFD)

JOINER = "\N{ZERO WIDTH JOINER}"
_EMOJI = "\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff"
_JOINED = re.compile(f"(?:(?<=[{_EMOJI}])|(?<=[{_EMOJI}]\ufe0f)){JOINER}(?=[{_EMOJI}])")


def visible(text: str) -> str:
    """Replace unsafe characters by U+FFFD; the length stays equal.

    Unsafe are control characters except tab and newline, direction marks and overrides, zero-width
    characters, surrogates, and characters invalid in XML. Joiners between two emoji and the two
    emoji variation selectors stay.
    """
    shown = text.translate(_VISIBLE)
    for joiner in _JOINED.finditer(text):
        shown = f"{shown[: joiner.start()]}{JOINER}{shown[joiner.end() :]}"
    return shown


def visible_segments(segments: Sequence[Sequence[str]]) -> list[list[str]]:
    """Apply `visible` to adjacent [kind, text] pairs, considering the neighbouring text."""
    shown, result, at = visible("".join([text for _, text in segments])), [], 0
    for kind, text in segments:
        result.append([kind, shown[at : at + len(text)]])
        at += len(text)
    return result


class TokenTable:
    """Bytes of all tokens named by a log, and names of images, videos and sounds."""

    def __init__(self) -> None:
        self._pieces: dict[int, bytes] = {}
        self.media = MediaTable()

    def learn(self, event: TokensNamed | MediaNamed) -> None:
        if isinstance(event, MediaNamed):
            self.media.learn(event)
            ids = range(event.first_id, event.first_id + event.count)
            self._pieces |= dict.fromkeys(ids, b"") | {event.first_id: f"[{event.label}]".encode()}
            return
        for token, piece in zip(event.ids, event.pieces, strict=True):
            self._pieces[token] = piece.encode("latin-1")

    def bytes(self, tokens: Iterable[int]) -> bytes:
        """Return the bytes of tokens. Unnamed tokens (lost records) become U+FFFD."""
        return b"".join([self._pieces.get(token, _UNNAMED) for token in tokens])

    def text(self, tokens: Iterable[int]) -> str:
        return self.bytes(tokens).decode("utf-8", "replace")

    def label(self, tokens: Sequence[int], limit: int) -> str:
        """Return at least the first `limit` characters of the text, with names of images, videos
        and sounds."""
        text = ""
        for span in self.media.spans(tokens):
            if len(text) > limit:
                break
            if span.item is not None:
                text += span_label(span)
            else:
                text += self.text(tokens[span.begin : min(span.end, span.begin + limit + 1)])
        return text
