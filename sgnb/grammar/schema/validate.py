"""Validation of JSON text by a JSON Schema, for texts and schemas from untrusted sources.

References resolve inside the schema only, patterns run as automata, and a clock bounds the work.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from ...errors import GrammarError
from ..regex.ecmascript import to_python
from .checks import CHECKS, Evaluation, KeywordUse, Path, Problem, brief
from .index import SchemaIndex, read_schema
from .regex_search import compile_search
from .strict_json import DOUBLES, InvalidAnswer, read_json

SECONDS = 2.0
"""Limit in CPU seconds per text."""


class ThreadClock:
    """Deadline in CPU time of the current thread.

    Args:
        seconds: CPU seconds from now to the deadline.
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.thread_time() + seconds
        self._soonest = time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        """True after the deadline.

        Reads the thread's CPU time only after the same wall time, because the system call yields to
        other threads on a busy machine.
        """
        return time.monotonic() > self._soonest and time.thread_time() > self._end


@lru_cache(maxsize=64)
def validator(schema: str) -> Validator:
    """Return the cached validator of a schema.

    Args:
        schema: JSON text of the schema.

    Raises:
        GrammarError: see `Validator`.
    """
    return Validator(schema)


class Validator:
    """A schema with resolved references and compiled patterns. Thread-safe."""

    def __init__(self, schema: str) -> None:
        """Read a schema.

        Args:
            schema: JSON text of the schema.

        Raises:
            GrammarError: the schema is not JSON, refers to another document, or has an unsupported
                pattern.
        """
        clock = ThreadClock(SECONDS)
        self.index = SchemaIndex(read_schema(schema, DOUBLES))
        self.tracks = False  # True if a schema needs `Evaluation`
        prepared = 0
        while len(schemas := self.index.schemas()) > prepared:  # `resolve` adds schemas
            for part in schemas[prepared:]:
                self._prepare(part)
                if clock.is_over:
                    hint = "use fewer or shorter patterns"
                    raise GrammarError(f"json_schema takes more than {SECONDS:g} s to read", hint)
            prepared = len(schemas)

    def _prepare(self, schema: dict[str, Any]) -> None:
        self.tracks |= any(keyword.startswith("unevaluated") for keyword in schema)
        if "$ref" in schema:
            self.index.resolve(schema)
        for keyword in ("$dynamicRef", "$recursiveRef"):
            if keyword in schema:
                raise self.index.error(schema, keyword, "no target or several targets", "use $ref")
        patterns = schema.get("patternProperties")
        for pattern in [*(patterns if isinstance(patterns, dict) else ()), schema.get("pattern")]:
            if isinstance(pattern, str):
                compile_search(to_python(pattern))

    def check(self, text: str) -> None:
        """Check that `text` is a JSON value of the schema.

        Args:
            text: JSON text.

        Raises:
            InvalidAnswer: the text is invalid, or the check takes longer than `SECONDS`.
            GrammarError: a keyword of the schema has an invalid value.
        """
        value = read_json(text)
        try:
            problem = _Walk(self).problem(self.index.root, value, (), Evaluation())
        except RecursionError:
            raise InvalidAnswer("JSON of a depth that can be checked") from None
        if problem is not None:
            raise InvalidAnswer(f"valid under its JSON schema: {problem}")


_INVALID = (TypeError, KeyError, IndexError, AttributeError, ArithmeticError)
"""Exceptions of a check if the keyword has an invalid value. `GrammarError` is not among them."""


class _Walk:
    """State of a single check; see `Checker`."""

    def __init__(self, owner: Validator) -> None:
        self.index, self.tracks = owner.index, owner.tracks
        self._clock = ThreadClock(SECONDS)
        self._active: set[tuple[int, int]] = set()  # (schema, value) pairs in progress

    def check_clock(self) -> None:
        if self._clock.is_over:
            raise InvalidAnswer(f"checked by its JSON schema within {SECONDS:g} s")

    def problem(self, schema: Any, value: Any, path: Path, seen: Evaluation) -> Problem | None:
        if isinstance(schema, bool):
            return None if schema else Problem(path, value, "allowed")
        self.check_clock()
        entry = id(schema), id(value)
        if entry in self._active:
            raise self.index.error(schema, "$ref", "refers to itself without end", "remove it")
        self._active.add(entry)

        try:
            for keyword, check in CHECKS.items():
                if keyword in schema:
                    use = KeywordUse(
                        schema=schema,
                        argument=schema[keyword],
                        value=value,
                        path=path,
                        seen=seen,
                    )
                    problem = check(self, use)
                    if problem is not None:
                        return problem
        except _INVALID:
            hint = "see the specification of JSON Schema"
            message = f"{brief(schema[keyword])} is invalid"
            raise self.index.error(schema, keyword, message, hint) from None
        finally:
            self._active.discard(entry)

        return None

    def also(self, schema: Any, at: KeywordUse) -> Problem | None:
        seen = Evaluation()
        problem = self.problem(schema, at.value, at.path, seen)
        if problem is None:
            at.seen.add(seen)
        return problem

    def inner(self, at: KeywordUse, parts: Iterable[tuple[str | int, Any]]) -> Problem | None:
        for step, schema in parts:
            if isinstance(step, int):
                at.seen.items.add(step)
            else:
                at.seen.names.add(step)
            problem = self.problem(schema, at.value[step], (*at.path, step), Evaluation())
            if problem is not None:
                return problem
        return None
