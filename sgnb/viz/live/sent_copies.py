"""Blocks with copies on a page. See `Feed`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ...events import BlocksNamed, CopiesChanged
from ..state.copied_blocks import PLACES, START, CopiedBlocks

SENT_BLOCKS = 1000
"""Maximum blocks at the start of a feed, the latest. Older blocks follow on first reference."""

Send = Callable[[Any], None]


class SentCopies:
    """Blocks of one engine on a page.

    Args:
        copies: The blocks before the first pushed record.
    """

    def __init__(self, copies: CopiedBlocks) -> None:
        self._copies = copies
        self._sent: set[int] = {START}

    def begin(self, send: Send) -> None:
        """Send the latest blocks with copies, and the state of all blocks on the page."""
        blocks = self._copies.blocks
        stored = (number for number in sorted(blocks, reverse=True) if blocks[number].stores)
        wanted: set[int] = set()
        for number in stored:
            if len(wanted) >= SENT_BLOCKS:
                break
            wanted.update(self._unsent_path(number))

        self._send_blocks(wanted, send)
        self._send_states(self._sent, send)

    def resume(self, send: Send) -> None:
        """Adapt the page after missed records."""
        gone = tuple(sorted(self._sent - self._copies.blocks.keys() - {START}))
        self._sent.difference_update(gone)
        for name in PLACES if gone else ():
            send(CopiesChanged(name, "gone", gone))
        self.begin(send)

    def push(self, event: BlocksNamed | CopiesChanged, send: Send) -> None:
        """Send the blocks of an event, before the event."""
        numbers = (event.parent,) if isinstance(event, BlocksNamed) else event.blocks
        old = {above for number in numbers for above in self._unsent_path(number)}
        self._send_blocks(old, send)
        self._send_states(old, send)
        if isinstance(event, BlocksNamed):
            self._sent.update(range(event.first, event.first + event.count))

    def _unsent_path(self, number: int) -> Iterator[int]:
        while number not in self._sent and number in self._copies.blocks:
            yield number
            number = self._copies.blocks[number].parent

    def _send_blocks(self, numbers: set[int], send: Send) -> None:
        chain: list[int] = []
        for number in sorted(numbers):
            if chain and (number, self._copies.blocks[number].parent) != (chain[-1] + 1, chain[-1]):
                self._send_chain(chain, send)
                chain = []
            chain.append(number)

        if chain:
            self._send_chain(chain, send)

    def _send_chain(self, chain: list[int], send: Send) -> None:
        """Send blocks with consecutive numbers, each after the block before."""
        blocks = [self._copies.blocks[number] for number in chain]
        tokens = tuple(token for block in blocks for token in block.tokens)
        send(BlocksNamed(chain[0], len(chain), blocks[0].parent, tokens))
        self._sent.update(chain)

    def _send_states(self, numbers: Iterable[int], send: Send) -> None:
        groups: dict[tuple[str, str, str], list[int]] = {}
        for number in sorted(numbers):
            block = self._copies.blocks.get(number)
            for store, (state, message) in block.states.items() if block is not None else ():
                groups.setdefault((store, state, message), []).append(number)

        for (store, state, message), group in groups.items():
            send(CopiesChanged(store, state, tuple(group), message))
