"""Compiles grammars off the engine's thread, each once: from a spec to a maker of matchers.

Two roads. What is regular and not too large becomes an automaton, which depends on no tokenizer and
is cached on disk. What is recursive or too large goes to a grammar library, for one vocabulary.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any
from unicodedata import unidata_version

from ..errors import GrammarError
from .automaton.automaton import Automaton, build
from .automaton.compressed import Compressed
from .automaton.limits import Limits, Recursive, TooLarge
from .library.library import LibraryGrammar, compile_ebnf, compile_lexemes
from .matcher import AutomatonMatcher, Matcher, Paths
from .regex import parser as regex
from .schema.suspects import suspects as schema_suspects
from .schema.translate import translate
from .spec import GrammarSpec
from .syntax import Lexeme, Rules
from .vocabulary import Vocabulary

FORMAT = 3
"""Version of the disk cache: counts up when the same spec may give another automaton."""

REGEX_LIMITS = Limits(positions=40_000, building=16_000, seconds=0.5)
SCHEMA_LIMITS = Limits(positions=6_000, building=4_000, seconds=0.3)
"""What would take longer goes to the library, whose masks are as fast. The bound is on the size
first, so that a grammar takes the same road on machines of all speeds."""

WORTH_KEEPING = 0.005
"""Seconds of compile time from which the disk cache pays."""

THREADS = 4
"""Grammars compiled at a time: a hard one must not keep easy ones waiting."""

SUFFIX = ".safetensors"
KEPT_ON_DISK = 1024
KEPT_IN_MEMORY = 256


@dataclass(frozen=True)
class CompiledGrammar:
    """What a spec means, for any vocabulary."""

    spec: GrammarSpec
    automaton: Automaton | None  # None for the grammar library
    rules: Rules | None  # of a schema or a pattern for the library
    seconds: float  # how long compiling took, or reading where `from_cache`
    from_cache: bool = False
    why: str = ""  # why there is no automaton
    number: int = field(default_factory=itertools.count(1).__next__)  # of this process

    @cached_property
    def compressed(self) -> Compressed:
        """Only with an automaton."""
        assert self.automaton is not None
        return Compressed(self.automaton)


class TokenGrammar:
    """A compiled grammar joined to a vocabulary; shared by every request that uses both."""

    def __init__(self, compiled: CompiledGrammar, vocabulary: Vocabulary) -> None:
        self.compiled = compiled
        if compiled.automaton is None:
            self._library = _from_library(compiled, vocabulary)
        else:
            self._paths = Paths(compiled.automaton, compiled.compressed, vocabulary)

    def matcher(self) -> Matcher:
        """A new one, at the beginning."""
        if self.compiled.automaton is None:
            return self._library.matcher()
        return AutomatonMatcher(self._paths)


class GrammarCompiler:
    """Compiles for one vocabulary on threads of its own, each grammar once for all its requests."""

    def __init__(self, vocabulary: Callable[[], Vocabulary]) -> None:
        """vocabulary: makes it or returns the existing one; called on a thread of the compiler."""
        self._vocabulary = vocabulary
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="sgnb-grammar")
        self._known: OrderedDict[GrammarSpec, Future[TokenGrammar]] = OrderedDict()
        self._lock = Lock()

    def compile(self, spec: GrammarSpec) -> Future[TokenGrammar]:
        """Does not block. The future's error is the grammar's own GrammarError."""
        with self._lock:
            future = self._known.get(spec)
            if future is None:
                future = self._known[spec] = self._threads.submit(self._make, spec)
            self._known.move_to_end(spec)
            while len(self._known) > KEPT_IN_MEMORY:
                self._known.popitem(last=False)
        return future

    def find(self, number: int) -> CompiledGrammar | None:
        """The one of that number, if it is still known."""
        with self._lock:
            done = [future for future in self._known.values() if future.done()]
        known = (f.result().compiled for f in done if not f.cancelled() and not f.exception())
        return next((grammar for grammar in known if grammar.number == number), None)

    def close(self) -> None:
        """Take no more work. Harmless when repeated."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _make(self, spec: GrammarSpec) -> TokenGrammar:
        try:
            compiled = compile_spec(spec)
            for line in suspects(spec):
                warnings.warn_explicit(line, UserWarning, "json_schema", 1, registry=_warned)
            return TokenGrammar(compiled, self._vocabulary())
        except GrammarError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise GrammarError(f"the {spec.kind} cannot be compiled: {reason}") from error


_warned: dict[Any, Any] = {}
"""`warnings`' registry of what was said."""


def suspects(spec: GrammarSpec) -> tuple[str, ...]:
    """What in a schema asks nothing and looks as if it should."""
    return schema_suspects(spec.text) if spec.kind == "json_schema" else ()


def compile_spec(spec: GrammarSpec) -> CompiledGrammar:
    """Compile, or read from the disk cache. Raises GrammarError."""
    began = time.perf_counter()
    kept = _place(spec)
    automaton = Automaton.load(kept)
    if automaton is not None:
        return CompiledGrammar(spec, automaton, None, time.perf_counter() - began, from_cache=True)
    automaton, rules, why = _compile(spec)
    seconds = time.perf_counter() - began
    if automaton is not None and seconds > WORTH_KEEPING:
        _keep(automaton, kept)
    return CompiledGrammar(spec, automaton, rules, seconds, why=why)


def cache_folder() -> Path:
    """Where automata are kept between kernels: SGNB_CACHE, else the user's cache folder."""
    user = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "sgnb")
    return Path(os.environ.get("SGNB_CACHE") or user).expanduser() / "grammars"


def _compile(spec: GrammarSpec) -> tuple[Automaton | None, Rules | None, str]:
    if spec.kind == "ebnf":
        return None, None, "a grammar can be recursive"
    if spec.kind == "regex":
        rules, limits = Rules(Lexeme(regex.parse(spec.text))), REGEX_LIMITS
    else:
        rules, limits = translate(spec.text, spec.whitespace), SCHEMA_LIMITS
    try:
        return build(rules, limits), None, ""
    except (Recursive, TooLarge) as error:
        return None, rules, error.message


def _from_library(compiled: CompiledGrammar, vocabulary: Vocabulary) -> LibraryGrammar:
    if compiled.rules is None:
        return compile_ebnf(compiled.spec.text, vocabulary)
    try:
        return compile_lexemes(compiled.rules, vocabulary)
    except GrammarError as error:
        message = f"{compiled.why}; and the grammar library: {error.message}"
        raise GrammarError(message, error.hint) from error


def _place(spec: GrammarSpec) -> Path:
    key = f"{FORMAT}\0{unidata_version}\0{spec.kind}\0{spec.whitespace}\0{spec.text}"
    return cache_folder() / f"{hashlib.sha256(key.encode()).hexdigest()[:40]}{SUFFIX}"


def _keep(automaton: Automaton, place: Path) -> None:
    """Write it to the disk cache, and evict the oldest files. A full disk is no error."""
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        automaton.save(place)
        files = sorted(place.parent.glob(f"*{SUFFIX}"), key=lambda file: file.stat().st_mtime)
        for old in files[:-KEPT_ON_DISK]:
            old.unlink(missing_ok=True)
