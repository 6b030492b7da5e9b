"""Syntax trees of the objects of a `FlatSchema`: named properties in order, then all others."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from ...errors import GrammarError
from ..syntax import NOTHING, Intersect, Literal, Node, Rules, Source, Without
from .disjuncts import DisjunctReader
from .flat import FlatSchema, NeededMember, Schema, own_member
from .item_counts import DistinctPart, count_values
from .members import ListPart, counted, listed
from .regex_search import occurs
from .strings import apart, decoded, pattern_tree
from .text import ANY_TEXT, JsonLayout, either, string

MOST_MATCHING = 32  # sets of patterns that a name may match simultaneously
LONGEST_LABEL = 400
MOST_SPLIT = 24  # listed properties that may be a needed member
MOST_COUNTED = 8  # optional properties with minProperties or maxProperties

_IDENTIFIER = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class Context:
    """Dependencies of the trees of objects and arrays."""

    layout: JsonLayout
    reader: DisjunctReader
    value: Callable[[Schema, str], Node]  # returns the tree of a schema at a label
    distinct: list[DistinctPart]  # collects the items and names that must not repeat

    def error(self, flat: FlatSchema, keyword: str, problem: str, hint: str) -> GrammarError:
        """Return a GrammarError that names the keyword and its position.

        Args:
            flat: disjunct with the problem.
            keyword: keyword with the problem.
            problem: reason.
            hint: remedy.
        """
        return self.reader.index.error(flat.source, keyword, problem, hint)


def object_tree(flat: FlatSchema, label: str, context: Context) -> Node:
    """Return the objects that `flat` allows.

    Args:
        flat: keywords of a disjunct.
        label: path of the object in the text, such as `$.wand`.
        context: layout and disjunct reader.

    Raises:
        GrammarError: a keyword cannot be enforced.
    """
    flat = _with_listed_names(flat, context)
    if flat.needed:
        return either(object_tree(part, label, context) for part in _split(flat, context))
    members = _members(flat, context)
    required = frozenset(flat.required)
    parts = [
        ListPart(_entry(Literal(name), schema, _path(label, name), context), int(name in required))
        for name, schema in members.items()
    ]
    parts = [part for part in parts if part.least or part.node != NOTHING]
    others = _others(flat, members, label, context)
    inside, empty = _counted_parts(flat, parts, others, context)
    return context.layout.braces(inside, empty)


def _with_listed_names(flat: FlatSchema, context: Context) -> FlatSchema:
    """Convert an enumerated propertyNames to a list of the only properties."""
    if flat.names is True:
        return flat
    disjuncts = context.reader.disjuncts(flat.names)
    if any(disjunct.values is None for disjunct in disjuncts):
        return flat

    names = [
        name
        for disjunct in disjuncts
        for name in context.reader.values(disjunct)
        if isinstance(name, str)
    ]
    listed_names = [name for name in flat.properties if name in names]
    members = ((name, _whole_member(flat, name, context)) for name in (*listed_names, *names))
    properties: dict[str, Schema] = dict(members)
    properties |= dict.fromkeys((name for name in flat.required if name not in names), False)
    return replace(
        flat,
        properties=properties,
        names=True,
        additional=False,
        pattern_properties={},
        partial_additional=(),
    )


def _split(flat: FlatSchema, context: Context) -> Iterator[FlatSchema]:
    """Yield alternatives without the first member of `needed`: a listed property, or an unlisted
    member."""
    needed, *later = flat.needed
    flat = replace(flat, needed=tuple(later), additional=_additional(flat))
    join = context.reader.index.join
    names = [
        name
        for name in dict.fromkeys((*flat.properties, *flat.required))
        if flat.member(name) is not False and context.reader.valid(needed.names, name)
    ]
    if needed.value is True and not set(names).isdisjoint(flat.required):
        yield flat
        return

    for name in names[:MOST_SPLIT]:
        schema = join(own_member(flat, name, join), needed.value)
        properties = {**flat.properties, name: schema}
        yield replace(flat, properties=properties, required=(*flat.required, name))
        if needed.value is True:  # the next alternatives have other texts
            flat = replace(flat, properties={**flat.properties, name: False})
    if len(names) <= MOST_SPLIT:
        yield replace(flat, unlisted=(*flat.unlisted, needed))


def _additional(flat: FlatSchema) -> Schema:
    """Return the schema of unlisted names, closed if the schema lists names."""
    if flat.additional is not None:
        return flat.additional
    named = any(schema is not False for schema in flat.properties.values())
    return bool(flat.partial_additional) or not (flat.pattern_properties or named)


def _whole_member(flat: FlatSchema, name: str, context: Context) -> Schema:
    """Return the schema of a property, joined with the schemas of matching patterns."""
    schema = flat.member(name)
    for other in flat.fitting(name):
        schema = context.reader.index.join(schema, other)
    return schema


def _members(flat: FlatSchema, context: Context) -> dict[str, Schema]:
    """Return the named properties with their schemas, including schemas of matching patterns."""
    members = {}
    for name in dict.fromkeys((*flat.properties, *flat.required)):
        allowed = flat.names is True or context.reader.valid(flat.names, name)
        members[name] = _whole_member(flat, name, context) if allowed else False
    return members


def _path(label: str, name: str) -> str:
    """Return the label of a property; beyond LONGEST_LABEL, the label of its object."""
    if len(label) > LONGEST_LABEL:
        return label
    if _IDENTIFIER.fullmatch(name):
        return f"{label}.{name}"
    return f"{label}[{json.dumps(name, ensure_ascii=False)}]"


def _entry(name: Node, schema: Schema, label: str, context: Context) -> Node:
    value = NOTHING if schema is False else context.value(schema, label)
    node = NOTHING if NOTHING in (name, value) else context.layout.entry(name, value)
    return node if node == NOTHING else Source(node, label)


def _others(
    flat: FlatSchema, members: dict[str, Schema], label: str, context: Context
) -> list[ListPart]:
    """Return the entries with names outside of `members`: the `unlisted` members, then others, at
    most as many as names exist."""
    needed = [
        _unlisted(flat, members, member, number, label, context)
        for number, member in enumerate(flat.unlisted)
    ]
    names, entry = _unlisted_entry(flat, members, None, label, context)
    parts = [ListPart(entry, 1) for entry in needed]
    if entry == NOTHING:
        return parts
    least = flat.min_properties - len(flat.required) - len(needed)
    error = context.error(flat, "minProperties", "too few names", "allow more names")
    context.distinct.append(DistinctPart(names, 0, error))
    wanted = least + len(needed)
    count = count_values(names, wanted, Rules(names)) if least > 0 and wanted > 1 else wanted
    return [*parts, ListPart(entry, 0, None if count >= wanted else count - len(needed))]


def _unlisted(
    flat: FlatSchema,
    members: dict[str, Schema],
    needed: NeededMember,
    number: int,
    label: str,
    context: Context,
) -> Node:
    """Return an unlisted member with a name and value of `needed`, if enough names exist for the
    `number` members before."""
    names, entry = _unlisted_entry(flat, members, needed, label, context)
    if entry == NOTHING or (number and count_values(names, number + 1, Rules(names)) <= number):
        return NOTHING
    return entry


def _unlisted_entry(
    flat: FlatSchema,
    members: dict[str, Schema],
    needed: NeededMember | None,
    label: str,
    context: Context,
) -> tuple[Node, Node]:
    """Return the names outside of `members`, and a single entry, under the schemas of `needed`."""
    additional, join = _additional(flat), context.reader.index.join
    if needed is not None:
        flat = replace(flat, names=join(flat.names, needed.names))
    entries, names = [], []

    for chosen in _matching(flat, context):
        schema: Schema = True if chosen else additional
        for part in (*(flat.pattern_properties[p] for p in chosen), *flat.remaining(chosen)):
            schema = join(schema, part)
        if needed is not None:
            schema = join(schema, needed.value)
        if schema is not False:
            name = _names(flat, chosen, members, context)
            entries.append(_entry(name, schema, f"{label}.*", context))
            if entries[-1] != NOTHING:
                names.append(string(name))

    return either(names), either(entries)


def _matching(flat: FlatSchema, context: Context) -> list[tuple[str, ...]]:
    """Return the sets of patterns that a name may match simultaneously, without provably disjoint
    patterns."""
    subsets: list[tuple[str, ...]] = [()]
    for pattern in flat.pattern_properties:
        tree = pattern_tree(pattern)
        subsets += [
            (*chosen, pattern)
            for chosen in subsets
            if not any(apart(tree, pattern_tree(other)) for other in chosen)
        ]
        if len(subsets) > MOST_MATCHING:
            problem = f"{len(flat.pattern_properties)} patterns that can match the same name"
            hint = (
                f"the limit is {MOST_MATCHING} combinations: begin the patterns with different text"
            )
            raise context.error(flat, "patternProperties", problem, hint)

    return subsets[::-1]


def _names(
    flat: FlatSchema, chosen: Sequence[str], members: dict[str, Schema], context: Context
) -> Node:
    """Return the names outside of `members` that match exactly the `chosen` patterns."""
    others = [pattern for pattern in flat.pattern_properties if pattern not in chosen]
    wanted = [pattern_tree(pattern) for pattern in chosen]
    unwanted = [pattern_tree(pattern, True) for pattern in others]
    if flat.names is not True:
        disjuncts = context.reader.disjuncts(flat.names)
        strings = [disjunct for disjunct in disjuncts if "string" in disjunct.types]
        wanted.append(either(map(decoded, strings)))
    # a chosen pattern contradicts propertyNames
    if any(apart(a, b) for a, b in combinations(wanted, 2)):
        return NOTHING
    unwanted = [node for node in unwanted if not any(apart(node, other) for other in wanted)]

    names = [name for name in members if all(occurs(pattern, name) for pattern in chosen)]
    node = Intersect(tuple(wanted)) if len(wanted) > 1 else wanted[0] if wanted else ANY_TEXT
    unwanted += map(Literal, names)
    return Without(node, either(unwanted)) if unwanted else node


def _counted_parts(
    flat: FlatSchema, parts: list[ListPart], others: list[ListPart], context: Context
) -> tuple[Node, bool]:
    """Return the inside of the braces under minProperties and maxProperties, and True if `{}` is
    allowed."""
    least, most = flat.min_properties, flat.max_properties
    parts = [*parts, *(part for part in others if part.most == 1 and part.least)]
    rest = next((part for part in others if not part.least), None)
    needed = sum(part.least for part in parts)
    free = len(parts) - needed
    least = 0 if least <= needed else least
    most = None if most is not None and rest is None and most >= len(parts) else most

    if rest is not None and not free:
        limits = [rest.most, None if most is None else most - needed]
        more = min((limit for limit in limits if limit is not None), default=None)
        many = ListPart(rest.node, max(least - needed, 0), more)
        if many.most is not None and many.most < many.least:
            return NOTHING, False
        parts = [*parts, many] if many.most is None or many.most > 0 else parts
        least, most = 0, None
    elif rest is not None:
        parts = [*parts, rest]

    if most is None and least <= 1:
        inside, empty = listed(parts, context.layout)
        return inside, empty and not least
    if free > MOST_COUNTED:
        keyword = "minProperties" if least else "maxProperties"
        hint = f"at most {MOST_COUNTED} optional properties are counted"
        raise context.error(flat, keyword, f"{free} properties may be left out", hint)
    return counted(parts, least, most, context.layout)
