"""Grammar compiler: compiles specs on background threads, each spec once, into factories of
matchers.

A spec becomes an automaton or a grammar of llguidance; see `lowering`. Lowering is
independent of the tokenizer: expensive specs are lowered in another process, cached on disk and
shared by engines. Only llguidance's grammar objects depend on a vocabulary.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property, partial
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any
from unicodedata import unidata_version
from weakref import WeakValueDictionary, finalize

from ..cache_file import CacheFile
from ..errors import GrammarError, SgnbWarning
from .automaton.automaton import START, Automaton
from .automaton.compressed import CompressedAutomaton
from .distinct.distinct_matcher import DistinctMatcher
from .distinct.distinct_tokens import distinct_tokens
from .distinct.places import Place, root_place
from .llguidance_backend.cfg_matcher import LEXEME_LIMITS, LlguidanceGrammar
from .llguidance_backend.ebnf import ebnf_rules
from .llguidance_backend.ending import Endings, JsonEndings, PatternEndings, RecursiveEndings
from .lowering import LoweredGrammar, llguidance_error, lower_if_small, regular_rules
from .matcher import AutomatonMatcher, Matcher, Paths
from .process import DiedError, processes
from .regex.properties import tables_version
from .schema.schema_lint import lint_schema
from .spec import GrammarSpec
from .vocabulary import Vocabulary

FORMAT = 9
"""Version of the disk cache. Increment if a spec may produce another automaton or other bytes."""

WORTH_KEEPING = 0.005
"""Minimum compile time in seconds that justifies an entry of the disk cache."""

THREADS = 4
"""Number of concurrent compilations, so that an expensive grammar does not delay cheap grammars."""

KEPT_IN_MEMORY = 256


@dataclass(frozen=True)
class CompiledGrammar:
    """A compiled spec, independent of any vocabulary."""

    spec: GrammarSpec
    automaton: Automaton | None  # None if llguidance matches the spec
    lark: str | None  # Lark grammar for llguidance
    seconds: float  # duration of the compilation, or of the read if `from_cache`
    from_cache: bool = False
    why: str = ""  # reason for the absence of an automaton
    shortest: bytes | None = None  # a shortest text if known; only without an automaton
    least: int = 0  # lower bound of the bytes of every text; only without an automaton
    distinct: bool = False  # items or names must not repeat, see `distinct`
    number: int = field(default_factory=itertools.count(1).__next__)  # unique in this process

    @cached_property
    def compressed(self) -> CompressedAutomaton:
        """Automaton with merged forced paths, for jump-forward. Only if `automaton` is set."""
        assert self.automaton is not None
        return CompressedAutomaton(self.automaton)


class TokenGrammar:
    """A compiled grammar bound to a vocabulary; shared by all requests with the same grammar and
    vocabulary."""

    def __init__(self, compiled: CompiledGrammar, vocabulary: Vocabulary) -> None:
        self.compiled = compiled
        if compiled.automaton is None:
            self._llguidance = _from_llguidance(compiled, vocabulary)
        else:
            self._paths = Paths(compiled.automaton, compiled.compressed, vocabulary)
            self._paths.masks.mask(START)  # builds the vocabulary's prefix tree on this thread
        self._vocabulary = vocabulary
        self._root: Place | None = None
        if compiled.distinct:
            self._root = root_place(compiled.spec.text)
            distinct_tokens(vocabulary)  # takes 0.3 s for 131,072 tokens, once

    @property
    def is_slow(self) -> bool:
        """True if a matcher may take seconds for a token. Matchers of the grammar must then never
        be used by two threads at once, because they share a lock."""
        return self.compiled.automaton is None

    def matcher(self) -> Matcher:
        """Return a new matcher at the start of the grammar."""
        automaton = self.compiled.automaton
        matcher = AutomatonMatcher(self._paths) if automaton else self._llguidance.matcher()
        if self._root is None:
            return matcher
        return DistinctMatcher(matcher, self._root, self._vocabulary, automaton)


class GrammarCompiler:
    """Compiles grammars for a single vocabulary on `THREADS` threads. Requests with equal specs
    share a result.

    `ThreadPoolExecutor.submit` takes locks written in Python: an interrupt of the main thread
    inside `submit` leaves a lock acquired, and every later call blocks. `SimpleQueue` is C code.
    """

    def __init__(self, vocabulary: Callable[[], Vocabulary]) -> None:
        """Start the threads. They end with `close`, or with the last reference to the compiler.

        Args:
            vocabulary: returns the vocabulary; called on a thread of the compiler.
        """
        self._vocabulary = vocabulary
        self._futures: OrderedDict[GrammarSpec, Future[TokenGrammar]] = OrderedDict()
        self._lock = Lock()
        self._queue: SimpleQueue[_Compilation | None] = SimpleQueue()
        self._finalizer = finalize(self, _stop, self._queue)
        for _ in range(THREADS):
            Thread(target=_serve, args=(self._queue,), name="sgnb-grammar", daemon=True).start()

    def compile(self, spec: GrammarSpec) -> Future[TokenGrammar]:
        """Start the compilation of `spec`, or join a previous compilation. Does not block.

        Args:
            spec: constraint to compile.

        Returns:
            Future of the grammar. Its exception is a GrammarError about the spec.
        """
        with self._lock:
            future = self._futures.get(spec)
            if future is None:
                future = Future()
                self._queue.put((spec, self._make, future))
                self._futures[spec] = future  # last: an interrupt leaves no future without work
            self._futures.move_to_end(spec)
            while len(self._futures) > KEPT_IN_MEMORY:
                self._futures.popitem(last=False)
        return future

    def find(self, number: int) -> CompiledGrammar | None:
        """Return the compiled grammar with the given number, or None after its eviction.

        Args:
            number: `CompiledGrammar.number`.
        """
        with self._lock:
            done = [future for future in self._futures.values() if future.done()]
        grammars = (f.result().compiled for f in done if not f.cancelled() and not f.exception())
        return next((grammar for grammar in grammars if grammar.number == number), None)

    def close(self) -> None:
        """Cancel queued compilations and end the threads. Repeated calls have no effect."""
        self._finalizer()

    def _make(self, spec: GrammarSpec) -> TokenGrammar:
        try:
            compiled = _shared[spec] = _shared.get(spec) or compile_spec(spec)
            for line in lint_spec(spec):
                warnings.warn_explicit(line, SgnbWarning, "json_schema", 1, registry=_warned)
            return TokenGrammar(compiled, self._vocabulary())
        except DiedError:
            with self._lock:
                self._futures.pop(spec, None)  # a retry may succeed once memory is free again
            raise
        except GrammarError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise GrammarError(f"the {spec.kind} cannot be compiled: {reason}") from error


_Compilation = tuple[GrammarSpec, Callable[[GrammarSpec], TokenGrammar], Future[TokenGrammar]]
"""A spec, its compile function, and the future of the grammar."""


def _serve(queue: SimpleQueue[_Compilation | None]) -> None:
    """Compile queued specs until None arrives."""
    while (compilation := queue.get()) is not None:
        spec, make, future = compilation
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(make(spec))
            except BaseException as error:
                future.set_exception(error)
        del compilation, make, future  # may hold the compiler, whose finalizer ends this thread


def _stop(queue: SimpleQueue[_Compilation | None]) -> None:
    """Cancel queued compilations and end the threads."""
    while True:
        try:
            compilation = queue.get_nowait()
        except Empty:
            break
        if compilation is not None:
            compilation[2].cancel()
    for _ in range(THREADS):
        queue.put(None)


_shared: WeakValueDictionary[GrammarSpec, CompiledGrammar] = WeakValueDictionary()
"""Compiled grammars in use by any engine of this process."""

_warned: dict[Any, Any] = {}
"""Registry of `warnings`, so that each warning is shown once."""


def lint_spec(spec: GrammarSpec) -> tuple[str, ...]:
    """Return warnings about keywords of a schema that constrain nothing, such as misspelled names.

    Args:
        spec: constraint to inspect; only JSON schemas have warnings.
    """
    return lint_schema(spec.text) if spec.kind == "json_schema" else ()


def compile_spec(spec: GrammarSpec) -> CompiledGrammar:
    """Compile `spec`, or read the result from the disk cache.

    Expensive specs are compiled in another process. An interrupt ends only the wait for the result.

    Args:
        spec: constraint to compile.

    Raises:
        GrammarError: the spec is invalid, unsupported or too large.
    """
    began = time.perf_counter()
    file = cache_file(spec)
    content = file.read()
    lowered = _lower(spec) if content is None else LoweredGrammar.from_bytes(content)
    seconds = time.perf_counter() - began

    from_cache = content is not None
    if not from_cache and seconds > WORTH_KEEPING:
        file.write(lowered.to_bytes())
    return CompiledGrammar(
        spec=spec,
        automaton=lowered.automaton,
        lark=lowered.lark,
        seconds=seconds,
        from_cache=from_cache,
        why=lowered.why,
        shortest=lowered.shortest,
        least=lowered.least,
        distinct=lowered.distinct,
    )


def _lower(spec: GrammarSpec) -> LoweredGrammar:
    with _one_at_a_time:
        lowered = lower_if_small(spec)
    return lowered or processes.lower(spec)


_one_at_a_time = Lock()
"""Compilations on threads take turns, so at most a single compiling thread competes with the engine
for the GIL."""


def cache_file(spec: GrammarSpec) -> CacheFile:
    """Return the file that keeps the compiled `spec` between kernels.

    Args:
        spec: constraint that identifies the file.
    """
    return CacheFile(
        "grammars", FORMAT, unidata_version, spec.kind, spec.whitespace, spec.strict,
        spec.leading_blank, spec.text, tables_version(spec.text),
    )  # fmt: skip


def _from_llguidance(compiled: CompiledGrammar, vocabulary: Vocabulary) -> LlguidanceGrammar:
    spec, lark, shortest = compiled.spec, compiled.lark, compiled.shortest
    assert lark is not None
    if spec.kind == "ebnf":
        recursive = RecursiveEndings(partial(ebnf_rules, spec.text))
        return LlguidanceGrammar(lark, vocabulary, shortest=shortest, endings=recursive)

    endings: Endings = PatternEndings(partial(regular_rules, spec))
    if spec.kind == "json_schema":
        endings = JsonEndings(spec.text, shortest)
    try:
        return LlguidanceGrammar(
            lark, vocabulary, LEXEME_LIMITS, shortest=shortest, endings=endings
        )
    except GrammarError as error:
        raise llguidance_error(compiled.why, error) from error
