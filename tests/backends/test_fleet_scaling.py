"""Decisions about the number of workers: reasons, the drained worker, pins, numbers."""

from __future__ import annotations

from sgnb.backends.fleet.block_index import BlockIndex
from sgnb.backends.fleet.router import RoutedCalls, Router
from sgnb.backends.fleet.scaling import (
    ENDS_SECONDS,
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


def test_a_backlog_starts_the_needed_workers_at_once() -> None:
    """A backlog of 30 s, and arrivals of 30 s of work within the last 5 s."""
    router, scaler = make_router(1), Scaler(1, 6, start_seconds=10)
    for number in range(10):
        send(router, 3000, f"{number}")
    assert scaler.decide(router, 0.0) == [], "patience of a tenth of a start"
    reason = "an expected wait of 30.0 s"
    started = [ScalingChange("start", worker, reason) for worker in range(1, 6)]
    assert scaler.decide(router, 1.0) == started
    assert scaler.decide(router, 2.0) == [], "the maximum"


def test_starting_workers_count() -> None:
    """35 s of work without arrivals: 25 s are left after a start, for two workers in 10 s each."""
    router, scaler = make_router(1), Scaler(1, 6, start_seconds=10)
    for number in range(5):
        send(router, 7000, f"{number}")
    for now in (60.0, 61.0):
        changes = scaler.decide(router, now)
    assert [change.worker for change in changes] == [1]
    assert scaler.decide(router, 62.0) == []
    for number in range(5, 8):
        send(router, 7000, f"{number}", 62.0)
    scaler.decide(router, 120.0)
    assert [change.worker for change in scaler.decide(router, 121.0)] == [2, 3]


def test_a_burst_that_ends_before_a_start_starts_nothing() -> None:
    router, scaler = make_router(1), Scaler(1, 3, start_seconds=30)
    send(router, 9000, "a")
    assert WAIT_SECONDS < 9
    for now in range(20):
        assert scaler.decide(router, now) == []


def test_a_short_wait_starts_nothing() -> None:
    """Many calls arrive, and the worker keeps up."""
    router, scaler = make_router(1), Scaler(1, 3)
    for number in range(30):
        item = send(router, 900, f"{number}", float(number))
        assert scaler.decide(router, float(number)) == []
        end(router, item, number + 0.9)


def test_a_cached_prompt_is_no_demand() -> None:
    router = make_router(1)
    for number in range(300):
        end(router, send(router, 1000, "a", float(number)), number + 0.1)
    assert router.workers.uncached_share < 0.02
    assert router.workers.demand(300.0) < 20


def test_the_workers_with_the_least_useful_caches_end_together() -> None:
    router, scaler = make_router(4), Scaler(1, 4)
    items = [send(router, 1000, name) for name in "abcd"]
    for item in items:
        end(router, item, 1.0)
    used = [send(router, tokens, name, 1.0) for tokens, name in ((1000, "a"), (700, "b"))]
    assert [item.estimate.cached for item in used] == [999, 699]
    end(router, used[0], 2.0)

    assert scaler.decide(router, 2.0) == []
    end(router, used[1], 3.0)
    scaler.decide(router, 3.0)
    best, second, *unused = (item.estimate.worker for item in items)
    changes = scaler.decide(router, 2.0 + IDLE_SECONDS)
    reason = f"3 of 4 workers had no calls for {IDLE_SECONDS:g} s"
    assert {change.worker for change in changes} == {second, *unused}
    assert {change[::2] for change in changes} == {("drain", reason)}
    stopped = scaler.decide(router, 3.0 + IDLE_SECONDS)
    assert {change[::2] for change in stopped} == {("stop", "not needed")}
    assert router.index.cached(unused[0]) == set()
    assert router.workers.active == [best]
    assert scaler.decide(router, 4.0 + 2 * IDLE_SECONDS) == [], "the minimum"


def test_workers_without_calls_at_each_moment_end() -> None:
    """Calls run on two of four workers at any moment, and on each worker at times."""
    router, scaler = make_router(4), Scaler(1, 4)
    for turn in range(int(IDLE_SECONDS)):
        assert scaler.decide(router, float(turn)) == []
        pair = [send(router, 400, f"{turn} {number}", float(turn)) for number in range(2)]
        assert len({item.estimate.worker for item in pair}) == 2
        scaler.decide(router, turn + 0.3)
        for item in pair:
            end(router, item, turn + 0.4)
        router.workers.calls[turn % 4] += 1  # a decode
        scaler.decide(router, turn + 0.5)
        router.workers.calls[turn % 4] -= 1
    changes = scaler.decide(router, IDLE_SECONDS + 1.0)
    assert len(changes) == 2


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
    (change,) = scaler.decide(router, 0.1)
    assert change[:2] == ("resume", drained)
    assert router.workers.active == [0, 1]
    assert not scaler.starting


def test_workers_with_pins_stay() -> None:
    router, scaler = make_router(2), Scaler(1, 2)
    for now in (0.0, IDLE_SECONDS):
        assert scaler.decide(router, now, {0, 1}) == []
    reason = f"1 of 2 workers had no calls for {IDLE_SECONDS:g} s"
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


def test_an_engine_of_the_prompts_is_replaced_like_a_worker() -> None:
    router, scaler = make_router(2), Scaler(2, 2, prefill=2)
    reason = "fewer than 2 prefill engines"
    assert scaler.decide(router, 0.0, prefills={2, 3}) == []
    scaler.lost(2, 0.0)
    assert scaler.decide(router, 0.0, prefills={3}) == [ScalingChange("start", 2, reason)]
    assert scaler.decide(router, 0.0, prefills={3}) == []
    scaler.failed(2, 10.0)
    assert scaler.decide(router, 10.9, prefills={3}) == [], "a pause after a failure"
    assert scaler.decide(router, 11.0, prefills={3}) == [ScalingChange("start", 2, reason)]
    scaler.started_prefill(2)
    assert scaler.failures == 0

    for now in range(1, MAX_ENDS):
        scaler.lost(2, float(now))
    assert scaler.decide(router, 12.0, prefills={3}) == [], "2 is given up"
    router.lose(1, 12.0)
    start = ScalingChange("start", 1, "fewer than 2 workers")
    assert scaler.decide(router, 12.0, prefills={3}) == [start]
