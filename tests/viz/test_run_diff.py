"""Two recorded runs are compared: lines, tokens, and a cause for each computed prompt token."""

from __future__ import annotations

import random
from typing import Any

import pytest

from sgnb import events
from sgnb.events import EventLog
from sgnb.viz import Recording, joined_runs
from sgnb.viz.live.feed import Feed
from sgnb.viz.state.run_diff import _diff
from sgnb.viz.state.tree import Trees
from sgnb.viz.static.bundle import static_bundle

from .make_log import HOSTILE, Program, WordEngine
from .page import node

FILES = (
    "dom",
    "branch",
    "models",
    "reduce",
    "store",
    "draw",
    "text",
    "branches",
    "rerun",
    "compare",
)


def run_of(engine: WordEngine, run: str, words: list[str], source: str = "") -> None:
    program = Program(engine, run, "demo")
    if source:
        engine.log.emit(events.RunStarted(run, "demo", source, 1, "cell", 2))
    program.branch("0")
    for i, text in enumerate(words):
        program.add("0", text)
        list(program.gen("0", f"x{i}", " and so on"))
    program.end("0")
    program.finish()


def recordings(first: list[str], second: list[str], sources: tuple[str, str] = ("", "")) -> Any:
    """Return a recording per run, with the tree at the start of the run."""
    log, trees = EventLog(), Trees()
    engine = WordEngine(log)
    for record in log.read().records:
        trees.apply(record)
    for run, words, source in zip(("r1", "r2"), (first, second), sources, strict=True):
        feed, at = Feed(trees, log.now()), log.last
        run_of(engine, run, words, source)
        records = log.read(at).records
        feed.push(records, 0)
        for record in records:
            trees.apply(record)
        yield Recording(feed.lines, run)


def random_words(rng: random.Random) -> list[str]:
    words = ["the", " cat", " sat", " on", " mat.", f" {HOSTILE}", " é", " why"]
    return ["".join(rng.choices(words, k=rng.randint(1, 8))) for _ in range(rng.randint(1, 3))]


@pytest.mark.parametrize("seed", range(20))
def test_each_computed_token_has_one_cause_and_the_text_is_whole(seed: int) -> None:
    rng = random.Random(seed)
    first = random_words(rng)
    second = first if seed % 4 == 0 else random_words(rng)
    before, after = recordings(first, second)
    whole = joined_runs(before, after)
    rerun = whole.states.comparison.rerun
    assert rerun is not None and (rerun.earlier, rerun.later) == ("r1", "r2")

    texts = list(zip(rerun.text_marks, rerun.texts, strict=True))
    for run, other in (("r1", "+"), ("r2", "-")):
        shown = "".join(text for mark, text in texts if mark != other)
        assert shown == whole.states.runs[run].branches["0"].text
    if first is second:
        assert set(rerun.text_marks) <= {"="}

    ranges = list(zip(rerun.cause_begins, rerun.cause_ends, strict=True))
    assert all(begin < end for begin, end in ranges)
    computed = whole.states.runs["r2"].metrics.computed_tokens
    assert sum(end - begin for begin, end in ranges) == computed
    assert whole.states.runs["r1"].metrics == before.states.runs["r1"].metrics
    assert whole.states.runs["r2"].metrics.computed_tokens == computed


def test_the_page_has_the_same_comparison() -> None:
    before, after = recordings(["a b c"], [f"a {HOSTILE} c"], ("s += 'b'\n1", "s += 'x'\n1"))
    whole = joined_runs(before, after)
    script = """
      const state = newState();
      for (const record of parseLines(given.join("\\n"))) apply(state, record);
      const { rerun, lines } = state.comparison;
      const facts = causesOfRerun(rerun).map(([id, begin]) =>
        rerunFacts(state, state.requests.get(id), begin)[0][1]);
      const tokens = [...state.runs.values()].map(({ metrics }) => metrics.prompt_tokens);
      return [linesOfRerun(rerun), textsOfRerun(rerun), facts, lines, tokens,
        comparedRows(state).length];"""
    lines, texts, facts, found, tokens, rows = node(script, FILES, whole.lines)
    rerun = whole.states.comparison.rerun
    assert rerun is not None
    assert [line[0] for line in lines] == list(rerun.line_marks) == ["-", "+", "="]
    assert [line[1] for line in lines] == [2, 2, 3]
    assert [text[2] for text in texts] == list(rerun.texts)
    assert len(facts) == len(rerun.causes) > 0 and rows == 2
    assert found == list(whole.states.comparison.lines)
    assert tokens == [run.metrics.prompt_tokens for run in whole.states.runs.values()]
    bundle = static_bundle([whole.states.comparison], "id")
    assert "changed lines" in bundle["text/plain"] and "\u202e" not in bundle["text/plain"]


