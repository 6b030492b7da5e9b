"""The walk of a generation with a grammar: equal counts in the page and in a saved notebook."""

from __future__ import annotations

import pytest

from sgnb.events import EventLog, Jumped, encode
from sgnb.viz import LogState
from sgnb.viz.state.run_details import RunDetails
from sgnb.viz.static.walk_svg import WalkView

from .make_log import Program, WordEngine
from .page import node

FILES = ("dom", "branch", "models", "reduce", "store", "draw", "text", "grammar")


@pytest.mark.parametrize(("dropped", "forced"), [((), 0), ((0,), 2), ((1,), 1), ((1, 1, 0), 4)])
def test_forced_tokens_do_not_count_dropped_tokens(dropped: tuple[int, ...], forced: int) -> None:
    log = EventLog()
    engine = WordEngine(log)
    program = Program(engine)
    program.branch("0")
    program.add("0", "Name a city:")
    words = " one two three four five"
    generation = program.gen("0", "a", words)
    tokens = engine.encode(" forced text")
    next(generation), next(generation)  # queued, admitted
    for count in dropped:
        next(generation)
        jump = Jumped(engine.latest, "forced", count, tokens, " forced text", 0, 1, ())
        log.emit(jump)
    list(generation)
    program.end("0")
    program.finish()

    records = log.read().records
    [call] = RunDetails("r1", records).calls
    view = WalkView([call], {}, LogState(records).trees)
    total = len(engine.encode(words)) + 2 * len(dropped) - sum(dropped)
    assert view.lines()[1].startswith(f"{total} tokens, {forced} of them forced: ")

    script = """
      const state = newState();
      for (const record of parseLines(given.join("\\n"))) apply(state, record);
      const [{ output }] = [...state.requests.values()];
      return [output.length, forcedIn(output), state.runs.get("r1").metrics.jumped_tokens];"""
    assert node(script, FILES, list(map(encode, records))) == [total, forced, forced]
