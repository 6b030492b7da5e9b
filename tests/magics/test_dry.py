"""`--dry`, `program.dry` and `sgnb.dry`: what a program would ask for, with the bundled model,
generating nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sgnb
from sgnb import gen, select
from sgnb.errors import GrammarError, OptionError, ProgramError
from sgnb.magics.dry_report import DryReport, dry_run
from sgnb.magics.magic_options import CellLine

unconditional = sgnb.unconditional_likelihood_normalized

BODY = """s += "Q: " + q + "\\nYear: "
s += gen("year", regex="(19|20)[0-9]{2}", max_tokens=3)
s += "\\nMood: "
s += select("mood", ["good", "goodish"])
return s["year"], s["mood"]
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGNB_CACHE", str(tmp_path))


@pytest.fixture
def engine(shell: Any) -> Any:
    engine = sgnb.load("tiny")
    sgnb.flush_cache()
    return engine


def requests(engine: Any) -> int:
    return int(engine.stats()["requests"])


def test_a_cell(shell: Any, engine: Any) -> None:
    before = requests(engine)
    report = shell('%%sglang never_bound q:str --dry --run q="Who?"\n' + BODY)
    assert isinstance(report, DryReport)
    assert requests(engine) == before
    assert "never_bound" not in shell.ns and "s" not in shell.ns
    year, mood = report.calls
    assert (year.name, mood.name, year.answer, mood.answer) == ("year", "mood", "1900", "good")
    assert year.prompt_tokens == len(engine.encode(["Q: Who?\nYear: "])[0])
    assert (year.cached_tokens, year.shared_tokens, year.new_tokens) == (0, 0, 3)
    assert mood.shared_tokens >= year.prompt_tokens - 1
    assert mood.computed_tokens == mood.prompt_tokens - mood.shared_tokens
    assert mood.scored_tokens < mood.computed_tokens < mood.prompt_tokens
    assert year.grammar is not None and year.grammar.states > 4
    assert "mood: 'good' begins 'goodish'" in "".join(report.warnings)
    text = repr(report)
    assert f"Cell In[{shell.ipython.execution_count - 1}], line 3" in text
    assert "regex, " in text and "dry: 2 calls" in text
    assert "<table>" in report._repr_html_() and "<li>mood: &#x27;good" in report._repr_html_()


def test_what_is_cached_now(shell: Any, engine: Any) -> None:
    shell(
        '%%sglang ask q --max-tokens 2\ns += "The capital of " + q + " is"\ns += '
        'gen("a", temperature=0)\n'
    )
    assert shell("ask.dry('France')").calls[0].cached_tokens == 0
    shell("_ = ask.run('France')['a']")
    again = shell("ask.dry('France')").calls[0]
    assert (
        again.cached_tokens
        == again.prompt_tokens - 1
        == engine.cached_length("The capital of France is")
    )
    assert (again.computed_tokens, again.new_tokens) == (1, 2)
    tree = engine.tree()
    other = shell("ask.dry(q='Japan')").calls[0]
    assert 1 < other.cached_tokens < again.cached_tokens
    assert engine.tree() == tree


def plain(s: Any) -> None:
    s += "The capital of France is" + gen("a", max_tokens=5, ignore_eos=True)
    s += ". And of Japan" + gen("b", max_tokens=3)


def forks(s: Any) -> None:
    s += "Here are two tips. "
    branches = s.fork(3)
    branches += lambda i: f"Tip {i}: "
    branches += gen("x", max_tokens=4, temperature=0)
    branches.join()
    s += "Done:" + gen("z", max_tokens=3)


def choice(s: Any) -> None:
    s += "Sky:" + select("c", [" blue", " green", " light green"])
    s += ". Then" + gen("m", max_tokens=2)


def other_choice(s: Any) -> None:
    s += "Sea:" + select("c", [" blue", " deep blue"], choices_method=unconditional)


def regex(s: Any) -> None:
    s += "Year: " + gen("y", regex="(19|20)[0-9]{2}") + " Mood:" + gen("m", regex="good|bad")
    s += " End" + gen("e", max_tokens=2)


def record(s: Any) -> None:
    s += "Answer: " + gen("y", regex='[{]"ok":(true|false)[}]') + " End" + gen("e", max_tokens=2)


def samples(s: Any) -> None:
    s += "Once upon a time" + gen("y", n=4, max_tokens=3)


def forced(s: Any) -> None:
    s += "Say it: " + gen("a", regex="hello") + gen("b", regex="[ab]")


