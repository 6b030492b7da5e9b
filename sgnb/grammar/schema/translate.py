"""Translation of a JSON schema to a syntax tree of valid JSON texts.

Objects follow the property order of the schema, with a fixed layout and a single spelling per
value. Every text of the tree is valid, but not every valid text is in the tree: docs/JSON_SCHEMA.md
lists the limits. Unsupported keywords raise errors. References become rules, possibly recursive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache, partial

from ...errors import GrammarError
from ..syntax import (
    NOTHING,
    Lexeme,
    Literal,
    Node,
    Reference,
    Repeat,
    Rules,
    Source,
    Without,
    concat,
    optional,
    postorder,
)
from .arrays import array_tree
from .disjuncts import LOGIC, DisjunctReader
from .flat import ALL_TYPES, NUMBERS, FlatSchema, Schema, type_of
from .index import SchemaIndex, read_schema
from .item_counts import DistinctPart, check_counts
from .keywords import asks_nothing
from .multiples import common_multiple, integer_bounds, multiples
from .numbers import FRACTION_DIGITS, PRECISION, NumberBound, integers, numbers, scientific
from .objects import Context, object_tree
from .strings import decoded
from .text import ANYTHING, DIGIT, VALUE, JsonLayout, either, string, value_rules

MOST_RULES = 300
"""Up to this number, every position has separate rules for its references, which carry the
position's labels. Later positions share rules, and so do all positions once the rules are
recursive: llguidance matches recursive rules, and reports no labels."""

_MOST_NESTED = 150
_TREE = 60  # steps to translate a disjunct
_COMBINING = frozenset({*LOGIC, "$ref"})
_DEEP_HINT = "use fewer levels, or put inner schemas into $defs"


def translate(schema_text: str, whitespace: int | None = None, strict: bool = True) -> Rules:
    """Translate a schema to the syntax tree of valid JSON texts.

    Labels are paths in the text, such as `$.wand.length` and `$.items[]`.

    Args:
        schema_text: JSON text of the schema.
        whitespace: see `JsonLayout`.
        strict: True to exclude names, items and types that the schema does not list.

    Raises:
        GrammarError: the schema is invalid, too large or unsatisfiable, or has an unsupported
            keyword. The error names the position and a remedy.
    """
    layout = JsonLayout(whitespace, both_spellings=not strict)
    try:
        translation = _Translation(read_schema(schema_text), layout, strict)
        rules = translation.rules()
        if translation.shared and not _has_recursion(rules):
            # The recursive part is unused, and shared rules have the labels of one position.
            rules = _Translation(read_schema(schema_text), layout, strict, shares=False).rules()
        return rules
    except RecursionError:
        raise GrammarError("the schema is nested too deep", _DEEP_HINT) from None


def _has_recursion(rules: Rules) -> bool:
    """Return whether a rule reachable from the start refers to itself."""
    enclosing: dict[str, None] = {}
    finished = set[str]()
    stack = [_references(rules.start)]
    while stack:
        name = next(stack[-1], None)
        if name in enclosing:
            return True
        if name is None:
            stack.pop()
            if enclosing:
                finished.add(enclosing.popitem()[0])
        elif name not in finished:
            enclosing[name] = None
            stack.append(_references(rules.rules[name]))
    return False


def _references(node: Node) -> Iterator[str]:
    return (part.name for part in postorder(node) if isinstance(part, Reference))


@dataclass(frozen=True, slots=True)
class _Position:
    """Position of a tree under construction."""

    label: str
    around: tuple[tuple[int, str], ...] = ()  # enclosing rules: id of the schema, name
    fresh: frozenset[int] = frozenset()  # enclosing schemas without a character so far
    depth: int = 0


class _Translation:
    """Translation of a schema to `Rules`. Uses a queue, so long chains of `$ref` do not recurse."""

    def __init__(self, root: Schema, layout: JsonLayout, strict: bool, shares: bool = True) -> None:
        """shares: positions of recursive rules share rules."""
        self.layout, self.strict = layout, strict
        self._shares, self.shared = shares, False
        self.index = SchemaIndex(root)
        self.reader = DisjunctReader(self.index)
        self._root = root
        self._names: dict[tuple[int, str], str] = {}
        self._bodies: dict[str, Node] = {}
        self._pending: deque[tuple[str, Schema, _Position]] = deque()
        self._first: dict[int, str] = {}
        self._alive: list[Schema] = []  # keeps schemas alive, because keys are ids
        self._used: set[str] = set()
        self._distinct: list[DistinctPart] = []
        self._is_recursive = False  # a rule refers to itself or to any JSON value

    def rules(self) -> Rules:
        """Return the start and all reachable rules."""
        start = self._rule(self._root, "#", _Position("$"))
        while self._pending:
            name, schema, position = self._pending.popleft()
            body = self._body(schema, position)
            self._bodies[name] = body if body == NOTHING else Source(body, position.label)
        body = self._bodies[start]
        if body == NOTHING and self.reader.left_out:
            raise self.reader.left_out[0]
        if body == NOTHING:
            hint = "remove keywords that exclude each other"
            raise GrammarError("no JSON value is valid under the schema", hint)

        has_values = not self._used.isdisjoint(ANYTHING)
        if has_values:
            number = either([numbers(None, None), scientific(None, None)])
            self._bodies |= value_rules(self.layout, number)
            self._used.update(ANYTHING)
        used = {name: node for name, node in self._bodies.items() if name in self._used}
        rules = Rules(body, used, has_values or bool(self._distinct))
        check_counts(self._distinct, rules)
        return rules

    def tree(self, schema: Schema, position: _Position) -> Node:
        """Return the values of `schema`, or a reference to its rule."""
        if position.depth > _MOST_NESTED:
            raise GrammarError(f"{position.label:.80} is nested too deep", _DEEP_HINT)
        if (node := self._passed_on(schema, position)) is not None:
            return node
        assert isinstance(schema, dict)
        if schema.keys().isdisjoint(_COMBINING):
            return self._disjuncts(schema, position)
        return self._reference(self._rule(schema, self.index.pointer(schema), position))

    def _body(self, schema: Schema, position: _Position) -> Node:
        """Return the values of `schema`, as the body of a rule."""
        node = self._passed_on(schema, position)
        return self._disjuncts(schema, position) if node is None else node

    def _passed_on(self, schema: Schema, position: _Position) -> Node | None:
        """Return the values of a schema that only delegates to other schemas; None otherwise."""
        if isinstance(schema, bool):
            return self._reference(VALUE.name) if schema else NOTHING
        spoken = {keyword for keyword in schema if not asks_nothing(keyword)}
        if spoken == {"$ref"}:
            name, target = self.index.resolve(schema)
            return self._reference(self._rule(target, name, position))

        if spoken not in ({"allOf"}, {"anyOf"}, {"oneOf"}):
            return None
        [keyword] = spoken
        parts = schema[keyword]
        if not isinstance(parts, list) or not parts:
            return None  # the reader raises the error
        if not all(isinstance(part, (dict, bool)) for part in parts):
            return None
        if keyword == "allOf" and len(parts) > 1:
            return None
        if keyword == "oneOf" and len(parts) > 1 and self._overlap(parts):
            return None
        return either([self.tree(part, position) for part in parts])

    def _overlap(self, parts: list[Schema]) -> bool:
        left_out = len(self.reader.left_out)
        overlaps = self.reader.overlaps([self.reader.disjuncts(part) for part in parts])
        return bool(overlaps) or len(self.reader.left_out) > left_out

    def _reference(self, name: str) -> Reference:
        self._used.add(name)
        self._is_recursive = self._is_recursive or name in ANYTHING
        return Reference(name)

    def _rule(self, schema: Schema, name: str, position: _Position) -> str:
        """Return the rule name for `schema` at `position`: an enclosing rule, or a rule scheduled
        for translation."""
        key = id(schema)
        if key in position.fresh:
            problem = "refers to itself without a value in between"
            raise self.index.error(schema, "$ref", problem, "describe the value")

        for target, rule in position.around:
            if target == key:
                self._is_recursive = True
                return rule

        if existing := self._names.get((key, position.label)):
            return existing
        if key in self._first and not position.fresh:
            if len(self._bodies) > MOST_RULES:
                return self._first[key]
            if self._shares and self._is_recursive:
                self.shared = True
                return self._first[key]
        rule = f"{name} {position.label}"
        if rule in self._bodies:
            rule = f"{rule} {len(self._bodies)}"
        self._names[key, position.label] = rule
        self._first.setdefault(key, rule)
        self._bodies[rule] = NOTHING
        self._alive.append(schema)
        around = (*position.around[-_MOST_NESTED:], (key, rule))
        self._pending.append(
            (rule, schema, _Position(position.label, around, position.fresh | {key}))
        )
        return rule

    def _disjuncts(self, schema: Schema, position: _Position) -> Node:
        return either(
            [self._disjunct(disjunct, position) for disjunct in self.reader.disjuncts(schema)]
        )

    def _disjunct(self, flat: FlatSchema, position: _Position) -> Node:
        """Return the values of a disjunct."""
        self.reader.spend(_TREE + len(flat.values or ()))
        if flat.values is not None:
            return either(self.layout.constant(value) for value in self.reader.values(flat))
        if flat.types == ALL_TYPES and not flat.spoken and replace(flat, source=None) == _ANY:
            return self._reference(VALUE.name)
        flat = flat if self.strict else flat.opened()
        types = flat.narrowed()
        options = [self._string(flat)] if "string" in types else []
        options.append(self._numbers(flat, types & NUMBERS))

        for kind, value in (("boolean", True), ("boolean", False), ("null", None)):
            if kind in types and self.reader.holds(flat, value):
                options.append(self.layout.constant(value))
        inside = partial(self._inside, position)
        context = Context(self.layout, self.reader, inside, self._distinct)

        for kind, maker, keywords in _CONTAINERS:
            if kind in types:
                self._check_excluded(flat, kind)
                if all(_says_nothing(flat, keyword) for keyword in keywords):
                    options.append(self._reference(f"json {kind}"))
                else:
                    options.append(maker(flat, position.label, context))
        return either(options)

    def _inside(self, position: _Position, schema: Schema, label: str) -> Node:
        """Return the values of `schema` at `label`, inside the object or array at `position`."""
        return self.tree(schema, _Position(label, position.around, frozenset(), position.depth + 1))

    def _check_excluded(self, flat: FlatSchema, kind: str) -> None:
        allowed = replace(flat, excluded=())
        for value in flat.excluded:
            if type_of(value) == kind and self.reader.holds(allowed, value):
                problem = f"an {kind} as a forbidden value is not enforced"
                hint = "forbid texts, numbers, true, false or null"
                raise self.index.error(flat.source, "not", problem, hint)

    def _string(self, flat: FlatSchema) -> Node:
        is_limited = flat.min_length > 1 or flat.max_length is not None
        is_common = not (is_limited or flat.patterns or flat.other_patterns or flat.excluded)
        try:
            return _lexeme(string(decoded(flat)), is_common)
        except GrammarError as error:
            raise self.index.error(flat.source, "pattern", error.message, error.hint) from None

    def _numbers(self, flat: FlatSchema, types: frozenset[str]) -> Node:
        if not types:
            return NOTHING
        source, low, high = flat.source, flat.low, flat.high
        whole = "fraction" not in types
        removed = [_spellings(value) for value in flat.excluded if type_of(value) in NUMBERS]
        if "integer" not in types:
            removed += (_INTEGRAL, _ROUNDED)
        if not flat.steps and whole:
            floats = self.index.has_whole_floats and not self.strict
            node = _whole_numbers(*integer_bounds(low, high), floats)
        elif not flat.steps:
            node = numbers(low, high) if removed else _any_number(low, high)
        else:
            try:
                node = multiples(common_multiple(flat.steps), low, high, whole)
            except GrammarError as error:
                raise self.index.error(source, "multipleOf", error.message, error.hint) from None

        if removed and node != NOTHING:
            return Lexeme(Without(node, either(removed)))
        is_open = high is None and (low is None or low.value in (0, 1))
        return _lexeme(node, is_common=is_open and not flat.steps)


def _lexeme(node: Node, is_common: bool = False) -> Node:
    return node if node == NOTHING else Lexeme(node, is_common)


@lru_cache(maxsize=1024)
def _whole_numbers(low: int | None, high: int | None, floats: bool) -> Node:
    """Return the integers between the bounds, with `floats` also spelled with `.0`; always the
    same object for the same bounds."""
    node = integers(low, high)
    return concat(node, optional(Literal(".0"))) if floats and node != NOTHING else node


@lru_cache(maxsize=1024)
def _any_number(low: NumberBound | None, high: NumberBound | None) -> Node:
    """Return the numbers between the bounds, with and without an exponent; always the same object
    for the same bounds."""
    return either([numbers(low, high), scientific(low, high)])


_INTEGRAL = concat(
    optional(Literal("-")),
    Repeat(DIGIT, 1, None),
    optional(concat(Literal("."), Repeat(Literal("0"), 0, None))),
)
_ROUNDED = either(
    concat(
        optional(Literal("-")),
        Repeat(DIGIT, max(1, PRECISION + 1 - decimals), None),
        Literal("."),
        Repeat(DIGIT, decimals, None),
    )
    for decimals in range(1, FRACTION_DIGITS + 1)
)
"""Decimals with more digits than a double distinguishes: a parser may round them to integers."""

_ANY = FlatSchema()

_OBJECT = (
    "properties", "required", "additional", "pattern_properties", "partial_additional", "names",
    "min_properties", "max_properties", "needed",
)  # fmt: skip
_ARRAY = ("prefix", "items", "min_items", "max_items", "unique", "contains")
_CONTAINERS = (("object", object_tree, _OBJECT), ("array", array_tree, _ARRAY))
"""Container types with the functions that build their trees and the keywords that constrain the
inside."""


def _says_nothing(flat: FlatSchema, keyword: str) -> bool:
    value = getattr(flat, keyword)
    anything = keyword in ("additional", "items") and value in (True, {})
    return anything or value == getattr(_ANY, keyword)


def _spellings(value: int | Decimal) -> Node:
    """Return all spellings of a number without exponent."""
    text = format(Decimal(value), "f")
    whole, _, fraction = text.partition(".")
    zeros = Repeat(Literal("0"), 0, None)
    if fraction := fraction.rstrip("0"):
        return concat(Literal(f"{whole}.{fraction}"), zeros)
    return concat(Literal(whole), optional(concat(Literal("."), zeros)))
