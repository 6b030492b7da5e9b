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
from ...sequences import common_length
from .estimate import CallEstimate


@dataclass(slots=True)
class RequestUsage:
    """Measurements of a request, or of a call: sums over requests, maximum of `passes`."""

    prompt_tokens: int = 0
    hit_tokens: int = 0
    new_tokens: int = 0
    forced_tokens: int = 0
    passes: int = 0


@dataclass(slots=True)
class _RequestRecord:
    queued: RequestQueued
    usage: RequestUsage
    end: int = 0  # number of tokens processed by the model so far

    @property
    def order(self) -> tuple[int, tuple[int, ...], int]:
        """Sort key: run, branch, time."""
        run = int(self.queued.run.removeprefix("run"))
        return run, tuple(map(int, self.queued.branch.split("."))), self.queued.request


@dataclass(slots=True)
class RunUsage:
    """Measurements of a run and its nested runs."""

    requests: list[_RequestRecord]
    slots: int  # peak KV slots of the requests; shared tokens count once
    passes: int  # model passes with at least one of the requests

    def of(self, calls: Iterable[CallEstimate]) -> list[RequestUsage | None]:
        """Return the measurements of each call, matched by name and line in branch order; None for
        a call that did not run."""
        remaining: dict[tuple[str, int], list[_RequestRecord]] = {}
        for request in sorted(self.requests, key=lambda request: request.order):
            key = request.queued.name, request.queued.line
            remaining.setdefault(key, []).append(request)
        usages = []
        for call in calls:
            line = call.location.line if call.location else 0
            requests = remaining.get((call.name, line), [])
            usages.append(_sum([request.usage for request in requests[: call.requests]]))
            del requests[: call.requests]
        return usages


def measure_usage(log: EventLog, runs: Mapping[str, str]) -> RunUsage:
    """Collect measurements from the events still in `log`, for requests of the log's engine.

    Args:
        log: The executor's event log.
        runs: Run id -> branch of the program; "" for all programs of the run.
    """
    requests: dict[int, _RequestRecord] = {}
    running: set[int] = set()
    shared: dict[frozenset[int], int] = {}  # running requests -> distinct prompt tokens
    slots = passes = 0

    for event in (record.event for record in log.read().records if not record.engine):
        if isinstance(event, RequestQueued):
            if runs.get(event.run) in ("", event.branch.partition(".")[0]):
                requests[event.request] = _RequestRecord(event, RequestUsage(len(event.prompt)))
        elif isinstance(event, StepRan):
            rows = [row for row in event.extended if row.request in requests]
            passes += bool(rows)
            for row in rows:
                requests[row.request].usage.passes += 1
                requests[row.request].end = row.start + row.length
            key = frozenset(running)
            if key not in shared:
                shared[key] = _distinct([requests[id].queued.prompt for id in key])
            new = (max(0, requests[id].end - requests[id].usage.prompt_tokens) for id in key)
            slots = max(slots, shared[key] + sum(new))
        elif getattr(event, "request", None) in requests:
            request = requests[event.request]
            if isinstance(event, RequestAdmitted):
                running.add(event.request)
            elif isinstance(event, RequestRetracted):
                running.discard(event.request)
            elif isinstance(event, Jumped):
                request.usage.forced_tokens += len(event.tokens) - event.dropped
            elif isinstance(event, RequestFinished):
                running.discard(event.request)
                request.usage.hit_tokens = event.cached_tokens
                if request.queued.purpose == "generate":
                    request.usage.new_tokens = event.output_tokens
    return RunUsage(list(requests.values()), slots, passes)


def _distinct(prompts: Sequence[Sequence[int]]) -> int:
    """Return the number of tokens of all prompts; shared prefixes count once."""
    ordered = sorted(map(tuple, prompts))
    same = sum(common_length(a, b) for a, b in pairwise(ordered))
    return sum(map(len, prompts)) - same


def _sum(requests: Sequence[RequestUsage]) -> RequestUsage | None:
    if not requests:
        return None
    return RequestUsage(
        prompt_tokens=sum(request.prompt_tokens for request in requests),
        hit_tokens=sum(request.hit_tokens for request in requests),
        new_tokens=sum(request.new_tokens for request in requests),
        forced_tokens=sum(request.forced_tokens for request in requests),
        passes=max(request.passes for request in requests),
    )
