"""Usage of API calls, per call, per run and in total."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from ...errors import OptionError, shown
from .endpoint import Tokens
from .transport import litellm_package

SHOWN_RUNS = 50
"""Maximum number of runs in a printed table; the latest runs are shown."""

Price = Callable[[Tokens], float | None]
"""Cost of tokens; None for an unknown price."""


@dataclass(slots=True)
class CallUsage:
    """Counts over calls. Requests without an answer contribute no tokens because services do not
    report any."""

    calls: int = 0  # generations and selects
    requests: int = 0  # sent requests, including retries
    retries: Counter[str] = field(default_factory=Counter)  # reason -> number of retries
    failed: int = 0  # calls with an error
    stopped: int = 0  # cancelled calls
    tokens: Tokens = field(default_factory=Tokens)
    # For programs with `num_api_spec_tokens`:
    ahead: int = 0  # calls answered from speculative text
    # reason -> calls without speculative answer
    missed: Counter[str] = field(default_factory=Counter)
    # prompt tokens of speculative answers minus tokens of wasted requests; estimated
    saved: int = 0
    extra: int = 0  # completion tokens outside every call's text; estimated

    def add(self, other: CallUsage) -> None:
        for count in fields(self):
            setattr(self, count.name, getattr(self, count.name) + getattr(other, count.name))

    @property
    def speculated(self) -> bool:
        return bool(self.ahead or self.missed or self.extra)


class Usage:
    """Counts of a backend's runs by id ("" outside of runs) and in total. Prints as a table."""

    def __init__(self, model: str, price: Price) -> None:
        self.model = model
        self.total = CallUsage()
        self.runs: dict[str, CallUsage] = {}
        self._price = price
        self._lock = threading.Lock()

    def add(self, run: str, usage: CallUsage) -> None:
        """Add the usage of a call to the run `run`."""
        with self._lock:
            self.runs.setdefault(run, CallUsage()).add(usage)
            self.total.add(usage)

    @property
    def cost(self) -> float | None:
        """Cost of all calls; None if the model's price is unknown."""
        return self._price(self.total.tokens)

    def rows(self) -> list[dict[str, Any]]:
        """A row per run and a row for the total."""
        with self._lock:
            named = [*self.runs.items(), ("all", self.total)]
            return [self._row(name or "no run", usage) for name, usage in named]

    def _row(self, name: str, usage: CallUsage) -> dict[str, Any]:
        return {
            "run": name,
            "calls": usage.calls,
            "requests": usage.requests,
            "retries": _counted(usage.retries),
            "failed": usage.failed,
            "stopped": usage.stopped,
            "prompt": usage.tokens.prompt,
            "cached": usage.tokens.cached,
            "completion": usage.tokens.completion,
            "cost": self._price(usage.tokens),
            "ahead": usage.ahead,
            "missed": _counted(usage.missed),
            "saved prompt": usage.saved,
            "extra completion": usage.extra,
            "saved cost": self._saved_cost(usage),
        }

    def _saved_cost(self, usage: CallUsage) -> float | None:
        """Return the cost avoided by speculation."""
        cost = self._price(usage.tokens)
        without = self._price(usage.tokens + Tokens(usage.saved, 0, -usage.extra))
        return None if cost is None or without is None else without - cost

    def __repr__(self) -> str:
        rows = self.rows()
        head = self.model
        if (num_hidden := len(rows) - SHOWN_RUNS - 1) > 0:
            head += f", without the {num_hidden} first runs, which rows() has"
            rows = rows[num_hidden:]
        if not self.total.speculated:
            rows = [dict(list(row.items())[: -len(_SPECULATION_COLUMNS)]) for row in rows]

        lines = [list(rows[0]), *[[_cell(value) for value in row.values()] for row in rows]]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = ["  ".join(map(str.rjust, line, widths)) for line in lines]
        return "\n".join([head, *text])


_SPECULATION_COLUMNS = ("ahead", "missed", "saved prompt", "extra completion", "saved cost")
"""Columns omitted if no program speculates."""


class TokenUsage:
    """Tokens of a backend's calls since `reset`, in SGLang's format."""

    def __init__(self, usage: Usage) -> None:
        self._usage = usage
        self._start = Tokens()

    def reset(self) -> None:
        self._start = self._usage.total.tokens

    @property
    def prompt_tokens(self) -> int:
        return (self._usage.total.tokens - self._start).prompt

    @property
    def completion_tokens(self) -> int:
        return (self._usage.total.tokens - self._start).completion

    def __repr__(self) -> str:
        counts = f"prompt_tokens={self.prompt_tokens}, completion_tokens={self.completion_tokens}"
        return f"{type(self).__name__}({counts})"


def _counted(reasons: Counter[str]) -> str:
    return ", ".join(f"{n} {reason}" for reason, n in reasons.most_common()) or "0"


def _cell(value: Any) -> str:
    return "?" if value is None else f"{value:.6f}" if isinstance(value, float) else str(value)


def fixed_price(prices: tuple[float, float] | None, otherwise: Price) -> Price:
    """Return a price function. `prices`: cost per million tokens of prompts and answers; None
    selects `otherwise`."""
    if prices is None:
        return otherwise
    try:
        prompt, completion = map(float, prices)
    except (TypeError, ValueError):
        hint = (
            "give two numbers: the prices of a million prompt tokens and of a million answer tokens"
        )
        raise OptionError(f"prices={shown(prices)} is not allowed", hint) from None
    return lambda tokens: (tokens.prompt * prompt + tokens.completion * completion) / 1e6


def listed_price(model: str) -> Price:
    """Return the price of `model` from litellm's table, if litellm is installed and lists the
    model."""

    def price(tokens: Tokens) -> float | None:
        try:
            prompt, completion = litellm_package().cost_per_token(
                model=model,
                prompt_tokens=tokens.prompt,
                completion_tokens=tokens.completion,
                cache_read_input_tokens=tokens.cached,
            )
        except Exception:  # litellm is missing, or the model is not listed
            return None
        return float(prompt + completion)

    return price


def no_price(tokens: Tokens) -> None:
    """Return None: the service's price is unknown."""
