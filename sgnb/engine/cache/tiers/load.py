"""A load: blocks on the way from stores to KV slots, read by threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..radix import Ints, Node
from .blocks import BLOCK, Bytes
from .load_plan import LoadPlan, StoredBlock

READERS = 4
"""Threads that read blocks."""


class Target(NamedTuple):
    """A stored content and the memory to fill."""

    stored: StoredBlock
    tokens: Ints
    out: Bytes  # uint8[BLOCK, row_bytes of the payload]


@dataclass(eq=False)
class Load:
    """Blocks of a prompt after a cached prefix. Owns the slots, and a lock of `node`.

    Attributes:
        plan: The blocks and the states to load.
        node: End of the cached prefix.
        tokens: Prompt up to the end of the last block, int32[node.end + len(slots)].
        slots: KV slots of the blocks.
        content: uint8[len(slots), unit_bytes].
        state: uint8[1, unit_bytes of a state]; None without states.
        request: Id of the first request that waits; 0 for a prefetch.
        done: The load has ended: requests go on.
    """

    plan: LoadPlan
    node: Node
    tokens: Ints
    slots: Ints
    content: Bytes
    state: Bytes | None
    request: int
    done: bool = False
    began: float = field(default_factory=time.perf_counter)
    ended: float = 0.0  # of the reads
    read: list[bool] = field(default_factory=list)  # by target; False until read without fault

    def start(self, readers: Executor, finished: Callable[[Load], None]) -> None:
        """Read all blocks on the threads of `readers`; the last thread calls `finished`."""
        targets = self._targets()
        self.read = [False] * len(targets)
        parts = min(READERS, len(targets))
        left, lock = [parts], threading.Lock()

        def work(part: int) -> None:
            try:
                for i in range(part, len(targets), parts):
                    if not self.done:  # otherwise cancelled
                        (store, key, parent), tokens, out = targets[i]
                        self.read[i] = store.read(key, parent, tokens, out)
            finally:
                with lock:
                    left[0] -= 1
                    is_last = not left[0]

                if is_last:
                    self.ended = time.perf_counter()
                    finished(self)

        for part in range(parts):
            readers.submit(work, part)

    def _targets(self) -> list[Target]:
        plan = self.plan
        content = self.content.reshape(len(plan.blocks), BLOCK, self.content.shape[1])
        tokens = plan.prompt.tokens[: plan.end * BLOCK].reshape(-1, BLOCK)
        targets = [
            Target(block, tokens[plan.first + i], content[i]) for i, block in enumerate(plan.blocks)
        ]
        if plan.state is not None and self.state is not None:
            targets.append(Target(plan.state, tokens[-1], self.state.reshape(BLOCK, -1)))
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
    def complete(self) -> bool:
        """True if everything was read without fault."""
        return all(self.read)
