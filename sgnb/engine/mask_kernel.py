"""Grammars on the device: one kernel says which tokens each row may choose, one advances the rows' states, one takes up
where the last step ended. Needs triton.

Nothing comes back to the host, so that all can be part of a CUDA graph: the tables of the grammars and the bytes of the
vocabulary lie in tensors of fixed size and place. The mask of a state is found by walking through the bytes of every
token; it is kept, and the next time only copied. Knows no requests and no sampler. With TRITON_INTERPRET=1 set before
triton is imported, the kernels run on the CPU.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from ..grammar.automaton.automaton import Automaton
from ..grammar.vocabulary import Vocabulary
from . import sampler
from .transfer import to_device

BLOCK = 128
"""Tokens that one program looks at. They take as long as the longest of them; few tokens are longer than 20 bytes."""

WARPS = 1

MASK_BYTES = 128 << 20
"""How much memory the masks of states take that are kept: one bit for each token and state."""

_WORDS = tl.constexpr(BLOCK // 32)
_UNKNOWN, _WRITTEN, _KEPT = (tl.constexpr(i) for i in range(3))
"""What is known of a state's mask: nothing; it is written in the step that runs; every later step may copy it."""

_PREVIOUS = tl.constexpr(sampler.PREVIOUS)
_HEAD = tl.constexpr(8)
"""So many first bytes of a token come with one load."""


class _Kept(NamedTuple):
    """An automaton's states first .. first + size in the table. It is referred to, so that its identity stays its."""

    automaton: Automaton
    first: int
    size: int
    users: int


