"""Programs that reserve what they hold at most of a small cache: none of their requests is
retracted, and each gives its share back, however it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import sgnb as sgl
from sgnb.errors import SgnbError
from sgnb.events import RequestRetracted
from sgnb.lang import function

from .fake import FakeExecutor

POOL = 300
TEXTS = [f"Document {i}. The cat sat on the mat." for i in range(8)]


@pytest.fixture(scope="module")
def engine() -> Iterator[Any]:
    with sgl.Engine("tiny", max_total_tokens=POOL, reserve=True) as engine:
        yield engine


def write(name: str, tokens: int = 24) -> Any:
    return sgl.gen(name, max_tokens=tokens, ignore_eos=True)


@function
def program(s: Any, text: str) -> None:
    s += text + "\nFirst:" + write("first")
    forks = s.fork(2)
    forks += lambda i: f"\n{i}:" + write("more")
    forks.join()
    s += sgl.select("choice", [" yes", " no"])


def retractions(engine: Any, work: Callable[[], Any]) -> tuple[int, Any]:
    """How many there were, and what the work gave, from an empty cache."""
    engine.flush_cache()
    before = engine.log.read().records
    result = work()
    records = engine.log.read(before[-1].seq if before else 0).records
    return sum(isinstance(record.event, RequestRetracted) for record in records), result


def wait_until_free(engine: Any) -> None:
    """Until no program has a share of the cache: that is told to the engine in passing."""
    admission, deadline = engine._scheduler.admission, time.monotonic() + 20
    while admission.reserved or len(admission):
        assert time.monotonic() < deadline, "a program kept its share"
        time.sleep(0.01)


def test_a_batch_that_would_retract_does_not(engine: Any) -> None:
    rows = [(text,) for text in TEXTS]
    options: dict[str, Any] = {"backend": engine, "temperature": 0}
    compiled = program.compile()
    often, interpreted = retractions(engine, lambda: program.run_batch(rows, **options))
    never, planned = retractions(engine, lambda: compiled.run_batch(rows, **options))
    assert often > 0
    assert never == 0
    assert [one.text() for one in planned] == [one.text() for one in interpreted]
    wait_until_free(engine)


def test_many_runs_at_once(engine: Any) -> None:
    compiled = program.compile()

    def run(text: str) -> str:
        return str(compiled.run(text, backend=engine, temperature=0).text())

    with ThreadPoolExecutor(len(TEXTS)) as pool:
        never, texts = retractions(engine, lambda: list(pool.map(run, TEXTS)))
    assert never == 0
    assert texts == [run(text) for text in TEXTS]
    wait_until_free(engine)


def test_called_programs_have_the_share_of_who_calls_them(engine: Any) -> None:
    """Else they would wait for each other: all callers are admitted, and none of their calls."""

    @function
    def outer(s: Any, text: str) -> None:
        made = [program.run(f"{i} {text}", temperature=0, backend=engine) for i in range(2)]
        s += "Notes: " + " ".join(one["first"] for one in made) + write("end")

    never, states = retractions(
        engine, lambda: outer.compile().run_batch([(t,) for t in TEXTS[:4]], backend=engine)
    )
    assert never == 0
    assert all(state["end"] for state in states)
    wait_until_free(engine)


def test_another_engine_knows_no_reservation(engine: Any) -> None:
    """It is told of no program's end: its requests would wait for ever."""
    with sgl.Engine("tiny", max_total_tokens=100, reserve=True) as other:

        @function
        def drafted(s: Any, text: str) -> None:
            s += text + sgl.gen("draft", max_tokens=24, ignore_eos=True, backend=other)
            s += write("final", 60) + sgl.select("choice", [" yes", " no"], backend=other)

        states = drafted.compile().run_batch([(text,) for text in TEXTS], backend=engine)
        assert all(state["choice"] for state in states)
        wait_until_free(engine)
        assert other._scheduler.admission.reserved == 0


