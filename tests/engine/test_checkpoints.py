"""States of recurrent layers without a model: what each state knows, who has it, and where
checkpoints are."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgnb.engine.cache import checkpoints, manual
from sgnb.engine.cache.checkpoints import FEWEST_STATES, GAP, Checkpoints
from sgnb.engine.cache.radix import RadixNode, RadixTree
from sgnb.engine.cache.sequence import CacheScope
from sgnb.engine.cache.slot_allocator import SlotAllocator
from sgnb.engine.request.batch import Batch
from sgnb.engine.request.request import Request
from sgnb.events import RequestAdmitted

from .test_scheduler import Simulation, by_hand, other_end


def next_token(tokens: tuple[int, ...]) -> int:
    return hash(tokens) % 3


def text(request: Request, end: int) -> tuple[int, ...]:
    """Its first `end` tokens, of which some may not be read yet."""
    tokens = tuple(request.tokens.tolist())
    while len(tokens) < end:
        tokens = (*tokens, next_token(tokens))
    return tokens[:end]


class StatefulSimulation(Simulation):
    """`knows[state]` is the text after which a state is the state."""

    def __init__(
        self,
        total: int,
        states: int,
        every: int = 1024,
        jumps: Callable[[Request], None] = lambda request: None,
        **options: Any,
    ) -> None:
        self.knows: dict[int, tuple[int, ...]] = {states: ()}
        super().__init__(
            total, lambda request: next_token(tuple(request.tokens.tolist())), jumps,
            states=SlotAllocator(states), checkpoint_every=every, **options,
        )  # fmt: skip

    @property
    def states(self) -> Checkpoints:
        found = self.cache.checkpoints
        assert found is not None
        return found

    def state(self, node: RadixNode) -> int:
        """The state of a checkpoint."""
        return node.attached[self.states.pool].item()

    def compute(self, batch: Batch) -> None:
        read = [path.read for path in batch.cache_plans]
        written = [state for path in batch.cache_plans for _, state in path.written]
        assert len(set(written)) == len(written)
        assert not set(written) & {*read, self.states.zero_state}
        kept = {self.state(node) for node in self.cache.tree.nodes() if self.states.has(node)}
        assert not kept & set(written)
        columns = batch.requests, batch.starts.tolist(), batch.ends.tolist(), batch.cache_plans
        for request, start, end, path in zip(*columns, strict=True):
            assert self.knows[path.read] == text(request, start)
            positions = [position for position, _ in path.written]
            assert positions[-1] == end and sorted({start, *positions}) == [start, *positions]
            for position, state in path.written:
                self.knows[state] = text(request, position)

    def check(self) -> None:
        """As for slots: free + kept + in flight = total, and every state has one owner."""
        super().check()
        nodes = [node for node in self.cache.tree.nodes() if self.states.has(node)]
        own = [request.states for request in self.scheduler.running]
        refs = [ref for states in own for ref in states._refs]
        owned = [
            *self.states.pool._stack[: self.states.pool.available].tolist(),
            *map(self.state, nodes), *(ref.state for ref in refs if ref.node is None),
            *(state for states in own for state in states._spare),
            *(state for states in own for _, state in states._pending),
        ]  # fmt: skip
        assert sorted(owned) == list(range(self.states.pool.total))
        assert self.states.kept == len(nodes)
        for node in nodes:
            path = [int(token) for above in node.path() for token in above.tokens]
            assert self.knows[self.state(node)] == tuple(path)
        read = [ref.node for ref in refs if ref.node is not None]
        assert all(node.alive and self.states.has(node) for node in read)
        assert {*read} == {*self.states._readers}


def rewriting(rng: random.Random, chance: float) -> Callable[[Request], None]:
    """As grammars do: puts other tokens in place of the last ones, or drafts some, of which a part
    is taken back when they are computed."""
    drafted: dict[int, int] = {}

    def rewrite(request: Request) -> None:
        count = drafted.pop(request.id, 0)
        if count:
            agree = rng.randrange(count + 1)
            request.verified(agree)
            if agree < count:  # and what was sampled after them is void
                request.take_back(1 + count - agree)
                request.append(rng.randrange(3))
        elif rng.random() < chance:
            position, more = other_end(rng, request)
            if rng.random() < 0.5 or not 0 < len(more) < request.remaining:
                request.rewrite(position, more)
            else:
                drafted[request.id] = len(more)
                request.draft(more)

    return rewrite


@pytest.mark.parametrize("steps", [60, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "trial", [*range(12), *(pytest.param(i, marks=pytest.mark.slow) for i in range(12, 24))]
)
def test_every_step_goes_on_from_the_right_state(
    trial: int, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random steps: shared prefixes, chunks, aborts, retraction, rewritten ends, steps
    read late, few states, cache on and off, what people do by hand."""
    monkeypatch.setattr(checkpoints, "GAP", (1, 4, 16)[trial % 3])
    rng = random.Random(trial)
    total = (60, 150, 600)[trial % 3]
    sim = StatefulSimulation(
        total, (FEWEST_STATES, 9, 40)[trial // 2 % 3], (3, 16)[trial % 2],
        rewriting(rng, (0.0, 0.3)[trial % 4 > 1]), overlap=trial % 2 == 0,
        max_step_tokens=(5, 32, 500)[trial // 3 % 3], max_running=8, prefix_cache=trial % 7 != 0,
        policy=("lpm", "fcfs")[trial % 5 == 0], retires=trial % 4 == 0,
        splits_prompts=trial % 8 > 3,
    )  # fmt: skip
    scheduler = sim.scheduler
    for step in range(steps):
        while rng.random() < 0.4 and len(scheduler.waiting) < 20:
            prompt = [7] * rng.randrange(20) + [
                rng.randrange(2) for _ in range(rng.randrange(1, total // 3))
            ]
            sim.add(prompt, rng.randrange(30) % (total - len(prompt)))
        if rng.random() < 0.1:
            scheduler.schedule()  # a step that failed
            sim.check()
        sim.step()
        if rng.random() < 0.1 and scheduler.has_work:
            one = rng.choice([*scheduler.running, *scheduler.waiting.values()])
            scheduler.finish(one, non_finite=rng.random() < 0.3)
            sim.ended.add(one.id)
            sim.check()
        if rng.random() < 0.1:
            by_hand(rng, scheduler)
            sim.check()
        if step % 50 == 49:
            scheduler.cache.flush()
            sim.check()
    for _ in sim.run():
        pass
    assert sim.states.pool.available + sim.states.kept == sim.states.pool.total
    assert not sim.states._readers
    manual.unpin(scheduler.cache.tree)
    scheduler.cache.flush()
    assert sim.states.pool.available == sim.states.pool.total


def admissions(sim: Simulation) -> list[tuple[int, int]]:
    """Tokens found, and found but computed again, of each admitted request."""
    return [(e.cached, e.again) for e in sim.events if isinstance(e, RequestAdmitted)]


def finish_all(sim: Simulation) -> None:
    for _ in sim.run():
        pass


def prompt(seed: int, length: int) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(100) for _ in range(length)]


def test_the_same_prompt_again_goes_on_at_its_last_token() -> None:
    sim = StatefulSimulation(1000, 20)
    for _ in range(2):
        sim.add(prompt(0, 100), 4)
        finish_all(sim)
    assert admissions(sim) == [(0, 0), (99, 0)]


def test_a_text_that_goes_on_from_an_answer_finds_all_of_it() -> None:
    sim = StatefulSimulation(1000, 20)
    first = sim.add(prompt(0, 100), 30)
    finish_all(sim)
    sim.add([*first.tokens.tolist(), *prompt(1, 40)], 4)
    finish_all(sim)
    assert admissions(sim)[1] == (129, 0)  # the last token was never computed


def test_a_branch_leaves_a_checkpoint_where_it_parts() -> None:
    """The second prompt computes again what lies behind the last checkpoint, the third finds
    it."""
    sim = StatefulSimulation(2000, 20, every=64)
    shared = prompt(0, 150)
    for seed in (1, 2, 3):
        sim.add(shared + prompt(seed, 30), 2)
        finish_all(sim)
    assert admissions(sim) == [(0, 0), (128, 22), (150, 0)]


def test_prompts_that_wait_together_compute_their_prefix_once() -> None:
    sim = StatefulSimulation(4000, 60)
    shared = prompt(0, 150)
    for seed in range(8):
        sim.add(shared + prompt(10 + seed, 30), 1)
    finish_all(sim)
    assert admissions(sim) == [(0, 0)] + [(150, 0)] * 7
    assert sim.computed == 150 + 8 * 30


def test_equal_prompts_that_leave_no_checkpoint_start_together() -> None:
    sim = StatefulSimulation(4000, 60)
    shared = prompt(0, 40)
    for text in (prompt(1, 10), shared + prompt(2, 10)):
        sim.add(shared)
        finish_all(sim)
        for _ in range(8):
            sim.add(text)
        assert sum(1 for _ in sim.run()) == 1


def test_of_two_that_leave_the_same_checkpoint_one_gives_its_state_back() -> None:
    sim = StatefulSimulation(1000, 30, shared_prefix=1000)
    for _ in range(3):
        sim.add(prompt(0, 100), 4)
    finish_all(sim)
    assert admissions(sim) == [(0, 0)] * 3
    assert sim.states.pool.available + sim.states.kept == sim.states.pool.total


def test_a_long_prompt_has_checkpoints_on_its_way() -> None:
    sim = StatefulSimulation(1000, 20, every=100)
    sim.add(prompt(0, 430), 1)
    finish_all(sim)
    ends = sorted(node.end for node in sim.cache.tree.nodes() if sim.states.has(node))
    assert ends == [100, 200, 300, 400, 429, 430]


def test_the_last_token_of_a_split_prompt_is_a_decode_step() -> None:
    sim = StatefulSimulation(1000, 20, every=100, splits_prompts=True)
    lengths = []
    for seed, length in (0, 430), (0, 430), (1, 14):
        sim.add(prompt(seed, length), 2)
        lengths += [step.lengths.tolist() for step in sim.run()]
    ends = sorted(node.end for node in sim.cache.tree.nodes() if sim.states.has(node))
    # A short prompt leaves no checkpoint, so nothing is split.
    assert lengths == [[429], [1], [1], [1], [1], [14], [1]]
    assert {100, 200, 300, 400, 429} <= set(ends)


@pytest.mark.parametrize(
    ("begin", "wanted", "every", "stops"),
    [
        (0, (), 1, [16, 32, 60]),
        (0, (30, 5, 35), 1024, [30, 60]),
        (1020, (), 1024, [2048, 3000]),
        (1020, (1030, 2050), 1024, [2050, 3000]),
        (1000, (), 1024, [1024, 2048, 3000]),
    ],
)
def test_checkpoints_are_apart(
    begin: int, wanted: tuple[int, ...], every: int, stops: list[int]
) -> None:
    states = Checkpoints(RadixTree(), SlotAllocator(8), every, lambda event: None)
    assert states.positions(begin, wanted, stops[-1]) == stops


@given(
    begin=st.integers(0, 900),
    wanted=st.lists(st.integers(0, 1500), max_size=3),
    last=st.integers(0, 1500),
)
def test_stores_of_blocks_get_aligned_checkpoints(begin: int, wanted: list[int], last: int) -> None:
    """Without a change of the other checkpoints, except the regular ones."""
    states = Checkpoints(RadixTree(), SlotAllocator(8), 10**6, lambda event: None)
    plain = states.positions(begin, wanted, last)
    states.alignment = 64
    if max(begin, *wanted, 0) < 256:
        assert states.positions(begin, wanted, last) == plain
    states.is_expensive = lambda num_tokens: num_tokens == last
    stops = states.positions(begin, wanted, last)
    assert set(plain) <= set(stops)
    assert all(stop % 64 == 0 and stop >= 256 for stop in set(stops) - set(plain))
    assert all(b - a >= GAP for a, b in pairwise([begin, *stops]))
    if last >= max(begin, 256) + 64 + 2 * GAP and not wanted:
        assert any(last - 64 - GAP < stop and stop % 64 == 0 for stop in stops)


def test_nodes_that_are_gone_are_forgotten() -> None:
    """Also while there are states enough, so that no checkpoint has to give way."""
    sim = StatefulSimulation(300, 200)
    for seed in range(100):
        sim.add(prompt(seed, 60), 1)
        finish_all(sim)
    assert len(sim.states._oldest) <= 2 * sim.states.kept + 4
    sim.scheduler.cache.flush()
    assert not sim.states._oldest


@pytest.mark.parametrize("trial", range(4))
def test_not_ranking_while_states_are_missing_changes_nothing(trial: int) -> None:
    """Against a scheduler that ranks in every step. Without common prefixes: a failed attempt would
    refresh them."""
    moves = []
    for forgetful in (False, True):
        rng = random.Random(trial)
        sim = StatefulSimulation(4000, (FEWEST_STATES, 9)[trial % 2], overlap=trial > 1)
        looked = 0
        for step in range(200):
            if rng.random() < 0.2:
                some = [1000 * step + i for i in range(rng.randrange(1, 60))]
                sim.add(some, rng.randrange(1, 60))
            if rng.random() < 0.02 and sim.scheduler.waiting:
                sim.finish(rng.choice([*sim.scheduler.waiting.values()]))
            if forgetful:
                sim.scheduler._blocked = None
            looked += sim.scheduler._blocked is None
            sim.step()
        moves.append(sim.admitted())
        assert looked == 200 if forgetful else looked < 150
    assert moves[0] == moves[1] and len(moves[0]) > 5


def test_without_free_states_the_least_used_checkpoint_gives_way() -> None:
    sim = StatefulSimulation(4000, 8)
    for seed in range(9):
        sim.add(prompt(seed, 60), 1)
        finish_all(sim)
    before = len(admissions(sim))
    for seed in (8, 0):
        sim.add(prompt(seed, 60), 1)
        finish_all(sim)
    assert admissions(sim)[before:] == [(59, 0), (0, 59)]


def test_checkpoints_of_pinned_nodes_give_way_last() -> None:
    sim = StatefulSimulation(4000, 8)
    for seed in (*range(9), 0):
        sim.add(prompt(seed, 60), 1)
        finish_all(sim)
        if seed == 0:
            manual.pin(sim.cache.tree, np.array(prompt(0, 60), np.int32), "me")
    assert [cached for cached, _ in admissions(sim)] == [0] * 9 + [59]


def test_few_states_let_few_requests_run() -> None:
    sim = StatefulSimulation(4000, 6)
    requests = [sim.add(prompt(seed, 40), 5) for seed in range(10)]
    most = 0
    for _ in sim.run():
        most = max(most, len(sim.scheduler.running))
    assert 1 < most <= 3
    assert all(request.num_output_tokens == 5 for request in requests)


def test_a_rewritten_end_goes_back_to_the_last_state_before_it() -> None:
    """Where a request has none so far back, it begins once more at the tree's last checkpoint."""
    sim = StatefulSimulation(1000, 20)
    request = sim.add(prompt(0, 100), 50)
    for _ in range(10):
        sim.step()
    begun, computed = len(admissions(sim)), request.num_computed
    request.rewrite(computed - 1, [1])
    assert request.num_computed == computed - 1 and len(admissions(sim)) == begun
    request.rewrite(computed - 5, [1])
    sim.scheduler.requeue_rewritten(request)
    finish_all(sim)
    assert admissions(sim)[begun:] == [(99, 0)]
    assert np.array_equal(request.tokens[:100], prompt(0, 100))


def test_forks_that_begin_alike_leave_a_checkpoint_at_the_fork_itself() -> None:
    """Who goes on there in another way finds it."""
    sim = StatefulSimulation(2000, 40)
    shared, alike = prompt(0, 150), [1, 2, 3]
    for seed in (1, 2, 3):
        sim.add(shared + alike + prompt(seed, 30), 2, CacheScope(forked=150))
    finish_all(sim)
    sim.add([*shared, 4, *prompt(4, 30)], 1)
    finish_all(sim)
    assert admissions(sim) == [(0, 0), (150, 3), (150, 3), (150, 0)]
