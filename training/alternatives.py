"""Templates with alternatives: `[buys|gets] {x} [more |]apples`, brackets within brackets, expanded at random."""

from __future__ import annotations

import re
from functools import cache
from random import Random

Tree = tuple["str | tuple[Tree, ...]", ...]
"""A text is a row of parts: plain text, or the alternatives of which one is taken."""

MARKS = re.compile(r"([\[|\]])")
SLOT = re.compile(r"\{(?:a_)?(\w+)\}")


def expand(rng: Random, template: str) -> str:
    """One of the texts that the template stands for."""
    return _walk(rng, _parsed(template))


def _walk(rng: Random, tree: Tree) -> str:
    out = ""
    for part in tree:
        out += part if isinstance(part, str) else _walk(rng, part[int(rng.random() * len(part))])
    return out


@cache
def _parsed(template: str) -> Tree:
    tokens = MARKS.split(template)
    tree, rest = _row(tokens[::-1])
    if rest or template.count("[") != template.count("]"):
        raise ValueError(f"brackets do not match: {template}")
    return tree


def _row(tokens: list[str]) -> tuple[Tree, list[str]]:
    """Parts up to the end of this alternative; `tokens` is in reverse and is used up."""
    parts: list[str | tuple[Tree, ...]] = []
    while tokens and tokens[-1] not in ("|", "]"):
        token = tokens.pop()
        if token != "[":
            parts.append(token)
            continue
        choices: list[Tree] = []
        while not choices or tokens.pop() == "|":
            choices.append(_row(tokens)[0])
            if not tokens:
                raise ValueError("a bracket is never closed")
        parts.append(tuple(choices))
    return tuple(part for part in parts if part), tokens


def slots(text: str) -> list[str]:
    """The slots of a text; `{a_job}` is the slot `job` with its article."""
    return SLOT.findall(text)


