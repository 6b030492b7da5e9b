"""State of a program's call in a fleet, and groups of calls for one worker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ...lang.executor import Call, Delta, Result, ScoreCall, Scores
from ...segment import Segment
from ...sequences import common_length
from .block_index import Key
from .router import RoutedCalls


def nothing() -> None:
    """Cancel an unsent call."""


class FleetCall:
    """A call, with the received text and tokens.

    Attributes:
        tokens: Token ids of the prompt.
        choice_tokens: Sum of the tokens of a select's choices.
        keys: Keys of the prompt's full blocks.
        attempt: Number of the attempt, from 1; results of earlier attempts are void.
        losses: Number of workers that ended during the call.
        submitted: Time of the submission of the attempt to the router, in seconds of the log.
    """

    def __init__(self, call: Call | ScoreCall, sink: Callable[[Any], None]) -> None:
        self.call, self.sink = call, sink
        self.tokens: Sequence[int] = ()
        self.choice_tokens = 0
        self.keys: Sequence[Key] = ()
        self.group: CallGroup | None = None
        self.attempt = self.losses = 0
        self.submitted = 0.0
        self.cancel: Callable[[], None] = nothing
        self.is_cancelled = False
        self._result = threading.Lock()  # taken by the thread that delivers the result
        self._received = ""  # text of all attempts
        self._repeated = 0  # next characters of the attempt without delivery
        self._last: Delta | None = None

    @property
    def is_done(self) -> bool:
        """True after the result."""
        return self._result.locked()

    @property
    def place(self) -> tuple[str, str]:
        """Run and branch: a branch has at most one open call."""
        return self.call.run, self.call.branch

    @property
    def fork(self) -> tuple[str, str] | None:
        """Run and parent of a branch of a fork, otherwise None."""
        parent = self.call.branch.rpartition(".")[0]
        return (self.call.run, parent) if parent else None

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Prompt of the call."""
        return self.call.segments or (Segment(self.call.prompt),)

    def deliver(self, message: Result | Scores) -> None:
        """Give the listener the result, once."""
        if self._result.acquire(blocking=False):
            self.sink(message)

    def fail(self, error: Exception) -> None:
        """Give the listener an error instead of a result."""
        self.deliver(self.error_result(error))

    def error_result(self, error: Exception) -> Result | Scores:
        """Return an error as a result of the call."""
        return Result(error=error) if isinstance(self.call, Call) else Scores(error=error)

    def stream(self, delta: Delta) -> None:
        """Give the listener new text, without the text of an earlier attempt."""
        self._last = delta
        skipped = min(self._repeated, len(delta.text))
        self._repeated -= skipped
        text = delta.text[skipped:]
        self._received += text
        if text and not self.is_done:
            self.sink(replace(delta, text=text))

    def continued(self) -> int:
        """Prepare the next attempt: generation continues after the received tokens. Returns the
        number of received tokens."""
        if not isinstance(self.call, Call) or self._last is None:
            return 0
        tokens = self._last.meta()["token_ids"]
        self._repeated = len(self._received)
        self.call = replace(self.call, given_output=tuple(tokens))
        return len(tokens)


class CallGroup:
    """Calls for one worker: a single call, or branches of a fork.

    Attributes:
        calls: The calls.
        waiting: Calls without a first token.
        open: Calls without a result.
        routed: The calls as the router knows them.
        cancel_prefill: Ends the computation of the prompt by another engine than the worker.
    """

    def __init__(self, calls: Sequence[FleetCall]) -> None:
        self.calls = calls
        self.cancel_prefill: Callable[[], None] = nothing
        self.waiting, self.open = set(calls), set(calls)
        first = calls[0]
        self.fork = first.fork
        shared = min(shared_tokens(first, call) for call in calls)
        blocks = min(common_length(first.keys, call.keys) for call in calls)
        own = sum(len(call.tokens) - shared + call.choice_tokens for call in calls)
        self.routed = RoutedCalls(first.call.run, first.keys[:blocks], shared, own)
        for call in calls:
            call.group = self


def shared_tokens(first: FleetCall, second: FleetCall) -> int:
    """Return the length of the common prefix of two prompts."""
    return common_length(first.tokens, second.tokens)


def grouped(calls: Sequence[FleetCall], max_own: int) -> list[CallGroup]:
    """Return the calls in groups. Branches of one parent stay together, up to `max_own` tokens
    after the shared prompt; more branches form further groups."""
    forks: dict[tuple[str, str], list[FleetCall]] = {}
    groups: list[CallGroup] = []
    for call in calls:
        if call.fork is not None:
            forks.setdefault(call.fork, []).append(call)
        else:
            groups.append(CallGroup([call]))

    for branches in forks.values():
        shared = min(shared_tokens(branches[0], call) for call in branches)
        part: list[FleetCall] = []
        own = 0
        for call in branches:
            added = len(call.tokens) - shared + call.choice_tokens
            if part and own + added > max_own:
                groups.append(CallGroup(part))
                part, own = [], 0
            part.append(call)
            own += added
        groups.append(CallGroup(part))
    return groups
