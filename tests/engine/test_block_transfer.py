"""Copies between a GPU and host memory, with fakes of CUDA's streams and memory."""

from __future__ import annotations

import gc
import threading
import weakref
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from sgnb.engine.cache.kv_cache import KVCache, LayerShape
from sgnb.engine.cache.slot_allocator import SlotAllocator
from sgnb.engine.cache.tiers import block_transfer
from sgnb.engine.cache.tiers.block_transfer import BlockTransfer
from sgnb.engine.cache.tiers.blocks import BLOCK

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
SLOTS = 3 * BLOCK + 7


class Cuda:
    """Streams and memory of a GPU. `calls`: of the streams, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.freed: list[int] = []  # threads that freed pinned memory
        self.waits: list[int] = []  # threads that waited for an event
        self.streams = 0
        self.current = Stream(self, "engine")
        empty = torch.empty

        def allocate(size: Any, device: Any = None, pin_memory: bool = False, **how: Any) -> Any:
            tensor = empty(size, **how)
            if pin_memory:
                weakref.finalize(tensor, lambda: self.freed.append(threading.get_ident()))
            return tensor

        @contextmanager
        def use(stream: Stream) -> Any:
            before, self.current = self.current, stream
            yield
            self.current = before

        def mark() -> Any:
            self.calls.append((self.current.name, "record"))
            return SimpleNamespace(synchronize=lambda: self.waits.append(threading.get_ident()))

        def create(device: torch.device) -> Stream:
            self.streams += 1
            return Stream(self, f"writes {self.streams}")

        monkeypatch.setattr(torch, "empty", allocate)
        monkeypatch.setattr(torch.cuda, "Stream", create)
        monkeypatch.setattr(torch.cuda, "stream", use)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda device: self.current)
        monkeypatch.setattr(block_transfer, "_mark", mark)


class Stream:
    def __init__(self, cuda: Cuda, name: str) -> None:
        self.cuda, self.name = cuda, name

    def wait_stream(self, other: Stream) -> None:
        self.cuda.calls.append((self.name, "waits for", other.name))

    def synchronize(self) -> None:
        self.cuda.calls.append((self.name, "synchronize"))


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Cuda:
    return Cuda(monkeypatch)


def make_transfer(device: torch.device = GPU) -> tuple[BlockTransfer, KVCache]:
    kv = KVCache({0: LayerShape(2, 3, 5), 2: LayerShape(1, 7, 4)}, SLOTS, torch.float16, CPU)
    for tensor in (*kv.keys.values(), *kv.values.values()):
        tensor.normal_()
    check = lambda units: torch.arange(len(units)) != 2  # noqa: E731
    return BlockTransfer(SlotAllocator(SLOTS, kv), device, check), kv


def test_pinned_memory_is_freed_by_the_thread_that_reads(cuda: Cuda) -> None:
    transfer, kv = make_transfer()
    ids = np.random.default_rng(3).permutation(SLOTS)[: 2 * BLOCK].astype(np.int32)
    expected = torch.zeros((2 * BLOCK, kv.unit_bytes), dtype=torch.uint8)
    kv.copy(ids, expected)
    reads = [transfer.read(ids)]
    kv.keys[0].zero_()
    seen = list[Any]()

    def work() -> None:
        blocks, finite = reads.pop()()
        view = blocks[1].reshape(BLOCK, -1)[:, : kv.unit_bytes]
        del blocks
        seen.extend([view.copy(), finite.tolist()])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    gc.collect()
    assert (seen[0] == expected[BLOCK:].numpy()).all()
    assert seen[1] == [False, True]
    assert cuda.freed == []
    wait = transfer.read(ids)
    assert cuda.freed == [threading.get_ident()] * 2
    assert (wait().blocks[1][:, : kv.unit_bytes] != expected[BLOCK:].numpy()).any()


def test_blocks_are_written_on_two_streams_in_order_with_the_engine(cuda: Cuda) -> None:
    transfer, kv = make_transfer()
    content = np.random.default_rng(5).integers(0, 256, (3, BLOCK, transfer.unit_bytes), np.uint8)
    content[..., kv.unit_bytes :] = 0
    transfer.begin_writes()
    for number, block in enumerate(content):
        ids = np.arange(number * BLOCK, (number + 1) * BLOCK, dtype=np.int32)
        transfer.write(ids, [block])()
    transfer.end_writes()
    both = ["writes 1", "writes 2"]
    assert cuda.calls == [
        *((name, "waits for", "engine") for name in both),
        *((name, "record") for name in (*both, "writes 1")),
        *(("engine", "waits for", name) for name in both),
    ]
    restored, _ = transfer.read(np.arange(3 * BLOCK, dtype=np.int32))()
    assert (np.stack(restored) == content).all()


def test_a_failed_write_ends_before_its_blocks_are_given_up(cuda: Cuda) -> None:
    transfer, _ = make_transfer()

    def fail(ids: Any, source: Any) -> None:
        cuda.calls.append(("fails",))
        raise MemoryError

    transfer._units.restore = fail  # type: ignore[method-assign]
    block = np.zeros((BLOCK, transfer.unit_bytes), np.uint8)
    with pytest.raises(MemoryError):
        transfer.write(np.arange(BLOCK, dtype=np.int32), [block])
    assert cuda.calls == [("fails",), ("writes 1", "synchronize")]


@pytest.mark.parametrize("device", [CPU, GPU])
def test_content_is_read_into_places(cuda: Cuda, device: torch.device) -> None:
    transfer, kv = make_transfer(device)
    ids = np.random.default_rng(7).permutation(SLOTS)[: 3 * BLOCK].astype(np.int32)
    expected = transfer.read(ids)()
    arena = np.full((4, BLOCK, transfer.row_bytes), 99, np.uint8)
    places = [arena[2], arena[0], arena[3]]
    wait = transfer.read(ids, places)
    kv.keys[0].zero_()
    content = wait()
    assert all(block is place for block, place in zip(content.blocks, places, strict=True))
    assert (arena[[2, 0, 3]] == np.stack(expected.blocks)).all() and (arena[1] == 99).all()
    assert content.finite.tolist() == expected.finite.tolist() == [False, True, True]


def test_the_end_waits_for_copies_to_places(cuda: Cuda) -> None:
    transfer, _ = make_transfer()
    transfer.close()
    places = [np.zeros((BLOCK, transfer.row_bytes), np.uint8)]
    transfer.read(np.arange(BLOCK, dtype=np.int32), places)
    assert cuda.waits == []
    transfer.close()
    assert cuda.waits == [threading.get_ident()]
