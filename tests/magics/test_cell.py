"""`%%sglang` in terminal IPython, on the real engine with the bundled model."""

from __future__ import annotations

import _thread
import gc
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import sgnb
from sgnb.errors import Aborted, OptionError
from sgnb.events import Alternatives
from sgnb.lang import ProgramState
from sgnb.magics.cell_program import PATTERNS
from sgnb.magics.engines import BUNDLED

from ..interrupts import interrupt_in

QUESTION = r"""s += "Q: What is the capital of France?\nA:"
s += gen("answer", stop="\n", temperature=0, max_tokens=8)
"""
LONG = """s += "A story."
s += gen("story", max_tokens=3000, ignore_eos=True)
"""


def test_the_first_cell_loads_the_bundled_model_and_says_so(shell: Any, capsys: Any) -> None:
    for name in sgnb.engines.names():
        sgnb.unload(name)
    shell("%%sglang -q\n" + QUESTION)
    assert f"loaded {BUNDLED} in" in capsys.readouterr().out
    assert shell.ns["s"]["answer"]


def test_views_are_text_and_the_value_is_not_shown_twice(shell: Any, capsys: Any) -> None:
    assert shell("%%sglang\n" + QUESTION) is None
    out = capsys.readouterr().out
    assert "capital of France" in out
    assert "radix tree" in out
    assert "ProgramState" not in out


def test_show_none_gives_the_state_and_quiet_nothing(shell: Any, capsys: Any) -> None:
    state = shell("%%sglang --show none -o mine\n" + QUESTION)
    assert isinstance(state, ProgramState)
    assert shell.ns["mine"] is state
    assert "s" not in shell.ns
    capsys.readouterr()
    assert shell("%%sglang -q\n" + QUESTION) is None
    assert capsys.readouterr().out == ""


def test_a_cell_says_the_words_of_tools_and_shows_each_call_once(shell: Any, capsys: Any) -> None:
    def add(a: int, b: int = 1) -> int:
        """Adds."""
        return a + b

    shell.ns["add"] = add
    body = """s += use_tools([Tool(add)]) + user("1 + 1?")
s += assistant(gen("call", tools=[add], tool_choice="add"))
s += tool(s["call"], s["call"]())
agent(s, [add], 2, on_limit="answer", temperature=0, max_tokens=8)
"""
    shell("%%sglang -o state\n" + body)
    state = shell.ns["state"]
    assert isinstance(state["call"]() + 1, int) and isinstance(state["answer"], str)
    written = json.dumps(state["call"].arguments)
    assert capsys.readouterr().out.count(f'"arguments": {written}') == 1


def test_marks_in_an_argument_are_read_as_such_where_the_line_says_so(shell: Any) -> None:
    """As a token each, and not as the tokens of their letters; also when the name is called."""
    mark = sgnb.load(BUNDLED).tokenizer.hf.eos_token
    body = 's += user(q) + assistant(gen("answer", max_tokens=1))'
    counts = []
    for flag in ("", "--special-tokens"):
        line = f"%%sglang ask q:str --run q={mark * 5} --show none {flag}"
        for state in (shell(f"{line}\n{body}"), shell.ns["ask"].run(q=mark * 5)):
            counts.append(state.get_meta_info("answer")["prompt_tokens"])
    plain, again, marked, called = counts
    assert plain == again >= marked + 5 and marked == called


def test_names_of_the_notebook_and_of_the_body(shell: Any) -> None:
    shell.ns["country"] = "Japan"
    state = shell("%%sglang --show none\nlocal = country\ns += local\nreturn len(local)\n")
    assert state.text() == "Japan"
    assert state.ret_value == 5
    assert "local" not in shell.ns


def test_dollar_and_braces_mean_nothing(shell: Any) -> None:
    shell.ns["country"] = "Japan"
    assert (
        shell('%%sglang p q:str --run q="{country} $country" --show none\ns += q\n').text()
        == "{country} $country"
    )


