"""Grammars that are no automaton, recursive or too large for one, followed by the library
llguidance.

llguidance rather than xgrammar: it does its work when a place in the grammar is reached, not for
the whole grammar and vocabulary beforehand, so that compiling and masks stay fast for grammars as
people write them; it has limits for what it may spend, and depends on no other package. Its lexer
is greedy, which `lark` allows for.

Knows no model. What the library cannot keep to is a GrammarError, when compiling or, for what shows
only then, in the request.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import GrammarError
from ..syntax import Rules
from ..vocabulary import Vocabulary
from .gbnf import is_gbnf, parse_gbnf
from .lark import write
from .lark_notation import refuse_unsupported

LARGEST_TEXT = 1_500_000
"""Characters of a person's grammar."""

LARGEST_LARK = 400_000
"""Characters of what the library reads; larger ones take it seconds."""

_LIMITS: dict[str, Any] = {
    "max_items_in_row": 2000,
    "initial_lexer_fuel": 1_000_000,
    "step_lexer_fuel": 200_000,
    "step_max_items": 50_000,
    "max_lexer_states": 50_000,
    "max_grammar_size": 500_000,
    "verbose_errors": False,
}
_OPTIONS = '\n%llguidance {"no_forcing": true}\n'
"""Masks allow every way to write what is forced, not only the library's own choice of tokens."""

_KEPT_TOKENIZERS = 4
_tokenizers: OrderedDict[str, Any] = OrderedDict()
_lock = Lock()


def compile_ebnf(text: str, vocabulary: Vocabulary) -> LibraryGrammar:
    """A person's grammar: GBNF if it has rules with `::=`, else Lark as llguidance has it (rule
    `start`).

    In GBNF every character counts. In Lark, names in capitals and quoted texts are terminals: the
    longest that fits is taken, and what `%ignore` names may stand between them. GrammarError with
    line and column for what is wrong.
    """
    if len(text) > LARGEST_TEXT:
        raise GrammarError(
            f"ebnf has {len(text):,} characters", f"at most {LARGEST_TEXT:,} are read"
        )
    if is_gbnf(text):
        return compile_rules(parse_gbnf(text), vocabulary)
    refuse_unsupported(text)
    return LibraryGrammar(text, vocabulary)


def compile_rules(rules: Rules, vocabulary: Vocabulary) -> LibraryGrammar:
    """Exactly the texts of `rules`. GrammarError if the library cannot keep to them, or there are
    none."""
    return LibraryGrammar(write(rules), vocabulary)


class LibraryGrammar:
    """A grammar in the library's notation, bound to a vocabulary; shared by requests and by
    threads."""

    def __init__(self, lark: str, vocabulary: Vocabulary) -> None:
        """Compiles, without holding Python's lock. Raises GrammarError with what the library
        says."""
        from llguidance import LLMatcher, LLParserLimits

        if len(lark) > LARGEST_LARK:
            raise GrammarError(
                f"the grammar is too large for the grammar library: {len(lark):,} characters as it reads them",
                f"fewer rules or options; the limit is {LARGEST_LARK:,}",
            )
        self.vocabulary = vocabulary
        self._lock = Lock()
        source = LLMatcher.grammar_from_lark(lark + _OPTIONS)
        self._first = LLMatcher(
            _tokenizer(vocabulary), source, log_level=0, limits=LLParserLimits(**_LIMITS)
        )
        if self._first.is_error():
            raise _refused(self._first.get_error())
        _allowed(self._first, vocabulary.size)

    def matcher(self) -> LibraryMatcher:
        """A new one, at the beginning. Any thread may call this."""
        with self._lock:
            return LibraryMatcher(self._first.deep_copy(), self.vocabulary, 0)


