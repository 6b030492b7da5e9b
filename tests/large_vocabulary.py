"""Two real vocabularies whose files the package mistral-common brings along: Mistral's Tekken, of
131,072 tokens, and its first, made by SentencePiece."""

from __future__ import annotations

import base64
import json
import shutil
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from transformers import LlamaTokenizerFast, PreTrainedTokenizerFast

FILE = "tekken_240911.json"


@cache
def pieces() -> list[bytes]:
    """The bytes of each token; the special ones, which come first, have none."""
    content = json.loads((_folder() / FILE).read_text(encoding="utf-8"))
    size, special = (
        content["config"]["default_vocab_size"],
        content["config"]["default_num_special_tokens"],
    )
    ranked = sorted(content["vocab"], key=lambda entry: entry["rank"])[: size - special]
    return [b""] * special + [base64.b64decode(entry["token_bytes"]) for entry in ranked]


@cache
def tokenizer() -> PreTrainedTokenizerFast:
    """The same as a tokenizer of transformers. Takes 20 seconds."""
    from transformers.integrations.mistral import convert_tekken_tokenizer

    return convert_tekken_tokenizer(str(_folder() / FILE))


@cache
def sentence_pieces() -> PreTrainedTokenizerFast:
    """Mistral's first tokenizer: 32,000 pieces with byte fallback."""
    with TemporaryDirectory() as folder:
        shutil.copy(_folder() / "tokenizer.model.v1", Path(folder) / "tokenizer.model")
        return LlamaTokenizerFast.from_pretrained(folder)


def _folder() -> Path:
    package = find_spec("mistral_common")
    assert package is not None and package.origin is not None
    return Path(package.origin).parent / "data"
