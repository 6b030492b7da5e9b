"""Parsed patterns against `re`, by way of a tree matcher that spells out what trees mean."""

from __future__ import annotations

import inspect
import random
import re
import sys

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sgnb.errors import GrammarError
from sgnb.grammar.regex.characters import SCALARS, category, intersection
from sgnb.grammar.regex.ecmascript import to_python
from sgnb.grammar.regex.parser import MAX_DEPTH, MAX_LABEL, MAX_PIECES, parse
from sgnb.grammar.regex.pattern_reader import MAX_REPEAT
from sgnb.grammar.syntax import (
    Alternate,
    Chars,
    Concatenate,
    Intersect,
    Literal,
    Node,
    Repeat,
    Source,
    Without,
)

from .oracle import matches
from .patterns import NEARBY, is_refused, longest, mutated, patterns, quick

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

TOKENS = [
    *"aakK01 \n.^$|?*+()[]{}-,\\#:i=<>!Px", "(?:", "(?i)", "(?x)", "(?i:", "(?-i:", "(?P<n>",
    "(?u:", "(?#",
]  # fmt: skip
TOKENS += ["(?a)", "(?=", "(|)"]
TOKENS += [
    r"\d", r"\1", "[^", "[a-", "{2}", "{1,2}", "{,2}", "*?", "*+", r"\x41", r"\x", r"\u01", r"\N{",
]  # fmt: skip


def sample(node: Node, rng: random.Random) -> str:
    """One of the texts of a tree without references; of an intersection's or a difference's first
    part, which may be none of theirs."""
    match node:
        case Literal(text):
            return text
        case Chars(ranges):
            first, last = rng.choice(ranges) if ranges else (0, 0)
            return chr(rng.randint(first, last))
        case Concatenate(parts):
            return "".join(sample(part, rng) for part in parts)
        case Alternate(options):
            return sample(rng.choice(options), rng) if options else ""
        case Repeat(inner, least, most):
            count = rng.randint(least, min(least + 2, least + 2 if most is None else most))
            return "".join(sample(inner, rng) for _ in range(count))
        case Source(inner, _):
            return sample(inner, rng)
        case Intersect((first, *_)) | Without(first, _):
            return sample(first, rng)
    raise AssertionError(node)


def texts(pattern: str, node: Node, rng: random.Random) -> list[str]:
    """Texts of the tree, texts near to them, and any texts."""
    inside = [sample(node, rng) for _ in range(4)]
    near = [mutated(text, rng) for text in inside for _ in range(2)]
    free = ["".join(rng.choices(NEARBY, k=rng.randint(0, 3))) for _ in range(4)]
    return [text for text in {*inside, *near, *free} if len(text) <= longest(pattern)]


def found_in(compiled: re.Pattern[str], text: str) -> bool:
    r"""`search` without its shortcuts: CPython 3.11 does not find `(?a:\S)` in "\x1c"."""
    return any(compiled.match(text, place) for place in range(len(text) + 1))


def read(pattern: str, **options: bool) -> Node:
    """The tree of a pattern of the generators; those with anchors that are refused do not count."""
    try:
        return parse(pattern, **options)
    except GrammarError as error:
        assume("anchor" not in error.message)
        raise


@pytest.mark.slow
@settings(quick, max_examples=300)
@given(patterns(), st.integers(0, 2**32))
def test_a_tree_means_what_fullmatch_and_search_mean(pattern: str, seed: int) -> None:
    assume(not is_refused(pattern))
    rng, compiled = random.Random(seed), re.compile(pattern)
    whole, part = read(pattern), read(pattern, whole=False)
    for text in texts(pattern, whole, rng):
        assert matches(whole, text) == bool(compiled.fullmatch(text)), text
        assert matches(part, text) == found_in(compiled, text), text


