"""One request's place in a grammar: what may follow, what must, and the way back. Knows no model
and no scheduler."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import GrammarError
from .automaton.automaton import Automaton
from .automaton.compressed import Compressed
from .automaton.dfa import START
from .masks import TokenMasks
from .vocabulary import Vocabulary

KEPT_TEXTS = 256
"""So many shortest ways to an end are kept for each grammar, and the labels of so many texts; each
may be as long as its longest text."""

NO_LEEWAY = 2**31 - 1

Mask = NDArray[np.uint32]
"""One bit for each token: bit i % 32 of word i // 32 is token i."""


class Matcher(Protocol):
    """For one thread at a time."""

    @property
    def state(self) -> int:
        """The automaton's state; -1 for a grammar without numbered states."""

    def accept_token(self, token: int) -> None:
        """Move on by the token's bytes. GrammarError, and nothing has changed, if the grammar
        forbids it."""

    def next_token_bitmask(self) -> Mask:
        """The tokens that may follow; never special ones, never an end of sequence. Changes
        nothing; read-only."""

    def find_jump_forward_string(self) -> bytes:
        """The bytes that must follow, whatever the model wants. Changes nothing."""

    def distance(self) -> int | None:
        """How many bytes end the grammar from here, at the least; None where that is not known.
        Changes nothing."""

    def completion(self) -> bytes | None:
        """A shortest text that ends the grammar from here; None where that is not known. Changes
        nothing."""

    def is_idle(self, tokens: int) -> bool:
        """Whether there is nothing to do but to ask for a token: none is forced, some may follow,
        and at most `tokens` bytes then end the grammar. False also where that is not known. Changes
        nothing."""

    def labels(self, data: bytes = b"") -> tuple[str, ...]:
        """The parts of the pattern or schema that `data`, or without it any next byte, comes from.
        Changes nothing."""

    def rollback(self, tokens: int) -> None:
        """Undo the last `tokens` calls of `accept_token`."""

    def fork(self) -> Matcher:
        """A second matcher at the same place; from here on the two know nothing of each other."""

    @property
    def is_final(self) -> bool:
        """Whether the text may end here."""

    @property
    def finished(self) -> bool:
        """Whether it must: nothing can follow."""


class Paths:
    """What all requests of a grammar share: its automaton, what that forces, its masks, and the
    shortest ways to an end and the labels that were asked for so far. Knows no request."""

    def __init__(
        self, automaton: Automaton, compressed: Compressed, vocabulary: Vocabulary
    ) -> None:
        self.automaton, self.compressed, self.masks = (
            automaton,
            compressed,
            TokenMasks(automaton, vocabulary),
        )
        self._completions: dict[int, bytes] = {}
        self._labels: dict[tuple[int, bytes], tuple[str, ...]] = {}
        kinds = np.unique(automaton.classes[vocabulary.single_bytes])
        follows = (automaton.table[:, kinds] != 0).any(axis=1)
        chooses = ~compressed.singular & (follows | ~automaton.final)
        self.leeway = np.where(chooses, automaton.distance, NO_LEEWAY).astype(np.int32).data
        """For each state: with so many bytes left there is nothing to do but to ask for a token."""

    def completion(self, state: int) -> bytes:
        """A shortest text that ends the grammar from `state`."""
        found = self._completions.get(state)
        if found is None:
            if len(self._completions) >= KEPT_TEXTS:
                self._completions.clear()
            found = self._completions[state] = self.automaton.completion(state)
        return found

    def labels(self, state: int, data: bytes) -> tuple[str, ...]:
        """As `Matcher.labels`, from `state`."""
        found = self._labels.get((state, data))
        if found is None:
            if len(self._labels) >= KEPT_TEXTS:
                self._labels.clear()
            found = self._labels[state, data] = self._find_labels(state, data)
        return found

    def _find_labels(self, state: int, data: bytes) -> tuple[str, ...]:
        automaton = self.automaton
        found: dict[str, None] = {}
        for path in [data] if data else [bytes([byte]) for byte in automaton.next_bytes(state)]:
            here = state
            for byte in path:
                there = automaton.step(here, bytes([byte]))
                found |= dict.fromkeys(
                    automaton.labels[i] for i in automaton.sources.get((here, there), ())
                )
                here = there
        return tuple(found)


class AutomatonMatcher:
    """A path through an automaton."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._automaton, self._masks, self._leeway = paths.automaton, paths.masks, paths.leeway
        self._pieces = paths.masks.vocabulary.pieces
        self._path = [START]

    @property
    def state(self) -> int:
        return self._path[-1]

    def accept_token(self, token: int) -> None:
        piece = self._pieces[token]
        state = self._automaton.step(self._path[-1], piece) if piece else 0
        if state == 0:
            raise GrammarError(
                f"token {token} ({piece!r}) is not allowed in state {self.state}",
                f"allowed next bytes: {self._automaton.next_bytes(self.state)!r:.80}",
            )
        self._path.append(state)

    def next_token_bitmask(self) -> Mask:
        return self._masks.mask(self.state)

    def find_jump_forward_string(self) -> bytes:
        return self._paths.compressed.forced(self.state)

    def distance(self) -> int:
        return int(self._automaton.distance[self.state])

    def completion(self) -> bytes:
        return self._paths.completion(self.state)

    def is_idle(self, tokens: int) -> bool:
        return self._leeway[self._path[-1]] <= tokens

    def labels(self, data: bytes = b"") -> tuple[str, ...]:
        return self._paths.labels(self.state, data)

    def rollback(self, tokens: int) -> None:
        if not 0 <= tokens < len(self._path):
            raise GrammarError(
                f"{tokens} tokens cannot be undone", f"{len(self._path) - 1} were accepted"
            )
        del self._path[len(self._path) - tokens :]

    def fork(self) -> AutomatonMatcher:
        twin = AutomatonMatcher(self._paths)
        twin._path = list(self._path)
        return twin

    @property
    def is_final(self) -> bool:
        return bool(self._automaton.final[self.state])

    @property
    def finished(self) -> bool:
        return self.is_final and not self.is_idle(0) and not self.next_token_bitmask().any()
