r"""`\p{...}` in patterns, against the tables of fontTools and of Python's `unicodedata`."""

from __future__ import annotations

import unicodedata
from functools import cache

import pytest
from fontTools.unicodedata import ScriptExtensions, Scripts

from sgnb.engine.request.stop_regex import StopRegex
from sgnb.errors import GrammarError
from sgnb.grammar.compiler import compile_spec
from sgnb.grammar.lowering import regular_rules
from sgnb.grammar.regex.characters import SCALARS, complement
from sgnb.grammar.regex.parser import parse
from sgnb.grammar.regex.properties import property_ranges
from sgnb.grammar.schema.regex_search import occurs
from sgnb.grammar.schema.strict_json import InvalidAnswer
from sgnb.grammar.schema.validate import validator
from sgnb.grammar.spec import GrammarSpec
from sgnb.grammar.syntax import Ranges

from .oracle import matches


def codes(ranges: Ranges) -> set[int]:
    return {code for first, last in ranges for code in range(first, last + 1)}


@cache
def assigned() -> frozenset[int]:
    """Return the code points that every supported Unicode version knows."""
    return frozenset(
        code for code in codes(SCALARS) if unicodedata.category(chr(code)) not in ("Cn", "Co")
    )


def members(name: str, negated: bool = False) -> set[int]:
    ranges = property_ranges(name, negated)
    assert ranges is not None, name
    return codes(ranges) & assigned()


@cache
def scripts() -> dict[str, set[int]]:
    """Return the assigned code points per script's short name, per fontTools."""
    table: dict[str, set[int]] = {}
    ends = [*Scripts.RANGES[1:], 0x110000]
    for first, end, script in zip(Scripts.RANGES, ends, Scripts.VALUES, strict=True):
        table.setdefault(script, set()).update(assigned().intersection(range(first, end)))
    return table


def extended(script: str) -> set[int]:
    """Return the assigned code points with `script` in their extensions, per fontTools."""
    codes = scripts()[script]
    ends = [*ScriptExtensions.RANGES[1:], 0x110000]
    for first, end, names in zip(
        ScriptExtensions.RANGES, ends, ScriptExtensions.VALUES, strict=True
    ):
        if names is not None:
            block = assigned().intersection(range(first, end))
            codes = codes - block | (block if script in names else set())
    return codes


@pytest.mark.parametrize("step", [12, pytest.param(1, marks=pytest.mark.slow)])
def test_every_script_by_both_of_its_names(step: int) -> None:
    # Newer Unicode versions than Python's have further scripts.
    present = [short for short in sorted(scripts()) if scripts()[short]]
    assert len(present) > 150
    for short in present[::step]:
        long = Scripts.NAMES[short]
        for name in (f"Script={long}", f"sc={short}"):
            assert members(name) == scripts()[short], name


@pytest.mark.parametrize("short", ["Grek", "Latn", "Deva", "Hira", "Zyyy", "Zinh", "Arab", "Cprt"])
def test_script_extensions(short: str) -> None:
    expected = extended(short)
    assert members(f"scx={short}") == members(f"Script_Extensions={Scripts.NAMES[short]}")
    assert members(f"scx={short}") == expected
    assert expected != scripts()[short]


def test_general_categories_are_those_of_unicodedata() -> None:
    by_kind: dict[str, set[int]] = {}
    for code in assigned():
        by_kind.setdefault(unicodedata.category(chr(code)), set()).add(code)
    for name in {*by_kind} | {"L", "M", "N", "P", "S", "Z"}:
        expected = set().union(*(by_kind[kind] for kind in by_kind if kind.startswith(name)))
        assert len(members(name) ^ expected) < 4, name  # few characters change their category
        assert property_ranges(f"General_Category={name}") == property_ranges(name)
    assert property_ranges("gc=Lu") == property_ranges("Uppercase_Letter") == property_ranges("Lu")
    assert members("Letter") == members("L") and members("digit") == members("Nd")
    assert members("LC") == members("Cased_Letter") == members("Lu") | members("Ll") | members("Lt")


def test_binary_properties() -> None:
    assert property_ranges("ASCII") == ((0, 127),) and property_ranges("Any") == SCALARS
    assert members("White_Space") == {c for c in assigned() if chr(c).isspace()} - set(
        range(28, 32)
    )
    names = {code for code in assigned() if chr(code).isidentifier()}
    assert len(members("XID_Start") ^ (names - {ord("_")})) < 4
    assert ord("é") in members("Alphabetic") and ord("1") not in members("Alphabetic")
    assert 0x1F600 in members("Emoji") and ord("a") not in members("Emoji")


@pytest.mark.parametrize("name", ["Script=Greek", "Lu", "ASCII", "scx=Zyyy"])
def test_a_capital_p_is_the_complement(name: str) -> None:
    ranges = property_ranges(name)
    assert ranges and property_ranges(name, negated=True) == complement(ranges)


