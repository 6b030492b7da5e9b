"""What magics print: escaped, on one line, bounded, and left alone by MathJax."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest

import sgnb
from sgnb.magics.dry_report import DryReport
from sgnb.magics.table import CELL_CHARACTERS, ROWS_SHOWN, Facts, Table

HOSTILE = {
    "markup": "<img src=x onerror=alert(1)></script>&amp;",
    "formulas": "$x$, $.name, $.city",
    "bidi": "a\u202eb\u200fc",
    "control": "\x1b[31mred\x00\r\n\ttab",
    "surrogate": "\ud800",
    "long": "x" * 100_000,
    "blanks": "  a  \n  b  ",
}


def bundle(shown: Any) -> dict[str, str]:
    return dict(shown._repr_mimebundle_(include=None, exclude=None))


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_text_in_tables_shows_and_does_nothing(text: str) -> None:
    for shown in (Table([{"a": text, "b": 1}]), Facts(a=text), DryReport([], [text])):
        made = bundle(shown)
        assert list(made) == ["text/plain", "text/html"], "text first, for who strips HTML"
        for form in made.values():
            assert len(form) < 2000
            form.encode()
            assert not set(form) & set("\x1b\x00\r\t\u202e\u200f")
        assert "<img" not in made["text/html"] and "</script" not in made["text/html"]
        assert made["text/html"].startswith('<div class="tex2jax_ignore mathjax_ignore">')
    rows = repr(Table([{"a": text, "b": 1}])).splitlines()
    assert len(rows) == 2 and rows[1].endswith("1")


def test_a_cell_says_that_it_was_cut_and_keeps_its_blanks() -> None:
    row = {"a": "x" * 200, "b": "a   b"}
    assert "x" * (CELL_CHARACTERS - 1) + "…" in repr(Table([row]))
    shown = bundle(Table([row]))["text/html"]
    assert "white-space:pre-wrap" in shown and "a   b" in shown


def test_a_head_breaks_between_words_only() -> None:
    """In a browser `anywhere` breaks inside words, and also makes the column as narrow as a
    letter."""
    settings = "temperature=0.75, max_tokens=12, seed=3"
    shown = bundle(Table([{settings: settings, "x" * 80: 1}]))["text/html"]
    styles = dict(re.findall(r'<(t[hd]) style="text-align:left;([^"]*)">temperature', shown))
    assert styles == {
        "th": "white-space:pre-wrap",
        "td": "white-space:pre-wrap;overflow-wrap:anywhere",
    }
    assert f'overflow-wrap:anywhere">{"x" * 80}</th>' in shown


def test_a_table_shows_its_first_rows_and_keeps_all() -> None:
    table = Table({"n": i} for i in range(ROWS_SHOWN + 7))
    assert len(table) == ROWS_SHOWN + 7
    assert repr(table).splitlines()[-1] == "and 7 more rows"
    assert bundle(table)["text/html"].count("<tr>") == ROWS_SHOWN + 1


def test_an_automatons_dollars_are_no_formula(shell: Any) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "city": {"const": "$x$"}},
    }
    made = bundle(sgnb.fsm(schema))
    assert html.unescape(made["text/html"]).count("$.") >= 2
    assert made["text/html"].startswith('<div class="tex2jax_ignore mathjax_ignore">')
    shown, _ = shell.ipython.display_formatter.format(sgnb.fsm(schema))
    assert list(shown) == ["text/plain", "text/html"]


def test_a_runs_hostile_title_and_message(shell: Any) -> None:
    def boom(s: Any) -> None:
        raise ValueError("<img src=x onerror=1>\x1b[31m" + "y" * 1000)

    sgnb.load("tiny")
    with pytest.raises(ValueError, match="img"):
        sgnb.function(boom).run()
    made = bundle(sgnb.runs())
    assert "<img" not in made["text/html"] and "\x1b" not in made["text/plain"]
    assert max(map(len, made["text/plain"].splitlines())) < 300