def test_a_rerun_of_failed_rows_is_compared_with_the_same_rows() -> None:
    def row(program: Program, branch: str, city: str, answer: str, error: str = "") -> None:
        program.branch(branch)
        program.log.emit(events.ProgramCalled(program.run, branch, f"q={city!r}"))
        program.add(branch, f"The capital: {city}")
        list(program.gen(branch, "a", answer))
        program.branch(f"{branch}.0", branch)
        program.add(f"{branch}.0", f" next to {city}")
        program.end(f"{branch}.0")
        program.end(branch, error)

    def batch(engine: WordEngine, run: str) -> None:
        program = Program(engine, run, "ask", total=2 if run == "r2" else 4)
        if run == "r2":
            engine.log.emit(events.RowsNumbered("r2", (1, 3), "r1"))
            row(program, "0", "Oslo", " again")
            row(program, "1", "Bern", " again")
        else:
            for i, city in enumerate(("Rome", "Oslo", "Paris", "Bern")):
                row(program, str(i), city, " first", "no" if i % 2 and run == "r1" else "")
        program.finish()

    log, trees, saved = EventLog(), Trees(), []
    engine = WordEngine(log)
    for record in log.read().records:
        trees.apply(record)
    for run in ("r1", "r2", "r3"):
        feed, at = Feed(trees, log.now()), log.last
        batch(engine, run)
        records = log.read(at).records
        feed.push(records, 0)
        for record in records:
            trees.apply(record)
        saved.append(Recording(feed.lines, run))

    comparison = joined_runs(saved[0], saved[1]).states.comparison
    rerun, found = comparison.rerun, comparison.lines
    assert rerun is not None
    pieces = list(zip(rerun.text_branches, rerun.text_marks, rerun.texts, strict=True))
    assert {branch for branch, *_ in pieces} == {"1", "1.0", "3", "3.0"}
    changes = [(branch, mark, text) for branch, mark, text in pieces if mark != "="]
    expected = [(row, *change) for row in "13" for change in (("-", " first"), ("+", " again"))]
    assert changes == expected
    assert "2 rows of 2 with another answer: 1, 3" in found
    assert any("other rows keep text and answer" in line for line in found)
    assert not any("arguments" in cause for cause in rerun.causes)

    # the same rows of the next run of all rows; other rows of this run have no partner
    comparison = joined_runs(saved[1], saved[2]).states.comparison
    assert comparison.rerun is not None
    assert set(comparison.rerun.text_branches) == {"1", "1.0", "3", "3.0"}
    assert "2 rows of 4 with another answer: 1, 3" in comparison.lines
    assert not any("arguments" in cause for cause in comparison.rerun.causes)


@pytest.mark.parametrize("seed", range(30))
def test_a_diff_restores_both_sides(seed: int) -> None:
    rng = random.Random(seed)
    old, new = (rng.choices("abc", k=rng.randint(0, 12)) for _ in range(2))
    entries = list(_diff(old, new))
    assert [item for mark, _, item in entries if mark != "+"] == old
    assert [item for mark, _, item in entries if mark != "-"] == new
    for mark, index, item in entries:
        assert (old if mark == "-" else new)[index] == item


def test_a_recording_is_saved_and_opened(tmp_path: Any) -> None:
    before, after = recordings(["a b"], ["a c"])
    whole = joined_runs(before, after)
    opened = Recording.open(whole.save(tmp_path / "both.jsonl"))
    assert opened.text() == whole.text()
