"""Joins: the work of a fork's branches comes back to their parent. Locks as `Branch` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .ops import Join

if TYPE_CHECKING:
    from .branch import Branch


def start_join(parent: Branch, join: Join) -> bool:
    """Wait for the running children; the last of them completes the join.

    An error of a child fails the parent, unless the program had read the error before the join.

    Returns:
        Whether the join is complete.
    """
    for child in join.children:
        if child.error is not None and not child.excused:
            child.error_reported = True
            parent.fail(child.error)
            return False

    running = [child for child in join.children if not child.idle]
    for child in running:
        child.joiner = parent
    parent.unjoined = len(running)
    if not running:
        gather(parent, join)
    return not running


def gather(parent: Branch, join: Join) -> None:
    """Set the variables of a join, or append its texts. A failed child contributes its variables,
    and no text."""
    if join.append:
        for child in join.children:
            if not child.excused:
                _take_messages(parent, child)
                parent.add(*child.segments[child.fork_at :])

    for name in join.names:
        holders = [child for child in join.children if child.has_set(name)]
        values = [child.variables[name] for child in holders]
        meta = [child.meta.get(name, {}) for child in holders]
        parent.set(name, values[0] if join.keep else values)
        parent.meta[name] = meta[0] if join.keep else meta


def _take_messages(parent: Branch, child: Branch) -> None:
    """Append the messages of a child, before its text. An open role goes on in the parent."""
    parent.messages += child.messages[child.messages_at :]
    text_at = sum(len(segment.text) for segment in child.segments[: child.fork_at])
    if child.role_at > text_at:
        parent.role_at = child.role_at - text_at + len(parent.text)


def gathered_names(children: tuple[Branch, ...]) -> tuple[str, ...]:
    """Return the names that a join of `children` sets."""
    return tuple(dict.fromkeys(name for child in children for name in child.scope.new_names()))