class DeviceGrammars:
    """The tables of several grammars, and a vocabulary, on one device.

    States of all grammars are rows of one table, so that a row's state says which grammar it has. State 0 is dead, in
    all of them; state s of the automaton that `acquire` gave the offset o is o + s. Negative ones belong to no grammar
    here (`sampler.UNCONSTRAINED`).

    table: int32[capacity, 256], the next state by byte; 1 KB a state, for one load a byte. final: uint8[capacity].
    text: uint8, the bytes of all tokens; offsets: int32[size], where each begins; heads: int64[size], the first eight
    bytes of each, the first one lowest. lengths: int32[size], in bytes; -1 for tokens that end the sequence.
    masks: int32[kept, words], those of the states below `kept`; bit i % 32 of word i // 32 is token i. Grammars take
    the lowest place that is free. progress: uint8[kept], what is known of each mask.
    """

    def __init__(
        self, vocabulary: Vocabulary, ends: Collection[int], device: torch.device | str, capacity: int = 65_536
    ) -> None:
        """ends: the tokens that end a sequence, allowed in final states only. capacity: states of all grammars, at most
        2**23 - 1, so that int32 can number the entries of the table."""
        lengths = np.fromiter(map(len, vocabulary.pieces), np.int32, vocabulary.size)
        text = np.frombuffer(b"".join(vocabulary.pieces) or b"\0", np.uint8)
        heads = np.array([piece[: _HEAD.value] for piece in vocabulary.pieces], f"S{_HEAD.value}").view("<i8")
        offsets = np.cumsum(lengths, dtype=np.int32) - lengths
        lengths[list(ends)] = -1
        self.size = vocabulary.size
        self.table = torch.zeros(capacity, 256, dtype=torch.int32, device=device)
        self.final = torch.zeros(capacity, dtype=torch.uint8, device=device)
        self.text, self.offsets, self.heads, self.lengths = (
            torch.from_numpy(array.copy()).to(device) for array in (text, offsets, heads, lengths)
        )
        words = triton.cdiv(vocabulary.size, BLOCK) * _WORDS.value
        kept = min(capacity, MASK_BYTES // (4 * words))
        self.masks = torch.zeros(kept, words, dtype=torch.int32, device=device)
        self.progress = torch.zeros(kept, dtype=torch.uint8, device=device)
        self._kept: dict[int, _Kept] = {}  # by the automaton's identity; those without users: longest unused first

    @property
    def used(self) -> int:
        """States of grammars that somebody uses."""
        return sum(kept.size for kept in self._kept.values() if kept.users)

    def acquire(self, automaton: Automaton) -> int | None:
        """The automaton's offset, until `release`; None when it does not fit beside those in use.

        Grammars without users stay until their room is needed, the longest unused go first. New tables are written in
        the order of the current stream, after the steps that were launched before.
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
        """Where `count` states are free, once grammars without users have gone if need be; none goes in vain."""
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
        targets = to_device(automaton.table[1:], device).int()[:, to_device(automaton.classes, device)]
        self.table[first:last] = torch.where(targets != 0, targets + (first - 1), 0)
        self.final[first:last] = to_device(automaton.final[1:].copy(), device)
        self.progress[first:last] = _UNKNOWN.value

    def allowed(self, states: Tensor, out: Tensor) -> None:
        """Which tokens a row's state allows: 1 or 0 in every column; rows with a negative state stay as they are.

        states: int32[rows]. out: uint8 [rows, columns], columns next to each other; none beyond the vocabulary is
        allowed. As many columns in every call: no more of a mask is kept.
        """
        rows, columns = out.shape
        if rows:
            _allowed[(rows, triton.cdiv(columns, BLOCK))](
                out, out.stride(0), columns, states, self.table, self.final, self.text, self.offsets, self.heads,
                self.lengths, self.size, self.masks, self.masks.shape[1], self.progress, len(self.masks),
                BLOCK=BLOCK, num_warps=WARPS,
            )  # fmt: skip

    def advance_(self, states: Tensor, tokens: Tensor) -> None:
        """Move every row's state on by its token, in place: to 0 when the token is forbidden.

        states: int32[rows]; negative ones stay, and so does a final state at a token that ends the sequence.
        tokens: int64[rows]. The masks that `allowed` wrote for these states are whole now, and kept.
        """
        if len(states):
            _advance[(len(states),)](
                states, tokens, self.table, self.final, self.text, self.offsets, self.lengths, self.size,
                self.progress, len(self.masks), num_warps=1,
            )  # fmt: skip


def _gap(kept: dict[int, _Kept], count: int, capacity: int) -> int | None:
    """The first place for `count` states between the grammars; state 0 is taken."""
    end = 1
    for first, length in sorted((k.first, k.size) for k in kept.values()):
        if first - end >= count:
            return end
        end = first + length
    return end if capacity - end >= count else None


def resume(
    ids: Tensor, tokens: Tensor, states: Tensor, last: Tensor, seats: Tensor, ids_out: Tensor, states_out: Tensor
) -> None:
    """Fill in what the host did not know yet when it wrote down a step's rows.

    ids, int32 or int64[rows]: a token, or -1 - i for tokens[i], int64. states, int32[rows]: a state, or
    `sampler.PREVIOUS` for last[seats[row]]; last: int32, seats: int32[rows]. ids_out: int32 or int64[rows], states_out:
    int32[rows]. The outputs may share memory with any of the inputs.
    """
    rows = len(ids)
    if rows:
        _resume[(1,)](
            ids, tokens, states, last, seats, ids_out, states_out, rows, BLOCK=max(32, triton.next_power_of_2(rows))
        )


@triton.jit
def _allowed(
    out: tl.tensor,
    stride: tl.tensor,
    columns: tl.tensor,
    states: tl.tensor,
    table: tl.tensor,
    final: tl.tensor,
    text: tl.tensor,
    offsets: tl.tensor,
    heads: tl.tensor,
    lengths: tl.tensor,
    size: tl.tensor,
    masks: tl.tensor,
    words: tl.tensor,
    progress: tl.tensor,
    kept: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    row = tl.program_id(0)
    start = tl.load(states + row)
    if start >= 0:
        block = tl.program_id(1)
        place = tl.arange(0, BLOCK)
        token = block * BLOCK + place
        mask = masks + start.to(tl.int64) * words + block * _WORDS
        keeps = (start < kept) & (block * BLOCK < size)
        known = tl.load(progress + start, mask=keeps, other=_UNKNOWN)
        if known == _KEPT:
            allowed = (tl.load(mask + place // 32) >> (place % 32)) & 1
        else:
            allowed = _walked(token, start, table, final, text, offsets, heads, lengths, size)
            if keeps:
                bits = allowed << (place % 32)
                for word in tl.static_range(_WORDS):
                    tl.store(mask + word, tl.sum(tl.where(place // 32 == word, bits, 0), axis=0))
                tl.store(progress + start, _WRITTEN)
        tl.store(out + row.to(tl.int64) * stride + token, allowed.to(tl.uint8), mask=token < columns)


@triton.jit
def _walked(
    token: tl.tensor,
    start: tl.tensor,
    table: tl.tensor,
    final: tl.tensor,
    text: tl.tensor,
    offsets: tl.tensor,
    heads: tl.tensor,
    lengths: tl.tensor,
    size: tl.tensor,
) -> tl.tensor:
    """Whether each token's bytes lead on from `start`, as int32."""
    known = token < size
    head = tl.load(heads + token, mask=known, other=0)
    length = tl.load(lengths + token, mask=known, other=0)
    state = tl.where(length > 0, start, 0)
    done = 0
    walking = state > 0
    while (done < _HEAD) & (tl.max(walking.to(tl.int32), axis=0) > 0):
        entry = state * 256 + (head & 255).to(tl.int32)
        state = tl.where(walking, tl.load(table + entry, mask=walking, other=0), state)
        head = head >> 8
        done += 1
        walking = (done < length) & (state > 0)
    byte = text + tl.load(offsets + token, mask=walking, other=0) + done
    while tl.max(walking.to(tl.int32), axis=0) > 0:
        entry = state * 256 + tl.load(byte, mask=walking, other=0).to(tl.int32)
        state = tl.where(walking, tl.load(table + entry, mask=walking, other=0), state)
        byte += 1
        done += 1
        walking = (done < length) & (state > 0)
    return tl.where(length < 0, tl.load(final + start) > 0, state > 0).to(tl.int32)


@triton.jit
def _advance(
    states: tl.tensor,
    tokens: tl.tensor,
    table: tl.tensor,
    final: tl.tensor,
    text: tl.tensor,
    offsets: tl.tensor,
    lengths: tl.tensor,
    size: tl.tensor,
    progress: tl.tensor,
    kept: tl.tensor,
) -> None:
    row = tl.program_id(0)
    state = tl.load(states + row)
    token = tl.load(tokens + row)
    if state >= 0:
        known = tl.load(progress + state, mask=state < kept, other=_UNKNOWN)
        tl.store(progress + state, _KEPT, mask=known == _WRITTEN)
        if token >= size:
            state = 0
        else:
            length = tl.load(lengths + token)
            if length < 0:
                state = tl.where(tl.load(final + state) > 0, state, 0)
            else:
                place = tl.load(offsets + token)
                stop = place + length
                state = tl.where(place < stop, state, 0)
                while place < stop:
                    state = tl.load(table + state * 256 + tl.load(text + place).to(tl.int32))
                    place += 1
        tl.store(states + row, state)


@triton.jit
def _resume(
    ids: tl.tensor,
    tokens: tl.tensor,
    states: tl.tensor,
    last: tl.tensor,
    seats: tl.tensor,
    ids_out: tl.tensor,
    states_out: tl.tensor,
    rows: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    row = tl.arange(0, BLOCK)
    known = row < rows
    token = tl.load(ids + row, mask=known, other=0)
    token = tl.where(token < 0, tl.load(tokens + (-1 - token), mask=known & (token < 0), other=0), token)
    state = tl.load(states + row, mask=known, other=0)
    carried = known & (state == _PREVIOUS)
    seat = tl.load(seats + row, mask=carried, other=0)
    state = tl.where(carried, tl.load(last + seat, mask=carried, other=0), state)
    tl.debug_barrier()  # all is read before anything is written: outputs may be inputs
    tl.store(ids_out + row, token, mask=known)
    tl.store(states_out + row, state, mask=known)
