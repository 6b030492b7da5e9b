"""Keywords of JSON Schema as checks of a value. Format and content keywords are annotations.

Knows no syntax trees and no automata, except for the search of patterns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, Protocol

from ...errors import shown
from ..regex.ecmascript import to_python
from .flat import type_of
from .index import SchemaIndex
from .keyword_reader import TYPES
from .regex_search import occurs

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """A value that violates a keyword."""

    path: Path
    value: Any
    wanted: str

    def __str__(self) -> str:
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)
        return f"{brief(self.value)} at ${path} is not {self.wanted}"


@dataclass(slots=True)
class Evaluation:
    """Members and items of a value that at least one keyword evaluated."""

    names: set[str] = field(default_factory=set)
    items: set[int] = field(default_factory=set)

    def add(self, other: Evaluation) -> None:
        self.names |= other.names
        self.items |= other.items


@dataclass(frozen=True, slots=True)
class KeywordUse:
    """A keyword of a schema, applied to a value."""

    schema: dict[str, Any]
    argument: Any
    value: Any
    path: Path
    seen: Evaluation

    def unless(self, holds: bool, wanted: str) -> Problem | None:
        return None if holds else Problem(self.path, self.value, wanted)


class Checker(Protocol):
    """A check of a whole value. Each method returns the first problem, or None."""

    index: SchemaIndex
    tracks: bool  # True if a schema needs `Evaluation`

    def problem(self, schema: Any, value: Any, path: Path, seen: Evaluation) -> Problem | None: ...

    def check_clock(self) -> None:
        """Raise InvalidAnswer after the time limit."""

    def also(self, schema: Any, at: KeywordUse) -> Problem | None:
        """Check a schema for the value of `at`, and on success merge the evaluated members."""

    def inner(self, at: KeywordUse, parts: Iterable[tuple[str | int, Any]]) -> Problem | None:
        """Check members or items by (name or number, schema), and mark them as evaluated."""


Check = Callable[[Checker, KeywordUse], Problem | None]


def _first(problems: Iterable[Problem | None]) -> Problem | None:
    return next((problem for problem in problems if problem is not None), None)


def _same(steps: Iterable[str | int], at: KeywordUse) -> Iterable[tuple[str | int, Any]]:
    """Pair each member or item with the schema of the keyword."""
    return ((step, at.argument) for step in steps)


def brief(value: Any) -> str:
    if isinstance(value, dict):
        return f"an object of {len(value)} members"
    if isinstance(value, list):
        return f"an array of {len(value)} items"
    if isinstance(value, str):
        return shown(value[:100])
    return f"{json.dumps(value) if value is None or isinstance(value, bool) else value!s:.40}"


def _equal(a: Any, b: Any) -> bool:
    """Compare JSON values: 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[name], b[name]) for name in a)
    return bool(a == b)


def _fingerprint(value: Any) -> int:
    """Return a number, equal for equal values.

    Hashes of numbers are vulnerable to crafted collisions; hashes of texts are not, because Python
    salts them.
    """
    if isinstance(value, dict):
        return hash(("{", sum(hash((k, _fingerprint(v))) for k, v in value.items())))
    if isinstance(value, list):
        total = 0
        for item in value:
            total = hash((total, _fingerprint(item), "["))
        return total
    if value is None or isinstance(value, bool | str):
        return hash((str(value), type(value)))
    sign, digits, exponent = Decimal(value).as_tuple()
    text = "".join(map(str, digits)).rstrip("0")
    return hash((text, text and sign, text and int(exponent) + len(digits) - len(text)))


def _type(run: Checker, at: KeywordUse) -> Problem | None:
    names = at.argument if isinstance(at.argument, list) else [at.argument]
    kind = type_of(at.value)
    return at.unless(any(kind in TYPES[name] for name in names), f"of type {', '.join(names)}")


def _enum(run: Checker, at: KeywordUse) -> Problem | None:
    return at.unless(any(_equal(at.value, each) for each in at.argument), "in its enum")


