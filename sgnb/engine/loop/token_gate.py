"""Stops of requests after each token, by run.

A stopped request takes part in no step, and the computed tokens are in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf, log
from typing import Any

from ...events import RequestWaits, Wait, WaitReason
from ..request.request import Request
from ..request.request_state import RequestState
from ..scheduler import Scheduler

PAUSED = Wait(WaitReason.PAUSED)


class TokenGate:
    """Runs with stops after tokens, and the stopped requests. Used by the engine's thread alone.

    Args:
        states: Requests of the engine by id.
        scheduler: Scheduler of the requests.
        emit: Receives the events.
        settle: Processes the results of the step in flight.
    """

    def __init__(
        self,
        states: Mapping[int, RequestState],
        scheduler: Scheduler,
        emit: Callable[[Any], None],
        settle: Callable[[], None],
    ) -> None:
        self.stopped: set[int] = set()
        self._states, self._scheduler, self._emit, self._settle = states, scheduler, emit, settle
        self._below: dict[str, float] = {}  # by run: upper limit of the log-probability at a stop
        self._due: set[int] = set()  # requests with a stop after the work of the grammar

    def pause(self, run: str, below: float = 1.0) -> None:
        """Stop the requests of a run after each token with a probability below `below`; with 1.0
        after every token, and the running requests at once."""
        self._below[run] = inf if below >= 1.0 else log(below) if below > 0.0 else -inf

        self._settle()
        if below < 1.0:
            self._forget_due(run)
        for state in self._of(run):
            self.admit(state)
            if below >= 1.0 and state.constraint_ready and state.request.num_output_tokens:
                self._stop(state.request)

    def step(self, run: str) -> int:
        """Let each stopped request of a run compute a token. Returns the number of requests."""
        ids = [state.request.id for state in self._of(run) if state.request.id in self.stopped]

        self.stopped.difference_update(ids)
        for id in ids:
            self._scheduler.add(self._states[id].request)
        return len(ids)

    def resume(self, run: str) -> int:
        """Let the requests of a run go on without stops. Returns the number of stopped requests."""
        self._below.pop(run, None)
        self._forget_due(run)
        return self.step(run)

    def stopped_branches(self, run: str) -> set[str]:
        return {s.origin.branch for s in self._of(run) if s.request.id in self.stopped}

    def outputs(self, run: str) -> dict[str, list[int]]:
        """Return the output tokens of the stopped requests of a run by branch."""
        states = [state for state in self._of(run) if state.request.id in self.stopped]
        return {state.origin.branch: state.request.output for state in states}

    def admit(self, state: RequestState) -> None:
        """Prepare a request: each token is read before the next step is launched."""
        if state.origin.run in self._below and not state.stops_at_tokens:
            state.stop_at_tokens()
            self._scheduler.recount_synchronous()

    def took(self, state: RequestState, logprob: float) -> None:
        """Stop a request after a token, or after the work of the grammar for the token."""
        below = self._below.get(state.origin.run)
        if below is None or not logprob < below:
            return

        if state.grammar_work is None:
            self._stop(state.request)
        else:
            self._due.add(state.request.id)

    def go_on(self, request: Request) -> None:
        """Schedule a request after the work of the grammar, unless the request stops."""
        self._scheduler.resume(request)
        if request.id in self._due:
            self._stop(request)

    def end(self, id: int) -> None:
        self.stopped.discard(id)
        self._due.discard(id)

    def _stop(self, request: Request) -> None:
        self._due.discard(request.id)
        self.stopped.add(request.id)
        self._scheduler.finish(request)
        self._emit(RequestWaits(request.id, *PAUSED))

    def _forget_due(self, run: str) -> None:
        """Forget stops after the work of the grammar; the condition of a stop changed."""
        self._due.difference_update(state.request.id for state in self._of(run))

    def _of(self, run: str) -> list[RequestState]:
        return [state for state in self._states.values() if state.origin.run == run]


class TokenStepper:
    """Thread-safe interface of a `TokenGate`: see the methods of the same names.

    Args:
        call: Runs a function on the engine's thread and returns the result.
        gate: The gate.
    """

    def __init__(self, call: Callable[[Callable[[], Any]], Any], gate: TokenGate) -> None:
        self._call, self._gate = call, gate

    def pause(self, run: str, below: float = 1.0) -> None:
        self._call(lambda: self._gate.pause(run, below))

    def step(self, run: str) -> int:
        return int(self._call(lambda: self._gate.step(run)))

    def resume(self, run: str) -> int:
        return int(self._call(lambda: self._gate.resume(run)))

    def outputs(self, run: str) -> dict[str, list[int]]:
        outputs: dict[str, list[int]] = self._call(lambda: self._gate.outputs(run))
        return outputs

    def stopped_branches(self, run: str) -> set[str]:
        branches: set[str] = self._call(lambda: self._gate.stopped_branches(run))
        return branches