def test_a_name_without_parameters_runs_and_stays(shell: Any) -> None:
    first = shell("%%sglang paris --show none\n" + QUESTION)
    again = shell("paris.run()")
    assert again["answer"] == first["answer"]
    assert again.get_meta_info("answer")["cached_tokens"] > 0


def test_a_program_with_parameters(shell: Any, capsys: Any) -> None:
    assert (
        shell(
            '%%sglang qa q:str n:int=4 --temperature 0\ns += q\ns += gen("a", '
            "max_tokens=n)\nreturn n\n"
        )
        is None
    )
    assert "s" not in shell.ns
    assert shell('qa.run(q="Paris is").ret_value') == 4
    assert shell('qa.run("Paris is", n=2).ret_value') == 2
    assert [state.ret_value for state in shell('qa.run_batch([{"q": "x"}, ("y", 3)])')] == [4, 3]
    capsys.readouterr()
    assert shell('qa(q="Rome is", n=1)').ret_value == 1
    assert "Rome is" in capsys.readouterr().out
    assert shell('(await qa.arun(q="Bonn is")).ret_value') == 4
    assert shell('qa.bind(n=1).run("x").ret_value') == 1
    assert "did you mean 'q'" in "\n".join(shell.fails('qa.run(qq="x")'))


def test_a_program_inside_a_program(shell: Any) -> None:
    shell("%%sglang part q\ns += q\nreturn len(q)\n")
    state = shell('%%sglang --show none\nlength = part(s, "abc")\ns += str(length)\n')
    assert state.text() == "abc3"


def test_run_with_arguments_from_the_line(shell: Any) -> None:
    assert shell('%%sglang twice q:str --run q="a b" --show none\ns += q + q\n').text() == "a ba b"


@pytest.mark.parametrize(
    "over", ['["a", "b"]', '[("a",), ("b",)]', '[dict(q=x) for x in "ab"]', "frame", "iter('ab')"]
)
def test_over(shell: Any, over: str) -> None:
    shell.ns["frame"] = Frame()
    states = shell(
        f'%%sglang each q --over {over} --show none --max-tokens 2\ns += q\ns += gen("x")\n'
    )
    assert [state.text()[0] for state in states] == ["a", "b"]
    assert shell.ns["s"] == states


def test_likeliest_tokens_are_recorded(shell: Any) -> None:
    log = sgnb.load("tiny").log
    after = log.last
    shell("%%sglang --logprobs 3 --show none --max-tokens 4\ns += 'A story.' + gen('x')\n")
    events = [record.event for record in log.read(after).records]
    told = [event for event in events if isinstance(event, Alternatives)]
    assert told and all(len(one.tokens) == 3 for one in told)


def test_an_empty_batch(shell: Any) -> None:
    assert shell("%%sglang each q --over [] --show none\ns += q\n") == shell.ns["s"] == []
    assert "empty" in shell.fails("%%sglang each q --over [] --bg\ns += q\n")[1]


def test_over_shows_its_progress(shell: Any, capsys: Any) -> None:
    shell('%%sglang each q --over list("abc") --show text --max-tokens 2\ns += q\ns += gen("x")\n')
    assert "3/3" in capsys.readouterr().out


def test_a_batch_in_which_one_program_fails(shell: Any, capsys: Any) -> None:
    states = shell('%%sglang each q --over ["a", 2, 3] --show none\ns += "x"\ns += q + "!"\n')
    assert states[0].text() == "xa!"
    said = capsys.readouterr()
    assert said.err.splitlines() == [
        "2 of 3 rows failed; first s[1]:",
        "TypeError: unsupported operand type(s) for +: 'int' and 'str'",
        f"Cell In[{number(shell)}], line 3",
        "    s += q + '!'".replace("'", '"'),
        "         ^^^^^^^",
    ]
    assert repr(states).splitlines()[0] == (
        "3 rows, 2 failed, first row 1: TypeError: "
        "unsupported operand type(s) for +: 'int' and 'str'"
    )
    del states
    shell.ns.pop("s")
    shell.ipython.user_ns["Out"].clear()
    gc.collect()
    assert "nobody read its error" not in "".join(capsys.readouterr())


