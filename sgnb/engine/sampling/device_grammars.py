"""Grammar tables on the device: token bitmasks of rows, and grammar states after a token. Needs
triton.

No result returns to the host, and all tensors have fixed sizes and addresses, so a CUDA graph can
contain the kernels. The mask of a state comes from a walk through the bytes of every token. Masks
are cached.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
import torch
import triton
from numpy.typing import NDArray
from torch import Tensor

from ...grammar.automaton.automaton import Automaton
from ...grammar.vocabulary import Vocabulary
from ..device.precompile import launch
from ..device.transfer import to_device
from . import mask_kernel
from .mask_kernel import BLOCK, HEAD, UNKNOWN, WORDS

MASK_BYTES = 128 << 20
"""Memory of cached masks: one bit per token and state."""


class _GrammarEntry(NamedTuple):
    """Automaton in the table."""

    automaton: Automaton  # referenced to keep the id unique
    first: int  # first row; the states are rows first .. first + size
    size: int
    users: int


class DeviceGrammars:
    """Tables of several grammars and of the vocabulary on a device.

    The states of all grammars are rows of one table, so a state identifies the grammar. State 0 is
    the dead state of all grammars. State s of an automaton with offset o is o + s. Rows with a
    negative state (`step_input.UNCONSTRAINED`) have no grammar. Grammars take the lowest free gap.

    Args:
        vocabulary: Bytes of the tokens.
        ends: Tokens that end a sequence, allowed in final states only.
        device: Device of the tables.
        capacity: Maximum number of states of all grammars, at most 2**23 - 1, because int32 numbers
            the entries of the table.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        ends: Collection[int],
        device: torch.device | str,
        capacity: int = 65_536,
    ) -> None:
        pieces, words = vocabulary.pieces, triton.cdiv(vocabulary.size, BLOCK) * WORDS.value
        cached = min(capacity, MASK_BYTES // (4 * words))
        lengths = np.fromiter(map(len, pieces), np.int32, vocabulary.size)
        offsets = np.cumsum(lengths, dtype=np.int32) - lengths
        lengths[list(ends)] = -1
        text = np.frombuffer(b"".join(pieces) or b"\0", np.uint8)
        heads = np.array([piece[: HEAD.value] for piece in pieces], f"S{HEAD.value}").view("<i8")

        def on_device(array: NDArray[Any]) -> Tensor:
            return torch.from_numpy(array.copy()).to(device)

        def zeros(*shape: int, dtype: torch.dtype = torch.int32) -> Tensor:
            return torch.zeros(*shape, dtype=dtype, device=device)

        self.size = vocabulary.size
        self.table = zeros(capacity, 256)  # next state by byte; 1 KB per state, one load per byte
        self.final = zeros(capacity, dtype=torch.uint8)
        self.text = on_device(text)  # uint8, the bytes of all tokens
        self.offsets = on_device(offsets)  # int32[size], first byte of each token in `text`
        self.heads = on_device(heads)  # int64[size], first eight bytes, little-endian
        self.lengths = on_device(lengths)  # int32[size], in bytes; -1 for `ends`
        # masks of states below `cached`; token i: bit i % 32 of word i // 32
        self.masks = zeros(cached, words)
        self.progress = zeros(cached, dtype=torch.uint8)  # progress of each mask
        # by the automaton's id; entries without users: least recently used first
        self._entries: dict[int, _GrammarEntry] = {}

    @property
    def used(self) -> int:
        """Number of states of grammars in use."""
        return sum(entry.size for entry in self._entries.values() if entry.users)

    def acquire(self, automaton: Automaton) -> int | None:
        """Return the automaton's offset, valid until `release`. None if the table is full of
        grammars in use.

        Grammars without users stay until their space is needed; the least recently used goes first.
        New tables are written on the current stream, after the launched steps.
        """
        entry = self._entries.pop(id(automaton), None)
        if entry is None:
            count = len(automaton.table) - 1
            first = self._make_room(count)
            if first is None:
                return None
            self._write(automaton, first)
            entry = _GrammarEntry(automaton, first, count, 0)
        self._entries[id(automaton)] = entry._replace(users=entry.users + 1)
        return entry.first - 1

    def release(self, offset: int) -> None:
        """Undo an `acquire`. Raises ValueError if no grammar in use has the offset."""
        for key, entry in self._entries.items():
            if entry.first == offset + 1 and entry.users:
                del self._entries[key]
                self._entries[key] = entry._replace(users=entry.users - 1)
                return
        raise ValueError(f"no grammar in use has the offset {offset}")

    def _make_room(self, count: int) -> int | None:
        """Return the first row of a gap of `count` states. Drops grammars without users if needed,
        and none without success."""
        remaining = dict(self._entries)
        unused = [key for key, entry in self._entries.items() if not entry.users]
        for dropped in (None, *unused):
            if dropped is not None:
                del remaining[dropped]
            first = _gap(remaining, count, len(self.table))
            if first is not None:
                self._entries = remaining
                return first
        return None

    def _write(self, automaton: Automaton, first: int) -> None:
        device, last = self.table.device, first + len(automaton.table) - 1
        by_class, classes = automaton.table[1:], to_device(automaton.classes, device)
        targets = to_device(by_class, device).int()[:, classes]
        self.table[first:last] = torch.where(targets != 0, targets + (first - 1), 0)
        self.final[first:last] = to_device(automaton.final[1:].copy(), device)
        self.progress[first:last] = UNKNOWN.value

    def allowed(self, states: Tensor, out: Tensor) -> None:
        """Write the mask of each row, 1 for an allowed token and 0 otherwise.

        Args:
            states: int32[rows]. Rows with a negative state are unchanged.
            out: uint8 [rows, columns] with contiguous columns. Columns after the vocabulary are 0.
                With fewer columns than the vocabulary, masks are not cached.
        """
        rows, columns = out.shape
        cached = len(self.masks) if columns >= self.size else 0
        if rows:
            launch(
                mask_kernel.allow, (rows, triton.cdiv(columns, BLOCK)), out, out.stride(0),
                columns, states, self.table, self.final, self.text, self.offsets, self.heads,
                self.lengths, self.size, self.masks, self.masks.shape[1], self.progress, cached,
                BLOCK=BLOCK, num_warps=1,
            )  # fmt: skip

    def advance_(self, states: Tensor, tokens: Tensor) -> None:
        """Advance the state of each row by a token, in place; a forbidden token leads to state 0.
        Marks the masks written by `allowed` for these states as complete.

        Args:
            states: int32[rows]. Negative states are unchanged, and so are final states at a token
                that ends the sequence.
            tokens: int64[rows].
        """
        if len(states):
            launch(
                mask_kernel.advance, (len(states),), states, tokens, self.table, self.final,
                self.text, self.offsets, self.lengths, self.size, self.progress, len(self.masks),
                num_warps=1,
            )  # fmt: skip


def _gap(entries: dict[int, _GrammarEntry], count: int, capacity: int) -> int | None:
    """Return the first row of a gap of `count` states; state 0 is in use."""
    end = 1
    for first, length in sorted((entry.first, entry.size) for entry in entries.values()):
        if first - end >= count:
            return end
        end = first + length
    return end if capacity - end >= count else None
