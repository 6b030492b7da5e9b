"""Work for the cache between the steps: loads and copies of the tiers, and splices."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..cache.part_extents import StoredKeys
from ..cache.tiers.blocks import block_keys
from ..cache.tiers.stored_prefixes import guarded
from ..cache.tiers.tiers import CacheTiers
from ..request.batch import Batch
from ..scheduler import Scheduler
from .command_thread import Command
from .splice_work import SpliceWork


class TierWork:
    """Work of the cache tiers on the engine's thread. Does nothing for an engine without tiers.

    Args:
        tiers: Cache tiers, or None. Also an attribute.
        scheduler: Scheduler, which waits for loads.
        send: Runs a command on the engine's thread soon.
        splices: Work for approximate requests. Also an attribute.
    """

    def __init__(
        self,
        tiers: CacheTiers | None,
        scheduler: Scheduler,
        send: Callable[[Command], None],
        splices: SpliceWork,
    ) -> None:
        self.tiers, self._scheduler, self.splices = tiers, scheduler, splices
        if tiers is not None:
            splices.costs = tiers.costs  # one estimate for both
            scheduler.loads = tiers
            tiers.run = lambda work: send(partial(self._run, work))

    def _run(self, work: Command) -> None:
        work()
        self._scheduler.retry_blocked()

    def __bool__(self) -> bool:
        """True if requests may wait for a load."""
        return self.tiers is not None and self.tiers.loading

    @property
    def patience(self) -> float | None:
        """Seconds to wait for a command before `idle`; None: without limit."""
        waits = [self._copy_patience, self.splices.verifier.patience]
        return min([seconds for seconds in waits if seconds is not None], default=None)

    @property
    def _copy_patience(self) -> float | None:
        waits = self.tiers is None or self._scheduler.has_work  # the end of a load is a command
        return None if waits or self.tiers is None else self.tiers.copies.patience

    def idle(self) -> None:
        """Use the time without requests: copies, see `BlockCopies.idle`, and comparisons of
        approximate answers."""
        if self._copy_patience == 0 and self.tiers is not None:
            guarded(self.tiers.copies.idle)
        self.splices.verifier.idle()

    def stepped(self, batch: Batch, seconds: float) -> None:
        """Learn from a step."""
        if batch.num_tokens > len(batch.requests):  # otherwise a decode step
            attended = float((batch.lengths * (batch.starts + batch.lengths / 2)).sum())
            self.splices.costs.observe_step(batch.num_tokens, attended, seconds)
        if self.tiers is not None:
            self.tiers.stepped()

    def note_change(self) -> None:
        """See `BlockCopies.note_change`."""
        if self.tiers is not None:
            self.tiers.copies.note_change()

    def flush(self) -> None:
        """Empty host memory."""
        if self.tiers is not None:
            self.tiers.flush()
            self._scheduler.retry_blocked()

    def adopt_weights(self) -> None:
        """Serve the blocks of changed weights only."""
        self.splices.verifier.give_up("the weights changed")
        if self.tiers is not None:
            self.tiers.adopt_weights()

    def prefetch(self, tokens: Any) -> int:
        """See `Engine.prefetch`."""
        return 0 if self.tiers is None else self.tiers.prefetch(tokens)

    def stored_keys(self) -> StoredKeys | None:
        """Return the keys of all copies; None without tiers."""
        if self.tiers is None:
            return None
        stores = self.tiers.prefixes.stores
        return StoredKeys(
            root=stores.root,
            after=lambda key, tokens: next(block_keys(key, tokens, {})),
            holds=lambda key: any(store.holds(key) for store in stores.blocks),
        )

    def statistics(self) -> dict[str, Any]:
        """See `CacheTiers.statistics`."""
        return {} if self.tiers is None else self.tiers.statistics()

    def close(self) -> None:
        """End all work."""
        self.splices.close()
        if self.tiers is not None:
            self.tiers.close()
