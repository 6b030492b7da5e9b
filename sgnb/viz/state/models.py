"""Metrics per model of a run: the default model and models named by calls. Knows no events.

The live page implements the same state (`page/models.js`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...events import model_letter
from .metrics import Metrics, Row


@dataclass(slots=True)
class Model:
    """Counts over the requests of a model, or over the calls of a model without a local engine."""

    number: int  # 0 for the run's default model
    name: str = ""
    engine: int = 0  # engine number of the requests' records
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0  # time with at least one open request
    _open: int = 0  # open requests or calls
    _since: float = 0.0

    @property
    def letter(self) -> str:
        return model_letter(self.number)

    def begin(self, t: float) -> None:
        """Record the start of a request or call."""
        if not self._open:
            self._since = t
        self._open += 1

    def end(self, t: float) -> None:
        """Record the end of a request or call."""
        self._open -= 1
        if not self._open:
            self.seconds += t - self._since


def count_found(
    metrics: Metrics, model: Model, row: Row | None, prompt: int, cached: int, again: int = 0
) -> None:
    """Count a prompt."""
    metrics.recomputed_tokens += again
    for counts in (metrics, model):
        counts.prompt_tokens += prompt
        counts.cached_tokens += cached
    if row is not None:
        row.found(prompt, cached, again)


def count_written(metrics: Metrics, model: Model, row: Row | None, count: int) -> None:
    """Count output tokens."""
    metrics.output_tokens += count
    model.output_tokens += count
    if row is not None:
        row.output += count


@dataclass(slots=True)
class OpenCall:
    """Open call to another model. `counted`: the log has the requests of the call."""

    model: Model
    counted: bool = False


def made_by(kind: str, model: Model | None) -> str:
    """Return the kind of text of a model: a kind with the model's letter for other models than the
    run's default."""
    return kind if model is None else f"{kind} {model.letter}"


def with_marks(segments: Sequence[Sequence[str]]) -> list[list[str]]:
    """Insert pairs of kind "model" with the letter before the text of other models."""
    marked, previous = list[list[str]](), ""
    for kind, text in segments:
        letter = letter_of(kind)
        if letter and letter != previous:
            marked.append(["model", letter])
        previous = letter
        marked.append([kind, text])
    return marked


def letter_of(kind: str) -> str:
    """Return the model letter of a kind of text, or "" for the run's default model and for the
    items of prompts."""
    letter = kind.partition(" ")[2]
    return "" if letter.startswith("@") else letter
