"""Confirmations of commands by the followers, on rank 0."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple


class Confirmation(NamedTuple):
    """Message of a follower after the end of a command; sent as JSON."""

    number: int  # of the command
    value: Any
    error: str  # "" without an error


Received = SimpleQueue[tuple[int, Confirmation] | Exception]
"""Confirmations of a command by rank, or the reason why no more will come."""


class Confirmations:
    """Waits for the confirmations of all followers. On any thread.

    Args:
        followers: Number of followers.
    """

    def __init__(self, followers: int) -> None:
        self._followers, self._last = followers, 0
        self._lock = threading.Lock()
        self._waits: dict[int, Received] = {}
        self._missing: dict[int, int] = {}  # number of missing confirmations by command
        self._end: Exception | None = None

    def expect(self) -> tuple[int, Callable[[], list[Any]]]:
        """Return the number of a new command, and a function to wait for all confirmations,
        with the values by rank.

        The function raises the error of `end`, or RuntimeError if a follower failed.
        """
        received: Received = SimpleQueue()
        with self._lock:
            if self._end is not None:
                raise self._end
            self._last += 1
            number = self._last
            if self._followers:
                self._waits[number], self._missing[number] = received, self._followers
        return number, lambda: self._wait(received)

    def receive(self, rank: int, confirmation: Confirmation) -> None:
        """Deliver a confirmation."""
        number = confirmation.number
        with self._lock:
            received = self._waits.get(number)
            if received is None:  # after `end`
                return
            self._missing[number] -= 1
            if not self._missing[number]:
                del self._waits[number], self._missing[number]
        received.put((rank, confirmation))

    def end(self, error: Exception) -> None:
        """Raise an error in all present and later waits. Idempotent."""
        with self._lock:
            self._end = self._end or error
            waits, self._waits = self._waits, {}
        for received in waits.values():
            received.put(error)

    def _wait(self, received: Received) -> list[Any]:
        by_rank: dict[int, Confirmation] = {}
        for _ in range(self._followers):
            confirmation = received.get()
            if isinstance(confirmation, Exception):
                raise confirmation
            by_rank[confirmation[0]] = confirmation[1]

        for rank, (_, _, error) in sorted(by_rank.items()):
            if error:
                raise RuntimeError(f"rank {rank}: {error}")
        return [by_rank[rank].value for rank in sorted(by_rank)]
