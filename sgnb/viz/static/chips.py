"""Images, videos and sounds in the text of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...events import MediaNamed
from ..state.media import chip_text, mark_of
from ..state.run_state import RunState


def with_chips(state: RunState, segments: Iterable[Sequence[str]]) -> list[list[str]]:
    """Replace the text of images, videos and sounds by name, size, tokens and cache result."""
    return [[kind, _chip(state, kind, text)] for kind, text in segments]


def _chip(state: RunState, kind: str, text: str) -> str:
    item, mark = state.item_of(kind), mark_of(kind)
    if item is None or mark is None:
        return text
    return f"[{chip_text(item, kind.partition(' ')[0], mark.found)}]"


def items_of(state: RunState) -> list[MediaNamed]:
    """Return the items in the shown text of a run, each once."""
    segments = [segment for branch in state.branches.values() for segment in branch.segments]
    items = [state.item_of(kind) for kind, _ in segments]
    return list({id(item): item for item in items if item is not None}.values())