def test_a_method_that_runs_a_program_has_the_share_of_its_select(engine: Any) -> None:
    """Else it would wait for the end of the programs that wait for it."""

    @function
    def judge(s: Any, text: str) -> None:
        s += "How good is this? " + text + write("grade", 40)

    judging = judge.compile()

    def judged(choices: Any) -> list[float]:
        assert judging.run("The dog.", backend=engine)["grade"]
        return sgl.token_length_normalized(choices)

    @function
    def picked(s: Any, text: str) -> None:
        s += text + write("first", 60)
        s += sgl.select("choice", [" yes", " no"], choices_method=judged)

    states = picked.compile().run_batch([(text,) for text in TEXTS], backend=engine)
    assert all(state["choice"] for state in states)
    wait_until_free(engine)


def test_longer_generations_of_a_later_run_are_reserved(engine: Any) -> None:
    @function
    def short(s: Any, text: str) -> None:
        s += text + sgl.gen("answer", ignore_eos=True)

    compiled, rows = short.compile(), [(text,) for text in TEXTS]
    compiled.run_batch(rows, backend=engine, max_new_tokens=4)
    never, _ = retractions(
        engine, lambda: compiled.run_batch(rows, backend=engine, max_new_tokens=60)
    )
    assert never == 0
    wait_until_free(engine)


def test_one_larger_than_the_cache_runs_alone(engine: Any) -> None:
    @function
    def large(s: Any, text: str, number: int) -> None:
        s += text
        forks = s.fork(number)
        forks += lambda i: f"\n{i}:" + write("more", 30)
        forks.join()

    small, big = large.compile(number=1), large.compile(number=12)
    assert big.bounds(TEXTS[0], backend=engine).slots > POOL
    with ThreadPoolExecutor(6) as pool:
        runs = [
            pool.submit(one.run, text, backend=engine, temperature=0)
            for text, one in zip(TEXTS, [small, small, big, small, big, small], strict=False)
        ]
        assert [len(run.result()["more"]) for run in runs] == [1, 1, 12, 1, 12, 1]
    wait_until_free(engine)


def test_a_program_that_fails_gives_its_share_back(engine: Any) -> None:
    @function
    def failing(s: Any, text: str) -> None:
        s += text + write("first")
        s += sgl.gen("second", stop_token_ids=[10**6])

    compiled = failing.compile()
    with pytest.raises(SgnbError):
        compiled.run_batch([(text,) for text in TEXTS], backend=engine)
    wait_until_free(engine)


def test_a_stopped_batch_gives_its_shares_back(engine: Any) -> None:
    compiled = program.compile()
    states = compiled.run_batch(
        ({"text": text} for text in TEXTS * 2), backend=engine, generator_style=True
    )
    next(states)
    states.close()
    wait_until_free(engine)
    assert compiled.run(TEXTS[0], backend=engine)["choice"]


def test_rows_that_begin_alike_begin_next_to_one_another() -> None:
    @function
    def ask(s: Any, question: str, text: str) -> None:
        s += text + "\nQ: " + question + "\nA:" + sgl.gen("answer")

    executor = FakeExecutor()
    rows = [(question, text) for question in ("who?", "why?", "how?") for text in ("b", "a", "c")]
    states = ask.compile().run_batch(rows, backend=executor)
    begun = [call.prompt[0] for call in executor.calls]
    assert begun == [*"bbbaaaccc"]
    assert [state.text()[: state.text().index("?") + 1] for state in states] == [
        f"{text}\nQ: {question}" for question, text in rows
    ]
    executor.calls.clear()
    list(ask.compile().run_batch(rows, backend=executor, generator_style=True))
    assert [call.prompt[0] for call in executor.calls] == [*"bacbacbac"]


def test_where_all_fit_nothing_is_reserved(engine: Any) -> None:
    seen = []
    enter = engine._scheduler.admission.enter
    engine._scheduler.admission.enter = lambda request: seen.append(request) or enter(request)
    try:
        program.compile().run_batch([("Hi",), ("Ho",)], backend=engine)
        assert not seen
        program.compile().run_batch([(text,) for text in TEXTS], backend=engine)
        assert seen
    finally:
        engine._scheduler.admission.enter = enter
