"""Whoever stops waiting for outputs ends their requests."""

from __future__ import annotations

import asyncio
import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sgnb.engine.request.collect import agather, arun_samples, astreamed, gather, streamed
from sgnb.engine.request.input_processor import Samples
from sgnb.engine.request.output import Output
from sgnb.sampling import SamplingParams

PART = Output("a", [1], 3, 0, None)
LAST = Output("ab", [1, 2], 3, 0, "length")
BROKEN = Output("", [], 3, 0, "error", error=ValueError("broken"))


class Interrupted:
    def get(self, timeout: float) -> Any:
        raise KeyboardInterrupt


def filled(*items: tuple[int, Output], kind: Any = queue.SimpleQueue) -> Any:
    results = kind()
    for item in items:
        results.put(item) if kind is queue.SimpleQueue else results.put_nowait(item)
    return results


def test_all_outputs_in_order_end_nothing() -> None:
    ended: list[list[int]] = []
    assert gather(filled((1, PART), (0, LAST)), [7, 8], ended.append) == [LAST, PART]
    assert ended == []


def test_an_interrupt_ends_all() -> None:
    ended: list[list[int]] = []
    with pytest.raises(KeyboardInterrupt):
        gather(Interrupted(), [7, 8], ended.append)  # type: ignore[arg-type]
    assert ended == [[7, 8]]


def test_the_first_error_is_raised() -> None:
    with pytest.raises(ValueError, match="broken"):
        gather(filled((1, BROKEN), (0, LAST)), [7, 8], lambda ids: None)


def test_a_cancelled_task_ends_all() -> None:
    ended: list[list[int]] = []

    async def main() -> None:
        task = asyncio.create_task(agather(asyncio.Queue(), [7, 8], ended.append))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert ended == [[7, 8]]


def test_a_stream_that_is_let_go() -> None:
    ended: list[list[int]] = []
    stream = streamed(filled((0, PART), (0, LAST)), [7], ended.append)
    assert next(stream) == PART and ended == []
    stream.close()  # type: ignore[attr-defined]
    assert ended == [[7]]
    assert list(streamed(filled((0, PART), (0, LAST)), [8], ended.append)) == [PART, LAST]


def test_an_asynchronous_stream_that_is_let_go() -> None:
    ended: list[list[int]] = []

    async def main() -> None:
        stream = await astreamed(
            filled((0, PART), (0, LAST), kind=asyncio.Queue), [7], ended.append
        )
        assert await anext(stream) == PART and ended == []
        await stream.aclose()  # type: ignore[attr-defined]

    asyncio.run(main())
    assert ended == [[7]]


@pytest.mark.parametrize("closes", [False, True])
def test_requests_are_submitted_on_a_thread(closes: bool) -> None:
    """The event loop goes on during a submission. If the task or the event loop ends before the
    submission, the requests are aborted."""
    begun, resume, ended = threading.Event(), threading.Event(), queue.SimpleQueue[list[int]]()

    def submit(*args: Any, stream: bool) -> list[int]:
        begun.set()
        assert resume.wait(20)
        return [7, 8]

    async def wait_for_the_submission() -> None:
        while not begun.is_set():
            await asyncio.sleep(0.01)

    loop = asyncio.new_event_loop()
    asked = Samples(["a", "b"], [SamplingParams()] * 2, False)
    task = loop.create_task(arun_samples(submit, ended.put, asked, False))
    loop.run_until_complete(wait_for_the_submission())
    task.cancel()
    if not closes:
        with pytest.raises(asyncio.CancelledError):
            loop.run_until_complete(task)
    loop.close()
    assert ended.get(timeout=20) == [], "before the submission"
    resume.set()
    assert ended.get(timeout=20) == [7, 8]
    task._log_destroy_pending = False  # type: ignore[attr-defined]


def test_functions_that_wait_for_a_generation_delay_no_submission() -> None:
    """Each thread of `asyncio.to_thread` waits for an answer to another submission."""
    width = 3

    def submit(prompts: Any, params: Any, callbacks: Any, stream: bool) -> list[int]:
        callbacks[0](LAST)
        return [7]

    async def main() -> list[Output]:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(width))
        begun = threading.Barrier(width)

        def tool() -> Output:
            begun.wait(20)
            asked = Samples(["a"], [SamplingParams()], True)
            answer = arun_samples(submit, lambda ids: None, asked, False)
            return asyncio.run_coroutine_threadsafe(answer, loop).result(5)

        return await asyncio.gather(*(asyncio.to_thread(tool) for _ in range(width)))

    assert asyncio.run(main()) == [LAST] * width
