"""The scheduler without a model: who owns which slot, who goes first, who yields."""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pytest

from sgnb.engine.cache import manual
from sgnb.engine.cache.manager import CacheManager
from sgnb.engine.cache.radix import Prefix
from sgnb.engine.cache.sequence import SHARED, CacheScope
from sgnb.engine.cache.slot_allocator import SlotAllocator
from sgnb.engine.request.batch import Batch
from sgnb.engine.request.request import Request
from sgnb.engine.request.step_limits import RECOVERY
from sgnb.engine.scheduler import Scheduler
from sgnb.events import RequestAdmitted, RequestRetracted
from sgnb.sampling import SamplingParams

from ..marks import some_are_slow
from .replay import Replay


class Row(NamedTuple):
    """A request in a launched step; `position` is where its new token belongs, None if it gets
    none."""

    request: Request
    position: int | None
    ends: bool
    version: int


class Simulation:
    """A scheduler whose model puts out `next_token`, and which is checked after every step.

    jumps: called for each request that took a token, as a grammar is: it may rewrite the request's
    last tokens. overlap: a step is read after the next one was launched, as the engine does it.
    retires: requests leave the scheduler before their last token is read; not for those that
    rewrite. states: of a model with recurrent layers.
    """

    def __init__(
        self,
        total: int,
        next_token: Callable[[Request], int] = lambda request: 9,
        jumps: Callable[[Request], None] = lambda request: None,
        overlap: bool = False,
        retires: bool = False,
        states: SlotAllocator | None = None,
        checkpoint_every: int = 1024,
        prefix_cache: bool = True,
        splits_prompts: bool = False,
        **options: Any,
    ) -> None:
        self.total = total
        self.events: list[Any] = []
        self.replay = Replay()
        self.next_token, self.jumps, self.overlap, self.retires = (
            next_token,
            jumps,
            overlap,
            retires,
        )
        self.launched: list[Row] = []
        self.ended: set[int] = set()
        self.dropped = 0
        self.requests: dict[int, Request] = {}
        self.computed = 0
        self.max_step_tokens = options.get("max_step_tokens", total)
        self.cache = CacheManager(
            SlotAllocator(total),
            states,
            checkpoint_every=checkpoint_every,
            prefix_cache=prefix_cache,
            splits_prompts=splits_prompts,
            emit=self.replay.apply,
        )
        context_length = options.pop("context_length", total)
        self.scheduler = Scheduler(
            self.cache, context_length=context_length, emit=self.emit, **options
        )
        self.ranked, self.scheduler.waiting.ranked = (  # type: ignore[method-assign]
            self.scheduler.waiting.ranked,
            self.ranked_as_from_scratch,
        )
        self.rankings = 0  # with several requests

    def ranked_as_from_scratch(self) -> Iterator[tuple[Request, Prefix]]:
        """The kept ranks are the ranks of all requests, looked up again."""
        queue = self.scheduler.waiting
        rows = []
        for request in queue.values():
            searched = copy.copy(request)
            searched.prefix_hint = None
            prefix = self.cache.look_up(searched)
            length = min(prefix.length, request.reusable)
            if not request.num_placeholders:
                rows.append((request.arrival * queue._ageing - length, request, prefix))
        if queue.policy == "lpm" and self.cache.prefix_cache:
            rows.sort(key=itemgetter(0))
        expected = [row[1:] for row in rows]
        ranked = list(self.ranked())
        assert [(r.id, p.length) for r, p in ranked] == [(r.id, p.length) for r, p in expected]
        self.rankings += len(ranked) > 1
        return self.ranked()

    def emit(self, event: Any) -> None:
        self.events.append(event)
        if isinstance(event, RequestRetracted):
            rank = lambda r: (  # noqa: E731
                r.num_output_tokens, -r.num_prompt_tokens
            )  # fmt: skip
            assert self.scheduler.running, "the last running request was retracted"
            assert rank(self.requests[event.request]) <= min(map(rank, self.scheduler.running))

    def add(
        self, prompt: list[int], limit: int = 1, sharing: CacheScope = SHARED, **params: Any
    ) -> Request:
        number = len(self.requests)
        request = Request(number, prompt, SamplingParams(**params), limit, sharing)
        self.requests[request.id] = request
        self.scheduler.add(request)
        return request

    def step(self) -> Batch:
        """One step of the engine; finished requests leave."""
        scheduler, before = self.scheduler, self.launched
        batch = scheduler.schedule()
        assert len(batch) or before or not scheduler.has_work, "no progress"
        assert batch.num_tokens <= self.max_step_tokens
        assert not any(request.idle for request in batch.requests), "a last token was computed"
        rows = self.rows(batch)
        self.compute(batch)
        self.check()
        last = scheduler.complete(batch)
        self.check()
        self.computed += batch.num_tokens
        self.launched = rows
        assert last == [
            row.request for row in rows if row.position is not None and row.request.full
        ]
        self.read_results(before)
        if self.retires:
            self.retire(last)
        if not self.overlap:
            self.read_results(self.launched)
            self.launched = []
        self.check()
        return batch

    def compute(self, batch: Batch) -> None:
        """The step on the device."""

    def rows(self, batch: Batch) -> list[Row]:
        rows = []
        columns = batch.requests, batch.ends.tolist(), batch.samples
        for request, end, samples in zip(*columns, strict=True):
            size = request.num_tokens_with_placeholders
            assert samples == (end == size < request.max_len and not request.sealed)
            ends = end == size and not samples
            rows.append(Row(request, size if samples else None, ends, request.version))
        return rows

    def read_results(self, rows: list[Row]) -> None:
        """Requests take their tokens, but for those that ended or were rewritten since."""
        for request, position, ends, version in rows:
            if request.id in self.ended or request.version != version:
                self.dropped += 1
                continue
            if position is not None:
                assert request.num_tokens == position, "tokens arrive in order"
                request.append(self.next_token(request))
                self.jumps(request)
                if request.version != version:
                    self.scheduler.requeue_rewritten(request)
            if ends or (position is not None and request.remaining == 0):
                self.finish(request)

    def retire(self, requests: list[Request]) -> None:
        for request in requests:
            if (
                request.full
                and request in self.scheduler.running
                and not request.params.return_logprob
            ):
                self.scheduler.free_early([request])
                assert request not in self.scheduler.running
                self.check()

    def finish(self, request: Request) -> None:
        self.scheduler.finish(request)
        self.check()
        self.ended.add(request.id)

    def run(self) -> Iterator[Batch]:
        while self.scheduler.has_work or self.launched:
            yield self.step()

    def check(self) -> None:
        """free + cached + in flight = total, and every slot has exactly one owner."""
        s, cache = self.scheduler, self.cache
        assert cache.slots.available + cache.tree.size + cache.in_flight == self.total
        own = [r.slots[r.node.end : r.num_slots] for r in s.running if r.node is not None]
        assert len(own) == len(s.running) and sum(map(len, own)) == cache.in_flight
        free = cache.slots._stack[: cache.slots.available]
        slots = np.concatenate([free, *(n.slots for n in cache.tree.nodes()), *own])
        assert (np.bincount(slots, minlength=self.total) == 1).all()
        for r in s.running:
            assert (
                r.node is not None
                and r.slots[: r.node.end].tolist() == r.node.path_slots().tolist()
            )
            assert r.node.end <= r.num_computed <= min(r.num_slots, r.num_tokens_with_placeholders)

    def admitted(self) -> list[int]:
        return [event.request for event in self.events if isinstance(event, RequestAdmitted)]


