"""Detection of forked children, which inherit objects without their threads: a wait for a thread
would never end. Imports errors alone."""

from __future__ import annotations

import os

from .errors import EngineError

_forks = 0  # between the first process and this one


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


class HomeProcess:
    """The process that made an object."""

    def __init__(self, name: str) -> None:
        """name: the object, for the error."""
        self._name, self._forks = name, _forks

    @property
    def left(self) -> bool:
        """True in a child forked after the object was made."""
        return _forks != self._forks

    def check(self) -> None:
        """Raise an EngineError in a forked child."""
        if self.left:
            raise EngineError(
                f"{self._name} cannot be used in a forked child: its threads run in the parent",
                'start children by multiprocessing.get_context("spawn")',
            )
