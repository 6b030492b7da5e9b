"""A call of a program on its way to the engine and back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from ..engine.request.input_processor import split_samples
from ..engine.request.output import Output
from ..lang.executor import Call, Delta, Result
from ..lang.location import warn_once
from .mail import logged
from .output_segments import made_segments


class PendingCall:
    """A call queued for the engine, with its engine requests."""

    def __init__(self, executor: Any, call: Call, sink: Callable[[Delta | Result], None]) -> None:
        """executor: the `LocalExecutor` of the engine."""
        self.executor, self.call, self.sink = executor, call, sink
        self.params = split_samples(executor.overrides.params(call))  # per sample
        self.outputs: dict[int, Output] = {}  # finished samples
        self.cancelled = False
        self.error: Exception | None = None  # of the processor
        self._sends = threading.Lock()  # taken by the only sender
        self.ids: list[int] = []
        self.last_token: int | None = None  # of the prompt

    def process_items(self) -> None:
        """Send the call to the engine as soon as its items are processed: worker threads run the
        processor."""
        contents = [part.item for part in self.call.segments if part.kind == "media"]
        items = self.executor.engine.items
        self.executor._processing[id(self)] = self
        try:
            if not (contents and items and items.prepare_soon(contents, self._send)):
                self._send()
        except Exception as error:
            self._send(error)

    def _send(self, error: Exception | None = None) -> None:
        """Send the call, once. error: of the processor."""
        if self._sends.acquire(blocking=False):
            self.error = error
            self.executor._processing.pop(id(self), None)
            self.executor.mail.send(self)

    def cancel(self) -> None:
        self.cancelled = True
        self._send()  # fails without the output of the processor
        self.executor.engine.abort(self.ids)

    def fail(self, error: Exception) -> None:
        """Deliver the error on the executor's thread; logs an error of the sink."""
        logged(partial(self.sink, Result(error=error)))

    def take(self, index: int, output: Output) -> None:
        """Store a sample's output, on the engine's thread."""
        if index == 0 and self.call.stream and output.delta:
            delta = Delta(output.delta, lambda: output.meta_info)
            self.executor.mail.put_result(partial(self.sink, delta))

        if output.finish_reason is not None:
            self.outputs[index] = output
            if len(self.outputs) == len(self.params):
                self.executor.mail.put_result(self._finish)

    def _finish(self) -> None:
        """Deliver the result on the executor's thread, even if a warning is an error."""
        try:
            self._warn_of_seam()
        finally:
            self._deliver()

    def _deliver(self) -> None:
        outputs = [self.outputs[index] for index in range(len(self.params))]
        self.sink(
            Result(
                tuple([output.text for output in outputs]),
                tuple([output.meta_info for output in outputs]),
                next((output.error for output in outputs if output.error), None),
                made_segments(self.executor.engine, outputs[0]),
            )
        )

    def _warn_of_seam(self) -> None:
        """Warn once per line if the model's blank fits on no side of the end of the prompt."""
        call, params = self.call, self.params[0]
        if params.regex is None or call.params.leading_blank or call.location is None:
            return

        if self.last_token is not None:
            for line in self.executor.engine.seam_warnings(params, self.last_token):
                warn_once(line, call.location)
