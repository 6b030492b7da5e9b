"""Programs that a compiler could run with stale or wrong decisions: each run as a graph is equal to
the program, or raises a `TraceError`."""

from __future__ import annotations

import contextlib
import datetime
import html
import json
import operator
import os
import random
import re
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import sgnb as sgl
from sgnb.errors import TraceError
from sgnb.lang import function, set_default_executor

from .fake import FakeExecutor

OPENED = Path(__file__)
NUMBER = re.compile(r"\d+")
TONE = "kind"
LIMITS = {"rows": 1}
SHOTS: list[str] = ["a", "b"]
SYNONYMS = {"sum": "total", "": "nothing"}
LOG: list[Any] = []


class Settings:
    """A namespace that a program reads."""

    style = "plain"
    prefix = "Q: "


def helper(text: str) -> str:
    return f"<{text}>"


def length_of(topic: str) -> int:
    text = f"{topic}!"
    return len(text)


def yes_no(text: str) -> str:
    return "yes" if re.match(r"\d", text) else "no"


@function
def called(s: Any, word: str) -> None:
    s += f"[{word}|{TONE}]" + sgl.gen("inner", max_tokens=3)


# Each case: the program, arguments of the runs in turn, and an edit before the last run.


def frozen_default(s: Any, q: str, n: int = 1) -> None:
    for i in range(n):
        s += f"{i}. {q}" + sgl.gen(f"x{i}")


def frozen_flag(s: Any, q: str, short: bool = False) -> None:
    s += q + ("." if short else " in detail.") + sgl.gen("x")


def frozen_temperature(s: Any, q: str, temperature: float = 0.5) -> None:
    s += q + sgl.gen("x", temperature=temperature)


def frozen_list(s: Any, q: str, stop: Any = ("\n",)) -> None:
    s += q + sgl.gen("x", stop=list(stop))


def frozen_none(s: Any, q: str, hint: Any = None) -> None:
    s += q
    if hint is not None:
        s += f" ({hint})"
    s += sgl.gen("x")


def frozen_keyword(s: Any, q: str, *, max_tokens: int = 4) -> None:
    s += q + sgl.gen("x", max_tokens=max_tokens)


def changed_global(s: Any, q: str) -> None:
    s += f"Be {TONE}. {q}" + sgl.gen("x")


def changed_global_decision(s: Any, q: str) -> None:
    s += q + (sgl.gen("x") if TONE == "kind" else sgl.select("x", ["a", "b"]))


def changed_dict(s: Any, q: str) -> None:
    for i in range(LIMITS["rows"]):
        s += f"{i}{q}"
    s += sgl.gen("x")


def changed_attribute(s: Any, q: str) -> None:
    s += Settings.prefix + q + Settings.style + sgl.gen("x")


def growing_list(s: Any, q: str) -> None:
    for shot in SHOTS:
        s += shot + "\n"
    s += q + sgl.gen("x")


def joined_list(s: Any, q: str) -> None:
    s += ", ".join(SHOTS) + q + sgl.gen("x", stop=SHOTS[-1])


def growing_choices(s: Any, q: str) -> None:
    s += q + sgl.select("x", list(SHOTS))


def changed_helper(s: Any, q: str) -> None:
    s += helper(q) + sgl.gen("x")


def changed_called_program(s: Any, q: str) -> None:
    called(s, q)
    s += sgl.gen("x")


def changed_run_program(s: Any, q: str) -> None:
    other = called.run(word=q)
    s += other["inner"] + sgl.gen("x")


def matches_argument(s: Any, q: str) -> None:
    s += "number" if re.match(r"\d", q) else "word"
    s += sgl.gen("x")


def compiled_pattern(s: Any, q: str) -> None:
    s += "number" if NUMBER.search(q) else "word"
    s += sgl.gen("x")


def dict_get(s: Any, q: str) -> None:
    s += SYNONYMS.get(f"{q}", "other") + sgl.gen("x")


