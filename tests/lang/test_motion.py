"""Code motion: constant blocks of prompts before those with arguments."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sgnb as sgl
from sgnb.errors import TraceError
from sgnb.lang import CompiledProgram, Graph, function
from sgnb.lang.graph.blocks import blocks

from .fake import FakeExecutor
from .templates import TEMPLATES, TRAPS, Template
from .test_graph import line_of


def values(template: Template) -> dict[str, str]:
    return {name: f"<the {name}>" for name in template.arguments}


@pytest.mark.parametrize("template", [t for t in TEMPLATES if t.moved], ids=lambda t: t.name)
def test_what_is_constant_comes_first(template: Template, fake: FakeExecutor) -> None:
    program = template.program()
    motion = program.moved(backend=fake)
    assert motion.before == template.text.replace("{{", "{").replace("}}", "}")
    assert motion.after == template.moved.replace("{{", "{").replace("}}", "}")
    assert motion.gained > 0 and not motion.diff.startswith("stays")
    program.run(backend=fake, **values(template))
    compiled = CompiledProgram(Graph.from_json(motion.graph.to_json()))
    compiled.run(backend=fake, **values(template)).sync()
    before, after = (call.prompt for call in fake.calls)
    before_text, after_text = (
        text.format(**values(template)) for text in (template.text, template.moved)
    )
    assert before_text in before and after == before.replace(before_text, after_text)
    assert fake.calls[0].location == fake.calls[1].location


@pytest.mark.parametrize("template", [t for t in TEMPLATES if t.stays], ids=lambda t: t.name)
def test_what_may_lose_its_meaning_is_refused(template: Template, fake: FakeExecutor) -> None:
    with pytest.raises(TraceError) as refused:
        template.program().moved(backend=fake)
    assert template.stays in refused.value.message
    assert refused.value.message.startswith(f"{__file__.replace('test_motion', 'templates')}:")


@pytest.mark.parametrize("text", TRAPS)
def test_no_trap_is_walked_into(text: str, fake: FakeExecutor) -> None:
    with pytest.raises(TraceError, match="stays as it is"):
        Template("trap", text).program().moved(backend=fake)


def test_twenty_templates() -> None:
    assert len(TEMPLATES) >= 20 and sum(bool(one.moved) for one in TEMPLATES) >= 15


@function
def review(s: Any, text: str, mood: str = "kind") -> Any:
    s += "Text: " + text
    s += "\n\n"
    s += "Write a review of the text in ten words."
    s += "\n\nMood: " + mood
    s += "\n\nReview:" + sgl.gen("review")
    return s["review"]


def test_a_text_of_several_lines_of_code(fake: FakeExecutor) -> None:
    motion = review.moved(backend=fake)
    moved = "Write a review of the text in ten words."
    assert motion.after == f"{moved}\n\nText: {{text}}\n\nMood: {{mood}}\n\nReview:"
    assert (motion.tokens_before, motion.tokens_after) == (6, 48)
    assert motion.stays == ("'Review:' stays: it leads to what the model writes",)
    assert f"+{moved}" in str(motion) and "6 -> 48 tokens" in str(motion)
    compiled = review.compile(move=True, backend=fake)
    state = compiled.run(text="a", backend=fake)
    assert fake.calls[0].prompt == f"{moved}\n\nText: a\n\nMood: kind\n\nReview:"
    assert state.ret_value == state["review"]
    lines = [node.location.line for node in motion.graph.nodes if node.label() == repr(moved)]
    assert lines == [line_of(review, "in ten words")]


def test_a_value_that_the_trace_is_given_is_constant(fake: FakeExecutor) -> None:
    motion = review.moved(backend=fake, mood="sad")
    assert motion.after.endswith("Text: {text}\n\nMood: sad\n\nReview:")


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
    ("program", "why", "line"),
    [
        (no_argument, "it appends no argument itself", "s +="),
        (after_a_call, "gen('x') comes before the first argument", "gen("),
        (in_a_fork, "it appends no argument itself", "s.fork"),
        (in_another_role, "no constant text would come before an argument", "system("),
        (in_a_scope, "var_scope comes before the first argument", "var_scope"),
    ],
)
def test_where_nothing_can_move(program: Any, why: str, line: str, fake: FakeExecutor) -> None:
    with pytest.raises(TraceError) as refused:
        program.moved(backend=fake)
    place, _, reason = refused.value.message.partition(f": {program.__name__} stays as it is: ")
    assert reason == why
    assert place.endswith(f":{line_of(program, line)}")


IT = Template("it", "{text}\n\nTranslate it into Greek.\n\nUse small letters.\n\nGreek:")


@pytest.mark.parametrize("answer", ["3 1 2 4", "The order: 3, 1, 2, 4."])
def test_by_a_model(answer: str, make: Any) -> None:
    model, fake = make(answer), make()
    motion = IT.program().moved(by=model, backend=fake)
    assert motion.after == "Use small letters.\n\n{text}\n\nTranslate it into Greek.\n\nGreek:"
    assert motion.gained == len("Use small letters.\n\n")
    [call] = model.calls
    assert "Block 2:\nTranslate it into Greek.\n" in call.prompt and not fake.calls
    assert "Block 1:\n{text}\n" in call.prompt and call.params.temperature == 0


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("4 3 2 1", "the model moved the last block"),
        ("1 2 3", "order '1 2 3' does not have each of 4 blocks once"),
        ("1 1 2 4", "does not have each of 4 blocks once"),
        ("1 2 3 4 5", "does not have each of 4 blocks once"),
        ("I cannot.", "order 'I cannot.' does not have"),
        ("1 2 3 4", "the model keeps the order"),
        ("1 3 2 4", "no constant text would come before"),
    ],
)
def test_a_model_that_errs_is_refused(answer: str, why: str, make: Any) -> None:
    with pytest.raises(TraceError) as refused:
        IT.program().moved(by=make(answer), backend=make())
    assert why in refused.value.message


def test_a_model_that_fails(make: Any) -> None:
    with pytest.raises(RuntimeError, match="no more"):
        IT.program().moved(by=make(lambda call: RuntimeError("no more")), backend=make())


def test_on_the_bundled_model() -> None:
    with sgl.Engine("tiny") as engine:
        motion = TEMPLATES[0].program().moved(backend=engine)
        assert 5 < motion.gained < 40
        with pytest.raises(TraceError, match="does not have each of 4 blocks once"):
            TEMPLATES[0].program().moved(by=engine, backend=engine)
        compiled = CompiledProgram(motion.graph)
        for number in range(2):
            given = {name: f"{name} {number}" for name in TEMPLATES[0].arguments}
            state = compiled.run(backend=engine, max_new_tokens=4, temperature=0, **given)
            cached = state.get_meta_info("answer")["cached_tokens"]
        assert cached >= motion.tokens_after - 1


WORDS = st.sampled_from(
    ["Write a word.", "Q: ", "A:", "{a}", "{b}", "it", "Rules:", "- one", "1. two", "(", ")", '"',
     "```", "<t>", "</t>", "# Head", "the text", "Use this:", "above", " ", "\n", "\n\n",
     "{{", "}}"]
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(parts=st.lists(WORDS, max_size=25), chat=st.booleans())
def test_any_text_keeps_its_lines(parts: list[str], chat: bool) -> None:
    template = Template("any_text", "".join(parts), chat=chat)
    executor = FakeExecutor()
    try:
        motion = template.program().moved(backend=executor)
    except TraceError:
        return
    finally:
        executor.close()
    assert lines_of(motion.before) == lines_of(motion.after)
    assert motion.gained > 0


def lines_of(text: str) -> list[str]:
    """Its lines, in an order of their own."""
    return sorted(line.strip() for line in text.split("\n") if line.strip())


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda t: t.name)
def test_blocks_are_all_of_a_text(template: Template) -> None:
    text = template.text.replace("{", "\U00100000")
    found = blocks(text)
    at = 0
    for block in found:
        assert text[at : block.begin].strip() == ""
        assert text[block.begin : block.end] == block.text == block.text.strip()
        at = block.end
    assert text[at:].strip() == ""
