"""Decisions about the stored blocks of waiting requests: load, wait for a copy, or compute."""

from __future__ import annotations

from collections.abc import Collection

from ..manager import CacheManager
from ..radix import RadixNode
from ..sequence import CachedSequence
from .load import Load
from .load_plan import LoadPlan
from .pending_copies import PendingCopies

Decision = Load | LoadPlan | bytes | int
"""`Load`: the request waits for the load. `LoadPlan`: the load starts with the request (`meeting`),
or as soon as the memory suffices. `bytes`: the request waits for the copy of the block with this
key. `int`: no load while the cached prefix has at least this number of tokens."""


class LoadDecisions:
    """Decisions by waiting request. A loaded prefix is locked until all requests that wait for the
    load have started: further loads would evict the prefix.

    Args:
        cache: Owner of the tree.
        pending: Copies on the way to the stores.
    """

    def __init__(self, cache: CacheManager, pending: PendingCopies) -> None:
        self._cache, self._pending = cache, pending
        self._decisions: dict[int, Decision] = {}  # by request
        self._kept: dict[Load, RadixNode] = {}  # locked ends of loaded prefixes

    def current(self, request: CachedSequence) -> Decision | None:
        """Return the decision of a request; None if the request has none, or an outdated one."""
        decision = self._decisions.get(request.id)
        if isinstance(decision, bytes):
            return decision if decision in self._pending else None
        if isinstance(decision, int):
            is_shorter = self._cache.look_up(request).length < decision
            return None if is_shorter else decision
        lacked_memory = isinstance(decision, LoadPlan) and not decision.meeting
        return None if lacked_memory else decision

    def note(self, request: CachedSequence, decision: Decision) -> None:
        """Replace the decision of a request."""
        self._decisions[request.id] = decision

    def forget(self, request: CachedSequence) -> Decision | None:
        """Remove and return the decision of a request that starts or ends."""
        decision = self._decisions.pop(request.id, None)
        if isinstance(decision, Load) and decision not in self._decisions.values():
            self._release(decision)
        return decision

    @property
    def awaits_copies(self) -> bool:
        """True if requests wait for copies on the way to the stores. A request whose copy has
        arrived may stand behind the first in line, and asks again only after this request."""
        decisions = self._decisions.values()
        return any(isinstance(key, bytes) and key in self._pending for key in decisions)

    def keep(self, load: Load, node: RadixNode) -> None:
        """Lock the end of a loaded prefix, if requests wait for the load."""
        if load in self._decisions.values():
            self._cache.tree.lock(node)
            self._kept[load] = node

    def cancel(self, loads: Collection[Load]) -> bool:
        """Forget the decisions for ended loads and for kept prefixes, and unlock these prefixes:
        the requests ask again. Returns False without such prefixes."""
        kept = list(self._kept)
        for request, decision in list(self._decisions.items()):
            if isinstance(decision, Load) and (decision in loads or decision in kept):
                del self._decisions[request]
        for load in kept:
            self._release(load)
        return bool(kept)

    def clear(self) -> None:
        """Forget all decisions."""
        self.cancel(())
        self._decisions.clear()

    def _release(self, load: Load) -> None:
        node = self._kept.pop(load, None)
        if node is not None:
            self._cache.tree.unlock(node)
