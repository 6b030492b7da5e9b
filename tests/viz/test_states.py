"""States of recurrent layers in the views: checkpoints in the tree, and what a hit computed again.
Logs are made by hand; a model of attention alone shows nothing of all this."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from sgnb import events
from sgnb.events import EventLog, Record, encode
from sgnb.viz.live.terminal import print_tree, render_text
from sgnb.viz.state.cache_miss import lookups
from sgnb.viz.state.log_state import LogState
from sgnb.viz.state.tree import TreeState
from sgnb.viz.static.bundle import picture, static_bundle
from sgnb.viz.static.perfetto import trace_events
from sgnb.viz.static.plain_text import batch_lines, plain_text, tree_text

from .make_log import Program, WordEngine
from .page import node
from .test_page import REDUCERS

FILES = ["dom", *REDUCERS, "draw", "text", "layout", "inspect"]


def ask(engine: WordEngine, prompt: str, output: str = " yes") -> None:
    list(engine.generate(prompt, output))


def program(states: int, total: int = 1) -> WordEngine:
    """The second call begins as the first does, and no state is kept where they part."""
    engine = WordEngine(EventLog(), states=states)
    ask(engine, "one two")
    program = Program(engine, "r1", "demo", total)
    for branch, text in (("0", "one two yes three four"), ("1", "one two yes three five six")):
        program.branch(branch)
        program.add(branch, text)
        list(program.gen(branch, "answer", " no"))
        program.end(branch)
    program.finish()
    return engine


@pytest.fixture
def log() -> EventLog:
    return program(8).log


def state(log: EventLog) -> LogState:
    return LogState(log.read().records)


def page(log: EventLog, script: str) -> Any:
    read = "const store = newStore(); store.add(given.map((line) => JSON.parse(line)));"
    return node(read + script, FILES, [encode(record) for record in log.read().records])


def test_checkpoints_follow_splits_and_go_with_their_node() -> None:
    tree = TreeState()

    def told(*happened: Any) -> list[int]:
        for event in happened:
            tree.apply(Record(1, 0.0, event))
        found = [node.id for node in tree.nodes.values() if node.checkpoint]
        assert tree.checkpoints == len(found)
        return found

    added = events.NodeAdded(1, 0, (1, 2, 3))
    assert told(added, events.CheckpointKept(1), events.CheckpointKept(1)) == [1]
    assert told(events.NodeSplit(1, 2, 1)) == [1], "it stays behind the last token"
    assert told(events.CheckpointKept(2)) == [1, 2]
    assert told(events.CheckpointDropped(2), events.CheckpointDropped(2)) == [1]
    assert told(events.NodeEvicted(1, "memory")) == [] and 2 in tree.nodes
    assert told(events.CheckpointKept(9)) == [] and tree.missing == 1


def test_what_is_computed_again_has_its_own_kind(log: EventLog) -> None:
    run = state(log).runs["r1"]
    assert (run.metrics.cached_tokens, run.metrics.recomputed_tokens) == (6, 1)
    assert run.metrics.computed_tokens == 5, "those that are computed again are computed"
    kinds = [kind for kind, _ in run.branches["1"].segments]
    assert kinds == ["cached", "again", "computed", "sampled"]
    assert run.branches["1"].segments[1] == ["again", " three"]
    assert run.metrics.by_kind() == {"cached": 6, "computed": 5, "again": 1, "sampled": 2}
    assert "6 of 11 prompt tokens found in the cache" in run.metrics.gain()
    assert run.metrics.gain().endswith("; 1 more recomputed for lack of a checkpoint")
    assert run.metrics.gain() in plain_text([run])


def test_rows_have_a_column_where_something_was_computed_again() -> None:
    rows = "\n".join(batch_lines(state(program(8, total=2).log).runs["r1"], 60))
    assert "#  cached  again  prompt" in rows and "50%    17%       6" in rows
    without = "\n".join(batch_lines(state(program(0, total=2).log).runs["r1"], 60))
    assert "#  cached  prompt" in without and "again" not in without
    saved = plain_text([state(program(8, total=2).log).runs["r1"]])
    assert "#  prompt  new" in saved, "figures that vary are not in the saved text"


@pytest.mark.parametrize("total", [1, 2])
def test_a_terminal_and_the_picture_say_it(total: int) -> None:
    states = state(program(8, total).log)
    run, tree = states.runs["r1"], states.tree
    console = Console(file=io.StringIO(), width=100)
    console.print(render_text(run), print_tree(tree))
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    svg = picture([run, tree], 20, "twin")
    for shown in (printed, svg):
        assert "recomputed 1" in shown and "3 of 8 states kept" in shown
    assert "checkpoint" in printed
    assert svg.count("class='again'") == (2 if total == 1 else 1), "the text and its legend"
    assert svg.count("class='q'") == 4, "three nodes and the legend"


def test_the_tree_marks_its_checkpoints(log: EventLog) -> None:
    text = tree_text(state(log).tree)
    assert "· 3 of 8 states kept ·" in text.splitlines()[0]
    assert "one two yes (3 tokens, checkpoint)" in text
    assert "␣three (1 token)" in text, "no state was kept where the two part"
    assert text.count("checkpoint") == 3


def test_models_of_attention_alone_show_nothing_of_it() -> None:
    states = state(program(0).log)
    bundle = static_bundle([states.runs["r1"], states.tree], "id")
    for shown in bundle.values():
        assert not any(word in shown for word in ("checkpoint", "state", " again"))
    assert "class='q'" not in bundle["image/svg+xml"]
    assert "states" not in {event["name"] for event in trace_events(program(0).log.read().records)}


def test_why_no_hit_names_the_option(log: EventLog) -> None:
    found = lookups(log.read().records, "r1")[-1]
    assert (found.cached_tokens, found.recomputed_tokens) == (3, 1)
    kinds = [(reason.kind, reason.tokens) for reason in found.reasons]
    assert kinds == [("no state", 1), ("differs", 1), ("last token", 1)]
    never = found.reasons[0].text
    assert "no state was kept behind token 3" in never and "checkpoint_every" in never
    assert found.line().endswith("3 of 6 prompt tokens found, 1 recomputed")


def test_a_dropped_state_is_another_reason() -> None:
    engine = WordEngine(EventLog(), states=8)
    ask(engine, "one two three")
    leaf = engine.checkpoints[0]
    ask(engine, "one two three yes four")
    engine.drop(leaf)
    ask(engine, "one two three yes four five")
    found = lookups(engine.log.read().records)[-1]
    assert [(reason.kind, reason.tokens) for reason in found.reasons] == [
        ("no state", 4),
        ("no state", 1),
        ("last token", 1),
    ]
    dropped, never, _ = (reason.text for reason in found.reasons)
    assert "behind token 4 was dropped" in dropped and "max_states" in dropped
    assert "no state was kept behind token 4" in never


def test_a_comparison_says_what_of_it_was_computed_again(log: EventLog) -> None:
    log.emit(events.VariantRan("c", "as it is", "r1", ""))
    comparison = state(log).comparison
    assert "5 (1 again)" in plain_text([comparison])
    assert ">5 (1 again)</text>" in picture([comparison], 20, "twin")
    rows = [encode(record) for record in log.read().records]
    read = "const store = newStore(); store.add(given.map((line) => JSON.parse(line)));"
    computed = "COMPARED.find(([name]) => name === 'computed')[2]"
    script = f"{read} return comparedRows(store.state).map({computed});"
    assert node(script, [*FILES, "branches", "rerun", "compare"], rows) == ["5 (1 again)"]


def test_perfetto_counts_states(log: EventLog) -> None:
    made = trace_events(log.read().records)
    counted = [event["args"] for event in made if event["name"] == "states"]
    assert counted and all(sum(one.values()) == 8 for one in counted)
    facts = [event["args"] for event in made if event.get("cat") == "prefill"]
    assert [one.get("recomputed tokens") for one in facts] == [None, None, 1]


def test_the_page_says_what_a_node_and_a_token_are(log: EventLog) -> None:
    tree = state(log).tree
    three = next(node for node in tree.nodes.values() if tree.text(node) == " three")
    script = f"""
      const said = (selection) => Object.fromEntries(describe(store.state, selection).facts);
      const from = store.state.requests.get(3).cached;
      return [said({{ node: {three.id} }}).checkpoint, said({{ node: {three.parent} }}).checkpoint,
        said({{ request: 3, position: from }}), said({{ request: 3, position: from + 1 }})];"""
    without, kept, again, after = page(log, script)
    goes_on = f"resumes from node {three.parent} and recomputes 1 token"
    assert without == f"none: a request with this prefix {goes_on}"
    assert kept == "a request can resume here: the recurrent states take 1.0 MiB"
    assert again["origin"].startswith("recomputed: ")
    assert again["recomputed"] == (
        "1 token in the tree: no checkpoint after token 3 to resume from"
    )
    assert after["not found"].startswith("from here on, the tree continued with")
    quiet = page(program(0).log, f"return describe(store.state, {{ node: {three.id} }}).facts;")
    assert "checkpoint" not in dict(quiet)


def test_a_page_reads_logs_from_before() -> None:
    lines = [
        '{"seq":1,"t":0.0,"kind":"RequestQueued","request":1,"run":"","branch":"","name":"",'
        '"purpose":"generate","prompt":[1,2],"file":"","line":0,"namespace":""}',
        '{"seq":2,"t":0.1,"kind":"RequestAdmitted","request":1,"cached":1}',
    ]
    script = """
      const store = newStore();
      store.add(given.map((line) => JSON.parse(line)));
      return [store.state.requests.get(1).again, store.admissions[0].again];"""
    assert node(script, FILES, lines) == [0, 0]
