"""What the page makes of lines of JSON: the modules of `sgnb/viz/page` in node, without a
browser."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, astuple
from typing import Any

from sgnb.viz.live.widget import PAGE
from sgnb.viz.state.branch_text import BranchText
from sgnb.viz.state.residency import with_copies
from sgnb.viz.state.run_fleet import rows_of
from sgnb.viz.state.run_state import RunState
from sgnb.viz.state.tree import TreeState

CANONICAL = """
function canonical(state, engine = 0) {
  const marked = (own, { request, from, by, item }) => {
    if (item === undefined) return by ? `${own} ${by}` : own;
    const asked = state.requests.get(request), named = itemAt(state.media, item);
    const found = foundIn(asked, { begin: from, item: named });
    return `${own} @${asked.engine}/${ownNumber(item)}/${from}/${found}`;
  };
  const merged = (pieces) => pieces.reduce((all, { kind: own, text, ...piece }) => {
    const kind = marked(own, piece);
    if (all.length && all.at(-1)[0] === kind) all.at(-1)[1] += text;
    else all.push([kind, text]);
    return all;
  }, []);
  const runs = {};
  for (const run of state.runs.values()) {
    const branches = [...run.branches.values()].map((b) =>
      [b.name, b.parent, merged(b.pieces), b.shared, b.forkedAt, b.variables, b.status, b.error,
       b.makers]);
    const { title, status, message, hidden, failed, firstError, stopped, metrics, seconds } = run;
    const counts = { ...metrics, seconds };
    const rows = [...run.rows.values()].map((r) => [
      r.branch, r.began, r.ended, r.status, r.error, r.arguments, r.name, r.answer, r.prompt,
      r.cached, r.again, r.output, r.number, r.variables, r.items.map(ownNumber),
    ]);
    const models = [...run.models.values()].map((m) =>
      [m.number, m.name, m.engine, m.prompt, m.cached, m.output, m.seconds, m.open]);
    const { used, processed, encoded, prefilled, kinds } = run.items;
    const items = [used, processed, encoded, prefilled, kinds, wordsOfItems(run)];
    runs[run.run] =
      [title, status, message, hidden, failed, firstError, stopped, counts, branches, rows,
        models, items, run.time.seconds, run.time.waitedFor,
        Object.fromEntries([...run.stops].map(([branch, [place]]) => [branch, place])),
        timelineOf(state, run).map((lane) =>
          [lane.branch, lane.parent, lane.began, lane.ended,
           lane.activities.map((a) => [a.kind, a.name, a.began, a.ended])]), run.moreLanes,
        run.earlier, [[...run.loads], run.loadBars.map((bar) => Object.values(bar))],
        workerLanes(run).map(({ routes, absences, ...lane }) =>
          [...Object.values(lane), absences.map((absence) => Object.values(absence)),
           routes.map(({ t, event, moved }) => [t, event.name, event.wait, moved])]),
        [...callsOfWorkers(run, timelineOf(state, run))].sort((a, b) => a[0] - b[0]).map(
          ([worker, calls]) => [worker, rowsOfCalls(calls, 1e9), calls.map((call) =>
            [beginOfCall(call), endOfCall(call, 1e9),
             call.requests.map(({ queued, admitted, first, finished }) =>
               [queued, admitted, first, finished])])])];
  }
  const own = stateOf(state, engine);
  const sorted = (ids) => [...ids].sort((a, b) => a - b);
  const nodes = sorted(own.nodes.keys()).map((id) => own.nodes.get(id)).map((n) =>
    [n.id, n.parent, n.tokens.map(ownNumber), n.namespace, n.locks, n.tick, n.hits,
     n.checkpoint, state.requests.get(n.request)?.run ?? "", sorted(n.children.values()),
     labelOfTokens(state, n.tokens, 100000)]);
  const { cachedTokens: tokens, evicted, missing, checkpoints } = own;
  const pins = Object.fromEntries(own.pins);
  const copies = sorted(own.copies.blocks.keys()).map((number) =>
    [number, ...Object.values(own.copies.blocks.get(number))]);
  const all = withCopies(own);
  const shown = [...all.nodes.values()].map((n) =>
    [n.id, n.parent, n.tokens.map(ownNumber), copiedOf(all, n), Boolean(n.outline)]);
  return { runs, nodes, tokens, evicted, missing, checkpoints, pins, copies, shown };
}
"""


SUBJECTS = {
    "reduce": (
        "dom",
        "media",
        "copied_blocks",
        "loads",
        "run_fleet",
        "approximations",
        "time_parts",
        "stops",
        "lanes",
        "state",
        "residency",
        "copy_reasons",
        "tree_records",
        "run_records",
        "reduce",
    ),
    "inspect": ("miss", "items", "rerun", "inspect"),
    "tree": ("items", "tree_marks", "tree"),
    "automaton": ("automaton_walk", "automaton_layout", "automaton"),
}
"""Subject -> its files, for `node`."""


def node(script: str, files: Sequence[str], given: Any) -> Any:
    """What `script` gives, a function body that sees `given` and what `files` define."""
    from playwright._impl._driver import compute_driver_executable

    executable = compute_driver_executable()[0]
    names = dict.fromkeys(part for name in files for part in SUBJECTS.get(name, (name,)))
    modules = "\n".join((PAGE / f"{name}.js").read_text(encoding="utf-8") for name in names)
    read = "const given = JSON.parse(require('fs').readFileSync(0, 'utf8'));"
    call = f"console.log(JSON.stringify((() => {{ {script} }})()));"
    whole = "\n".join((modules, CANONICAL, read, call))
    with tempfile.NamedTemporaryFile("w", suffix=".cjs", encoding="utf-8") as file:
        file.write(whole)
        file.flush()
        found = subprocess.run(
            [executable, file.name], input=json.dumps(given), capture_output=True, text=True
        )
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


def canonical(tree: TreeState, runs: Sequence[RunState]) -> Any:
    """The same states as the page's `canonical`, of Python's."""
    found = {}
    for run in runs:
        metrics = asdict(run.metrics)
        branches = [
            [
                branch.name,
                branch.parent,
                _merged(branch.segments),
                _units(branch.text[: branch.shared]),
                _units(_parent_text(run, branch)[: branch.forked_at]),
                branch.variables,
                branch.status,
                branch.error,
                branch.makers,
            ]
            for branch in run.branches.values()
        ]
        found[run.run] = [
            run.title, run.status, run.message, run.hidden, run.failed, run.first_error,
            run.stopped, metrics, branches, [list(astuple(row)) for row in run.rows.values()],
            [list(astuple(model)[:-1]) for model in run.models.values()], _items(run),
            run.time.seconds, run.time.waited_for, run.stops.places, _lanes(run), run.lanes.hidden,
            run.earlier, [list(run.loads.stores.items()), run.loads.bars], _workers(run),
            _worker_calls(run),
        ]  # fmt: skip
    nodes = [
        [*(n.id, n.parent, list(n.tokens), n.namespace, n.locks, n.tick, n.hits),
         *(n.checkpoint, n.made_by),
         sorted(n.children.values()), tree.label(n, 100000)]
        for n in sorted(tree.nodes.values(), key=lambda n: n.id)
    ]  # fmt: skip
    whole: Any = {
        "runs": found, "nodes": nodes, "tokens": tree.tokens, "evicted": tree.evicted,
        "missing": tree.missing, "checkpoints": tree.checkpoints, "pins": tree.pins,
        "copies": [
            [number, *astuple(block)]
            for number, block in sorted(tree.copies.blocks.items())
        ],
        "shown": [
            [n.id, n.parent, list(n.tokens), n.copied, n.is_outline]
            for n in with_copies(tree).nodes.values()
        ],
    }  # fmt: skip
    return json.loads(json.dumps(whole))


def _lanes(run: RunState) -> list[Any]:
    return [
        [lane.branch, lane.parent, lane.began, lane.ended, list(map(astuple, lane.activities))]
        for lane in run.lanes
    ]


def _items(run: RunState) -> list[Any]:
    items = run.items
    counts = items.used, items.processed, items.encoded, items.prefilled
    return [*counts, sorted(items.kinds), items.line()]


def _merged(segments: list[list[str]]) -> list[list[str]]:
    merged: list[list[str]] = []
    for kind, text in segments:
        if merged and merged[-1][0] == kind:
            merged[-1][1] += text
        else:
            merged.append([kind, text])
    return merged


def _parent_text(run: RunState, branch: BranchText) -> str:
    parent = run.branches.get(branch.parent)
    return parent.text if parent else ""


def _units(text: str) -> int:
    """The length of a text as JavaScript counts it."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _workers(run: RunState) -> list[Any]:
    return [
        [
            *(lane.worker, lane.engine, lane.joined, lane.calls, lane.tokens, lane.cached),
            *(lane.retried, list(map(astuple, lane.absences))),
            [[route.t, route.event.name, route.event.wait, route.moved] for route in lane.routes],
        ]
        for _, lane in sorted(run.fleet.lanes.items())
    ]


def _worker_calls(run: RunState) -> list[Any]:
    return [
        [
            worker,
            rows_of(calls, 1e9),
            [
                [
                    call.began,
                    call.end(1e9),
                    [[bar.queued, bar.admitted, bar.first, bar.finished] for bar in call.bars],
                ]
                for call in calls
            ],
        ]
        for worker, calls in sorted(run.fleet.calls(run.lanes).items())
    ]