def test_a_batch_in_which_all_fail_raises_the_first_error(shell: Any, capsys: Any) -> None:
    lines = shell.fails(
        "%%sglang each q --over range(3) --show none\ns += str(1 / q - 1 / q / 0)\n"
    )
    assert lines[0] == "ZeroDivisionError: division by zero"
    assert lines[1] == f"Cell In[{number(shell)}], line 2"
    assert lines[-1] == "all 3 rows failed; this is the error of the first row"
    assert capsys.readouterr().err == ""


def test_the_value_of_a_large_batch_is_short(shell: Any, capsys: Any) -> None:
    cell = "%%sglang each q --over range(200) --show none\ns += str(q)\ns['n'] = 'x' * 10_000\n"
    states = shell(cell)
    assert len(states) == 200 and isinstance(states, list)
    shown = capsys.readouterr().out
    for text in (shown, repr(states), shell.ipython.display_formatter.format(states)[0]):
        plain = text if isinstance(text, str) else text["text/plain"]
        assert "200 rows" in plain and "[4] n='xxx" in plain and "and 195 more rows" in plain
        assert len(plain) < 1000
    assert "\n[0] n=" in repr(states) and "n='x" in repr(states)
    long = shell("%%sglang --show none\ns += 'y' * 100_000\n")
    assert len(repr(long)) < 1200 and repr(long).endswith("yyy'>")


def test_an_error_is_said_once(shell: Any, capsys: Any) -> None:
    shell("%sglang load tiny")
    capsys.readouterr()
    body = "s += 'x'\nf = s.fork(2)\nf += gen('a', max_tokens=300, ignore_eos=True)\n1 / 0\n"
    lines = shell.fails("%%sglang --show text\n" + body)
    assert lines[0] == "ZeroDivisionError: division by zero" and len(lines) == 4
    shown = capsys.readouterr()
    assert "Aborted" not in shown.out
    assert "division by zero" not in shown.out, "the lines of the error say it"


SAVED = "%%sglang each q --save {file} --max-tokens 2 --show none {more} --over "


def test_a_saved_batch(shell: Any, tmp_path: Any) -> None:
    line = SAVED.format(file=tmp_path / "rows.jsonl", more="")
    body = '\ns += q\ns += gen("x")\n'
    first = shell(line + '["a", "b"]' + body)
    again = shell(line + '["a", "b", "c"]' + body)
    assert [state.text() for state in again[:2]] == [state.text() for state in first]
    assert [isinstance(state, ProgramState) for state in again] == [False, False, True]


def test_a_frame_back(shell: Any, tmp_path: Any) -> None:
    more = "--frame -o table"
    line = SAVED.format(file=tmp_path / "rows.jsonl", more=more)
    frame = shell(line + '{"q": ["a", "b"]}\ns += q\ns += gen("x")\n')
    assert list(frame.columns) == ["q", "x", "error", "tokens", "seconds"]
    assert list(frame["q"]) == ["a", "b"] and list(frame["tokens"]) == [2, 2]
    assert shell.ns["table"] is frame
    assert "for a batch" in shell.fails("%%sglang each q --run q=x --frame\ns += q\n")[0]
    handle = shell(
        '%%sglang each q --bg --frame --over ["a"]\ns += q\ns += gen("x", max_tokens=1)\n'
    )
    assert list(handle.value["q"]) == ["a"]