def dict_item(s: Any, q: str) -> None:
    s += SYNONYMS[f"{q}"] + sgl.gen("x")


def type_is_str(s: Any, q: Any) -> None:
    s += f"{q}" + (" text" if type(q) is str else " number") + sgl.gen("x")


def is_instance(s: Any, q: Any) -> None:
    s += f"{q}" + (" text" if isinstance(q, str) else " number") + sgl.gen("x")


def length_in_helper(s: Any, topic: str) -> None:
    s += topic + " long" * (length_of(topic) > 5) + sgl.gen("x")


def length_of_format(s: Any, q: str) -> None:
    text = "Q: %s" % (q,)  # noqa: UP031
    s += text + ("!" if len(text) > 8 else "?") + sgl.gen("x")


def starts_with(s: Any, q: str) -> None:
    s += "yes" if "summary".startswith(q) else "no"
    s += sgl.gen("x")


def in_literal(s: Any, q: str) -> None:
    s += "known" if q in "sum total" else "new"
    s += sgl.gen("x")


def compares_text(s: Any, q: str) -> None:
    s += "known" if f"{q}" == "sum" else "new"
    s += sgl.gen("x")


def matched_case(s: Any, q: str) -> None:
    match f"{q}":
        case "sum":
            s += "add"
        case _:
            s += "other"
    s += sgl.gen("x")


def sorted_texts(s: Any, q: str) -> None:
    s += ",".join(sorted([f"{q}", "b"])) + sgl.gen("x")


def padded(s: Any, q: str) -> None:
    s += f"{q}".center(12, "*") + sgl.gen("x")


def sliced(s: Any, q: str) -> None:
    s += f"{q} and more"[:5] + sgl.gen("x")


def counted(s: Any, q: str) -> None:
    s += str(Counter(f"{q}")["1"]) + sgl.gen("x")


def caught(s: Any, q: str) -> None:
    with contextlib.suppress(ValueError):
        s += str(int(f"{q}") + 1)
    s += sgl.gen("x")


def json_text(s: Any, q: str) -> None:
    s += json.dumps({"q": q}) + sgl.gen("x")


def escaped(s: Any, q: str) -> None:
    s += html.escape(q) + sgl.gen("x", regex=re.escape(q) + "[ab]")


def from_environment(s: Any, q: str) -> None:
    s += os.environ.get("SGNB_TEST_TONE", "plain") + q + sgl.gen("x")


def from_file(s: Any, q: str) -> None:
    s += OPENED.read_text() + q + sgl.gen("x")


def random_choice(s: Any, q: str) -> None:
    s += random.choice(["a", "b", "c", "d"]) + q + sgl.gen("x")


def random_branch(s: Any, q: str) -> None:
    s += sgl.gen("x") if random.random() < 0.5 else sgl.select("x", ["a", "b"])
    s += q


def clock(s: Any, q: str) -> None:
    s += f"{time.time():.0f} {q}" + sgl.gen("x")


def today(s: Any, q: str) -> None:
    s += f"{datetime.date.today()} {q}" + sgl.gen("x")


def counts_runs(s: Any, q: str) -> None:
    LIMITS["runs"] = LIMITS.get("runs", 0) + 1
    s += f"{LIMITS['runs']}" * 0 + q + sgl.gen("x")


def logs_argument(s: Any, q: str) -> None:
    LOG.append(q)
    s += q + sgl.gen("x")


def logs_generated(s: Any, q: str) -> None:
    s += q + sgl.gen("x")
    LOG.append(s["x"])


def stores_generated(s: Any, q: str) -> None:
    s += q + sgl.gen("x")
    LIMITS["last"] = s["x"]


def prints_generated(s: Any, q: str) -> None:
    s += q + sgl.gen("x")
    print(s["x"])


def matches_generated(s: Any, q: str) -> None:
    s += q + sgl.gen("x")
    s += " number" if NUMBER.search(s["x"]) else " word"


