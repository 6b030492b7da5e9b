"""Blocks of several ranks: commands, confirmations and memory, with followers that run late."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sgnb.engine.cache.kv_cache import KVCache, LayerShape
from sgnb.engine.cache.radix import Ints
from sgnb.engine.cache.slot_allocator import SlotAllocator
from sgnb.engine.cache.tiers import transfers
from sgnb.engine.cache.tiers.block_transfer import BlockTransfer
from sgnb.engine.cache.tiers.blocks import BLOCK, Bytes
from sgnb.engine.cache.tiers.copy_commands import CopyCommand, CopyKind
from sgnb.engine.cache.tiers.host import HostBlocks
from sgnb.engine.cache.tiers.rank_transfer import RankTransfer, group_fingerprint
from sgnb.engine.cache.tiers.shared_places import SharedPlaces
from sgnb.engine.cache.tiers.transfers import ReadBlocks
from sgnb.engine.parallel.confirmations import Confirmation, Confirmations
from sgnb.errors import OptionError
from sgnb.events import PrefixLoaded

from .fake_ranks import CPU, FakeRanks
from .numbered_blocks import make_block, read
from .test_cache_tiers import run
from .tier_setting import Kind, Setting, work_all

SHAPES = {0: LayerShape(1, 3, 2)}
SLOTS = 5 * BLOCK
UNIT = 10


class Pools:
    """Pools of ranks, and arrays with the expected content."""

    def __init__(self, size: int, host_bytes: int = 0) -> None:
        self.kv = [KVCache(SHAPES, SLOTS, torch.float16, CPU) for _ in range(size)]
        self.expected = [np.zeros((SLOTS, UNIT), np.uint8) for _ in range(size)]
        self.ranks = FakeRanks(self.kv[1:], random.Random(0), lambda x: x[:, 0] < 255)
        slots = SlotAllocator(SLOTS, self.kv[0])
        own = BlockTransfer(slots, CPU, lambda x: x[:, 0] < 255)
        self.transfer = RankTransfer(own, slots, self.ranks, host_bytes, readers=1)

    def step(self, slots: Ints, value: int) -> None:
        """Compute other content on each rank."""

        def write(rank: int) -> None:
            content = torch.full((len(slots), UNIT), value + rank, dtype=torch.uint8)
            self.kv[rank].restore(slots, content)

        for rank, expected in enumerate(self.expected):
            expected[slots] = value + rank
        write(0)
        self.ranks.step(write)

    def block(self, slots: Ints) -> Bytes:
        """Return the expected content of a block, the parts in the order of ranks."""
        return np.concatenate([expected[slots].ravel() for expected in self.expected])

    def content(self, rank: int) -> Bytes:
        content = torch.empty((SLOTS, UNIT), dtype=torch.uint8)
        self.kv[rank].copy(np.arange(SLOTS, dtype=np.int32), content)
        array: Bytes = content.numpy()
        return array

    def run_all(self) -> None:
        for follower, queue in enumerate(self.ranks.queues):
            while queue:
                self.ranks.work(follower)


def slots_of_block(seed: int) -> Ints:
    return np.random.default_rng(seed).permutation(SLOTS)[:BLOCK].astype(np.int32)


SLOTS_OF_BLOCK = st.integers(0, 9).map(slots_of_block)


@settings(max_examples=40)
@given(st.integers(1, 4), st.data())
def test_copies_of_late_ranks_have_the_order_of_the_calls(size: int, data: st.DataObject) -> None:
    """Steps change slots after reads, and before and after writes; each follower runs late."""
    pools, draw = Pools(size), data.draw
    reads: list[tuple[Callable[[], ReadBlocks], Bytes]] = []
    writes: list[Callable[[], None]] = []
    stored: list[tuple[Bytes, list[Bytes]]] = []
    for value in range(draw(st.integers(1, 12))):
        match draw(st.sampled_from(["step", "step", "read", "write", "work", "finish"])):
            case "step":
                pools.step(draw(SLOTS_OF_BLOCK), 1 + 5 * value)
            case "read":
                slots = draw(SLOTS_OF_BLOCK)
                reading = pools.transfer.read(slots)
                assert reading is not None
                reads.append((reading, pools.block(slots)))
            case "write" if stored:
                block, parts = draw(st.sampled_from(stored))
                slots = draw(SLOTS_OF_BLOCK)
                pools.transfer.begin_writes()
                writes.append(pools.transfer.write(slots, [block]))
                pools.transfer.end_writes()
                for expected, part in zip(pools.expected, parts, strict=True):
                    expected[slots] = part
            case "work" if size > 1:
                pools.ranks.work(draw(st.integers(0, size - 2)))
            case "finish" if reads:
                reading, content = reads.pop(draw(st.integers(0, len(reads) - 1)))
                [block], [finite] = reading()
                assert (block.ravel() == content).all() and finite
                stored.append((block, list(content.reshape(size, BLOCK, UNIT))))
    for wait in writes:
        wait()
    pools.run_all()
    for rank, expected in enumerate(pools.expected):
        assert (pools.content(rank) == expected).all()


@given(st.sampled_from(CopyKind), st.lists(st.integers(0, 2**31 - 1)), st.integers(0, 2**31 - 1))
def test_commands_arrive_unchanged(kind: CopyKind, numbers: list[int], number: int) -> None:
    places, units = np.array(numbers[:3], np.int32), np.array(numbers[3:], np.int32)
    message = np.concatenate([*CopyCommand(kind, places, units).encode(number), [1, 2]])
    command = CopyCommand.decode(message.astype(np.int32))
    assert message[0] < 0 and (command.kind, command.number) == (kind, number)
    assert (command.places == places).all() and (command.units == units).all()


KINDS: list[tuple[Kind, ...]] = [("host",), ("disk",), ("host", "disk")]


@pytest.mark.parametrize(
    ("kinds", "ranks", "slow"),
    [
        (("host", "disk"), 3, True),
        *(
            pytest.param(kinds, ranks, slow, marks=pytest.mark.slow)
            for kinds in KINDS
            for ranks in (2, 4)
            for slow in (False, True)
        ),
    ],
)
def test_random_work_restores_the_content_on_all_ranks(
    kinds: tuple[Kind, ...], ranks: int, slow: bool, caplog: pytest.LogCaptureFixture
) -> None:
    setting = run(4, kinds, 900, slow_loads=slow, ranks=ranks)
    loads = [event for event in setting.events if isinstance(event, PrefixLoaded)]
    assert sum(event.tokens for event in loads) > 4 * BLOCK
    assert any(event.begin for event in loads) == slow
    assert "failed" not in caplog.text


@pytest.mark.parametrize("rank", [1, 2])
def test_a_failed_write_of_a_rank_is_a_miss(rank: int, caplog: pytest.LogCaptureFixture) -> None:
    setting = Setting(3, ("host", "disk"), ranks=3)
    for _ in range(300):
        setting.step()
    work_all(setting)
    failures = list[str]()

    def fail(*args: Any) -> Any:
        failures.append("")
        raise MemoryError("no memory")

    setting.ranks.transfers[rank - 1].write = fail  # type: ignore[method-assign]
    loaded = sum(isinstance(event, PrefixLoaded) for event in setting.events)
    setting.restart = lambda: None  # type: ignore[method-assign]
    for _ in range(300):
        setting.step()
    assert failures and f"rank {rank}: MemoryError: no memory" in caplog.text
    assert sum(isinstance(event, PrefixLoaded) for event in setting.events) == loaded


def test_a_rank_with_values_that_are_not_finite_stores_nothing() -> None:
    pools = Pools(3)
    slots = np.arange(2 * BLOCK, dtype=np.int32)
    for rank in range(3):
        pools.step(slots, 255 - 2)  # rank 2 has 255
        reading = pools.transfer.read(slots)
        assert reading is not None and reading().finite.tolist() == [False, False], rank
    pools.step(slots[BLOCK:], 9)
    reading = pools.transfer.read(slots)
    assert reading is not None and reading().finite.tolist() == [False, True]


def test_ranks_copy_to_places_of_a_store() -> None:
    pools = Pools(3, host_bytes=3 * 3 * BLOCK * UNIT)
    slots = np.random.default_rng(4).permutation(SLOTS)[: 2 * BLOCK].astype(np.int32)
    pools.step(slots, 31)
    other = pools.transfer.read(slots)
    memory = pools.transfer.allocate(3 * pools.transfer.block_bytes)
    blocks = memory.reshape(3, BLOCK, -1)
    places = [blocks[2], blocks[0]]
    reading = pools.transfer.read(slots, places)
    pools.step(slots, 77)
    assert reading is not None and other is not None
    content = reading()
    assert all(block is place for block, place in zip(content.blocks, places, strict=True))
    assert (np.stack(places) == np.stack(other().blocks)).all() and content.finite.all()


def test_the_self_test_compares_all_ranks() -> None:
    pools = Pools(3)
    assert pools.transfer.find_fault() == ""
    broken = pools.ranks.transfers[1]

    def write(ids: Ints, blocks: Any) -> Callable[[], None]:
        return BlockTransfer.write(broken, ids[::-1], blocks)

    broken.write = write  # type: ignore[method-assign]
    assert "of a token is not restored" in pools.transfer.find_fault()


def test_copies_beyond_the_memory_of_the_ranks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sgnb.engine.cache.tiers.rank_transfer.MOST_READ", 3)
    pools = Pools(2)
    assert pools.transfer.part_blocks == 3
    slots = np.arange(BLOCK, dtype=np.int32)
    reads = [pools.transfer.read(slots) for _ in range(4)]
    assert [read is None for read in reads] == [False, False, False, True]
    del reads
    pools.run_all()
    assert pools.transfer.read(slots) is not None
    with pytest.raises(MemoryError, match="left for 4 blocks"):
        pools.transfer.spare(4)


def test_host_memory_is_shared_and_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower sees its parts of stored blocks. A returned arena is zeros, and is used again."""
    monkeypatch.setattr("sgnb.engine.cache.tiers.host.ARENA_BYTES", 4 * 2 * BLOCK * UNIT)
    free = [1 << 60]
    pools = Pools(2, host_bytes=9 * 2 * BLOCK * UNIT)
    transfer = pools.transfer
    store = HostBlocks(9 * 2 * BLOCK * UNIT, transfer.row_bytes, transfer.allocate, lambda: free[0])
    blocks = [make_block(number, transfer.row_bytes) for number in range(9)]
    follower = SharedPlaces(pools.ranks.blocks, BLOCK * UNIT, 2)

    for turn in range(2):
        assert all(store.write(block) for block in blocks) and store.total == 9
        assert all(read(store, block) for block in blocks), turn
        numbers = list[int]()
        for block in blocks:
            with store.open(block.key, block.parent, block.tokens, list) as content:  # type: ignore[arg-type]
                assert content is not None
                numbers.append(transfer._memory.number(content))
                [part] = follower.parts(np.array(numbers[-1:], np.int32), 1)
                assert (part.ravel() == block.data.ravel()[BLOCK * UNIT :]).all()
        assert len(set(numbers)) == 9
        free[0] = 0
        store.relieve()
        del content, part
        assert store.total == 0
        assert not follower.view(min(numbers), max(numbers) - min(numbers) + 1).any()
        free[0] = 1 << 60


