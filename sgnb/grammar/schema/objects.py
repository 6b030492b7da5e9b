"""A `FlatSchema` as the tree of its objects: the named properties in order, then the others. Knows
no other types."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

from ..syntax import NOTHING, Intersect, Literal, Node, Source, Without
from .cases import CaseReader
from .flat import FlatSchema, Schema
from .members import Part, counted, listed
from .strings import all_but, apart, decoded, pattern_tree
from .text import ANY_TEXT, Layout, either, string

MOST_PATTERNS = 3
LONGEST_LABEL = 400
MOST_COUNTED = 8
"""So many properties that may be left out can be counted."""

_IDENTIFIER = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class Writer:
    """What is needed inside an object or array. `value(schema, label)`: the values of the schema at
    that label."""

    layout: Layout
    reader: CaseReader
    value: Callable[[Schema, str], Node]


def object_tree(flat: FlatSchema, label: str, writer: Writer) -> Node:
    """The objects that `flat` allows. Raises GrammarError."""
    flat = _with_listed_names(flat, writer)
    members = _members(flat, writer)
    required = frozenset(flat.required)
    parts = [
        Part(_entry(Literal(name), schema, _path(label, name), writer), int(name in required))
        for name, schema in members.items()
    ]
    parts = [part for part in parts if part.least or part.node != NOTHING]
    others = _others(flat, members, label, writer)
    inside, empty = _counted_parts(flat, parts, others, writer)
    return writer.layout.braces(inside, empty)


def _with_listed_names(flat: FlatSchema, writer: Writer) -> FlatSchema:
    """The same objects, with the names that propertyNames lists among the properties, and no more
    beside them."""
    if flat.names is True:
        return flat
    cases = writer.reader.cases(flat.names)
    if any(case.values is None for case in cases):
        return flat
    names = [name for case in cases for name in writer.reader.values(case) if isinstance(name, str)]
    listed_names = [name for name in flat.properties if name in names]
    properties: dict[str, Schema] = {
        name: _whole_member(flat, name, writer) for name in (*listed_names, *names)
    }
    properties |= dict.fromkeys((name for name in flat.required if name not in names), False)
    return replace(flat, properties=properties, names=True, additional=False, pattern_properties={})


def _whole_member(flat: FlatSchema, name: str, writer: Writer) -> Schema:
    """The schema of a property, with those of the patterns that fit its name."""
    schema = flat.member(name)
    for other in flat.fitting(name):
        schema = writer.reader.index.join(schema, other)
    return schema


def _members(flat: FlatSchema, writer: Writer) -> dict[str, Schema]:
    """The named properties with their schemas, those of the patterns included."""
    members = {}
    for name in dict.fromkeys((*flat.properties, *flat.required)):
        allowed = flat.names is True or writer.reader.valid(flat.names, name)
        members[name] = _whole_member(flat, name, writer) if allowed else False
    return members


def _path(label: str, name: str) -> str:
    """The label of a property; of one very deep inside, that of what it is in."""
    if len(label) > LONGEST_LABEL:
        return label
    return (
        f"{label}.{name}"
        if _IDENTIFIER.fullmatch(name)
        else f"{label}[{json.dumps(name, ensure_ascii=False)}]"
    )


def _entry(name: Node, schema: Schema, label: str, writer: Writer) -> Node:
    value = NOTHING if schema is False else writer.value(schema, label)
    node = NOTHING if NOTHING in (name, value) else writer.layout.entry(string(name), value)
    return node if node == NOTHING else Source(node, label)


def _others(flat: FlatSchema, members: dict[str, Schema], label: str, writer: Writer) -> Node:
    """One entry whose name is none of `members`."""
    additional = flat.additional
    if additional is None:
        closed = flat.pattern_properties or any(
            schema is not False for schema in flat.properties.values()
        )
        additional = not closed
    patterns = list(flat.pattern_properties)
    if len(patterns) > MOST_PATTERNS:
        raise writer.reader.index.error(
            flat.source,
            "patternProperties",
            f"{len(patterns)} patterns",
            f"at most {MOST_PATTERNS} are told apart",
        )
    entries = []
    for fits in product((True, False), repeat=len(patterns)):
        schema: Schema = True if any(fits) else additional
        for pattern, fit in zip(patterns, fits, strict=True):
            if fit:
                schema = writer.reader.index.join(schema, flat.pattern_properties[pattern])
        if schema is not False:
            name = _names(flat, patterns, fits, members, writer)
            entries.append(_entry(name, schema, f"{label}.*", writer))
    return either(entries)


def _names(
    flat: FlatSchema,
    patterns: Sequence[str],
    fits: Sequence[bool],
    taken: dict[str, Schema],
    writer: Writer,
) -> Node:
    """The names that fit just the patterns that `fits` says, and that are not taken."""
    wanted = [pattern_tree(pattern) for pattern, fit in zip(patterns, fits, strict=True) if fit]
    unwanted = [
        pattern_tree(pattern, True) for pattern, fit in zip(patterns, fits, strict=True) if not fit
    ]
    if flat.names is not True:
        cases = writer.reader.cases(flat.names)
        wanted.append(either(decoded(case) for case in cases if "string" in case.types))
    chosen = [pattern for pattern, fit in zip(patterns, fits, strict=True) if fit]
    if any(apart(a, b) for a, b in combinations(wanted, 2)):
        return NOTHING
    unwanted = [node for node in unwanted if not any(apart(node, other) for other in wanted)]
    names = [name for name in taken if all(re.search(pattern, name) for pattern in chosen)]
    if not wanted and not unwanted:
        return all_but(names)
    node = Intersect(tuple(wanted)) if len(wanted) > 1 else wanted[0] if wanted else ANY_TEXT
    unwanted += map(Literal, names)
    return Without(node, either(unwanted)) if unwanted else node


def _counted_parts(
    flat: FlatSchema, parts: list[Part], others: Node, writer: Writer
) -> tuple[Node, bool]:
    """The inside of the braces, with as many entries as minProperties and maxProperties want."""
    least, most = flat.min_properties, flat.max_properties
    needed = sum(part.least for part in parts)
    free = len(parts) - needed
    least = 0 if least <= needed else least
    most = None if most is not None and others == NOTHING and most >= len(parts) else most
    if others != NOTHING:
        if least > needed + 1 or (least > 1 and free):
            raise writer.reader.index.error(
                flat.source,
                "minProperties",
                "more than one name that the schema does not list could be the same twice",
                "list the names in properties, or with enum in propertyNames",
            )
        if not free:
            many = Part(others, int(least > 0), None if most is None else most - needed)
            parts, least, most = (
                [*parts, many] if many.most is None or many.most > 0 else parts,
                0,
                None,
            )
            if many.most is not None and many.most < many.least:
                return NOTHING, False
        else:
            parts = [*parts, Part(others, 0, None)]
    if most is None and least <= 1:
        inside, empty = listed(parts, writer.layout)
        return inside, empty and not least
    if free > MOST_COUNTED:
        keyword = "minProperties" if least else "maxProperties"
        problem = f"{free} properties may be left out"
        raise writer.reader.index.error(
            flat.source, keyword, problem, f"at most {MOST_COUNTED} of them are counted"
        )
    return counted(parts, least, most, writer.layout)
