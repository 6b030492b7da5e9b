"""Views of a running engine: events -> states (pure) -> widgets, static SVG and text.

Knows events only: no engine, no language, no model. Widgets, IPython and rich are imported on first
display.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .live.compared_runs import joined_runs
from .live.display import Display, in_kernel
from .live.emitter import Emitter
from .live.feed import Feed
from .live.recorded_run import Recording
from .live.views import VIEWS
from .state.comparison import AS_IS, Comparison
from .state.log_state import LogState, Metrics, RunState, Trees, TreeState
from .static.kept_views import KEPT_VIEWS

if TYPE_CHECKING:
    from .live.terminal import print_tree, render_text

__all__ = [
    "AS_IS",
    "KEPT_VIEWS",
    "VIEWS",
    "Comparison",
    "Display",
    "Emitter",
    "Feed",
    "LogState",
    "Metrics",
    "Recording",
    "RunState",
    "TreeState",
    "Trees",
    "in_kernel",
    "joined_runs",
    "print_tree",
    "render_text",
]


def __getattr__(name: str) -> Any:
    if name in ("print_tree", "render_text"):
        from .live import terminal

        return getattr(terminal, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
