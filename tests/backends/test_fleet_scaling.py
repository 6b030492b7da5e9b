"""Decisions about the number of workers: reasons, the drained worker, pins, numbers."""

from __future__ import annotations

from sgnb.backends.fleet.block_index import BlockIndex
from sgnb.backends.fleet.router import RoutedCalls, Router
from sgnb.backends.fleet.scaling import (
    ENDS_SECONDS,
    GROW_SECONDS,
    IDLE_SECONDS,
    MAX_ENDS,
    WAIT_SECONDS,
    Scaler,
    ScalingChange,
)

RATE, BLOCK = 1000.0, 100


def make_router(workers: int) -> Router:
    router = Router(BlockIndex(), block=BLOCK, step_tokens=1000)
    for worker in range(workers):
        router.join(worker, RATE, 0.0)
    return router


def send(router: Router, tokens: int, prompt: str, now: float = 0.0) -> RoutedCalls:
    keys = [(prompt, block) for block in range(tokens // BLOCK)]
    router.submit(item := RoutedCalls("", keys, tokens), now)
    router.route(now)
    return item


def end(router: Router, item: RoutedCalls, now: float) -> None:
    router.index.add(item.estimate.worker, item.keys)
    router.finished(item, now)
    router.route(now)


def test_a_long_wait_starts_a_worker_after_some_seconds() -> None:
    router, scaler = make_router(1), Scaler(1, 3)
    send(router, 9000, "a")
    assert scaler.decide(router, 0.0) == []
    assert scaler.decide(router, GROW_SECONDS - 0.1) == []
    assert scaler.decide(router, GROW_SECONDS) == [
        ScalingChange("start", 1, "an expected wait of 9.0 s")
    ]
    assert scaler.decide(router, GROW_SECONDS + 1) == [], "the next start needs the same time"
    assert scaler.decide(router, 2 * GROW_SECONDS + 1) == [
        ScalingChange("start", 2, "an expected wait of 4.5 s")
    ], "a starting worker counts"
    assert scaler.decide(router, 100) == [], "the maximum"


def test_a_slow_start_needs_a_longer_wait() -> None:
    router, scaler = make_router(1), Scaler(1, 3, start_seconds=30)
    send(router, 9000, "a")
    assert WAIT_SECONDS < 9
    for now in range(20):
        assert scaler.decide(router, now) == []


def test_the_worker_with_the_least_useful_cache_ends() -> None:
    router, scaler = make_router(3), Scaler(1, 3)
    items = [send(router, 1000, name) for name in "abc"]
    for item in items:
        end(router, item, 1.0)
    used = send(router, 1000, "a", 1.0), send(router, 700, "b", 1.0)
    assert [item.estimate.cached for item in used] == [999, 699]
    for item in used:
        end(router, item, 2.0)
    unused = items[2].estimate.worker

    assert scaler.decide(router, 2.0) == []
    reason = "a worker had no calls for 60 s"
    assert scaler.decide(router, 2.0 + IDLE_SECONDS) == [ScalingChange("drain", unused, reason)]
    assert scaler.decide(router, 3.0 + IDLE_SECONDS) == [
        ScalingChange("stop", unused, "not needed")
    ]
    assert router.index.cached(unused) == set()
    last = used[1].estimate.worker
    scaler.decide(router, 4.0 + IDLE_SECONDS)
    assert scaler.decide(router, 5.0 + 2 * IDLE_SECONDS) == [ScalingChange("drain", last, reason)]
    scaler.decide(router, 6.0 + 2 * IDLE_SECONDS)
    assert scaler.decide(router, 6.0 + 4 * IDLE_SECONDS) == [], "the minimum"


def test_a_draining_worker_finishes_its_calls_and_gets_no_others() -> None:
    router, scaler = make_router(2), Scaler(1, 2)
    first = send(router, 1000, "a")
    drained = first.estimate.worker
    router.drain(drained, 0.0)
    other = send(router, 1000, "a")
    assert other.estimate.worker != drained, "the holder of the prefix takes no calls"
    assert scaler.decide(router, 1.0) == []
    router.prefilled(first, 2.0)
    assert scaler.decide(router, 2.0) == [], "it still decodes"
    end(router, first, 3.0)
    assert scaler.decide(router, 3.0) == [ScalingChange("stop", drained, "not needed")]


def test_planned_calls_of_a_drained_worker_move() -> None:
    router = make_router(2)
    items = [send(router, 4000, f"prompt {n}") for n in range(4)]
    drained = items[0].estimate.worker
    planned = [i for i in items if i.estimate.worker == drained and not i.sent]
    assert planned
    router.drain(drained, 0.0)
    router.route(0.0)
    assert all(item.estimate.worker != drained for item in planned)


def test_new_load_resumes_a_draining_worker() -> None:
    router, scaler = make_router(2), Scaler(1, 2)
    first = send(router, 1000, "a")
    drained = first.estimate.worker
    router.drain(drained, 0.0)
    send(router, 9000, "b")
    scaler.decide(router, 0.0)
    (change,) = scaler.decide(router, GROW_SECONDS)
    assert change[:2] == ("resume", drained)
    assert router.workers.active == [0, 1]
    assert not scaler.starting


def test_workers_with_pins_stay() -> None:
    router, scaler = make_router(2), Scaler(1, 2)
    for now in (0.0, IDLE_SECONDS):
        assert scaler.decide(router, now, {0, 1}) == []
    reason = "a worker had no calls for 60 s"
    assert scaler.decide(router, IDLE_SECONDS, {1}) == [ScalingChange("drain", 0, reason)]
    assert scaler.decide(router, IDLE_SECONDS, {0, 1}) == [
        ScalingChange("resume", 0, "tokens are pinned")
    ]
    assert router.workers.active == [0, 1]


def test_a_lost_worker_is_replaced_under_its_number() -> None:
    router, scaler = make_router(3), Scaler(3, 3)
    router.lose(1, 0.0)
    assert scaler.decide(router, 0.0) == [ScalingChange("start", 1, "fewer than 3 workers")]
    assert scaler.decide(router, 0.0) == []
    scaler.failed(1, 10.0)
    assert scaler.decide(router, 10.9) == [], "a pause after a failure"
    assert scaler.decide(router, 11.0) == [ScalingChange("start", 1, "fewer than 3 workers")]
    scaler.started(1, 2.0)
    scaler.succeeded(0)
    assert scaler.failures == 1, "another worker"
    scaler.succeeded(1)
    assert scaler.failures == 0


def test_a_worker_that_ends_again_and_again_is_given_up() -> None:
    router, scaler = make_router(2), Scaler(2, 2)
    start = ScalingChange("start", 1, "fewer than 2 workers")
    times = [0.0, ENDS_SECONDS, *(ENDS_SECONDS + n for n in range(1, MAX_ENDS))]
    for number, now in enumerate(times):
        router.lose(1, now)
        scaler.lost(1, now)
        is_last = number == MAX_ENDS
        assert scaler.decide(router, now) == [] if is_last else [start], "old ends are forgotten"
        scaler.starting.discard(1)
        router.join(1, RATE, now)
    assert scaler.given_up == {1}
    assert scaler.tries_again, "worker 0 may start"
    for now in range(MAX_ENDS):
        scaler.lost(0, now)
    assert not scaler.tries_again
