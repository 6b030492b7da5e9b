from __future__ import annotations

import itertools
import json
import random
import re
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgnb.errors import GrammarError
from sgnb.grammar.compiler import CompiledGrammar, TokenGrammar
from sgnb.grammar.llguidance_backend import cfg_matcher
from sgnb.grammar.llguidance_backend.cfg_matcher import (
    LEXEME_LIMITS,
    LlguidanceGrammar,
    LlguidanceMatcher,
    write_schema,
)
from sgnb.grammar.llguidance_backend.ebnf import write_ebnf
from sgnb.grammar.llguidance_backend.lark import write
from sgnb.grammar.llguidance_backend.lexemes import WorkBudget
from sgnb.grammar.lowering import lower
from sgnb.grammar.regex.parser import parse
from sgnb.grammar.schema.translate import translate
from sgnb.grammar.spec import GrammarSpec
from sgnb.grammar.syntax import (
    Alternate,
    Chars,
    Concatenate,
    Intersect,
    Lexeme,
    Literal,
    Node,
    Reference,
    Repeat,
    Rules,
    Source,
    Without,
)
from sgnb.grammar.vocabulary import Vocabulary

from .oracle import matches
from .trees import ALPHABET, texts, trees

BYTES = Vocabulary([bytes([i]) for i in range(256)])
SMALL = "abé"

JSON = r"""
# a value, and nothing between the parts
root   ::= object | array | string | [0-9]+
object ::= "{" (string ":" root ("," string ":" root)*)? "}"
array  ::= "[" (root ("," root)*)? "]"
string ::= "\"" ([^"\\\x00-\x1f] | "\\" ["\\/bfnrt])* "\""
"""
ARITHMETIC = 'root ::= term ([-+] term)*\nterm ::= [0-9]+ | "(" root ")"\n'


def compile_ebnf(text: str, vocabulary: Vocabulary) -> LlguidanceGrammar:
    lark, shortest, _ = write_ebnf(text)
    return LlguidanceGrammar(lark, vocabulary, shortest=shortest)


def compile_lexemes(rules: Rules, vocabulary: Vocabulary) -> LlguidanceGrammar:
    return LlguidanceGrammar(write_schema(rules).lark, vocabulary, LEXEME_LIMITS)


def compile_rules(rules: Rules, vocabulary: Vocabulary) -> LlguidanceGrammar:
    return LlguidanceGrammar(write(rules), vocabulary)


def allowed(matcher: LlguidanceMatcher) -> list[int]:
    """The tokens in the mask, which is checked for its form."""
    mask = matcher.next_token_bitmask()
    assert mask.dtype == np.uint32 and not mask.flags.writeable
    return [int(i) for i in np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))]


def accepts(grammar: LlguidanceGrammar, text: str) -> bool:
    """Whether the text is accepted byte by byte, with masks that agree, and may then end."""
    matcher = grammar.matcher()
    for byte in text.encode():
        possible = byte in allowed(matcher)
        try:
            matcher.accept_token(byte)
        except GrammarError:
            assert not possible
            return False
        assert possible
    return matcher.is_final


def all_texts(grammar: LlguidanceGrammar, length: int) -> set[str]:
    """All texts of at most `length` characters, by walking every path and back. Checks that
    `find_jump_forward_string` and `finished` agree."""
    matcher, found = grammar.matcher(), set()

    def follow(data: bytes) -> None:
        if matcher.is_final:
            found.add(data.decode())
        options = allowed(matcher)
        assert options or matcher.is_final, f"no way on after {data!r}"
        assert matcher.finished == (not options)
        forced = matcher.find_jump_forward_string()
        if forced:
            assert options == [forced[0]] and not matcher.is_final
        text = data.decode(errors="replace")
        if len(text) > length or (len(text) == length and not text.endswith("\ufffd")):
            return
        for option in options:
            matcher.accept_token(option)
            follow(data + bytes([option]))
            matcher.rollback(1)

    follow(b"")
    return {text for text in found if len(text) <= length}


def chars(text: str) -> Chars:
    return Chars(tuple((ord(c), ord(c)) for c in sorted(set(text))))


