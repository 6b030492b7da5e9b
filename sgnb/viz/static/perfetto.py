"""Export of records as trace events for ui.perfetto.dev and chrome://tracing. Reads no clock.

Format: "Trace Event Format", Chromium's JSON tracing format. A run is a process and a branch is a
thread. Shared work of an engine is also a process; number 0 is the log's own engine.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ...events import (
    EngineStarted,
    Jumped,
    ModelAsked,
    NodeEvicted,
    Record,
    RequestAdmitted,
    RequestFinished,
    RequestQueued,
    RunStarted,
    StepRan,
    model_letter,
)

MICRO = 1_000_000
ENGINE_PROCESSES = 1_000_000
"""First process number of other engines, above the numbers of runs."""


@dataclass(slots=True)
class _Call:
    queued: RequestQueued
    place: dict[str, int]  # process and thread
    since: float  # start of the phase
    phase: str = "waiting"
    facts: dict[str, Any] = field(default_factory=dict)


def trace_events(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Convert records to trace events.

    Args:
        records: Records of a log.

    Returns:
        Slices for request phases (waiting, prefill, decode), counters for pools and batch, and
        instants for jumps and evictions. Times are microseconds of the log.
    """
    events: list[dict[str, Any]] = [_name("process_name", {"pid": 0, "tid": 0}, "engine")]
    engines: dict[int, str] = {}  # names of other engines by number
    runs: dict[str, int] = {}
    branches: dict[tuple[str, str], int] = {}
    calls: dict[tuple[int, int], _Call] = {}  # open calls by engine and request
    states: dict[int, int] = {}  # capacity of the recurrent state pool by engine

    def end_phase(call: _Call, t: float, phase: str) -> None:
        name = f"{call.queued.name or call.queued.purpose} · {call.phase}"
        span = {"ts": MICRO * call.since, "dur": MICRO * (t - call.since)}
        fields = {"cat": call.phase, "args": dict(call.facts)}
        events.append({"ph": "X", "name": name} | span | call.place | fields)
        call.phase, call.since = phase, t

    for record in records:
        event, t, of = record.event, record.t, record.engine
        pid = ENGINE_PROCESSES + of if of else 0
        if isinstance(event, EngineStarted):
            states[of] = event.states
        elif isinstance(event, ModelAsked):
            if event.engine not in engines:
                engines[event.engine] = event.model
                place = {"pid": ENGINE_PROCESSES + event.engine, "tid": 0}
                title = f"{model_letter(event.number)} {event.model}"
                events.append(_name("process_name", place, title))
        elif isinstance(event, RunStarted):
            runs[event.run] = len(runs) + 2
            place = {"pid": runs[event.run], "tid": 0}
            events.append(_name("process_name", place, f"{event.title} ({event.run})"))
        elif isinstance(event, RequestQueued):
            process = runs.get(event.run, 1)
            key = event.run, event.branch
            if key not in branches:
                branches[key] = len(branches) + 1
                place = {"pid": process, "tid": branches[key]}
                events.append(_name("thread_name", place, f"branch {event.branch}"))
            place = {"pid": process, "tid": branches[key]}
            facts: dict[str, Any] = {"request": event.request, "prompt tokens": len(event.prompt)}
            if of in engines:
                facts["model"] = engines[of]
            calls[of, event.request] = _Call(event, place, t, facts=facts)
        elif isinstance(event, StepRan):
            for sampled in event.sampled:
                call = calls.get((of, sampled.request))
                if call is not None and call.phase == "prefill":
                    end_phase(call, t, "decode")
            pool = {"free": event.free, "cached": event.cached, "in flight": event.in_flight}
            rows = {"running": event.running, "waiting": event.waiting}
            counters = {"KV pool": pool, "requests": rows}
            if states.get(of):
                free, checkpoints = event.free_states, event.kept_states
                in_flight = states[of] - free - checkpoints
                counters["states"] = {"free": free, "kept": checkpoints, "in flight": in_flight}
            for name, values in counters.items():
                at = {"pid": pid, "ts": MICRO * t}
                events.append({"ph": "C", "name": name} | at | {"args": values})
            span = {"ts": MICRO * (t - event.seconds), "dur": MICRO * event.seconds}
            tokens = sum(row.length for row in event.extended)
            step_fields = {"pid": pid, "tid": 0, "args": {"step": event.step, "tokens": tokens}}
            events.append({"ph": "X", "name": "step", "cat": "step"} | span | step_fields)
        elif isinstance(event, NodeEvicted):
            name = f"evicted: {event.reason}"
            place = {"pid": pid, "tid": 0}
            events.append({"ph": "i", "s": "p", "name": name} | place | {"ts": MICRO * t})
        elif isinstance(event, RequestAdmitted | Jumped | RequestFinished):
            call = calls.get((of, event.request))
            if call is None:
                continue
            if isinstance(event, Jumped):
                jump: dict[str, Any] = {"ts": MICRO * t, "args": {"tokens": len(event.tokens)}}
                events.append({"ph": "i", "s": "t", "name": "jump"} | call.place | jump)
            elif isinstance(event, RequestAdmitted):
                end_phase(call, t, "prefill")
                call.facts["cached tokens"] = event.cached
                if event.again:
                    call.facts["computed again"] = event.again
            else:
                call.facts |= {"output tokens": event.output_tokens, "ended by": event.reason}
                end_phase(calls.pop((of, event.request)), t, "")
    return events


def _name(kind: str, place: dict[str, int], name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, **place, "args": {"name": name}}
