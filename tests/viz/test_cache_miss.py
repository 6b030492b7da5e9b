"""Why a prompt was not found in the cache, on logs made by hand."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from sgnb import events
from sgnb.events import EventLog
from sgnb.viz.state.cache_miss import Lookup, difference, lookups
from sgnb.viz.state.token_table import TokenTable

from .make_log import HOSTILE, WordEngine


@pytest.fixture
def engine() -> WordEngine:
    return WordEngine(EventLog())


def play(steps: Iterable[None]) -> None:
    for _ in steps:
        pass


def ask(engine: WordEngine, prompt: str, output: str = " yes", **origin: str) -> Lookup:
    """Generate, and the look-up of that."""
    play(engine.generate(prompt, output, **origin))
    last = lookups(engine.log.read().records)[-1]
    assert last.cached_tokens + sum(r.tokens for r in last.reasons) == last.prompt_tokens
    return last


def kinds(lookup: Lookup) -> list[tuple[str, int]]:
    return [(reason.kind, reason.tokens) for reason in lookup.reasons]


def test_the_first_prompt_and_the_same_again(engine: WordEngine) -> None:
    first = ask(engine, "one two three four")
    assert kinds(first) == [("first", 3), ("last token", 1)] and first.nearest is None
    again = ask(engine, "one two three four")
    assert (again.cached_tokens, kinds(again)) == (3, [("last token", 1)])


def test_where_it_differs(engine: WordEngine) -> None:
    ask(engine, "one two three four five")
    found = ask(engine, "one two 3 four five")
    assert (found.cached_tokens, kinds(found)) == (2, [("differs", 2), ("last token", 1)])
    at = found.difference
    assert at is not None and found.nearest == 1
    assert (at.tokens, at.characters, at.more_text) == (2, 7, 1)
    assert (at.before, at.here[0], at.there[0]) == (("one", " two"), " 3", " three")
    assert "token 2 (character 7): ' 3' ' four' ' five' here" in found.reasons[0].text


def test_what_a_reorder_saves(engine: WordEngine) -> None:
    rules = " ".join(f"rule{i}" for i in range(10))
    ask(engine, f"Country: Spain {rules} Answer:")
    found = ask(engine, f"Country: Italy {rules} Answer:")
    at = found.difference
    assert at is not None and (at.tokens, at.reorder_tokens) == (2, 12)
    assert at.reorder_text == f" {rules} Answer:"
    assert "in front of the difference, up to 12 more tokens would be found" in at.line()

    # The promise holds: with the common part first, the second prompt finds the tokens.
    ask(engine, f"Country: {rules} Answer: Spain")
    moved = ask(engine, f"Country: {rules} Answer: Italy")
    assert moved.cached_tokens == found.cached_tokens + at.reorder_tokens
    short = difference((1, 2, 3, 4), (1, 9, 3, 4), TokenTable())
    assert (short.reorder_tokens, short.reorder_text) == (0, ""), "too few tokens to be worth it"


def test_what_was_evicted(engine: WordEngine) -> None:
    ask(engine, "one two three four")
    engine.evict(engine.leaves()[0])
    found = ask(engine, "one two three five")
    assert kinds(found) == [("evicted", 3), ("last token", 1)]
    assert "memory" in found.reasons[0].text


def test_what_another_had_not_computed_yet(engine: WordEngine) -> None:
    tokens = engine.encode("one two three four")
    for request in (1, 2):
        engine.log.emit(events.RequestQueued(request, "r", "0", "a", "generate", tokens))
    for request in (1, 2):
        engine.log.emit(events.RequestAdmitted(request, 0))
    found = lookups(engine.log.read().records)[-1]
    assert kinds(found) == [("computing", 3), ("last token", 1)]
    assert "not computed yet by request 1" in found.reasons[0].text
    engine.log.emit(events.RequestFinished(1, "stop", 4, 0, 0))
    engine.log.emit(events.RequestQueued(3, "r", "0", "a", "generate", tokens))
    engine.log.emit(events.RequestAdmitted(3, 0))
    kept = lookups(engine.log.read().records)[-1].reasons[0]
    assert "was not kept after request 1" in kept.text


def test_another_namespace(engine: WordEngine) -> None:
    tokens = engine.encode("one two three four")
    engine.log.emit(events.NodeAdded(7, 0, tokens, "request 1"))
    engine.log.emit(events.RequestQueued(2, "", "", "", "generate", tokens))
    engine.log.emit(events.RequestAdmitted(2, 0))
    found = lookups(engine.log.read().records)[-1]
    assert kinds(found) == [("namespace", 3), ("last token", 1)]


def test_what_is_scored(engine: WordEngine) -> None:
    ask(engine, "one two three four")
    tokens = engine.encode("one two three four")
    engine.log.emit(events.RequestQueued(9, "", "", "", "score", tokens))
    engine.log.emit(events.RequestAdmitted(9, 1))
    found = lookups(engine.log.read().records)[-1]
    assert kinds(found) == [("scored", 2), ("last token", 1)]
    longer = engine.encode("one two three four five six")
    for request in (10, 11):
        engine.log.emit(events.RequestQueued(request, "", "", "", "score", longer))
    for request in (10, 11):
        engine.log.emit(events.RequestAdmitted(request, 1))
    both = lookups(engine.log.read().records)[-2:]
    assert kinds(both[0]) == [("scored", 3), ("differs", 1), ("last token", 1)]
    assert kinds(both[1]) == [("scored", 4), ("last token", 1)], "side by side"


def test_of_a_run_or_of_a_branch_and_its_forks(engine: WordEngine) -> None:
    for run, branch in (("r1", "0"), ("r1", "0.1"), ("r1", "01"), ("r2", "0")):
        ask(engine, "one two", run=run, branch=branch, name="a")
    records = engine.log.read().records
    assert len(lookups(records)) == 4 and len(lookups(records, "r1")) == 3
    assert [found.branch for found in lookups(records, "r1", "0")] == ["0", "0.1"]
    assert lookups(records, "r2")[0].line() == "a of r2, branch 0 (4): 1 of 2 prompt tokens found"


def test_texts_that_are_alike_and_tokens_that_are_not() -> None:
    vocabulary = TokenTable()
    pieces = ("a", "b", "ab", "c")
    vocabulary.learn(events.TokensNamed((0, 1, 2, 3), pieces))
    found = difference((3, 0, 1, 3), (3, 2, 3), vocabulary)
    assert (found.tokens, found.characters, found.more_text) == (1, 1, 3)
    assert (found.here, found.there) == (("a", "b", "c"), ("ab", "c"))
    assert "the next 3 characters are equal, but the tokens differ" in found.line()
    same = difference((3, 0), (3, 0), vocabulary)
    assert (same.tokens, same.here, same.there) == (2, (), ()) and "the end here" in same.line()


def test_hostile_text_shows(engine: WordEngine) -> None:
    ask(engine, f"one {HOSTILE}")
    line = ask(engine, f"one two {HOSTILE}").reasons[0].text
    assert "\u202e" not in line and "\x00" not in line and "\n" not in line