def test_a_full_machine_keeps_the_present_arenas(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write to memory that cannot be reserved would end the process."""
    monkeypatch.setattr("sgnb.engine.cache.tiers.host.ARENA_BYTES", 4 * 2 * BLOCK * UNIT)
    transfer = Pools(2, host_bytes=9 * 2 * BLOCK * UNIT).transfer
    store = HostBlocks(9 * 2 * BLOCK * UNIT, transfer.row_bytes, transfer.allocate, lambda: 1 << 60)
    assert store.write(make_block(0, transfer.row_bytes))
    total = store.total

    def fail(file: int, begin: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", fail)
    with pytest.raises(MemoryError, match=r"bytes of shared memory for blocks.*No space"):
        transfer.allocate(BLOCK * UNIT)
    assert all(store.write(make_block(number, transfer.row_bytes)) for number in range(1, 6))
    assert store.total == total < 6


def test_all_ranks_pin_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned: list[int] = []
    most = [3]

    class Runtime:
        @staticmethod
        def cudaHostRegister(address: int, size: int, flags: int) -> int:
            if len(pinned) == most[0]:
                return 2
            pinned.append(address)
            return 0

        cudaHostUnregister = staticmethod(pinned.remove)

    monkeypatch.setattr(torch.cuda, "cudart", lambda: Runtime)
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(transfers, "PART_BYTES", 1)
    pools = Pools(3, host_bytes=1 << 20)
    pools.transfer._own.device = torch.device("cuda:0")
    memory = pools.transfer.allocate(1000)
    assert len(set(pinned)) == 3, "a mapping per rank"
    del memory
    pools.run_all()
    assert not pinned
    for most[0] in range(3):
        with pytest.raises((MemoryError, RuntimeError), match="cannot pin"):
            pools.transfer.allocate(1000)
        pools.run_all()
        assert not pinned


def test_memory_returns_after_close_with_the_last_copy() -> None:
    pools = Pools(2)
    slots = np.arange(BLOCK, dtype=np.int32)
    pools.step(slots, 5)
    first, second = pools.transfer.read(slots), pools.transfer.read(slots)
    assert first is not None and second is not None
    first()
    [block] = second().blocks
    taken = os.fstat(pools.ranks.blocks).st_blocks
    pools.transfer.close()
    del first, second
    assert pools.transfer.read(slots) is None
    assert 0 < os.fstat(pools.ranks.blocks).st_blocks < taken and block.any()
    del block
    assert os.fstat(pools.ranks.blocks).st_blocks == 0


def test_a_failed_copy_of_rank_0_ends_after_the_copies_of_the_followers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pools = Pools(3, host_bytes=1 << 20)
    slots = np.arange(BLOCK, dtype=np.int32)
    pools.step(slots, 5)
    place = pools.transfer.allocate(pools.transfer.block_bytes).reshape(BLOCK, -1)
    place.fill(0)

    def fail(*args: Any) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(pools.transfer._own, "read", fail)
    with pytest.raises(torch.OutOfMemoryError):
        pools.transfer.read(slots, [place])
    own, followers = np.split(place.ravel(), [BLOCK * UNIT])
    assert not own.any() and followers.all()


def test_memory_that_cannot_be_mapped_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sgnb.engine.cache.tiers.host.ARENA_BYTES", 1 << 46)
    with pytest.raises(OptionError, match=r"for 2 ranks cannot be mapped.*\n.*smaller host_cache"):
        Pools(2, host_bytes=1 << 50)


def test_the_fingerprint_depends_on_all_ranks() -> None:
    two, three = Pools(2).ranks, Pools(3).ranks
    found = {
        group_fingerprint("a", two),
        group_fingerprint("b", two),
        group_fingerprint("a", three),
    }
    assert len(found) == 3 and all(len(each) == 64 for each in found)


def test_confirmations_of_all_followers() -> None:
    confirmations = Confirmations(2)
    (first, wait_first), (second, wait_second) = confirmations.expect(), confirmations.expect()
    confirmations.receive(2, Confirmation(second, "c", ""))
    confirmations.receive(2, Confirmation(first, "b", ""))
    confirmations.receive(1, Confirmation(first, "a", ""))
    confirmations.receive(1, Confirmation(second, None, "MemoryError: full"))
    assert wait_first() == ["a", "b"]
    with pytest.raises(RuntimeError, match="rank 1: MemoryError: full"):
        wait_second()

    third, wait_third = confirmations.expect()
    confirmations.receive(1, Confirmation(third, 1, ""))
    confirmations.end(ValueError("lost"))
    confirmations.receive(2, Confirmation(third, 1, ""))
    with pytest.raises(ValueError, match="lost"):
        wait_third()
    with pytest.raises(ValueError, match="lost"):
        confirmations.expect()
    assert Confirmations(0).expect()[1]() == []
