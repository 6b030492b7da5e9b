"""Copies of the cache in lower tiers: random work, and KV content derived from the prompt."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from sgnb.engine.cache.radix import Ints
from sgnb.engine.cache.sequence import CachedSequence, CacheScope
from sgnb.engine.cache.tiers import copies, copy_writer, transfers
from sgnb.engine.cache.tiers.blocks import BLOCK
from sgnb.engine.cache.tiers.tail_loads import TailLoad
from sgnb.engine.cache.tiers.tier_costs import TierCosts
from sgnb.engine.request.request import Request
from sgnb.engine.scheduler import Scheduler
from sgnb.events import PrefixLoaded, PrefixNotLoaded
from sgnb.sampling import SamplingParams

from .tier_setting import SLOTS, Kind, Setting, copy_idle, work_all

KINDS: list[tuple[Kind, ...]] = [("host",), ("disk",), ("host", "disk")]


@pytest.fixture(params=KINDS, ids="+".join)
def kinds(request: pytest.FixtureRequest) -> Iterator[tuple[Kind, ...]]:
    yield request.param


def run(seed: int, kinds: tuple[Kind, ...], steps: int, **options: Any) -> Setting:
    setting = Setting(seed, kinds, **options)
    for _ in range(steps):
        setting.step()
    return setting


PAYLOADS: dict[str, dict[str, Any]] = {
    "text": {},
    "text, slow": {"slow_loads": True},
    "images": {"images": True},
    "images, slow": {"images": True, "slow_loads": True},
    "states": {"hybrid": True},
    "both": {"images": True, "hybrid": True},
}


QUICK = {("host",): "images, slow", ("disk",): "states"}
"""Payloads of a store alone in the quick suite."""


@pytest.mark.parametrize(
    "kinds, payloads",
    [
        pytest.param(
            kinds,
            payloads,
            marks=() if QUICK.get(kinds, payloads) == payloads else pytest.mark.slow,
            id=f"{'+'.join(kinds)}-{payloads}",
        )
        for kinds in KINDS
        for payloads in PAYLOADS
    ],
)
def test_random_work_restores_the_content_of_each_token(
    kinds: tuple[Kind, ...], payloads: str, caplog: pytest.LogCaptureFixture
) -> None:
    setting = run(0, kinds, 1200, **PAYLOADS[payloads])
    loads = [event for event in setting.events if isinstance(event, PrefixLoaded)]
    assert sum(event.tokens for event in loads) > 4 * BLOCK
    assert any(event.begin for event in loads) == ("slow" in payloads)
    assert {event.store for event in loads} <= set(kinds)
    assert "failed" not in caplog.text
    assert setting.state_stores[-1].was_written == ("hybrid" in PAYLOADS[payloads])
    heads = [event for event in setting.events if getattr(event, "reason", "") == "head"]
    assert bool(heads) == ("slow" in payloads)


@pytest.mark.slow
@pytest.mark.parametrize("payloads", PAYLOADS)
def test_random_work_with_other_policies(kinds: tuple[Kind, ...], payloads: str) -> None:
    policy = "slru" if (list(PAYLOADS).index(payloads) + len(kinds)) % 2 else "cost"
    run(1, kinds, 1200, policy=policy, **PAYLOADS[payloads])


def test_the_cost_model_finds_the_costs_of_a_machine() -> None:
    chance, model = random.Random(0), TierCosts()
    assert model.compute_seconds(0, 500) == 0

    def seconds(begin: int, end: int) -> float:
        count = end - begin
        return 0.004 + 2e-5 * count + 3e-9 * count * (begin + end) / 2

    for _ in range(200):
        begin = chance.randrange(0, 20_000)
        end = begin + chance.randrange(64, 8_000)
        noise = chance.uniform(0.9, 1.1)
        attended = (end - begin) * (begin + end) / 2
        model.observe_step(end - begin, attended, noise * seconds(begin, end))
    for begin, end in ((0, 64), (0, 4_000), (10_000, 12_000), (0, 20_000)):
        added = seconds(begin, end) - 0.004  # without the constant of a step
        assert model.compute_seconds(begin, end) == pytest.approx(added, rel=0.15)


def test_small_steps_do_not_hide_the_time_of_a_prefill() -> None:
    model = TierCosts()
    for count in (100, 300, 600, 1000) * 3:
        model.observe_step(count, count**2 / 2, 0.004 + 1e-4 * count)
    for _ in range(1000):
        model.observe_step(5, 100, 0.004)
    assert model.compute_seconds(0, 800) == pytest.approx(0.08, rel=0.05)


def test_the_cost_model_finds_the_constant_of_loads() -> None:
    chance, model = random.Random(0), TierCosts()
    for factor in (1, 1, 10):  # the speed of the disk changes
        for _ in range(12):
            size = chance.randrange(10_000, 1_000_000)
            noise = chance.uniform(0.95, 1.05)
            model.observe_load("disk", size, noise * factor * (0.02 + 1e-7 * size))
    assert model.load_seconds("disk", 50_000) == pytest.approx(0.25, rel=0.15)
    assert model.load_seconds("disk", 800_000) == pytest.approx(1.0, rel=0.15)


def test_a_slow_step_changes_the_estimate_less_than_a_slower_machine() -> None:
    def compute_seconds(*times: float) -> float:
        model = TierCosts()
        for seconds in (*[0.1] * 100, *times):
            model.observe_step(100, 5_000, seconds)
        return model.compute_seconds(0, 100)

    before = compute_seconds()
    assert before == pytest.approx(0.1)
    assert before < compute_seconds(10.0) < 1.01 * before
    assert compute_seconds(10.0, 0.1, 10.0) < 1.02 * before, "not one after another"
    assert compute_seconds(10.0, 10.0) > 1.5 * before, "the second one counts in full"
    assert compute_seconds(*[0.2] * 200) == pytest.approx(0.2, rel=0.1)


def test_equal_steps_give_a_time_per_token() -> None:
    model = TierCosts()
    for _ in range(3):
        model.observe_step(500, 125_000, 0.5)
    assert model.compute_seconds(0, 64) == pytest.approx(0.064)
    model.observe_load("disk", 1000, 0.1)
    assert model.load_seconds("disk", 500) == pytest.approx(0.05)
    assert model.load_seconds("host", 500) == 0


def test_a_failed_copy_leaves_the_engine_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    setting = Setting(3, ("host",))
    setting.submit()
    for _ in range(400):
        setting.step()
    own: Any = setting.tiers._transfer

    def fail(*args: Any) -> Any:
        raise RuntimeError("no memory")

    own.write = own.read = fail
    for _ in range(400):
        setting.step()
    assert "a copy of the cache failed" in caplog.text


def test_a_prefix_on_the_disk_has_its_first_blocks() -> None:
    setting = Setting(5, ("disk",))
    document = setting.tokens(600)
    for end in (300, 600):  # two nodes; only the second one costs enough
        request = CachedSequence(document[:end], end + 1, CacheScope())
        match = setting.cache.match(request)
        setting.cache.start(request, match, [])
        request.num_computed = request.num_tokens
        content = torch.from_numpy(setting.content(request.tokens, match.node.end))
        setting.kv.restore(request.slots[match.node.end : end], content)
        setting.cache.release(request)
    costs = setting.tiers.costs
    costs.compute_seconds = lambda begin, end: (end - begin) * 0.6 / 600  # type: ignore[method-assign]
    copy_idle(setting)
    assert stored(setting) == 600 // BLOCK


def computed(setting: Setting, document: Ints) -> None:
    """Leave a prompt in the tree as a request does."""
    request = CachedSequence(document, len(document) + 1, CacheScope())
    match = setting.cache.match(request)
    setting.cache.start(request, match, [])
    begin = match.node.end
    content = torch.from_numpy(setting.content(request.tokens, begin))
    setting.kv.restore(request.slots[begin : request.num_tokens], content)
    request.num_computed = request.num_tokens
    setting.cache.release(request)


def stored(setting: Setting) -> int:
    return len(setting.stores[0].blocks)


def evicted(setting: Setting, written: bool) -> CachedSequence:
    """Return a request for an evicted prompt. written: the copy in host memory is complete."""
    computed(setting, setting.tokens(500))
    node = next(setting.cache.tree.nodes())
    request = CachedSequence(np.append(node.tokens, np.int32(1)), 600, CacheScope())
    request.id = 1
    nodes = setting.cache.tree.evict(SLOTS)
    setting.cache.on_eviction(nodes)
    setting.cache.free(nodes)
    if written:
        work_all(setting)
    return request


def test_a_request_waits_for_the_copy_of_its_evicted_prefix() -> None:
    setting = Setting(4, ("host",))
    request = evicted(setting, written=False)
    assert not setting.tiers.ready(request, True, SLOTS) and setting.tiers.loading
    assert not setting.tiers._loads, "nothing to load yet"
    work_all(setting)
    assert not setting.tiers.ready(request, True, SLOTS) and setting.tiers._loads
    work_all(setting)
    assert setting.tiers.ready(request, True, SLOTS) and not setting.tiers.loading
    assert setting.cache.look_up(request).length == 500 // BLOCK * BLOCK
    setting.check()


def test_a_request_does_not_wait_for_a_slow_copy() -> None:
    setting = Setting(4, ("host",))
    setting.tiers.costs.load_seconds = lambda store, size: 1e6  # type: ignore[method-assign]
    assert setting.tiers.ready(evicted(setting, written=False), True, SLOTS)
    assert not setting.tiers.loading


@pytest.mark.parametrize("starts", [False, True])
def test_a_load_waits_for_room(starts: bool) -> None:
    setting = Setting(4, ("host",))
    request = evicted(setting, written=True)
    assert setting.tiers.ready(request, True, 500) and not setting.tiers.loading
    if starts:
        setting.tiers.started(request)
        reasons = [each.reason for each in setting.events if isinstance(each, PrefixNotLoaded)]
        assert reasons == ["memory"]
    else:
        assert not setting.tiers.ready(request, True, 501) and setting.tiers.loading


@pytest.mark.parametrize("ending", ["started", "forget", "cancel"])
def test_a_loaded_prefix_stays_until_its_request_starts(ending: str) -> None:
    setting = Setting(4, ("host",))
    request = evicted(setting, written=True)
    assert not setting.tiers.ready(request, True, SLOTS)
    work_all(setting)
    assert setting.cache.tree.evict(SLOTS) == []
    if ending == "cancel":
        assert setting.tiers.cancel() and not setting.tiers.cancel()
    else:
        getattr(setting.tiers, ending)(request)
    setting.check()
    [node] = setting.cache.tree.evict(SLOTS)
    assert len(node.tokens) == 500 // BLOCK * BLOCK


def test_a_pin_yields_after_the_copies_of_later_requests() -> None:
    """The first in line needs the pinned memory. The next request has not asked again."""
    setting = Setting(4, ("host",))
    waits_for_copy = Request(1, evicted(setting, written=False).tokens, SamplingParams(), 10)
    pinned = setting.tokens(900)
    computed(setting, pinned)
    [node] = setting.cache.tree.nodes()
    setting.cache.tree.pin(node, "user")
    scheduler = Scheduler(setting.cache, context_length=1400)
    scheduler.loads = setting.tiers
    scheduler.add(waits_for_copy)
    assert not scheduler.schedule().requests

    prompt = np.append(pinned[:100], setting.tokens(700))
    first = Request(2, prompt, SamplingParams(), 10)
    scheduler.add(first)
    assert not scheduler.schedule().requests and setting.tiers.loading
    work_all(setting)
    scheduler.retry_blocked()
    assert first in scheduler.schedule().requests and not setting.cache.tree.pins


def test_a_request_asks_again_after_the_loss_of_its_prefix() -> None:
    setting = Setting(4, ("host",))
    document = setting.tokens(500)
    request = CachedSequence(np.append(document, np.int32(1)), 600, CacheScope())
    request.id = 1
    computed(setting, document)
    assert setting.tiers.ready(request, True, SLOTS) and not setting.tiers.loading
    nodes = setting.cache.tree.evict(SLOTS)
    setting.cache.on_eviction(nodes)
    setting.cache.free(nodes)
    assert not setting.tiers.ready(request, True, SLOTS) and setting.tiers.loading


def test_a_reader_that_cannot_start_leaves_no_waiting_request() -> None:
    setting = Setting(1, ("host",))
    computed(setting, setting.encode(setting.documents[0]))
    setting.cache.on_eviction(list(setting.cache.tree.nodes()))
    work_all(setting)
    setting.cache.flush()
    readers, calls = setting.executors[1], list[Any]()

    def submit(*args: Any) -> None:
        calls.append(args)
        if len(calls) == 2:
            raise RuntimeError("can't start new thread")

    readers.submit = submit  # type: ignore[method-assign]
    request = CachedSequence(setting.encode(setting.documents[0]), 900, CacheScope())
    request.id = 1
    assert setting.tiers.ready(request, True, SLOTS) and not setting.tiers.loading
    assert len(calls) == 2
    setting.check()
    calls[0][0](*calls[0][1:])  # the first reader works on a load that has ended
    work_all(setting)
    setting.check()


def test_a_tail_without_a_read_has_no_cost() -> None:
    setting = Setting(3, ("host",), slow_loads=True)
    tiers, counts = setting.tiers, list[tuple[bool, int]]()
    observed, finish = list[float](), tiers._finish_tail

    def finish_tail(tail: TailLoad) -> int:
        before = len(observed)
        tokens = finish(tail)
        counts.append((tail.load.read_from > 0, len(observed) - before))
        return tokens

    tiers._finish_tail = finish_tail  # type: ignore[method-assign]
    tiers.costs.observe_load = lambda *load: observed.append(load[2])  # type: ignore[method-assign]
    for _ in range(3000):
        setting.step()
        if len(set(counts)) > 1:
            break
    assert set(counts) == {(False, 0), (True, 1)}


def test_a_node_above_the_limit_is_copied_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Setting(2, ("disk",))
    block_bytes = BLOCK * setting.kv.unit_bytes
    monkeypatch.setattr(transfers, "PART_BYTES", 2 * block_bytes)
    for module in (copies, copy_writer):
        monkeypatch.setattr(module, "MAX_PENDING_BYTES", 4 * block_bytes)
    computed(setting, setting.tokens(700))
    for _ in range(5):
        setting.tiers.copies.write_idle()
        work_all(setting)
    assert stored(setting) == 700 // BLOCK
    assert setting.tiers.statistics()["dropped_blocks"] > 0


def test_a_copy_that_fails_is_tried_again() -> None:
    setting = Setting(3, ("disk",))
    computed(setting, setting.tokens(500))
    own: Any = setting.tiers.copies._transfer
    read = own.read

    def fail(ids: Any) -> Any:
        raise MemoryError

    own.read = fail
    setting.tiers.copies.write_idle()
    assert setting.tiers.copies.pending.num_bytes == 0
    own.read = read
    copy_idle(setting)
    assert stored(setting) == 500 // BLOCK and setting.tiers.copies.pending.num_bytes == 0
    [node] = setting.cache.tree.nodes()
    assert node.id in setting.tiers.copies._copied


@pytest.mark.parametrize("fails", [False, True])
def test_idle_work_ends_although_the_time_is_short(
    fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With many nodes, the search alone takes longer than the time for idle work."""
    monkeypatch.setattr(copies, "IDLE_WORK_SECONDS", 0.0)
    setting = Setting(4, ("host", "disk"))
    for _ in range(3):
        computed(setting, setting.tokens(400))
    work = setting.tiers.copies

    def fail(ids: Any) -> Any:
        raise MemoryError

    if fails:
        monkeypatch.setattr(work._transfer, "read", fail)
    calls = 0
    work.note_change()
    while work._due is not None:
        work.write_idle()
        work_all(setting)
        calls += 1
        assert calls <= 4
    assert stored(setting) == (0 if fails else 3 * (400 // BLOCK)) and not work._tried


def test_a_flush_drops_copies_on_the_way_to_host_memory() -> None:
    setting = Setting(4, ("host",))
    computed(setting, setting.tokens(500))
    setting.cache.on_eviction(list(setting.cache.tree.nodes()))
    setting.tiers.flush()
    work_all(setting)
    assert stored(setting) == 0


def test_nothing_is_copied_while_the_model_differs() -> None:
    setting = Setting(5, ("disk",))
    setting.current = False
    computed(setting, setting.tokens(500))
    setting.tiers.copies.write_idle()
    setting.cache.on_eviction(list(setting.cache.tree.nodes()))
    work_all(setting)
    assert stored(setting) == 0
