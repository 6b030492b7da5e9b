"""A real tokenizer of 131,072 tokens: Mistral's Tekken, whose ranks the package mistral-common
brings along."""

from __future__ import annotations

import base64
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

FILE = "data/tekken_240911.json"
BOS, EOS = "<s>", "</s>"
"""Tokens 1 and 2. The other special ones have no text that anybody would write."""


def tekken() -> dict[str, Any]:
    """The package's file as it is. Raises FileNotFoundError without the package."""
    package = find_spec("mistral_common")
    if package is None or package.origin is None:
        raise FileNotFoundError(
            "the large vocabulary needs the package mistral-common: pip install mistral-common"
        )
    content: dict[str, Any] = json.loads(
        (Path(package.origin).parent / FILE).read_text(encoding="utf-8")
    )
    return content


def write_tokenizer(folder: Path) -> None:
    """tokenizer.json and tokenizer_config.json of a byte-level BPE with Tekken's tokens, in their
    order."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(_tokenizer(tekken())), encoding="utf-8")
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": BOS, "eos_token": EOS}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")


def _tokenizer(content: dict[str, Any]) -> dict[str, Any]:
    config = content["config"]
    specials = config["default_num_special_tokens"]
    ranked = sorted(content["vocab"], key=lambda entry: entry["rank"])[
        : config["default_vocab_size"] - specials
    ]
    pieces = [base64.b64decode(entry["token_bytes"]) for entry in ranked]
    names = {1: BOS, 2: EOS}
    special = [names.get(i, f"<special_{i}>") for i in range(specials)]
    shown = _shown_bytes()
    vocab = {name: i for i, name in enumerate(special)}
    vocab |= {
        "".join(shown[byte] for byte in piece): specials + rank for rank, piece in enumerate(pieces)
    }
    added = [
        {"id": i, "content": name, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": True}
        for i, name in enumerate(special)
    ]  # fmt: skip
    cut = {
        "type": "Split",
        "pattern": {"Regex": config["pattern"]},
        "behavior": "Isolated",
        "invert": False,
    }
    to_bytes = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": False,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [cut, to_bytes]},
        "post_processor": None,
        "decoder": to_bytes,
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
            "ignore_merges": True, "vocab": vocab, "merges": _merges(pieces, shown),
        },
    }  # fmt: skip


def _merges(pieces: list[bytes], shown: dict[int, str]) -> list[list[str]]:
    """Each way to put a token together from two lower ones, in the order of the tokens' ranks."""
    ranks = {piece: rank for rank, piece in enumerate(pieces)}
    merges = []
    for piece in pieces:
        ways = [(piece[:i], piece[i:]) for i in range(1, len(piece))]
        ways = [way for way in ways if way[0] in ranks and way[1] in ranks]
        for way in sorted(ways, key=lambda way: (ranks[way[0]], ranks[way[1]])):
            merges.append(["".join(shown[byte] for byte in part) for part in way])
    return merges


def _shown_bytes() -> dict[int, str]:
    """Return byte-level BPE's characters of the 256 bytes: printable bytes map to themselves, and
    other bytes to characters after 255."""
    plain = [
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    ]
    others = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {
        byte: chr(256 + i) for i, byte in enumerate(others)
    }
