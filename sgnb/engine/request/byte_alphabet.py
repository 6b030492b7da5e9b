"""Alphabet of byte-level BPE: a character for each byte in the names of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise


def name_bytes(name: str) -> bytes:
    """Return the bytes of a name; characters outside the alphabet, as in added tokens, in UTF-8."""
    try:
        return name.translate(_LATIN_1).encode("latin-1")
    except UnicodeEncodeError:
        return b"".join(_BYTE_OF[c] if c in _BYTE_OF else c.encode() for c in name)


def cut_bytes(names: Sequence[str]) -> list[bytes]:
    """Fast twin of `name_bytes` for many names. Raises UnicodeEncodeError for characters outside
    the alphabet."""
    data = "".join(names).translate(_LATIN_1).encode("latin-1")
    ends = accumulate(map(len, names), initial=0)
    return [data[begin:end] for begin, end in pairwise(ends)]


def _bytes_by_character() -> dict[str, bytes]:
    """Invert byte-level BPE's alphabet: printable bytes map to themselves, others to U+0100 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in plain]
    return {chr(b): bytes([b]) for b in plain} | {
        chr(0x100 + i): bytes([b]) for i, b in enumerate(others)
    }


_BYTE_OF = _bytes_by_character()
_LATIN_1 = dict.fromkeys(range(256), "\u0100") | {
    ord(character): chr(byte[0]) for character, byte in _BYTE_OF.items()
}
"""`_BYTE_OF` for `str.translate`; foreign characters map outside latin-1."""
