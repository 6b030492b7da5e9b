"""Compiles grammars off the engine's thread, each once: from a spec to a maker of matchers.

Two roads, see `lowering`. What depends on no tokenizer is made in another process where it may take
long, cached on disk and shared by engines; the grammar library's part is for one vocabulary.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any
from unicodedata import unidata_version
from weakref import WeakValueDictionary

from ..cache_file import CacheFile
from ..errors import GrammarError
from .automaton.automaton import Automaton
from .automaton.compressed import Compressed
from .library.ending import required_names
from .library.library import LEXEME_LIMITS, LibraryGrammar
from .lowering import Lowered, library_error, lower_if_small
from .matcher import AutomatonMatcher, Matcher, Paths
from .process import DiedError, processes
from .schema.suspects import suspects as schema_suspects
from .spec import GrammarSpec
from .vocabulary import Vocabulary

FORMAT = 5
"""Version of the disk cache: counts up when the same spec may give another automaton or other
bytes."""

WORTH_KEEPING = 0.005
"""Seconds of compile time from which the disk cache pays."""

THREADS = 4
"""Grammars compiled at a time: a hard one must not keep easy ones waiting."""

KEPT_IN_MEMORY = 256


@dataclass(frozen=True)
class CompiledGrammar:
    """What a spec means, for any vocabulary."""

    spec: GrammarSpec
    automaton: Automaton | None  # None for the grammar library
    lark: str | None  # what the library reads
    seconds: float  # how long compiling took, or reading where `from_cache`
    from_cache: bool = False
    why: str = ""  # why there is no automaton
    shortest: bytes | None = None  # without an automaton: a shortest text, if known
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
            compiled = _shared[spec] = _shared.get(spec) or compile_spec(spec)
            for line in suspects(spec):
                warnings.warn_explicit(line, UserWarning, "json_schema", 1, registry=_warned)
            return TokenGrammar(compiled, self._vocabulary())
        except DiedError:
            with self._lock:
                self._known.pop(spec, None)  # memory may be free again
            raise
        except GrammarError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise GrammarError(f"the {spec.kind} cannot be compiled: {reason}") from error


_shared: WeakValueDictionary[GrammarSpec, CompiledGrammar] = WeakValueDictionary()
"""What some engine uses."""

_warned: dict[Any, Any] = {}
"""`warnings`' registry of what was said."""


def suspects(spec: GrammarSpec) -> tuple[str, ...]:
    """What in a schema asks nothing and looks as if it should."""
    return schema_suspects(spec.text) if spec.kind == "json_schema" else ()


def compile_spec(spec: GrammarSpec) -> CompiledGrammar:
    """Compile, or read from the disk cache. Raises GrammarError.

    What may take long is compiled in another process. An interrupt ends only the wait for it.
    """
    began = time.perf_counter()
    file = cache_file(spec)
    content = file.read()
    lowered = _lower(spec) if content is None else Lowered.from_bytes(content)
    seconds = time.perf_counter() - began

    from_cache = content is not None
    if not from_cache and seconds > WORTH_KEEPING:
        file.write(lowered.to_bytes())
    return CompiledGrammar(
        spec, lowered.automaton, lowered.lark, seconds, from_cache, lowered.why, lowered.shortest
    )


def _lower(spec: GrammarSpec) -> Lowered:
    with _one_at_a_time:
        lowered = lower_if_small(spec)
    return lowered or processes.lower(spec)


_one_at_a_time = Lock()
"""Threads that compute take Python's lock in turns: with one of them a turn comes soon."""


def cache_file(spec: GrammarSpec) -> CacheFile:
    """Return the file that keeps the compiled `spec` between kernels."""
    return CacheFile(
        "grammars", FORMAT, unidata_version, spec.kind, spec.whitespace, spec.strict, spec.text
    )


def _from_library(compiled: CompiledGrammar, vocabulary: Vocabulary) -> LibraryGrammar:
    assert compiled.lark is not None
    if compiled.spec.kind == "ebnf":
        return LibraryGrammar(compiled.lark, vocabulary, shortest=compiled.shortest)
    try:
        is_json = compiled.spec.kind == "json_schema"
        return LibraryGrammar(
            compiled.lark,
            vocabulary,
            LEXEME_LIMITS,
            shortest=compiled.shortest,
            names=required_names(compiled.spec.text) if is_json else None,
        )
    except GrammarError as error:
        raise library_error(compiled.why, error) from error
