"""Random work on cache tiers over a small pool. Keys, values and states name the prompt."""

from __future__ import annotations

import hashlib
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any, Literal
from unittest.mock import patch

import numpy as np
import torch

from sgnb.engine.cache.kv_cache import KVCache, LayerShape
from sgnb.engine.cache.manager import CacheManager
from sgnb.engine.cache.radix import Ints
from sgnb.engine.cache.sequence import CachedSequence, CacheScope
from sgnb.engine.cache.slot_allocator import SlotAllocator
from sgnb.engine.cache.state_pool import StatePool, StateShape
from sgnb.engine.cache.tiers import copies
from sgnb.engine.cache.tiers.block_transfer import BlockTransfer
from sgnb.engine.cache.tiers.blocks import BLOCK, Block, Bytes, CopyChange, Reservation
from sgnb.engine.cache.tiers.host_memory import allocate
from sgnb.engine.cache.tiers.rank_transfer import RankTransfer
from sgnb.engine.cache.tiers.stored_prefixes import Stores
from sgnb.engine.cache.tiers.stored_prompt import ItemSpan
from sgnb.engine.cache.tiers.tiers import CacheTiers
from sgnb.engine.cache.tiers.transfers import Transfer

from .fake_ranks import FakeRanks

SHAPES = {0: LayerShape(1, 3, 2), 3: LayerShape(2, 1, 2)}
SLOTS, STATES = 1500, 20
HOST_BYTES = 1 << 28
VOCAB = 50
CPU = torch.device("cpu")
Kind = Literal["host", "disk"]
STATE_SHAPES = {
    1: [
        StateShape("conv", 0, (3, 2), torch.float16),
        StateShape("recurrent", 0, (5,), torch.float32),
    ]
}


class FakeItem:
    """An image. Nearly equal images differ in the last byte of the key."""

    def __init__(self, number: int, count: int, joint: bool) -> None:
        self.key = bytes(31) + bytes([number])
        self.number, self.count, self.seconds = number, count, 0.01
        self.blocks = [(2, count - 1)] if joint else []
        self.first_id = 0

    def pack_facts(self) -> bytes | None:
        return None


