"""Special tokens spelled in texts, and a tokenizer twin that ignores them in data. Knows no
prompts."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Sequence
from typing import Any

import tokenizers

from ...errors import RequestError
from .chunks import ChunkedEncoder

Places = list[tuple[int, int, int]]
"""Start, end and token of the marks in a text, in order."""


def marks_of(tokenizer: Any) -> dict[str, int]:
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


def pattern_of(marks: Iterable[str]) -> re.Pattern[str] | None:
    """Return a leftmost-longest pattern of the marks, the matching rule of tokenizers."""
    longest_first = sorted(marks, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None


class Unmarked:
    """Tokenizer twin with every mark renamed to an unguessable name: the old names are plain text.
    All normalization and stripping next to a mark is preserved."""

    def __init__(
        self, fast: tokenizers.Tokenizer | None, marks: dict[str, int], byte_level: bool
    ) -> None:
        """byte_level: see `ChunkedEncoder`. Raises RequestError for a tokenizer written in Python,
        because only Rust tokenizers can be copied."""
        if fast is None:
            raise RequestError(
                "the prompt's data holds special tokens, which this tokenizer cannot read as text",
                "take them out, let them count (@function(marks=True)), or use a fast tokenizer",
            )
        made = json.loads(fast.to_str())
        names = {name: _unguessable() for name in marks}
        self._names = {marks[name]: alias for name, alias in names.items()}
        for added in made["added_tokens"]:
            added["content"] = names.get(added["content"], added["content"])
        _rename(made["model"], names)
        self._fast = tokenizers.Tokenizer.from_str(json.dumps(made))
        self._fast.no_padding()
        self._fast.no_truncation()
        self._chunks = ChunkedEncoder(self._encode_whole, self._fast.get_vocab, byte_level)
        # Marks outside the model's vocabulary may receive new ids.
        self._ids = {self._fast.token_to_id(alias): marks[name] for name, alias in names.items()}

    def encode(self, text: str, marks: Places, special: bool) -> list[int]:
        """Return the token ids of `text` with marks only at the places `marks`; `special` adds the
        tokenizer's special tokens around the text."""
        parts, at = [], 0
        for start, end, token in marks:
            parts += [text[at:start], self._names[token]]
            at = end
        whole = "".join([*parts, text[at:]])
        [ids] = self._chunks.encode([whole], special)
        return [self._ids.get(token, token) for token in ids]

    def _encode_whole(self, texts: Sequence[str], special: bool) -> list[list[int]]:
        encoded = self._fast.encode_batch_fast(list(texts), add_special_tokens=special)
        return [one.ids for one in encoded]


def _rename(model: dict[str, Any], names: dict[str, str]) -> None:
    """Rename marks in the model's vocabulary: some models match any name of the vocabulary."""
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
