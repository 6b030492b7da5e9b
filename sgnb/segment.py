"""Segments of a prompt, distinguished by tokenization. Shared by the language and the engine.
Imports no module of sgnb.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

Kind = Literal["raw", "data", "output", "media"]


class Segment(NamedTuple):
    """A segment of a prompt. Adjacent text segments are tokenized as a single text."""

    text: str
    # "raw": text in which the tokenizer recognizes special tokens. "data": text in which special
    # tokens are plain text. "output": ids sampled by the model (`tokens`), never retokenized. An
    # output without `tokens` (a stop string cut its first token) separates the adjacent texts.
    # "media": the image, video or audio `item`; `text` is a label for display only.
    kind: Kind = "raw"
    tokens: tuple[int, ...] = ()
    # For an output: the executor that generated the text, or None for the run's executor. For
    # chat-template text: the begin or end of a role, so another template can replace the text.
    origin: Any = None
    item: Any = None  # for "media": a `media.MediaItem`
