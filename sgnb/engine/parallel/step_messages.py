"""Steps as arrays of integers. A message has only changes: followers keep the KV slots and prefix
nodes of the sequences of the previous step. Knows no processes.

Nodes of the radix tree stay on rank 0. All ranks, rank 0 too, plan attention with copies of the
nodes. All ranks therefore launch the same kernels and capture the same graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..step_input import (
    UNCONSTRAINED,
    AttentionInput,
    Filters,
    LogitUse,
    Longs,
    SamplingInput,
    SequenceKey,
    StepInput,
    number_nodes,
)
from .ring import Ints

SAME, DECODE, PLAIN, CONSTRAINED, USES, SCORES = (1 << i for i in range(6))
"""Flags: the sequences of the previous step, one row per sequence; and the properties of a step
for the selection of a CUDA graph."""

NUMBERS = 6
"""Number of integers before the arrays of a message: flags; numbers of sequences, rows, sampled
rows, nodes and KV slots."""

NO_LONGS: Longs = np.empty(0, np.int64)


@dataclass(eq=False)
class NodeCopy:
    """Copy of a node of the radix tree."""

    parent: NodeCopy | None
    end: int


def _copy_nodes(parents: Sequence[int], ends: Sequence[int]) -> list[NodeCopy]:
    """Return copies of numbered nodes, the root first."""
    nodes: list[NodeCopy] = []
    for number, (parent, end) in enumerate(zip(parents, ends, strict=True)):
        nodes.append(NodeCopy(nodes[parent] if number else None, end))
    return nodes


def _copy_key(key: SequenceKey, node: NodeCopy) -> SequenceKey:
    return (key[0], key[1], node if node.parent is not None else None, key[3])


class StepWriter:
    """Encodes steps on rank 0."""

    def __init__(self) -> None:
        self._keys: Sequence[SequenceKey] = []
        self._copies: Sequence[SequenceKey] = []  # with copied nodes
        self._starts = self._lengths = NO_LONGS  # of the previous step
        self._grammar_states: Ints | None = None  # of the previous step
        self._constrained = 0
        self._numbers: tuple[int, ...] = ()
        self._head: Ints = np.empty(0, np.int32)  # array of the numbers

    def encode(self, step: StepInput) -> list[NDArray[np.integer]]:
        """Return the message of a step without items, as arrays of one dimension in the order of
        `StepReader.decode`. Replaces the nodes in `step.attention.keys` by copies."""
        attention, flags, counts = step.attention, self._graph_flags(step), (0, 0)
        parts: list[NDArray[np.integer]] = [step.tokens, attention.new_slots]
        if attention.is_decode:
            flags |= DECODE
        else:
            parts.append(attention.lengths)

        if self._continues(attention):
            flags |= SAME
        else:
            counts = self._add_sequences(attention, parts)
        attention.keys = self._copies
        self._starts, self._lengths = attention.starts, attention.lengths

        sizes = len(attention.lengths), attention.num_tokens, len(step.sampled)
        numbers = (flags, *sizes, *counts)
        if numbers != self._numbers:  # often equal; a new array takes longer
            self._numbers, self._head = numbers, np.array(numbers, np.int32)
        return [self._head, *parts]

    def _graph_flags(self, step: StepInput) -> int:
        """Return the flags for the selection of a CUDA graph."""
        sampling = step.sampling
        if sampling.grammar_states is not self._grammar_states:  # repeated steps share the array
            self._grammar_states = sampling.grammar_states
            self._constrained = CONSTRAINED * sampling.is_constrained
        flags = PLAIN * sampling.is_plain | self._constrained
        if step.uses:
            lengths = step.attention.lengths
            scores = any(use.scored and lengths[use.sequence] > 1 for use in step.uses)
            flags |= USES | SCORES * scores
        return flags

    def _continues(self, attention: AttentionInput) -> bool:
        """Return whether the sequences continue without a change since the previous step."""
        keys = attention.keys
        if keys is self._copies:
            return True  # a repeated step
        ends = self._starts + self._lengths
        return keys == self._keys and bool((attention.starts == ends).all())

    def _add_sequences(
        self, attention: AttentionInput, parts: list[NDArray[np.integer]]
    ) -> tuple[int, int]:
        """Append starts, keys, nodes, and the slots unknown to the followers. Returns the numbers
        of nodes and slots."""
        keys = attention.keys
        known_ends = self._starts + self._lengths
        known = dict(zip(self._keys, known_ends.tolist(), strict=True))
        numbers, parents, ends = number_nodes([key[2] for key in keys])
        nodes = _copy_nodes(parents, ends)
        node_of = [numbers.get(key[2], 0) for key in keys]

        slots: list[Ints] = []
        begins = attention.starts.tolist()
        for i, (key, begin) in enumerate(zip(keys, begins, strict=True)):
            is_known = known.get(key, -1) >= begin
            slots.append(attention.kv_slots[i][: 0 if is_known else begin])
            begins[i] = -1 if is_known else begin

        table = [(key[0], key[1], node, key[3]) for key, node in zip(keys, node_of, strict=True)]
        all_slots = np.concatenate(slots)
        parts += [
            attention.starts, np.array(table, np.int64).ravel(), np.array(begins),
            np.array(parents), np.array(ends), all_slots,
        ]  # fmt: skip
        self._keys = keys
        self._copies = [
            _copy_key(key, nodes[node]) for key, node in zip(keys, node_of, strict=True)
        ]
        return len(parents), len(all_slots)


class StepReader:
    """Decodes steps on a follower."""

    def __init__(self) -> None:
        self._slots: list[Ints] = []  # of each sequence; the end may be unused
        self._keys: list[SequenceKey] = []
        self._starts: Longs = NO_LONGS  # of the next step

    def decode(self, message: Ints) -> StepInput:
        """Return a step without requested logits, for `ModelRunner.follow`.

        Args:
            message: Concatenated arrays of a message, copied; more integers may follow.
        """
        at = NUMBERS
        flags, count, num_tokens, num_sampled, num_nodes, num_slots = message[:at].tolist()

        def take(size: int) -> Ints:
            nonlocal at
            at += size
            return message[at - size : at].copy()

        tokens, new_slots = take(num_tokens), take(num_tokens)
        lengths = np.ones(count, np.int64) if flags & DECODE else take(count).astype(np.int64)
        if not flags & SAME:
            self._starts = take(count).astype(np.int64)
            self._read_sequences(count, num_nodes, num_slots, take)

        starts, self._starts = self._starts, self._starts + lengths
        self._append(starts, lengths, new_slots)
        attention = AttentionInput(starts, lengths, new_slots, self._slots, self._keys)
        return StepInput(
            tokens=tokens,
            positions=attention.kv_positions,
            attention=attention,
            states=(),
            embeddings=(),
            logit_rows=NO_LONGS,
            sampled=np.arange(num_sampled),
            sampling=_unused_sampling(num_sampled, flags),
            drafts=_unused_sampling(0, PLAIN),
            uses=_unused_uses(flags, lengths),
        )

    def _read_sequences(
        self, count: int, num_nodes: int, num_slots: int, take: Callable[[int], Ints]
    ) -> None:
        """Replace the sequences. Slots of known sequences stay."""
        table, begins = take(4 * count).reshape(count, 4).tolist(), take(count).tolist()
        nodes = _copy_nodes(take(num_nodes).tolist(), take(num_nodes).tolist())
        all_slots, at = take(num_slots), 0

        known = {key[0]: slots for key, slots in zip(self._keys, self._slots, strict=True)}
        self._keys, self._slots = [], []
        for (id, version, node, reads), begin in zip(table, begins, strict=True):
            self._keys.append(_copy_key((id, version, None, bool(reads)), nodes[node]))
            if begin < 0:
                self._slots.append(known[id])
            else:
                self._slots.append(all_slots[at : at + begin])
                at += begin

    def _append(self, starts: Longs, lengths: Longs, new_slots: Ints) -> None:
        """Add the slots of a step's rows."""
        at = 0
        for i, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
            slots, end = self._slots[i], start + length
            if end > len(slots):
                longer = np.empty(end + max(64, end // 4), np.int32)
                longer[:start] = slots[:start]
                self._slots[i] = slots = longer
            slots[start:end] = new_slots[at : at + length]
            at += length


def _unused_sampling(rows: int, flags: int) -> SamplingInput:
    """Return parameters for the selection of a CUDA graph; a follower does not sample."""
    state = 0 if flags & CONSTRAINED else UNCONSTRAINED
    return SamplingInput(
        temperatures=np.zeros(rows, np.float32),
        draws=np.zeros(rows),
        grammar_states=np.full(rows, state, np.int32),
        sample_rows=np.zeros(rows, np.int32),
        filters={} if flags & PLAIN else {0: Filters(0, 1.0, 0.0)},
        adjustments={},
        masks={},
    )


def _unused_uses(flags: int, lengths: Longs) -> tuple[LogitUse, ...]:
    """Return a use of logits for the selection of a CUDA graph."""
    if not flags & USES:
        return ()
    scored = (0,) if flags & SCORES else ()
    return (
        LogitUse(
            sequence=int(lengths.argmax()), first=0, last=0, scored=scored, top=0, drafted=None,
            samples=False, exhausted=False, checks_norm=False,
        ),
    )  # fmt: skip
