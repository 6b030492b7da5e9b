"""Times of the searches for a completion, in remaining tokens. A search takes milliseconds."""

from __future__ import annotations

SHARE = 0.25
"""Next search after this share of the slack beyond the last completion: open structures seldom grow
by three tokens per token."""

ALWAYS = 32
"""Search at every token once fewer than `2 * completion + ALWAYS` tokens remain: one token may open
an object with many required properties. Each object or array opened since the last search may
require a completion of the same size again."""

AGAIN = 16
"""Tokens until the next search after a search without result."""


class SearchSchedule:
    """Next search of a request.

    Args:
        limit: maximum number of tokens of the request.
    """

    def __init__(self, limit: int) -> None:
        self._next = limit
        self._needed = 0  # tokens of the last completion
        self._openings = 0  # since the last completion

    def is_due(self, tokens: int) -> bool:
        """Return whether a search is due with `tokens` remaining tokens."""
        return tokens <= self._next

    def opened(self, tokens: int) -> None:
        """Record the opening of an object or array with `tokens` remaining tokens."""
        self._openings += 1
        if tokens < 2 * self._needed * (1 + self._openings) + ALWAYS:
            self._next = max(self._next, tokens)

    def failed(self, tokens: int, at_start: bool) -> None:
        """Record a search without result. at_start: only shortest texts were known."""
        self._next = tokens - (1 if at_start else AGAIN)

    def found(self, tokens: int, needed: int) -> None:
        """Record a completion of `needed` tokens."""
        later = tokens - max(1, int(SHARE * (tokens - needed)))
        self._next = max(later, 2 * needed + ALWAYS)
        self._needed, self._openings = needed, 0