def nodes(sets: bool) -> st.SearchStrategy[Node]:
    """Over SMALL; without references."""
    leaves = st.one_of(
        st.text(SMALL, max_size=3).map(Literal),
        st.sampled_from(["aé", "bé", "é", ""]).map(chars),
        st.just(Chars(((97, 98),))),
    )

    def grow(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
        some = st.lists(inner, min_size=1, max_size=3).map(tuple)
        counts = st.sampled_from([(0, None), (1, None), (0, 1), (2, 2), (0, 2), (1, 3)])
        plain = [
            some.map(Concatenate),
            some.map(Alternate),
            st.tuples(inner, counts).map(lambda x: Repeat(x[0], *x[1])),
            inner.map(lambda node: Source(node, "$.part")),
        ]
        both = st.tuples(inner, inner)
        return st.one_of(
            *plain, *([both.map(Intersect), both.map(lambda x: Without(*x))] if sets else [])
        )

    return st.recursive(leaves, grow, max_leaves=6)


@st.composite
def recursive_rules(draw: st.DrawFn) -> Rules:
    """Two mutually recursive rules, with a character before each reference, as the oracle needs."""
    flat = nodes(sets=True)

    def body() -> Node:
        inside: list[Node] = [
            Concatenate(
                (
                    Literal(draw(st.sampled_from(SMALL))),
                    draw(flat),
                    Reference(draw(st.sampled_from("xy"))),
                    draw(flat),
                )
            )
            for _ in range(draw(st.integers(1, 2)))
        ]
        node = Alternate((*inside, draw(flat)))
        shapes: list[Node] = [node, Repeat(node, 0, 2), Concatenate((node, draw(flat)))]
        return draw(st.sampled_from(shapes))

    return Rules(body(), {"x": body(), "y": body()})


@pytest.mark.slow
@given(recursive_rules())
@settings(max_examples=60, deadline=None)
def test_recursive_rules_mean_what_the_oracle_says(rules: Rules) -> None:
    expected = {
        text
        for length in range(5)
        for text in map("".join, itertools.product(SMALL, repeat=length))
        if matches(rules, text)
    }
    try:
        grammar = compile_rules(rules, BYTES)
    except GrammarError as error:
        assert "describes no text" in error.message or "cannot tell where" in error.message
        assert not ("describes no text" in error.message and expected)
        return
    assert all_texts(grammar, 4) == expected


@given(trees, st.lists(texts, max_size=8))
@settings(max_examples=100, deadline=None)
def test_characters_of_all_lengths(tree: Node, examples: list[str]) -> None:
    try:
        grammar = compile_rules(Rules(tree), BYTES)
    except GrammarError as error:
        assert "no text" in error.message or "cannot tell where" in error.message
        return
    for text in [*examples, *ALPHABET, ""]:
        assert accepts(grammar, text) == matches(tree, text), text


PIECES = [
    *BYTES.pieces, b"", b"ab", b"ab", b'"a":', b"}}", b"\xc3\xa9b", b"\xa9", b"\x98\x80", b"[[",
    b'","', b"\xff", b"",
]  # fmt: skip
TOKENS = Vocabulary([*PIECES, *(b"" for _ in range(20)), b'{"'])


@pytest.mark.parametrize(
    "text",
    [JSON, 'root ::= "x" [^a] root | "é" "é"? | "ab" root', 'start: "{" start? "}" | /[a-é]+/'],
)
@given(choices=st.lists(st.integers(0, 10**6), max_size=12))
@settings(max_examples=20, deadline=None)
def test_masks_are_exact(text: str, choices: list[int]) -> None:
    matcher = compile_ebnf(text, TOKENS).matcher()
    for choice in choices:
        options = allowed(matcher)
        if not options:
            break
        matcher.accept_token(options[choice % len(options)])
    expected = []
    for token, piece in enumerate(TOKENS.pieces):
        twin = matcher.fork()
        try:
            for byte in piece:
                twin.accept_token(byte)
        except GrammarError:
            continue
        expected += [token] if piece else []
    assert allowed(matcher) == expected


@pytest.mark.parametrize(
    ("grammar", "inside", "outside"),
    [
        (
            JSON,
            ["{}", '{"a":[1,"é\\n"],"b":{"c":7}}', "12", '""'],
            ["{ }", '{"a"}', "[1,]", '"\n"', "", "1 "],
        ),
        (ARITHMETIC, ["1", "1+(2-33)", "((7))"], ["1+", "(1", "1 + 2", "-1"]),
        ('root ::= "a" root "b" | ""', ["", "ab", "aabb"], ["a", "ba", "aab"]),
        ('root ::= root "+" root | "n"', ["n", "n+n+n"], ["", "+", "n+"]),
        ("root ::= .{2} [^\\n]?", ["\n\n", "éa", "😀b!"], ["a", "abc\n"]),
        (
            'root ::= ( # either\n "a"\n | "b" )\n  | "c-" my-rule\n'
            "my-rule ::= [\\x41-\\u0043\\U0001F600-]+",
            ["b", "c-AC-😀"],
            ["c-", "D"],
        ),
        ('root ::= [a-z]+ [0-9a-z] "x"? [a-z]*', ["ab", "a1", "abx", "a1xyz"], ["a", "1a", "a12"]),
        (
            'root ::= ("a" | "ab") ("c" | "bcd") root?',
            ["abcd", "abc", "acac", "ac"],
            ["ab", "abcdd"],
        ),
        ('root ::= "a"{2} "b"{1,} "c"{0,2}', ["aab", "aabbbcc"], ["ab", "aaccc", "aa"]),
        (
            'start: sum\nsum: NUMBER ("+" NUMBER)*\nNUMBER: /[0-9]+/\n%ignore / /',
            ["1+2", "1 + 23"],
            ["1+", "a"],
        ),
        ('start: "a" start? "b"', ["ab", "aabb"], ["aab", ""]),
        ('start: [stop] "a"\nstop: "b"', ["a", "ba"], ["b"]),
        (
            'start: %json {"type": "object", "additionalProperties": {"$ref": "#"}}',
            ['{"a": {}}', "{}"],
            ["[]"],
        ),
    ],
)
def test_grammars(grammar: str, inside: list[str], outside: list[str]) -> None:
    compiled = compile_ebnf(grammar, BYTES)
    assert [text for text in inside if not accepts(compiled, text)] == []
    assert [text for text in outside if accepts(compiled, text)] == []


@pytest.mark.parametrize(
    ("grammar", "message"),
    [
        ('root ::= "a" | b', "line 1, column 16: no rule 'b'"),
        ('root ::= "a"\nroot ::= "b"', "line 2, column 1: the rule 'root' is defined twice"),
        ('r ::= "a"', "no rule 'root'"),
        ('root ::= "a\n', "line 1, column 10: this string is not closed"),
        ("root ::= [a-", "this class of characters is not closed"),
        ("root ::= [z-a]", "line 1, column 11: the range 'z'-'a'"),
        ('root ::= "\\q"', "unknown escape \\q"),
        ('root ::= "\\ud800"', "surrogate"),
        ('root ::= ("a"', "line 1, column 10: this parenthesis is not closed"),
        ('root ::= "a")', "unexpected ')'"),
        ('root ::= "a"{3,1}', "a count from 3 to 1"),
        ('root ::= "a"{x}', "expected a count"),
        ('root ::= (="a") "b"', "look-ahead"),
        ("root ::= <think> [a-z]*", "single tokens"),
        ('root ::= "a" root', "describes no text"),
        ("root ::= " + "(" * 200 + '"a"' + ")" * 200, "more than 100 deep"),
        ("start: 'a'", "1(8)"),
        ("start: foo", "foo"),
        ("begin: /a/", "start"),
        ("start: /a(?=b)/", "look-around"),
        ('start: "a"\nx: <|end|> "b"', "ebnf, line 2, column 4: the special token '<|end|>'"),
        ('start: "a" # <fine>\nx[max_tokens=3]: /b*/', "ebnf, line 2, column 3: 'max_tokens'"),
        ('start[capture]: "a"', "'capture'"),
        ('start: "a" @other', "the grammar '@other' is not available"),
        ('start: /\\xff/\n%llguidance {"allow_invalid_utf8": true}', "allow_invalid_utf8"),
        ('start: %json {"if": {}}', "if"),
    ],
)
def test_wrong_grammars_are_named(grammar: str, message: str) -> None:
    with pytest.raises(GrammarError) as caught:
        compile_ebnf(grammar, BYTES)
    assert message in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    "kind", [{"format": "email"}, {"pattern": "b$"}, {"type": "integer"}, {"enum": ["b", "x"]}]
)
def test_objects_that_may_have_other_names(kind: dict[str, str]) -> None:
    """Names and texts that begin like others."""
    names = {"name_first": kind, "name": {"type": "string"}, "n": {"type": "boolean"}}
    schema = {
        "type": "object",
        "properties": names,
        "required": ["name"],
        "additionalProperties": True,
    }
    rules = translate(json.dumps(schema))
    grammar = compile_lexemes(rules, BYTES)
    for first in ('"a@b.de"', '"b"', "12", '"c', "[]"):
        for end in (
            "",
            ',"n":true',
            ',"n":1',
            ',"nam":{"name":[]}',
            ',"name_first_":0,"":1',
            ',"name_first":1',
        ):
            for text in (f'{{"name_first":{first},"name":""{end}}}', f'{{"name":{first}{end}}}'):
                assert accepts(grammar, text) == matches(rules, text), text


