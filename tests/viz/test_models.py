"""A run over several models as a picture, as text and in a terminal: whose each answer is, and what
each model did."""

from __future__ import annotations

import io

from sgnb.events import EventLog, LogReader
from sgnb.viz import LogState
from sgnb.viz.state.models import Model, with_marks
from sgnb.viz.static.bundle import picture
from sgnb.viz.static.plain_text import plain_text

from .make_log import Program, WordEngine


def duel() -> LogState:
    log, far = EventLog(), EventLog()
    own, judge = WordEngine(log), WordEngine(EventLog())
    program = Program(own, title="duel")
    program.branch("0")
    program.add("0", "Name a city:")
    list(program.gen("0", "draft", " Rome"))
    program.add("0", " Is it good?")
    list(program.gen_by(judge, 1, "0", "verdict", " yes it is"))
    program.add("0", " Sure?")
    list(program.gen_by(judge, 1, "0", "sure", " sure"))
    list(program.gen_far(far, 2, "0", "last", " far <b>&", 5))
    program.end("0")
    program.finish()
    reader = LogReader(log)
    records = reader.read().records
    return LogState([*reader.before, *records])


def test_text() -> None:
    state = duel()
    run = state.runs["r1"]
    text = plain_text([run, *run.trees()])
    head, *_, last = text.split("\n\n")
    lines = head.splitlines()
    assert [line.rpartition(" · ")[0] for line in lines[-3:]] == [
        "A words: 4 prompt + 1 new tokens",
        "B words-1: 23 prompt (12 found in the cache) + 4 new tokens",
        "C far away: 15 prompt (5 found in the cache) + 5 new tokens",
    ]
    assert "draft = ' Rome'\nverdict = ' yes it is'  (by B)\n" in text
    assert "last = ' far <b>&'  (by C)" in text
    assert "radix tree of A words: 1 node" in text and last.startswith("radix tree of B words-1")
    assert len(run.trees()) == 2, "a model that is no engine has no tree"


def test_a_picture() -> None:
    state = duel()
    run = state.runs["r1"]
    svg = picture([run, *run.trees()], 24, "x")
    assert svg.count("class='model'") == 3 and svg.count(">B</text>") == 2
    assert svg.count("class='u sampled other'") == 3 and "&lt;b&gt;&amp;" in svg
    assert "radix tree of B words-1" in svg


def test_a_terminal() -> None:
    from rich.console import Console

    from sgnb.viz.live.terminal import TerminalView

    state = duel()
    run, out = state.runs["r1"], io.StringIO()
    TerminalView([run, *run.trees()], Console(file=out, width=120)).end()
    assert "Rome Is it good?[B] yes it is Sure?[B] sure[C] far <b>&" in out.getvalue()
    assert "radix tree of B words-1" in out.getvalue()


def test_a_mark_stands_before_each_stretch_that_one_model_made() -> None:
    text = [["sampled B", "a"], ["jumped B", "b"], ["sampled C", "c"], ["text", "d"]]
    text += [["sampled C", "e"], ["sampled", "f"]]
    shown = "".join(f"<{one}>" if kind == "model" else one for kind, one in with_marks(text))
    assert shown == "<B>ab<C>cd<C>ef"


def test_the_seconds_of_a_model_are_those_in_which_it_was_asked() -> None:
    model = Model(1)
    for change, t in [("begin", 1), ("begin", 2), ("end", 4), ("end", 5), ("begin", 7), ("end", 8)]:
        getattr(model, change)(float(t))
    assert (model.seconds, model.letter) == (5.0, "B")
