"""The smaller words of SGLang's programs."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import pytest

import sgnb
from sgnb.errors import Aborted, OptionError, ProgramError
from sgnb.lang import Run, function, gen, global_config


@function(num_api_spec_tokens=8)
def ask(s: Any, question: str, style: str = "short") -> None:
    s += question + gen("answer")


def test_variables_can_be_set_after_the_run(make: Any) -> None:
    state = ask.run("?", backend=make("yes"))
    state["score"] = 1
    state.set_var("answer", "no")
    assert (state["score"], state.get_var("answer"), state.history("answer")) == (
        1, "no", ["yes", "no"]
    )  # fmt: skip
    assert "score" in state and state.text() == "?yes"
    with pytest.raises(ProgramError, match="this program is over"):
        state += "more"
    state.cancel()
    with pytest.raises(Aborted):
        state["score"] = 2
    assert state["answer"] == "no"


def test_a_name_that_is_not_there_is_a_key_error(make: Any) -> None:
    state = ask.run("?", backend=make("yes"))
    with pytest.raises(KeyError) as caught:
        state["anwser"]
    assert isinstance(caught.value, ProgramError)
    assert "nothing sets the variable 'anwser'\n  hint: did you mean" in str(caught.value)
    with pytest.raises(KeyError, match="known: answer"):
        state[0]


def test_a_state_as_text(make: Any) -> None:
    state = ask.run("?", backend=make("yes"))
    assert str(state) == "ProgramState(?yes)"


def test_a_state_is_not_pickled(make: Any) -> None:
    state = ask.run("?", backend=make("yes"), use_thread=False)
    for take in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(ProgramError, match="snapshot"):
            take(state)


def test_what_a_program_says_of_itself() -> None:
    bound = ask.bind(style="long")
    assert ask.arg_names == ["question", "style"] and ask.bind_arguments == {}
    assert bound.bind_arguments == {"style": "long"}


def test_offsets_of_forks_change_nothing(fake: Any) -> None:
    with Run(fake) as run:
        s = run.state()
        group = s.fork(2, position_ids_offset=[0, 5])
        group.join()
        with s.copy([3]) as other:
            other += "x"
    assert len(group) == 2


def test_one_generation_elsewhere(make: Any) -> None:
    here, there = make("here"), make("there")
    with Run(here) as run:
        s = run.state()
        s += "A" + gen("a") + gen("b", backend=there) + gen("c", choices=["x"], backend=there)
        s += gen("d")
    assert (here.names(), there.names()) == (["a", "d"], ["b", "c"])
    assert s.text() == "Aheretherexhere"
    with pytest.raises(OptionError, match="cannot run programs"):
        gen("a", backend="gpt")


def test_regexes_of_types() -> None:
    assert re.fullmatch(sgnb.REGEX_INT, "-12") and re.fullmatch(sgnb.REGEX_FLOAT, "1.5")
    assert re.fullmatch(sgnb.REGEX_BOOL, "True") and re.fullmatch(sgnb.REGEX_STR, '"a b"')


def test_global_config(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.warns(UserWarning, match="enable_parallel_encoding = False has no effect"):
        sgnb.global_config.enable_parallel_encoding = False
    vars(global_config)["enable_parallel_encoding"] = True
    with pytest.raises(OptionError, match="did you mean 'verbosity'"):
        global_config.verbostiy = 2
    monkeypatch.setattr(global_config, "default_backend", fake)
    assert ask.run("?")["answer"]
    monkeypatch.setattr(global_config, "skip_special_tokens_in_output", False)
    with Run(fake) as run:
        s = run.state()
        s += gen("a")
    assert not fake.calls[-1].params.skip_special_tokens


@pytest.mark.parametrize("name", ["Runtime", "ServerArgs"])
def test_names_that_do_not_exist_yet_say_so(name: str) -> None:
    word = getattr(sgnb, name)
    with pytest.raises(OptionError, match=rf"sgnb.{name} does not exist yet\n  hint: ."):
        word("gpt-4")
