"""Input of one step as arrays. Knows no requests and no tensors.

`request/step_builder.py` builds a `StepInput` from a batch. Attention, recurrent layers, sampler,
CUDA graphs and runner read its parts; `benchmarks/step_record.py` saves it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from .cache.checkpoints import StatePlan
from .cache.radix import Ints

Longs = NDArray[np.int64]
Floats = NDArray[np.float64]

SHORT = 16
"""Maximum number of tokens of a short sequence. Short sequences come first in a step, and attention
processes their tokens as rows, as in decode."""

UNCONSTRAINED, PREVIOUS = -1, -2
"""Grammar states of rows without a grammar on the device, and of rows that continue from the state
after the previous step."""


class Spans:
    """Tokens starts[i] .. ends[i] of several sequences, one sequence after the other: the rows of a
    step. Sequences with at most `SHORT` tokens come first.

    Attributes:
        starts: KV index of each sequence's first row, int64[sequences].
        lengths: Number of rows of each sequence, int64[sequences].
        num_tokens: Number of rows.
        is_decode: True if every sequence has one row.
    """

    starts: Longs
    lengths: Longs
    num_tokens: int
    is_decode: bool

    def _count_rows(self) -> None:
        self.num_tokens = int(self.lengths.sum())
        self.is_decode = self.num_tokens == len(self.lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def ends(self) -> Longs:
        return self.starts + self.lengths

    @cached_property
    def last_rows(self) -> Longs:
        """Row of each sequence's last token."""
        return self.lengths.cumsum() - 1

    @cached_property
    def first_rows(self) -> Longs:
        """Row of each sequence's first token."""
        return self.lengths.cumsum() - self.lengths

    @cached_property
    def num_short(self) -> int:
        """Number of sequences with at most `SHORT` rows (new tokens). Short sequences are first."""
        return len(self) if self.is_decode else int((self.lengths <= SHORT).sum())

    @cached_property
    def kv_positions(self) -> Longs:
        """KV index of each row in its sequence, int64[num_tokens]."""
        if self.is_decode:
            return self.starts
        return np.arange(self.num_tokens) + (self.starts - self.first_rows).repeat(self.lengths)


class PrefixNode(Protocol):
    """Node of a prefix tree. Sequences below a node share the KV of its positions."""

    @property
    def parent(self) -> PrefixNode | None:
        """Parent node; None for the root, which has no positions."""

    @property
    def end(self) -> int:
        """Position after the node's last token."""


def number_nodes(
    nodes: Sequence[PrefixNode | None],
) -> tuple[dict[PrefixNode | None, int], list[int], list[int]]:
    """Number nodes and ancestors, parents first; the root and None are 0. Returns numbers, parents
    and ends."""
    numbers: dict[PrefixNode | None, int] = {}
    parents, ends = [0], [0]

    for leaf in dict.fromkeys(nodes):
        node, path = leaf, list[PrefixNode]()
        while node is not None and node.parent is not None and node not in numbers:
            path.append(node)
            node = node.parent
        number = numbers.get(node, 0)
        for node in reversed(path):
            parents.append(number)
            ends.append(node.end)
            numbers[node] = number = len(parents) - 1
    return numbers, parents, ends


SequenceKey = tuple[int, int, PrefixNode | None, bool]
"""(id, version, deepest node, reads shared prefixes). A sequence has unchanged slots, except for
appended ones, while its key is unchanged between consecutive steps."""

NO_KEY: SequenceKey = (0, 0, None, False)


@dataclass(eq=False)
class AttentionInput(Spans):
    """Rows of a step and the KV slots of their sequences.

    Attributes:
        new_slots: KV slot written by each row, int32[num_tokens].
        kv_slots: KV slots of each sequence by KV index, at least ends[i] entries.
        keys: Key of each sequence. The same object as in the previous step only if every sequence
            continues at its end.
        whole: True for a sequence whose rows also see each other's later rows, as the patches of an
            image in some models. Empty if all sequences are causal.
    """

    starts: Longs
    lengths: Longs
    new_slots: Ints
    kv_slots: Sequence[Ints]
    keys: Sequence[SequenceKey]
    whole: Sequence[bool] = ()

    def __post_init__(self) -> None:
        self._count_rows()

    @cached_property
    def num_short(self) -> int:
        """Number of leading sequences that are causal and have at most `SHORT` rows."""
        if not any(self.whole):
            return super().num_short
        others = (self.lengths > SHORT) | np.asarray(self.whole)
        return int(others.argmax())

    @property
    def last_visible(self) -> Longs:
        """Last KV index that each row sees, int64[num_tokens]."""
        if not any(self.whole):
            return self.kv_positions
        whole = np.asarray(self.whole).repeat(self.lengths)
        return np.where(whole, (self.ends - 1).repeat(self.lengths), self.kv_positions)

    @property
    def qo_indptr(self) -> Ints:
        """First row of each sequence, and the number of rows, int32[sequences + 1]."""
        return np.append(0, self.lengths.cumsum()).astype(np.int32)

    @property
    def kv_indptr(self) -> Ints:
        """First entry of each sequence in `kv_indices`, and the number of entries,
        int32[sequences + 1]."""
        return np.append(0, self.ends.cumsum()).astype(np.int32)

    @property
    def kv_indices(self) -> list[Ints]:
        """KV slots visible to the last row of each sequence."""
        return [slots[:end] for slots, end in zip(self.kv_slots, self.ends.tolist(), strict=True)]

    @property
    def nodes(self) -> list[PrefixNode | None]:
        """Deepest node with a prefix that each sequence may read together with others."""
        return [
            # A sequence that recomputes cached tokens must not read them from the tree.
            node if node is not None and reads and node.end <= start else None
            for (_, _, node, reads), start in zip(self.keys, self.starts.tolist(), strict=True)
        ]

    def part(self, begin: int, end: int) -> AttentionInput:
        """Return the sequences begin .. end."""
        span = slice(begin, end)
        starts, lengths = self.starts[span], self.lengths[span]
        first = int(self.first_rows[begin]) if begin < len(self) else self.num_tokens
        new_slots = self.new_slots[first : first + int(lengths.sum())]
        return AttentionInput(
            starts, lengths, new_slots, self.kv_slots[span], self.keys[span], self.whole[span]
        )


