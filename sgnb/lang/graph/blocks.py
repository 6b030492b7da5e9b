"""Split a prompt's text into blocks for reordering. Knows no graph: a hole is a single character.

A block is a paragraph, or a line of a paragraph with holes. Text that introduces the next text (a
heading, a colon, "the following", an open bracket) shares a block with the next text. A list item
shares a block with the preceding text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

FIRST_HOLE = 0x100000
HOLE = f"[{chr(FIRST_HOLE)}-{chr(0x10FFEF)}]"
"""Regex of the characters that represent holes."""
HEADS_INSTRUCTIONS = re.compile(
    r"((output|answer|response|important) )?(instruction|task|format|note|hint|rule|option|choice"
    r"|categor(y|ie)|class(e)?|label|example|guideline|requirement|constraint|style|criteria"
    r"|rubric|scale|schema|tip|reminder|important)s?\b",
    re.IGNORECASE,
)
"""Regex of a label or heading."""


@dataclass(frozen=True)
class Block:
    """The span `text[begin:end]` of a prompt, without the separator before the next block."""

    begin: int
    end: int
    text: str
    why: str = ""  # reason for keeping the lines together, if not a plain paragraph
    # ends with text introduced by a colon after an argument; may continue in the next unit
    goes_on: bool = False

    @property
    def is_constant(self) -> bool:
        return re.search(HOLE, self.text) is None


def blocks(text: str) -> list[Block]:
    """Split `text` into blocks, in order."""
    units: list[Block] = []
    for paragraph in _matches(_PARAGRAPH, text):
        units += [paragraph] if paragraph.is_constant else _of_lines(text, paragraph)
    if units and "\n" in units[-1].text and units[-1].is_constant:  # the last line is a cue
        units[-1:] = _without_last_line(text, units[-1])
    joined: list[Block] = []
    for unit in units:
        before = joined[-1] if joined else None
        if before and (why := _why_joined(before, unit, text)):
            goes_on = before.text.endswith(":") and unit.is_constant and not before.is_constant
            joined[-1] = replace(_join(text, before, unit, why), goes_on=goes_on)
        else:
            joined.append(unit)
    return joined


def labels(text: str) -> list[str]:
    """Return the labels of the lines that begin with `Label:`."""
    return [match[1] for match in _LABEL.finditer(text)]


def said_inside(text: str, at: int) -> bool:
    """Return whether `text` has a colon after `at` that is followed by text."""
    return re.search(r":\s*\S", text[at:]) is not None


_PARAGRAPH = re.compile(r"\S(?:.|\n(?!\s*\n|\s*\Z))*")
_LINE = re.compile(r"\S.*")
_LABEL = re.compile(r"^[ \t]*([A-Z][\w/'-]*(?: [\w/'-]+){0,3}):", re.MULTILINE)
_BARE_LABEL = re.compile(r"\s*[^\n:]{1,40}:\s*$", re.MULTILINE)
_HEADING = re.compile(
    r"\s*(#{1,6} .*|\*\*[^*\n]+\*\*:?|[^a-z:\n]*[A-Z]{3}[^a-z:\n]*:?)$", re.MULTILINE
)
_ITEM = re.compile(r"\s*([-*•]|\(?(\d+|[a-z])[.)])\s")
_TAG = re.compile(r"<([A-Za-z][\w-]*)>")
_SENTENCE_ENDS = re.compile(rf"([.!?:\"']|{HOLE})\s*$")
_FORWARD = re.compile(
    r"\b(below|(?:the |as )?following|follows|next|here (?:is|are)|underneath)\b", re.IGNORECASE
)


def _matches(pattern: re.Pattern[str], text: str, begin: int = 0) -> list[Block]:
    found = pattern.finditer(text)
    return [Block(begin + m.start(), begin + m.start() + len(m[0].rstrip()), m[0].rstrip())
            for m in found]  # fmt: skip


def _of_lines(text: str, paragraph: Block) -> list[Block]:
    """Split a paragraph with holes into lines, joining the lines of a sentence or record."""
    made: list[Block] = []
    lines = _matches(_LINE, paragraph.text, paragraph.begin)
    for i, line in enumerate(lines):
        cue = i == len(lines) - 1 and _BARE_LABEL.match(line.text)
        why = ""
        if made and not _SENTENCE_ENDS.search(made[-1].text) and not _LABEL.match(line.text):
            why = "a sentence goes on"
        elif made and line.is_constant and not cue and _is_field(line.text):
            why = "these are fields of one record"
        elif made and not cue and _BARE_LABEL.match(made[-1].text):
            if not _BARE_LABEL.match(line.text):
                why = "a label stands before it"
        elif made and made[-1].is_constant and _is_field(made[-1].text):
            why = "these are fields of one record"
        if why:
            made[-1] = _join(text, made[-1], line, why)
        else:
            made.append(line)
    return made


def _is_field(line: str) -> bool:
    """Return whether a line reads `Label: value` with a value that is no instruction."""
    label = _LABEL.match(line)
    return label is not None and not HEADS_INSTRUCTIONS.match(label[1]) and label.end() < len(line)


def _without_last_line(text: str, unit: Block) -> list[Block]:
    """Split a paragraph from its last line, if the last line is a label."""
    *_, last = _matches(_LINE, unit.text, unit.begin)
    if not _BARE_LABEL.match(last.text):
        return [unit]
    before = text[unit.begin : last.begin].rstrip()
    return [Block(unit.begin, unit.begin + len(before), before), last]


def _join(text: str, first: Block, second: Block, why: str) -> Block:
    return Block(first.begin, second.end, text[first.begin : second.end], why)


def _why_joined(before: Block, unit: Block, text: str) -> str:
    """Return the reason for joining `unit` to the unit `before`; "" if the units are separate
    blocks."""
    if opened := _open_in(before.text, text[before.end :]):
        return f"{opened} is open"
    if _HEADING.match(before.text) and not _HEADING.match(unit.text):
        return "a heading stands before it"
    if _ITEM.match(unit.text):
        return "it is an item of a list"
    if before.text.endswith(":"):
        return "a colon leads on to it"
    forward = list(_FORWARD.finditer(before.text))
    if forward and not said_inside(before.text, forward[-1].end()):
        return f"{forward[-1][0]!r} leads on to it"
    return ""


def _open_in(text: str, after: str) -> str:
    """Return the bracket or fence that `text` opens without closing."""
    for mark in ("```", '"""', "'''"):
        if text.count(mark) % 2:
            return mark
    for opening, closing in ("()", "[]", "{}", "“”"):
        if text.count(opening) > text.count(closing):
            return opening
    if text.replace('"""', "").count('"') % 2:
        return '"'
    for tag in _TAG.findall(text):
        if f"</{tag}>" not in text and f"</{tag}>" in after:
            return f"<{tag}>"
    return ""
