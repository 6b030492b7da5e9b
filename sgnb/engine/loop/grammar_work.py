"""Work of slow grammars next to the steps, and waits of a step for masks.

A request takes no part in steps during the work of the grammar. A step waits at most `PATIENCE` for
due masks. If other requests could run during the waits, all waits take at most the share `WAITING`
of the time. A grammar with masks of 4 ms therefore does not double the time per token of other
requests.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from ...errors import GrammarError
from ...grammar.json_place import json_place
from ...grammar.workers import GrammarJob, GrammarWorkers
from ..request.request import Request
from ..request.request_state import RequestState
from .command_thread import Command

PATIENCE = 0.005
"""Longest wait of a step for masks, in seconds after the start of the last work."""

WAITING = 0.1
"""Share of the time that a step may wait for masks while other requests could run."""

WATCH = 0.05
"""Interval in seconds at which an idle engine looks for requests over budget."""


class StartedWork(NamedTuple):
    state: RequestState
    job: GrammarJob


class GrammarWork(dict[int, StartedWork]):
    """Work of the grammars of an engine's requests, by id. Used by the engine's thread alone.

    Args:
        budget: maximum processor seconds of the grammar of a request.
        finished: called on a thread with the id of a request after the work.
    """

    def __init__(self, budget: float, finished: Callable[[int], None]) -> None:
        super().__init__()
        self._budget, self._finished = budget, finished
        self._workers = GrammarWorkers()
        self._due: set[int] = set()  # ids with work started after the last step
        self._deadline = 0.0  # end of the wait for due work, `time.perf_counter`
        self._credit = 0.0  # seconds of waits next to other requests, at `_credited_at`
        self._credited_at = 0.0

    def start(self, state: RequestState) -> None:
        """Start `state.grammar_work`."""
        assert state.grammar_work is not None and state.grammar is not None
        id = state.request.id
        key = state.grammar.result()
        job = self._workers.submit(key, state.grammar_work, partial(self._finished, id))
        self[id] = StartedWork(state, job)
        self._due.add(id)
        self._deadline = time.perf_counter() + PATIENCE

    def end(self, id: int) -> StartedWork | None:
        """Forget the work of a request and return the work, if any."""
        work = self.pop(id, None)
        if work is not None:
            self._due.discard(id)
            work.state.grammar_seconds += work.job.seconds
        return work

    def run_commands(
        self, commands: queue.SimpleQueue[Command], running: Sequence[Request]
    ) -> None:
        """Run queued commands, and wait for due work before the next step.

        Args:
            commands: commands to the engine, among them the ends of work.
            running: running requests. Without work of a grammar, a request could run in the step.
        """
        alone = bool(self) and all(request.has_slow_grammar for request in running)
        while True:
            patience = self.patience(alone) if self._due else 0.0

            if not patience and commands.empty():  # cheaper than `queue.Empty` in each step
                return

            began = time.perf_counter() if patience else 0.0
            try:
                command = commands.get(True, patience or None)
            except queue.Empty:
                return
            finally:
                if patience and not alone:
                    self.waited(time.perf_counter() - began)

            command()
            del command  # may hold the engine, and the engine's finalizer ends this thread

    def patience(self, alone: bool) -> float:
        """Return the seconds to wait for due work. alone: no other request could run."""
        now = time.perf_counter()
        self._credit = min(PATIENCE, self._credit + WAITING * (now - self._credited_at))
        self._credited_at = now
        remaining = self._deadline - now
        return max(0.0, remaining if alone else min(remaining, self._credit))

    def waited(self, seconds: float) -> None:
        """Count a wait next to other requests."""
        self._credit = max(0.0, self._credit - seconds)

    def stepped(self) -> None:
        """Count a launched step; no later step waits for the work due before."""
        self._due.clear()

    def over_budget(self) -> list[tuple[RequestState, GrammarError]]:
        """Return the requests with a grammar over the budget, each with an error."""
        late = [
            state
            for state, job in self.values()
            if state.grammar_seconds + job.seconds > self._budget
        ]
        return [(state, self._error(state)) for state in late]

    def _error(self, state: RequestState) -> GrammarError:
        assert state.grammar is not None
        compiled = state.grammar.result().compiled
        text = bytes(state.constraint.data).decode(errors="replace") if state.constraint else ""
        place = f"after {text[-40:]!r}"
        if compiled.spec.kind == "json_schema":
            place = f"at {json_place(text)}, {place}"
        part = compiled.why.partition("its largest part: ")[2]
        simpler = f"make this part simpler: {part}" if part else "make the grammar less ambiguous"
        return GrammarError(
            f"the {compiled.spec.kind} is not done after {self._budget:g} s of computing {place}",
            f"{simpler}; or raise grammar_budget_ms of the engine",
        )

    def close(self) -> None:
        """End the threads after their current work."""
        self._workers.close()
