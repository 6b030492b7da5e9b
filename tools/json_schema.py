"""Generator of docs/JSON_SCHEMA.md from the tables of supported keywords.

`python -m tools.json_schema docs/JSON_SCHEMA.md` writes the page; without a path, prints the
page.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from sgnb.grammar.schema.index import MAX_CHARACTERS, MAX_DEPTH
from sgnb.grammar.schema.keywords import ANNOTATION, ENFORCED, KEYWORDS, REFUSED
from sgnb.grammar.schema.numbers import FRACTION_DIGITS, INTEGER_DIGITS
from sgnb.grammar.schema.string_formats import ANY_TEXT_NOTE, ENCODINGS, FORMATS, NUMBER_FORMATS

_INTRODUCTION = f"""# JSON Schema

A JSON schema as a constraint guarantees that the generated text is JSON and valid under the schema.
This page lists the supported keywords of draft 2020-12, and of draft-07 where both drafts agree.
Most small schemas compile within 20 milliseconds, once per process.

`python -m tools.json_schema docs/JSON_SCHEMA.md` generates this page from the tables of the
compiler.

The engine may generate fewer texts than the schema allows; the sections below list the
differences. A refused keyword raises an error with the keyword, the position and an alternative.
Every other unlisted keyword is an annotation.

Two engines match the text. The *automaton* matches regular schemas. *llguidance* matches recursive
references, unrestricted values (`true`, `{{}}`, objects without `properties`, arrays without
`items`) and schemas that are too large for an automaton. Both have the same speed. An automaton
computes the number of tokens to a complete text; llguidance requires a search for a short ending.
A schema that compiles does not fail later.

## Format of the output

- The layout is the layout of `json.dumps`: one blank after each comma and colon. With
  `json_whitespace=0` the text is compact. With a larger number, each position between the parts
  holds at most that number of blanks or line breaks.
- Properties follow the order of the schema. Required names without a schema come next, and
  additional properties come last.
- Objects are closed if `properties` or `patternProperties` is present without
  `additionalProperties`. Arrays end after `prefixItems` if `items` is absent. An additional name
  never repeats a listed name.
- A schema without `type` has the types that its keywords address: `{{"minLength": 1}}` is a string.
- `json_strict=False` removes the last two rules: values that the schema does not describe are open.
- Each character has one spelling: itself, `\\"`, `\\\\`, `\\b`, `\\f`, `\\n`, `\\r` or `\\t`. Other
  control characters appear, as lower-case `\\u00xx`, only if enum, const, a property's name or a
  pattern names them explicitly.
- Integers have no exponent and no `-0`. An open bound stops at {INTEGER_DIGITS} digits, or at one
  digit more than the other bound, if this number is larger.
- Numbers have at most {FRACTION_DIGITS} digits after the point, and as many before the point as
  integers. Without bounds, and with a bound of 0, numbers such as `1.5e-7` have an exponent. With
  bounds, fewer decimals are allowed: a double keeps every text on the correct side of the bound. A
  bound beyond the largest double is no bound.
- `enum` and `const` write each value as the schema does. With `json_strict=False`, whole numbers
  are spelled `1` or `1.0`, also under `"type": "integer"` (not in draft-04).
- `jsonschema` computes `multipleOf` of decimals such as 0.01 in doubles, and therefore rejects
  0.07. Here decimals are exact.
- An object never repeats a name, and an array with `uniqueItems` never repeats an item.
- A schema has at most {MAX_CHARACTERS:,} characters and {MAX_DEPTH} levels.
"""


def document() -> str:
    """Return the text of docs/JSON_SCHEMA.md."""
    enforced = [
        (f"`{name}`", entry.how, entry.limits, entry.engine)
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
            "## Enforced keywords\n",
            *_table(("keyword", "how", "limits", "engine"), enforced),
            "\n## Annotations\n",
            ", ".join(annotations) + ".",
            "\n## Refused keywords\n",
            *_table(("keyword", "alternative"), refused),
            "\nEvery other keyword is an annotation. A name that resembles an enforced keyword "
            "raises a warning.",
            "\n## Formats\n",
            *_table(("format", "limits"), formats),
            f"\n`contentEncoding` supports {encodings}; every other encoding raises an error. "
            "Every other format is an annotation, with a warning.\n",
        ]
    )


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [head, ("---",) * len(head), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tools.json_schema", description=__doc__)
    parser.add_argument("path", nargs="?", type=Path, help="the file to write")
    target = parser.parse_args().path
    if target is None:
        print(document())
    else:
        target.write_text(document(), encoding="utf-8")