def test_empty_intersections_and_missing_rules() -> None:
    empty = Intersect((Literal("a"), Literal("b")))
    grammar = compile_rules(
        Rules(
            Alternate((Concatenate((empty, Reference("x"))), Reference("x"))), {"x": Literal("c")}
        ),
        BYTES,
    )
    assert all_texts(grammar, 3) == {"c"}
    with pytest.raises(GrammarError, match="no text"):
        compile_rules(Rules(empty), BYTES)
    with pytest.raises(GrammarError, match="'y'"):
        compile_rules(Rules(Reference("y")), BYTES)
    deeper = Alternate((Literal("a"), Concatenate((Literal("a"), Reference("x")))))
    with pytest.raises(GrammarError, match="'x' is recursive"):
        compile_rules(Rules(Without(Reference("x"), Literal("a")), {"x": deeper}), BYTES)


def test_a_refused_token_changes_nothing() -> None:
    matcher = compile_ebnf(JSON, TOKENS).matcher()
    matcher.accept_token(TOKENS.size - 1)
    before = allowed(matcher)
    for token in (ord("\n"), PIECES.index(b""), PIECES.index(b"\xff")):
        with pytest.raises(GrammarError, match=f"token {token} "):
            matcher.accept_token(token)
    assert allowed(matcher) == before
    assert (matcher.state, matcher.labels(), matcher.completion()) == (-1, (), None)


