"""What each model of a run did: its own, and others that its calls named. Knows no events.

The live page does the same (`page/models.js`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...events import model_letter


@dataclass(slots=True)
class Model:
    """Counts over its requests; of one without an engine here, over its calls."""

    number: int  # 0 for the run's own
    name: str = ""
    engine: int = 0  # whose records its requests are
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0  # in which it was asked for something
    _open: int = 0  # requests or calls
    _since: float = 0.0

    @property
    def letter(self) -> str:
        return model_letter(self.number)

    def begin(self, t: float) -> None:
        """A request or a call begins."""
        if not self._open:
            self._since = t
        self._open += 1

    def end(self, t: float) -> None:
        """And is over."""
        self._open -= 1
        if not self._open:
            self.seconds += t - self._since


@dataclass(slots=True)
class OpenCall:
    """A call to another model. counted: its requests are in the log."""

    model: Model
    counted: bool = False


def made_by(kind: str, model: Model | None) -> str:
    """The kind of text that another model than the run's own made: with its letter."""
    return kind if model is None else f"{kind} {model.letter}"


def with_marks(segments: Sequence[Sequence[str]]) -> list[list[str]]:
    """[kind, text] pairs, with the letter of another model before what it made, of kind "model"."""
    marked, before = list[list[str]](), ""
    for kind, text in segments:
        letter = letter_of(kind)
        if letter and letter != before:
            marked.append(["model", letter])
        before = letter
        marked.append([kind, text])
    return marked


def letter_of(kind: str) -> str:
    """ "" for text of the run's own model."""
    return kind.partition(" ")[2]
