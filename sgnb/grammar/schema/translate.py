"""A JSON schema as the syntax tree of valid JSON texts.

Objects are written in the order of the schema, in one layout, and each value in one spelling: every
text of the tree is valid, but not every valid text is in the tree; docs/JSON_SCHEMA.md says where
it is narrower. What is not enforced is an error. References become rules, maybe recursive ones.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial

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
)
from .arrays import array_tree
from .cases import LOGIC, CaseReader
from .flat import ALL_TYPES, NUMBERS, FlatSchema, Schema, type_of
from .index import SchemaIndex, read_schema
from .keywords import asks_nothing
from .multiples import common_multiple, integer_bounds, multiples
from .numbers import FRACTION_DIGITS, PRECISION, integers, numbers
from .objects import Context, object_tree
from .strings import decoded
from .text import ANYTHING, DIGIT, VALUE, Layout, either, string, value_rules

MOST_RULES = 300
"""Up to here every place has its own rule for what it refers to; later ones share the first's."""

_MOST_NESTED = 150
_COMBINING = frozenset({*LOGIC, "$ref"})
_DEEP_HINT = "use fewer levels, or put inner schemas into $defs"


def translate(schema_text: str, whitespace: int | None = None, strict: bool = True) -> Rules:
    """Valid JSON texts, laid out as `Layout` says; if `strict`, with nothing that the schema does
    not list.

    Labels are paths in the text, such as `$.wand.length` and `$.items[]`. Raises GrammarError for a
    schema that is wrong, too large or unsatisfiable, and for keywords that are not enforced, with
    their place and a hint.
    """
    try:
        return _Translation(read_schema(schema_text), Layout(whitespace), strict).rules()
    except RecursionError:
        raise GrammarError("the schema is nested too deep", _DEEP_HINT) from None


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a tree is being made."""

    label: str
    around: tuple[tuple[int, str], ...] = ()  # the enclosing rules: id of the schema, name
    fresh: frozenset[int] = frozenset()  # schemas of those that have no character so far
    depth: int = 0


class _Translation:
    """One schema on its way to `Rules`, by a queue: long chains of `$ref` do not recurse."""

    def __init__(self, root: Schema, layout: Layout, strict: bool) -> None:
        self.layout, self.strict = layout, strict
        self.index = SchemaIndex(root)
        self.reader = CaseReader(self.index)
        self._root = root
        self._names: dict[tuple[int, str], str] = {}
        self._made: dict[str, Node] = {}
        self._pending: deque[tuple[str, Schema, _Place]] = deque()
        self._first: dict[int, str] = {}
        self._kept: list[Schema] = []  # schemas are known by their id
        self._used: set[str] = set()

    def rules(self) -> Rules:
        """The start and all rules that it needs."""
        start = self._rule(self._root, "#", _Place("$"))
        while self._pending:
            name, schema, place = self._pending.popleft()
            body = self._body(schema, place)
            self._made[name] = body if body == NOTHING else Source(body, place.label)
        body = self._made[start]
        if body == NOTHING:
            hint = "look for keywords that exclude each other"
            raise GrammarError("no JSON value is valid under the schema", hint)
        if not self._used.isdisjoint(ANYTHING):
            self._made |= value_rules(self.layout, numbers(None, None))
            self._used.update(ANYTHING)
        return Rules(body, {name: node for name, node in self._made.items() if name in self._used})

    def tree(self, schema: Schema, place: _Place) -> Node:
        """The values of `schema`, or a reference to the rule that has them."""
        if place.depth > _MOST_NESTED:
            raise GrammarError(f"{place.label:.80} is nested too deep", _DEEP_HINT)
        if (node := self._passed_on(schema, place)) is not None:
            return node
        assert isinstance(schema, dict)
        if schema.keys().isdisjoint(_COMBINING):
            return self._cases(schema, place)
        return self._reference(self._rule(schema, self.index.pointer(schema), place))

    def _body(self, schema: Schema, place: _Place) -> Node:
        """The values of `schema`, for the rule that is made of it."""
        node = self._passed_on(schema, place)
        return self._cases(schema, place) if node is None else node

    def _passed_on(self, schema: Schema, place: _Place) -> Node | None:
        """The values of a schema that only delegates to others; None for any other schema."""
        if isinstance(schema, bool):
            return self._reference(VALUE.name) if schema else NOTHING
        spoken = {keyword for keyword in schema if not asks_nothing(keyword)}
        if spoken == {"$ref"}:
            name, target = self.index.resolve(schema)
            return self._reference(self._rule(target, name, place))
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
        return either([self.tree(part, place) for part in parts])

    def _overlap(self, parts: list[Schema]) -> bool:
        return bool(self.reader.overlaps([self.reader.cases(part) for part in parts]))

    def _reference(self, name: str) -> Reference:
        self._used.add(name)
        return Reference(name)

    def _rule(self, schema: Schema, name: str, place: _Place) -> str:
        """The name of the rule for `schema` at `place`: an enclosing one, or one to be made."""
        key = id(schema)
        if key in place.fresh:
            problem = "refers to itself with nothing between"
            raise self.index.error(schema, "$ref", problem, "say what the value is")
        for target, rule in place.around:
            if target == key:
                return rule
        if known := self._names.get((key, place.label)):
            return known
        if len(self._made) > MOST_RULES and key in self._first:
            return self._first[key]
        rule = f"{name} {place.label}"
        if rule in self._made:
            rule = f"{rule} {len(self._made)}"
        self._names[key, place.label] = rule
        self._first.setdefault(key, rule)
        self._made[rule] = NOTHING
        self._kept.append(schema)
        around = (*place.around[-_MOST_NESTED:], (key, rule))
        self._pending.append((rule, schema, _Place(place.label, around, place.fresh | {key})))
        return rule

    def _cases(self, schema: Schema, place: _Place) -> Node:
        return either([self._case(case, place) for case in self.reader.cases(schema)])

    def _case(self, flat: FlatSchema, place: _Place) -> Node:
        """The values of one case."""
        self.reader.spend()
        if flat.values is not None:
            return either(self.layout.constant(value) for value in self.reader.values(flat))
        if flat.types == ALL_TYPES and not flat.spoken and replace(flat, source=None) == _ANY:
            return self._reference(VALUE.name)
        flat = flat if self.strict else flat.opened()
        types = flat.narrowed()
        options = [_lexeme(string(self._decoded(flat)))] if "string" in types else []
        options.append(_lexeme(self._numbers(flat, types & NUMBERS)))
        for kind, value in (("boolean", True), ("boolean", False), ("null", None)):
            if kind in types and self.reader.holds(flat, value):
                options.append(self.layout.constant(value))
        context = Context(self.layout, self.reader, partial(self._inside, place))
        for kind, maker, keywords in _CONTAINERS:
            if kind in types:
                self._check_excluded(flat, kind)
                if all(_says_nothing(flat, keyword) for keyword in keywords):
                    options.append(self._reference(f"json {kind}"))
                else:
                    options.append(maker(flat, place.label, context))
        return either(options)

    def _inside(self, place: _Place, schema: Schema, label: str) -> Node:
        """The values of `schema` at `label`, inside the object or array at `place`."""
        return self.tree(schema, _Place(label, place.around, frozenset(), place.depth + 1))

    def _check_excluded(self, flat: FlatSchema, kind: str) -> None:
        rest = replace(flat, excluded=())
        for value in flat.excluded:
            if type_of(value) == kind and self.reader.holds(rest, value):
                problem = f"an {kind} as a forbidden value is not enforced"
                hint = "forbid texts, numbers, true, false or null"
                raise self.index.error(flat.source, "not", problem, hint)

    def _decoded(self, flat: FlatSchema) -> Node:
        try:
            return decoded(flat)
        except GrammarError as error:
            raise self.index.error(flat.source, "pattern", error.message, error.hint) from None

    def _numbers(self, flat: FlatSchema, types: frozenset[str]) -> Node:
        if not types:
            return NOTHING
        source, low, high = flat.source, flat.low, flat.high
        whole = "fraction" not in types
        if not flat.steps:
            node = integers(*integer_bounds(low, high)) if whole else numbers(low, high)
        else:
            try:
                node = multiples(common_multiple(flat.steps), low, high, whole)
            except GrammarError as error:
                raise self.index.error(source, "multipleOf", error.message, error.hint) from None
        removed = [_spellings(value) for value in flat.excluded if type_of(value) in NUMBERS]
        if "integer" not in types:
            removed += (_INTEGRAL, _ROUNDED)
        return Without(node, either(removed)) if removed and node != NOTHING else node


def _lexeme(node: Node) -> Node:
    return node if node == NOTHING else Lexeme(node)


_INTEGRAL = concat(
    optional(Literal("-")),
    Repeat(DIGIT, 1, None),
    optional(concat(Literal("."), Repeat(Literal("0"), 0, None))),
)
_ROUNDED = either(
    concat(
        optional(Literal("-")),
        Repeat(DIGIT, PRECISION + 1 - places, None),
        Literal("."),
        Repeat(DIGIT, places, None),
    )
    for places in range(1, FRACTION_DIGITS + 1)
)
"""Decimals of more digits than a double tells apart: it may read them as integers."""

_ANY = FlatSchema()

_OBJECT = (
    "properties", "required", "additional", "pattern_properties", "names",
    "min_properties", "max_properties",
)  # fmt: skip
_ARRAY = ("prefix", "items", "min_items", "max_items", "unique", "contains")
_CONTAINERS = (("object", object_tree, _OBJECT), ("array", array_tree, _ARRAY))
"""The container types, what makes their trees, and the keywords that restrict the inside."""


def _says_nothing(flat: FlatSchema, keyword: str) -> bool:
    value = getattr(flat, keyword)
    anything = keyword in ("additional", "items") and value in (True, {})
    return anything or value == getattr(_ANY, keyword)


def _spellings(value: int | Decimal) -> Node:
    """All spellings of a number without exponent."""
    text = format(Decimal(value), "f")
    whole, _, fraction = text.partition(".")
    zeros = Repeat(Literal("0"), 0, None)
    if fraction := fraction.rstrip("0"):
        return concat(Literal(f"{whole}.{fraction}"), zeros)
    return concat(Literal(whole), optional(concat(Literal("."), zeros)))
