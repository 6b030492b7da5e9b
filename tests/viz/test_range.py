"""What the page says of a range of time, against the same counted from the records by plain sets,
and what the tree's layout shows."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest

from sgnb import events
from sgnb.events import Record, decode, encode

from .make_log import EventLog, Program, WordEngine
from .page import node
from .test_page import REDUCERS, random_log

LAYOUT = ["dom", *REDUCERS, "layout"]


def metrics(records: list[Record], begin: float, end: float) -> dict[str, Any]:
    """By the definitions: a prompt's optimum is the longest of its beginnings that some earlier
    prompt, or a finished output after it, had."""
    prompts: dict[int, tuple[int, ...]] = {}
    outputs: defaultdict[int, list[int]] = defaultdict(list)
    runs: dict[int, str] = {}
    seen: set[tuple[int, ...]] = set()
    found: defaultdict[str, list[tuple[int, int, int, int]]] = defaultdict(list)
    nodes: dict[int, int] = {}
    whole: dict[str, Any] = {
        "steps": 0, "evicted": 0, "freed": 0, "dropped": 0, "prefill": 0, "sampled": 0, "loads": [],
    }  # fmt: skip
    encoded = {"items": 0, "tokens": 0, "seconds": 0.0}
    over: set[int] = set()
    for record in records:
        event, inside = record.event, begin < record.t <= end
        match event:
            case events.RequestQueued():
                prompts[event.request], runs[event.request] = event.prompt, event.run
            case events.RequestAdmitted(request, cached, again):
                prompt = prompts[request]
                known = max(n for n in range(len(prompt) + 1) if n == 0 or prompt[:n] in seen)
                seen |= {prompt[: n + 1] for n in range(len(prompt))}
                if inside:
                    optimal = max(cached, min(known, len(prompt) - 1))
                    found[runs[request]].append((len(prompt), cached, again, optimal))
            case events.Jumped():
                if event.request not in over:
                    outputs[event.request] += event.tokens
            case events.RequestFinished(request):
                over.add(request)
                text = (*prompts[request], *outputs[request])
                seen |= {text[: n + 1] for n in range(len(text))}
            case events.NodeAdded():
                nodes[event.node] = len(event.tokens)
            case events.NodeSplit():
                nodes[event.upper] = event.length
                nodes[event.node] -= event.length
            case events.NodeEvicted():
                whole["evicted"] += inside
                whole["freed"] += inside * nodes[event.node]
            case events.CheckpointDropped():
                whole["dropped"] += inside
            case events.ItemsEncoded(items, tokens, seconds) if inside:
                encoded["items"] += len(items)
                encoded["tokens"] += tokens
                encoded["seconds"] += seconds
            case events.PrefixLoaded(_, store, tokens, seconds, computing) if inside:
                load = {"t": record.t, "seconds": seconds, "store": store, "tokens": tokens}
                whole["loads"].append({**load, "computing": computing})
            case events.StepRan():
                whole["steps"] += inside
                for row in event.extended:
                    new = row.length == 1 and row.start >= len(prompts[row.request])
                    whole["prefill"] += inside * row.length * (not new)
                for one in event.sampled:
                    whole["sampled"] += inside
                    if one.request not in over:
                        outputs[one.request].append(one.token)
    rows = {run: hits(of) for run, of in found.items()}
    every = hits([row for of in found.values() for row in of])
    whole["encoded"] = encoded
    return {**every, **whole, "runs": [{"run": run, **one} for run, one in rows.items()]}


def hits(rows: list[tuple[int, int, int, int]]) -> dict[str, int]:
    return {
        "requests": len(rows),
        "prompt": sum(row[0] for row in rows),
        "cached": sum(row[1] for row in rows),
        "again": sum(row[2] for row in rows),
        "optimal": sum(row[3] for row in rows),
    }


@pytest.mark.slow
def test_a_range_is_counted_as_by_its_definition() -> None:
    given, wanted = [], []
    for seed in range(12):
        rng = random.Random(seed)
        lines = [encode(record) for record in random_log(rng).read().records]
        records = [
            Record(i, i / 100, record.event) for i, record in enumerate(map(decode, lines), 1)
        ]
        cuts = sorted(rng.random() * len(records) / 100 for _ in range(5))
        ranges = [*pairwise(cuts), (0, len(records)), (0, 0)]
        given.append([[encode(record) for record in records], ranges])
        wanted.append([metrics(records, *one) for one in ranges])
    script = """
      return given.map(([lines, ranges]) => {
        const store = newStore();
        store.add(parseLines(lines.join("\\n")));
        return ranges.map(([from, to]) => figuresWithin(store, { from, to }));
      });"""
    found = node(script, REDUCERS, given)
    assert found == wanted
    assert any(one["encoded"]["items"] for of in wanted for one in of)
    assert any(one["dropped"] and one["again"] for of in wanted for one in of)
    assert any(one["evicted"] and one["optimal"] > one["cached"] > 0 for of in wanted for one in of)


def two_runs() -> EventLog:
    """Two programs with the same beginning; records are 10 ms apart."""
    log = EventLog()
    engine = WordEngine(log)
    for run, question in (("r1", "one two"), ("r2", "three four")):
        program = Program(engine, run, run)
        program.branch("0")
        program.add("0", f"You answer questions. {question}")
        list(program.gen("0", "a", f" five {run}"))
        program.end("0")
        program.finish()
    return log


def spread(log: EventLog) -> list[str]:
    records = enumerate(log.read().records, 1)
    return [encode(Record(i, i / 100, record.event)) for i, record in records]


TEXTS = """
  const store = newStore();
  store.add(parseLines(given.lines.join("\\n")));
  const { state } = store;
  const text = (node) => textOfTokens(state.tokenTable, node.tokens);
  const texts = (ids) => [...ids].map((id) => text(state.nodes.get(id))).sort();
