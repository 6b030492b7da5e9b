"""State of a call: text streamed to the program, and usage."""

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
"""Read new text once its share of the whole text reaches 1 / SHARE: each read takes linear time."""


class Flight:
    """State of a call, used on the event loop's thread only. `sink` receives the pieces of a
    streamed call."""

    def __init__(
        self,
        call: Call | ScoreCall,
        secrets: Secrets,
        sink: Callable[[Delta], None] | None = None,
    ) -> None:
        self.call, self.secrets, self.sink = call, secrets, sink
        self.used = Used(calls=1)
        self.told = ""  # text delivered to the sink
        self._parts: list[str] = []  # streamed by the current request
        self._length = self._unread = 0  # in characters
        self._stops: Sequence[str] = ()
        self._begun = ""
        self._most_bytes: int | None = None
        self._begun_at = time.monotonic()

    def begin(
        self, stops: Sequence[str] = (), begun: str = "", most_bytes: int | None = None
    ) -> None:
        """Begin a request. The call's text starts after `begun` (ignoring leading whitespace) and
        ends at the first of `stops`. With `most_bytes`, text is delivered only after a stop within
        this limit."""
        self._parts, self._length, self._unread = [], 0, 0
        self._stops = stops
        self._begun, self._most_bytes = begun.lstrip(), most_bytes

    def piece(self, text: str) -> None:
        """Add new text of the first sample. A retry starts over, and text is delivered once. Raises
        Failure if the retry's text differs."""
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
        """Deliver the whole text."""
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
        """Return the usage of the finished call."""
        self.used.stopped = int(isinstance(error, Aborted))
        self.used.failed = int(error is not None and not self.used.stopped)
        return self.used

    def finished(
        self, request: int, error: BaseException | None, made: Result | Scores
    ) -> RequestFinished:
        """Return the log event for the end of request number `request`."""
        metas = made.meta if isinstance(made, Result) else ()
        reason = (metas[0]["finish_reason"] or {}).get("type", "stop") if metas else "stop"
        if error is not None:
            reason = "abort" if self.used.stopped else "error"
        tokens = self.used.tokens
        counts = tokens.prompt, tokens.cached, tokens.completion
        return RequestFinished(request, reason, *counts, "" if error is None else str(error))

    def meta(self, answer: Answer | None, sample: Sample | None = None) -> dict[str, Any]:
        """Return the meta information so far, in SGLang's format."""
        tokens = self.used.tokens if answer is None else answer.tokens
        count = 1 if answer is None else len(answer.samples)
        made = tokens.completion // count  # the service reports a sum over samples
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
    """Return `text` up to the first stop, without a suffix that may begin a stop."""
    found = [at for stop in stops if (at := text.find(stop)) >= 0]
    if found:
        return text[: min(found)]
    held = (size for stop in stops for size in range(1, len(stop)) if text.endswith(stop[:size]))
    return text[: len(text) - max(held, default=0)]
