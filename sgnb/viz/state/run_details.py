"""Calls of a run with their tokens, and the steps of the engine meanwhile.

Content of the static pictures of program, time and grammar. A pure reducer for finished records;
live views have the same content in `page/store.js`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ...events import (
    AutomatonDrawn,
    GrammarReady,
    Jumped,
    NodeEvicted,
    PrefixLoaded,
    Record,
    RequestAdmitted,
    RequestFinished,
    RequestQueued,
    RunStarted,
    StepRan,
)
from ...events.kinds import Masked
from .run_loads import RunLoads


class CallToken(NamedTuple):
    """A token of an answer."""

    token: int
    mask: Masked | None = None  # mask of the grammar at a sampled token
    jump: Jumped | None = None  # the jump with a forced token


@dataclass(slots=True)
class RunCall:
    """A request of the run. Times in seconds of the log's clock; None for future phases."""

    queued: RequestQueued
    engine: int
    began: float
    ended: float | None = None
    admitted: bool = False
    cached: int = 0
    again: int = 0
    tokens: list[CallToken] = field(default_factory=list)
    grammar: GrammarReady | None = None

    @property
    def is_constrained(self) -> bool:
        return self.grammar is not None or any(token.mask or token.jump for token in self.tokens)


class StepFigures(NamedTuple):
    """Figures of a step of the run's engine."""

    t: float  # end
    seconds: float
    prefill: int  # tokens of prompts and forced text
    decode: int  # rows
    waiting: int
    free: int
    cached: int
    in_flight: int


class RunDetails:
    """Details of a run.

    Args:
        run: Id of the run.
        records: All records of a log, or of a feed.
    """

    def __init__(self, run: str, records: Iterable[Record]) -> None:
        self.run, self.started, self.began, self.ended = run, RunStarted(run, "", "", 0), 0.0, 0.0
        self.calls: list[RunCall] = []
        self.steps: list[StepFigures] = []
        self.evictions: list[float] = []
        self.loads = RunLoads()  # of the run's engine, prefetches included
        self.automata: dict[int, AutomatonDrawn] = {}
        self._open: dict[tuple[int, int], RunCall] = {}
        self._prompts: dict[int, int] = {}  # prompt tokens by request of the run's engine
        for record in records:
            self._apply(record)

    def _apply(self, record: Record) -> None:
        event, key = record.event, (record.engine, getattr(record.event, "request", 0))
        self.ended = record.t

        if isinstance(event, RunStarted) and event.run == self.run:
            self.started, self.began = event, record.t
        elif isinstance(event, RequestQueued):
            self._prompts.update({event.request: len(event.prompt)} if not record.engine else {})
            if event.run == self.run:
                self._open[key] = RunCall(event, record.engine, record.t)
                self.calls.append(self._open[key])
        elif isinstance(event, StepRan):
            self._step(event, record)
        elif isinstance(event, AutomatonDrawn):
            self.automata[event.automaton] = event
        elif isinstance(event, PrefixLoaded) and not record.engine:
            self.loads.loaded(event, record.t)
        elif isinstance(event, NodeEvicted) and not record.engine:
            self.evictions.append(record.t)
        elif key in self._open:
            self._call(self._open[key], event, record.t)

    def _call(self, call: RunCall, event: object, t: float) -> None:
        if isinstance(event, RequestAdmitted) and not call.admitted:
            call.admitted, call.cached, call.again = True, event.cached, event.again
        elif isinstance(event, GrammarReady):
            call.grammar = event
        elif isinstance(event, Jumped):
            del call.tokens[max(0, len(call.tokens) - event.dropped) :]
            call.tokens += [CallToken(token, jump=event) for token in event.tokens]
        elif isinstance(event, RequestFinished) and call.ended is None:
            call.ended = t

    def _step(self, event: StepRan, record: Record) -> None:
        masks = {mask.request: mask for mask in event.masked}
        for number, token, _ in event.sampled:
            call = self._open.get((record.engine, number))
            if call is not None and call.ended is None:
                call.tokens.append(CallToken(token, masks.get(number)))

        if record.engine:
            return

        rows = list(event.extended)
        decode = sum(
            row.length == 1 and row.start >= self._prompts.get(row.request, 0) for row in rows
        )

        figures = StepFigures(
            t=record.t,
            seconds=event.seconds,
            prefill=sum(row.length for row in rows) - decode,
            decode=decode,
            waiting=event.waiting,
            free=event.free,
            cached=event.cached,
            in_flight=event.in_flight,
        )
        self.steps.append(figures)
