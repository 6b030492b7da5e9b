"""JSON texts to replay: random walks through a grammar, of words where possible, tokenized."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sgnb.errors import GrammarError
from sgnb.grammar.compiler import TokenGrammar, compile_spec
from sgnb.grammar.matcher import Matcher
from sgnb.grammar.spec import GrammarSpec
from sgnb.grammar.vocabulary import Vocabulary

LONG, LONGEST = 120, 400
"""Tokens after which a walk takes a shortest completion; where none is known, gives up."""

CLOSES, CLOSES_LONG = 0.25, 0.9
"""The probability of a token that ends strings, lists or objects, if allowed; early and late."""


class Walker:
    """Random texts of schemas."""

    def __init__(self, pieces: Sequence[bytes], seed: int = 0) -> None:
        self._vocabulary = Vocabulary(pieces)
        self._rng = random.Random(seed)
        self._closing, self._words, self._printable = (
            np.array([bool(re.fullmatch(pattern, piece)) for piece in pieces])
            for pattern in (rb'[]"},]+', rb" ?[A-Za-z]+", rb"[ -~]+")
        )

    def texts(self, schema: str, count: int) -> list[str]:
        """At most `count` of them: walks that do not end are left out. Raises GrammarError."""
        grammar = TokenGrammar(
            compile_spec(GrammarSpec("json_schema", schema, 0)), self._vocabulary
        )
        walks = (self._walk(grammar.matcher()) for _ in range(count))
        return [text.decode() for text in walks if text is not None]

    def _walk(self, matcher: Matcher) -> bytes | None:
        text = b""
        try:
            for length in range(LONGEST):
                allowed = np.unpackbits(
                    matcher.next_token_bitmask().view(np.uint8),
                    count=self._vocabulary.size,
                    bitorder="little",
                ).view(np.bool_)
                if matcher.is_final and (not allowed.any() or self._rng.random() < 0.5):
                    return text
                if length >= LONG and (end := matcher.completion()) is not None:
                    return text + end
                token = self._choose(allowed, CLOSES if length < LONG else CLOSES_LONG)
                matcher.accept_token(token)
                text += self._vocabulary.pieces[token]
        except GrammarError:
            return None
        return None

    def _choose(self, allowed: NDArray[np.bool_], closes: float) -> int:
        first = (self._closing,) if self._rng.random() < closes else ()
        for wanted in (*first, self._words, self._printable):
            found = (allowed & wanted).nonzero()[0]
            if len(found):
                return int(self._rng.choice(found))
        return int(self._rng.choice(allowed.nonzero()[0]))
