"""Static pictures of program, branches, workers, time and grammar, for `--keep` and the tour.

A picture has the content of the live view at the end of the run. Views without data for a run do
not exist: `view_of` returns None.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...events import Record
from ..state.comparison import AS_IS
from ..state.lanes import Lane
from ..state.log_state import LogState
from ..state.metrics import duration
from ..state.run_details import RunCall, RunDetails
from ..state.run_state import RunState
from ..state.token_table import visible
from ..state.tree import TreeState
from .lanes_svg import draw_all_lanes
from .media_svg import Thumbnails
from .plain_text import Shown, counted, label, tree_text
from .svg import CHAR, INSIDE, fitted, tag, text_at
from .time_svg import TimeView
from .tree_svg import draw_tree
from .walk_svg import WalkView
from .workers_svg import draw_workers

KEPT_VIEWS = (
    *("text", "tree", "source", "branches", "workers", "time", "grammar"),
    *("rows", "compare"),
)
"""Views with a static picture."""

CODE_END = 470
"""Right end of the program's text in pixels."""
ENDS = {"calls": 510, "found": 605, "computed": 705, "new": 755, "time": INSIDE}
"""Right ends of the columns of the program."""
LINE = 18


def view_of(name: str, records: Sequence[Record], run: str) -> Shown | None:
    """Return a view of a run, or None if the run has no data for the view.

    Args:
        name: One of `KEPT_VIEWS`.
        records: Records of the run.
        run: Id of the run; "" for the unmodified program of a comparison.
    """
    states = LogState(records)
    comparison = states.comparison

    if name == "compare":
        return comparison if comparison.variants else None
    if not run and AS_IS in comparison.variants:
        base = comparison.variants[AS_IS].shown
        run = base.run if base is not None else ""

    if run not in states.runs:
        return None
    state = states.runs[run]

    if name == "tree":
        return TreeView(states.tree, state) if len(states.tree.nodes) > 1 else None
    if name in ("text", "rows"):
        return state if state.is_batch == (name == "rows") else None

    if name == "branches":
        return BranchesView(state) if list(state.lanes) else None
    if name == "workers":
        return WorkersView(state) if state.fleet.used else None

    details = RunDetails(run, records)
    if name == "source":
        return SourceView(details) if details.started.source and details.calls else None
    if name == "time":
        return TimeView(details) if details.steps else None

    constrained = [call for call in details.calls if call.is_constrained and call.tokens]
    if not constrained:
        return None
    return WalkView(constrained, details.automata, states.trees)


class LineFigures:
    """Figures of the calls of a line."""

    def __init__(self, calls: Sequence[RunCall], end: float) -> None:
        admitted = [call for call in calls if call.admitted]
        prompt = sum(len(call.queued.prompt) for call in admitted)
        hits = sum(call.cached for call in admitted)

        ended = [end if call.ended is None else call.ended for call in calls]
        self.seconds = max(ended) - min(call.began for call in calls)
        again = sum(call.again for call in admitted)
        self.cells = {
            "calls": f"{len(calls)}",
            "found": f"{hits} ({hits / prompt:.0%})" if prompt else "0",
            "computed": f"{prompt - hits}" + (f" ({again} again)" if again else ""),
            "new": f"{sum(len(call.tokens) for call in calls)}",
            "time": duration(self.seconds),
        }


