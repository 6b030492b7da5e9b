"""The tools that `grammar_compile` compares, behind one interface: compile a schema, replay tokens.

All are asked for compact JSON with the schema's order of keys and JSON Schema's own defaults
(additional properties are allowed). A schema that a tool refuses is a Refused, and so is text.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, Protocol

import llguidance
import numpy as np
import xgrammar
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask

from sgnb.errors import GrammarError
from sgnb.grammar.compiler import TokenGrammar, compile_spec
from sgnb.grammar.matcher import Matcher
from sgnb.grammar.spec import GrammarSpec
from sgnb.grammar.vocabulary import Vocabulary

from .pieces import EOS, Pieces

Tokens = Sequence[int]
Timed = tuple[float, list[list[float] | None]]
"""Seconds of compiling; for each text the seconds of each mask, or None if it is refused."""


class Refused(Exception):
    """The tool does not take the schema."""


class Tool(Protocol):
    """Compiles a schema and replays texts, given as tokens, each with a matcher of its own."""

    name: str

    def run(self, schema: str, texts: Sequence[Tokens]) -> Timed:
        """Raises Refused."""


def replay(
    tokens: Tokens, mask: Callable[[], Any], accept: Callable[[int], bool], ends: Callable[[], bool]
) -> Any:
    """Seconds of each mask with the token accepted after it, and of the last; None if refused."""
    times = []
    for token in tokens:
        began = time.perf_counter()
        mask()
        accepted = accept(token)
        times.append(time.perf_counter() - began)
        if not accepted:
            return None
    began = time.perf_counter()
    mask()
    times.append(time.perf_counter() - began)
    return times if ends() else None


class Sgnb:
    """Tool with a disk cache in the folder SGNB_CACHE; see `grammar_compile`."""

    name = "sgnb"

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._vocabulary = Vocabulary(pieces)
        _ = self._vocabulary.tree
        TokenGrammar(compile_spec(GrammarSpec("ebnf", 'root ::= "a"')), self._vocabulary)

    def run(self, schema: str, texts: Sequence[Tokens]) -> Timed:
        began = time.perf_counter()
        try:
            grammar = TokenGrammar(
                compile_spec(GrammarSpec("json_schema", schema, 0)), self._vocabulary
            )
        except GrammarError as error:
            raise Refused(error.message) from error
        took = time.perf_counter() - began
        return took, [self._replay(grammar.matcher(), tokens) for tokens in texts]

    def _replay(self, matcher: Matcher, tokens: Tokens) -> list[float] | None:
        def accept(token: int) -> bool:
            try:
                matcher.accept_token(token)
            except GrammarError:
                return False
            return True

        return replay(tokens, matcher.next_token_bitmask, accept, lambda: matcher.is_final)


class XGrammar:
    name = "xgrammar"

    def __init__(self, pieces: Sequence[bytes]) -> None:
        info = xgrammar.TokenizerInfo(list(pieces), xgrammar.VocabType.RAW, stop_token_ids=[EOS])
        self._compiler = xgrammar.GrammarCompiler(
            info, max_threads=os.cpu_count() or 1, cache_enabled=False
        )
        self._bits = xgrammar.allocate_token_bitmask(1, len(pieces))

    def run(self, schema: str, texts: Sequence[Tokens]) -> Timed:
        began = time.perf_counter()
        try:
            grammar = self._compiler.compile_json_schema(
                schema, any_whitespace=False, separators=(",", ":"), strict_mode=False
            )
        except Exception as error:
            raise Refused(str(error)) from error
        took = time.perf_counter() - began
        return took, [self._replay(xgrammar.GrammarMatcher(grammar), tokens) for tokens in texts]

    def _replay(self, matcher: xgrammar.GrammarMatcher, tokens: Tokens) -> list[float] | None:
        def mask() -> None:
            matcher.fill_next_token_bitmask(self._bits)

        return replay(tokens, mask, matcher.accept_token, lambda: matcher.accept_token(EOS))


class LLGuidance:
    """Tool with masks that allow every tokenization, like the other tools."""

    name = "llguidance"

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._tokenizer = llguidance.LLTokenizer(Pieces(pieces), n_vocab=len(pieces), eos_token=EOS)
        self._bits = allocate_token_bitmask(1, len(pieces))

    def run(self, schema: str, texts: Sequence[Tokens]) -> Timed:
        source = llguidance.LLMatcher.grammar_from_lark(
            f'%llguidance {{"no_forcing": true}}\nstart: %json {self._compact(schema)}\n'
        )
        began = time.perf_counter()
        first = llguidance.LLMatcher(self._tokenizer, source, log_level=0)
        took = time.perf_counter() - began
        if first.is_error():
            raise Refused(first.get_error())
        return took, [self._replay(first.deep_copy(), tokens) for tokens in texts]

    def _compact(self, schema: str) -> str:
        parsed = json.loads(schema)
        layout = {"whitespace_flexible": False, "item_separator": ",", "key_separator": ":"}
        return json.dumps(parsed | {"x-guidance": layout}) if isinstance(parsed, dict) else schema

    def _replay(self, matcher: llguidance.LLMatcher, tokens: Tokens) -> list[float] | None:
        def mask() -> None:
            fill_next_token_bitmask(matcher, self._bits)

        return replay(tokens, mask, matcher.consume_token, matcher.is_accepting)


class OutlinesCore:
    """Tool in a separate process, which ends if compilation takes more than `limit` seconds."""

    name = "outlines-core"

    def __init__(self, pieces: Sequence[bytes], limit: float) -> None:
        self._pieces, self._limit = list(pieces), limit

    def start(self) -> OutlinesCore:
        """Before the first `run`."""
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_outlines_process, args=(theirs, self._pieces), daemon=True
        )
        self._process.start()
        self._pipe.recv()
        return self

    def run(self, schema: str, texts: Sequence[Tokens]) -> Timed:
        self._pipe.send((schema, texts))
        if not self._pipe.poll(self._limit):
            self.close()
            self.start()
            raise Refused(f"not compiled after {self._limit:g} s")
        took = self._pipe.recv()
        if isinstance(took, str):
            raise Refused(took)
        return took, self._pipe.recv()

    def close(self) -> None:
        self._process.kill()
        self._process.join()


def _outlines_process(pipe: Connection, pieces: list[bytes]) -> None:
    """Answers each schema with the seconds of compiling, or why not, then with its texts' times."""
    from outlines_core import Guide, Index, Vocabulary
    from outlines_core.json_schema import build_regex_from_schema

    ids: dict[bytes, list[int]] = {}
    for token, piece in enumerate(pieces):
        if piece:
            ids.setdefault(piece, []).append(token)
    vocabulary = Vocabulary(EOS, ids)
    bits = np.zeros(-(-len(pieces) // 32), np.int32)
    pipe.send("ready")
    while True:
        schema, texts = pipe.recv()
        began = time.perf_counter()
        try:
            index = Index(build_regex_from_schema(schema, ""), vocabulary)
        except BaseException as error:  # a panic of the library is no Exception
            pipe.send(f"{type(error).__name__}: {error}")
            continue
        pipe.send(time.perf_counter() - began)
        times = []
        for tokens in texts:
            guide = Guide(index)

            def mask(guide: Any = guide) -> None:
                guide.write_mask_into(bits.ctypes.data, bits.size, bits.itemsize)

            def accept(token: int, guide: Any = guide) -> bool:
                try:
                    guide.advance(token, False)
                except ValueError:
                    return False
                return True

            times.append(replay(tokens, mask, accept, guide.is_finished))
        pipe.send(times)
