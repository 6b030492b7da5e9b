"""Random patterns in `re` syntax and texts near to their matches, and patterns as people write
them.

Two errors of CPython 3.11 are not drawn: ignoring case, its classes lose cased characters above
U+FFFF that are not in lower case, and with ASCII too, ranges that end there match other cases. So
only (?-i:...) has such a range.
"""

from __future__ import annotations

import random
import re
import warnings

from hypothesis import settings
from hypothesis import strategies as st

quick = settings(deadline=None, derandomize=True, database=None)

NEARBY = "abkKsSiI01 \n-]_ſKİıßẞéÉ\t\x1c٣\U00010400\U00010428—日"

ATOMS = [
    *"abks", "ß", "é", "İ", "日", "\U00010428", *" -#{}]", "{1", "{,x}", r"\.", r"\n", "(?#a(b)",
    "()", "",
]  # fmt: skip
ATOMS += [
    r"\x4b", r"\u0131", r"\U00010428", r"\N{EM DASH}", r"\060", r"\101", r"\0", r"\-", r"\a", r"\\",
]  # fmt: skip
ATOMS += [
    ".", r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", "[ab]", "[^ab]", "[a-k]", "[^a-kK]", "[]a-]",
    "[^]a]",
]  # fmt: skip
ATOMS += [
    r"[\dk]", r"[^\Wk]", r"[\w-]", r"[\s\S]", r"[\b\t]", r"[\x41-\u0130]", "[&~|-]",
    r"[ſ\U00010428😀-🙏]",
]  # fmt: skip
ATOMS += [r"(?-i:[é-\U00010428])"]
OPENINGS = [
    "(", "(?:", "(?i:", "(?s:", "(?-i:", "(?is-m:", "(?a:", "(?u:", "(?x: ", "(?-x:", "(?m:",
]  # fmt: skip
QUANTIFIERS = [""] * 6 + [
    "*",
    "+",
    "?",
    "{2}",
    "{1,}",
    "{,2}",
    "{0}",
    "{1,3}",
    "{,}",
    "*?",
    "+?",
    "??",
    "{1,2}?",
]
GLOBALS = ["", "", "(?i)", "(?s)", "(?a)", "(?ai)", "(?i)(?s)", "(?x)", "(?m)", "(?u)"]


@st.composite
def patterns(draw: st.DrawFn, depth: int = 2) -> str:
    """A few atoms, groups and alternatives, quantified or not, with anchors at their ends."""
    pieces = []
    for _ in range(draw(st.integers(1, 3))):
        piece = draw(st.sampled_from(ATOMS))
        if depth and draw(st.booleans()):
            piece = draw(st.sampled_from(OPENINGS)) + draw(patterns(depth - 1)) + ")"
        pieces += [piece, draw(st.sampled_from(QUANTIFIERS)) if piece else ""]
        pieces += ["|"] if draw(st.integers(0, 4)) == 0 else []
    anchored = draw(st.integers(0, 9 if depth < 2 else 2)) == 0
    begin, end = draw(st.sampled_from(["", "^", r"\A"])), draw(st.sampled_from(["", "$", r"\Z"]))
    begin, end = (begin, end) if anchored else ("", "")
    return (draw(st.sampled_from(GLOBALS)) if depth == 2 else "") + begin + "".join(pieces) + end


def mutated(text: str, rng: random.Random) -> str:
    """`text` with one character put in, left out, replaced, or in the other case."""
    place = rng.randint(0, len(text))
    char = rng.choice(NEARBY)
    rest = text[place:]
    return text[:place] + rng.choice(
        (char + rest, rest[1:], char + rest[1:], rest.swapcase(), rest + "\n")
    )


def is_refused(pattern: str) -> bool:
    """Whether `re` does not compile it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            re.compile(pattern)
        except (re.error, ValueError, OverflowError):
            return True
    return False


def longest(pattern: str) -> int:
    """The longest text to try: nested repeats cost `re` exponential time."""
    return 12 if len(re.findall(r"[*+]|,\}", pattern)) < 2 else 6
