"""Matchers for grammars that are recursive or too large for an automaton, based on llguidance.

llguidance works lazily, at the reached positions of a grammar. xgrammar preprocesses the whole
grammar and vocabulary. Compilation and masks therefore stay fast for grammars written by people.
llguidance also limits its own work and has no dependencies. Its lexer is greedy, as `lark` takes
into account.

Knows no model. Grammars that llguidance cannot match raise GrammarError, at compilation or within
the request.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import GrammarError
from ...native_calls import native_call
from ..syntax import Rules
from ..vocabulary import Vocabulary
from .ending import Endings
from .lark import WORK
from .lexeme_lark import LexemeGrammar, write_lexemes
from .lexemes import WorkBudget

LARGEST_LARK = 2_000_000
LARGEST_RULES = 400_000
"""Characters of the Lark input, and of its rules without terminals. Longer rules take seconds; a
terminal is kept as a trie, and an enum of 25,000 strings of 14 characters takes 0.1 s."""

_LIMITS: dict[str, Any] = {
    "max_items_in_row": 2000,
    "initial_lexer_fuel": 1_000_000,
    "step_lexer_fuel": 200_000,
    "step_max_items": 50_000,
    "max_lexer_states": 50_000,
    "max_grammar_size": 500_000,
    "verbose_errors": False,
}
LEXEME_LIMITS = _LIMITS | {
    "max_items_in_row": 1_000_000,
    "step_lexer_fuel": 100_000_000,
    "step_max_items": 100_000_000,
    "max_lexer_states": 200_000,
}
"""Limits for schemas and patterns, which must not fail after compilation. A lexer state takes about
1 kB."""

_OPTIONS = '\n%llguidance {"no_forcing": true}\n'
"""Disables forced tokens, so masks allow every tokenization of forced text, not only llguidance's.
"""

_LISTING = re.compile(r"(?s)<state>.*|<backtrace>.*|<non-verbose/>|\n *[0-9]+ \| *%llguidance .*")
BYTES = Vocabulary([bytes([byte]) for byte in range(255)])
"""Vocabulary to run a grammar without a tokenizer. Byte 255 is in no UTF-8 text."""
_KEPT_TOKENIZERS = 4
_tokenizers: OrderedDict[str, Any] = OrderedDict()
_lock = Lock()


def write_schema(rules: Rules) -> LexemeGrammar:
    """Return `rules` as input of llguidance, and without labels.

    Args:
        rules: syntax tree made of lexemes.
    """
    return write_lexemes(rules, WorkBudget(WORK).spend, _has_text)


def _has_text(lark: str) -> bool:
    """True if a grammar of a single terminal has any text. llguidance detects dead ends within a
    terminal."""
    try:
        LlguidanceGrammar(lark, BYTES)
    except _NoToken:
        return False
    return True


class _NoToken(GrammarError):
    """No token can continue the text."""


class LlguidanceGrammar:
    """A Lark grammar bound to a vocabulary; shared by requests and threads."""

    def __init__(
        self,
        lark: str,
        vocabulary: Vocabulary,
        limits: dict[str, Any] = _LIMITS,
        *,
        shortest: bytes | None = None,
        endings: Endings | None = None,
    ) -> None:
        """Compile the grammar, without the GIL.

        Args:
            lark: grammar in Lark notation.
            vocabulary: bytes of the tokens.
            limits: limits of llguidance's parser.
            shortest: a shortest text, if known.
            endings: search for endings of texts.

        Raises:
            GrammarError: llguidance refuses the grammar.
        """
        _check_size(lark)
        self.vocabulary = vocabulary
        self.shortest, self.endings = shortest, endings
        self._lark, self._limits = lark, limits
        self._lock = Lock()
        self._first = self._compiled()
        vocabulary.token_of_byte  # noqa: B018  computed here, not on the engine's thread

    def _compiled(self) -> Any:
        """Return a new llguidance matcher at the start. Its copies share the lexer's states."""
        from llguidance import LLMatcher, LLParserLimits

        source = LLMatcher.grammar_from_lark(self._lark + _OPTIONS)
        limits = LLParserLimits(**self._limits)
        with native_call():
            first = LLMatcher(_tokenizer(self.vocabulary), source, log_level=0, limits=limits)
        if first.is_error():
            raise _refused(first.get_error())
        _allowed(first, self.vocabulary.size)
        return first

    def matcher(self) -> LlguidanceMatcher:
        """Return a new matcher at the start of the grammar. Thread-safe."""
        with self._lock:
            return LlguidanceMatcher(self, self._first, self._first.deep_copy(), [])

    def restarted(self, full: Any) -> tuple[Any, Any]:
        """Return the current prototype of copies, and a copy, to replace a matcher with a full
        lexer.

        Args:
            full: prototype of the matcher whose lexer reached its limit.
        """
        with self._lock:
            if self._first is full:
                self._first = self._compiled()
            return self._first, self._first.deep_copy()


