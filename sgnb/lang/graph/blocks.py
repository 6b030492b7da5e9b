"""A prompt's text as blocks that may change places. Knows no graph: a hole is one character.

A block is a paragraph, or in a paragraph with holes a line. What leads on to what comes next (a
heading, a colon, "the following", an open bracket) is one block with it, and so is an item of a
list with what comes before it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

FIRST_HOLE = 0x100000
HOLE = f"[{chr(FIRST_HOLE)}-{chr(0x10FFEF)}]"
"""A regex of the characters that stand for holes."""
HEADS_INSTRUCTIONS = re.compile(
    r"((output|answer|response|important) )?(instruction|task|format|note|hint|rule|option|choice"
    r"|categor(y|ie)|class(e)?|label|example|guideline|requirement|constraint|style|criteria"
    r"|rubric|scale|schema|tip|reminder|important)s?\b",
    re.IGNORECASE,
)
"""A label or heading."""


@dataclass(frozen=True)
class Block:
    """`text[begin:end]` of a prompt, without what parts it from the next block."""

    begin: int
    end: int
    text: str
    why: str = ""  # its lines stay together, if something other than a paragraph holds them
    goes_on: bool = False  # ends with what a colon behind an argument leads on to: more may follow

    @property
    def is_constant(self) -> bool:
        return re.search(HOLE, self.text) is None


def blocks(text: str) -> list[Block]:
    """`text` as blocks, in order."""
    units: list[Block] = []
    for paragraph in _matches(_PARAGRAPH, text):
        units += [paragraph] if paragraph.is_constant else _of_lines(text, paragraph)
    if units and "\n" in units[-1].text and units[-1].is_constant:  # with its cue
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
    """Of its lines that begin with `Label:`."""
    return [match[1] for match in _LABEL.finditer(text)]


def said_inside(text: str, at: int) -> bool:
    """Whether a colon after `at` has text behind it: what is pointed to there stands in it."""
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
    """The lines of a paragraph with holes, those together that are one sentence or one record."""
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
    """Whether it says `Label: value`, and the value is no instruction."""
    label = _LABEL.match(line)
    return label is not None and not HEADS_INSTRUCTIONS.match(label[1]) and label.end() < len(line)


def _without_last_line(text: str, unit: Block) -> list[Block]:
    """A paragraph and its last line, if that is a label."""
    *_, last = _matches(_LINE, unit.text, unit.begin)
    if not _BARE_LABEL.match(last.text):
        return [unit]
    before = text[unit.begin : last.begin].rstrip()
    return [Block(unit.begin, unit.begin + len(before), before), last]


def _join(text: str, first: Block, second: Block, why: str) -> Block:
    return Block(first.begin, second.end, text[first.begin : second.end], why)


def _why_joined(before: Block, unit: Block, text: str) -> str:
    """Why `unit` is one block with the one `before` it; "" where it is not."""
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
    """What `text` opens and does not close."""
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
