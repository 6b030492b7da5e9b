"""One request's place in a grammar: what may follow, what must, and the way back. Knows no model and no scheduler."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import GrammarError
from .automaton.automaton import Automaton
from .automaton.compressed import Compressed
from .automaton.dfa import START
from .masks import TokenMasks

KEPT_COMPLETIONS = 256
"""So many shortest ways to an end are kept for each grammar; each may be as long as its longest text."""

Mask = NDArray[np.uint32]
"""One bit for each token: bit i % 32 of word i // 32 is token i."""


class Matcher(Protocol):
    """For one thread at a time."""

    @property
    def state(self) -> int:
        """The automaton's state; -1 for a grammar without numbered states."""

    def accept(self, token: int) -> None:
        """Move on by the token's bytes. GrammarError, and nothing has changed, if the grammar forbids it."""

    def allowed(self) -> Mask:
        """The tokens that may follow; never special ones, never an end of sequence. Changes nothing; read-only."""

    def forced(self) -> bytes:
        """The bytes that must follow, whatever the model wants. Changes nothing."""

    def distance(self) -> int | None:
        """How many bytes end the grammar from here, at the least; None where that is not known. Changes nothing."""

    def completion(self) -> bytes | None:
        """A shortest text that ends the grammar from here; None where that is not known. Changes nothing."""

    def labels(self, data: bytes = b"") -> tuple[str, ...]:
        """The parts of the pattern or schema that `data`, or without it any next byte, comes from. Changes nothing."""

    def rollback(self, tokens: int) -> None:
        """Undo the last `tokens` calls of `accept`."""

    def fork(self) -> Matcher:
        """A second matcher at the same place; from here on the two know nothing of each other."""

    @property
    def is_final(self) -> bool:
        """Whether the text may end here."""

    @property
    def finished(self) -> bool:
        """Whether it must: nothing can follow."""


class AutomatonMatcher:
    """A path through an automaton, which it shares with all other requests of the same grammar, with its masks and with
    the shortest ways to an end that were asked for so far."""

    def __init__(
        self, automaton: Automaton, compressed: Compressed, masks: TokenMasks, completions: dict[int, bytes]
    ) -> None:
        self._automaton, self._compressed, self._masks = automaton, compressed, masks
        self._completions = completions
        self._path = [START]

    @property
    def state(self) -> int:
        return self._path[-1]

    def accept(self, token: int) -> None:
        piece = self._masks.vocabulary.pieces[token]
        state = self._automaton.step(self.state, piece) if piece else 0
        if state == 0:
            raise GrammarError(
                f"token {token} ({piece!r}) is not allowed in state {self.state}",
                f"allowed next bytes: {self._automaton.next_bytes(self.state)!r:.80}",
            )
        self._path.append(state)

    def allowed(self) -> Mask:
        return self._masks.mask(self.state)

    def forced(self) -> bytes:
        return self._compressed.forced(self.state)

    def distance(self) -> int:
        return int(self._automaton.distance[self.state])

    def completion(self) -> bytes:
        found = self._completions.get(self.state)
        if found is None:
            if len(self._completions) >= KEPT_COMPLETIONS:
                self._completions.clear()
            found = self._completions[self.state] = self._automaton.completion(self.state)
        return found

    def labels(self, data: bytes = b"") -> tuple[str, ...]:
        automaton, state = self._automaton, self.state
        found: dict[str, None] = {}
        for path in [data] if data else [bytes([byte]) for byte in automaton.next_bytes(state)]:
            here = state
            for byte in path:
                there = automaton.step(here, bytes([byte]))
                found |= dict.fromkeys(automaton.labels[i] for i in automaton.sources.get((here, there), ()))
                here = there
        return tuple(found)

    def rollback(self, tokens: int) -> None:
        if not 0 <= tokens < len(self._path):
            raise GrammarError(f"{tokens} tokens cannot be undone", f"{len(self._path) - 1} were accepted")
        del self._path[len(self._path) - tokens :]

    def fork(self) -> AutomatonMatcher:
        twin = AutomatonMatcher(self._automaton, self._compressed, self._masks, self._completions)
        twin._path = list(self._path)
        return twin

    @property
    def is_final(self) -> bool:
        return bool(self._automaton.final[self.state])

    @property
    def finished(self) -> bool:
        return self.is_final and not self.allowed().any()