@settings(quick, max_examples=500)
@given(st.lists(st.sampled_from(TOKENS), max_size=9).map("".join), st.integers(0, 2**32))
def test_what_re_refuses_is_refused_and_what_is_read_means_the_same(
    pattern: str, seed: int
) -> None:
    try:
        node = parse(pattern)
    except GrammarError as error:
        accepted = ("not supported", "anchor", "back-reference", "boundary", "possessive")
        assert is_refused(pattern) or any(word in error.message for word in accepted), error
        assert error.hint and re.search(
            r"column \d+ \(counted from 1\)\n  .*\n *\^$", error.message
        )
        return
    assert not is_refused(pattern)
    for text in texts(pattern, node, random.Random(seed)):
        assert matches(node, text) == bool(re.fullmatch(pattern, text)), text


MEANINGS: list[tuple[str, str, list[str], list[str]]] = [
    ("alternatives of anchors", "^a|b$|^$", ["a", "b", ""], ["ab", "a\n"]),
    ("$ before a last line break", r"a$\s*", ["a", "a\n"], ["a ", "a\n\n"]),
    (r"\Z is the end only", r"a\Z\s*", ["a"], ["a\n", "a "]),
    ("an anchor after what may be empty", "(x|)^a", ["a"], ["xa"]),
    ("anchors in an optional group", "(^a)?b($c?)?", ["ab", "b"], ["bc", "bb"]),
    ("an empty group", "()a(|)*", ["a"], ["", "aa"]),
    ("a brace that is no quantifier", "a{,b}{}x{1", ["a{,b}{}x{1"], ["a", "aax"]),
    ("a repeat without a start", "a{,2}", ["", "a", "aa"], ["aaa", "a{,2}"]),
    ("octal and null", r"\0\08\101\x4a", ["\0\x008AJ"], ["\0"]),
    ("comments and blanks", "(?x) a b\\ [ ] # c\n c (?#) +", ["ab  c", "ab  cc"], ["ab c", "abc"]),
    ("flags of a group", "(?i)a(?-i:b)(?s:.).", ["Ab\nc", "abxB"], ["AB\nc", "abx\n"]),
    ("ASCII only", r"(?a)\w(?u:\w)\d", ["aé1"], ["éé1", "aé٣"]),
    ("case beyond ASCII", "(?i)straſse K[å-ö]", ["STRASSE \u212aÅ", "straſse kö"], ["straße ka"]),
    ("case of a negated class", "(?i)[^a-z]", ["é", "1"], ["ſ", "K", "\u212a"]),
    ("lazy and greedy are one language", "a*?b+?c??", ["b", "aabbc"], ["", "aac"]),
    (
        "surrogates in a range are no characters",
        r"[\ud800-\udfff\uffff]|[^\ud800-\udfff]",
        ["\uffff", "a"],
        ["", "ab"],
    ),
    ("lines at the ends", "(?m)^a$|^$", ["a", ""], ["a\n", "\n"]),
]


@pytest.mark.parametrize(("_", "pattern", "inside", "outside"), MEANINGS)
def test_meaning(_: str, pattern: str, inside: list[str], outside: list[str]) -> None:
    node = parse(pattern)
    for text in inside + outside:
        assert matches(node, text) == (text in inside) == bool(re.fullmatch(pattern, text)), text


ANYWHERE = [
    "b", "^b", "b$", r"b\Z", "^a|b$", "^b$", "^$", "(?m)^b$", "(?m)^b|c$", "(^|a)b(c|$)", "x*",
    r"b$\n",
]  # fmt: skip


@pytest.mark.parametrize("pattern", ANYWHERE)
def test_a_match_anywhere_is_what_search_finds(pattern: str) -> None:
    node = parse(pattern, whole=False)
    for text in [
        "",
        "b",
        "ab",
        "ba",
        "abc",
        "b\n",
        "a\nb",
        "a\nb\n",
        "b\nc",
        "bc\n\n",
        "\nb\nx",
        "日b",
        "acb",
    ]:
        assert matches(node, text) == bool(re.search(pattern, text)), text


def characters_of(pattern: str) -> set[str]:
    node = parse(pattern, portable=True)
    assert isinstance(node, Source) and isinstance(node.node, Chars)
    return {c for c in "a0_ é٣\x1c\x85\ufeff\n\r\u2028\u3000-" if matches(node, c)}


