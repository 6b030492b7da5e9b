"""From specs to matchers: two roads, two caches, and answers in time whatever is asked."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from sgnb import cache_file
from sgnb.errors import GrammarError
from sgnb.grammar import compiler
from sgnb.grammar.compiler import GrammarCompiler, TokenGrammar, compile_spec
from sgnb.grammar.lowering import LoweredGrammar, lower
from sgnb.grammar.spec import GrammarSpec
from sgnb.grammar.vocabulary import Vocabulary

BYTES = Vocabulary([bytes([value]) for value in range(256)])
LONG = "|".join(f"{number * 7919 % 100003:05d}" for number in range(3000))
TREE = {"$ref": "#/$defs/t", "$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SGNB_CACHE", str(tmp_path))
    return tmp_path


def accepts(grammar: TokenGrammar, text: str) -> bool:
    matcher = grammar.matcher()
    try:
        for byte in text.encode():
            matcher.accept_token(byte)
    except GrammarError:
        return False
    return matcher.is_final


def test_two_roads() -> None:
    regular = compile_spec(
        GrammarSpec("json_schema", '{"type": "array", "items": {"type": "boolean"}}')
    )
    assert regular.automaton is not None and accepts(TokenGrammar(regular, BYTES), "[true, false]")
    recursive = compile_spec(GrammarSpec("json_schema", json.dumps(TREE)))
    assert recursive.automaton is None and "t" in recursive.why
    grammar = TokenGrammar(recursive, BYTES)
    assert (
        accepts(grammar, "[[], [[]]]")
        and not accepts(grammar, "[[, ]]")
        and not accepts(grammar, "[[]")
    )
    lark = TokenGrammar(compile_spec(GrammarSpec("ebnf", 'start: "a" start? "b"')), BYTES)
    assert accepts(lark, "aabb") and not accepts(lark, "aab")


def test_the_next_kernel_reads_from_disk(cache: Path) -> None:
    spec = GrammarSpec("regex", LONG)
    first, second = compile_spec(spec), compile_spec(spec)
    assert not first.from_cache and second.from_cache
    assert first.automaton is not None and second.automaton is not None
    assert first.automaton.table.tolist() == second.automaton.table.tolist()
    [file] = (cache / "grammars").iterdir()
    for broken in (b"broken", b"lark\nbroken", file.read_bytes()[:-1]):
        file.write_bytes(broken)
        assert not compile_spec(spec).from_cache
        assert compile_spec(spec).from_cache


@pytest.mark.parametrize("kind", ["regex", "json_schema"])
def test_a_flipped_bit_of_the_cache_changes_no_grammar(
    cache: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(compiler, "WORTH_KEEPING", 0.0)
    spec = GrammarSpec(kind, json.dumps(TREE) if kind == "json_schema" else "(cat|dog)s?, [0-9]+")
    rng = random.Random(3)

    def lowered() -> bytes:
        made = compile_spec(spec)
        return LoweredGrammar(made.automaton, made.lark, made.why, made.shortest).to_bytes()

    first = lowered()
    [file] = (cache / "grammars").iterdir()
    stored = file.read_bytes()
    for _ in range(60):
        flipped = bytearray(stored)
        flipped[rng.randrange(len(stored))] ^= 1 << rng.randrange(8)
        file.write_bytes(flipped)
        assert lowered() == first and file.read_bytes() == stored


def test_what_goes_to_the_library_is_kept_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "WORTH_KEEPING", 0.0)
    spec = GrammarSpec("json_schema", json.dumps(TREE))
    first, second = compile_spec(spec), compile_spec(spec)
    assert second.from_cache and (second.lark, second.why) == (first.lark, first.why)
    assert accepts(TokenGrammar(second, BYTES), "[[], [[]]]")


def test_a_failed_write_leaves_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(cache_file.os, "replace", fail)
    assert not compile_spec(GrammarSpec("regex", LONG)).from_cache
    assert list((cache / "grammars").iterdir()) == []


def test_engines_share_what_is_compiled() -> None:
    one, other = GrammarCompiler(lambda: BYTES), GrammarCompiler(lambda: BYTES)
    spec = GrammarSpec("regex", "[ab]{1,3}")
    grammar = one.compile(spec).result()
    assert other.compile(spec).result().compiled is grammar.compiled
    one.close()
    other.close()


def test_the_disk_holds_a_bounded_number(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_file, "MAX_FILES", 2)
    monkeypatch.setattr(compiler, "WORTH_KEEPING", 0.0)
    for number in range(4):
        compile_spec(GrammarSpec("regex", f"x{{{number}}}y"))
    assert len(list((cache / "grammars").iterdir())) == 2


def test_a_disk_that_cannot_be_written_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGNB_CACHE", "/proc/nothing/here")
    assert compile_spec(GrammarSpec("regex", LONG)).automaton is not None


def test_each_grammar_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[GrammarSpec] = []
    real = compiler.compile_spec

    def counted(spec: GrammarSpec) -> Any:
        calls.append(spec)
        return real(spec)

    monkeypatch.setattr(compiler, "compile_spec", counted)
    grammars = GrammarCompiler(lambda: BYTES)
    futures = [grammars.compile(GrammarSpec("regex", "a|b")) for _ in range(20)]
    assert len({id(future.result()) for future in futures}) == 1 and len(calls) == 1
    grammars.compile(GrammarSpec("json_schema", "{}", 1)).result()
    grammars.compile(GrammarSpec("json_schema", "{}", 2)).result()
    assert len(calls) == 3
    grammars.close()


def test_what_crashes_is_an_error_of_its_grammar(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(spec: GrammarSpec) -> Any:
        raise RecursionError("too deep")

    monkeypatch.setattr(compiler, "compile_spec", crash)
    grammars = GrammarCompiler(lambda: BYTES)
    with pytest.raises(GrammarError, match="RecursionError: too deep"):
        grammars.compile(GrammarSpec("regex", "a")).result()
    grammars.close()


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "maxLength": 5}
    for level in range(depth):
        schema = {"type": "object", "properties": {f"k{level}": schema}, "required": [f"k{level}"]}
    return schema


def words(count: int, length: int = 8) -> list[str]:
    rng = random.Random(0)
    return [
        "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(length))
        for _ in range(count)
    ]


def large(properties: int, **schema: Any) -> str:
    names = words(properties, 12)
    return json.dumps(
        {"type": "object", "properties": dict.fromkeys(names, schema), "required": names}
    )


@pytest.mark.parametrize(
    ("kind", "text", "refused"),
    [
        ("regex", "(a|a)*b", ""),
        ("regex", ".{0,5000}", ""),
        ("regex", "(x+x+)+y", ""),
        ("regex", "|".join(words(10_000)), ""),
        ("json_schema", json.dumps({"enum": words(10_000)}), ""),
        ("json_schema", json.dumps(nested(60)), ""),
        ("json_schema", large(4000, enum=words(20, 9)), "too large"),
        ("json_schema", large(1700, enum=words(20, 9)), "too large|not done"),
        ("json_schema", large(2000, type="string", description="x" * 180), "too large|not done"),
        ("regex", "(?<=a)b", "look-behind"),
        ("regex", "(a|b)*a(a|b){20}", ""),
        ("regex", "((a{0,100}){0,100}){0,100}", ""),
        ("regex", r"\w{0,255}", ""),
        ("regex", r"[^\n]{0,50000}", ""),
        ("ebnf", "start: " + " | ".join(f'"{word}"' for word in words(90_000)), "too large"),
        ("ebnf", 'start: start "a" | "a"', ""),
    ],
)  # fmt: skip
def test_pathological_input_is_answered_or_refused_in_time(
    kind: str, text: str, refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a process that bounds it. The bar is 2 s on a quiet machine; processor time leaves
    out what others take."""
    monkeypatch.setattr(compiler.processes, "lower", lower)
    began = time.thread_time()
    try:
        grammar = TokenGrammar(compile_spec(GrammarSpec(kind, text)), BYTES)
        assert grammar.matcher().next_token_bitmask().any()
        assert not refused
    except GrammarError as error:
        assert refused
        import re

        assert re.search(refused, error.message), error.message
    assert time.thread_time() - began < 2
