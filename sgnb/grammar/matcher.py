"""Matchers: the state of a single request in a grammar. Knows no model and no scheduler."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import GrammarError
from .automaton.automaton import Automaton
from .automaton.compressed import CompressedAutomaton
from .automaton.dfa import START
from .masks import TokenMasks
from .vocabulary import Vocabulary

KEPT_TEXTS = 256
"""Cached shortest completions per grammar, and the same number of label lookups."""

NO_LEEWAY = 2**31 - 1

Mask = NDArray[np.uint32]
"""One bit per token: bit i % 32 of word i // 32 is token i."""


class Matcher(Protocol):
    """Position of a request in a grammar. Used by a single thread at a time."""

    @property
    def state(self) -> int:
        """State number of the automaton; -1 without an automaton."""

    @property
    def searches(self) -> bool:
        """True if `distance` and `completion` run a search of milliseconds and may exceed the
        minimum."""

    def accept_token(self, token: int) -> None:
        """Advance by the bytes of `token`.

        Args:
            token: id of the sampled token.

        Raises:
            GrammarError: the token is not allowed; the state is unchanged.
        """

    def prepare(self) -> None:
        """Compute mask and end of this position now; later queries only read them."""

    def next_token_bitmask(self) -> Mask:
        """Return the read-only mask of allowed tokens, none special. No side effects."""

    def find_jump_forward_string(self) -> bytes:
        """Return the bytes that every continuation starts with. No side effects."""

    def distance(self) -> int | None:
        """Return the minimum number of bytes to the end of the grammar; None if unknown. No side
        effects."""

    def completion(self) -> bytes | None:
        """Return a shortest text that completes the grammar; None if unknown. No side effects."""

    def is_idle(self, tokens: int) -> bool:
        """Return True if the next token is a free choice and `tokens` suffice for the end.

        True means: no text is forced, a continuation exists, and at most `tokens` bytes complete
        the grammar. False if unknown. No side effects.

        Args:
            tokens: remaining token budget.
        """

    def labels(self, data: bytes = b"") -> tuple[str, ...]:
        """Return the parts of the pattern or schema that produce `data`. No side effects.

        Args:
            data: bytes that follow the current position; empty stands for any next byte.
        """

    def rollback(self, tokens: int) -> None:
        """Undo the last `tokens` calls of `accept_token`.

        Args:
            tokens: number of tokens to undo.

        Raises:
            GrammarError: fewer tokens were accepted.
        """

    def fork(self) -> Matcher:
        """Return an independent matcher at the same position. No side effects."""

    @property
    def is_final(self) -> bool:
        """True if the text may end here. No side effects."""

    @property
    def finished(self) -> bool:
        """True if the text must end here because no continuation exists. No side effects."""


class Paths:
    """Data shared by all requests of a grammar: automaton, compressed automaton, masks, and cached
    completions and labels.

    Args:
        automaton: the grammar's automaton.
        compressed: compressed form of `automaton`.
        vocabulary: bytes of the tokens.
    """

    def __init__(
        self, automaton: Automaton, compressed: CompressedAutomaton, vocabulary: Vocabulary
    ) -> None:
        self.automaton, self.compressed = automaton, compressed
        self.masks = TokenMasks(automaton, vocabulary)
        self._completions: dict[int, bytes] = {}
        self._labels: dict[tuple[int, bytes], tuple[str, ...]] = {}
        kinds = np.unique(automaton.classes[vocabulary.single_bytes])
        follows = (automaton.table[:, kinds] != 0).any(axis=1)
        chooses = ~compressed.singular & (follows | ~automaton.final)
        self.leeway = np.where(chooses, automaton.distance, NO_LEEWAY).astype(np.int32).data
        """Per state: the smallest `tokens` for which `Matcher.is_idle` holds."""

    def completion(self, state: int) -> bytes:
        """Return a shortest text that completes the grammar from `state`.

        Args:
            state: number of an automaton's state.
        """
        completion = self._completions.get(state)
        if completion is None:
            if len(self._completions) >= KEPT_TEXTS:
                self._completions.clear()
            completion = self._completions[state] = self.automaton.completion(state)
        return completion

    def labels(self, state: int, data: bytes) -> tuple[str, ...]:
        """Return `Matcher.labels` from `state`.

        Args:
            state: number of an automaton's state.
            data: bytes that follow the state; empty stands for any next byte.
        """
        labels = self._labels.get((state, data))
        if labels is None:
            if len(self._labels) >= KEPT_TEXTS:
                self._labels.clear()
            labels = self._labels[state, data] = self._find_labels(state, data)
        return labels

    def _find_labels(self, state: int, data: bytes) -> tuple[str, ...]:
        automaton = self.automaton
        names: dict[str, None] = {}
        for path in [data] if data else [bytes([byte]) for byte in automaton.next_bytes(state)]:
            here = state
            for byte in path:
                there = automaton.step(here, bytes([byte]))
                labels = automaton.sources.get((here, there), ())
                names |= dict.fromkeys(automaton.labels[label] for label in labels)
                here = there
        return tuple(names)


class AutomatonMatcher:
    """Matcher that follows a path through an automaton."""

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

    def prepare(self) -> None:
        self.next_token_bitmask()

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
