"""Threads for slow grammars: order, parallelism, errors and processor time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from queue import SimpleQueue

import pytest

from sgnb.grammar.workers import THREADS, GrammarJob, GrammarWorkers

WAIT = 30


@pytest.fixture
def workers() -> Iterator[GrammarWorkers]:
    workers = GrammarWorkers()
    yield workers
    workers.close()


def test_jobs_of_a_key_take_turns_in_order(workers: GrammarWorkers) -> None:
    running = threading.Lock()
    order: list[int] = []
    done: SimpleQueue[int] = SimpleQueue()

    def work(number: int) -> Callable[[], None]:
        def run() -> None:
            assert running.acquire(blocking=False)
            time.sleep(0.001)
            order.append(number)
            running.release()

        return run

    jobs = [workers.submit("key", work(n), lambda: done.put(0)) for n in range(20)]
    for _ in jobs:
        done.get(timeout=WAIT)
    assert order == list(range(20)) and not any(job.error for job in jobs)


def test_keys_run_at_the_same_time(workers: GrammarWorkers) -> None:
    together = threading.Barrier(THREADS, timeout=WAIT)
    done: SimpleQueue[int] = SimpleQueue()
    jobs = [
        workers.submit(key, lambda: together.wait() and None, lambda: done.put(0))
        for key in range(THREADS)
    ]
    for _ in jobs:
        done.get(timeout=WAIT)
    assert [job.error for job in jobs] == [None] * THREADS


def test_a_failed_job_keeps_its_error_and_blocks_no_other(workers: GrammarWorkers) -> None:
    done: SimpleQueue[int] = SimpleQueue()

    def fail() -> None:
        raise ValueError("no")

    first = workers.submit("key", fail, lambda: done.put(1))
    second = workers.submit("key", lambda: None, lambda: done.put(2))
    assert [done.get(timeout=WAIT), done.get(timeout=WAIT)] == [1, 2]
    assert isinstance(first.error, ValueError) and second.error is None


def test_seconds_count_computing_and_no_waiting() -> None:
    began, go_on = threading.Event(), threading.Event()

    def work() -> None:
        end = time.thread_time() + 0.05
        while time.thread_time() < end:
            pass
        began.set()
        go_on.wait(WAIT)

    job = GrammarJob(work, lambda: None)
    assert job.seconds == 0
    thread = threading.Thread(target=job.run)
    thread.start()
    assert began.wait(WAIT)
    time.sleep(0.2)
    assert 0.05 <= job.seconds < 0.15  # read by another thread
    go_on.set()
    thread.join()
    assert 0.05 <= job.seconds < 0.15