def test_forced_rollback_fork_and_the_end() -> None:
    matcher = compile_ebnf('root ::= "begin " ("one" | "only") " é" ("!" root)?', BYTES).matcher()
    assert matcher.find_jump_forward_string() == b"begin on"
    for byte in b"begin on":
        matcher.accept_token(byte)
    assert matcher.find_jump_forward_string() == b""
    twin = matcher.fork()
    for byte in b"e ":
        matcher.accept_token(byte)
    assert matcher.find_jump_forward_string() == "é".encode()
    for byte in "é".encode():
        assert not matcher.is_final
        matcher.accept_token(byte)
    assert matcher.is_final and not matcher.finished and matcher.find_jump_forward_string() == b""
    assert allowed(twin) == [ord("e"), ord("l")]
    with pytest.raises(GrammarError, match="9 tokens"):
        twin.rollback(9)
    twin.rollback(8)
    assert twin.find_jump_forward_string() == b"begin on" and matcher.is_final
    done = compile_ebnf('root ::= "(" root ")" | "x"', BYTES).matcher()
    done.accept_token(ord("x"))
    assert (
        done.finished
        and done.is_final
        and not done.next_token_bitmask().any()
        and done.find_jump_forward_string() == b""
    )
    with pytest.raises(GrammarError):
        done.accept_token(ord("x"))
    done.rollback(1)
    assert not done.finished and allowed(done) == [ord("("), ord("x")]


def test_a_vocabulary_that_cannot_write_the_grammar() -> None:
    with pytest.raises(GrammarError, match="no token of the vocabulary"):
        compile_ebnf('root ::= "x" root | "y"', Vocabulary([b"a", b"b", b""]))


