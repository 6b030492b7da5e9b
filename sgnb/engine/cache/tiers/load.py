"""A load: blocks on the way from stores to KV slots, read by threads."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from ..radix import Ints, RadixNode
from .blocks import BLOCK, Bytes
from .load_plan import LoadPlan, StoredBlock
from .stored_prefixes import guarded
from .transfers import Transfer

READERS = min(16, max(4, os.cpu_count() or 4))
"""Threads that read blocks: one per core for the checksums, and at least 4 that wait for the
disk."""


class Target(NamedTuple):
    """A stored content, and the number of the block to fill; None for states."""

    stored: StoredBlock
    tokens: Ints
    block: int | None


@dataclass(eq=False)
class Load:
    """Blocks of a prompt after a cached prefix. Owns the slots, and a lock of `node`.

    Attributes:
        plan: The blocks and the states to load.
        node: End of the cached prefix.
        tokens: Prompt up to the end of the last block, int32[node.end + len(slots)].
        slots: KV slots of the blocks.
        transfer: Writes to the slots.
        state: uint8[BLOCK, row_bytes of states]; None without states.
        request: Id of the first request that waits; 0 for a prefetch.
        done: The load has ended: requests go on.
        lock: Held while a write is launched, and while the load ends: an ended load writes nothing.
        floor: Number of leading blocks that are not written any more. Without a floor of 0 the last
            blocks are read first.
        read_from, read_at: Times of the first read and of the last read content; 0 before.
    """

    plan: LoadPlan
    node: RadixNode
    tokens: Ints
    slots: Ints
    transfer: Transfer
    state: Bytes | None
    request: int
    done: bool = False
    began: float = field(default_factory=time.perf_counter)
    read: list[bool] = field(init=False)  # by target; False until read without fault
    lock: threading.Lock = field(default_factory=threading.Lock)
    floor: int = 0
    read_from: float = 0.0
    read_at: float = 0.0

    @property
    def read_seconds(self) -> float:
        """Seconds from the first read until the last content was in its slots. Excludes the queue
        behind other loads, and the wait for a running step: a computation would wait as well."""
        return (self.read_at or time.perf_counter()) - (self.read_from or self.began)

    def __post_init__(self) -> None:
        self.read = [False] * (len(self.plan.blocks) + (self.plan.state is not None))

    def start(self, readers: Executor, finished: Callable[[Load], None]) -> None:
        """Read all blocks on the threads of `readers`; the last thread calls `finished`."""
        targets = self._targets()
        size = min(self.transfer.part_blocks, -(-len(targets) // READERS))
        size = 1 if self.floor else size
        parts = [range(len(targets))[i : i + size] for i in range(0, len(targets), size)]
        if self.floor:
            parts = parts[: self.floor - 1 : -1]
        threads = min(READERS, len(parts))
        left, lock = [threads], threading.Lock()

        def work(thread: int) -> None:
            spare = cache(lambda: self.transfer.spare(size))
            try:
                self.read_from = self.read_from or time.perf_counter()
                for part in parts[thread::threads]:
                    if not self.done and part[-1] >= self.floor:  # otherwise nobody needs it
                        some = {i: targets[i] for i in part}
                        guarded(partial(self._fill, some, spare))
            finally:
                with lock:
                    left[0] -= 1
                    is_last = not left[0]

                if is_last:
                    finished(self)

        for thread in range(threads):
            readers.submit(work, thread)

    def _fill(self, part: Mapping[int, Target], spare: Callable[[], Sequence[Bytes]]) -> None:
        """Read a part and write the part to its slots. spare: memory for a part of blocks."""
        with ExitStack() as opened:
            filled, contents = list[int](), list[Bytes]()
            for place, (i, target) in enumerate(part.items()):
                (store, key, parent), tokens, block = target
                memory = self._state if block is None else partial(_at, spare, place)
                content = opened.enter_context(store.open(key, parent, tokens, memory))
                if content is None:
                    continue
                if block is None:
                    np.copyto(self._state(), content)
                    self.read[i], self.read_at = True, time.perf_counter()
                else:
                    filled.append(i)
                    contents.append(content)

            with self.lock:
                if self.done or not filled or filled[0] < self.floor:
                    return
                slots = self.slots.reshape(-1, BLOCK)[filled].ravel()
                wait = self.transfer.write(slots, contents)
            wait()
            for i in filled:
                self.read[i] = True
            self.read_at = time.perf_counter()

    def _state(self) -> Bytes:
        assert self.state is not None
        return self.state

    def _targets(self) -> list[Target]:
        plan = self.plan
        tokens = plan.prompt.tokens[: plan.end * BLOCK].reshape(-1, BLOCK)
        targets = [Target(each, tokens[plan.first + i], i) for i, each in enumerate(plan.blocks)]
        if plan.state is not None:
            targets.append(Target(plan.state, tokens[-1], None))
        return targets

    @property
    def num_tokens(self) -> int:
        """Number of leading slots that may be given to the tree: at an end that the plan permits,
        with states all or none."""
        if self.state is not None:
            return len(self.slots) if all(self.read) else 0
        complete = int(np.argmin([*self.read, False]))
        return BLOCK * max((end for end in self.plan.ends if end <= complete), default=0)

    @property
    def complete_from(self) -> int:
        """Number of the first block from which all blocks were read without fault."""
        return len(self.read) - int(np.argmin([*reversed(self.read), False]))

    @property
    def complete(self) -> bool:
        """True if everything was read without fault."""
        return all(self.read)


def _at(spare: Callable[[], Sequence[Bytes]], place: int) -> Bytes:
    return spare()[place]
