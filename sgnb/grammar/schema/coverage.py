"""Generator of docs/JSON_SCHEMA.md from the tables of supported keywords.

`python -m sgnb.grammar.schema.coverage docs/JSON_SCHEMA.md` writes the page; without a path, prints
the page.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from .formats import ANY_TEXT_NOTE, ENCODINGS, FORMATS, NUMBER_FORMATS
from .index import MAX_CHARACTERS, MAX_DEPTH
from .keywords import ANNOTATION, ENFORCED, KEYWORDS, REFUSED
from .numbers import FRACTION_DIGITS, INTEGER_DIGITS

_INTRODUCTION = f"""# JSON Schema

Written by `python -m sgnb.grammar.schema.coverage docs/JSON_SCHEMA.md`; a test keeps it current.
Draft 2020-12, with the spellings of draft-07 where they mean one thing.

Every text that a schema lets through is JSON and valid under the schema. It may let through less
than the schema allows; the differences are listed here. A keyword that is listed as an error is one
that names the keyword, its place and an alternative; any other is an annotation.

What runs it: *automaton* for what is regular, *library* for recursive references, for `true`,
`{{}}`, objects without `properties` and arrays without `items` (any JSON inside), and for what
would make the automaton too large. Both are as fast; of an automaton it is known how many tokens a
text takes to its end, with the library a short end is found. What compiles does not fail later.

## What the output looks like

- The layout of `json.dumps`: one blank after each comma and colon. With `json_whitespace=0`
  compact, with a larger one at most so many blanks or line breaks in each place between the parts.
- Properties in the order of the schema, those of `required` without a schema after them, then all
  others.
- Objects are closed where `properties` or `patternProperties` are given without
  `additionalProperties`; arrays end after `prefixItems` where `items` is not given. An extra name
  never repeats one that the schema lists.
- A schema without `type` is read as the types that its keywords speak of: `{{"minLength": 1}}` is a
  string.
- `json_strict=False` takes back the last two: what a schema does not speak of may be anything.
- One spelling per character: itself, `\\"`, `\\\\`, `\\b`, `\\f`, `\\n`, `\\r`, `\\t`. Other
  control characters, as lower-case `\\u00xx`, only where enum, const, a property's name or a
  pattern names them alone.
- Integers: no exponent, no `-0`, no `1.0`. An end that the schema leaves open stops at
  {INTEGER_DIGITS} digits, or at one more than the other bound has, if that is longer.
- Numbers: no exponent, at most {FRACTION_DIGITS} digits after the point, as many before it as
  integers; with bounds, so few after it that doubles keep every text on its side of the bound.
- `enum` and `const`: each value as the schema writes it.
- `jsonschema` computes `multipleOf` of decimals such as 0.01 in doubles, and so calls 0.07 no
  multiple; here decimals are exact.
- An object may hold a name twice only among those that the schema does not list; the last counts.
- A schema may have {MAX_CHARACTERS:,} characters and be {MAX_DEPTH} levels deep.
"""


def document() -> str:
    """Return the text of docs/JSON_SCHEMA.md."""
    enforced = [
        (f"`{name}`", entry.how, entry.limits, entry.road)
        for name, entry in KEYWORDS.items()
        if entry.state == ENFORCED
    ]
    annotations = [f"`{name}`" for name, entry in KEYWORDS.items() if entry.state == ANNOTATION]
    refused = [(f"`{name}`", word.how) for name, word in KEYWORDS.items() if word.state == REFUSED]
    formats = [(f"`{name}`", entry.note) for name, entry in FORMATS.items()]

    for name, ends in NUMBER_FORMATS.items():
        span = f"{ends[0]} to {ends[1]}" if ends else ANY_TEXT_NOTE
        formats.append((f"`{name}`", f"for numbers: {span}"))

    encodings = ", ".join(f"`{name}`" for name in ENCODINGS)
    return "\n".join(
        [
            _INTRODUCTION,
            "## Keywords that are enforced\n",
            *_table(("keyword", "how", "limits", "road"), enforced),
            "\n## Keywords that pass as annotations\n",
            ", ".join(annotations) + ".",
            "\n## Keywords that are errors\n",
            *_table(("keyword", "instead"), refused),
            "\nAny other keyword is an annotation, with a warning where it is spelled almost like "
            "an enforced one.",
            "\n## Formats\n",
            *_table(("format", "narrower in"), formats),
            f"\n`contentEncoding`: {encodings}, any other is an error. Any other format asks "
            "nothing, with a warning.\n",
        ]
    )


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [head, ("---",) * len(head), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m sgnb.grammar.schema.coverage", description=__doc__
    )
    parser.add_argument("path", nargs="?", type=Path, help="the file to write")
    target = parser.parse_args().path
    if target is None:
        print(document())
    else:
        target.write_text(document(), encoding="utf-8")
