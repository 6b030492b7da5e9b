"""Special tokens spelled in texts: a pattern that matches them, and an encoder that reads
special tokens as plain text. Knows no prompts."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Sequence
from typing import Any

import tokenizers

from ...errors import RequestError
from ...native_calls import native_call
from .chunks import ChunkedEncoder

SpecialTokenSpans = list[tuple[int, int, int]]
"""Start, end and token id of the special tokens spelled in a text, in order."""


def special_tokens_of(tokenizer: Any) -> dict[str, int]:
    """Return the special tokens of a transformers tokenizer, including tokens of the chat template
    not declared as special by some models."""
    template = str(tokenizer.chat_template or "")
    added = {
        str(token): number
        for number, token in tokenizer.added_tokens_decoder.items()
        if token.special or (str(token).strip() and str(token) in template)
    }
    special = zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True)
    return {name: token for name, token in (dict(special) | added).items() if name}


def pattern_of(special_tokens: Iterable[str]) -> re.Pattern[str] | None:
    """Return a leftmost-longest pattern of the special tokens, the matching rule of tokenizers."""
    longest_first = sorted(special_tokens, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None


class PlainTextEncoder:
    """Copy of a tokenizer with unguessable names for the special tokens: the old names are plain
    text. Normalization and stripping next to a special token are preserved."""

    def __init__(
        self, fast: tokenizers.Tokenizer | None, special_tokens: dict[str, int], byte_level: bool
    ) -> None:
        """Copy the tokenizer `fast`.

        Args:
            fast: Rust tokenizer; None for a tokenizer written in Python.
            special_tokens: Token id of each special token.
            byte_level: See `ChunkedEncoder`.

        Raises:
            RequestError: `fast` is None: only Rust tokenizers can be copied.
        """
        if fast is None:
            raise RequestError(
                "the prompt's data has special tokens, which this tokenizer cannot read as text",
                "remove them, use @function(special_tokens=True), or use a fast tokenizer",
            )

        definition = json.loads(fast.to_str())
        names = {name: _unguessable() for name in special_tokens}
        self._names = {special_tokens[name]: alias for name, alias in names.items()}
        for added in definition["added_tokens"]:
            added["content"] = names.get(added["content"], added["content"])
        _rename(definition["model"], names)

        self._fast = tokenizers.Tokenizer.from_str(json.dumps(definition))
        self._fast.no_padding()
        self._fast.no_truncation()
        self._chunks = ChunkedEncoder(self._encode_whole, self._fast.get_vocab, byte_level)
        # Special tokens outside the model's vocabulary may receive new ids.
        self._ids = {
            self._fast.token_to_id(alias): special_tokens[name] for name, alias in names.items()
        }

    def encode(self, text: str, spans: SpecialTokenSpans, special: bool) -> list[int]:
        """Return the token ids of `text` with special tokens only at `spans`. `special` adds the
        tokenizer's special tokens around the text."""
        parts, at = [], 0
        for start, end, token in spans:
            parts += [text[at:start], self._names[token]]
            at = end
        whole = "".join([*parts, text[at:]])
        [ids] = self._chunks.encode([whole], special)
        return [self._ids.get(token, token) for token in ids]

    def _encode_whole(self, texts: Sequence[str], special: bool) -> list[list[int]]:
        with native_call():
            encoded = self._fast.encode_batch_fast(list(texts), add_special_tokens=special)
        return [encoding.ids for encoding in encoded]


def _rename(model: dict[str, Any], names: dict[str, str]) -> None:
    """Rename special tokens in the model's vocabulary: some models match every name there."""
    vocabulary = model["vocab"]
    if isinstance(vocabulary, dict):
        model["vocab"] = {names.get(name, name): token for name, token in vocabulary.items()}
    else:
        model["vocab"] = [[names.get(name, name), score] for name, score in vocabulary]
    if isinstance(model.get("unk_token"), str):
        model["unk_token"] = names.get(model["unk_token"], model["unk_token"])


def _unguessable() -> str:
    """Return eight private-use characters, 128 bits."""
    return "".join(chr(0xF0000 + secrets.randbelow(0xFFFE)) for _ in range(8))