def test_requests_in_threads_do_not_meet() -> None:
    grammar = compile_ebnf(JSON, BYTES)

    def masks(depth: int) -> list[list[int]]:
        matcher, found = grammar.matcher(), []
        for byte in b"[" * depth + b'{"a":1}' + b"]" * depth:
            matcher.accept_token(byte)
            found.append(allowed(matcher))
        assert matcher.is_final
        return found

    expected = {depth: masks(depth) for depth in (1, 2, 5, 9)}
    found: dict[int, list[list[list[int]]]] = {depth: [] for depth in expected}
    threads = [
        threading.Thread(
            target=lambda depth=depth: found[depth].extend(masks(depth) for _ in range(10))
        )
        for depth in expected
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {depth: [masks] * 10 for depth, masks in expected.items()}


WORDS = [f"w{i * 7919 % 10007}" for i in range(10_000)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "grammar",
    [
        lambda: 'root ::= ("a"|"a")* "b"',
        lambda: "root ::= .{0,5000}",
        lambda: 'root ::= (x+ x+)+ "y"\nx ::= "x"',
        lambda: 'root ::= root root root | root root | [a-z] | ""',
        lambda: "root ::= " + " | ".join(f'"{word}"' for word in WORDS),
        lambda: "root ::= word root?\nword ::= " + " | ".join(f'"{word}"' for word in WORDS),
        lambda: (
            "root ::= r0\n"
            + "\n".join(f"r{i} ::= r{i + 1} r{i + 1}" for i in range(60))
            + '\nr60 ::= "a"'
        ),
        lambda: 'root ::= "' + "a" * 1_000_000 + '" root?',
        lambda: (
            "root ::= r0\n"
            + "\n".join(f'r{i} ::= "{"a" * 80}" r{i + 1} | "x"' for i in range(9999))
            + '\nr9999 ::= "z"'
        ),
        lambda: "root ::= " + " ".join(f'("k{i},")?' for i in range(3000)) + " root?",
        lambda: "start: " + "(" * 20_000 + '"a"' + ")" * 20_000,
        lambda: "start: " + " | ".join(f'"{word}{i}"' for i in range(8) for word in WORDS),
        lambda: "start: /((a{0,1000}){0,1000}){0,1000}/",
    ],
)
def test_hard_grammars_are_answered_or_refused_in_time(grammar: Callable[[], str]) -> None:
    text = grammar()
    began = time.thread_time()
    try:
        matcher = compile_ebnf(text, BYTES).matcher()
        for _ in range(20):
            options = allowed(matcher)
            if not options:
                break
            matcher.accept_token(options[0])
    except GrammarError as error:
        assert error.hint
    assert time.thread_time() - began < 30


def test_work_is_counted_and_not_timed() -> None:
    budget = WorkBudget(2000)
    until = time.thread_time() + 0.03
    while time.thread_time() < until:
        pass
    budget.spend(2000)
    with pytest.raises(GrammarError, match="too large for llguidance"):
        budget.spend(1)


def test_a_large_enum_compiles() -> None:
    """As a trie in a terminal, next to a recursive value: no clock decides."""
    rng = random.Random(5)
    words = ["".join(rng.choices("abcdefghij-_", k=rng.randint(4, 24))) for _ in range(25_000)]
    schema = {"properties": {"a": {"enum": words}, "b": {"$ref": "#"}}, "required": ["a"]}
    spec = GrammarSpec("json_schema", json.dumps(schema))
    lowered = lower(spec)
    compiled = CompiledGrammar(spec, lowered.automaton, lowered.lark, 0.0)
    grammar = TokenGrammar(compiled, BYTES).matcher()
    for byte in json.dumps({"a": words[7]}).encode():
        grammar.accept_token(byte)
    assert grammar.finished


def test_deep_trees_do_not_exhaust_the_stack() -> None:
    deep: Node = Literal("a")
    for _ in range(300):
        deep = Concatenate((Literal("["), Alternate((deep, Reference("x"))), Literal("]")))
    try:
        grammar = compile_rules(
            Rules(
                deep, {"x": Concatenate((Literal("("), Repeat(Reference("x"), 0, 1), Literal(")")))}
            ),
            BYTES,
        )
    except GrammarError as error:
        assert "too large" in error.message
        return
    assert accepts(grammar, "[" * 300 + "a" + "]" * 300) and not accepts(
        grammar, "[" * 300 + "a" + "]" * 299
    )
    assert accepts(grammar, "[[(())]]")


@pytest.mark.parametrize("count", [20, 200])
@pytest.mark.parametrize("whitespace", [None, 0, 2])
def test_many_optional_names_beside_any_other(count: int, whitespace: int | None) -> None:
    schema = {
        "type": "object",
        "properties": {f"p{number}": {"type": "string"} for number in range(count)},
        "additionalProperties": True,
    }
    grammar = compile_lexemes(translate(json.dumps(schema), whitespace), BYTES)
    comma, colon = {None: (", ", ": "), 0: (",", ":"), 2: (" ,\n", " : ")}[whitespace]
    for members, right in (
        ([], True),
        ([("p3", '"x"'), ("p17", '"\\n"'), ("other", '[1,{"a":null}]')], True),
        ([("other", '"x"'), ("p_", "1")], True),
        ([("p3", "1")], False),
        ([("p17", '"x"'), ("p3", '"x"')], False),
        ([("other", "1"), ("p1", '"x"')], False),
    ):
        entries = (f'"{name}"{colon}{value}' for name, value in members)
        text = "{" + comma.join(entries) + "}"
        text = text.replace(",{", f"{comma}{{").replace('"a":', f'"a"{colon}')
        assert accepts(grammar, text) == right, text


def test_a_schema_whose_lexemes_have_no_text_leads_nowhere() -> None:
    nothing = {"type": "string", "pattern": "^a", "not": {"pattern": "^a"}}
    schema = {"type": "object", "properties": {"a": nothing, "b": {}}}
    matcher = compile_lexemes(translate(json.dumps(schema), 0), BYTES).matcher()
    assert follow(matcher, b'{"') == b"b"
    with pytest.raises(GrammarError, match="no text"):
        compile_lexemes(translate(json.dumps({"items": True, "contains": nothing})), BYTES)


def follow(matcher: LlguidanceMatcher, data: bytes) -> bytes:
    """The bytes that may come after `data`."""
    for byte in data:
        matcher.accept_token(byte)
    return bytes(allowed(matcher))


def test_a_lexer_that_remembers_too_much_starts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cfg_matcher.LEXEME_LIMITS, "max_lexer_states", 2500)
    pattern = "(?s:(.*a.{20}){3}b)"
    words = ["".join(word) for n in range(2, 8) for word in itertools.product("ab", repeat=n)]
    vocabulary = Vocabulary([*BYTES.pieces, *(word.encode() for word in words)])
    grammar = compile_lexemes(Rules(Lexeme(parse(pattern))), vocabulary)
    matcher, text = grammar.matcher(), "abbabab" * 60 + "b"
    restarts = 0
    start_again = LlguidanceMatcher._start_again

    def counted(self: LlguidanceMatcher) -> None:
        nonlocal restarts
        restarts += 1
        start_again(self)

    monkeypatch.setattr(LlguidanceMatcher, "_start_again", counted)
    for byte in text.encode():
        assert byte in allowed(matcher)
        matcher.accept_token(byte)
    assert matcher.is_final == bool(re.fullmatch(pattern, text))
    assert restarts


