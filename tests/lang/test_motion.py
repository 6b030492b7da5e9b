"""Code motion: constant paragraphs of prompts before paragraphs with arguments."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sgnb as sgl
from sgnb.errors import OptionError, TraceError
from sgnb.lang import CompiledProgram, Graph, function

from .fake import FakeExecutor
from .test_graph import line_of


@function
def review(s: Any, text: str, mood: str = "kind") -> Any:
    s += "Text: " + text
    s += "\n\n"
    s += "Write a review of the text in ten words."
    s += "\n\nMood: " + mood
    s += "\n\nReview:" + sgl.gen("review")
    return s["review"]


MARK = ["Write a review"]
MOVED = "Write a review of the text in ten words."


def test_a_marked_paragraph_comes_first(fake: FakeExecutor) -> None:
    motion = review.moved(by=MARK, backend=fake)
    assert motion.before == f"Text: {{text}}\n\n{MOVED}\n\nMood: {{mood}}\n\nReview:"
    assert motion.after == f"{MOVED}\n\nText: {{text}}\n\nMood: {{mood}}\n\nReview:"
    assert (motion.tokens_before, motion.tokens_after, motion.gained) == (6, 48, 42)
    assert f"+{MOVED}" in str(motion) and "6 -> 48 tokens" in str(motion)
    compiled = CompiledProgram(Graph.from_json(motion.graph.to_json()))
    state = compiled.run(text="a", backend=fake)
    assert fake.calls[0].prompt == f"{MOVED}\n\nText: a\n\nMood: kind\n\nReview:"
    assert state.ret_value == state["review"]
    lines = [node.location.line for node in motion.graph.nodes if node.label() == repr(MOVED)]
    assert lines == [line_of(review, "in ten words")]


def test_compile_moves(fake: FakeExecutor) -> None:
    review.compile(move="Write", backend=fake).run(text="a", backend=fake).sync()
    assert fake.calls[0].prompt.startswith(MOVED)
    with pytest.raises(OptionError, match="True cannot run programs"):
        review.compile(move=True, backend=fake)


def test_an_argument_with_a_value_is_constant(fake: FakeExecutor) -> None:
    motion = review.moved(by=[*MARK, "Mood: sad"], backend=fake, mood="sad")
    assert motion.after == f"{MOVED}\n\nMood: sad\n\nText: {{text}}\n\nReview:"


@pytest.mark.parametrize("mark", ["Read", "Mood", "Text", ""])
def test_a_mark_names_one_constant_paragraph(mark: str, fake: FakeExecutor) -> None:
    with pytest.raises(TraceError, match="does not begin exactly one block without arguments"):
        review.moved(by=[mark], backend=fake)


def test_the_last_paragraph_stays_last(fake: FakeExecutor) -> None:
    with pytest.raises(TraceError, match="the last block must stay last"):
        review.moved(by=["Review:"], backend=fake)


@function
def in_a_role(s: Any, text: str) -> None:
    s += sgl.user(f"{text}\n\nTranslate into Greek.")
    s += sgl.assistant(sgl.gen("greek"))


def test_the_last_paragraph_of_a_role_moves(fake: FakeExecutor) -> None:
    motion = in_a_role.moved(by="Translate", backend=fake)
    assert motion.after == "Translate into Greek.\n\n{text}"


@function
def no_argument(s: Any) -> None:
    s += "Say hello." + sgl.gen("x")


@function
def after_a_call(s: Any, name: str) -> None:
    s += "A name:" + sgl.gen("x") + f"\n\n{name}\n\nSay hello.\n\nHello:" + sgl.gen("y")


@function
def in_a_fork(s: Any, name: str) -> None:
    forks = s.fork(2)
    forks += f"{name}\n\nSay hello.\n\nHello:" + sgl.gen("x")
    forks.join()


@function
def in_another_role(s: Any, name: str) -> None:
    s += sgl.system(f"A name: {name}")
    s += sgl.user("Say hello.")
    s += sgl.assistant(sgl.gen("x"))


@function
def in_a_scope(s: Any, name: str) -> None:
    with s.var_scope("all"):
        s += f"A name: {name}\n\nSay hello.\n\nHello:" + sgl.gen("x")


@pytest.mark.parametrize(
    ("program", "reason", "line"),
    [
        (no_argument, "it appends no argument itself", "s +="),
        (after_a_call, "gen('x') comes before the first argument", "gen("),
        (in_a_fork, "it appends no argument itself", "s.fork"),
        (in_another_role, "'Say' does not begin exactly one block without arguments", "system("),
        (in_a_scope, "var_scope comes before the first argument", "var_scope"),
    ],
)
def test_where_nothing_can_move(program: Any, reason: str, line: str, fake: FakeExecutor) -> None:
    with pytest.raises(TraceError) as refused:
        program.moved(by=["Say"], backend=fake)
    location, _, rest = refused.value.message.partition(f": {program.__name__} stays as it is: ")
    assert rest == reason
    assert location.endswith(f":{line_of(program, line)}")


@function
def translation(s: Any, text: str) -> None:
    s += f"{text}\n\nTranslate it into Greek.\n\nUse small letters.\n\nGreek:" + sgl.gen("greek")


@pytest.mark.parametrize("answer", ["3 1 2 4", "The order: 3, 1, 2, 4."])
def test_by_a_model(answer: str, make: Any) -> None:
    model, fake = make(answer), make()
    motion = translation.moved(by=model, backend=fake)
    assert motion.after == "Use small letters.\n\n{text}\n\nTranslate it into Greek.\n\nGreek:"
    assert motion.gained == len("Use small letters.\n\n")
    [call] = model.calls
    assert "Block 2:\nTranslate it into Greek.\n" in call.prompt and not fake.calls
    assert "Block 1:\n{text}\n" in call.prompt and call.params.temperature == 0


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("4 3 2 1", "the last block must stay last"),
        ("1 2 3", "order '1 2 3' does not have each of 4 blocks once"),
        ("1 1 2 4", "does not have each of 4 blocks once"),
        ("1 2 3 4 5", "does not have each of 4 blocks once"),
        ("I cannot.", "order '' does not have"),
        ("1 2 3 4", "the constant prefix would not become longer"),
        ("1 3 2 4", "the constant prefix would not become longer"),
    ],
)
def test_a_model_that_errs_is_refused(answer: str, reason: str, make: Any) -> None:
    with pytest.raises(TraceError) as refused:
        translation.moved(by=make(answer), backend=make())
    assert reason in refused.value.message


def test_a_model_that_fails(make: Any) -> None:
    with pytest.raises(RuntimeError, match="no more"):
        translation.moved(by=make(lambda call: RuntimeError("no more")), backend=make())


def test_on_the_bundled_model() -> None:
    with sgl.Engine("tiny") as engine:
        motion = translation.moved(by=["Use small"], backend=engine)
        assert 3 < motion.gained < 40
        with pytest.raises(TraceError, match="does not have each of 4 blocks once"):
            translation.moved(by=engine, backend=engine)
        compiled = CompiledProgram(motion.graph)
        for number in range(2):
            state = compiled.run(f"text {number}", backend=engine, max_new_tokens=4, temperature=0)
            cached = state.get_meta_info("greek")["cached_tokens"]
        assert cached >= motion.tokens_after - 1


WORDS = st.sampled_from(
    ["Write a word.", "Q: ", "A:", "{a}", "{b}", "it", "(", "```", "<t>", " ", "\n", "\n\n", "{{"]
)


@settings(max_examples=100, deadline=None)
@given(words=st.lists(WORDS, max_size=25), data=st.data())
def test_any_order_keeps_the_lines(words: list[str], data: st.DataObject) -> None:
    parts = [{"{a}": "a", "{b}": "b"}.get(word) or word for word in words]

    @function
    def program(s: Any, a: str, b: str) -> None:
        for part in parts:
            s += {"a": a, "b": b}.get(part, part)
        s += sgl.gen("answer")

    def shuffled(call: Any) -> str:
        count = call.prompt.count("\n\nBlock ")
        order = data.draw(st.permutations(range(1, count)))
        return " ".join(map(str, [*order, count]))

    executor, model = FakeExecutor(), FakeExecutor(shuffled)
    try:
        motion = program.moved(by=model, backend=executor)
    except TraceError:
        return
    finally:
        executor.close()
        model.close()
    assert lines_of(motion.before) == lines_of(motion.after)
    assert motion.gained > 0


def lines_of(text: str) -> list[str]:
    return sorted(line.strip() for line in text.split("\n") if line.strip())
