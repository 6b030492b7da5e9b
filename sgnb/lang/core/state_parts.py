"""Parts of states: the end of `with` blocks, and the representation of a branch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

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


def names_in_forks(branch: Branch) -> set[str]:
    """Return the variables of the forks of a branch."""
    inside, branches = branch.id + ".", branch.program.branches
    return {name for fork in branches if fork.id.startswith(inside) for name in fork.scope.names}


def approximate_answers(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of each approximate answer; a list for several samples.

    Args:
        meta: Meta information by variable.
    """
    answers: dict[str, Any] = {}
    for name, value in meta.items():
        infos = value if isinstance(value, list) else [value]
        records = [i["approximate"] for i in infos if isinstance(i, dict) and "approximate" in i]
        if records:
            answers[name] = records if isinstance(value, list) else records[0]
    return answers
