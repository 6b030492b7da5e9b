"""States in a terminal, with rich: streaming coloured text, and a tree cut to the screen. Reads no
log."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

from ..state.comparison import Comparison
from ..state.metrics import KIND_NAMES
from ..state.models import with_marks
from ..state.residency import with_copies
from ..state.run_state import RunState
from ..state.token_table import visible, visible_segments
from ..state.tree import TreeState
from ..static.chips import with_chips
from ..static.plain_text import (
    BATCH_ROWS,
    Shown,
    batch_lines,
    cache_lines,
    compare_text,
    copy_lines,
    counted,
    in_line,
    losses,
    model_lines,
    node_marks,
    own_error,
    run_heading,
    run_of,
    tree_heading,
    without_empty_trees,
)
from ..static.tree_rows import rows

STYLES = {
    "text": "dim",
    "cached": "green underline",
    "computed": "yellow",
    "reused": "green italic",
    "again": "yellow underline",
    "sampled": "bold blue",
    "jumped": "magenta italic",
    "model": "reverse",
}
REDRAW_SECONDS = 0.1


def render_text(state: RunState) -> RenderableType:
    """Render the coloured text of a run or the rows of a batch, with legend and metrics."""
    out = Text(run_heading(state) + "\n", style="bold", end="")
    text = Text("\n".join(batch_lines(state, BATCH_ROWS))) if state.is_batch else _text(state)
    savings = state.metrics.gain(), *cache_lines(state)
    heads = *savings, state.line(), state.time.line()
    lines = *heads, *state.stops.lines(), *model_lines(state), *losses(state)
    metrics = [Text(line) for line in lines if line]
    return Group(out, text, _legend(state), *metrics)


def _text(state: RunState) -> Text:
    body = Text()
    for branch, segments, last in state.passages():
        error = own_error(state, branch) if last else ""
        if not segments and not error:
            continue
        if len(state.branches) > 1:
            body.append(f"[{branch.name}] ", "cyan")
        for kind, text in visible_segments(with_marks(with_chips(state, segments))):
            shown = f"[{text}]" if kind == "model" else text  # visible without colours
            body.append(shown, STYLES[kind.partition(" ")[0]])
        body.append(f"\nerror: {visible(error)}\n" if error else "\n", "red")

    if state.hidden:
        body.append(f"and {state.hidden} more branches\n", "dim")
    return body


def _legend(state: RunState) -> Text:
    counts = state.metrics.by_kind().items()
    items = [Text(f"{KIND_NAMES.get(kind, kind)} {n}", STYLES[kind]) for kind, n in counts]
    return Text(" · ").join(items)


def print_tree(tree: TreeState, height: int = 30, run: RunState | None = None) -> RenderableType:
    """Render the radix tree in at most about `height` lines; the most recently used nodes come
    first.

    Args:
        tree: State of the tree.
        height: Maximum number of lines.
        run: Run with the name of the tree's model, or None.
    """
    heading = [tree_heading(tree, run), *losses(tree), *copy_lines(tree)]
    out = Text("\n".join(heading), style="bold")
    body = Text(no_wrap=True, overflow="ellipsis")
    for stem, node, hidden in rows(with_copies(tree), height):
        body.append("\n" + stem, "dim") if body else body.append(stem, "dim")
        if node is None:
            body.append(f"… {hidden} more nodes", "dim")
        else:
            body.append(in_line(tree.label(node, 48), 48), "green")
            body.append(f"  {counted(len(node.tokens), 'token')}", "dim")
            body.append("".join(f"  {part}" for part in node_marks(tree, node)), "bold")
    return Group(out, body)


class Tail:
    """The end of `whole`, cut to the height of the screen, because new text appears at the end."""

    def __init__(self, whole: RenderableType) -> None:
        self._whole = whole

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in console.render_lines(self._whole, options, pad=False)[-(console.height - 1) :]:
            yield from line
            yield Segment.line()


class TerminalView:
    """View of `states` in a terminal, redrawn on request.

    If the output is not a terminal, only the final state is printed. Create and close on the main
    thread.
    """

    def __init__(self, states: Sequence[Shown], console: Console | None = None) -> None:
        self._states = states
        self._console = console or Console()
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._due = 0.0
        if self._console.is_terminal:
            self._live.start()

    def refresh(self) -> None:
        """Redraw if due."""
        if self._live.is_started and time.monotonic() >= self._due:
            self._due = time.monotonic() + REDRAW_SECONDS
            self._live.update(Tail(self._render()), refresh=True)

    def end(self) -> None:
        self._live.stop()
        self._console.print(self._render())

    def _render(self) -> RenderableType:
        height = max(5, self._console.height // 2)

        run = run_of(self._states)

        def one(state: Shown) -> RenderableType:
            if isinstance(state, Comparison):
                return Text(compare_text(state))
            if isinstance(state, RunState):
                return render_text(state)
            if isinstance(state, TreeState):
                return print_tree(state, height, run)
            return Text(state.text())

        return Group(*map(one, without_empty_trees(self._states)))
