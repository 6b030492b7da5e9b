"""Blocking and asynchronous collection of outputs from a queue filled by the engine's thread.

An interrupt, an error, a closed event loop or an abandoned stream aborts the requests: `abort`
takes ids.
"""

from __future__ import annotations

import asyncio
import os
import queue
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, Protocol

from ...event_loops import on_close
from ...home_process import HomeProcess
from ...sampling import SamplingParams
from .input_processor import Prompt, Samples
from .output import Output
from .request_state import OnOutput

Abort = Callable[[list[int]], None]
Indexed = tuple[int, Output]
"""Index of a sample and its output."""


def _new_threads() -> None:
    """Create the threads of asynchronous submissions. A forked child has no threads."""
    global _threads
    _threads = ThreadPoolExecutor(thread_name_prefix="sgnb-submit")  # started on demand


_threads: ThreadPoolExecutor
_new_threads()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_threads)


class Submit(Protocol):
    """See `Engine.submit`."""

    def __call__(
        self,
        prompts: Sequence[Prompt],
        params: Sequence[SamplingParams],
        on_outputs: Sequence[OnOutput],
        *,
        stream: bool = False,
    ) -> list[int]: ...


def run_samples(submit: Submit, abort: Abort, asked: Samples, stream: bool) -> Any:
    """Submit samples and return the outputs, or an iterator of the partial outputs."""
    results: queue.SimpleQueue[Indexed] = queue.SimpleQueue()
    callbacks = numbered_callbacks(results.put, len(asked.prompts))
    ids = submit(asked.prompts, asked.params, callbacks, stream=stream)
    if stream:
        return streamed(results, ids, abort)
    outputs = gather(results, ids, abort)
    return outputs[0] if asked.alone else outputs


async def arun_samples(submit: Submit, abort: Abort, asked: Samples, stream: bool) -> Any:
    """`run_samples` without blocking the event loop."""
    results: asyncio.Queue[Indexed] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def put(item: Indexed) -> None:
        # RuntimeError: the closed event loop has already aborted the requests.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(results.put_nowait, item)

    callbacks = numbered_callbacks(put, len(asked.prompts))
    ids = await _asubmit(
        partial(submit, asked.prompts, asked.params, callbacks, stream=stream), abort
    )
    if stream:
        return await astreamed(results, ids, abort)
    outputs = await agather(results, ids, abort)
    return outputs[0] if asked.alone else outputs


async def _asubmit(submit: Callable[[], list[int]], abort: Abort) -> list[int]:
    """Submit on a thread: tokenization, and the answer of a host, would hold up the event loop.
    The end of the task or of the event loop also aborts a submission in progress.

    The pool is separate from `asyncio.to_thread`: functions there may wait for a generation.
    """
    ids: list[int] = []
    ended: list[bool] = []  # no lock: `on_close`

    def end() -> None:
        ended.append(True)
        abort(ids)

    def submit_or_abort() -> None:
        ids.extend(submit())
        if ended:
            abort(ids)

    stop_watching = on_close(end)
    try:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(_threads, copy_context().run, submit_or_abort)
    except BaseException:
        end()
        raise
    finally:
        stop_watching()
    return ids


def numbered_callbacks(put: Callable[[Indexed], None], count: int) -> list[OnOutput]:
    """Return `count` callbacks; each passes the sample's index and the output to `put`."""
    return [_indexed(i, put) for i in range(count)]


def _indexed(index: int, put: Callable[[Indexed], None]) -> OnOutput:
    return lambda output: put((index, output))


def gather(results: queue.SimpleQueue[Indexed], ids: list[int], abort: Abort) -> list[Output]:
    """Return the outputs of all samples in order. Raises the error of the first failed sample."""
    outputs: dict[int, Output] = {}
    try:
        while len(outputs) < len(ids):
            index, output = _wait(results)
            outputs[index] = output
    except BaseException:
        abort(ids)
        raise
    return _in_order(outputs)


async def agather(results: asyncio.Queue[Indexed], ids: list[int], abort: Abort) -> list[Output]:
    """`gather` without blocking the event loop."""
    outputs: dict[int, Output] = {}
    stop_watching = on_close(partial(abort, ids))
    try:
        while len(outputs) < len(ids):
            index, output = await results.get()
            outputs[index] = output
    except BaseException:
        abort(ids)
        raise
    finally:
        stop_watching()
    return _in_order(outputs)


def streamed(results: queue.SimpleQueue[Indexed], ids: list[int], abort: Abort) -> Iterator[Output]:
    """Yield the partial outputs of one sample, then the final output. Raises the sample's error."""
    outputs = _streamed(results, ids, abort)
    next(outputs)
    return outputs  # type: ignore[return-value]  # the first one, None, is taken


def _streamed(
    results: queue.SimpleQueue[Indexed], ids: list[int], abort: Abort
) -> Iterator[Output | None]:
    """Yield None first: a generator that was never started skips `finally`."""
    home = HomeProcess("a stream")
    try:
        yield None
        while True:
            home.check()
            _, output = _wait(results)
            if output.error:
                raise output.error
            yield output
            if output.finish_reason:
                return
    finally:
        abort(ids)


async def astreamed(
    results: asyncio.Queue[Indexed], ids: list[int], abort: Abort
) -> AsyncIterator[Output]:
    """`streamed` without blocking the event loop."""
    outputs = _astreamed(results, ids, abort)
    await anext(outputs)
    return outputs  # type: ignore[return-value]  # as in `streamed`


async def _astreamed(
    results: asyncio.Queue[Indexed], ids: list[int], abort: Abort
) -> AsyncIterator[Output | None]:
    stop_watching = on_close(partial(abort, ids))
    try:
        yield None
        while True:
            _, output = await results.get()
            if output.error:
                raise output.error
            yield output
            if output.finish_reason:
                return
    finally:
        stop_watching()
        abort(ids)


def _wait(results: queue.SimpleQueue[Indexed]) -> Indexed:
    """Return the next item; wake up periodically to let interrupts through."""
    while True:
        try:
            return results.get(timeout=0.1)
        except queue.Empty:
            continue


def _in_order(outputs: dict[int, Output]) -> list[Output]:
    for _, output in sorted(outputs.items()):
        if output.error:
            raise output.error
    return [outputs[i] for i in range(len(outputs))]
