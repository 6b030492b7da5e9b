"""One call on its way: what it has told the program, and what it took."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from ...errors import Aborted, ServiceError, shown
from ...events import RequestFinished
from ...lang.executor import Call, Delta, Result, ScoreCall, Scores
from .endpoint import Answer, Failure, Sample, Tokens
from .secrets import Secrets
from .usage import Used

SHARE = 4096
"""New text is read when it is at least this part of the whole: reading takes linear time."""


class Flight:
    """Used on the event loop's thread only. sink: takes the pieces of a streamed call."""

    def __init__(
        self,
        call: Call | ScoreCall,
        secrets: Secrets,
        sink: Callable[[Delta], None] | None = None,
    ) -> None:
        self.call, self.secrets, self.sink = call, secrets, sink
        self.used = Used(calls=1)
        self.told = ""  # to the sink
        self._parts: list[str] = []  # streamed by this request
        self._length = self._unread = 0  # characters
        self._stops: Sequence[str] = ()
        self._begun = ""
        self._most_bytes: int | None = None
        self._begun_at = time.monotonic()

    def begin(
        self, stops: Sequence[str] = (), begun: str = "", most_bytes: int | None = None
    ) -> None:
        """A request begins, whose text goes from after `begun`, but for blanks before that, to the
        first of `stops`. most_bytes: it is told only when a stop has come within so many."""
        self._parts, self._length, self._unread = [], 0, 0
        self._stops = stops
        self._begun, self._most_bytes = begun.lstrip(), most_bytes

    def piece(self, text: str) -> None:
        """Take new text of the first sample. A request that was sent again begins anew: what the
        program has is not told twice. Failure where it goes on otherwise."""
        self._unread += len(text)
        self._parts.append(text)
        if self._unread * SHARE < self._length:
            return
        self._length += self._unread
        self._unread, self._parts = 0, ["".join(self._parts)]
        so_far = self.secrets.clean(self._parts[0])
        so_far = so_far[: self.secrets.safe_length(so_far)]
        if self._begun:
            so_far = so_far.lstrip()
            if not so_far.startswith(self._begun):
                return
            so_far = so_far[len(self._begun) :]
        text = _before_stops(so_far, self._stops)
        if self._most_bytes is not None:
            ends = [text + stop for stop in self._stops if so_far.startswith(text + stop)]
            if not ends or len(max(ends, key=len).encode()) > self._most_bytes:
                return
        self._tell(text)

    def finish(self, text: str) -> None:
        """Take the whole text."""
        self._tell(text)

    def _tell(self, text: str) -> None:
        if self.told.startswith(text):
            return
        if not text.startswith(self.told):
            message = f"the stream broke after {shown(self.told[-60:])}, and went on otherwise when"
            hint = "temperature=0 or a seed repeats a text; without stream= it is asked for anew"
            error = ServiceError(f"{message} it was asked for again", hint)
            raise Failure("broken stream", error, again=False)
        new, self.told = text[len(self.told) :], text
        if self.sink is not None:
            self.sink(Delta(new, lambda: self.meta(None)))

    def count_tokens(self, tokens: Tokens) -> None:
        self.used.tokens += tokens

    def count(self, error: BaseException | None) -> Used:
        """What it took, now that it has ended."""
        self.used.stopped = int(isinstance(error, Aborted))
        self.used.failed = int(error is not None and not self.used.stopped)
        return self.used

    def finished(
        self, request: int, error: BaseException | None, made: Result | Scores
    ) -> RequestFinished:
        """What the log is told of its end, as the request of that number."""
        metas = made.meta if isinstance(made, Result) else ()
        reason = (metas[0]["finish_reason"] or {}).get("type", "stop") if metas else "stop"
        if error is not None:
            reason = "abort" if self.used.stopped else "error"
        tokens = self.used.tokens
        counts = tokens.prompt, tokens.cached, tokens.completion
        return RequestFinished(request, reason, *counts, "" if error is None else str(error))

    def meta(self, answer: Answer | None, sample: Sample | None = None) -> dict[str, Any]:
        """The meta information so far, in SGLang's shapes."""
        tokens = self.used.tokens if answer is None else answer.tokens
        count = 1 if answer is None else len(answer.samples)
        made = tokens.completion // count  # the service counts samples together
        if answer is not None and sample is answer.samples[0]:
            made += tokens.completion % count
        return {
            "id": "" if answer is None else answer.id,
            "finish_reason": None if sample is None else _finish(sample, made),
            "prompt_tokens": tokens.prompt,
            "completion_tokens": made,
            "cached_tokens": tokens.cached,
            "e2e_latency": time.monotonic() - self._begun_at,
            "requests": self.used.requests,
            **({} if sample is None else sample.meta),
        }


def _finish(sample: Sample, length: int) -> dict[str, Any]:
    if sample.finish == "stop":
        return {"type": "stop", "matched": sample.matched}
    if sample.finish == "length":
        return {"type": "length", "length": length}
    return {"type": "abort", "message": sample.finish}


def _before_stops(text: str, stops: Sequence[str]) -> str:
    """`text` up to the first stop, less an end that may become one."""
    found = [at for stop in stops if (at := text.find(stop)) >= 0]
    if found:
        return text[: min(found)]
    held = (size for stop in stops for size in range(1, len(stop)) if text.endswith(stop[:size]))
    return text[: len(text) - max(held, default=0)]
