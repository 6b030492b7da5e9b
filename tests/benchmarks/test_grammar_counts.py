"""Parts of a suite, measured apart and added up, are the suite."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import grammar_counts, grammar_wild
from benchmarks.grammar_counts import Counts, Suite, added, load, save
from tests.benchmarks.test_grammar_wild import Letters


def counts(name: str, schemas: int, *masks: float) -> Counts:
    return Counts(
        name,
        schemas,
        right=1,
        compiling=[0.5] * schemas,
        masks=list(masks),
        refusals=[("a", "keyword at #/a: no 3")],
        failed=[("b", "too many")],
    )


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    suite = Suite("MaskBench", 9, "schemas", 1, [counts("one", 2, 0.25, 0.5), Counts("two", 2)])
    save(tmp_path / "part.npz", [suite])
    assert load(tmp_path / "part.npz") == [suite]
    assert [path.name for path in tmp_path.iterdir()] == ["part.npz"]


def test_parts_are_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / "0.npz", tmp_path / "1.npz"]
    for file, tool in zip(files, (counts("one", 2, 0.25), counts("one", 3, 0.75)), strict=True):
        save(file, [Suite("MaskBench", 9, "schemas", 1, [tool])])
    [suite] = added(files)
    [tool] = suite.tools
    assert (tool.schemas, tool.right, len(tool.compiling)) == (5, 2, 5)
    assert tool.masks == [0.25, 0.75] and dict(tool.refused) == {"keyword: no …": 2}
    monkeypatch.setattr(sys, "argv", ["x", *map(str, files)])
    assert grammar_counts.main() == 1  # something failed
    assert "MaskBench, 5 of 9 schemas" in capsys.readouterr().out


def test_parts_of_different_tools_are_no_whole() -> None:
    suite = Suite("MaskBench", 9, "schemas", 1, [Counts("one")])
    with pytest.raises(ValueError, match="different tools"):
        suite.add(Suite("MaskBench", 9, "schemas", 1, [Counts("two")]))


@pytest.fixture
def suites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with seven schemas, for a tool that takes numbers of tokens; the fourth is refused
    by it."""
    for number in range(7):
        path = tmp_path / "maskbench" / "data" / f"{number}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"schema": number, "tests": []}), encoding="utf-8")
    monkeypatch.setattr(grammar_wild, "_tools", lambda xgrammar: [Letters()])
    return tmp_path


@pytest.mark.slow
def test_shards_are_the_whole(suites: Path) -> None:
    files = [suites / f"{part}.npz" for part in range(3)]
    for part, file in enumerate(files):
        grammar_wild.main([str(suites), "--shard", f"{part}/3", "--save", str(file)])
    assert [load(file)[0].tools[0].schemas for file in files] == [3, 2, 2]
    [suite] = added(files)
    assert suite.tools[0].schemas == suite.size == 7


@pytest.mark.parametrize("shard", ["3/3", "-1/3", "1", "a/b"])
def test_a_shard_that_is_none(suites: Path, shard: str) -> None:
    with pytest.raises(SystemExit):
        grammar_wild.main([str(suites), f"--shard={shard}"])


def test_no_case_begins_when_the_time_is_over(suites: Path) -> None:
    file = suites / "part.npz"
    grammar_wild.main([str(suites), "--seconds", "-1", "--save", str(file)])
    assert load(file)[0].tools[0].schemas == 0
