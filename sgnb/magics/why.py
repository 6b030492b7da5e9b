"""`sgnb.why_no_hit`: cache lookups of prompts and the reasons for misses, as a table.
`sgnb.why_slow`: the time of a program by activity. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from ..viz.state.cache_miss import Difference, Lookup
from ..viz.state.time_parts import TimeParts
from .table import Displayable, Table, html_lines, one_line


class WhyReport(Displayable):
    """Report on cache lookups. `lookups` has an entry per request, oldest first; `difference` is
    the first difference of two prompts."""

    def __init__(
        self, lookups: Iterable[Lookup] = (), difference: Difference | None = None
    ) -> None:
        self.lookups, self.difference = list(lookups), difference

    def table(self) -> Table:
        """Return a table with a row per reason, plus model names for runs with several models."""
        of_others = any(lookup.model for lookup in self.lookups)
        rows = (
            {
                "call": f"{lookup.name} [{lookup.branch}]" if lookup.run else "",
                **({"model": lookup.model} if of_others else {}),
                "request": lookup.request,
                "prompt": lookup.prompt_tokens,
                "cached": lookup.cached_tokens,
                "computed": 0 if reason.kind in ("reused", "loaded") else reason.tokens,
                "why": reason.kind,
                "what": reason.text,
            }
            for lookup in self.lookups
            for reason in lookup.reasons
        )
        return Table(rows, empty="the log has no request of this state")

    def _difference(self) -> list[str]:
        return [] if self.difference is None else [f"they diverge at {self.difference.line()}"]

    def __repr__(self) -> str:
        lines = [one_line(line) for line in self._difference()]
        return "\n".join(lines or [repr(self.table())])

    def _html(self) -> str:
        return html_lines("p", self._difference()) or self.table()._html()


class SlowReport(Displayable):
    """Time of a program by activity. `str()` is a sentence; in a notebook, a table.

    Attributes:
        total: Time of the program in seconds, until now for a running program.
        seconds: Seconds by activity; the values sum to `total`. See `docs/VIEWS.md`.
        waited_for: Seconds of steps of other runs during waits, by run; "" for requests outside of
            programs.
    """

    def __init__(self, parts: TimeParts) -> None:
        self.total, self.seconds = parts.total, dict(parts.seconds)
        self.waited_for = dict(parts.waited_for)
        self._line = parts.line()

    def table(self) -> Table:
        """Return a table with a row per activity."""
        shown = ((name, seconds) for name, seconds in self.seconds.items() if seconds)

        rows = (
            {"part": name, "seconds": round(seconds, 4), "share": f"{seconds / self.total:.0%}"}
            for name, seconds in shown
        )
        return Table(rows, empty="the program took no time")

    def __repr__(self) -> str:
        return self._line or repr(self.table())

    def _html(self) -> str:
        return html_lines("p", [self._line]) + self.table()._html()
