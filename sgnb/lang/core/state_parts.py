"""Parts of states: the end of `with` blocks, and the representation of a branch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from ...errors import Aborted, ProgramError, shown
from .branch import Branch

SHOWN_TEXT = 1000
"""Maximum number of characters of the text in `repr`; a longer text is shortened in the middle."""


@contextmanager
def ended_by(end: Callable[[], None]) -> Iterator[None]:
    """Call `end` after the block, also after an error of the block."""
    try:
        yield
    except Exception:
        with suppress(ProgramError, Aborted):  # `end` was called, or the run was stopped
            end()
        raise
    end()


def represent(branch: Branch) -> str:
    """Return id, status and text of a branch."""
    error = f"error {shown(branch.error)}" if branch.error else ""
    status = error or ("idle" if branch.idle else "running")
    text = branch.text + branch.partial
    begin, end = text[: SHOWN_TEXT // 2], text[-SHOWN_TEXT // 2 :]
    quoted = repr(text) if len(text) <= SHOWN_TEXT else f"{begin!r} … {end!r}"
    return f"branch {branch.id}, {status}, {quoted}"