class LibraryMatcher:
    """One request's place in a grammar. `state` is always -1, and no parts of the grammar are told
    apart."""

    state = -1

    def __init__(self, inner: Any, vocabulary: Vocabulary, accepted: int) -> None:
        self._inner, self._vocabulary, self._accepted = inner, vocabulary, accepted
        self._mask: NDArray[np.uint32] | None = None

    def accept_token(self, token: int) -> None:
        """Move on by the token's bytes. GrammarError, and nothing has changed, if the grammar
        forbids it."""
        piece = self._vocabulary.pieces[token]
        if not piece or not self._inner.try_consume_tokens([token]):
            self._check()
            raise GrammarError(
                f"token {token} ({piece!r}) is not allowed here", "take one of the allowed tokens"
            )
        self._check()
        self._accepted += 1
        self._mask = None

    def next_token_bitmask(self) -> NDArray[np.uint32]:
        """The tokens that may follow. Changes nothing; read-only. GrammarError if finding them
        takes too much."""
        if self._mask is None:
            self._mask = _allowed(self._inner, self._vocabulary.size)
        return self._mask

    def find_jump_forward_string(self) -> bytes:
        """The bytes that must follow, as far as the library sees them. Changes nothing."""
        return b"" if self._inner.is_stopped() else bytes(self._inner.compute_ff_bytes())

    def distance(self) -> None:
        """Not known: the library does not tell how a text can end."""

    def is_idle(self, tokens: int) -> bool:
        """Not known."""
        return False

    def completion(self) -> bytes | None:
        """Not known: the library does not say how far the end is."""
        return None

    def labels(self, data: bytes = b"") -> tuple[str, ...]:
        """None: the library does not say where in the grammar it is."""
        return ()

    def rollback(self, tokens: int) -> None:
        """Undo the last `tokens` calls of `accept_token`."""
        if not 0 <= tokens <= self._accepted:
            raise GrammarError(
                f"{tokens} tokens cannot be undone", f"{self._accepted} were accepted"
            )
        if tokens:
            self._inner.rollback(tokens)
            self._check()
            self._accepted -= tokens
            self._mask = None

    def fork(self) -> LibraryMatcher:
        """A second matcher at the same place; from here on the two know nothing of each other."""
        return LibraryMatcher(self._inner.deep_copy(), self._vocabulary, self._accepted)

    @property
    def is_final(self) -> bool:
        """Whether the text may end here."""
        return bool(self._inner.is_accepting())

    @property
    def finished(self) -> bool:
        """Whether it must: nothing can follow."""
        return self.is_final and (self._inner.is_stopped() or not self.next_token_bitmask().any())

    def _check(self) -> None:
        if self._inner.is_error():
            raise _refused(self._inner.get_error())


def _allowed(inner: Any, size: int) -> NDArray[np.uint32]:
    """uint32[ceil(size / 32)]. The library has one token more, its end of sequence, which is
    cleared."""
    words = -(-size // 32)
    if inner.is_stopped() and not inner.is_error():
        found: NDArray[np.uint32] = np.zeros(words, np.uint32)
    else:
        found = np.frombuffer(inner.compute_bitmask(), np.uint32)[:words].copy()
        if inner.is_error():
            raise _refused(inner.get_error())
        if size % 32:
            found[-1] &= np.uint32((1 << size % 32) - 1)
    found.flags.writeable = False
    return found


def _refused(message: str) -> GrammarError:
    """The library's words, without the listings that may follow them, and without the line that is
    ours."""
    message = re.sub(
        r"(?s)<state>.*|<backtrace>.*|<non-verbose/>|\n *[0-9]+ \| *%llguidance .*", "", message
    )
    message = " ".join(message.split()) or "no reason given"
    if message.startswith("NoExtension"):
        return GrammarError(
            "no token of this vocabulary can go on here in the grammar",
            "allow other characters there: the tokenizer has no way to write these",
        )
    limited = re.search(r"(?i)too (complex|big|many)|limit|max is|panic", message)
    hint = (
        "make the grammar smaller or less ambiguous"
        if limited
        else "see the place that it names in the grammar"
    )
    return GrammarError(f"the grammar library refuses: {message:.600}", hint)


def _tokenizer(vocabulary: Vocabulary) -> Any:
    """The library's form of the vocabulary: made once for each, a third of a second for 131,072
    tokens."""
    from llguidance import LLTokenizer

    with _lock:
        found = _tokenizers.get(vocabulary.fingerprint)
        if found is None:
            size = vocabulary.size
            tokens: Any = _Tokens(vocabulary)
            found = LLTokenizer(tokens, n_vocab=size + 1, eos_token=size)
            _tokenizers[vocabulary.fingerprint] = found
            while len(_tokenizers) > _KEPT_TOKENIZERS:
                _tokenizers.popitem(last=False)
        _tokenizers.move_to_end(vocabulary.fingerprint)
    return found


class _Tokens:
    """What the library asks of a tokenizer. A piece with the byte 255 is in no text, and marks
    special ones there."""

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.eos_token_id = vocabulary.size
        text = [bool(piece) and b"\xff" not in piece for piece in vocabulary.pieces]
        self.special_token_ids = [
            *(i for i, is_text in enumerate(text) if not is_text),
            vocabulary.size,
        ]
        self.tokens: Sequence[bytes] = [
            piece if is_text else b"<special %d>" % i
            for i, (piece, is_text) in enumerate(zip(vocabulary.pieces, text, strict=True))
        ] + [b"<end of sequence>"]

    def __call__(self, text: str | bytes) -> list[int]:
        """Only asked for the library's own choice of forced tokens, which is not used."""
        return []
