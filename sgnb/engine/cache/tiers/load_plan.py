"""Choice of the blocks to load for a prompt: where the load saves the most time."""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .blocks import BLOCK, BlockStore
from .load_report import LoadReport
from .stored_prefixes import StoredPrefixes
from .stored_prompt import StoredPrompt
from .tier_costs import TierCosts

MOST_OF_BOTH = 0.7
"""Largest estimated time of computing the head of a prompt while the tail is loaded, as a part of
the time of the faster way alone: both slow each other down."""

LEAST_PART = 8
"""Least computing time of a part of a head, as a multiple of a step's constant."""

MIN_TRIAL = 4
"""Fewest blocks of a trial, a load that measures the store again; see `TierCosts.credit`."""


class StoredBlock(NamedTuple):
    """A block of a prompt, or the states at its end, that a store holds."""

    store: BlockStore
    key: bytes
    parent: bytes


class LoadPlan(NamedTuple):
    """A load that saves time. Ends are numbers of blocks."""

    prompt: StoredPrompt
    first: int  # blocks with keys and values in the tree
    blocks: Sequence[StoredBlock]  # blocks to load, from block `first` on
    state: StoredBlock | None  # states at the end; None for a model without recurrent layers
    end: int  # of the load, from the begin of the prompt on
    # The request computes the blocks before while later blocks are loaded; 0: the request waits.
    meeting: int
    ends: Sequence[int]  # numbers of `blocks` after which the load may end
    saved_tokens: int
    compute_seconds: float  # estimated time of computing these tokens

    @property
    def store(self) -> BlockStore:
        """Store of the first content."""
        source = self.blocks[0] if self.blocks else self.state
        assert source is not None
        return source.store