def counted(program: Any, engine: Any) -> tuple[Any, tuple[int, int]]:
    """What is predicted, and the prompt tokens of the run after it, all and those computed."""
    report, before = sgnb.dry(program), engine.stats()
    program.run().sync()
    after = engine.stats()
    prompt, cached = (after[key] - before[key] for key in ("prompt_tokens", "cached_tokens"))
    return report, (prompt, prompt - cached)


@pytest.mark.slow
@pytest.mark.parametrize(
    "program", [plain, forks, choice, other_choice, regex, record, samples, forced]
)
def test_it_predicts_what_then_happens(shell: Any, engine: Any, program: Any) -> None:
    """The calls of these programs end by length or grammar. In a warm cache a later call finds what
    was answered before, which a stand-in need not be: there the first calls and forks count."""
    made = sgnb.function(program)
    for _ in range(4):  # of samples that a cold run may draw
        engine.flush_cache()
        engine.executor._unconditional_logprobs.clear()
        report, (_, computed) = counted(made, engine)
        assert sum(call.computed_tokens for call in report.calls) == computed
        assert f"; {computed:,} of " in report.line()
    report, (_, computed) = counted(made, engine)
    assert report.calls[0].cached_tokens > 0 or report.calls[0].forced
    if len(report.calls) == 1 or program is forks:
        assert sum(call.computed_tokens for call in report.calls) == computed


def test_it_knows_an_engine_without_a_cache(shell: Any) -> None:
    with sgnb.Engine("tiny", prefix_cache=False) as engine:
        report = dry_run(sgnb.function(forks), engine, (), {})
        assert [call.cached_tokens + call.shared_tokens for call in report.calls] == [0] * 4


def test_the_first_row_of_a_batch(shell: Any, engine: Any) -> None:
    for over in ('["x", "y"]', '[dict(q="x")]', '[("x",)]', "iter('xy')"):
        report = shell(f'%%sglang each q --dry --over {over}\ns += q\ns += gen("a")\n')
        assert report.calls[0].prompt_tokens == len(engine.encode(["x"])[0])
    assert "empty" in shell.fails("%%sglang each q --dry --over []\ns += q\n")[0]


def test_forks_and_samples(shell: Any, engine: Any) -> None:
    report = shell(
        '%%sglang --dry --max-tokens 5\ns += "Two: "\nf = s.fork(3)\nf += gen("x", n=2)\nf.join()\n'
    )
    assert [call.name for call in report.calls] == ["x"] * 3
    first, *rest = report.calls
    assert first.shared_tokens == first.prompt_tokens // 2 - 1, "by its second sample"
    assert [call.computed_tokens for call in rest] == [2, 2]
    assert "at most 30 generated" in report.line()
    assert "<= 5 x 2" in repr(report)


def test_mistakes_are_raised_with_their_line(shell: Any, engine: Any) -> None:
    lines = shell.fails('%%sglang --dry\ns += gen("a", regex="(a")\n')
    assert lines[0].startswith("GrammarError")
    assert any(line.endswith(", line 2") for line in lines)
    lines = shell.fails('%%sglang --dry\ns += "x"\ns += gen("a", json_schema={"type": "strin"})\n')
    assert lines[0].startswith("GrammarError")
    assert any(line.endswith("line 3") for line in lines)
    with pytest.raises(ProgramError, match="nothing sets"):
        shell('%%sglang --dry\ns += "x"\ns["nope"]\n')
    assert "exclude each other" in shell.fails('%%sglang --dry --bg\ns += "x"\n')[0]
    assert "missing" in "\n".join(shell.fails("%%sglang ask q --dry\ns += q\n"))


@pytest.mark.parametrize("option", ["--bg", "--timeout 3", "--static", "-q", "-o x", "--show text"])
def test_what_makes_no_sense_with_it(option: str) -> None:
    with pytest.raises(OptionError, match="--dry and --"):
        CellLine.parse(f"--dry {option}")


def test_code_that_cannot_read_a_stand_in_ends_with_a_note(shell: Any, engine: Any) -> None:
    report = shell('%%sglang --dry\ns += "x"\ns += gen("n")\nn = int(s["n"])\ns += gen("m")\n')
    assert [call.name for call in report.calls] == ["n"]
    assert "line 4: the program stopped here on a placeholder answer: ValueError" in repr(report)
    assert shell('%%sglang --dry\ns += "x"\ns += gen_int("n")\nreturn int(s["n"])\n').notes == []


def test_a_shortest_text_that_is_too_long(shell: Any, engine: Any) -> None:
    report = shell(
        '%%sglang --dry\ns += "x"\ns += gen("n", regex="(abc[0-9]){12}", max_tokens=4)\n'
    )
    assert "max_tokens is 4: the call would fail" in report.warnings[0]


