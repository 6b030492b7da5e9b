"""A vocabulary as llguidance takes a tokenizer."""

from __future__ import annotations

from collections.abc import Sequence

EOS = 2
"""The end of sequence of the vocabulary."""


class Pieces:
    """What llguidance asks of a tokenizer."""

    is_tokenizer_wrapper = True
    bos_token_id = None
    eos_token_id = EOS

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.special_token_ids = [i for i, piece in enumerate(pieces) if not piece]
        self.tokens = [piece or b"<special %d>" % i for i, piece in enumerate(pieces)]

    def __call__(self, text: str | bytes) -> list[int]:
        """Only for forced tokens, which are not asked for."""
        return []
