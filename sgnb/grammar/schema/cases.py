"""The logic of JSON Schema: a schema as cases (`FlatSchema`), any of which will do, and questions
about them.

allOf is merged, anyOf and its kin become cases, `not` is turned round keyword by keyword. What a
case says is true to the letter of JSON Schema, or narrower; nothing here closes objects or picks
types. Knows no syntax trees.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from ...errors import GrammarError
from .flat import ALL_TYPES, NUMBERS, FlatSchema, Schema, canonical, merge, type_of
from .formats import has_format
from .index import SchemaIndex
from .keywords import MOST_CASES, SILENT
from .numbers import Bound
from .reader import read

Cases = list[FlatSchema]

_ANYTHING = FlatSchema()
_STEPS = 300_000
_LOOK_AHEAD = 6


class CaseReader:
    """Reads schemas of one document into cases. Counts its work, and gives up after a second's
    worth of it."""

    def __init__(self, index: SchemaIndex) -> None:
        self.index = index
        self._open: list[tuple[Any, int]] = []
        self._work = 0

    def spend(self, amount: int = 1) -> None:
        """Counts work. Raises GrammarError when it becomes too much."""
        self._work += amount
        if self._work > _STEPS:
            raise GrammarError(
                "the schema is too large to be translated",
                "use fewer alternatives, or a simpler schema",
            )

    def cases(self, schema: Schema) -> Cases:
        """The cases of `schema`, any of which makes a value valid; none where nothing is valid."""
        if isinstance(schema, bool):
            return [_ANYTHING] if schema else []
        return self._guarded(schema, self._cases)

    def _guarded(self, schema: dict[str, Any], reader: Callable[[dict[str, Any]], Cases]) -> Cases:
        """What `reader` makes of `schema`; an error where it comes back to the same schema."""
        self.spend()
        key = (reader, id(schema))
        if key in self._open:
            raise self.index.error(
                schema, "$ref", "refers to itself with nothing between", "say what the value is"
            )
        self._open.append(key)
        try:
            return reader(schema)
        finally:
            self._open.pop()

    def _cases(self, schema: dict[str, Any]) -> Cases:
        found = [read(schema, self.index)]
        if "$ref" in schema:
            found = self._product(found, self.cases(self.index.resolve(schema)[1]), schema, "$ref")
        for keyword, reader in LOGIC.items():
            if keyword in schema:
                found = reader(self, found, schema, schema[keyword])
        return found

    def _product(self, first: Cases, second: Cases, schema: Schema, keyword: str) -> Cases:
        """Each with each, without those that cannot hold."""
        self.spend(len(first) * len(second))
        if len(first) * len(second) > MOST_CASES * 4:
            raise self.index.error(
                schema, keyword, "too many cases", f"at most {MOST_CASES} are kept"
            )
        try:
            merged = [merge(a, b, self.index.join) for a in first for b in second]
        except GrammarError as error:
            raise self.index.error(schema, keyword, error.message, error.hint) from None
        return self._kept(merged, schema, keyword)

    def _kept(self, cases: Cases, schema: Schema, keyword: str) -> Cases:
        kept = [case for case in cases if case.types and case.values != ()]
        if len(kept) > MOST_CASES:
            raise self.index.error(
                schema, keyword, f"{len(kept)} cases", f"at most {MOST_CASES} are kept: simplify it"
            )
        return kept

    def _all_of(self, found: Cases, schema: dict[str, Any], parts: list[Schema]) -> Cases:
        for part in parts:
            found = self._product(found, self.cases(part), schema, "allOf")
        return found

    def _any_of(self, found: Cases, schema: dict[str, Any], parts: list[Schema]) -> Cases:
        return self._product(
            found, [case for part in parts for case in self.cases(part)], schema, "anyOf"
        )

    def _one_of(self, found: Cases, schema: dict[str, Any], parts: list[Schema]) -> Cases:
        branches = [self._product(found, self.cases(part), schema, "oneOf") for part in parts]
        for first, second in self.overlaps(branches):
            for one, other in ((first, second), (second, first)):
                try:
                    opposite = self.opposite(parts[other])
                except GrammarError as error:
                    raise self.index.error(
                        schema,
                        "oneOf",
                        f"the parts {first} and {second} may both hold, and {error.message}",
                        "use anyOf, or give the parts a property with different const values",
                    ) from None
                branches[one] = self._product(branches[one], opposite, schema, "oneOf")
        return self._kept([case for branch in branches for case in branch], schema, "oneOf")

    def overlaps(self, branches: Sequence[Cases]) -> list[tuple[int, int]]:
        """The pairs of branches that may both hold for a value."""
        if all(case.values is not None for branch in branches for case in branch):
            return self._shared_values(branches)
        tagged = [[(case, _tags(case)) for case in branch] for branch in branches]
        return [
            (first, second)
            for second in range(len(branches))
            for first in range(second)
            if not all(
                self._apart(a, b)
                for a, tags in tagged[first]
                for b, others in tagged[second]
                if not _differ(tags, others)
            )
        ]

    def _shared_values(self, branches: Sequence[Cases]) -> list[tuple[int, int]]:
        owners: dict[Any, set[int]] = {}
        for number, branch in enumerate(branches):
            for value in (value for case in branch for value in self.values(case)):
                owners.setdefault(canonical(value), set()).add(number)
        pairs = {(a, b) for shared in owners.values() for a in shared for b in shared if a < b}
        return sorted(pairs)

    def _apart(self, a: FlatSchema, b: FlatSchema) -> bool:
        self.spend()
        if not a.types & b.types:
            return True
        try:
            return self.is_empty(merge(a, b, self.index.join))
        except GrammarError:
            return False

    def _not(self, found: Cases, schema: dict[str, Any], part: Schema) -> Cases:
        return self._product(found, self.opposite(part), schema, "not")

    def _if(self, found: Cases, schema: dict[str, Any], condition: Schema) -> Cases:
        if "then" not in schema and "else" not in schema:
            return found
        yes = self._product(
            self.cases(condition), self.cases(schema.get("then", True)), schema, "then"
        )
        no = self._product(
            self.opposite(condition), self.cases(schema.get("else", True)), schema, "else"
        )
        return self._product(found, yes + no, schema, "if")

    def _dependencies(self, found: Cases, schema: dict[str, Any], needs: dict[str, Any]) -> Cases:
        """dependentRequired and dependentSchemas, which draft-07 has as one."""
        for name, need in needs.items():
            without = FlatSchema(properties={name: False})
            if isinstance(need, list):
                present = [FlatSchema(required=(name, *need), spoken=frozenset({"object"}))]
            else:
                present = self._product(
                    [FlatSchema(required=(name,))], self.cases(need), schema, "dependentSchemas"
                )
            found = self._product(found, [without, *present], schema, "dependentRequired")
        return found

    def _unevaluated_properties(self, found: Cases, schema: dict[str, Any], rest: Schema) -> Cases:
        if any(case.negated for case in found):
            problem = "not enforced where not, if or oneOf rules out some values of a property"
            cure = "use additionalProperties, with all names in one properties"
            raise self.index.error(schema, "unevaluatedProperties", problem, cure)
        return [
            case if case.additional is not None else replace(case, additional=rest)
            for case in found
        ]

    def _unevaluated_items(self, found: Cases, schema: dict[str, Any], rest: Schema) -> Cases:
        if any(case.contains is not None for case in found):
            raise self.index.error(
                schema, "unevaluatedItems", "not enforced beside contains", "use items"
            )
        return [case if case.items is not None else replace(case, items=rest) for case in found]

    def opposite(self, schema: Schema) -> Cases:
        """The cases in which `schema` does not hold. Raises GrammarError for keywords that cannot
        be turned round."""
        if isinstance(schema, bool):
            return [] if schema else [_ANYTHING]
        return self._guarded(schema, self._opposite)

    def _opposite(self, schema: dict[str, Any]) -> Cases:
        flat = read(schema, self.index)
        for keyword in schema:
            if keyword not in _TURNED and keyword not in SILENT:
                cure = "use enum, const, type or required here"
                raise self.index.error(schema, keyword, "cannot be turned round", cure)
        found = list(_opposites(flat))
        if "$ref" in schema:
            found += self.opposite(self.index.resolve(schema)[1])
        for part in schema.get("allOf", ()):
            found += self.opposite(part)
        if "anyOf" in schema:
            none_holds = [_ANYTHING]
            for part in schema["anyOf"]:
                none_holds = self._product(none_holds, self.opposite(part), schema, "anyOf")
            found += none_holds
        return found + (self.cases(schema["not"]) if "not" in schema else [])

    def values(self, case: FlatSchema) -> tuple[Any, ...]:
        """Those of `case.values` that its other keywords allow."""
        if (
            replace(case, types=ALL_TYPES, spoken=frozenset(), values=None, source=None)
            == _ANYTHING
        ):
            return tuple(value for value in case.values or () if type_of(value) in case.types)
        rest = replace(case, values=None)
        self.spend(len(case.values or ()) // 10)
        return tuple(value for value in case.values or () if self.holds(rest, value))

    def is_empty(self, case: FlatSchema, depth: int = 0) -> bool:
        """Whether certainly no value is valid; False where that is not seen."""
        self.spend()
        if case.values is not None:
            return not self.values(case)
        return all(self._is_empty_of(kind, case, depth) for kind in case.types)

    def _is_empty_of(self, kind: str, case: FlatSchema, depth: int) -> bool:
        if kind in NUMBERS:
            return (
                case.low is not None
                and case.high is not None
                and (
                    case.low.value > case.high.value
                    or (
                        case.low.value == case.high.value
                        and not (case.low.inclusive and case.high.inclusive)
                    )
                )
            )
        if kind == "string":
            return case.max_length is not None and case.min_length > case.max_length
        if kind == "array":
            if case.max_items is not None and case.min_items > case.max_items:
                return True
            return any(
                self._nothing_fits(case.item(index), depth)
                for index in range(min(case.min_items, 8))
            )
        return kind == "object" and any(
            self._nothing_fits(case.member(name), depth) for name in case.required
        )

    def _nothing_fits(self, schema: Schema, depth: int) -> bool:
        if isinstance(schema, bool) or depth > _LOOK_AHEAD:
            return schema is False
        try:
            return all(self.is_empty(case, depth + 1) for case in self.cases(schema))
        except GrammarError:
            return False

    def holds(self, case: FlatSchema, value: Any) -> bool:
        """Whether `value` is valid."""
        self.spend()
        kind = type_of(value)
        if kind not in case.types or canonical(value) in map(canonical, case.excluded):
            return False
        if case.values is not None and canonical(value) not in map(canonical, case.values):
            return False
        if kind in NUMBERS:
            return _number_holds(case, value)
        if kind == "string":
            return _string_holds(case, value)
        if kind == "array":
            return self._array_holds(case, value)
        return kind != "object" or self._object_holds(case, value)

    def valid(self, schema: Schema, value: Any) -> bool:
        """Whether `value` is valid under `schema`."""
        return any(self.holds(case, value) for case in self.cases(schema))

    def _array_holds(self, case: FlatSchema, items: Sequence[Any]) -> bool:
        if (
            not case.min_items
            <= len(items)
            <= (len(items) if case.max_items is None else case.max_items)
        ):
            return False
        if case.unique and len(set(map(canonical, items))) < len(items):
            return False
        if case.contains is not None and not any(self.valid(case.contains, item) for item in items):
            return False
        return all(self.valid(case.item(index), item) for index, item in enumerate(items))

    def _object_holds(self, case: FlatSchema, members: Mapping[str, Any]) -> bool:
        most = len(members) if case.max_properties is None else case.max_properties
        if (
            not case.min_properties <= len(members) <= most
            or not set(case.required) <= members.keys()
        ):
            return False
        return all(
            self.valid(case.names, name)
            and all(self.valid(s, value) for s in (case.member(name), *case.fitting(name)))
            for name, value in members.items()
        )


Tags = dict[str, frozenset[Any]]


def _tags(case: FlatSchema) -> Tags:
    """The values of the required properties that say them outright, of a case for objects only."""
    if case.types != {"object"}:
        return {}
    tags = {}
    for name in case.required:
        schema = case.properties.get(name)
        if isinstance(schema, dict) and "const" in schema:
            tags[name] = frozenset([canonical(schema["const"])])
        elif isinstance(schema, dict) and isinstance(schema.get("enum"), list):
            tags[name] = frozenset(map(canonical, schema["enum"]))
    return tags


def _differ(tags: Tags, others: Tags) -> bool:
    """Whether a property has no common value, so that both cannot hold."""
    return any(name in others and values.isdisjoint(others[name]) for name, values in tags.items())


def _number_holds(case: FlatSchema, value: int | Decimal) -> bool:
    low, high = case.low, case.high
    if low and (value < low.value or (value == low.value and not low.inclusive)):
        return False
    if high and (value > high.value or (value == high.value and not high.inclusive)):
        return False
    return all((Fraction(value) / Fraction(step)).denominator == 1 for step in case.steps)


def _string_holds(case: FlatSchema, text: str) -> bool:
    return (
        case.min_length <= len(text) <= (len(text) if case.max_length is None else case.max_length)
        and all(re.search(pattern, text) for pattern in case.patterns)
        and not any(re.search(pattern, text) for pattern in case.other_patterns)
        and all(has_format(name, text) for name in case.formats)
    )


_TURNED = {
    "type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength",
    "pattern", "minItems", "maxItems", "required", "properties", "allOf", "anyOf", "not", "$ref",
}  # fmt: skip
"""The keywords whose opposite is known; all others are refused where a schema must not hold."""


def _opposites(flat: FlatSchema) -> Iterable[FlatSchema]:
    """A case for each way in which a value can miss what `flat` asks."""
    if others := ALL_TYPES - flat.types:
        yield FlatSchema(types=others)
    if flat.values is not None:
        yield FlatSchema(excluded=flat.values)
    if flat.low:
        yield FlatSchema(types=NUMBERS, high=Bound(flat.low.value, not flat.low.inclusive))
    if flat.high:
        yield FlatSchema(types=NUMBERS, low=Bound(flat.high.value, not flat.high.inclusive))
    string, array, members = (frozenset({name}) for name in ("string", "array", "object"))
    if flat.min_length:
        yield FlatSchema(types=string, max_length=flat.min_length - 1)
    if flat.max_length is not None:
        yield FlatSchema(types=string, min_length=flat.max_length + 1)
    for pattern in flat.patterns:
        yield FlatSchema(types=string, other_patterns=(pattern,))
    if flat.min_items:
        yield FlatSchema(types=array, max_items=flat.min_items - 1)
    if flat.max_items is not None:
        yield FlatSchema(types=array, min_items=flat.max_items + 1)
    for name in flat.required:
        yield FlatSchema(types=members, properties={name: False})
    for name, schema in flat.properties.items():
        if schema is not True:
            yield FlatSchema(
                types=members, properties={name: {"not": schema}}, required=(name,), negated=True
            )


LOGIC: dict[str, Callable[[CaseReader, Cases, dict[str, Any], Any], Cases]] = {
    "allOf": CaseReader._all_of,
    "anyOf": CaseReader._any_of,
    "not": CaseReader._not,
    "if": CaseReader._if,
    "dependentRequired": CaseReader._dependencies,
    "dependentSchemas": CaseReader._dependencies,
    "dependencies": CaseReader._dependencies,
    "oneOf": CaseReader._one_of,
    "unevaluatedProperties": CaseReader._unevaluated_properties,
    "unevaluatedItems": CaseReader._unevaluated_items,
}
"""What makes cases, in the order in which it is applied: what is not seen yet cannot keep the parts
of oneOf apart."""
