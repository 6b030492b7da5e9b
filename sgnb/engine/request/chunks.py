"""Chunked tokenization of long texts with a chunk cache. Knows no prompts.

Cut places are after a word before a blank, and after a line break before a word. A text is cut if
no token of the vocabulary crosses a cut place and every cut of `PROBES` preserves the tokens.
Otherwise the tokenizer encodes texts whole.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

Encode = Callable[[Sequence[str], bool], list[list[int]]]
"""Encoder of texts by the tokenizer itself; the flag adds the special tokens around a text."""

CHUNK = 512
"""Minimum length of a chunk in characters. Shorter texts are not cut."""

REMEMBERED = 4096
"""Number of cached chunks: about 10 MB."""

CUTS = (r"(?<=[^\W_])(?= )", r"(?<=\S\n)(?=[^\W_])")

# Letters outside ASCII may end in any byte from 0x80 on.
_LETTER = r"[0-9A-Za-z\u00a1-\u00ff\u0121-\u0143]"
CROSSING_BYTE_LEVEL = rf"{_LETTER}\u0120", rf"\u010a{_LETTER}"
"""For each of `CUTS`, a pattern of token names across the cut, in the alphabet of byte-level BPE.
"""

CROSSING = r"[^\W_][ ▁]", r"\n[^\W_]"
"""`CROSSING_BYTE_LEVEL` for vocabularies with plain text as names."""

PROBES = (
    "It can't be 3.14, they've said; is it 1,000,000 or 10 000? x_1 = f(a)[0]\nNo. 42\nyes",
    "a  b   c \n d\n\ne \n\n f\t g\r\nh . i ,j\nk-l 'm' \"n\" <|o|> </p> {q: r}\ns",
    "Größe Straße naïve ΟΔΟΣ ΟΔΟΣ\nΣ İstanbul ﬁn e\u0301 x\u0301 y\nд ж 123"
    " ５６ ７\n八 九。\n十 ١٢ ٣",
    "狐狸 跳过了。\n懒狗 です🦊 🐶 a🦊 b\u200d c\u00a0 d\ufeff e\u00ad f\n🦊\ng _ h_ i_j k",
)


class ChunkedEncoder:
    """Thread-safe encoder with a cache of chunks."""

    def __init__(
        self, encode: Encode, names: Callable[[], Iterable[str]], byte_level: bool
    ) -> None:
        """names: names of all tokens, in the alphabet of byte-level BPE if `byte_level`."""
        self._encode, self._byte_level = encode, byte_level
        self._names = names
        self._known: OrderedDict[tuple[bool, str], list[int]] = OrderedDict()
        self._lock = threading.Lock()

    def encode(self, texts: Sequence[str], special: bool) -> list[list[int]]:
        """Return the tokens of each text; `special` adds the tokenizer's special tokens around a
        text."""
        chunks = [self._cut(text) for text in texts]
        result = self._encode([parts[0] if len(parts) == 1 else "" for parts in chunks], special)
        for i, parts in enumerate(chunks):
            if len(parts) > 1:
                before, after = self._around if special else ([], [])
                inside = [token for tokens in self._remembered(parts) for token in tokens]
                result[i] = [*before, *inside, *after]
        return result

    @cached_property
    def anchor(self) -> str:
        """Text to prepend before a continuation: many tokenizers begin a text with a blank, but not
        a line. "" if the tokenizer needs no anchor."""
        [alone, after, anchor] = self._encode(["a", "\na", "\n"], False)
        return "\n" if after[: len(anchor)] == anchor and after[len(anchor) :] != alone else ""

    def _cut(self, text: str) -> list[str]:
        """Cut a text; a cut depends only on the preceding text, and texts with equal prefixes share
        chunks."""
        chunks, start = [], 0
        if len(text) > CHUNK and self._cuts is not None:
            while cut := self._cuts.search(text, start + CHUNK):
                chunks.append(text[start : cut.start()])
                start = cut.start()
        return [*chunks, text[start:]]

    def _remembered(self, chunks: list[str]) -> list[list[int]]:
        """Return the tokens of each chunk. The last chunk may grow and is not cached."""
        keys = [(i == 0, chunk) for i, chunk in enumerate(chunks)]
        with self._lock:
            known = {key: self._known[key] for key in keys[:-1] if key in self._known}
        new = [key for key in dict.fromkeys(keys) if key not in known]
        known |= zip(new, self._encode_chunks(new), strict=True)
        with self._lock:
            for key in keys[:-1]:
                self._known[key] = known[key]
                self._known.move_to_end(key)
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return [known[key] for key in keys]

    def _encode_chunks(self, keys: Sequence[tuple[bool, str]]) -> list[list[int]]:
        """Encode (is first chunk, text) keys."""
        texts = [chunk if begins else self.anchor + chunk for begins, chunk in keys]
        [anchor, *result] = self._encode([self.anchor, *texts], False)
        return [
            tokens if begins else tokens[len(anchor) :]
            for (begins, _), tokens in zip(keys, result, strict=True)
        ]

    @cached_property
    def _around(self) -> tuple[list[int], list[int]]:
        """Tokens added by the tokenizer before and after a text."""
        [inside], [whole] = self._encode(["a"], False), self._encode(["a"], True)
        at = next(i for i in range(len(whole)) if whole[i : i + len(inside)] == inside)
        return whole[:at], whole[at + len(inside) :]

    @cached_property
    def _cuts(self) -> re.Pattern[str] | None:
        """Pattern of the cut places; None if texts must not be cut."""
        crossing = CROSSING_BYTE_LEVEL if self._byte_level else CROSSING
        names = "\0".join(self._names())
        allowed = [
            cut
            for cut, across in zip(CUTS, crossing, strict=True)
            if not re.search(across, names) and self._may_cut(re.compile(cut))
        ]
        return re.compile("|".join(allowed)) if allowed else None

    def _may_cut(self, cut: re.Pattern[str]) -> bool:
        places = [(text, match.start()) for text in PROBES for match in cut.finditer(text)]
        whole = self._encode([text for text, _ in places], False)
        parts = self._encode_chunks(
            [part for text, at in places for part in ((True, text[:at]), (False, text[at:]))]
        )
        joined = [before + after for before, after in zip(parts[::2], parts[1::2], strict=True)]
        return whole == joined
