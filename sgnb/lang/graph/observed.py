"""Measured cost of a run's calls, computed from the events of the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ...events import (
    EventLog,
    Jumped,
    RequestAdmitted,
    RequestFinished,
    RequestQueued,
    RequestRetracted,
    StepRan,
)
from .forecast import Forecast
from .tokens import as_bytes, common


@dataclass(slots=True)
class Observed:
    """Measurements of a request, or of a call: sums over requests, maximum of `passes`."""

    prompt_tokens: int = 0
    hit_tokens: int = 0
    new_tokens: int = 0
    forced_tokens: int = 0
    passes: int = 0


@dataclass(slots=True)
class _Request:
    queued: RequestQueued
    took: Observed
    end: int = 0  # number of tokens processed by the model so far

    @property
    def place(self) -> tuple[int, tuple[int, ...], int]:
        """Sort key: run, branch, time."""
        run = int(self.queued.run.removeprefix("run"))
        return run, tuple(map(int, self.queued.branch.split("."))), self.queued.request


@dataclass(slots=True)
class RunObserved:
    """Measurements of a run and its nested runs."""

    requests: list[_Request]
    slots: int  # peak KV slots of the requests; shared tokens count once
    passes: int  # model passes with at least one of the requests

    def of(self, calls: Iterable[Forecast]) -> list[Observed | None]:
        """Return the measurements of each call, matched by name and line in branch order; None for
        a call that did not run."""
        left: dict[tuple[str, int], list[_Request]] = {}
        for request in sorted(self.requests, key=lambda one: one.place):
            left.setdefault((request.queued.name, request.queued.line), []).append(request)
        found = []
        for call in calls:
            line = call.location.line if call.location else 0
            requests = left.get((call.name, line), [])
            found.append(_sum([one.took for one in requests[: call.requests]]))
            del requests[: call.requests]
        return found


def observe(log: EventLog, runs: Mapping[str, str]) -> RunObserved:
    """Collect measurements from the events still in `log`, for requests of the log's engine.

    Args:
        log: The executor's event log.
        runs: Run id -> branch of the program; "" for all programs of the run.
    """
    requests: dict[int, _Request] = {}
    running: set[int] = set()
    shared: dict[frozenset[int], int] = {}  # running requests -> distinct prompt tokens
    slots = passes = 0
    for event in (record.event for record in log.read().records if not record.engine):
        if isinstance(event, RequestQueued):
            if runs.get(event.run) in ("", event.branch.partition(".")[0]):
                requests[event.request] = _Request(event, Observed(len(event.prompt)))
        elif isinstance(event, StepRan):
            mine = [row for row in event.extended if row.request in requests]
            passes += bool(mine)
            for row in mine:
                requests[row.request].took.passes += 1
                requests[row.request].end = row.start + row.length
            key = frozenset(running)
            if key not in shared:
                shared[key] = _distinct([requests[id].queued.prompt for id in key])
            made = (max(0, requests[id].end - requests[id].took.prompt_tokens) for id in key)
            slots = max(slots, shared[key] + sum(made))
        elif getattr(event, "request", None) in requests:
            request = requests[event.request]
            if isinstance(event, RequestAdmitted):
                running.add(event.request)
            elif isinstance(event, RequestRetracted):
                running.discard(event.request)
            elif isinstance(event, Jumped):
                request.took.forced_tokens += len(event.tokens) - event.dropped
            elif isinstance(event, RequestFinished):
                running.discard(event.request)
                request.took.hit_tokens = event.cached_tokens
                if request.queued.purpose == "generate":
                    request.took.new_tokens = event.output_tokens
    return RunObserved(list(requests.values()), slots, passes)


def _distinct(prompts: Sequence[Sequence[int]]) -> int:
    """Return the number of tokens of all prompts; shared prefixes count once."""
    ordered = sorted(as_bytes(prompt) for prompt in prompts)
    same = sum(common(a, b) for a, b in pairwise(ordered))
    return sum(map(len, prompts)) - same


def _sum(requests: Sequence[Observed]) -> Observed | None:
    if not requests:
        return None
    return Observed(
        sum(one.prompt_tokens for one in requests),
        sum(one.hit_tokens for one in requests),
        sum(one.new_tokens for one in requests),
        sum(one.forced_tokens for one in requests),
        max(one.passes for one in requests),
    )
