"""Special tokens that a text spells: which a tokenizer has, and its twin that reads none of them in
data. Knows no prompt."""

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
"""Start, end and token of marks in a text, in order."""


def marks_of(tokenizer: Any) -> dict[str, int]:
    """The tokens of a transformers tokenizer that data must not become: special ones, and those of
    the chat template, which some models do not call special."""
    template = str(tokenizer.chat_template or "")
    added = {
        str(token): number
        for number, token in tokenizer.added_tokens_decoder.items()
        if token.special or (str(token).strip() and str(token) in template)
    }
    special = zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True)
    return {name: token for name, token in (dict(special) | added).items() if name}


def pattern_of(marks: Iterable[str]) -> re.Pattern[str] | None:
    """Finds them as a tokenizer does: the first in the text, and of those the longest."""
    longest_first = sorted(marks, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None


class Unmarked:
    """A tokenizer's twin in which every mark has a name that nobody can guess, so that its old name
    is plain text. What else the tokenizer does to a text, and beside a mark, stays."""

    def __init__(
        self, fast: tokenizers.Tokenizer | None, marks: dict[str, int], byte_level: bool
    ) -> None:
        """byte_level: see `ChunkedEncoder`. RequestError for a tokenizer written in Python, which
        has no such twin."""
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
        # A mark outside the model's vocabulary may be numbered anew.
        self._ids = {self._fast.token_to_id(alias): marks[name] for name, alias in names.items()}

    def encode(self, text: str, marks: Places, special: bool) -> list[int]:
        """Token ids of `text`, in which only these places are marks; with what the tokenizer puts
        around it if `special`."""
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
    """In the vocabulary of a tokenizer's model too: some read any name in it as that token."""
    vocabulary = model["vocab"]
    if isinstance(vocabulary, dict):
        model["vocab"] = {names.get(name, name): token for name, token in vocabulary.items()}
    else:
        model["vocab"] = [[names.get(name, name), score] for name, score in vocabulary]
    if isinstance(model.get("unk_token"), str):
        model["unk_token"] = names.get(model["unk_token"], model["unk_token"])


def _unguessable() -> str:
    """Eight characters of private use, 128 bits."""
    return "".join(chr(0xF0000 + secrets.randbelow(0xFFFE)) for _ in range(8))
