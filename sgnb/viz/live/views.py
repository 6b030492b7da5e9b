"""Names of the live views, and the actions of their buttons on a tree node or on the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

VIEWS = ("compare", "text", "tree", "source", "branches", "workers", "time", "grammar")
ACTIONS = ("pin", "unpin", "evict")

STEPS = ("pause", "token", "call", "resume", "cancel")


class EditRequest(NamedTuple):
    """A request of a page to continue a run with another token or text."""

    run: str
    branch: str
    position: int  # of the token in the prompt and output of its call
    text: str | None  # new text, or None for `token`
    token: int | None


Edit = Callable[[EditRequest], str]
"""Callback that starts the edited run. Returns a message line."""

Steer = Callable[[str], None]
"""Callback that executes one of `STEPS` on the run of a view."""

BATCH = ("rerun", "csv")

RunRows = Callable[[str], str | bytes]
"""Callback that executes one of `BATCH` on the states of a batch. Returns a message or data."""

Compare = Callable[[str], bytes]
"""Callback that compares the run of a view with an earlier run. Returns lines of records."""

Act = Callable[[str, int], str]
"""Callback for an action on a node id. Returns a message line."""
