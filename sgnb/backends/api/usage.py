"""What calls took: counted for each call, for each run and for all."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .endpoint import Tokens

Price = Callable[[Tokens], float | None]
"""Money for tokens; None where no price is known."""


@dataclass(slots=True)
class Used:
    """Counts of some calls."""

    calls: int = 0  # generations and selects
    requests: int = 0  # sent to the service, those again included
    retried: Counter[str] = field(default_factory=Counter)  # reason -> requests that failed, and
    # were sent again
    failed: int = 0  # calls that ended in an error
    stopped: int = 0  # calls that were stopped
    tokens: Tokens = field(default_factory=Tokens)
    cost: float | None = 0.0  # None where the price of some is not known

    def add(self, other: Used) -> None:
        self.calls += other.calls
        self.requests += other.requests
        self.retried.update(other.retried)
        self.failed += other.failed
        self.stopped += other.stopped
        self.tokens += other.tokens
        known = self.cost is not None and other.cost is not None
        self.cost = self.cost + other.cost if known else None  # type: ignore[operator]


class Usage:
    """The counts of a backend's runs, by their ids ("" outside of runs), and of all. Printed it is
    a table."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.total = Used()
        self.runs: dict[str, Used] = {}
        self._lock = threading.Lock()

    def add(self, run: str, used: Used) -> None:
        with self._lock:
            self.runs.setdefault(run, Used()).add(used)
            self.total.add(used)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each run, and one for all."""
        with self._lock:
            named = [*self.runs.items(), ("all", self.total)]
            return [_row(name or "no run", used) for name, used in named]

    def __repr__(self) -> str:
        lines = [[str(cell) for cell in line] for line in _lines(self.rows())]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = ["  ".join(map(str.rjust, line, widths)) for line in lines]
        return "\n".join([self.model, *text])


def _lines(rows: list[dict[str, Any]]) -> list[list[Any]]:
    return [list(rows[0]), *[list(row.values()) for row in rows]]


def _row(name: str, used: Used) -> dict[str, Any]:
    again = ", ".join(f"{count} {reason}" for reason, count in used.retried.most_common())
    return {
        "run": name,
        "calls": used.calls,
        "requests": used.requests,
        "again": again or "0",
        "failed": used.failed,
        "stopped": used.stopped,
        "prompt": used.tokens.prompt,
        "cached": used.tokens.cached,
        "completion": used.tokens.completion,
        "cost": "?" if used.cost is None else f"{used.cost:.6f}",
    }


def fixed_price(prices: tuple[float, float] | None) -> Price:
    """prices: for a million tokens of prompts, and of answers."""

    def price(tokens: Tokens) -> float | None:
        if prices is None:
            return None
        return (tokens.prompt * prices[0] + tokens.completion * prices[1]) / 1e6

    return price