def test_an_interrupted_batch_leaves_its_states(shell: Any, tmp_path: Any) -> None:
    file = tmp_path / "rows.jsonl"
    line = SAVED.format(file=file, more="-o states")
    body = '\ns += q\ns += gen("x", max_tokens=limit[0] if q > "a" else 2, ignore_eos=True)\n'

    def rows() -> Iterator[str]:
        yield from "abc"
        while not file.read_text():
            time.sleep(0.01)
        raise KeyboardInterrupt

    shell.ns.update(limit=[3000], rows=rows)  # what a list holds makes no other program
    with pytest.raises(KeyboardInterrupt):
        shell(line + "rows()" + body)
    states = shell.ns["states"]
    assert [state.error() is None for state in states] == [True, False, False]
    shell.ns["limit"][0] = 2
    again = shell(line + '["a", "b", "c"]' + body)
    assert again[0].text() == states[0].text()
    assert [state.tokens for state in again] == [2, 2, 2]


def test_a_saved_cell_sees_a_text_of_the_notebook_change(shell: Any, tmp_path: Any) -> None:
    line = SAVED.format(file=tmp_path / "rows.jsonl", more="")
    for shots in "ABA":
        shell.ns["shots"] = shots
        [state] = shell(line + '["q"]\ns += shots + gen("x")\n')
        assert state.text()[0] == shots


def test_higher_words_yield_to_names_of_the_notebook(shell: Any) -> None:
    assert "best_of_n" in PATTERNS and "majority_vote" in PATTERNS
    body = '%%sglang --show none --max-tokens 3\nretry(s, gen("x"), valid=lambda b: True)\n'
    assert shell(body)["x"]
    shell("def retry(s, *args, **kwargs): s['own'] = 1")
    assert shell(body)["own"] == 1
    del shell.ns["retry"]


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ("nothing", "NameError"),
        ("3", "type int"),
        ("'text'", "type str"),
        ("{'q': 'a'}", "column 'q'"),
    ],
)
def test_what_is_no_batch(shell: Any, over: str, message: str) -> None:
    assert message in "\n".join(shell.fails(f"%%sglang each q --over ({over})\ns += q\n"))


def test_errors_show_the_bodys_line(shell: Any) -> None:
    assert shell.fails("%%sglang --show none\nx = 1\ns += 1 / 0\n") == [
        "ZeroDivisionError: division by zero",
        f"Cell In[{number(shell)}], line 3",
        "    s += 1 / 0",
        "         ^^^^^",
    ]
    assert any("run_cell_magic" in line for line in tb(shell)), "%tb has the whole"
    lines = shell.fails('%%sglang --show none\ns += "x"\nprint(s["anser"], s)\n')
    assert lines[0] == "UnknownVariableError: nothing sets the variable 'anser'"
    assert lines[1] == f"Cell In[{number(shell)}], line 3"
    assert any("run_cell_magic" in line for line in tb(shell))


def test_a_mistake_in_a_gen_names_its_line(shell: Any) -> None:
    lines = shell.fails('%%sglang --show none\ns += "word " * 6000\ns += gen("a")\n')
    assert lines[0].startswith("RequestError: the prompt has 6002 tokens, the context holds 4096")
    note = lines.index(f"in gen 'a', at Cell In[{number(shell)}], line 3")
    assert lines[note + 1 : note + 3] == ['    s += gen("a")', "    ^^^^^^^^^^^^^"]
    assert lines[-1].startswith("hint: ")


def test_what_is_not_appended_is_said_at_the_bodys_line(shell: Any, capsys: Any) -> None:
    with pytest.warns(UserWarning, match=r"Cell In\[\d+\], line 3: gen\('a'\) is not appended"):
        shell("%%sglang --show none\ns += 'x'\ngen('a')\n")
    before = len(sgnb.runs())
    assert shell.fails('%%sglang\ns += "x"\ns = "x" + gen("a")\ns += "y"\n') == [
        "ProgramError: s = ... replaces the state and appends nothing",
        f"Cell In[{number(shell)}], line 3",
        '    s = "x" + gen("a")',
        "    ^^^^^^^^^^^^^^^^^^",
        "hint: append it: s += ...",
    ]
    assert len(sgnb.runs()) == before