def check_lark(lark: str) -> None:
    """Check a Lark grammar without a vocabulary.

    Args:
        lark: grammar in Lark notation.

    Raises:
        GrammarError: llguidance refuses the grammar.
    """
    from llguidance import LLMatcher

    _check_size(lark)
    with native_call():
        problem = LLMatcher.validate_grammar(LLMatcher.grammar_from_lark(lark))
    if problem:
        raise _refused(problem)


def _check_size(lark: str) -> None:
    rules = sum(len(line) for line in lark.splitlines() if not line[:1].isupper())
    for size, limit in ((len(lark), LARGEST_LARK), (rules, LARGEST_RULES)):
        if size > limit:
            problem = (
                f"the grammar is too large for llguidance: {size:,} characters as it reads them"
            )
            raise GrammarError(problem, f"fewer rules or options; the limit is {limit:,}")


HOLD = 0.002
"""Processor seconds of a call that keeps the GIL, after which a matcher rests and takes the next
token byte by byte."""

RESTS = 4
"""Rest of a matcher, as a multiple of the time for which a slow call kept the GIL."""


class LlguidanceMatcher:
    """`Matcher` without state numbers and labels, based on llguidance.

    llguidance keeps the GIL while a token is consumed. In an ambiguous grammar this takes up to 0.2
    seconds per token. Such tokens are consumed byte by byte, with rests for other threads.
    """

    state = -1
    searches = True

    def __init__(
        self, grammar: LlguidanceGrammar, first: Any, inner: Any, accepted: list[int]
    ) -> None:
        self._grammar, self._first, self._inner = grammar, first, inner
        self._accepted = accepted
        self._steps = [1] * len(accepted)  # consumed tokens of `inner` per accepted token
        self._is_slow = False
        self._vocabulary = grammar.vocabulary
        self._mask: NDArray[np.uint32] | None = None
        self._is_final: bool | None = None  # None: unknown at this position
        self._end: bytes | None = None  # result of `completion`, valid if `_end_is_known`
        self._end_is_known = False

    def accept_token(self, token: int) -> None:
        piece = self._vocabulary.pieces[token]
        steps = self._consume(token, piece) if piece else 0
        if self._inner.is_error():
            self._start_again()
            steps = self._consume(token, piece)
            self._check()

        if not steps:
            message = f"token {token} ({piece!r}) is not allowed here"
            raise GrammarError(message, "use an allowed token")
        self._accepted.append(token)
        self._steps.append(steps)
        self._mask = self._is_final = None
        if self._end is not None and self._end.startswith(piece):
            self._end = self._end.removeprefix(piece)
        else:
            self._end, self._end_is_known = None, False

    def _consume(self, token: int, piece: bytes) -> int:
        """Consume a token. Returns the number of steps; 0 if the token is not allowed."""
        single, ids = self._vocabulary.token_of_byte, [token]
        if self._is_slow and all(byte in single for byte in piece):
            ids = [single[byte] for byte in piece]

        self._is_slow = False
        for step, id in enumerate(ids):
            began = time.thread_time()
            accepted = self._inner.try_consume_tokens([id])
            seconds = time.thread_time() - began

            if not accepted:
                if step and not self._inner.is_error():
                    self._inner.rollback(step)
                return 0

            if seconds > HOLD:
                self._is_slow = True
                time.sleep(RESTS * seconds)
        return len(ids)

    def prepare(self) -> None:
        self.next_token_bitmask()
        _ = self.is_final

    def next_token_bitmask(self) -> NDArray[np.uint32]:
        if self._mask is None:
            try:
                self._mask = _allowed(self._inner, self._vocabulary.size)
            except _NoToken:
                raise
            except GrammarError:
                self._start_again()
                self._mask = _allowed(self._inner, self._vocabulary.size)
        return self._mask

    def _start_again(self) -> None:
        """Replay the accepted tokens with an empty lexer.

        The lexer states of all texts of a grammar share a limit, and most states are never used
        again. The matcher's visible state does not change.
        """
        self._first, self._inner = self._grammar.restarted(self._first)
        self._inner.consume_tokens(self._accepted)
        self._steps = [1] * len(self._accepted)

    def find_jump_forward_string(self) -> bytes:
        """Return the forced bytes that llguidance detects."""
        return b"" if self._inner.is_stopped() else bytes(self._inner.compute_ff_bytes())

    def distance(self) -> int | None:
        """Return the length of `completion`; None if unknown."""
        end = self.completion()
        return None if end is None else len(end)

    def completion(self) -> bytes | None:
        """Return a shortest text at the start, if known; afterwards a short ending, if known.

        The search runs on demand and takes some milliseconds.
        """
        if not self._accepted:
            return self._grammar.shortest
        if not self._end_is_known:
            self._end, self._end_is_known = self._find_end(), True
        return self._end

    def _find_end(self) -> bytes | None:
        endings, vocabulary = self._grammar.endings, self._vocabulary
        if endings is None:
            return None
        text = b"".join([vocabulary.pieces[token] for token in self._accepted])
        inner = self._inner.deep_copy()
        end = endings.find(inner, text, vocabulary.token_of_byte)
        return None if inner.is_error() else end

    def is_idle(self, tokens: int) -> bool:
        return False

    def labels(self, data: bytes = b"") -> tuple[str, ...]:
        """Return (): llguidance does not report its position in the grammar."""
        return ()

    def rollback(self, tokens: int) -> None:
        accepted = len(self._accepted)
        if not 0 <= tokens <= accepted:
            raise GrammarError(f"{tokens} tokens cannot be undone", f"{accepted} were accepted")
        if tokens:
            self._inner.rollback(sum(self._steps[-tokens:]))
            self._check()
            del self._accepted[-tokens:], self._steps[-tokens:]
            self._mask = self._is_final = None
            self._end, self._end_is_known = None, False

    def fork(self) -> LlguidanceMatcher:
        inner = self._inner.deep_copy()
        twin = LlguidanceMatcher(self._grammar, self._first, inner, self._accepted.copy())
        twin._steps, twin._is_slow = self._steps.copy(), self._is_slow
        twin._end, twin._end_is_known = self._end, self._end_is_known
        return twin

    @property
    def is_final(self) -> bool:
        if self._is_final is None:
            self._is_final = bool(self._inner.is_accepting())
        return self._is_final

    @property
    def finished(self) -> bool:
        return self.is_final and (self._inner.is_stopped() or not self.next_token_bitmask().any())

    def _check(self) -> None:
        if self._inner.is_error():
            raise _refused(self._inner.get_error())


