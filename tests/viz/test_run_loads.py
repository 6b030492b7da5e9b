"""Tokens loaded from lower tiers: counted and worded equally in Python and on the page."""

from __future__ import annotations

from dataclasses import asdict

from sgnb.events import EventLog, PrefixLoaded, Record, encode
from sgnb.viz import Trees
from sgnb.viz.state.log_state import LogState
from sgnb.viz.state.run_loads import RunLoads
from sgnb.viz.state.run_state import RunState
from sgnb.viz.static.bundle import static_bundle
from sgnb.viz.static.kept_views import BranchesView, view_of
from sgnb.viz.static.media_svg import Thumbnails
from sgnb.viz.static.perfetto import trace_events
from sgnb.viz.static.plain_text import plain_text
from sgnb.viz.static.time_svg import TimeView

from .make_log import Program, WordEngine
from .page import node
from .test_page import REDUCERS

LOADS = [
    PrefixLoaded(1, "disk", 3200, 0.071, 0.384),
    PrefixLoaded(1, "host", 1280, 0.012, 0.4),
    PrefixLoaded(1, "disk", 64, 0.2, 1.5),
    PrefixLoaded(1, "<b>", 64, 0.2, 0.3, 1024),
]
WORDS = """3,264 tokens from the disk in 271 ms, instead of about 1.9 s of prefill
1,280 tokens from host memory in 12 ms, instead of about 400 ms of prefill
64 tokens from a store in 200 ms, instead of about 300 ms of prefill"""


def test_loads_are_added_and_worded() -> None:
    loads = RunLoads()
    assert loads.line() == ""
    for event in LOADS:
        loads.loaded(event, 1.0)
    assert loads.line() == WORDS
    assert [bar.tokens for bar in loads.bars] == [3200, 1280, 64, 64]
    assert loads.bars[0].line() == WORDS.splitlines()[0].replace("3,264", "3,200").replace(
        "271", "71"
    ).replace("1.9 s", "384 ms")
    assert loads.bars[3].line().endswith("; the tokens before token 1,024 were computed meanwhile")
    script = """
      const run = { loads: new Map(), loadBars: [] };
      for (const event of given) countLoad(run, event, 1);
      return [wordsOfLoads(run), run.loadBars.map((bar) => Object.values(bar))];
    """
    words, bars = node(script, ("dom", "copied_blocks", "loads"), [asdict(e) for e in LOADS])
    assert words == WORDS
    assert bars == [list(bar) for bar in loads.bars]


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


def loaded_run() -> list[Record]:
    """A run that waits for two loads, and a prefetch."""
    log = EventLog()
    engine = WordEngine(log)
    program = Program(engine, "r1", "ships")
    program.branch("0")
    program.add("0", "Which ship came first?")
    words = program.gen("0", "answer", " The Maria.")
    next(words)
    log.emit(PrefixLoaded(engine.latest, "disk", 3200, 0.071, 0.384))
    log.emit(PrefixLoaded(engine.latest, "host", 64, 0.01, 0.02))
    log.emit(PrefixLoaded(0, "disk", 128, 0.02, 0.3))
    list(words)
    program.end("0")
    program.finish()
    return [Record(i, i / 10, r.event) for i, r in enumerate(log.read().records)]


def test_saved_pictures_have_the_loads() -> None:
    records = loaded_run()
    run = LogState(records).runs["r1"]
    svg = static_bundle([run], "u")["image/svg+xml"]
    assert "cache loads" in svg and svg.count("class='disk'") == 2, "a bar and the legend"
    assert "loaded from host memory" in svg
    branches = view_of("branches", records, "r1")
    assert isinstance(branches, BranchesView)
    text = branches.text().splitlines()
    assert text[-2].startswith("cache load at ") and text[-2].endswith(
        ": 3,200 tokens from the disk in 71 ms, instead of about 384 ms of prefill"
    )
    time = view_of("time", records, "r1")
    assert isinstance(time, TimeView)
    assert "128 tokens from the disk in 20 ms" in time.text(), "prefetches as well"
    drawn, _ = time.draw(20, Thumbnails("u"))
    assert "3,392 tokens" in drawn and drawn.count("class='disk'") == 3
    assert drawn.count("class='host'") == 2 and "loaded from the disk" in drawn


def test_pictures_without_loads_have_no_lane() -> None:
    records = [r for r in loaded_run() if not isinstance(r.event, PrefixLoaded)]
    run = LogState(records).runs["r1"]
    assert "cache loads" not in static_bundle([run], "u")["image/svg+xml"]
    time = view_of("time", records, "r1")
    assert isinstance(time, TimeView) and "loads" not in time.draw(20, Thumbnails("u"))[0]


def test_perfetto_has_a_slice_per_load() -> None:
    loads = [event for event in trace_events(loaded_run()) if event["name"] == "load"]
    assert [event["args"]["tokens"] for event in loads] == [3200, 64, 128]
    assert loads[0]["dur"] == 71_000 and loads[0]["args"]["seconds of computing"] == 0.384


def test_the_inspector_describes_a_load() -> None:
    script = """
      const store = newStore();
      store.add(given.map(parseLine));
      return describe(store.state, { run: "r1", load: 0 }).facts;
    """
    lines = [encode(record) for record in loaded_run()]
    facts = dict(node(script, ("dom", *REDUCERS, "layout", "inspect"), lines))
    assert facts["load"] == "3,200 tokens from the disk" and facts["time"] == "71 ms"
    assert facts["computing"] == "would have taken about 384 ms"
    assert facts["for"] == "branch 0, answer"
