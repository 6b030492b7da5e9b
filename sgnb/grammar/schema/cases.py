"""Logic of JSON Schema: a schema in disjunctive form, as cases (`FlatSchema`), and questions about
cases.

allOf is merged, anyOf and similar keywords become cases, `not` is negated per keyword. A case
describes the values of JSON Schema or a subset. Object closing and type selection happen elsewhere.
Knows no syntax trees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from .negation import NEGATABLE, unevaluated, violations
from .patterns import occurs
from .reader import read

Cases = list[FlatSchema]

_ANYTHING = FlatSchema()
_STEPS = 300_000
_LOOK_AHEAD = 6


class CaseReader:
    """Reader that converts schemas of a document into cases, with a limit of about a second of
    work.

    Args:
        index: schema document.
    """

    def __init__(self, index: SchemaIndex) -> None:
        self.index = index
        self._open: list[tuple[Any, int]] = []
        self._work = 0

    def spend(self, amount: int = 1) -> None:
        """Count work.

        Args:
            amount: units of work.

        Raises:
            GrammarError: the work limit is exceeded.
        """
        self._work += amount
        if self._work > _STEPS:
            hint = "use fewer alternatives, or a simpler schema"
            raise GrammarError("the schema is too large to be translated", hint)

    def cases(self, schema: Schema) -> Cases:
        """Return `schema` as a disjunction of cases; empty if no value is valid.

        Args:
            schema: schema of the document.
        """
        if isinstance(schema, bool):
            return [_ANYTHING] if schema else []
        return self._guarded(schema, self._cases)

    def _guarded(self, schema: dict[str, Any], reader: Callable[[dict[str, Any]], Cases]) -> Cases:
        """Return `reader(schema)`; raise GrammarError if `reader` reaches the same schema again."""
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
        cases = [read(schema, self.index)]
        if "$ref" in schema:
            cases = self._product(cases, self.cases(self.index.resolve(schema)[1]), schema, "$ref")
        for keyword, reader in LOGIC.items():
            if keyword in schema:
                cases = reader(self, cases, schema, schema[keyword])
        return cases

    def _product(self, first: Cases, second: Cases, schema: Schema, keyword: str) -> Cases:
        """Return the conjunction: the merge of every pair, without unsatisfiable cases."""
        self.spend(len(first) * len(second))
        if len(first) * len(second) > MOST_CASES * 4:
            hint = f"at most {MOST_CASES} are kept"
            raise self.index.error(schema, keyword, "too many cases", hint)
        try:
            merged = [merge(a, b, self.index.join) for a in first for b in second]
        except GrammarError as error:
            raise self.index.error(schema, keyword, error.message, error.hint) from None
        return self._satisfiable(merged, schema, keyword)

    def _satisfiable(self, cases: Cases, schema: Schema, keyword: str) -> Cases:
        satisfiable = [case for case in cases if case.types and case.values != ()]
        if len(satisfiable) > MOST_CASES:
            hint = f"at most {MOST_CASES} are kept: simplify it"
            raise self.index.error(schema, keyword, f"{len(satisfiable)} cases", hint)
        return satisfiable

    def _all_of(self, cases: Cases, schema: dict[str, Any], parts: list[Schema]) -> Cases:
        for part in parts:
            cases = self._product(cases, self.cases(part), schema, "allOf")
        return cases

    def _any_of(self, cases: Cases, schema: dict[str, Any], parts: list[Schema]) -> Cases:
        options = [case for part in parts for case in self.cases(part)]
        return self._product(cases, options, schema, "anyOf")

    def _one_of(self, cases: Cases, schema: dict[str, Any], parts: list[Schema]) -> Cases:
        branches = [self._product(cases, self.cases(part), schema, "oneOf") for part in parts]
        for first, second in self.overlaps(branches):
            for index, other in ((first, second), (second, first)):
                try:
                    opposite = self.opposite(parts[other])
                except GrammarError as error:
                    problem = f"the parts {first} and {second} may both hold, and {error.message}"
                    hint = "use anyOf, or give the parts a property with different const values"
                    raise self.index.error(schema, "oneOf", problem, hint) from None
                branches[index] = self._product(branches[index], opposite, schema, "oneOf")
        return self._satisfiable([case for branch in branches for case in branch], schema, "oneOf")

    def overlaps(self, branches: Sequence[Cases]) -> list[tuple[int, int]]:
        """Return the pairs of branches that a value may satisfy at the same time.

        Args:
            branches: cases of each branch.
        """
        if all(case.values is not None for branch in branches for case in branch):
            return self._shared_values(branches)
        tagged = [[(case, _tags(case)) for case in branch] for branch in branches]
        overlapping = []
        for second, branch in enumerate(tagged):
            for first, earlier in enumerate(tagged[:second]):
                pairs = ((a, b) for a in earlier for b in branch if not _differ(a[1], b[1]))
                if not all(self._apart(a, b) for (a, _), (b, _) in pairs):
                    overlapping.append((first, second))
        return overlapping

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

    def _not(self, cases: Cases, schema: dict[str, Any], part: Schema) -> Cases:
        return self._product(cases, self.opposite(part), schema, "not")

    def _if(self, cases: Cases, schema: dict[str, Any], condition: Schema) -> Cases:
        if "then" not in schema and "else" not in schema:
            return cases
        then, other = schema.get("then", True), schema.get("else", True)
        yes = self._product(self.cases(condition), self.cases(then), schema, "then")
        no = self._product(self.opposite(condition), self.cases(other), schema, "else")
        return self._product(cases, yes + no, schema, "if")

    def _dependencies(self, cases: Cases, schema: dict[str, Any], needs: dict[str, Any]) -> Cases:
        """Apply dependentRequired and dependentSchemas; draft-07 has a single keyword for both."""
        for name, need in needs.items():
            without = FlatSchema(properties={name: False})
            if isinstance(need, list):
                present = [FlatSchema(required=(name, *need), spoken=frozenset({"object"}))]
            else:
                named, dependents = [FlatSchema(required=(name,))], self.cases(need)
                present = self._product(named, dependents, schema, "dependentSchemas")
            cases = self._product(cases, [without, *present], schema, "dependentRequired")
        return cases

    def _unevaluated_properties(
        self, cases: Cases, schema: dict[str, Any], fallback: Schema
    ) -> Cases:
        if any(case.negated for case in cases):
            problem = "not enforced where not, if or oneOf rules out some values of a property"
            hint = "use additionalProperties, with all names in one properties"
            raise self.index.error(schema, "unevaluatedProperties", problem, hint)
        return [replace(c, additional=fallback) if c.additional is None else c for c in cases]

    def _unevaluated_items(self, cases: Cases, schema: dict[str, Any], fallback: Schema) -> Cases:
        if any(case.contains is not None or case.negated for case in cases):
            problem = "not enforced beside contains, or where not, if or oneOf rules out some items"
            raise self.index.error(schema, "unevaluatedItems", problem, "use items")
        return [replace(case, items=fallback) if case.items is None else case for case in cases]

    def opposite(self, schema: Schema) -> Cases:
        """Return the negation of `schema`.

        Args:
            schema: schema of the document.

        Raises:
            GrammarError: a keyword cannot be negated.
        """
        if isinstance(schema, bool):
            return [] if schema else [_ANYTHING]
        return [unevaluated(case) for case in self._guarded(schema, self._opposite)]

    def _opposite(self, schema: dict[str, Any]) -> Cases:
        flat = read(schema, self.index)
        for keyword in schema:
            if keyword not in NEGATABLE and not asks_nothing(keyword):
                hint = "use enum, const, type or required here"
                raise self.index.error(schema, keyword, "cannot be turned round", hint)
        opposites = list(violations(flat))
        if "$ref" in schema:
            opposites += self.opposite(self.index.resolve(schema)[1])
        for part in schema.get("allOf", ()):
            opposites += self.opposite(part)
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                none_holds = [_ANYTHING]
                for part in schema[keyword]:
                    none_holds = self._product(none_holds, self.opposite(part), schema, keyword)
                opposites += none_holds

        for a, b in combinations(schema.get("oneOf", ()), 2):
            opposites += self._product(self.cases(a), self.cases(b), schema, "oneOf")
        if "if" in schema and "then" in schema:
            yes = self.cases(schema["if"])
            opposites += self._product(yes, self.opposite(schema["then"]), schema, "then")

        if "if" in schema and "else" in schema:
            no = self.opposite(schema["if"])
            opposites += self._product(no, self.opposite(schema["else"]), schema, "else")
        return opposites + (self.cases(schema["not"]) if "not" in schema else [])

    def values(self, case: FlatSchema) -> tuple[Any, ...]:
        """Return the values of `case.values` allowed by the other keywords of the case.

        Args:
            case: case with enum or const.
        """
        others = replace(case, types=ALL_TYPES, spoken=frozenset(), values=None, source=None)
        if others == _ANYTHING:
            return tuple(value for value in case.values or () if type_of(value) in case.types)
        constraints = replace(case, values=None)
        self.spend(len(case.values or ()) // 10)
        return tuple(value for value in case.values or () if self.holds(constraints, value))

    def is_empty(self, case: FlatSchema, depth: int = 0) -> bool:
        """Return True if certainly no value is valid; False if unknown.

        Args:
            case: case to inspect.
            depth: number of enclosing schemas; the search has a depth limit.
        """
        self.spend()
        if case.values is not None:
            return not self.values(case)
        return all(self._is_empty_of(kind, case, depth) for kind in case.types)

    def _is_empty_of(self, kind: str, case: FlatSchema, depth: int) -> bool:
        if kind in NUMBERS:
            if case.low is None or case.high is None or case.low.value < case.high.value:
                return False
            is_single = case.low.value == case.high.value
            return not (is_single and case.low.inclusive and case.high.inclusive)

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
        """Return True if `value` is valid under `case`.

        Args:
            case: case of a schema.
            value: JSON value.
        """
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
        """Return True if `value` is valid under `schema`.

        Args:
            schema: schema of the document.
            value: JSON value.
        """
        return any(self.holds(case, value) for case in self.cases(schema))

    def _array_holds(self, case: FlatSchema, items: Sequence[Any]) -> bool:
        most = len(items) if case.max_items is None else case.max_items
        if not case.min_items <= len(items) <= most:
            return False
        if case.unique and len(set(map(canonical, items))) < len(items):
            return False
        if case.contains is not None:
            num_contained = sum(self.valid(case.contains, item) for item in items)
            most = num_contained if case.max_contains is None else case.max_contains
            if not case.min_contains <= num_contained <= most:
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
    """Return the const and enum values of the required properties, for a case of objects only."""
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
    """True if a property has no common value, so the two cases are disjoint."""
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
"""Logic keywords in order of application.

Keywords before oneOf help to prove the parts of oneOf disjoint; keywords after oneOf do not.
"""
