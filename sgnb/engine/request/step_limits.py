"""Adaptation of steps to the memory: number of tokens, slots kept free, preemption order."""

from __future__ import annotations

from .request import Request

RECOVERY = 64
"""Steps between an out-of-memory step and the next doubling of the step size."""

MIN_RESERVE = 0.3
"""Smallest share of the running requests' remaining tokens that is kept free at an admission."""


class StepSize:
    """Maximum number of tokens of a step, `tokens`."""

    def __init__(self, max_tokens: int) -> None:
        self.tokens = self._max_tokens = max_tokens
        self._changed_at = 0

    def recover(self, step: int) -> None:
        """Double a reduced size every `RECOVERY` steps. step: number of the next step."""
        if self.tokens < self._max_tokens and step >= self._changed_at + RECOVERY:
            self.tokens = min(2 * self.tokens, self._max_tokens)
            self._changed_at = step

    def shrink(self, num_tokens: int, step: int) -> bool:
        """Halve the size after an out-of-memory step.

        Args:
            num_tokens: Number of tokens of the step.
            step: Number of the step.

        Returns:
            False if the step cannot be smaller.
        """
        self.tokens = max(1, num_tokens // 2)
        self._changed_at = step
        return num_tokens > 1


class GrowthReserve:
    """Share of the running requests' remaining tokens that is kept free at an admission: 1 after a
    retraction, then falling by 1 % per step to `MIN_RESERVE`. 0.5 at the first step."""

    def __init__(self) -> None:
        self._filled_at = -69  # step of the last retraction; 0.99 ** 69 is 0.5

    def fill(self, step: int) -> None:
        """Keep all remaining tokens free, after a retraction. step: number of the step."""
        self._filled_at = step

    def slots(self, num_tokens: int, step: int) -> int:
        """Return the number of slots kept free for `num_tokens` remaining tokens. step: number of
        the step."""
        return int(num_tokens * max(MIN_RESERVE, 0.99 ** (step - self._filled_at)))


def preemption_key(request: Request) -> tuple[int, int]:
    """Preemption order: shortest output first, then longest prompt."""
    return request.num_output_tokens, -request.num_prompt_tokens
