"""Style sheet and drawings use the same type scale, spacing grid and decoration of tokens."""

from __future__ import annotations

import re

import pytest

from sgnb.viz.live.widget import PAGE, style
from sgnb.viz.static.svg import MARGIN, STYLE, names_within, wrap_label

from .page import node

SPACED = r"(?:padding|margin|gap|row-gap|column-gap)(?:-[a-z]+)?"
ALLOWED = r"(?:0|auto|var\(--sgnb-space-[1-4]\))"


def values(pattern: str) -> list[str]:
    found = re.findall(rf"[;{{\s]{pattern}\s*:\s*([^;}}]+)", style())
    assert len(found) > 10
    return [value.strip() for value in found]


def test_the_type_scale_has_three_sizes() -> None:
    sizes = re.findall(r"--sgnb-size-(\d): (\d+)px", style())
    assert sizes == [("1", "11"), ("2", "12"), ("3", "13")]
    for value in values("font-size"):
        assert re.fullmatch(r"var\(--sgnb-size-[1-3]\)", value), value
    for value in values("font"):
        assert value == "inherit" or "var(--sgnb-size-" in value, value
        assert not re.search(r"\d(?:px|em) (?!var)", value.partition("/")[0]), value


def test_the_spacing_is_a_grid_of_four_pixels() -> None:
    steps = re.findall(r"--sgnb-space-(\d): (\d+)px", style())
    assert steps == [("1", "4"), ("2", "8"), ("3", "12"), ("4", "16")]
    for value in values(SPACED):
        parts = value.split()
        assert all(re.fullmatch(ALLOWED, part) for part in parts), value


@pytest.mark.parametrize("kind", ["cached", "computed", "again", "reused", "jumped", "sampled"])
def test_a_token_has_a_tint_and_an_optional_line_style(kind: str) -> None:
    (rule,) = re.findall(rf"^\.sgnb-k-{kind} {{([^}}]*)}}", style(), flags=re.M)
    assert "--kind" in rule and not re.search("underline|border|outline|shadow", rule)
    styles = re.findall(r"^\.sgnb-k-\w+ {[^}]*--line: (\w+)", style(), flags=re.M)
    # Sampled is solid. A model has recomputed or reused tokens, never both.
    assert sorted(styles) == ["dashed", "dotted", "double", "double", "wavy"]


def test_drawings_read_sizes_and_margins_from_the_style_sheet() -> None:
    for path in PAGE.glob("*.js"):
        code = path.read_text(encoding="utf-8")
        assert not re.search(r"font\s*=\s*[\"'`][^$]*\d+px", code), path.name
    assert MARGIN == 16 and set(re.findall(r"(\d+)px", STYLE)) == {"11", "12", "13"}


CASES = [
    ("Here are two tips for staying healthy", 12, 3),
    ("one two", 20, 1),
    ("internationalization of programs", 8, 4),
    ("1 into a paragraph", 8, 1),
    ("⏎⏎Now, expand tip 1", 9, 2),
    ("", 5, 2),
]


@pytest.mark.parametrize(("text", "room", "lines"), CASES)
def test_labels_break_between_words(text: str, room: int, lines: int) -> None:
    found = node("return wrappedLines(...given);", ["tree"], [text, room, lines])
    assert found == wrap_label(text, room, lines), "saved pictures have the same lines"
    assert len(found) <= lines and all(len(line) <= room for line in found)
    joined = " ".join(line.strip() for line in found)
    cut = joined.endswith("…")
    plain = re.sub(r"[\s…]", "", joined)
    assert re.sub(r"\s", "", text).startswith(plain)
    assert cut or plain == re.sub(r"\s", "", text)
    for line in found[:-1]:
        ends = text.find(line.strip()) + len(line.strip())
        assert text[ends] in " ⏎" or len(line) == room


def test_a_list_of_names_is_cut_after_a_name() -> None:
    names = "0 first, second, third"
    widths = list(range(1, 30))
    labels = [names_within(names, width) for width in widths]
    script = "return given[1].map((width) => namesWithin(given[0], width));"
    assert node(script, ["dom", "branches"], [names, widths]) == labels
    assert all(len(label) <= max(2, width) for label, width in zip(labels, widths, strict=True))
    assert {"0 first, …", "0 first, second, …", names} < set(labels)
    assert labels[12] == "0 first, …" and labels[5] == "0 fir…"


def test_no_word_is_cut_where_a_line_has_a_word_end() -> None:
    script = "return wrappedLines(given, 12, 9);"
    assert node(script, ["tree"], "Here are two tips for staying healthy") == [
        *("Here are two", "tips for", "staying", "healthy"),
    ]