"""

LAY = """
  const lay = (state, more) => layoutTree(state, {
    mine: () => false, only: null, whole: true, opened: new Set(), folded: new Set(),
    links: false, width: 600, ...more,
  });
"""


def test_nodes_that_were_made_or_used_in_a_range() -> None:
    lines = spread(two_runs())
    second = next(i for i, line in enumerate(lines) if '"run":"r2"' in line) / 100
    within = (
        TEXTS
        + """
      return given.ranges.map(([from, to]) => texts(nodesWithin(store, state, { from, to })));"""
    )
    ranges = [(0, second), (second, 99), (98, 99)]
    first, then, none = node(within, REDUCERS, {"lines": lines, "ranges": ranges})
    assert first == [" one two five r1", "You answer questions."]
    assert then == [" three four five r2", "You answer questions."] and none == []


def test_the_nodes_of_a_run_are_those_of_its_requests() -> None:
    script = TEXTS + 'return ["r1", "r2", "r3"].map((run) => texts(nodesOfRun(state, run)));'
    found = node(script, LAYOUT, {"lines": spread(two_runs())})
    shared = "You answer questions."
    assert found == [[" one two five r1", shared], [" three four five r2", shared], []]


def test_a_layout_folds_and_filters() -> None:
    script = (
        TEXTS
        + LAY
        + """
      const top = [...state.nodes.values()].find((node) => text(node).startsWith("You")).id;
      const folded = new Set([top]), only = nodesOfRun(state, "r2");
      const seen = (more) => {
        const { items, hidden } = lay(state, more);
        return [items.map((item) => item.node ? text(item.node) : item.hidden), hidden];
      };
      return {
        whole: seen({}), links: seen({ links: true }), folded: seen({ folded }),
        only: seen({ only }), folded_only: seen({ only, folded }),
        columns: lay(state, { links: true }).items.map(({ x }) => x),
        rows: lay(state, {}).items.map(({ row, rows }) => [row, rows]),
      };"""
    )
    found = node(script, LAYOUT, {"lines": spread(two_runs())})
    top, one, two = "You answer questions.", " one two five r1", " three four five r2"
    assert found["whole"] == found["links"] == [[top, one, two], 0]
    assert found["folded"] == [[top, 2], 2]
    assert found["only"] == [[top, two], 0] and found["folded_only"] == [[top, 1], 1]
    assert found["columns"] == [0, 240, 240] and found["rows"] == [[0, 2], [0, 1], [1, 1]]


@pytest.mark.slow
def test_a_node_with_very_many_children_is_laid_out_and_folded() -> None:
    script = (
        LAY
        + """
      const state = newState();
      for (let node = 1; node <= given; node += 1) {
        const parent = node % 2 ? 0 : 1;
        apply(state, { kind: "NodeAdded", t: 0, node, parent, tokens: [node], namespace: "" });
      }
      const { items, hidden } = lay(state, { folded: new Set([1]), links: true });
      return [items.length, hidden];"""
    )
    assert node(script, LAYOUT, 200_000) == [100_001, 100_000]


def test_a_longer_node_is_wider_in_any_tree() -> None:
    script = (
        LAY
        + """
      return given.map((lengths) => {
        const state = newState();
        lengths.forEach((length, i) => {
          const tokens = [1000 + i, ...Array(length - 1).fill(7)];
          apply(state, { kind: "NodeAdded", t: 0, node: i + 1, parent: i, tokens, namespace: "" });
        });
        const { items, isLinear } = lay(state, {});
        return [items.map(({ width }) => width), isLinear];
      });"""
    )
    (short, is_linear), (long, is_long_linear) = node(
        script, LAYOUT, [[10, 20, 40], [12, 22, *[30] * 20, 973]]
    )
    assert is_linear and short == sorted(short) and short[2] / short[0] == 4
    assert not is_long_linear and long[-1] > 2 * long[1] > 2 * long[0]


def test_a_pool_is_drawn_by_its_capacity() -> None:
    script = "return given.map(([used, capacity]) => heightOfUse(used, capacity, 74));"
    uses = [[0, 4096], [30, 4096], [2048, 4096], [4096, 4096], [0, 0]]
    assert node(script, [*LAYOUT, "time"], uses) == [0, 1, 37, 74, 0]


def test_labels_stay_inside_their_node() -> None:
    """Wide characters take more room than their number says."""
    script = """
      const calls = [];
      const context = new Proxy({}, {
        get: (_, name) => (...values) => calls.push([name, ...values]),
        set: () => true,
      });
      const state = newState();
      state.tokenTable.set(1, new TextEncoder().encode("漢字漢字漢字漢字"));
      const label = { tokens: [1], checkpoint: false };
      drawNodeLabel(context, { fg: "", muted: "" }, state, label, 10, 20, 60, 40, false);
      return calls.map(([name, ...values]) => [name, values]);"""
    calls = node(script, [*LAYOUT, "tree_marks"], None)
    names = [name for name, _ in calls]
    assert names.index("clip") < names.index("fillText") and names[-1] == "restore"
    assert ["rect", [10, 20, 60, 40]] in calls