def test_a_prompt_that_fills_the_context(shell: Any, engine: Any) -> None:
    report = shell('%%sglang --dry\ns += "word " * 6000\ns += gen("a")\n')
    assert "the context holds 4096" in report.warnings[0]


def test_a_choice_that_joins_the_prompt(shell: Any, engine: Any) -> None:
    cell = '%%sglang --dry\ns += "The capital is{}"\ns += select("c", ["{}Paris", "{}Rome"])\n'
    assert shell(cell.format("", " ", " ")).warnings == []
    assert "form a single token" in shell(cell.format(" ", "", "")).warnings[0]


def test_python_twin(shell: Any, engine: Any) -> None:
    @sgnb.function
    def program(s: Any, what: str) -> None:
        s += what
        s += sgnb.gen("a", ebnf='root ::= "yes" | "no"')
        s += sgnb.gen("b", max_tokens=0)
        s += sgnb.gen("c", dtype=bool)

    report = sgnb.dry(program, what="Say: ")
    assert [call.name for call in report.calls] == ["a", "b", "c"]
    assert report.calls[0].location is not None and report.calls[0].location.file == __file__
    assert "llguidance" in repr(report)
    assert [call.answer for call in report.calls[1:]] == ["", "True"]
    assert report.warnings and all(line.startswith("a: ") for line in report.warnings)
    with pytest.raises(OptionError, match="not a program"):
        sgnb.dry(len)


def test_a_program_that_asks_for_nothing(shell: Any, engine: Any) -> None:
    report = shell('%%sglang --dry\ns += "x"\n')
    assert "the program makes no call" in repr(report)
    with pytest.raises(GrammarError):
        sgnb.dry(sgnb.function(bad_ebnf))


def bad_ebnf(s: Any) -> None:
    s += "x" + sgnb.gen("a", ebnf="root ::= (")


def test_a_text_without_choice_takes_no_pass(shell: Any, engine: Any) -> None:
    cell = '%%sglang{}\ns += "Say it: "\ns += gen("a", regex="hello") + gen("b", regex="[ab]")\n'
    engine.flush_cache()
    first, second = shell(cell.format(" --dry")).calls
    assert (first.computed_tokens, first.forced, second.shared_tokens) == (0, True, 0)
    shell(cell.format(" --show none"))
    real = [shell.ns["s"].get_meta_info(name)["cached_tokens"] for name in "ab"]
    assert real == [first.cached_tokens, second.cached_tokens] == [0, 0]


def test_a_dry_run_is_not_among_the_runs(shell: Any, engine: Any) -> None:
    before = len(sgnb.runs())
    shell('%%sglang --dry\ns += "x" + gen("a")\n')
    assert len(sgnb.runs()) == before


def test_an_argument_that_is_missing_is_missing_in_the_cell(shell: Any) -> None:
    shown = shell.fails('%%sglang twice text --dry\ns += text + gen("a")\n')
    assert f"Cell In[{shell.ipython.execution_count - 1}], line 1: twice: missing" in shown[0]


def test_the_border_of_prompt_and_text(shell: Any, engine: Any) -> None:
    cell = """%%sglang p --dry
s += "12 + 34 ={}"
s += gen("sum", regex="{}", max_tokens=5)
"""
    assert shell(cell.format("", " ?[0-9]{1,4}")).warnings == []
    assert shell(cell.format(" ", "[0-9]{1,4}")).warnings == []
    [line] = shell(cell.format("", "[0-9]{1,4}")).warnings
    assert line.startswith("sum: the prompt ends with '='") and line.endswith("with ' ?'")
    prompt, asked = "12 + 34 =", {"max_new_tokens": 5, "temperature": 0}
    assert engine.generate(prompt, asked, regex="[0-9]{1,4}").text != "46"
    assert engine.generate(prompt, asked, regex=" ?[0-9]{1,4}").text == " 46"


def test_a_cell_with_unordered_parts(shell: Any, engine: Any) -> None:
    body = (
        'notes = [f"Note {i} about ships and trains." for i in range(3)]\n'
        's += user(unordered(*notes[::turn], name="order") + " Why?")\n'
        's += assistant(gen("a", max_tokens=2))\n'
    )
    shell.ns["turn"] = 1
    shell("%%sglang --temperature 0\n" + body)
    shell.ns["turn"] = -1
    report = shell("%%sglang --dry\n" + body)
    assert "parts in the order 3, 2, 1: " in repr(report)
    shell("%%sglang --temperature 0\n" + body)
    assert shell.ns["s"]["order"] == [2, 1, 0]
