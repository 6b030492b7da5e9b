"""`sgnb.why_no_hit`: what prompts found in the cache, and why no more, as a table."""

from __future__ import annotations

from collections.abc import Iterable

from ..viz.state.cache_miss import Difference, Lookup
from .table import Printed, Table, html_lines, one_line


class WhyReport(Printed):
    """`lookups`: of each request, oldest first. `difference`: where two prompts part."""

    def __init__(
        self, lookups: Iterable[Lookup] = (), difference: Difference | None = None
    ) -> None:
        self.lookups, self.difference = list(lookups), difference

    def table(self) -> Table:
        """A row for each reason; with the model, where others than the run's own were asked."""
        of_others = any(found.model for found in self.lookups)
        rows = (
            {
                "call": f"{found.name} [{found.branch}]" if found.run else "",
                **({"model": found.model} if of_others else {}),
                "request": found.request,
                "prompt": found.prompt_tokens,
                "cached": found.cached_tokens,
                "computed": reason.tokens,
                "why": reason.kind,
                "what": reason.text,
            }
            for found in self.lookups
            for reason in found.reasons
        )
        return Table(rows, empty="no request of it is in the log")

    def _difference(self) -> list[str]:
        return [] if self.difference is None else [f"they part at {self.difference.line()}"]

    def __repr__(self) -> str:
        lines = [one_line(line) for line in self._difference()]
        return "\n".join(lines or [repr(self.table())])

    def _html(self) -> str:
        return html_lines("p", self._difference()) or self.table()._html()
