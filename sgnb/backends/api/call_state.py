"""State of a call: text streamed to the program, and usage."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from ...errors import Aborted, ServiceError, shown
from ...events import RequestFinished
from ...lang.executor import Call, Delta, Result, ScoreCall, Scores
from .endpoint import CompletionResponse, Sample
from .transport import Failure, Secrets
from .usage import CallUsage

MIN_SHARE = 4096
"""Read new text once its share of the whole text reaches 1 / MIN_SHARE: each read takes linear
time."""


class CallState:
    """State of a call, used on the event loop's thread only. `sink` receives the pieces of a
    streamed call."""

    def __init__(
        self,
        call: Call | ScoreCall,
        secrets: Secrets,
        sink: Callable[[Delta], None] | None = None,
    ) -> None:
        self.call, self.secrets, self.sink = call, secrets, sink
        self.usage = CallUsage(calls=1)
        self.delivered = ""  # text delivered to the sink
        self._parts: list[str] = []  # streamed by the current request
        self._length = self._unread = 0  # in characters
        self._stops: Sequence[str] = ()
        self._prefix = ""
        self._max_bytes: int | None = None
        self._start_time = time.monotonic()

    def begin(
        self, stops: Sequence[str] = (), prefix: str = "", max_bytes: int | None = None
    ) -> None:
        """Begin a request. The call's text starts after `prefix` (ignoring leading whitespace) and
        ends at the first of `stops`. With `max_bytes`, text is delivered only after a stop within
        this limit."""
        self._parts, self._length, self._unread = [], 0, 0
        self._stops = stops
        self._prefix, self._max_bytes = prefix.lstrip(), max_bytes

    def add_text(self, text: str) -> None:
        """Add new text of the first sample. A retry starts over, and text is delivered once. Raises
        Failure if the retry's text differs."""
        self._unread += len(text)
        self._parts.append(text)
        if self._unread * MIN_SHARE < self._length:
            return
        self._length += self._unread
        self._unread, self._parts = 0, ["".join(self._parts)]

        so_far = self.secrets.clean(self._parts[0])
        so_far = so_far[: self.secrets.safe_length(so_far)]
        if self._prefix:
            so_far = so_far.lstrip()
            if not so_far.startswith(self._prefix):
                return
            so_far = so_far[len(self._prefix) :]

        text = _before_stops(so_far, self._stops)
        if self._max_bytes is not None:
            ends = [text + stop for stop in self._stops if so_far.startswith(text + stop)]
            if not ends or len(max(ends, key=len).encode()) > self._max_bytes:
                return
        self.deliver(text)

    def deliver(self, text: str) -> None:
        """Deliver the new part of `text`, the call's text so far. Raises Failure if the text
        differs from the delivered text."""
        if self.delivered.startswith(text):
            return
        if not text.startswith(self.delivered):
            message = f"the stream broke after {shown(self.delivered[-60:])}"
            hint = "use temperature=0 or a seed to repeat the text, or call without stream="
            error = ServiceError(f"{message}, and the repeated request gave another text", hint)
            raise Failure("broken stream", error, is_transient=False)
        new, self.delivered = text[len(self.delivered) :], text
        if self.sink is not None:
            self.sink(Delta(new, lambda: self.meta(None)))

    def close(self, error: BaseException | None) -> CallUsage:
        """Return the usage of the finished call."""
        self.usage.stopped = int(isinstance(error, Aborted))
        self.usage.failed = int(error is not None and not self.usage.stopped)
        return self.usage

    def finish_event(
        self, request: int, error: BaseException | None, result: Result | Scores
    ) -> RequestFinished:
        """Return the log event for the end of request number `request`."""
        metas = result.meta if isinstance(result, Result) else ()
        reason = (metas[0]["finish_reason"] or {}).get("type", "stop") if metas else "stop"
        if error is not None:
            reason = "abort" if self.usage.stopped else "error"
        tokens = self.usage.tokens
        counts = tokens.prompt, tokens.cached, tokens.completion
        return RequestFinished(request, reason, *counts, "" if error is None else str(error))

    def meta(
        self, response: CompletionResponse | None, sample: Sample | None = None
    ) -> dict[str, Any]:
        """Return the meta information so far, in SGLang's format."""
        tokens = self.usage.tokens if response is None else response.tokens
        num_samples = 1 if response is None else len(response.samples)
        completion = tokens.completion // num_samples  # the service reports a sum over samples
        if response is not None and sample is response.samples[0]:
            completion += tokens.completion % num_samples

        return {
            "id": "" if response is None else response.id,
            "finish_reason": None if sample is None else _finish_reason(sample, completion),
            "prompt_tokens": tokens.prompt,
            "completion_tokens": completion,
            "cached_tokens": tokens.cached,
            "e2e_latency": time.monotonic() - self._start_time,
            "requests": self.usage.requests,
            **({} if sample is None else sample.meta),
        }


def _finish_reason(sample: Sample, length: int) -> dict[str, Any]:
    if sample.finish in ("stop", "tool_calls"):
        return {"type": "stop", "matched": sample.matched}
    if sample.finish == "length":
        return {"type": "length", "length": length}
    return {"type": "abort", "message": sample.finish}


def _before_stops(text: str, stops: Sequence[str]) -> str:
    """Return `text` up to the first stop, without a suffix that may begin a stop."""
    positions = [index for stop in stops if (index := text.find(stop)) >= 0]
    if positions:
        return text[: min(positions)]
    partial = (size for stop in stops for size in range(1, len(stop)) if text.endswith(stop[:size]))
    return text[: len(text) - max(partial, default=0)]