def test_syntax_errors_show_the_bodys_line(shell: Any) -> None:
    assert shell.fails("%%sglang\nx = 1\nx = = 2\n") == [
        "BodySyntaxError: invalid syntax",
        f"Cell In[{number(shell)}], line 3",
        "    x = = 2",
        "        ^",
    ]


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("%%sglang --temprature 1\ns += 'x'", ["OptionError", "--temperature"]),
        ("%%sglang --max-tokens -1\ns += 'x'", ["OptionError", "max_new_tokens=-1", "0 or more"]),
        ("%%sglang -m nope\ns += 'x'", ["OptionError", "'nope'", "%sglang load nope"]),
        ("%%sglang gen\ns += 'x'", ["OptionError", "'gen'", "another name"]),
        (
            "%%sglang\ns += gen('a', max_token=1)",
            ["OptionError", "'max_token'", "'max_tokens'", "line 2"],
        ),
        ("%%sglang\ns += None", ["cannot be appended", "line 2"]),
        ("%sglang load /no/such/folder", ["ModelError", "/no/such/folder", "hint"]),
        ("%sglang load", ["OptionError", "PATH_OR_ID"]),
        ("%sglang load tiny --devise cpu", ["OptionError", "--devise", "--device"]),
        ("%sglang enginee", ["OptionError", "'enginee'", "'engine'"]),
        ("%sglang engine list", ["OptionError", "'list'"]),
        ("%sglang engine use", ["OptionError", "needs a name"]),
        ("%sglang engine use tny", ["OptionError", "'tny'", "'tiny'"]),
        ("%sglang cancel run0", ["OptionError", "'run0'"]),
        ("%sglang doctor now", ["OptionError", "'now'"]),
    ],
)
def test_bad_input_is_a_short_error_and_the_next_cell_works(
    shell: Any, cell: str, words: list[str]
) -> None:
    lines = shell.fails(cell)
    assert len(lines) <= 5
    assert all(word in "\n".join(lines) for word in words)
    assert shell("%%sglang --show none\n" + QUESTION)["answer"]


def test_interrupt_keeps_the_text(shell: Any) -> None:
    shell("%sglang load tiny")
    timer = threading.Timer(0.5, _thread.interrupt_main)
    timer.start()
    lines = shell.fails("%%sglang --show none -o partial\n" + LONG)
    assert lines == ["KeyboardInterrupt", "stopped; the partial text is partial.text()"]
    assert len(shell.ns["partial"].text()) > len("A story.")
    assert sgnb.runs()[-1]["status"] == "interrupted"
    assert shell("%%sglang --show none\n" + QUESTION)["answer"]


