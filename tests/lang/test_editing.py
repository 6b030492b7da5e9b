"""Edits: another token, text or choice in a call, continued as a new run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgnb.engine.engine import Engine
from sgnb.errors import GrammarError, OptionError, ProgramError
from sgnb.events import GenerationDone, RequestQueued, RunEdited, StepRan
from sgnb.lang import ProgramState, Run, function, gen, select
from tests.lang.test_stepping import started, wait_until
from tests.viz.random_programs import random_program

from ..byte_tokenizers import byte_level
from ..random_models import random_model


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    import sgnb.backends  # noqa: F401  # lets programs run on engines

    with Engine("tiny", context_length=4096, max_total_tokens=20000) as engine:
        yield engine


@function
def story(s: Any) -> None:
    s += "Once" + gen("a", max_tokens=12, ignore_eos=True)
    s += "." + gen("b", max_tokens=9, ignore_eos=True)


@function
def branches(s: Any) -> None:
    s += "The sky is" + select("color", [" blue", " red"])
    fork = s.fork(2)
    fork += [" by day:", " by night:"]
    fork += gen("why", max_tokens=5, regex=r"( [a-z]+){1,3}\.")
    fork.join()
    s += " In short:" + gen("short", max_tokens=4, ignore_eos=True)


def events_of(engine: Engine, after: int, kind: type) -> list[Any]:
    return [r.event for r in engine.log.read(after).records if isinstance(r.event, kind)]


def test_an_edited_token_changes_the_rest(engine: Engine) -> None:
    state = story.run(backend=engine, temperature=0)
    text, point = state.text(), state.at("a", 2)
    after = engine.log.last
    edited = point.fork(" dragons")
    tokens = state.get_meta_info("a")["token_ids"]
    assert edited.get_meta_info("a")["token_ids"][:2] == tokens[:2]
    before = "".join(engine.executor.token_texts(tokens[:2]))
    assert edited["a"].startswith(f"{before} dragons") and edited["a"] != state["a"]
    assert edited.text().startswith(f"Once{before} dragons")
    assert state.text() == text and edited.run_id != state.run_id
    [event] = events_of(engine, after, RunEdited)
    assert event == RunEdited(
        edited.run_id, state.run_id, "0", "0", "a", point.position, " dragons"
    )


def test_only_the_edited_tokens_are_computed(engine: Engine) -> None:
    state = story.run(backend=engine, temperature=0)
    state.text()
    after = engine.log.last
    state.at("b", 3).fork(" dragons").text()
    queued = events_of(engine, after, RequestQueued)
    assert [event.name for event in queued] == ["b"]  # the result of "a" is recorded
    assert [event.recorded for event in events_of(engine, after, GenerationDone)] == [True, False]
    [extended, *_] = events_of(engine, after, StepRan)[0].extended
    assert extended.length == queued[0].num_given - 3


@pytest.mark.slow
def test_an_edit_in_a_long_output_computes_few_tokens() -> None:
    @function
    def long(s: Any) -> None:
        s += "Once" + gen("a", max_tokens=1000, ignore_eos=True)

    model = random_model(vocab_size=400, num_hidden_layers=1, max_position_embeddings=1100)
    with Engine(model, tokenizer=byte_level()) as engine:
        state = long.run(backend=engine, temperature=0)
        assert len(state.get_meta_info("a")["token_ids"]) == 1000
        after = engine.log.last
        edited = state.at("a", 500).fork("Tokyo")
        assert edited.get_meta_info("a")["completion_tokens"] == 1000
        [extended, *_] = events_of(engine, after, StepRan)[0].extended
        assert extended.length <= 16


def test_edits_at_a_position(engine: Engine) -> None:
    state = story.run(backend=engine, temperature=0)
    ids = state.token_ids()
    point = state.at("b", 1)
    same = state.at(point.position)
    assert (same.name, same.token, same.text) == ("b", point.token, point.text)
    assert ids[point.position] == point.token
    assert state.at("b", -8).position == point.position
    assert state.program.run.at("b", 1).position == point.position
    for place, token in [(0, None), ("b", 9), ("b", -10), ("c", 0), (len(ids), None)]:
        with pytest.raises(OptionError):
            state.at(place, token)
    with pytest.raises(OptionError, match=r"token=3 has no effect: .* is a position"):
        state.at(point.position, 3)


def test_a_grammar_rejects_an_edit_with_the_reason(engine: Engine) -> None:
    @function
    def answer(s: Any) -> None:
        s += "Yes or no? " + gen("a", max_tokens=8, regex="(yes|no), [a-z]+!")

    state = answer.run(backend=engine, temperature=0)
    text = state["a"]
    edited = state.at("a", 0).fork("maybe")
    with pytest.raises(GrammarError, match=r"forbids 'm.*' as output token 0") as error:
        edited["a"]
    assert "allowed: 'n'" in str(error.value) and "gen 'a'" in str(error.value.__notes__)
    other = "no" if text.startswith("yes") else "yes"
    assert state.at("a", 0).fork(other)["a"].startswith(f"{other}, ")


def test_another_choice(engine: Engine) -> None:
    state = branches.run(backend=engine, temperature=0)
    other = " red" if state["color"] == " blue" else " blue"
    edited = state.at("color").fork(other)
    assert edited["color"] == other and edited.text().startswith(f"The sky is{other}")
    assert {choice.text for choice in state.at("color").alternatives} == {" blue", " red"}
    with pytest.raises(OptionError, match="choose one of ' blue', ' red'"):
        state.at("color").fork(" green")
    with pytest.raises(OptionError, match="token=5 has no effect: 'color' is a select"):
        state.at("color", 5)


def test_an_edit_in_a_fork(engine: Engine) -> None:
    state = branches.run(backend=engine, temperature=0)
    state.text()
    children = [b for b in state.program.branches if b.parent is not None]
    after = engine.log.last
    edited = ProgramState(children[1]).at("why", 0).fork(" the moon.")
    assert edited["why"][0] == state["why"][0]
    assert edited["why"][1].startswith(" the moon.") and edited["short"]
    assert [event.name for event in events_of(engine, after, RequestQueued)] == ["why", "short"]


def test_an_edit_of_a_paused_run(engine: Engine) -> None:
    expected = story.run(backend=engine, temperature=0)["a"]
    state = started(story, engine)
    run = state.program.run
    wait_until(lambda: run.paused)
    for _ in range(4):
        run.step()
    tokens = state.at("a", 0)._output
    assert 0 < len(tokens) < 12
    edited = state.at("a", 1).fork(" dragons")
    assert " dragons" in edited["a"] and edited.text()
    assert run.paused and not edited.program.run.paused
    run.resume()
    assert state["a"] == expected


def test_an_edit_of_an_edit(engine: Engine) -> None:
    state = story.run(backend=engine, temperature=0)
    first = state.at("a", 1).fork(" cats")
    second = first.at("b", 1).fork(" dogs")
    assert second["a"] == first["a"] and " dogs" in second["b"]


def test_a_longer_edit_ends_at_the_limit(engine: Engine) -> None:
    state = story.run(backend=engine, temperature=0)
    tokens = state.get_meta_info("a")["token_ids"]
    new = engine.encode([" dragons and knights of the old world"])[0]
    assert len(tokens) == 12 and len(new) > 4
    for index in (11, 8):
        edited = state.at("a", index).fork(" dragons and knights of the old world")
        meta = edited.get_meta_info("a")
        assert meta["token_ids"] == [*tokens[:index], *new[: 12 - index]]
        assert meta["finish_reason"]["type"] == "length"
        assert edited.text().startswith(f"Once{edited['a']}.") and edited["b"]


def test_edits_that_are_not_possible(engine: Engine) -> None:
    with Run(engine.executor) as run:
        s = run.state()
        s += "Once" + gen("a", max_tokens=2, ignore_eos=True)
        with pytest.raises(OptionError, match="cannot run again"):
            s.at("a", 0).fork("x")
    state = story.run(backend=engine, temperature=0)
    point = state.at("a", 0)
    for wrong in ({}, {"text": "a", "token": 3}, {"text": 3}, {"token": -1}):
        with pytest.raises(OptionError):
            point.fork(**wrong)

    words = iter(["Once", "Twice"])

    @function
    def changing(s: Any) -> None:
        s += next(words) + gen("a", max_tokens=2, ignore_eos=True)

    state = changing.run(backend=engine, temperature=0)
    with pytest.raises(ProgramError, match="the prompt of 'a' differs"):
        state.at("a", 0).fork("x")["a"]

    calls = iter([True, False])

    @function
    def sometimes(s: Any) -> None:
        s += "Once"
        if next(calls):
            s += gen("a", max_tokens=2, ignore_eos=True)

    state = sometimes.run(backend=engine, temperature=0)
    with pytest.raises(ProgramError, match="did not reach the edited call 'a'"):
        state.at("a", 0).fork("x").sync()


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 10_000), st.data())
def test_an_edit_to_the_same_token_changes_nothing(
    engine: Engine, seed: int, data: st.DataObject
) -> None:
    program = random_program(seed, forks=seed % 2 == 1)
    state = program.run(backend=engine, temperature=0)
    text, variables = state.text(), dict(state._branch.variables)
    calls = [call for branch in state.program.branches for call in branch.calls]
    for call in data.draw(st.permutations(calls))[:3]:
        holder, place = ProgramState(call.branch), call.op.name
        if isinstance(call.request, tuple):
            edited = holder.at(place).fork(holder.at(place).text)
        else:
            point = holder.at(place, data.draw(st.integers(0, len(call.output()) - 1)))
            edited = point.fork(token=point.token)
        assert edited.text() == text
        assert edited._branch.variables == variables


def test_an_edit_of_a_row(engine: Engine) -> None:
    @function
    def about(s: Any, topic: str) -> None:
        s += f"A story about a {topic}." + gen("a", max_tokens=8, ignore_eos=True)

    states = about.run_batch([{"topic": t} for t in ("cat", "king")], backend=engine, temperature=0)
    edited = states[1].at("a", 2).fork(" cats")
    assert edited.text().startswith("A story about a king.") and " cats" in edited["a"]
    assert edited.program.run.total == 1
    with pytest.raises(OptionError, match="has 2 programs"):
        states[1].program.run.at("a", 0)


def test_edits_of_compiled_and_async_programs(engine: Engine) -> None:
    expected = story.run(backend=engine, temperature=0).at("a", 1).fork(" cats").text()
    assert story.compile().run(backend=engine, temperature=0).at("a", 1).fork(" cats").text() == (
        expected
    )

    @function
    async def waiting(s: Any) -> None:
        s += "Once" + gen("a", max_tokens=12, ignore_eos=True)
        s += ("." if await s["a"] else "") + gen("b", max_tokens=9, ignore_eos=True)

    state = waiting.run(backend=engine, temperature=0)
    assert state.at("a", 1).fork(" cats").text() == expected


def test_samples_and_other_backends_have_no_edits(engine: Engine) -> None:
    @function
    def two(s: Any) -> None:
        s += "Once" + gen("a", max_tokens=4, n=2)

    state = two.run(backend=engine, temperature=0)
    with pytest.raises(OptionError, match="'a' has 2 samples"):
        state.at("a", 0)


def test_an_end_token_can_be_edited(engine: Engine) -> None:
    end_id = story.run(backend=engine, temperature=0).at("a", 5).token

    @function
    def short(s: Any) -> None:
        s += "Once" + gen("a", max_tokens=40, stop_token_ids=[end_id])

    state = short.run(backend=engine, temperature=0)
    assert state.get_meta_info("a")["finish_reason"]["type"] == "stop"
    end = state.at("a", -1)
    edited = end.fork(" And then")
    assert edited["a"].startswith(state["a"] + " And then")
    ended = state.at("a", 1).fork(token=end.token)
    tokens = state.get_meta_info("a")["token_ids"]
    assert ended.get_meta_info("a")["token_ids"] == [tokens[0], end.token]
    assert ended.get_meta_info("a")["finish_reason"]["type"] == "stop"


def test_alternatives_of_a_token(engine: Engine) -> None:
    options: dict[str, Any] = {"return_logprob": True, "top_logprobs_num": 3}
    state = story.run(backend=engine, temperature=0, **options)
    alternatives = state.at("a", 1).alternatives
    assert len(alternatives) == 3 and alternatives[0].text == state.at("a", 1).text
    assert 1 >= alternatives[0].probability >= alternatives[1].probability > 0
    edited = state.at("a", 1).fork(token=alternatives[1].token)
    assert edited.get_meta_info("a")["token_ids"][1] == alternatives[1].token
    assert len(edited.get_meta_info("a")["output_token_logprobs"]) == 12


def test_an_edit_of_a_partial_text(engine: Engine) -> None:
    @function
    def long(s: Any) -> None:
        s += "Once" + gen("a", max_tokens=500, ignore_eos=True)

    state = long.run(backend=engine, temperature=0, stream=True)
    assert next(state.text_iter("a"))
    state.cancel()
    state.wait()
    assert len(state.get_meta_info("a")["token_ids"]) < 500
    edited = state.at("a", 0).fork(" dragons")
    assert next(edited.text_iter("a"))
    edited.cancel()
    assert edited["a"].startswith(" dragons")