class SourceView:
    """The program, line by line, with the figures of the calls of each line."""

    style = ""

    def __init__(self, details: RunDetails) -> None:
        started, by_line = details.started, dict[int, list[RunCall]]()
        for call in details.calls:
            if call.queued.file == started.file:
                by_line.setdefault(call.queued.line - started.first_line, []).append(call)

        self.title = started.title
        self.lines = started.source.rstrip("\n").split("\n")
        self.figures = {line: LineFigures(calls, details.ended) for line, calls in by_line.items()}

    def draw(self, rows: int, thumbnails: Thumbnails) -> tuple[str, float]:
        longest = max((figures.seconds for figures in self.figures.values()), default=0) or 1e-9
        out = [text_at(0, 12, label(f"program {self.title}, line by line", 110), "h")]
        out += [text_at(x, 32, name, "r") for name, x in ENDS.items()]

        y = 38.0
        room = int((CODE_END - 30) / CHAR)
        for number, line in enumerate(self.lines[: 2 * rows]):
            figures = self.figures.get(number)
            out.append(text_at(22, y + 13, f"{number + 1}", "r"))
            out.append(text_at(30, y + 13, fitted(visible(line).replace("\t", "    "), room), ""))
            if figures is not None:
                width = (INSIDE - CODE_END) * figures.seconds / longest
                bar = tag("rect", class_="sampled", x=INSIDE - width, y=y, width=width, height=LINE)
                out.append(bar)
                cells = figures.cells.items()
                out += [text_at(ENDS[name], y + 13, cell, "r") for name, cell in cells]
            y += LINE

        hidden = len(self.lines) - 2 * rows
        if hidden > 0:
            out.append(text_at(30, y + 13, f"… {counted(hidden, 'more line')}", "m"))
            y += LINE

        return "".join(out), y + 4

    def text(self) -> str:
        return "\n".join([f"program {visible(self.title)}, line by line", *self._text_lines()])

    def _text_lines(self) -> Iterator[str]:
        for number, line in enumerate(self.lines):
            figures = self.figures.get(number)
            cells = figures.cells if figures is not None else {}
            facts = ", ".join(f"{name} {cell}" for name, cell in cells.items())
            yield f"{number + 1:3} {visible(line)}" + (f"  [{facts}]" if facts else "")


@dataclass
class TreeView:
    """The radix tree with the nodes of a run."""

    tree: TreeState
    run: RunState
    style = ""

    def draw(self, rows: int, thumbnails: Thumbnails) -> tuple[str, float]:
        return draw_tree(self.tree, self.run, rows, thumbnails)

    def text(self) -> str:
        return tree_text(self.tree, run=self.run)


@dataclass
class BranchesView:
    """The branches of a run over time: a lane per branch."""

    run: RunState
    style = ""

    def draw(self, rows: int, thumbnails: Thumbnails) -> tuple[str, float]:
        heading = text_at(0, 12, label(f"branches of {self.run.title} over time", 110), "h")
        lanes, height = draw_all_lanes(self.run, rows)
        return heading + tag("g", lanes, transform="translate(0 26)"), 26 + height

    def text(self) -> str:
        heading = f"branches of {visible(self.run.title)} over time"
        begin = self.run.began or 0.0
        loads = (
            f"cache load at {duration(bar.began - begin)}: {bar.line()}"
            for bar in self.run.loads.bars
        )
        return "\n".join([heading, *map(self._line, self.run.lanes), *loads])

    def _line(self, lane: Lane) -> str:
        """Return the branch, and begin and seconds of each request."""
        begin = self.run.began or 0.0
        end = begin + self.run.metrics.seconds
        calls = (
            f"{visible(bar.name)} at {duration(bar.queued - begin)}"
            f" for {duration((end if bar.finished is None else bar.finished) - bar.queued)}"
            for bar in lane.bars
        )
        return f"{visible(lane.branch)}: {', '.join(calls)}"


@dataclass
class WorkersView:
    """The workers of a fleet over time: a lane per worker, and the reasons of all decisions."""

    run: RunState
    style = ""

    def draw(self, rows: int, thumbnails: Thumbnails) -> tuple[str, float]:
        heading = text_at(0, 12, label(f"workers of {self.run.title} over time", 110), "h")
        lanes, height = draw_workers(self.run, 2 * rows)
        return heading + tag("g", lanes, transform="translate(0 26)"), 26 + height

    def text(self) -> str:
        return f"workers of {visible(self.run.title)} over time\n{self.run.fleet.text()}"
