"""Loads of the last stored blocks of prompts, while the requests compute the blocks before.

A request starts, and its steps compute the prompt from the first uncached token on. Meanwhile
threads fill the request's own slots, the last block first. Between two steps the request skips the
loaded blocks if it has computed all tokens before. Otherwise the next part of the prompt is
computed: no request waits for a slow or damaged store. A block is either computed or loaded: the
blocks of a planned part are not written any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from typing import NamedTuple

from ..manager import CacheManager
from ..sequence import CachedSequence
from .blocks import BLOCK
from .load import Load
from .load_plan import LoadPlan, LoadPlanner
from .transfers import Transfer


class TailLoad(NamedTuple):
    """A request, and the load that fills its slots."""

    request: CachedSequence
    load: Load

    @property
    def reached(self) -> bool:
        """True if the planned part of the prompt is computed."""
        return self.request.num_computed >= self.request.split


class TailLoads:
    """Running loads for the tails of prompts. On the engine's thread.

    Args:
        cache: Owner of the slots.
        transfer: Writes to the slots.
        planner: Finds the part of a prompt to compute next.
        readers: Threads that read blocks.
    """

    def __init__(
        self, cache: CacheManager, transfer: Transfer, planner: LoadPlanner, readers: Executor
    ) -> None:
        self._cache, self._transfer = cache, transfer
        self._planner, self._readers = planner, readers
        self._tails: dict[int, TailLoad] = {}  # by request

    def __bool__(self) -> bool:
        return bool(self._tails)

    def start(self, request: CachedSequence, plan: LoadPlan) -> bool:
        """Fill the last slots of a request that starts, and plan the first part to compute. Returns
        False without blocks to load: others computed the blocks meanwhile."""
        if plan.end * BLOCK <= request.num_computed + BLOCK:
            return False

        span = slice(plan.first * BLOCK, plan.end * BLOCK)
        load = Load(
            plan=plan,
            node=self._cache.tree.root,
            tokens=request.tokens,
            slots=request.slots[span].copy(),
            transfer=self._transfer,
            state=None,
            request=request.id,
        )

        self._transfer.begin_writes()
        self._tails[request.id] = tail = TailLoad(request, load)
        self._plan_part(tail)

        try:
            load.start(self._readers, lambda load: None)
        except BaseException:  # no thread can start
            self.end(request)
            raise
        return True

    def meet(self) -> Iterator[TailLoad]:
        """Yield the tails whose load and request have met. `finish` must follow. All further
        requests compute the next part of their prompts."""
        for tail in tuple(self._tails.values()):
            if tail.reached and self._plan_part(tail):
                yield tail

    def finish(self, tail: TailLoad) -> int:
        """Give the loaded blocks to the request and to the tree. Returns the number of tokens; 0 if
        the request has computed all of them."""
        request, load = tail
        self.end(request)
        count = max(0, load.plan.end * BLOCK - request.num_computed)
        if count:
            self._cache.skip(request, count)
        return count

    def end(self, request: CachedSequence) -> None:
        """End the load of a request, if any. The request computes the rest."""
        tail = self._tails.pop(request.id, None)
        if tail is not None:
            with tail.load.lock:
                tail.load.done = True
            self._transfer.end_writes()
            request.split = 0

    def end_all(self) -> list[TailLoad]:
        """End all loads. Returns them."""
        tails = list(self._tails.values())
        for tail in tails:
            self.end(tail.request)
        return tails

    def _plan_part(self, tail: TailLoad) -> bool:
        """Plan the part of the prompt that the request computes next. Returns True if nothing is
        left to compute before the loaded blocks."""
        request, load = tail
        computed = -(-request.num_computed // BLOCK)

        with load.lock:
            loaded = load.plan.first + load.complete_from
            if loaded <= computed:
                return True
            end = self._planner.next_part(load.plan, computed, loaded)
            load.floor = end - load.plan.first

        self._transfer.end_writes()  # to blocks that are computed now
        request.split = end * BLOCK
        return False