def test_case_and_underscores_of_a_name_do_not_count() -> None:
    assert property_ranges("script=olditalic") == property_ranges("Script=Old_Italic")
    assert property_ranges("generalcategory=uppercaseletter") == property_ranges("Lu")


TEXTS = [
    (r"\p{Script=Greek}+", "αβγ", "αbγ"),
    (r"\P{Script=Greek}+", "abc1", "abγ"),
    (r"[\p{sc=Cyrl}0-9_-]{3}", "я1-", "aя1"),
    (r"[^\p{sc=Cyrl}\d]+", "abc", "abя"),
    (r"[\P{L}a]+", "a1.", "ab"),
    (r"\p{scx=Hira}\p{Script=Han}", "ー漢", "ー-"),
    (r"(?i)\p{Lu}x", "äX", "1x"),
    (r"(?i)[\p{Lu}]", "é", "1"),
    (r"(?x) \p{Lu} # one", "Ä", "ä"),
    (r"^(?=.*\p{Nd})(?!.*\p{Script=Greek}).{2}$", "a1", "α1"),
    (r"\\p{2}", "\\pp", "α"),
]


@pytest.mark.parametrize(("pattern", "text", "other"), TEXTS)
def test_texts_of_a_regex_and_of_a_pattern(pattern: str, text: str, other: str) -> None:
    node = parse(pattern)
    assert matches(node, text) and not matches(node, other)
    anchored = pattern if pattern.startswith(("^", "(?x)", "(?i)")) else f"^{pattern}$"
    assert occurs(anchored, text) and (pattern.startswith("(?x)") or not occurs(anchored, other))


def test_grammars_and_answers_of_a_schema_with_scripts() -> None:
    schema = r'{"type": "string", "pattern": "^[\\p{Script=Cyrillic}\\p{Nd}]+\\P{sc=Latn}$"}'
    automaton = compile_spec(GrammarSpec("json_schema", schema)).automaton
    assert automaton is not None
    for text, allowed in (("мир9-", True), ("мирx", False), ("world-", False)):
        assert automaton.accepts(f'"{text}"'.encode()) == allowed
        if allowed:
            validator(schema).check(f'"{text}"')
        else:
            with pytest.raises(InvalidAnswer):
                validator(schema).check(f'"{text}"')
    rules = regular_rules(GrammarSpec("regex", r"\p{Script=Thai}{2}"))
    assert matches(rules, "กข") and not matches(rules, "ab")


def test_a_stop_regex_of_a_script() -> None:
    stops = StopRegex(("x+y", r"\p{Script=Greek}{2}"))
    assert stops.find("abα") is None and stops.find("abαβ") == (2, r"\p{Script=Greek}{2}")


ERRORS = [
    (r"a\p{Script=Greak}", r"\p{Script=Greak} names no Unicode property, at column 2", "Grek}?"),
    (r"\P{sc=Latim}", r"\P{sc=Latim} names no", r"did you mean \p{sc=Latin}?"),
    (r"[a\p{gc=Luu}]", r"\p{gc=Luu} names no Unicode property, at column 3", r"\p{gc=Lu}?"),
    (r"\p{Greek}", r"\p{Greek} names no", r"write \p{Script=Greek}"),
    (r"\p{Alphabet}", "names no", r"did you mean \p{Alphabetic}?"),
    (r"\p{Block=Greek}", "names no", "properties with values are General_Category, Script"),
    (r"\p{Script=Old Italic}", "names no", r"\p{Script=Greek}"),
    (r"\p{Script=}", "names no", r"\p{Script=Greek}"),
    (r"\p{L}" + r"\p{^Lu}", "names no Unicode property, at column 6", r"\p{Script=Greek}"),
    (r"\pL", r"\p without a name, at column 1", r"\p{Script=Greek}"),
    (r"\p{Lu", r"\p{ without its }", "close it"),
    (r"\p{Cs}", r"\p{Cs} contains no character", "surrogates"),
    (r"[\P{Any}]", r"\P{Any} contains no character", "surrogates"),
    (r"[\p{Lu}-z]", r"bad range \p{Lu}-z", r"\-"),
    (r"[a-\p{Lu}]", r"bad range a-\p{Lu}", r"\-"),
]


@pytest.mark.parametrize(("pattern", "problem", "hint"), ERRORS)
def test_errors_name_the_nearest_name(pattern: str, problem: str, hint: str) -> None:
    with pytest.raises(GrammarError) as caught:
        parse(pattern)
    assert problem in caught.value.message and hint in caught.value.hint


def test_an_unknown_script_in_a_schema_names_the_place() -> None:
    schema = r'{"properties": {"a": {"type": "string", "pattern": "\\p{Script=Greak}"}}}'
    with pytest.raises(GrammarError) as caught:
        compile_spec(GrammarSpec("json_schema", schema))
    assert r"\p{Script=Greak} names no Unicode property" in caught.value.message
    assert "Grek" in caught.value.hint
