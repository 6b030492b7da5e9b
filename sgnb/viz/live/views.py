"""Names of the live views, and the actions of their buttons on a tree node or on the run."""

from __future__ import annotations

from collections.abc import Callable

VIEWS = ("compare", "text", "tree", "source", "branches", "time", "grammar")
ACTIONS = ("pin", "unpin", "evict")

STEPS = ("pause", "token", "call", "resume", "cancel")

Steer = Callable[[str], None]
"""Callback that executes one of `STEPS` on the run of a view."""

Compare = Callable[[str], bytes]
"""Callback that compares the run of a view with an earlier run. Returns lines of records."""

Act = Callable[[str, int], str]
"""Callback for an action on a node id. Returns a message line."""
