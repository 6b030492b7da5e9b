"""A trace: what happened, kept and shown elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sgnb.errors import OptionError
from sgnb.events import EventLog
from sgnb.viz import Feed, LogState, Trace, Trees

from .make_log import HOSTILE, demo
from .page import canonical


def make_trace() -> tuple[Trace, LogState]:
    log = EventLog()
    list(demo(log))
    records = log.read().records
    feed = Feed(Trees(), 0.0)
    feed.push(records, 0)
    return Trace(feed.lines, "r1"), LogState(records)


def test_what_is_saved_opens_to_the_same_states(tmp_path: Path) -> None:
    trace, direct = make_trace()
    again = Trace.open(trace.save(tmp_path / "run.jsonl"))
    assert again.lines == trace.lines and again.run == "r1"
    for one in (trace, again):
        found = canonical(one.states.tree, [])
        assert found == canonical(direct.tree, [])
        assert one.states.runs["r1"].figures.output_tokens == 80
    assert again.text() == trace.text() and "three_tips · done" in again.text()
    bundle = again._repr_mimebundle_()
    assert bundle["text/plain"] == again.text() and bundle["image/svg+xml"].startswith("<svg")


def test_a_page_of_its_own_has_everything_and_asks_for_nothing(tmp_path: Path) -> None:
    trace, _ = make_trace()
    page = trace.save(tmp_path / "run.html").read_text(encoding="utf-8")
    assert "http" not in page.replace("http://www.w3.org", "")
    assert page.count("<script") == page.count("</script>") == 1
    assert HOSTILE not in page and "\\u003cimg onerror" in page


def test_perfetto_gets_slices_that_nest(tmp_path: Path) -> None:
    trace, direct = make_trace()
    saved = json.loads(trace.save(tmp_path / "run.json").read_text(encoding="utf-8"))
    made = saved["traceEvents"]
    named = {e["args"]["name"] for e in made if e["ph"] == "M"}
    assert {"engine", "three_tips (r1)", "branch 0.2"} <= named
    slices = [e for e in made if e["ph"] == "X" and e["pid"] == 2]
    assert all(e["dur"] >= 0 for e in slices)
    kinds = [e["cat"] for e in slices]
    assert kinds.count("decode") == 4 and kinds.count("prefill") == kinds.count("waiting") == 7
    for thread in {e["tid"] for e in slices}:
        ends = 0.0
        for e in sorted((e for e in slices if e["tid"] == thread), key=lambda e: e["ts"]):
            assert e["ts"] >= ends - 1e-3, "a branch does one thing at a time"
            ends = e["ts"] + e["dur"]
    steps = [e for e in made if e.get("cat") == "step"]
    assert len(steps) == sum(1 for line in trace.lines if '"StepRan"' in line)
    assert direct.runs["r1"].figures.passes <= len(steps)
    assert [e["name"] for e in made if e["ph"] == "i"] == ["evicted: memory"]


def test_lost_records_are_said() -> None:
    trace, _ = make_trace()
    feed = Feed(Trees(), 0.0)
    feed.push([], 7)
    assert Trace([*feed.lines, *trace.lines]).states.tree.lost == 7


def test_mistakes_name_the_cure(tmp_path: Path) -> None:
    trace, _ = make_trace()
    with pytest.raises(OptionError, match=r"(?s)'.htm'.*html"):
        trace.save(tmp_path / "run.htm")
    for text in ("not json", '{"a": 1}', "[1]"):
        (tmp_path / "other").write_text(text)
        with pytest.raises(OptionError, match="holds no records"):
            Trace.open(tmp_path / "other")
