"""Logic of JSON Schema: a schema as a disjunction of `FlatSchema`s, and predicates of disjuncts.

allOf is merged, anyOf and similar keywords become disjuncts, `not` is negated per keyword. A
disjunct describes the values of JSON Schema or a subset. Object closing and type selection happen
elsewhere. Knows no syntax trees.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from ...errors import GrammarError
from .flat import ALL_TYPES, NUMBERS, FlatSchema, Schema, canonical, merge, type_of
from .index import SchemaIndex
from .keyword_reader import read
from .keywords import MAX_DISJUNCTS, asks_nothing
from .negation import NEGATABLE, unevaluated, violations
from .tags import differ, tags_of
from .validity import holds

Disjuncts = list[FlatSchema]

_ANYTHING = FlatSchema()
_STEPS = 1_500_000
READ, MERGE, CHECK = 20, 20, 3
"""Steps, of about a microsecond, to read a schema, to merge two disjuncts and to check a value."""

MOST_PAIRS = 4096  # merged pairs of disjuncts
MANY_DISJUNCTS = 48
"""Number of disjuncts from which contradictions are searched for."""

_LOOK_AHEAD = 6


class DisjunctReader:
    """Reader that converts schemas of a document into disjuncts, with a limit of about a second of
    work.

    Args:
        index: schema document.
    """

    def __init__(self, index: SchemaIndex) -> None:
        self.index = index
        self._open: list[tuple[Any, int]] = []
        # Results of `_guarded`: the schema, kept alive because keys are ids; disjuncts; `left_out`.
        self._known: dict[tuple[Any, int], tuple[Any, Disjuncts, list[GrammarError]]] = {}
        self._work = 0
        self.left_out: list[GrammarError] = []  # one per negation of a part of a schema

    def spend(self, steps: int) -> None:
        """Count work.

        Args:
            steps: number of steps, of about a microsecond each.

        Raises:
            GrammarError: the work limit is exceeded.
        """
        self._work += steps
        if self._work > _STEPS:
            hint = "use fewer alternatives, or a simpler schema"
            raise GrammarError("the schema is too large", hint)

    def disjuncts(self, schema: Schema) -> Disjuncts:
        """Return `schema` as a disjunction of disjuncts; empty if no value is valid.

        Args:
            schema: schema of the document.
        """
        if isinstance(schema, bool):
            return [_ANYTHING] if schema else []
        return self._guarded(schema, self._disjuncts)

    def _guarded(
        self, schema: dict[str, Any], reader: Callable[[dict[str, Any]], Disjuncts]
    ) -> Disjuncts:
        """Return `reader(schema)`; raise GrammarError if `reader` reaches the same schema again."""
        self.spend(READ)
        key = (reader, id(schema))
        if key in self._known:
            _, disjuncts, left_out = self._known[key]
            self.left_out += left_out
            return disjuncts

        if key in self._open:
            problem = "refers to itself without a value in between"
            raise self.index.error(schema, "$ref", problem, "describe the value")
        self._open.append(key)
        first = len(self.left_out)
        try:
            disjuncts = reader(schema)
        finally:
            self._open.pop()
        self._known[key] = schema, disjuncts, self.left_out[first:]
        return disjuncts

    def _disjuncts(self, schema: dict[str, Any]) -> Disjuncts:
        disjuncts = [read(schema, self.index)]
        if "$ref" in schema:
            disjuncts = self._product(
                disjuncts, self.disjuncts(self.index.resolve(schema)[1]), schema, "$ref"
            )
        for keyword, reader in LOGIC.items():
            if keyword in schema:
                disjuncts = reader(self, disjuncts, schema, schema[keyword])
        return disjuncts

    def _product(
        self, first: Disjuncts, second: Disjuncts, schema: Schema, keyword: str
    ) -> Disjuncts:
        """Return the conjunction: the merge of every pair, without unsatisfiable disjuncts."""
        self.spend(MERGE * len(first) * len(second))
        if len(first) * len(second) > MOST_PAIRS:
            hint = f"the limit is {MAX_DISJUNCTS}"
            raise self.index.error(schema, keyword, "too many disjuncts", hint)
        try:
            merged = [merge(a, b, self.index.join) for a in first for b in second]
        except GrammarError as error:
            raise self.index.error(schema, keyword, error.message, error.hint) from None
        return self._satisfiable(merged, schema, keyword)

    def _satisfiable(self, disjuncts: Disjuncts, schema: Schema, keyword: str) -> Disjuncts:
        satisfiable = [
            disjunct for disjunct in disjuncts if disjunct.types and disjunct.values != ()
        ]
        if len(satisfiable) > MANY_DISJUNCTS:
            satisfiable = [disjunct for disjunct in satisfiable if not self.is_empty(disjunct)]
        if len(satisfiable) > MAX_DISJUNCTS:
            hint = f"the limit is {MAX_DISJUNCTS}: simplify the schema"
            raise self.index.error(schema, keyword, f"{len(satisfiable)} disjuncts", hint)
        return satisfiable

    def _all_of(
        self, disjuncts: Disjuncts, schema: dict[str, Any], parts: list[Schema]
    ) -> Disjuncts:
        for part in parts:
            disjuncts = self._product(disjuncts, self.disjuncts(part), schema, "allOf")
        return disjuncts

    def _any_of(
        self, disjuncts: Disjuncts, schema: dict[str, Any], parts: list[Schema]
    ) -> Disjuncts:
        options = [disjunct for part in parts for disjunct in self.disjuncts(part)]
        return self._product(disjuncts, options, schema, "anyOf")

    def _one_of(
        self, disjuncts: Disjuncts, schema: dict[str, Any], parts: list[Schema]
    ) -> Disjuncts:
        branches = []
        partial: set[int] = set()
        for number, part in enumerate(parts):
            left_out = len(self.left_out)
            branches.append(self._product(disjuncts, self.disjuncts(part), schema, "oneOf"))
            if len(self.left_out) > left_out:
                partial.add(number)

        for first, second in self.overlaps(branches, partial):
            for index, other in ((first, second), (second, first)):
                try:
                    opposite = self.opposite(parts[other])
                except GrammarError as error:
                    problem = f"the parts {first} and {second} may both hold, and {error.message}"
                    hint = "use anyOf, or give the parts a property with different const values"
                    raise self.index.error(schema, "oneOf", problem, hint) from None
                branches[index] = self._product(branches[index], opposite, schema, "oneOf")
        return self._satisfiable(
            [disjunct for branch in branches for disjunct in branch], schema, "oneOf"
        )

    def overlaps(
        self, branches: Sequence[Disjuncts], partial: Collection[int] = ()
    ) -> list[tuple[int, int]]:
        """Return the pairs of branches that a value may satisfy at the same time.

        Args:
            branches: disjuncts of each branch.
            partial: numbers of the branches without disjuncts for some values.
        """
        if not partial and all(
            disjunct.values is not None for branch in branches for disjunct in branch
        ):
            return self._shared_values(branches)

        tagged = [[(disjunct, tags_of(disjunct)) for disjunct in branch] for branch in branches]
        overlapping = []
        for second, branch in enumerate(tagged):
            for first, earlier in enumerate(tagged[:second]):
                if first in partial or second in partial:
                    overlapping.append((first, second))
                    continue
                pairs = ((a, b) for a in earlier for b in branch if not differ(a[1], b[1]))
                if not all(self._apart(a, b) for (a, _), (b, _) in pairs):
                    overlapping.append((first, second))
        return overlapping

    def _shared_values(self, branches: Sequence[Disjuncts]) -> list[tuple[int, int]]:
        owners: dict[Any, set[int]] = {}
        for number, branch in enumerate(branches):
            for value in (value for disjunct in branch for value in self.values(disjunct)):
                owners.setdefault(canonical(value), set()).add(number)
        pairs = {(a, b) for shared in owners.values() for a in shared for b in shared if a < b}
        return sorted(pairs)

    def _apart(self, a: FlatSchema, b: FlatSchema) -> bool:
        self.spend(MERGE)
        if not a.types & b.types:
            return True
        left_out = len(self.left_out)
        try:
            is_empty = self.is_empty(merge(a, b, self.index.join))
        except GrammarError:
            return False
        return is_empty and len(self.left_out) == left_out

    def _not(self, disjuncts: Disjuncts, schema: dict[str, Any], part: Schema) -> Disjuncts:
        return self._product(disjuncts, self.opposite(part), schema, "not")

    def _if(self, disjuncts: Disjuncts, schema: dict[str, Any], condition: Schema) -> Disjuncts:
        if "then" not in schema and "else" not in schema:
            return disjuncts
        then, other = schema.get("then", True), schema.get("else", True)
        yes = self._product(self.disjuncts(condition), self.disjuncts(then), schema, "then")
        no = self._product(self.opposite(condition), self.disjuncts(other), schema, "else")
        return self._product(disjuncts, yes + no, schema, "if")

    def _dependencies(
        self, disjuncts: Disjuncts, schema: dict[str, Any], needs: dict[str, Any]
    ) -> Disjuncts:
        """Apply dependentRequired and dependentSchemas; draft-07 has a single keyword for both."""
        for name, need in needs.items():
            without = FlatSchema(properties={name: False})
            if isinstance(need, list):
                present = [FlatSchema(required=(name, *need), spoken=frozenset({"object"}))]
            else:
                named, dependents = [FlatSchema(required=(name,))], self.disjuncts(need)
                present = self._product(named, dependents, schema, "dependentSchemas")
            disjuncts = self._product(disjuncts, [without, *present], schema, "dependentRequired")
        return disjuncts

    def _unevaluated_properties(
        self, disjuncts: Disjuncts, schema: dict[str, Any], fallback: Schema
    ) -> Disjuncts:
        if any(disjunct.negated for disjunct in disjuncts):
            problem = "not enforced if not, if or oneOf excludes some values of a property"
            hint = "use additionalProperties, with all names in a single properties"
            raise self.index.error(schema, "unevaluatedProperties", problem, hint)
        return [
            replace(disjunct, additional=fallback)
            if disjunct.additional is None and not disjunct.partial_additional
            else disjunct
            for disjunct in disjuncts
        ]

    def _unevaluated_items(
        self, disjuncts: Disjuncts, schema: dict[str, Any], fallback: Schema
    ) -> Disjuncts:
        if any(disjunct.contains is not None or disjunct.negated for disjunct in disjuncts):
            problem = "not enforced with contains, or if not, if or oneOf excludes some items"
            raise self.index.error(schema, "unevaluatedItems", problem, "use items")
        return [
            replace(disjunct, items=fallback) if disjunct.items is None else disjunct
            for disjunct in disjuncts
        ]

    def opposite(self, schema: Schema) -> Disjuncts:
        """Return the negation of `schema`, or a part if a keyword has no negation.

        Args:
            schema: schema of the document.

        Raises:
            GrammarError: a keyword cannot be negated.
        """
        if isinstance(schema, bool):
            return [] if schema else [_ANYTHING]
        return [unevaluated(disjunct) for disjunct in self._guarded(schema, self._opposite)]

    def _opposite(self, schema: dict[str, Any]) -> Disjuncts:
        flat = read(schema, self.index)
        unknown = [key for key in schema if key not in NEGATABLE and not asks_nothing(key)]
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
            opposites += self._product(self.disjuncts(a), self.disjuncts(b), schema, "oneOf")
        if "if" in schema and "then" in schema:
            yes = self.disjuncts(schema["if"])
            opposites += self._product(yes, self.opposite(schema["then"]), schema, "then")

        if "if" in schema and "else" in schema:
            no = self.opposite(schema["if"])
            opposites += self._product(no, self.opposite(schema["else"]), schema, "else")
        if "not" in schema:
            opposites += self.disjuncts(schema["not"])
        if not unknown:
            return opposites
        hint = "use enum, const, type or required here"
        error = self.index.error(schema, unknown[0], "cannot be negated", hint)
        if not opposites:
            raise error
        self.left_out.append(error)
        return opposites

    def values(self, disjunct: FlatSchema) -> tuple[Any, ...]:
        """Return the values of `disjunct.values` allowed by the other keywords of the disjunct.

        Args:
            disjunct: disjunct with enum or const.
        """
        others = replace(disjunct, types=ALL_TYPES, spoken=frozenset(), values=None, source=None)
        if others == _ANYTHING:
            return tuple(
                value for value in disjunct.values or () if type_of(value) in disjunct.types
            )
        constraints = replace(disjunct, values=None)
        self.spend(len(disjunct.values or ()))
        return tuple(value for value in disjunct.values or () if self.holds(constraints, value))

    def is_empty(self, disjunct: FlatSchema, depth: int = 0) -> bool:
        """Return True if certainly no value is valid; False if unknown.

        Args:
            disjunct: disjunct to inspect.
            depth: number of enclosing schemas; the search has a depth limit.
        """
        self.spend(CHECK)
        if disjunct.values is not None:
            return not self.values(disjunct)
        return all(self._is_empty_of(kind, disjunct, depth) for kind in disjunct.types)

    def _is_empty_of(self, kind: str, disjunct: FlatSchema, depth: int) -> bool:
        if kind in NUMBERS:
            if (
                disjunct.low is None
                or disjunct.high is None
                or disjunct.low.value < disjunct.high.value
            ):
                return False
            is_single = disjunct.low.value == disjunct.high.value
            return not (is_single and disjunct.low.inclusive and disjunct.high.inclusive)

        if kind == "string":
            return disjunct.max_length is not None and disjunct.min_length > disjunct.max_length
        if kind == "array":
            if disjunct.max_items is not None and disjunct.min_items > disjunct.max_items:
                return True
            needed = [disjunct.item(index) for index in range(min(disjunct.min_items, 8))]
        else:
            needed = [disjunct.member(name) for name in disjunct.required if kind == "object"]
        if kind == "object" and disjunct.additional is False and not disjunct.pattern_properties:
            names = [name for name, part in disjunct.properties.items() if part is not False]
            if not all(any(self.valid(n, name) for name in names) for n, _ in disjunct.needed):
                return True
        return any(self._nothing_fits(schema, depth) for schema in needed)

    def _nothing_fits(self, schema: Schema, depth: int) -> bool:
        if isinstance(schema, bool) or depth > _LOOK_AHEAD:
            return schema is False
        try:
            return all(self.is_empty(disjunct, depth + 1) for disjunct in self.disjuncts(schema))
        except GrammarError:
            return False

    def holds(self, disjunct: FlatSchema, value: Any) -> bool:
        """Return True if `value` is valid under `disjunct`.

        Args:
            disjunct: disjunct of a schema.
            value: JSON value.
        """
        self.spend(CHECK)
        return holds(disjunct, value, self.valid)

    def valid(self, schema: Schema, value: Any) -> bool:
        """Return True if `value` is valid under `schema`.

        Args:
            schema: schema of the document.
            value: JSON value.
        """
        return any(self.holds(disjunct, value) for disjunct in self.disjuncts(schema))


LOGIC: dict[str, Callable[[DisjunctReader, Disjuncts, dict[str, Any], Any], Disjuncts]] = {
    "allOf": DisjunctReader._all_of,
    "anyOf": DisjunctReader._any_of,
    "not": DisjunctReader._not,
    "if": DisjunctReader._if,
    "dependentRequired": DisjunctReader._dependencies,
    "dependentSchemas": DisjunctReader._dependencies,
    "dependencies": DisjunctReader._dependencies,
    "oneOf": DisjunctReader._one_of,
    "unevaluatedProperties": DisjunctReader._unevaluated_properties,
    "unevaluatedItems": DisjunctReader._unevaluated_items,
}
"""Logic keywords in order of application.

Keywords before oneOf help to prove the parts of oneOf disjoint; keywords after oneOf do not.
"""
