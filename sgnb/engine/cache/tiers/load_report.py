"""Events about the search for a load: copies, and reasons against a load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....events import PrefixNotLoaded
from .blocks import BLOCK, BlockStore
from .copy_journal import STORED, CopyJournal
from .stored_prompt import StoredPrompt


class LoadReport:
    """Report of the search for one request.

    Args:
        journal: Receives the changes of copies.
        emit: Receives `PrefixNotLoaded` events.
        request: Id of the request; 0 for a prefetch.

    Attributes:
        num_found: Number of stored blocks.
    """

    def __init__(self, journal: CopyJournal, emit: Callable[[Any], None], request: int) -> None:
        self._journal, self._emit, self._request = journal, emit, request
        self.num_found = 0

    def found(
        self,
        prompt: StoredPrompt,
        first: int,
        sources: Sequence[BlockStore],
        stores: Sequence[BlockStore],
    ) -> None:
        """Report consecutive stored blocks of a prompt, and a lost copy of the next block.

        Args:
            prompt: The prompt.
            first: Number of the first block.
            sources: Store of each block.
            stores: All stores.
        """
        end = first + len(sources)
        self.num_found = len(sources)
        if sources:
            self._journal.name(prompt.keys[: end + 1], prompt.ids)
        for store in stores:
            keys = [
                key
                for key, source in zip(prompt.keys[first + 1 :], sources, strict=False)
                if source is store
            ]
            self._journal.change(store.name, STORED, keys)
            if end + 1 < len(prompt.keys):
                self._journal.missing(store, prompt.keys[end + 1])

    def refused(self, store: BlockStore, blocks: int, seconds: float, computing: float) -> None:
        """Report a load slower than computing. blocks: number of blocks."""
        estimates = round(seconds, 6), round(computing, 6)
        self.not_loaded(store.name, "compute", blocks * BLOCK, *estimates)

    def not_loaded(
        self, store: str, reason: str, tokens: int, seconds: float = 0.0, computing: float = 0.0
    ) -> None:
        """Report stored tokens without a load; see `PrefixNotLoaded`."""
        self._emit(PrefixNotLoaded(self._request, store, reason, tokens, seconds, computing))

    def other_weights(self, fingerprint: str, tokens: int) -> None:
        """Report files of the prompt for different weights."""
        event = PrefixNotLoaded(
            self._request, "disk", "other weights", tokens, fingerprint=fingerprint
        )
        self._emit(event)
