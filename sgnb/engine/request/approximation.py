"""Record of an approximate answer: numbers of computed and reused tokens, and the comparison with
an exact run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from ...events.verdict import verdict
from ...latch import Latch
from ..cache.radix import Ints

ALTERNATIVES = 16
"""Likeliest tokens per position whose probabilities are compared."""

MAX_KL = 0.05
"""Largest mean Kullback-Leibler divergence of a verified answer, in nats."""

MAX_ROTATION_ERROR = 0.02
"""Largest relative error of the first layer's reused keys of a verified answer. The bundled model
in bfloat16 has 0.003, and a distance that is wrong by one position 0.1."""

Row = Sequence[tuple[int, float]]
"""Likeliest tokens of a position with their log-probabilities."""


class KeySample(NamedTuple):
    """Some of the reused keys and values of a request."""

    positions: Ints  # in the prompt
    content: Any  # tensor uint8[positions, bytes of a slot]


class Verification(NamedTuple):
    """Comparison of an approximate answer with an exact run."""

    same_tokens: int  # leading tokens equal to the exact run
    tokens: int  # tokens of the answer
    mean_kl: float  # see `divergence`
    rotation_error: float  # relative error of the first layer's reused keys, median token
    key_error: float  # error of the worst layer; includes the effect of the edit on its keys
    seconds: float  # from the end of the answer to the end of the comparison
    text: str  # exact answer

    @property
    def passed(self) -> bool:
        """True if the answers agree, the probabilities are close, and the rotation is right."""
        close = self.mean_kl <= MAX_KL and self.rotation_error <= MAX_ROTATION_ERROR
        return close and self.same_tokens == self.tokens


class Approximation:
    """An approximate answer. The engine compares the answer with an exact run when idle.

    Attributes:
        prompt_tokens: Number of prompt tokens.
        computed_tokens: Prompt tokens that were computed.
        reused_tokens: Prompt tokens whose keys and values come from other positions of a cached
            text. Other prompt tokens come from the prefix cache, exactly.
        donor: Node of the radix tree at the end of the cached text.
        result: Comparison with an exact run; None before the comparison, and without one.
        reason: Why no comparison took place; "" otherwise.
    """

    def __init__(
        self, prompt_tokens: int, computed_tokens: int, reused_tokens: int, donor: int
    ) -> None:
        self.prompt_tokens, self.computed_tokens = prompt_tokens, computed_tokens
        self.reused_tokens, self.donor = reused_tokens, donor
        self.result: Verification | None = None
        self.reason = ""
        self._decided = Latch()

    @property
    def status(self) -> Literal["pending", "same", "differs", "unverified"]:
        """State of the comparison."""
        if not self._decided.is_set():
            return "pending"
        return status_of(self.result)

    @property
    def verified(self) -> bool | None:
        """Result of the comparison; None before the comparison, and without one."""
        return None if self.result is None else self.result.passed

    def wait(self, seconds: float | None = None) -> bool | None:
        """Wait for the comparison, at most `seconds`. Returns `verified`."""
        self._decided.wait(seconds)
        return self.verified

    def decide(self, result: Verification | None, reason: str = "") -> None:
        """Set the result of the comparison, or the reason why there is none."""
        self.result, self.reason = result, reason
        self._decided.set()

    def __str__(self) -> str:
        result = self.result
        seconds, text = (
            ("", "") if result is None else (f"{result.seconds:.1f} s", repr(result.text))
        )
        return (
            f"approximate: computed {self.computed_tokens:,} of {self.prompt_tokens:,} tokens; "
            f"{verdict(self.status, result, self.reason, seconds, text)}"
        )

    def __repr__(self) -> str:
        return f"<Approximation {self}>"


def status_of(result: Verification | None) -> Literal["same", "differs", "unverified"]:
    """Return the status of an ended comparison. result: None for no comparison."""
    if result is None:
        return "unverified"
    return "same" if result.passed else "differs"


def divergence(exact: Row, other: Row) -> float:
    """Return the Kullback-Leibler divergence of `other` from `exact`, in nats. The outcomes are the
    tokens of `exact`, and all remaining tokens as a single outcome. A token without an entry in
    `other` counts with the lowest probability in `other`."""
    probabilities = {token: math.exp(value) for token, value in other}
    least = min(probabilities.values())
    pairs = [(math.exp(value), probabilities.get(token, least)) for token, value in exact]
    p_rest, q_rest = (max(1 - sum(column), 1e-9) for column in zip(*pairs, strict=True))
    terms = [p * math.log(p / max(q, 1e-30)) for p, q in [*pairs, (p_rest, q_rest)] if p > 0]
    return max(0.0, sum(terms))