def helper_of_generated(s: Any, q: str) -> None:
    s += q + sgl.gen("x")
    s += yes_no(f"{s['x']}")


def length_of_generated(s: Any, q: str) -> None:
    s += q + sgl.gen("x")
    s += " long" * (len(f"{s['x']}") > 3)


def finds_generated(s: Any, q: str) -> None:
    s += q + sgl.gen("x")
    s += str("<123>".find(s["x"]))


def contained_generated(s: Any, q: str) -> None:
    s += q + sgl.gen("x")
    s += " yes" if s["x"] in "<1><2><3>" else " no"


def keyed_by_generated(s: Any, q: str) -> None:
    s += q + sgl.gen("x")
    s += SYNONYMS.get(f"{s['x']}", "other")


def joined_forks(s: Any, q: str) -> None:
    forks = s.fork(2)
    forks += q + sgl.gen("x")
    forks.join()
    joined = ", ".join(s["x"])
    s += joined + (" long" if joined.__len__() > 9 else " short")


def attribute_operator(s: Any, q: str) -> None:
    s += q + (" big" if operator.gt(f"{q}", "k") else " small") + sgl.gen("x")


def edit_global() -> None:
    global TONE
    TONE = "terse"


def edit_helper() -> None:
    global helper
    helper = lambda text: f"({text})"  # noqa: E731


def edit_dict() -> None:
    LIMITS["rows"] = 3


def edit_attribute() -> None:
    Settings.style = "bold"


def edit_list() -> None:
    SHOTS.append("c")


def edit_environment() -> None:
    os.environ["SGNB_TEST_TONE"] = "rude"


def edit_file() -> None:
    OPENED.write_text("second ")


@dataclass
class Case:
    """Runs of a program, as code and as a graph."""

    program: Callable[..., Any]
    rows: list[dict[str, Any]] = field(
        default_factory=lambda: [{"q": "sum"}, {"q": "12"}, {"q": ""}]
    )
    edit: Callable[[], None] = lambda: None
    refused: bool = False  # at compile


def numbered(**last: Any) -> list[dict[str, Any]]:
    return [{"q": "a"}, {"q": "b", **last}]


CASES = [
    Case(frozen_default, numbered(n=3)),
    Case(frozen_flag, numbered(short=True)),
    Case(frozen_temperature, numbered(temperature=0.9)),
    Case(frozen_list, numbered(stop=[".", "!"])),
    Case(frozen_none, numbered(hint="in French")),
    Case(frozen_keyword, numbered(max_tokens=9)),
    Case(changed_global, edit=edit_global),
    Case(changed_global_decision, edit=edit_global),
    Case(changed_dict, edit=edit_dict),
    Case(changed_attribute, edit=edit_attribute),
    Case(growing_list, edit=edit_list),
    Case(joined_list, edit=edit_list),
    Case(growing_choices, edit=edit_list),
    Case(changed_helper, edit=edit_helper),
    Case(changed_called_program, edit=edit_global),
    Case(changed_run_program, edit=edit_global),
    Case(matches_argument),
    Case(compiled_pattern),
    Case(dict_get, refused=True),
    Case(dict_item, [{"q": "sum"}, {"q": ""}], refused=True),
    Case(type_is_str, [{"q": "a"}, {"q": 3}]),
    Case(is_instance, [{"q": "a"}, {"q": 3}]),
    Case(length_in_helper, [{"topic": "a"}, {"topic": "a long topic"}], refused=True),
    Case(length_of_format, refused=True),
    Case(starts_with),
    Case(in_literal, refused=True),
    Case(compares_text, refused=True),
    Case(matched_case, refused=True),
    Case(sorted_texts, refused=True),
    Case(padded, refused=True),
    Case(sliced, refused=True),
    Case(counted, refused=True),
    Case(caught, refused=True),
    Case(json_text, refused=True),
    Case(escaped, [{"q": "a.b"}], refused=True),
    Case(from_environment, edit=edit_environment),
    Case(from_file, edit=edit_file),
    Case(random_choice),
    Case(random_branch),
    Case(clock),
    Case(today),
    Case(counts_runs),
    Case(logs_argument, refused=True),
    Case(logs_generated, refused=True),
    Case(stores_generated, refused=True),
    Case(prints_generated, refused=True),
    Case(matches_generated, refused=True),
    Case(helper_of_generated, refused=True),
    Case(length_of_generated, refused=True),
    Case(finds_generated, refused=True),
    Case(contained_generated, refused=True),
    Case(keyed_by_generated, refused=True),
    Case(joined_forks, refused=True),
    Case(attribute_operator, refused=True),
]


