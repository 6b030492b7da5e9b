"""Routing decisions, against a search over all workers, and rules of the router."""

from __future__ import annotations

import random
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from sgnb.backends.fleet.block_index import BlockIndex
from sgnb.backends.fleet.cost import Estimate, Workers
from sgnb.backends.fleet.fairness import FairQueue
from sgnb.backends.fleet.router import STEPS_AHEAD, RoutedCalls, Router

RATE, STEP = 1000.0, 1000
BLOCK = 100


def make_router(workers: int = 2, price: float = 1.0, compared: int = 0) -> Router:
    router = Router(BlockIndex(), block=BLOCK, step_tokens=STEP, price=price, compared=compared)
    for worker in range(workers):
        router.join(worker, RATE, 0.0)
    return router


def item(tokens: int, prompt: str = "", client: str = "", own: int = 0) -> RoutedCalls:
    keys = [(prompt, block) for block in range(tokens // BLOCK)]
    return RoutedCalls(client, keys, tokens, own)


def send(router: Router, new: RoutedCalls, now: float = 0.0) -> list[RoutedCalls]:
    router.submit(new, now)
    return router.route(now)


def decide(router: Router, new: RoutedCalls, now: float) -> Estimate:
    return router.decide(new, router.costs(new, now))


def test_a_prefix_attracts_until_the_wait_costs_more() -> None:
    router = make_router(price=0)
    assert send(router, item(1000, "a"))[0].estimate.worker == 0
    assert send(router, item(600, "b"))[0].estimate.worker == 1
    (holder,) = send(router, item(1000, "a"))
    assert holder.estimate == Estimate(0, 999, approx(1.0), approx(0.001), 0, approx(1.6))
    send(router, item(5000, "a", own=5000))  # the holder has much work now
    router.submit(elsewhere := item(1000, "a"), 0)
    router.route(0)
    assert elsewhere.estimate[:2] == (1, 0)


def test_the_price_keeps_work_off_busy_workers() -> None:
    """With and without a price, the same call: other calls arrive often, and all workers are
    busy."""
    chosen = []
    for price in (0.0, 1.0):
        router = make_router(price=price)
        for number in range(2):
            send(router, item(1000, f"first {number}"))
        for step in range(300):
            router.workers.arrived(step * 0.1, 1000)
        for number in range(2):
            router.workers.ready[number] = 30.6 + number
        chosen.append(decide(router, item(900, "first 1"), 30.0).worker)
    assert chosen == [0, 1]


def test_work_on_an_idle_fleet_delays_nobody() -> None:
    router = make_router(8)
    for step in range(200):
        router.workers.arrived(step * 0.01, 1000)
    assert router.workers.price == 0


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(0, 5), min_size=1, max_size=70),
    st.data(),
    st.integers(0, 700),
    st.floats(0, 20),
)
def test_the_decision_is_the_cheapest_worker(
    waits: list[float], data: st.DataObject, own: int, arrivals: float
) -> None:
    router = make_router(len(waits))
    new = item(1000, "a", own=own)
    held = data.draw(st.lists(st.integers(0, 10), min_size=len(waits), max_size=len(waits)))
    for worker, blocks in enumerate(held):
        router.index.add(worker, new.keys[:blocks])
        router.workers.ready[worker] = waits[worker]
        router.workers.queued[worker] = waits[worker] * RATE
    router.workers._arrivals = arrivals * 20
    router.workers._busy = 0.5

    found = decide(router, new, 0.0)
    assert found.cached == min(held[found.worker] * BLOCK, 999)
    totals = [cost(router, wait, own, blocks) for wait, blocks in zip(waits, held, strict=True)]
    full = min(waits) + (1000 + own) / RATE
    allowed = [t for t, wait in zip(totals, waits, strict=True) if wait <= 2 * full]
    assert found.total == pytest.approx(min(allowed), abs=1e-9)
    assert found.wait <= 2 * full

    compared = router.costs(new, 0.0).cheapest(5)
    shown = [first + others for first, others in zip(compared.first, compared.others, strict=True)]
    assert shown == pytest.approx(sorted(totals)[:5])
    assert shown == pytest.approx([totals[worker] for worker in compared.workers])
    assert compared.cached == tuple(min(held[w] * BLOCK, 999) for w in compared.workers)


