"""Metrics of a run, and of each program of a batch. Knows no events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

STOPS = ("Aborted", "KeyboardInterrupt", "GeneratorExit", "CancelledError")
"""Errors of a branch that was stopped from outside. The branch keeps the partial text."""


def is_stop(error: str) -> bool:
    """Return True for the error of a branch that was stopped from outside."""
    return error.partition(":")[0] in STOPS


@dataclass(slots=True)
class Metrics:
    """Counts over all requests of a run, including scoring."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    recomputed_tokens: int = 0  # part of the computed tokens
    reused_tokens: int = 0  # with approximate keys and values
    output_tokens: int = 0
    jumped_tokens: int = 0
    passes: int = 0  # forward passes
    seconds: float = 0.0  # time from the first record to the last
    finished: int = 0
    total: int = 1

    @property
    def computed_tokens(self) -> int:
        return self.prompt_tokens - self.cached_tokens - self.reused_tokens

    @property
    def sampled_tokens(self) -> int:
        return self.output_tokens - self.jumped_tokens

    def by_kind(self) -> dict[str, int]:
        """Return the nonzero tokens by kind of text; "again" is a part of the computed tokens."""
        counts = {
            "cached": self.cached_tokens,
            "reused": self.reused_tokens,
            "computed": self.computed_tokens,
            "again": self.recomputed_tokens,
            "sampled": self.sampled_tokens,
            "jumped": self.jumped_tokens,
        }
        return {k: n for k, n in counts.items() if n or k not in ("reused", "again", "jumped")}

    @property
    def hit_rate(self) -> float:
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    @property
    def tokens_per_second(self) -> float:
        return self.output_tokens / self.seconds if self.seconds else 0.0

    def gain(self) -> str:
        """Return the savings of the cache in tokens, or "" before the first admission.

        The line states no time: a step has a fixed cost, and the events do not show the cost of a
        further token.
        """
        if not self.prompt_tokens:
            return ""
        line = f"{self.cached_tokens:,} of {self.prompt_tokens:,} prompt tokens found in the cache"
        if self.recomputed_tokens:
            line += f"; {self.recomputed_tokens:,} more recomputed for lack of a checkpoint"
        return line

    def line(self) -> str:
        """Return all metrics as a display line."""
        parts = [f"{self.finished}/{self.total} runs"] if self.total > 1 else []
        parts.append(f"{self.prompt_tokens} prompt + {self.output_tokens} new tokens")
        parts.append(f"hit rate {self.hit_rate:.0%}")
        parts += [f"{self.jumped_tokens} jumped"] if self.jumped_tokens else []
        parts += [f"{self.tokens_per_second:.0f} tok/s"] if self.output_tokens else []
        parts.append(f"{self.passes} pass" + "es" * (self.passes != 1))
        parts.append(duration(self.seconds))
        return " · ".join(parts)


KIND_NAMES = {"again": "recomputed"}
"""Legend labels of kinds with an unclear name."""


def duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"


@dataclass(slots=True)
class Row:
    """Metrics of one program of a batch, including forks."""

    branch: str  # root branch of the program
    began: float  # start, in seconds of the log's clock
    ended: float | None = None
    status: str = "running"
    error: str = ""
    arguments: str = ""
    name: str = ""  # variable set last
    answer: str = ""  # value of the variable
    prompt: int = 0  # prompt tokens of all requests
    cached: int = 0
    again: int = 0
    output: int = 0
    number: int = 0  # row of the batch
    variables: dict[str, str] = field(default_factory=dict)
    items: list[int] = field(default_factory=list)  # first token ids of images, videos and sounds

    def found(self, prompt: int, cached: int, again: int) -> None:
        """Count a prompt."""
        self.prompt += prompt
        self.cached += cached
        self.again += again

    def uses(self, items: Iterable[int]) -> None:
        """Add images, videos and sounds of a prompt."""
        self.items = list(dict.fromkeys([*self.items, *items]))

    def answered(self, name: str, text: str) -> None:
        """Keep the text of a call; a stopped call has partial text."""
        self.name = name
        self.answer = self.variables[name] = text
