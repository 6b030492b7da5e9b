"""Several backends as one: the next backend answers a call after a ServiceError of the previous."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

from ...errors import OptionError, ServiceError
from ...events import EventLog
from ...segment import Segment
from ..executor import (
    Call,
    Delta,
    Executor,
    Result,
    ScoreCall,
    Scores,
    declares_tools,
    generates_calls,
    modalities,
    model_name,
)
from ..ir import RoleBegin, role_text


class FallbackExecutor:
    """An `Executor` over several backends, asked in order.

    A call goes to the next backend if the previous backend ends with a ServiceError and has not
    streamed any text. All other errors end the call.
    """

    def __init__(self, backends: Sequence[Executor]) -> None:
        self.backends = tuple(backends)
        first = self.backends[0]
        self.chat, self.log = first.chat, EventLog()
        for backend in self.backends:
            self.log.join(backend.log)
        patterns = {b.special_tokens.pattern for b in self.backends if b.special_tokens is not None}
        self.special_tokens = re.compile("|".join(sorted(patterns))) if patterns else None
        self.model_name = " | ".join(map(model_name, self.backends))
        self.generates_calls = any(map(generates_calls, self.backends))
        self.modalities = frozenset.intersection(*map(modalities, self.backends))
        self.declares_tools = any(map(declares_tools, self.backends))
        ids = dict.fromkeys(backend.tokenizer_id for backend in self.backends)
        self.tokenizer_id = " | ".join(ids)
        self.shares_tokens = len(ids) == 1

    def generate(self, call: Call, sink: Callable[[Delta | Result], None]) -> Callable[[], None]:
        if call.tool_use is not None:
            self._check_tools()
        return _Attempt(self, call, sink).start()

    def score(self, call: ScoreCall, sink: Callable[[Scores], None]) -> Callable[[], None]:
        return _Attempt(self, call, sink).start()

    def call_for(self, backend: Executor, call: Any) -> Any:
        """Return `call` with the roles and stops of the backend's chat template."""
        ours, theirs = self.chat, backend.chat
        if ours is theirs:
            return call
        segments = [
            role_text(theirs, *segment.origin) if isinstance(segment.origin, tuple) else segment
            for segment in call.segments
        ]
        prompt = "".join(segment.text for segment in segments) if segments else call.prompt
        changed = replace(call, prompt=prompt, segments=tuple(segments))
        if isinstance(call, ScoreCall) or not _in_assistant(segments):
            return changed

        params = call.params
        stop = [text for text in params.stop if text not in ours.stop]
        stop_ids = [token for token in params.stop_token_ids if token not in ours.stop_token_ids]
        params = replace(
            params,
            stop=tuple(dict.fromkeys((*stop, *theirs.stop))),
            stop_token_ids=(*stop_ids, *theirs.stop_token_ids),
        )
        return replace(changed, params=params)

    def _check_tools(self) -> None:
        """Raise OptionError for tools on backends that generate calls in different ways."""
        for backend in self.backends:
            if not (generates_calls(backend) and declares_tools(backend)):
                message = f"tools on several backends need chat services: {model_name(backend)!r}"
                raise OptionError(f"{message} is none", "give a list of chat services, or one")

    def encode(self, segments: Sequence[Segment]) -> list[int]:
        return self.backends[0].encode(segments)

    def __getattr__(self, name: str) -> Any:
        """Return the optional attributes of the first backend for estimates and prefill."""
        if name not in ("cached_length", "dry_executor", "fill_cache", "find_order", "order"):
            raise AttributeError(name)
        return getattr(self.backends[0], name)

    def flush_cache(self) -> int:
        return sum(backend.flush_cache() for backend in self.backends)

    def server_info(self) -> dict[str, Any]:
        """Return the information of each backend, in order."""
        return {"backends": [backend.server_info() for backend in self.backends]}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.model_name!r}>"


