"""Chats on a simulated clock, at toy sizes."""

from __future__ import annotations

import threading

import pytest

from benchmarks import tier_chats
from benchmarks.tier_chats import Clock, Link, SimulatedCondition, Threads, chat, sleep
from sgnb.engine.cache.tiers.blocks import BLOCK

SESSIONS, TURNS, MESSAGE, ANSWER = 7, 3, 290, 11
TOTAL = SESSIONS * TURNS * (MESSAGE + ANSWER)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SESSIONS", "TURNS", "MESSAGE", "ANSWER"):
        monkeypatch.setattr(tier_chats, name, globals()[name])


@pytest.mark.usefixtures("toy")
def test_host_memory_saves_the_computation_of_evicted_tokens() -> None:
    limit, alone, both = chat(2 * TOTAL), chat(TOTAL // 3), chat(TOTAL // 3, 2 << 30)
    assert [len(result.turns) for result in (limit, alone, both)] == [TURNS] * 3
    assert TOTAL - SESSIONS * TURNS <= limit.counts["computed"] <= TOTAL
    assert both.counts["computed"] <= TOTAL + SESSIONS * TURNS * BLOCK
    assert alone.counts["computed"] > both.counts["computed"]
    assert both.counts["dropped_blocks"] == 0 and both.counts["loads"] > 0
    assert sum(limit.turns) < sum(both.turns) < sum(alone.turns)


@pytest.mark.usefixtures("toy")
def test_a_repeated_run_is_equal() -> None:
    assert chat(TOTAL // 2, 1 << 30) == chat(TOTAL // 2, 1 << 30)


def test_threads_and_copies_take_simulated_time() -> None:
    clock, ends = Clock(), list[tuple[str, float]]()
    threads, link = Threads(clock, 2), Link(clock, 4.0)
    lock = threading.Lock()
    condition, is_open = SimulatedCondition(lock), list[bool]()

    def pause(name: str, seconds: float) -> None:
        sleep(clock.now + seconds)
        ends.append((name, clock.now))

    def wait() -> None:
        with lock:
            condition.wait_for(lambda: bool(is_open))
        ends.append(("waited", clock.now))

    def release() -> None:
        sleep(link.book(10))
        with lock:
            is_open.append(True)
            condition.notify_all()

    for name, seconds in (("long", 3.0), ("short", 1.0), ("queued", 1.5)):
        threads.submit(pause, name, seconds)
    clock.advance(10.0)
    assert ends == [("short", 1.0), ("queued", 2.5), ("long", 3.0)]

    ends.clear()
    threads.submit(wait)
    threads.submit(release)
    clock.advance(12.0)
    assert link.seconds_left == 0.5 and ends == []
    clock.advance(20.0)
    assert ends == [("waited", 12.5)] and link.seconds_left == 0.0