def _allowed(inner: Any, size: int) -> NDArray[np.uint32]:
    """Return uint32[ceil(size / 32)], without llguidance's extra end-of-sequence token."""
    words = -(-size // 32)
    if inner.is_stopped() and not inner.is_error():
        mask: NDArray[np.uint32] = np.zeros(words, np.uint32)
    else:
        with native_call():
            bits = inner.compute_bitmask()
        mask = np.frombuffer(bits, np.uint32)[:words].copy()
        if inner.is_error():
            raise _refused(inner.get_error())
        if size % 32:
            mask[-1] &= np.uint32((1 << size % 32) - 1)
    mask.flags.writeable = False
    return mask


def _refused(message: str) -> GrammarError:
    """Convert llguidance's message, without listings and without the line added by `_OPTIONS`."""
    message = " ".join(_LISTING.sub("", message).split()) or "no reason given"
    if message.startswith("NoExtension"):
        return _NoToken(
            "no token of the vocabulary continues the grammar here",
            "allow other characters at this position: the tokenizer cannot write the characters",
        )
    hint = "see the named position in the grammar"
    if re.search(r"(?i)too (complex|big|many)|limit|max is|panic", message):
        hint = "make the grammar smaller or less ambiguous"
    return GrammarError(f"llguidance refuses: {message:.600}", hint)


def _tokenizer(vocabulary: Vocabulary) -> Any:
    """Return llguidance's form of the vocabulary, cached: construction takes 0.3 s for 131,072
    tokens."""
    from llguidance import LLTokenizer

    with _lock:
        tokenizer = _tokenizers.get(vocabulary.fingerprint)
        if tokenizer is None:
            size = vocabulary.size
            tokens: Any = _TokenizerAdapter(vocabulary)
            tokenizer = LLTokenizer(tokens, n_vocab=size + 1, eos_token=size)
            _tokenizers[vocabulary.fingerprint] = tokenizer
            while len(_tokenizers) > _KEPT_TOKENIZERS:
                _tokenizers.popitem(last=False)
        _tokenizers.move_to_end(vocabulary.fingerprint)
    return tokenizer


class _TokenizerAdapter:
    """Tokenizer interface of llguidance. Byte 255, absent from UTF-8, marks special tokens."""

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.eos_token_id = vocabulary.size
        text = [bool(piece) and b"\xff" not in piece for piece in vocabulary.pieces]
        special = [token for token, is_text in enumerate(text) if not is_text]
        self.special_token_ids = [*special, vocabulary.size]
        self.tokens: list[bytes] = [*vocabulary.pieces, b"<end of sequence>"]
        for token in special:
            self.tokens[token] = b"<special %d>" % token

    def __call__(self, text: str | bytes) -> list[int]:
        """Return []: only llguidance's forced tokens would need a tokenization, and forced tokens
        are disabled."""
        return []