class LoadPlanner:
    """Finds the stored blocks of prompts, and the best end of a load.

    Args:
        prefixes: The stores.
        costs: Estimated times.
        block_bytes: Bytes of a block.
        state_bytes: Bytes of the states of recurrent layers; None without such layers.
        max_blocks: Largest number of blocks of a load.
    """

    def __init__(
        self,
        prefixes: StoredPrefixes,
        costs: TierCosts,
        block_bytes: int,
        state_bytes: int | None,
        max_blocks: int,
    ) -> None:
        self._prefixes, self._costs = prefixes, costs
        self._block_bytes, self._state_bytes = block_bytes, state_bytes
        self._max_blocks = max_blocks

    def plan(
        self,
        prompt: StoredPrompt,
        usable: int,
        held: int,
        report: LoadReport,
        may_compute: bool = False,
    ) -> LoadPlan | None:
        """Return the load that saves the most time; None if no load saves time, or a load that
        measures the store again.

        Args:
            prompt: The reusable part of a prompt.
            usable: Tokens that a request need not compute without a load.
            held: Tokens with keys and values in the tree, at least `usable`. Only recurrent layers
                need to compute again tokens that are not usable.
            report: Receives the stored blocks, and the reason why stored blocks are not loaded.
            may_compute: The first blocks may be computed while the others are loaded.
        """
        begin, first = usable // BLOCK, min(held, len(prompt.tokens)) // BLOCK
        while not prompt.permits(first * BLOCK):  # the tree may keep the tokens before `first` only
            first -= 1
        blocks = list(self._stored(prompt, first))
        report.found(prompt, first, [b.store for b in blocks], self._prefixes.stores.blocks)
        load_seconds = list(self._load_times(blocks))
        measured = self._measured(prompt, begin, first + len(blocks))

        best, saving, ends = None, 0.0, list[int]()
        trial, last = None, first + len(blocks)
        allowed = self._costs.credit_for(self._compute(begin, last, measured))
        for end, state in self._ends(prompt, begin, last):
            count = max(0, end - first)
            load = load_seconds[count]
            if state is not None and self._state_bytes is not None:
                load += self._costs.load_seconds(state.store.name, self._state_bytes)
            compute = self._compute(begin, end, measured)
            ends.append(count)
            saved = (end - begin) * BLOCK
            plan = LoadPlan(
                prompt=prompt,
                first=first,
                blocks=blocks,
                state=state,
                end=end,
                meeting=0,
                ends=ends,
                saved_tokens=saved,
                compute_seconds=compute,
            )

            if compute - load > saving:
                best, saving = plan, compute - load
            elif load - compute <= allowed and count >= MIN_TRIAL:
                trial = plan

        if may_compute and ends:
            best = self._plan_both(plan, begin, compute - saving) or best
        if best is None and trial is not None:
            best = trial
            self._costs.credit = 0.0
        if best is not None:
            best = best._replace(blocks=blocks[: max(0, best.end - first)])
            self._report_beyond(best.store, prompt, last, report)
        elif ends:
            stores = self._prefixes.stores
            store = blocks[0].store if blocks else stores.states[0]
            self._costs.refuse_load(compute)
            report.refused(store, end - begin, load, compute)
        return best

    def saves_time(self, first: int, end: int, num_bytes: int) -> bool:
        """Return whether computing the blocks from `first` to `end` takes longer than copies of
        `num_bytes` to the first store, followed by a load of the blocks."""
        store = self._prefixes.stores.blocks[0]
        num_bytes += (end - first) * self._block_bytes
        loading = self._costs.load_seconds(store.name, num_bytes)
        return loading < self._compute(first, end, 0.0)

    def _plan_both(self, plan: LoadPlan, begin: int, seconds: float) -> LoadPlan | None:
        """Return the longest load with a head that is computed meanwhile, if both together are
        faster than the better way alone.

        Args:
            plan: The longest load.
            begin: Number of blocks that need not be computed.
            seconds: Estimated time of the better way alone.
        """
        if not self._costs.knows_steps or self._state_bytes is not None:
            return None

        meeting = self.meeting(plan, begin, plan.end)
        both = self._both_seconds(plan, begin, meeting, plan.end)
        if max(both) > MOST_OF_BOTH * seconds:
            return None

        loaded = (plan.end - meeting) * BLOCK
        compute = self._compute(meeting, plan.end, 0.0)
        return plan._replace(meeting=meeting, saved_tokens=loaded, compute_seconds=compute)

    def next_part(self, plan: LoadPlan, begin: int, end: int) -> int:
        """Return the end of the blocks to compute next, from `begin` on, while the blocks before
        `end` are loaded: a part of the way to `meeting`, because times vary, unless the step
        would be short."""
        begin = max(begin, plan.first)
        meeting = self.meeting(plan, begin, end)

        middle = (begin + meeting + 1) // 2
        is_long = self._compute(begin, middle, 0.0) >= LEAST_PART * self._costs.step_seconds
        return self._permitted(plan, middle if is_long else meeting)

    def meeting(self, plan: LoadPlan, begin: int, end: int) -> int:
        """Return the block at which computing from `begin` on and loading the blocks before `end`
        meet: all blocks up to `end` are ready the soonest. At least a block is computed."""
        blocks = range(begin + 1, end + 1)

        def seconds(block: int) -> tuple[float, float]:
            return self._both_seconds(plan, begin, block, end)

        longer = bisect_left(blocks, True, key=lambda block: operator.ge(*seconds(block)))
        nearest = blocks[max(0, longer - 1) : longer + 1]
        return self._permitted(plan, min(nearest, key=lambda block: max(seconds(block))))

    def _permitted(self, plan: LoadPlan, block: int) -> int:
        """Return the first block from `block` on where a load may begin."""
        while not plan.prompt.permits(block * BLOCK):
            block += 1
        return block

    def _both_seconds(
        self, plan: LoadPlan, begin: int, meeting: int, end: int
    ) -> tuple[float, float]:
        """Return the estimated seconds of a step with the blocks up to `meeting`, and of a load of
        the blocks behind."""
        compute = self._costs.step_seconds + self._compute(begin, meeting, 0.0)
        loaded = plan.blocks[meeting - plan.first : end - plan.first]
        return compute, self._load_seconds(Counter(block.store.name for block in loaded))

    def _compute(self, begin: int, end: int, measured: float) -> float:
        """Return the estimated seconds of computing blocks. measured: see `_measured`."""
        return (end - begin) * measured or self._costs.compute_seconds(begin * BLOCK, end * BLOCK)

    def _load_times(self, blocks: Sequence[StoredBlock]) -> Iterator[float]:
        """Yield the estimated seconds of loads of the first 0, 1, 2 ... blocks."""
        counts = Counter[str]()
        yield 0.0
        for block in blocks:
            counts[block.store.name] += 1
            yield self._load_seconds(counts)

    def _load_seconds(self, counts: Counter[str]) -> float:
        """Return the estimated seconds of a load. counts: number of blocks by store."""
        return sum(
            self._costs.load_seconds(store, count * self._block_bytes)
            for store, count in counts.items()
        )

    def _stored(self, prompt: StoredPrompt, first: int) -> Iterator[StoredBlock]:
        """Yield the consecutive stored blocks from a block on."""
        for i in range(first, min(len(prompt.keys) - 1, first + self._max_blocks)):
            block = _find(self._prefixes.stores.blocks, prompt, i + 1)
            if block is None:
                break
            yield block

    def _report_beyond(
        self, store: BlockStore, prompt: StoredPrompt, last: int, report: LoadReport
    ) -> None:
        """Report the stored blocks behind the largest load."""
        end = last
        while end + 1 < len(prompt.keys) and _find(self._prefixes.stores.blocks, prompt, end + 1):
            end += 1
        if end > last:
            report.not_loaded(store.name, "pool", (end - last) * BLOCK)

    def _ends(
        self, prompt: StoredPrompt, begin: int, last: int
    ) -> Iterator[tuple[int, StoredBlock | None]]:
        """Yield the permitted ends of a load, and the states there."""
        for end in range(begin + 1, last + 1):
            if not prompt.permits(end * BLOCK):
                continue
            if self._state_bytes is None:
                yield end, None
            elif (state := _find(self._prefixes.stores.states, prompt, end)) is not None:
                yield end, state

    def _measured(self, prompt: StoredPrompt, begin: int, last: int) -> float:
        """Return the compute time of a block as the engine that computed the blocks measured it; 0
        if this engine knows better."""
        if last <= begin or self._costs.knows_steps:
            return 0.0
        block = _find(self._prefixes.stores.blocks, prompt, last)
        return 0.0 if block is None else block.store.seconds(block.key)


def _find(stores: Sequence[BlockStore], prompt: StoredPrompt, end: int) -> StoredBlock | None:
    """Return the block that ends at a number of blocks, in the fastest store with the block."""
    key = prompt.keys[end]
    store = next((store for store in stores if store.holds(key)), None)
    return None if store is None else StoredBlock(store, key, prompt.keys[end - 1])
