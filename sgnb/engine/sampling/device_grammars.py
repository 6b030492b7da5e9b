"""Grammars on the device: the token bitmask of each row's state, and its state after a token.
Needs triton.

Nothing comes back to the host, so that all can be part of a CUDA graph: the automata's tables and
the bytes of the vocabulary lie in tensors of fixed size and address. The mask of a state is found
by walking through the bytes of every token; it is cached, and the next time only copied. Knows no
requests and no sampler.
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
"""Memory for cached masks: one bit for each token and state."""


class _Kept(NamedTuple):
    """An automaton in the table."""

    automaton: Automaton  # referenced to keep the id unique
    first: int  # first row; the states are rows first .. first + size
    size: int
    users: int


class DeviceGrammars:
    """The tables of several grammars, and a vocabulary, on one device.

    States of all grammars are rows of one table, so that a row's state says which grammar it has.
    State 0 is dead, in all of them; state s of the automaton that `acquire` gave the offset o is
    o + s. Negative ones belong to no grammar here (`step_input.UNCONSTRAINED`). Grammars take
    the lowest place that is free.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        ends: Collection[int],
        device: torch.device | str,
        capacity: int = 65_536,
    ) -> None:
        """ends: the tokens that end a sequence, allowed in final states only. capacity: states of
        all grammars, at most 2**23 - 1, so that int32 can number the entries of the table."""
        pieces, words = vocabulary.pieces, triton.cdiv(vocabulary.size, BLOCK) * WORDS.value
        kept = min(capacity, MASK_BYTES // (4 * words))
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
        self.table = zeros(capacity, 256)  # the next state by byte; 1 KB a state, one load a byte
        self.final = zeros(capacity, dtype=torch.uint8)
        self.text = on_device(text)  # uint8, the bytes of all tokens
        self.offsets = on_device(offsets)  # int32[size], where each token begins
        self.heads = on_device(heads)  # int64[size], its first eight bytes, the first one lowest
        self.lengths = on_device(lengths)  # int32[size], in bytes; -1 for tokens that end
        self.masks = zeros(
            kept, words
        )  # of states below `kept`; token i: bit i % 32 of word i // 32
        self.progress = zeros(kept, dtype=torch.uint8)  # what is known of each mask
        self._kept: dict[
            int, _Kept
        ] = {}  # by the automaton's id; without users: longest unused first

    @property
    def used(self) -> int:
        """States of grammars that somebody uses."""
        return sum(kept.size for kept in self._kept.values() if kept.users)

    def acquire(self, automaton: Automaton) -> int | None:
        """The automaton's offset, until `release`; None when it does not fit beside those in use.

        Grammars without users stay until their room is needed, the longest unused go first. New
        tables are written in the order of the current stream, after the steps that were launched
        before.
        """
        kept = self._kept.pop(id(automaton), None)
        if kept is None:
            count = len(automaton.table) - 1
            first = self._make_room(count)
            if first is None:
                return None
            self._write(automaton, first)
            kept = _Kept(automaton, first, count, 0)
        self._kept[id(automaton)] = kept._replace(users=kept.users + 1)
        return kept.first - 1

    def release(self, offset: int) -> None:
        """One user less of the grammar at `offset`. ValueError when it has none."""
        for key, kept in self._kept.items():
            if kept.first == offset + 1 and kept.users:
                del self._kept[key]
                self._kept[key] = kept._replace(users=kept.users - 1)
                return
        raise ValueError(f"no grammar in use has the offset {offset}")

    def _make_room(self, count: int) -> int | None:
        """Where `count` states are free, once grammars without users have gone if need be; none
        goes in vain."""
        left = dict(self._kept)
        for gone in (None, *(key for key, kept in self._kept.items() if not kept.users)):
            if gone is not None:
                del left[gone]
            first = _gap(left, count, len(self.table))
            if first is not None:
                self._kept = left
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
        """Which tokens a row's state allows: 1 or 0 in every column; rows with a negative state
        stay as they are.

        states: int32[rows]. out: uint8 [rows, columns], columns next to each other; none beyond the
        vocabulary is allowed. With fewer columns than the vocabulary has, no masks are kept.
        """
        rows, columns = out.shape
        kept = len(self.masks) if columns >= self.size else 0
        if rows:
            launch(
                mask_kernel.allow, (rows, triton.cdiv(columns, BLOCK)), out, out.stride(0),
                columns, states, self.table, self.final, self.text, self.offsets, self.heads,
                self.lengths, self.size, self.masks, self.masks.shape[1], self.progress, kept,
                BLOCK=BLOCK, num_warps=1,
            )  # fmt: skip

    def advance_(self, states: Tensor, tokens: Tensor) -> None:
        """Move every row's state on by its token, in place: to 0 when the token is forbidden.

        states: int32[rows]; negative ones stay, and so does a final state at a token that ends the
        sequence. tokens: int64[rows]. The masks that `allowed` wrote for these states are whole
        now, and kept.
        """
        if len(states):
            launch(
                mask_kernel.advance, (len(states),), states, tokens, self.table, self.final,
                self.text, self.offsets, self.lengths, self.size, self.progress, len(self.masks),
                num_warps=1,
            )  # fmt: skip


def _gap(kept: dict[int, _Kept], count: int, capacity: int) -> int | None:
    """The first place for `count` states between the grammars; state 0 is taken."""
    end = 1
    for first, length in sorted((k.first, k.size) for k in kept.values()):
        if first - end >= count:
            return end
        end = first + length
    return end if capacity - end >= count else None
