"""Regexes that end a text: the first match of the text so far, however it came, and its cost."""

from __future__ import annotations

import random
import re
import time

import pytest

from sgnb.engine.request.stop_regex import StopRegex
from sgnb.errors import GrammarError
from sgnb.grammar.regex.parser import parse_occurrence

PATTERNS = [
    ("b+c",), ("ab|ba",), (r"\n\s*Q",), ("a.b", "cc"), ("[^a]{3}a",), ("(?i)AB",), (r"\d+\.",),
    ("é|ab+c",), ("a(b|bc)d?",),
]  # fmt: skip


def slow(patterns: tuple[str, ...], text: str) -> tuple[int, str] | None:
    """The twin: asks `re` after every character."""
    compiled = [re.compile(pattern) for pattern in patterns]
    for end in range(1, len(text) + 1):
        found = [(m.start(), p.pattern) for p in compiled if (m := p.search(text, 0, end))]
        if found:
            return min(found, key=lambda pair: pair[0])
    return None


@pytest.mark.parametrize("patterns", PATTERNS)
def test_against_re(patterns: tuple[str, ...]) -> None:
    draw = random.Random(str(patterns))
    hits = 0
    for _ in range(150):
        text = "".join(draw.choices("abcdé1. \nQ:", k=draw.randrange(1, 30)))
        stops, at, shown, found = StopRegex(patterns), 0, 0, None
        while at < len(text) and found is None:
            at = min(len(text), at + draw.randrange(1, 6))
            found = stops.find(text[:at])
            if found is None:
                safe = stops.safe_length(text[:at])
                assert shown <= safe <= at
                shown = safe
        expected = slow(patterns, text)
        assert (found and found[0]) == (expected and expected[0]), text
        if expected is not None:
            hits += 1
            assert shown <= expected[0], "what is cut off was shown"
    assert hits > 5


def test_what_came_too_early_does_not_count() -> None:
    stops = StopRegex(("ab+",))
    stops.ignore("xab")
    assert stops.find("xabb") is None and stops.find("xabbab") == (4, "ab+")


@pytest.mark.parametrize("pattern", ["^a", "a$", r"\Aa", "a*", "", "(a|b?)"])
def test_what_is_no_occurrence(pattern: str) -> None:
    with pytest.raises(GrammarError, match=r"anchor|empty text"):
        parse_occurrence(pattern)


def test_a_long_text_is_read_once() -> None:
    """A match that has begun and does not end is not looked for anew with every token."""

    def seconds(length: int) -> float:
        stops, text = StopRegex(('"[^"]*END',)), '"' + "word " * length
        began = time.thread_time()
        for at in range(0, len(text), 5):
            assert stops.find(text[:at]) is None and stops.safe_length(text[:at]) == 0
        return time.thread_time() - began

    seconds(100)
    assert seconds(8000) < 40 * max(seconds(800), 1e-3)
