"""Candidate tokens for a repeated item or name, by the position of the text.

Most tokens need no check. A token without a quote stays inside a string. Outside of strings, a
token with a single quote begins a string and cannot end the string. Such tokens are checked only if
the string then begins like an earlier item or name.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ..vocabulary import Vocabulary
from .json_memory import JsonMemory

Words = NDArray[np.uint32]
Ids = NDArray[np.intp]

_OPENER = re.compile(rb'(?s)\s*"[^",]*')
_CROSSING = re.compile(rb'(?s)".*[,\]}]')
_STRING_END = re.compile(rb'(?s)(?:[^"\\]|\\.)*"')
_RESTART = re.compile(rb'(?s),.*"|\[.*,')
_WHOLE = re.compile(rb'(?s),.*"[^"]*"|\[.*,')


class TokenClass:
    """A set of tokens, stored as the nonzero words of a token mask.

    Args:
        vocabulary: bytes of the tokens.
        is_member: returns a true value for the bytes of the tokens of the set.
    """

    def __init__(self, vocabulary: Vocabulary, is_member: Callable[[bytes], object]) -> None:
        bits = np.zeros(-(-vocabulary.size // 32) * 32, np.bool_)
        bits[: vocabulary.size] = [bool(is_member(piece)) for piece in vocabulary.pieces]
        words = np.packbits(bits, bitorder="little").view(np.uint32)
        self._places = words.nonzero()[0]
        self._words = words[self._places]

    def allowed(self, mask: Words) -> list[int]:
        """Return the tokens in both the set and `mask`.

        Args:
            mask: token mask.
        """
        words = mask.take(self._places) & self._words
        used = words.nonzero()[0]
        if not len(used):
            return []
        bits = np.unpackbits(words[used].view(np.uint8), bitorder="little").nonzero()[0]
        tokens: list[int] = (self._places[used[bits >> 5]] * 32 + (bits & 31)).tolist()
        return tokens


def allowed(tokens: Ids, mask: Words) -> list[int]:
    """Select the tokens of `mask`.

    Args:
        tokens: ids of tokens.
        mask: token mask.
    """
    bits = mask.take(tokens >> 5) >> (tokens & 31).astype(np.uint32) & np.uint32(1)
    chosen: list[int] = tokens[bits != 0].tolist()
    return chosen


class DistinctTokens:
    """Classes of a vocabulary's tokens.

    Args:
        vocabulary: bytes of the tokens.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        pieces = vocabulary.pieces
        self._longest = vocabulary.longest
        order = sorted(range(len(pieces)), key=pieces.__getitem__)
        self._order = np.array(order, np.intp)
        self._sorted = [pieces[token] for token in order]
        self._inside: dict[bytes, list[int]] = {}  # tokens without a quote
        self._openers: dict[bytes, list[int]] = {}  # text after the quote -> tokens
        for token, piece in enumerate(pieces):
            if b'"' not in piece:
                self._inside.setdefault(piece, []).append(token)
            elif _OPENER.fullmatch(piece):
                self._openers.setdefault(piece.partition(b'"')[2], []).append(token)

        self._quoted = TokenClass(vocabulary, lambda piece: b'"' in piece)
        self._crossing = TokenClass(vocabulary, _CROSSING.search)  # may end an array or object
        self._restart = TokenClass(vocabulary, _RESTART.search)  # begins another item or name
        self._whole = TokenClass(vocabulary, _WHOLE.search)  # has another whole item or name
        self._closers = TokenClass(vocabulary, lambda piece: not _OPENER.fullmatch(piece))

    def structural(self, memory: JsonMemory) -> TokenClass:
        """Return the tokens to check because of their punctuation, without `ending`.

        Args:
            memory: position of the text.
        """
        if not memory.in_string:
            return self._closers if memory.begins_slot or not memory.is_open else self._whole
        if not memory.in_plain_string or not all(map(_STRING_END.fullmatch, memory.remainders())):
            return self._quoted
        if b"{" in memory.text or not (memory.is_open or memory.has_many):
            return self._crossing
        return self._whole if memory.is_open else self._restart

    def repeating(self, memory: JsonMemory) -> list[int]:
        """Return the tokens without punctuation that begin or continue a string like an earlier
        item or name, if this needs a proof.

        Args:
            memory: position of the text.
        """
        tokens = self._inside if memory.in_string else self._openers
        skipped = 0 if memory.in_string else 1
        begun = {
            remainder[skipped : skipped + length]
            for remainder in memory.remainders(unsafe=True)
            if memory.in_string or remainder.startswith(b'"')
            for length in range(min(self._longest, len(remainder)) + 1)
        }
        return [token for text in begun for token in tokens.get(text, ())]

    def ending(self, memory: JsonMemory) -> list[Ids]:
        """Return the tokens with the end of an earlier item or name, per item or name.

        Args:
            memory: position of the text.
        """
        if not memory.in_plain_string:
            return []
        ranges = [
            (bisect_left(self._sorted, text), bisect_left(self._sorted, text[:-1] + b"#"))
            for text in filter(_STRING_END.fullmatch, memory.remainders())
        ]
        return [self._order[first:last] for first, last in ranges if first < last]


_classes: WeakKeyDictionary[Vocabulary, DistinctTokens] = WeakKeyDictionary()


def distinct_tokens(vocabulary: Vocabulary) -> DistinctTokens:
    """Return the cached classes of a vocabulary's tokens.

    Args:
        vocabulary: bytes of the tokens.
    """
    classes = _classes.get(vocabulary)
    if classes is None:
        classes = _classes[vocabulary] = DistinctTokens(vocabulary)
    return classes