class _Attempt:
    """A call on its way through the backends. Thread-safe."""

    def __init__(
        self, executor: FallbackExecutor, call: Call | ScoreCall, sink: Callable[[Any], None]
    ) -> None:
        self._executor, self._call, self._sink = executor, call, sink
        self._index = 0
        self._errors: list[ServiceError] = []
        self._has_streamed = self._is_cancelled = False
        self._lock = threading.Lock()
        self._cancel: Callable[[], None] = _nothing

    def start(self) -> Callable[[], None]:
        """Send the call to the first backend. Returns a function that cancels the call."""
        self._send(0)
        return self.cancel

    def cancel(self) -> None:
        with self._lock:
            self._is_cancelled, cancel = True, self._cancel
        cancel()

    def _send(self, index: int) -> None:
        backend = self._executor.backends[index]
        send: Any = backend.generate if isinstance(self._call, Call) else backend.score
        try:
            cancel = send(self._executor.call_for(backend, self._call), self._receive)
        except ServiceError as error:  # an immediate refusal equals a failed call
            self._receive(self._failed(error))
            return

        with self._lock:
            if self._index != index:  # the backend has failed already
                return
            self._cancel, is_cancelled = cancel, self._is_cancelled
        if is_cancelled:
            cancel()

    def _receive(self, message: Delta | Result | Scores) -> None:
        if isinstance(message, Delta):
            self._has_streamed = self._has_streamed or bool(message.text)
            self._sink(message)
            return
        if not isinstance(message.error, ServiceError):
            self._sink(self._described(message))
            return

        self._errors.append(message.error)
        with self._lock:
            is_last = self._index + 1 == len(self._executor.backends)
            is_over = is_last or self._has_streamed or self._is_cancelled
            self._index += not is_over
            self._cancel = _nothing
        if is_over:
            self._sink(replace(message, error=self._error()))
            return
        if self._call.lookahead is not None:
            self._call.lookahead.unused = None
        try:
            self._send(self._index)
        except Exception as error:
            self._sink(self._failed(error))

    def _failed(self, error: Exception) -> Result | Scores:
        return Result(error=error) if isinstance(self._call, Call) else Scores(error=error)

    def _described(self, message: Any) -> Any:
        """Return the outcome with the backend in the meta information."""
        backend = self._executor.backends[self._index]
        about = {
            "backend": model_name(backend),
            "backend_index": self._index,
            "backend_errors": [str(error) for error in self._errors],
        }
        if isinstance(message, Scores):
            return replace(message, meta={**message.meta, **about})
        if self._index and self._call.lookahead is not None:
            self._call.lookahead.unused = None  # text of a backend that may not answer next time
        segments = message.segments if self._executor.shares_tokens else ()
        meta = tuple({**info, **about} for info in message.meta)
        return replace(message, segments=segments, meta=meta)

    def _error(self) -> ServiceError:
        """Return the error of the call: the only error, or an error that quotes all."""
        if len(self._errors) == 1:
            return self._errors[0]
        pairs = zip(self._executor.backends, self._errors, strict=False)
        messages = "; ".join(f"{model_name(b)!r}: {error.message}" for b, error in pairs)
        return ServiceError(f"no backend answered: {messages}", self._errors[-1].hint)


def _nothing() -> None:
    pass


def _in_assistant(segments: Sequence[Segment]) -> bool:
    """Return whether the prompt ends inside the assistant's role."""
    marks = [segment.origin[0] for segment in segments if isinstance(segment.origin, tuple)]
    return bool(marks) and marks[-1] == RoleBegin("assistant")


_executors: WeakValueDictionary[tuple[int, ...], FallbackExecutor] = WeakValueDictionary()
"""Executors in use, by the ids of their backends: equal lists are the same executor."""
_lock = threading.Lock()


def fallback(backends: Sequence[Executor]) -> Executor:
    """Return the executor of a list of backends; the backend itself if the list has a single
    backend.

    Raises:
        OptionError: The list is empty or repeats a backend.
    """
    ids = tuple(map(id, backends))
    if not ids or len(set(ids)) < len(ids):
        message = "backend=[] has no backend" if not ids else "backend= repeats a backend"
        raise OptionError(message, "give a list of different engines or executors")
    if len(ids) == 1:
        return backends[0]
    with _lock:
        executor = _executors.get(ids)
        if executor is None:
            executor = _executors[ids] = FallbackExecutor(backends)
        return executor
