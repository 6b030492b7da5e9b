"""Tokens of a jump: retokenization with the tokens before the jump, and the open tail at its end.
`Constraint` decides about the jump."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...grammar.matcher import Matcher
from ...sequences import common_length
from .output import TokenRecord
from .tokenizer import Tokenizer

RETOKENIZED = 8
"""Maximum number of last tokens retokenized with the text of a jump."""


class OpenToken(NamedTuple):
    """Drafted token at the end of a jump whose bytes are a prefix of an allowed longer token."""

    token: int
    mask: NDArray[np.uint32]  # tokens allowed in its place, see `Matcher.next_token_bitmask`
    may_end: bool  # the text may end before the token
    before: int  # grammar state before the token, then after
    after: int
    labels: tuple[str, ...]  # as in `Jumped`


class JumpWriter:
    """Writes forced text in tokens of a tokenizer. Has no state."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._pieces = tokenizer.vocabulary.pieces

    def retokenize(self, output: list[int], data: bytes) -> tuple[int, Sequence[int]]:
        """Return the number of replaced last tokens, and the tokens for their bytes plus `data`.

        Args:
            output: the last tokens that may change.
            data: text of the jump.

        If the model wrote its tokenizer's tokens, only the last token can change, and two tokens
        prove so. Otherwise retokenize the last `RETOKENIZED` tokens. A dropped token costs a row of
        a step and a new token saves a row: drop at most as many tokens as the jump adds, and at
        most len(data). The first retokenized token must stay, else earlier tokens would change too.
        If a check fails, only the last token is retokenized, to heal the boundary.
        """
        for count in (2, RETOKENIZED, 1):
            old = output[-count:]
            new = self._tokenizer.write(b"".join([self._pieces[token] for token in old]) + data)
            common = common_length(old, new)
            dropped = len(old) - common
            if dropped <= 1 or (common and dropped <= min(len(new) - len(old), len(data))):
                break
        return dropped, new[common:]

    def find_tail(
        self, matcher: Matcher, dropped: int, tokens: Sequence[int], forced: int
    ) -> list[OpenToken]:
        """Return the last of `tokens` whose bytes are a prefix of an allowed longer token, at most
        `forced` bytes: earlier bytes were chosen by the model."""
        matcher = matcher.fork()
        matcher.rollback(dropped)
        self.accept(matcher, tokens)
        tail: list[OpenToken] = []
        length, after = 0, matcher.state

        for token in reversed(tokens):
            length += len(self._pieces[token])
            if length > forced:
                break
            matcher.rollback(1)
            mask = matcher.next_token_bitmask()
            if not (mask & self._tokenizer.vocabulary.longer_than(length)).any():
                break
            labels = matcher.labels(self._pieces[token])
            tail.append(OpenToken(token, mask, matcher.is_final, matcher.state, after, labels))
            after = matcher.state

        return tail[::-1]

    def accept(self, matcher: Matcher, tokens: Sequence[int]) -> list[TokenRecord]:
        """Advance `matcher` by all of `tokens`."""
        records, text, after = [], self._tokenizer.text, matcher.state
        for token in tokens:
            before = after
            matcher.accept_token(token)
            after = matcher.state
            records.append(TokenRecord("jumped", text(token), before, after))
        return records
