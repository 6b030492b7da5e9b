"""Export of records as trace events for ui.perfetto.dev and chrome://tracing. Reads no clock.

Format: "Trace Event Format", Chromium's JSON tracing format. A run is a process and a branch is a
thread. Shared work of an engine is also a process; number 0 is the log's own engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ...events import (
    EngineStarted,
    ItemsEncoded,
    Jumped,
    ModelAsked,
    NodeEvicted,
    PrefixLoaded,
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
class _CallSpan:
    """An open request and its current phase."""

    queued: RequestQueued
    track: dict[str, int]  # process and thread
    since: float  # start of the phase
    phase: str = "waiting"
    facts: dict[str, Any] = field(default_factory=dict)


def trace_events(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Convert records to trace events.

    Args:
        records: Records of a log.

    Returns:
        Slices for request phases (waiting, prefill, decode), steps and encoding, counters for pools
        and batch, and instants for jumps and evictions. Times are microseconds of the log.
    """
    export = _Export()
    for record in records:
        handler = _HANDLERS.get(type(record.event))
        if handler is not None:
            handler(export, record.event, record.t, record.engine)
    return export.events


class _Export:
    """Trace events of the records so far."""

    def __init__(self) -> None:
        self.events = [_name("process_name", {"pid": 0, "tid": 0}, "engine")]
        self._engines: dict[int, str] = {}  # names of other engines by number
        self._runs: dict[str, int] = {}  # process numbers
        self._branches: dict[tuple[str, str], int] = {}  # thread numbers
        self._calls: dict[tuple[int, int], _CallSpan] = {}  # open calls by engine and request
        self._states: dict[int, int] = {}  # capacity of the recurrent state pool by engine

    def start_engine(self, event: EngineStarted, t: float, engine: int) -> None:
        self._states[engine] = event.states

    def ask_model(self, event: ModelAsked, t: float, engine: int) -> None:
        if event.engine not in self._engines:
            self._engines[event.engine] = event.model
            title = f"{model_letter(event.number)} {event.model}"
            self.events.append(_name("process_name", _engine_track(event.engine), title))

    def start_run(self, event: RunStarted, t: float, engine: int) -> None:
        self._runs[event.run] = len(self._runs) + 2
        track = {"pid": self._runs[event.run], "tid": 0}
        self.events.append(_name("process_name", track, f"{event.title} ({event.run})"))

    def queue(self, event: RequestQueued, t: float, engine: int) -> None:
        key = event.run, event.branch
        is_new = key not in self._branches
        thread = self._branches.setdefault(key, len(self._branches) + 1)
        track = {"pid": self._runs.get(event.run, 1), "tid": thread}
        if is_new:
            self.events.append(_name("thread_name", track, f"branch {event.branch}"))

        facts: dict[str, Any] = {"request": event.request, "prompt tokens": len(event.prompt)}
        if engine in self._engines:
            facts["model"] = self._engines[engine]
        self._calls[engine, event.request] = _CallSpan(
            queued=event, track=track, since=t, facts=facts
        )

    def admit(self, event: RequestAdmitted, t: float, engine: int) -> None:
        call = self._calls.get((engine, event.request))
        if call is not None:
            self._end_phase(call, t, "prefill")
            call.facts["cached tokens"] = event.cached
            if event.again:
                call.facts["recomputed tokens"] = event.again

    def step(self, event: StepRan, t: float, engine: int) -> None:
        for sampled in event.sampled:
            call = self._calls.get((engine, sampled.request))
            if call is not None and call.phase == "prefill":
                self._end_phase(call, t, "decode")

        track = _engine_track(engine)
        counters = {
            "KV pool": {"free": event.free, "cached": event.cached, "in flight": event.in_flight},
            "requests": {"running": event.running, "waiting": event.waiting},
        }
        if self._states.get(engine):
            free, checkpoints = event.free_states, event.kept_states
            in_flight = self._states[engine] - free - checkpoints
            counters["states"] = {"free": free, "kept": checkpoints, "in flight": in_flight}

        for name, values in counters.items():
            at = {"pid": track["pid"], "ts": MICRO * t}
            self.events.append({"ph": "C", "name": name} | at | {"args": values})

        span = {"ts": MICRO * (t - event.seconds), "dur": MICRO * event.seconds}
        tokens = sum(row.length for row in event.extended)
        fields = track | {"args": {"step": event.step, "tokens": tokens}}
        self.events.append({"ph": "X", "name": "step", "cat": "step"} | span | fields)

    def encode(self, event: ItemsEncoded, t: float, engine: int) -> None:
        span = {"ts": MICRO * (t - event.seconds), "dur": MICRO * event.seconds}
        counts = {"items": len(event.items), "tokens": event.tokens}
        fields = _engine_track(engine) | {"args": counts}
        self.events.append({"ph": "X", "name": "encode", "cat": "encode"} | span | fields)

    def load(self, event: PrefixLoaded, t: float, engine: int) -> None:
        span = {"ts": MICRO * (t - event.seconds), "dur": MICRO * event.seconds}
        facts = {"request": event.request, "store": event.store, "tokens": event.tokens}
        facts["seconds of computing"] = event.compute_seconds
        fields = _engine_track(engine) | {"args": facts}
        self.events.append({"ph": "X", "name": "load", "cat": "load"} | span | fields)

    def jump(self, event: Jumped, t: float, engine: int) -> None:
        call = self._calls.get((engine, event.request))
        if call is not None:
            fields: dict[str, Any] = {"ts": MICRO * t, "args": {"tokens": len(event.tokens)}}
            self.events.append({"ph": "i", "s": "t", "name": "jump"} | call.track | fields)

    def evict(self, event: NodeEvicted, t: float, engine: int) -> None:
        name = f"evicted: {event.reason}"
        fields = _engine_track(engine) | {"ts": MICRO * t}
        self.events.append({"ph": "i", "s": "p", "name": name} | fields)

    def finish(self, event: RequestFinished, t: float, engine: int) -> None:
        call = self._calls.pop((engine, event.request), None)
        if call is not None:
            call.facts |= {"output tokens": event.output_tokens, "ended by": event.reason}
            self._end_phase(call, t, "")

    def _end_phase(self, call: _CallSpan, t: float, phase: str) -> None:
        name = f"{call.queued.name or call.queued.purpose} · {call.phase}"
        span = {"ts": MICRO * call.since, "dur": MICRO * (t - call.since)}
        fields = {"cat": call.phase, "args": dict(call.facts)}
        self.events.append({"ph": "X", "name": name} | span | call.track | fields)
        call.phase, call.since = phase, t


_HANDLERS: dict[type, Callable[[_Export, Any, float, int], None]] = {
    EngineStarted: _Export.start_engine,
    ModelAsked: _Export.ask_model,
    RunStarted: _Export.start_run,
    RequestQueued: _Export.queue,
    RequestAdmitted: _Export.admit,
    StepRan: _Export.step,
    ItemsEncoded: _Export.encode,
    PrefixLoaded: _Export.load,
    Jumped: _Export.jump,
    NodeEvicted: _Export.evict,
    RequestFinished: _Export.finish,
}


def _engine_track(engine: int) -> dict[str, int]:
    return {"pid": ENGINE_PROCESSES + engine if engine else 0, "tid": 0}


def _name(kind: str, track: dict[str, int], name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, **track, "args": {"name": name}}
