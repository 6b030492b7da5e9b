"""An executor for tests: scripted answers after chosen delays, from threads of its own, and a
record of every call."""

from __future__ import annotations

import heapq
import itertools
import re
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from sgnb.errors import Aborted
from sgnb.events import EventLog
from sgnb.lang.chat import PLAIN, ChatTemplate
from sgnb.lang.executor import Call, ChoiceScore, Delta, Result, ScoreCall, Scores
from sgnb.segment import Segment


def answer_by_hash(call: Call) -> str:
    """A text that depends on the prompt and the name, and on nothing else."""
    return f"<{zlib.crc32(f'{call.name}|{call.prompt}'.encode()) % 1000}>"


PATIENCE_SECONDS = 60.0
FOREVER_SECONDS = 1e6


class FakeExecutor:
    """Two threads deliver the answers when they are due. A streamed text comes letter by letter.

    answer: gives a call's text, a list of n texts, or an exception to fail with.
    delay: seconds before an answer, and between letters.
    logprobs: gives a choice's log-probabilities, one for each byte.
    together: no answer comes before this many calls run at a time, however slow the machine is;
    after `PATIENCE_SECONDS` it comes all the same.
    """

    def __init__(
        self,
        answer: Callable[[Call], Any] | str = answer_by_hash,
        delay: Callable[[Call | ScoreCall], float] | float = 0.0,
        logprobs: Callable[[str], list[float]] = lambda choice: (
            [-float(len(choice))] * len(choice.encode())
        ),
        chat: ChatTemplate = PLAIN,
        together: int = 0,
    ) -> None:
        self.chat, self.log = chat, EventLog()
        self.modalities: frozenset[str] = frozenset()
        self.special_tokens = re.compile(r"<\|\w+\|>")
        self.calls: list[Call | ScoreCall] = []
        self.cancelled: list[Call | ScoreCall] = []
        self.running = self.most_running = 0
        self._answer = (lambda call: answer) if isinstance(answer, str) else answer
        self._delay = delay if callable(delay) else lambda call: delay
        self._logprobs = logprobs
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._closed = False
        self._together, self._patient_until = together, time.monotonic() + PATIENCE_SECONDS
        self._threads = [threading.Thread(target=self._deliver, daemon=True) for _ in range(2)]
        for thread in self._threads:
            thread.start()

    def generate(self, call: Call, sink: Callable[[Delta | Result], None]) -> Callable[[], None]:
        answer = self._answer(call)
        texts = answer if isinstance(answer, list) else [answer] * call.params.n
        failed = isinstance(answer, Exception)
        sent: list[str] = []

        def letter(i: int) -> None:
            sent.append(texts[0][i])
            triples = [(-float(j), j, None) for j in range(i + 1)]
            sink(Delta(texts[0][i], lambda: {"output_token_logprobs": triples}))

        def result() -> Result:
            if failed:
                return Result(("".join(sent),), error=answer)
            return Result(
                tuple(texts),
                tuple({"finish_reason": {"type": "stop"}, "length": len(t)} for t in texts),
            )

        pieces = len(texts[0]) if call.stream and not failed else 0

        def aborted() -> Result:
            return Result(("".join(sent),), error=Aborted("stopped"))

        return self._start(call, sink, pieces, letter, result, aborted)

    def score(self, call: ScoreCall, sink: Callable[[Scores], None]) -> Callable[[], None]:
        def result() -> Scores:
            return Scores(
                tuple(self._score(choice, call.unconditional) for choice in call.choices),
                {"cached": 0},
            )

        return self._start(
            call, sink, 0, lambda i: None, result, lambda: Scores(error=Aborted("stopped"))
        )

    @property
    def tokenizer_id(self) -> str:
        return "bytes"

    def encode(self, segments: Sequence[Segment]) -> list[int]:
        """The text's bytes."""
        return list("".join(segment.text for segment in segments).encode())

    def flush_cache(self) -> None:
        pass

    def server_info(self) -> dict[str, Any]:
        return {"name": "fake"}

    def names(self) -> list[str]:
        """The names called for, in order."""
        return [call.name for call in self.calls]

    def events(self, *kinds: type) -> list[Any]:
        return [r.event for r in self.log.read().records if not kinds or isinstance(r.event, kinds)]

    def hurry(self) -> None:
        """What has been called for is due now."""
        with self._changed:
            self._due = [(0.0, number, action) for _, number, action in self._due]
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _score(self, choice: str, unconditional: bool) -> ChoiceScore:
        logprobs = tuple(self._logprobs(choice))
        alone = (None, *[-1.0] * (len(logprobs) - 1)) if unconditional else ()
        return ChoiceScore(tuple(choice.encode()[: len(logprobs)]), logprobs, alone)

    def _start(
        self, call: Any, sink: Any, pieces: int, letter: Any, result: Any, aborted: Any
    ) -> Callable[[], None]:
        ended = threading.Lock()

        def end(last: Callable[[], Any]) -> None:
            if ended.acquire(blocking=False):
                with self._changed:
                    self.running -= 1
                sink(last())

        def step(i: int) -> None:
            if ended.locked():
                return
            if i < pieces:
                letter(i)
                self._later(call, lambda: step(i + 1))
            else:
                end(result)

        def cancel() -> None:
            self.cancelled.append(call)
            self._later(None, lambda: end(aborted))

        with self._changed:
            self.calls.append(call)
            self.running += 1
            self.most_running = max(self.most_running, self.running)
            self._changed.notify_all()
        self._later(call, lambda: step(0))
        return cancel

    def _later(self, call: Call | ScoreCall | None, action: Callable[[], None]) -> None:
        """Schedule an action after the delay of its call, or now if there is no call."""
        with self._changed:  # the delay is read under the lock, so `hurry` misses no call
            seconds = 0.0 if call is None else self._delay(call)
            heapq.heappush(self._due, (time.monotonic() + seconds, next(self._numbers), action))
            self._changed.notify()

    def _seconds_to_wait(self) -> float:
        due = self._due[0][0] if self._due else self._patient_until + FOREVER_SECONDS
        if self.most_running < self._together:
            due = max(due, self._patient_until)
        return due - time.monotonic()

    def _deliver(self) -> None:
        while True:
            with self._changed:
                while not self._closed and (wait := self._seconds_to_wait()) > 0:
                    self._changed.wait(wait)
                if self._closed:
                    return
                _, _, action = heapq.heappop(self._due)
            action()
            del action  # it holds the program that is called
