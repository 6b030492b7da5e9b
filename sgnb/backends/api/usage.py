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
    """Counts of some calls. A request without an answer has no tokens here: nobody says them."""

    calls: int = 0  # generations and selects
    requests: int = 0  # sent to the service, those again included
    again: Counter[str] = field(default_factory=Counter)  # reason -> requests sent for it
    failed: int = 0  # calls that ended in an error
    stopped: int = 0  # calls that were stopped
    tokens: Tokens = field(default_factory=Tokens)

    def add(self, other: Used) -> None:
        self.calls += other.calls
        self.requests += other.requests
        self.again.update(other.again)
        self.failed += other.failed
        self.stopped += other.stopped
        self.tokens += other.tokens


class Usage:
    """The counts of a backend's runs, by their ids ("" outside of runs), and of all. Printed it is
    a table."""

    def __init__(self, model: str, price: Price) -> None:
        self.model = model
        self.total = Used()
        self.runs: dict[str, Used] = {}
        self._price = price
        self._lock = threading.Lock()

    def add(self, run: str, used: Used) -> None:
        """Count what a call of the run `run` has `used`."""
        with self._lock:
            self.runs.setdefault(run, Used()).add(used)
            self.total.add(used)

    @property
    def cost(self) -> float | None:
        """Money for all calls; None where the model's price is not known."""
        return self._price(self.total.tokens)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each run, and one for all."""
        with self._lock:
            named = [*self.runs.items(), ("all", self.total)]
            return [self._row(name or "no run", used) for name, used in named]

    def _row(self, name: str, used: Used) -> dict[str, Any]:
        return {
            "run": name,
            "calls": used.calls,
            "requests": used.requests,
            "again": ", ".join(f"{n} {reason}" for reason, n in used.again.most_common()) or "0",
            "failed": used.failed,
            "stopped": used.stopped,
            "prompt": used.tokens.prompt,
            "cached": used.tokens.cached,
            "completion": used.tokens.completion,
            "cost": self._price(used.tokens),
        }

    def __repr__(self) -> str:
        rows = self.rows()
        lines = [list(rows[0]), *[[_cell(value) for value in row.values()] for row in rows]]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = ["  ".join(map(str.rjust, line, widths)) for line in lines]
        return "\n".join([self.model, *text])


def _cell(value: Any) -> str:
    return "?" if value is None else f"{value:.6f}" if isinstance(value, float) else str(value)


def fixed_price(prices: tuple[float, float] | None, otherwise: Price) -> Price:
    """prices: for a million tokens of prompts, and of answers; None for `otherwise`."""
    if prices is None:
        return otherwise
    prompt, completion = prices
    return lambda tokens: (tokens.prompt * prompt + tokens.completion * completion) / 1e6


def listed_price(model: str) -> Price:
    """By the table of the package litellm, where it is installed and knows the model."""

    def price(tokens: Tokens) -> float | None:
        try:
            from .litellm import package

            prompt, completion = package().cost_per_token(
                model=model,
                prompt_tokens=tokens.prompt,
                completion_tokens=tokens.completion,
                cache_read_input_tokens=tokens.cached,
            )
        except Exception:  # not installed, or a model that the table does not have
            return None
        return float(prompt + completion)

    return price


def no_price(tokens: Tokens) -> None:
    """A service whose prices nobody knows."""