def cost(router: Router, wait: float, own: int, blocks: int) -> float:
    work = (1000 + own - min(blocks * BLOCK, 999)) / RATE
    per_worker = router.workers._arrivals / 20 / len(router.workers)
    return wait + work + work * per_worker * 0.5 / 0.5 * (wait + work)


def test_the_wait_for_a_holder_is_bounded() -> None:
    """A price that is far too high would hold the call at the holder for ever."""
    router = make_router(price=1e9)
    send(router, item(1000, "a"))
    router.workers.arrived(0, 1000)
    router.workers.arrived(30, 1000)
    for wait, worker in ((1.9, 0), (2.1, 1)):
        router.workers.ready[0] = 40 + wait
        assert decide(router, item(1000, "a"), 40).worker == worker


def test_branches_of_a_fork_stay_together() -> None:
    router = make_router()
    (fork,) = send(router, item(500, "a", own=30))
    assert fork.uncached == 530
    assert router.workers.queued[fork.estimate.worker] == 530
    (again,) = send(router, item(500, "a", own=100), now=0.1)
    assert again.estimate.worker == fork.estimate.worker
    assert again.uncached == 101


def test_a_branch_follows_its_siblings_unless_the_cost_disagrees() -> None:
    router = make_router()
    (first,) = send(router, item(500, "a"))
    router.submit(second := item(500, "a", own=100), 0)
    second.sibling = first
    router.route(0)
    assert second.estimate.worker == first.estimate.worker
    router.submit(third := item(500, "a", own=100), 0)
    third.sibling = second
    router.workers.book(first.estimate.worker, 3000, 0)
    router.route(0)
    assert third.estimate.worker != first.estimate.worker


def test_two_steps_are_sent_ahead() -> None:
    router = make_router(1)
    sent = [new for n in range(5) for new in send(router, item(STEP, f"{n}"))]
    assert len(sent) == STEPS_AHEAD
    router.prefilled(sent[0], 1.0)
    assert len(router.route(1.0)) == 1


def test_an_idle_worker_takes_planned_items() -> None:
    """Worker 1 was believed to be slow, and ends early."""
    router = make_router()
    router.workers.rates[1] = RATE / 100
    (slow,) = send(router, item(100, "b")) or [None]
    assert slow is not None
    router.workers.ready[1] = 50.0
    items = [item(STEP, f"a{number}") for number in range(6)]
    for each in items:
        send(router, each)
    assert {each.estimate.worker for each in items} == {0}
    assert [each.sent for each in items] == [True, True, False, False, False, False]
    router.workers.rates[1], router.workers.ready[1] = RATE, 1.0
    router._changed[1] = None
    moved = router.route(1.0)
    assert [each.estimate.worker for each in moved] == [1, 1]
    assert moved[0] in items[2:]


def test_a_decision_knows_the_cheapest_workers_at_its_time() -> None:
    """The booking of the call itself is no reason, and a lost worker is not compared."""
    router = make_router(3, compared=2)
    router.lose(1, 0.0)
    (first,) = send(router, item(1000, "a"))
    assert (first.compared.workers, first.compared.first) == ((0, 2), (1.0, 1.0))
    assert not send(make_router(), item(1000, "a"))[0].compared.workers


@settings(max_examples=100, deadline=None)
@given(st.data(), st.integers(1, 24), st.integers(1, 9))
def test_the_cheapest_are_a_sorted_list(data: st.DataObject, workers: int, count: int) -> None:
    """Equal costs are in the order of calls, then of numbers; absent workers are left out."""
    router = make_router(workers)
    row = st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans())
    rows = data.draw(st.lists(row, min_size=workers, max_size=workers))
    for worker, (wait, calls, _) in enumerate(rows):
        router.workers.ready[worker], router.workers.calls[worker] = wait, calls
    for worker, (*_, is_lost) in enumerate(rows):
        if is_lost:
            router.lose(worker, 0.0)
    present = [worker for worker, (*_, is_lost) in enumerate(rows) if not is_lost]
    expected = sorted(present, key=lambda worker: (*rows[worker][:2], worker))
    assert router.costs(item(100), 0.0).cheapest(count).workers == tuple(expected[:count])


