"""Tokens loaded from lower tiers: counted and worded equally in Python and on the page."""

from __future__ import annotations

from dataclasses import asdict

from sgnb.events import EventLog, PrefixLoaded
from sgnb.viz import Trees
from sgnb.viz.state.run_loads import RunLoads
from sgnb.viz.state.run_state import RunState
from sgnb.viz.static.plain_text import plain_text

from .make_log import Program, WordEngine
from .page import node

LOADS = [
    PrefixLoaded(1, "disk", 3200, 0.071, 0.384),
    PrefixLoaded(1, "host", 1280, 0.012, 0.4),
    PrefixLoaded(1, "disk", 64, 0.2, 1.5),
    PrefixLoaded(1, "<b>", 64, 0.2, 0.3),
]
WORDS = """3,264 tokens from the disk in 271 ms, instead of about 1.9 s of prefill
1,280 tokens from host memory in 12 ms, instead of about 400 ms of prefill
64 tokens from a store in 200 ms, instead of about 300 ms of prefill"""


def test_loads_are_added_and_worded() -> None:
    loads = RunLoads()
    assert loads.line() == ""
    for event in LOADS:
        loads.loaded(event)
    assert loads.line() == WORDS
    script = """
      const run = { loads: new Map() };
      for (const event of given) countLoad(run, event);
      return wordsOfLoads(run);
    """
    assert node(script, ("dom", "loads"), [asdict(event) for event in LOADS]) == WORDS


def test_a_run_counts_its_own_loads() -> None:
    log = EventLog()
    engine = WordEngine(log)
    program = Program(engine, "r1", "ships")
    program.branch("0")
    program.add("0", "Which ship came first?")
    words = program.gen("0", "answer", " The Maria.")
    next(words)
    number = next(
        r.event.request for r in log.read().records if type(r.event).__name__ == "RequestQueued"
    )
    log.emit(PrefixLoaded(number, "disk", 3200, 0.071, 0.384))
    log.emit(PrefixLoaded(number + 50, "disk", 64, 0.01, 0.02))
    list(words)
    state = RunState("r1", Trees())
    for record in log.read().records:
        state.apply(record)
    assert "3,200 tokens from the disk in 71 ms, instead of about 384 ms" in plain_text([state])
