"""A schema document: parsing, positions of its schemas, `$ref` resolution. Knows no translation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from ...errors import GrammarError, nearest, shown
from .flat import Schema
from .keywords import KEYWORDS
from .strict_json import InvalidAnswer, NumberLimits, read_json

MAX_DEPTH = 100  # nested schemas
MAX_CHARACTERS = 4_000_000
_DYNAMIC = {"$dynamicRef": "$dynamicAnchor", "$recursiveRef": "$recursiveAnchor"}
"""Dynamic references with the anchors of their targets."""

EXACT = NumberLimits(digits=400, decimal_digits=400, exponent=400)
"""Limits of the numbers in a schema that becomes a grammar."""


def read_schema(text: str, limits: NumberLimits = EXACT) -> Schema:
    """Parse a schema. Numbers with a point or an exponent become `Decimal`.

    Args:
        text: JSON text.
        limits: limits of the numbers.

    Raises:
        GrammarError: the text is not a schema, or exceeds a limit.
    """
    if len(text) > MAX_CHARACTERS:
        hint = f"the limit is {MAX_CHARACTERS}"
        raise GrammarError(f"a schema of {len(text)} characters", hint)
    hint = "give a JSON object, true or false"
    try:
        schema = read_json(text, limits)
    except InvalidAnswer as error:
        raise GrammarError(f"json_schema is not {error}", hint) from None
    if not isinstance(schema, (dict, bool)):
        raise GrammarError(f"json_schema={shown(text)} is not a schema", hint)
    return schema


def _too_deep() -> GrammarError:
    problem = f"the schema is nested more than {MAX_DEPTH} levels deep"
    return GrammarError(problem, "move inner schemas to $defs, or use a simpler one")


class SchemaIndex:
    """Schemas of a document by position and name. `resolve` and `join` add schemas.

    Args:
        root: parsed document.
    """

    def __init__(self, root: Schema) -> None:
        self.root = root
        self.pointers: dict[int, str] = {}
        self._schemas: list[dict[str, Any]] = []
        self._bases: dict[int, str] = {}
        self._named: dict[str, Any] = {}
        self._joined: dict[tuple[int, ...], Schema] = {}
        dialect = root.get("$schema") if isinstance(root, dict) else None
        draft = re.search(r"draft-0([3-7])", dialect) if isinstance(dialect, str) else None
        # True for the drafts in which 1.0 is an integer.
        self.has_whole_floats = draft is None or draft[1] > "4"
        self._identifier = "$id" if self.has_whole_floats else "id"
        self._reference_is_alone = draft is not None
        self._add(root, "#", "", 0)
        self._resolve_dynamic()

    def _resolve_dynamic(self) -> None:
        """Replace dynamic references by `$ref`, if their target is the same in every scope.

        The root is the outermost scope of every reference: an anchor of the root's resource is the
        target, and otherwise the only anchor with the name in the document.
        """
        for schema in self._schemas:
            for keyword, anchor in _DYNAMIC.items():
                reference = schema.get(keyword)
                if not isinstance(reference, str) or "$ref" in schema:
                    continue
                base = self._bases.get(id(schema), "")
                target = self._look_up(urljoin(base, reference) if base else reference)
                fragment = urldefrag(reference).fragment
                if isinstance(target, dict) and target.get(anchor) in (True, fragment):
                    target = self._outermost(target, anchor)
                if isinstance(target, (dict, bool)):
                    name = f"dynamic:{id(target)}"
                    self._named[name] = target
                    del schema[keyword]
                    schema["$ref"] = name

    def _outermost(self, target: dict[str, Any], anchor: str) -> Any:
        """Return the target of a dynamic reference with the initial `target`; None if several
        targets are possible."""
        same = [other for other in self._schemas if other.get(anchor) == target[anchor]]
        root = self._base(self.root)
        return next(
            (other for other in same if self._base(other) == root),
            target if len(same) == 1 else None,
        )

    def _base(self, schema: Any) -> str:
        return self._bases.get(id(schema), "")

    def _add(self, schema: Any, pointer: str, base: str, depth: int) -> None:
        """Add `schema` and all nested schemas, iteratively."""
        pending = [(schema, pointer, base, depth)]
        while pending:
            schema, pointer, base, depth = pending.pop()
            if not isinstance(schema, dict) or id(schema) in self.pointers:
                continue
            if depth > MAX_DEPTH:
                raise _too_deep()
            if self._reference_is_alone and isinstance(schema.get("$ref"), str):
                _drop_siblings(schema)
            self.pointers[id(schema)] = pointer
            self._schemas.append(schema)

            if isinstance(identifier := schema.get(self._identifier), str):
                base = urldefrag(urljoin(base, identifier)).url
                self._named[base] = schema
                if identifier.startswith("#"):
                    self._named[base + identifier] = schema

            if base:
                self._bases[id(schema)] = base
            for keyword in ("$anchor", "$dynamicAnchor"):
                if isinstance(anchor := schema.get(keyword), str):
                    self._named[f"{base}#{anchor}"] = schema
            for name, child in children(schema):
                pending.append((child, f"{pointer}/{name}", base, depth + 1))

    def schemas(self) -> list[dict[str, Any]]:
        """Return all schemas of the document."""
        return list(self._schemas)

    def pointer(self, schema: Any, keyword: str = "") -> str:
        """Return the JSON pointer of a schema, such as `#/properties/x`; for a joined schema, of
        its first part.

        Args:
            schema: schema of the document, or a joined schema.
            keyword: keyword to append; "" for the schema itself.
        """
        while isinstance(schema, dict) and id(schema) not in self.pointers:
            parts = schema.get("allOf") or [schema.get("not")]
            schema = parts[0]
        pointer = self.pointers.get(id(schema), "#")
        return f"{pointer}/{_escape(keyword)}" if keyword else pointer

    def error(self, schema: Any, keyword: str, problem: str, hint: str) -> GrammarError:
        """Return a GrammarError that names the keyword and its position.

        Args:
            schema: schema with the problem.
            keyword: keyword with the problem.
            problem: reason.
            hint: remedy.
        """
        return GrammarError(f"{keyword} at {self.pointer(schema, keyword)}: {problem}", hint)

    def join(self, a: Schema, b: Schema) -> Schema:
        """Return the conjunction of two schemas as a schema; equal parts return the same object.

        Args:
            a: first schema.
            b: second schema.
        """
        if a is b or b is True or b == {}:
            return a
        if a is True or a == {}:
            return b
        if a is False or b is False:
            return False
        parts = {id(part): part for part in (*self._parts(a), *self._parts(b))}
        return self._joined.setdefault(tuple(parts), {"allOf": list(parts.values())})

    def _parts(self, schema: Schema) -> list[Any]:
        if isinstance(schema, bool) or id(schema) in self.pointers or schema.keys() != {"allOf"}:
            return [schema]
        return list(schema["allOf"])

    def resolve(self, schema: dict[str, Any]) -> tuple[str, Schema]:
        """Return the reference of a schema and its target.

        Args:
            schema: schema with `$ref`.

        Raises:
            GrammarError: the target is not in the document.
        """
        reference = schema["$ref"]
        if not isinstance(reference, str):
            problem = f"{reference!r:.60} is not a reference"
            raise self.error(schema, "$ref", problem, "give a text such as #/$defs/name")
        base = self._bases.get(id(schema), "")
        target = self._look_up(urljoin(base, reference) if base else reference)
        if target is None:
            hint = "nothing is fetched: pass the other schema as documents={uri: schema}"
            if reference.startswith("#"):
                hint = nearest(reference, list(self._definitions()) or ["#"])
            raise self.error(schema, "$ref", f"{reference!r:.80} is not in the schema", hint)
        return reference, target

    def _definitions(self) -> Iterator[str]:
        root = self.root if isinstance(self.root, dict) else {}
        for keyword in ("$defs", "definitions"):
            if isinstance(root.get(keyword), dict):
                yield from (f"#/{keyword}/{_escape(name)}" for name in root[keyword])

    def _look_up(self, reference: str) -> Any:
        if reference in self._named:
            return self._named[reference]
        document, _, fragment = reference.partition("#")
        target = self._named.get(document) if document else self.root
        if fragment and not fragment.startswith("/"):
            return None
        for part in unquote(fragment).split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            if isinstance(target, list) and part.isdecimal() and int(part) < len(target):
                target = target[int(part)]
            elif isinstance(target, dict) and part in target:
                target = target[part]
            else:
                return None

        if isinstance(target, dict):
            self._add(target, f"#{fragment}", document, 0)
        return target if isinstance(target, (dict, bool)) else None


def _drop_siblings(schema: dict[str, Any]) -> None:
    """Remove the siblings of `$ref`, which are ignored up to draft-07, except targets of other
    references."""
    for keyword in schema.keys() - {"$ref", "$defs", "definitions"}:
        del schema[keyword]


def children(schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield (pointer below the schema, value) of each inner schema.

    Args:
        schema: schema of a document.
    """
    for keyword, value in schema.items():
        kind = KEYWORDS[keyword].children if keyword in KEYWORDS else ""
        if "mapping" in kind and isinstance(value, dict):
            yield from ((f"{keyword}/{_escape(name)}", child) for name, child in value.items())
        elif "list" in kind and isinstance(value, list):
            yield from ((f"{keyword}/{index}", child) for index, child in enumerate(value))
        elif "schema" in kind:
            yield keyword, value


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
