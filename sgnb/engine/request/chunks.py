"""Long texts are tokenized in chunks, cut where no token can lie across: the tokens of a text are
those of its chunks, and texts that begin alike share the work. Knows no prompt.

A text may be cut after a word that a blank follows, and before a word that begins a line, if no
token of the vocabulary goes across such a place, and if every cut of `PROBES` gives the same
tokens. Tokenizers of which one of these is not true get their texts whole.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

Encode = Callable[[Sequence[str], bool], list[list[int]]]
"""A tokenizer's own tokens of each text, with what it puts around a text or without."""

CHUNK = 512
"""Characters that a chunk has at least. A text without so many is not cut."""

REMEMBERED = 4096
"""Chunks whose tokens are kept: about 10 MB."""

CUTS = (r"(?<=[^\W_])(?= )", r"(?<=\S\n)(?=[^\W_])")

# A letter outside ASCII may end in any of the bytes from 0x80 on.
_LETTER = r"[0-9A-Za-z\u00a1-\u00ff\u0121-\u0143]"
CROSSING_BYTE_LEVEL = rf"{_LETTER}\u0120", rf"\u010a{_LETTER}"
"""For each of `CUTS`, what the name of a token across it holds, in byte-level BPE's alphabet."""

CROSSING = r"[^\W_][ ▁]", r"\n[^\W_]"
"""The same where names are text."""

PROBES = (
    "It can't be 3.14, they've said; is it 1,000,000 or 10 000? x_1 = f(a)[0]\nNo. 42\nyes",
    "a  b   c \n d\n\ne \n\n f\t g\r\nh . i ,j\nk-l 'm' \"n\" <|o|> </p> {q: r}\ns",
    "Größe Straße naïve ΟΔΟΣ ΟΔΟΣ\nΣ İstanbul ﬁn e\u0301 x\u0301 y\nд ж 123"
    " ５６ ７\n八 九。\n十 ١٢ ٣",
    "狐狸 跳过了。\n懒狗 です🦊 🐶 a🦊 b\u200d c\u00a0 d\ufeff e\u00ad f\n🦊\ng _ h_ i_j k",
)


class ChunkedEncoder:
    """Any thread may call it."""

    def __init__(
        self, encode: Encode, names: Callable[[], Iterable[str]], byte_level: bool
    ) -> None:
        """names: of all tokens, in the alphabet of byte-level BPE if `byte_level`."""
        self._encode, self._byte_level = encode, byte_level
        self._names = names
        self._known: OrderedDict[tuple[bool, str], list[int]] = OrderedDict()
        self._lock = threading.Lock()

    def encode(self, texts: Sequence[str], special: bool) -> list[list[int]]:
        """The tokens of each text, with what the tokenizer puts around it if `special`."""
        chunks = [self._cut(text) for text in texts]
        result = self._encode([one[0] if len(one) == 1 else "" for one in chunks], special)
        for i, one in enumerate(chunks):
            if len(one) > 1:
                before, after = self._around if special else ([], [])
                inside = [token for tokens in self._remembered(one) for token in tokens]
                result[i] = [*before, *inside, *after]
        return result

    @cached_property
    def anchor(self) -> str:
        """What to put before a text that others precede: many tokenizers begin a text with a blank,
        but no line. "" where there is none."""
        [alone, after, anchor] = self._encode(["a", "\na", "\n"], False)
        return "\n" if after[: len(anchor)] == anchor and after[len(anchor) :] != alone else ""

    def _cut(self, text: str) -> list[str]:
        """Where it is cut depends on what stands before alone, so that texts which begin alike
        have chunks in common."""
        chunks, start = [], 0
        if len(text) > CHUNK and self._cuts is not None:
            while found := self._cuts.search(text, start + CHUNK):
                chunks.append(text[start : found.start()])
                start = found.start()
        return [*chunks, text[start:]]

    def _remembered(self, chunks: list[str]) -> list[list[int]]:
        """The tokens of each chunk of a text. The last one's are not kept: it may go on."""
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
        """Of each, whether it begins a text, and its own text."""
        texts = [chunk if begins else self.anchor + chunk for begins, chunk in keys]
        [anchor, *result] = self._encode([self.anchor, *texts], False)
        return [
            tokens if begins else tokens[len(anchor) :]
            for (begins, _), tokens in zip(keys, result, strict=True)
        ]

    @cached_property
    def _around(self) -> tuple[list[int], list[int]]:
        """What the tokenizer puts before and after a text."""
        [inside], [whole] = self._encode(["a"], False), self._encode(["a"], True)
        at = next(i for i in range(len(whole)) if whole[i : i + len(inside)] == inside)
        return whole[:at], whole[at + len(inside) :]

    @cached_property
    def _cuts(self) -> re.Pattern[str] | None:
        """Finds where texts may be cut."""
        crossing = CROSSING_BYTE_LEVEL if self._byte_level else CROSSING
        names = "\0".join(self._names())
        allowed = [
            cut
            for cut, across in zip(CUTS, crossing, strict=True)
            if not re.search(across, names) and self._may_cut(re.compile(cut))
        ]
        return re.compile("|".join(allowed)) if allowed else None

    def _may_cut(self, cut: re.Pattern[str]) -> bool:
        places = [(text, found.start()) for text in PROBES for found in cut.finditer(text)]
        whole = self._encode([text for text, _ in places], False)
        parts = self._encode_chunks(
            [part for text, at in places for part in ((True, text[:at]), (False, text[at:]))]
        )
        joined = [before + after for before, after in zip(parts[::2], parts[1::2], strict=True)]
        return whole == joined
