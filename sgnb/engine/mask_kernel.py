"""Token masks on the device: one kernel masks the logits of all rows, one advances their states. Needs triton.

Nothing comes back to the host, so that both can be part of a CUDA graph: the tables of the grammars and the bytes of
the vocabulary lie in tensors of fixed size and place. Knows no requests and no sampler. With TRITON_INTERPRET=1 set
before triton is imported, the kernels run on the CPU.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from ..errors import GrammarError
from ..grammar.automaton.automaton import Automaton
from ..grammar.vocabulary import Vocabulary

UNCONSTRAINED = -1
"""The state of a row without a grammar."""

BLOCK = 256
"""Tokens that one program masks. They take as long as the longest of them; few tokens are longer than 20 bytes."""


class DeviceGrammars:
    """The tables of several grammars, and a vocabulary, on one device.

    States of all grammars are rows of one table, so that a row's state says which grammar it has. State 0 is dead, in
    all of them; state s of the automaton that `add` gave the offset o is o + s.

    table: int32[capacity, 256], the next state by byte; 1 KB a state, for one load a byte. final: uint8[capacity].
    text: uint8, the bytes of all tokens; offsets: int32[size + 1], where each begins. ends: uint8[size], 1 for tokens
    that end the sequence.
    """

    def __init__(
        self, vocabulary: Vocabulary, ends: Collection[int], device: torch.device | str, capacity: int = 65_536
    ) -> None:
        """ends: the tokens that end a sequence, allowed in final states only. capacity: states of all grammars, at most
        2**23 - 1, so that int32 can number the entries of the table."""
        lengths = np.fromiter(map(len, vocabulary.pieces), np.int64, vocabulary.size)
        offsets = np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths).astype(np.int32)])
        text = np.frombuffer(b"".join(vocabulary.pieces) or b"\0", np.uint8)
        self.size = vocabulary.size
        self.used = 1
        self.table = torch.zeros(capacity, 256, dtype=torch.int32, device=device)
        self.final = torch.zeros(capacity, dtype=torch.uint8, device=device)
        self.text = torch.from_numpy(text.copy()).to(device)
        self.offsets = torch.from_numpy(offsets).to(device)
        self.ends = torch.zeros(self.size, dtype=torch.uint8, device=device)
        self.ends[list(ends)] = 1

    def add(self, automaton: Automaton) -> int:
        """Copy the automaton's table to the device and return its offset. GrammarError when the table is full."""
        first, last = self.used, self.used + len(automaton.table) - 1
        if last > len(self.table):
            raise GrammarError(
                f"a grammar of {last - first} states does not fit beside the {first} of {len(self.table)} in use",
                "make DeviceGrammars with a larger capacity",
            )
        targets = automaton.table[1:].take(automaton.classes, axis=1)
        rows = np.where(targets != 0, targets + (first - 1), 0).astype(np.int32)
        self.table[first:last] = torch.from_numpy(rows)
        self.final[first:last] = torch.from_numpy(automaton.final[1:].astype(np.uint8))
        self.used = last
        return first - 1

    def mask_(self, logits: Tensor, states: Tensor) -> None:
        """Set the logits of tokens that a row's state forbids to -inf, in place.

        logits: float [rows, columns], columns next to each other; columns beyond the vocabulary are forbidden too.
        states: int32[rows], `UNCONSTRAINED` for rows to leave as they are; not changed.
        """
        rows, columns = logits.shape
        if rows == 0:
            return
        _mask[(rows, triton.cdiv(columns, BLOCK))](
            logits, logits.stride(0), columns, states, self.table, self.final, self.text, self.offsets, self.ends,
            self.size, BLOCK=BLOCK,
        )  # fmt: skip

    def advance_(self, states: Tensor, tokens: Tensor) -> None:
        """Move every row's state on by its token, in place: to 0 when the token is forbidden.

        states: int32[rows]; `UNCONSTRAINED` stays, and so does a final state at a token that ends the sequence.
        tokens: int64[rows].
        """
        if len(states):
            _advance[(len(states),)](
                states, tokens, self.table, self.final, self.text, self.offsets, self.ends, self.size
            )


@triton.jit
def _mask(
    logits: tl.tensor,
    stride: tl.tensor,
    columns: tl.tensor,
    states: tl.tensor,
    table: tl.tensor,
    final: tl.tensor,
    text: tl.tensor,
    offsets: tl.tensor,
    ends: tl.tensor,
    size: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    row = tl.program_id(0)
    start = tl.load(states + row)
    if start >= 0:
        token = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        known = token < size
        place = tl.load(offsets + token, mask=known, other=0)
        stop = tl.load(offsets + token + 1, mask=known, other=0)
        state = tl.where(place < stop, start, 0)
        walking = (place < stop) & (state > 0)
        while tl.max(walking.to(tl.int32), axis=0) > 0:
            byte = tl.load(text + place, mask=walking, other=0).to(tl.int32)
            state = tl.where(walking, tl.load(table + state * 256 + byte, mask=walking, other=0), state)
            place += 1
            walking = (place < stop) & (state > 0)
        is_end = tl.load(ends + token, mask=known, other=0) > 0
        is_final = tl.load(final + start) > 0
        allowed = tl.where(is_end, is_final, state > 0)
        # Of float32 also for other logits: `store` converts, and the interpreter makes no constants of bfloat16.
        forbidden = tl.full([BLOCK], float("-inf"), tl.float32)
        tl.store(logits + row.to(tl.int64) * stride + token, forbidden, mask=(token < columns) & (allowed == 0))


@triton.jit
def _advance(
    states: tl.tensor,
    tokens: tl.tensor,
    table: tl.tensor,
    final: tl.tensor,
    text: tl.tensor,
    offsets: tl.tensor,
    ends: tl.tensor,
    size: tl.tensor,
) -> None:
    row = tl.program_id(0)
    state = tl.load(states + row)
    token = tl.load(tokens + row)
    if state >= 0:
        if token >= size:
            state = 0
        elif tl.load(ends + token) > 0:
            state = tl.where(tl.load(final + state) > 0, state, 0)
        else:
            place = tl.load(offsets + token)
            stop = tl.load(offsets + token + 1)
            state = tl.where(place < stop, state, 0)
            while place < stop:
                state = tl.load(table + state * 256 + tl.load(text + place).to(tl.int32))
                place += 1
        tl.store(states + row, state)
