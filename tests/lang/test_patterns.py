"""Higher words: what they keep, return and ask, and that forks share what the state holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import sgnb
from sgnb.backends import LocalExecutor
from sgnb.errors import ProgramError, RequestError
from sgnb.lang import (
    Run,
    beam_search,
    best_of_n,
    function,
    gen,
    judge,
    majority_vote,
    map_over,
    retry,
    select,
    tree_search,
    user,
)


def letters(call: Any) -> str:
    """One letter for each seed."""
    return "abcdefgh"[call.params.seed or 0]


@pytest.fixture(scope="module")
def engine() -> Iterator[Any]:
    with sgnb.Engine("tiny") as engine:
        yield engine


@pytest.fixture
def s(make: Any) -> Iterator[Any]:
    with Run(make(letters)) as run:
        s = run.state()
        s += "start:"
        yield s


def test_keep_goes_on_as_a_fork(s: Any) -> None:
    group = s.fork(2)
    group += lambda i: user("q") + gen("x", seed=i)
    group[1]["note"] = "n"
    [inner] = group[1].fork(1)
    inner += "!" + gen("y", seed=2)
    s.keep(inner)
    s += gen("z")
    assert s.text() == "start:" + group[1].text()[6:] + "a"
    assert s.text().endswith("b!ca")
    assert (s["x"], s["note"], s["y"], s["z"]) == ("b", "n", "c", "a")
    assert s.get_meta_info("y")["length"] == 1
    assert s.messages() == [{"role": "user", "content": "q"}]
    assert group[0]["x"] == "a"
    with pytest.raises(ProgramError, match="was not forked from"):
        group[0].keep(s)
    with pytest.raises(ProgramError, match="joined"):
        inner += "more"


def test_keep_leaves_a_role_open(s: Any) -> None:
    [fork] = s.fork(1)
    with fork.user():
        fork += "in "
        [inner] = fork.fork(1)
        inner += "side"
        fork.keep(inner)
    [last] = s.fork(1)
    last += sgnb.assistant_begin() + gen("x")
    s.keep(last)
    s += "." + sgnb.assistant_end()
    assert fork.messages() == [{"role": "user", "content": "in side"}]
    assert s.messages() == [{"role": "assistant", "content": "a."}]


def test_best_of_n(s: Any) -> None:
    order = "cadb"
    scores = best_of_n(
        s, 4, lambda i: gen("x", seed=i), score=lambda branch: order.index(branch["x"])
    )
    assert scores == [1.0, 3.0, 0.0, 2.0]
    assert (s.text(), s["x"]) == ("start:b", "b")


def test_a_score_that_the_model_gives_leaves_nothing(s: Any) -> None:
    scores = best_of_n(
        s,
        3,
        lambda i: gen("x", seed=i),
        score=lambda branch: (
            " grade " + select("g", ["1", "2"] if branch["x"] == "b" else ["0.5", "none"])
        ),
    )
    assert scores == [0.5, 1.0, 0.5]
    assert s.text() == "start:b" and "g" not in s


def test_majority_vote(s: Any) -> None:
    seeds = [4, 2, 3, 2, 3]
    step = lambda i: "The " + gen("x", seed=seeds[i])  # noqa: E731
    assert majority_vote(s, 5, step, vote=lambda b: b["x"].upper()) == Counter("ECDCD")
    assert s.text() == "start:The c"


def test_judge(make: Any) -> None:
    likely = make(letters, logprobs=lambda text: [-0.1 if text == "yes" else -3.0] * len(text))
    with Run(likely) as run:
        s = run.state()
        s += "text"
        first, second = judge(s, ["ab", "cd"], "? ", grades=["no", "yes"])
        assert 1.9 < first == second < 2
        chat = lambda text: user(text) + sgnb.assistant_begin()  # noqa: E731
        [third] = judge(s, ["ab"], chat, grades=["yes", "no"])
        assert third == pytest.approx(3 - first)
        assert judge(s, [], "?") == []
        assert s.text() == "text"
    assert likely.calls[0].prompt == "textab? "


def test_map_over(s: Any) -> None:
    map_over(s, range(3), lambda i: f"{i}" + gen("x", seed=i))
    map_over(s, [], lambda i: gen("never"))
    assert (s["x"], s.text(), "never" in s) == (["a", "b", "c"], "start:", False)


def test_retry(s: Any) -> None:
    step = lambda i: gen("x", seed=i)  # noqa: E731
    assert retry(s, step, valid=lambda b: b["x"] == "c") == 3
    assert s.text() == "start:c"
    assert retry(s, gen("n"), valid=lambda b: int(b["n"], 16), tries=1) == 1
    with pytest.raises(ProgramError, match="none of 2 tries") as caught:
        retry(s, step, valid=lambda b: int(b["x"]), tries=2)
    assert "'b'" in str(caught.value.__cause__)
    assert s.text() == "start:ca"


def test_retry_is_no_cure_for_a_refused_request(make: Any) -> None:
    executor = make(lambda call: RequestError("too long"))

    @function
    def program(s: Any) -> None:
        retry(s, gen("x"), valid=lambda b: b["x"])

    with pytest.raises(RequestError, match="too long"):
        program.run(backend=executor)
    assert len(executor.calls) == 1


def test_a_score_that_is_no_number(s: Any) -> None:
    with pytest.raises(ProgramError, match=r"test_patterns\.py:\d+: the score None is no number"):
        best_of_n(s, 2, gen("x"), score=lambda b: None)  # type: ignore[arg-type, return-value]


def test_retry_with_feedback(s: Any) -> None:
    step = lambda i: gen("x", seed=i)  # noqa: E731
    valid = lambda b: b["x"] == "b"  # noqa: E731
    assert retry(s, step, valid, feedback=lambda b: f" not {b['x']}; ") == 2
    assert (s.text(), s["x"]) == ("start:a not a; b", "b")


def value(branch: Any) -> float:
    """Of the letters so far; the greedy first letter, c, ends badly."""
    return {"a": 2, "b": 1, "c": 3, "bc": 9, "ab": 5}.get(branch.text()[6:], 0)


def test_beam_search(s: Any, make: Any) -> None:
    def propose(branch: Any) -> list[Any]:
        return [gen(f"x{len(branch.text())}", seed=i) for i in range(3)]

    assert beam_search(s, propose, value, width=3, depth=2) == 9
    assert (s.text(), s["x6"], s["x7"]) == ("start:bc", "b", "c")
    with Run(make(letters)) as run:
        narrow = run.state()
        narrow += "start:"
        assert beam_search(narrow, propose, value, width=2, depth=2) == 5
        assert narrow.text() == "start:ab"


def test_beams_that_end_stay(s: Any) -> None:
    assert beam_search(s, lambda b: [] if len(b.text()) > 6 else ["c", "a"], value, depth=9) == 3
    assert s.text() == "start:c"
    assert beam_search(s, lambda b: [], value) == 0
    assert s.text() == "start:c"


def test_tree_search(s: Any) -> None:
    opened = []

    def propose(branch: Any) -> list[Any]:
        opened.append(branch.text()[6:])
        return ["a", "b", "c"] if len(branch.text()) < 8 else []

    assert tree_search(s, propose, value, solved=lambda b: b.text() == "start:bc")
    assert s.text() == "start:bc"
    assert opened == ["", "c", "a", "ab", "b"]


@pytest.mark.parametrize("budget", [3, 100])
def test_a_tree_without_a_solution(s: Any, budget: int) -> None:
    steps = lambda b: list("abc") if len(b.text()) < 8 else []  # noqa: E731
    assert not tree_search(s, steps, value, solved=lambda b: False, budget=budget)
    assert s.text() == ("start:ab" if budget == 3 else "start:bc")


PREFIX = "The quick brown fox jumps over the lazy dog. " * 40
calls: list[Any] = []


@pytest.mark.slow
@pytest.mark.parametrize(
    "word",
    [
        lambda s: best_of_n(s, 6, lambda i: gen("x", seed=i), score=lambda b: len(b["x"])),
        lambda s: majority_vote(s, 6, lambda i: gen("x", seed=i), vote=lambda b: b["x"]),
        lambda s: judge(s, [" Good.", " Bad.", " Middling."], " Grade: "),
        lambda s: map_over(s, "abcdef", lambda item: f"{item}: " + gen("x")),
        lambda s: retry(s, lambda i: gen("x", seed=i), lambda b: calls.append(b) or len(calls) > 2),
        lambda s: beam_search(
            s, lambda b: [gen(f"x{len(b.text())}", seed=i) for i in range(3)], lambda b: 1, depth=2
        ),
        lambda s: tree_search(
            s,
            lambda b: [gen(f"x{len(b.text())}", seed=i) for i in range(2)],
            lambda b: " It is " + select("grade", ["1", "2"]),
            solved=lambda b: False,
            budget=3,
        ),
    ],
)
def test_the_prefix_is_computed_once(engine: Any, word: Any) -> None:
    calls.clear()
    engine.flush_cache()
    before = engine.stats()["computed_tokens"]
    with Run(LocalExecutor(engine), defaults={"max_new_tokens": 4}) as run:
        s = run.state()
        s += PREFIX
        word(s)
    prefix = len(engine.encode([PREFIX])[0])
    assert prefix > 300
    assert prefix <= engine.stats()["computed_tokens"] - before < 1.4 * prefix


def test_what_is_kept_is_found_again(engine: Any) -> None:
    """The tokens of the winner, not only its text."""
    with Run(LocalExecutor(engine), defaults={"max_new_tokens": 8, "temperature": 1}) as run:
        s = run.state()
        s += PREFIX
        best_of_n(s, 4, lambda i: gen("x", seed=i), score=lambda b: len(b["x"]))
        s += " And " + gen("y")
    x, y = s.get_meta_info("x"), s.get_meta_info("y")
    assert y["cached_tokens"] >= x["prompt_tokens"] + x["completion_tokens"] - 1
