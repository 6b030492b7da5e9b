"""Tokenization: prompt encoding, bytes of tokens, incremental detokenization. Knows no engine."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import RequestError
from ...grammar.vocabulary import Vocabulary
from ...native_calls import native_call
from ...segment import Segment
from .byte_alphabet import cut_bytes, name_bytes
from .chunks import ChunkedEncoder
from .special_tokens import PlainTextEncoder, SpecialTokenSpans, pattern_of, special_tokens_of

CACHED_WORDS = 1000
"""Cached words per thread of the tokenizers library. The default 10,000 takes 5 to 80 MB per
thread, with a thread per core; repetitive texts need no more."""

MADE = "output", "media"
"""Kinds of segments with tokens."""

REMEMBERED = 1 << 20
"""Capacity in characters of the cache of whole texts."""


class Tokenizer:
    """Adapter of a transformers tokenizer."""

    def __init__(self, tokenizer: Any) -> None:
        self.hf = tokenizer
        fast = getattr(tokenizer, "backend_tokenizer", None)
        self._fast = None if fast is None else _own_copy(fast)
        self._byte_level = self._fast is not None and "ByteLevel" in str(self._fast.decoder)
        self._special = frozenset(tokenizer.all_special_ids) | {
            token for token, added in tokenizer.added_tokens_decoder.items() if added.special
        }
        self._literal = self._special
        if self._byte_level:
            self._literal |= frozenset(tokenizer.added_tokens_decoder)

        self._chunks = ChunkedEncoder(self._encode_whole, tokenizer.get_vocab, self._byte_level)
        self._special_token_ids = special_tokens_of(tokenizer)
        # matches special tokens spelled in a text; None without special tokens
        self.special_tokens = pattern_of(self._special_token_ids)
        self._begun, self._gone_on = TokenizationCache(), TokenizationCache()
        self._written = lru_cache(4096)(self._write)
        self._texts: dict[int, str] = {}
        self._making = threading.Lock()

    @property
    def vocabulary(self) -> Vocabulary:
        """Bytes of all tokens; special tokens and unused ids are not text. Slow on first access."""
        # Grammars compile on several threads, and cached properties have no lock.
        with self._making:
            return self._vocabulary

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        pieces = [b""] * (1 + max(self.hf.get_vocab().values()))
        for name, token in self.hf.get_vocab().items():
            if token not in self._special:
                pieces[token] = self._bytes(token, name)
        return Vocabulary(pieces)

    @cached_property
    def closing(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
        """Masks of tokens closing a JSON string, of pure closing brackets and of single letters,
        bool[size]."""
        pieces = self.vocabulary.pieces
        quotes = np.array([piece[:1] == b'"' and not piece[1:].strip(b"]}") for piece in pieces])
        brackets = np.array([bool(piece) and not piece.strip(b"]}") for piece in pieces])
        return quotes, brackets, np.array([len(piece) == 1 and piece.isalpha() for piece in pieces])

    def closing_among(self, allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Select allowed tokens that close a JSON text; if letters may follow, the text is in a
        string."""
        quotes, brackets, letters = self.closing
        in_string = (allowed & letters).sum() > len(b"tfn")
        for group in (quotes, brackets) if in_string else (brackets, quotes):
            if (allowed & group).any():
                return allowed & group
        return allowed

    def write(self, data: bytes) -> tuple[int, ...]:
        """Return tokens for exactly `data`, as the continuation of a text.

        Uses the tokenizer's choice if exact, otherwise longest tokens first (for bytes inside a
        character). Raises GrammarError for bytes missing from the vocabulary.
        """
        return self._written(data)

    def _write(self, data: bytes) -> tuple[int, ...]:
        lead = next((i for i, byte in enumerate(data) if byte & 0xC0 != 0x80), len(data))
        end = len(data) - unfinished_bytes(data[lead:])
        longest = self.vocabulary.longest_match
        return (*longest(data[:lead]), *self._write_text(data[lead:end]), *longest(data[end:]))

    def _write_text(self, data: bytes) -> Sequence[int]:
        """Tokenize whole characters."""
        text, pieces = data.decode(), self.vocabulary.pieces
        # After a line break no tokenizer adds the leading blank of a text.
        for before in ("", "\n"):
            skipped = self._encode([before], False)[0] if before else []
            [tokens] = self._encode([before + text], False)
            rest = tokens[len(skipped) :]
            if (
                tokens[: len(skipped)] == skipped
                and b"".join([pieces[token] for token in rest]) == data
            ):
                return rest
        return self.vocabulary.longest_match(data)

    def _encode(self, texts: Sequence[str], special: bool) -> list[list[int]]:
        """Return the tokens of each text; `special` adds the tokenizer's special tokens."""
        return self._chunks.encode(texts, special)

    def _encode_whole(self, texts: Sequence[str], special: bool) -> list[list[int]]:
        """Encode without chunks, padding or truncation, regardless of the tokenizer's settings."""
        fast = self._fast
        if fast is None:
            return [list(self.hf.encode(text, add_special_tokens=special)) for text in texts]
        with native_call():
            encodings = fast.encode_batch_fast(list(texts), add_special_tokens=special)
        return [encoding.ids for encoding in encodings]

    def encode_alone(self, text: str) -> list[int]:
        """Return the token ids of a raw text without added special tokens."""
        return self._encode([text], False)[0]

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the vocabulary; equal for tokenizers with equal tokens."""
        names = sorted(self.hf.get_vocab().items(), key=itemgetter(1))
        return hashlib.sha256(json.dumps(names).encode()).hexdigest()[:16]

    @property
    def eos_token_ids(self) -> frozenset[int]:
        eos = self.hf.eos_token_id
        return frozenset() if eos is None else frozenset([eos])

    def encode(self, prompts: Sequence[str | Sequence[Segment]]) -> list[list[int]]:
        """Return the token ids of each prompt. Special tokens spelled in a text or raw segment are
        parsed, and data is plain text. Token segments stay unchanged; the text after a token
        segment is tokenized separately. A beginning-of-sequence token is never added twice. Raises
        RequestError for invalid Unicode."""
        stretches = [
            [(Segment(prompt),)] if isinstance(prompt, str) else _stretches(prompt)
            for prompt in prompts
        ]
        begun = self._look_up(self._begun, self._begin, (stretch[0] for stretch in stretches))
        texts = (text for stretch in stretches for text in stretch[2::2])
        later = self._look_up(self._gone_on, self._go_on, texts)
        result = []
        for stretch in stretches:
            ids = list(begun[stretch[0]])
            if not stretch[0] and len(stretch) > 1 and stretch[1][0].kind == "media":
                ids = list(self._encode([""], True)[0])  # without the token of an empty prompt
            for outputs, text in zip(stretch[1::2], stretch[2::2], strict=True):
                ids += [token for segment in outputs for token in segment.tokens]
                ids += later[text]
            result.append(ids)
        return result

    def _look_up(
        self,
        known: TokenizationCache,
        encode: Callable[[Sequence[Text]], list[list[int]]],
        texts: Iterable[Text],
    ) -> dict[Text, list[int]]:
        """Return the tokens of each text from the cache `known` or `encode`: branches of a program
        repeat prefixes and the text between generations."""
        results = {text: known.get(text) for text in texts}
        new = [text for text, ids in results.items() if ids is None]
        encoded = dict(zip(new, encode(new), strict=True))
        size = sum(len(_joined(text)) + 1 for text in new)
        if known.size + size > REMEMBERED:
            known.clear()
            known.size = 0
        if size <= REMEMBERED:
            known.update(encoded)
            known.size += size
        return {text: encoded[text] if ids is None else ids for text, ids in results.items()}

    def _begin(self, texts: Sequence[Text]) -> list[list[int]]:
        """Encode texts at the beginning of a prompt."""
        if not texts:
            return []
        bos = self.hf.bos_token or ""
        has_bos = [
            bool(bos and text and text[0].kind == "raw") and _joined(text).startswith(bos)
            for text in texts
        ]
        if len(set(has_bos)) == 1:
            result = self._encode_texts(texts, not has_bos[0])
        else:
            pairs = zip(texts, has_bos, strict=True)
            result = [self._encode_texts([text], not has)[0] for text, has in pairs]
        return [ids or ([self.hf.bos_token_id] if bos else []) for ids in result]

    def _go_on(self, texts: Sequence[Text]) -> list[list[int]]:
        """Encode texts after tokens, without the leading blank of a text."""
        if not texts:
            return []
        anchor_text = self._chunks.anchor
        if not anchor_text:
            return self._encode_texts(texts, False)

        anchored = self._encode_texts([(Segment(anchor_text), *text) for text in texts], False)
        [anchor] = self._encode([anchor_text], False)
        return [
            ids[len(anchor) :]
            if ids[: len(anchor)] == anchor
            else self._encode_texts([text], False)[0]
            for ids, text in zip(anchored, texts, strict=True)
        ]

    def _encode_texts(self, texts: Sequence[Text], special: bool) -> list[list[int]]:
        """Encode texts, with special tokens in data as plain text."""
        joined = [_joined(text) for text in texts]
        for whole in joined:
            _check_unicode(whole)
        result = self._encode(joined, special)
        if self.special_tokens is None:
            return result

        for i, (text, whole) in enumerate(zip(texts, joined, strict=True)):
            if any(segment.kind != "raw" for segment in text):
                spans = self._raw_special_tokens(text)
                expected = Counter(token for _, _, token in spans)
                if self._count_special_tokens(result[i], special) != expected:
                    result[i] = self._plain_text_encoder.encode(whole, spans, special)
        return result

    def _raw_special_tokens(self, text: Text) -> SpecialTokenSpans:
        """Return the special tokens spelled in raw segments of `text`."""
        assert self.special_tokens is not None
        spans: SpecialTokenSpans = []
        at = 0
        for is_raw, group in groupby(text, key=lambda segment: segment.kind == "raw"):
            stretch = _joined(group)
            if is_raw:
                for match in self.special_tokens.finditer(stretch):
                    token = self._special_token_ids[match[0]]
                    spans.append((at + match.start(), at + match.end(), token))
            at += len(stretch)
        return spans

    def _count_special_tokens(self, ids: Sequence[int], special: bool) -> Counter[int]:
        """Count each special token in `ids`, except tokens added around a text."""
        special_ids = self._special_id_set
        count = Counter(token for token in ids if token in special_ids)
        if special:
            count.subtract(token for token in self._around if token in special_ids)
        return +count

    @cached_property
    def _special_id_set(self) -> frozenset[int]:
        return frozenset(self._special_token_ids.values())

    @cached_property
    def _around(self) -> list[int]:
        """Special tokens added around every text."""
        return self._encode([""], True)[0]

    @cached_property
    def _plain_text_encoder(self) -> PlainTextEncoder:
        return PlainTextEncoder(self._fast, self._special_token_ids, self._byte_level)

    def decode(self, tokens: Sequence[int], skip_special_tokens: bool = True) -> str:
        if self._fast is not None:
            text: str = self._fast.decode(tokens, skip_special_tokens=skip_special_tokens)
            return text
        try:
            return self._decode(tokens, skip_special_tokens)
        except Exception:  # see `pieces`; Rust tokenizers omit unused ids
            known = [token for token in tokens if self._name(token) is not None]
            return self._decode(known, skip_special_tokens)

    def _decode(self, tokens: Sequence[int], skip_special_tokens: bool) -> str:
        return str(
            self.hf.decode(
                tokens, skip_special_tokens=skip_special_tokens, clean_up_tokenization_spaces=False
            )
        )

    def piece(self, token: int) -> bytes:
        """Return the bytes of a token; for special and added tokens, the name."""
        return self.pieces([token])[0]

    def pieces(self, tokens: list[int]) -> list[bytes]:
        """Return `piece` of each token; the number of a token without a name."""
        try:
            if self._fast is None:
                names = self.hf.convert_ids_to_tokens(tokens)
            else:
                names = [*map(self._fast.id_to_token, tokens)]
                if self._byte_level and self._literal.isdisjoint(tokens) and None not in names:
                    return cut_bytes(names)
            return [
                numbered(token) if name is None else self._bytes(token, name)
                for token, name in zip(tokens, names, strict=True)
            ]
        except Exception:  # a Python tokenizer raises for unused ids, `cut_bytes` for added tokens
            return [self._piece(token) for token in tokens]

    def _piece(self, token: int) -> bytes:
        try:
            name = self._name(token)
            return numbered(token) if name is None else self._bytes(token, name)
        except Exception:  # invalid name
            return numbered(token)

    def _name(self, token: int) -> Any:
        """Name of a token; None for an unused id."""
        try:
            return self.hf.convert_ids_to_tokens(token)
        except Exception:
            return None

    def text(self, token: int) -> str:
        """Return `piece` as text, with U+FFFD for a partial character."""
        text = self._texts.get(token)
        if text is None:
            text = self._texts[token] = self.piece(token).decode(errors="replace")
        return text

    def _bytes(self, token: int, name: str) -> bytes:
        if token in self._literal:
            return str(name).encode()
        if self._byte_level:
            return name_bytes(str(name))
        if len(name) == 6 and name.startswith("<0x") and name.endswith(">"):
            return bytes.fromhex(name[3:5])
        return str(name).replace("▁", " ").encode()


def numbered(token: int) -> bytes:
    """Placeholder name of a token without a name."""
    return b"<%d>" % token


def _own_copy(fast: Any) -> Any:
    """Copy a tokenizer without padding and truncation: the original's user may toggle both on any
    thread. The large model is shared if the copy stays exact."""
    copy = type(fast)(fast.model)
    copy.normalizer, copy.pre_tokenizer = fast.normalizer, fast.pre_tokenizer
    copy.post_processor, copy.decoder = fast.post_processor, fast.decoder
    copy.encode_special_tokens = fast.encode_special_tokens
    added = fast.get_added_tokens_decoder()
    copy.add_tokens([added[token] for token in sorted(added)])
    if copy.get_added_tokens_decoder() != added:  # e.g. ids with gaps
        copy = type(fast).from_str(fast.to_str())
        copy.no_padding()
        copy.no_truncation()
    if hasattr(copy.model, "_resize_cache"):  # word-splitting models
        copy.model._resize_cache(CACHED_WORDS)
    return copy


Text = tuple[Segment, ...]
"""Consecutive raw and data segments."""


class TokenizationCache(dict[Text, list[int]]):
    """Cache of the tokens of texts."""

    size = 0  # total characters of the texts


def _joined(segments: Iterable[Segment]) -> str:
    return "".join([segment.text for segment in segments])


def _stretches(prompt: Sequence[Segment]) -> list[Text]:
    """Split a prompt into alternating texts and tokens; the first and last text may be empty."""
    stretches: list[list[Segment]] = [[]]
    for segment in prompt:
        expects_tokens = len(stretches) % 2 == 0
        if expects_tokens != (segment.kind in MADE):
            stretches.append([])
        stretches[-1].append(segment)
    if len(stretches) % 2 == 0:
        stretches.append([])
    return [tuple(stretch) for stretch in stretches]


def unfinished_bytes(data: bytes) -> int:
    """Return the number of trailing bytes of UTF-8 `data` in an incomplete character."""
    for count in range(1, min(4, len(data) + 1)):
        byte = data[-count]
        if byte & 0xC0 != 0x80:
            needed = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            return count if count < needed else 0
    return 0


def _check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RequestError(
            f"character {error.start} of the prompt is {text[error.start]!r}, "
            "half of a surrogate pair",
            "read the text as UTF-8, or drop the character: text.encode(errors='ignore').decode()",
        ) from None
