"""`grammar_wild` with a tool whose masks are made up: what counts as right, and what as failed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks import grammar_wild, schema_suites
from benchmarks.grammar_wild import Failed, Measured, Refused, Session
from benchmarks.schema_suites import Case, Instance

A, B, BROKEN = 1, 2, 40


class Letters:
    """Allows the tokens that the schema names, and ends anywhere; fails at BROKEN."""

    name = "letters"

    def compile(self, schema: str) -> Callable[[], Session]:
        if schema == "no":
            raise Refused('keyword at #/a/b: no "thing" of 12 is supported')
        if schema == "never":
            raise Refused("no JSON value is valid under the schema")
        return lambda: Letter([int(token) for token in schema.split()])


class Letter:
    def __init__(self, tokens: list[int]) -> None:
        self.tokens = tokens

    def mask(self) -> np.ndarray:
        bits = np.zeros(2, np.uint32)
        for token in self.tokens:
            bits[token >> 5] |= np.uint32(1 << (token & 31))
        return bits

    def accept(self, token: int) -> None:
        if token == BROKEN:
            raise Failed("too many")

    def ends(self) -> bool:
        return True


def test_what_is_right() -> None:
    measured = Measured(Letters())
    good, bad, broken = Instance(True, [A, A]), Instance(False, [A, B]), Instance(True, [BROKEN])
    for name, schema, instances in (
        ("right", f"{A}", [good, bad]),
        ("lets through", f"{A} {B}", [good, bad]),
        ("turns away", f"{B}", [good, bad]),
        ("fails", f"{A} {BROKEN}", [good, broken]),
        ("refuses", "no", [good]),
        ("nothing valid", "never", [bad]),
        ("not so", "never", [good]),
    ):
        measured.take(Case(name, schema, instances))
    assert measured.let_through == ["lets through"] and measured.turned_away == ["turns away"]
    assert measured.failed == [("fails", "too many")]
    assert dict(measured.refused) == {
        "keyword: no … of … is supported": 1,
        "no JSON value is valid under the schema": 1,
    }
    tool, compiled, right, through, failed, *_ = measured.row()
    assert (tool, through, failed) == ("letters", "1", "1")
    assert (compiled, right) == (f"{500 / 7:.1f}", f"{200 / 7:.1f}")


def test_the_suites_are_read_as_their_repositories_lay_them_out(tmp_path: Path) -> None:
    tests = [{"valid": True, "data": "é"}, {"valid": False, "data": [1, 2]}]
    for place, content in (
        ("maskbench/data/one.json", {"schema": {"type": "string"}, "tests": tests}),
        ("tests/draft7/type.json", [{"description": "d", "schema": {"type": 1}, "tests": tests}]),
    ):
        path = tmp_path / place
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(content), encoding="utf-8")
    [(name, path)] = schema_suites.maskbench(tmp_path)
    case = schema_suites.maskbench_case(name, path, lambda text: list(text.encode()))
    assert (case.name, case.schema) == ("one", '{"type": "string"}')
    assert [bytes(one.tokens).decode() for one in case.instances] == ['"é"', "[1, 2]"]
    path.write_text('{"schema": {"_uniqueItems": true}, "tests": []}', encoding="utf-8")
    assert "_unique" not in schema_suites.maskbench_case(name, path, list, unique=True).schema
    assert "_unique" in schema_suites.maskbench_case(name, path, list).schema
    [group] = schema_suites.suite_cases(tmp_path, lambda text: list(text.encode()))
    assert group.name == "draft7/type: d" and "draft-07" in group.schema
    assert [one.valid for one in group.instances] == [True, False]


def test_a_folder_without_suites_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grammar_wild, "_tools", lambda xgrammar: [])
    with pytest.raises(SystemExit, match="neither"):
        grammar_wild.run(tmp_path)
