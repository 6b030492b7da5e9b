"""`approximate=True` of programs: records by variable, batches, forks, and refusals."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sgnb.engine import Engine
from sgnb.errors import OptionError
from sgnb.lang import ProgramState, Snapshot, function, gen
from sgnb.magics.why import WhyReport
from sgnb.viz.state.cache_miss import lookups

DOCUMENT = "".join(f"On day {i} the harbour master saw ship {i * 37 % 101}. " for i in range(60))


@function
def ask(s: ProgramState, title: str, question: str) -> None:
    s += f"{title}. {DOCUMENT}{question}"
    s += gen("answer", max_tokens=6)
    s += " And then?"
    s += gen("more", max_tokens=4)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine("tiny", approximate_seconds=0, max_total_tokens=8192) as engine:
        yield engine


@pytest.fixture
def document(engine: Engine) -> Engine:
    """The engine with one cached run only."""
    engine.flush_cache()
    state = ask.run("A log", "Which ship came first?", backend=engine, temperature=0)
    assert state.approximate == {}
    return engine


def test_each_answer_has_a_record(document: Engine) -> None:
    options = {"backend": document, "temperature": 0}
    state = ask.run("The oldest log", "Which ship came first?", approximate=True, **options)
    records = state.approximate
    assert list(records) == ["answer", "more"]
    assert state.get_meta_info("answer")["approximate"] is records["answer"]
    for record in records.values():
        assert record.computed_tokens < 0.2 * record.prompt_tokens
        assert record.wait(60) is True, record
    exact = ask.run("The oldest log", "Which ship came first?", **options)
    assert exact.text() == state.text() and exact.approximate == {}


def test_reused_tokens_are_not_computed_tokens(document: Engine) -> None:
    state = ask.run("The new log", "Which?", backend=document, temperature=0, approximate=True)
    record = state.approximate["answer"]
    lookup = lookups(document.log.read().records, state.run_id)[0]
    tokens = {reason.kind: reason.tokens for reason in lookup.reasons}
    assert tokens["reused"] == record.reused_tokens > 100
    total = lookup.cached_tokens + sum(reason.tokens for reason in lookup.reasons)
    assert total == lookup.prompt_tokens == record.prompt_tokens
    assert sum(row["computed"] for row in WhyReport([lookup]).table()) == record.computed_tokens


@pytest.mark.slow
def test_a_batch_and_several_samples(document: Engine) -> None:
    rows = [{"title": f"Copy {i}", "question": "Which ship came last?"} for i in range(3)]
    states = ask.run_batch(rows, backend=document, temperature=0, approximate=True)
    for state in states:
        assert state.approximate["answer"].wait(60) is True

    samples = ask.run("Other", "Who?", backend=document, n=2, approximate=True).approximate
    assert [record.wait(60) for record in samples["answer"]] == [True, True]


def test_a_fork_and_a_snapshot(document: Engine) -> None:
    @function
    def branches(s: ProgramState, title: str) -> None:
        s += f"{title}. {DOCUMENT}"
        for fork in (forks := s.fork(2)):
            fork += "Which ship came first?" + gen("answer", max_tokens=4)
        forks.join()

    state = branches.run("A new log", backend=document, temperature=0, approximate=True)
    records = state.approximate["answer"]
    assert [record.wait(60) for record in records] == [True, True]
    copy = Snapshot.from_json(state.snapshot().to_json())
    assert copy.variables == state.snapshot().variables


def test_a_compiled_program(document: Engine) -> None:
    compiled = ask.compile()
    state = compiled.run(
        "A later log", "Which ship?", backend=document, temperature=0, approximate=True
    )
    assert state.approximate["answer"].wait(60) is True


def test_a_wrong_value_is_refused(engine: Engine) -> None:
    with pytest.raises(OptionError, match="approximate"):
        ask.run("t", "q", backend=engine, approximate="often")
