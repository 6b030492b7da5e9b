"""Approximate answers: counted and worded equally in Python and on the page."""

from __future__ import annotations

from dataclasses import asdict
from itertools import groupby

import pytest

from sgnb.events import (
    AnswerSpliced,
    AnswerVerified,
    EventLog,
    RequestAdmitted,
    RequestQueued,
    decode,
    encode,
)
from sgnb.viz import Trees
from sgnb.viz.state.cache_miss import Reason, _with_part
from sgnb.viz.state.log_state import LogState
from sgnb.viz.state.run_approximations import RunApproximations
from sgnb.viz.state.run_state import RunState
from sgnb.viz.static.plain_text import plain_text

from .make_log import Program, WordEngine
from .page import canonical, node

SPLICED = [AnswerSpliced(i, 18400, 2100 + i, 14000, 7, 4000) for i in range(1, 6)]
LONG = "The Maria\u202e came\nfirst. " * 20
VERIFIED = [
    AnswerVerified(1, "same", 57, 57, 0.0042, 0.001, 0.008, 3.04, " Yes."),
    AnswerVerified(2, "differs", 11, 57, 0.3, 0.001, 0.01, 0.5, LONG),
    AnswerVerified(3, "unverified", 0, 57, 0.0, 0.0, 0.0, 0.0, "", "the engine was closed"),
    AnswerVerified(4, "differs", 57, 57, 0.0, 0.3, 0.37, 0.5, " Yes."),
]
WORDS = [
    "approximate: computed 2,101 of 18,400 tokens; verified 3.0 s later: 57 of 57 tokens the same, "
    "mean KL 0.004, keys off by 0.8 %",
    "approximate: computed 2,102 of 18,400 tokens; differs from token 12; exact answer: "
    + LONG.replace("\n", " ").replace("\u202e", "\ufffd")[:200]
    + "…",
    "approximate: computed 2,103 of 18,400 tokens; unverified: the engine was closed",
    "approximate: computed 2,104 of 18,400 tokens; differs 500 ms later: 57 of 57 tokens the same, "
    "mean KL 0.000, keys off by 37.0 %",
    "approximate: computed 2,105 of 18,400 tokens; not verified yet",
]
TOGETHER = (
    "5 approximate answers: computed 10,515 of 92,000 tokens; 1 verified, 2 different, "
    "1 unverified, 1 not verified yet"
)
SCRIPT = """
  const run = { splices: new Map() };
  for (const event of given[0]) countSplice(run, event);
  for (const event of given[1]) countVerdict(run, event);
  return wordsOfSplices(run);
"""


def words(numbers: list[int]) -> str:
    """Return the line of the answers of these requests, which must be equal on the page."""
    spliced = [event for event in SPLICED if event.request in numbers]
    verified = [event for event in VERIFIED if event.request in numbers]
    state = RunApproximations()
    for event in (*spliced, *verified):
        assert state.apply(0, event, True)
    given = [[asdict(event) for event in events] for events in (spliced, verified)]
    line = state.line()
    assert node(SCRIPT, ("dom", "approximations"), given) == line
    assert state.pending == (5 in numbers)
    return line


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
def test_an_answer_has_a_line(number: int) -> None:
    assert words([number]) == WORDS[number - 1]


def test_several_answers() -> None:
    assert words([]) == ""
    assert words([3, 4, 5]) == "\n".join(WORDS[2:])
    assert words([1, 2, 3, 4, 5]) == TOGETHER


def test_answers_of_other_runs_do_not_count() -> None:
    state = RunApproximations()
    assert not state.apply(0, SPLICED[0], False)
    assert not state.apply(0, VERIFIED[0], False)
    assert state.apply(0, SPLICED[0], True) and not state.apply(1, VERIFIED[0], True)
    assert state.line() == WORDS[0].partition(";")[0] + "; not verified yet"


def test_reused_tokens_are_a_kind_of_text() -> None:
    """Three tokens of the second prompt are reused, in Python and on the page."""
    source, log = EventLog(), EventLog()
    engine = WordEngine(source)
    for run, word in (("r1", "Spain"), ("r2", "Italy")):
        program = Program(engine, run, "capitals")
        program.branch("0")
        program.add("0", f"Country: {word} one two three four Answer:")
        list(program.gen("0", "capital", " Rome."))
        program.end("0")
        program.finish()
    admissions = 0
    for record in source.read().records:
        if isinstance(record.event, RequestAdmitted):
            admissions += 1
            if admissions == 2:
                log.emit(AnswerSpliced(record.event.request, 8, 3, 3, 1, 3))
        log.emit(record.event)

    lines = [encode(record) for record in log.read().records]
    state = LogState(map(decode, lines))
    [_, second] = state.runs.values()
    segments = [(kind, text) for kind, text in second.branches["0"].segments if text]
    assert ("reused", " one two three") in merged(segments)
    assert second.metrics.by_kind()["reused"] == 3
    metrics = second.metrics
    assert metrics.computed_tokens == metrics.prompt_tokens - metrics.cached_tokens - 3
    script = """
      const store = newStore();
      store.add(parseLines(given.join("\\n")));
      return canonical(store.state);
    """
    page = node(script, ("branch", "models", "reduce", "store"), lines)
    assert page == canonical(state.tree, list(state.runs.values()))


def merged(segments: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the segments with adjacent ones of a kind as one."""
    groups = groupby(segments, lambda segment: segment[0])
    return [(kind, "".join(text for _, text in group)) for kind, group in groups]


def test_a_run_shows_its_own_answers() -> None:
    log = EventLog()
    engine = WordEngine(log)
    program = Program(engine, "r1", "ships")
    program.branch("0")
    program.add("0", "Which ship came first?")
    answer = program.gen("0", "answer", " The Maria.")
    next(answer)
    [number] = [r.event.request for r in log.read().records if isinstance(r.event, RequestQueued)]
    log.emit(AnswerSpliced(number, 18400, 2100, 14000, 7, 4000))
    log.emit(AnswerSpliced(number + 50, 100, 50, 50, 7, 50))
    list(answer)
    log.emit(AnswerVerified(number, "same", 57, 57, 0.004, 0.001, 0.008, 3.0, " The Maria."))
    state = RunState("r1", Trees())
    for record in log.read().records:
        state.apply(record)
    text = plain_text([state])
    assert "approximate: computed 2,100 of 18,400 tokens; verified 3.0 s later" in text
    assert text.count("approximate") == 1


@pytest.mark.parametrize("begin", range(2, 12))
@pytest.mark.parametrize("reused", [1, 3, 7])
def test_reused_tokens_split_the_reasons(begin: int, reused: int) -> None:
    reasons = [Reason("evicted", 4, "a"), Reason("differs", 14, "b"), Reason("last token", 1, "c")]
    kinds = [reason.kind for reason in reasons for _ in range(reason.tokens)]
    kinds[begin - 2 : begin - 2 + reused] = ["reused"] * reused
    split = list(_with_part(reasons, 2, begin, Reason("reused", reused, "d")))
    assert [reason.kind for reason in split for _ in range(reason.tokens)] == kinds
    assert all(reason.tokens > 0 for reason in split)
