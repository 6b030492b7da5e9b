"""Followers without processes: messages of rank 0 wait in a queue per follower, and run in order at
any later time."""

from __future__ import annotations

import os
import random
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

import numpy as np
import torch

from sgnb.engine.cache.kv_cache import KVCache
from sgnb.engine.cache.slot_allocator import SlotAllocator
from sgnb.engine.cache.tiers.block_transfer import BlockTransfer
from sgnb.engine.cache.tiers.copy_commands import CopyCommand
from sgnb.engine.cache.tiers.rank_copies import RankCopies
from sgnb.engine.parallel.confirmations import Confirmation, Confirmations
from sgnb.shared_file import unnamed_file

CPU = torch.device("cpu")


class AtOnce(Executor):
    """Runs submitted work in `submit`."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        fn(*args, **kwargs)


class FakeRanks:
    """`CopyRanks` with followers that run in `work`, or in the wait for a confirmation.

    Args:
        pools: Keys and values of each follower.
        chance: Chooses the next follower.
        is_finite: See `BlockTransfer`.
    """

    def __init__(
        self, pools: list[KVCache], chance: random.Random, is_finite: Any = lambda x: (x > 0).any(1)
    ) -> None:
        self.size, self.blocks, self.pools = len(pools) + 1, unnamed_file("blocks"), pools
        self.queues = [deque[np.ndarray | Callable[[], object]]() for _ in pools]
        self.transfers = [
            BlockTransfer(SlotAllocator(pool.slots, pool), CPU, is_finite) for pool in pools
        ]
        self._chance, self._confirmations = chance, Confirmations(len(pools))
        self._copies = [self._follower(rank) for rank in range(1, self.size)]

    def _follower(self, rank: int) -> RankCopies:
        def confirm(*values: Any) -> None:
            self._confirmations.receive(rank, Confirmation(*values))

        transfer = self.transfers[rank - 1]
        copies = RankCopies(transfer, lambda: f"{rank}", rank, self.size, self.blocks, confirm)
        copies._waiter = AtOnce()  # type: ignore[assignment]
        return copies

    def __del__(self) -> None:
        os.close(self.blocks)

    def tell(self, command: CopyCommand) -> None:
        self._send(command, 0)

    def _send(self, command: CopyCommand, number: int) -> None:
        message = np.concatenate([*command.encode(number), [7, 7]]).astype(np.int32)
        for queue in self.queues:
            queue.append(message)

    def ask(self, command: CopyCommand) -> Callable[[], list[Any]]:
        number, confirmed = self._confirmations.expect()
        self._send(command, number)

        def wait() -> list[Any]:
            while number in self._confirmations._missing:
                self.work(self._chance.randrange(len(self.queues)))
            return confirmed()

        return wait

    def step(self, work: Callable[[int], object]) -> None:
        """Let each follower run a step, given its rank."""
        for rank, queue in enumerate(self.queues, 1):
            queue.append(lambda rank=rank: work(rank))  # type: ignore[misc]

    def work(self, follower: int) -> None:
        """Run the next message of a follower, if any."""
        if not self.queues[follower]:
            return
        message = self.queues[follower].popleft()
        if callable(message):
            message()
        else:
            self._copies[follower].run(message)