@pytest.mark.parametrize(
    ("pattern", "inside"),
    [
        (r"\d", "0"),
        (r"\D", "a_ é\x1c\x85\ufeff\n\r\u2028\u3000-"),
        (r"\w", "a0_"),
        (r"\W", " \x1c\x85\ufeff\n\r\u2028\u3000-"),
        (r"\s", " \n\r\u2028\u3000"),
        (r"\S", "a0_é٣-"),
        (r"[^\S-]", " \n\r\u2028\u3000"),
        (r"[^\s]", "a0_é٣-"),
        (r"[\w-]", "a0_-"),
        (r"[^\W\d]", "a_"),
        (".", "a0_ é٣\x1c\x85\ufeff\u3000-"),
        ("(?s:.)", "a0_ é٣\x1c\x85\ufeff\n\r\u2028\u3000-"),
    ],
)
def test_portable_is_what_python_and_ecmascript_agree_to(pattern: str, inside: str) -> None:
    if pattern == "(?s:.)":
        assert parse(pattern, portable=True) == Source(Source(Chars(SCALARS), "."), pattern)
        return
    assert characters_of(pattern) == set(inside)


def test_the_portable_end_is_the_end() -> None:
    assert not matches(parse("a$", whole=False, portable=True), "a\n")
    assert matches(parse("a$", whole=False), "a\n")
    with pytest.raises(GrammarError, match="start of a class"):
        parse("[]a]", portable=True)


def test_labels_name_the_piece_of_the_pattern() -> None:
    digits = Chars(((0x30, 0x39),))
    assert parse("[0-9]{4}-ab(c|[0-9])d*?") == Concatenate(
        (
            Source(Repeat(digits, 4, 4), "[0-9]{4}"),
            Literal("-ab"),
            Source(Alternate((Literal("c"), Source(digits, "[0-9]"))), "(c|[0-9])"),
            Source(Repeat(Literal("d"), 0, None), "d*?"),
        )
    )
    assert parse(r"a\.b\n{") == Literal("a.b\n{")
    assert parse("(?i)a1k") == Concatenate(
        (Chars(((65, 65), (97, 97))), Literal("1"), Chars(((75, 75), (107, 107), (0x212A, 0x212A))))
    )
    label = parse(f"({'a' * 200})+")
    assert isinstance(label, Source) and label.label == "(" + "a" * (MAX_LABEL - 2) + "…"


LOOK, NO_MATCH_BACK, NAMED = "alternatives", "keeps all matches", "(?P<name>...)"

