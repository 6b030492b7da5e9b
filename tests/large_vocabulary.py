"""A real vocabulary of 131,072 tokens: Mistral's Tekken, whose file the package mistral-common
brings along."""

from __future__ import annotations

import base64
import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path

FILE = "data/tekken_240911.json"


@cache
def pieces() -> list[bytes]:
    """The bytes of each token; the special ones, which come first, have none."""
    package = find_spec("mistral_common")
    assert package is not None and package.origin is not None
    content = json.loads((Path(package.origin).parent / FILE).read_text(encoding="utf-8"))
    size, special = (
        content["config"]["default_vocab_size"],
        content["config"]["default_num_special_tokens"],
    )
    ranked = sorted(content["vocab"], key=lambda entry: entry["rank"])[: size - special]
    return [b""] * special + [base64.b64decode(entry["token_bytes"]) for entry in ranked]
