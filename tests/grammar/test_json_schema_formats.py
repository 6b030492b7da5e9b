"""Texts of the formats' trees have the format, by jsonschema's checkers and by the calendar."""

from __future__ import annotations

import random
import sys
from datetime import date

import jsonschema
import pytest

from sgnb.grammar.schema.string_formats import FORMATS, format_tree, has_format
from sgnb.grammar.syntax import Rules

from .oracle import matches
from .sample_tree import Sampler

CHECKER = jsonschema.Draft202012Validator.FORMAT_CHECKER
SLOW = "iri", "iri-reference"
WITH_TREES = [name for name, known in FORMATS.items() if known.pattern is not None]


def marked(name):
    return pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name


@pytest.mark.parametrize("name", [*map(marked, WITH_TREES)])
def test_texts_of_the_tree_have_the_format(name, monkeypatch):
    sampler = Sampler(Rules(format_tree(name)), random.Random(3))
    texts = [sampler.text() for _ in range(120)]
    assert len(set(texts)) > 20
    assert all(has_format(name, text) for text in texts)
    if name in CHECKER.checkers:
        assert [text for text in texts if not CHECKER.conforms(text, name)] == []
    elif name in SLOW:
        monkeypatch.delitem(sys.modules, "rfc3987_syntax")  # which the conftest hides
        conforms = pytest.importorskip("rfc3987_syntax").is_valid_syntax
        rule = name.replace("-", "_")
        assert [text for text in texts if not conforms(rule, text)] == []


def is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def test_days_of_all_months():
    for year in (1, 4, 100, 400, 1900, 2000, 2023, 2024, 9999):
        for month in range(14):
            for day in range(33):
                text = f"{year:04}-{month:02}-{day:02}"
                assert has_format("date", text) == is_date(text), text


def test_leap_days_of_all_years():
    assert [
        year
        for year in range(10_000)
        if has_format("date", f"{year:04}-02-29") != is_date(f"{year:04}-02-29")
    ] == []


EXAMPLES = {
    "date": (
        ["2024-02-29", "1999-12-31"],
        ["2023-02-29", "2024-13-01", "24-01-01", "2024-1-1", "0000-01-01"],
    ),
    "time": (["23:59:59Z", "00:00:00.123456789+05:30"], ["24:00:00Z", "12:00:00", "12:60:00Z"]),
    "date-time": (
        ["2024-05-06T07:08:09Z", "2024-05-06T07:08:09.5-01:00"],
        ["2024-05-06 07:08:09Z", "2024-05-06"],
    ),
    "duration": (
        ["P1Y2M3DT4H5M6S", "PT5M", "P3W", "P1Y2M3D"],
        ["P", "PT", "P1Y2D", "1D", "P1H", "P1Y1W"],
    ),
    "email": (
        ["a.b+c@example.co.uk", "x_y@a-b.de"],
        ["a@b", "@b.de", "a@@b.de", "a.@b.de", "a b@c.de"],
    ),
    "hostname": (
        ["localhost", "a-1.example.com"],
        ["-a", "a-", "a..b", "", "a_b", "xn--a", "b.xn--ihqwcrb4cv8a8dqg056pqjye"],
    ),
    "uri-template": (["/a/{b,c:3}{?d*}", "x"], ["{", "a{b", "{b:}", "a b", "<"]),
    "regex": (
        ["^a[a-z0-9]{2,}(c|d)?$", r"\d+\.x", ".*", "^.+?$"],
        ["(", "a**", "[z-a]", "+", "(?P<n>a)"],
    ),
    "ipv4": (["0.0.0.0", "255.250.9.10"], ["256.1.1.1", "1.1.1", "01.1.1.1"]),
    "ipv6": (
        ["::", "::1", "fe80::1:2", "1:2:3:4:5:6:7:8", "1::8"],
        [":::", "1:2:3", "1::2::3", "12345::"],
    ),
    "uri": (
        [
            "https://a.b/c?d=e#f",
            "http://u@host:80/",
            "urn:isbn:0451450523",
            "mailto:a@b.example?subject=x",
            "file:/etc/hosts",
            "tag:a.b,2024:x/y",
        ],
        ["a b", "/path", "http//x", "https://a b", "1a:b", "a:", "urn:a b", "a:%"],
    ),
    "uuid": (
        ["123e4567-e89b-12d3-a456-426614174000"],
        ["123e4567e89b12d3a456426614174000", "g23e4567-e89b-12d3-a456-426614174000"],
    ),
    "json-pointer": (["", "/a/b~0~1", "/"], ["a", "/~", "/~2"]),
    "byte": (["", "YQ==", "YWI=", "YWJj"], ["Y", "YQ=", "YQ"]),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name):
    good, bad = EXAMPLES[name]
    tree = format_tree(name)
    assert [text for text in good if not matches(tree, text) or not has_format(name, text)] == []
    assert [text for text in bad if matches(tree, text) or has_format(name, text)] == []
