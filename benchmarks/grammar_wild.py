"""`python -m benchmarks grammar_wild FOLDER [--sample N] [--seed N] [--unique] [--xgrammar]`:
public schemas and instances, 131,072 tokens: sgnb, llguidance, and xgrammar if asked for.

FOLDER holds one or both of the public suites, see `schema_suites`.

Each schema goes to every tool in turns, in the tool's own defaults, and each of its instances, as
`json.dumps` writes it, through a matcher of its own, token by token: a token that a mask lacks
rejects the instance. A schema that is refused because nothing is valid under it counts as compiled
where all its instances are invalid. A mask's time includes accepting the token after it; times are
those of valid instances, and nothing is cached on disk. Memory is what the process grows by while
it keeps a batch of grammars.

A whole suite takes long: `--shard I/N --save FILE` measures one of N parts, and
`python -m benchmarks.grammar_counts FILE...` adds the parts up.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar
from unittest.mock import patch

import mistral_common
import numpy as np
from mistral_common.tokens.tokenizers.tekken import Tekkenizer

from sgnb.errors import GrammarError
from sgnb.grammar.compiler import TokenGrammar, compile_spec
from sgnb.grammar.process import processes
from sgnb.grammar.spec import GrammarSpec
from sgnb.grammar.vocabulary import Vocabulary
from tests.large_vocabulary import FILE, pieces

from .common import Report
from .grammar_counts import Counts, Suite, save
from .pieces import EOS, Pieces
from .schema_suites import (
    DRAFTS,
    Case,
    Instance,
    Tokens,
    maskbench,
    maskbench_case,
    sampled,
    suite_cases,
)

OURS = (True, False)  # values of `json_strict`, each measured as a tool
KEPT = 20  # grammars of a batch whose memory is measured
SAVE_SECONDS = 15

_NOTHING_VALID = re.compile("(?i)no JSON value is valid|no text|unsatisfiable")

T = TypeVar("T")


class Refused(Exception):
    """The tool does not take the schema."""


class Failed(Exception):
    """The tool took the schema, and gave up on the way through a text."""


class Session(Protocol):
    """One text on its way."""

    def mask(self) -> Any:
        """uint32[words], one bit a token. Raises Failed."""

    def accept(self, token: int) -> None:
        """A token of the mask. Raises Failed."""

    def ends(self) -> bool:
        """Whether the text may end here."""


class Tool(Protocol):
    name: str

    def compile(self, schema: str) -> Callable[[], Session]:
        """What makes sessions. Raises Refused."""


class Sgnb:
    def __init__(self, vocabulary: Vocabulary, strict: bool) -> None:
        self.name = "sgnb" if strict else "sgnb, json_strict=False"
        self._vocabulary, self._strict = vocabulary, strict
        _ = self._vocabulary.tree
        TokenGrammar(compile_spec(GrammarSpec("ebnf", 'root ::= "a"')), self._vocabulary)

    def compile(self, schema: str) -> Callable[[], Session]:
        try:
            spec = GrammarSpec("json_schema", schema, strict=self._strict)
            grammar = TokenGrammar(compile_spec(spec), self._vocabulary)
        except GrammarError as error:
            raise Refused(error.message) from error
        return lambda: _SgnbSession(grammar)


class _SgnbSession:
    def __init__(self, grammar: TokenGrammar) -> None:
        self._matcher = grammar.matcher()

    def mask(self) -> Any:
        try:
            return self._matcher.next_token_bitmask()
        except GrammarError as error:
            raise Failed(error.message) from error

    def accept(self, token: int) -> None:
        try:
            self._matcher.accept_token(token)
        except GrammarError as error:
            raise Failed(error.message) from error

    def ends(self) -> bool:
        return self._matcher.is_final


class LLGuidance:
    """Tool with default limits and JSON front end, and with masks that allow every tokenization."""

    name = "llguidance"

    def __init__(self, pieces: Sequence[bytes]) -> None:
        import llguidance

        self._library = llguidance
        self._tokenizer = llguidance.LLTokenizer(Pieces(pieces), n_vocab=len(pieces), eos_token=EOS)

    def compile(self, schema: str) -> Callable[[], Session]:
        source = self._library.LLMatcher.grammar_from_lark(
            f'%llguidance {{"no_forcing": true}}\nstart: %json {schema}\n'
        )
        first = self._library.LLMatcher(self._tokenizer, source, log_level=0)
        if first.is_error():
            raise Refused(first.get_error())
        return lambda: _LLGuidanceSession(first.deep_copy())


class _LLGuidanceSession:
    def __init__(self, matcher: Any) -> None:
        self._matcher = matcher

    def mask(self) -> Any:
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint32)
        self._check()
        return bits

    def accept(self, token: int) -> None:
        self._matcher.consume_token(token)
        self._check()

    def ends(self) -> bool:
        return bool(self._matcher.is_accepting())

    def _check(self) -> None:
        if self._matcher.is_error():
            raise Failed(self._matcher.get_error())


class XGrammar:
    name = "xgrammar"

    def __init__(self, pieces: Sequence[bytes]) -> None:
        import xgrammar

        self._library = xgrammar
        info = xgrammar.TokenizerInfo(list(pieces), xgrammar.VocabType.RAW, stop_token_ids=[EOS])
        self._compiler = xgrammar.GrammarCompiler(
            info, max_threads=os.cpu_count() or 1, cache_enabled=False
        )
        self._bits = xgrammar.allocate_token_bitmask(1, len(pieces))

    def compile(self, schema: str) -> Callable[[], Session]:
        try:
            grammar = self._compiler.compile_json_schema(schema, strict_mode=False)
        except Exception as error:
            raise Refused(str(error)) from error
        return lambda: _XGrammarSession(self._library.GrammarMatcher(grammar), self._bits)


class _XGrammarSession:
    def __init__(self, matcher: Any, bits: Any) -> None:
        self._matcher, self._bits = matcher, bits

    def mask(self) -> Any:
        self._matcher.fill_next_token_bitmask(self._bits)
        return self._bits[0].numpy().view(np.uint32)

    def accept(self, token: int) -> None:
        if not self._matcher.accept_token(token):
            raise Failed("a token of its own mask is not accepted")

    def ends(self) -> bool:
        return bool(self._matcher.accept_token(EOS))


class Measured(Counts):
    """What one tool does."""

    def __init__(self, tool: Tool) -> None:
        super().__init__(tool.name)
        self._tool = tool
        self._alive: list[Any] = []
        self._before = 0

    def take(self, case: Case) -> None:
        self.schemas += 1
        if not self._alive:
            self._before = _resident()
        began = time.perf_counter()
        try:
            make = self._tool.compile(case.schema)
        except Refused as refusal:
            self.refusing.append(time.perf_counter() - began)
            if _NOTHING_VALID.search(str(refusal)) and not any(i.valid for i in case.instances):
                self.right += 1
                self.unsatisfiable += 1
                return
            self.refusals.append((case.name, str(refusal)))
            return
        self.compiling.append(time.perf_counter() - began)
        self._alive.append(make)
        self._replay(case, make)
        if len(self._alive) == KEPT:
            self.kept.append((_resident() - self._before) / KEPT)
            self._alive.clear()

    def _replay(self, case: Case, make: Callable[[], Session]) -> None:
        wrong = 0
        for instance in case.instances:
            try:
                accepted = self._accepts(make(), instance)
            except Failed as failure:
                self.failed.append((case.name, str(failure)))
                wrong += 1
                continue
            if accepted != instance.valid:
                (self.let_through if accepted else self.turned_away).append(case.name)
                wrong += 1
        self.right += not wrong

    def _accepts(self, session: Session, instance: Instance) -> bool:
        times = []
        for token in instance.tokens:
            began = time.perf_counter()
            mask = session.mask()
            allowed = bool(mask[token >> 5] >> np.uint32(token & 31) & 1)
            if allowed:
                session.accept(token)
            times.append(time.perf_counter() - began)
            if not allowed:
                break
        else:
            if instance.valid:
                self.masks += times
            return session.ends()
        if instance.valid:
            self.masks += times
        return False


def _resident() -> int:
    """Bytes of the process's own memory, after what is free went back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _tools(xgrammar: bool) -> list[Tool]:
    vocabulary = Vocabulary(pieces())
    found: list[Tool] = [*(Sgnb(vocabulary, strict) for strict in OURS), LLGuidance(pieces())]
    return [*found, XGrammar(pieces())] if xgrammar else found


