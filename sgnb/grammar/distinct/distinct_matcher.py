"""Matcher without repeated items of distinct arrays and without repeated names of objects."""

from __future__ import annotations

import numpy as np

from ...errors import GrammarError
from ..automaton.automaton import Automaton
from ..matcher import Mask, Matcher
from ..vocabulary import Vocabulary
from .distinct_tokens import allowed, distinct_tokens
from .json_memory import JsonMemory
from .liveness import AutomatonWalk, ByteWalk, TokenWalk, is_live, shortest_ending
from .places import Place


class DistinctMatcher:
    """`Matcher` of a grammar's texts without repeated items and names.

    Args:
        inner: matcher of the grammar, owned by the new matcher.
        root: place of the text.
        vocabulary: bytes of the tokens.
        automaton: the grammar's automaton, if any.
    """

    searches = True

    def __init__(
        self,
        inner: Matcher,
        root: Place,
        vocabulary: Vocabulary,
        automaton: Automaton | None,
    ) -> None:
        self._inner, self._automaton = inner, automaton
        self._vocabulary, self._tokens = vocabulary, distinct_tokens(vocabulary)
        self._path = [JsonMemory(root)]
        self._mask: Mask | None = None
        self._end: bytes | None = None  # result of `completion`, valid if `_end_is_known`
        self._end_is_known = False

    @property
    def state(self) -> int:
        return self._inner.state

    def accept_token(self, token: int) -> None:
        piece = self._vocabulary.pieces[token]
        is_checked = self._mask is not None and _has(self._mask, token)
        self._inner.accept_token(token)  # first: the memory takes only texts of the grammar
        memory = self._path[-1].advance(piece)
        if memory is None or not (is_checked or is_live(memory, self._walk())):
            self._inner.rollback(1)
            problem = f"token {token} ({piece!r}) repeats an item or name"
            raise GrammarError(problem, "use an allowed token")

        self._path.append(memory)
        self._mask = None
        if self._end is not None and self._end.startswith(piece):
            self._end = self._end.removeprefix(piece)
        else:
            self._end, self._end_is_known = None, False

    def prepare(self) -> None:
        self.next_token_bitmask()
        self._inner.prepare()

    def next_token_bitmask(self) -> Mask:
        if self._mask is None:
            mask = self._inner.next_token_bitmask()
            removed = self._repeating(mask)
            if removed:
                mask = mask.copy()
                ids = np.array(removed, np.uint32)
                np.bitwise_and.at(mask, ids >> 5, ~(np.uint32(1) << (ids & 31)))
                mask.flags.writeable = False
            self._mask = mask
        return self._mask

    def _repeating(self, mask: Mask) -> list[int]:
        """Return the tokens of `mask` after which an item or name repeats."""
        memory, tokens = self._path[-1], self._tokens
        removed = [token for ids in tokens.ending(memory) for token in allowed(ids, mask)]
        checked = set(tokens.structural(memory).allowed(mask))
        if not memory.is_open:
            checked.update(token for token in tokens.repeating(memory) if _has(mask, token))
        walk = None

        for token in checked.difference(removed):
            piece = self._vocabulary.pieces[token]
            after = memory.advance(piece)
            if after is not None and not after.is_safe:
                walk = walk or self._walk()
                walk.push(piece)
                after = after if is_live(after, walk) else None
                walk.pop()
            if after is None:
                removed.append(token)
        return removed

    def _walk(self) -> ByteWalk:
        if self._automaton is not None:
            return AutomatonWalk(self._automaton, self._inner.state)
        return TokenWalk(self._inner.fork(), self._vocabulary)

    def find_jump_forward_string(self) -> bytes:
        return self._inner.find_jump_forward_string()

    def distance(self) -> int | None:
        end = self.completion()
        return None if end is None else len(end)

    def completion(self) -> bytes | None:
        if not self._end_is_known:
            self._end = shortest_ending(self._path[-1], self._walk())
            self._end_is_known = True
        return self._end

    def is_idle(self, tokens: int) -> bool:
        return False

    def labels(self, data: bytes = b"") -> tuple[str, ...]:
        return self._inner.labels(data)

    def rollback(self, tokens: int) -> None:
        self._inner.rollback(tokens)
        if tokens:
            del self._path[-tokens:]
            self._mask = None
            self._end, self._end_is_known = None, False

    def fork(self) -> DistinctMatcher:
        twin: DistinctMatcher = object.__new__(DistinctMatcher)
        twin.__dict__.update(self.__dict__)
        twin._inner, twin._path = self._inner.fork(), self._path.copy()
        return twin

    @property
    def is_final(self) -> bool:
        return self._inner.is_final

    @property
    def finished(self) -> bool:
        return self.is_final and not self.next_token_bitmask().any()


def _has(mask: Mask, token: int) -> bool:
    return bool(mask[token >> 5] >> np.uint32(token & 31) & np.uint32(1))
