"""Signatures and completion of programs: the parameters of the program's function."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

import sgnb as sgl
from sgnb.errors import OptionError
from sgnb.lang import SglFunction, function
from sgnb.lang.runnable import Runnable

from .fake import FakeExecutor

PROGRAM = """
import sgnb as sgl

@sgl.function
def tip(s, topic, tone="kind"):
    s += topic + tone + sgl.gen("tip")
"""


@function
def tip(s: Any, topic: str, tone: str = "kind", *, limit: int = 3) -> None:
    s += f"{topic}{tone}{limit}"


def test_the_signature_of_run_has_the_parameters_of_the_program() -> None:
    names = list(inspect.signature(tip.run).parameters)
    assert names[:3] == ["topic", "tone", "limit"]
    assert {"stream", "backend", "continue_from"} <= set(names) and names[-1] == "kwargs"
    assert list(inspect.signature(tip.compile().run).parameters)[:2] == ["topic", "tone"]
    bound = inspect.signature(tip.bind(topic="sleep").run).parameters
    assert bound["topic"].default == "sleep" and bound["topic"].kind is bound["topic"].KEYWORD_ONLY
    assert "topic" in inspect.signature(tip.compile).parameters
    assert "self" in inspect.signature(Runnable.run).parameters


def test_a_method_is_called_and_described_as_before(fake: FakeExecutor) -> None:
    run = tip.run
    assert run("a", backend=fake, limit=1).text() == "akind1"
    assert SglFunction.run(tip, "a", backend=fake).text() == "akind3"
    assert run.__name__ == "run" and run.__doc__ == Runnable.run.__doc__
    assert run.__self__ is tip and "method run of <sgnb program tip" in repr(run)


@pytest.mark.slow
@pytest.mark.parametrize("use_jedi", [True, False])
def test_tab_shows_the_parameters_of_the_program(use_jedi: bool) -> None:
    shell = InteractiveShell.instance()
    shell.run_cell(PROGRAM)
    shell.Completer.use_jedi = use_jedi

    def completed(code: str) -> set[str]:
        with provisionalcompleter():
            completions = list(shell.Completer.completions(code, len(code)))
        return {completion.text.lstrip(".") for completion in completions}

    assert {"topic=", "tone=", "backend="} <= completed("tip.run(")
    assert {"topic=", "tone="} <= completed("tip.bind(") & completed("tip.compile(")
    names = completed("tip.")
    assert {"run", "run_batch", "compile", "bind", "trace", "explain"} <= names
    assert not names & {"func", "bound", "is_async", "keep_tokens"}
    assert {"topic=", "tone=", "backend="} <= completed("tip.arun(")
    shell.run_cell("compiled = tip.compile()")
    for method in ("run", "arun", "bounds", "explain"):
        assert {"topic=", "tone=", "backend="} <= completed(f"compiled.{method}(")


def test_the_rows_of_a_batch_are_described() -> None:
    batch = inspect.signature(tip.run_batch).parameters["batch"]
    assert batch.annotation == "rows of (topic, tone, limit)"
    batch = inspect.signature(tip.bind(topic="sleep").compile().run_batch).parameters["batch"]
    assert batch.annotation == "rows of (tone, limit)"


def test_a_coroutine_method_is_recognized() -> None:
    assert inspect.iscoroutinefunction(tip.arun) and not inspect.iscoroutinefunction(tip.run)


def test_internal_names_of_a_state_are_left_out(fake: FakeExecutor) -> None:
    state = tip.run("a", backend=fake)
    assert "program" not in dir(state) and {"text", "get", "fork"} <= set(dir(state))


def test_max_tokens_is_one_word_in_gen_and_in_run(fake: FakeExecutor) -> None:
    @function
    def program(s: Any) -> None:
        s += sgl.gen("own", max_new_tokens=5) + sgl.gen("run's")

    program.run(max_tokens=7, backend=fake).sync()
    program.run_batch([{}], max_tokens=8, backend=fake)
    program.compile().run(max_tokens=9, min_tokens=2, backend=fake).sync()
    assert [call.params.max_new_tokens for call in fake.calls] == [5, 7, 5, 8, 5, 9]  # type: ignore[union-attr]
    for mistake in (
        lambda: program.run(max_tokens=7, max_new_tokens=8, backend=fake),
        lambda: program.run_batch([{}], max_tokens=7, max_new_tokens=8, backend=fake),
        lambda: sgl.gen("x", max_tokens=7, max_new_tokens=8),
    ):
        with pytest.raises(OptionError, match="max_tokens=7 and max_new_tokens=8 exclude each"):
            mistake()


def test_a_parameter_named_max_tokens_is_the_programs(fake: FakeExecutor) -> None:
    @function
    def program(s: Any, max_tokens: int) -> None:
        s += sgl.gen("x", max_tokens=max_tokens)

    program.run(max_tokens=6, backend=fake).sync()
    assert fake.calls[0].params.max_new_tokens == 6  # type: ignore[union-attr]