def _measure(
    everyone: Sequence[Measured], cases: Iterable[Case], seconds: float, keep: Callable[[], None]
) -> None:
    """Measure for at most `seconds`; a started case ends first. `keep` saves the results."""
    began = last = time.perf_counter()
    for case in cases:
        now = time.perf_counter()
        if now - began > seconds:
            break
        if now - last > SAVE_SECONDS:
            keep()
            last = now
        for measured in everyone:
            measured.take(case)
    keep()


def run(
    folder: Path,
    sample: int | None = None,
    seed: int = 0,
    xgrammar: bool = False,
    *,
    unique: bool = False,
    shard: tuple[int, int] = (0, 1),
    seconds: float = float("inf"),
    save_to: Path | None = None,
) -> list[Report]:
    """The tables of the suites that `folder` has. xgrammar: it too, which must be installed.

    shard: (i, n) for the schemas i, i + n, i + 2 n, ... of each suite or sample. seconds: for each
    suite; then what was measured is all. save_to: a file for what was counted, see
    `grammar_counts`.
    """
    tokenizer = Tekkenizer.from_file(Path(mistral_common.__file__).parent / "data" / FILE)

    def encode(text: str) -> Tokens:
        return tokenizer.encode(text, bos=False, eos=False)

    tools = _tools(xgrammar)
    suites: list[Suite] = []

    def measure(name: str, kind: str, found: list[T], case: Callable[[T], Case]) -> None:
        chosen = sampled(found, sample, seed)[shard[0] :: shard[1]]
        everyone = [Measured(tool) for tool in tools]
        suites.append(Suite(name, len(found), kind, len(OURS), [*everyone]))
        _measure(everyone, map(case, chosen), seconds, keep)

    def keep() -> None:
        if save_to is not None:
            save(save_to, suites)

    with (
        tempfile.TemporaryDirectory() as cache,
        patch.dict(os.environ, {"SGNB_CACHE": cache}),
        patch("sgnb.grammar.compiler.WORTH_KEEPING", float("inf")),
    ):
        processes.lower(GrammarSpec("regex", "a"))  # starts one: a second, once for a kernel
        if found := maskbench(folder):
            name = "MaskBench with uniqueItems" if unique else "MaskBench"
            measure(name, "schemas", found, lambda one: maskbench_case(*one, encode, unique))
        if (folder / "tests").is_dir():
            groups = list(suite_cases(folder, encode))
            kind = f"groups of {', '.join(DRAFTS)}"
            measure("JSON Schema test suite", kind, groups, lambda group: group)
    if not suites:
        raise SystemExit(f"{folder} has neither maskbench/data nor tests")
    return [suite.report() for suite in suites]


def _shard(text: str) -> tuple[int, int]:
    """Of `I/N`. Raises ValueError for what is no part."""
    part, _, parts = text.partition("/")
    shard = int(part), int(parts)
    if not 0 <= shard[0] < shard[1]:
        raise ValueError(text)
    return shard


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks grammar_wild",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sample", type=int, help="so many schemas of each suite; default: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--xgrammar", action="store_true", help="xgrammar too, which compiles some for minutes"
    )
    parser.add_argument(
        "--unique", action="store_true", help="uniqueItems for MaskBench's _uniqueItems"
    )
    parser.add_argument(
        "--shard", type=_shard, default=(0, 1), metavar="I/N", help="the part I, from 0, of N"
    )
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="begin no case of a suite after these"
    )
    parser.add_argument(
        "--save", type=Path, metavar="FILE", help="a .npz file for what is counted, and all times"
    )
    given = parser.parse_args(arguments)
    reports = run(
        given.folder,
        given.sample,
        given.seed,
        given.xgrammar,
        unique=given.unique,
        shard=given.shard,
        seconds=given.seconds,
        save_to=given.save,
    )
    for report in reports:
        print(report.markdown(), flush=True)
    return int(any(report.met is False for report in reports))
