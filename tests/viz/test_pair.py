"""Two branches beside each other in the page: where they part."""

from __future__ import annotations

from typing import Any

from sgnb import events
from sgnb.events import EventLog, encode

from .make_log import Program, WordEngine
from .page import node

FILES = (
    *("dom", "branch", "models", "reduce", "store", "draw", "text", "axis", "lane_drawing"),
    *("pair", "branches"),
)
SCRIPT = """
  const state = newState();
  for (const record of parseLines(given.lines.join("\\n"))) apply(state, record);
  const run = state.runs.get("r1"), pieces = given.names.map((name) => piecesOf(state, run, name));
  const lanes = timelineOf(state, run).filter(({ name }) => given.names.includes(name));
  const { tokens, characters, more, here, there } = partingOf(state, ...pieces);
  const metrics = lanes.map(({ requests }) => metricsOf(state, requests).replace(/ · [^·]*$/, ""));
  return { parted: [tokens, characters, more, here, there], texts: pieces.map(textOf), metrics };
"""


def pair(log: EventLog, *names: str) -> Any:
    lines = [encode(record) for record in log.read().records]
    return node(SCRIPT, FILES, {"lines": lines, "names": names})


def forked(*answers: str) -> EventLog:
    log = EventLog()
    program = Program(WordEngine(log))
    program.branch("0")
    program.add("0", "Two tips for sleep.")
    for i, answer in enumerate(answers):
        program.branch(f"0.{i}", "0")
        program.add(f"0.{i}", " Tip:")
        list(program.gen(f"0.{i}", "tip", answer))
    return log


def test_forks_part_at_the_first_token_that_differs() -> None:
    found = pair(forked(" go to bed early", " go to work early"), "0.0", "0.1")
    assert found["parted"] == [9, len("Two tips for sleep. Tip: go to"), 1, " bed", " work"]
    assert found["texts"][1] == "Two tips for sleep. Tip: go to work early"
    assert found["metrics"] == [
        "0 of 7 prompt tokens found · 4 new tokens",
        "6 of 7 prompt tokens found · 4 new tokens",
    ]


def test_a_branch_and_its_fork_and_equal_branches() -> None:
    log = forked(" early", " early")
    assert pair(log, "0", "0.1")["parted"] == [5, 19, 0, None, " Tip"]
    assert pair(log, "0.0", "0.1")["parted"] == [8, 30, 0, None, None]


def test_texts_that_go_on_alike_in_other_tokens_say_so() -> None:
    log = EventLog()
    engine = WordEngine(log)
    engine.encode("a bc b c")
    program = Program(engine)
    for name, tokens in (("0", " bc"), ("1", " b")):
        program.branch(name)
        program.add(name, "a")
        list(program.gen(name, "x", tokens))
    request = engine.latest
    log.emit(events.TokensNamed((99,), ("c",)))
    log.emit(events.Jumped(request, "forced", 0, (99,), "c", -1, -1, ()))
    tokens, characters, more, here, there = pair(log, "0", "1")["parted"]
    assert (tokens, characters, more, here, there) == (1, 1, 2, " bc", " b")


def test_branches_whose_text_is_not_kept_are_compared_by_their_last_request() -> None:
    log = EventLog()
    program = Program(WordEngine(log), total=20)
    for i in range(20):
        program.branch(str(i))
        program.add(str(i), f"Row {i}:")
        list(program.gen(str(i), "x", " the same answer"))
    found = pair(log, "3", "18")
    assert found["texts"] == ["Row 3: the same answer", "Row 18: the same answer"]
    assert found["parted"] == [1, 3, 1, " 3", " 18"]


def test_what_was_never_admitted_has_looked_for_nothing() -> None:
    """Such as a generation that its grammar forces whole."""
    script = """
      const request = (admitted, cached) => ({ admitted, cached, prompt: [1, 2, 3, 4] });
      return foundOf([request(null, 0), request(0.5, 3)]);"""
    assert node(script, FILES, None) == "3 of 4"
