"""The logic of JSON Schema: a schema in disjunctive form, as cases (`FlatSchema`), and questions.

allOf is merged, anyOf and its kin become cases, `not` is negated keyword by keyword. A case means
what JSON Schema says, or less; nothing here closes objects or picks types. Knows no syntax trees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from typing import Any

from ...errors import GrammarError
from .flat import ALL_TYPES, NUMBERS, FlatSchema, Schema, canonical, merge, type_of
from .formats import has_format
from .index import SchemaIndex
from .keywords import MOST_CASES, asks_nothing
from .numbers import Bound
from .patterns import occurs
from .reader import read

Cases = list[FlatSchema]

_ANYTHING = FlatSchema()
_STEPS = 300_000
_LOOK_AHEAD = 6


class CaseReader:
    """Reads schemas of one document into cases. Counts its work, and stops after about a second."""

    def __init__(self, index: SchemaIndex) -> None:
        self.index = index
        self._open: list[tuple[Any, int]] = []
        self._work = 0

    def spend(self, amount: int = 1) -> None:
        """Count work. Raises GrammarError when it becomes too much."""
        self._work += amount
        if self._work > _STEPS:
            hint = "use fewer alternatives, or a simpler schema"
            raise GrammarError("the schema is too large to be translated", hint)

    def cases(self, schema: Schema) -> Cases:
        """The cases of `schema`, a disjunction; none where nothing is valid."""
        if isinstance(schema, bool):
            return [_ANYTHING] if schema else []
        return self._guarded(schema, self._cases)

    def _guarded(self, schema: dict[str, Any], reader: Callable[[dict[str, Any]], Cases]) -> Cases:
        """What `reader` makes of `schema`; an error where it comes back to the same schema."""
        self.spend()
        key = (reader, id(schema))
        if key in self._open:
            problem = "refers to itself with nothing between"
            raise self.index.error(schema, "$ref", problem, "say what the value is")
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
        """The conjunction: each with each, without those that cannot hold."""
        self.spend(len(first) * len(second))
        if len(first) * len(second) > MOST_CASES * 4:
            hint = f"at most {MOST_CASES} are kept"
            raise self.index.error(schema, keyword, "too many cases", hint)
        try:
            merged = [merge(a, b, self.index.join) for a in first for b in second]
        except GrammarError as error:
            raise self.index.error(schema, keyword, error.message, error.hint) from None
        return self._kept(merged, schema, keyword)

    def _kept(self, cases: Cases, schema: Schema, keyword: str) -> Cases:
        kept = [case for case in cases if case.types and case.values != ()]
        if len(kept) > MOST_CASES:
            hint = f"at most {MOST_CASES} are kept: simplify it"
            raise self.index.error(schema, keyword, f"{len(kept)} cases", hint)
        return kept

    def _all_of(self, found: Cases, schema: dict[str, Any], parts: list[Schema]) -> Cases:
        for part in parts:
            found = self._product(found, self.cases(part), schema, "allOf")
        return found

    def _any_of(self, found: Cases, schema: dict[str, Any], parts: list[Schema]) -> Cases:
        options = [case for part in parts for case in self.cases(part)]
        return self._product(found, options, schema, "anyOf")

    def _one_of(self, found: Cases, schema: dict[str, Any], parts: list[Schema]) -> Cases:
        branches = [self._product(found, self.cases(part), schema, "oneOf") for part in parts]
        for first, second in self.overlaps(branches):
            for one, other in ((first, second), (second, first)):
                try:
                    opposite = self.opposite(parts[other])
                except GrammarError as error:
                    problem = f"the parts {first} and {second} may both hold, and {error.message}"
                    hint = "use anyOf, or give the parts a property with different const values"
                    raise self.index.error(schema, "oneOf", problem, hint) from None
                branches[one] = self._product(branches[one], opposite, schema, "oneOf")
        return self._kept([case for branch in branches for case in branch], schema, "oneOf")

    def overlaps(self, branches: Sequence[Cases]) -> list[tuple[int, int]]:
        """The pairs of branches that may both hold for a value."""
        if all(case.values is not None for branch in branches for case in branch):
            return self._shared_values(branches)
        tagged = [[(case, _tags(case)) for case in branch] for branch in branches]
        found = []
        for second, branch in enumerate(tagged):
            for first, earlier in enumerate(tagged[:second]):
                pairs = ((a, b) for a in earlier for b in branch if not _differ(a[1], b[1]))
                if not all(self._apart(a, b) for (a, _), (b, _) in pairs):
                    found.append((first, second))
        return found

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
        then, other = schema.get("then", True), schema.get("else", True)
        yes = self._product(self.cases(condition), self.cases(then), schema, "then")
        no = self._product(self.opposite(condition), self.cases(other), schema, "else")
        return self._product(found, yes + no, schema, "if")

    def _dependencies(self, found: Cases, schema: dict[str, Any], needs: dict[str, Any]) -> Cases:
        """dependentRequired and dependentSchemas, which draft-07 has as one."""
        for name, need in needs.items():
            without = FlatSchema(properties={name: False})
            if isinstance(need, list):
                present = [FlatSchema(required=(name, *need), spoken=frozenset({"object"}))]
            else:
                named, cases = [FlatSchema(required=(name,))], self.cases(need)
                present = self._product(named, cases, schema, "dependentSchemas")
            found = self._product(found, [without, *present], schema, "dependentRequired")
        return found

    def _unevaluated_properties(self, found: Cases, schema: dict[str, Any], rest: Schema) -> Cases:
        if any(case.negated for case in found):
            problem = "not enforced where not, if or oneOf rules out some values of a property"
            hint = "use additionalProperties, with all names in one properties"
            raise self.index.error(schema, "unevaluatedProperties", problem, hint)
        return [replace(c, additional=rest) if c.additional is None else c for c in found]

    def _unevaluated_items(self, found: Cases, schema: dict[str, Any], rest: Schema) -> Cases:
        if any(case.contains is not None or case.negated for case in found):
            problem = "not enforced beside contains, or where not, if or oneOf rules out some items"
            raise self.index.error(schema, "unevaluatedItems", problem, "use items")
        return [replace(case, items=rest) if case.items is None else case for case in found]

    def opposite(self, schema: Schema) -> Cases:
        """The negation of `schema`. Raises GrammarError for keywords that cannot be negated."""
        if isinstance(schema, bool):
            return [] if schema else [_ANYTHING]
        return [_unevaluated(case) for case in self._guarded(schema, self._opposite)]

    def _opposite(self, schema: dict[str, Any]) -> Cases:
        flat = read(schema, self.index)
        for keyword in schema:
            if keyword not in _NEGATABLE and not asks_nothing(keyword):
                hint = "use enum, const, type or required here"
                raise self.index.error(schema, keyword, "cannot be turned round", hint)
        found = list(_opposites(flat))
        if "$ref" in schema:
            found += self.opposite(self.index.resolve(schema)[1])
        for part in schema.get("allOf", ()):
            found += self.opposite(part)
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                none_holds = [_ANYTHING]
                for part in schema[keyword]:
                    none_holds = self._product(none_holds, self.opposite(part), schema, keyword)
                found += none_holds
        for a, b in combinations(schema.get("oneOf", ()), 2):
            found += self._product(self.cases(a), self.cases(b), schema, "oneOf")
        if "if" in schema and "then" in schema:
            yes = self.cases(schema["if"])
            found += self._product(yes, self.opposite(schema["then"]), schema, "then")
        if "if" in schema and "else" in schema:
            no = self.opposite(schema["if"])
            found += self._product(no, self.opposite(schema["else"]), schema, "else")
        return found + (self.cases(schema["not"]) if "not" in schema else [])

    def values(self, case: FlatSchema) -> tuple[Any, ...]:
        """Those of `case.values` that its other keywords allow."""
        others = replace(case, types=ALL_TYPES, spoken=frozenset(), values=None, source=None)
        if others == _ANYTHING:
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
            if case.low is None or case.high is None or case.low.value < case.high.value:
                return False
            one = case.low.value == case.high.value
            return not (one and case.low.inclusive and case.high.inclusive)
        if kind == "string":
            return case.max_length is not None and case.min_length > case.max_length
        if kind == "array":
            if case.max_items is not None and case.min_items > case.max_items:
                return True
            needed = [case.item(index) for index in range(min(case.min_items, 8))]
        else:
            needed = [case.member(name) for name in case.required if kind == "object"]
        return any(self._nothing_fits(schema, depth) for schema in needed)

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
        most = len(items) if case.max_items is None else case.max_items
        if not case.min_items <= len(items) <= most:
            return False
        if case.unique and len(set(map(canonical, items))) < len(items):
            return False
        if case.contains is not None:
            found = sum(self.valid(case.contains, item) for item in items)
            most = found if case.max_contains is None else case.max_contains
            if not case.min_contains <= found <= most:
                return False
        return all(self.valid(case.item(index), item) for index, item in enumerate(items))

    def _object_holds(self, case: FlatSchema, members: Mapping[str, Any]) -> bool:
        most = len(members) if case.max_properties is None else case.max_properties
        if not case.min_properties <= len(members) <= most:
            return False
        if not set(case.required) <= members.keys():
            return False
        return all(
            self.valid(case.names, name)
            and all(self.valid(s, value) for s in (case.member(name), *case.fitting(name)))
            for name, value in members.items()
        )


Tags = dict[str, frozenset[Any]]


def _tags(case: FlatSchema) -> Tags:
    """The const and enum values of the required properties, of a case for objects only."""
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
    """Whether a property has no common value: the two are disjoint."""
    return any(name in others and values.isdisjoint(others[name]) for name, values in tags.items())


def _number_holds(case: FlatSchema, value: int | Decimal) -> bool:
    low, high = case.low, case.high
    if low and (value < low.value or (value == low.value and not low.inclusive)):
        return False
    if high and (value > high.value or (value == high.value and not high.inclusive)):
        return False
    return all((Fraction(value) / Fraction(step)).denominator == 1 for step in case.steps)


def _string_holds(case: FlatSchema, text: str) -> bool:
    most = len(text) if case.max_length is None else case.max_length
    return (
        case.min_length <= len(text) <= most
        and all(occurs(pattern, text) for pattern in case.patterns)
        and not any(occurs(pattern, text) for pattern in case.other_patterns)
        and all(has_format(name, text) for name in case.formats)
    )


_NEGATABLE = {
    "type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
    "minLength", "maxLength", "pattern", "minItems", "maxItems", "items", "prefixItems",
    "contains", "minContains", "maxContains", "required", "properties",
    "allOf", "anyOf", "oneOf", "if", "then", "else", "not", "$ref",
}  # fmt: skip
"""The keywords that can be negated; all others are refused where a schema must not hold."""


def _opposites(flat: FlatSchema) -> Iterable[FlatSchema]:
    """A case for each way in which a value can violate `flat`."""
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
            wrong: dict[str, Schema] = {name: {"not": schema}}
            yield FlatSchema(types=members, properties=wrong, required=(name,))
    for index, schema in enumerate(flat.prefix):
        before: tuple[Schema, ...] = (True,) * index
        yield FlatSchema(
            types=array, prefix=(*before, {"not": schema}), items=True, min_items=index + 1
        )
    if flat.contains is not None and flat.min_contains == 1:
        yield FlatSchema(types=array, items={"not": flat.contains})
    elif flat.contains is not None and flat.min_contains:
        few = flat.min_contains - 1
        yield FlatSchema(types=array, contains=flat.contains, min_contains=0, max_contains=few)
    if flat.contains is not None and flat.max_contains is not None:
        yield FlatSchema(types=array, contains=flat.contains, min_contains=flat.max_contains + 1)
    if flat.items is not None and not flat.prefix:
        yield FlatSchema(types=array, contains={"not": flat.items})


def _unevaluated(case: FlatSchema) -> FlatSchema:
    """A case of what must not hold: its members and items do not count as evaluated."""
    members = any(schema is not False for schema in case.properties.values())
    inside = (case.pattern_properties, case.prefix, case.additional, case.items, case.contains)
    return (
        replace(case, negated=True)
        if members or any(x not in (None, {}, ()) for x in inside)
        else case
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
"""What makes cases, in the order of application: later ones do not keep parts of oneOf apart."""
