"""Estimated and measured cost of a run, as data, text and picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

from ...errors import OptionError, TraceError, shown
from ..core.state import ProgramState
from ..executor import Executor
from .call_usage import RequestUsage, RunUsage, measure_usage
from .drawing import svg
from .dry_execution import DryExecution
from .estimate import Bound, CallEstimate, bound, estimate_calls
from .graph import Graph

_COUNTS = {
    "prompt": "prompt_tokens",
    "hits": "hit_tokens",
    "new": "new_tokens",
    "forced": "forced_tokens",
    "passes": "passes",
}
"""Column headings by field name of `CallEstimate` and `RequestUsage`."""

LEFT, RIGHT, ROW, MARGIN = 250, 560, 26, 14
LETTERS = 32
"""Maximum number of characters of a label."""

STYLE = """
text{font:12px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#1f2328}
.card{fill:#fff;stroke:#d0d7de}
.call{fill:#0072b22e;stroke:#0072b2}.critical .call{fill:#e69f0055;stroke:#c98a00}
.hits{fill:#0072b2}.took{stroke:#1f2328;stroke-width:2}.path{stroke:#d0d7de}
"""


class Explanation:
    """Estimated cost of a program's calls; `after` adds the measurements of a run.

    Without a graph, no bound exists and the calls are assumed to run sequentially.
    """

    def __init__(
        self,
        title: str,
        calls: Sequence[CallEstimate],
        bound: Bound | None,
        after: RunUsage | None = None,
        note: str = "",
    ) -> None:
        self.title, self.calls, self.bound, self.note = title, list(calls), bound, note
        self.usage = None if after is None else after.of(self.calls)
        self._after = after

    def after(self, state: ProgramState) -> Explanation:
        """Return the explanation with measurements of the run of `state`.

        Waits for the end of the run. Reads the events still in the executor's log. The run must
        start after the explanation was created.
        """
        if not isinstance(state, ProgramState):
            hint = "Use the result of run(...): .after(program.run(...))."
            raise OptionError(f"after({shown(state)}): this is no state", hint)
        state.program.wait_finished()
        program = state.program
        runs = {program.run.id: program.root.id, **dict.fromkeys(program.called, "")}
        usage = measure_usage(program.executor.log, runs)
        return Explanation(self.title, self.calls, self.bound, usage, self.note)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One dict per call. Token counts are sums over the call's requests; passes are sequential.
        Measured values have "took" in the key."""
        if self.usage is None:
            return [_row(call) for call in self.calls]
        pairs = zip(self.calls, self.usage, strict=True)
        return [_row(call, usage or RequestUsage()) for call, usage in pairs]

    @property
    def totals(self) -> dict[str, Any]:
        """Sums over all calls; `passes` counts the critical path, `slots` the peak use of the KV
        cache."""
        calls = self.calls
        sums: dict[str, Any] = {"calls": len(calls), "requests": sum(c.requests for c in calls)}
        for name, field in [*_COUNTS.items()][:-1]:
            sums[name] = sum(getattr(call, field) for call in calls)
        sums["passes"] = max((call.begins + call.passes for call in calls), default=0)
        sums["slots"] = None if self.bound is None else self.bound.slots
        if self._after is not None and self.usage is not None:
            for name, field in [*_COUNTS.items()][:-1]:
                sums[f"{name}_took"] = sum(getattr(usage, field) for usage in self.usage if usage)
            sums["passes_took"] = self._after.passes
            sums["slots_took"] = self._after.slots
        return sums

    def __str__(self) -> str:
        rows = self.rows
        lines = [list(rows[0]), *([_cell(v) for v in row.values()] for row in rows)] if rows else []
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        table = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
        return "\n".join([*table, *self._summary()])

    def __repr__(self) -> str:
        return str(self)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": str(self), "image/svg+xml": self.to_svg()}

    def _summary(self) -> list[str]:
        total = self.totals

        def both(name: str, qualifier: str = "") -> str:
            usage = f" (took {total[name + '_took']:,})" if f"{name}_took" in total else ""
            return f"{qualifier}{total[name]:,}{usage}"

        lines = [
            f"{total['calls']} calls, {total['requests']} requests: prompts of {both('prompt')}"
            f" tokens, {both('hits')} of them from the cache; {both('new', 'at most ')} new,"
            f" {both('forced', 'about ')} of them forced",
            f"the longest chain of calls (*): {both('passes', 'at most ')} passes",
        ]
        if total["slots"] is not None:
            lines.append(f"of the KV cache at one time: {both('slots', 'at most ')} slots")
        return [*lines, self.note] if self.note else lines

    def to_svg(self) -> str:
        """Return a timeline in model passes with a bar per call: cached prompt dark, critical path
        orange, measured passes as a line below."""
        total = max(1, self.totals["passes"], self.totals.get("passes_took", 0))
        rows = zip(self.calls, self.usage or [None] * len(self.calls), strict=True)
        bars = [_bar(call, usage, i, RIGHT / total) for i, (call, usage) in enumerate(rows)]
        width, height = LEFT + RIGHT + 2 * MARGIN, len(self.calls) * ROW + 2 * MARGIN
        description = f"{self.title}: {' '.join(self._summary())}"
        return svg(bars, width, height, description, STYLE)


def explain_graph(
    graph: Graph, executor: Executor, arguments: Mapping[str, Any], defaults: Any
) -> Explanation:
    """Explain a run with these arguments.

    Raises:
        ProgramError: The calls of the graph are not known before the run.
    """
    orders: list[str] = []
    calls = DryExecution(graph, executor).run(arguments, defaults, orders=orders)
    cached: Callable[[Sequence[int]], int] = getattr(executor, "cached_length", lambda _: 0)
    estimates = estimate_calls(graph, calls, cached)
    return Explanation(graph.title, estimates, bound(graph, calls), note="\n".join(orders))


def explain_dry(
    title: str, executor: Executor, run: Callable[[Executor], ProgramState], reason: TraceError
) -> Explanation:
    """Explain a program without a graph: run the code on a dry executor, up to an error.

    Raises:
        TraceError: The `reason` for the missing graph, if `executor` has no dry executor.
    """
    make = getattr(executor, "dry_executor", None)
    if make is None:
        raise reason
    dry, note = make(), f"no graph, so no bound: {reason.message}"
    try:
        run(dry).sync()
    except Exception as error:
        note += f"; its code ended on a stand-in: {type(error).__name__}: {error}"
    note = "\n".join([*dry.orders, note])

    estimates: list[CallEstimate] = []
    for call in dry.calls:
        estimate = CallEstimate(
            name=call.name,
            location=call.location,
            stream=0,
            requests=call.requests,
            prompt_tokens=call.prompt_tokens,
            hit_tokens=call.cached_tokens + call.shared_tokens,
            new_tokens=call.new_tokens * call.samples,
            forced_tokens=0,
            passes=max(1, call.new_tokens),
            begins=sum(earlier.passes for earlier in estimates),
        )
        estimates.append(estimate)
    return Explanation(title, estimates, None, note=note)


def _row(call: CallEstimate, usage: RequestUsage | None = None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "call": call.name + (" *" if call.critical else ""),
        "line": str(call.location or ""),
        "requests": call.requests,
    }
    for name, field in _COUNTS.items():
        row[name] = getattr(call, field)
        if usage is not None:
            row[f"{name} took"] = getattr(usage, field)
    return row


def _cell(value: Any) -> str:
    return shown(value)[1:-1] if isinstance(value, str) else f"{value:,}"


def _bar(call: CallEstimate, usage: RequestUsage | None, row: int, scale: float) -> str:
    y, x = MARGIN + row * ROW, MARGIN + LEFT + call.begins * scale
    width = max(2.0, call.passes * scale)
    share = call.hit_tokens / max(1, call.prompt_tokens)
    name = call.name if len(call.name) <= LETTERS else call.name[: LETTERS - 1] + "…"
    title = f"{call.name}: {call.hit_tokens} of {call.prompt_tokens} prompt tokens from the cache"
    title += f", at most {call.new_tokens} new"
    line = ""
    if usage is not None:
        title += f"; took {usage.hit_tokens} of {usage.prompt_tokens}, {usage.new_tokens} new"
        end = x + max(2.0, usage.passes * scale)
        line = f'<path class="took" d="M{x:.1f},{y + 20}H{end:.1f}"/>'
    return (
        f'<g class="{"critical" if call.critical else ""}"><title>{escape(title)}</title>'
        f'<path class="path" d="M{MARGIN},{y + ROW - 2}H{MARGIN + LEFT + RIGHT}"/>'
        f'<text x="{MARGIN}" y="{y + 14}">{escape(name)}</text>'
        f'<rect class="call" x="{x:.1f}" y="{y + 3}" width="{width:.1f}" height="14"/>'
        f'<rect class="hits" x="{x:.1f}" y="{y + 3}" width="{share * width:.1f}" height="3"/>'
        f"{line}</g>"
    )
