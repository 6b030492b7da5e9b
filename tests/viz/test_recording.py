"""A trace: what happened, kept and shown elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sgnb.errors import OptionError, RecordError
from sgnb.events import EventLog, Record, VariantRan, encode
from sgnb.viz import Feed, LogState, Recording, Trees

from .make_log import HOSTILE, demo
from .page import canonical


def make_trace() -> tuple[Recording, LogState]:
    log = EventLog()
    list(demo(log))
    records = log.read().records
    feed = Feed(Trees(), 0.0)
    feed.push(records, 0)
    return Recording(feed.lines, "r1"), LogState(records)


def test_what_is_saved_opens_to_the_same_states(tmp_path: Path) -> None:
    trace, direct = make_trace()
    again = Recording.open(trace.save(tmp_path / "run.jsonl"))
    assert again.lines == trace.lines and again.run == "r1"
    for one in (trace, again):
        found = canonical(one.states.tree, [])
        assert found == canonical(direct.tree, [])
        assert one.states.runs["r1"].metrics.output_tokens == 80
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
    assert direct.runs["r1"].metrics.passes <= len(steps)
    assert [e["name"] for e in made if e["ph"] == "i"] == ["evicted: memory"]


def test_lost_records_are_said() -> None:
    trace, _ = make_trace()
    feed = Feed(Trees(), 0.0)
    feed.push([], 7)
    assert Recording([*feed.lines, *trace.lines]).states.tree.lost == 7


LINES: list[tuple[str, dict[str, Any]]] = [
    ("NodeLocked", {"delta": [1]}), ("NodeAdded", {"tokens": []}), ("NodeAdded", {"parent": -1}),
    ("StepRan", {"sampled": {"request": [1], "token": [], "logprob": []}}),
    ("StepRan", {"extended": []}), ("StepRan", {"seconds": 1e200}), ("StepRan", {"t": "now"}),
    ("TokensNamed", {"pieces": []}), ("TokensNamed", {"ids": [0], "pieces": ["\u4e00"]}),
    ("BranchStarted", {"branch": "0", "parent": "0"}), ("RequestQueued", {"prompt": "123"}),
    ("RequestFinished", {"output_tokens": None}), ("RunStarted", {"total": -1}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "change"), LINES)
def test_a_changed_record_is_refused_with_its_line(
    tmp_path: Path, kind: str, change: dict[str, Any]
) -> None:
    trace, _ = make_trace()
    lines = list(map(json.loads, trace.lines))
    number = next(i for i, line in enumerate(lines) if line["kind"] == kind)
    lines[number] |= change
    (tmp_path / "run.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(RecordError, match=f"line {number + 1} of .*run.jsonl cannot be read"):
        Recording.open(tmp_path / "run.jsonl")


@pytest.mark.parametrize("end", [b"\0", b"\xff", b'{"seq": 1, "t": 0'])
def test_a_damaged_end_of_a_trace_is_refused(tmp_path: Path, end: bytes) -> None:
    trace, _ = make_trace()
    file = trace.save(tmp_path / "run.jsonl")
    file.write_bytes(file.read_bytes() + end)
    with pytest.raises(RecordError, match=f"line {len(trace.lines) + 1} of"):
        Recording.open(file)


def test_a_comparison_of_runs_without_time_is_drawn(tmp_path: Path) -> None:
    log = EventLog()
    list(demo(log))
    lines = [encode(record._replace(t=1.0)) for record in log.read().records]
    for variant in ("as it is", "nocache"):
        lines.append(encode(Record(1, 1.0, VariantRan("c", variant, "r1", ""))))
    (tmp_path / "run.jsonl").write_text("\n".join(lines))
    trace = Recording.open(tmp_path / "run.jsonl")
    assert "nocache" in trace.text() and "nocache" in trace._repr_mimebundle_()["image/svg+xml"]


def test_odd_names_are_printed_and_drawn(tmp_path: Path) -> None:
    trace, _ = make_trace()
    odd = json.dumps("0\0\ud800\x1b[31m")
    lines = [line.replace('"branch":"0"', f'"branch":{odd}') for line in trace.lines]
    (tmp_path / "run.jsonl").write_text("\n".join(line.replace('"parent":"0"', f'"parent":{odd}')
        .replace('"branch":"0.', f'"branch":{odd[:-1]}.') for line in lines))  # fmt: skip
    trace = Recording.open(tmp_path / "run.jsonl")
    for text in (trace.text(), *trace._repr_mimebundle_().values()):
        assert "\0" not in text and "\x1b" not in text and text.encode()


def test_mistakes_name_the_cure(tmp_path: Path) -> None:
    trace, _ = make_trace()
    with pytest.raises(OptionError, match=r"(?s)'.htm'.*html"):
        trace.save(tmp_path / "run.htm")
    for text in ("not json", '{"a": 1}', "[1]", "[" * 100_000, "\0"):
        (tmp_path / "other").write_text(text)
        with pytest.raises(OptionError, match="cannot be read"):
            Recording.open(tmp_path / "other")
