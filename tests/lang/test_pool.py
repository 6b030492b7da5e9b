"""Workers give way when they wait, and end when there is nothing to do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

from sgnb.lang.pool import BatchTasks, blocking


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_waiting_worker_is_replaced_up_to_the_limit() -> None:
    go, done, waiting = threading.Event(), threading.Semaphore(0), []

    def task(i: int) -> None:
        waiting.append(i)
        with blocking():
            go.wait(60)
        done.release()

    pool = BatchTasks(3)
    pool.add(partial(task, i) for i in range(10))
    _until(lambda: len(waiting) == 3)
    time.sleep(0.02)
    assert sorted(waiting) == [0, 1, 2]
    go.set()
    assert all(done.acquire(timeout=60) for _ in range(10))


def test_stop_drops_what_has_not_begun() -> None:
    go, begun = threading.Event(), []
    pool = BatchTasks(1)
    pool.add([lambda: (begun.append(1), go.wait(60))[0], lambda: begun.append(2)])
    _until(lambda: begun == [1])
    pool.stop()
    go.set()
    pool.add([lambda: begun.append(3)])
    _until(lambda: len(begun) == 2)
    assert begun == [1, 3]


def test_blocking_outside_a_pool_does_nothing() -> None:
    with blocking():
        pass