@pytest.fixture(autouse=True)
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake: FakeExecutor) -> Iterator[None]:
    """Restore everything that an edit changes, and stop the clock."""
    here = globals()
    for name, value in {
        "TONE": "kind", "helper": helper, "LIMITS": {"rows": 1}, "SHOTS": ["a", "b"], "LOG": [],
        "OPENED": tmp_path / "tone.txt",
    }.items():  # fmt: skip
        monkeypatch.setitem(here, name, value)
    monkeypatch.setattr(Settings, "style", "plain")
    monkeypatch.delenv("SGNB_TEST_TONE", raising=False)
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    OPENED.write_text("first ")
    set_default_executor(fake)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    set_default_executor(None)
    os.environ.pop("SGNB_TEST_TONE", None)


def outcome(program: Any, row: dict[str, Any]) -> Any:
    """The results of a run, or the type and the text of the error."""
    random.seed(7)
    try:
        state = program.run(**row)
        state.sync()
    except Exception as error:
        return type(error).__name__, str(error).partition("\n")[0]
    return state.text(), state._branch.variables, state.messages(), state.ret_value


def traces(case: Case) -> Iterator[Any]:
    """The compiled forms of a program: a graph, a graph with the values of the first run, and a
    graph inside an interpreted program."""
    program = function(case.program)
    with contextlib.suppress(TraceError):
        yield program.compile()
    with contextlib.suppress(TraceError):
        yield program.compile(**case.rows[0])

    @function
    def around(s: Any, row: dict[str, Any]) -> None:
        s += sgl.gen("first")
        if s["first"]:
            program(s, **row)

    yield around.compile(partial=True)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.program.__name__)
def test_a_graph_is_equal_to_the_program_or_an_error(case: Case) -> None:
    program = function(case.program)

    @function
    def around(s: Any, row: dict[str, Any]) -> None:
        s += sgl.gen("first")
        if s["first"]:
            program(s, **row)

    compiled = list(traces(case))
    differences = []
    for i, row in enumerate(case.rows):
        if i == len(case.rows) - 1:
            case.edit()
        nested = outcome(around, {"row": row})
        for graph in compiled:
            if "row" in graph.signature.parameters:
                got, expected_here = outcome(graph, {"row": row}), nested
            else:
                names = graph.signature.parameters
                values = {name: value for name, value in row.items() if name in names}
                got = outcome(graph, values)
                expected_here = outcome(program, first_values(case, row, names))
            if got != expected_here and got[0] != "TraceError":
                differences.append((graph, row, got, expected_here))
    assert not differences


def first_values(case: Case, row: dict[str, Any], names: Any) -> dict[str, Any]:
    """Return arguments of a run: one argument replaced in the first row."""
    return {**row, **{name: v for name, v in case.rows[0].items() if name not in names}}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.program.__name__)
def test_what_is_refused_names_the_line(case: Case) -> None:
    program = function(case.program)
    if not case.refused:
        program.compile()
        return
    with pytest.raises(TraceError) as raised:
        program.compile()
    assert f"{__file__}:" in raised.value.message


def test_the_cases_are_at_least_53() -> None:
    assert len({case.program.__name__ for case in CASES}) >= 53
