"""The stretches of a prompt, told apart by how each becomes tokens: shared by the language and the
engine. Imports nothing of ours."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

Kind = Literal["raw", "data", "output"]


class Segment(NamedTuple):
    """A stretch of a prompt. Stretches of text that follow each other are tokenized as one text."""

    text: str
    # "raw": as the tokenizer reads it, special tokens written in it included; "data": those are
    # plain text; "output": `tokens`, which the model made, as they are; without any, a stop string
    # cut the first, and the text before stays as it is too.
    kind: Kind = "raw"
    tokens: tuple[int, ...] = ()
    # Of an output, the executor that made it, None for the run's own; of a chat template's text,
    # the role's beginning or end that it stands for, so that another template can take its place.
    origin: Any = None
