"""The meaning of a syntax tree, spelled out: where the matches that begin at a place can end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sgnb.grammar.syntax import (
    Alternate,
    Chars,
    Concatenate,
    Intersect,
    Lexeme,
    Literal,
    Node,
    Reference,
    Repeat,
    Rules,
    Source,
    Without,
)

Places = frozenset[int]


def matches(node: Node | Rules, text: str) -> bool:
    """Whether `text` is one of the texts of `node`. Rules may be recursive, but not to the left."""
    if isinstance(node, Rules):
        return len(text) in _Oracle(text, node.rules).ends(node.start, 0)
    return len(text) in _Oracle(text, {}).ends(node, 0)


class _Oracle:
    def __init__(self, text: str, rules: Mapping[str, Node]) -> None:
        self.text = text
        self.rules = rules
        self.known: dict[tuple[int, int], Places] = {}

    def ends(self, node: Node, start: int) -> Places:
        """The ends of all matches from `start`. The tree outlives this object: ids are stable."""
        key = (id(node), start)
        if key not in self.known:
            self.known[key] = self._ends(node, start)
        return self.known[key]

    def _ends(self, node: Node, start: int) -> Places:
        match node:
            case Literal(text):
                return frozenset({start + len(text)} if self.text.startswith(text, start) else ())
            case Chars(ranges):
                inside = start < len(self.text) and any(
                    a <= ord(self.text[start]) <= b for a, b in ranges
                )
                return frozenset({start + 1} if inside else ())
            case Concatenate(parts):
                places = frozenset({start})
                for part in parts:
                    places = self._after(part, places)
                return places
            case Alternate(options):
                return frozenset().union(*(self.ends(option, start) for option in options))
            case Repeat(inner, least, most):
                return self._repeat(inner, least, most, frozenset({start}))
            case Intersect(parts):
                return frozenset.intersection(*(self.ends(part, start) for part in parts))
            case Without(kept, removed):
                return self.ends(kept, start) - self.ends(removed, start)
            case Source(inner, _) | Lexeme(inner):
                return self.ends(inner, start)
            case Reference(name):
                return self.ends(self.rules[name], start)

    def _after(self, node: Node, places: Places) -> Places:
        return frozenset().union(*(self.ends(node, place) for place in places))

    def _repeat(self, node: Node, least: int, most: int | None, places: Places) -> Places:
        for _ in range(least):
            previous, places = places, self._after(node, places)
            if places == previous:
                break
        rounds = 0
        while most is None or rounds < most - least:
            rounds += 1
            previous, places = places, places | self._after(node, places)
            if places == previous:
                break
        return places


def repeats(text: str) -> bool:
    """True if an array of a JSON text has equal items, or an object has equal names."""

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names.append([name for name, _ in pairs])
        return dict(pairs)

    names: list[list[str]] = []
    value = json.loads(text, object_pairs_hook=members)
    return any(len(set(each)) < len(each) for each in names) or _has_equal_items(value)


def _has_equal_items(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_equal_items, value.values()))
    if not isinstance(value, list):
        return False
    pairs = ((a, b) for index, a in enumerate(value) for b in value[:index])
    return any(map(_has_equal_items, value)) or any(_equal(a, b) for a, b in pairs)


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[name], b[name]) for name in a)
    return bool(a == b)
