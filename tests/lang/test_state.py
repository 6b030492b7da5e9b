"""One branch: text, variables, roles, names, and what is sent for them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from sgnb.errors import OptionError, ProgramError
from sgnb.events import (
    BranchFinished,
    BranchStarted,
    GenerationDone,
    RunFinished,
    RunStarted,
    TextAppended,
)
from sgnb.lang import Run, assistant, assistant_begin, assistant_end, gen, system, user, user_begin
from sgnb.lang.chat import ChatTemplate

from .fake import FakeExecutor


@pytest.fixture
def s(make: Any) -> Iterator[Any]:
    """A state whose generations answer with their name in capitals."""
    with Run(make(lambda call: call.name.upper())) as run:
        yield run.state()


def calls(s: Any) -> list[Any]:
    executor: FakeExecutor = s.program.executor
    return executor.calls


def test_text_and_generations_in_order(s: Any) -> None:
    s += "a "
    s += gen("x") + " b "
    s += gen("y", max_tokens=5)
    assert s.text() == "a X b Y"
    assert (s["x"], s["y"]) == ("X", "Y")
    assert [call.prompt for call in calls(s)] == ["a ", "a X b "]
    assert [call.params.max_new_tokens for call in calls(s)] == [128, 5]


def test_appending_does_not_wait_and_reading_waits_for_its_own_variable_only(make: Any) -> None:
    executor = make("ok", delay=lambda call: 0.8 if call.name == "slow" else 0.3)
    with Run(executor) as run:
        s = run.state()
        s += gen("quick") + gen("slow")
        assert executor.names() == ["quick"]
        assert s["quick"] == "ok"
        assert "slow" in s
        assert repr(s).endswith("running, 'ok'>")
        assert s["slow"] == "ok"


def test_several_samples(make: Any) -> None:
    with Run(make(lambda call: ["one", "two"])) as run:
        s = run.state()
        s += "> " + gen("x", n=2)
    assert s["x"] == ["one", "two"]
    assert s.text() == "> one"
    assert [meta["length"] for meta in s.get_meta_info("x")] == [3, 3]


def test_unnamed_generations_get_names(s: Any) -> None:
    s += gen("gen_1") + gen() + gen()
    assert (s["gen_0"], s["gen_1"], s["gen_2"]) == ("GEN_0", "GEN_1", "GEN_2")


def test_meta_information(s: Any) -> None:
    s += gen("x")
    s["y"] = 1
    assert s.get_meta_info("x") == {"finish_reason": {"type": "stop"}, "length": 1}
    assert s.get_meta_info("y") == {}


def test_variables_are_set_in_order(make: Any) -> None:
    with Run(make("new", delay=0.05)) as run:
        s = run.state()
        s["x"] = 1
        assert s["x"] == 1
        s += gen("y")
        s["y"] = "mine"
        assert s["y"] == "mine"
        assert "z" not in s


def test_var_scope(s: Any) -> None:
    s += "a"
    with s.var_scope("all"):
        s += "b" + gen("x")
    s += "c"
    assert s["all"] == "bX"


def test_roles(s: Any) -> None:
    s += system("S")
    s.user("U")
    with s.assistant():
        s += "A" + gen("x")
    s += user_begin() + "V"
    assert s.text() == "SYSTEM: S\nUSER: U\nASSISTANT: AX\nUSER: V"
    assert s.messages() == [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "U"},
        {"role": "assistant", "content": "AX"},
    ]


def test_the_templates_stops_hold_in_the_assistants_role_only(make: Any) -> None:
    chat = ChatTemplate(
        "t", {r: (f"<{r}>", "|") for r in ("system", "user", "assistant")}, "<s>", ("|",)
    )
    executor = make("x", chat=chat)
    with Run(executor, defaults={"stop": "END", "temperature": 0.0}) as run:
        s = run.state()
        s += user(gen("a"))
        s += assistant(gen("b") + gen("c", stop=["no", "|"], temperature=0.7))
    assert [call.params.stop for call in executor.calls] == [("END",), ("END", "|"), ("no", "|")]
    assert [call.params.temperature for call in executor.calls] == [0.0, 0.0, 0.7]
    assert s.text() == "<s><user>x|<assistant>xx|"


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (user_begin(), assistant_begin(), "'assistant' begins inside the role 'user'"),
        (user_begin(), user("x"), "'user' begins inside the role 'user'"),
        ("", assistant_end(), "'assistant' ends outside any role"),
        (user_begin(), assistant_end(), "'assistant' ends inside the role 'user'"),
    ],
)
def test_roles_do_not_nest(s: Any, first: Any, second: Any, said: str) -> None:
    s += first
    with pytest.raises(ProgramError, match=said):
        s += second


@pytest.mark.filterwarnings("ignore:.*is used again")
def test_what_a_with_begins_ends_after_an_error_too(s: Any) -> None:
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), s.assistant(), s.var_scope("v"):
            s += gen("a", max_tokens=1)
            1 / 0  # noqa: B018
    with pytest.raises(ZeroDivisionError), s.user():
        s += user("?").nodes[-1]  # which ends the role
        1 / 0  # noqa: B018
    assert [(one["role"], one["content"]) for one in s.messages()] == [
        ("assistant", "A"), ("assistant", "A"), ("user", ""),
    ]  # fmt: skip
    assert s.history("v") == ["A", "A"]


def test_an_error_names_the_line_of_a_with(s: Any) -> None:
    line = test_an_error_names_the_line_of_a_with.__code__.co_firstlineno + 4
    s += user_begin()
    with pytest.raises(ProgramError, match=f"test_state.py:{line}: the role 'user' begins"):
        s.user().__enter__()


def test_a_name_used_again_keeps_all_values_and_says_so_once(make: Any) -> None:
    """A loop of an agent says gen("thought") at every turn."""
    with warnings.catch_warnings(record=True) as said, Run(make(lambda c: c.prompt[-1])) as run:
        warnings.simplefilter("default")
        s = run.state()
        for i in range(4):
            s += str(i) + gen("thought")
        assert s["thought"] == "3" and s.history("thought") == ["0", "1", "2", "3"]
    assert [str(w.message).partition(": ")[2] for w in said] == [
        "the name 'thought' is used again: s['thought'] is its last value,"
        " s.history('thought') has all"
    ]
    assert s.history("thought")[:2] == ["0", "1"]


def test_what_came_before_an_error_in_an_expression_is_sent(s: Any) -> None:
    with pytest.raises(ProgramError):
        s += gen("a") + assistant_end()
    assert s["a"] == "A"


def test_none_is_an_error_at_its_line(s: Any) -> None:
    with pytest.raises(ProgramError, match=r"test_state.py:\d+: None") as caught:
        s += None
    assert isinstance(caught.value, ValueError)


def test_an_unknown_name_is_an_error_at_once(s: Any) -> None:
    with pytest.raises(ProgramError, match="no names yet"):
        s["x"]
    s += gen("answer")
    with pytest.raises(ProgramError, match="did you mean 'answer'"):
        s["anwser"]


def test_a_minimum_over_the_runs_maximum_is_an_error_at_its_line(make: Any) -> None:
    with Run(make(), defaults={"max_new_tokens": 10}) as run:
        s = run.state()
        with pytest.raises(OptionError, match="min_new_tokens=20"):
            s += gen("x", min_tokens=20)


def test_a_finished_state_can_be_read_and_not_extended(fake: Any) -> None:
    with Run(fake) as run:
        s = run.state()
        s += "a"
    assert s.text() == "a"
    with pytest.raises(ProgramError, match="over"):
        s += "b"
    assert "branch 0, idle, 'a'" in repr(s)


def test_events(make: Any) -> None:
    executor = make("<b>")
    with Run(executor, title="T", source="S") as run:
        s = run.state()
        s += "a" + gen("x") + ""
    assert executor.events() == [
        RunStarted(run.id, "T", "S", 1),
        BranchStarted(run.id, "0", "", ""),
        TextAppended(run.id, "0", "a"),
        GenerationDone(run.id, "0", "x", "<b>"),
        BranchFinished(run.id, "0", ""),
        RunFinished(run.id, "done", ""),
    ]