def other_end(rng: random.Random, request: Request) -> tuple[int, list[int]]:
    """As grammars write it: a position near the end of the output, and what comes there instead."""
    position = max(request.num_prompt_tokens, request.num_tokens - rng.randrange(4))
    room = request.limit - (position - request.num_prompt_tokens)
    return position, [rng.randrange(3) for _ in range(rng.randrange(min(room, 6) + 1))]


def by_hand(rng: random.Random, scheduler: Scheduler) -> None:
    """Someone pins, unpins or evicts at random."""
    tree = scheduler.cache.tree
    nodes = [node.id for node in tree.nodes()]
    if nodes and rng.random() < 0.4:
        manual.pin(tree, rng.choice(nodes), rng.choice("ab"))
    elif nodes and rng.random() < 0.5:
        manual.evict(scheduler.cache, rng.choice(nodes))
    else:
        manual.unpin(tree, owner=rng.choice("ab"))


@pytest.mark.parametrize("trial", some_are_slow(range(20), range(10)))
def test_every_slot_has_one_owner_in_random_runs(trial: int) -> None:
    """500 random steps each, 10,000 together: aborts, retraction, chunks, scored prompts, cache on
    and off, and what people do by manual."""
    rng = random.Random(trial)
    total = (60, 150, 600)[trial % 3]
    sim = Simulation(
        total, lambda request: rng.randrange(3), max_step_tokens=(5, 32, 500)[trial // 3 % 3],
        max_running=8, prefix_cache=trial % 5 != 0, policy=("lpm", "fcfs")[trial % 7 == 0],
        retires=trial % 2 == 0,
    )  # fmt: skip
    scheduler = sim.scheduler
    for step in range(500):
        while rng.random() < 0.4 and len(scheduler.waiting) < 20:
            prompt = [7] * rng.randrange(20) + [
                rng.randrange(2) for _ in range(rng.randrange(1, total // 2))
            ]
            prompt = prompt[: total // 2]
            scored = {"return_logprob": True, "logprob_start_len": rng.randrange(-1, len(prompt))}
            sim.add(
                prompt,
                min(rng.randrange(30), total - len(prompt)),
                CacheScope(rng.choice(["", "a", None])) if trial % 4 == 1 else SHARED,
                **(scored if rng.random() < 0.2 else {}),
            )
        sim.step()
        while rng.random() < 0.1 and scheduler.has_work:
            one = rng.choice([*scheduler.running, *scheduler.waiting.values()])
            scheduler.finish(one, non_finite=rng.random() < 0.3)
            sim.check()
        if rng.random() < 0.1:
            by_hand(rng, scheduler)
            sim.check()
        if step % 100 == 99:
            scheduler.cache.flush(rng.choice([None, "a"]))
            sim.check()
    for _ in sim.run():
        pass
    assert sim.rankings
    watch = scheduler.cache.tree.watch
    assert not (watch._places or watch._watched or watch.take_changed()), "nobody waits"
    assert scheduler.cache.in_flight == 0
    assert scheduler.cache.tree.locked == scheduler.cache.pinned_tokens
    manual.unpin(scheduler.cache.tree)
    assert scheduler.cache.tree.locked == 0
    scheduler.cache.flush()
    assert scheduler.cache.slots.available == total


@pytest.mark.parametrize("trial", range(12))
def test_every_slot_has_one_owner_when_requests_rewrite_their_ends(trial: int) -> None:
    """As grammars do: text is forced before the first step and after any token, and last tokens are
    retokenized."""
    rng = random.Random(trial)
    total = (40, 120, 500)[trial % 3]

    def rewrite(request: Request) -> None:
        if rng.random() < 0.5:
            request.rewrite(*other_end(rng, request))

    sim = Simulation(
        total, lambda request: rng.randrange(3), rewrite,
        max_step_tokens=(5, 32, 500)[trial // 3 % 3], max_running=8, prefix_cache=trial % 5 != 0,
    )  # fmt: skip
    scheduler = sim.scheduler
    for _ in range(400):
        while rng.random() < 0.4 and len(scheduler.waiting) < 20:
            prompt = [7] * rng.randrange(12) + [
                rng.randrange(2) for _ in range(rng.randrange(1, total // 3))
            ]
            request = Request(
                len(sim.requests),
                prompt,
                SamplingParams(return_logprob=rng.random() < 0.5),
                rng.randrange(1, total // 3),
            )
            rewrite(request)
            sim.requests[request.id] = request
            scheduler.add(request)
        sim.step()
        if rng.random() < 0.05 and scheduler.has_work:
            one = rng.choice([*scheduler.running, *scheduler.waiting.values()])
            scheduler.finish(one, non_finite=rng.random() < 0.3)
            sim.check()
    for _ in sim.run():
        pass
    assert scheduler.cache.in_flight == scheduler.cache.tree.locked == 0
    scheduler.cache.flush()
    assert scheduler.cache.slots.available == total


@pytest.mark.parametrize("trial", some_are_slow(range(20), range(10)))
def test_every_slot_has_one_owner_when_steps_are_read_late(trial: int) -> None:
    """Random runs with overlap: a token is read when the next step was launched. What was sampled
    for a request that was rewritten, retracted or aborted in between is dropped or comes in its
    place."""
    rng = random.Random(trial)
    total = (40, 120, 500)[trial % 3]

    def rewrite(request: Request) -> None:
        if trial % 2 and rng.random() < 0.3:
            request.rewrite(*other_end(rng, request))

    sim = Simulation(
        total, lambda request: rng.randrange(3), rewrite, overlap=True,
        max_step_tokens=(5, 32, 500)[trial // 3 % 3], max_running=8, prefix_cache=trial % 5 != 0,
        policy=("lpm", "fcfs")[trial % 7 == 0], retires=trial % 2 == 0,
    )  # fmt: skip
    scheduler = sim.scheduler
    for _ in range(400):
        while rng.random() < 0.4 and len(scheduler.waiting) < 20:
            prompt = [7] * rng.randrange(12) + [
                rng.randrange(2) for _ in range(rng.randrange(1, total // 3))
            ]
            sim.add(prompt, rng.randrange(total // 3), return_logprob=rng.random() < 0.3)
        sim.step()
        if rng.random() < 0.1 and scheduler.has_work:
            sim.finish(rng.choice([*scheduler.running, *scheduler.waiting.values()]))
        if rng.random() < 0.05:  # a request that cannot run ahead makes the engine read first
            sim.read_results(sim.launched)
            sim.launched = []
    for _ in sim.run():
        pass
    assert sim.ended == sim.requests.keys() and sim.dropped
    assert scheduler.cache.in_flight == scheduler.cache.tree.locked == 0
    scheduler.cache.flush()
    assert scheduler.cache.slots.available == total


def test_the_fast_way_through_a_decode_step_changes_nothing() -> None:
    """The same requests, positions and slots in every step, when each is scheduled from scratch."""
    runs = []
    for fast in (True, False):
        rng = random.Random(3)
        sim = Simulation(300, overlap=True, max_running=6, max_step_tokens=40)
        continued = 0
        if not fast:
            sim.scheduler._decode.record = lambda *step: None  # type: ignore[method-assign]
        steps = []
        for _ in range(300):
            if rng.random() < 0.05:
                sim.add([rng.randrange(3) for _ in range(rng.randint(1, 30))], rng.randint(1, 60))
            continued += sim.scheduler._decode._next is not None and not sim.scheduler.waiting
            batch = sim.step()
            rows = zip(batch.requests, batch.starts.tolist(), strict=True)
            steps.append([(r.id, start, r.slots[: r.num_slots].tolist()) for r, start in rows])
        assert (continued > 20) == fast
        runs.append(steps)
    assert runs[0] == runs[1]


def test_reading_late_changes_no_output() -> None:
    """With tokens that depend on the request and the place alone, also in a pool that makes
    requests retract."""
    outputs = []
    for overlap in (False, True):
        rng = random.Random(5)
        sim = Simulation(
            100,
            lambda r: hash((r.id, r.num_tokens)) % 3,
            overlap=overlap,
            max_running=8,
            max_step_tokens=16,
        )
        requests = [sim.add([rng.randrange(3) for _ in range(10)], 30) for _ in range(20)]
        list(sim.run())
        assert any(isinstance(event, RequestRetracted) for event in sim.events)
        outputs.append([request.output for request in requests])
    assert outputs[0] == outputs[1] and all(len(output) == 30 for output in outputs[0])


@pytest.mark.parametrize("trial", range(8))
def test_not_ranking_while_the_first_in_question_cannot_fit_changes_nothing(trial: int) -> None:
    """Against a scheduler that ranks in every step. Without common prefixes: a failed attempt would
    refresh them."""
    moves = []
    for forgetful in (False, True):
        rng = random.Random(trial)
        sim = Simulation(
            150,
            max_running=8,
            max_step_tokens=32,
            prefix_cache=trial % 2 == 0,
            overlap=trial % 4 > 1,
        )
        looked = 0
        for step in range(300):
            if rng.random() < 0.2:
                sim.add(
                    [1000 * step + i for i in range(rng.randrange(1, 40))], rng.randrange(1, 60)
                )
            if rng.random() < 0.02 and sim.scheduler.waiting:
                sim.finish(rng.choice([*sim.scheduler.waiting.values()]))
            if forgetful:
                sim.scheduler._blocked = None
            looked += sim.scheduler._blocked is None
            sim.step()
        moves.append([e for e in sim.events if isinstance(e, (RequestAdmitted, RequestRetracted))])
        assert (looked == 300) == forgetful
    assert moves[0] == moves[1]


@pytest.mark.parametrize("max_step_tokens", [2048, 128])
def test_a_hundred_equal_cold_prompts(max_step_tokens: int) -> None:
    """One computes; the others wait until they can take it from the cache, then compute a token
    each."""
    sim = Simulation(4000, max_running=100, max_step_tokens=max_step_tokens)
    for _ in range(100):
        sim.add(list(range(256)))
    first, *rest = sim.run()
    assert len(first) == 1
    assert len(rest[-1]) >= 99
    assert sim.computed == 256 + 99
    assert [r.cached_tokens for r in sim.requests.values()] == [0] + [255] * 99


@pytest.mark.parametrize("shared", [1, 3, 15, 16])
def test_a_prefix_is_computed_once_however_short(shared: int) -> None:
    sim = Simulation(1000)
    requests = [sim.add([*range(shared), 50 + i]) for i in range(4)]
    steps = list(sim.run())
    assert sim.computed == shared + 4
    assert [r.cached_tokens for r in requests] == [0] + [shared] * 3
    assert len(steps) == 2, "the others wait for one step, then run together"


def test_prompts_that_begin_otherwise_do_not_wait() -> None:
    sim = Simulation(1000)
    for i in range(4):
        sim.add([50 + i, *range(20)])
    assert len(list(sim.run())) == 1


def test_a_request_alone_computes_its_last_token_again() -> None:
    sim = Simulation(100)
    for expected in (0, 9):
        request = sim.add(list(range(10)))
        list(sim.run())
        assert request.cached_tokens == expected


@pytest.mark.parametrize(("start", "cached"), [(0, 0), (1, 0), (4, 3), (10, 9)])
def test_scored_tokens_are_computed(start: int, cached: int) -> None:
    sim = Simulation(100)
    sim.add(list(range(10)))
    list(sim.run())
    request = sim.add(list(range(10)), return_logprob=True, logprob_start_len=start)
    list(sim.run())
    assert request.cached_tokens == cached


@pytest.mark.parametrize(("policy", "order"), [("lpm", [3, 1, 2, 0]), ("fcfs", [0, 1, 2, 3])])
def test_order_of_admission(policy: str, order: list[int]) -> None:
    sim = Simulation(200, max_running=1, policy=policy)
    sim.add(list(range(40)))
    list(sim.run())
    sim.events.clear()
    for length in (0, 20, 10, 30):
        sim.add(list(range(length)) + [50 + length] * 5)
    list(sim.run())
    assert [i - 1 for i in sim.admitted()] == order


def tree_shaped(rng: random.Random, depth: int = 3) -> list[list[int]]:
    """Prompts of equal depth below common prefixes, none the beginning of another."""
    if depth == 0:
        return [[]]
    prompts = []
    for branch in range(3):
        edge = [100 * depth + branch, *(rng.randrange(50) for _ in range(rng.randrange(2, 12)))]
        prompts += [edge + rest for rest in tree_shaped(rng, depth - 1)]
    return prompts


def test_longest_prefix_first_is_optimal_for_a_known_batch() -> None:
    """Theorem 3.1 of the paper: with memory for the longest request, every edge is computed
    once."""
    worse = 0
    for seed in range(10):
        rng = random.Random(seed)
        prompts = tree_shaped(rng)
        rng.shuffle(prompts)
        edges = len({tuple(p[:n]) for p in prompts for n in range(1, len(p) + 1)})
        computed = {}
        for policy in ("lpm", "fcfs"):
            sim = Simulation(max(map(len, prompts)) + 1, max_running=1, policy=policy)
            for prompt in prompts:
                sim.add(prompt)
            list(sim.run())
            computed[policy] = sim.computed
        assert computed["lpm"] == edges
        worse += computed["fcfs"] > edges
    assert worse == 10


def hot_stream(max_overtaking: int, steps: int) -> tuple[Simulation, Request]:
    """A cold request among hot ones: every step brings two that are cached but for a token, and
    serves one."""
    sim = Simulation(2000, context_length=400, max_running=1, max_overtaking=max_overtaking)
    hot = list(range(300))
    sim.add(hot)
    list(sim.run())
    cold = None
    for step in range(steps):
        sim.add([*hot, 1000 + step])
        sim.add([*hot, 5000 + step])
        if step == 20:
            cold = sim.add([7] * 30)
        sim.step()
    assert cold is not None
    return sim, cold


def test_a_cold_request_under_a_hot_stream_is_served() -> None:
    sim, cold = hot_stream(max_overtaking=40, steps=160)
    order = sim.admitted()
    before = [sim.requests[i] for i in order[: order.index(cold.id)]]
    overtaking = [r.arrival - cold.arrival for r in before if r.arrival > cold.arrival]
    assert 0 < max(overtaking) < 40
    assert len(before) <= 1 + 2 * (21 + 40)


def test_without_ageing_it_would_starve() -> None:
    sim, cold = hot_stream(max_overtaking=10**9, steps=160)
    assert cold.id not in sim.admitted()


def test_a_long_prompt_is_computed_while_others_decode() -> None:
    """Decoding comes first, but leaves at least a token of every step to a running prompt."""
    sim = Simulation(1000, max_step_tokens=4, max_running=4)
    for i in range(3):
        sim.add([i], limit=100)
    long = sim.add(list(range(50, 80)), limit=2)
    steps = [batch for batch in sim.run() if any(r is long for r in batch.requests)]
    assert all(batch.num_tokens <= 4 for batch in steps)
    assert len(steps) <= 40


def test_a_request_too_large_for_now_is_not_passed_by_smaller_ones() -> None:
    sim = Simulation(100)
    sim.add([1] * 60, limit=20)
    sim.step()
    large = sim.add([2] * 50)
    small = [sim.add([3 + i] * 5) for i in range(5)]
    list(sim.run())
    order = sim.admitted()
    assert order.index(large.id) < min(order.index(r.id) for r in small)


def test_pins_give_way_only_where_a_request_could_not_run_alone() -> None:
    simulation = Simulation(24)
    tree = simulation.cache.tree
    for first in (1, 2, 3):
        simulation.add([first] * 5)
        while simulation.scheduler.has_work:
            simulation.step()
        manual.pin(tree, np.array([first] * 5, np.int32), "user")
    simulation.add([4] * 5, limit=8)
    simulation.add([5] * 5, limit=8)
    while simulation.scheduler.has_work:
        simulation.step()
    assert (simulation.cache.pinned_tokens, len(simulation.replay.pins)) == (10, 2), (
        "oldest is gone"
    )
    simulation.scheduler.cache.flush()
    assert simulation.scheduler.cache.slots.available == 24 - 10, "flush keeps what is pinned"
    simulation.add([6] * 23)
    while simulation.scheduler.has_work:
        simulation.step()
    assert not tree.pins and not simulation.replay.pins


def test_a_retracted_request_goes_on_where_it_was() -> None:
    """Which one is retracted is checked by `Simulation.emit`, here and in the random runs."""
    tokens = iter(range(100, 10_000))
    sim = Simulation(60, lambda request: next(tokens), max_running=8)
    requests = [sim.add([i, i, i], limit=50) for i in range(8)]
    outputs: dict[int, list[int]] = {r.id: [] for r in requests}
    for _ in sim.run():
        for request in requests:
            assert request.output[: len(outputs[request.id])] == outputs[request.id]
            outputs[request.id] = request.output
    retracted = [event.request for event in sim.events if isinstance(event, RequestRetracted)]
    assert retracted and sim.admitted().count(retracted[0]) > 1
    assert all(len(output) == 50 for output in outputs.values())


@pytest.mark.parametrize("policy", ["lpm", "fcfs"])
def test_a_retracted_request_is_the_next_to_be_admitted(policy: str) -> None:
    sim = Simulation(60, max_running=4, policy=policy)
    for i in range(8):
        sim.add([i, i, i], limit=50)
    list(sim.run())
    moves = [
        event for event in sim.events if isinstance(event, (RequestRetracted, RequestAdmitted))
    ]
    after = [(a, b) for a, b in itertools.pairwise(moves) if isinstance(a, RequestRetracted)]
    readmitted = [a.request == b.request for a, b in after if isinstance(b, RequestAdmitted)]
    assert readmitted and all(readmitted)


def test_steps_that_did_not_fit_into_memory_grow_again() -> None:
    sim = Simulation(4000, max_step_tokens=64, max_running=4, prefix_cache=False)
    sim.add(list(range(3000)), limit=1)
    scheduler = sim.scheduler
    batch = scheduler.schedule()
    assert batch.lengths.tolist() == [64]
    assert scheduler.shrink(batch)
    lengths = [sim.step().num_tokens for _ in range(RECOVERY + 1)]
    assert set(lengths[: RECOVERY - 1]) == {32} and lengths[-1] == 64
    assert not scheduler.shrink(Batch([sim.add([1])], [0], [1]))


def test_requests_share_within_their_namespace_and_without_one_with_nobody() -> None:
    sim = Simulation(200)

    def cached(sharing: CacheScope) -> list[int]:
        """What two requests with the same prompt find, one after the other."""
        found = []
        for _ in range(2):
            request = sim.add([1, 2, 3, 4, 5], 2, sharing)
            for _ in sim.run():
                pass
            found.append(request.cached_tokens or 0)
        return found

    assert cached(CacheScope()) == [0, 4]
    size = sim.scheduler.cache.tree.size
    assert cached(CacheScope("mine")) == [0, 4]
    assert cached(CacheScope(None)) == [0, 0]
    assert sim.scheduler.cache.tree.size == 2 * size, "who shares with nobody leaves nothing"
    assert sim.scheduler.cache.flush("mine") == sim.scheduler.cache.tree.size == size
    assert cached(CacheScope()) == [4, 4]


def test_requests_have_no_dictionary() -> None:
    """Steps of 1,024 rows touch the fields of each request: a dictionary of more than 30 fields is
    5 times as large and slower."""
    assert not hasattr(Request(1, [1], SamplingParams(), 1), "__dict__")