class Memory:
    """A store without limits, whose blocks may be damaged."""

    def __init__(self, name: Kind) -> None:
        self.name: str = name
        self.blocks: dict[bytes, Block] = {}
        self.damaged: set[bytes] = set()
        self.was_written = False
        self.changes: deque[CopyChange] = deque()
        self.allocate: Callable[[int], Bytes] = allocate
        self.refuses: Callable[[bytes], bool] = lambda key: key[0] % 3 == 0  # a reservation
        self.row_bytes = self.flushes = 0

    def holds(self, key: bytes) -> bool:
        return key in self.blocks

    @contextmanager
    def open(
        self, key: bytes, parent: bytes, tokens: Ints, spare: Callable[[], Bytes]
    ) -> Iterator[Bytes | None]:
        block = self.blocks.get(key)
        if block is None or key in self.damaged:
            yield None
            return
        assert block.parent == parent and (block.tokens == tokens).all()
        if self.name == "disk":
            np.copyto(spare(), block.data)
        yield spare() if self.name == "disk" else block.data

    def seconds(self, key: bytes) -> float:
        return self.blocks[key].seconds if key in self.blocks else 0.0

    def write(self, block: Block) -> bool:
        data = self.allocate(block.data.nbytes).reshape(block.data.shape)
        np.copyto(data, block.data)
        return self._keep(block._replace(data=data))

    def _keep(self, block: Block) -> bool:
        self.was_written = True
        self.damaged.discard(block.key)
        self.blocks[block.key] = block
        self.changes.append(CopyChange(block.key, "stored"))
        return True

    def reserve(self, key: bytes, parent: bytes, seconds: float) -> Reservation | None:
        """See `refuses`."""
        if self.name == "disk" or self.refuses(key):
            return None
        data = self.allocate(BLOCK * self.row_bytes).reshape(BLOCK, -1)
        flushes = self.flushes
        return Reservation(
            data, lambda block: flushes == self.flushes and self._keep(block), lambda: None
        )

    def mark(self, keys: Sequence[bytes], cached: bool) -> None:
        pass

    def lacks(self, count: int) -> bool:
        return False

    def grow(self, count: int) -> None:
        raise AssertionError("nothing lacks")

    def flush(self) -> None:
        self.changes.extend(CopyChange(key, "flush") for key in self.blocks)
        self.blocks.clear()
        self.flushes += 1

    def relieve(self) -> None:
        pass

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

    def __init__(
        self,
        seed: int,
        kinds: tuple[Kind, ...],
        policy: Any = "lru",
        hybrid: bool = False,
        images: bool = False,
        slow_loads: bool = False,
        ranks: int = 1,
    ) -> None:
        """slow_loads: a load is estimated as slow as computing the same tokens. ranks: number of
        processes that compute the model."""
        self.chance, self.current, self.policy = random.Random(seed), True, policy
        self.hybrid, self.slow_loads, self.num_ranks = hybrid, slow_loads, ranks
        self.stores = [Memory(kind) for kind in kinds]
        self.state_stores = [Memory(kind) for kind in kinds]
        self.events: list[Any] = []
        self.ids = 0
        sizes = [3, 40, 150, 40, 90, 41] if images else []
        self.items = [
            FakeItem(i, size, joint=i % 2 == 0 and not hybrid) for i, size in enumerate(sizes)
        ]
        self.documents = [self.parts(self.chance.randrange(300, 700)) for _ in range(6)]
        self.start()

    def start(self) -> None:
        """Begin a process: an empty pool, and other token ids of images."""
        self.kv = KVCache(SHAPES, SLOTS, torch.float16, CPU)
        self.pool = StatePool(STATE_SHAPES, STATES, CPU)
        self.cache = CacheManager(
            SlotAllocator(SLOTS, self.kv),
            SlotAllocator(STATES, self.pool) if self.hybrid else None,
            checkpoint_every=192,
            policy=self.policy,
        )
        others = [KVCache(SHAPES, SLOTS, torch.float16, CPU) for _ in range(1, self.num_ranks)]
        self.ranks = FakeRanks(others, self.chance)
        self.executors: list[LateExecutor] = []
        self.commands: list[Callable[[], object]] = []
        self.waiting: list[CachedSequence] = []
        self.running: list[CachedSequence] = []
        next_id = VOCAB
        for item in self.chance.sample(self.items, len(self.items)):
            item.first_id = next_id
            next_id += item.count
        self.tiers = self.open()

    def restart(self) -> None:
        self.tiers.cancel()
        for store in (*self.stores, *self.state_stores):
            if store.name == "host":
                store.flush()
        self.start()

    def open(self) -> CacheTiers:
        own = BlockTransfer(self.cache.slots, CPU, lambda units: (units > 0).any(1))
        transfer: Transfer = own
        if self.num_ranks > 1:
            transfer = RankTransfer(own, self.cache.slots, self.ranks, HOST_BYTES, readers=1)
            assert transfer.find_fault() == ""
        for store in self.stores:
            store.allocate, store.row_bytes = transfer.allocate, transfer.row_bytes
        checkpoints, states = self.cache.checkpoints, None
        if checkpoints is not None:
            states = BlockTransfer(checkpoints.pool, CPU, per_block=1)
            assert states.find_fault() == ""
            for store in self.state_stores:
                store.row_bytes = states.row_bytes

        def executor(threads: int, name: str) -> LateExecutor:
            made = LateExecutor(threads, name)
            if name != "sgnb-cache-memory":  # `Memory` lacks nothing
                self.executors.append(made)
            return made

        tiers = CacheTiers(
            self.cache,
            transfer,
            lambda: Stores(b"root", self.stores, self.state_stores if self.hybrid else ()),
            states=states,
            find_items=self.find_items,
            is_current=lambda thorough: self.current,
            emit=self.events.append,
            executor=executor,
        )
        tiers.run = self.commands.append
        for tokens in (64, 512, 300) * 3:
            tiers.costs.observe_step(tokens, tokens * tokens / 2, 1.0 * tokens)
        if self.slow_loads:
            seconds = 1.0 / transfer.unit_bytes
            tiers.costs.load_seconds = lambda store, size: size * seconds  # type: ignore[method-assign]
        return tiers

    def tokens(self, count: int) -> Ints:
        return np.array([self.chance.randrange(VOCAB) for _ in range(count)], np.int32)

    def parts(self, count: int) -> list[int | FakeItem]:
        """Return a prompt of texts and images."""
        parts: list[int | FakeItem] = self.tokens(count).tolist()
        for _ in range(self.chance.randrange(3) if self.items else 0):
            parts.insert(self.chance.randrange(len(parts)), self.chance.choice(self.items))
        return parts

    def encode(self, parts: list[int | FakeItem]) -> Ints:
        ids: list[int] = []
        for part in parts:
            if isinstance(part, int):
                ids.append(part)
            else:
                ids += range(part.first_id, part.first_id + part.count)
        return np.array(ids, np.int32)

    def find_items(self, tokens: Ints) -> list[ItemSpan]:
        owners = {item.first_id: item for item in self.items}
        return [
            ItemSpan(at, owners[token])
            for at, token in enumerate(tokens.tolist())
            if token in owners
        ]

    def names(self, tokens: Ints) -> list[str]:
        """Return a name per token that does not depend on the process."""
        names = {
            item.first_id + i: f"{item.number}:{i}"
            for item in self.items
            for i in range(item.count)
        }
        return [names.get(token, str(token)) for token in tokens.tolist()]

    def content(self, tokens: Ints, begin: int, size: int = 0) -> Bytes:
        """Return what a model computes for the tokens from `begin` on: bytes that name the prefix,
        by default keys and values."""
        digest, rows, size = hashlib.sha256(), [], size or self.kv.unit_bytes
        for end, name in enumerate(self.names(tokens), 1):
            digest.update(f"{name} ".encode())
            if end > begin:
                rows.append(np.resize(np.frombuffer(digest.digest(), np.uint8), size))
        return np.stack(rows) if rows else np.empty((0, size), np.uint8)

    def state(self, tokens: Ints) -> Bytes:
        """Return the state after tokens."""
        return self.content(tokens, len(tokens) - 1, self.pool.unit_bytes)[0]

    # Steps of random work

    def submit(self) -> None:
        document = self.chance.choice(self.documents)
        head = document
        if self.chance.random() < 0.6:
            head = document[: self.chance.randrange(1, len(document))]
        prompt = self.encode([*head, *self.tokens(self.chance.randrange(1, 40)).tolist()])
        if len(prompt) >= SLOTS:
            return
        namespace = self.chance.choice(["", "", "", "other", None])
        request = CachedSequence(prompt, len(prompt) + 1, CacheScope(namespace))
        self.ids += 1
        request.id = self.ids
        self.waiting.append(request)

    def admit(self) -> None:
        for request in self.waiting[:]:
            if not self.tiers.ready(request, True, self.cache.reclaimable):
                continue
            match = self.cache.match(request)
            if not self.cache.fits(match, 0) and not self.running:
                self.tiers.cancel()
            if not self.cache.fits(match, 0):
                self.cache.unlock(match)
                continue
            self.cache.start(request, match, self.waiting)
            self.tiers.started(request)
            self.waiting.remove(request)
            self.running.append(request)
            self.compute(request)

    def prefill(self) -> None:
        """Compute the next part of all running requests."""
        for id, count in self.tiers.meet().items():
            assert count >= 0 and id in [request.id for request in self.running]
        for request in self.running:
            if request.num_computed < request.num_tokens:
                self.compute(request)

    def compute(self, request: CachedSequence) -> None:
        """Compute the next part of a request as a model, in one step."""
        begin, end, tokens = request.num_computed, request.num_tokens, request.tokens
        if begin < request.split:
            end = request.split
            if not self.items and self.chance.random() < 0.2:
                end = self.chance.randrange(begin + 1, end + 1)
        for at, item in self.find_items(tokens):
            assert not any(at + low < begin < at + high for low, high in item.blocks)
        self.write(request.slots[begin:end].copy(), self.content(tokens[:end], begin))

        plans = self.cache.plan([request], np.array([begin]), np.array([end]))
        for plan in plans:
            read = torch.empty(1, self.pool.unit_bytes, dtype=torch.uint8)
            self.pool.copy(np.array([plan.read], np.int32), read)
            assert not begin or (read[0].numpy() == self.state(tokens[:begin])).all(), "wrong state"
            assert begin or plan.read == STATES
            for position, state in plan.written:
                row = torch.from_numpy(self.state(tokens[:position])[None])
                self.pool.restore(np.array([state], np.int32), row)
        request.num_computed = end
        self.cache.launched([request], plans)
        if not self.hybrid:
            self.cache.share(request)
        self.compare(request.slots[:end].copy(), self.content(tokens[:end], 0))

    def write(self, slots: Ints, content: Bytes) -> None:
        """Write the content of slots on all ranks. Each rank has other bytes."""

        def write(kv: KVCache, rank: int) -> None:
            kv.restore(slots, torch.from_numpy(content ^ np.uint8(rank)))

        write(self.kv, 0)
        self.ranks.step(lambda rank: write(self.ranks.pools[rank - 1], rank))

    def compare(self, slots: Ints, content: Bytes) -> None:
        """Compare the content of slots on all ranks."""

        def compare(kv: KVCache, rank: int) -> None:
            read = torch.empty(len(slots), kv.unit_bytes, dtype=torch.uint8)
            kv.copy(slots, read)
            assert (read.numpy() == content ^ np.uint8(rank)).all(), f"wrong content, rank {rank}"

        compare(self.kv, 0)
        self.ranks.step(lambda rank: compare(self.ranks.pools[rank - 1], rank))

    def follow(self) -> None:
        """Let the other ranks run some messages."""
        for _ in range(self.chance.randrange(8) if self.num_ranks > 1 else 0):
            self.ranks.work(self.chance.randrange(self.num_ranks - 1))

    def finish(self) -> None:
        if self.running:
            request = self.running.pop(self.chance.randrange(len(self.running)))
            self.tiers.forget(request)
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
        store = self.chance.choice([*self.stores, *self.state_stores])
        if store.blocks:
            store.damaged.add(self.chance.choice(list(store.blocks)))

    def lose(self) -> None:
        store = self.chance.choice([*self.stores, *self.state_stores])
        if store.blocks:
            del store.blocks[self.chance.choice(list(store.blocks))]

    def flush(self) -> None:
        self.cache.flush()

    def write_idle(self) -> None:
        """Copy all nodes, however slow the machine is."""
        with patch.object(copies, "IDLE_WORK_SECONDS", 60.0):
            self.tiers.copies.write_idle()

    def prefetch(self) -> None:
        self.tiers.prefetch(self.encode(self.chance.choice(self.documents)))

    def step(self) -> None:
        usual = [self.submit, self.admit, self.finish, self.work, self.deliver, self.prefill]
        usual += [self.follow] if self.num_ranks > 1 else []
        seldom = [
            self.abort,
            self.damage,
            self.lose,
            self.tiers.cancel,
            self.write_idle,
        ]
        seldom += [self.flush, self.prefetch]
        if self.chance.random() < 0.01:
            seldom = [self.restart]
        if len(self.waiting) > 6:
            usual.remove(self.submit)
        self.chance.choice(usual if self.chance.random() < 0.9 else seldom)()
        self.check()

    def check(self) -> None:
        cache, loads = self.cache, set(self.tiers._loads.values())
        owned = sum(r.num_slots - (r.node.end if r.node else 0) for r in self.running)
        assert cache.in_flight == owned + sum(len(load.slots) for load in loads)
        assert {tail.request.id for tail in self.tiers._tails._tails.values()} <= {
            request.id for request in self.running
        }
        locked = {node for r in self.running if r.node for node in r.node.path()}
        locked |= {node for load in loads for node in load.node.path()}
        locked |= {node for kept in self.tiers._decisions._kept.values() for node in kept.path()}
        waited = list(self.tiers._decisions._decisions.values())
        assert all(load.done and load in waited for load in self.tiers._decisions._kept)
        assert {node for node in cache.tree.nodes() if node.locks} == locked
        if cache.checkpoints is not None:
            states = [r.states for r in self.running if r.states]
            pending = [len(s._spare) + len(s._pending) for s in states]
            private = [sum(ref.node is None for ref in s._refs) for s in states]
            total = cache.checkpoints.pool.available + cache.checkpoints.kept
            assert total + sum(pending) + sum(private) == STATES


def work_all(setting: Setting) -> None:
    while any(executor.tasks for executor in setting.executors) or setting.commands:
        for executor in setting.executors:
            while executor.tasks:
                executor.tasks.pop(0)()
        setting.deliver()


def copy_idle(setting: Setting) -> None:
    """Copy to the stores what idle time copies; on a busy machine this takes several turns."""
    for _ in range(10):
        setting.tiers.copies.write_idle()
        work_all(setting)
