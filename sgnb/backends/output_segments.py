"""Outputs of an engine as segments for later prompts."""

from __future__ import annotations

from ..engine.request.output import Output
from ..segment import Segment
from .any_engine import AnyEngine


def made_segments(engine: AnyEngine, output: Output) -> tuple[Segment, ...]:
    """Return an output as segments for later prompts.

    Contains the tokens without the end token, and as text the prefix of a token cut by a stop
    string. If thinking was removed, the whole output is text.
    """
    tokens = output.token_ids[: -1 if isinstance(output.stopped_by, int) else None]
    if engine.tokenizer is None or output.reasoning:
        return _as_text(output.text)
    text = output.text
    if output.params.leading_blank and _begins_with_blank(engine, tokens):
        text = " " + text
    if not isinstance(output.stopped_by, str):
        return (Segment(text, "output", tuple(tokens)),)

    left, kept = text.encode(), 0
    for piece in engine.tokenizer.pieces(tokens):
        if not left.startswith(piece):
            break
        left, kept = left[len(piece) :], kept + 1

    try:
        rest = left.decode()
    except UnicodeDecodeError:  # the cut token begins inside a character
        return _as_text(text)
    whole = text.removesuffix(rest)
    return Segment(whole, "output", tuple(tokens[:kept])), Segment(rest, "data")


def _begins_with_blank(engine: AnyEngine, tokens: list[int]) -> bool:
    assert engine.tokenizer is not None
    return any(piece.startswith(b" ") for piece in engine.tokenizer.pieces(tokens[:1]))


def _as_text(text: str) -> tuple[Segment, ...]:
    return Segment("", "output"), Segment(text, "data")