def test_a_lost_worker_returns_its_calls() -> None:
    router = make_router()
    items = [item(STEP, f"p{number}") for number in range(8)]
    sent = [each for new in items for each in send(router, new)]
    lost = router.lose(0, 0.0)
    assert lost == [each for each in sent if each.estimate.worker == 0]
    router.route(0.0)
    waiting = [each for each in items if each not in lost]
    assert {each.estimate.worker for each in waiting} == {1}
    assert router.index.levels(lost[0].keys) == []
    router.lose(1, 0.0)
    assert send(router, item(10)) == []
    assert router.waiting
    router.join(2, RATE, 1.0)
    assert router.route(1.0)[0].estimate.worker == 2


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_every_item_is_sent_once_and_bookings_end(seed: int) -> None:
    rng, router = random.Random(seed), make_router(3)
    running: deque[RoutedCalls] = deque()
    sent_count: dict[RoutedCalls, int] = {}
    workers, number, now, submitted = {0, 1, 2}, 3, 0.0, 0

    def note(sent: list[RoutedCalls]) -> None:
        for each in sent:
            sent_count[each] = sent_count.get(each, 0) + 1
            assert each.estimate.worker in workers
        running.extend(sent)
        for worker in workers:
            ahead = [i for i in running if i.estimate.worker == worker and not i.computed]
            assert sum(i.uncached for i in ahead[:-1]) < STEPS_AHEAD * STEP

    for _ in range(60):
        now += rng.random()
        action = rng.random()
        if action < 0.5:
            prompt = rng.choice("abc")
            router.submit(item(rng.randint(1, 2500), prompt, rng.choice("xy")), now)
            submitted += 1
        elif action < 0.9 and running:
            each = running.popleft()
            router.prefilled(each, now)
            if rng.random() < 0.5:
                router.finished(each, now)
            else:
                running.append(each)
        elif action > 0.97 and len(workers) > 1:
            worker = rng.choice(sorted(workers))
            workers.remove(worker)
            lost = router.lose(worker, now)
            assert set(lost) == {each for each in running if each.estimate.worker == worker}
            running = deque(each for each in running if each not in lost)
            router.join(number, RATE, now)
            workers.add(number)
            number += 1
        note(router.route(now))

    while running:
        now += 1
        router.finished(running.popleft(), now)
        note(router.route(now))
    assert sum(sent_count.values()) == submitted == len(sent_count)
    assert not router.waiting
    assert router.index._holders == {}
    assert not router.workers.queued.any()


@pytest.mark.parametrize("quantum", [10, 1000])
def test_clients_share_by_tokens(quantum: int) -> None:
    queue = FairQueue[RoutedCalls](quantum)
    sizes = {"small": 20, "large": 900}
    for _ in range(300):
        for client, tokens in sizes.items():
            queue.push(item(tokens, client=client))
    served = dict.fromkeys(sizes, 0)
    for _ in range(300):
        new = queue.pop()
        queue.charge(new.client, new.tokens)
        served[new.client] += new.tokens
        if served["small"] < 20 * 300:
            assert abs(served["small"] - served["large"]) <= 2 * (quantum + 900)
    assert len(queue) == 300


def test_a_debt_stays_while_others_wait() -> None:
    queue = FairQueue[RoutedCalls](10)
    queue.push(item(1, client="a"))
    queue.push(item(1, client="b"))
    first = queue.pop()
    queue.charge(first.client, 1000)
    queue.push(item(1, client=first.client))
    order = []
    for _ in range(2):
        order.append(queue.pop().client)
        queue.charge(order[-1], 1)
    assert order == ["b", "a"]
    queue.push(item(1, client="a"))  # nobody waited: the debt is gone
    assert queue._credits == {"a": 0.0}


def test_the_rate_is_measured() -> None:
    workers = Workers()
    workers.add(0, 100.0, 0.0)
    now = 0.0
    for _ in range(400):
        workers.book(0, 500, now)
        now += 1.0
        workers.computed(0, 500, now)
        now += 7.0  # idle time does not count
    assert workers.rates[0] == pytest.approx(500, rel=0.01)