def test_interrupt_while_the_views_open(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Any, run: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("sgnb.viz.live.display.Display.open", interrupted)
        assert shell.fails("%%sglang\n" + LONG)[0] == "KeyboardInterrupt"
    last = sgnb.runs()[-1]
    assert last["status"] == "interrupted"
    assert last["run"] not in sgnb.magics.session.SESSION.runs.running()
    assert shell("%%sglang --show none\n" + QUESTION)["answer"]


def test_timeout(shell: Any) -> None:
    lines = shell.fails("%%sglang --show none --timeout 0.5\n" + LONG)
    assert lines[0] == "Aborted: the run was stopped after 0.5 s"
    assert shell.ns["s"].text().startswith("A story.")
    assert shell("%%sglang --show none --timeout 60\n" + QUESTION)["answer"]


def test_a_generations_own_timeout(shell: Any) -> None:
    cell = LONG.replace("ignore_eos=True", "ignore_eos=True, timeout=0.5")
    lines = shell.fails("%%sglang --show none\n" + cell)
    assert lines[0] == "TimedOut: gen 'story' took longer than its timeout of 0.5 s"
    assert shell.ns["s"]["story"] and shell.ns["s"].done


def test_background(shell: Any) -> None:
    handle = shell("%%sglang story --bg\n" + LONG)
    assert handle.status == "running"
    assert "running" in repr(handle)
    assert shell("%%sglang --show none\n" + QUESTION)["answer"], (
        "another cell uses the same engine meanwhile"
    )
    assert not handle.wait(0.05)
    handle.cancel()
    with pytest.raises(Aborted):
        handle.wait()
    assert handle.status == "interrupted"
    assert handle.text().startswith("A story.")


def test_what_a_background_cell_shows_is_what_it_binds(shell: Any) -> None:
    shown = shell("%%sglang --bg -o h\n" + LONG)
    h = shell.ns["h"]
    assert shown is h and h.run_id in repr(h) and "s" not in shell.ns
    assert isinstance(shown, ProgramState) and h.status == "running"
    assert not h.wait(0.3)
    h.cancel()
    with pytest.raises(Aborted):
        h.wait()
    assert h.status == "interrupted" and h.text().startswith("A story.") and h.tokens >= 0
    assert h.text().endswith(h["story"]) and isinstance(h.error(), Aborted)
    done = shell("%%sglang --bg -o h --max-tokens 2\n" + QUESTION)
    assert done.wait() and done.value["answer"] == done["answer"] and done.error() is None
    more = shell("%%sglang --from h --show none\ns += ' More: ' + gen('b', max_tokens=1)\n")
    assert more.text().startswith(done.text())


def test_an_interrupted_wait_can_be_repeated(shell: Any) -> None:
    handle = shell("%%sglang story --bg\n" + LONG)
    with pytest.raises(KeyboardInterrupt):
        interrupt_in(0.3)
        handle.wait()
    assert handle.status == "running" and not handle.wait(0.01)
    handle.cancel()


def test_an_engine_can_be_unloaded_once_its_run_is_stopped(shell: Any) -> None:
    shell("%%sglang story --bg\n" + LONG)
    before = sgnb.engines.names()
    shell("%sglang cancel\n%sglang engine unload")
    assert len(sgnb.engines.names()) == len(before) - 1
    assert shell("%%sglang --show none\n" + QUESTION)["answer"]


def test_background_is_bound_at_once_and_read_later(shell: Any) -> None:
    shell("%%sglang --bg\n" + QUESTION)
    assert shell.ns["s"]["answer"]
    handle = shell('%%sglang each q --bg --over list("abc")\ns += q\ns += gen("x", max_tokens=2)\n')
    assert handle.wait()
    assert handle.status == "done"
    assert [state.text()[0] for state in handle.states] == ["a", "b", "c"]


def test_background_raises_what_keeps_it_from_beginning(shell: Any) -> None:
    assert "missing" in "\n".join(shell.fails('%%sglang each q r --bg --over [("a",)]\ns += q\n'))


def test_running_a_name_again_stops_the_old_run(shell: Any, capsys: Any) -> None:
    old = shell("%%sglang story --bg\n" + LONG)
    new = shell("%%sglang story --bg\n" + LONG)
    assert f"{old.run.id} of story was still running and is cancelled" in capsys.readouterr().out
    with pytest.raises(Aborted):
        old.wait()
    assert new.status == "running"


class Frame:
    """What is asked of a data frame."""

    columns = ("q",)

    def to_dict(self, orient: str) -> list[dict[str, str]]:
        assert orient == "records"
        return [{"q": "a"}, {"q": "b"}]


def number(shell: Any) -> int:
    """The number of the latest cell."""
    return int(shell.ipython.execution_count) - 1


def tb(shell: Any) -> list[str]:
    shell.shown.clear()
    shell.ipython.run_cell("%tb", store_history=False)
    return list(shell.shown)


def test_a_cell_goes_on_from_anothers_state(shell: Any) -> None:
    body = 's += user(q) + assistant(gen("answer", max_tokens=3))'
    shell(f"%%sglang talk q:str --run q=Hi -q\n{body}")
    first = shell.ns["s"]
    shell(f"%%sglang talk q:str --run q=More --from s -q\n{body}")
    second = shell.ns["s"]
    assert second is not first and second.text().startswith(first.text())
    assert len(second.messages()) == 4
    with pytest.raises(OptionError, match="no state is called"):
        shell("%%sglang --from nowhere -q\ns += 'x'")