def test_slow_tokens_are_consumed_byte_by_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """With equal masks, errors, rollbacks and forks."""
    tokens = [*(bytes([byte]) for byte in range(255)), b"(a", b"a)", b"))", b"((a)", b"ab"]
    grammar = compile_ebnf('root ::= "(" root ")" | [a-c]+ | root root', Vocabulary(tokens))
    quick = grammar.matcher()
    calls: list[list[int]] = []
    rng = random.Random(0)
    for _ in range(60):
        monkeypatch.setattr(cfg_matcher, "HOLD", -1.0)
        monkeypatch.setattr(cfg_matcher, "RESTS", 0)
        slow = grammar.matcher()
        slow._is_slow = True
        quick = grammar.matcher()
        for _ in range(8):
            allowed = np.flatnonzero(grammar.vocabulary.unpacked(quick.next_token_bitmask()))
            for wrong in {255, 257, 258, 259} - set(allowed.tolist()):
                with pytest.raises(GrammarError, match="not allowed"):
                    slow.accept_token(wrong)
            token = int(rng.choice(allowed[-8:].tolist()))
            slow.accept_token(token)
            monkeypatch.setattr(cfg_matcher, "HOLD", 60.0)
            quick.accept_token(token)
            monkeypatch.setattr(cfg_matcher, "HOLD", -1.0)
            calls.append(slow._steps)
            if rng.random() < 0.2:
                slow.rollback(1)
                quick.rollback(1)
            slow = slow.fork() if rng.random() < 0.3 else slow
            assert np.array_equal(slow.next_token_bitmask(), quick.next_token_bitmask())
            assert slow.is_final == quick.is_final
    assert any(step > 1 for steps in calls for step in steps)
    assert all(step == 1 for step in quick._steps)
