"""Several clients of an engine start requests in a fair order by tokens."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgnb.engine.cache.manager import CacheManager
from sgnb.engine.cache.radix import Prefix, RadixTree
from sgnb.engine.cache.sequence import CacheScope
from sgnb.engine.cache.slot_allocator import SlotAllocator
from sgnb.engine.engine import Engine
from sgnb.engine.request import waiting_queue
from sgnb.engine.request.fair_share import FairShare, Row
from sgnb.engine.request.request import Request
from sgnb.engine.request.waiting_queue import WaitingQueue
from sgnb.events import RequestAdmitted
from sgnb.sampling import SamplingParams

ROOT = RadixTree().root
PARAMS = SamplingParams(max_new_tokens=1)


def row(id: int, client: int, size: int) -> tuple[Request, Prefix]:
    request = Request(id, [1] * size, PARAMS, 1, CacheScope(client=client))
    return request, Prefix(ROOT, 0)


def order(share: FairShare, rows: Sequence[Row]) -> list[Row]:
    clients = {request.cache_scope.client for request, _ in rows}
    queues = {
        client: iter([row for row in rows if row[0].cache_scope.client == client])
        for client in clients
    }
    return list(share.order(queues))


QUEUES = st.lists(
    st.tuples(st.integers(1, 3), st.integers(1, 50)), min_size=1, max_size=30
)  # client, size


@given(QUEUES)
def test_backlogged_clients_differ_by_one_request(queue: Sequence[tuple[int, int]]) -> None:
    rows = [row(id, *each) for id, each in enumerate(queue)]
    share = FairShare()
    ordered = order(share, rows)
    assert sorted(r.id for r, _ in ordered) == list(range(len(rows)))
    remaining = {
        client: [r.id for r, _ in rows if r.cache_scope.client == client] for client, _ in queue
    }
    served = dict.fromkeys(remaining, 0)
    largest = max(size for _, size in queue)
    for request, _ in ordered:
        client = request.cache_scope.client
        assert remaining[client].pop(0) == request.id, "the client's own order stays"
        served[client] += request.num_tokens
        waiting = [served[each] for each, ids in remaining.items() if ids]
        assert not waiting or max(waiting) - min(waiting) <= largest
        assert not waiting or served[client] - min(waiting) <= largest


@given(QUEUES)
def test_one_client_keeps_the_order(queue: Sequence[tuple[int, int]]) -> None:
    rows = [row(id, 1, size) for id, (_, size) in enumerate(queue)]
    assert order(FairShare(), rows) == rows


def test_a_pause_gives_no_credit() -> None:
    share = FairShare()
    for id in range(50):
        (first, _), *_ = order(share, [row(id, 1, 10)])
        share.admit(first)
    assert share.served == {1: 500}
    both = [row(100 + i, client, 10) for i in range(6) for client in (1, 2)]
    starts = [request.cache_scope.client for request, _ in order(share, both)]
    assert starts.count(2) == 6 and sorted(starts[:2]) == [1, 2]


def test_outputs_count() -> None:
    share = FairShare()
    order(share, [row(1, 1, 4), row(2, 2, 4)])
    request = Request(3, [1] * 4, SamplingParams(max_new_tokens=9), 9, CacheScope(client=1))
    request.state = object()
    share.admit(request)
    for token in range(9):
        request.append(token)
    order(share, [])
    assert share.served[1] == 4 + 9
    del request.state
    order(share, [])
    assert not share._running


def test_a_long_queue_hides_no_client(monkeypatch: pytest.MonkeyPatch) -> None:
    def ranked(states: SlotAllocator | None) -> list[int]:
        cache = CacheManager(SlotAllocator(8, None), states)
        queue = WaitingQueue(cache, "fcfs", ageing=1.0)
        queue.fair_share = FairShare()
        for id in range(10):
            queue.append(row(id, 1, 5)[0])
        queue.append(row(10, 2, 5)[0])
        return [request.id for request, _ in queue.ranked()]

    monkeypatch.setattr(waiting_queue, "WINDOW", 3)
    assert ranked(None) == [0, 10, *range(1, 10)]
    assert ranked(SlotAllocator(4)) == [0, 10, 1, 2], "with recurrent layers"


@pytest.mark.parametrize("policy", ["lpm", "fcfs"])
def test_a_small_client_does_not_wait_for_a_large_one(policy: str) -> None:
    options: dict[str, Any] = {"max_running_requests": 2, "schedule_policy": policy}
    with Engine("tiny", device="cpu", max_total_tokens=2048, **options) as engine:
        engine.share_fairly()
        done = threading.Semaphore(0)

        def submit(count: int, client: int) -> list[int]:
            prompts = [[40 + client, 50 + i, 3, 4] for i in range(count)]
            params = [SamplingParams(max_new_tokens=4, ignore_eos=True)] * count
            scopes = [CacheScope(client=client)] * count
            takes = [lambda output: done.release()] * count
            return engine.submit(prompts, params, takes, cache_scopes=scopes)

        large, small = submit(30, 1), submit(3, 2)
        for _ in range(33):
            assert done.acquire(timeout=60)
        records = engine.log.read().records
        order = [r.event.request for r in records if isinstance(r.event, RequestAdmitted)]
        assert set(order) == {*large, *small}
        assert max(order.index(id) for id in small) < 15, "the small client waited for the queue"
