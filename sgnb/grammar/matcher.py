"""Matchers: one request's state in a grammar. Knows no model and no scheduler."""

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
"""Shortest completions cached for each grammar, and as many texts' labels."""

NO_LEEWAY = 2**31 - 1

Mask = NDArray[np.uint32]
"""One bit for each token: bit i % 32 of word i // 32 is token i."""


class Matcher(Protocol):
    """For one thread at a time."""

    @property
    def state(self) -> int:
        """The automaton's state; -1 where states have no numbers."""

    @property
    def searches(self) -> bool:
        """Whether `distance` and `completion` take time, milliseconds, and are not the least."""

    def accept_token(self, token: int) -> None:
        """Advance by the token's bytes. GrammarError if it is forbidden: nothing has changed."""

    def next_token_bitmask(self) -> Mask:
        """The allowed tokens, none of them special. Changes nothing; the mask is read-only."""

    def find_jump_forward_string(self) -> bytes:
        """The bytes that must follow. Changes nothing."""

    def distance(self) -> int | None:
        """The fewest bytes that end the grammar; None if not known. Changes nothing."""

    def completion(self) -> bytes | None:
        """A shortest text that ends the grammar; None if not known. Changes nothing."""

    def is_idle(self, tokens: int) -> bool:
        """Whether only a token can be asked for: nothing is forced, something may follow, and at
        most `tokens` bytes then end the grammar. False if not known. Changes nothing."""

    def labels(self, data: bytes = b"") -> tuple[str, ...]:
        """The parts of the pattern or schema that `data` comes from; without `data`, any next byte.
        Changes nothing."""

    def rollback(self, tokens: int) -> None:
        """Undo the last `tokens` calls of `accept_token`; GrammarError if there are fewer."""

    def fork(self) -> Matcher:
        """An independent matcher at the same place. Changes nothing."""

    @property
    def is_final(self) -> bool:
        """Whether the text may end here. Changes nothing."""

    @property
    def finished(self) -> bool:
        """Whether it must: nothing can follow. Changes nothing."""


class Paths:
    """What all requests of a grammar share: its automaton in both forms, the masks, and a cache of
    completions and labels. Knows no request."""

    def __init__(
        self, automaton: Automaton, compressed: Compressed, vocabulary: Vocabulary
    ) -> None:
        self.automaton, self.compressed = automaton, compressed
        self.masks = TokenMasks(automaton, vocabulary)
        self._completions: dict[int, bytes] = {}
        self._labels: dict[tuple[int, bytes], tuple[str, ...]] = {}
        kinds = np.unique(automaton.classes[vocabulary.single_bytes])
        follows = (automaton.table[:, kinds] != 0).any(axis=1)
        chooses = ~compressed.singular & (follows | ~automaton.final)
        self.leeway = np.where(chooses, automaton.distance, NO_LEEWAY).astype(np.int32).data
        """For each state, the least `tokens` with which `Matcher.is_idle`."""

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
                labels = automaton.sources.get((here, there), ())
                found |= dict.fromkeys(automaton.labels[label] for label in labels)
                here = there
        return tuple(found)


class AutomatonMatcher:
    """A path through an automaton."""

    searches = False

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
        accepted = len(self._path) - 1
        if not 0 <= tokens <= accepted:
            raise GrammarError(f"{tokens} tokens cannot be undone", f"{accepted} were accepted")
        del self._path[accepted + 1 - tokens :]

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