class Filters(NamedTuple):
    """Truncation of a row's distribution; parameters as in `SamplingParams`."""

    top_k: int
    top_p: float
    min_p: float


class Adjustment(NamedTuple):
    """Changes of one row's logits, in order."""

    repeated: Longs  # tokens with the repetition penalty
    repetition_penalty: float
    penalized: Longs  # tokens with additive penalties
    penalties: Floats
    biased: Longs
    biases: Floats
    banned: Longs


class RowMask(NamedTuple):
    """Tokens allowed by a grammar that the host follows."""

    allowed: NDArray[np.bool_]  # [n], without end of sequence
    stop_tokens: Longs
    may_end: bool  # the stop tokens are allowed too


class SamplingInput(NamedTuple):
    """Sampling parameters, one entry per row of logits. Mappings have an entry for some rows; their
    functions are called while the device runs the model."""

    temperatures: NDArray[np.float32]
    draws: Floats  # random numbers in [0, 1)
    grammar_states: Ints  # in the device tables, UNCONSTRAINED or PREVIOUS
    sample_rows: Ints  # row of the same request among the samples of the previous step
    filters: Mapping[int, Filters]
    adjustments: Mapping[int, Callable[[], Adjustment]]
    masks: Mapping[int, Callable[[], RowMask]]  # a function that raises allows no token

    @property
    def num_rows(self) -> int:
        return len(self.temperatures)

    @property
    def is_plain(self) -> bool:
        """True if each token depends only on temperature, draw and the grammar on the device."""
        return not (self.filters or self.adjustments or self.masks)

    @property
    def is_constrained(self) -> bool:
        """True if a grammar on the device masks a row."""
        return bool((self.grammar_states != UNCONSTRAINED).any())


class LogitUse(NamedTuple):
    """Uses of one sequence's logits besides the sampled token. Rows are rows of the logits."""

    sequence: int
    first: int  # first row of the sequence
    last: int  # last row of the sequence, which follows the last token
    scored: tuple[int, ...]  # tokens after the rows from `first` on, to be scored
    top: int  # number of most likely tokens to report
    drafted: tuple[int, int] | None  # rows of `StepInput.drafts`, for the rows from `first` on
    samples: bool  # the sequence also samples a token
    exhausted: bool  # the last token is computed and none is sampled
    checks_norm: bool  # no token is wanted; the last logits are only checked for NaN


class SpanRows(Protocol):
    """Input of the text decoder for consecutive tokens, as of an image; see
    `model/decoder_rows.py`."""

    def part(self, begin: int, end: int) -> SpanRows:
        """Return the rows begin .. end."""

    @property
    def num_bytes(self) -> int:
        """Size in memory."""


class EmbeddingSpan(NamedTuple):
    """Computed rows instead of the embeddings of tokens."""

    begin: int  # first row of the step
    rows: SpanRows


class StepInput(NamedTuple):
    """Input of one step."""

    tokens: Ints  # int32[T]; -1 - sample_row for a token sampled in the previous step, not yet read
    # Rotary positions, int64[T], or int64[axes, T] if axes differ (M-RoPE). Independent of the KV
    # index of a row, `attention.kv_positions`.
    positions: Longs
    attention: AttentionInput
    states: Sequence[StatePlan]  # per sequence; empty without recurrent layers
    embeddings: Sequence[EmbeddingSpan]
    logit_rows: Longs  # rows with required logits, ascending
    sampled: Longs  # index in `logit_rows` of each sampled row
    sampling: SamplingInput  # per sampled row
    drafts: SamplingInput  # per drafted token that the model verifies
    uses: Sequence[LogitUse]
