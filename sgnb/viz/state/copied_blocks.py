"""Copies of cached blocks in host memory and on disk, rebuilt from a log. A pure reducer.

The live page implements the same reducer (`page/copied_blocks.js`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from ...events import BlocksNamed, CopiesChanged

STORED = "stored"

PLACES = {"host": "host memory", "disk": "the disk"}
"""Stores in words."""

WHERE = {"host": "in host memory", "disk": "on disk"}
"""Places of copies in words."""

KEPT_ABSENT = 4096
"""Blocks without copies, each with the reason, at most: the latest."""

START = 0
"""Number of the place before the first block of a prompt."""


@dataclass(slots=True)
class CopiedBlock:
    """A block of a prompt; `states` has the state and message of `CopiesChanged` by store."""

    parent: int
    tokens: tuple[int, ...]
    states: dict[str, tuple[str, str]] = field(default_factory=dict)
    children: int = 0

    @property
    def stores(self) -> list[str]:
        """Return the stores with a copy, in the order of `PLACES`."""
        return [name for name in PLACES if self.states.get(name, ("",))[0] == STORED]


class CopiedBlocks:
    """Blocks of one engine by number. Unknown numbers are ignored: a page starts with a part of the
    blocks.

    Attributes:
        blocks: Known blocks; parents have lower numbers.
        following: Numbers of blocks by parent and first token, the latest last.
        length: Tokens of the longest block.
    """

    def __init__(self) -> None:
        self.blocks: dict[int, CopiedBlock] = {}
        self.following = defaultdict[tuple[int, int], list[int]](list)
        self.length = 0
        self._absent: dict[int, None] = {}  # blocks without copies, the oldest first

    def named(self, event: BlocksNamed) -> None:
        length = len(event.tokens) // event.count
        parent, self.length = event.parent, max(self.length, length)
        for i in range(event.count):
            number = event.first + i
            above = self.blocks.get(parent)
            if number in self.blocks or not (parent == START or above is not None):
                return
            if above is not None:
                above.children += 1
            tokens = tuple(event.tokens[i * length : (i + 1) * length])
            self.blocks[number] = CopiedBlock(parent, tokens)
            self.following[parent, tokens[0]].append(number)
            self._absent[number] = None
            parent = number

    def changed(self, event: CopiesChanged) -> None:
        for number in event.blocks:
            block = self.blocks.get(number)
            if block is None:
                continue
            block.states[event.store] = event.state, event.message
            self._absent.pop(number, None)
            if not block.stores:
                self._absent[number] = None

        while len(self._absent) > KEPT_ABSENT:
            self._forget(next(iter(self._absent)))

    def find(self, parent: int, tokens: Sequence[int], begin: int) -> int | None:
        """Return the block after `parent` with the tokens from `begin` on, or None."""
        numbers = self.following.get((parent, tokens[begin]), ()) if begin < len(tokens) else ()
        for number in reversed(numbers):
            block = self.blocks[number].tokens
            if tuple(tokens[begin : begin + len(block)]) == block:
                return number
        return None

    def path(self, number: int) -> list[int]:
        """Return the tokens from the start of the prompt to the end of a block."""
        parts = []
        while number != START:
            parts.append(self.blocks[number].tokens)
            number = self.blocks[number].parent
        return [token for part in reversed(parts) for token in part]

    def counts(self) -> dict[str, int]:
        """Return the number of copied tokens per store with copies."""
        counts: dict[str, int] = {}
        for block in self.blocks.values():
            for name in block.stores:
                counts[name] = counts.get(name, 0) + len(block.tokens)
        return {name: counts[name] for name in PLACES if name in counts}

    def _forget(self, oldest: int) -> None:
        """Forget an absent block without following blocks, and all blocks before without further
        use."""
        del self._absent[oldest]
        number, block = oldest, self.blocks.get(oldest)
        while not (block is None or block.children or block.stores or number in self._absent):
            key = block.parent, block.tokens[0]
            del self.blocks[number]
            self.following[key].remove(number)
            if not self.following[key]:
                del self.following[key]
            number, block = block.parent, self.blocks.get(block.parent)
            if block is not None:
                block.children -= 1
