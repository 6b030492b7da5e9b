"""Copies of the cache in lower tiers: random work, and KV content derived from the prompt."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import Any, Literal

import numpy as np
import pytest
import torch

from sgnb.engine.cache.kv_cache import KVCache, LayerShape
from sgnb.engine.cache.manager import CacheManager
from sgnb.engine.cache.radix import Ints
from sgnb.engine.cache.sequence import CachedSequence, CacheScope
from sgnb.engine.cache.slot_allocator import SlotAllocator
from sgnb.engine.cache.tiers import copies
from sgnb.engine.cache.tiers.block_transfer import BlockTransfer
from sgnb.engine.cache.tiers.blocks import BLOCK, Block, Bytes
from sgnb.engine.cache.tiers.tier_costs import TierCosts
from sgnb.engine.cache.tiers.tiers import CacheTiers

SHAPES = {0: LayerShape(1, 3, 2), 3: LayerShape(2, 1, 2)}
SLOTS = 900
VOCAB = 50
Kind = Literal["host", "disk"]


class Memory:
    """A store without limits, whose blocks may be damaged."""

    def __init__(self, name: Kind) -> None:
        self.name: str = name
        self.blocks: dict[bytes, Block] = {}
        self.damaged: set[bytes] = set()

    def holds(self, key: bytes) -> bool:
        return key in self.blocks

    def read(self, key: bytes, parent: bytes, tokens: Ints, out: Bytes) -> bool:
        block = self.blocks.get(key)
        if block is None or key in self.damaged:
            return False
        assert block.parent == parent and (block.tokens == tokens).all()
        out[:] = block.data
        return True

    def seconds(self, key: bytes) -> float:
        return self.blocks[key].seconds if key in self.blocks else 0.0

    def write(self, block: Block) -> bool:
        self.damaged.discard(block.key)
        self.blocks[block.key] = block._replace(data=block.data.copy())
        return True

    def flush(self) -> None:
        self.blocks.clear()

    def close(self) -> None:
        pass


class LateExecutor(Executor):
    """Runs submitted work only in `work`."""

    def __init__(self, threads: int, name: str) -> None:
        self.tasks: list[Callable[[], object]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.tasks.append(lambda: fn(*args, **kwargs))

    def work(self, chance: random.Random) -> None:
        while self.tasks and chance.random() < 0.8:
            self.tasks.pop(chance.randrange(len(self.tasks)))()


class Setting:
    """Tiers over a small KV pool. `content` is what the model would compute."""

    def __init__(self, seed: int, kinds: tuple[Kind, ...], policy: Any = "lru") -> None:
        self.chance, self.current = random.Random(seed), True
        self.kv = KVCache(SHAPES, SLOTS, torch.float16, torch.device("cpu"))
        self.cache = CacheManager(SlotAllocator(SLOTS, self.kv), policy=policy)
        self.stores = [Memory(kind) for kind in kinds]
        self.executors: list[LateExecutor] = []
        self.commands: list[Callable[[], object]] = []
        self.events: list[Any] = []
        self.tiers = self.open()
        self.waiting: list[CachedSequence] = []
        self.running: list[CachedSequence] = []
        self.ids = 0
        self.documents = [self.tokens(self.chance.randrange(300, 700)) for _ in range(6)]

    def open(self) -> CacheTiers:
        def executor(threads: int, name: str) -> LateExecutor:
            self.executors.append(LateExecutor(threads, name))
            return self.executors[-1]

        tiers = CacheTiers(
            self.cache,
            BlockTransfer(self.cache.slots, torch.device("cpu")),
            lambda: (b"root", self.stores),
            vocab_size=VOCAB,
            is_finite=lambda content: bool(content.any()),
            is_current=lambda thorough: self.current,
            emit=self.events.append,
            executor=executor,
        )
        tiers.run = self.commands.append
        for tokens in (64, 512, 300):
            tiers.costs.observe_step(tokens, tokens * tokens / 2, 0.01 * tokens)
        return tiers

    def tokens(self, count: int) -> Ints:
        return np.array([self.chance.randrange(VOCAB) for _ in range(count)], np.int32)

    def content(self, tokens: Ints, begin: int) -> Bytes:
        """Return the keys and values of the tokens from `begin` on: bytes that name the prefix."""
        rows = []
        for end in range(begin + 1, len(tokens) + 1):
            digest = hashlib.sha256(tokens[:end].tobytes()).digest()
            rows.append(np.frombuffer(digest[: self.kv.unit_bytes], np.uint8))
        return np.stack(rows) if rows else np.empty((0, self.kv.unit_bytes), np.uint8)

    # Steps of random work

    def submit(self) -> None:
        document = self.chance.choice(self.documents)
        head = document[: self.chance.randrange(1, len(document))]
        prompt = np.concatenate([head, self.tokens(self.chance.randrange(1, 40))])
        if self.chance.random() < 0.1:
            prompt[self.chance.randrange(len(prompt))] = VOCAB + 3  # an image
        namespace = self.chance.choice(["", "", "", "other", None])
        request = CachedSequence(prompt, len(prompt) + 1, CacheScope(namespace))
        self.ids += 1
        request.id = self.ids
        self.waiting.append(request)

    def admit(self) -> None:
        for request in self.waiting[:]:
            if not self.tiers.ready(request):
                continue
            match = self.cache.match(request)
            if not self.cache.fits(match, 0):
                self.cache.unlock(match)
                self.tiers.cancel()
                continue
            self.cache.start(request, match, self.waiting)
            self.tiers.forget(request)
            self.waiting.remove(request)
            self.running.append(request)
            begin = request.num_computed
            slots = request.slots[begin : request.num_tokens]
            content = torch.from_numpy(self.content(request.tokens, begin))
            self.kv.restore(slots, content)
            request.num_computed = request.num_tokens
            read = torch.empty(request.num_tokens, self.kv.unit_bytes, dtype=torch.uint8)
            self.kv.copy(request.slots[: request.num_tokens], read)
            assert (read.numpy() == self.content(request.tokens, 0)).all(), "wrong content"

    def finish(self) -> None:
        if self.running:
            request = self.running.pop(self.chance.randrange(len(self.running)))
            self.cache.release(request)

    def abort(self) -> None:
        if self.waiting:
            self.tiers.forget(self.waiting.pop(self.chance.randrange(len(self.waiting))))

    def work(self) -> None:
        self.chance.choice(self.executors).work(self.chance)

    def deliver(self) -> None:
        while self.commands:
            self.commands.pop(0)()

    def damage(self) -> None:
        store = self.chance.choice(self.stores)
        if store.blocks:
            store.damaged.add(self.chance.choice(list(store.blocks)))

    def lose(self) -> None:
        store = self.chance.choice(self.stores)
        if store.blocks:
            del store.blocks[self.chance.choice(list(store.blocks))]

    def flush(self) -> None:
        self.cache.flush()

    def prefetch(self) -> None:
        self.tiers.prefetch(self.chance.choice(self.documents))

    def step(self) -> None:
        usual = [self.submit, self.admit, self.finish, self.work, self.deliver]
        seldom = [
            self.abort,
            self.damage,
            self.lose,
            self.tiers.cancel,
            self.tiers.copies.write_idle,
        ]
        seldom += [self.flush, self.prefetch]
        if len(self.waiting) > 6:
            usual.remove(self.submit)
        self.chance.choice(usual if self.chance.random() < 0.9 else seldom)()
        self.check()

    def check(self) -> None:
        cache, loads = self.cache, set(self.tiers._loads.values())
        owned = sum(r.num_slots - (r.node.end if r.node else 0) for r in self.running)
        assert cache.in_flight == owned + sum(len(load.slots) for load in loads)
        locked = {node for r in self.running if r.node for node in r.node.path()}
        locked |= {node for load in loads for node in load.node.path()}
        assert {node for node in cache.tree.nodes() if node.locks} == locked


@pytest.fixture(params=[("host",), ("disk",), ("host", "disk")], ids="+".join)
def kinds(request: pytest.FixtureRequest) -> Iterator[tuple[Kind, ...]]:
    yield request.param


def run(seed: int, kinds: tuple[Kind, ...], steps: int, policy: str = "lru") -> Setting:
    setting = Setting(seed, kinds, policy)
    for _ in range(steps):
        setting.step()
    return setting


def test_random_work_restores_the_content_of_each_token(kinds: tuple[Kind, ...]) -> None:
    setting = run(0, kinds, 900)
    assert setting.tiers.statistics()["loaded_tokens"] > BLOCK
    assert {event.store for event in setting.events} <= set(kinds)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["lru", "slru"])
@pytest.mark.parametrize("seed", range(2))
def test_ten_thousand_steps(kinds: tuple[Kind, ...], policy: str, seed: int) -> None:
    run(seed, kinds, 2500, policy)


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
        assert model.compute_seconds(begin, end) == pytest.approx(seconds(begin, end), rel=0.15)


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
    transfer: Any = setting.tiers._transfer

    def fail(*args: Any) -> Any:
        raise RuntimeError("no memory")

    transfer.write = transfer.read = fail
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
    setting.tiers.copies.write_idle()
    work_all(setting)
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


def work_all(setting: Setting) -> None:
    while any(executor.tasks for executor in setting.executors) or setting.commands:
        for executor in setting.executors:
            while executor.tasks:
                executor.tasks.pop(0)()
        setting.deliver()


def stored(setting: Setting) -> int:
    return len(setting.stores[0].blocks)


def test_a_reader_that_cannot_start_leaves_no_waiting_request() -> None:
    setting = Setting(1, ("host",))
    computed(setting, setting.documents[0])
    setting.cache.on_eviction(list(setting.cache.tree.nodes()))
    work_all(setting)
    setting.cache.flush()
    readers, calls = setting.executors[1], list[Any]()

    def submit(*args: Any) -> None:
        calls.append(args)
        if len(calls) == 2:
            raise RuntimeError("can't start new thread")

    readers.submit = submit  # type: ignore[method-assign]
    request = CachedSequence(setting.documents[0], 900, CacheScope())
    request.id = 1
    assert setting.tiers.ready(request) and not setting.tiers.loading
    assert len(calls) == 2
    setting.check()
    calls[0][0](*calls[0][1:])  # the first reader works on a load that has ended
    work_all(setting)
    setting.check()


def test_a_node_above_the_limit_is_copied_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Setting(2, ("disk",))
    block_bytes = BLOCK * setting.kv.unit_bytes
    monkeypatch.setattr(copies, "PART_BYTES", 2 * block_bytes)
    monkeypatch.setattr(copies, "MAX_PENDING_BYTES", 4 * block_bytes)
    computed(setting, setting.tokens(700))
    for _ in range(5):
        setting.tiers.copies.write_idle()
        work_all(setting)
    assert stored(setting) == 700 // BLOCK
    assert setting.tiers.statistics()["dropped_blocks"] > 0


def test_a_copy_that_fails_is_tried_again() -> None:
    setting = Setting(3, ("disk",))
    computed(setting, setting.tokens(500))
    transfer: Any = setting.tiers.copies._transfer
    read = transfer.read

    def fail(ids: Any) -> Any:
        raise MemoryError

    transfer.read = fail
    setting.tiers.copies.write_idle()
    assert setting.tiers.copies._pending_bytes == 0
    transfer.read = read
    setting.tiers.copies.write_idle()
    work_all(setting)
    assert stored(setting) == 500 // BLOCK and setting.tiers.copies._pending_bytes == 0
    [node] = setting.cache.tree.nodes()
    assert node.id in setting.tiers.copies._copied


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


def test_a_slow_load_is_doubted() -> None:
    costs = TierCosts()
    costs.observe_load("disk", 1000, 10.0)
    before = costs.load_seconds("disk", 1000)
    for _ in range(20):
        costs.doubt_load("disk")
    assert costs.load_seconds("disk", 1000) < 0.2 * before
    costs.doubt_load("host")
    assert costs.load_seconds("host", 1000) == 0
