"""Incremental detokenization of a running request."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..cache.radix import Ints
from .tokenizer import Tokenizer

CONTEXT_TOKENS = 6
"""Number of prompt tokens decoded as context: some tokenizers drop the space before a first word.
"""


class Detokenizer:
    """Incremental detokenizer; holds back the bytes of an incomplete character."""

    def __init__(
        self, tokenizer: Tokenizer, prompt: Sequence[int] | Ints, skip_special_tokens: bool = True
    ) -> None:
        self._tokenizer = tokenizer
        self._skip = skip_special_tokens
        self._tokens: list[int] = np.asarray(prompt[-CONTEXT_TOKENS:]).tolist()
        self._start, self._read = 0, len(self._tokens)
        self._held = ""  # text of the tokens after `_read`

    def push(self, tokens: Sequence[int]) -> str:
        """Append tokens and return the newly final text."""
        self._tokens.extend(tokens)
        text = self._held = self._pending()
        # Special tokens alone give no text; keep a word in the window, or the next word loses its
        # space.
        if not text or text.endswith("\ufffd"):
            return ""
        self._start, self._read, self._held = self._read, len(self._tokens), ""
        return text

    def finish(self) -> str:
        """Return the remaining text, with U+FFFD for an incomplete character."""
        text, self._held = self._held, ""
        self._start = self._read = len(self._tokens)
        return text

    def _pending(self) -> str:
        if self._read == len(self._tokens):
            return ""
        before = self._tokenizer.decode(self._tokens[self._start : self._read], self._skip)
        whole = self._tokenizer.decode(self._tokens[self._start :], self._skip)
        return whole[len(before) :]