ERRORS: list[tuple[str, str, int, str]] = [
    ("a(?=b)", "look-ahead (?=", 2, LOOK),
    ("a(?!b)", "negative look-ahead (?!", 2, LOOK),
    ("(?<=a)b", "look-behind (?<=", 1, LOOK),
    ("a(?<=a)b", "look-behind (?<=", 2, LOOK),
    ("x(?<!a)b", "negative look-behind (?<!", 2, LOOK),
    (r"(a)b\1", r"back-reference \1", 5, "repeat the part explicitly"),
    ("(?P<n>a)(?P=n)", "back-reference (?P=", 9, "repeat the part explicitly"),
    ("(a)?(?(1)b|c)", "conditional group (?(", 5, "alternatives"),
    ("(?>a*)b", "atomic group (?>", 1, NO_MATCH_BACK),
    ("ba*+", "possessive quantifier *+", 3, NO_MATCH_BACK),
    ("a{2}+", "possessive quantifier {2}+", 2, NO_MATCH_BACK),
    (r"a\bb", r"word boundary \b", 2, "both sides"),
    (r"\Ba", r"word boundary \B", 1, "both sides"),
    ("(?L)a", "no flag 'L'", 1, "(?i)"),
    ("(?t)a", "no flag 't'", 1, "(?i)"),
    ("a(?i)b", "not at the start", 2, "(?i)"),
    ("(?i-i:a)", "both on and off", 1, "(?i)"),
    ("(?-a:a)", "cannot be turned off", 1, "(?i)"),
    ("(?a)(?u)x", "exclude each other", 5, "(?i)"),
    ("(?i", "no : behind", 1, "(?i)"),
    ("(?i-:a)", "no flag behind the -", 1, "(?i)"),
    (r"a\q", r"unknown escape \q", 2, "write q"),
    (r"[\A]", r"unknown escape \A", 2, "write A"),
    (r"[\8]", r"bad escape \8", 2, "octal"),
    (r"\777", r"octal escape \777", 1, r"\uhhhh"),
    (r"x\x4", r"bad escape \x4", 2, "2 hexadecimal digits"),
    (r"\U00110000", r"bad escape \U00110000", 1, "10ffff"),
    (r"\N{NO SUCH NAME}", "names no character: 'NO SUCH NAME'", 1, "EM DASH"),
    (r"\N{DASH", r"\N{ without its }", 1, "close it"),
    ("ab\\", "backslash at the end", 3, r"\\"),
    ("a[z-b]", "bad range z-b", 3, "must not come after"),
    (r"[\d-z]", r"bad range \d-z", 2, r"\-"),
    ("a[bc", "class without its ]", 2, r"\["),
    ("a(b", "( without its )", 2, r"\("),
    ("ab)", ") without its (", 3, r"\)"),
    ("a(?#b", "comment (?# without its )", 2, "close it"),
    ("a|*b", "nothing to repeat for *", 3, r"\*"),
    ("^*", "nothing to repeat for *", 2, r"\*"),
    ("a**", "multiple repeat *", 3, "(?:...)*"),
    ("a+{2}", "multiple repeat {2}", 3, "(?:...){2}"),
    ("ba{3,2}", "repeat {3,2} has its bounds reversed", 3, "{2,3}"),
    (f"a{{{MAX_REPEAT + 1}}}", "is too large", 2, "at most"),
    (f"a{{0,{'9' * 5000}}}", "is too large", 2, "at most"),
    ("(?P<1a>x)", "bad group name '1a'", 1, "letters"),
    ("(?P<a>x)(?P<a>y)", "group name 'a' is taken", 9, "different"),
    ("(?<a>x)", "unknown group (?<", 1, NAMED),
    ("(?Zx)", "no flag 'Z'", 1, "(?i)"),
    ("(?*x)", "unknown group (?*", 1, NAMED),
    ("a^b", "can never hold", 2, "end of the pattern"),
    (r"a\Zb", "can never hold", 2, "end of the pattern"),
    ("(a|^b)*", "anchor inside a repeat", 4, "out of the repeated group"),
    ("(?m)a$\n^b", "anchor of a line in the middle", 6, "flag m"),
    ("a\ud800b", r"lone surrogate \ud800", 2, r"\Uhhhhhhhh"),
    (r"a\udc00", r"lone surrogate \udc00", 2, r"\Uhhhhhhhh"),
    (r"[a\ud800]", r"lone surrogate \ud800", 3, r"\Uhhhhhhhh"),
    (r"[\ud800-\udbff]", "only surrogates", 1, "remove the class"),
    ("(" * (MAX_DEPTH + 1), f"more than {MAX_DEPTH} nested groups", MAX_DEPTH + 1, "unnecessary"),
    ("." * (MAX_PIECES + 1), f"more than {MAX_PIECES} pieces", MAX_PIECES + 1, "split"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("pattern", "construct", "column", "hint"), ERRORS, ids=range(len(ERRORS)))
def test_errors_name_the_construct_the_column_and_the_hint(
    pattern: str, construct: str, column: int, hint: str
) -> None:
    with pytest.raises(GrammarError) as caught:
        parse(pattern)
    first, shown, mark = caught.value.message.split("\n")
    assert construct in first and hint in caught.value.hint
    line_start = pattern.rfind("\n", 0, column) + 1
    assert f"column {column - line_start} (counted from 1)" in first or "line" in first
    marked = (shown + " ")[mark.index("^")]
    assert marked == (pattern + " ")[column - 1] or not marked.isascii()


def test_errors_show_the_line_of_a_pattern_with_several() -> None:
    with pytest.raises(GrammarError) as caught:
        parse("(?x) ab  # first\n  日本(?=c)\n d")
    first, shown, mark = caught.value.message.split("\n")
    assert first.endswith("at line 2, column 5 (counted from 1)")
    assert shown == "    日本(?=c)" and mark == " " * 8 + "^"


def test_errors_show_a_piece_of_a_long_pattern() -> None:
    with pytest.raises(GrammarError) as caught:
        parse("a" * 500 + r"\b" + "b" * 500)
    _, shown, mark = caught.value.message.split("\n")
    assert len(shown) < 70 and shown.startswith("  …a") and shown.endswith("b…")
    assert shown[mark.index("^") :].startswith(r"\bb")


def test_deep_groups_need_no_deep_stack() -> None:
    pattern = "(a|(?:" * (MAX_DEPTH // 2) + "^b$" + ")+?)".replace("+?", "") * (MAX_DEPTH // 2)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 60)
    try:
        assert parse(pattern) is not None
        for soup in ("(" * 5000, "[" * 5000, "(?i:" * 5000, "^" * 5000, "(|" * 5000, "a" * 5000):
            try:
                parse(soup)
            except GrammarError:
                continue
    finally:
        sys.setrecursionlimit(limit)


def test_characters_of_a_dot_are_all_but_the_line_break() -> None:
    node = parse(".")
    assert isinstance(node, Source) and isinstance(node.node, Chars)
    assert intersection(node.node.ranges, ((10, 10),)) == ()
    assert parse("[^\n]") == Source(node.node, "[^\n]") and parse(r"\w") == Source(
        Chars(category("w")), r"\w"
    )


ASSERTED = (
    r"^(?=.*\d)(?=.*[a-z])(?!.*xx).{3,6}$",
    r"^(?!.*b)a+|c$",
    r"\bcat\b",
    r"^\ba.*\b$",
    r"\b[a-z-]+\b",
    r"(?i)^(?=a)[ab]+$",
    r"^(?!foo$|bar$)[a-z]{3}$",
    r"(?!^\d+$)^.+$",
    r"^[\]a]\b|x",
    r"^(?!-)[a-z-]+(?<!-)$",
    r"^[a-z]+(?<=at)(?<!cat)$",
    r"^a+$|^[a-z ]+(?<! )$",
)


@pytest.mark.parametrize("pattern", ASSERTED)
@pytest.mark.parametrize("whole", [False, True])
def test_look_ahead_at_the_beginning_and_boundaries_at_the_ends(pattern: str, whole: bool) -> None:
    node, rng = parse(pattern, whole=whole), random.Random(0)
    search = re.fullmatch if whole else re.search
    found = ["".join(rng.choices("abcxX1 -tfor]", k=rng.randint(0, 6))) for _ in range(300)]
    found += ["cat", "a cat", "cats", "a1b", "aaa", "foo", "far", "12", "1xx", "AB", "a-b"]
    assert [text for text in found if matches(node, text) != bool(search(pattern, text))] == []


def test_look_ahead_anywhere_in_a_text_is_held_to_its_beginning_where_fewer_texts_are_right() -> (
    None
):
    pattern = "(?=.*[0-9])[a-z0-9]{3}"
    node = parse(pattern, whole=False, portable=True)
    assert matches(node, "ab1") and not matches(node, "abc")
    assert all(re.search(pattern, text) for text in ("ab1", "a1b!") if matches(node, text))
    with pytest.raises(GrammarError, match="look-ahead"):
        parse(pattern, whole=False)


def test_what_ecmascript_writes_otherwise() -> None:
    node = parse(to_python(r"^[\p{Lu}_](?<rest>\p{L}*)\P{L}\u{1F600}\cA$"))
    assert matches(node, "Äöü1\U0001f600\x01") and matches(node, "_-\U0001f600\x01")
    assert not matches(node, "äöü1\U0001f600\x01") and not matches(node, "Äöüß\U0001f600\x01")
    assert to_python(r"[(?<n>\p{Han}]") == r"[(?<n>\p{Han}]"