def _const(run: Checker, at: KeywordUse) -> Problem | None:
    return at.unless(_equal(at.value, at.argument), f"its const {brief(at.argument)}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, Decimal)) and not isinstance(value, bool)


def _minimum(run: Checker, at: KeywordUse) -> Problem | None:
    strict = at.schema.get("exclusiveMinimum") is True  # draft-04
    holds = not _is_number(at.value) or (
        at.value > at.argument or (at.value == at.argument and not strict)
    )
    return at.unless(holds, f"at least {at.argument}")


def _maximum(run: Checker, at: KeywordUse) -> Problem | None:
    strict = at.schema.get("exclusiveMaximum") is True
    holds = not _is_number(at.value) or (
        at.value < at.argument or (at.value == at.argument and not strict)
    )
    return at.unless(holds, f"at most {at.argument}")


def _exclusive_minimum(run: Checker, at: KeywordUse) -> Problem | None:
    skip = isinstance(at.argument, bool) or not _is_number(at.value)
    return at.unless(skip or at.value > at.argument, f"above {at.argument}")


def _exclusive_maximum(run: Checker, at: KeywordUse) -> Problem | None:
    skip = isinstance(at.argument, bool) or not _is_number(at.value)
    return at.unless(skip or at.value < at.argument, f"below {at.argument}")


def _multiple_of(run: Checker, at: KeywordUse) -> Problem | None:
    holds = (
        not _is_number(at.value) or (Fraction(at.value) / Fraction(at.argument)).denominator == 1
    )
    return at.unless(holds, f"a multiple of {at.argument}")


Sized = type[str] | type[list[Any]] | type[dict[str, Any]]


def _counted(kind: Sized, least: bool, noun: str) -> Check:
    def check(run: Checker, at: KeywordUse) -> Problem | None:
        if not isinstance(at.value, kind):
            return None
        size = len(at.value)
        holds = size >= at.argument if least else size <= at.argument
        return at.unless(holds, f"of at {'least' if least else 'most'} {at.argument} {noun}")

    return check


def _pattern(run: Checker, at: KeywordUse) -> Problem | None:
    holds = not isinstance(at.value, str) or occurs(to_python(at.argument), at.value)
    return at.unless(holds, f"a text with the pattern {shown(at.argument)}")


def _prefix(at: KeywordUse) -> list[Any]:
    """Return the schemas of the first items: `prefixItems`, or a list in `items` up to draft
    2019-09."""
    items = at.schema.get("items")
    return items if isinstance(items, list) else at.schema.get("prefixItems", [])


def _each_of_prefix(run: Checker, at: KeywordUse) -> Problem | None:
    if not isinstance(at.value, list):
        return None
    return run.inner(at, zip(range(len(at.value)), _prefix(at), strict=False))


def _items(run: Checker, at: KeywordUse) -> Problem | None:
    if isinstance(at.argument, list):
        return _each_of_prefix(run, at)
    return _later_items(run, at)


def _later_items(run: Checker, at: KeywordUse) -> Problem | None:
    if not isinstance(at.value, list):
        return None
    return run.inner(at, _same(range(len(_prefix(at)), len(at.value)), at))


def _additional_items(run: Checker, at: KeywordUse) -> Problem | None:
    return _later_items(run, at) if isinstance(at.schema.get("items"), list) else None


def _unique_items(run: Checker, at: KeywordUse) -> Problem | None:
    if at.argument is not True or not isinstance(at.value, list):
        return None
    groups: dict[int, list[Any]] = {}
    for item in at.value:
        same = groups.setdefault(_fingerprint(item), [])
        if any(_equal(item, other) for other in same):
            return Problem(at.path, at.value, "of different items")
        same.append(item)
    return None


def _contains(run: Checker, at: KeywordUse) -> Problem | None:
    if not isinstance(at.value, list):
        return None
    numbers = [
        number
        for number, item in enumerate(at.value)
        if run.problem(at.argument, item, (*at.path, number), Evaluation()) is None
    ]
    at.seen.items.update(numbers)
    least, most = at.schema.get("minContains", 1), at.schema.get("maxContains", len(at.value))
    return at.unless(least <= len(numbers) <= most, "of the items that contains asks for")


def _properties(run: Checker, at: KeywordUse) -> Problem | None:
    if not isinstance(at.value, dict):
        return None
    return run.inner(at, (part for part in at.argument.items() if part[0] in at.value))


def _occurs(run: Checker, pattern: str, name: str) -> bool:
    run.check_clock()
    return occurs(pattern, name)


def _pattern_properties(run: Checker, at: KeywordUse) -> Problem | None:
    if not isinstance(at.value, dict):
        return None
    pairs = ((to_python(pattern), schema) for pattern, schema in at.argument.items())
    matches = (
        (name, schema)
        for pattern, schema in pairs
        for name in at.value
        if _occurs(run, pattern, name)
    )
    return run.inner(at, matches)


def _additional_properties(run: Checker, at: KeywordUse) -> Problem | None:
    if not isinstance(at.value, dict):
        return None
    listed = at.schema.get("properties", ())
    patterns = list(map(to_python, at.schema.get("patternProperties", ())))
    names = (
        name
        for name in at.value
        if name not in listed and not any(_occurs(run, pattern, name) for pattern in patterns)
    )
    return run.inner(at, _same(names, at))


def _property_names(run: Checker, at: KeywordUse) -> Problem | None:
    names = at.value if isinstance(at.value, dict) else ()
    return _first(run.problem(at.argument, name, at.path, Evaluation()) for name in names)


def _required(run: Checker, at: KeywordUse) -> Problem | None:
    if not isinstance(at.value, dict):
        return None
    missing = (name for name in at.argument if name not in at.value)
    return _first(Problem(at.path, at.value, f"with the member {shown(n)}") for n in missing)


def _dependencies(run: Checker, at: KeywordUse) -> Problem | None:
    if not isinstance(at.value, dict):
        return None
    for name in at.argument.keys() & at.value.keys():
        needed = at.argument[name]
        if not isinstance(needed, list):
            if problem := run.also(needed, at):
                return problem
        elif missing := [other for other in needed if other not in at.value]:
            wanted = f"with the member {shown(missing[0])} that {shown(name)} needs"
            return Problem(at.path, at.value, wanted)
    return None


def _all_of(run: Checker, at: KeywordUse) -> Problem | None:
    for schema in at.argument:
        if problem := run.also(schema, at):
            return problem
    return None


def _any_of(run: Checker, at: KeywordUse) -> Problem | None:
    holding = (run.also(schema, at) is None for schema in at.argument)
    holds = any(list(holding)) if run.tracks else any(holding)
    return at.unless(holds, "valid under any schema of anyOf")


def _one_of(run: Checker, at: KeywordUse) -> Problem | None:
    count = sum(run.also(schema, at) is None for schema in at.argument)
    return at.unless(count == 1, f"valid under exactly one schema of oneOf, but {count}")


def _not(run: Checker, at: KeywordUse) -> Problem | None:
    holds = run.problem(at.argument, at.value, at.path, Evaluation()) is not None
    return at.unless(holds, "what `not` allows")


def _if(run: Checker, at: KeywordUse) -> Problem | None:
    branch = at.schema.get("then" if run.also(at.argument, at) is None else "else", True)
    return run.also(branch, at)


def _ref(run: Checker, at: KeywordUse) -> Problem | None:
    return run.also(run.index.resolve(at.schema)[1], at)


def _unevaluated_items(run: Checker, at: KeywordUse) -> Problem | None:
    numbers = range(len(at.value)) if isinstance(at.value, list) else ()
    open_numbers = [number for number in numbers if number not in at.seen.items]
    return run.inner(at, _same(open_numbers, at))


def _unevaluated_properties(run: Checker, at: KeywordUse) -> Problem | None:
    names = at.value if isinstance(at.value, dict) else ()
    open_names = [name for name in names if name not in at.seen.names]
    return run.inner(at, _same(open_names, at))


CHECKS: dict[str, Check] = {
    "$ref": _ref,
    "type": _type,
    "enum": _enum,
    "const": _const,
    "minimum": _minimum,
    "maximum": _maximum,
    "exclusiveMinimum": _exclusive_minimum,
    "exclusiveMaximum": _exclusive_maximum,
    "multipleOf": _multiple_of,
    "minLength": _counted(str, True, "characters"),
    "maxLength": _counted(str, False, "characters"),
    "pattern": _pattern,
    "minItems": _counted(list, True, "items"),
    "maxItems": _counted(list, False, "items"),
    "uniqueItems": _unique_items,
    "prefixItems": _each_of_prefix,
    "items": _items,
    "additionalItems": _additional_items,
    "contains": _contains,
    "minProperties": _counted(dict, True, "members"),
    "maxProperties": _counted(dict, False, "members"),
    "required": _required,
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "propertyNames": _property_names,
    "dependentRequired": _dependencies,
    "dependentSchemas": _dependencies,
    "dependencies": _dependencies,
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "if": _if,
    "unevaluatedItems": _unevaluated_items,
    "unevaluatedProperties": _unevaluated_properties,
}
"""Keyword -> check. The last two apply to members and items without another schema."""
